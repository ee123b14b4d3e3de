/*
 * attn_float.h - attention over vectors of 16 lanes: softmax, and keys and values of floats. Not compiled
 * as it stands, see tmpl/matmul_float.h and tmpl/attn.h.
 */
#include "tmpl/attn.h"

INLINE v16 load_kv(int type, const void *p, int64_t i)
{
	switch (type) {
	case QN_KV_F32:
		return v16_load((const float *)p + i);
	case QN_KV_F16:
		return v16_load_f16((const uint16_t *)p + i);
	default:
		return v16_load_bf16((const uint16_t *)p + i);
	}
}

/* e[r][64] = q[r] . k for nr rows, nr constant. */
INLINE void float_scores(int type, int nr, const struct attn_rows *a, int r0, const void *k)
{
	const int elem = type == QN_KV_F32 ? 4 : 2;
	const int64_t qs = a->q_bytes / 4;
	const float *q = (const float *)a->q + r0 * qs;
	float *e = a->e + r0 * QN_KV_BLOCK;

	for (int j0 = 0; j0 < KV_VECS; j0 += ATTN_VECS) {
		v16 acc[ATTN_ROWS_AT_ONCE][ATTN_VECS];

#pragma GCC unroll 6
		for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++)
				acc[r][j] = v16_zero();
		for (int d = 0; d < a->head_dim; d++) {
			ask_next(a, (d * QN_KV_BLOCK + 16 * j0) * elem, 16 * ATTN_VECS * elem);
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++) {
				const v16 kv = load_kv(type, k, d * QN_KV_BLOCK + 16 * (j0 + j));

#pragma GCC unroll 6
				for (int r = 0; r < nr; r++)
					acc[r][j] = v16_fma(v16_set1(q[r * qs + d]), kv, acc[r][j]);
			}
		}
#pragma GCC unroll 6
		for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++)
				v16_store(e + r * QN_KV_BLOCK + 16 * (j0 + j), acc[r][j]);
	}
}

INLINE v16 softcap(v16 s, float cap)
{
	const v16 x = v16_div(s, v16_set1(cap)), one = v16_set1(1);
	const v16 abs = v16_max(x, v16_sub(v16_zero(), x));
	const v16 t = v16_exp2(v16_mul(v16_sub(v16_zero(), abs), v16_set1(QEXP2_TANH)));

	return v16_mul(v16_copysign(v16_div(v16_sub(one, t), v16_add(one, t)), x), v16_set1(cap));
}

/* The soft cap of scores, and what is added to them. */
static void VEC(attn_shape)(const struct attn_rows *a)
{
	for (int r = 0; r < a->n; r++)
		for (int j = 0; j < KV_VECS; j++) {
			float *e = a->e + r * QN_KV_BLOCK + 16 * j;
			v16 s = v16_load(e);

			if (a->cap)
				s = softcap(s, a->cap[r]);
			if (a->bias)
				s = v16_fma(v16_load(a->bias[r] + 16 * j), v16_set1(LOG2E), s);
			v16_store(e, s);
		}
}

/* The lanes' largest scores of row r; all: it sees the whole block. The first operand of a maximum may be NaN. */
INLINE v16 row_top(int all, const struct attn_rows *a, int r)
{
	v16 top = v16_set1(-INFINITY);

#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++) {
		v16 s = v16_load(a->e + r * QN_KV_BLOCK + 16 * j);

		if (!all)
			s = v16_within_or(s, a->from[r] - 16 * j, a->lim[r] - 16 * j, -INFINITY);
		top = v16_max(s, top);
	}
	return top;
}

/* Row r's scores become weights; returns the lanes' sums. */
INLINE v16 row_weights(int all, const struct attn_rows *a, int r, float max)
{
	float *e = a->e + r * QN_KV_BLOCK;
	v16 s[KV_VECS];

#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++) {
		s[j] = v16_exp2(v16_sub(v16_load(e + 16 * j), v16_set1(max)));
		if (!all)
			s[j] = v16_within_or(s[j], a->from[r] - 16 * j, a->lim[r] - 16 * j, 0);
		v16_store(e + 16 * j, s[j]);
	}
	return v16_add(v16_add(s[0], s[1]), v16_add(s[2], s[3]));
}

/* Row r of few. */
INLINE void weights_of_row(int all, const struct attn_rows *a, int r)
{
	const float top = v16_maxall(row_top(all, a, r)), max = top > a->m[r] ? top : a->m[r];
	const float sum = v16_sum(row_weights(all, a, r, max));
	float c[16];

	v16_store(c, v16_exp2(v16_set1(a->m[r] - max)));
	a->c[r] = c[0];
	a->m[r] = max;
	a->l[r] = fmaf(a->l[r], c[0], sum);
}

/*
 * Rows r .. r + 3, those that there are: their maxima or their sums, whose lanes come together with fewer shuffles
 * than those of one row.
 */
INLINE void four_tops(int all, const struct attn_rows *a, int r, float *max)
{
	v16 top[4];

#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		top[k] = r + k >= a->n               ? v16_zero() :
			 all || sees_all(a, r + k) ? row_top(1, a, r + k) : row_top(0, a, r + k);
	v16_max4(max, top);
}

INLINE void four_weights(int all, const struct attn_rows *a, int r, const float *max, float *sum)
{
	v16 lanes[4];

#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		lanes[k] = r + k >= a->n               ? v16_zero() :
			   all || sees_all(a, r + k) ? row_weights(1, a, r + k, max[k]) :
						       row_weights(0, a, r + k, max[k]);
	v16_sum4(sum, lanes);
}

/* What a row has one of is computed for 16 rows at once. Short loops: a CPU then works at several rows at a time. */
INLINE void weights_of_rows(int all, const struct attn_rows *a)
{
	float m[ATTN_ROWS_UP] = {0}, l[ATTN_ROWS_UP] = {0}, c[ATTN_ROWS_UP], max[ATTN_ROWS_UP] = {0};
	float sum[ATTN_ROWS_UP] = {0};
	const size_t bytes = sizeof(float) * (size_t)a->n;

	memcpy(m, a->m, bytes);
	memcpy(l, a->l, bytes);
	for (int r = 0; r < a->n; r += 4)
		four_tops(all, a, r, max + r);
	for (int r = 0; r < a->n; r += 16) {
		const v16 old = v16_load(m + r), now = v16_max(v16_load(max + r), old);

		v16_store(max + r, now);
		v16_store(c + r, v16_exp2(v16_sub(old, now)));
	}
	for (int r = 0; r < a->n; r += 4)
		four_weights(all, a, r, max + r, sum + r);
	for (int r = 0; r < a->n; r += 16)
		v16_store(l + r, v16_fma(v16_load(l + r), v16_load(c + r), v16_load(sum + r)));
	memcpy(a->m, max, bytes);
	memcpy(a->l, l, bytes);
	memcpy(a->c, c, bytes);
}

static void VEC(attn_weights)(const struct attn_rows *a)
{
	if (a->cap || a->bias)
		VEC(attn_shape)(a);
	if (a->n < 4)
		for (int r = 0; r < a->n; r++)
			if (sees_all(a, r))
				weights_of_row(1, a, r);
			else
				weights_of_row(0, a, r);
	else if (all_see_all(a) && a->n % 4 == 0)
		weights_of_rows(1, a);
	else
		weights_of_rows(0, a);
}

/* o[r] += e[r][p] * v[p] for some rows, vectors at .. of them, p in from .. lim - 1. */
INLINE void add_values(int type, int nr, int nv, v16 acc[][4], const float *e, const void *v, int64_t v_dim,
                       int64_t at, int from, int lim)
{
	for (int p = from; p < lim; p++) {
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			const v16 kv = load_kv(type, v, p * v_dim + at + 16 * j);

#pragma GCC unroll 6
			for (int r = 0; r < nr; r++)
				acc[r][j] = v16_fma(v16_set1(e[r * QN_KV_BLOCK + p]), kv, acc[r][j]);
		}
	}
}

/*
 * o[r][at .. at + 16 nv] = o * c + e v, for nr rows; nr and nv constant. What only some of the rows see
 * is added row by row: values may be infinite, and 0 times that is not 0.
 */
INLINE void float_values(int type, int nr, int nv, const struct attn_rows *a, int r0, const void *v, int64_t at)
{
	const int32_t *from = a->from + r0, *lim = a->lim + r0;
	const int elem = type == QN_KV_F32 ? 4 : 2;
	const float *e = a->e + r0 * QN_KV_BLOCK;
	float *o = a->o + (int64_t)r0 * a->v_dim + at;
	const int lo = from[nr - 1] > 0 ? from[nr - 1] : 0;
	const int hi = lim[0] < QN_KV_BLOCK ? lim[0] : QN_KV_BLOCK;
	v16 acc[ATTN_ROWS_AT_ONCE][4];

#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			acc[r][j] = v16_mul(v16_load(o + r * a->v_dim + 16 * j), v16_set1(a->c[r0 + r]));
#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
		add_values(type, 1, nv, &acc[r], e + r * QN_KV_BLOCK, v, a->v_dim, at, from[r] > 0 ? from[r] : 0,
		           lim[r] < lo ? lim[r] : lo);
	for (int p = lo; p < hi; p++) {
		ask_next(a, (p * (int64_t)a->v_dim + at) * elem, 16 * nv * elem);
		add_values(type, nr, nv, acc, e, v, a->v_dim, at, p, p + 1);
	}
#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
		add_values(type, 1, nv, &acc[r], e + r * QN_KV_BLOCK, v, a->v_dim, at, lo > hi ? lo : hi,
		           lim[r] < QN_KV_BLOCK ? lim[r] : QN_KV_BLOCK);
#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			v16_store(o + r * a->v_dim + 16 * j, acc[r][j]);
}

INLINE void float_values_rows(int type, int nr, const struct attn_rows *a, int r0, const void *v)
{
	int64_t d = 0;

	for (; d + 16 * ATTN_VECS <= a->v_dim; d += 16 * ATTN_VECS)
		float_values(type, nr, ATTN_VECS, a, r0, v, d);
	for (; d < a->v_dim; d += 16)
		float_values(type, nr, 1, a, r0, v, d);
}

#define SCORES_f32(nr) float_scores(QN_KV_F32, nr, a, r, k)
#define SCORES_f16(nr) float_scores(QN_KV_F16, nr, a, r, k)
#define SCORES_bf16(nr) float_scores(QN_KV_BF16, nr, a, r, k)
#define VALUES_f32(nr) float_values_rows(QN_KV_F32, nr, a, r, v)
#define VALUES_f16(nr) float_values_rows(QN_KV_F16, nr, a, r, v)
#define VALUES_bf16(nr) float_values_rows(QN_KV_BF16, nr, a, r, v)

/* The kernels of a type, from SCORES_name(nr) and VALUES_name(nr). */
#define FLOAT_TYPE(name)                                                         \
	static void VEC(scores_##name)(const struct attn_rows *a, const void *k) \
	{                                                                        \
		ATTN_EACH_ROWS(a, SCORES_##name);                             \
	}                                                                        \
	static void VEC(values_##name)(const struct attn_rows *a, const void *v) \
	{                                                                        \
		ATTN_EACH_ROWS(a, VALUES_##name);                             \
	}

FLOAT_TYPE(f32)
FLOAT_TYPE(f16)
FLOAT_TYPE(bf16)

static void VEC(attn_fill)(struct kernels *k)
{
	k->attn_scores[QN_KV_F32] = VEC(scores_f32);
	k->attn_scores[QN_KV_F16] = VEC(scores_f16);
	k->attn_scores[QN_KV_BF16] = VEC(scores_bf16);
	k->attn_weights = VEC(attn_weights);
	k->attn_values[QN_KV_F32] = VEC(values_f32);
	k->attn_values[QN_KV_F16] = VEC(values_f16);
	k->attn_values[QN_KV_BF16] = VEC(values_bf16);
}
