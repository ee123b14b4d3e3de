/* ints_zmm.h - integers of tmpl/attn_int.h in zmm registers, all but the dot products. */
#ifndef QN_X86_INTS_ZMM_H
#define QN_X86_INTS_ZMM_H

#include <string.h>

#include "x86/lanes_zmm.h"

typedef __m512i v16i;
typedef __m512i ints;
typedef __m512i pair;

static inline v16i v16i_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline v16 v16i_float(v16i a) { return _mm512_cvtepi32_ps(a); }
static inline ints ints_load(const int16_t *p) { return _mm512_loadu_si512(p); }
static inline ints ints_widen(const int8_t *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p)); }

static inline pair pair_of(const void *p)
{
	int32_t x;

	memcpy(&x, p, sizeof x);
	return _mm512_set1_epi32(x);
}

static inline void shorts_store(int16_t *p, v16 a)
{
	_mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_castps_si512(a)));
}

#endif
