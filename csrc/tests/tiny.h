/*
 * tiny.h - a small model as a plan: every kind of operation, one layer with a dense and a sparse
 * feed-forward. For check_ops.c and run/plan.c.
 */
#ifndef QN_TESTS_TINY_H
#define QN_TESTS_TINY_H

#include "check.h"

enum {
	N_EMBD = 512,
	N_FF = 288, /* blocks of 32 only, and not of 256 */
	N_FF_EXP = 256,
	N_VOCAB = 50, /* not whole panels */
	N_EXPERT = 5,
	N_USED = 2,
	N_TOK = 23,
	N_SEQ = 4,
	KV_COLS = 18,
	N_KV_BLOCKS = 24,
	KV_GROUP = 1, /* of the batch; the one before it is nobody's */
	N_GROUP = 2,
};

/* Buffers. Activations have one for each kind. */
enum {
	X, ROPE, ACT, QKV = ACT + QN_N_ACT, ATT, FF, ROUTER, ROUTE, PAIR, PAIR_FF = PAIR + QN_N_ACT,
	PAIR_FF_ACT, PAIR_OUT = PAIR_FF_ACT + QN_N_ACT, LAST, LOGITS, HEADS, VALUES = HEADS + QN_N_ACT, N_BUFS
};

/* What differs from one model to another. */
struct shape {
	const char *name;
	int n_head, n_head_kv, head_dim, n_rot, rope, k_type, v_type;
	int window, sinks, span; /* span: of biases by distance; 0: none */
	float softcap;
	int norm_heads; /* q and k are normalised */
	int norm_weights;
	int qkv[3], out, up, down, exp_up, exp_down, embed, logits; /* types */
	int v_dim;   /* 0: head_dim */
	int layer;   /* layer norms with biases, norms into rows, gated attention, rotations before norms */
	int fn;      /* enum qn_fn of the dense feed-forward */
	int plain;   /* which has no gate */
	float cap;   /* of the logits */
	int chunked; /* the window is the length of chunks */
	int mul;     /* channels of queries, keys, values and results have factors */
	int latent;  /* values are channels of keys; so many of a query become v_dim by a matrix of each head */
	int ahead;   /* positions that a token sees after its own */
	int relative; /* numbers of a head that pairs of positions have by their distance; 0: none */
};
static inline int tiny_v_dim(const struct shape *s)
{
	return s->v_dim ? s->v_dim : s->head_dim;
}
/* Bytes of K and V of a kv head in a block. */
int64_t tiny_kv_bytes(const struct shape *s);
extern const struct shape tiny_shapes[];
extern const int tiny_n_shapes;

#define TINY_MATS 18
#define TINY_OPS 33

/* A model with its weights in all layouts. Its memory is guard_alloc()'s. */
struct tiny {
	const struct shape *shape;
	struct qn_op ops[TINY_OPS];
	int n_ops;
	struct {
		void *rows, *x16, *x12; /* x12: NULL but of BF16 */
	} mats[TINY_MATS];
	int n_mats;
	uint8_t *kv_start; /* the KV pool before the batch */
	int64_t kv_block_bytes, kv_bytes, kv_offset;
	int32_t tok[N_TOK], pos[N_TOK], seq[N_TOK];
	int32_t kv_table[N_SEQ][KV_COLS];
};

void tiny_new(struct tiny *t, const struct shape *shape);

/*
 * Points the plan's weights at one layout, or at rows and panels by turns. With QN_X12 weights of other types than BF16
 * are QN_X16.
 */
#define TINY_BY_TURNS (-1)
void tiny_layout(struct tiny *t, int layout);

/* Buffers for a batch, each ending at an unmapped page; tiny_close() frees them. */
struct tiny_run {
	struct qn_buf bufs[N_BUFS];
	size_t bytes[N_BUFS];
	struct qn_group groups[N_GROUP];
	struct qn_batch batch;
	int32_t out[N_TOK];
	struct guard guards[N_BUFS];
};

/* A batch of tokens from .. to over the KV pool at kv; logits wanted of each `every`th token. */
void tiny_open(struct tiny_run *r, const struct tiny *t, void *kv, int from, int to, int every);
void tiny_close(struct tiny_run *r);

#endif
