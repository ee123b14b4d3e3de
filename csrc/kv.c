/* kv.c - keys and values into a KV block, and queries as integer keys want them. */
#include <float.h>
#include <string.h>

#include "kv.h"

/* The largest magnitude of n floats, of which none is NaN: bits of magnitudes are in their order. */
static float top_of(const float *x, int n)
{
	int32_t top = 0;

	for (int i = 0; i < n; i++) {
		const int32_t a = (int32_t)(bits_of_f32(x[i]) & 0x7fffffff);

		top = a > top ? a : top;
	}
	return f32_of_bits((uint32_t)top);
}

/*
 * The scale of integers for x: 1 / d is the least of top / max|x| and length / |x|; 0 for a vector of
 * nothing. What is not finite gives d = NaN, so that the fault is seen. Returns 1 / d.
 */
static float scale_of(const float *x, int n, float top, float length, float *d)
{
	const float sum = qn_kernels.sumsq(x, n);
	float max, inv;

	if (!(sum <= FLT_MAX)) {
		*d = NAN;
		return 0;
	}
	max = top_of(x, n);
	if (max < KV_TINY) {
		*d = 0;
		return 0;
	}
	inv = top / max;
	if (length > 0 && length / sqrtf(sum) < inv)
		inv = length / sqrtf(sum);
	*d = 1 / inv;
	return inv;
}

/*
 * n integers of 16 bits nearest to x * inv, ties to even, and zeros up to `to`; all zeros where inv is 0, for x may
 * then be anything.
 */
static void rounded(int16_t *q, const float *x, float inv, int n, int64_t to)
{
	if (!(inv > 0))
		n = 0;
	for (int i = 0; i < n; i++) {
		const float t = x[i] * inv + 0x1.8p23f; /* the integer is in the low bits */

		q[i] = (int16_t)(bits_of_f32(t) & 0xffff);
	}
	memset(q + n, 0, sizeof *q * (size_t)(to - n));
}

/* The odd numbers of -15 .. 15 that are nearest to w * step / 2^15. */
static void levels_of(int16_t *q, const int16_t *w, int n, int16_t step)
{
	for (int i = 0; i < n; i++) {
		const int16_t down = (int16_t)(w[i] * step >> 16);

		q[i] = (int16_t)(2 * (down > 7 ? 7 : down < -8 ? -8 : down) + 1);
	}
}

void kv_hadamard(float *x, int n)
{
	const int block = n & -n, half = block / 2;
	const float unit = 1 / sqrtf((float)block);
	float y[KV_HEAD_DIM_MAX];

	for (int at = 0; at < n; at += block)
		for (int pass = 1; pass < block; pass *= 2) { /* all alike, so that vectors take them */
			for (int i = 0; i < half; i++) {
				const float a = x[at + i], b = x[at + half + i];

				y[2 * i] = a + b;
				y[2 * i + 1] = a - b;
			}
			memcpy(x + at, y, sizeof *y * (size_t)block);
		}
	for (int i = 0; i < n; i++)
		x[i] *= unit;
}

/*
 * Codes of a head, transformed to x, and the scale *d with the least squares of x - d * (2 * code - 15);
 * codes beyond n are zeros. x is first integers w below 2^12, so that sums are exact; then levels are
 * tried at seven distances, 1/7 to 1/11.5 of max|x|, and the best scale of each is sum(w q) / sum(q q).
 */
static void codes_of(uint8_t code[KV_HEAD_DIM_MAX], const float *head, int n, float *d)
{
	enum { TOP = 4095 };
	int16_t w[KV_HEAD_DIM_MAX], q[KV_HEAD_DIM_MAX], by = 0;
	float x[KV_HEAD_DIM_MAX], inv, best = -1, unit = 0;

	memcpy(x, head, sizeof *x * (size_t)n);
	kv_hadamard(x, n);
	inv = scale_of(x, n, TOP, 0, d);
	rounded(w, x, inv, n, n);
	for (int16_t step = 112; step <= 184; step += 12) { /* w * step / 2^16 = w / TOP * 7 .. 11.5 */
		int32_t wq = 0, qq = 0;
		float gain;

		levels_of(q, w, n, step);
		for (int i = 0; i < n; i++)
			wq += w[i] * q[i];
		for (int i = 0; i < n; i++)
			qq += q[i] * q[i];
		gain = (float)wq * (float)wq / (float)qq;
		if (gain > best) {
			best = gain;
			by = step;
			unit = (float)wq / (float)qq;
		}
	}
	*d *= unit;
	levels_of(q, w, n, by);
	for (int i = 0; i < n; i++)
		code[i] = (uint8_t)((q[i] + KV_Q4_TOP) / 2);
	memset(code + n, 0, (size_t)(kv_pad(n, 16) - n));
}

static uint16_t bf16_of_f32(float f)
{
	const uint32_t u = bits_of_f32(f);

	if ((u & 0x7fffffff) > 0x7f800000) /* NaN stays one */
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* top: the largest integer of I16. */
static void put_k(int type, void *k, int p, const float *x, int head_dim, float top)
{
	float *d = (float *)((uint8_t *)k + kv_k_elems(type, head_dim)), inv;
	uint8_t code[KV_HEAD_DIM_MAX];
	int16_t q[KV_HEAD_DIM_MAX];

	switch (type) {
	case QN_KV_F32:
		for (int i = 0; i < head_dim; i++)
			((float *)k)[i * QN_KV_BLOCK + p] = x[i];
		break;
	case QN_KV_F16:
		for (int i = 0; i < head_dim; i++)
			((uint16_t *)k)[i * QN_KV_BLOCK + p] = f16_of_f32_sat(x[i]);
		break;
	case QN_KV_BF16:
		for (int i = 0; i < head_dim; i++)
			((uint16_t *)k)[i * QN_KV_BLOCK + p] = bf16_of_f32(x[i]);
		break;
	case QN_KV_I16:
		inv = scale_of(x, head_dim, top, KV_I16_LENGTH, &d[p]);
		rounded(q, x, inv, head_dim, kv_pad(head_dim, 2));
		for (int i = 0; i < head_dim; i += 2)
			memcpy((int16_t *)k + (i / 2 * QN_KV_BLOCK + p) * 2, q + i, 4);
		break;
	case QN_KV_Q8:
		inv = scale_of(x, head_dim, KV_Q8_TOP, 0, &d[p]);
		rounded(q, x, inv, head_dim, kv_pad(head_dim, 4));
		for (int i = 0; i < kv_pad(head_dim, 4); i++)
			code[i] = (uint8_t)(128 + q[i]);
		for (int i = 0; i < head_dim; i += 4)
			memcpy((uint8_t *)k + (i / 4 * QN_KV_BLOCK + p) * 4, code + i, 4);
		break;
	case QN_KV_Q4:
		codes_of(code, x, head_dim, &d[p]);
		for (int i = 0; i < kv_pad(head_dim, 8) / 2; i++)
			((uint8_t *)k)[(i / 4 * QN_KV_BLOCK + p) * 4 + i % 4] =
				(uint8_t)(code[i / 4 * 8 + i % 4] | code[i / 4 * 8 + i % 4 + 4] << 4);
		break;
	}
}

void kv_put_k(int type, void *k, int p, const float *x, int head_dim)
{
	put_k(type, k, p, x, head_dim, KV_I16_TOP);
}

void kv_put_kv(int type, void *k, int p, const float *x, int head_dim)
{
	put_k(type, k, p, x, head_dim, KV_I16_VALUE);
}

void kv_put_v(int type, void *v, int p, const float *x, int head_dim)
{
	const int64_t dv = kv_pad(head_dim, 16);
	float *d = (float *)((uint8_t *)v + kv_v_elems(type, dv)), inv;
	uint8_t code[KV_HEAD_DIM_MAX];
	int16_t q[KV_HEAD_DIM_MAX];

	switch (type) {
	case QN_KV_F32:
		for (int i = 0; i < dv; i++)
			((float *)v)[p * dv + i] = i < head_dim ? x[i] : 0;
		break;
	case QN_KV_F16:
		for (int i = 0; i < dv; i++)
			((uint16_t *)v)[p * dv + i] = i < head_dim ? f16_of_f32_sat(x[i]) : 0;
		break;
	case QN_KV_BF16:
		for (int i = 0; i < dv; i++)
			((uint16_t *)v)[p * dv + i] = i < head_dim ? bf16_of_f32(x[i]) : 0;
		break;
	case QN_KV_I16:
		inv = scale_of(x, head_dim, KV_I16_VALUE, 0, &d[p]);
		rounded(q, x, inv, head_dim, dv);
		for (int i = 0; i < dv; i++)
			((int16_t *)v)[(p / 2 * dv + i) * 2 + p % 2] = q[i];
		break;
	case QN_KV_Q8:
		inv = scale_of(x, head_dim, KV_Q8_TOP, 0, &d[p]);
		rounded(q, x, inv, head_dim, dv);
		for (int i = 0; i < dv; i++)
			((int8_t *)v)[(p / 2 * dv + i) * 2 + p % 2] = (int8_t)q[i];
		break;
	case QN_KV_Q4:
		codes_of(code, x, head_dim, &d[p]);
		for (int i = 0; i < dv / 2; i++)
			((uint8_t *)v)[p / 2 * dv + 2 * i + p % 2] = (uint8_t)(code[i] | code[dv / 2 + i] << 4);
		break;
	}
}

/* 16 bytes of words, of halves and of bytes of them; every compiler's baseline has these shuffles. */
typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

static words words_at(const void *p)
{
	words w;

	memcpy(&w, p, sizeof w);
	return w;
}

/* Words of four rows of K, of positions p .. p + 3: row by row becomes position by position. */
static void turn(words w[4])
{
	const words ab = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5), ab2 = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7);
	const words cd = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5), cd2 = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);

	w[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
	w[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
	w[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
	w[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/* The elements of two positions, in turns. */
static void store_halves(uint8_t *y, words a, words b)
{
	const halves low = __builtin_shufflevector((halves)a, (halves)b, 0, 8, 1, 9, 2, 10, 3, 11);
	const halves high = __builtin_shufflevector((halves)a, (halves)b, 4, 12, 5, 13, 6, 14, 7, 15);

	memcpy(y, &low, sizeof low);
	memcpy(y + sizeof low, &high, sizeof high);
}

static void store_bytes(uint8_t *y, words a, words b)
{
	const bytes low = __builtin_shufflevector((bytes)a, (bytes)b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	const bytes high = __builtin_shufflevector((bytes)a, (bytes)b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
	                                           15, 31);

	memcpy(y, &low, sizeof low);
	memcpy(y + sizeof low, &high, sizeof high);
}

/* Words of two dimensions out of rows d and d + 1 of 16-bit floats, of positions p .. p + 7. */
static void pair_rows(words w[2], const uint16_t *row)
{
	const words a = words_at(row), b = words_at(row + QN_KV_BLOCK);

	store_halves((uint8_t *)w, a, b);
}

void kv_values_of_keys(int type, void *v, const void *k, int head_dim, int v_dim)
{
	const int64_t row = QN_KV_BLOCK * 4; /* bytes of a row of words */
	const uint8_t *x = k;
	uint8_t *y = v;

	switch (type) {
	case QN_KV_F32:
		for (int d = 0; d < v_dim; d += 4)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d + i) * row + p * 4);
				turn(w);
				for (int i = 0; i < 4; i++)
					memcpy(y + ((int64_t)(p + i) * v_dim + d) * 4, &w[i], sizeof w[i]);
			}
		break;
	case QN_KV_F16:
	case QN_KV_BF16:
		for (int d = 0; d < v_dim; d += 8)
			for (int p = 0; p < QN_KV_BLOCK; p += 8) {
				words w[2][4];

				for (int i = 0; i < 4; i++) {
					words two[2];

					pair_rows(two, (const uint16_t *)k + (d + 2 * i) * QN_KV_BLOCK + p);
					w[0][i] = two[0];
					w[1][i] = two[1];
				}
				turn(w[0]);
				turn(w[1]);
				for (int i = 0; i < 8; i++)
					memcpy(y + ((int64_t)(p + i) * v_dim + d) * 2, &w[i / 4][i % 4], sizeof w[0][0]);
			}
		break;
	case QN_KV_I16:
		for (int d = 0; d < v_dim; d += 8)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d / 2 + i) * row + p * 4);
				turn(w);
				store_halves(y + ((int64_t)p / 2 * v_dim + d) * 4, w[0], w[1]);
				store_halves(y + ((int64_t)(p / 2 + 1) * v_dim + d) * 4, w[2], w[3]);
			}
		break;
	default: /* Q8: of keys with an offset of 128 */
		for (int d = 0; d < v_dim; d += 16)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d / 4 + i) * row + p * 4) ^ 0x80808080;
				turn(w);
				store_bytes(y + ((int64_t)p / 2 * v_dim + d) * 2, w[0], w[1]);
				store_bytes(y + ((int64_t)(p / 2 + 1) * v_dim + d) * 2, w[2], w[3]);
			}
		break;
	}
	memcpy(y + kv_v_elems(type, v_dim), x + kv_k_elems(type, head_dim), (size_t)kv_scales(type));
}

void kv_copy_k(int type, void *to, int p, const void *k, int from, int head_dim)
{
	const int64_t elems = kv_k_elems(type, head_dim);

	if (type == QN_KV_F16 || type == QN_KV_BF16)
		for (int64_t i = 0; i < elems / 2; i += QN_KV_BLOCK)
			((uint16_t *)to)[i + p] = ((const uint16_t *)k)[i + from];
	else /* floats and words of integers */
		for (int64_t i = 0; i < elems / 4; i += QN_KV_BLOCK)
			((uint32_t *)to)[i + p] = ((const uint32_t *)k)[i + from];
	if (kv_integer(type))
		((float *)((uint8_t *)to + elems))[p] = ((const float *)((const uint8_t *)k + elems))[from];
}

void kv_expand_k(void *y, const void *k, int head_dim, const uint8_t *ahead)
{
	const int64_t n = kv_k_elems(QN_KV_Q4, head_dim);

	qn_kernels.kv_expand(y, k, n, 4 * QN_KV_BLOCK, 128 - KV_Q4_TOP, ahead);
	memcpy((uint8_t *)y + kv_k_elems(QN_KV_Q8, head_dim), (const uint8_t *)k + n, (size_t)kv_scales(QN_KV_Q4));
}

void kv_expand_v(void *y, const void *v, int head_dim, const uint8_t *ahead)
{
	const int64_t dv = kv_pad(head_dim, 16), n = kv_v_elems(QN_KV_Q4, dv);

	qn_kernels.kv_expand(y, v, n, dv, -KV_Q4_TOP, ahead);
	memcpy((uint8_t *)y + 2 * n, (const uint8_t *)v + n, (size_t)kv_scales(QN_KV_Q4));
}

void kv_query(int type, void *q, float *d, int32_t *sum, const float *x, int head_dim)
{
	float inv, y[KV_HEAD_DIM_MAX];
	int16_t r[KV_HEAD_DIM_MAX];
	int all = 0;

	*sum = 0;
	switch (type) {
	case QN_KV_I16:
		inv = scale_of(x, head_dim, KV_I16_TOP, KV_I16_LENGTH, d);
		rounded(q, x, inv, head_dim, kv_pad(head_dim, 2));
		break;
	case QN_KV_Q4:
		memcpy(y, x, sizeof *y * (size_t)head_dim);
		kv_hadamard(y, head_dim);
		kv_query(QN_KV_Q8, q, d, sum, y, head_dim);
		return;
	case QN_KV_Q8:
		inv = scale_of(x, head_dim, KV_Q8_TOP, 0, d);
		rounded(r, x, inv, head_dim, kv_pad(head_dim, 4));
		for (int i = 0; i < kv_pad(head_dim, 4); i++)
			((int8_t *)q)[i] = (int8_t)r[i];
		for (int i = 0; i < head_dim; i++)
			all += r[i];
		*sum = 128 * all;
		break;
	default:
		*d = 1;
		for (int i = 0; i < head_dim; i++)
			((float *)q)[i] = x[i] * LOG2E;
		return;
	}
	*d *= LOG2E;
}
