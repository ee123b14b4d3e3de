/* ngram.c - embeddings of the last tokens of a sequence: hashes of their ids are rows of a table. */
#include <string.h>

#include "run/operation.h"

#define TOKENS_MAX 16

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_ngram *op = &o->ngram;
	const struct qn_mat *m = &op->table;

	if (!mat_ok(m) || m->layout != QN_ROWS || m->n_mat != 1 || !op->hash || op->n_token < 2 ||
	    op->n_token > TOKENS_MAX || op->n_hash < 1 || op->n_hash % (op->n_token - 1) != 0 ||
	    !place_ok(&op->state) ||
	    !buf_ok(p, op->dst, (int64_t)op->n_hash * m->n_in))
		return 0;
	for (int i = 0; i < op->n_hash; i++) {
		const uint64_t rows = (uint64_t)m->n_out, size = op->hash[op->n_token + i];

		if (size < 1 || size > rows || op->hash[op->n_token + op->n_hash + i] > rows - size)
			return 0;
	}
	return 1;
}

/* The id `back` tokens before t, which is of the sequence that begins at t0 in the batch; -1 where there is none. */
static int32_t token(const struct run *c, const struct qn_ngram *op, int64_t t0, int64_t t, int back)
{
	const int32_t *before = (const int32_t *)batch_state(c->batch, &op->state, t0, 0);
	const int64_t at = t - back - t0;

	if (at >= 0)
		return c->batch->tok[t - back];
	return before ? before[op->n_token - 1 + at] - 1 : -1;
}

/* The rows of token t, of a sequence that begins at t0 in the batch, or at least n_token tokens before it. */
static void look_up(const struct run *c, const struct qn_ngram *op, int64_t t0, int64_t t)
{
	const struct qn_mat *m = &op->table;
	const int64_t bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	const int each = op->n_hash / (op->n_token - 1);
	uint64_t mixed = op->hash[0] * (uint64_t)c->batch->tok[t];
	int32_t x = c->batch->tok[t];
	float *y = buf_row(c, op->dst, t);
	int ended = 0;

	for (int i = 0; i < op->n_hash; i++) {
		if (i % each == 0) { /* one token more */
			const int back = i / each + 1;

			x = ended ? op->stop : token(c, op, t0, t, back);
			ended = ended || x < 0 || x == op->stop;
			mixed ^= op->hash[back] * (uint64_t)(ended ? op->stop : x);
		}

		const uint64_t row = mixed % op->hash[op->n_token + i] + op->hash[op->n_token + op->n_hash + i];

		qn_dequantize(m->type, y + (int64_t)i * m->n_in, (const uint8_t *)m->data + (int64_t)row * bytes,
		              m->n_in);
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_ngram *op = &o->ngram;
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->pool, c->ith, b->n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		int64_t t0 = t;

		while (t0 > 0 && t - t0 < op->n_token && b->seq[t0 - 1] == b->seq[t])
			t0--;
		look_up(c, op, t0, t);
	}
	run_barrier(c); /* what was before a sequence is read */
	for (int64_t t0 = 0, t1; c->ith == 0 && t0 < b->n_tok; t0 = t1) {
		int32_t last[TOKENS_MAX];
		const int n = op->n_token - 1;

		t1 = batch_run(b, t0);
		for (int i = 0; i < n; i++)
			last[i] = token(c, op, t0, t1 - 1, n - 1 - i) + 1;
		memcpy(batch_state(b, &op->state, t0, 1), last, sizeof *last * (size_t)n);
	}
}

const struct operation op_ngram = {.check = check, .counters = 1, .run = run};
