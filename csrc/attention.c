/*
 * attention.c - keys and values into KV blocks, and attention over them.
 *
 * Query heads that share a key-value head are stacked with the tokens of a sequence into tiles of
 * rows, so that a KV block is read once for all of them. A row meets its blocks in ascending order,
 * CHUNK of them at a time, and merges the chunks in order: its result depends on nothing else.
 */
#include <math.h>
#include <string.h>

#include "exec.h"
#include "fp16.h"

/* KV blocks whose partial result is merged as one: 1024 positions. */
#define CHUNK 16

static int64_t pad16(int64_t n)
{
	return (n + 15) / 16 * 16;
}

static int64_t kv_elem(int kv_type)
{
	return kv_type == QN_KV_F32 ? 4 : 2;
}

/* Bytes of one head's K, then of its K and V. */
static int64_t k_bytes(const struct qn_op *op)
{
	return (int64_t)op->head_dim * QN_KV_BLOCK * kv_elem(op->kv_type);
}

static int64_t head_bytes(const struct qn_op *op)
{
	return k_bytes(op) + pad16(op->head_dim) * QN_KV_BLOCK * kv_elem(op->kv_type);
}

size_t qn_kv_bytes(int32_t kv_type, int32_t n_head_kv, int32_t head_dim)
{
	const struct qn_op op = {.kv_type = kv_type, .head_dim = head_dim};

	return (size_t)(head_bytes(&op) * n_head_kv);
}

/* K of kv head h in the KV block that holds position pos of token t's sequence. */
static uint8_t *kv_head(const struct run *c, const struct qn_op *op, int64_t t, int64_t pos, int h)
{
	const struct qn_batch *b = c->batch;
	const int64_t block = b->kv_table[(int64_t)b->seq[t] * b->kv_cols + pos / QN_KV_BLOCK];

	return (uint8_t *)b->kv + block * b->kv_block_bytes + op->kv_offset + h * head_bytes(op);
}

/* Normalises and rotates one head in place. */
static void norm_rope(const struct run *c, const struct qn_op *op, float *x, const float *norm, int64_t t)
{
	const int64_t n = op->head_dim;

	if (norm)
		qn_kernels.scale_rows(x, x, 1 / sqrtf(qn_kernels.sumsq(x, n) / (float)n + op->eps), norm, n);
	if (op->rope != QN_ROPE_NONE)
		qn_kernels.rope(x, buf_row(c, op->aux, t), op->n_rot / 2, op->rope == QN_ROPE_NEOX);
}

static void store_kv(const struct qn_op *op, uint8_t *kv, const float *k, const float *v, int p)
{
	const int64_t dv = pad16(op->head_dim);

	if (op->kv_type == QN_KV_F32) {
		float *kb = (float *)kv, *vb = (float *)(kv + k_bytes(op));

		for (int d = 0; d < op->head_dim; d++)
			kb[d * QN_KV_BLOCK + p] = k[d];
		for (int d = 0; d < dv; d++)
			vb[p * dv + d] = d < op->head_dim ? v[d] : 0;
	} else {
		uint16_t *kb = (uint16_t *)kv, *vb = (uint16_t *)(kv + k_bytes(op));

		for (int d = 0; d < op->head_dim; d++)
			kb[d * QN_KV_BLOCK + p] = f16_of_f32_sat(k[d]);
		for (int d = 0; d < dv; d++)
			vb[p * dv + d] = d < op->head_dim ? f16_of_f32_sat(v[d]) : 0;
	}
}

void op_qkv(struct run *c, const struct qn_op *op)
{
	/* An item is a kv head of a token, with the query heads that share it. */
	struct deal deal = deal_begin(c->ith, c->nth, (int64_t)c->batch->n_tok * op->n_head_kv);
	const int group = op->n_head / op->n_head_kv;
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int64_t t = i / op->n_head_kv, pos = c->batch->pos[t];
		const int h = (int)(i % op->n_head_kv), p = (int)(pos % QN_KV_BLOCK);
		float *row = buf_row(c, op->src, t);
		float *q = row + op->col[0] + (int64_t)h * group * op->head_dim;
		float *k = row + op->col[1] + (int64_t)h * op->head_dim;

		for (int g = 0; g < group; g++) {
			float *x = q + g * op->head_dim;

			norm_rope(c, op, x, op->vec, t);
			qn_kernels.scale_rows(x, x, op->scale, NULL, op->head_dim);
		}
		norm_rope(c, op, k, op->vec2, t);
		store_kv(op, kv_head(c, op, t, pos, h), k, row + op->col[2] + (int64_t)h * op->head_dim, p);
	}
	c->step++;
}

/* Rows of one tile: heads h0 .. h1 of a group, of tokens t0 .. t1 of one sequence. */
struct tile {
	int64_t t0, t1;
	int h0, h1;
};

/* Tokens and heads of a tile, so that their product fits QN_ATTN_ROWS. */
static void tile_shape(const struct qn_op *op, int *toks, int *heads)
{
	const int group = op->n_head / op->n_head_kv;

	*heads = group < QN_ATTN_ROWS ? group : QN_ATTN_ROWS;
	*toks = QN_ATTN_ROWS / *heads;
}

/*
 * Advances to the next tile of the batch; a tile starts with t0 = t1 = 0. Tiles do not cross
 * sequences. Returns 0 at the end.
 */
static int next_tile(const struct qn_batch *b, int toks, int64_t *t0, int64_t *t1)
{
	*t0 = *t1;
	if (*t0 == b->n_tok)
		return 0;
	while (*t1 < b->n_tok && *t1 - *t0 < toks && b->seq[*t1] == b->seq[*t0])
		++*t1;
	return 1;
}

/* What a thread needs for one tile, in its scratch. */
struct work {
	float *q, *o, *sum; /* [QN_ATTN_ROWS][head_dim], twice [QN_ATTN_ROWS][v_dim] */
	float m[QN_ATTN_ROWS], l[QN_ATTN_ROWS], m_sum[QN_ATTN_ROWS], l_sum[QN_ATTN_ROWS];
	int32_t lim[QN_ATTN_ROWS];
};

size_t attend_scratch(const struct qn_op *op)
{
	return sizeof(float) * QN_ATTN_ROWS * (size_t)(pad16(op->head_dim) * 3);
}

static void attend_tile(const struct run *c, const struct qn_op *op, const struct tile *tile, int h)
{
	const int64_t dk = op->head_dim, dv = pad16(dk);
	const int group = op->n_head / op->n_head_kv, heads = tile->h1 - tile->h0;
	const int n = (int)(tile->t1 - tile->t0) * heads;
	const int32_t *pos = c->batch->pos;
	const int64_t blocks = pos[tile->t1 - 1] / QN_KV_BLOCK + 1;
	struct work w;
	struct attn_rows rows;

	w.q = (float *)c->scratch;
	w.o = w.q + QN_ATTN_ROWS * dv;
	w.sum = w.o + QN_ATTN_ROWS * dv;
	rows = (struct attn_rows){w.o, w.m, w.l, w.q, w.lim, n, (int)dk, (int)dv};

	for (int r = 0; r < n; r++) {
		const float *row = buf_row(c, op->src, tile->t0 + r / heads) + op->col[0];

		memcpy(w.q + r * dk, row + (h * group + tile->h0 + r % heads) * dk, sizeof *w.q * (size_t)dk);
	}
	for (int64_t b0 = 0; b0 < blocks; b0 += CHUNK) {
		memset(w.o, 0, sizeof *w.o * (size_t)(n * dv));
		for (int r = 0; r < n; r++) {
			w.m[r] = -INFINITY;
			w.l[r] = 0;
		}
		for (int64_t b = b0; b < b0 + CHUNK && b < blocks; b++) {
			const uint8_t *kv = kv_head(c, op, tile->t0, b * QN_KV_BLOCK, h);

			for (int r = 0; r < n; r++)
				w.lim[r] = (int32_t)(pos[tile->t0 + r / heads] + 1 - b * QN_KV_BLOCK);
			qn_kernels.attn[op->kv_type](&rows, kv, kv + k_bytes(op));
		}
		if (b0 == 0) {
			memcpy(w.sum, w.o, sizeof *w.o * (size_t)(n * dv));
			memcpy(w.m_sum, w.m, sizeof w.m);
			memcpy(w.l_sum, w.l, sizeof w.l);
			continue;
		}
		for (int r = 0; r < n; r++)
			qn_kernels.attn_merge(w.sum + r * dv, &w.m_sum[r], &w.l_sum[r], w.o + r * dv, w.m[r], w.l[r],
			                      (int)dv);
	}
	for (int r = 0; r < n; r++) {
		float *y = buf_row(c, op->dst, tile->t0 + r / heads) + (h * group + tile->h0 + r % heads) * dk;

		qn_kernels.scale_rows(y, w.sum + r * dv, 1 / w.l_sum[r], NULL, dk);
	}
}

void op_attend(struct run *c, const struct qn_op *op)
{
	const int group = op->n_head / op->n_head_kv;
	int toks, heads;

	tile_shape(op, &toks, &heads);

	const int splits = (group + heads - 1) / heads; /* of a group too large for one tile */
	const int per_tile = op->n_head_kv * splits;
	int64_t t0 = 0, t1 = 0, n_tiles = 0, i, at = -1;

	while (next_tile(c->batch, toks, &t0, &t1))
		n_tiles++;

	struct deal deal = deal_begin(c->ith, c->nth, n_tiles * per_tile);

	t0 = t1 = 0;
	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int h0 = (int)(i % splits) * heads;

		for (; at < i / per_tile; at++) /* items come in rising order */
			next_tile(c->batch, toks, &t0, &t1);

		const struct tile tile = {t0, t1, h0, h0 + heads < group ? h0 + heads : group};

		attend_tile(c, op, &tile, (int)(i % per_tile) / splits);
	}
	c->step++;
}
