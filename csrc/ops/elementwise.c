/* elementwise.c - functions of rows, number by number: gates, activation functions, blends, scales by length. */
#include <math.h>
#include <string.h>

#include "run/operation.h"

/* Segments that have a number each. */
static int64_t gate_segs(const struct qn_gate *op)
{
	return op->by_row && op->n_seg ? op->n_seg : 1;
}

static int gate_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_gate *op = &o->gate;
	const int64_t segs = gate_segs(op);

	return rows_ok(p, o, 0) && op->n_col > 0 && op->fn >= QN_FN_NONE && op->fn < QN_N_FN && op->n_seg >= 0 &&
	       cols_ok(p, op->src, op->by_row ? segs : op->n_col) &&
	       cols_ok(p, op->dst, segs * op->n_col);
}

static void gate_run(struct run *c, const struct qn_op *o)
{
	const struct qn_gate *op = &o->gate;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *x = cols_row(c, op->src, t);
		float *y = cols_row(c, op->dst, t), g;

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

const struct operation op_gate = {.check = gate_check, .counters = 1, .routing = ROUTING_PAIRS, .run = gate_run};

static int xielu_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_xielu *op = &o->xielu;

	return o->rows != QN_ROWS_PAIR && op->n_col > 0 && op->param[3] <= 0 &&
	       cols_ok(p, op->dst, op->n_col);
}

static void xielu_run(struct run *c, const struct qn_op *o)
{
	const struct qn_xielu *op = &o->xielu;
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o) * blocks);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = i % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		float *y = cols_row(c, op->dst, i / blocks) + at;

		qn_kernels.xielu(y, op->param, left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK);
	}
}

const struct operation op_xielu = {.check = xielu_check, .counters = 1, .run = xielu_run};

static int sparse_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_sparse *op = &o->sparse;

	return o->rows != QN_ROWS_PAIR && op->n_col > 1 && cols_ok(p, op->dst, op->n_col);
}

static void sparse_run(struct run *c, const struct qn_op *o)
{
	const struct qn_sparse *op = &o->sparse;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o));
	const int64_t n = op->n_col;
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = cols_row(c, op->dst, t);
		const float mean = qn_kernels.sum(y, n) / (float)n;
		const float least = mean + op->cutoff * sqrtf(qn_kernels.sumsq_about(y, mean, n) / (float)(n - 1));

		qn_kernels.affine(y, y, least, 1, NULL, NULL, n);
		qn_kernels.clamp(y, 0, INFINITY, n); /* NaN stays NaN */
	}
}

const struct operation op_sparse = {.check = sparse_check, .counters = 1, .run = sparse_run};

static int match_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_match *op = &o->match;

	return o->rows != QN_ROWS_PAIR && op->n_col > 0 && cols_ok(p, op->src, op->n_col) &&
	       cols_ok(p, op->dst, op->n_col);
}

static void match_run(struct run *c, const struct qn_op *o)
{
	const struct qn_match *op = &o->match;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = cols_row(c, op->dst, t);
		const float want = qn_kernels.sumsq(cols_row(c, op->src, t), op->n_col);
		const float is = qn_kernels.sumsq(y, op->n_col);

		/* nothing has no direction, and stays nothing */
		qn_kernels.scale_rows(y, y, is == 0 ? 0 : sqrtf(want) / sqrtf(is), NULL, op->n_col);
	}
}

const struct operation op_match = {.check = match_check, .counters = 1, .run = match_run};

static int blend_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_blend *op = &o->blend;

	return o->rows != QN_ROWS_PAIR && op->n_col > 0 && op->fn >= QN_FN_NONE && op->fn < QN_N_FN &&
	       cols_ok(p, op->src, op->n_col) && cols_ok(p, op->dst, op->n_col) &&
	       cols_ok(p, op->by, op->n_col);
}

static void blend_run(struct run *c, const struct qn_op *o)
{
	const struct qn_blend *op = &o->blend;
	const int64_t blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o) * blocks);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = item / blocks, at = item % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		const int64_t n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		const float *x = cols_row(c, op->src, t) + at;
		const float *z = cols_row(c, op->by, t) + at;
		float *y = cols_row(c, op->dst, t) + at, by[QN_ACT_BLOCK];

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
