/* route.c - where the routing of a batch lies in its buffer. */
#include "ops/route.h"

static size_t aligned(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

int experts_ok(const struct plan *p, const struct qn_routing *r)
{
	return r->n_expert > 0 && r->n_expert <= QN_EXPERTS_MAX && r->n_used > 0 && r->n_used <= r->n_expert &&
	       r->n_used <= QN_USED_MAX && buf_ok(p, r->buf, 0);
}

struct route route_of(const struct qn_buf *bufs, const struct qn_routing *r, int64_t n_tok)
{
	const size_t pairs = aligned(sizeof(int32_t) * (size_t)(n_tok * r->n_used));
	uint8_t *p = bufs[r->buf].data;
	struct route to;

	to.offset = (int32_t *)p;
	p += aligned(sizeof(int32_t) * (size_t)(r->n_expert + 1));
	to.pair = (int32_t *)p;
	to.expert = (int32_t *)(p + pairs);
	to.weight = (float *)(p + 2 * pairs);
	return to;
}

size_t qn_route_bytes(int64_t n_tok, int32_t n_expert, int32_t n_used)
{
	return aligned(sizeof(int32_t) * (size_t)(n_expert + 1)) +
	       3 * aligned(sizeof(int32_t) * (size_t)(n_tok * n_used));
}
