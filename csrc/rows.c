/* rows.c - operations that move rows: embeddings, rows whose logits are wanted, activations with and without a norm. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops.h"

static int embed_check(const struct plan *p, const struct qn_op *op)
{
	return mat_ok(&op->mat[0]) && op->mat[0].layout == QN_ROWS && buf_ok(p, op->dst, op->mat[0].n_in);
}

static void embed_run(struct run *c, const struct qn_op *op)
{
	const struct qn_mat *m = &op->mat[0];
	const int64_t n = c->batch->n_tok, bytes = (int64_t)qn_row_bytes(m->type, m->n_in);

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		float *y = buf_row(c, op->dst, t);

		qn_dequantize(m->type, y, (const uint8_t *)m->data + c->batch->tok[t] * bytes, m->n_in);
		if (op->scale != 1)
			qn_kernels.scale_rows(y, y, op->scale, NULL, m->n_in);
		memset(y + m->n_in, 0, sizeof *y * (size_t)(c->bufs[op->dst].width - m->n_in));
	}
}

const struct operation op_embed = {.check = embed_check, .run = embed_run};

static int gather_check(const struct plan *p, const struct qn_op *op)
{
	return buf_ok(p, op->src, 0) && buf_ok(p, op->dst, 0) && p->bufs[op->src].width == p->bufs[op->dst].width;
}

static void gather_run(struct run *c, const struct qn_op *op)
{
	const int64_t n = c->batch->n_out;

	for (int64_t i = n * c->ith / c->nth; i < n * (c->ith + 1) / c->nth; i++)
		memcpy(buf_row(c, op->dst, i), buf_row(c, op->src, c->batch->out[i]),
		       sizeof(float) * (size_t)c->bufs[op->src].width);
}

const struct operation op_gather = {.check = gather_check, .run = gather_run};

/* 1 / rms of a row. Where its squares overflow that is NaN, not 0: nonsense must not look like text. */
static float rms_scale(const float *x, int64_t n, float eps)
{
	const float sum = qn_kernels.sumsq(x, n);

	return sum <= FLT_MAX ? 1 / sqrtf(sum / (float)n + eps) : NAN;
}

/* Columns b * 256 .. of row t, times r and w (both may be absent: 1, NULL), into the activation buffers. */
static void put_act(const struct run *c, const struct qn_op *op, int64_t rows, int64_t t, int64_t b, float r,
                    const float *w)
{
	const int64_t left = op->n_col - b * QN_ACT_BLOCK, n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
	const float *x = buf_row(c, op->src, t) + b * QN_ACT_BLOCK;
	struct actf tmp;

	if (w) {
		qn_kernels.scale_rows(tmp.x, x, r, w + b * QN_ACT_BLOCK, n);
		x = tmp.x;
	}
	for (enum qn_act k = 0; k < QN_N_ACT; k++) {
		if (op->act[k] < 0)
			continue;

		void *y = act_block(c, op->act[k], k, b * rows + t);

		if (k == QN_ACT_F32)
			memcpy(y, x, sizeof *x * (size_t)n);
		else
			qn_kernels.quantize(y, x, (int)n, k);
	}
}

/* NORM and ACT. Items are blocks of rows: one row alone is still shared by all threads. */
static void act_run(struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op), blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	const int norm = op->kind == QN_OP_NORM;
	struct deal d = deal_begin(c->ith, c->nth, rows * blocks);
	int64_t i, row = -1;
	float r = 1;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		if (norm && i / blocks != row) /* each thread for itself: cheaper than to tell each other */
			r = rms_scale(buf_row(c, op->src, i / blocks), op->n_col, op->eps);
		row = i / blocks;
		put_act(c, op, rows, row, i % blocks, r, norm ? op->vec : NULL);
	}
}

static int act_check(const struct plan *p, const struct qn_op *op)
{
	return op->n_col > 0 && buf_ok(p, op->src, op->n_col) && act_ok(p, op->act, NULL, op->n_col) && rows_ok(p, op);
}

static int norm_check(const struct plan *p, const struct qn_op *op)
{
	return op->vec && act_check(p, op);
}

const struct operation op_norm = {.check = norm_check, .counters = 1, .routing = ROUTING_PAIRS, .run = act_run};
const struct operation op_act = {.check = act_check, .counters = 1, .routing = ROUTING_PAIRS, .run = act_run};
