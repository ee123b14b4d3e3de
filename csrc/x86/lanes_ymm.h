/* lanes_ymm.h - the vector of tmpl/matmul_float.h, in two ymm registers. */
#ifndef QN_X86_LANES_YMM_H
#define QN_X86_LANES_YMM_H

#include <immintrin.h>

#include "math/fp16.h"
#include "math/exp.h"

typedef struct {
	__m256 lo, hi;
} v16;

static inline v16 v16_set1(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v16_zero(void) { return v16_set1(0); }
static inline v16 v16_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }

static inline void v16_store(float *p, v16 a)
{
	_mm256_storeu_ps(p, a.lo);
	_mm256_storeu_ps(p + 8, a.hi);
}

static inline v16 v16_load_f16(const uint16_t *p)
{
	return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
	             _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}

static inline __m256 bf16(const uint16_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

static inline v16 v16_load_bf16(const uint16_t *p) { return (v16){bf16(p), bf16(p + 8)}; }

/* The low halves of words, and the high ones, as BF16. */
static inline __m256 low8(const uint16_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const void *)p), 16));
}

static inline __m256 high8(const uint16_t *p)
{
	return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const void *)p), _mm256_set1_epi32(-0x10000)));
}

static inline v16 v16_load_low(const uint16_t *p) { return (v16){low8(p), low8(p + 16)}; }
static inline v16 v16_load_high(const uint16_t *p) { return (v16){high8(p), high8(p + 16)}; }

#define LANEWISE(name, op) \
	static inline v16 name(v16 a, v16 b) { return (v16){op(a.lo, b.lo), op(a.hi, b.hi)}; }
LANEWISE(v16_add, _mm256_add_ps)
LANEWISE(v16_sub, _mm256_sub_ps)
LANEWISE(v16_mul, _mm256_mul_ps)
LANEWISE(v16_div, _mm256_div_ps)
LANEWISE(v16_max, _mm256_max_ps)
#undef LANEWISE

static inline v16 v16_fma(v16 a, v16 b, v16 c)
{
	return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline float v16_sum(v16 a)
{
	const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

static inline float v16_maxall(v16 a)
{
	const __m256 m8 = _mm256_max_ps(a.lo, a.hi);
	const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
	const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));

	return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

static inline void v16_sum4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_sum(a[i]);
}

static inline void v16_max4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_maxall(a[i]);
}

/* All ones in the lanes below n. */
static inline __m256 below(int n)
{
	return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

static inline __m256 within_or(__m256 a, int from, int lim, __m256 x)
{
	return _mm256_blendv_ps(x, a, _mm256_andnot_ps(below(from), below(lim)));
}

static inline v16 v16_within_or(v16 a, int from, int lim, float x)
{
	const __m256 other = _mm256_set1_ps(x);

	return (v16){within_or(a.lo, from, lim, other), within_or(a.hi, from - 8, lim - 8, other)};
}

static inline v16 v16_iota(void)
{
	return (v16){_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}

static inline __m256 copysign8(__m256 a, __m256 b)
{
	const __m256 sign = _mm256_set1_ps(-0.0f);

	return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b));
}

static inline v16 v16_copysign(v16 a, v16 b) { return (v16){copysign8(a.lo, b.lo), copysign8(a.hi, b.hi)}; }

static inline __m256 within8(__m256 x, __m256 from, __m256 to)
{
	return _mm256_and_ps(_mm256_cmp_ps(x, from, _CMP_GE_OQ), _mm256_cmp_ps(x, to, _CMP_LE_OQ));
}

/* The lanes within from .. to, as bits. */
static inline uint32_t v16_within(v16 x, v16 from, v16 to)
{
	const int lo = _mm256_movemask_ps(within8(x.lo, from.lo, to.lo));

	return (uint32_t)(lo | _mm256_movemask_ps(within8(x.hi, from.hi, to.hi)) << 8);
}

/* a in the lanes where x is within from .. to, else 0. */
static inline v16 v16_where(v16 a, v16 x, v16 from, v16 to)
{
	return (v16){_mm256_and_ps(a.lo, within8(x.lo, from.lo, to.lo)),
	             _mm256_and_ps(a.hi, within8(x.hi, from.hi, to.hi))};
}

static inline __m256 exp2_8(__m256 x)
{
#define SET(c) _mm256_set1_ps(c)
	const __m256 v = _mm256_max_ps(SET(QEXP2_MIN), x), t = _mm256_add_ps(v, SET(QEXP_MAGIC));
	const __m256 r = _mm256_sub_ps(v, _mm256_sub_ps(t, SET(QEXP_MAGIC)));
	const __m256i e =
		_mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)bits_of_f32(QEXP_MAGIC) - 127));
	__m256 p = SET(QEXP2_C6);

	p = _mm256_fmadd_ps(p, r, SET(QEXP2_C5));
	p = _mm256_fmadd_ps(p, r, SET(QEXP2_C4));
	p = _mm256_fmadd_ps(p, r, SET(QEXP2_C3));
	p = _mm256_fmadd_ps(p, r, SET(QEXP2_C2));
	p = _mm256_fmadd_ps(p, r, SET(QEXP2_C1));
	p = _mm256_fmadd_ps(p, r, SET(1));
	p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)));
	return _mm256_and_ps(p, _mm256_cmp_ps(x, SET(QEXP2_MIN), _CMP_NLT_UQ));
#undef SET
}

static inline v16 v16_exp2(v16 a) { return (v16){exp2_8(a.lo), exp2_8(a.hi)}; }

#endif
