/*
 * quern_ops.h - the operations of a plan: what each computes, and a struct for its operands. Part of quern.h.
 *
 * Rows are of tokens, or those that qn_op.rows names. Vectors are indexed from the innermost dimension on:
 * [n_head][head_dim] are n_head times head_dim floats, a head's together. `buf` and members named src, dst, or
 * otherwise without a column are numbers of buffers (struct qn_buf), whose columns then count from 0. A pointer may be
 * NULL only where its comment has a value for that. Flags are 0 or 1.
 */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

#include <stdint.h>

#include "quern_ranks.h"
#include "quern_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ parts that several operations have */

/* How a matrix lies in memory. */
enum qn_layout {
	QN_ROWS = 0, /* rows of blocks, exactly as in GGUF; packed panel by panel as it is used */
	QN_X16 = 1,  /* panels of 16 rows, interleaved by qn_pack() */
	QN_X12 = 2,  /* the same of BF16 in 12 bits, by qn_pack_twelve(): n_in is a multiple of 32 */
};

/*
 * n_mat matrices of n_out rows by n_in columns, y = W x. n_mat is 1, or the number of experts
 * that lie one after the other. Panels are 64-byte aligned.
 *
 * Panels may lie in `places` parts of memory, of a NUMA node each: part k, place_stride bytes after part k - 1, has
 * panels k n / places .. (k + 1) n / places of each of the matrices, of n panels, one matrix after the other, with room
 * for ceil(n / places) of each.
 */
struct qn_mat {
	const void *data;
	int64_t place_stride;
	int32_t places; /* 0 and 1: the panels lie one after the other */
	int32_t type;   /* enum qn_type */
	int32_t layout; /* enum qn_layout */
	int32_t n_in;   /* a multiple of the type's block */
	int32_t n_out;
	int32_t n_mat;
	const float *scale; /* [n_mat] that products are multiplied by, or NULL: what some files have beside blocks */
};

/* Columns of a buffer from `col` on, a multiple of 16. */
struct qn_cols {
	int32_t buf, col;
};

/* Where an operation's state, or its keys and values, are: in each unit of a group of the batch. */
struct qn_place {
	int64_t offset; /* bytes from the beginning of a unit, a multiple of 64 */
	int32_t group;
};

/* Which rows an operation works on. */
enum qn_rows {
	QN_ROWS_TOK = 0,  /* every token of the batch */
	QN_ROWS_OUT = 1,  /* the tokens whose logits are wanted */
	QN_ROWS_PAIR = 2, /* (token, expert) pairs, grouped by expert: n_tok * n_used of them */
	QN_ROWS_HEAD = 3, /* (head, token) pairs, grouped by head: n * n_tok of them. QN_OP_ACT, QN_OP_MATMUL */
};

/* The experts of a mixture, and the buffer in which QN_OP_MOE_ROUTE has put the routing (qn_route_bytes). */
struct qn_routing {
	int32_t buf, n_expert, n_used;
};

/* n heads in the rows of tokens, whose columns are `step` apart, a multiple of 16. */
struct qn_head_cols {
	int32_t n, step;
};

/* What becomes of the results of a product. */
enum qn_epilogue {
	QN_EPI_STORE = 0,
	QN_EPI_ADD = 1, /* added to what dst holds */
	QN_EPI_GLU = 2, /* of two matrices: dst = fn(y of mat[0]) * (y of mat[1]) */
	QN_EPI_FN = 3,  /* dst = fn(y) */
};

/* ------------------------------------------------------------------ rows: embeddings, norms, functions */

/*
 * Rows that a token looks up: that of its id, that of its position, the first, that of its position behind the source
 * of its sequence, or of two rows that of its text: the second in the second text of a pair. The caller knows that it
 * is there.
 */
enum qn_index { QN_INDEX_TOK = 0, QN_INDEX_POS = 1, QN_INDEX_FIRST = 2, QN_INDEX_OWN = 3, QN_INDEX_TEXT = 4 };

/* QN_OP_EMBED: dst[t] = scale * row i of the table (QN_ROWS), or that added to dst, where i is what index says. */
struct qn_embed {
	struct qn_mat table;
	int32_t dst;
	int32_t index; /* enum qn_index */
	int32_t add;
	float scale;
};

/*
 * QN_OP_INPUT: n_col columns of dst[t] = those from `from` on of the row that token t brings, or these added to dst.
 * A token that brings none keeps dst, or, with clear, gets zeros.
 */
struct qn_input {
	struct qn_cols dst;
	int32_t from, n_col;
	int32_t add;
	int32_t clear;
};

/*
 * QN_OP_NGRAM: dst[t] = n_hash rows of the table (QN_ROWS), which hashes of the last tokens choose, one after the
 * other. With x[0] the token's id, x[1] that before it and so on, hash i is of the first m = 2 + i / (n_hash / (n_token
 * - 1)) of n_token: hash[0] x[0] ^ hash[1] x[1] ^ ... ^ hash[m - 1] x[m - 1], modulo hash[n_token + i], plus
 * hash[n_token + n_hash + i]. Of those before the token, all count as `stop` from the first on that is `stop`, or that
 * would lie before the sequence. The ids are the state of the sequence: n_token - 1 int32, the last one last, each
 * stored plus one.
 */
struct qn_ngram {
	struct qn_mat table;
	const uint64_t *hash; /* [n_token] factors, [n_hash] sizes, [n_hash] first rows */
	struct qn_place state;
	int32_t dst;
	int32_t n_token, n_hash;
	int32_t stop; /* the token that ends what is hashed */
};

#define QN_AXES 4

/*
 * QN_OP_ROPE_TABLE: dst[t][i] = cos, sin of (pos[t] + shift) * freq[i], times scale: [n_tok][n_rot] floats, in pairs.
 * With axes, place[t][axis[i]] stands for pos[t] (Wang et al. 2024, "Qwen2-VL": rotations by time, row and column).
 */
struct qn_rope_table {
	const double *freq; /* [n_rot / 2] radians a position; at position 10^5 a float is off by 0.004 */
	const int32_t *axis; /* [n_rot / 2], each from 0 to below QN_AXES; NULL: positions */
	int32_t dst;
	int32_t n_rot;
	int32_t shift; /* of positions */
	float scale;
};

/*
 * QN_OP_GATHER: dst[i] = src[out[i]]: rows QN_ROWS_OUT from rows QN_ROWS_TOK, all columns. With n_row above 1 as many
 * rows from out[i] on, which are of one sequence: n_col columns of each side by side, or, with mean, the mean of all.
 */
struct qn_gather {
	int32_t src, dst;
	int32_t n_row, n_col; /* n_col is not used where n_row is 0 or 1 */
	int32_t mean;
};

/* RMS: x / sqrt(mean(x^2) + eps). LAYER: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps). NONE: x. */
enum qn_norm_kind { QN_NORM_RMS = 0, QN_NORM_LAYER = 1, QN_NORM_NONE = 2 };

/* norm(x) * weight + bias, of n_col columns. */
struct qn_norm {
	const float *weight, *bias; /* [n_col]; NULL: ones, and zeros */
	int32_t kind;               /* enum qn_norm_kind */
	float eps;
};

/*
 * QN_OP_ACT: act = n_col columns of src, as activations of each of the kinds that a buffer is named for, from block
 * `block` of 256 columns on. With QN_ROWS_HEAD those of head h begin h * heads.step columns further.
 * QN_OP_NORM: the same of norm(src). Not QN_ROWS_HEAD.
 */
struct qn_to_act {
	struct qn_norm norm; /* of QN_OP_NORM */
	struct qn_cols src;
	int32_t n_col;
	int32_t block;
	int32_t act[QN_N_ACT]; /* buffers by enum qn_act, -1 for none */
};

/*
 * QN_OP_NORM_ROWS: dst = scale * norm(src) as floats, or that added to dst, of n_seg segments of n_col columns, one
 * after the other. dst may be src. Weights and biases are those of one segment, or [n_seg][n_col] with seg_weights.
 * Where low is not high, what is not added is then no less than low and no more than high.
 */
struct qn_norm_rows {
	struct qn_norm norm;
	struct qn_cols src, dst;
	int32_t n_col, n_seg;
	int32_t seg_weights;
	int32_t add;
	float scale;
	float low, high; /* equal: there are no limits */
};

/*
 * QN_OP_GATE: dst = fn(src) * dst, of n_col columns. by_row: src has a single column for all of them, or, where n_seg
 * is not 0, one for each of n_seg segments of n_col columns.
 */
struct qn_gate {
	struct qn_cols src, dst;
	int32_t n_col, n_seg;
	int32_t by_row;
	int32_t fn; /* enum qn_fn, also QN_FN_NONE */
};

/* QN_OP_BLEND: dst = dst + fn(by) * (src - dst), of n_col columns. Not QN_ROWS_PAIR. */
struct qn_blend {
	struct qn_cols src, dst, by;
	int32_t n_col;
	int32_t fn; /* enum qn_fn, also QN_FN_NONE */
};

/*
 * QN_OP_XIELU: dst = xielu(dst), of n_col columns: positive x^2 + beta x of x > 0, else
 * (e^min(x, eps) - 1 - x) negative + beta x. param: positive, negative, beta, eps <= 0. Not QN_ROWS_PAIR.
 */
struct qn_xielu {
	struct qn_cols dst;
	int32_t n_col;
	float param[4];
};

/*
 * QN_OP_SPARSE: dst = max(dst - (mean + cutoff * deviation), 0), of the n_col columns of a row, whose deviation is that
 * of a sample: divided by n_col - 1. Not QN_ROWS_PAIR.
 */
struct qn_sparse {
	struct qn_cols dst;
	int32_t n_col;
	float cutoff;
};

/* QN_OP_MATCH: dst = dst * |src| / |dst|, lengths of n_col columns. Not QN_ROWS_PAIR. */
struct qn_match {
	struct qn_cols src, dst;
	int32_t n_col;
};

/* ------------------------------------------------------------------ residuals of several streams */

/*
 * QN_OP_MIX: segment i of dst = the sum over j < n_src of weight[i * n_src + j] * segment j of src, or that added to
 * dst: n_seg segments of dst and n_src of src of n_col columns, 16 at most. dst may be src where both begin at the same
 * column. With score, [n_col], n_seg is 1, dst another buffer, and the weights are the softmax of the sums of score *
 * RMS(segment j), with eps. Not QN_ROWS_PAIR.
 */
struct qn_mix {
	struct qn_cols src, dst, weight;
	const float *score; /* NULL: weights are columns */
	int32_t n_col, n_seg, n_src;
	int32_t add;
	float eps;
};

/*
 * QN_OP_CONNECT: what n_stream streams of a residual are mixed by (Xie et al. 2025, "mHC"), from numbers m in src:
 * n_stream weights eps + sigmoid(scale[0] m + bias) from column 0 of dst. Where rounds is not 0, n_stream more,
 * 2 sigmoid(scale[1] m + bias), from column 16, and from column 32 [n_stream to][n_stream from]: of scale[2] m + bias,
 * [from][to], the softmax of each row, plus eps; then columns, and rounds - 1 times rows and columns, are divided by
 * their sum plus eps (Sinkhorn). n_stream is 16 at most.
 */
struct qn_connect {
	struct qn_cols src;
	int32_t dst;
	const float *bias;  /* as many as m */
	const float *scale; /* 1, or 3 where rounds is not 0 */
	int32_t n_stream, rounds;
	float eps;
};

/*
 * QN_OP_ALIGN: dst[t][i] = sigmoid(d's root with d's sign), i < n_seg, 16 at most: d = scale * the product of segment i
 * of src and of with, n_col columns each. The root is that of 10^-6 at least, and of 0 it is 0.
 */
struct qn_align {
	struct qn_cols src, with;
	int32_t dst;
	int32_t n_col, n_seg;
	float scale;
};

/* ------------------------------------------------------------------ products */

/*
 * QN_OP_MATMUL. For each of n_mat matrices, with y = mat[i] * act * mat[i].scale + bias[i]: dst[col[i] ...] = scale *
 * y. Rows of dst are written in whole panels: column ranges are padded to 16. See enum qn_epilogue for other results.
 *
 * Bounds, each where it is not 0. QN_EPI_STORE stores cap(scale * y), cap(y) = softcap * tanh(y / softcap), and what is
 * within limit on both sides. QN_EPI_GLU takes y of mat[0] that is at most limit (with limit_fn, of which fn is), and
 * of mat[1] within it; with softcap, it is fn(y) * cap(y) * y2, and limit the cap of y2.
 *
 * With QN_ROWS_PAIR, mat[i] holds n_expert matrices and bias[i] as many biases, and each pair uses its expert's; of
 * n_mat matrices, a divisor of n_expert, one is of as many neighbours. With QN_ROWS_HEAD they are heads.n, one for each
 * head, and the results of head h go to columns col[i] + h * heads.step of dst[t]. With QN_ROWS_TOK and heads.n > 0 so
 * do those of each heads.n-th of mat[i]'s rows.
 *
 * Where bit i of adapted is set, rows of buffer delta from column delta_col[i] on are added to y before the bias: what
 * QN_OP_ADAPT computed. Before that, where gain_col[i] is not 0, y becomes (1 + g) y, with g in its columns. Not
 * QN_ROWS_HEAD.
 */
struct qn_matmul {
	struct qn_mat mat[3];
	const float *bias[3]; /* [n_mat][n_out padded to 16]; NULL: zeros */
	int32_t act[QN_N_ACT]; /* buffers by enum qn_act, -1 for none */
	int32_t n_mat;
	int32_t dst, col[3];
	int32_t epilogue; /* enum qn_epilogue */
	int32_t fn;       /* enum qn_fn */
	float scale;
	float softcap, limit; /* 0: none */
	int32_t limit_fn;
	int32_t adapted, delta, delta_col[3];
	int32_t gain_col[3]; /* of delta; 0: none */
};

/*
 * What one adapter adds to the products of a matrix: scale * B (A x), and, with gain, that share of the product itself,
 * which each row of the matrix has (Liu et al. 2024, "DoRA").
 */
struct qn_low_rank {
	struct qn_mat a, b; /* [rank][n_in] and [n_out][rank], of floats; a.data is NULL where there is nothing */
	float scale;
	const float *gain; /* [n_out padded to 16]; NULL: none */
};

#define QN_RANK_MAX 1024

/*
 * QN_OP_ADAPT: n_col columns of dst = scale * the sum over the adapters of a row's sequence, in their order, of
 * adapter_scale * low[adapter].scale * B (A x), or that added to dst. A and B are QN_X16, and with QN_ROWS_PAIR there
 * are n_expert of each. by_token: A x is row tok[t] of A instead, which is QN_ROWS. Where a row has no adapters, dst
 * gets -0, which changes no number that it is added to, or, with add, stays. Where gain_col is not 0, n_col columns of
 * dst.buf from there on = the sum of adapter_scale * low[adapter].gain. Not with add, by_token, or QN_ROWS_PAIR.
 */
struct qn_adapt {
	const struct qn_low_rank *low; /* [n_low] */
	struct qn_cols dst;
	int32_t act;     /* x: activations of QN_ACT_F32; not by_token */
	int32_t reduced; /* of QN_ACT_F32, for A x */
	int32_t gain_col; /* 0: none */
	int32_t n_col, n_low;
	int32_t by_token;
	int32_t add;
	float scale;
};

/* ------------------------------------------------------------------ experts */

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
 * QN_OP_MOE_ROUTE: writes the routing that QN_ROWS_PAIR operations after it read. src: [n_tok] rows of n_expert router
 * logits, which gating turns into weights. Chooses the n_used experts with the best of weight + bias (ties: lower index
 * first). With n_group > 1 only those in the n_group_used best of as many equal groups are considered: a group counts
 * for the sum of its two best, or, with group_best, for its best alone. The weights of the chosen sum to 1 with
 * norm_weights, and are multiplied by scale.
 *
 * n_same: behind those logits as many more, which bias has too, are of experts that return their input (Meituan
 * 2025, "LongCat-Flash"). They are numbered from n_expert on, there are no groups, and their pairs come last: products
 * do not touch these, and QN_OP_MOE_COMBINE knows what they return.
 */
struct qn_moe_route {
	const float *bias;     /* [n_expert + n_same]; NULL: zeros */
	const int32_t *choice; /* [vocabulary][n_used]: the experts by token, each below n_expert; NULL: the best */
	int32_t src;
	int32_t gating; /* enum qn_gating */
	int32_t n_group, n_group_used, group_best;
	int32_t norm_weights;
	int32_t n_same;
	float scale;
};

/*
 * QN_OP_MOE_GATHER: n_col columns of each token's activations src copied to its pairs in dst, weigh: times the weight.
 */
struct qn_moe_gather {
	int32_t src[QN_N_ACT], dst[QN_N_ACT]; /* buffers by enum qn_act, -1 for none */
	int32_t n_col;
	int32_t weigh;
};

/*
 * QN_OP_MOE_COMBINE: dst[t] = the sum over its pairs, best expert first, of weight * src[pair], or of src[pair] where
 * the input was weighed; or that added to dst. Of experts that return their input src[pair] is same[t]. With n_col
 * above 0 it is of as many columns from `col` on, and the others of dst stay.
 */
struct qn_moe_combine {
	int32_t src, dst;
	int32_t same; /* buffer; -1: no expert returns its input */
	int32_t col, n_col;
	int32_t weighed;
	int32_t add;
};

/*
 * QN_OP_MOE_HEADS: n_head heads of head_dim columns of each pair, moved to the row of its token, where those of its
 * pairs are side by side: head h of choice k becomes head h * n_used + k. With to_pairs they are moved back.
 */
struct qn_moe_heads {
	int32_t tok, pair; /* buffers */
	int32_t n_head, head_dim;
	int32_t to_pairs;
};

/* ------------------------------------------------------------------ attention */

/* The shape of an attention, and where its keys and values are, see qn_kv_bytes(). */
struct qn_heads {
	struct qn_place kv; /* in blocks of QN_KV_BLOCK positions */
	int32_t n_head, n_head_kv;
	int32_t head_dim, v_dim; /* of a query and a key, and of a value */
	int32_t v_in_k; /* values are the first v_dim channels of keys as they are kept, a multiple of 16 */
	int32_t k_type, v_type; /* enum qn_kv_type; v_type is not used with v_in_k */
};

enum qn_rope { QN_ROPE_NONE = 0, QN_ROPE_NORM = 1 /* pairs 2i, 2i+1 */, QN_ROPE_NEOX = 2 /* pairs i, i+n_rot/2 */ };

/* Rotates n dimensions from number `at` on, by the table that a QN_OP_ROPE_TABLE wrote. */
struct qn_rotation {
	int32_t kind;  /* enum qn_rope */
	int32_t table; /* buffer; not used where there is no rotation */
	int32_t at, n;
};

/*
 * QN_OP_QKV. src: [n_tok] rows of q [n_head][head_dim] at col[0], k [n_head_kv][head_dim] at col[1],
 * v [n_head_kv][v_dim] at col[2]. Normalises q and k by head where q_norm, k_norm are set (RMS, eps), rotates them
 * (rope_first: before the norm), scales q by `scale`, multiplies all three channel by channel, and writes k and v into
 * the blocks of the group. Query heads take the channels of the kv head that they share. q_only: there are no keys
 * and values, and nothing is read or written but q. heads.v_in_k: there are no values in src, and none are kept.
 *
 * Where temp is not 0, q is scaled by 1 + temp * ln(floor((position + temp_offset) / temp_span) + 1) as well. Where
 * temp_log is, 2 or more, q of positions beyond it is scaled by ln(position) / ln(temp_log).
 */
struct qn_qkv {
	struct qn_heads heads;
	struct qn_rotation rope;
	const float *q_norm, *k_norm;       /* [head_dim]; NULL: no norm */
	const float *q_mul, *k_mul, *v_mul; /* [n_head_kv][head_dim or v_dim]; NULL: ones */
	int32_t src, col[3];
	int32_t rope_first;
	int32_t q_only;
	float eps, scale;
	float temp; /* 0: none */
	int32_t temp_span, temp_offset;
	int32_t temp_log; /* 0: none */
};

/* Keys that stand for `every` positions each, which a QN_OP_COMPRESS wrote. */
struct qn_entries {
	struct qn_place at; /* in blocks, see qn_entry_bytes() */
	int32_t every;      /* a divisor or a multiple of QN_KV_BLOCK; 0: there are none */
};

/*
 * The n best of what a token sees, which a QN_OP_SELECT chose, as rising int32 in the row of the token: positions;
 * entries; or spans of `each` positions. Tokens that see no more than n have none chosen.
 */
struct qn_selection {
	struct qn_entries entries;
	int32_t n;
	int32_t each;    /* positions of a span; 0: positions or entries are chosen */
	int32_t near; /* with each, a multiple of it: the last positions up to the end of the token's own span, which
	                 are seen without being chosen; 0: those behind the last whole span */
	int32_t choices; /* with each: of as many equal parts of the heads, side by side in a row; 0: 1 */
};

/*
 * Which positions QN_OP_ATTEND is over, of a sequence that begins with a source: any, those after the source, or those
 * of the source alone, all of them, whatever the token's own. There are no windows, nothing ahead and no selection with
 * the last two, and no biases with the last.
 */
enum qn_side { QN_SIDE_ANY = 0, QN_SIDE_OWN = 1, QN_SIDE_SOURCE = 2 };

/*
 * What spans are to QN_OP_ATTEND: nothing; a token sees all of its span, also what comes after it; or it sees its span
 * and no other position. Without a side and a selection, and nothing is ahead.
 */
enum qn_sight { QN_SIGHT_NONE = 0, QN_SIGHT_SPAN = 1, QN_SIGHT_ONLY = 2 };

/* Where QN_OP_ATTEND finds blocks that are not in its own group, and how they are kept there. */
struct qn_tier {
	struct qn_place kv;
	int32_t k_type, v_type; /* enum qn_kv_type */
};
#define QN_TIERS_MAX 4 /* with its own */

/*
 * What scores get of the distance d of two positions, that of the query less that of the key, and of what is there (He
 * et al. 2021, "DeBERTa"): by_query[query's token][head][at[span + d]] + by_key[key's token][head][at[span + d]], in
 * rows of [n_head][step] floats. Pairs further apart than `span` have the numbers of those at that distance. A key that
 * is not in the batch has no by_key.
 */
struct qn_relative {
	const int32_t *at; /* [2 span + 1], each from 0 to below n; NULL: nothing */
	int32_t by_query, by_key; /* buffers, -1 for none */
	int32_t n, step; /* step: n at least, a multiple of 16 */
	int32_t span;
};

/*
 * Blocks of keys that blocks of queries see, of a prompt (block-sparse attention, as in Xu et al. 2025, "XAttention").
 * A block of queries is 64 positions of a sequence, from a multiple of 64 on, that begins at `from` or behind it and
 * ends at batch.prompt or before; it is in one batch whole. Each of its heads sees the fewest blocks of keys that have
 * `part` of the weight that every 8th of its queries, from the 8th on, gives to all keys, the heaviest first, beside
 * the first block, its own and the one before, which it sees in any case. Other tokens see all keys.
 */
struct qn_blocks {
	int32_t mask;  /* buffer: the 64 rows of a block of queries have [n_head][words] words; bit b is block b */
	int32_t words; /* of 32 blocks; 0: all tokens see all keys */
	int32_t from;  /* a multiple of 64 */
	float part;    /* above 0; 1: all blocks */
};
#define QN_BLOCKS_WORDS_MAX (1 << 17)

/*
 * QN_OP_ATTEND: dst[t] = attention of q, as a QN_OP_QKV left it, over the blocks of the sequence: [n_head][v_dim].
 *
 * Scores. s = softcap * tanh(q k / softcap), where softcap (0: none) grows with the position as q does by temp_log
 * (QN_OP_QKV), + bias[head][span + 63 + i] of the key i positions after the token's own, before it where i is negative;
 * keys further away than `span` have the numbers of those at that distance, which are there 64 times. Instead of bias
 * there may be what is relative, without a side, tiers or a selection. sinks[head] is the score of a sink, which takes
 * weight and has no value. The result is multiplied by mul.
 *
 * Positions. A token sees those up to its own, and `ahead` after it, as far as its sequence goes in the batch: a text
 * that is read in both directions is in one batch. Keys `window` positions or more before the token are not seen, and
 * blocks that hold no others not touched; chunked: none before the last multiple of `window` instead.
 *
 * Where selection.n is not 0, tokens that see more than that see those that were chosen and no others; there are then
 * no windows, no biases, nothing ahead. With `each`, they see the positions of the spans that were chosen and the near
 * ones; there are any kv heads, and choices is 0 or n_head_kv. Otherwise there is a single kv head, with v_in_k. Where
 * there are entries, keys are those up to the token's own position, or those that were chosen, and behind them the last
 * `window` positions.
 *
 * With a sight, what a token sees after its own position are spans: see enum qn_sight; with windows, those before.
 *
 * Tiers. A block that the group's table has as -1 is in the first of n_tier tiers whose table has it; there are none
 * with a selection or entries.
 *
 * Where blocks.words is not 0, blocks of queries see what a QN_OP_BLOCKS of the same operands has chosen before. There
 * are then no windows, biases, tiers, sides or spans, no selection, and nothing is ahead.
 */
struct qn_attend {
	struct qn_heads heads;
	struct qn_cols q;
	int32_t dst;
	int32_t chosen; /* buffer of what was selected; not used where selection.n is 0 */
	struct qn_selection selection;
	const float *bias;  /* [n_head][2 (span + 64)]; NULL: zeros */
	struct qn_relative relative;
	const float *sinks; /* [n_head]; NULL: there are none */
	const float *mul;   /* [n_head_kv][v_dim], as in QN_OP_QKV; NULL: ones */
	int32_t window;     /* positions that a token sees, with its own and those before; 0: all */
	int32_t chunked;
	int32_t ahead;
	int32_t side; /* enum qn_side */
	int32_t sight; /* enum qn_sight */
	int32_t span;
	float softcap;
	int32_t temp_log; /* 0: none */
	int32_t n_tier;
	struct qn_tier tier[QN_TIERS_MAX - 1];
	struct qn_blocks blocks; /* which a QN_OP_BLOCKS with the same operands writes to blocks.mask */
};

/*
 * QN_OP_SELECT: dst[t] = what the selection takes of what t sees up to its own position: the n with the best scores.
 * The score of a key k is the sum over n_head heads of their weight times max(q k, 0); ties: lower position first. Keys
 * are of the one head of a QN_OP_QKV with v_in_k, or the entries. With `each`, n_head / choices heads choose apart
 * among spans but the near ones; a score is the best sum of q k.
 */
struct qn_select {
	struct qn_heads heads; /* n_head_kv, v_dim and v_type are not used */
	struct qn_cols q;
	int32_t weight; /* buffer of [n_tok][n_head]; -1: ones */
	int32_t dst;
	struct qn_selection selection;
};

/*
 * QN_OP_COMPRESS: keys that stand for several positions. src: [n_tok] rows of x at col[0] and of weights at col[1],
 * each [n_part][head_dim], n_part 1 or 2. Both, the weights plus row pos % every of add, are written to the blocks of
 * the group: [QN_KV_BLOCK][2][n_part][head_dim] floats. The token at the last of `every` positions makes an entry: by
 * channels, the mean of the last part of x at these, and with two parts of the first at the `every` before them, if
 * there are some, weighted by the softmax of the weights there. It is normalised (RMS, eps) and rotated, and written
 * into the block of the token's own position.
 */
struct qn_compress {
	struct qn_entries entries;
	struct qn_place inputs; /* in blocks */
	struct qn_rotation rope;
	const float *add;  /* [every][n_part][head_dim]; not used where there are no weights */
	const float *norm; /* [head_dim] */
	int32_t src, col[2]; /* col[1] -1: all weigh the same */
	int32_t n_part;
	int32_t head_dim; /* a multiple of 16 */
	int32_t k_type;   /* enum qn_kv_type */
	float eps;
};

/* ------------------------------------------------------------------ recurrences */

/*
 * QN_OP_CONV: a short convolution. src: [n_tok] rows of a, b and c of n_col columns at col[0 .. 2]; b and c are ones
 * where their column is -1. dst[t] = b[t] times the sum over i < n_tap of weight[i] * u[t - (n_tap - 1) + i], u = a *
 * c, plus bias, by columns, or, where fn is not QN_FN_NONE, times fn of that sum. There are n_result results of the
 * same u, one after the other in dst. What lies before the batch is the state of the sequence: [n_tap - 1][n_col]
 * floats. Only columns from .. to are computed, and the state has no others; to 0: all.
 */
struct qn_conv {
	struct qn_place state;
	const float *weight; /* [n_result][n_col][n_tap] */
	const float *bias;   /* [n_result][n_col]; NULL: zeros */
	int32_t src, col[3];
	int32_t dst;
	int32_t n_col, n_tap, n_result;
	int32_t from, to; /* from: a multiple of 16 */
	int32_t ahead; /* 0 to n_tap - 1 */
	int32_t fn; /* enum qn_fn, also QN_FN_NONE */
};

/*
 * What recurrences have in common. Each of n_head heads has a state S of head_dim rows and v_dim columns, a multiple of
 * 16, 0 before the first token; in memory [n_head][v_dim / 16][head_dim][16] floats. src: [n_tok] rows of three vectors
 * at col[0 .. 2]; dst: [n_tok][n_head][v_dim]. n_head / n_head_kv neighbours share a key head, or a group.
 *
 * Only heads from .. to are computed, and the state has no others; to 0: all. What is there for the others is neither
 * read nor written.
 */
struct qn_recurrence {
	struct qn_place state;
	int32_t src, col[3];
	int32_t dst;
	int32_t n_head, n_head_kv;
	int32_t head_dim, v_dim;
	int32_t from, to;
};

/*
 * QN_OP_DELTA: the gated delta rule. With q, k of the head's key head and v of its own, of each token
 *	x = b (v - g S^T k),  S = g S + k x^T,  dst[t] = scale * S^T q
 *	g = exp(rate[head] * softplus(a + bias[head])),  b = sigmoid of the other gate
 * src: q, k [n_head_kv][head_dim], v [n_head][v_dim]. gates: rows of the gates: of each gate_heads heads, gate_heads
 * numbers for b, then as many numbers a.
 *
 * by_channel: each row of the state has a g of its own, from head_dim numbers a of each head. gates then has gate_heads
 * >= n_head numbers for b, and behind them a of all heads. Keys are as many as heads. There limit may be set, which is
 * below 0, and g = exp(limit * sigmoid(rate[head] * (a + bias[head][row]))). head_dim is then a multiple of 16.
 */
struct qn_delta {
	struct qn_recurrence r;
	const float *bias; /* [n_head], by_channel [n_head][head_dim] */
	const float *rate; /* [n_head] */
	int32_t gates, gate_heads;
	int32_t k_tiled; /* head h has key head h % n_head_kv; else h / (n_head / n_head_kv) */
	int32_t by_channel;
	float limit; /* 0: none */
	float scale;
};

/*
 * QN_OP_SCAN: a selective state space. With x of the head, b and c of its group, of each token
 *	S[i][j] = exp(dt * rate) S[i][j] + b[i] dt x[j],  dst[t][j] = the sum over i of c[i] S[i][j], + skip x[j]
 *	dt = softplus(step + bias), at least step_min and, where step_max is not 0, at most that
 * src: x [n_head][v_dim], b, c [n_head_kv][head_dim]. Numbers are one for each head, or, by_channel, for each head's
 * columns, and rate also for each of their rows, in the order of the state.
 */
struct qn_scan {
	struct qn_recurrence r;
	struct qn_cols step;
	const float *bias, *rate, *skip;
	float step_min, step_max; /* 0 or more, step_max not below step_min unless it is 0 */
	int32_t by_channel;
};

/*
 * QN_OP_WKV: the recurrence of RWKV 7. With r, k and v of the head, and w and a of its rows, of each token
 *	z = k * direction, divided by its length, or by eps, if that is more
 *	a = sigmoid(a),  g = exp(-sigmoid(w) / sqrt(e)),  k = k * (1 + (a - 1) * rate)
 *	S = diag(g) S - (z * a) (S^T z)^T + k v^T
 *	dst[t] = S^T r, and behind those of all heads v * the sum of r * k * bonus
 * src: r, k [n_head][head_dim], v [n_head][v_dim]; dst: rows twice as wide as v. n_head_kv is not used.
 */
struct qn_wkv {
	struct qn_recurrence r;
	const float *direction, *rate, *bonus; /* [n_head][head_dim] */
	int32_t gates; /* rows of w and a, both as r */
	float eps;
};

/*
 * QN_OP_DECAY: linear attention whose rows decay apart (RWKV 6). With q and w of the head, k and v of its key head, of
 * each token
 *	g = exp(-exp(w))
 *	with bonus:     dst[t] = S^T q + v * the sum of q * k * bonus,  S = diag(g) S + k v^T
 *	without bonus:  S = diag(g) S + k (1 - g) v^T,  dst[t] = scale * S^T q
 * src: q [n_head][head_dim], k [n_head_kv][head_dim], v [n_head_kv][v_dim].
 */
struct qn_decay {
	struct qn_recurrence r;
	const float *bonus; /* [n_head][head_dim]; NULL: without */
	int32_t decays;     /* rows of w, as q */
	float scale;
};

/*
 * QN_OP_LRU: a real-gated linear recurrent unit (De et al. 2024, "Griffin"). By columns, with a = e^decay,
 *	h = a h + sqrt(1 - a^2) src,  dst[t] = h
 * at the beginning of a sequence h = src. Decays are at most 0. The state is h, [n_col].
 */
struct qn_lru {
	struct qn_place state;
	struct qn_cols src, decay;
	int32_t dst;
	int32_t n_col;
};

/* ------------------------------------------------------------------ training */

/*
 * What a backward pass computes: gradients of a loss with respect to what the operations above made. Each begins with
 * what it is the reverse of; dy is that of what that wrote, dx that of what it read. Sums over rows are of
 * all in the batch, in order.
 */

/*
 * QN_OP_LOSS: the cross-entropy of rows QN_ROWS_OUT of logits, and its gradient in their place: with w = weight[out[i]]
 * and k = target[out[i]], dst[i][0] = w * (ln sum e^x - x[k]) and x = w * (softmax(x) - [k]), of n_col columns. With
 * softcap, x was capped by softcap * tanh(x / softcap), and gradients are of what it was before. A row of weight 0 gets
 * zeros. target[t] is below n_col.
 */
struct qn_loss {
	const int32_t *target; /* [n_tok] */
	const float *weight;   /* [n_tok] */
	int32_t logits, dst;
	int32_t n_col;
	float softcap; /* 0: none */
};

/* QN_OP_SCATTER: dst[out[i]] += src[i]: the reverse of QN_OP_GATHER, of n_col columns. */
struct qn_scatter {
	int32_t src, dst;
	int32_t n_col;
};

/*
 * QN_OP_BACK_X, of y = W x: n_in columns of dst = scale * W^T dy, or that added. act: dy as activations of QN_ACT_BF16,
 * by which W rounded to BF16 is multiplied: QN_BACK_ROWS rows of W at a time, each as QN_OP_MATMUL does, added in
 * their order. mat is one matrix of layout QN_ROWS, or with QN_ROWS_PAIR one of each expert; pairs of experts that
 * return their input get nothing. Not QN_ROWS_HEAD.
 */
struct qn_back_x {
	struct qn_mat mat;
	struct qn_cols dst;
	int32_t act;
	int32_t add;
	float scale;
};

#define QN_BACK_ROWS 512

/*
 * QN_OP_BACK_LOW, of y = scale * B (A x) in all rows: with h = A x and e = scale * B^T dy,
 *	d_b = scale * the sum of dy h^T,  d_a = the sum of e x^T,  n_in columns of dst += A^T e
 * dy: n_out columns of src; act: x as QN_ACT_F32; low: buffer of 2 * rank columns, for h and e. With QN_ROWS_PAIR
 * matrices are of each expert, one after the other, and sums are of its pairs. Not QN_ROWS_HEAD.
 */
struct qn_back_low {
	const float *a, *b; /* [rank][n_in], [n_out][rank] */
	float *d_a, *d_b;   /* the same */
	struct qn_cols src, dst;
	int32_t act, low;
	int32_t n_in, n_out, rank;
	float scale;
};

/* QN_OP_BACK_NORM, of y = scale * norm(x), of n_seg segments as QN_OP_NORM_ROWS: dst = its dx, or that added. */
struct qn_back_norm {
	struct qn_norm norm; /* bias is not used */
	struct qn_cols x, dy, dst;
	int32_t n_col, n_seg;
	int32_t seg_weights;
	int32_t add;
	float scale;
};

/*
 * QN_OP_BACK_GATE, of y = fn(g) * u: dg = fn'(g) * u * dy and du = fn(g) * dy, of n_col columns; du may be dy. Where
 * u.buf is -1, y = fn(g), and there is no du. by_row: g and dg have one column for n_col of each of max(n_seg, 1)
 * segments of u, as QN_OP_GATE has it, and dg is the sum of these. fn is none that clamps.
 */
struct qn_back_gate {
	struct qn_cols g, u, dy, dg, du;
	int32_t n_col, n_seg;
	int32_t by_row;
	int32_t fn; /* enum qn_fn, not QN_FN_SWIGLU_CLAMP; QN_FN_NONE only where there is u */
};

/* QN_OP_BACK_XIELU, of xielu, whose dst has gradients of what it left, and gets those of what it found, x. */
struct qn_back_xielu {
	struct qn_xielu xielu;
	struct qn_cols x;
};

/*
 * QN_OP_BACK_QKV, of qkv, whose src has gradients of what it left, and gets those of what it found. was: buffer of
 * what it found, in the same columns; -1 where there are no norms.
 */
struct qn_back_qkv {
	struct qn_qkv qkv;
	int32_t was;
};

/*
 * QN_OP_BACK_ATTEND, of attend. Queries, keys and values, as a QN_OP_QKV left them, are n_head and n_head_kv heads in
 * x from col[0 .. 2] on, and their gradients go to the same columns of dst. All that a token sees is in the batch: keys
 * are floats, not what blocks keep of them. y is the result, dy its gradient; stats: buffer of [2][n_head] columns.
 * There is nothing relative, no selection, side, sight or tier, and no v_in_k; biases get no gradients.
 */
struct qn_back_attend {
	struct qn_attend attend; /* q is not used */
	int32_t x, col[3];
	int32_t y, dy, dst, stats;
};

/*
 * QN_OP_BACK_W, of y = W x: d_w += scale * the sum over rows of dy x^T. dy: n_out columns of src; act: x as
 * QN_ACT_F32. Both are rounded to BF16 and multiplied as QN_OP_MATMUL does, QN_BACK_ROWS rows of the batch at a time,
 * whose sums are added in order. Not QN_ROWS_PAIR, QN_ROWS_HEAD.
 */
struct qn_back_w {
	float *d_w; /* [n_out][n_in] */
	struct qn_cols src;
	int32_t act;
	int32_t n_in, n_out;
	float scale;
};

/*
 * QN_OP_BACK_V, of y = w * x + b in each of n_seg segments of n_col columns, which share w and b: d_v += scale * the
 * sum of dy * x over rows and segments, in order; of dy alone where x.buf is -1. Not QN_ROWS_PAIR, QN_ROWS_HEAD.
 */
struct qn_back_v {
	float *d_v; /* [n_col] */
	struct qn_cols dy, x;
	int32_t n_col, n_seg;
	float scale;
};

/* QN_OP_BACK_EMBED, of embed: row i of d_table += scale * row t of src, of all tokens t that looked it up, in order. */
struct qn_back_embed {
	float *d_table; /* of rows of n_col */
	int32_t src;
	int32_t n_col;
	int32_t index; /* enum qn_index */
	float scale;
};

/*
 * QN_OP_BACK_ROUTE, of route, whose n_same is 0: columns of dst = gradients of the logits, from those of the weights of
 * a token's choices: columns of d_weight. Which experts are chosen does not depend on the logits here.
 */
struct qn_back_route {
	struct qn_moe_route route;
	int32_t d_weight, dst; /* buffers */
};

/*
 * QN_OP_BACK_COMBINE, of y[t] = the sum of weight * x[pair] of t's pairs: n_col columns of dst[pair] = weight * dy[t],
 * and column k of d_weight[t] = dy[t] x[pair] for the pair of choice k. weighed: the weights are 1 and have no
 * gradients.
 */
struct qn_back_combine {
	int32_t x, dst; /* buffers of pairs */
	int32_t dy, d_weight;
	int32_t n_col;
	int32_t weighed;
};

/*
 * QN_OP_BACK_PAIRS, of QN_OP_MOE_GATHER: n_col columns of dst[t] = the sum of dy[pair] of t's pairs, best expert first,
 * or that added. weigh: of weight * dy[pair], and column k of d_weight[t] = x[t] dy[pair] for the pair of choice k.
 */
struct qn_back_pairs {
	struct qn_cols dst;
	int32_t dy;       /* buffer of pairs */
	int32_t x;        /* with weigh: activations of tokens, of QN_ACT_F32 */
	int32_t d_weight; /* with weigh */
	int32_t n_col;
	int32_t add, weigh;
};

/* ------------------------------------------------------------------ ranks */

#define QN_SHARE_PARTS 6

/*
 * Columns of rows of floats, or blocks of activations, of which each rank has computed its own. Rank r's are cut[r] up
 * to cut[r + 1]; in rows of floats they begin at multiples of 16. This rank's begin at `own` of dst, where they may be
 * in the place of other ranks'.
 */
struct qn_share_part {
	const int32_t *cut; /* [ranks + 1] */
	int32_t dst, own;
	int32_t act; /* enum qn_act, -1: rows of floats */
};

/*
 * QN_OP_SHARE: ranks exchange parts, and all have the whole after it, or, with to >= 0, rank `to` alone. What they send
 * and receive lies in `stage` meanwhile, whose rows have QN_SHARE_ROOM(ranks) columns and those of all parts, 80 for a
 * block of activations. Not QN_ROWS_HEAD. See quern_ranks.h.
 */
struct qn_share {
	struct qn_ranks *ranks;
	struct qn_share_part part[QN_SHARE_PARTS];
	int32_t n_part;
	int32_t stage; /* buffer of floats */
	int32_t to;    /* -1: all */
	int32_t step;  /* a number of this exchange, which all ranks know it by */
};

#define QN_SHARE_ROOM(ranks) (32 * (ranks)) /* for a head and for padding to 64 bytes, of each rank */

/* ------------------------------------------------------------------ an operation */

/* The kinds of operations, with the member of struct qn_op that each has. */
enum qn_op_kind {
	QN_OP_EMBED = 1,   /* embed */
	QN_OP_ROPE_TABLE,  /* rope_table */
	QN_OP_GATHER,      /* gather */
	QN_OP_NORM,        /* to_act */
	QN_OP_NORM_ROWS,   /* norm_rows */
	QN_OP_ACT,         /* to_act */
	QN_OP_GATE,        /* gate */
	QN_OP_MATMUL,      /* matmul */
	QN_OP_QKV,         /* qkv */
	QN_OP_ATTEND,      /* attend */
	QN_OP_CONV,        /* conv */
	QN_OP_DELTA,       /* delta */
	QN_OP_SCAN,        /* scan */
	QN_OP_MOE_ROUTE,   /* moe_route */
	QN_OP_MOE_GATHER,  /* moe_gather */
	QN_OP_MOE_COMBINE, /* moe_combine */
	QN_OP_XIELU,       /* xielu */
	QN_OP_SPARSE,      /* sparse */
	QN_OP_MATCH,       /* match */
	QN_OP_MIX,         /* mix */
	QN_OP_SELECT,      /* select */
	QN_OP_ADAPT,       /* adapt */
	QN_OP_BLEND,       /* blend */
	QN_OP_WKV,         /* wkv */
	QN_OP_COMPRESS,    /* compress */
	QN_OP_CONNECT,     /* connect */
	QN_OP_ALIGN,       /* align */
	QN_OP_NGRAM,       /* ngram */
	QN_OP_DECAY,       /* decay */
	QN_OP_LRU,         /* lru */
	QN_OP_MOE_HEADS,   /* moe_heads */
	QN_OP_INPUT,       /* input */
	QN_OP_SHARE,       /* share */
	QN_OP_LOSS,        /* loss */
	QN_OP_SCATTER,     /* scatter */
	QN_OP_BACK_X,      /* back_x */
	QN_OP_BACK_LOW,    /* back_low */
	QN_OP_BACK_NORM,   /* back_norm */
	QN_OP_BACK_GATE,   /* back_gate */
	QN_OP_BACK_QKV,    /* back_qkv */
	QN_OP_BACK_ATTEND, /* back_attend */
	QN_OP_BACK_W,      /* back_w */
	QN_OP_BACK_V,      /* back_v */
	QN_OP_BACK_EMBED,  /* back_embed */
	QN_OP_BACK_XIELU,  /* back_xielu */
	QN_OP_BACK_ROUTE,  /* back_route */
	QN_OP_BACK_COMBINE, /* back_combine */
	QN_OP_BACK_PAIRS,  /* back_pairs */
	QN_OP_BLOCKS,      /* attend */
};

/* One operation. */
struct qn_op {
	int32_t kind;              /* enum qn_op_kind */
	int32_t rows;              /* enum qn_rows; where the kind has no others, QN_ROWS_TOK */
	struct qn_routing routing; /* of QN_OP_MOE_*, and of others with QN_ROWS_PAIR */
	struct qn_head_cols heads;    /* with QN_ROWS_HEAD; of QN_OP_MATMUL also with QN_ROWS_TOK, where n is not 0 */
	union {
		struct qn_embed embed;
		struct qn_input input;
		struct qn_ngram ngram;
		struct qn_rope_table rope_table;
		struct qn_gather gather;
		struct qn_to_act to_act;
		struct qn_norm_rows norm_rows;
		struct qn_gate gate;
		struct qn_blend blend;
		struct qn_xielu xielu;
		struct qn_sparse sparse;
		struct qn_match match;
		struct qn_mix mix;
		struct qn_connect connect;
		struct qn_align align;
		struct qn_matmul matmul;
		struct qn_adapt adapt;
		struct qn_moe_route moe_route;
		struct qn_moe_gather moe_gather;
		struct qn_moe_combine moe_combine;
		struct qn_moe_heads moe_heads;
		struct qn_qkv qkv;
		struct qn_attend attend;
		struct qn_select select;
		struct qn_compress compress;
		struct qn_conv conv;
		struct qn_delta delta;
		struct qn_scan scan;
		struct qn_wkv wkv;
		struct qn_decay decay;
		struct qn_lru lru;
		struct qn_share share;
		struct qn_loss loss;
		struct qn_scatter scatter;
		struct qn_back_x back_x;
		struct qn_back_low back_low;
		struct qn_back_norm back_norm;
		struct qn_back_gate back_gate;
		struct qn_back_qkv back_qkv;
		struct qn_back_attend back_attend;
		struct qn_back_w back_w;
		struct qn_back_v back_v;
		struct qn_back_embed back_embed;
		struct qn_back_xielu back_xielu;
		struct qn_back_route back_route;
		struct qn_back_combine back_combine;
		struct qn_back_pairs back_pairs;
	};
};

#ifdef __cplusplus
}
#endif

#endif /* QUERN_OPS_H */
