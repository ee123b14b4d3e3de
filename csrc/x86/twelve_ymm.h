/* twelve_ymm.h - blocks of BF16 weights in 12 bits (format/twelve.h) become lines, with AVX2. */
#ifndef QN_X86_TWELVE_YMM_H
#define QN_X86_TWELVE_YMM_H

#include <immintrin.h>

#include "format/twelve.h"

/* Halves `at` .. at + 15 of the four lines of a group. low, high: the bytes of exponents where weights have them. */
INLINE void twelve_decode(uint16_t *lines, const struct twelve_group *g, int at, __m256i low, __m256i high)
{
	const __m256i nibble = _mm256_set1_epi8(15), kept = _mm256_set1_epi16((short)TWELVE_KEPT);
	const __m256i below = _mm256_set1_epi16(0xff), code = _mm256_load_si256((const void *)(g->code + at));
	__m256i e[4];

#pragma GCC unroll 2
	for (int k = 0; k < 2; k++) { /* of line k in even bytes, of line k + 2 in odd ones */
		const __m256i c = _mm256_and_si256(k ? _mm256_srli_epi16(code, 4) : code, nibble);
		const __m256i l = _mm256_shuffle_epi8(low, c), h = _mm256_shuffle_epi8(high, c);

		e[k] = _mm256_or_si256(_mm256_and_si256(l, below), _mm256_slli_epi16(h, 8));
		e[k + 2] = _mm256_or_si256(_mm256_srli_epi16(l, 8), _mm256_andnot_si256(below, h));
	}
#pragma GCC unroll 2
	for (int k = 0; k < 4; k += 2) {
		const __m256i b = _mm256_load_si256((const void *)(g->byte[k / 2] + 2 * at));
		const __m256i b0 = _mm256_and_si256(_mm256_unpacklo_epi8(b, b), kept);
		const __m256i b1 = _mm256_and_si256(_mm256_unpackhi_epi8(b, b), kept);

		_mm256_store_si256((void *)(lines + 32 * k + at), _mm256_or_si256(b0, e[k]));
		_mm256_store_si256((void *)(lines + 32 * (k + 1) + at), _mm256_or_si256(b1, e[k + 1]));
	}
}

/* The lines of a block of so many columns, a multiple of 8. asks: see ask_weights(). */
INLINE void twelve_lines(uint16_t *lines, const uint8_t *block, int cols, int asks)
{
	const struct twelve_group *g = twelve_groups(block);
	const __m128i e = _mm_load_si128((const void *)block);
	const __m128i half = _mm_and_si128(_mm_srli_epi16(e, 1), _mm_set1_epi8(0x7f));
	const __m128i odd = _mm_andnot_si128(_mm_set1_epi8(0x7f), _mm_slli_epi16(e, 7));
	const __m256i low = _mm256_broadcastsi128_si256(odd), high = _mm256_broadcastsi128_si256(half);

	for (int k = 0; k < cols; k += 8, g++) {
		ask_weights((const uint8_t *)g, sizeof *g, asks);
		twelve_decode(lines + k / 2 * 32, g, 0, low, high);
		twelve_decode(lines + k / 2 * 32, g, 16, low, high);
	}
	twelve_escapes(lines, (const struct twelve_head *)block);
}

#endif
