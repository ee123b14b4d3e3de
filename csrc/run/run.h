/* run.h - a plan while it runs, as one of the threads sees it. */
#ifndef QN_RUN_RUN_H
#define QN_RUN_RUN_H

#include "kernels.h"
#include "quern.h"
#include "run/pool.h"

struct run {
	struct qn_pool *pool;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch; /* this thread's own */
	size_t scratch_each; /* from one thread's to the next one's */
	int ith, nth;
	int step; /* the first of the pool's counters that are the operation's */
	struct qn_ticks_time *time; /* of this operation and thread; NULL: nobody asks */
};

/* Waits inside an operation for the other threads. */
static inline void run_barrier(struct run *c)
{
	pool_wait(c->pool, c->ith, c->time);
}

static inline float *buf_row(const struct run *c, int i, int64_t row)
{
	return (float *)c->bufs[i].data + row * c->bufs[i].width;
}

static inline float *cols_row(const struct run *c, struct qn_cols at, int64_t row)
{
	return buf_row(c, at.buf, row) + at.col;
}

/* Block i of a buffer of activations. */
static inline void *act_block(const struct run *c, int buf, enum qn_act kind, int64_t i)
{
	return (uint8_t *)c->bufs[buf].data + i * act_bytes(kind);
}

/* The kind of activations that a product with a type takes of those that are there: 16 bits where it has the choice. */
static inline enum qn_act act_of(const int32_t *act, int32_t type)
{
	const enum qn_act kind = qn_type_act(type), wide = kind - QN_ACT_Q8_256 + QN_ACT_Q16_256;

	return kind != QN_ACT_F32 && kind != QN_ACT_BF16 && act[wide] >= 0 ? wide : kind;
}

/* Adds the squares of what a product multiplies by to a tap: each thread those of its columns. */
void run_tap(const struct run *c, const struct qn_op *op, const struct qn_tap *tap);

/* Rows that op works on. */
static inline int64_t op_rows(const struct run *c, const struct qn_op *op)
{
	switch (op->rows) {
	case QN_ROWS_OUT:
		return c->batch->n_out;
	case QN_ROWS_PAIR:
		return (int64_t)c->batch->n_tok * op->routing.n_used;
	case QN_ROWS_HEAD:
		return (int64_t)c->batch->n_tok * op->heads.n;
	default:
		return c->batch->n_tok;
	}
}

/* The token after the last that is of the same sequence as token t. */
static inline int64_t batch_run(const struct qn_batch *b, int64_t t)
{
	int64_t end = t + 1;

	while (end < b->n_tok && b->seq[end] == b->seq[t])
		end++;
	return end;
}

/* The part at `at` of the KV block that holds position pos of token t's sequence. */
static inline uint8_t *kv_part(const struct run *c, const struct qn_place *at, int64_t t, int64_t pos)
{
	const struct qn_group *g = &c->batch->groups[at->group];
	const int64_t block = g->table[(int64_t)c->batch->seq[t] * g->cols + pos / QN_KV_BLOCK];

	return (uint8_t *)g->data + block * g->unit_bytes + at->offset;
}

/* The row of a table that token t looks up by an index. */
static inline int64_t batch_row(const struct qn_batch *b, enum qn_index index, int64_t t)
{
	switch (index) {
	case QN_INDEX_TOK:
		return b->tok[t];
	case QN_INDEX_POS:
		return b->pos[t];
	case QN_INDEX_OWN:
		return b->pos[t] - b->source[b->seq[t]];
	case QN_INDEX_TEXT:
		return b->second[b->seq[t]] > 0 && b->pos[t] >= b->second[b->seq[t]];
	default:
		return 0;
	}
}

/* The state at `at` of token t's sequence before or after the batch; NULL: zeros. */
static inline float *batch_state(const struct qn_batch *b, const struct qn_place *at, int64_t t, int after)
{
	const struct qn_group *g = &b->groups[at->group];
	const int32_t unit = g->table[(int64_t)b->seq[t] * g->cols + after];

	return unit < 0 ? NULL : (float *)((uint8_t *)g->data + unit * g->unit_bytes + at->offset);
}

#endif
