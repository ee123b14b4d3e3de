/*
 * matmul_avx2.c - products on AVX2 without VNNI: vpmaddubsw to int16 pairs, added up; vpmaddwd to int32, and by scales.
 */
#define FLAGS_AVX2
#define FLAGS_REGISTERS
#include "flags.h"

#include "x86/set.h"

#include "x86/matmul_ymm.h"

#define MM(name) name##_avx2
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_FEW 2
#define MM_DOT8_OFFSET 0
#define MM_NARROW 1
#define MM_READY_FROM (2 * MM_TOKENS + 1)
#define MM_KEEP 1
#define MM_SUMS_AWAY 1

typedef ints dots;

/* w < 128: a pair of products is at most 2 * 127 * 127 < 2^15, so vpmaddubsw does not saturate. */
static inline dots ints_dot(dots acc, bytes w, acts x)
{
	return (dots){_mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(w.lo, x)),
	              _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(w.hi, x))};
}

static inline bytes bytes_less128(bytes a)
{
	const __m256i x = _mm256_set1_epi8((char)0x80);

	return (bytes){_mm256_xor_si256(a.lo, x), _mm256_xor_si256(a.hi, x)};
}

static inline bytes bytes_abs(bytes a) { return (bytes){_mm256_abs_epi8(a.lo), _mm256_abs_epi8(a.hi)}; }

/* Magnitudes w <= 128 times x with the signs of s, |x| <= 127: a pair is at most 2 * 128 * 127 < 2^15. */
static inline dots ints_dot8(dots acc, bytes w, bytes s, acts x)
{
	return (dots){_mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(w.lo, _mm256_sign_epi8(x, s.lo))),
	              _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(w.hi, _mm256_sign_epi8(x, s.hi)))};
}

/* 16 int8 as int16, each twice. */
static inline dots mults_of(const int8_t *p)
{
	const rows a = rows_load(p);

	return (dots){_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, a)), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, a))};
}

static inline dots mults_one(void) { return (dots){_mm256_set1_epi16(1), _mm256_set1_epi16(1)}; }

static inline ints ints_scaled(ints sum, dots a, dots m)
{
	return (ints){_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, m.lo)),
	              _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, m.hi))};
}

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	const ints w = pairs16(a);

	return (ints){_mm256_add_epi32(acc.lo, _mm256_madd_epi16(w.lo, x)),
	              _mm256_add_epi32(acc.hi, _mm256_madd_epi16(w.hi, x))};
}

#include "tmpl/matmul_int.h"

/* A product and an addition of 16 bits: what is left where sums stay in 16 bits as long as a type's bounds allow. */
static void int8_rounds_avx2(int64_t n)
{
	const __m256i x = _mm256_set1_epi8(1);
	__m256i a[8];
	int32_t sink[8];

#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		a[j] = _mm256_set1_epi32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			__m256i p;

			__asm__ volatile("vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0"
			                 : "+x"(a[j]), "=&x"(p)
			                 : "x"(x));
		}
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++) {
		_mm256_storeu_si256((__m256i *)sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_avx2(struct kernels *k)
{
	mm_fill_avx2(k);
	k->int8_rounds = int8_rounds_avx2;
	k->int8_per_round = 8 * 32;
}

#include "flags_end.h"
