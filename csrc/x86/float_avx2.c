/* float_avx2.c - the float kernels, two ymm registers per vector. Flags: AVX2, FMA, F16C. */
#include <immintrin.h>

#include "x86/set.h"

#define VEC(name) name##_avx2
#include "vec_tmpl.h"

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

#define LANEWISE(name, op) \
	static inline v16 name(v16 a, v16 b) { return (v16){op(a.lo, b.lo), op(a.hi, b.hi)}; }
LANEWISE(v16_add, _mm256_add_ps)
LANEWISE(v16_sub, _mm256_sub_ps)
LANEWISE(v16_mul, _mm256_mul_ps)
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

/* All ones in the lanes below n. */
static inline __m256 below(int n)
{
	return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

static inline v16 v16_first(v16 a, int n)
{
	return (v16){_mm256_and_ps(a.lo, below(n)), _mm256_and_ps(a.hi, below(n - 8))};
}

static inline v16 v16_first_or(v16 a, int n, float x)
{
	return (v16){_mm256_blendv_ps(_mm256_set1_ps(x), a.lo, below(n)),
	             _mm256_blendv_ps(_mm256_set1_ps(x), a.hi, below(n - 8))};
}

static inline __m256 exp8(__m256 x)
{
#define SET(c) _mm256_set1_ps(c)
	const __m256 v = _mm256_max_ps(_mm256_min_ps(x, SET(QEXP_MAX)), SET(QEXP_MIN));
	const __m256 t = _mm256_fmadd_ps(v, SET(QEXP_LOG2E), SET(QEXP_MAGIC));
	const __m256 n = _mm256_sub_ps(t, SET(QEXP_MAGIC));
	const __m256 r = _mm256_fnmadd_ps(n, SET(QEXP_LN2_LO), _mm256_fnmadd_ps(n, SET(QEXP_LN2_HI), v));
	const __m256i e =
		_mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)bits_of_f32(QEXP_MAGIC) - 127));
	__m256 p = SET(QEXP_C7);

	p = _mm256_fmadd_ps(p, r, SET(QEXP_C6));
	p = _mm256_fmadd_ps(p, r, SET(QEXP_C5));
	p = _mm256_fmadd_ps(p, r, SET(QEXP_C4));
	p = _mm256_fmadd_ps(p, r, SET(QEXP_C3));
	p = _mm256_fmadd_ps(p, r, SET(QEXP_C2));
	p = _mm256_fmadd_ps(p, r, SET(1));
	p = _mm256_fmadd_ps(p, r, SET(1));
	p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)));
	return _mm256_and_ps(p, _mm256_cmp_ps(x, SET(QEXP_MIN), _CMP_NLT_UQ));
#undef SET
}

static inline v16 v16_exp(v16 a) { return (v16){exp8(a.lo), exp8(a.hi)}; }

#include "v16.h"

void float_init_avx2(struct kernels *k)
{
	vec_fill_avx2(k);
	v16_fill_avx2(k);
}
