/*
 * hyper.c - residuals of several streams: their mixtures, and what they are mixed by: hyper-connections (Xie et al.
 * 2025, "mHC").
 */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "run/operation.h"

#define STREAMS_MAX 16
#define ROUNDS_MAX  1000

/* The weights of a row's segments by their scores, whose softmax they are. */
static void scored(float *weight, const struct run *c, const struct qn_mix *op, const float *x)
{
	float *product = (float *)c->scratch, most = -INFINITY, sum = 0;

	for (int j = 0; j < op->n_src; j++, x += op->n_col) {
		const float r = 1 / sqrtf(qn_kernels.sumsq(x, op->n_col) / (float)op->n_col + op->eps);

		qn_kernels.scale_rows(product, x, r, op->score, op->n_col);
		weight[j] = qn_kernels.sum(product, op->n_col);
		if (weight[j] > most)
			most = weight[j];
	}
	for (int j = 0; j < op->n_src; j++)
		sum += weight[j] = qexp(weight[j] - most); /* NaN stays one */
	for (int j = 0; j < op->n_src; j++)
		weight[j] /= sum;
}

static void mix_scored(struct run *c, const struct qn_op *o)
{
	const struct qn_mix *op = &o->mix;
	struct deal d = deal_begin(c->pool, c->ith, op_rows(c, o));
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *x = cols_row(c, op->src, t);
		float *y = cols_row(c, op->dst, t), weight[STREAMS_MAX];

		scored(weight, c, op, x);
		if (!op->add)
			memset(y, 0, sizeof *y * (size_t)op->n_col);
		for (int j = 0; j < op->n_src; j++)
			qn_kernels.add_scaled(y, x + (int64_t)j * op->n_col, weight[j], op->n_col);
	}
}

static size_t mix_scratch(const struct qn_op *o)
{
	const struct qn_mix *op = &o->mix;

	return op->score ? sizeof(float) * (size_t)op->n_col : 0;
}

static int mix_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_mix *op = &o->mix;

	if (op->score && (op->n_seg != 1 || op->src.buf == op->dst.buf))
		return 0;
	return o->rows != QN_ROWS_PAIR && op->n_col > 0 && op->n_seg > 0 && op->n_seg <= STREAMS_MAX &&
	       op->n_src > 0 && op->n_src <= STREAMS_MAX &&
	       (op->score || cols_ok(p, op->weight, (int64_t)op->n_seg * op->n_src)) &&
	       cols_ok(p, op->src, (int64_t)op->n_src * op->n_col) &&
	       cols_ok(p, op->dst, (int64_t)op->n_seg * op->n_col) &&
	       (op->src.buf != op->dst.buf || op->src.col == op->dst.col); /* else what threads read others write */
}

static void mix_run(struct run *c, const struct qn_op *o)
{
	const struct qn_mix *op = &o->mix;
	const int64_t n = op->n_col, blocks = (n + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d;
	int64_t at;

	if (op->score) {
		mix_scored(c, o);
		return;
	}
	d = deal_begin(c->pool, c->ith, op_rows(c, o) * blocks);
	while ((at = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = at / blocks, from = at % blocks * QN_ACT_BLOCK;
		const int64_t to = from + QN_ACT_BLOCK < n ? from + QN_ACT_BLOCK : n;
		const float *x = cols_row(c, op->src, t), *w = cols_row(c, op->weight, t);
		float *y = cols_row(c, op->dst, t), was[STREAMS_MAX][QN_ACT_BLOCK];

		for (int j = 0; j < op->n_src; j++) /* before dst, which may be the same, changes */
			memcpy(was[j], x + j * n + from, sizeof *x * (size_t)(to - from));
		for (int s = 0; s < op->n_seg; s++) {
			float sum[QN_ACT_BLOCK] = {0};

			for (int j = 0; j < op->n_src; j++)
				qn_kernels.add_scaled(sum, was[j], w[s * op->n_src + j], to - from);
			if (!op->add)
				memcpy(y + s * n + from, sum, sizeof *sum * (size_t)(to - from));
			else
				qn_kernels.add_scaled(y + s * n + from, sum, 1, to - from);
		}
	}
}

const struct operation op_mix = {.check = mix_check, .scratch = mix_scratch, .counters = 1, .run = mix_run};

static int connect_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_connect *op = &o->connect;
	const int64_t n = op->n_stream;

	if (!op->bias || !op->scale || n < 1 || n > STREAMS_MAX || op->rounds < 0 || op->rounds > ROUNDS_MAX)
		return 0;
	if (op->rounds == 0)
		return cols_ok(p, op->src, n) && buf_ok(p, op->dst, n);
	return cols_ok(p, op->src, n * (2 + n)) && buf_ok(p, op->dst, 32 + n * n);
}

/* n numbers at x, `step` apart, divided by their sum plus eps. */
static void even(float *x, int n, int step, float eps)
{
	float sum = 0;

	for (int i = 0; i < n; i++)
		sum += x[i * step];
	for (int i = 0; i < n; i++)
		x[i * step] /= sum + eps;
}

/* n numbers at x as their softmax, plus eps. */
static void softmax(float *x, int n, float eps)
{
	float max = x[0], sum = 0;

	for (int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (int i = 0; i < n; i++)
		sum += x[i] = qexp(x[i] - max);
	for (int i = 0; i < n; i++)
		x[i] = x[i] / sum + eps;
}

static void connect_run(struct run *c, const struct qn_op *o)
{
	const struct qn_connect *op = &o->connect;
	struct deal d = deal_begin(c->pool, c->ith, c->batch->n_tok);
	const int n = op->n_stream;
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *m = cols_row(c, op->src, t);
		float *y = buf_row(c, op->dst, t), by[STREAMS_MAX][STREAMS_MAX];

		for (int i = 0; i < n; i++)
			y[i] = op->eps + 1 / (1 + qexp(-(op->scale[0] * m[i] + op->bias[i])));
		if (op->rounds == 0)
			continue;
		for (int i = 0; i < n; i++)
			y[16 + i] = 2 / (1 + qexp(-(op->scale[1] * m[n + i] + op->bias[n + i])));
		for (int i = 0; i < n; i++) {
			for (int k = 0; k < n; k++)
				by[i][k] = op->scale[2] * m[(2 + i) * n + k] + op->bias[(2 + i) * n + k];
			softmax(by[i], n, op->eps);
		}
		for (int round = 0; round < op->rounds; round++) {
			for (int i = 0; round > 0 && i < n; i++)
				even(by[i], n, 1, op->eps);
			for (int k = 0; k < n; k++)
				even(&by[0][k], n, STREAMS_MAX, op->eps);
		}
		for (int i = 0; i < n; i++)
			for (int k = 0; k < n; k++)
				y[32 + k * n + i] = by[i][k];
	}
}

const struct operation op_connect = {.check = connect_check, .counters = 1, .run = connect_run};

static int align_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_align *op = &o->align;

	return op->n_col > 0 && op->n_seg > 0 && op->n_seg <= STREAMS_MAX && buf_ok(p, op->dst, op->n_seg) &&
	       cols_ok(p, op->src, (int64_t)op->n_seg * op->n_col) &&
	       cols_ok(p, op->with, (int64_t)op->n_seg * op->n_col);
}

static size_t align_scratch(const struct qn_op *o)
{
	const struct qn_align *op = &o->align;

	return sizeof(float) * (size_t)op->n_col;
}

static void align_run(struct run *c, const struct qn_op *o)
{
	const struct qn_align *op = &o->align;
	struct deal d = deal_begin(c->pool, c->ith, c->batch->n_tok);
	const int64_t n = op->n_col;
	float *product = (float *)c->scratch;
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *x = cols_row(c, op->src, t), *z = cols_row(c, op->with, t);
		float root[STREAMS_MAX];

		for (int s = 0; s < op->n_seg; s++) {
			qn_kernels.scale_rows(product, x + s * n, 1, z + s * n, n);

			const float sum = op->scale * qn_kernels.sum(product, n), size = sum < 0 ? -sum : sum;
			const float r = sqrtf(size < 1e-6f ? 1e-6f : size); /* NaN stays one */

			root[s] = sum < 0 ? -r : sum == 0 ? 0 : r;
		}
		qn_kernels.fn[QN_FN_SIGMOID](buf_row(c, op->dst, t), root, NULL, op->n_seg);
	}
}

const struct operation op_align = {
	.check = align_check, .scratch = align_scratch, .counters = 1, .run = align_run,
};
