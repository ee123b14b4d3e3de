/*
 * blocks.c - which blocks of keys the queries of a prompt see: see struct qn_blocks.
 *
 * Each 8th query of a head is a row of attention's own kernels, of which only the weights of the keys are taken. A
 * block of keys is read once for the rows of several heads and blocks of queries; what a row gets depends on its query
 * and the keys alone.
 */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "ops/heads.h"
#include "ops/rank.h"
#include "ops/seen.h"
#include "run/operation.h"

/* Of so many queries the last is a row; and rows of a block of queries, for each head. */
#define STRIDE 8
#define ROWS_EACH (QN_KV_BLOCK / STRIDE)

/* Rows that meet a block of keys together, at most, and bytes of what they keep of all blocks, where that is more. */
#define ROWS_MOST 96
#define KEPT_BYTES (1 << 20)

/* A row's maximum and sum of the weights of a block. */
struct weight {
	float m, l;
};

static int64_t key_blocks(const struct qn_attend *op)
{
	return (int64_t)op->blocks.words * 32;
}

/* Rows of an item: whole blocks of queries of one head at least. */
static int rows_most(const struct qn_attend *op)
{
	const int64_t n = KEPT_BYTES / (key_blocks(op) * (int64_t)sizeof(struct weight)) / ROWS_EACH * ROWS_EACH;

	return n > ROWS_MOST ? ROWS_MOST : n < ROWS_EACH ? ROWS_EACH : (int)n;
}

/*
 * A thread's scratch: rows of queries, their scales and sums, scores of a block, a block of expanded codes, the weights
 * of all blocks [blocks][rows], their sums, and their ranks.
 */
struct work {
	uint8_t *q;
	float *qd, *cap, *m, *l, *c;
	int32_t *qsum, *from, *lim;
	float *e;
	uint8_t *k;
	struct weight *kept;
	float *sum;
	uint64_t *heap;
};

static void *cut(uint8_t **at, int64_t bytes)
{
	void *p = *at;

	*at += kv_pad(bytes, 64);
	return p;
}

static size_t work_of(const struct qn_attend *op, uint8_t *scratch, struct work *w)
{
	const int64_t rows = rows_most(op), blocks = key_blocks(op), word = sizeof(float);
	uint8_t *at = scratch;

	w->q = cut(&at, rows * kv_query_bytes(op->heads.head_dim));
	w->qd = cut(&at, rows * word);
	w->cap = cut(&at, rows * word);
	w->m = cut(&at, rows * word);
	w->l = cut(&at, rows * word);
	w->c = cut(&at, rows * word);
	w->qsum = cut(&at, rows * word);
	w->from = cut(&at, rows * word);
	w->lim = cut(&at, rows * word);
	w->e = cut(&at, QN_ATTN_ROWS * QN_KV_BLOCK * word);
	w->k = cut(&at, op->heads.k_type == QN_KV_Q4 ? kv_k_bytes(QN_KV_Q8, kv_pad(op->heads.head_dim, 8)) : 0);
	w->kept = cut(&at, blocks * rows * (int64_t)sizeof *w->kept);
	w->sum = cut(&at, blocks * word);
	w->heap = cut(&at, blocks * (int64_t)sizeof *w->heap);
	return (size_t)(at - scratch);
}

static size_t scratch(const struct qn_op *o)
{
	static uint8_t nowhere[1];
	struct work w;

	return work_of(&o->attend, nowhere, &w);
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;

	return op->blocks.words > 0 && heads_ok(&op->heads) && op->softcap >= 0 &&
	       (op->temp_log == 0 || op->temp_log > 1) && blocks_fit(p, op) &&
	       cols_ok(p, op->q, (int64_t)op->heads.n_head * op->heads.head_dim);
}

/* Blocks of queries that follow each other, n of them, of these heads of a kv head. Token t begins the first. */
struct group {
	int64_t t;
	int n, kv_head, h0, heads;
};

/* Row i of block of queries j, of head h of the group: rows see more the later they come. */
static int row_of(const struct group *g, int j, int i, int h)
{
	return (j * ROWS_EACH + i) * g->heads + h;
}

static void begin(const struct run *c, const struct qn_attend *op, const struct group *g, const struct work *w)
{
	const int first = g->kv_head * (op->heads.n_head / op->heads.n_head_kv) + g->h0, dim = op->heads.head_dim;

	for (int j = 0; j < g->n; j++)
		for (int i = 0; i < ROWS_EACH; i++)
			for (int h = 0; h < g->heads; h++) {
				const int64_t t = g->t + j * QN_KV_BLOCK + (i + 1) * STRIDE - 1;
				const int r = row_of(g, j, i, h);

				kv_query(op->heads.k_type, w->q + r * kv_query_bytes(dim), &w->qd[r], &w->qsum[r],
				         cols_row(c, op->q, t) + (int64_t)(first + h) * dim, dim);
				w->cap[r] = op->softcap * LOG2E * growth(op->temp_log, c->batch->pos[t]);
				w->from[r] = 0;
			}
}

/* The rows from r0 on meet block b of keys. */
static void meet(const struct run *c, const struct qn_attend *op, const struct group *g, const struct work *w, int r0,
                 int64_t b)
{
	const int end = g->n * ROWS_EACH * g->heads;
	const uint8_t *k = kv_head(c, &op->heads, g->t, b * QN_KV_BLOCK, g->kv_head);

	if (op->heads.k_type == QN_KV_Q4) {
		kv_expand_k(w->k, k, op->heads.head_dim, k);
		k = w->k;
	}
	for (int r = r0; r < end; r++) {
		const int64_t i = r / g->heads, last = c->batch->pos[g->t] + (i + 1) * STRIDE - b * QN_KV_BLOCK;

		w->lim[r] = last < QN_KV_BLOCK ? (int32_t)last : QN_KV_BLOCK;
		w->m[r] = -INFINITY;
		w->l[r] = 0;
	}
	for (; r0 < end; r0 += QN_ATTN_ROWS) {
		const struct attn_rows a = {
			.m = w->m + r0,
			.l = w->l + r0,
			.e = w->e,
			.c = w->c,
			.q = w->q + r0 * kv_query_bytes(op->heads.head_dim),
			.qd = w->qd + r0,
			.qsum = w->qsum + r0,
			.from = w->from + r0,
			.lim = w->lim + r0,
			.cap = op->softcap > 0 ? w->cap + r0 : NULL,
			.n = end - r0 < QN_ATTN_ROWS ? end - r0 : QN_ATTN_ROWS,
			.head_dim = op->heads.head_dim,
			.q_bytes = kv_query_bytes(op->heads.head_dim),
			.ahead = k,
		};

		qn_kernels.attn_scores[kv_expanded(op->heads.k_type)](&a, k);
		qn_kernels.attn_weights(&a);
		for (int r = r0; r < r0 + a.n; r++)
			w->kept[b * rows_most(op) + r] = (struct weight){w->m[r], w->l[r]};
	}
}

/* Adds the parts of the weight that n blocks have from row r. */
static void add_parts(const struct qn_attend *op, const struct work *w, int r, int64_t n)
{
	const struct weight *of = w->kept + r;
	const int step = rows_most(op);
	float max = -INFINITY, all = 0;

	for (int64_t b = 0; b < n; b++)
		max = of[b * step].m > max ? of[b * step].m : max;
	for (int64_t b = 0; b < n; b++)
		all += of[b * step].l * qexp2(of[b * step].m - max);
	for (int64_t b = 0; b < n; b++)
		w->sum[b] += of[b * step].l * qexp2(of[b * step].m - max) / all;
}

static void see(uint32_t *mask, int64_t b)
{
	mask[b / 32] |= (uint32_t)1 << b % 32;
}

/* Chooses blocks for head h of the group's block of queries j. */
static void choose(const struct run *c, const struct qn_attend *op, const struct group *g, const struct work *w, int j,
                   int h)
{
	const int64_t t = g->t + j * QN_KV_BLOCK, own = c->batch->pos[t] / QN_KV_BLOCK;
	uint32_t *mask = mask_of(c, op, t, g->kv_head * (op->heads.n_head / op->heads.n_head_kv) + g->h0 + h);
	float have = 0, want = 0;
	int n = 0;

	memset(mask, 0, sizeof *mask * (size_t)op->blocks.words);
	memset(w->sum, 0, sizeof *w->sum * (size_t)(own + 1));
	for (int i = 0; i < ROWS_EACH; i++)
		add_parts(op, w, row_of(g, j, i, h), own + 1);
	for (int64_t b = 0; b <= own; b++) {
		want += w->sum[b];
		if (b == 0 || b >= own - 1) {
			have += w->sum[b];
			see(mask, b);
		} else {
			w->heap[n++] = ~rank_of(w->sum[b], (int32_t)b); /* the heaviest at the top */
		}
	}
	want *= op->blocks.part;
	for (int i = n / 2; i-- > 0;)
		sift_from(w->heap, n, i, w->heap[i]);
	for (; n > 0 && (have < want || op->blocks.part == 1); n--) {
		const int64_t b = ranked(~w->heap[0]);

		have += w->sum[b];
		see(mask, b);
		sift(w->heap, n - 1, w->heap[n - 1]);
	}
}

/*
 * Items: heads of a kv head, some at a time, and as many blocks of queries as fit beside them, of one sequence. Where
 * that leaves threads without items, fewer.
 */
struct items {
	int heads, splits, queries;
	int64_t n;
};

/* How many blocks of queries follow each other from token t on, at most `most`. */
static int in_row(const struct run *c, const struct qn_attend *op, int64_t t, int most)
{
	const struct qn_batch *b = c->batch;
	int n = 1;

	for (int64_t at = t + QN_KV_BLOCK; n < most && at < b->n_tok; at += QN_KV_BLOCK, n++)
		if (b->seq[at] != b->seq[t] || !sees_some(c, op, at))
			break;
	return n;
}

static struct items items_of(const struct run *c, const struct qn_attend *op)
{
	const int group = op->heads.n_head / op->heads.n_head_kv, most = rows_most(op) / ROWS_EACH;
	struct items it = {.splits = (group + most - 1) / most};

	it.heads = (group + it.splits - 1) / it.splits;
	for (it.queries = most / it.heads;; it.queries--) {
		it.n = 0;
		for (int64_t t = 0; (t = next_queries(c, op, t)) < c->batch->n_tok;) {
			t += (int64_t)in_row(c, op, t, it.queries) * QN_KV_BLOCK;
			it.n++;
		}
		if (it.queries == 1 || it.n * it.splits * op->heads.n_head_kv >= 4 * c->nth)
			return it;
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;
	const int group = op->heads.n_head / op->heads.n_head_kv;
	struct items it;
	struct work w;
	int64_t each[QN_PLACES_MAX], i;

	if (next_queries(c, op, 0) == c->batch->n_tok)
		return;
	it = items_of(c, op);
	work_of(op, c->scratch, &w);

	const int places = head_places(c, &op->heads), kv_heads = op->heads.n_head_kv / places;
	const int64_t per_place = it.n * kv_heads * it.splits;
	struct deal deal = deal_each(c, places, per_place, each);

	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int64_t of = i % per_place;
		struct group g = {.h0 = (int)(of % it.splits) * it.heads};

		g.heads = g.h0 + it.heads < group ? it.heads : group - g.h0;
		g.kv_head = (int)(i / per_place) * kv_heads + (int)(of / it.splits % kv_heads);
		for (int64_t k = 0;; k++) {
			g.t = next_queries(c, op, g.t);
			g.n = in_row(c, op, g.t, it.queries);
			if (k == of / it.splits / kv_heads)
				break;
			g.t += (int64_t)g.n * QN_KV_BLOCK;
		}
		begin(c, op, &g, &w);

		const int64_t own = c->batch->pos[g.t] / QN_KV_BLOCK;

		for (int64_t b = 0; b < own + g.n; b++)
			meet(c, op, &g, &w, b > own ? (int)(b - own) * ROWS_EACH * g.heads : 0, b);
		for (int j = 0; j < g.n; j++)
			for (int h = 0; h < g.heads; h++)
				choose(c, op, &g, &w, j, h);
	}
}

/* Each item reads the keys up to its own, which rows are multiplied with. */
static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_attend *op = &o->attend;
	const int64_t bytes = kv_k_bytes(op->heads.k_type, op->heads.head_dim);
	struct qn_ticks_op m = {0};
	struct items it;

	if (next_queries(c, op, 0) == c->batch->n_tok)
		return m;
	it = items_of(c, op);
	for (int64_t t = 0; (t = next_queries(c, op, t)) < c->batch->n_tok;) {
		const int64_t own = c->batch->pos[t] / QN_KV_BLOCK;
		const int n = in_row(c, op, t, it.queries);

		m.bytes += (own + n) * bytes * op->heads.n_head_kv * it.splits;
		for (int j = 0; j < n; j++)
			m.madds += (own + j + 1) * QN_KV_BLOCK * ROWS_EACH * op->heads.n_head * op->heads.head_dim;
		t += (int64_t)n * QN_KV_BLOCK;
	}
	return m;
}

const struct operation op_blocks = {.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run};
