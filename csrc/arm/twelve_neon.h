/* twelve_neon.h - blocks of BF16 weights in 12 bits (format/twelve.h) become lines, with NEON. */
#ifndef QN_ARM_TWELVE_NEON_H
#define QN_ARM_TWELVE_NEON_H

#include <arm_neon.h>

#include "format/twelve.h"

/* Halves `at` .. at + 7 of the four lines of a group. low, high: the bytes of exponents where weights have them. */
INLINE void twelve_decode(uint16_t *lines, const struct twelve_group *g, int at, uint8x16_t low, uint8x16_t high)
{
	const uint16x8_t kept = vdupq_n_u16(TWELVE_KEPT);
	const uint8x16_t code = vreinterpretq_u8_u16(vld1q_u16(g->code + at));
	uint16x8_t e[4];

#pragma GCC unroll 2
	for (int k = 0; k < 2; k++) { /* of line k in even bytes, of line k + 2 in odd ones */
		const uint8x16_t c = k ? vshrq_n_u8(code, 4) : vandq_u8(code, vdupq_n_u8(15));
		const uint8x16_t l = vqtbl1q_u8(low, c), h = vqtbl1q_u8(high, c);

		e[k] = vreinterpretq_u16_u8(vtrn1q_u8(l, h));
		e[k + 2] = vreinterpretq_u16_u8(vtrn2q_u8(l, h));
	}
#pragma GCC unroll 2
	for (int k = 0; k < 4; k += 2) {
		const uint8x16_t b = vld1q_u8(g->byte[k / 2] + 2 * at);
		const uint16x8_t b0 = vreinterpretq_u16_u8(vzip1q_u8(b, b)), b1 = vreinterpretq_u16_u8(vzip2q_u8(b, b));

		vst1q_u16(lines + 32 * k + at, vorrq_u16(vandq_u16(b0, kept), e[k]));
		vst1q_u16(lines + 32 * (k + 1) + at, vorrq_u16(vandq_u16(b1, kept), e[k + 1]));
	}
}

/* The lines of a block of so many columns, a multiple of 8. asks: see ask_weights(). */
INLINE void twelve_lines(uint16_t *lines, const uint8_t *block, int cols, int asks)
{
	const struct twelve_group *g = twelve_groups(block);
	const uint8x16_t e = vld1q_u8(block), low = vshlq_n_u8(e, 7), high = vshrq_n_u8(e, 1);

	for (int k = 0; k < cols; k += 8, g++) {
		ask_weights((const uint8_t *)g, sizeof *g, asks);
		for (int at = 0; at < 32; at += 8)
			twelve_decode(lines + k / 2 * 32, g, at, low, high);
	}
	twelve_escapes(lines, (const struct twelve_head *)block);
}

#endif
