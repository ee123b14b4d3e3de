/*
 * compress.c - keys that stand for several positions (DeepSeek-AI 2026, "DeepSeek-V4": compressed sparse and heavily
 * compressed attention).
 *
 * What tokens give to an entry is kept as it is in blocks of a group with a window, so that an entry may be made of
 * tokens of several batches, and again where a sequence was cut and went on.
 */
#include <math.h>
#include <string.h>

#include "ops/entries.h"
#include "ops/heads.h"
#include "run/operation.h"

#define PARTS 2 /* at most: of the positions of the entry, and of those of the one before */

static int64_t part_width(const struct qn_compress *op)
{
	return (int64_t)op->n_part * op->head_dim;
}

/* What the token at pos of t's sequence gives: x, and behind it weights. */
static float *given(const struct run *c, const struct qn_compress *op, int64_t t, int64_t pos)
{
	return (float *)kv_part(c, &op->inputs, t, pos) + pos % QN_KV_BLOCK * 2 * part_width(op);
}

size_t qn_entry_bytes(int32_t k_type, int32_t head_dim, int32_t every)
{
	if (k_type < 0 || k_type >= QN_N_KV_TYPES || head_dim < 1 || every < 1)
		return 0;
	return (size_t)kv_pad(entries_per_block(every) * kv_entry_bytes(k_type, head_dim), 64);
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_compress *op = &o->compress;
	const int64_t width = part_width(op);

	return entries_ok(&op->entries) && op->entries.every <= KV_HEAD_DIM_MAX && place_ok(&op->inputs) &&
	       (op->add || op->col[1] == -1) && op->norm && op->n_part > 0 && op->n_part <= PARTS &&
	       op->head_dim > 0 && op->head_dim <= KV_HEAD_DIM_MAX && op->head_dim % QN_PANEL == 0 &&
	       op->k_type >= 0 && op->k_type < QN_N_KV_TYPES && col_ok(p, op->src, op->col[0], width) &&
	       (op->col[1] == -1 || col_ok(p, op->src, op->col[1], width)) &&
	       rotation_ok(p, &op->rope, op->head_dim);
}

static size_t scratch(const struct qn_op *o)
{
	const struct qn_compress *op = &o->compress;

	return (size_t)kv_k_bytes(op->k_type, op->head_dim) +
	       (size_t)(PARTS * op->entries.every + 3) * QN_PANEL * sizeof(float);
}

static void keep(const struct run *c, const struct qn_compress *op, int64_t t)
{
	const int64_t n = part_width(op), pos = c->batch->pos[t];
	const float *x = buf_row(c, op->src, t);
	float *y = given(c, op, t, pos);

	memcpy(y, x + op->col[0], sizeof *y * (size_t)n);
	if (op->col[1] < 0) {
		memset(y + n, 0, sizeof *y * (size_t)n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		y[n + i] = x[op->col[1] + i] + op->add[pos % op->entries.every * n + i];
}

/*
 * A panel of channels of the entry that ends with token t. Positions come in their order, with e^(weight - largest),
 * and sums are divided last. w: room for the weights.
 */
static void mean(const struct run *c, const struct qn_compress *op, int64_t t, int64_t at, float *w, float *y)
{
	const int64_t pos = c->batch->pos[t], width = part_width(op);
	const int64_t all = (int64_t)op->n_part * op->entries.every, n = all <= pos + 1 ? all : op->entries.every;
	const float *x[PARTS * KV_HEAD_DIM_MAX];
	float max[QN_PANEL], ones[QN_PANEL], sum[QN_PANEL] = {0};

	for (int64_t i = 0; i < n; i++) {
		const int last = n - i <= op->entries.every; /* of the entry's own positions */

		x[i] = given(c, op, t, pos - (n - 1) + i) + (last ? (op->n_part - 1) * (int64_t)op->head_dim : 0) + at;
	}
	for (int j = 0; j < QN_PANEL; j++) {
		ones[j] = 1;
		max[j] = x[0][width + j];
	}
	for (int64_t i = 1; i < n; i++)
		for (int j = 0; j < QN_PANEL; j++)
			max[j] = x[i][width + j] > max[j] ? x[i][width + j] : max[j];
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < QN_PANEL; j++) {
			const float d = x[i][width + j] - max[j]; /* far below where it becomes 0; NaN stays */

			w[i * QN_PANEL + j] = d < -1000 ? -1000 : d;
		}
	qn_kernels.scan_decays(w, ones, w, n);
	for (int j = 0; j < QN_PANEL; j++)
		y[j] = 0;
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < QN_PANEL; j++) {
			sum[j] += w[i * QN_PANEL + j];
			y[j] += w[i * QN_PANEL + j] * x[i][j];
		}
	for (int j = 0; j < QN_PANEL; j++)
		y[j] /= sum[j];
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_compress *op = &o->compress;
	const int64_t n_tok = c->batch->n_tok, d = op->head_dim;
	struct deal deal = deal_begin(c->pool, c->ith, n_tok);
	float y[KV_HEAD_DIM_MAX];
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &deal)) >= 0)
		keep(c, op, t);
	run_barrier(c);
	deal = deal_begin(c->pool, c->ith, n_tok);
	while ((t = deal_next(c->pool, c->step + 1, &deal)) >= 0) {
		const int64_t seen = entries_seen(&op->entries, c->batch->pos[t]);

		if (seen * op->entries.every != c->batch->pos[t] + 1)
			continue;
		for (int64_t at = 0; at < d; at += QN_PANEL)
			mean(c, op, t, at, (float *)(c->scratch + kv_k_bytes(op->k_type, d)), y + at);
		qn_kernels.scale_rows(y, y, 1 / sqrtf(qn_kernels.sumsq(y, d) / (float)d + op->eps), op->norm, d);
		rotate(c, &op->rope, y, t);
		kv_put_kv(op->k_type, c->scratch, 0, y, (int)d);
		kv_take_k(op->k_type, entry_at(c, &op->entries, op->k_type, op->head_dim, t, seen - 1), c->scratch, 0,
		          (int)d);
	}
}

const struct operation op_compress = {.check = check, .scratch = scratch, .counters = 2, .run = run};
