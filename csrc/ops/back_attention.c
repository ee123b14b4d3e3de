/*
 * back_attention.c - the reverse of QKV and of attention.
 *
 * Scores are made again from queries and keys, a tile of ROWS queries and KEYS keys at a time, so no matrix of all is
 * ever there (Dao et al. 2022, "FlashAttention"). First by queries: the logarithm of each row's sum, what its gradients
 * have in common, and gradients of the query, over tiles of keys in order. Then by keys: gradients of keys and values,
 * over heads and tiles of queries in order. So each number is made by one thread, and its bits depend on nothing else.
 */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "ops/heads.h"
#include "run/operation.h"

#define ROWS 16
#define KEYS 64

/* ------------------------------------------------------------------ queries, keys, values */

static int qkv_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_op forward = {.kind = QN_OP_QKV, .qkv = o->back_qkv.qkv};
	const struct qn_qkv *op = &forward.qkv;

	return operation_of(QN_OP_QKV)->check(p, &forward) && !op->heads.v_in_k && !op->q_only &&
	       ((!op->q_norm && !op->k_norm) ||
	        (col_ok(p, o->back_qkv.was, op->col[0], (int64_t)op->heads.n_head * op->heads.head_dim) &&
	         col_ok(p, o->back_qkv.was, op->col[1], (int64_t)op->heads.n_head_kv * op->heads.head_dim)));
}

/* Rotates one head of token t the other way: by the same cosines and the sines of other sign. */
static void rotate_back(const struct run *c, const struct qn_rotation *r, float *x, int64_t t)
{
	float cs[KV_HEAD_DIM_MAX];

	if (r->kind == QN_ROPE_NONE)
		return;

	const float *table = buf_row(c, r->table, t);

	for (int i = 0; i < r->n; i += 2) {
		cs[i] = table[i];
		cs[i + 1] = -table[i + 1];
	}
	qn_kernels.rope(x + r->at, cs, r->n / 2, r->kind == QN_ROPE_NEOX);
}

/* Gradients d of a head that was x before its norm: with z = x r, dx = r (g - z mean(g z)), g = d w. */
static void norm_back(float *d, const float *x, const float *w, float eps, int64_t n)
{
	const float r = 1 / sqrtf(qn_kernels.sumsq(x, n) / (float)n + eps);
	float z[KV_HEAD_DIM_MAX];

	qn_kernels.scale_rows(d, d, 1, w, n);
	qn_kernels.scale_rows(z, x, r, NULL, n);
	qn_kernels.add_scaled(d, z, -(qn_kernels.dot(d, z, n) / (float)n), n);
	qn_kernels.scale_rows(d, d, r, NULL, n);
}

/* d of a head of queries or keys; was: what it was, NULL where there is no norm. */
static void head_back(const struct run *c, const struct qn_qkv *op, float *d, const float *was, const float *norm,
                      int64_t t)
{
	const int64_t n = op->heads.head_dim;
	float x[KV_HEAD_DIM_MAX];

	if (!op->rope_first)
		rotate_back(c, &op->rope, d, t);
	if (norm) {
		memcpy(x, was, sizeof *x * (size_t)n);
		if (op->rope_first)
			rotate(c, &op->rope, x, t);
		norm_back(d, x, norm, op->eps, n);
	}
	if (op->rope_first)
		rotate_back(c, &op->rope, d, t);
}

static void qkv_run(struct run *c, const struct qn_op *o)
{
	const struct qn_qkv *op = &o->back_qkv.qkv;
	const int n = op->heads.head_dim, group = op->heads.n_head / op->heads.n_head_kv;
	struct deal deal = deal_begin(c->pool, c->ith, (int64_t)c->batch->n_tok * op->heads.n_head_kv);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int64_t t = i / op->heads.n_head_kv;
		const int h = (int)(i % op->heads.n_head_kv);
		const int64_t q = op->col[0] + (int64_t)h * group * n, k = op->col[1] + (int64_t)h * n;
		float *d = buf_row(c, op->src, t);
		const float *was = op->q_norm || op->k_norm ? buf_row(c, o->back_qkv.was, t) : d;

		for (int64_t g = q; g < q + (int64_t)group * n; g += n) {
			qn_kernels.scale_rows(d + g, d + g, qkv_scale(op, c->batch->pos[t]),
			                      channels(op->q_mul, h, n), n);
			head_back(c, op, d + g, was + g, op->q_norm, t);
		}
		if (op->k_mul)
			qn_kernels.scale_rows(d + k, d + k, 1, channels(op->k_mul, h, n), n);
		head_back(c, op, d + k, was + k, op->k_norm, t);
		if (op->v_mul) {
			float *v = d + op->col[2] + (int64_t)h * op->heads.v_dim;

			qn_kernels.scale_rows(v, v, 1, channels(op->v_mul, h, op->heads.v_dim), op->heads.v_dim);
		}
	}
}

const struct operation op_back_qkv = {.check = qkv_check, .counters = 1, .run = qkv_run};

/* ------------------------------------------------------------------ attention */

/* What a thread needs for one pair of tiles. */
struct tile {
	float *kt, *vt;   /* [head_dim][KEYS], [v_dim][KEYS]: keys and values, transposed */
	float *dy;        /* [ROWS][v_dim]: gradients of the sums of values, before what the result is multiplied by */
	float s[ROWS * KEYS], d[ROWS * KEYS]; /* weights, and their gradients, then those of scores */
	float top[ROWS], sum[ROWS];
};

static int attend_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_attend *op = &o->back_attend;
	const struct qn_attend *a = &op->attend;
	const struct qn_heads *h = &a->heads;
	const int64_t dims[3] = {
		(int64_t)h->n_head * h->head_dim, (int64_t)h->n_head_kv * h->head_dim, (int64_t)h->n_head_kv * h->v_dim,
	};

	if (!heads_ok(h) || h->v_in_k || a->window < 0 || a->ahead < 0 || !(a->softcap >= 0) || a->temp_log ||
	    (a->bias && a->span < 0) || a->relative.at || a->selection.n || a->side || a->sight || a->n_tier)
		return 0;
	for (int i = 0; i < 3; i++)
		if (!col_ok(p, op->x, op->col[i], dims[i]) || !col_ok(p, op->dst, op->col[i], dims[i]))
			return 0;
	return buf_ok(p, op->y, (int64_t)h->n_head * h->v_dim) && buf_ok(p, op->dy, (int64_t)h->n_head * h->v_dim) &&
	       buf_ok(p, op->stats, 2 * (int64_t)h->n_head);
}

static size_t attend_scratch(const struct qn_op *o)
{
	const struct qn_heads *h = &o->back_attend.attend.heads;

	return sizeof(struct tile) + 64 + sizeof(float) * (size_t)(KEYS * (h->head_dim + h->v_dim) + ROWS * h->v_dim);
}

static struct tile *tile_at(const struct run *c, const struct qn_back_attend *op)
{
	struct tile *s = (struct tile *)c->scratch;

	s->kt = (float *)(s + 1);
	s->vt = s->kt + KEYS * op->attend.heads.head_dim;
	s->dy = s->vt + KEYS * op->attend.heads.v_dim;
	return s;
}

/* The tokens of a sequence. */
struct text {
	int64_t first, end;
};

/* The first token that token t of a text sees. */
static int64_t seen_from(const struct run *c, const struct qn_attend *op, struct text text, int64_t t)
{
	const int64_t pos = c->batch->pos[t], begin = t - pos;
	int64_t from = text.first;

	if (op->window > 0)
		from = begin + (op->chunked ? pos - pos % op->window : pos - op->window + 1);
	return from > text.first ? from : text.first;
}

/* The end of what token t of a text sees. */
static int64_t seen_to(const struct qn_attend *op, struct text text, int64_t t)
{
	const int64_t to = t + 1 + op->ahead;

	return to < text.end ? to : text.end;
}

/* Columns of tokens k .. k + n as rows, of KEYS columns with zeros beyond n. */
static void transpose(const struct run *c, float *y, int buf, int64_t col, int dims, int64_t k, int64_t n)
{
	for (int64_t j = 0; j < KEYS; j++) {
		const float *x = j < n ? buf_row(c, buf, k + j) + col : NULL;

		for (int i = 0; i < dims; i++)
			y[i * KEYS + j] = x ? x[i] : 0;
	}
}

/* Gradients of head's sums of values, of rows t .. t + n. */
static void gradients_of_sums(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head, int64_t t,
                           int64_t n)
{
	const struct qn_heads *h = &op->attend.heads;
	const float *mul = channels(op->attend.mul, head / (h->n_head / h->n_head_kv), h->v_dim);

	for (int64_t i = 0; i < n; i++)
		qn_kernels.scale_rows(s->dy + i * h->v_dim,
		                      buf_row(c, op->dy, t + i) + (int64_t)head * h->v_dim, 1, mul, h->v_dim);
}

/* s = the scores of rows t .. t + n of a head with the keys in kt, before a softcap. */
static void scores(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head, int64_t t, int64_t n)
{
	const int dims = op->attend.heads.head_dim;

	qn_kernels.multiply(&(struct product){
		.y = s->s,
		.y_row = KEYS,
		.a = buf_row(c, op->x, t) + op->col[0] + (int64_t)head * dims,
		.a_row = c->bufs[op->x].width,
		.a_col = 1,
		.b = s->kt,
		.b_row = KEYS,
		.rows = n,
		.cols = KEYS,
		.depth = dims,
	});
}

/* Which of the n keys from token k on token t sees: from .. to. */
static void seen(const struct run *c, const struct qn_attend *op, struct text text, int64_t t, int64_t k, int64_t n,
                 int64_t *from, int64_t *to)
{
	const int64_t begin = seen_from(c, op, text, t) - k, end = seen_to(op, text, t) - k;

	*from = begin < 0 ? 0 : begin > n ? n : begin;
	*to = end < *from ? *from : end > n ? n : end;
}

/* Weights and gradients of scores, from scores, of rows t .. t + n with n_keys from token k on. */
static void gradients_of_scores(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head,
                             struct text text, int64_t t, int64_t n, int64_t k, int64_t n_keys)
{
	const struct qn_attend *a = &op->attend;

	qn_kernels.multiply(&(struct product){
		.y = s->d,
		.y_row = KEYS,
		.a = s->dy,
		.a_row = a->heads.v_dim,
		.a_col = 1,
		.b = s->vt,
		.b_row = KEYS,
		.rows = n,
		.cols = KEYS,
		.depth = a->heads.v_dim,
	});
	for (int64_t i = 0; i < n; i++) {
		const float *stats = buf_row(c, op->stats, t + i);
		const float top = stats[head], common = stats[a->heads.n_head + head];
		float *p = s->s + i * KEYS, *d = s->d + i * KEYS, capped[KEYS];
		int64_t from, to;

		if (a->softcap > 0) {
			qn_kernels.softcap(p, p, a->softcap, KEYS);
			memcpy(capped, p, sizeof capped);
		}
		if (a->bias)
			qn_kernels.add_scaled(p, bias_at(a, head, k - t - i), 1, KEYS);
		qn_kernels.exp_from(p, p, top, KEYS);
		seen(c, a, text, t + i, k, n_keys, &from, &to);
		memset(p, 0, sizeof *p * (size_t)from);
		memset(p + to, 0, sizeof *p * (size_t)(KEYS - to));
		for (int j = 0; j < KEYS; j++)
			d[j] = p[j] * (d[j] - common);
		for (int j = 0; j < KEYS && a->softcap > 0; j++) {
			const float x = capped[j] / a->softcap;

			d[j] *= fmaf(-x, x, 1.0f);
		}
	}
}

/* The largest score and the sum of each row go on over n_keys from token k on. */
static void sums(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head, struct text text,
                 int64_t t, int64_t n, int64_t k, int64_t n_keys)
{
	for (int64_t i = 0; i < n; i++) {
		float *x = s->s + i * KEYS, top = s->top[i];
		int64_t from, to;

		if (op->attend.softcap > 0)
			qn_kernels.softcap(x, x, op->attend.softcap, KEYS);
		if (op->attend.bias)
			qn_kernels.add_scaled(x, bias_at(&op->attend, head, k - t - i), 1, KEYS);
		seen(c, &op->attend, text, t + i, k, n_keys, &from, &to);
		if (from == to)
			continue;
		for (int64_t j = from; j < to; j++)
			top = x[j] > top ? x[j] : top;
		qn_kernels.exp_from(x, x, top, KEYS);
		if (s->sum[i] > 0)
			s->sum[i] *= qexp(s->top[i] - top);
		s->sum[i] += qn_kernels.sum(x + from, to - from);
		s->top[i] = top;
	}
}

/* Rows t .. t + n of a head: their stats, and gradients of queries. */
static void by_queries(const struct run *c, const struct qn_back_attend *op, int head, struct text text, int64_t t,
                       int64_t n)
{
	const struct qn_heads *h = &op->attend.heads;
	const int kv = head / (h->n_head / h->n_head_kv);
	const int64_t from = text.first + (seen_from(c, &op->attend, text, t) - text.first) / KEYS * KEYS;
	const int64_t to = seen_to(&op->attend, text, t + n - 1);
	const int64_t key = op->col[1] + (int64_t)kv * h->head_dim;
	struct tile *s = tile_at(c, op);

	for (int i = 0; i < ROWS; i++) {
		s->top[i] = -INFINITY;
		s->sum[i] = 0;
	}
	for (int64_t k = from; k < to; k += KEYS) {
		const int64_t keys = to - k < KEYS ? to - k : KEYS;

		transpose(c, s->kt, op->x, key, h->head_dim, k, keys);
		scores(c, op, s, head, t, n);
		sums(c, op, s, head, text, t, n, k, keys);
	}
	for (int64_t i = 0; i < n; i++) {
		const float *y = buf_row(c, op->y, t + i) + (int64_t)head * h->v_dim;
		const float *dy = buf_row(c, op->dy, t + i) + (int64_t)head * h->v_dim;
		float *stats = buf_row(c, op->stats, t + i), sum = s->sum[i], top = s->top[i];

		if (op->attend.sinks) { /* a weight without a value */
			const float sink = op->attend.sinks[head], most = sink > top ? sink : top;

			sum = sum * qexp(top - most) + qexp(sink - most);
			top = most;
		}
		stats[head] = top + (float)qln((double)sum);
		stats[h->n_head + head] = qn_kernels.dot(y, dy, h->v_dim);
	}
	gradients_of_sums(c, op, s, head, t, n);
	for (int64_t k = from; k < to; k += KEYS) {
		const int64_t keys = to - k < KEYS ? to - k : KEYS;

		transpose(c, s->kt, op->x, key, h->head_dim, k, keys);
		transpose(c, s->vt, op->x, op->col[2] + (int64_t)kv * h->v_dim, h->v_dim, k, keys);
		scores(c, op, s, head, t, n);
		gradients_of_scores(c, op, s, head, text, t, n, k, keys);
		qn_kernels.multiply(&(struct product){
			.y = buf_row(c, op->dst, t) + op->col[0] + (int64_t)head * h->head_dim,
			.y_row = c->bufs[op->dst].width,
			.a = s->d,
			.a_row = KEYS,
			.a_col = 1,
			.b = buf_row(c, op->x, k) + key,
			.b_row = c->bufs[op->x].width,
			.rows = n,
			.cols = h->head_dim,
			.depth = keys,
			.add = k > from,
		});
	}
}

/* Adds what rows t .. t + n of a head bring to gradients of n_keys keys and values from token k on. */
static void add_to_keys(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head,
                        struct text text, int64_t t, int64_t n, int64_t k, int64_t n_keys, int add)
{
	const struct qn_heads *h = &op->attend.heads;
	const int kv = head / (h->n_head / h->n_head_kv);

	gradients_of_sums(c, op, s, head, t, n);
	scores(c, op, s, head, t, n);
	gradients_of_scores(c, op, s, head, text, t, n, k, n_keys);
	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->dst, k) + op->col[2] + (int64_t)kv * h->v_dim,
		.y_row = c->bufs[op->dst].width,
		.a = s->s,
		.a_row = 1,
		.a_col = KEYS,
		.b = s->dy,
		.b_row = h->v_dim,
		.rows = n_keys,
		.cols = h->v_dim,
		.depth = n,
		.add = add,
	});
	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->dst, k) + op->col[1] + (int64_t)kv * h->head_dim,
		.y_row = c->bufs[op->dst].width,
		.a = s->d,
		.a_row = 1,
		.a_col = KEYS,
		.b = buf_row(c, op->x, t) + op->col[0] + (int64_t)head * h->head_dim,
		.b_row = c->bufs[op->x].width,
		.rows = n_keys,
		.cols = h->head_dim,
		.depth = n,
		.add = add,
	});
}

/* Gradients of n keys and values from token k on. */
static void by_keys(const struct run *c, const struct qn_back_attend *op, int kv, struct text text, int64_t k,
                    int64_t n)
{
	const struct qn_heads *h = &op->attend.heads;
	const int group = h->n_head / h->n_head_kv;
	const int64_t before = k - op->attend.ahead - text.first; /* of the first that sees these */
	const int64_t from = text.first + (before > 0 ? before / ROWS * ROWS : 0);
	struct tile *s = tile_at(c, op);
	int add = 0;

	transpose(c, s->kt, op->x, op->col[1] + (int64_t)kv * h->head_dim, h->head_dim, k, n);
	transpose(c, s->vt, op->x, op->col[2] + (int64_t)kv * h->v_dim, h->v_dim, k, n);
	for (int head = kv * group; head < (kv + 1) * group; head++)
		for (int64_t t = from; t < text.end; t += ROWS, add = 1) {
			const int64_t rows = text.end - t < ROWS ? text.end - t : ROWS;

			if (seen_from(c, &op->attend, text, t) >= k + n)
				break; /* nor do later ones */
			add_to_keys(c, op, s, head, text, t, rows, k, n, add);
		}
}

/* Items of a text: tiles of `each` tokens. They are asked for in rising order, or begun with again. */
struct walk {
	struct text text;
	int64_t before; /* tiles of those before it */
};

static int64_t walk_tiles(const struct qn_batch *b, int64_t each)
{
	int64_t n = 0;

	for (int64_t t = 0, end; t < b->n_tok; t = end) {
		end = batch_run(b, t);
		n += (end - t + each - 1) / each;
	}
	return n;
}

/* The first token of tile i. */
static int64_t walk_to(const struct qn_batch *b, struct walk *w, int64_t each, int64_t i)
{
	if (i < w->before || w->text.end == 0)
		*w = (struct walk){{0, batch_run(b, 0)}, 0};
	while (i >= w->before + (w->text.end - w->text.first + each - 1) / each) {
		w->before += (w->text.end - w->text.first + each - 1) / each;
		w->text.first = w->text.end;
		w->text.end = batch_run(b, w->text.first);
	}
	return w->text.first + (i - w->before) * each;
}

static void attend_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_attend *op = &o->back_attend;
	const struct qn_heads *h = &op->attend.heads;
	struct deal d = deal_begin(c->pool, c->ith, walk_tiles(c->batch, ROWS) * h->n_head);
	struct walk w = {0};
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = walk_to(c->batch, &w, ROWS, i / h->n_head), left = w.text.end - t;

		by_queries(c, op, (int)(i % h->n_head), w.text, t, left < ROWS ? left : ROWS);
	}
	run_barrier(c);
	d = deal_begin(c->pool, c->ith, walk_tiles(c->batch, KEYS) * h->n_head_kv);
	w = (struct walk){0};
	while ((i = deal_next(c->pool, c->step + 1, &d)) >= 0) {
		const int64_t k = walk_to(c->batch, &w, KEYS, i / h->n_head_kv), left = w.text.end - k;

		by_keys(c, op, (int)(i % h->n_head_kv), w.text, k, left < KEYS ? left : KEYS);
	}
}

const struct operation op_back_attend = {
	.check = attend_check, .scratch = attend_scratch, .counters = 2, .run = attend_run,
};
