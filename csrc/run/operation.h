/* operation.h - the operations that a plan can have, one row each. */
#ifndef QN_RUN_OPERATION_H
#define QN_RUN_OPERATION_H

#include "run/plan.h"
#include "run/run.h"

/* How an operation uses the routing of tokens to experts. */
enum routing {
	ROUTING_NONE = 0,
	ROUTING_PAIRS, /* reads op->routing, where its rows are QN_ROWS_PAIR */
	ROUTING_READS, /* reads it */
	ROUTING_WRITES, /* writes it */
};

struct operation {
	/* 1 where every size, type and buffer number of op is one that run() can take. */
	int (*check)(const struct plan *p, const struct qn_op *op);
	/* Bytes of scratch for each thread; NULL: none. */
	size_t (*scratch)(const struct qn_op *op);
	/* Counters of the pool that run() deals items with: c->step and those after it. */
	int counters;
	enum routing routing;
	int by_head; /* its rows may be QN_ROWS_HEAD */
	/* What it reads of weights, keys and values in this run, and multiplies with; NULL: nothing to speak of. */
	struct qn_ticks_op (*moves)(const struct run *c, const struct qn_op *op);
	/* This thread's share of the work. The next operation begins when all threads are back. */
	void (*run)(struct run *c, const struct qn_op *op);
};

/* The enum qn_op_kind of each, and the struct operation that its file defines. */
#define QN_OPERATIONS(X)                      \
	X(QN_OP_EMBED, op_embed)              \
	X(QN_OP_ROPE_TABLE, op_rope_table)    \
	X(QN_OP_GATHER, op_gather)            \
	X(QN_OP_NORM, op_norm)                \
	X(QN_OP_NORM_ROWS, op_norm_rows)      \
	X(QN_OP_ACT, op_act)                  \
	X(QN_OP_GATE, op_gate)                \
	X(QN_OP_MATMUL, op_matmul)            \
	X(QN_OP_QKV, op_qkv)                  \
	X(QN_OP_ATTEND, op_attend)            \
	X(QN_OP_CONV, op_conv)                \
	X(QN_OP_DELTA, op_delta)              \
	X(QN_OP_SCAN, op_scan)                \
	X(QN_OP_MOE_ROUTE, op_moe_route)      \
	X(QN_OP_MOE_GATHER, op_moe_gather)    \
	X(QN_OP_MOE_COMBINE, op_moe_combine)  \
	X(QN_OP_XIELU, op_xielu)              \
	X(QN_OP_SPARSE, op_sparse)            \
	X(QN_OP_MATCH, op_match)              \
	X(QN_OP_MIX, op_mix)                  \
	X(QN_OP_SELECT, op_select)            \
	X(QN_OP_ADAPT, op_adapt)              \
	X(QN_OP_BLEND, op_blend)              \
	X(QN_OP_WKV, op_wkv)                  \
	X(QN_OP_COMPRESS, op_compress)        \
	X(QN_OP_CONNECT, op_connect)          \
	X(QN_OP_ALIGN, op_align)              \
	X(QN_OP_NGRAM, op_ngram)              \
	X(QN_OP_DECAY, op_decay)              \
	X(QN_OP_LRU, op_lru)                  \
	X(QN_OP_MOE_HEADS, op_moe_heads)      \
	X(QN_OP_INPUT, op_input)              \
	X(QN_OP_SHARE, op_share)              \
	X(QN_OP_LOSS, op_loss)                \
	X(QN_OP_SCATTER, op_scatter)          \
	X(QN_OP_BACK_X, op_back_x)            \
	X(QN_OP_BACK_LOW, op_back_low)        \
	X(QN_OP_BACK_NORM, op_back_norm)      \
	X(QN_OP_BACK_GATE, op_back_gate)      \
	X(QN_OP_BACK_QKV, op_back_qkv)        \
	X(QN_OP_BACK_ATTEND, op_back_attend)  \
	X(QN_OP_BACK_W, op_back_w)            \
	X(QN_OP_BACK_V, op_back_v)            \
	X(QN_OP_BACK_EMBED, op_back_embed)    \
	X(QN_OP_BACK_XIELU, op_back_xielu)    \
	X(QN_OP_BACK_ROUTE, op_back_route)    \
	X(QN_OP_BACK_COMBINE, op_back_combine) \
	X(QN_OP_BACK_PAIRS, op_back_pairs)    \
	X(QN_OP_BLOCKS, op_blocks)

#define QN_DECLARE(kind, name) extern const struct operation name;
QN_OPERATIONS(QN_DECLARE)
#undef QN_DECLARE

/* The operation of an enum qn_op_kind, NULL where there is none. */
const struct operation *operation_of(int32_t kind);

#endif
