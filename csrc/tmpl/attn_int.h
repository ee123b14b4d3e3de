/*
 * attn_int.h - attention with keys and values of integers. Not compiled as it stands: a set defines
 * the functions of tmpl/matmul_float.h and these, and includes it once. A vector has 16 lanes of 32 bits.
 *
 *	v16i                            16 sums; v16i_set1(x), v16i_float(a)
 *	ints, ints_load(p)              words of two 16-bit integers; ints_widen(p) of two of 8 bits
 *	pair, pair_of(p)                one such word in all lanes
 *	ints_dot(sum, a, pair)          sum + the two products of each lane
 *	bytes, bytes_load(p)            words of four bytes of keys
 *	quad, quad_of(p)                one word of four signed bytes in all lanes
 *	bytes_dot(sum, part, a, quad)   sum + the four products of each lane
 *	KEYS_OFFSET                     1 where bytes are taken with their offset of 128, 0 where without
 *	KEYS_PARTS                      2 where bytes are half a vector of keys, and part says which half. 1
 *	QUAD_BYTES                      8 where quad_of() takes four bytes widened by quads_store(y, x), of 16. 4
 *	shorts_store(p, a)              16 whole numbers plus QEXP_MAGIC as 16-bit integers
 */
#include "tmpl/attn.h"

#ifndef KEYS_PARTS
#define KEYS_PARTS 1
#endif
#ifdef QUAD_BYTES
#define WIDE_BYTES (KV_HEAD_DIM_MAX / 4 * QUAD_BYTES)

/* The queries of nr rows as quad_of() takes them, WIDE_BYTES apart. */
INLINE void widen(int nr, uint8_t *y, const uint8_t *q, int64_t q_bytes, int words)
{
	for (int r = 0; r < nr; r++)
		for (int w = 0; w < words; w += 4)
			quads_store(y + r * WIDE_BYTES + w * QUAD_BYTES, q + r * q_bytes + 4 * w);
}
#else
#define QUAD_BYTES 4
#endif

INLINE void integer_scores(int type, int nr, const struct attn_rows *a, int r0, const void *k)
{
	const int words = (int)(type == QN_KV_I16 ? kv_pad(a->head_dim, 2) / 2 : kv_pad(a->head_dim, 4) / 4);
	const float *kd = (const float *)((const uint8_t *)k + kv_k_elems(type, a->head_dim));
	const uint8_t *q = (const uint8_t *)a->q + r0 * a->q_bytes;
	const int q_word = type == QN_KV_Q8 ? QUAD_BYTES : 4;
	int64_t q_bytes = a->q_bytes;
	float *e = a->e + r0 * QN_KV_BLOCK;
#ifdef WIDE_BYTES
	_Alignas(64) uint8_t wide[ATTN_ROWS_AT_ONCE * WIDE_BYTES];

	if (type == QN_KV_Q8) {
		widen(nr, wide, q, q_bytes, words);
		q = wide;
		q_bytes = WIDE_BYTES;
	}
#endif

	for (int j0 = 0; j0 < KV_VECS; j0 += ATTN_VECS) {
		v16i acc[ATTN_ROWS_AT_ONCE][ATTN_VECS];

#pragma GCC unroll 6
		for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++)
				acc[r][j] = v16i_set1(type == QN_KV_Q8 && KEYS_OFFSET ? -a->qsum[r0 + r] : 0);
		for (int w = 0; w < words; w++) {
			const uint8_t *qw = q + q_word * w;

			ask_next(a, (w * QN_KV_BLOCK + 16 * j0) * 4, 64 * ATTN_VECS);
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++) {
				const uint8_t *at = (const uint8_t *)k + (w * QN_KV_BLOCK + 16 * (j0 + j)) * 4;

				if (type == QN_KV_I16) {
					const ints kv = ints_load((const int16_t *)at);

#pragma GCC unroll 6
					for (int r = 0; r < nr; r++)
						acc[r][j] = ints_dot(acc[r][j], kv, pair_of(qw + r * q_bytes));
					continue;
				}
#pragma GCC unroll 2
				for (int h = 0; h < KEYS_PARTS; h++) {
					const bytes kv = bytes_load(at + h * 64 / KEYS_PARTS);

#pragma GCC unroll 6
					for (int r = 0; r < nr; r++)
						acc[r][j] = bytes_dot(acc[r][j], h, kv, quad_of(qw + r * q_bytes));
				}
			}
		}
#pragma GCC unroll 6
		for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
			for (int j = 0; j < ATTN_VECS; j++)
				v16_store(e + r * QN_KV_BLOCK + 16 * (j0 + j),
				          v16_mul(v16i_float(acc[r][j]),
				                  v16_mul(v16_set1(a->qd[r0 + r]), v16_load(kd + 16 * (j0 + j)))));
	}
}

/* The weights of a call's rows times the values' scales, as 16-bit integers of units u. */
struct rounded {
	_Alignas(64) int16_t q[QN_ATTN_ROWS * QN_KV_BLOCK];
	float u[ATTN_ROWS_UP];
};

/* kv_weight_unit() of 16 rows, and 1 / u, or 0. A sum that is not finite, times 0, is NaN. */
INLINE v16 weight_units(v16 max, v16 sum, v16 *u)
{
	const v16 least = v16_set1(0x1p-100f), most = v16_set1(INFINITY);
	const v16 unit = v16_max(v16_mul(max, v16_set1(1 / KV_WEIGHT_TOP)), v16_mul(sum, v16_set1(1 / KV_WEIGHT_SUM)));

	*u = v16_fma(sum, v16_zero(), v16_where(unit, unit, least, most));
	return v16_where(v16_div(v16_set1(1), *u), *u, least, most);
}

/* Row r's weights times scales, which stay in e; their maxima and sums by lanes. all: it sees the whole block. */
INLINE void scale_row(int all, const struct attn_rows *a, int r, const v16 *vd, v16 *top, v16 *lanes)
{
	v16 w[KV_VECS];

#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++) {
		float *e = a->e + r * QN_KV_BLOCK + 16 * j;

		w[j] = v16_mul(v16_load(e), vd[j]);
		if (!all)
			w[j] = v16_within_or(w[j], a->from[r] - 16 * j, a->lim[r] - 16 * j, 0);
		v16_store(e, w[j]);
	}
	*top = v16_max(v16_max(w[0], w[1]), v16_max(w[2], w[3]));
	*lanes = v16_add(v16_add(w[0], w[1]), v16_add(w[2], w[3]));
}

INLINE void scale_all(int all, const struct attn_rows *a, const float *scales, float *max, float *sum)
{
	v16 vd[KV_VECS];

#pragma GCC unroll 4
	for (int j = 0; j < KV_VECS; j++)
		vd[j] = v16_load(scales + 16 * j);
	for (int r = 0; r < a->n; r += 4) {
		v16 top[4], lanes[4];

#pragma GCC unroll 4
		for (int k = 0; k < 4; k++)
			if (!all && r + k >= a->n)
				top[k] = lanes[k] = v16_zero();
			else if (all || sees_all(a, r + k))
				scale_row(1, a, r + k, vd, &top[k], &lanes[k]);
			else
				scale_row(0, a, r + k, vd, &top[k], &lanes[k]);
		v16_max4(max + r, top);
		v16_sum4(sum + r, lanes);
	}
}

static void VEC(round_weights)(const struct attn_rows *a, const float *scales, struct rounded *y)
{
	float max[ATTN_ROWS_UP] = {0}, sum[ATTN_ROWS_UP] = {0}, inv[ATTN_ROWS_UP];

	if (all_see_all(a) && a->n % 4 == 0)
		scale_all(1, a, scales, max, sum);
	else
		scale_all(0, a, scales, max, sum);
	for (int r = 0; r < a->n; r += 16) {
		v16 u;

		v16_store(inv + r, weight_units(v16_load(max + r), v16_load(sum + r), &u));
		v16_store(y->u + r, u);
	}
	for (int r = 0; r < a->n; r++)
#pragma GCC unroll 4
		for (int j = 0; j < KV_VECS; j++) {
			v16 w = v16_set1(0);

			if (inv[r] > 0)
				w = v16_mul(v16_load(a->e + r * QN_KV_BLOCK + 16 * j), v16_set1(inv[r]));
			shorts_store(y->q + r * QN_KV_BLOCK + 16 * j, v16_add(w, v16_set1(QEXP_MAGIC)));
		}
}

/* o[r][at .. at + 16 nv] = o * c + sums * u. */
INLINE void add_sums(int nr, int nv, const struct attn_rows *a, int r0, int64_t at, v16i sum[][4], const float *u)
{
#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			float *y = a->o + (r0 + r) * (int64_t)a->v_dim + at + 16 * j;

			v16_store(y, v16_fma(v16i_float(sum[r][j]), v16_set1(u[r0 + r]),
			                     v16_mul(v16_load(y), v16_set1(a->c[r0 + r]))));
		}
}

INLINE void integer_values(int type, int nr, int nv, const struct attn_rows *a, int r0, const struct rounded *w,
                           const void *v, int64_t at)
{
	const int elem = type == QN_KV_I16 ? 2 : 1;
	const int16_t *q = w->q + r0 * QN_KV_BLOCK;
	v16i acc[ATTN_ROWS_AT_ONCE][4];

#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++)
			acc[r][j] = v16i_set1(0);
	for (int p = 0; p < QN_KV_BLOCK / 2; p++) {
		const int64_t i = (p * (int64_t)a->v_dim + at) * 2;

		ask_next(a, i * elem, 32 * nv * elem);
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			const ints kv = type == QN_KV_I16 ? ints_load((const int16_t *)v + i + 32 * j)
			                                  : ints_widen((const int8_t *)v + i + 32 * j);

#pragma GCC unroll 6
			for (int r = 0; r < nr; r++)
				acc[r][j] = ints_dot(acc[r][j], kv, pair_of(q + r * QN_KV_BLOCK + 2 * p));
		}
	}
	add_sums(nr, nv, a, r0, at, acc, w->u);
}

INLINE void integer_values_rows(int type, int nr, const struct attn_rows *a, int r0, const struct rounded *w,
                                const void *v)
{
	int64_t d = 0;

	for (; d + 16 * ATTN_VECS <= a->v_dim; d += 16 * ATTN_VECS)
		integer_values(type, nr, ATTN_VECS, a, r0, w, v, d);
	for (; d < a->v_dim; d += 16)
		integer_values(type, nr, 1, a, r0, w, v, d);
}

#define SCORES_i16(nr) integer_scores(QN_KV_I16, nr, a, r, k)
#define SCORES_q8(nr) integer_scores(QN_KV_Q8, nr, a, r, k)
#define VALUES_i16(nr) integer_values_rows(QN_KV_I16, nr, a, r, &w, v)
#define VALUES_q8(nr) integer_values_rows(QN_KV_Q8, nr, a, r, &w, v)

/* The kernels of a type, from SCORES_name(nr) and VALUES_name(nr). */
#define INT_TYPE(name, type)                                                                         \
	static void VEC(scores_##name)(const struct attn_rows *a, const void *k)                     \
	{                                                                                            \
		ATTN_EACH_ROWS(a, SCORES_##name);                                                 \
	}                                                                                            \
	static void VEC(values_##name)(const struct attn_rows *a, const void *v)                     \
	{                                                                                            \
		struct rounded w;                                                                    \
                                                                                                     \
		VEC(round_weights)(a, (const float *)((const uint8_t *)v + kv_v_elems(type, a->v_dim)), &w); \
		ATTN_EACH_ROWS(a, VALUES_##name);                                                 \
	}

INT_TYPE(i16, QN_KV_I16)
INT_TYPE(q8, QN_KV_Q8)

static void VEC(attn_int_fill)(struct kernels *k)
{
	k->attn_scores[QN_KV_I16] = VEC(scores_i16);
	k->attn_scores[QN_KV_Q8] = VEC(scores_q8);
	k->attn_values[QN_KV_I16] = VEC(values_i16);
	k->attn_values[QN_KV_Q8] = VEC(values_q8);
}
