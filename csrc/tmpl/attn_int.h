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

/* Vector j of row r's weights times the values' scales. */
INLINE v16 scaled_weights(const struct attn_rows *a, int r, const float *vd, int j)
{
	const v16 w = v16_mul(v16_load(a->e + r * QN_KV_BLOCK + 16 * j), v16_load(vd + 16 * j));

	if (sees_all(a, r))
		return w;
	return v16_within_or(w, a->from[r] - 16 * j, a->lim[r] - 16 * j, 0);
}

/* The scaled weights of rows r0 .. as 16-bit integers q[nr][64] of units u[nr]. */
INLINE void round_weights(int nr, const struct attn_rows *a, int r0, const float *vd, int16_t *q, float *u)
{
	float inv[ATTN_ROWS_AT_ONCE], max[8], sum[8];

#pragma GCC unroll 2
	for (int r = 0; r < nr; r += 4) {
		v16 top[4], lanes[4];

#pragma GCC unroll 4
		for (int k = 0; k < 4; k++) {
			v16 w[KV_VECS];

			top[k] = lanes[k] = v16_zero();
			if (r + k >= nr)
				continue;
#pragma GCC unroll 4
			for (int j = 0; j < KV_VECS; j++)
				w[j] = scaled_weights(a, r0 + r + k, vd, j);
			top[k] = v16_max(v16_max(w[0], w[1]), v16_max(w[2], w[3]));
			lanes[k] = v16_add(v16_add(w[0], w[1]), v16_add(w[2], w[3]));
		}
		v16_max4(max + r, top);
		v16_sum4(sum + r, lanes);
	}
	for (int r = 0; r < nr; r++)
		inv[r] = kv_weight_unit(max[r], sum[r], &u[r]);
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < KV_VECS; j++) {
			v16 w = v16_set1(0);

			if (inv[r] > 0)
				w = v16_mul(scaled_weights(a, r0 + r, vd, j), v16_set1(inv[r]));
			shorts_store(q + r * QN_KV_BLOCK + 16 * j, v16_add(w, v16_set1(QEXP_MAGIC)));
		}
}

INLINE void integer_values(int type, int nr, int nv, const struct attn_rows *a, int r0, const int16_t *q,
                           const float *u, const void *v, int64_t at)
{
	const int elem = type == QN_KV_I16 ? 2 : 1;
	float *o = a->o + (int64_t)r0 * a->v_dim + at;
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
#pragma GCC unroll 6
	for (int r = 0; r < nr; r++)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			float *y = o + r * a->v_dim + 16 * j;

			v16_store(y, v16_fma(v16i_float(acc[r][j]), v16_set1(u[r]),
			                     v16_mul(v16_load(y), v16_set1(a->c[r0 + r]))));
		}
}

INLINE void integer_values_rows(int type, int nr, const struct attn_rows *a, int r0, const void *v)
{
	const float *vd = (const float *)((const uint8_t *)v + kv_v_elems(type, a->v_dim));
	_Alignas(64) int16_t q[ATTN_ROWS_AT_ONCE * QN_KV_BLOCK];
	float u[ATTN_ROWS_AT_ONCE];
	int64_t d = 0;

	round_weights(nr, a, r0, vd, q, u);
	for (; d + 16 * ATTN_VECS <= a->v_dim; d += 16 * ATTN_VECS)
		integer_values(type, nr, ATTN_VECS, a, r0, q, u, v, d);
	for (; d < a->v_dim; d += 16)
		integer_values(type, nr, 1, a, r0, q, u, v, d);
}

#define ATTN_SCORES_i16(nr) integer_scores(QN_KV_I16, nr, a, r, k)
#define ATTN_SCORES_q8(nr) integer_scores(QN_KV_Q8, nr, a, r, k)
#define ATTN_VALUES_i16(nr) integer_values_rows(QN_KV_I16, nr, a, r, v)
#define ATTN_VALUES_q8(nr) integer_values_rows(QN_KV_Q8, nr, a, r, v)

ATTN_TYPE(i16)
ATTN_TYPE(q8)

static void VEC(attn_int_fill)(struct kernels *k)
{
	k->attn_scores[QN_KV_I16] = VEC(scores_i16);
	k->attn_scores[QN_KV_Q8] = VEC(scores_q8);
	k->attn_values[QN_KV_I16] = VEC(values_i16);
	k->attn_values[QN_KV_Q8] = VEC(values_q8);
}
