/*
 * attention.c - attention over KV blocks.
 *
 * Query heads that share a key-value head are stacked with the tokens of a sequence into tiles of
 * rows, so that a KV block is read once for all of them. A row meets its blocks in ascending order,
 * CHUNK of them at a time, and merges the chunks in order: its result depends on nothing else.
 */
#include <math.h>
#include <string.h>

#include "ops/seen.h"
#include "ops/selected.h"
#include "run/operation.h"

/* KV blocks whose partial result is merged as one: 1024 positions. */
#define CHUNK 16

/* Rows of a tile, at most: a KV block that is in the caches serves all of them. */
#define TILE_ROWS 120

/* Bytes of each thread's scratch for results of chunks that threads share out, and how many of a token fit at least. */
#define PARTS_BYTES (256 << 10)
#define PARTS_LEAST 8

/* Threads share out chunks where an item has more of them than this part of a thread's share of all. */
#define LONG_PART 4

#define SOFTCAP_MAX 0x1p100f
#define SPAN_MAX (1 << 24)

/* How op's own group keeps blocks (0), and how its tiers do. */
static struct qn_tier tier_of(const struct qn_attend *op, int i)
{
	return i > 0 ? op->tier[i - 1] : own_tier(&op->heads);
}

/* The tier that block b of token t's sequence is in. */
static int tier_at(const struct run *c, const struct qn_attend *op, int64_t t, int64_t b)
{
	int i = 0;

	for (; i < op->n_tier; i++) {
		const struct qn_group *g = &c->batch->groups[tier_of(op, i).kv.group];

		if (g->table[(int64_t)c->batch->seq[t] * g->cols + b] >= 0)
			break;
	}
	return i;
}

/* The same as kv_head(), of block b, which is in that tier. */
static uint8_t *tier_head(const struct run *c, const struct qn_attend *op, const struct qn_tier *as, int64_t t,
                          int64_t b, int h)
{
	const struct qn_group *g = &c->batch->groups[as->kv.group];
	const int64_t block = g->table[(int64_t)c->batch->seq[t] * g->cols + b];

	return kv_head_at(g, block, as->kv.offset, h, op->heads.n_head_kv, head_bytes(&op->heads, as));
}

/*
 * Rows of one tile: heads h0 .. h1 of a group, of tokens t0 .. t1 of one sequence, whose last is at position last. They
 * see the blocks of the mask; NULL: all that their positions see.
 */
struct tile {
	int64_t t0, t1, last;
	int h0, h1;
	const uint32_t *mask;
};

/* Tokens and heads of a tile, so that their product fits TILE_ROWS. More heads than that are split evenly. */
static void tile_shape(const struct qn_attend *op, int *toks, int *heads)
{
	const int group = op->heads.n_head / op->heads.n_head_kv, splits = (group + TILE_ROWS - 1) / TILE_ROWS;

	*heads = (group + splits - 1) / splits;
	*toks = selects(op) ? 1 : TILE_ROWS / *heads; /* each token has keys of its own */
}

/*
 * Advances to the next tile of the batch; a tile starts with t0 = t1 = 0. Tiles do not cross
 * sequences, and have no tokens of blocks of queries that see some blocks of keys. Returns 0 at the end.
 */
static int next_tile(const struct run *c, const struct qn_attend *op, int toks, int64_t *t0, int64_t *t1)
{
	const struct qn_batch *b = c->batch;

	while (*t1 < b->n_tok && sees_some(c, op, *t1))
		*t1 += QN_KV_BLOCK;
	*t0 = *t1;
	if (*t0 == b->n_tok)
		return 0;
	while (*t1 < b->n_tok && *t1 - *t0 < toks && b->seq[*t1] == b->seq[*t0] && !sees_some(c, op, *t1))
		++*t1;
	return 1;
}

/* A row's state: sums of values, and maximum and sum of the weights. */
struct part {
	float *o; /* [rows][v_dim] */
	float *m, *l;
};

/* What a thread needs for one tile, in its scratch. */
struct work {
	uint8_t *q, *k, *v; /* k, v: of a block whose codes are expanded, or whose values are keys */
	uint8_t *listed;    /* K, and V beside it, of positions out of many blocks, or of entries */
	struct part chunk, sum, span; /* span: of blocks that lie in one tier */
	float *e, *ml; /* ml: maxima and sums of the weights, of a sum that other threads read */
	float qd[QN_TIERS_MAX][TILE_ROWS], c[QN_ATTN_ROWS];
	float *relative; /* of a block, [rows][64] */
	const float *bias[TILE_ROWS];
	float cap[TILE_ROWS];
	float m[TILE_ROWS], l[TILE_ROWS], m_sum[TILE_ROWS], l_sum[TILE_ROWS], m_span[TILE_ROWS], l_span[TILE_ROWS];
	int32_t qsum[QN_TIERS_MAX][TILE_ROWS];
	int64_t first[TILE_ROWS], last[TILE_ROWS]; /* positions that a row sees */
	int32_t from[TILE_ROWS], lim[TILE_ROWS];
};

/* The type of values that kernels take. */
static int value_type(const struct qn_attend *op, const struct qn_tier *as)
{
	return kv_expanded(op->heads.v_in_k ? as->k_type : as->v_type);
}

/* Bytes of a thread's K and V of Q8, where a tier's are codes, and of V where it is in K. */
static int64_t expanded_k(const struct qn_attend *op)
{
	for (int i = 0; i <= op->n_tier; i++)
		if (tier_of(op, i).k_type == QN_KV_Q4)
			return kv_k_bytes(QN_KV_Q8, kv_pad(op->heads.head_dim, 8));
	return 0;
}

static int64_t expanded_v(const struct qn_attend *op)
{
	int64_t most = 0;

	for (int i = 0; i <= op->n_tier; i++) {
		const struct qn_tier as = tier_of(op, i);
		const int64_t n = op->heads.v_in_k ||
			as.v_type == QN_KV_Q4 ? kv_v_bytes(value_type(op, &as), op->heads.v_dim) : 0;

		most = n > most ? n : most;
	}
	return most;
}

/* Bytes of a thread's block of keys, and values beside them, that are gathered. */
static int64_t listed_bytes(const struct qn_attend *op)
{
	const struct qn_tier own = tier_of(op, 0);

	return selects(op) ? head_bytes(&op->heads, &own) : 0;
}

/* Floats of a thread's block of what is relative. */
static int64_t relative_floats(const struct qn_attend *op)
{
	return op->relative.at ? TILE_ROWS * QN_KV_BLOCK : 0;
}

static size_t work_scratch(const struct qn_attend *op)
{
	const int64_t row = kv_query_bytes(op->heads.head_dim) * (1 + op->n_tier) +
	                    (op->n_tier ? 3 : 2) * kv_pad(op->heads.v_dim, 16) * (int64_t)sizeof(float);

	return (size_t)(TILE_ROWS * row +
	                (QN_ATTN_ROWS * QN_KV_BLOCK + 2 * TILE_ROWS + relative_floats(op)) * (int64_t)sizeof(float) +
	                expanded_k(op) + expanded_v(op) + listed_bytes(op));
}

/* Bytes of the result of a chunk for so many rows. */
static int64_t part_bytes(const struct qn_attend *op, int64_t rows)
{
	return rows * (kv_pad(op->heads.v_dim, 16) + 2) * (int64_t)sizeof(float);
}

static int64_t parts_bytes(const struct qn_attend *op)
{
	int toks, heads;

	tile_shape(op, &toks, &heads);

	const int64_t token = PARTS_LEAST * part_bytes(op, heads), tile = part_bytes(op, (int64_t)toks * heads);
	const int64_t least = token > tile ? token : tile;

	return least > PARTS_BYTES ? kv_pad(least, 64) : PARTS_BYTES;
}

static size_t attend_scratch(const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;

	return work_scratch(op) + (size_t)parts_bytes(op);
}

static void part_clear(struct part *p, int n, int64_t dv)
{
	memset(p->o, 0, sizeof *p->o * (size_t)(n * dv));
	for (int r = 0; r < n; r++) {
		p->m[r] = -INFINITY;
		p->l[r] = 0;
	}
}

static void part_merge(struct part *a, const struct part *b, int n, int64_t dv)
{
	for (int r = 0; r < n; r++)
		qn_kernels.attn_merge(a->o + r * dv, &a->m[r], &a->l[r], b->o + r * dv, b->m[r], b->l[r], (int)dv);
}

/* One KV block of tier i for the n rows of a tile, some at a time; the first ask for what lies at next. */
static void attend_block(const struct qn_attend *op, int i, struct work *w, const struct part *to, int n,
                         const uint8_t *kv, const uint8_t *next)
{
	const struct qn_tier as = tier_of(op, i);
	const int64_t k_bytes = kv_k_bytes(as.k_type, op->heads.head_dim), dv = kv_pad(op->heads.v_dim, 16);
	const int64_t q_bytes = kv_query_bytes(op->heads.head_dim);
	const uint8_t *k = kv, *v = kv + k_bytes, *next_k = next, *next_v = next + k_bytes;
	int r0 = 0, end = n;

	/* Rows are ordered by token: those that see nothing are the first and, with a window, the last. */
	while (r0 < n && w->lim[r0] <= 0)
		r0++;
	while (end > r0 && w->from[end - 1] >= QN_KV_BLOCK)
		end--;
	if (r0 < end && as.k_type == QN_KV_Q4) {
		kv_expand_k(w->k, k, op->heads.head_dim, next_k);
		next_k = k = w->k;
	}
	if (r0 < end && op->heads.v_in_k) {
		kv_values_of_keys(value_type(op, &as), w->v, k, op->heads.head_dim, op->heads.v_dim);
		next_v = v = w->v;
	} else if (r0 < end && as.v_type == QN_KV_Q4) {
		kv_expand_v(w->v, v, op->heads.v_dim, next_v);
		next_v = v = w->v;
	}
	for (; r0 < end; r0 += QN_ATTN_ROWS) {
		struct attn_rows a = {
			.o = to->o + r0 * dv,
			.m = to->m + r0,
			.l = to->l + r0,
			.e = w->e,
			.c = w->c,
			.q = w->q + (i * TILE_ROWS + r0) * q_bytes,
			.qd = w->qd[i] + r0,
			.qsum = w->qsum[i] + r0,
			.from = w->from + r0,
			.lim = w->lim + r0,
			.bias = op->bias || op->relative.at ? w->bias + r0 : NULL,
			.cap = op->softcap > 0 ? w->cap + r0 : NULL,
			.n = end - r0 < QN_ATTN_ROWS ? end - r0 : QN_ATTN_ROWS,
			.head_dim = op->heads.head_dim,
			.v_dim = (int)dv,
			.q_bytes = q_bytes,
			.ahead = next_k,
		};

		qn_kernels.attn_scores[kv_expanded(as.k_type)](&a, k);
		qn_kernels.attn_weights(&a);
		a.ahead = next_v;
		qn_kernels.attn_values[value_type(op, &as)](&a, v);
		next_k = k; /* the others find it asked for */
		next_v = v;
	}
}

/* The first position that a token at pos sees, with a window. */
static int64_t first_seen(const struct qn_attend *op, int64_t pos)
{
	return op->chunked ? pos - pos % op->window : pos - op->window + 1;
}

/* The first position that token t of the tile sees: it may be negative. */
static int64_t first_of(const struct run *c, const struct qn_attend *op, const struct tile *tile, int64_t t)
{
	const int64_t pos = c->batch->pos[t];

	if (op->sight == QN_SIGHT_ONLY)
		return c->batch->span ? c->batch->span[2 * t] : pos;
	if (op->side == QN_SIDE_OWN)
		return c->batch->source[c->batch->seq[tile->t0]];
	return op->window > 0 ? first_seen(op, pos) : 0;
}

/* The last position that token t of the tile sees. */
static int64_t last_seen(const struct run *c, const struct qn_attend *op, const struct tile *tile, int64_t t)
{
	const int64_t pos = c->batch->pos[t];

	if (op->sight != QN_SIGHT_NONE)
		return c->batch->span ? c->batch->span[2 * t + 1] : pos;
	if (op->side == QN_SIDE_SOURCE)
		return c->batch->source[c->batch->seq[tile->t0]] - 1;
	return pos + op->ahead < tile->last ? pos + op->ahead : tile->last;
}

/*
 * Which of a row's n numbers pairs of a query and a key have whose distances are d - n_at + 1 .. d, the last one first:
 * there, or, where some are further apart than others are told from, in `copy`.
 */
static const int32_t *relative_at(const struct qn_relative *op, int64_t d, int n_at, int32_t *copy)
{
	if (d <= op->span && d - n_at + 1 >= -op->span)
		return op->at + op->span + d;
	for (int i = 0; i < n_at; i++) {
		const int64_t far = d - i;

		copy[n_at - 1 - i] = op->at[op->span + (far < -op->span ? -op->span : far > op->span ? op->span : far)];
	}
	return copy + n_at - 1;
}

/* What is added to the scores of the keys of block b, for the rows of a tile of kv head h. */
static void relative_block(const struct run *c, const struct qn_attend *op, const struct tile *tile, int h,
                           struct work *w, int64_t b)
{
	const struct qn_relative *rel = &op->relative;
	const int group = op->heads.n_head / op->heads.n_head_kv, heads = tile->h1 - tile->h0;
	const int n = (int)(tile->t1 - tile->t0) * heads;
	const int32_t *pos = c->batch->pos;
	const int toks = (int)(tile->t1 - tile->t0);
	const int64_t first = b * QN_KV_BLOCK;
	int32_t copy[TILE_ROWS > QN_KV_BLOCK ? TILE_ROWS : QN_KV_BLOCK];

	for (int r = 0; r < n; r++) {
		const int64_t t = tile->t0 + r / heads, head = h * group + tile->h0 + r % heads;
		float *y = w->relative + r * QN_KV_BLOCK;

		w->bias[r] = y;
		if (rel->by_query < 0) {
			memset(y, 0, sizeof *y * QN_KV_BLOCK);
			continue;
		}

		const float *x = buf_row(c, rel->by_query, t) + head * rel->step;
		const int32_t *at = relative_at(rel, pos[t] - first, QN_KV_BLOCK, copy);

		for (int i = 0; i < QN_KV_BLOCK; i++)
			y[i] = x[at[-i]];
	}
	if (rel->by_key < 0)
		return;
	/* Key by key: numbers of neighbouring queries are neighbours in its row. */
	for (int i = 0; i < QN_KV_BLOCK && first + i <= tile->last; i++) {
		const int64_t key = tile->t0 + first + i - pos[tile->t0]; /* its token, if that is in the batch */

		if (key < 0 || c->batch->seq[key] != c->batch->seq[tile->t0])
			continue;

		const int32_t *at = relative_at(rel, pos[tile->t1 - 1] - first - i, toks, copy) - (toks - 1);

		for (int g = 0; g < heads; g++) {
			const float *x = buf_row(c, rel->by_key, key) +
			                 (int64_t)(h * group + tile->h0 + g) * rel->step;
			float *y = w->relative + g * QN_KV_BLOCK + i;

			for (int t = 0; t < toks; t++)
				y[t * heads * QN_KV_BLOCK] += x[at[t]];
		}
	}
}

/* Blocks that some row of the tile sees; of keys one by one, as many as hold them. */
static void tile_blocks(const struct run *c, const struct qn_attend *op, const struct tile *tile, int64_t *first,
                        int64_t *end)
{
	const int64_t some = selected(c, op, tile->t0), before = some ? 0 : first_of(c, op, tile, tile->t0);

	*first = before > 0 ? before / QN_KV_BLOCK : 0;
	*end = (some ? some - 1 : last_seen(c, op, tile, tile->t1 - 1)) / QN_KV_BLOCK + 1;
}

/* Divides a thread's scratch. */
static void work_at(const struct qn_attend *op, uint8_t *scratch, struct work *w)
{
	const int64_t dv = kv_pad(op->heads.v_dim, 16), q_bytes = kv_query_bytes(op->heads.head_dim);

	w->q = scratch;
	w->chunk = (struct part){(float *)(w->q + TILE_ROWS * q_bytes * (1 + op->n_tier)), w->m, w->l};
	w->sum = (struct part){w->chunk.o + TILE_ROWS * dv, w->m_sum, w->l_sum};
	w->span = (struct part){w->sum.o + TILE_ROWS * dv, w->m_span, w->l_span};
	w->e = op->n_tier ? w->span.o + TILE_ROWS * dv : w->span.o;
	w->ml = w->e + QN_ATTN_ROWS * QN_KV_BLOCK;
	w->relative = w->ml + 2 * TILE_ROWS;
	w->k = (uint8_t *)(w->relative + relative_floats(op));
	w->v = w->k + expanded_k(op);
	w->listed = w->v + expanded_v(op);
}

static void tile_begin(const struct run *c, const struct qn_attend *op, const struct tile *tile, int h, struct work *w)
{
	const int64_t q_bytes = kv_query_bytes(op->heads.head_dim);
	const int group = op->heads.n_head / op->heads.n_head_kv, heads = tile->h1 - tile->h0;
	const int n = (int)(tile->t1 - tile->t0) * heads;

	work_at(op, c->scratch, w);
	for (int r = 0; r < n; r++) {
		const int64_t t = tile->t0 + r / heads;

		w->cap[r] = op->softcap * LOG2E * growth(op->temp_log, c->batch->pos[t]);
		w->first[r] = first_of(c, op, tile, t);
		w->last[r] = last_seen(c, op, tile, t);
	}
	for (int i = 0; i <= op->n_tier; i++)
		for (int r = 0; r < n; r++) {
			const int head = h * group + tile->h0 + r % heads;

			kv_query(tier_of(op, i).k_type, w->q + (i * TILE_ROWS + r) * q_bytes, &w->qd[i][r],
			         &w->qsum[i][r], cols_row(c, op->q, tile->t0 + r / heads) +
			         (int64_t)head * op->heads.head_dim, op->heads.head_dim);
		}
}

/* Takes back the transform of the n rows of sums of values, if they are kept as codes. */
static void restore(const struct qn_attend *op, const struct qn_tier *as, float *o, int64_t step, int n)
{
	const int whole = op->heads.v_in_k ? transformed(op->heads.head_dim) : op->heads.v_dim;

	if ((op->heads.v_in_k ? as->k_type : as->v_type) != QN_KV_Q4)
		return;
	for (int r = 0; r < n; r++)
		for (int at = 0; at < op->heads.v_dim; at += whole)
			kv_hadamard(o + r * step + at, whole);
}

/* What the tile sees of chunk i of the sequence, into w->chunk. */
static void tile_chunk(const struct run *c, const struct qn_attend *op, const struct tile *tile, int h, struct work *w,
                       int64_t i)
{
	const int group = op->heads.n_head / op->heads.n_head_kv;
	const int heads = tile->h1 - tile->h0, n = (int)(tile->t1 - tile->t0) * heads;

	const int64_t dv = kv_pad(op->heads.v_dim, 16);
	int64_t first, end;
	int before = -1; /* the tier of the block before */

	tile_blocks(c, op, tile, &first, &end);
	first = first > i * CHUNK ? first : i * CHUNK;
	end = end < (i + 1) * CHUNK ? end : (i + 1) * CHUNK;
	part_clear(&w->chunk, n, dv);
	for (int64_t b = next_seen(tile->mask, first, end), after; b < end; b = after) {
		after = next_seen(tile->mask, b + 1, end);

		const int64_t some = selected(c, op, tile->t0);
		const int in = some ? 0 : tier_at(c, op, tile->t0, b);
		const int then = after < end && !some ? tier_at(c, op, tile->t0, after) : -1;
		const struct qn_tier as = tier_of(op, in);
		const uint8_t *kv, *next;

		if (some) {
			const int64_t left = selected_block(c, op, tile->t0, h, b, w->listed);

			for (int r = 0; r < n; r++) {
				w->lim[r] = (int32_t)left;
				w->from[r] = 0;
			}
			attend_block(op, in, w, &w->chunk, n, w->listed, w->listed);
			continue;
		}
		if (op->relative.at)
			relative_block(c, op, tile, h, w, b);
		next = kv = tier_head(c, op, &as, tile->t0, b, h);
		if (qn_ahead && then == in)
			next = tier_head(c, op, &as, tile->t0, after, h);
		if (op->n_tier && before != in)
			part_clear(&w->span, n, dv);
		before = in;
		for (int r = 0; r < n; r++) {
			w->lim[r] = (int32_t)(w->last[r] + 1 - b * QN_KV_BLOCK);
			w->from[r] = (int32_t)(w->first[r] - b * QN_KV_BLOCK);
		}
		for (int r = 0; op->bias && r < n; r++)
			w->bias[r] = bias_at(op, h * group + tile->h0 + r % heads,
			                     b * QN_KV_BLOCK - c->batch->pos[tile->t0 + r / heads]);
		attend_block(op, in, w, op->n_tier ? &w->span : &w->chunk, n, kv, next);
		if (op->n_tier && then != in) {
			restore(op, &as, w->span.o, dv, n);
			part_merge(&w->chunk, &w->span, n, dv);
		}
	}
}

static void tile_end(const struct run *c, const struct qn_attend *op, const struct tile *tile, int h,
                     const struct part *sum)
{
	static const float nothing[KV_HEAD_DIM_MAX];
	const int64_t dv = kv_pad(op->heads.v_dim, 16);
	const int group = op->heads.n_head / op->heads.n_head_kv, heads = tile->h1 - tile->h0;
	const struct qn_tier own = tier_of(op, 0);

	for (int r = 0; r < (tile->t1 - tile->t0) * heads; r++) {
		const int head = h * group + tile->h0 + r % heads;
		float *y = buf_row(c, op->dst, tile->t0 + r / heads) + (int64_t)head * op->heads.v_dim;

		if (op->sinks)
			qn_kernels.attn_merge(sum->o + r * dv, &sum->m[r], &sum->l[r], nothing,
			                      op->sinks[head] * LOG2E, 1, (int)dv);
		qn_kernels.scale_rows(y, sum->o + r * dv, 1 / sum->l[r], NULL, op->heads.v_dim);
		if (!op->n_tier) /* else each span is restored by itself */
			restore(op, &own, y, 0, 1);
		if (op->mul)
			qn_kernels.scale_rows(y, y, 1, channels(op->mul, h, op->heads.v_dim), op->heads.v_dim);
	}
}

/* Whether the tile sees nothing of chunk i, in blocks before end. */
static int chunk_empty(const struct tile *tile, int64_t i, int64_t end)
{
	const int64_t last = (i + 1) * CHUNK < end ? (i + 1) * CHUNK : end;

	return next_seen(tile->mask, i * CHUNK, last) == last;
}

static void attend_tile(const struct run *c, const struct qn_attend *op, const struct tile *tile, int h)
{
	const int64_t dv = kv_pad(op->heads.v_dim, 16);
	const int n = (int)(tile->t1 - tile->t0) * (tile->h1 - tile->h0);
	int64_t first, end;
	struct work w;

	tile_begin(c, op, tile, h, &w);
	tile_blocks(c, op, tile, &first, &end);
	if ((end - 1) / CHUNK == first / CHUNK) { /* there is nothing to merge */
		tile_chunk(c, op, tile, h, &w, first / CHUNK);
		tile_end(c, op, tile, h, &w.chunk);
		return;
	}
	part_clear(&w.sum, n, dv);
	for (int64_t i = first / CHUNK; i * CHUNK < end; i++) {
		if (chunk_empty(tile, i, end))
			continue;
		tile_chunk(c, op, tile, h, &w, i);
		part_merge(&w.sum, &w.chunk, n, dv);
	}
	tile_end(c, op, tile, h, &w.sum);
}

/*
 * The items of an operation: a tile and a kv head. They are asked for in rising order, or begun with again. Each place
 * has n, of its own kv heads; those of one place come after those of the one before.
 */
struct items {
	const struct run *c;
	const struct qn_attend *op;
	int toks, heads, group, splits; /* splits: of a group too large for one tile */
	int places, kv_heads; /* kv heads of a place */
	int64_t rows; /* of the largest tile */
	int64_t per_tile, n, at;
	int64_t t0, t1, last;
};

static struct items items_of(const struct run *c, const struct qn_attend *op)
{
	struct items it = {.c = c, .op = op, .group = op->heads.n_head / op->heads.n_head_kv, .at = -1};

	tile_shape(op, &it.toks, &it.heads);
	it.splits = (it.group + it.heads - 1) / it.heads;
	it.places = head_places(c, &op->heads);
	it.kv_heads = op->heads.n_head_kv / it.places;
	it.per_tile = (int64_t)it.kv_heads * it.splits;
	while (next_tile(c, op, it.toks, &it.t0, &it.t1)) {
		const int64_t rows = (it.t1 - it.t0) * it.heads;

		it.n += it.per_tile;
		it.rows = rows > it.rows ? rows : it.rows;
	}
	it.t0 = it.t1 = 0;
	return it;
}

/* The tile of a place's item i; returns its kv head among those of the place. */
static int item(struct items *it, int64_t i, struct tile *tile)
{
	const int h0 = (int)(i % it->splits) * it->heads;
	const struct qn_batch *b = it->c->batch;

	if (i / it->per_tile < it->at) { /* another place is helped */
		it->at = -1;
		it->t0 = it->t1 = 0;
	}
	for (; it->at < i / it->per_tile; it->at++) {
		const int64_t before = it->t1;

		next_tile(it->c, it->op, it->toks, &it->t0, &it->t1);
		if (it->t0 == 0 || it->t0 > before || b->seq[it->t0] != b->seq[it->t0 - 1])
			it->last = b->pos[batch_run(b, it->t0) - 1];
	}
	*tile = (struct tile){
		.t0 = it->t0,
		.t1 = it->t1,
		.last = it->last,
		.h0 = h0,
		.h1 = h0 + it->heads < it->group ? h0 + it->heads : it->group,
	};
	return (int)(i % it->per_tile) / it->splits;
}

static int64_t tile_chunks(const struct run *c, const struct qn_attend *op, const struct tile *tile)
{
	int64_t first, end;

	tile_blocks(c, op, tile, &first, &end);
	return (end + CHUNK - 1) / CHUNK - first / CHUNK;
}

/* How many chunks all items have, and the longest. */
static int64_t count_chunks(const struct run *c, const struct qn_attend *op, struct items it, int64_t *longest)
{
	struct tile tile;
	int64_t all = 0;

	*longest = 0;
	for (int64_t i = 0; i < it.n; i += it.per_tile) {
		item(&it, i, &tile);

		const int64_t chunks = tile_chunks(c, op, &tile);

		all += chunks * it.per_tile;
		*longest = chunks > *longest ? chunks : *longest;
	}
	return all;
}

/* An item, and which chunks of all are its own: from .. end. */
struct walk {
	struct items it;
	struct tile tile;
	int h;
	int64_t i, from, end;
};

/* To the next item of a place; all places have chunks alike. */
static void walk_on(const struct run *c, const struct qn_attend *op, struct walk *w)
{
	w->h = item(&w->it, ++w->i, &w->tile);
	w->from = w->end;
	w->end += tile_chunks(c, op, &w->tile);
}

/* How many results of chunks of so many rows there is room for in a thread's scratch. */
static int64_t parts_each(const struct qn_attend *op, int64_t rows)
{
	return parts_bytes(op) / part_bytes(op, rows);
}

/* Room u for the result of a chunk, in some thread's scratch. */
static struct part shared_part(const struct run *c, const struct qn_attend *op, int64_t rows, int64_t u)
{
	const int64_t each = parts_each(op, rows), dv = kv_pad(op->heads.v_dim, 16);
	float *o = (float *)(c->scratch + (u / each - c->ith) * (int64_t)c->scratch_each + work_scratch(op)) +
		   u % each * rows * (dv + 2);

	return (struct part){o, o + rows * dv, o + rows * dv + rows};
}

/* The sum of the item that a wave of a place begins with in the middle, in the scratch of one of two threads. */
static struct part begun_part(const struct run *c, const struct qn_attend *op, int place, int64_t wave)
{
	struct work w;

	work_at(op, c->scratch + (2 * place + wave % 2 - c->ith) * (int64_t)c->scratch_each, &w);
	return (struct part){w.sum.o, w.ml, w.ml + TILE_ROWS};
}

static void part_copy(const struct part *to, const struct part *from, int n, int64_t dv)
{
	memcpy(to->o, from->o, sizeof *to->o * (size_t)(n * dv));
	memcpy(to->m, from->m, sizeof *to->m * (size_t)n);
	memcpy(to->l, from->l, sizeof *to->l * (size_t)n);
}

/*
 * Merges the results that an item of a place has of the chunks u0 .. u1 of a wave, in their order, to what those of
 * earlier waves gave.
 */
static void merge_wave(const struct run *c, const struct qn_attend *op, const struct walk *at, int place, int64_t wave,
                       int64_t u0, int64_t u1)
{
	const int64_t dv = kv_pad(op->heads.v_dim, 16);
	const int64_t from = at->from > u0 ? at->from : u0, end = at->end < u1 ? at->end : u1;
	const int n = (int)(at->tile.t1 - at->tile.t0) * (at->tile.h1 - at->tile.h0);
	struct work w;

	work_at(op, c->scratch, &w);
	if (at->from < u0) {
		const struct part begun = begun_part(c, op, place, wave);

		part_copy(&w.chunk, &begun, n, dv);
	} else {
		part_clear(&w.chunk, n, dv);
	}
	for (int64_t u = from; u < end; u++) {
		const struct part p = shared_part(c, op, at->it.rows, place * (u1 - u0) + u - u0);

		part_merge(&w.chunk, &p, n, dv);
	}
	if (at->end <= u1) {
		tile_end(c, op, &at->tile, place * at->it.kv_heads + at->h, &w.chunk);
	} else {
		const struct part begun = begun_part(c, op, place, wave + 1);

		part_copy(&begun, &w.chunk, n, dv);
	}
}

/*
 * Few items and many threads: chunks are dealt out by themselves, as many at a time as there is room for results, and
 * merged in their order by whoever has the item. A place has as many chunks as another, and a wave the same of each.
 */
static void attend_waves(struct run *c, const struct qn_attend *op, const struct items *it, int64_t chunks)
{
	const int64_t most = parts_each(op, it->rows) * c->nth / it->places;
	struct walk first = {.it = *it, .i = -1};
	int64_t tile = -1; /* whose queries are in w */
	int64_t each[QN_PLACES_MAX];
	struct work w;

	for (int64_t wave = 0, u0 = 0; u0 < chunks; wave++, u0 += most) {
		const int64_t u1 = u0 + most < chunks ? u0 + most : chunks, n = u1 - u0;
		struct deal deal = deal_each(c, it->places, n, each);
		struct walk at, last;
		int64_t k, block, end;

		while (first.end <= u0)
			walk_on(c, op, &first);
		at = first;
		while ((k = deal_next(c->pool, c->step, &deal)) >= 0) {
			const int place = (int)(k / n);
			const int64_t u = u0 + k % n;

			if (at.from > u)
				at = first; /* another place is helped */
			while (at.end <= u)
				walk_on(c, op, &at);

			const int h = place * it->kv_heads + at.h;

			if (tile != place * it->n + at.i)
				tile_begin(c, op, &at.tile, h, &w);
			tile = place * it->n + at.i;
			tile_blocks(c, op, &at.tile, &block, &end);
			w.chunk = shared_part(c, op, it->rows, k);
			tile_chunk(c, op, &at.tile, h, &w, block / CHUNK + u - at.from);
		}
		run_barrier(c);
		if (c->ith == 0)
			pool_clear(c->pool, c->step, 1);
		last = at = first;
		while (last.end < u1)
			walk_on(c, op, &last);

		const int64_t items = last.i - first.i + 1;

		deal = deal_each(c, it->places, items, each);
		while ((k = deal_next(c->pool, c->step + 1, &deal)) >= 0) {
			const int64_t i = first.i + k % items;

			if (at.i > i)
				at = first;
			while (at.i < i)
				walk_on(c, op, &at);
			merge_wave(c, op, &at, (int)(k / items), wave, u0, u1);
		}
		if (u1 == chunks)
			return;
		run_barrier(c);
		if (c->ith == 0)
			pool_clear(c->pool, c->step + 1, 1);
	}
}

static int sight_ok(const struct qn_attend *op)
{
	return op->sight == QN_SIGHT_NONE ||
	       ((op->sight == QN_SIGHT_SPAN || (op->sight == QN_SIGHT_ONLY && op->window == 0)) &&
	        op->side == QN_SIDE_ANY && op->ahead == 0 && op->selection.n == 0);
}

static int side_ok(const struct qn_attend *op)
{
	return op->side == QN_SIDE_ANY ||
	       ((op->side == QN_SIDE_OWN || (op->side == QN_SIDE_SOURCE && !op->bias)) && op->window == 0 &&
	        op->ahead == 0 && op->selection.n == 0);
}

static int tiers_ok(const struct qn_attend *op)
{
	if (op->n_tier < 0 || op->n_tier >= QN_TIERS_MAX || (op->n_tier > 0 && selects(op)))
		return 0;
	for (int i = 1; i <= op->n_tier; i++) {
		const struct qn_tier as = tier_of(op, i);

		if (!tier_ok(&op->heads, &as))
			return 0;
	}
	return 1;
}

static int relative_ok(const struct plan *p, const struct qn_attend *op)
{
	const struct qn_relative *rel = &op->relative;
	const int32_t buf[] = {rel->by_query, rel->by_key};

	if (!rel->at)
		return 1;
	if (op->bias || op->n_tier > 0 || selects(op) || op->side != QN_SIDE_ANY || rel->span < 0 ||
	    rel->span > SPAN_MAX || rel->n < 1 || rel->step < rel->n || rel->step % 16 != 0)
		return 0;
	for (int64_t i = 0; i <= 2 * (int64_t)rel->span; i++)
		if (rel->at[i] < 0 || rel->at[i] >= rel->n)
			return 0;
	for (int i = 0; i < 2; i++)
		if (buf[i] != -1 && !buf_ok(p, buf[i], (op->heads.n_head - 1) * (int64_t)rel->step + rel->n))
			return 0;
	return 1;
}

static int attend_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;

	return heads_ok(&op->heads) && cols_ok(p, op->q, (int64_t)op->heads.n_head * op->heads.head_dim) &&
	       buf_ok(p, op->dst, (int64_t)op->heads.n_head * op->heads.v_dim) && op->window >= 0 && op->ahead >= 0 &&
	       op->span >= 0 && op->span <= SPAN_MAX && op->softcap >= 0 && op->softcap <= SOFTCAP_MAX &&
	       (op->temp_log == 0 || op->temp_log > 1) && selection_ok(p, op) && side_ok(op) && sight_ok(op) &&
	       tiers_ok(op) && relative_ok(p, op) && blocks_fit(p, op);
}

/* A head of a block of queries that sees some blocks of keys. */
static struct tile some_tile(const struct run *c, const struct qn_attend *op, int64_t queries, int head)
{
	const int64_t t = nth_queries(c, op, queries);
	const int h0 = head % (op->heads.n_head / op->heads.n_head_kv);

	return (struct tile){t, t + QN_KV_BLOCK, c->batch->pos[t] + QN_KV_BLOCK - 1, h0, h0 + 1,
	                     mask_of(c, op, t, head)};
}

/* Blocks of queries that see some blocks of keys, n of them: each head by itself, those of one block together. */
static void attend_some(struct run *c, const struct qn_attend *op, int places, int64_t n)
{
	const int heads = op->heads.n_head / places, group = op->heads.n_head / op->heads.n_head_kv;
	int64_t each[QN_PLACES_MAX], i;
	struct deal deal = deal_each(c, places, n * heads, each);

	while ((i = deal_next(c->pool, c->step + 1, &deal)) >= 0) {
		const int head = (int)(i / (n * heads)) * heads + (int)(i % heads);
		const struct tile tile = some_tile(c, op, i % (n * heads) / heads, head);

		attend_tile(c, op, &tile, head / group);
	}
}

static void attend_run(struct run *c, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;
	struct items it = items_of(c, op);
	int64_t each[QN_PLACES_MAX];
	struct deal deal = deal_each(c, it.places, it.n, each);
	struct tile tile;
	int64_t longest, i;
	const int64_t some = count_queries(c, op);
	const int64_t chunks = some || c->nth < 2 * it.places ? 0 : count_chunks(c, op, it, &longest); /* of a place */

	if (chunks && longest > 1 && longest * LONG_PART * c->nth > chunks * it.places) {
		attend_waves(c, op, &it, chunks);
		return;
	}
	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int h = item(&it, i % it.n, &tile);

		attend_tile(c, op, &tile, (int)(i / it.n) * it.kv_heads + h);
	}
	if (some)
		attend_some(c, op, it.places, some);
}

static void moves_some(const struct run *c, const struct qn_attend *op, struct qn_ticks_op *m)
{
	const struct qn_tier own = tier_of(op, 0);

	for (int64_t n = count_queries(c, op), k = 0; k < n; k++)
		for (int head = 0; head < op->heads.n_head; head++) {
			const struct tile tile = some_tile(c, op, k, head);
			const int64_t end = tile.last / QN_KV_BLOCK + 1;

			for (int64_t b = 0; (b = next_seen(tile.mask, b, end)) < end; b++) {
				m->bytes += head_bytes(&op->heads, &own);
				m->madds += (int64_t)(op->heads.head_dim + op->heads.v_dim) * QN_KV_BLOCK *
				            QN_KV_BLOCK;
			}
		}
}

/* Each tile reads the blocks that it sees; each row meets the keys and the values of the positions it sees. */
static struct qn_ticks_op attend_moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;
	struct items it = items_of(c, op);
	struct qn_ticks_op m = {0};
	struct tile tile;

	for (int64_t i = 0; i < it.n * it.places; i++) {
		int64_t first, end;

		item(&it, i % it.n, &tile);
		tile_blocks(c, op, &tile, &first, &end);
		for (int64_t b = first; b < end; b++) {
			const struct qn_tier as = tier_of(op, tier_at(c, op, tile.t0, b));

			m.bytes += head_bytes(&op->heads, &as);
		}
		for (int64_t t = tile.t0; t < tile.t1; t++) {
			const int64_t from = first_of(c, op, &tile, t);
			const int64_t some = selected(c, op, tile.t0);

			m.madds += (int64_t)(op->heads.head_dim + op->heads.v_dim) * (tile.h1 - tile.h0) *
			           (some ? some : last_seen(c, op, &tile, t) + 1 - (from > 0 ? from : 0));
		}
	}
	moves_some(c, op, &m);
	return m;
}

const struct operation op_attend = {
	.check = attend_check,
	.scratch = attend_scratch,
	.counters = 2, /* chunks, and then the tiles that they are parts of */
	.moves = attend_moves,
	.run = attend_run,
};
