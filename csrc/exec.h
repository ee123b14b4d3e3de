/* exec.h - what the operations of a plan share while it runs. */
#ifndef QN_EXEC_H
#define QN_EXEC_H

#include "kernels.h"
#include "pool.h"
#include "quern.h"

/* Bounds of a mixture of experts; choosing takes time in their product. */
#define QN_EXPERTS_MAX 4096
#define QN_USED_MAX 256

/* As qn_pack(), of a panel that nobody reads soon: it is written past the caches. */
int pack_away(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in);

/* One thread's view of a run. */
struct run {
	struct qn_pool *pool;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch; /* this thread's own */
	size_t scratch_each; /* from one thread's to the next one's */
	int ith, nth;
	int step; /* the next unused counter of the pool */
};

/* The routing of a batch through experts. Lies in a buffer, followed by the arrays it points to. */
struct route {
	int32_t *offset; /* [n_expert + 1] first pair of each expert */
	int32_t *tok;    /* [n_pairs] token of each pair */
	int32_t *pair;   /* [n_tok][n_used] pair of each token's choices, best first */
	int32_t *expert; /* [n_tok][n_used] */
	float *weight;   /* [n_tok][n_used] */
};
struct route route_of(const struct qn_buf *buf, int64_t n_tok, int32_t n_expert, int32_t n_used);

static inline float *buf_row(const struct run *c, int i, int64_t row)
{
	return (float *)c->bufs[i].data + row * c->bufs[i].width;
}

/* Block i of a buffer of activations. */
static inline void *act_block(const struct run *c, int buf, enum qn_act kind, int64_t i)
{
	return (uint8_t *)c->bufs[buf].data + i * act_bytes(kind);
}

/* Rows that op works on. */
static inline int64_t op_rows(const struct run *c, const struct qn_op *op)
{
	switch (op->rows) {
	case QN_ROWS_OUT:
		return c->batch->n_out;
	case QN_ROWS_PAIR:
		return (int64_t)c->batch->n_tok * op->n_used;
	default:
		return c->batch->n_tok;
	}
}

void op_matmul(struct run *c, const struct qn_op *op);
size_t matmul_scratch(const struct qn_op *op);

void op_qkv(struct run *c, const struct qn_op *op);
void op_attend(struct run *c, const struct qn_op *op);
size_t attend_scratch(const struct qn_op *op);

void op_moe_route(struct run *c, const struct qn_op *op);
void op_moe_gather(struct run *c, const struct qn_op *op);
void op_moe_combine(struct run *c, const struct qn_op *op);

#endif
