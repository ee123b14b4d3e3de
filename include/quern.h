/*
 * quern.h - language-model arithmetic for CPUs: with quern_types.h the whole contract between Go and C.
 *
 * A forward pass is a list of operations (a plan) run over a batch of tokens by a pool of
 * threads. The caller owns every buffer. Nothing here allocates (but qn_pool_create), logs,
 * or reads the environment. Pointers inside structs are borrowed for as long as the struct is
 * used and must point outside any garbage-collected heap.
 *
 * Arithmetic is batch-invariant: a token's result does not depend on the other tokens of the
 * batch, on the number of threads, or on the instruction set.
 */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#include "quern_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Instruction sets beyond the baseline, as bits. */
enum qn_isa {
	QN_AVX2 = 1 << 0,       /* with FMA and F16C */
	QN_AVXVNNI = 1 << 1,    /* 256-bit VNNI; needs AVX2 */
	QN_AVX512 = 1 << 2,     /* F, BW, DQ, VL; needs AVX2 */
	QN_AVX512VNNI = 1 << 3, /* needs AVX512 */
	QN_AMX = 1 << 4,        /* AMX-TILE and AMX-INT8, granted by the OS; needs AVX512VNNI */
	QN_NEON = 1 << 8,
	QN_DOTPROD = 1 << 9, /* needs NEON */
	QN_I8MM = 1 << 10,   /* needs DOTPROD */
};

/* What this CPU and this OS support. */
uint32_t qn_cpu_isa(void);

/*
 * Chooses the kernels for this CPU and returns the instruction sets in use. Only sets in
 * `allow` are considered: 0 runs the scalar specification, UINT32_MAX the best. Not thread
 * safe: call it before anything else, and never while a plan runs.
 */
uint32_t qn_init(uint32_t allow);

/* ------------------------------------------------------------------ matrices */

/* How a matrix lies in memory. */
enum qn_layout {
	QN_ROWS = 0, /* rows of blocks, exactly as in GGUF; packed panel by panel as it is used */
	QN_X16 = 1,  /* panels of 16 rows, interleaved by qn_pack() */
};

/*
 * n_mat matrices of n_out rows by n_in columns, y = W x. n_mat is 1, or the number of experts
 * that lie one after the other. QN_X16 panels are 64-byte aligned.
 */
struct qn_mat {
	const void *data;
	int32_t type;   /* enum qn_type */
	int32_t layout; /* enum qn_layout */
	int32_t n_in;   /* a multiple of the type's block */
	int32_t n_out;
	int32_t n_mat;
	const float *scale; /* [n_mat] that products are multiplied by, or NULL: what some files have beside blocks */
};

/* What one adapter adds to the products of a matrix: scale * B (A x). */
struct qn_low_rank {
	struct qn_mat a, b; /* [rank][n_in] and [n_out][rank], of floats; a.data is NULL where there is nothing */
	float scale;
};

#define QN_RANK_MAX 1024

/* ------------------------------------------------------------------ batches */

/*
 * One kind of state that every sequence has, in units of unit_bytes. Either a unit is a block of
 * QN_KV_BLOCK positions, and table[s][i] is the unit of positions 64 i .. 64 i + 63; a block that no token
 * of the batch sees may be anything. Or a unit is the whole state of a sequence, cols is 2, and an operation
 * reads unit table[s][0], where -1 is zeros, and writes table[s][1].
 */
struct qn_group {
	void *data;
	int64_t unit_bytes;
	const int32_t *table; /* [n_seq][cols] */
	int32_t cols;
};

/* What one forward pass holds: tokens of any mix of sequences and positions. */
struct qn_batch {
	const int32_t *tok; /* [n_tok] token ids, each below the vocabulary's size */
	const int32_t *pos; /* [n_tok] position of each token in its sequence */
	const int32_t *seq; /* [n_tok] row of the groups' tables; the tokens of a sequence are adjacent,
	                       their positions ascend by one */
	const int32_t *out; /* [n_out] ascending indices of the tokens whose logits are wanted */
	const struct qn_group *groups; /* [n_group] */
	const int32_t *source;         /* [n_seq] how many first positions are a source: see enum qn_side */
	const int32_t *adapter;        /* [n_seq][n_adapter] numbers in qn_op.low, -1 for none: see QN_OP_ADAPT */
	const float *adapter_scale;    /* [n_seq][n_adapter] */
	int32_t n_tok, n_seq, n_out, n_group, n_adapter;
};

/*
 * A buffer of the forward pass. Kinds by use:
 *   rows of floats     [n][width], width a multiple of 16
 *   float activations  [width/256][n][256] floats             (qn_act_bytes)
 *   8-bit activations  [width/256][n] blocks of 320 bytes     (qn_act_bytes)
 * n is the number of rows an operation works on. All are 64-byte aligned.
 */
struct qn_buf {
	void *data;
	int64_t width; /* columns */
};

size_t qn_act_bytes(enum qn_act kind, int64_t n, int64_t width);

/* Which rows an operation works on. */
enum qn_rows {
	QN_ROWS_TOK = 0,  /* every token of the batch */
	QN_ROWS_OUT = 1,  /* the tokens whose logits are wanted */
	QN_ROWS_PAIR = 2, /* (token, expert) pairs, grouped by expert: n_tok * n_used of them */
	QN_ROWS_HEAD = 3, /* (head, token) pairs, grouped by head: n_seg * n_tok of them. QN_OP_ACT, QN_OP_MATMUL */
};

/* ------------------------------------------------------------------ plans */

enum qn_op_kind {
	/* dst[t] = scale * row i of mat[0] (QN_ROWS), or that added to dst (QN_EPI_ADD): see enum qn_index for i. */
	QN_OP_EMBED = 1,
	/* dst[t][i] = cos, sin of (pos[t] + shift) * freq[i], times scale: [n_tok][n_rot] floats, pairs. */
	QN_OP_ROPE_TABLE,
	/* dst[i] = src[out[i]]: rows QN_ROWS_OUT from rows QN_ROWS_TOK. */
	QN_OP_GATHER,
	/*
	 * act = norm(src) * vec + vec2 over n_col columns from col[0], vec, vec2: [n_col] or NULL, for ones
	 * and zeros; into those of the buffers act that are not -1. See enum qn_norm.
	 */
	QN_OP_NORM,
	/*
	 * dst = scale * (norm(src) * vec + vec2) as floats, or that added to dst (QN_EPI_ADD), of n_seg
	 * segments of n_col columns, one after the other from col[0] of src and col[1] of dst, which may be
	 * the same. vec, vec2: [n_col], or [n_seg][n_col] where seg_weights is set, or NULL. Not QN_ROWS_PAIR.
	 */
	QN_OP_NORM_ROWS,
	/*
	 * act = n_col columns of src, from col[0] on, into the same buffers. With QN_ROWS_HEAD those of head h begin
	 * at column col[0] + h * step.
	 */
	QN_OP_ACT,
	/*
	 * dst = fn(src) * dst, n_col columns from col[0] of src and col[1] of dst; where by_row is set, src has a
	 * single column for all of them, or, where n_seg is, one for each of n_seg segments of n_col columns.
	 * fn may be QN_FN_NONE. Not QN_ROWS_PAIR.
	 */
	QN_OP_GATE,
	/*
	 * For each of n_mat matrices, with y = mat[i] * act * mat[i].scale + bias[i]: dst[col[i] ...] = scale * y.
	 * Rows of dst are written in whole panels: column ranges are padded to 16. See enum qn_epilogue for others.
	 * Where softcap is set, QN_EPI_STORE stores cap(scale * y), cap(y) = softcap * tanh(y / softcap). Where limit
	 * is, it stores what is within it on both sides, and QN_EPI_GLU takes y of mat[0] that is at most limit (or,
	 * where limit_fn is set, of which fn is), and of mat[1] within it; with softcap, it is fn(y) * cap(y) * y2, and
	 * limit y2's cap. With QN_ROWS_PAIR, mat[i] holds n_expert matrices and bias[i] as many biases, and each pair
	 * uses its expert's; of n_mat matrices, a divisor of n_expert, one is of as many neighbours. With QN_ROWS_HEAD
	 * they are n_seg, one for each head, and the results of a head go to columns col[i] + h * step of dst[t]. With
	 * QN_ROWS_TOK and n_seg > 0 so do those of each n_seg-th of mat[i]'s rows.
	 * Where bit i of adapted is set, rows of buffer delta from column delta_col[i] on are added to y before the
	 * bias. Not QN_ROWS_HEAD.
	 */
	QN_OP_MATMUL,
	/*
	 * src: [n_tok] rows of q [n_head][head_dim] at col[0], k [n_head_kv][head_dim] at col[1],
	 * v [n_head_kv][v_dim] at col[2]. Normalises q and k by head where vec, vec2 are set (RMS, eps),
	 * rotates n_rot dimensions from number rope_at on by the table in buffer aux (before the norm where rope_first
	 * is set), scales q by `scale`, writes k and v into the blocks of the group at kv_offset. Where temp is set,
	 * q is scaled by 1 + temp * ln(floor((position + temp_offset) / temp_span) + 1) as well. Where temp_log is,
	 * 2 or more, q of positions beyond it is scaled by ln(position) / ln(temp_log). Before they are
	 * written, q, k and v are multiplied by mul[0 .. 2], channel by channel, each [n_head_kv][head_dim or v_dim],
	 * or NULL for ones; query heads take the channels of the kv head that they share. Where q_only is set, there
	 * are no keys and values: nothing is read or written but q.
	 * Where v_in_k is set, values are the first v_dim channels of keys as they are written: there are none in
	 * src, and none are kept.
	 */
	QN_OP_QKV,
	/*
	 * dst[t] = attention of q (src, col[0]) over the blocks of the group at kv_offset: [n_head][v_dim].
	 * The score of a key is s = softcap * tanh(q k / softcap), where softcap grows with the position as q does by
	 * temp_log (QN_OP_QKV), + vec[head][span + 63 + i] of the key i positions
	 * after the token's own, before it where i is negative (vec: [n_head][2 (span + 64)] or NULL; keys further
	 * away than `span` have the numbers of those at that distance, which are there 64 times). Keys `window`
	 * positions or more before the token are not seen, and blocks that hold no
	 * others not touched; 0 is no window. Where chunked is set, a token sees no key before the last multiple of
	 * `window` instead. Of those after it, it sees `ahead`, as far as its sequence goes in the batch: a text that
	 * is read in both directions is in one batch. vec2[head] (or NULL) is the score of a sink, which takes weight
	 * and has no value. The result is multiplied by mul[0]: [n_head_kv][v_dim], as in QN_OP_QKV, or NULL.
	 * Where n_select is set, tokens with more positions than that see those that QN_OP_SELECT wrote into row t of
	 * buffer aux and no others; there are then no windows, no biases, nothing ahead, and a single kv head.
	 * Where `every` is set, keys are the entries that QN_OP_COMPRESS wrote at kv_offset2 of group2 up to the
	 * token's own position, of more than n_select those that were selected, and behind them the last `window`
	 * positions. Where `each` is set instead, numbers that were selected are of as many positions each, and the
	 * token sees these and those behind the last whole `each`, or in the last window / each with its own; there are
	 * any kv heads then, each with a row of n_select of its own where n_seg is set, and values as everywhere.
	 * A block that the group's table has as -1 is in the first of n_tier tiers whose table has it; no more than
	 * QN_TIERS_MAX - 1, and none where n_select or `every` is set.
	 */
	QN_OP_ATTEND,
	/*
	 * src: [n_tok] rows of a, b and c of n_col columns at col[0 .. 2]; b and c are ones where their column is -1.
	 * dst[t] = b[t] times the sum over i < n_tap of vec[i] * u[t - (n_tap - 1) + i], u = a * c, by columns, or,
	 * with QN_EPI_FN, times fn of that sum; vec: [n_seg][n_col][n_tap]. Where vec2 is set, [n_seg][n_col], it is
	 * added to the sum. Of n_seg, 1 or more, there are so many results of the same u, one after the other in dst.
	 * What lies before the batch is the state of the
	 * sequence at kv_offset in a unit of the group: [n_tap - 1][n_col] floats.
	 */
	QN_OP_CONV,
	/*
	 * The gated delta rule. Each of n_head value heads has a state S of head_dim rows and v_dim columns, 0 before
	 * the first token. With q, k of its key head and v of its own, of each token
	 *	x = b (v - g S^T k),  S = g S + k x^T,  dst[t] = scale * S^T q
	 *	g = exp(vec2[head] * softplus(a + vec[head])),  b = sigmoid of the other gate
	 * src: [n_tok] rows of q, k [n_head_kv][head_dim] at col[0], col[1], v [n_head][v_dim] at col[2]; dst as v.
	 * aux: rows of the gates: of each n_seg heads, n_seg numbers for b, then n_seg numbers a. Value head h has key
	 * head h / (n_head / n_head_kv), or, where k_tiled is set, h % n_head_kv. The state is at kv_offset in a unit
	 * of the group: [n_head][v_dim / 16][head_dim][16] floats.
	 *
	 * Where by_channel is set, each row of the state has a g of its own, from head_dim numbers a of each head, and
	 * vec is [n_head][head_dim]. aux then has n_seg >= n_head numbers for b, and behind them a of all heads. Keys
	 * are as many as heads. There limit may be set, which is below 0, and
	 *	g = exp(limit * sigmoid(vec2[head] * (a + vec[head][row])))
	 * head_dim is then a multiple of 16.
	 */
	QN_OP_DELTA,
	/*
	 * A selective state space. Each of n_head heads has a state S of head_dim rows and v_dim columns, 0 before the
	 * first token. With x of the head, b and c of its group of n_head / n_head_kv heads, of each token
	 *	S[i][j] = exp(dt * A) S[i][j] + b[i] dt x[j],  dst[t][j] = the sum over i of c[i] S[i][j], + D x[j]
	 *	dt = softplus(a number + vec)
	 * A (vec2), D (mul[0]) and vec are a number for each head, as those at col[3] of each row of aux are. Where
	 * by_channel is set, they are numbers for each head's columns, and A also for each of their rows, in the order
	 * of the state. src: rows of x [n_head][v_dim], b, c [n_head_kv][head_dim] at col[0], col[1], col[2]; dst as x.
	 * The state is at kv_offset in a unit of the group: [n_head][v_dim / 16][head_dim][16] floats.
	 */
	QN_OP_SCAN,
	/*
	 * src: [n_tok][n_expert] router logits, which enum qn_gating turns into weights. Chooses the n_used experts
	 * with the best of weight + vec (vec: [n_expert] or NULL; ties: lower index first). With n_group > 1 only
	 * those in the n_group_used best of as many equal groups are considered: a group counts for the sum of its
	 * two best, or, where group_best is set, for its best alone. The weights of the chosen sum to 1 if
	 * norm_weights, and are multiplied by scale. Where choice is set, [vocabulary][n_used], the experts are those
	 * in the row of the token's id instead. Writes the routing (struct in buffer dst, qn_route_bytes) for the
	 * QN_ROWS_PAIR operations that follow with aux = dst.
	 */
	QN_OP_MOE_ROUTE,
	/*
	 * n_col columns of each token's activations (src_act) copied to its pairs (act), times weight if weigh_input.
	 */
	QN_OP_MOE_GATHER,
	/*
	 * dst[t] = the sum over its pairs, best expert first, of weight * src[pair], or of src[pair] if weigh_input; or
	 * that added to dst (QN_EPI_ADD).
	 */
	QN_OP_MOE_COMBINE,
	/*
	 * dst = xielu(dst), n_col columns from col[1]: xielu[0] x^2 + xielu[2] x of x > 0, else
	 * (e^min(x, xielu[3]) - 1 - x) xielu[1] + xielu[2] x. Not QN_ROWS_PAIR.
	 */
	QN_OP_XIELU,
	/*
	 * dst = max(dst - (mean + cutoff * deviation), 0), of the n_col columns of a row from col[1], whose deviation
	 * is that of a sample: divided by n_col - 1. Not QN_ROWS_PAIR.
	 */
	QN_OP_SPARSE,
	/* dst = dst * |src| / |dst|, lengths of n_col columns at col[0] of src and col[1] of dst. Not QN_ROWS_PAIR. */
	QN_OP_MATCH,
	/*
	 * Segment i of dst = the sum over j < n_src of aux[col[2] + i * n_src + j] * segment j of src, or that added
	 * (QN_EPI_ADD): n_seg of n_col columns from col[1], n_src from col[0], 16 at most. dst may be src, where equal.
	 * Where vec is set, weights are the softmax of the sums of vec * RMS(segment j), of n_seg 1. Not QN_ROWS_PAIR.
	 */
	QN_OP_MIX,
	/*
	 * dst[t] = the n_select positions of t's sequence, up to its own, that score best: [n_select] int32, rising.
	 * The score of a key k is the sum over n_head heads of aux[t][head], or 1 where aux is -1, times max(q k, 0),
	 * q: [n_head][head_dim] at col[0] of src; ties: lower position first. Keys are of the one head of a QN_OP_QKV
	 * with v_in_k at kv_offset. Of tokens that see no more than n_select nothing is written. Where `every` is set,
	 * it is entries, of keys of QN_OP_COMPRESS at kv_offset2 of group2. Where `each` is, it is spans of as many
	 * positions but the last window / each; n_head / n_seg heads choose apart; a score is the best sum of q k.
	 */
	QN_OP_SELECT,
	/*
	 * Columns col[0] .. col[0] + n_col of dst = scale * the sum over the adapters of a row's sequence, in their
	 * order, of adapter_scale * low[adapter].scale * B (A x), or that added to dst (QN_EPI_ADD). x is the row of
	 * activations act[QN_ACT_F32]; A and B are QN_X16, and with QN_ROWS_PAIR there are n_expert of each. Where
	 * by_row is set, A x is row tok[t] of A instead, which is QN_ROWS. src_act[QN_ACT_F32] is for A x. Where a row
	 * has no adapters, dst gets -0, which changes no number that it is added to, or stays with QN_EPI_ADD.
	 */
	QN_OP_ADAPT,
	/*
	 * dst = dst + fn(aux) * (src - dst), n_col columns from col[0] of src, col[1] of dst and col[2] of aux. fn may
	 * be QN_FN_NONE. Not QN_ROWS_PAIR.
	 */
	QN_OP_BLEND,
	/*
	 * The recurrence of RWKV 7. Each of n_head heads has a state S of head_dim rows and v_dim columns, 0 before the
	 * first token. With r, k and v of the head, and w and a of its rows, of each token
	 *	z = k * vec, divided by its length, or by eps, if that is more
	 *	a = sigmoid(a),  g = exp(-sigmoid(w) / sqrt(e)),  k = k * (1 + (a - 1) * vec2)
	 *	S = diag(g) S - (z * a) (S^T z)^T + k v^T
	 *	dst[t] = S^T r, and behind those of all heads v * the sum of r * k * mul[0]
	 * src: [n_tok] rows of r, k [n_head][head_dim] at col[0], col[1], v [n_head][v_dim] at col[2]; dst: rows twice
	 * as wide as v; aux: rows of w and a, both as r. vec, vec2, mul[0]: [n_head][head_dim]. The state is at
	 * kv_offset in a unit of the group: [n_head][v_dim / 16][head_dim][16] floats.
	 */
	QN_OP_WKV,
	/*
	 * Keys that stand for `every` positions, a divisor or a multiple of QN_KV_BLOCK. src: [n_tok] rows of x at
	 * col[0] and of weights at col[1], each [n_seg][head_dim], n_seg 1 or 2. Both, the weights plus row pos %
	 * every of vec ([every][n_seg][head_dim]), are written to the blocks of the group at kv_offset:
	 * [QN_KV_BLOCK][2][n_seg][head_dim] floats. The token at the last of `every` positions makes an entry: by
	 * channels, the mean of the last segment of x at these, and with two segments of the first at the `every`
	 * before them, if there are some, weighted by the softmax of the weights there. It is normalised (RMS, eps;
	 * vec2) and rotated as keys are (n_rot, rope_at, aux), and written at kv_offset2 of group2, into the block of
	 * the token's own position. Where col[1] is -1, all weigh the same, and vec is not used.
	 */
	QN_OP_COMPRESS,
	/*
	 * What n_seg streams of a residual are mixed by (Xie et al. 2025, "mHC"). src: numbers m from col[0] on, dst:
	 * n_seg weights eps + sigmoid(vec2[0] m + vec) from column 0. Where rounds is set, n_seg more, 2
	 * sigmoid(vec2[1] m + vec), from column 16, and from column 32 [n_seg to][n_seg from]: of vec2[2] m + vec,
	 * [from][to], the softmax of each row, plus eps; then columns, and rounds - 1 times rows and columns, are
	 * divided by their sum plus eps (Sinkhorn). vec: as many as m; n_seg is 16 at most.
	 */
	QN_OP_CONNECT,
	/*
	 * dst[t][i] = sigmoid(d's root with d's sign), i < n_seg, 16 at most: d = scale * the product of segment i of
	 * src and of aux, n_col columns each, from col[0] and col[1] on. The root is that of 10^-6 at least, and of 0
	 * it is 0.
	 */
	QN_OP_ALIGN,
	/*
	 * dst[t] = n_seg rows of mat[0] (QN_ROWS), which hashes of the last tokens choose, one after the other. With
	 * x[0] the token's id, x[1] that before it and so on, hash i is of the first m = 2 + i / (n_seg / (n_tap - 1))
	 * of n_tap: hash[0] x[0] ^ hash[1] x[1] ^ ... ^ hash[m - 1] x[m - 1], modulo hash[n_tap + i], and
	 * hash[n_tap + n_seg + i] more. Of those before the token, all are `stop` from the first that is, or that there
	 * is not. The ids are the state of the sequence, at kv_offset in a unit of the group: n_tap - 1 int32, the last
	 * one last, each one more than it is.
	 */
	QN_OP_NGRAM,
	/*
	 * Linear attention whose rows decay apart (RWKV 6). Each of n_head heads has a state S of head_dim rows and
	 * v_dim columns, 0 before the first token. With q, of each token, and k and v of its key head, of n_head_kv,
	 *	g = exp(-exp(w))
	 *	with vec:     dst[t] = S^T q + v * the sum of q * k * vec,  S = diag(g) S + k v^T
	 *	without vec:  S = diag(g) S + k (1 - g) v^T,  dst[t] = scale * S^T q
	 * src: [n_tok] rows of q, k, v at col[0 .. 2], k as n_head_kv times head_dim; aux: rows of w, as q; dst: of
	 * n_head times v_dim. vec: [n_head][head_dim]. The state is at kv_offset in a unit of the group:
	 * [n_head][v_dim / 16][head_dim][16] floats.
	 */
	QN_OP_DECAY,
};

/* What becomes of the results of an operation. */
enum qn_epilogue {
	QN_EPI_STORE = 0,
	QN_EPI_ADD = 1, /* added to what dst holds */
	QN_EPI_GLU = 2, /* of two matrices: dst = fn(y of mat[0]) * (y of mat[1]) */
	QN_EPI_FN = 3,  /* dst = fn(y) */
};
/*
 * Weights of experts: softmax or sigmoid of the logits, the root of their softplus, or softmax of the chosen ones
 * alone. MIXER is that of SparseMixer (Liu et al. 2023): each choice weighs by a softmax of the logits x that earlier
 * choices left and that are no less than 2 % of max(|x|, m) below m, its own.
 */
enum qn_gating {
	QN_GATE_SOFTMAX = 0,
	QN_GATE_SIGMOID = 1,
	QN_GATE_CHOSEN = 2,
	QN_GATE_MIXER = 3,
	QN_GATE_SQRT_SOFTPLUS = 4,
};
/*
 * Which positions QN_OP_ATTEND is over, of a sequence that begins with a source: any, those after the source, or those
 * of the source alone, all of them, whatever the token's own. There are no windows, nothing ahead and no n_select with
 * the last two, and no biases with the last.
 */
enum qn_side { QN_SIDE_ANY = 0, QN_SIDE_OWN = 1, QN_SIDE_SOURCE = 2 };
/* RMS: x / sqrt(mean(x^2) + eps). LAYER: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps). NONE: x. */
enum qn_norm { QN_NORM_RMS = 0, QN_NORM_LAYER = 1, QN_NORM_NONE = 2 };
/* Rows that a token looks up: that of its id, that of its position, or the first. The caller knows that it is there. */
enum qn_index { QN_INDEX_TOK = 0, QN_INDEX_POS = 1, QN_INDEX_FIRST = 2 };
/* Where QN_OP_ATTEND finds blocks that are not in its own group, and how they are kept there. */
struct qn_tier {
	int64_t kv_offset;
	int32_t group;
	int32_t k_type, v_type; /* enum qn_kv_type */
};
#define QN_TIERS_MAX 4 /* with its own */
enum qn_rope { QN_ROPE_NONE = 0, QN_ROPE_NORM = 1 /* pairs 2i, 2i+1 */, QN_ROPE_NEOX = 2 /* pairs i, i+n_rot/2 */ };

/* One operation. Fields that a kind does not name are ignored. Buffer numbers index bufs[]. */
struct qn_op {
	struct qn_mat mat[3];
	const float *bias[3]; /* [n_mat][n_out padded to 16] or NULL */
	const float *vec, *vec2;
	const float *mul[3];  /* of channels of heads */
	const double *freq;   /* [n_rot / 2] radians a position; at position 10^5 a float is off by 0.004 */
	const struct qn_low_rank *low; /* [n_low] */
	const int32_t *choice; /* of experts, by token; each below n_expert */
	const uint64_t *hash; /* factors, sizes and first rows: see QN_OP_NGRAM */
	int64_t kv_offset;    /* bytes before this layer's state in a unit, a multiple of 64; see qn_kv_bytes() */
	int64_t kv_offset2;   /* and of its entries in a unit of group2: see QN_OP_COMPRESS */
	int32_t kind;         /* enum qn_op_kind */
	int32_t rows;         /* enum qn_rows */
	int32_t group;        /* of the batch, where the state of this operation is */
	int32_t group2;       /* and where its entries are */
	int32_t src, dst, aux;
	int32_t act[QN_N_ACT], src_act[QN_N_ACT]; /* activation buffers by enum qn_act, -1 for none */
	int32_t n_col;        /* columns that count; the rest of a row is padding */
	int32_t col[4];       /* first column of each part, multiples of 16 */
	int32_t n_mat;
	int32_t epilogue;     /* enum qn_epilogue */
	int32_t fn;           /* enum qn_fn */
	int32_t norm;         /* enum qn_norm */
	int32_t n_seg, seg_weights;
	int32_t step;         /* columns from one head's to the next one's, a multiple of 16 */
	int32_t n_tap;
	int32_t n_head, n_head_kv, n_rot, rope_at;
	int32_t head_dim, v_dim; /* of a query and a key, and of a value */
	int32_t v_in_k;       /* v_dim is a multiple of 16 then, and v_type is not used */
	int32_t k_tiled;
	int32_t rope_first;
	int32_t rope;         /* enum qn_rope */
	int32_t k_type, v_type; /* enum qn_kv_type */
	int32_t window;       /* positions that a token sees, with its own and those before; 0: all */
	int32_t ahead;        /* and after it; 0: none */
	int32_t side;         /* enum qn_side */
	int32_t span;
	int32_t index;        /* enum qn_index */
	int32_t n_select;
	int32_t every;        /* positions that an entry stands for; 0: there are none */
	int32_t each;         /* positions that a number selected stands for; 0: one, or an entry */
	int32_t stop;         /* the token that ends what is hashed */
	int32_t shift;        /* of positions */
	int32_t rounds;       /* of Sinkhorn's iteration */
	int32_t n_expert, n_used, norm_weights;
	float eps, scale;
	float softcap;        /* 0: none */
	float limit;          /* 0: none */
	int32_t limit_fn;
	int32_t by_row, by_channel;
	int32_t gating;       /* enum qn_gating */
	int32_t n_group, n_group_used, group_best, weigh_input;
	float temp;
	int32_t temp_span, temp_offset;
	int32_t temp_log;     /* positions; 0: none */
	int32_t chunked;
	int32_t q_only;
	int32_t n_src;
	int32_t n_low;
	int32_t adapted, delta, delta_col[3]; /* multiples of 16 */
	float cutoff;
	int32_t n_tier;
	struct qn_tier tier[QN_TIERS_MAX - 1];
	float xielu[4];       /* alpha of positive and of other numbers, beta, eps <= 0 */
};

/* Bytes of the routing of n_tok tokens (QN_OP_MOE_ROUTE). */
size_t qn_route_bytes(int64_t n_tok, int32_t n_expert, int32_t n_used);

/*
 * Bytes of one layer's keys and values in a KV block, a multiple of 64; 0 for types that there are
 * not. v_dim is 0 where values are channels of keys. What lies in them is the kernels' business.
 */
size_t qn_kv_bytes(int32_t k_type, int32_t v_type, int32_t n_head_kv, int32_t head_dim, int32_t v_dim);

/* Bytes of one layer's entries in a block, see QN_OP_COMPRESS; a multiple of 64. */
size_t qn_entry_bytes(int32_t k_type, int32_t head_dim, int32_t every);

/* QN_OK where every size, type, layout and buffer number of ops is one the kernels can take. */
int qn_plan_check(const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs, int32_t n_bufs);

/* Bytes of scratch that one thread needs to run ops. */
size_t qn_plan_scratch(const struct qn_op *ops, int32_t n_ops, int32_t n_tok_max);

/* ------------------------------------------------------------------ threads */

struct qn_pool; /* worker threads */

/*
 * A pool of n threads, of which the calling thread of qn_run() is the first: n - 1 are started
 * here. cpus: [n] CPU of each, or NULL to leave them unpinned; cpus[0] is not used, for the
 * caller's thread is the caller's. Idle workers sleep. One run at a time in a pool.
 */
int qn_pool_create(struct qn_pool **pool, const int32_t *cpus, int32_t n);
void qn_pool_destroy(struct qn_pool *pool);
int32_t qn_pool_threads(const struct qn_pool *pool);

/* Where the time of a plan's operations went, and what they moved: sums over runs, which begin at 0. */
struct qn_ticks {
	struct qn_ticks_op {
		int64_t bytes; /* of weights, keys and values that it read */
		int64_t madds; /* multiply-adds with them */
	} *ops;                /* [n_ops] */
	struct qn_ticks_time {
		int64_t busy_ns; /* of a thread in an operation */
		int64_t wait_ns; /* at its end, and inside, for the other threads */
	} *times;                /* [n_ops][threads] */
};

/*
 * What a product multiplied by: squares of its inputs, added up by column, for each of its n_mat matrices apart; and
 * where somebody asks, products of each two columns of the same span: of each matrix and each of its spans
 * [span][span] floats, the last span's narrower, of which the blocks of 256 on and above the diagonal are added to.
 * n_in is then a multiple of 32, and span of 256 where there is more than one.
 */
struct qn_tap {
	double *sums;    /* [n_mat][n_in]; NULL: nobody asks */
	int64_t *counts; /* [n_mat] how many rows were added */
	float *products; /* [n_mat][span by span]; NULL: nobody asks */
	int64_t span;
	uint32_t isa;    /* of the instruction sets that add products; the sums are the same with all */
};

struct qn_plan {
	const struct qn_op *ops; /* which have passed qn_plan_check() */
	const struct qn_ticks *ticks; /* is added to; NULL: nothing is measured */
	const struct qn_tap *taps;    /* [n_ops], are added to, those of QN_OP_MATMUL; NULL: none is */
	int32_t n_ops;
};

/*
 * Runs plans over the batch, in order. scratch: threads * bytes, where bytes is the most that qn_plan_scratch() says of
 * any, 64-byte aligned. Before each plan *stop is read, which any thread may set meanwhile, atomically: where it is
 * not 0, no further plan is run. NULL: all are. Returns how many were run.
 */
int32_t qn_run(struct qn_pool *pool, const struct qn_plan *plans, int32_t n_plans, const struct qn_buf *bufs,
               const struct qn_batch *batch, void *scratch, size_t scratch_bytes, const uint32_t *stop);

/*
 * Packs n_mat * n_out rows into X16 panels with every thread of the pool; dst holds
 * n_mat * ceil(n_out / 16) panels. src->layout is QN_ROWS. Returns the first error.
 */
int qn_pack_mat(struct qn_pool *pool, void *dst, const struct qn_mat *src);

/* One layer's keys and values in the blocks of a group. */
struct qn_kv {
	int64_t offset;      /* in a unit, as qn_op.kv_offset */
	const double *freq;  /* [n_rot / 2], where keys are rotated */
	const float *mul;    /* [n_head_kv][head_dim] that keys were multiplied by after that, none 0; or NULL */
	int32_t k_type, v_type, n_head_kv, head_dim, v_dim, v_in_k;
	int32_t rope, rope_at, n_rot;
};

/*
 * Keys and values of a sequence from positions at + by .. end - 1 + by to positions at .. end - 1, by > 0, in all
 * layers: keys are rotated back by as many positions. Blocks of 64 positions are units of unit_bytes in data, whose
 * numbers are in from and to, by position; a position whose block is -1 in either is left out. The two tables may have
 * blocks in common. By all threads of the pool.
 */
int qn_kv_shift(struct qn_pool *pool, void *data, int64_t unit_bytes, const int32_t *to, const int32_t *from,
                int64_t at, int64_t end, int64_t by, const struct qn_kv *layers, int32_t n_layers);

/* A whole block in other types: layer i as `from` has it in one unit, as `to` has it in another. */
int qn_kv_convert(struct qn_pool *pool, void *to_unit, const struct qn_kv *to, const void *from_unit,
                  const struct qn_kv *from, int32_t n_layers);

/*
 * Files of ik_llama.cpp may have 4 or 8 rows of a type interleaved, as _R4 and _R8: how many together, 1 where
 * there is no such form.
 */
int32_t qn_rows_together(int32_t type);

/* Takes such rows apart into n_rows rows as in GGUF, a multiple of so many, in as many bytes elsewhere. */
int qn_rows_apart(int32_t type, void *rows, const void *together, int64_t n_rows, int64_t n_in);

/* ------------------------------------------------------------------ logits */

/*
 * What samplers ask of the logits of a vocabulary, by the thread that calls. Those of a list of candidates are `step`
 * floats apart, others 1. NaN is outside of any range.
 */
enum { QN_LOGITS_CHUNK = 1024, QN_LOGITS_BLOCK = 256, QN_LOGITS_LANES = 16 };

/*
 * peak[16 c + j] = the largest of the logits 1024 c + j, 1024 c + 16 + j and so on of chunk c, -inf where there is
 * none. The k-th largest peak has k logits or more that are as large.
 */
void qn_logits_peaks(float *peak, const float *x, int64_t n);

/* mass[i] = that of logits 256 i .. 256 i + 255, of those from .. to; scale > 0, top >= to. */
void qn_logits_weigh(struct qn_mass *mass, const float *x, int64_t n, int64_t step, float top, float scale, float from,
                     float to);

/* How many logits are finite, their mean and their mean square distance from it. */
struct qn_spread {
	double n, mean, variance;
};

void qn_logits_spread(struct qn_spread *s, const float *x, int64_t n, int64_t step);

/*
 * y = the tokens whose logits are from .. to, by id, as many as there is room for. Returns how many there are. peak:
 * what qn_logits_peaks() says.
 */
int64_t qn_logits_select(struct qn_token *y, int64_t room, const float *x, int64_t n, const float *peak, float from,
                         float to);

/*
 * mass[b] = the sum of the weights, as of qn_logits_weigh(), of the logits from .. to of which (to - x) per begins
 * with b; the last bin has all beyond it as well. mass: [QN_LOGITS_BINS][QN_LOGITS_SUMS], of which the first
 * QN_LOGITS_BINS are the result. scale 0: each weighs 1.
 */
enum { QN_LOGITS_BINS = 2048, QN_LOGITS_SUMS = 4 };

void qn_logits_bins(double *mass, const float *x, int64_t n, int64_t step, float top, float scale, float per,
                    float from, float to);

/* ------------------------------------------------------------------ measurements */

/* Bytes per second at which the pool reads [n] bytes, each thread its own part, `rounds` times. */
double qn_measure_read(struct qn_pool *pool, const void *buf, size_t n, int32_t rounds);

/* Bytes per second at which the pool copies [n] bytes, each thread its own part, `rounds` times. */
double qn_measure_copy(struct qn_pool *pool, void *dst, const void *src, size_t n, int32_t rounds);

/* int8 multiply-adds per second that the pool reaches in registers with the set in use. */
double qn_measure_int8(struct qn_pool *pool, int64_t rounds);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_H */
