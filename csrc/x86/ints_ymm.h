/* ints_ymm.h - integers of tmpl/attn_int.h in ymm registers, all but the dot products and their operands. */
#ifndef QN_X86_INTS_YMM_H
#define QN_X86_INTS_YMM_H

#include <string.h>

#include "x86/lanes_ymm.h"

typedef struct {
	__m256i lo, hi;
} v16i;
typedef v16i ints;

static inline v16i v16i_set1(int32_t x) { return (v16i){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline v16 v16i_float(v16i a) { return (v16){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

static inline ints ints_load(const int16_t *p)
{
	return (ints){_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 16))};
}

static inline ints ints_widen(const int8_t *p)
{
	return (ints){_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)),
	              _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(p + 16)))};
}

/* The low halves of 32-bit words. */
static inline __m128i low16(__m256i a)
{
	const __m256i mask = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
	                                      0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);

	return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_shuffle_epi8(a, mask), 8));
}

static inline void shorts_store(int16_t *p, v16 a)
{
	_mm_storeu_si128((void *)p, low16(_mm256_castps_si256(a.lo)));
	_mm_storeu_si128((void *)(p + 8), low16(_mm256_castps_si256(a.hi)));
}

#endif
