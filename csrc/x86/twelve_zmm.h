/* twelve_zmm.h - blocks of BF16 weights in 12 bits (format/twelve.h) become lines, with AVX-512. */
#ifndef QN_X86_TWELVE_ZMM_H
#define QN_X86_TWELVE_ZMM_H

#include <immintrin.h>

#include "format/twelve.h"

/* A block's exponents where weights have them, by code, twice: a look-up takes five bits of its index. */
INLINE __m512i twelve_table(const uint8_t *block)
{
	const __m256i e = _mm256_cvtepu8_epi16(_mm_load_si128((const void *)block));

	return _mm512_broadcast_i64x4(_mm256_slli_epi16(e, 7));
}

/* The four lines of a group. Bytes are doubled: a sign is above an exponent, and a mantissa below it. */
INLINE void twelve_decode(__m512i line[4], const struct twelve_group *g, __m512i table)
{
	const __m512i code = _mm512_load_si512(g->code), kept = _mm512_set1_epi16((short)TWELVE_KEPT);

#pragma GCC unroll 2
	for (int k = 0; k < 4; k += 2) {
		const __m512i b = _mm512_load_si512(g->byte[k / 2]);
		const __m512i e0 = _mm512_permutexvar_epi16(k ? _mm512_srli_epi16(code, 8) : code, table);
		const __m512i e1 = _mm512_permutexvar_epi16(_mm512_srli_epi16(code, 4 * k + 4), table);

		line[k] = _mm512_ternarylogic_epi64(_mm512_unpacklo_epi8(b, b), kept, e0, 0xea); /* a & b | c */
		line[k + 1] = _mm512_ternarylogic_epi64(_mm512_unpackhi_epi8(b, b), kept, e1, 0xea);
	}
}

/* The lines of a block of so many columns, a multiple of 8. asks: see ask_weights(). */
INLINE void twelve_lines(uint16_t *lines, const uint8_t *block, int cols, int asks)
{
	const struct twelve_group *g = twelve_groups(block);
	const __m512i table = twelve_table(block);

	for (int k = 0; k < cols; k += 8, g++) {
		__m512i line[4];

		ask_weights((const uint8_t *)g, sizeof *g, asks);
		twelve_decode(line, g, table);
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			_mm512_store_si512(lines + (k / 2 + i) * 32, line[i]);
	}
	twelve_escapes(lines, (const struct twelve_head *)block);
}

#endif
