/* route.c - where the routing of a batch lies in its buffer. */
#include "ops/route.h"

static size_t aligned(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

int experts_ok(const struct qn_op *op)
{
	return op->n_expert > 0 && op->n_expert <= QN_EXPERTS_MAX && op->n_used > 0 &&
	       op->n_used <= op->n_expert && op->n_used <= QN_USED_MAX;
}

struct route route_of(const struct qn_buf *buf, int64_t n_tok, int32_t n_expert, int32_t n_used)
{
	const size_t pairs = aligned(sizeof(int32_t) * (size_t)(n_tok * n_used));
	uint8_t *p = buf->data;
	struct route r;

	r.offset = (int32_t *)p;
	p += aligned(sizeof(int32_t) * (size_t)(n_expert + 1));
	r.pair = (int32_t *)p;
	r.expert = (int32_t *)(p + pairs);
	r.weight = (float *)(p + 2 * pairs);
	return r;
}

size_t qn_route_bytes(int64_t n_tok, int32_t n_expert, int32_t n_used)
{
	return aligned(sizeof(int32_t) * (size_t)(n_expert + 1)) +
	       3 * aligned(sizeof(int32_t) * (size_t)(n_tok * n_used));
}
