/* back_rows.c - the backward pass row by row: the loss, and the reverse of norms, gates and GATHER. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "math/log.h"
#include "ops/largest.h"
#include "ops/norms.h"
#include "run/operation.h"

static int loss_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_loss *op = &o->loss;

	return o->rows == QN_ROWS_OUT && op->target && op->weight && op->n_col > 0 && op->softcap >= 0 &&
	       buf_ok(p, op->logits, op->n_col) && buf_ok(p, op->dst, 1);
}

/* Gradients of x = cap * tanh(z / cap) become gradients of z: times 1 - (x / cap)^2. */
static void uncap(float *d, const float *x, float cap, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const float t = x[i] / cap;

		d[i] *= fmaf(-t, t, 1.0f);
	}
}

/* One row: the largest is found by comparison; the sum is of blocks in order, each in lanes. */
static float loss_row(float *x, int64_t n, int32_t target, float weight, float cap)
{
	const float at = x[target];
	const float top = largest(x, n, x[0]);
	float sum = 0, d[QN_ACT_BLOCK];

	for (int64_t i = 0; i < n; i += QN_ACT_BLOCK) {
		const int64_t some = n - i < QN_ACT_BLOCK ? n - i : QN_ACT_BLOCK;

		qn_kernels.exp_from(d, x + i, top, some);
		sum += qn_kernels.sum(d, some);
	}
	for (int64_t i = 0; i < n; i += QN_ACT_BLOCK) {
		const int64_t some = n - i < QN_ACT_BLOCK ? n - i : QN_ACT_BLOCK;

		qn_kernels.exp_from(d, x + i, top, some);
		qn_kernels.scale_rows(d, d, weight / sum, NULL, some);
		if (target >= i && target < i + some)
			d[target - i] -= weight;
		if (cap > 0)
			uncap(d, x + i, cap, some);
		memcpy(x + i, d, sizeof *d * (size_t)some);
	}
	return sum <= FLT_MAX ? weight * (float)(qln((double)sum) + ((double)top - (double)at)) : NAN;
}

static void loss_run(struct run *c, const struct qn_op *o)
{
	const struct qn_loss *op = &o->loss;
	struct deal d = deal_begin(c->pool, c->ith, c->batch->n_out);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = c->batch->out[i];
		float *x = buf_row(c, op->logits, i), *y = buf_row(c, op->dst, i);

		if (op->weight[t] == 0) {
			memset(x, 0, sizeof *x * (size_t)op->n_col);
			*y = 0;
			continue;
		}
		*y = loss_row(x, op->n_col, op->target[t], op->weight[t], op->softcap);
	}
}

const struct operation op_loss = {.check = loss_check, .counters = 1, .run = loss_run};

static int scatter_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_scatter *op = &o->scatter;

	return op->n_col > 0 && buf_ok(p, op->src, op->n_col) && buf_ok(p, op->dst, op->n_col);
}

static void scatter_run(struct run *c, const struct qn_op *o)
{
	const struct qn_scatter *op = &o->scatter;
	const int64_t n = c->batch->n_out;

	for (int64_t i = n * c->ith / c->nth; i < n * (c->ith + 1) / c->nth; i++)
		qn_kernels.add_scaled(buf_row(c, op->dst, c->batch->out[i]), buf_row(c, op->src, i), 1, op->n_col);
}

const struct operation op_scatter = {.check = scatter_check, .run = scatter_run};

static int norm_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_norm *op = &o->back_norm;
	const int64_t n = (int64_t)op->n_seg * op->n_col;

	return op->norm.kind >= QN_NORM_RMS && op->norm.kind <= QN_NORM_NONE && o->rows != QN_ROWS_PAIR &&
	       o->rows != QN_ROWS_HEAD && op->n_col > 0 && op->n_seg > 0 && op->scale != 0 && cols_ok(p, op->x, n) &&
	       cols_ok(p, op->dy, n) && cols_ok(p, op->dst, n);
}

/*
 * With z = (x - mean) r, y = z w and g = dy w: dx = r (g - mean(g) - z mean(g z)), where an RMS norm has no means of x
 * and g, and none at all has r = 1 and neither of the others. Both means are of g times something, of all columns.
 */
static void norm_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_norm *op = &o->back_norm;
	struct deal deal = deal_begin(c->pool, c->ith, op_rows(c, o) * op->n_seg);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int64_t t = i / op->n_seg, seg = i % op->n_seg * op->n_col, n = op->n_col;
		const float *x = cols_row(c, op->x, t) + seg, *dy = cols_row(c, op->dy, t) + seg;
		const float *w = op->norm.weight ? op->norm.weight + (op->seg_weights ? seg : 0) : NULL;
		const struct norm s = norm_of(&op->norm, x, n);
		float *y = cols_row(c, op->dst, t) + seg, along = 0, mean = 0;

		for (int64_t at = 0; at < n && op->norm.kind != QN_NORM_NONE; at += QN_ACT_BLOCK) {
			const int64_t some = n - at < QN_ACT_BLOCK ? n - at : QN_ACT_BLOCK;
			float g[QN_ACT_BLOCK], z[QN_ACT_BLOCK];

			qn_kernels.scale_rows(g, dy + at, op->scale, w ? w + at : NULL, some);
			qn_kernels.affine(z, x + at, s.mean, s.r, NULL, NULL, some);
			along += qn_kernels.dot(g, z, some);
			if (op->norm.kind == QN_NORM_LAYER)
				mean += qn_kernels.sum(g, some);
		}
		along /= (float)n;
		mean /= (float)n;
		for (int64_t at = 0; at < n; at += QN_ACT_BLOCK) {
			const int64_t some = n - at < QN_ACT_BLOCK ? n - at : QN_ACT_BLOCK;
			float g[QN_ACT_BLOCK], z[QN_ACT_BLOCK];

			qn_kernels.scale_rows(g, dy + at, op->scale, w ? w + at : NULL, some);
			qn_kernels.affine(z, x + at, s.mean, s.r, NULL, NULL, some);
			if (op->norm.kind != QN_NORM_NONE)
				qn_kernels.add_scaled(g, z, -along, some);
			qn_kernels.affine(g, g, mean, s.r, NULL, NULL, some);
			if (op->add)
				qn_kernels.add_scaled(y + at, g, 1, some);
			else
				memcpy(y + at, g, sizeof *g * (size_t)some);
		}
	}
}

const struct operation op_back_norm = {.check = norm_check, .counters = 1, .run = norm_run};

static int64_t gate_segs(const struct qn_back_gate *op)
{
	return op->by_row && op->n_seg ? op->n_seg : 1;
}

static int gate_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_gate *op = &o->back_gate;
	const int64_t segs = gate_segs(op), n = segs * op->n_col, of_g = op->by_row ? segs : n;

	return rows_ok(p, o, 0) && op->n_col > 0 && op->n_seg >= 0 && op->fn >= QN_FN_NONE && op->fn < QN_N_FN &&
	       op->fn != QN_FN_SWIGLU_CLAMP && cols_ok(p, op->g, of_g) && cols_ok(p, op->dy, n) &&
	       cols_ok(p, op->dg, of_g) &&
	       (op->u.buf == -1 ? op->fn != QN_FN_NONE && !op->by_row : cols_ok(p, op->u, n) && cols_ok(p, op->du, n));
}

/* A row of which each segment has one number that it is multiplied by. */
static void gate_segments(const struct run *c, const struct qn_back_gate *op, int64_t t)
{
	const float *g = cols_row(c, op->g, t), *u = cols_row(c, op->u, t), *dy = cols_row(c, op->dy, t);
	float *dg = cols_row(c, op->dg, t), *du = cols_row(c, op->du, t);

	for (int64_t i = 0; i < gate_segs(op); i++, u += op->n_col, dy += op->n_col, du += op->n_col) {
		float value = g[i], along = 0;

		for (int64_t at = 0; at < op->n_col; at += QN_ACT_BLOCK) {
			const int64_t left = op->n_col - at;

			along += qn_kernels.dot(u + at, dy + at, left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK);
		}
		if (op->fn != QN_FN_NONE) {
			qn_kernels.fn[op->fn](&value, g + i, NULL, 1);
			qn_kernels.derivative[op->fn](dg + i, g + i, &along, 1);
		} else {
			dg[i] = along;
		}
		qn_kernels.scale_rows(du, dy, value, NULL, op->n_col);
	}
}

static void gate_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_gate *op = &o->back_gate;
	const int64_t blocks = op->by_row ? 1 : (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o) * blocks);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = i / blocks, at = i % blocks * QN_ACT_BLOCK, left = op->n_col - at;
		const int64_t n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		const float *g = cols_row(c, op->g, t) + at, *dy = cols_row(c, op->dy, t) + at;
		float derivatives[QN_ACT_BLOCK];

		if (op->by_row) {
			gate_segments(c, op, t);
			continue;
		}
		if (op->fn == QN_FN_NONE) {
			qn_kernels.scale_rows(derivatives, dy, 1, cols_row(c, op->u, t) + at, n);
			qn_kernels.scale_rows(cols_row(c, op->du, t) + at, dy, 1, g, n);
			memcpy(cols_row(c, op->dg, t) + at, derivatives, sizeof *derivatives * (size_t)n);
			continue;
		}
		qn_kernels.derivative[op->fn](derivatives, g, dy, n);
		if (op->u.buf >= 0) {
			qn_kernels.scale_rows(derivatives, derivatives, 1, cols_row(c, op->u, t) + at, n);
			qn_kernels.fn[op->fn](cols_row(c, op->du, t) + at, g, dy, n);
		}
		memcpy(cols_row(c, op->dg, t) + at, derivatives, sizeof *derivatives * (size_t)n);
	}
}

const struct operation op_back_gate = {
	.check = gate_check, .counters = 1, .routing = ROUTING_PAIRS, .run = gate_run,
};

static int xielu_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_xielu *op = &o->back_xielu.xielu;

	return op->n_col > 0 && op->param[3] <= 0 && o->rows != QN_ROWS_PAIR && cols_ok(p, op->dst, op->n_col) &&
	       cols_ok(p, o->back_xielu.x, op->n_col);
}

/* The derivative is 2 positive x + beta of x > 0, else (e^x - 1) negative + beta; of x from eps on e^x stays. */
static void xielu_run(struct run *c, const struct qn_op *o)
{
	const struct qn_xielu *op = &o->back_xielu.xielu;
	const float *param = op->param, beta = param[2], eps = param[3];
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *x = cols_row(c, o->back_xielu.x, t);
		float *y = cols_row(c, op->dst, t);

		for (int64_t i = 0; i < op->n_col; i++) {
			const float v = x[i], grows = v < eps ? qexp(v) : 0;

			y[i] *= v > 0 ? fmaf(2 * param[0], v, beta) : fmaf(grows - 1, param[1], beta);
		}
	}
}

const struct operation op_back_xielu = {.check = xielu_check, .counters = 1, .run = xielu_run};
