/*
 * twelve.h - panels of BF16 weights in 12 bits, of layout QN_X12: without loss, and for three quarters of the memory.
 *
 * Exponents of weights are few: those of 4096 take 16 values, but for one or two of them. So blocks of 256 columns of a
 * panel keep signs and mantissas as bytes, and exponents as nibbles, which are numbers of a table of the block. The
 * weights whose exponents are not in the table, the block's escapes, are listed; a matrix where a block has more than
 * TWELVE_ESCAPES of them is no matrix of this layout.
 *
 * What a block decodes to is the lines of a BF16 panel. Whatever its bytes are, that is 256 columns of some weights.
 */
#ifndef QN_FORMAT_TWELVE_H
#define QN_FORMAT_TWELVE_H

#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define TWELVE_ESCAPES 37
#define TWELVE_LINES (QN_ACT_BLOCK / 2)      /* of a block of a BF16 panel */
#define TWELVE_HALVES (QN_ACT_BLOCK * QN_PANEL) /* and its weights */

/* Four lines of 32 weights: eight columns. */
struct twelve_group {
	uint16_t code[32];   /* of weight i of line k: bits 4 k .. 4 k + 3 of word i */
	uint8_t byte[2][64]; /* sign and mantissa: byte[k / 2][i / 8 * 16 + k % 2 * 8 + i % 8] */
};

/* A block begins with its table; a group for each eight columns follows. */
struct twelve_head {
	uint8_t exponent[16];
	uint8_t n; /* of escapes, modulo one more than there may be */
	uint8_t escape[TWELVE_ESCAPES];
	uint16_t at[TWELVE_ESCAPES]; /* of each: weight i of line l as 32 l + i, in the low twelve bits */
};
_Static_assert(sizeof(struct twelve_head) == 128 && sizeof(struct twelve_group) == 192, "whole lines");

#define TWELVE_KEPT 0x807f /* bits of a weight that are not its exponent's */

/* Bytes of a block of so many columns, a multiple of 8. */
static inline int64_t twelve_block_bytes(int64_t cols)
{
	return (int64_t)sizeof(struct twelve_head) + cols / 8 * (int64_t)sizeof(struct twelve_group);
}

/* The block with column k of a panel, a multiple of QN_ACT_BLOCK. */
static inline const uint8_t *twelve_block(const void *panel, int64_t k)
{
	return (const uint8_t *)panel + k / QN_ACT_BLOCK * twelve_block_bytes(QN_ACT_BLOCK);
}

static inline const struct twelve_group *twelve_groups(const uint8_t *block)
{
	return (const struct twelve_group *)(block + sizeof(struct twelve_head));
}

/* Gives the escapes of a block of decoded lines their exponents; lines have room for TWELVE_HALVES. */
static inline void twelve_escapes(uint16_t *lines, const struct twelve_head *h)
{
	for (int i = 0; i < h->n % (TWELVE_ESCAPES + 1); i++) {
		uint16_t *w = lines + h->at[i] % TWELVE_HALVES;

		*w = (uint16_t)((*w & TWELVE_KEPT) | h->escape[i] << 7);
	}
}

/* The lines of a block of so many columns, a multiple of 8: the specification of what sets decode. */
static inline void twelve_lines_scalar(uint16_t *lines, const uint8_t *block, int cols)
{
	const struct twelve_head *h = (const struct twelve_head *)block;
	const struct twelve_group *g = twelve_groups(block);

	for (int l = 0; l < cols / 2; l++)
		for (int i = 0; i < 32; i++) {
			const int k = l % 4, code = g[l / 4].code[i] >> 4 * k & 15;
			const int b = g[l / 4].byte[k / 2][i / 8 * 16 + k % 2 * 8 + i % 8];

			lines[32 * l + i] = (uint16_t)((b & 0x80) << 8 | h->exponent[code] << 7 | (b & 0x7f));
		}
	twelve_escapes(lines, h);
}

/* A block of n_lines lines of a BF16 panel, a multiple of 4. Returns 0 where there are too many escapes. */
int twelve_encode(uint8_t *block, const uint16_t *lines, int n_lines);

#endif
