/* lanes_zmm.h - the vector of tmpl/matmul_float.h, in one zmm register. */
#ifndef QN_X86_LANES_ZMM_H
#define QN_X86_LANES_ZMM_H

#include <immintrin.h>

#include "math/fp16.h"
#include "math/exp.h"

typedef __m512 v16;

static inline v16 v16_zero(void) { return _mm512_setzero_ps(); }
static inline v16 v16_set1(float x) { return _mm512_set1_ps(x); }
static inline v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v16_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
static inline v16 v16_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
static inline v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline float v16_maxall(v16 a) { return _mm512_reduce_max_ps(a); }

static inline v16 v16_load_bf16(const uint16_t *p)
{
	const __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));

	return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

/* The low halves of 16 words, and the high ones, as BF16. */
static inline v16 v16_load_low(const uint16_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}

static inline v16 v16_load_high(const uint16_t *p)
{
	return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(-0x10000)));
}

static inline float v16_sum(v16 a)
{
	const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
	const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
	const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

	return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* Two vectors to one: of each the lanes 8 apart together. Then two such to one: those 4 apart. */
#define HALVES(op, a, b) op(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
#define QUARTERS(op, a, b) op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
#define FOUR(name, op)                                                                             \
	static inline void name(float y[4], const v16 a[4])                                        \
	{                                                                                          \
		const __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0); \
		v16 s = QUARTERS(op, HALVES(op, a[0], a[1]), HALVES(op, a[2], a[3]));              \
                                                                                                   \
		s = op(s, _mm512_permute_ps(s, 0x4e));                                             \
		s = op(s, _mm512_permute_ps(s, 0xb1));                                             \
		_mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, s)));         \
	}
FOUR(v16_sum4, _mm512_add_ps)
FOUR(v16_max4, _mm512_max_ps)
#undef FOUR
#undef QUARTERS
#undef HALVES

static inline __mmask16 below(int n)
{
	return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

static inline v16 v16_within_or(v16 a, int from, int lim, float x)
{
	return _mm512_mask_mov_ps(v16_set1(x), below(lim) & ~below(from), a);
}

static inline v16 v16_iota(void)
{
	return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline v16 v16_copysign(v16 a, v16 b)
{
	const v16 sign = v16_set1(-0.0f);

	return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, b));
}

/* The lanes within from .. to, as bits. */
static inline __mmask16 v16_within(v16 x, v16 from, v16 to)
{
	return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, from, _CMP_GE_OQ), x, to, _CMP_LE_OQ);
}

/* a in the lanes where x is within from .. to, else 0. */
static inline v16 v16_where(v16 a, v16 x, v16 from, v16 to)
{
	return _mm512_maskz_mov_ps(v16_within(x, from, to), a);
}

/* As qexp2(): n is a whole number, and p times 2 to that power a normal one where it is not below the least. */
static inline v16 v16_exp2(v16 x)
{
	const v16 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), r = v16_sub(x, n);
	v16 p = v16_set1(QEXP2_C6);

	p = v16_fma(p, r, v16_set1(QEXP2_C5));
	p = v16_fma(p, r, v16_set1(QEXP2_C4));
	p = v16_fma(p, r, v16_set1(QEXP2_C3));
	p = v16_fma(p, r, v16_set1(QEXP2_C2));
	p = v16_fma(p, r, v16_set1(QEXP2_C1));
	p = v16_fma(p, r, v16_set1(1));
	return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, v16_set1(QEXP2_MIN), _CMP_NLT_UQ), p, n);
}

#endif
