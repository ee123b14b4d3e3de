/*
 * moe.c - experts: which token goes where, and back.
 *
 * Pairs (token, expert) are grouped by expert, tokens ascending, so that an expert's weights are
 * read once for all its tokens. The order of pairs changes with the batch; a token's own sum runs
 * over its choices, best first, and does not.
 */
#include <math.h>
#include <string.h>

#include "ops.h"
#include "qmath.h"
#include "route.h"

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
	r.tok = (int32_t *)p;
	r.pair = (int32_t *)(p + pairs);
	r.expert = (int32_t *)(p + 2 * pairs);
	r.weight = (float *)(p + 3 * pairs);
	return r;
}

size_t qn_route_bytes(int64_t n_tok, int32_t n_expert, int32_t n_used)
{
	return aligned(sizeof(int32_t) * (size_t)(n_expert + 1)) +
	       4 * aligned(sizeof(int32_t) * (size_t)(n_tok * n_used));
}

/* The n_used largest of logits, best first, and their softmax weights. */
static void choose(const struct qn_op *op, const float *logits, int32_t *expert, float *weight)
{
	uint8_t taken[QN_EXPERTS_MAX / 8] = {0}; /* by bit */
	float max = logits[0], sum = 0, chosen = 0;

	for (int e = 1; e < op->n_expert; e++)
		max = logits[e] > max ? logits[e] : max;
	for (int e = 0; e < op->n_expert; e++)
		sum += qexp(logits[e] - max);
	for (int k = 0; k < op->n_used; k++) {
		int best = -1;

		for (int e = 0; e < op->n_expert; e++)
			/* not >=: of equals, and of NaN, the lowest free one */
			if (!(taken[e / 8] >> e % 8 & 1) && (best < 0 || logits[e] > logits[best]))
				best = e;
		taken[best / 8] |= (uint8_t)(1 << best % 8);
		expert[k] = best;
		weight[k] = qexp(logits[best] - max) / sum;
		chosen += weight[k];
	}
	for (int k = 0; k < op->n_used; k++)
		weight[k] = (op->norm_weights ? weight[k] / chosen : weight[k]) * op->scale;
}

static int route_check(const struct plan *p, const struct qn_op *op)
{
	return experts_ok(op) && buf_ok(p, op->src, op->n_expert) && buf_ok(p, op->dst, 0);
}

static void route_run(struct run *c, const struct qn_op *op)
{
	const int64_t n_tok = c->batch->n_tok;
	const struct route r = route_of(&c->bufs[op->dst], n_tok, op->n_expert, op->n_used);

	for (int64_t t = n_tok * c->ith / c->nth; t < n_tok * (c->ith + 1) / c->nth; t++)
		choose(op, buf_row(c, op->src, t), r.expert + t * op->n_used, r.weight + t * op->n_used);
	run_barrier(c);
	if (c->ith)
		return;

	const int64_t pairs = n_tok * op->n_used;

	memset(r.offset, 0, sizeof *r.offset * (size_t)(op->n_expert + 1));
	for (int64_t i = 0; i < pairs; i++)
		r.offset[r.expert[i] + 1]++;
	for (int e = 0; e < op->n_expert; e++)
		r.offset[e + 1] += r.offset[e];
	for (int64_t i = 0; i < pairs; i++) { /* offset[e] runs through e's pairs, up to offset[e + 1] */
		const int32_t p = r.offset[r.expert[i]]++;

		r.pair[i] = p;
		r.tok[p] = (int32_t)(i / op->n_used);
	}
	for (int e = op->n_expert; e > 0; e--)
		r.offset[e] = r.offset[e - 1];
	r.offset[0] = 0;
}

const struct operation op_moe_route = {.check = route_check, .routing = ROUTING_WRITES, .run = route_run};

static int gather_check(const struct plan *p, const struct qn_op *op)
{
	return experts_ok(op) && op->n_col > 0 && act_ok(p, op->act, op->src_act, op->n_col) && buf_ok(p, op->aux, 0);
}

static void gather_run(struct run *c, const struct qn_op *op)
{
	const int64_t n_tok = c->batch->n_tok, pairs = n_tok * op->n_used;
	const struct route r = route_of(&c->bufs[op->aux], n_tok, op->n_expert, op->n_used);
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->ith, c->nth, pairs);
	int64_t p;

	while ((p = deal_next(c->pool, c->step, &d)) >= 0)
		for (enum qn_act k = 0; k < QN_N_ACT; k++)
			for (int64_t b = 0; b < blocks && op->act[k] >= 0; b++)
				memcpy(act_block(c, op->act[k], k, b * pairs + p),
				       act_block(c, op->src_act[k], k, b * n_tok + r.tok[p]),
				       (size_t)act_bytes(k));
}

const struct operation op_moe_gather = {
	.check = gather_check,
	.counters = 1,
	.routing = ROUTING_READS,
	.run = gather_run,
};

static int combine_check(const struct plan *p, const struct qn_op *op)
{
	return experts_ok(op) && buf_ok(p, op->aux, 0) && buf_ok(p, op->dst, 1) &&
	       buf_ok(p, op->src, p->bufs[op->dst].width);
}

static void combine_run(struct run *c, const struct qn_op *op)
{
	const int64_t n_tok = c->batch->n_tok;
	const struct route r = route_of(&c->bufs[op->aux], n_tok, op->n_expert, op->n_used);
	struct deal d = deal_begin(c->ith, c->nth, n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = buf_row(c, op->dst, t);

		for (int k = 0; k < op->n_used; k++) {
			const float w = r.weight[t * op->n_used + k];
			const float *x = buf_row(c, op->src, r.pair[t * op->n_used + k]);

			for (int64_t i = 0; i < c->bufs[op->dst].width; i++)
				y[i] += w * x[i];
		}
	}
}

const struct operation op_moe_combine = {
	.check = combine_check,
	.counters = 1,
	.routing = ROUTING_READS,
	.run = combine_run,
};
