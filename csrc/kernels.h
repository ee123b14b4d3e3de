/*
 * kernels.h - the table of kernels, one slot per operation.
 *
 * Every slot has a scalar version, which is the specification. A vector version computes the same
 * bits: integer sums are exact, and float sums have the order that the slot's comment gives.
 */
#ifndef QN_KERNELS_H
#define QN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "format/types.h"
#include "quern_types.h"

/* 256 activations in 8 bits. Sums of each 16 and each 32 of them serve minimums and offsets of the weights. */
struct act8 {
	int8_t qs[QN_ACT_BLOCK];
	union {
		struct { /* QN_ACT_Q8_256: x = d * q */
			int16_t sum16[QN_ACT_BLOCK / 16], sum32[QN_ACT_BLOCK / 32];
			float d;
			int32_t most16;  /* the largest sum of the magnitudes of 16 */
			float unused[2]; /* rounds the block up to five cache lines */
		};
		struct { /* QN_ACT_Q8_32 and QN_ACT_Q8_32_16: x = d32[k / 32] * q */
			float d32[QN_ACT_BLOCK / 32];
			union {
				float fsum32[QN_ACT_BLOCK / 32];
				int16_t half_sum[QN_ACT_BLOCK / 16]; /* QN_ACT_Q8_32_16: of each 16 */
			};
		};
	};
};
_Static_assert(sizeof(struct act8) == 320, "stride of the kernels");

/* 256 activations as floats. */
struct actf {
	float x[QN_ACT_BLOCK];
};

/* 256 activations as BF16, of QN_ACT_BF16; zeros beyond the end of a row. */
struct actb {
	uint16_t x[QN_ACT_BLOCK];
};

/* Bytes of 256 activations of a kind. */
static inline int64_t act_bytes(enum qn_act kind)
{
	if (kind == QN_ACT_F32)
		return sizeof(struct actf);
	if (kind == QN_ACT_BF16)
		return sizeof(struct actb);
	return kind < QN_ACT_Q16_256 ? sizeof(struct act8) : 2 * sizeof(struct act8);
}

/* Kinds that kernels know: those behind them are two blocks of 8 bits each, of the kind that act_half() returns. */
#define QN_N_ACT_ONE ((int)QN_ACT_Q16_256)

static inline enum qn_act act_half(enum qn_act kind)
{
	return kind < QN_ACT_Q16_256 ? kind : kind - QN_ACT_Q16_256 + QN_ACT_Q8_256;
}

/* Number k of 8 bits in a block. */
static inline float act8_at(const struct act8 *a, enum qn_act kind, int k)
{
	return (kind == QN_ACT_Q8_256 ? a->d : a->d32[k / 32]) * (float)a->qs[k];
}

#define QN_N_KV_TYPES 6 /* one more than the largest enum qn_kv_type */
#define QN_TILE_MAX 256 /* tokens that any product kernel takes at once, at most */

/*
 * out[t][r] = row r of the panel times activations t, for t < n: [n][16] floats.
 * act: the first token's first block; token t is at act[t], column block b at act[b * n_act].
 * act is what qn_type_act() says.
 */
typedef void mm_fn(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n);

/* The same for two panels of a type and at least QN_PAIR_MIN tokens, as panel and panel2: [2][n][16] floats. */
typedef void mm_pair_fn(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                        int64_t n_act, int n);

#define QN_PAIR_MIN 6

/* Products by type, and behind them the one of BF16 panels of layout QN_X12. */
enum { QN_MM_TWELVE = QN_N_TYPES, QN_N_MM };

#define BF16_RUN 32 /* columns of a BF16 product whose sums are added to the row's together */

/*
 * Rows of queries and what attention over one KV block needs of them: see attn.c of the scalar set.
 * A row is one query head of one token. Every row of a call sees some position of the block.
 */
struct attn_rows {
	float *o;            /* [n][v_dim] weighted sums of values */
	float *m, *l;        /* [n] running maximum, running sum */
	float *e;            /* [n][64] scores, then weights; nothing once the values are taken */
	float *c;            /* [n] factor for what o held before */
	const void *q;       /* [n] queries by kv_query(), q_bytes apart */
	const float *qd;     /* [n] their scales */
	const int32_t *qsum; /* [n] 128 times the sum of their integers, for 8-bit keys */
	const int32_t *from, *lim; /* [n] the row sees positions from .. lim - 1 of this block; both rising */
	const float *const *bias; /* [n] what is added to a row's scores, [64] that count times log2 e; or NULL */
	const float *cap;    /* [n] of the softcap of a row's scores, times log2 e; or NULL */
	int n, head_dim, v_dim; /* v_dim: of a value, rounded up to 16 */
	int64_t q_bytes;
	const uint8_t *ahead; /* what to ask for as K or V is read, as large: that of the next block, or itself */
};
#define QN_ATTN_ROWS 24 /* rows of one call, at most */

typedef void attn_fn(const struct attn_rows *a, const void *kv);

/*
 * Tokens of a sequence in one head of the gated delta rule: see scalar/delta.c. The state is panels of 16 columns,
 * [panels][dk][16]; before and after are different units, or the same.
 */
struct delta_rows {
	const float *q, *k, *v; /* of the first token; those of the next one are `stride` floats on */
	float *o;               /* likewise, o_stride */
	int64_t stride, k_stride, o_stride; /* of q and v, of k, of o */
	const float *decay, *beta; /* [n] */
	/* Where rows of the state decay apart, their decays and keys as these meet them, g_stride apart; else NULL. */
	const float *g, *gk;
	/* Where what a key finds goes elsewhere than the value: where it goes, and there is no beta; else NULL. */
	const float *to;
	int64_t g_stride; /* of g, gk, to */
	const float *before;
	float *after;
	int n, dk, panels; /* n > 0 */
	float scale;       /* of o */
};
#define QN_DELTA_TOKENS 64 /* of one call, at most */

/*
 * Tokens of a sequence in panels of 16 columns of a selective state space: see scalar/scan.c. The state is
 * [panels][n_state][16]; before and after are different units, or the same.
 */
struct scan_rows {
	const float *x, *b, *c; /* of the first token; those of the next one are `stride` floats on */
	float *o;               /* likewise, o_stride */
	int64_t stride, o_stride;
	const float *dt, *decay; /* [n]; by_channel: [n][16] and [n][n_state][16] */
	const float *d;          /* [panels][16] */
	const float *before;
	float *after;
	int n, n_state, panels; /* n > 0; by_channel: one panel */
	int by_channel;
};
#define QN_SCAN_TOKENS 64 /* of one call, at most */

/*
 * y[i][j] = the sum over k < depth of a[i * a_row + k * a_col] * b[k * b_row + j], added to y where add is set: a chain
 * of fma over k, from 0 or from y. So it may be cut at any depth. y is none of the others.
 */
struct product {
	float *y;
	const float *a, *b;
	int64_t y_row, a_row, a_col, b_row;
	int64_t rows, cols, depth;
	int add;
};

/* A step of AdamW: see qn_adamw(). */
struct adamw {
	float scale;        /* of the gradient */
	float beta1, beta2;
	float correction1, correction2; /* bias corrections of moments: 1 / (1 - beta^step) */
	float rate, decay, eps;
};

/* The logits that are weighed, and how: see qn_logits_weigh(). */
struct logits_range {
	float top, scale, from, to;
};

typedef void fn_fn(float *y, const float *g, const float *u, int64_t n);

struct kernels {
	mm_fn *mm[QN_N_MM];
	int mm_tile[QN_N_MM]; /* tokens the kernel takes at once: 1 .. QN_TILE_MAX */
	mm_pair_fn *mm_pair[QN_N_MM]; /* NULL where two panels at once are no faster than one by one */

	/*
	 * y = 2 * code + add, for n bytes of two codes: of parts of them, a multiple of 16 bytes, first the low
	 * bits, then the high. Asks for the n bytes at `ahead`, part by part.
	 */
	void (*kv_expand)(uint8_t *y, const uint8_t *x, int64_t n, int64_t part, int add, const uint8_t *ahead);
	/*
	 * q = the integers nearest to x / *d, ties to even, n of them, and zeros up to `to`. 1 / *d is the least of
	 * top / max|x| and, where length is not 0, length / |x|; *d is 0 for a vector of next to nothing, NaN for one
	 * that is not finite, and q is then zeros.
	 */
	void (*kv_round)(int16_t *q, float *d, const float *x, int n, int64_t to, float top, float length);
	/* y = x as F16, saturated, or as BF16; n floats. */
	void (*kv_halves)(int type, uint16_t *y, const float *x, int n);
	void (*kv_hadamard)(float *x, int n);
	/* Codes of Q4 and their scale *d for a head of n, which is transformed first; zeros up to a multiple of 16. */
	void (*kv_codes)(uint8_t *code, float *d, const float *x, int n);
	attn_fn *attn_scores[QN_N_KV_TYPES]; /* e = scores, by the type of K, but Q4 */
	void (*attn_weights)(const struct attn_rows *a); /* e, m, l, c: the step of the online softmax */
	attn_fn *attn_values[QN_N_KV_TYPES]; /* o = o * c + e V, by the type of V, but Q4 */

	/* Sum of squares of n floats: 16 lanes by i % 16, each a chain of fma; halves added 8, 4, 2, 1. */
	float (*sumsq)(const float *x, int64_t n);
	/* y = (x * r) * w; n floats. w may be NULL, for ones. */
	void (*scale_rows)(float *y, const float *x, float r, const float *w, int64_t n);
	/* A block of n <= 256 floats as activations of a kind below QN_N_ACT_ONE, not QN_ACT_F32; then zeros. */
	void (*quantize)(void *y, const float *x, int n, enum qn_act kind);
	/* Sum of n floats, and of (x - mean)^2: in lanes and added as those of sumsq. */
	float (*sum)(const float *x, int64_t n);
	float (*sumsq_about)(const float *x, float mean, int64_t n);
	/* y = ((x - mean) * r) * w + b; n floats. w may be NULL, for ones, and b, for zeros. */
	void (*affine)(float *y, const float *x, float mean, float r, const float *w, const float *b, int64_t n);
	/* y = y + s * x. */
	void (*add_scaled)(float *y, const float *x, float s, int64_t n);
	/* y = fn(g) * u, by enum qn_fn. u may be NULL, for ones. */
	fn_fn *fn[QN_N_FN];
	/* y = the derivative of fn at g, times u; NULL where there is none. */
	fn_fn *derivative[QN_N_FN];
	/* y = cap * tanh(x / cap). */
	void (*softcap)(float *y, const float *x, float cap, int64_t n);
	/* x = n numbers of x that are at most top, and no less than low; NaN stays NaN. */
	void (*clamp)(float *x, float low, float top, int64_t n);
	/* x = xIELU of x, by its a of x > 0, a of the others, b, and epsilon: see QN_OP_XIELU. */
	void (*xielu)(float *x, const float by[4], int64_t n);
	/*
	 * y[t][r] = (x[t][r] + bias[r]) * scale, r < 16, t < n; added to y where add is set. Rows of y are
	 * stride floats apart. bias may be NULL.
	 */
	void (*store_tile)(float *y, int64_t stride, const float *x, const float *bias, float scale, int n, int add);
	/* Rotates pairs of x by cs: [n_pairs] of (cos, sin). neox: pairs i, i + n_pairs; else 2i, 2i + 1. */
	void (*rope)(float *x, const float *cs, int n_pairs, int neox);
	/* Merges part b (m, l, o) of an attention row of n values into a; both over different keys. */
	void (*attn_merge)(float *oa, float *ma, float *la, const float *ob, float mb, float lb, int n);

	/* Sum of x * y, of n floats: in lanes and added as that of sumsq. */
	float (*dot)(const float *x, const float *y, int64_t n);
	/* y = e^(x - top); n floats. */
	void (*exp_from)(float *y, const float *x, float top, int64_t n);
	/* See struct product. */
	void (*multiply)(const struct product *p);
	/* With g = scale * d: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and x is moved; n floats. */
	void (*adamw)(const struct adamw *s, float *x, float *m, float *v, const float *d, int64_t n);

	double int8_per_round; /* multiply-adds of one round of int8_rounds */
	void (*int8_rounds)(int64_t n);

	/* The gated delta rule. */
	void (*delta)(const struct delta_rows *d);
	/* decay = exp(rate * softplus(a + dt)), beta = sigmoid(b); n floats. */
	void (*delta_gates)(float *decay, float *beta, const float *a, const float *b, float dt, float rate, int64_t n);
	/* The selective scan. */
	void (*scan)(const struct scan_rows *s);
	/* y = log(1 + e^x); n floats. */
	void (*softplus)(float *y, const float *x, int64_t n);
	/* y[i][j] = exp(dt[j] * rate[i][j]), j < 16, i < n. */
	void (*scan_decays)(float *y, const float *dt, const float *rate, int64_t n);
	/* y = sum over i < n_tap of w[i] * u[i], each product rounded and added in this order; w: [n_tap][n]. */
	void (*conv)(float *y, const float *const *u, const float *w, int n_tap, int64_t n);

	/*
	 * Of n logits, a multiple of 16: see qn_logits_peaks() and those after it. Sums are in 16 lanes by i % 16, in
	 * order, halves then added 8, 4, 2, 1. Below -100 v counts as -100, and w is 0.
	 */
	void (*logits_peaks)(float *peak, const float *x, int64_t n);
	void (*logits_weigh)(struct qn_mass *mass, const float *x, int64_t n, const struct logits_range *r);
	/* of = how many are finite, the sum of x - mid, and of its square. */
	void (*logits_spread)(float of[3], const float *x, int64_t n, float mid);
	int64_t (*logits_select)(struct qn_token *y, int64_t room, const float *x, int64_t n, int32_t id, float from,
	                         float to);
	int64_t (*logits_count)(const float *x, int64_t n, float from, float to);
	/* rank[i] = how many of n logits, none NaN, are larger than x[i], or equal and before it. */
	void (*logits_ranks)(int32_t *rank, const float *x, int64_t n);
	/* w[i] = what logits_weigh() adds of x[i], at[i] = (to - x[i]) per, from 0 to `last`, which NaN has. */
	void (*logits_bins)(float *w, float *at, const float *x, int64_t n, const struct logits_range *r, float per,
	                    float last);
};

/* Bytes of a block of a known type: rows may have a few before the first. */
int64_t block_bytes(int32_t type);

/* What follows is of the library alone: no detour through the addresses that a shared object may replace. */
#pragma GCC visibility push(hidden)

/* The kernels in use. Written by qn_init() and by nothing else. */
extern struct kernels qn_kernels;

/*
 * How many bytes ahead of use kernels ask for weights; 0: they do not, nor attention for the next KV
 * block. Written by qn_init(): some CPUs' own prefetch is better left alone, others' needs it.
 */
extern int32_t qn_ahead;

/*
 * The same where a loop does little between two loads: few tokens of the types of has_short_loop() in
 * tmpl/matmul_int.h, and reading alone. Some CPUs' own prefetch keeps up with those, and with nothing else. Written by
 * qn_init().
 */
extern int32_t qn_ahead_short;

/*
 * The same of each of two panels that are used at once: two streams, so that twice as much is on its way. Written by
 * qn_init().
 */
extern int32_t qn_ahead_pair;

/*
 * Not 0: where memory is the limit, weights are asked for in lanes. While AHEAD_LANES pages are used, one after the
 * other, the next ones are asked for, all at once. Written by qn_init().
 */
extern int32_t qn_ahead_lanes;

#pragma GCC visibility pop

enum {
	AHEAD_LANES = 4,
	AHEAD_PAGE = 4096,
	AHEAD_FEW = 3, /* tokens, at most, for which memory is the limit */
	AHEAD_SHORT = 4, /* tokens, at most, of a short loop */
};

/* Asks in lanes while n bytes at p are used: for a line of each lane at the first of each AHEAD_LANES lines. */
INLINE void ask_in_lanes(const uint8_t *p, int n)
{
	const uintptr_t lines = AHEAD_PAGE / 64, from = (uintptr_t)p / 64, end = (uintptr_t)(p + n) / 64;

	for (uintptr_t at = (from + AHEAD_LANES - 1) / AHEAD_LANES * AHEAD_LANES; at < end; at += AHEAD_LANES) {
		const uintptr_t next = at / (AHEAD_LANES * lines) + 1, line = at / AHEAD_LANES % lines;
		const uint8_t *q = (const uint8_t *)(64 * (next * AHEAD_LANES * lines + line));

#pragma GCC unroll 4
		for (int i = 0; i < AHEAD_LANES; i++)
			__builtin_prefetch(q + i * AHEAD_PAGE);
	}
}

/* Asks for weights to come while n bytes of a stream at p are used by a call's tokens; by none: not at all. */
INLINE void ask_weights(const uint8_t *p, int n, int tokens)
{
	const int32_t ahead = tokens <= AHEAD_SHORT ? qn_ahead_short : qn_ahead;

	if (tokens && tokens <= AHEAD_FEW && qn_ahead_lanes)
		ask_in_lanes(p, n);
	else if (tokens && ahead)
#pragma GCC unroll 4
		for (int i = 0; i < n; i += 64)
			__builtin_prefetch(p + i + ahead);
}

/* Each fills the slots it has and leaves the rest alone. */
void kernels_init_scalar(struct kernels *k);
void kernels_init_x86(struct kernels *k, uint32_t isa);
void kernels_init_arm(struct kernels *k, uint32_t isa);
void kernels_init_riscv(struct kernels *k, uint32_t isa);

#endif
