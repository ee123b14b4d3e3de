/* conv.c - short convolutions over the positions of a sequence, with gates before and after. */
#include <string.h>

#include "ops.h"

#define TAPS_MAX 64
#define COLS 64 /* columns of an item */

static int check(const struct plan *p, const struct qn_op *op)
{
	int ok = op->vec && op->n_col > 0 && op->n_tap > 1 && op->n_tap <= TAPS_MAX && op->group >= 0 &&
	         op->kv_offset >= 0 && op->kv_offset % 64 == 0 && buf_ok(p, op->dst, op->n_col);

	for (int i = 0; i < 3; i++)
		ok = ok && col_ok(p, op->src, op->col[i], op->n_col);
	return ok;
}

/* The state of the token's sequence before or after the batch: [n_tap - 1][n_col]; NULL: zeros. */
static float *state_of(const struct run *c, const struct qn_op *op, int64_t t, int after)
{
	const struct qn_group *g = &c->batch->groups[op->group];
	const int32_t unit = g->table[(int64_t)c->batch->seq[t] * g->cols + after];

	return unit < 0 ? NULL : (float *)((uint8_t *)g->data + unit * g->unit_bytes + op->kv_offset);
}

/* u[n] = columns i .. of what is convolved, `back` positions before token t; t0 is the first of its sequence. */
static void input(const struct run *c, const struct qn_op *op, float *u, int64_t t0, int64_t t, int back, int64_t i,
                  int n)
{
	if (t - back >= t0) {
		const float *row = buf_row(c, op->src, t - back) + i;

		for (int k = 0; k < n; k++)
			u[k] = row[op->col[0] + k] * row[op->col[2] + k];
		return;
	}

	const float *state = state_of(c, op, t, 0);

	if (state)
		memcpy(u, state + (op->n_tap - 1 + t - back - t0) * op->n_col + i, sizeof *u * (size_t)n);
	else
		memset(u, 0, sizeof *u * (size_t)n);
}

/* Columns i .. i + n of tokens t0 .. t1, which are those of a sequence. */
static void sequence(const struct run *c, const struct qn_op *op, int64_t t0, int64_t t1, int64_t i, int n)
{
	float *after = state_of(c, op, t0, 1), u[COLS], sum[COLS];

	for (int64_t t = t0; t < t1; t++) {
		const float *gate = buf_row(c, op->src, t) + op->col[1] + i;
		float *y = buf_row(c, op->dst, t) + i;

		memset(sum, 0, sizeof sum);
		for (int tap = 0; tap < op->n_tap; tap++) {
			input(c, op, u, t0, t, op->n_tap - 1 - tap, i, n);
			for (int k = 0; k < n; k++)
				sum[k] += u[k] * op->vec[(i + k) * op->n_tap + tap];
		}
		for (int k = 0; k < n; k++)
			y[k] = gate[k] * sum[k];
	}
	for (int tap = 0; tap < op->n_tap - 1; tap++)
		input(c, op, after + tap * (int64_t)op->n_col + i, t0, t1 - 1, op->n_tap - 2 - tap, i, n);
}

static void run(struct run *c, const struct qn_op *op)
{
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->ith, c->nth, (op->n_col + COLS - 1) / COLS);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t i = item * COLS, left = op->n_col - i;

		for (int64_t t0 = 0, t1; t0 < b->n_tok; t0 = t1) {
			for (t1 = t0 + 1; t1 < b->n_tok && b->seq[t1] == b->seq[t0]; t1++)
				;
			sequence(c, op, t0, t1, i, (int)(left < COLS ? left : COLS));
		}
	}
}

const struct operation op_conv = {.check = check, .counters = 1, .run = run};
