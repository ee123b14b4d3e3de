/*
 * back_attention.c - the reverse of QKV and of attention.
 *
 * Scores are made again from queries and keys, a tile of ROWS queries and KEYS keys at a time, so no matrix of all is
 * ever there (Dao et al. 2022, "FlashAttention"). First by queries: the logarithm of each row's sum, what its gradients
 * have in common, and gradients of the query, over tiles of keys in order. Then by keys: gradients of keys and values,
 * over heads and tiles of queries in order. Where there are enough texts and heads for all threads, gradients of
 * queries come with those of keys. So each number is made by one thread, and its bits depend on nothing else.
 */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "ops/heads.h"
#include "ops/largest.h"
#include "run/operation.h"

#define ROWS 64
#define KEYS 64
#define LANES 16

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
	float *kt, *vt;      /* [head_dim][KEYS], [v_dim][KEYS]: keys and values, transposed */
	float *room;         /* [ROWS][v_dim], for dy */
	const float *dy;     /* [ROWS]: gradients of the sums of values, before what the result is multiplied by */
	int64_t dy_row;      /* from one to the next */
	float s[ROWS * KEYS], d[ROWS * KEYS]; /* weights, and their gradients, then those of scores */
	float top[ROWS], sum[ROWS];
};

/* What the forward pass takes, without what has no gradient here; dst is written while x, dy and stats are read. */
static int attend_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_attend *op = &o->back_attend;
	const struct qn_attend *a = &op->attend;
	const struct qn_heads *h = &a->heads;
	const int64_t dims[3] = {
		(int64_t)h->n_head * h->head_dim, (int64_t)h->n_head_kv * h->head_dim, (int64_t)h->n_head_kv * h->v_dim,
	};
	struct qn_op forward = {.kind = QN_OP_ATTEND, .attend = *a};

	forward.attend.q = (struct qn_cols){op->x, op->col[0]};
	forward.attend.dst = op->y;
	if (!operation_of(QN_OP_ATTEND)->check(p, &forward) || h->v_in_k || a->temp_log || a->relative.at ||
	    a->selection.n || a->side || a->sight || a->n_tier)
		return 0;
	for (int i = 0; i < 3; i++)
		if (!col_ok(p, op->x, op->col[i], dims[i]) || !col_ok(p, op->dst, op->col[i], dims[i]))
			return 0;
	return op->dst != op->x && op->dst != op->dy && op->dst != op->stats &&
	       buf_ok(p, op->dy, (int64_t)h->n_head * h->v_dim) && buf_ok(p, op->stats, 2 * (int64_t)h->n_head);
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
	s->room = s->vt + KEYS * op->attend.heads.v_dim;
	return s;
}

/* The tokens of a sequence. */
struct text {
	int64_t first, end;
};

/* The first token that token t of a text sees. It rises with t, as does the end. */
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

/* Queries t .. t + n of a head, and n_keys keys from token k on, of a text. */
struct pair {
	struct text text;
	int head;
	int64_t t, n, k, n_keys;
};

static int kv_of(const struct qn_back_attend *op, int head)
{
	return head / (op->attend.heads.n_head / op->attend.heads.n_head_kv);
}

/* Which of the keys query number i sees: from .. to. */
static void seen(const struct run *c, const struct qn_attend *op, const struct pair *p, int64_t i, int64_t *from,
                 int64_t *to)
{
	const int64_t begin = seen_from(c, op, p->text, p->t + i) - p->k, end = seen_to(op, p->text, p->t + i) - p->k;

	*from = begin < 0 ? 0 : begin > p->n_keys ? p->n_keys : begin;
	*to = end < *from ? *from : end > p->n_keys ? p->n_keys : end;
}

/* Queries row .. row + rows of a pair, and the keys that some of them see, from a multiple of LANES on. */
struct part {
	int64_t row, rows, from, to;
};

/* Goes on to the next part: all queries where they see all keys, and else some that see nearly the same ones. */
static int next_part(const struct run *c, const struct qn_attend *op, const struct pair *p, struct part *part)
{
	int64_t from, to, any;

	for (;;) {
		part->row += part->rows;
		if (part->row >= p->n)
			return 0;
		seen(c, op, p, p->n - 1, &from, &any);
		seen(c, op, p, part->row, &any, &to);
		part->rows = p->n - part->row;
		if (from > 0 || to < p->n_keys) {
			part->rows = part->rows < LANES ? part->rows : LANES;
			from = any;
		}
		seen(c, op, p, part->row + part->rows - 1, &any, &to);
		part->from = from / LANES * LANES;
		part->to = to;
		if (from < to)
			return 1;
	}
}

/* Columns of n tokens from k on as rows, of KEYS columns with zeros beyond n. */
static void transpose(const struct run *c, float *y, int buf, int64_t col, int dims, int64_t k, int64_t n)
{
	static const float zeros[KV_HEAD_DIM_MAX];
	const float *x[KEYS];
	int i = 0;

	for (int64_t j = 0; j < KEYS; j++)
		x[j] = j < n ? buf_row(c, buf, k + j) + col : zeros;
	for (; i + 4 <= dims; i += 4)
		for (int64_t j = 0; j < KEYS; j++)
			for (int l = 0; l < 4; l++)
				y[(i + l) * KEYS + j] = x[j][i + l];
	for (; i < dims; i++)
		for (int64_t j = 0; j < KEYS; j++)
			y[i * KEYS + j] = x[j][i];
}

static void transpose_keys(const struct run *c, const struct qn_back_attend *op, struct tile *s, int kv, int64_t k,
                           int64_t n)
{
	const int dims = op->attend.heads.head_dim;

	transpose(c, s->kt, op->x, op->col[1] + (int64_t)kv * dims, dims, k, n);
}

static void transpose_values(const struct run *c, const struct qn_back_attend *op, struct tile *s, int kv, int64_t k,
                             int64_t n)
{
	const int dims = op->attend.heads.v_dim;

	transpose(c, s->vt, op->x, op->col[2] + (int64_t)kv * dims, dims, k, n);
}

/* Finds gradients of a head's sums of values, of rows t .. t + n. */
static void gradients_of_sums(const struct run *c, const struct qn_back_attend *op, struct tile *s, int head, int64_t t,
                              int64_t n)
{
	const int64_t dims = op->attend.heads.v_dim;
	const float *mul = channels(op->attend.mul, kv_of(op, head), (int)dims);

	s->dy = buf_row(c, op->dy, t) + head * dims;
	s->dy_row = c->bufs[op->dy].width;
	if (!mul)
		return;
	for (int64_t i = 0; i < n; i++)
		qn_kernels.scale_rows(s->room + i * dims, s->dy + i * s->dy_row, 1, mul, dims);
	s->dy = s->room;
	s->dy_row = dims;
}

/* y = products of a part's rows, of a and of the keys or values in b, which are transposed. */
static void products(float *y, const struct part *part, const float *a, int64_t a_row, const float *b, int64_t depth)
{
	qn_kernels.multiply(&(struct product){
		.y = y + part->row * KEYS + part->from,
		.y_row = KEYS,
		.a = a + part->row * a_row,
		.a_row = a_row,
		.a_col = 1,
		.b = b + part->from,
		.b_row = KEYS,
		.rows = part->rows,
		.cols = (part->to - part->from + LANES - 1) / LANES * LANES,
		.depth = depth,
	});
}

static const float *queries(const struct run *c, const struct qn_back_attend *op, const struct pair *p)
{
	return buf_row(c, op->x, p->t) + op->col[0] + (int64_t)p->head * op->attend.heads.head_dim;
}

/* s = the scores of a part with the keys in kt, before a softcap. */
static void scores(const struct run *c, const struct qn_back_attend *op, struct tile *s, const struct pair *p,
                   const struct part *part)
{
	products(s->s, part, queries(c, op, p), c->bufs[op->x].width, s->kt, op->attend.heads.head_dim);
}

/* Adds to scores of query number i what its distances from keys from .. to bring. */
static void add_bias(const struct qn_attend *op, const struct pair *p, int64_t i, float *x, int64_t from, int64_t to)
{
	if (op->bias)
		qn_kernels.add_scaled(x + from, bias_at(op, p->head, p->k + from - p->t - i), 1, to - from);
}

/* Weights and gradients of scores, from scores. */
static void gradients_of_scores(const struct run *c, const struct qn_back_attend *op, struct tile *s,
                                const struct pair *pair, const struct part *part)
{
	const struct qn_attend *a = &op->attend;

	products(s->d, part, s->dy, s->dy_row, s->vt, a->heads.v_dim);
	for (int64_t i = part->row; i < part->row + part->rows; i++) {
		const float *stats = buf_row(c, op->stats, pair->t + i);
		const float top = stats[pair->head], common = stats[a->heads.n_head + pair->head];
		float *p = s->s + i * KEYS, *d = s->d + i * KEYS, capped[KEYS];
		int64_t from, to;

		seen(c, a, pair, i, &from, &to);
		if (a->softcap > 0) {
			qn_kernels.softcap(p + from, p + from, a->softcap, to - from);
			memcpy(capped + from, p + from, sizeof *p * (size_t)(to - from));
		}
		add_bias(a, pair, i, p, from, to);
		qn_kernels.exp_from(p + from, p + from, top, to - from);
		for (int64_t j = part->from; j < from; j++)
			p[j] = d[j] = 0;
		for (int64_t j = from; j < to; j++)
			d[j] = p[j] * (d[j] - common);
		for (int64_t j = to; j < part->to; j++)
			p[j] = d[j] = 0;
		for (int64_t j = from; j < to && a->softcap > 0; j++) {
			const float x = capped[j] / a->softcap;

			d[j] *= fmaf(-x, x, 1.0f);
		}
	}
}

/* The largest score and the sum of each row of a part go on over the keys. */
static void sums(const struct run *c, const struct qn_back_attend *op, struct tile *s, const struct pair *p,
                 const struct part *part)
{
	for (int64_t i = part->row; i < part->row + part->rows; i++) {
		float *x = s->s + i * KEYS, top;
		int64_t from, to;

		seen(c, &op->attend, p, i, &from, &to);
		if (from == to)
			continue;
		if (op->attend.softcap > 0)
			qn_kernels.softcap(x + from, x + from, op->attend.softcap, to - from);
		add_bias(&op->attend, p, i, x, from, to);
		top = largest(x + from, to - from, s->top[i]);
		qn_kernels.exp_from(x + from, x + from, top, to - from);
		if (s->sum[i] > 0)
			s->sum[i] *= qexp(s->top[i] - top);
		s->sum[i] += qn_kernels.sum(x + from, to - from);
		s->top[i] = top;
	}
}

/* Adds what the keys of a part bring to gradients of its queries. */
static void add_to_queries(const struct run *c, const struct qn_back_attend *op, const struct tile *s,
                           const struct pair *p, const struct part *part)
{
	const int dims = op->attend.heads.head_dim;
	const int64_t first = seen_from(c, &op->attend, p->text, p->t + part->row);

	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->dst, p->t + part->row) + op->col[0] + (int64_t)p->head * dims,
		.y_row = c->bufs[op->dst].width,
		.a = s->d + part->row * KEYS + part->from,
		.a_row = KEYS,
		.a_col = 1,
		.b = buf_row(c, op->x, p->k + part->from) + op->col[1] + (int64_t)kv_of(op, p->head) * dims,
		.b_row = c->bufs[op->x].width,
		.rows = part->rows,
		.cols = dims,
		.depth = part->to - part->from,
		.add = p->k > first,
	});
}

/* Adds w^T x to columns of gradients of a part's keys; w is s or d of the tile, x of the part's first row. */
static void add_to_columns(const struct run *c, const struct qn_back_attend *op, const struct pair *p,
                           const struct part *part, int64_t col, int dims, const float *w, const float *x,
                           int64_t x_row)
{
	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->dst, p->k + part->from) + col + (int64_t)kv_of(op, p->head) * dims,
		.y_row = c->bufs[op->dst].width,
		.a = w + part->row * KEYS + part->from,
		.a_row = 1,
		.a_col = KEYS,
		.b = x + part->row * x_row,
		.b_row = x_row,
		.rows = part->to - part->from,
		.cols = dims,
		.depth = part->rows,
		.add = 1,
	});
}

/* Rows t .. t + n of a head: their stats, and gradients of queries unless these come by keys. */
static void by_queries(const struct run *c, const struct qn_back_attend *op, int head, struct text text, int64_t t,
                       int64_t n, int stats_alone)
{
	const struct qn_heads *h = &op->attend.heads;
	const int64_t from = text.first + (seen_from(c, &op->attend, text, t) - text.first) / KEYS * KEYS;
	const int64_t to = seen_to(&op->attend, text, t + n - 1);
	struct tile *s = tile_at(c, op);
	struct pair p = {text, head, t, n, from, KEYS};

	for (int i = 0; i < ROWS; i++) {
		s->top[i] = -INFINITY;
		s->sum[i] = 0;
	}
	for (; p.k < to; p.k += KEYS) {
		struct part part = {0};

		p.n_keys = text.end - p.k < KEYS ? text.end - p.k : KEYS;
		transpose_keys(c, op, s, kv_of(op, head), p.k, p.n_keys);
		while (next_part(c, &op->attend, &p, &part)) {
			scores(c, op, s, &p, &part);
			sums(c, op, s, &p, &part);
		}
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
	if (stats_alone)
		return;
	gradients_of_sums(c, op, s, head, t, n);
	for (p.k = from; p.k < to; p.k += KEYS) {
		struct part part = {0};

		p.n_keys = text.end - p.k < KEYS ? text.end - p.k : KEYS;
		transpose_keys(c, op, s, kv_of(op, head), p.k, p.n_keys);
		transpose_values(c, op, s, kv_of(op, head), p.k, p.n_keys);
		while (next_part(c, &op->attend, &p, &part)) {
			scores(c, op, s, &p, &part);
			gradients_of_scores(c, op, s, &p, &part);
			add_to_queries(c, op, s, &p, &part);
		}
	}
}

/* Gradients of n keys and values from token k on; with_queries: and adds to those of the queries that see them. */
static void by_keys(const struct run *c, const struct qn_back_attend *op, int kv, struct text text, int64_t k,
                    int64_t n, int with_queries)
{
	const struct qn_heads *h = &op->attend.heads;
	const int group = h->n_head / h->n_head_kv;
	const int64_t before = k - op->attend.ahead - text.first; /* of the first that sees these */
	const int64_t from = text.first + (before > 0 ? before / ROWS * ROWS : 0);
	struct tile *s = tile_at(c, op);

	transpose_keys(c, op, s, kv, k, n);
	transpose_values(c, op, s, kv, k, n);
	for (int64_t j = k; j < k + n; j++) {
		float *y = buf_row(c, op->dst, j);

		memset(y + op->col[1] + (int64_t)kv * h->head_dim, 0, sizeof *y * (size_t)h->head_dim);
		memset(y + op->col[2] + (int64_t)kv * h->v_dim, 0, sizeof *y * (size_t)h->v_dim);
	}
	for (int head = kv * group; head < (kv + 1) * group; head++)
		for (int64_t t = from; t < text.end && seen_from(c, &op->attend, text, t) < k + n; t += ROWS) {
			const struct pair p = {text, head, t, text.end - t < ROWS ? text.end - t : ROWS, k, n};
			struct part part = {0};

			gradients_of_sums(c, op, s, head, t, p.n);
			while (next_part(c, &op->attend, &p, &part)) {
				scores(c, op, s, &p, &part);
				gradients_of_scores(c, op, s, &p, &part);
				add_to_columns(c, op, &p, &part, op->col[2], h->v_dim, s->s, s->dy, s->dy_row);
				add_to_columns(c, op, &p, &part, op->col[1], h->head_dim, s->d, queries(c, op, &p),
				               c->bufs[op->x].width);
				if (with_queries)
					add_to_queries(c, op, s, &p, &part);
			}
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

/*
 * Whether heads of keys of whole texts are shared out in the second half: then scores are made once for gradients of
 * queries, keys and values, where two halves that are shared out finely make them twice. The bits are the same.
 */
static int heads_suffice(const struct run *c, const struct qn_back_attend *op)
{
	int64_t all = 0, most = 0;

	for (int64_t t = 0, end; t < c->batch->n_tok; t = end) {
		end = batch_run(c->batch, t);
		all += (end - t) * (end - t);
		most = end - t > most ? end - t : most;
	}
	return c->nth == 1 || op->attend.heads.n_head_kv * all >= 2 * c->nth * most * most;
}

/* The second half of whole texts, by heads of keys. */
static void by_heads(struct run *c, const struct qn_back_attend *op)
{
	const int heads = op->attend.heads.n_head_kv;
	struct deal d = deal_begin(c->pool, c->ith, walk_tiles(c->batch, c->batch->n_tok) * heads);
	struct walk w = {0};
	int64_t i;

	while ((i = deal_next(c->pool, c->step + 1, &d)) >= 0) {
		walk_to(c->batch, &w, c->batch->n_tok, i / heads);
		for (int64_t k = w.text.first, n; k < w.text.end; k += n) {
			n = w.text.end - k < KEYS ? w.text.end - k : KEYS;
			by_keys(c, op, (int)(i % heads), w.text, k, n, 1);
		}
	}
}

static void attend_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_attend *op = &o->back_attend;
	const struct qn_heads *h = &op->attend.heads;
	struct deal d = deal_begin(c->pool, c->ith, walk_tiles(c->batch, ROWS) * h->n_head);
	const int whole = heads_suffice(c, op);
	struct walk w = {0};
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = walk_to(c->batch, &w, ROWS, i / h->n_head), left = w.text.end - t;

		by_queries(c, op, (int)(i % h->n_head), w.text, t, left < ROWS ? left : ROWS, whole);
	}
	run_barrier(c);
	if (whole) {
		by_heads(c, op);
		return;
	}
	d = deal_begin(c->pool, c->ith, walk_tiles(c->batch, KEYS) * h->n_head_kv);
	w = (struct walk){0};
	while ((i = deal_next(c->pool, c->step + 1, &d)) >= 0) {
		const int64_t k = walk_to(c->batch, &w, KEYS, i / h->n_head_kv), left = w.text.end - k;

		by_keys(c, op, (int)(i % h->n_head_kv), w.text, k, left < KEYS ? left : KEYS, 0);
	}
}

/* The products that there must be: of queries and keys, of dy and values, and of gradients with what they are of. */
static struct qn_ticks_op attend_moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_attend *op = &o->back_attend.attend;
	const int64_t each = op->heads.n_head * (3 * (int64_t)op->heads.head_dim + 2 * (int64_t)op->heads.v_dim);
	struct text text = {0};
	int64_t n = 0;

	for (int64_t t = 0; t < c->batch->n_tok; t++) {
		if (t >= text.end)
			text = (struct text){t, batch_run(c->batch, t)};
		n += seen_to(op, text, t) - seen_from(c, op, text, t);
	}
	return (struct qn_ticks_op){.madds = n * each};
}

const struct operation op_back_attend = {
	.check = attend_check, .scratch = attend_scratch, .counters = 2, .moves = attend_moves, .run = attend_run,
};
