/* elementwise.c - functions of rows, number by number: gates, activation functions, blends, scales by length. */
#include <math.h>
#include <string.h>

#include "run/operation.h"

/* Segments that have a number each. */
static int64_t gate_segs(const struct qn_op *op)
{
	return op->by_row && op->n_seg ? op->n_seg : 1;
}

static int gate_check(const struct plan *p, const struct qn_op *op)
{
	const int64_t segs = gate_segs(op);

	return op->rows != QN_ROWS_PAIR && op->n_col > 0 && op->fn >= QN_FN_NONE && op->fn < QN_N_FN &&
	       op->n_seg >= 0 && col_ok(p, op->src, op->col[0], op->by_row ? segs : op->n_col) &&
	       col_ok(p, op->dst, op->col[1], segs * op->n_col);
}

static void gate_run(struct run *c, const struct qn_op *op)
{
	struct deal d = deal_begin(c->ith, c->nth, op_rows(c, op));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *x = buf_row(c, op->src, t) + op->col[0];
		float *y = buf_row(c, op->dst, t) + op->col[1], g;

		if (!op->by_row) {
			if (op->fn == QN_FN_NONE)
				qn_kernels.scale_rows(y, y, 1, x, op->n_col);
			else
				qn_kernels.fn[op->fn](y, x, y, op->n_col);
			continue;
		}
		for (int64_t i = 0; i < gate_segs(op); i++, x++, y += op->n_col) {
			g = *x;
			if (op->fn != QN_FN_NONE)
				qn_kernels.fn[op->fn](&g, x, NULL, 1);
			qn_kernels.scale_rows(y, y, g, NULL, op->n_col);
		}
	}
}

const struct operation op_gate = {.check = gate_check, .counters = 1, .run = gate_run};

static int xielu_check(const struct plan *p, const struct qn_op *op)
{
	return op->rows != QN_ROWS_PAIR && op->n_col > 0 && op->xielu[3] <= 0 &&
	       col_ok(p, op->dst, op->col[1], op->n_col);
}

static void xielu_run(struct run *c, const struct qn_op *op)
{
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->ith, c->nth, op_rows(c, op) * blocks);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = i % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		float *y = buf_row(c, op->dst, i / blocks) + op->col[1] + at;

		qn_kernels.xielu(y, op->xielu, left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK);
	}
}

const struct operation op_xielu = {.check = xielu_check, .counters = 1, .run = xielu_run};

static int sparse_check(const struct plan *p, const struct qn_op *op)
{
	return op->rows != QN_ROWS_PAIR && op->n_col > 1 && col_ok(p, op->dst, op->col[1], op->n_col);
}

static void sparse_run(struct run *c, const struct qn_op *op)
{
	struct deal d = deal_begin(c->ith, c->nth, op_rows(c, op));
	const int64_t n = op->n_col;
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = buf_row(c, op->dst, t) + op->col[1];
		const float mean = qn_kernels.sum(y, n) / (float)n;
		const float least = mean + op->cutoff * sqrtf(qn_kernels.sumsq_about(y, mean, n) / (float)(n - 1));

		qn_kernels.affine(y, y, least, 1, NULL, NULL, n);
		qn_kernels.clamp(y, 0, INFINITY, n); /* NaN stays NaN */
	}
}

const struct operation op_sparse = {.check = sparse_check, .counters = 1, .run = sparse_run};

static int match_check(const struct plan *p, const struct qn_op *op)
{
	return op->rows != QN_ROWS_PAIR && op->n_col > 0 && col_ok(p, op->src, op->col[0], op->n_col) &&
	       col_ok(p, op->dst, op->col[1], op->n_col);
}

static void match_run(struct run *c, const struct qn_op *op)
{
	struct deal d = deal_begin(c->ith, c->nth, op_rows(c, op));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = buf_row(c, op->dst, t) + op->col[1];
		const float want = qn_kernels.sumsq(buf_row(c, op->src, t) + op->col[0], op->n_col);
		const float is = qn_kernels.sumsq(y, op->n_col);

		/* nothing has no direction, and stays nothing */
		qn_kernels.scale_rows(y, y, is == 0 ? 0 : sqrtf(want) / sqrtf(is), NULL, op->n_col);
	}
}

const struct operation op_match = {.check = match_check, .counters = 1, .run = match_run};

static int blend_check(const struct plan *p, const struct qn_op *op)
{
	return op->rows != QN_ROWS_PAIR && op->n_col > 0 && op->fn >= QN_FN_NONE && op->fn < QN_N_FN &&
	       col_ok(p, op->src, op->col[0], op->n_col) && col_ok(p, op->dst, op->col[1], op->n_col) &&
	       col_ok(p, op->aux, op->col[2], op->n_col);
}

static void blend_run(struct run *c, const struct qn_op *op)
{
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->ith, c->nth, op_rows(c, op) * blocks);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = item / blocks, at = item % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		const int64_t n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		const float *x = buf_row(c, op->src, t) + op->col[0] + at;
		const float *z = buf_row(c, op->aux, t) + op->col[2] + at;
		float *y = buf_row(c, op->dst, t) + op->col[1] + at, by[QN_ACT_BLOCK];

		memcpy(by, x, sizeof *x * (size_t)n);
		qn_kernels.add_scaled(by, y, -1, n);
		if (op->fn == QN_FN_NONE)
			qn_kernels.scale_rows(by, by, 1, z, n);
		else
			qn_kernels.fn[op->fn](by, z, by, n);
		qn_kernels.add_scaled(y, by, 1, n);
	}
}

const struct operation op_blend = {.check = blend_check, .counters = 1, .run = blend_run};
