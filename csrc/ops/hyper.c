/* hyper.c - what the streams of a residual are mixed by: hyper-connections (Xie et al. 2025, "mHC"). */
#include "run/operation.h"
#include "math/exp.h"

#define STREAMS_MAX 16
#define ROUNDS_MAX  1000

static int check(const struct plan *p, const struct qn_op *op)
{
	const int64_t n = op->n_seg;

	if (!op->vec || !op->vec2 || n < 1 || n > STREAMS_MAX || op->rounds < 0 || op->rounds > ROUNDS_MAX)
		return 0;
	if (op->rounds == 0)
		return col_ok(p, op->src, op->col[0], n) && buf_ok(p, op->dst, n);
	return col_ok(p, op->src, op->col[0], n * (2 + n)) && buf_ok(p, op->dst, 32 + n * n);
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

static void run(struct run *c, const struct qn_op *op)
{
	struct deal d = deal_begin(c->ith, c->nth, c->batch->n_tok);
	const int n = op->n_seg;
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *m = buf_row(c, op->src, t) + op->col[0];
		float *y = buf_row(c, op->dst, t), by[STREAMS_MAX][STREAMS_MAX];

		for (int i = 0; i < n; i++)
			y[i] = op->eps + 1 / (1 + qexp(-(op->vec2[0] * m[i] + op->vec[i])));
		if (op->rounds == 0)
			continue;
		for (int i = 0; i < n; i++)
			y[16 + i] = 2 / (1 + qexp(-(op->vec2[1] * m[n + i] + op->vec[n + i])));
		for (int i = 0; i < n; i++) {
			for (int k = 0; k < n; k++)
				by[i][k] = op->vec2[2] * m[(2 + i) * n + k] + op->vec[(2 + i) * n + k];
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

const struct operation op_connect = {.check = check, .counters = 1, .run = run};
