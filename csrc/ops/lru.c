/*
 * lru.c - real-gated linear recurrent units over the positions of a sequence (De et al. 2024, "Griffin"), whose decays
 * are computed before.
 */
#include <math.h>
#include <string.h>

#include "run/operation.h"

#define COLS 64 /* columns of an item */

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_lru *op = &o->lru;

	return op->n_col > 0 && place_ok(&op->state) && col_ok(p, op->src.buf, op->src.col, op->n_col) &&
	       col_ok(p, op->decay.buf, op->decay.col, op->n_col) && buf_ok(p, op->dst, op->n_col);
}

/* Columns i .. i + n of tokens t0 .. t1, which are those of a sequence. */
static void sequence(const struct run *c, const struct qn_lru *op, int64_t t0, int64_t t1, int64_t i, int n)
{
	static const float ones[QN_PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	const float *before = batch_state(c->batch, &op->state, t0, 0);
	float *after = batch_state(c->batch, &op->state, t0, 1) + i;
	float h[COLS] = {0}, log[COLS] = {0}, a[COLS];

	if (before)
		memcpy(h, before + i, sizeof *h * (size_t)n);
	for (int64_t t = t0; t < t1; t++) {
		const float *x = buf_row(c, op->src.buf, t) + op->src.col + i;
		float *y = buf_row(c, op->dst, t) + i;

		memcpy(log, buf_row(c, op->decay.buf, t) + op->decay.col + i, sizeof *log * (size_t)n);
		qn_kernels.scan_decays(a, ones, log, (n + QN_PANEL - 1) / QN_PANEL);
		for (int k = 0; k < n; k++) {
			const float share = t == t0 && !before ? 1 : sqrtf(1 - a[k] * a[k]);

			h[k] = a[k] * h[k] + share * x[k];
		}
		memcpy(y, h, sizeof *y * (size_t)n);
	}
	memcpy(after, h, sizeof *after * (size_t)n);
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_lru *op = &o->lru;
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->pool, c->ith, (op->n_col + COLS - 1) / COLS);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t i = item * COLS, left = op->n_col - i;

		for (int64_t t0 = 0, t1; t0 < b->n_tok; t0 = t1) {
			t1 = batch_run(b, t0);
			sequence(c, op, t0, t1, i, (int)(left < COLS ? left : COLS));
		}
	}
}

const struct operation op_lru = {.check = check, .counters = 1, .run = run};
