/* ngram.c - embeddings of the last tokens of a sequence: hashes of their ids are rows of a table. */
#include <string.h>

#include "run/operation.h"

#define TOKENS_MAX 16

static int check(const struct plan *p, const struct qn_op *op)
{
	const struct qn_mat *m = &op->mat[0];

	if (!mat_ok(m) || m->layout != QN_ROWS || m->n_mat != 1 || !op->hash || op->n_tap < 2 ||
	    op->n_tap > TOKENS_MAX || op->n_seg < 1 || op->n_seg % (op->n_tap - 1) != 0 || op->group < 0 ||
	    op->kv_offset < 0 || op->kv_offset % 64 != 0 || !buf_ok(p, op->dst, (int64_t)op->n_seg * m->n_in))
		return 0;
	for (int i = 0; i < op->n_seg; i++) {
		const uint64_t rows = (uint64_t)m->n_out, size = op->hash[op->n_tap + i];

		if (size < 1 || size > rows || op->hash[op->n_tap + op->n_seg + i] > rows - size)
			return 0;
	}
	return 1;
}

/* The id `back` tokens before t, which is of the sequence that begins at t0 in the batch; -1 where there is none. */
static int32_t token(const struct run *c, const struct qn_op *op, int64_t t0, int64_t t, int back)
{
	const int32_t *before = (const int32_t *)batch_state(c->batch, op, t0, 0);
	const int64_t at = t - back - t0;

	if (at >= 0)
		return c->batch->tok[t - back];
	return before ? before[op->n_tap - 1 + at] - 1 : -1;
}

/* The rows of token t, of a sequence that begins at t0 in the batch, or at least n_tap tokens before it. */
static void look_up(const struct run *c, const struct qn_op *op, int64_t t0, int64_t t)
{
	const struct qn_mat *m = &op->mat[0];
	const int64_t bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	const int each = op->n_seg / (op->n_tap - 1);
	uint64_t mixed = op->hash[0] * (uint64_t)c->batch->tok[t];
	int32_t x = c->batch->tok[t];
	float *y = buf_row(c, op->dst, t);
	int ended = 0;

	for (int i = 0; i < op->n_seg; i++) {
		if (i % each == 0) { /* one token more */
			const int back = i / each + 1;

			x = ended ? op->stop : token(c, op, t0, t, back);
			ended = ended || x < 0 || x == op->stop;
			mixed ^= op->hash[back] * (uint64_t)(ended ? op->stop : x);
		}

		const uint64_t row = mixed % op->hash[op->n_tap + i] + op->hash[op->n_tap + op->n_seg + i];

		qn_dequantize(m->type, y + (int64_t)i * m->n_in, (const uint8_t *)m->data + (int64_t)row * bytes,
		              m->n_in);
	}
}

static void run(struct run *c, const struct qn_op *op)
{
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->ith, c->nth, b->n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		int64_t t0 = t;

		while (t0 > 0 && t - t0 < op->n_tap && b->seq[t0 - 1] == b->seq[t])
			t0--;
		look_up(c, op, t0, t);
	}
	run_barrier(c); /* what was before a sequence is read */
	for (int64_t t0 = 0, t1; c->ith == 0 && t0 < b->n_tok; t0 = t1) {
		int32_t last[TOKENS_MAX];
		const int n = op->n_tap - 1;

		t1 = batch_run(b, t0);
		for (int i = 0; i < n; i++)
			last[i] = token(c, op, t0, t1 - 1, n - 1 - i) + 1;
		memcpy(batch_state(b, op, t0, 1), last, sizeof *last * (size_t)n);
	}
}

const struct operation op_ngram = {.check = check, .counters = 1, .run = run};
