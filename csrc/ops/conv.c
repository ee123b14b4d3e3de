/* conv.c - short convolutions over the positions of a sequence, with gates before and after or a function. */
#include <string.h>

#include "run/operation.h"

#define TAPS_MAX 64
#define COLS 64 /* columns of an item */

/* Where the columns end that are computed. */
static int32_t end_of(const struct qn_conv *op)
{
	return op->to ? op->to : op->n_col;
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_conv *op = &o->conv;
	int ok = op->weight && op->n_col > 0 && op->n_tap > 1 && op->n_tap <= TAPS_MAX && op->ahead >= 0 &&
	         op->ahead < op->n_tap && (op->ahead > 0 || place_ok(&op->state)) &&
	         op->from >= 0 && op->from % QN_PANEL == 0 && op->from < end_of(op) && end_of(op) <= op->n_col &&
	         op->n_result > 0 && op->n_result <= TAPS_MAX / op->n_tap && op->fn >= QN_FN_NONE && op->fn < QN_N_FN &&
	         col_ok(p, op->src, op->col[0], op->n_col) &&
	         buf_ok(p, op->dst, (int64_t)op->n_result * op->n_col);

	for (int i = 1; i < 3; i++)
		ok = ok && (op->col[i] == -1 || col_ok(p, op->src, op->col[i], op->n_col));
	return ok;
}

/* u of token t, columns i .. i + n, in its place of gated where it is a product. */
static const float *input(const struct run *c, const struct qn_conv *op, float gated[][COLS], int64_t t, int64_t i,
                          int n)
{
	const float *x = buf_row(c, op->src, t) + i;
	float *g = gated[t % op->n_tap]; /* that of the token that leaves the window */

	if (op->col[2] < 0)
		return x + op->col[0];
	for (int k = 0; k < n; k++)
		g[k] = x[op->col[0] + k] * x[op->col[2] + k];
	return g;
}

/* Columns i .. i + n of tokens t0 .. t1, which are those of a sequence; w: their weights, [n_result][n_tap][n]. */
static void sequence(const struct run *c, const struct qn_conv *op, const float *w, int64_t t0, int64_t t1, int64_t i,
                     int n)
{
	static const float zeros[COLS];
	const float *before = op->ahead ? NULL : batch_state(c->batch, &op->state, t0, 0), *u[TAPS_MAX];
	float *after = op->ahead ? NULL : batch_state(c->batch, &op->state, t0, 1), gated[TAPS_MAX][COLS];
	const int last = op->n_tap - 1;
	const int64_t width = end_of(op) - op->from, at = i - op->from; /* in the state */

	for (int tap = 0; tap < last; tap++) {
		const int64_t t = t0 + op->ahead - last + tap;

		u[tap] = before ? before + tap * width + at : zeros;
		if (t >= t0 && t < t1)
			u[tap] = input(c, op, gated, t, i, n);
	}
	for (int64_t t = t0; t < t1; t++) {
		const float *gate = op->col[1] < 0 ? NULL : buf_row(c, op->src, t) + i + op->col[1];
		float *y = buf_row(c, op->dst, t) + i;
		const float *bias = op->bias ? op->bias + i : NULL;

		u[last] = t + op->ahead < t1 ? input(c, op, gated, t + op->ahead, i, n) : zeros;
		for (int s = 0; s < op->n_result; s++, y += op->n_col) {
			qn_kernels.conv(y, u, w + s * op->n_tap * n, op->n_tap, n);
			for (int k = 0; bias && k < n; k++)
				y[k] += bias[s * (int64_t)op->n_col + k];
			if (op->fn != QN_FN_NONE)
				qn_kernels.fn[op->fn](y, y, gate, n);
			else if (gate)
				for (int k = 0; k < n; k++)
					y[k] *= gate[k];
		}
		memmove(u, u + 1, sizeof *u * (size_t)last);
	}
	for (int tap = 0; after && tap < last; tap++)
		memcpy(after + tap * width + at, u[tap], sizeof *after * (size_t)n);
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_conv *op = &o->conv;
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->pool, c->ith, (end_of(op) - op->from + COLS - 1) / COLS);
	float w[TAPS_MAX * COLS];
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t i = op->from + item * COLS, left = end_of(op) - i;
		const int n = (int)(left < COLS ? left : COLS);

		for (int s = 0; s < op->n_result; s++)
			for (int k = 0; k < n; k++)
				for (int tap = 0; tap < op->n_tap; tap++)
					w[(s * op->n_tap + tap) * n + k] =
						op->weight[((int64_t)s * op->n_col + i + k) * op->n_tap + tap];
		for (int64_t t0 = 0, t1; t0 < b->n_tok; t0 = t1) {
			t1 = batch_run(b, t0);
			sequence(c, op, w, t0, t1, i, n);
		}
	}
}

const struct operation op_conv = {.check = check, .counters = 1, .run = run};
