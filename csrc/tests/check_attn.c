/*
 * check_attn.c - attention over the KV blocks of a sequence: the scalar kernels against a softmax in
 * double over all positions, the others against the scalar ones after each block. Keys, values and
 * queries of integers are first held against the floats they come from. Those of Q4 are compared as
 * they are kept, transformed.
 */
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "math/fp16.h"
#include "check.h"

#define BLOCKS_MAX 4
#define DIM_MAX 256

enum data { NORMAL, WIDE, ZERO, HUGE_VALUE, NAN_KEY, NAN_LAST_VALUE, N_DATA };
static const char *const data_names[] = {"normal", "wide scores", "zero queries", "a huge value", "a NaN key",
                                         "a NaN as the last value"};
static const char *const kv_names[QN_N_KV_TYPES] = {"f16", "f32", "bf16", "i16", "q8", "q4"};

struct problem {
	int n, heads, head_dim, v_dim, k_type, v_type;
	int pos; /* of the first row's token; a token has `heads` rows */
	int window, blocks;
	float cap;      /* of the first row, in powers of 2, as the kernels have it */
	int biased;
	enum data data;
	uint8_t *k[BLOCKS_MAX], *v[BLOCKS_MAX];
	uint8_t *k8, *v8; /* of a block whose codes are expanded */
	float *x;       /* [n][head_dim] queries */
	uint8_t *q;     /* the same by kv_query() */
	int64_t q_bytes;
	float qd[QN_ATTN_ROWS], bias[QN_ATTN_ROWS][BLOCKS_MAX * QN_KV_BLOCK];
	int32_t qsum[QN_ATTN_ROWS];
};

/* What a kernel leaves of one run over the blocks. */
struct state {
	float o[QN_ATTN_ROWS * DIM_MAX], m[QN_ATTN_ROWS], l[QN_ATTN_ROWS];
};

static int limit(const struct problem *p, int row, int block)
{
	return p->pos + row / p->heads + 1 - block * QN_KV_BLOCK;
}

static double word(int type, const uint8_t *kv, int64_t i)
{
	float x;
	uint16_t h;
	int16_t w;

	memcpy(&x, kv + (type == QN_KV_F32 ? 4 * i : 0), 4);
	memcpy(&h, kv + (type == QN_KV_F16 || type == QN_KV_BF16 || type == QN_KV_I16 ? 2 * i : 0), 2);
	memcpy(&w, &h, 2);
	switch (type) {
	case QN_KV_F32:
		return (double)x;
	case QN_KV_F16:
		return half_value(h);
	case QN_KV_BF16:
		return (double)f32_of_bf16(h);
	case QN_KV_I16:
		return w;
	default:
		return (int8_t)kv[i];
	}
}

static double scale(int type, const uint8_t *end, int i)
{
	float d;

	if (!kv_integer(type))
		return 1;
	memcpy(&d, end + 4 * i, 4);
	return (double)d;
}

/* Dimension d of the key at position i, as it is kept. */
static double key(const struct problem *p, int i, int d)
{
	const uint8_t *k = p->k[i / QN_KV_BLOCK];
	const int at = i % QN_KV_BLOCK;
	const double by = scale(p->k_type, k + kv_k_elems(p->k_type, p->head_dim), at);

	if (p->k_type == QN_KV_Q4)
		return by * (2 * (k[(d / 8 * QN_KV_BLOCK + at) * 4 + d % 4] >> d % 8 / 4 * 4 & 15) - 15);
	if (p->k_type == QN_KV_Q8)
		return by * (k[(d / 4 * QN_KV_BLOCK + at) * 4 + d % 4] - 128);
	if (p->k_type == QN_KV_I16)
		return by * word(p->k_type, k, (d / 2 * QN_KV_BLOCK + at) * 2 + d % 2);
	return word(p->k_type, k, d * QN_KV_BLOCK + at);
}

static double value(const struct problem *p, int i, int d)
{
	const uint8_t *v = p->v[i / QN_KV_BLOCK];
	const int at = i % QN_KV_BLOCK;

	if (p->v_type == QN_KV_Q4) {
		const int half = p->v_dim / 2, code = v[at / 2 * p->v_dim + d % half * 2 + at % 2] >> d / half * 4 & 15;

		return scale(p->v_type, v + kv_v_elems(p->v_type, p->v_dim), at) * (2 * code - 15);
	}
	if (kv_integer(p->v_type))
		return scale(p->v_type, v + kv_v_elems(p->v_type, p->v_dim), at) *
		       word(p->v_type, v, (at / 2 * p->v_dim + d) * 2 + at % 2);
	return word(p->v_type, v, at * p->v_dim + d);
}

/* The query times log2 e, as the kernels have it. */
static double query(const struct problem *p, int r, int d)
{
	const uint8_t *q = p->q + r * p->q_bytes;

	if (kv_expanded(p->k_type) == QN_KV_Q8)
		return (double)p->qd[r] * word(QN_KV_Q8, q, d);
	if (p->k_type == QN_KV_I16)
		return (double)p->qd[r] * word(QN_KV_I16, q, d);
	return word(QN_KV_F32, q, d);
}

/* x as a type keeps it. */
static void as_kept(int type, double *y, const float *x, int n)
{
	for (int d = 0; d < n; d++)
		y[d] = (double)x[d];
	if (type == QN_KV_Q4)
		check_hadamard(y, n);
}

/*
 * What Q4 keeps of x: with levels 2/15 of the largest apart no more than 1/15 of it is lost anywhere, and
 * the best of several distances is no worse. The best scale leaves nothing of what is kept in what is lost.
 */
static void kept_codes(const char *what, const double *x, const double *kept, int n)
{
	double max = 0, lost = 0, along = 0, sum = 0;

	for (int d = 0; d < n; d++) {
		max = fmax(max, fabs(x[d]));
		sum += x[d] * x[d];
		lost += pow(x[d] - kept[d], 2);
		along += (x[d] - kept[d]) * kept[d];
	}
	check_near(what, n, lost, 0, n * pow(max / 14.9, 2));
	check_near(what, n, along, 0, 2e-3 * sum);
}

/* What is kept is near what came. */
static void kept(const struct problem *p, int i, const float *k, const float *v)
{
	static const double rel[QN_N_KV_TYPES] = {0x1p-11, 0, 0x1p-8, 0, 0};
	static const double top[QN_N_KV_TYPES] = {0, 0, 0, 32700, 127}, v_top[QN_N_KV_TYPES] = {0, 0, 0, 8190, 127};
	double want[DIM_MAX], got[DIM_MAX];
	double max_k = 0, max_v = 0, len = 0, unit;

	for (int d = 0; d < p->head_dim; d++) {
		if (!isfinite(k[d]) || !isfinite(v[d]))
			return;
		max_k = fmax(max_k, fabs((double)k[d]));
		max_v = fmax(max_v, fabs((double)v[d]));
		len += (double)k[d] * (double)k[d];
	}
	as_kept(p->k_type, want, k, p->head_dim);
	for (int d = 0; d < p->head_dim; d++)
		got[d] = key(p, i, d);
	if (p->k_type == QN_KV_Q4)
		kept_codes("k kept", want, got, p->head_dim);
	unit = kv_integer(p->k_type) ? max_k / top[p->k_type] : 0;
	if (p->k_type == QN_KV_I16)
		unit = fmax(unit, sqrt(len) / 46250);
	for (int d = 0; d < p->head_dim && p->k_type != QN_KV_Q4; d++)
		if (!check_near("k kept", d, got[d], want[d],
		                0.51 * unit + rel[p->k_type] * fabs((double)k[d]) + 1e-7))
			return;
	as_kept(p->v_type, want, v, p->head_dim);
	for (int d = 0; d < p->head_dim; d++)
		got[d] = value(p, i, d);
	if (p->v_type == QN_KV_Q4)
		kept_codes("v kept", want, got, p->head_dim);
	unit = kv_integer(p->v_type) ? max_v / v_top[p->v_type] : 0;
	for (int d = 0; d < p->head_dim && p->v_type != QN_KV_Q4; d++)
		if (!check_near("v kept", d, got[d], want[d],
		                0.51 * unit + rel[p->v_type] * fabs((double)v[d]) + 1e-7))
			return;
}

static void fill(struct problem *p)
{
	const int last = p->pos + (p->n - 1) / p->heads; /* position */
	const float size = (p->data == WIDE ? 12 : p->data == ZERO ? 0 : 2) / sqrtf((float)p->head_dim);
	const int odd = rnd_below(p->pos + 1);
	float k[DIM_MAX], v[DIM_MAX];
	double x[DIM_MAX];

	check_at(check_sets, "k %s, v %s, head_dim %d", kv_names[p->k_type], kv_names[p->v_type], p->head_dim);
	for (int r = 0; r < p->n; r++) {
		double len = 0, error;

		for (int d = 0; d < p->head_dim; d++) {
			p->x[r * p->head_dim + d] = size * rnd_normal();
			len += pow((double)p->x[r * p->head_dim + d], 2);
		}
		kv_query(p->k_type, p->q + r * p->q_bytes, &p->qd[r], &p->qsum[r], p->x + r * p->head_dim, p->head_dim);
		as_kept(p->k_type, x, p->x + r * p->head_dim, p->head_dim);
		error = kv_expanded(p->k_type) == QN_KV_Q8 ? 0.6 / 127 : p->k_type == QN_KV_I16 ? 0.6 / 32700 : 1e-7;
		for (int d = 0; d < p->head_dim; d++)
			if (!check_near("q kept", d, query(p, r, d),
			                x[d] * 1.4426950408889634,
			                error * 1.4427 * sqrt(len)))
				break;
		for (int i = 0; i < BLOCKS_MAX * QN_KV_BLOCK; i++)
			p->bias[r][i] = rnd_normal();
	}
	for (int i = 0; i < p->blocks * QN_KV_BLOCK; i++) {
		uint8_t *kb = p->k[i / QN_KV_BLOCK], *vb = p->v[i / QN_KV_BLOCK];

		if (i % QN_KV_BLOCK == 0) { /* what is not written holds anything */
			rnd_bytes(kb, (size_t)kv_k_bytes(p->k_type, p->head_dim));
			memset(vb, 0xff, (size_t)kv_v_bytes(p->v_type, p->head_dim));
		}
		if (i > last)
			continue;
		for (int d = 0; d < p->head_dim; d++) {
			k[d] = rnd_normal();
			v[d] = rnd_normal();
		}
		if (p->data == HUGE_VALUE && i == odd)
			v[0] = 6e4f;
		if (p->data == NAN_KEY && i == odd)
			k[0] = NAN;
		if (p->data == NAN_LAST_VALUE && i == last)
			v[0] = NAN;
		kv_put_k(p->k_type, kb, i % QN_KV_BLOCK, k, p->head_dim);
		kv_put_v(p->v_type, vb, i % QN_KV_BLOCK, v, p->head_dim);
		kept(p, i, k, v);
	}
}

/* Each row has another. */
static float cap_of(const struct problem *p, int r)
{
	return p->cap * (1 + (float)r / 32);
}

/* What a row does not see must not reach it, not even as 0 times something. */
static void unseen(const struct problem *p, const struct state *s)
{
	const int last = limit(p, p->n - 1, 0) - 1;

	for (int r = 0; r < p->n && limit(p, r, 0) <= last; r++)
		check_true(isfinite(s->o[r * p->v_dim]), "row %d has a value that it does not see", r);
}

static struct guard g_o, g_m, g_l, g_e, g_c, g_from, g_lim, g_cap;

/* Starts a run: o, m, l of rows that have seen nothing, in memory that ends at unmapped pages. */
static struct attn_rows begin(const struct problem *p)
{
	struct attn_rows r = {.q = p->q, .qd = p->qd, .qsum = p->qsum, .q_bytes = p->q_bytes,
	                      .n = p->n, .head_dim = p->head_dim, .v_dim = p->v_dim};
	const size_t n = (size_t)p->n;

	r.o = guard_fill(&g_o, sizeof *r.o * n * (size_t)p->v_dim);
	r.m = guard_fill(&g_m, sizeof *r.m * n);
	r.l = guard_fill(&g_l, sizeof *r.l * n);
	r.e = guard_fill(&g_e, sizeof *r.e * n * QN_KV_BLOCK);
	r.c = guard_fill(&g_c, sizeof *r.c * n);
	r.from = guard_fill(&g_from, sizeof *r.from * n);
	r.lim = guard_fill(&g_lim, sizeof *r.lim * n);
	if (p->cap > 0) {
		float *cap = guard_fill(&g_cap, sizeof *cap * n);

		for (int i = 0; i < p->n; i++)
			cap[i] = cap_of(p, i);
		r.cap = cap;
	}
	memset(r.o, 0, sizeof *r.o * n * (size_t)p->v_dim);
	for (int i = 0; i < p->n; i++) {
		r.m[i] = -INFINITY;
		r.l[i] = 0;
	}
	return r;
}

/* The rows that see something of the block. */
static void step(const struct problem *p, const struct set *s, struct attn_rows r, int block)
{
	const float *bias[QN_ATTN_ROWS];
	int first = 0, end = p->n;

	for (int i = 0; i < p->n; i++) {
		bias[i] = p->bias[i] + block * QN_KV_BLOCK;
		((int32_t *)r.lim)[i] = limit(p, i, block);
		((int32_t *)r.from)[i] = p->window ? r.lim[i] - p->window : rnd_below(2) - 1;
	}
	while (first < p->n && r.lim[first] <= 0)
		first++;
	while (end > first && r.from[end - 1] >= QN_KV_BLOCK)
		end--;
	if (first == end)
		return;
	r.o += first * p->v_dim;
	r.m += first;
	r.l += first;
	r.e += first * QN_KV_BLOCK;
	r.c += first;
	r.q = (const uint8_t *)r.q + first * p->q_bytes;
	r.qd += first;
	r.qsum += first;
	r.from += first;
	r.lim += first;
	r.bias = p->biased ? bias + first : NULL;
	r.cap = r.cap ? r.cap + first : NULL;
	r.n = end - first;
	const uint8_t *k = p->k[block], *v = p->v[block];

	if (p->k_type == QN_KV_Q4) {
		kv_expand_k(p->k8, k, p->head_dim, k);
		k = p->k8;
	}
	if (p->v_type == QN_KV_Q4) {
		kv_expand_v(p->v8, v, p->head_dim, v);
		v = p->v8;
	}
	r.ahead = p->k[(block + 1) % p->blocks];
	s->k.attn_scores[kv_expanded(p->k_type)](&r, k);
	s->k.attn_weights(&r);
	r.ahead = p->v[(block + 1) % p->blocks];
	s->k.attn_values[kv_expanded(p->v_type)](&r, v);
}

static void save(const struct problem *p, const struct attn_rows *r, struct state *s)
{
	memcpy(s->o, r->o, sizeof *r->o * (size_t)(p->n * p->v_dim));
	memcpy(s->m, r->m, sizeof *r->m * (size_t)p->n);
	memcpy(s->l, r->l, sizeof *r->l * (size_t)p->n);
}

static void oracle(const struct problem *p, const struct state *s)
{
	for (int r = 0; r < p->n; r++) {
		const int seen = limit(p, r, 0), from = p->window && seen > p->window ? seen - p->window : 0;
		double score[BLOCKS_MAX * QN_KV_BLOCK], max = -INFINITY, sum = 0, error = 1e-5, unit[BLOCKS_MAX];

		for (int i = from; i < seen; i++) {
			double size = 0;

			score[i] = 0;
			for (int d = 0; d < p->head_dim; d++) {
				const double x = query(p, r, d) * key(p, i, d);

				score[i] += x;
				size += fabs(x);
			}
			if (p->cap > 0)
				score[i] = (double)cap_of(p, r) * tanh(score[i] / (double)cap_of(p, r));
			if (p->biased) {
				score[i] += (double)p->bias[r][i] * 1.4426950408889634;
				size += 2 * fabs((double)p->bias[r][i]) + fabs((double)cap_of(p, r));
			}
			max = score[i] > max ? score[i] : max;
			size = (size + (double)cap_of(p, r)) * 2e-6; /* exp makes absolute errors relative */
			error = size > error ? size : error;
		}
		for (int i = from; i < seen; i++)
			sum += score[i] = exp2(score[i] - max);
		/* Weights of integer values are rounded to a unit for each block. */
		for (int b = 0; b < p->blocks; b++) {
			double most = 0, all = 0;

			const int first = from > b * QN_KV_BLOCK ? from : b * QN_KV_BLOCK;

			for (int i = first; i < seen && i < (b + 1) * QN_KV_BLOCK; i++) {
				const double w = score[i] * scale(p->v_type, p->v[b] + kv_v_elems(p->v_type, p->v_dim),
				                                  i % QN_KV_BLOCK);

				most = fmax(most, w);
				all += w;
			}
			unit[b] = kv_integer(p->v_type) ? fmax(most / 32760, all / 262000) : 0;
		}
		for (int d = 0; d < p->head_dim; d++) {
			double want = 0, size = 0, rounding = 0;

			for (int i = from; i < seen; i++) {
				const double v = value(p, i, d), x = score[i] / sum * v;
				const uint8_t *end = p->v[i / QN_KV_BLOCK] + kv_v_elems(p->v_type, p->v_dim);
				const double by = scale(p->v_type, end, i % QN_KV_BLOCK);

				want += x;
				size += fabs(x);
				rounding += by > 0 ? 0.51 * unit[i / QN_KV_BLOCK] * fabs(v / by) / sum : 0;
			}
			if (!check_near("o", r * p->v_dim + d, (double)s->o[r * p->v_dim + d] / (double)s->l[r], want,
			                error * size + rounding + 1e-37))
				return;
		}
	}
}

static void one(struct problem *p)
{
	static struct state want[BLOCKS_MAX];

	fill(p);
	EACH_SET(s) {
		struct attn_rows r = begin(p);

		qn_init(s->isa); /* for what expands codes */
		check_at(s,
		         "attn k %s, v %s, head_dim %d, %d rows of %d heads from %d, window %d, cap %g, %sbiases, %s",
		         kv_names[p->k_type], kv_names[p->v_type], p->head_dim, p->n, p->heads, p->pos, p->window,
		         (double)p->cap, p->biased ? "" : "no ", data_names[p->data]);
		for (int b = 0; b < p->blocks; b++) {
			step(p, s, r, b);
			if (s == check_sets)
				save(p, &r, &want[b]);
			if (!check_floats("o", r.o, want[b].o, p->n * p->v_dim) ||
			    !check_floats("m", r.m, want[b].m, p->n) || !check_floats("l", r.l, want[b].l, p->n))
				break;
		}
		guard_intact("o", &g_o);
		guard_intact("m", &g_m);
		guard_intact("l", &g_l);
		guard_intact("e", &g_e);
		guard_intact("c", &g_c);
		if (s == check_sets && p->data == NAN_LAST_VALUE)
			unseen(p, &want[p->blocks - 1]);
		else if (s == check_sets && p->data != NAN_KEY)
			oracle(p, &want[p->blocks - 1]);
	}
}

/* All row counts and starting positions in turn for one shape of head. */
static void shape(int head_dim, int k_type, int v_type)
{
	static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 16, 23, 24};
	static const int heads[] = {1, 1, 2, 3, 4, 8};
	static const int pos[] = {0, 1, 14, 15, 16, 30, 60, 61, 62, 63, 64, 65, 100, 127, 128, 190};
	static const int windows[] = {0, 0, 0, 1, 3, 17, 64, 70, 130};
	struct problem p = {.head_dim = head_dim, .v_dim = (head_dim + 15) / 16 * 16, .k_type = k_type,
	                    .v_type = v_type};

	p.q_bytes = 4 * p.v_dim;
	for (int b = 0; b < BLOCKS_MAX; b++) {
		p.k[b] = guard_alloc((size_t)kv_k_bytes(k_type, head_dim));
		p.v[b] = guard_alloc((size_t)kv_v_bytes(v_type, head_dim));
	}
	p.k8 = guard_alloc((size_t)kv_k_bytes(QN_KV_Q8, (head_dim + 7) / 8 * 8));
	p.v8 = guard_alloc((size_t)kv_v_bytes(QN_KV_Q8, head_dim));
	for (int i = 0; i < COUNT(rows); i++)
		for (int round = 0; round < (check_quick ? 1 : 2); round++) {
			struct guard x = guard_new(sizeof(float) * (size_t)(rows[i] * head_dim));
			struct guard q = guard_new((size_t)(rows[i] * p.q_bytes));

			p.n = rows[i];
			p.heads = heads[rnd_below(COUNT(heads))];
			p.pos = pos[rnd_below(COUNT(pos))];
			p.window = windows[rnd_below(COUNT(windows))];
			p.cap = rnd_below(4) ? 0 : 3 + 20 * fabsf(rnd_uniform());
			p.biased = !rnd_below(4);
			p.data = (enum data)rnd_below(N_DATA);
			p.blocks = (p.pos + (p.n - 1) / p.heads) / QN_KV_BLOCK + 1;
			p.x = guard_fill(&x, sizeof *p.x * (size_t)(p.n * head_dim));
			p.q = guard_fill(&q, (size_t)(p.n * p.q_bytes));
			one(&p);
			guard_free(&x);
			guard_free(&q);
		}
	guard_free_all();
}

void check_attn(void)
{
	static const int dims[] = {1, 4, 8, 16, 19, 20, 48, 64, 80, 96, 112, 128, DIM_MAX};
	struct guard *const guards[] = {&g_o, &g_m, &g_l, &g_e, &g_c, &g_from, &g_lim, &g_cap};
	const size_t sizes[] = {DIM_MAX, 1, 1, QN_KV_BLOCK, 1, 1, 1, 1};

	for (int i = 0; i < COUNT(guards); i++)
		*guards[i] = guard_new(sizeof(float) * QN_ATTN_ROWS * sizes[i]);
	for (int i = 0; i < COUNT(dims); i++)
		for (int type = 0; type < QN_N_KV_TYPES; type++)
			shape(dims[i], type, rnd_below(3) ? type : rnd_below(QN_N_KV_TYPES));
	for (int i = 0; i < COUNT(guards); i++)
		guard_free(guards[i]);
}
