/*
 * kv.h - how a KV block keeps the keys and values of one kv head. K comes first, then V.
 *
 *	          K                               V, v = head_dim rounded up to 16
 *	F32       [d][64]                         [64][v]
 *	F16 BF16  the same in 16 bits             the same in 16 bits
 *	I16       [d/2][64][2] int16, [64] d      [32][v][2] int16, [64] d
 *	Q8        [d/4][64][4] uint8, [64] d      [32][v][2] int8, [64] d
 *	Q4        [d/8][64][4] codes, [64] d      [32][v/2][2] codes, [64] d
 *
 * Integers are x = d * q with a scale of their own for each position; K of Q8 is q + 128. Words of
 * two positions or two to four dimensions are what integer dot products take in one lane.
 *
 * Where values are the first channels of keys, only K is kept. Scores are dot products along the channels, results
 * along the positions: a tile of attention turns each block of K into V once for all of its rows.
 *
 * Q4 is 16 levels of Q8, q = 2 * code - 15, of the head after a Hadamard transform. That spreads what a
 * few channels have over all of them, so that one scale does; it is orthogonal, so transformed queries
 * give the same scores, and weighted sums of values are transformed back. A byte has the codes of one
 * position: dimensions i and i + 4 of 8 for K, i and i + v/2 for V, the first in its low bits.
 */
#ifndef QN_FORMAT_KV_H
#define QN_FORMAT_KV_H

#include <float.h>
#include <math.h>

#include "kernels.h"
#include "math/fp16.h"

/*
 * Bounds of the integers. A score's |sum| <= |q| |k|, lengths of the vectors (Cauchy-Schwarz), so 16-bit
 * q and k are scaled to lengths below sqrt(2^31), rounding and all. An output's |sum| is at most the
 * largest value times the sum of the weights: 8190 * (262000 + 64 / 2) < 2^31.
 */
#define KV_I16_TOP    32700.0f
#define KV_I16_LENGTH 46250.0f
#define KV_I16_VALUE  8190.0f
#define KV_Q8_TOP     127.0f
#define KV_Q4_TOP     15
#define KV_WEIGHT_TOP 32760.0f
#define KV_WEIGHT_SUM 262000.0f
#define KV_HEAD_DIM_MAX 1152
#define LOG2E 0x1.715476p+0f
#define KV_TINY       0x1p-50f  /* vectors below are kept as zeros: squares must not underflow */

static inline int kv_integer(int type)
{
	return type == QN_KV_I16 || type == QN_KV_Q8 || type == QN_KV_Q4;
}

/* The type that kernels take: codes are expanded first, see kv_expand_k(). */
static inline int kv_expanded(int type)
{
	return type == QN_KV_Q4 ? QN_KV_Q8 : type;
}

static inline int64_t kv_pad(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* Bytes of the elements of K and of V, where the scales follow. */
static inline int64_t kv_k_elems(int type, int64_t head_dim)
{
	switch (type) {
	case QN_KV_F32:
		return head_dim * QN_KV_BLOCK * 4;
	case QN_KV_I16:
		return kv_pad(head_dim, 2) * QN_KV_BLOCK * 2;
	case QN_KV_Q8:
		return kv_pad(head_dim, 4) * QN_KV_BLOCK;
	case QN_KV_Q4:
		return kv_pad(head_dim, 8) * QN_KV_BLOCK / 2;
	default:
		return head_dim * QN_KV_BLOCK * 2;
	}
}

static inline int64_t kv_v_elems(int type, int64_t v_dim)
{
	switch (type) {
	case QN_KV_F32:
		return v_dim * QN_KV_BLOCK * 4;
	case QN_KV_Q8:
		return v_dim * QN_KV_BLOCK;
	case QN_KV_Q4:
		return v_dim * QN_KV_BLOCK / 2;
	default:
		return v_dim * QN_KV_BLOCK * 2;
	}
}

static inline int64_t kv_scales(int type)
{
	return kv_integer(type) ? QN_KV_BLOCK * (int64_t)sizeof(float) : 0;
}

static inline int64_t kv_k_bytes(int type, int64_t head_dim)
{
	return kv_k_elems(type, head_dim) + kv_scales(type);
}

static inline int64_t kv_v_bytes(int type, int64_t head_dim)
{
	return kv_v_elems(type, kv_pad(head_dim, 16)) + kv_scales(type);
}

/* Bytes of one position of K by itself: an entry. */
static inline int64_t kv_entry_bytes(int type, int64_t head_dim)
{
	return kv_pad(kv_k_bytes(type, head_dim) / QN_KV_BLOCK, 16);
}

/* The unit *u of 16-bit weights w, all >= 0, by their maximum and sum; NaN where the sum is not finite. */
static inline float kv_weight_unit(float max, float sum, float *u)
{
	const float by_max = max * (1 / KV_WEIGHT_TOP), by_sum = sum * (1 / KV_WEIGHT_SUM);

	*u = by_max > by_sum ? by_max : by_sum;
	if (!(sum <= FLT_MAX))
		*u = NAN;
	else if (*u < 0x1p-100f) /* nothing of any weight */
		*u = 0;
	return *u > 0 ? 1 / *u : 0;
}

/* Position p's key and value into a head's K and V. */
void kv_put_k(int type, void *k, int p, const float *x, int head_dim);
void kv_put_v(int type, void *v, int p, const float *x, int head_dim);

/* The same for a key whose first channels are the value: it is kept as precisely as either would be. */
void kv_put_kv(int type, void *k, int p, const float *x, int head_dim);

/*
 * V of the first v_dim channels of K, as V lies; v_dim is a multiple of 16, type not Q4. Nothing is computed, so V is
 * what K is, bit by bit.
 */
void kv_values_of_keys(int type, void *v, const void *k, int head_dim, int v_dim);

/* Position `from` of K or V as it is kept as position p of another block. */
void kv_copy_k(int type, void *to, int p, const void *k, int from, int head_dim);
void kv_copy_v(int type, void *to, int p, const void *v, int from, int head_dim);

/* Position p's key and value out of a head's K and V, as floats. */
void kv_get_k(int type, float *x, const void *k, int p, int head_dim);
void kv_get_v(int type, float *x, const void *v, int p, int head_dim);

/* Position p of K as an entry, and an entry as position p of K. */
void kv_take_k(int type, void *entry, const void *k, int p, int head_dim);
void kv_lay_k(int type, void *k, int p, const void *entry, int head_dim);

/*
 * K and V of Q4 as the same numbers in Q8, asking for those at `ahead`. Room for K: that of Q8 with
 * head_dim rounded up to 8.
 */
void kv_expand_k(void *y, const void *k, int head_dim, const uint8_t *ahead);
void kv_expand_v(void *y, const void *v, int head_dim, const uint8_t *ahead);

/* The Hadamard transform, its own inverse, of each 2^m of x, the largest power that divides n. */
static inline void kv_hadamard(float *x, int n)
{
	qn_kernels.kv_hadamard(x, n);
}

/*
 * A query as scores with keys of this type take it, times log2 e: floats; int16, or int8, with scale *d.
 * The row is filled up to a whole 64 bytes.
 */
void kv_query(int type, void *q, float *d, int32_t *sum, const float *x, int head_dim);

/* Bytes of room for a query of any type. */
static inline int64_t kv_query_bytes(int head_dim)
{
	return kv_pad(head_dim, 16) * (int64_t)sizeof(float);
}

#endif
