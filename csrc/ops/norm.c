/* norm.c - norms of rows, and rows as the activations that products multiply. */
#include <string.h>

#include "ops/norms.h"
#include "ops/route.h"
#include "run/operation.h"

/* y = n of x with weights w and b, or NULL. An RMS norm without b is a product: the cheaper kernel for most models. */
static void norm_row(const struct qn_norm *op, struct norm s, float *y, const float *x, const float *w, const float *b,
                     int64_t n)
{
	if (op->kind != QN_NORM_LAYER && !b)
		qn_kernels.scale_rows(y, x, s.r, w, n);
	else
		qn_kernels.affine(y, x, s.mean, s.r, w, b, n);
}

/* A block of n floats as activations of a kind. */
static void to_act(void *y, const float *x, int n, enum qn_act kind)
{
	const enum qn_act half = act_half(kind);
	struct act8 *two = y;
	struct actf rest;

	if (kind == QN_ACT_F32) {
		memcpy(y, x, sizeof *x * (size_t)n);
		return;
	}
	qn_kernels.quantize(y, x, n, half);
	if (half == kind)
		return;
	for (int i = 0; i < n; i++) /* NaN where the scale is */
		rest.x[i] = x[i] - act8_at(two, half, i);
	qn_kernels.quantize(two + 1, rest.x, n, half);
}

/* Columns of row i of NORM and ACT: of QN_ROWS_HEAD, n_tok rows of each head. */
static const float *act_src(const struct run *c, const struct qn_op *o, int64_t i)
{
	if (o->rows != QN_ROWS_HEAD)
		return cols_row(c, o->to_act.src, i);
	return cols_row(c, o->to_act.src, i % c->batch->n_tok) + i / c->batch->n_tok * o->heads.step;
}

/* NORM and ACT. Items are blocks of rows: one row alone is still shared by all threads. */
static void act_run(struct run *c, const struct qn_op *o)
{
	const struct qn_to_act *op = &o->to_act;
	const int64_t rows = op_rows(c, o), blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	const int norm = o->kind == QN_OP_NORM;
	const float *weight = op->norm.weight, *bias = op->norm.bias;
	/* pairs of experts without matrices come last, and have nothing */
	const int64_t full = o->rows != QN_ROWS_PAIR
	                             ? rows
	                             : route_of(c->bufs, &o->routing, c->batch->n_tok).offset[o->routing.n_expert];
	struct deal d = deal_begin(c->pool, c->ith, full * blocks);
	int64_t i, row = -1;
	struct norm s = {0};

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = i % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		const int64_t n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		const float *x = act_src(c, o, i / blocks);
		struct actf tmp;

		if (norm && i / blocks != row) /* each thread for itself: cheaper than to tell each other */
			s = norm_of(&op->norm, x, op->n_col);
		row = i / blocks;
		x += at;
		if (norm) {
			norm_row(&op->norm, s, tmp.x, x, weight ? weight + at : NULL, bias ? bias + at : NULL, n);
			x = tmp.x;
		}
		for (enum qn_act k = 0; k < QN_N_ACT; k++) {
			if (op->act[k] < 0)
				continue;

			to_act(act_block(c, op->act[k], k, (op->block + i % blocks) * rows + row), x, (int)n, k);
		}
	}
}

static int act_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_to_act *op = &o->to_act;
	const int64_t heads = o->rows == QN_ROWS_HEAD ? ((int64_t)o->heads.n - 1) * o->heads.step : 0;

	return op->n_col > 0 && op->block >= 0 && cols_ok(p, op->src, heads + op->n_col) &&
	       act_ok(p, op->act, NULL, (int64_t)op->block * QN_ACT_BLOCK + op->n_col) && rows_ok(p, o, op->n_col);
}

static int norm_ok(const struct qn_norm *op)
{
	return op->kind >= QN_NORM_RMS && op->kind <= QN_NORM_NONE;
}

static int norm_check(const struct plan *p, const struct qn_op *o)
{
	return norm_ok(&o->to_act.norm) && act_check(p, o);
}

const struct operation op_norm = {.check = norm_check, .counters = 1, .routing = ROUTING_PAIRS, .run = act_run};
const struct operation op_act = {
	.check = act_check, .counters = 1, .routing = ROUTING_PAIRS, .by_head = 1, .run = act_run,
};

static int norm_rows_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_norm_rows *op = &o->norm_rows;

	return norm_ok(&op->norm) && rows_ok(p, o, 0) && op->n_col > 0 && op->n_seg > 0 && op->scale != 0 &&
	       (op->low == op->high || (op->low < op->high && !op->add)) &&
	       cols_ok(p, op->src, (int64_t)op->n_seg * op->n_col) &&
	       cols_ok(p, op->dst, (int64_t)op->n_seg * op->n_col);
}

static void limit(float *y, int64_t n, float low, float high)
{
	for (int64_t i = 0; i < n; i++) {
		y[i] = y[i] < low ? low : y[i];
		y[i] = y[i] > high ? high : y[i];
	}
}

static void norm_rows_run(struct run *c, const struct qn_op *o)
{
	const struct qn_norm_rows *op = &o->norm_rows;
	const float *weight = op->norm.weight, *bias = op->norm.bias;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o) * op->n_seg);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = i / op->n_seg, seg = i % op->n_seg * op->n_col, w = op->seg_weights ? seg : 0;
		const float *x = cols_row(c, op->src, t) + seg;
		float *y = cols_row(c, op->dst, t) + seg;
		const struct norm s = norm_of(&op->norm, x, op->n_col);

		for (int64_t at = 0; at < op->n_col; at += QN_ACT_BLOCK) {
			const int64_t left = op->n_col - at, n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
			struct actf tmp;

			norm_row(&op->norm, s, tmp.x, x + at, weight ? weight + w + at : NULL,
			         bias ? bias + w + at : NULL, n);
			if (op->add)
				qn_kernels.add_scaled(y + at, tmp.x, op->scale, n);
			else
				qn_kernels.scale_rows(y + at, tmp.x, op->scale, NULL, n);
			if (op->low < op->high)
				limit(y + at, n, op->low, op->high);
		}
	}
}

const struct operation op_norm_rows = {
	.check = norm_rows_check, .counters = 1, .routing = ROUTING_PAIRS, .run = norm_rows_run,
};
