/*
 * quantize_zmm.h - the quantization of activations in zmm registers: the kernel of tmpl/elementwise.h, which is
 * included before, for what is finite. There each sum of 16 bytes is a reduction of its own; here 16 of them are one.
 */
#ifndef QN_X86_QUANTIZE_ZMM_H
#define QN_X86_QUANTIZE_ZMM_H

#include <immintrin.h>

#include "kernels.h"

/* Bits of the magnitudes of 16 floats, which are in the floats' order. */
static inline __m512i magnitudes(const float *x)
{
	return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

#define LANES_APART(op, a, b, first, second) \
	op(_mm512_shuffle_i32x4(a, b, first), _mm512_shuffle_i32x4(a, b, second))

/* The largest magnitude of each 32 of 256 floats. */
static inline __m256i tops_of_32(const float *x)
{
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
	__m512i top[8], all;

#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		top[j] = _mm512_max_epu32(magnitudes(x + 32 * j), magnitudes(x + 32 * j + 16));
#pragma GCC unroll 4
	for (int j = 0; j < 8; j += 2)
		top[j] = LANES_APART(_mm512_max_epu32, top[j], top[j + 1], 0x44, 0xee);
#pragma GCC unroll 2
	for (int j = 0; j < 8; j += 4)
		top[j] = LANES_APART(_mm512_max_epu32, top[j], top[j + 2], 0x88, 0xdd);
	all = _mm512_max_epu32(_mm512_unpacklo_epi32(top[0], top[4]), _mm512_unpackhi_epi32(top[0], top[4]));
	all = _mm512_max_epu32(all, _mm512_shuffle_epi32(all, 0x4e));
	return _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, all));
}

/* 64 floats times inv[0], the first 32, and inv[1] as bytes y; returns sums of four, [quarter of a vector][vector]. */
static inline __m512i round_64(int8_t *y, const float *x, const float *inv)
{
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m512i q[4], bytes;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		q[j] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * j), _mm512_set1_ps(inv[j / 2])));
	bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
	_mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, bytes));
	return _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes), _mm512_set1_epi16(1));
}

/* 256 floats times those of inv[8] as bytes; returns the sums of each 16. */
static inline __m256i round_256(int8_t *y, const float *x, const float *inv)
{
	__m512i sum[4];

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		sum[j] = round_64(y + 64 * j, x + 64 * j, inv + 2 * j);
	sum[0] = LANES_APART(_mm512_add_epi32, sum[0], sum[1], 0x44, 0xee);
	sum[2] = LANES_APART(_mm512_add_epi32, sum[2], sum[3], 0x44, 0xee);
	return _mm512_cvtepi32_epi16(LANES_APART(_mm512_add_epi32, sum[0], sum[2], 0x88, 0xdd));
}

/* The largest sum of 16 magnitudes of 256 bytes. */
static inline int32_t most_of_16(const int8_t *q)
{
	__m512i most = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) { /* sums of 8, of which two are of one 16 */
		const __m512i size = _mm512_abs_epi8(_mm512_loadu_si512(q + 64 * j));
		const __m512i sum = _mm512_sad_epu8(size, _mm512_setzero_si512());

		most = _mm512_max_epi32(most, _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, 0x4e)));
	}
	return _mm512_reduce_max_epi32(most);
}

#undef LANES_APART

static void VEC(quantize_256)(void *block, const float *x, int n, enum qn_act kind)
{
	const int whole = n == QN_ACT_BLOCK && kind != QN_ACT_BF16;
	const __m256i tops = whole ? tops_of_32(x) : _mm256_setzero_si256();
	const __m256i infinite = _mm256_set1_epi32(0x7f800000);
	const __m256 top_q = _mm256_set1_ps(127.0f), least = _mm256_set1_ps(0x1p-120f);
	__m256 max = _mm256_castsi256_ps(tops);
	struct act8 *y = block;
	__m256i sum16, sum32;
	__mmask8 some;
	float inv[8];

	if (!whole || _mm256_cmpge_epu32_mask(tops, infinite)) {
		VEC(quantize)(y, x, n, kind);
		return;
	}
	if (kind == QN_ACT_Q8_256)
		max = _mm256_set1_ps(_mm512_reduce_max_ps(_mm512_zextps256_ps512(max)));
	some = _mm256_cmp_ps_mask(max, least, _CMP_GT_OQ);
	_mm256_storeu_ps(inv, _mm256_maskz_div_ps(some, top_q, max));
	max = _mm256_maskz_div_ps(some, max, top_q);
	sum16 = round_256(y->qs, x, inv);
	sum32 = _mm256_madd_epi16(sum16, _mm256_set1_epi16(1));
	if (kind == QN_ACT_Q8_256) {
		_mm256_storeu_si256((void *)y->sum16, sum16);
		_mm_storeu_si128((void *)y->sum32, _mm256_cvtepi32_epi16(sum32));
		y->d = _mm256_cvtss_f32(max);
		y->most16 = most_of_16(y->qs);
		memset(y->unused, 0, sizeof y->unused);
		return;
	}
	_mm256_storeu_ps(y->d32, max);
	if (kind == QN_ACT_Q8_32_16)
		_mm256_storeu_si256((void *)y->half_sum, sum16);
	else
		_mm256_storeu_ps(y->fsum32, _mm256_cvtepi32_ps(sum32));
}

#endif
