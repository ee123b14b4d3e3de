/*
 * matmul_avx512.c - products on AVX-512 without VNNI: vpmaddubsw to int16 pairs, added up; vpmaddwd to int32, and by
 * scales.
 */
#define FLAGS_AVX512
#define FLAGS_REGISTERS
#include "flags.h"

#include "x86/set.h"

#include "x86/matmul_zmm.h"

#define MM(name) name##_avx512
#define MM_TOKENS 6
#define MM_PAIR_TOKENS 6
#define MM_FEW 2
#define MM_DOT8_OFFSET 0
#define MM_NARROW 1

typedef ints dots;

/* w < 128: a pair of products is at most 2 * 127 * 127 < 2^15, so vpmaddubsw does not saturate. */
static inline dots ints_dot(dots acc, bytes w, acts x) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(w, x)); }

static inline bytes bytes_less128(bytes a) { return _mm512_xor_si512(a, _mm512_set1_epi8((char)0x80)); }
static inline bytes bytes_abs(bytes a) { return _mm512_abs_epi8(a); }

/* Magnitudes w <= 128 times x with the signs of s, |x| <= 127: a pair is at most 2 * 128 * 127 < 2^15. */
static inline dots ints_dot8(dots acc, bytes w, bytes s, acts x)
{
	return ints_dot(acc, w, _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(s), _mm512_setzero_si512(), x));
}

/* 16 int8 as int16, each twice. */
static inline dots mults_of(const int8_t *p)
{
	return _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(ints_of8(p), 0xa0), 0xa0);
}

static inline dots mults_one(void) { return _mm512_set1_epi16(1); }

static inline ints ints_scaled(ints sum, dots a, dots m) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, m)); }

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs16(a), x));
}

#include "tmpl/matmul_int.h"

/* A product and an addition of 16 bits: what is left where sums stay in 16 bits as long as a type's bounds allow. */
static void int8_rounds_avx512(int64_t n)
{
	const __m512i x = _mm512_set1_epi8(1);
	__m512i a[12];
	int32_t sink[16];

#pragma GCC unroll 12
	for (int j = 0; j < 12; j++)
		a[j] = _mm512_set1_epi32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 12
		for (int j = 0; j < 12; j++) {
			__m512i p;

			__asm__ volatile("vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0"
			                 : "+v"(a[j]), "=&v"(p)
			                 : "v"(x));
		}
#pragma GCC unroll 12
	for (int j = 0; j < 12; j++) {
		_mm512_storeu_si512(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_avx512(struct kernels *k)
{
	mm_fill_avx512(k);
	k->int8_rounds = int8_rounds_avx512;
	k->int8_per_round = 12 * 64;
}

#include "flags_end.h"
