/* twelve_rvv.h - blocks of BF16 weights in 12 bits (format/twelve.h) become lines, by vectors of 16 halves. */
#ifndef QN_RISCV_TWELVE_RVV_H
#define QN_RISCV_TWELVE_RVV_H

#include "format/twelve.h"
#include "riscv/gather_rvv.h"

/* Halves `at` .. at + 15 of the four lines of a group. exponents: those of the table, where weights have them. */
INLINE void twelve_decode(uint16_t *lines, const struct twelve_group *g, int at, u16 exponents)
{
	typedef uint8_t b32 __attribute__((ext_vector_type(32)));
	u16 code;

	memcpy(&code, g->code + at, sizeof code);
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++) {
		b32 both; /* of lines k and k ^ 1, eight bytes in turn */
		b16 own;
		u16 y;

		memcpy(&both, g->byte[k / 2] + 2 * at, sizeof both);
#define OWN(b) __builtin_shufflevector(both, both, b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, b + 16, b + 17, \
	                               b + 18, b + 19, b + 20, b + 21, b + 22, b + 23)
		own = k % 2 ? OWN(8) : OWN(0);
#undef OWN
		y = __builtin_convertvector(own, u16);
		y = ((y << 8 | y) & TWELVE_KEPT) | u16_gather(exponents, code >> (uint16_t)(4 * k) & 15);
		memcpy(lines + 32 * k + at, &y, sizeof y);
	}
}

/* The lines of a block of so many columns, a multiple of 8. asks: see ask_weights(). */
INLINE void twelve_lines(uint16_t *lines, const uint8_t *block, int cols, int asks)
{
	const struct twelve_group *g = twelve_groups(block);
	b16 e;

	memcpy(&e, block, sizeof e);

	const u16 exponents = __builtin_convertvector(e, u16) << 7;

	for (int k = 0; k < cols; k += 8, g++) {
		ask_weights((const uint8_t *)g, sizeof *g, asks);
		twelve_decode(lines + k / 2 * 32, g, 0, exponents);
		twelve_decode(lines + k / 2 * 32, g, 16, exponents);
	}
	twelve_escapes(lines, (const struct twelve_head *)block);
}

#endif
