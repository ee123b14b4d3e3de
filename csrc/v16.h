/*
 * v16.h - float kernels over vectors of 16 lanes: attention, and products with float weights. Not
 * compiled as it stands: a set defines VEC(name), the type v16 and the functions below on it, and
 * includes this once. The sets differ in width only, so there is one text for all.
 *
 *	v16_zero() v16_set1(x) v16_load(p) v16_store(p, a)
 *	v16_load_f16(p) v16_load_bf16(p)    16 halves as floats
 *	v16_add v16_sub v16_mul v16_max     lane by lane; max(a, b) is b where a lane is NaN
 *	v16_fma(a, b, c)                    a * b + c, rounded once
 *	v16_sum(a)                          halves added 8, 4, 2, 1
 *	v16_maxall(a)
 *	v16_exp(a)                          qexp() of each lane
 *	v16_first(a, n)                     lanes below n, the others 0
 *	v16_first_or(a, n, x)               lanes below n, the others x
 */
#include <math.h>

#include "kernels.h"

#define INLINE static inline __attribute__((always_inline))
#define KV_VECS (QN_KV_BLOCK / 16)

INLINE v16 v16_load_kv(int kv_type, const void *p, int64_t i)
{
	return kv_type == QN_KV_F32 ? v16_load((const float *)p + i) : v16_load_f16((const uint16_t *)p + i);
}

/* e[r][64] = q[r] . k for nr rows, nr constant. */
INLINE void scores(int kv_type, int nr, float *e, const float *q, int head_dim, const void *k)
{
	v16 acc[4][KV_VECS];

#pragma GCC unroll 4
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < KV_VECS; j++)
			acc[r][j] = v16_zero();
	for (int d = 0; d < head_dim; d++) {
#pragma GCC unroll 4
		for (int j = 0; j < KV_VECS; j++) {
			const v16 kv = v16_load_kv(kv_type, k, d * QN_KV_BLOCK + 16 * j);

#pragma GCC unroll 4
			for (int r = 0; r < nr; r++)
				acc[r][j] = v16_fma(v16_set1(q[r * head_dim + d]), kv, acc[r][j]);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < KV_VECS; j++)
			v16_store(e + r * QN_KV_BLOCK + 16 * j, acc[r][j]);
}

/* The softmax step of one row: e becomes weights. Returns the factor of what the row had before. */
INLINE float weigh(float *e, float *m, float *l, int lim)
{
	const float old = *m;
	v16 a[KV_VECS], max = v16_set1(old), vm;

#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++) {
		a[j] = v16_first_or(v16_load(e + 16 * j), lim - 16 * j, -INFINITY);
		max = v16_max(a[j], max);
	}
	*m = v16_maxall(max);
	vm = v16_set1(*m);
#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++) {
		a[j] = v16_first(v16_exp(v16_sub(a[j], vm)), lim - 16 * j);
		v16_store(e + 16 * j, a[j]);
	}

	float c[16];

	v16_store(c, v16_exp(v16_sub(v16_set1(old), vm)));
	*l = fmaf(*l, c[0], v16_sum(v16_add(v16_add(a[0], a[1]), v16_add(a[2], a[3]))));
	return c[0];
}

/*
 * o[r][16 nv] = o * c + e v, for nr rows; nr and nv constant. Limits rise with r. Positions that only
 * the later rows see are taken row by row: their values may be infinite, and 0 times that is not 0.
 */
INLINE void weighted(int kv_type, int nr, int nv, float *o, int64_t v_dim, const float *c,
                     const float *e, const void *v, int64_t at, const int32_t *lim)
{
	v16 acc[4][4];

#pragma GCC unroll 4
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			acc[r][j] = v16_mul(v16_load(o + r * v_dim + 16 * j), v16_set1(c[r]));
	const int common = lim[0] < QN_KV_BLOCK ? lim[0] : QN_KV_BLOCK;

	for (int p = 0; p < common; p++) {
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			const v16 val = v16_load_kv(kv_type, v, p * v_dim + at + 16 * j);

#pragma GCC unroll 4
			for (int r = 0; r < nr; r++)
				acc[r][j] = v16_fma(v16_set1(e[r * QN_KV_BLOCK + p]), val, acc[r][j]);
		}
	}
#pragma GCC unroll 4
	for (int r = 1; r < nr; r++)
		for (int p = common; p < (lim[r] < QN_KV_BLOCK ? lim[r] : QN_KV_BLOCK); p++)
#pragma GCC unroll 4
			for (int j = 0; j < nv; j++)
				acc[r][j] = v16_fma(v16_set1(e[r * QN_KV_BLOCK + p]),
				                    v16_load_kv(kv_type, v, p * v_dim + at + 16 * j), acc[r][j]);
#pragma GCC unroll 4
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			v16_store(o + r * v_dim + 16 * j, acc[r][j]);
}

INLINE void attn_rows(int kv_type, int nr, const struct attn_rows *a, int r0, const void *k, const void *v)
{
	_Alignas(64) float e[4 * QN_KV_BLOCK];
	float c[4];
	int64_t d = 0;

	scores(kv_type, nr, e, a->q + r0 * a->head_dim, a->head_dim, k);
	for (int r = 0; r < nr; r++)
		c[r] = weigh(e + r * QN_KV_BLOCK, &a->m[r0 + r], &a->l[r0 + r], a->lim[r0 + r]);

	float *o = a->o + (int64_t)r0 * a->v_dim;

	for (; d + 64 <= a->v_dim; d += 64)
		weighted(kv_type, nr, 4, o + d, a->v_dim, c, e, v, d, a->lim + r0);
	for (; d < a->v_dim; d += 16)
		weighted(kv_type, nr, 1, o + d, a->v_dim, c, e, v, d, a->lim + r0);
}

INLINE void attn_block(int kv_type, const struct attn_rows *a, const void *k, const void *v)
{
	int r = 0;

	while (r < a->n) {
		if (a->lim[r] <= 0) {
			r++;
			continue;
		}
		/* Rows are ordered by token, so limits rise: from here on every row sees something. */
		for (; r + 4 <= a->n; r += 4)
			attn_rows(kv_type, 4, a, r, k, v);
		for (; r + 2 <= a->n; r += 2)
			attn_rows(kv_type, 2, a, r, k, v);
		for (; r < a->n; r++)
			attn_rows(kv_type, 1, a, r, k, v);
	}
}

static void VEC(attn_f16)(const struct attn_rows *a, const void *k, const void *v)
{
	attn_block(QN_KV_F16, a, k, v);
}

static void VEC(attn_f32)(const struct attn_rows *a, const void *k, const void *v)
{
	attn_block(QN_KV_F32, a, k, v);
}

INLINE v16 load_weights(int type, const void *w, int64_t k)
{
	switch (type) {
	case QN_F32:
		return v16_load((const float *)w + k * QN_PANEL);
	case QN_F16:
		return v16_load_f16((const uint16_t *)w + k * QN_PANEL);
	default:
		return v16_load_bf16((const uint16_t *)w + k * QN_PANEL);
	}
}

/* Products with float weights, nt tokens, constant. */
INLINE void mm_float(int type, int nt, float *out, const void *w, const struct actf *x, int64_t n_in, int64_t n_act)
{
	v16 even[8], odd[8];

#pragma GCC unroll 8
	for (int t = 0; t < nt; t++)
		even[t] = odd[t] = v16_zero();
	for (int64_t b = 0; b * QN_ACT_BLOCK < n_in; b++, x += n_act) {
		const int64_t left = n_in - b * QN_ACT_BLOCK, n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		int64_t k = 0;

		for (; k + 2 <= n; k += 2) {
			const v16 w0 = load_weights(type, w, b * QN_ACT_BLOCK + k);
			const v16 w1 = load_weights(type, w, b * QN_ACT_BLOCK + k + 1);

#pragma GCC unroll 8
			for (int t = 0; t < nt; t++) {
				even[t] = v16_fma(w0, v16_set1(x[t].x[k]), even[t]);
				odd[t] = v16_fma(w1, v16_set1(x[t].x[k + 1]), odd[t]);
			}
		}
		if (k < n) { /* an odd number of columns, in the last block */
			const v16 w0 = load_weights(type, w, b * QN_ACT_BLOCK + k);

#pragma GCC unroll 8
			for (int t = 0; t < nt; t++)
				even[t] = v16_fma(w0, v16_set1(x[t].x[k]), even[t]);
		}
	}
#pragma GCC unroll 8
	for (int t = 0; t < nt; t++)
		v16_store(out + t * QN_PANEL, v16_add(even[t], odd[t]));
}

#define MM_FLOAT(name, type) \
	static void VEC(name)(float *out, const void *w, const void *act, int64_t n_in, \
	                      int64_t n_act, int n) \
	{ \
		const struct actf *x = act; \
		for (; n >= 8; n -= 8, x += 8, out += 8 * QN_PANEL) \
			mm_float(type, 8, out, w, x, n_in, n_act); \
		for (; n >= 4; n -= 4, x += 4, out += 4 * QN_PANEL) \
			mm_float(type, 4, out, w, x, n_in, n_act); \
		for (; n >= 2; n -= 2, x += 2, out += 2 * QN_PANEL) \
			mm_float(type, 2, out, w, x, n_in, n_act); \
		for (; n >= 1; n -= 1, x += 1, out += 1 * QN_PANEL) \
			mm_float(type, 1, out, w, x, n_in, n_act); \
	}

MM_FLOAT(mm_f32, QN_F32)
MM_FLOAT(mm_f16, QN_F16)
MM_FLOAT(mm_bf16, QN_BF16)

static void VEC(v16_fill)(struct kernels *k)
{
	k->attn[QN_KV_F16] = VEC(attn_f16);
	k->attn[QN_KV_F32] = VEC(attn_f32);
	k->mm[QN_F32] = VEC(mm_f32);
	k->mm[QN_F16] = VEC(mm_f16);
	k->mm[QN_BF16] = VEC(mm_bf16);
	k->mm_tile[QN_F32] = k->mm_tile[QN_F16] = k->mm_tile[QN_BF16] = 8;
}
