/*
 * moe.c - experts: which token goes where, and back.
 *
 * Pairs (token, expert) are grouped by expert, tokens ascending, so that an expert's weights are
 * read once for all its tokens. The order of pairs changes with the batch; a token's own sum runs
 * over its choices, best first, and does not.
 */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "math/fp16.h"
#include "ops/rank.h"
#include "ops/route.h"
#include "run/operation.h"

/* The k largest of n scores, best first. Takes time in n log k. */
static void best_of(const float *score, int n, int k, int32_t *best)
{
	uint64_t heap[QN_USED_MAX];

	memset(heap, 0, sizeof *heap * (size_t)k);
	for (int e = 0; e < n; e++) {
		const uint64_t r = rank_of(score[e], e);

		if (r > heap[0])
			sift(heap, k, r);
	}
	for (int i = k - 1; i >= 0; i--) {
		best[i] = ranked(heap[0]);
		sift(heap, i, heap[i]);
	}
}

/* Takes the groups out of score that are not among the best n_group_used by their best score, or the sum of two. */
static void keep_groups(const struct qn_op *o, float *score)
{
	const struct qn_moe_route *op = &o->moe_route;
	const int size = o->routing.n_expert / op->n_group;
	float sum[QN_EXPERTS_MAX];
	int32_t best[QN_USED_MAX];
	uint8_t kept[QN_EXPERTS_MAX] = {0};

	for (int g = 0; g < op->n_group; g++) {
		const int two = op->group_best || size < 2 ? 1 : 2;

		best_of(score + g * size, size, two, best);
		sum[g] = score[g * size + best[0]] + (two > 1 ? score[g * size + best[1]] : 0);
	}
	best_of(sum, op->n_group, op->n_group_used, best);
	for (int i = 0; i < op->n_group_used; i++)
		kept[best[i]] = 1;
	for (int e = 0; e < o->routing.n_expert; e++)
		if (!kept[e / size])
			score[e] = -INFINITY;
}

/* Exponentials of n <= QN_EXPERTS_MAX logits less the largest; their sum, in the order of experts. */
static float exponentials(float *y, const float *logits, int n)
{
	const int rows = (n + QN_PANEL - 1) / QN_PANEL;
	float x[QN_EXPERTS_MAX + QN_PANEL], ones[QN_PANEL], max = logits[0], sum = 0;

	for (int i = 0; i < QN_PANEL; i++)
		ones[i] = 1;
	for (int e = 1; e < n; e++)
		max = logits[e] > max ? logits[e] : max;
	qn_kernels.affine(x, logits, max, 1, NULL, NULL, n);
	qn_kernels.clamp(x, -1000, INFINITY, n); /* exponentials are 0 there, so that of infinity is too; NaN stays */
	for (int e = n; e < rows * QN_PANEL; e++)
		x[e] = 0;
	qn_kernels.scan_decays(y, ones, x, rows);
	for (int e = 0; e < n; e++)
		sum += y[e];
	return sum;
}

/* Experts are chosen by what they are worth where that is in another order than the logits. */
void route_worths(const struct qn_moe_route *op, int n, float *y, const float *logits)
{
	if (op->gating == QN_GATE_SOFTMAX) {
		const float sum = exponentials(y, logits, n);

		for (int e = 0; e < n; e++)
			y[e] /= sum;
	} else if (op->gating == QN_GATE_SIGMOID) {
		qn_kernels.fn[QN_FN_SIGMOID](y, logits, NULL, n);
	} else if (op->gating == QN_GATE_SQRT_SOFTPLUS) {
		qn_kernels.softplus(y, logits, n);
		for (int e = 0; e < n; e++)
			y[e] = sqrtf(y[e]);
	} else {
		memcpy(y, logits, sizeof *y * (size_t)n);
	}
}

/* The weight of choice k by QN_GATE_MIXER. */
static float mixer(const struct qn_op *o, const float *logits, const int32_t *expert, int k)
{
	const float m = logits[expert[k]];
	float sum = 0;

	for (int e = 0; e < o->routing.n_expert + o->moe_route.n_same; e++) {
		const float size = fabsf(logits[e]) > m ? fabsf(logits[e]) : m;
		int left = 1;

		for (int j = 0; j < k; j++)
			left &= expert[j] != e;
		if (left && !(m - logits[e] > 0.02f * size))
			sum += qexp(logits[e] - m);
	}
	return 1 / sum;
}

/* The n_used experts of a token, best first or as they are said, and their weights. */
static void choose(const struct qn_op *o, const float *logits, int32_t tok, int32_t *expert, float *weight)
{
	const struct qn_moe_route *op = &o->moe_route;
	const int n = o->routing.n_expert + op->n_same;
	float worth[QN_EXPERTS_MAX + QN_PANEL], max, sum = 0, chosen = 0;

	route_worths(op, n, worth, logits);
	if (op->choice) {
		memcpy(expert, op->choice + (int64_t)tok * o->routing.n_used,
		       sizeof *expert * (size_t)o->routing.n_used);
	} else if (op->bias || op->n_group > 1) {
		float score[QN_EXPERTS_MAX];

		for (int e = 0; e < n; e++)
			score[e] = worth[e] + (op->bias ? op->bias[e] : 0);
		if (op->n_group > 1)
			keep_groups(o, score);
		best_of(score, n, o->routing.n_used, expert);
	} else { /* what they are worth is in the order of the logits, but rounds to equals */
		best_of(logits, n, o->routing.n_used, expert);
	}
	for (int k = 0; k < o->routing.n_used; k++)
		weight[k] = op->gating == QN_GATE_MIXER ? mixer(o, logits, expert, k) : worth[expert[k]];
	if (op->gating == QN_GATE_CHOSEN) {
		max = weight[0];
		for (int k = 1; k < o->routing.n_used; k++)
			max = weight[k] > max ? weight[k] : max;
		for (int k = 0; k < o->routing.n_used; k++)
			sum += weight[k] = qexp(weight[k] - max);
		for (int k = 0; k < o->routing.n_used; k++)
			weight[k] /= sum;
	}
	for (int k = 0; k < o->routing.n_used; k++)
		chosen += weight[k];
	chosen = chosen < 1e-20f ? 1e-20f : chosen; /* all sigmoids of zero */
	for (int k = 0; k < o->routing.n_used; k++)
		weight[k] = (op->norm_weights ? weight[k] / chosen : weight[k]) * op->scale;
}

static int route_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_moe_route *op = &o->moe_route;
	if (!experts_ok(p, &o->routing) || op->n_same < 0 || op->n_same > QN_EXPERTS_MAX - o->routing.n_expert ||
	    (op->n_same > 0 && op->n_group > 1) || !buf_ok(p, op->src, o->routing.n_expert + op->n_same))
		return 0;
	if (op->gating < QN_GATE_SOFTMAX || op->gating > QN_GATE_SQRT_SOFTPLUS || op->n_group < 0)
		return 0;
	return op->n_group <= 1 ||
	       (o->routing.n_expert % op->n_group == 0 && op->n_group_used > 0 && op->n_group_used <= op->n_group &&
	        op->n_group_used <= QN_USED_MAX &&
	        o->routing.n_used <= o->routing.n_expert / op->n_group * op->n_group_used);
}

/* Where the pairs of an expert are: its own, or behind all those of experts that have matrices. */
static int32_t queue_of(const struct qn_routing *r, int32_t expert)
{
	return expert < r->n_expert ? expert : r->n_expert;
}

/*
 * Every thread chooses for its share of the tokens, then counts all pairs, which tells it where those of its tokens
 * lie, and puts these there.
 */
static void route_run(struct run *c, const struct qn_op *o)
{
	const struct qn_moe_route *op = &o->moe_route;
	const int64_t n_tok = c->batch->n_tok, t0 = n_tok * c->ith / c->nth, t1 = n_tok * (c->ith + 1) / c->nth;
	const struct route r = route_of(c->bufs, &o->routing, n_tok);
	const int n_expert = o->routing.n_expert; /* and behind them one, which is all that return their input */
	int32_t count[QN_EXPERTS_MAX + 1], next[QN_EXPERTS_MAX + 1], pairs = 0;
	const size_t count_bytes = sizeof *count * (size_t)(n_expert + 1);
	int64_t i = 0;

	memset(count, 0, count_bytes);
	for (int64_t t = t0; t < t1; t++)
		choose(o, buf_row(c, op->src, t), c->batch->tok[t], r.expert + t * o->routing.n_used,
		       r.weight + t * o->routing.n_used);
	run_barrier(c);
	for (; i < t0 * o->routing.n_used; i++)
		count[queue_of(&o->routing, r.expert[i])]++;
	memcpy(next, count, count_bytes); /* pairs of an expert with tokens before t0 */
	for (; i < n_tok * o->routing.n_used; i++)
		count[queue_of(&o->routing, r.expert[i])]++;
	for (int e = 0; e <= n_expert; e++) {
		next[e] += pairs;
		if (c->ith == 0)
			r.offset[e] = pairs;
		pairs += count[e];
	}
	for (i = t0 * o->routing.n_used; i < t1 * o->routing.n_used; i++)
		r.pair[i] = next[queue_of(&o->routing, r.expert[i])]++;
}

const struct operation op_moe_route = {.check = route_check, .routing = ROUTING_WRITES, .run = route_run};

static int gather_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_moe_gather *op = &o->moe_gather;

	return experts_ok(p, &o->routing) && op->n_col > 0 && act_ok(p, op->dst, op->src, op->n_col);
}

/* A block of activations times w: its scales, where it has some. */
static void weigh(void *block, enum qn_act kind, float w)
{
	const enum qn_act half = act_half(kind);
	struct act8 *y = block;
	struct actb *b = block;

	if (half != kind)
		weigh(y + 1, half, w);
	if (kind == QN_ACT_F32)
		qn_kernels.scale_rows(block, block, w, NULL, QN_ACT_BLOCK);
	else if (kind == QN_ACT_BF16)
		for (int i = 0; i < QN_ACT_BLOCK; i++)
			b->x[i] = bf16_factor(bf16_of_f32(f32_of_bf16(b->x[i]) * w));
	else if (half == QN_ACT_Q8_256)
		y->d *= w;
	else
		qn_kernels.scale_rows(y->d32, y->d32, w, NULL, QN_ACT_BLOCK / 32);
}

static void gather_run(struct run *c, const struct qn_op *o)
{
	const struct qn_moe_gather *op = &o->moe_gather;
	const int64_t n_tok = c->batch->n_tok, pairs = n_tok * o->routing.n_used;
	const struct route r = route_of(c->bufs, &o->routing, n_tok);
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->pool, c->ith, n_tok * o->routing.n_used);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0)
		for (enum qn_act k = 0; k < QN_N_ACT; k++)
			for (int64_t b = 0; b < blocks && op->dst[k] >= 0; b++) {
				void *y = act_block(c, op->dst[k], k, b * pairs + r.pair[i]);

				memcpy(y,
				       act_block(c, op->src[k], k, b * n_tok + i / o->routing.n_used),
				       (size_t)act_bytes(k));
				if (op->weigh)
					weigh(y, k, r.weight[i]);
			}
}

const struct operation op_moe_gather = {
	.check = gather_check,
	.counters = 1,
	.routing = ROUTING_READS,
	.run = gather_run,
};

/* The columns end here. */
static int64_t combine_end(const struct qn_buf *bufs, const struct qn_moe_combine *op)
{
	return op->n_col ? (int64_t)op->col + op->n_col : bufs[op->dst].width;
}

static int combine_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_moe_combine *op = &o->moe_combine;

	return experts_ok(p, &o->routing) && op->n_col >= 0 && (op->n_col || !op->col) &&
	       col_ok(p, op->dst, op->col, op->n_col) && buf_ok(p, op->src, combine_end(p->bufs, op)) &&
	       (op->same == -1 || buf_ok(p, op->same, combine_end(p->bufs, op)));
}

static void combine_run(struct run *c, const struct qn_op *o)
{
	const struct qn_moe_combine *op = &o->moe_combine;
	const int64_t n_tok = c->batch->n_tok;
	const struct route r = route_of(c->bufs, &o->routing, n_tok);
	const int64_t n_col = combine_end(c->bufs, op) - op->col;
	struct deal d = deal_begin(c->pool, c->ith, n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = buf_row(c, op->dst, t) + op->col;

		if (!op->add)
			memset(y, 0, sizeof *y * (size_t)n_col);
		for (int k = 0; k < o->routing.n_used; k++) {
			const int64_t i = t * o->routing.n_used + k;
			const float w = op->weighed ? 1 : r.weight[i];
			const float *x = r.expert[i] < o->routing.n_expert ? buf_row(c, op->src, r.pair[i])
			                 : op->same >= 0                   ? buf_row(c, op->same, t)
			                                                   : NULL;

			if (x)
				qn_kernels.add_scaled(y, x + op->col, w, n_col);
		}
	}
}

const struct operation op_moe_combine = {
	.check = combine_check,
	.counters = 1,
	.routing = ROUTING_READS,
	.run = combine_run,
};

static int heads_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_moe_heads *op = &o->moe_heads;
	const int64_t cols = (int64_t)op->n_head * op->head_dim;

	return experts_ok(p, &o->routing) && op->n_head > 0 && op->head_dim > 0 && cols <= INT32_MAX / QN_USED_MAX &&
	       buf_ok(p, op->tok, (int32_t)cols * o->routing.n_used) && buf_ok(p, op->pair, (int32_t)cols);
}

static void heads_run(struct run *c, const struct qn_op *o)
{
	const struct qn_moe_heads *op = &o->moe_heads;
	const int64_t n_tok = c->batch->n_tok, used = o->routing.n_used;
	const struct route r = route_of(c->bufs, &o->routing, n_tok);
	const size_t bytes = sizeof(float) * (size_t)op->head_dim;
	struct deal d = deal_begin(c->pool, c->ith, n_tok * used);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		float *tok = buf_row(c, op->tok, i / used) + i % used * op->head_dim;
		float *pair = buf_row(c, op->pair, r.pair[i]);

		for (int h = 0; h < op->n_head; h++, tok += used * op->head_dim, pair += op->head_dim)
			memcpy(op->to_pairs ? pair : tok, op->to_pairs ? tok : pair, bytes);
	}
}

const struct operation op_moe_heads = {
	.check = heads_check,
	.counters = 1,
	.routing = ROUTING_READS,
	.run = heads_run,
};
