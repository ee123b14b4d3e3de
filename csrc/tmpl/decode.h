/*
 * decode.h - a super-block of codes of 16 rows into words, for kernels of all widths. Not compiled as it stands:
 * see tmpl/vectors.h for the vector operations it needs. scalar/codebook.c says what comes out.
 *
 * It is most of the work of one token, and shared by all tokens of a batch. Only the look-up of a code goes one by
 * one; signs are given to whole vectors, and the loops over the 16 rows of a panel are left to the compiler.
 */
#ifndef QN_TMPL_DECODE_H
#define QN_TMPL_DECODE_H

#include <string.h>

#include "format/blocks.h"
#include "format/codebook.h"
#include "format/ik_levels.h"
#include "kernels.h"
#include "tmpl/vectors.h"
#include "format/panel.h"

/* A super-block of 16 rows. */
struct decoded {
	union {
		_Alignas(64) x16_line word[64];     /* weight + the type's offset, so that products need no sign */
		uint64_t levels[32][QN_PANEL];      /* before that: of 8 weights of a row, without signs */
		uint32_t half_levels[32][QN_PANEL][2];
	};
	_Alignas(64) int8_t scale[16][QN_PANEL]; /* of each 16 weights, or of each 32: then 8 of them */
	_Alignas(64) uint8_t signs[32][QN_PANEL]; /* of 8 weights */
	_Alignas(64) float d[QN_PANEL];
};

/* One copy for all kernels of a type: many instructions, run once for 4096 weights. */
#define DECODER static __attribute__((noinline)) void

#define EACH_ROW for (int r = 0; r < QN_PANEL; r++)

/* Makes compilers load x from memory: they would take its elements out of vectors, at several times the cost. */
#define STORED(x) __asm__("" : "+m"(x))

/* 16 rows, a number of each: vectors by name, for decoders of whose loops compilers make 16 scalars. */
typedef uint8_t rows8 __attribute__((vector_size(16)));
typedef uint16_t rows16 __attribute__((vector_size(32)));

INLINE rows16 load16(const uint16_t *p)
{
	rows16 a;

	memcpy(&a, p, sizeof a);
	return a;
}

/* From bytes, and to bytes. */
INLINE rows16 load8(const uint8_t *p)
{
	rows8 a;

	memcpy(&a, p, sizeof a);
	return __builtin_convertvector(a, rows16);
}

INLINE void store8(void *p, rows16 a)
{
	const rows8 b = __builtin_convertvector(a, rows8);

	memcpy(p, &b, sizeof b);
}

INLINE void store16(uint16_t *p, rows16 a)
{
	memcpy(p, &a, sizeof a);
}

/* Levels of codes. The empty statement keeps compilers from gathers, which are slower than loads. */
INLINE void look_up8(struct decoded *w, const uint64_t *grid, uint16_t code[32][QN_PANEL])
{
	for (int i = 0; i < 32; i++)
#pragma GCC unroll 16
		EACH_ROW {
			unsigned c = code[i][r];

			__asm__("" : "+r"(c));
			w->levels[i][r] = grid[c];
		}
}

/* The same for codes of 4 weights. */
INLINE void look_up4(struct decoded *w, const uint32_t *grid, uint16_t code[64][QN_PANEL])
{
	for (int i = 0; i < 64; i++)
#pragma GCC unroll 16
		EACH_ROW {
			unsigned c = code[i][r];

			__asm__("" : "+r"(c));
			w->half_levels[i / 2][r][i % 2] = grid[c];
		}
}

/* Levels and signs to words. */
INLINE void signed_words(struct decoded *w, const uint8_t signs[32][QN_PANEL])
{
#pragma GCC unroll 2
	for (int i = 0; i < 32; i++)
		bytes_unzip(w->word[2 * i], bytes_signed(bytes_load(w->levels[i]), signs[i]),
		            bytes_signed(bytes_load(w->levels[i] + 8), signs[i] + 8));
}

/* The same for IQ1. */
INLINE void shifted_words(struct decoded *w)
{
#pragma GCC unroll 2
	for (int i = 0; i < 32; i++)
		bytes_unzip(w->word[2 * i], bytes_shifted(bytes_load(w->levels[i]), w->signs[i]),
		            bytes_shifted(bytes_load(w->levels[i] + 8), w->signs[i] + 8));
}

INLINE void decode_d(struct decoded *w, const uint16_t d[QN_PANEL], float factor)
{
	floats_store(w->d, floats_mul(floats_f16(d), floats_set1(factor)));
}

/* 2 s + 1 of the nibbles of bytes, low ones first. */
INLINE void decode_scales(struct decoded *w, const uint8_t s[][QN_PANEL], int n)
{
	for (int j = 0; j < n; j++) {
		EACH_ROW w->scale[2 * j][r] = (int8_t)((s[j][r] & 15) << 1 | 1);
		EACH_ROW w->scale[2 * j + 1][r] = (int8_t)(s[j][r] >> 4 << 1 | 1);
	}
}

/* Sub-block j's scale and signs from 4 fields of 7 bits and one of 4: the eighth sign makes their number even. */
INLINE void decode_signs7(struct decoded *w, int j, const uint32_t fields[QN_PANEL])
{
	uint32_t signs[QN_PANEL];

	EACH_ROW {
		const uint32_t f = fields[r];
		uint32_t s = (f & 0x7f) | (f << 1 & 0x7f00) | (f << 2 & 0x7f0000) | (f << 3 & 0x7f000000), odd;

		odd = s ^ s >> 4;
		odd ^= odd >> 2;
		odd ^= odd >> 1;
		signs[r] = s | (odd & 0x01010101) << 7;
	}
	EACH_ROW w->scale[j][r] = (int8_t)(fields[r] >> 28 << 1 | 1);
	rows_unzip4(w->signs[4 * j], signs);
}

DECODER decode_iq2_xxs(struct decoded *w, const void *p)
{
	const struct x16_iq2_xxs *b = p;
	uint8_t narrow[32][QN_PANEL];
	uint16_t code[32][QN_PANEL];

	for (int j = 0; j < 8; j++) {
		decode_signs7(w, j, b->sub[j].signs);
		rows_unzip4(narrow[4 * j], b->sub[j].codes);
	}
	STORED(narrow);
	for (int i = 0; i < 32; i++)
		EACH_ROW code[i][r] = narrow[i][r];
	STORED(code);
	look_up8(w, qn_iq2_xxs_grid, code);
	signed_words(w, w->signs);
	decode_d(w, b->d, 0.125f);
}

DECODER decode_iq2_xs(struct decoded *w, const void *p)
{
	const struct x16_iq2_xs *b = p;
	uint16_t code[32][QN_PANEL];

	for (int i = 0; i < 32; i++) {
		EACH_ROW {
			const uint16_t s = b->qs[i][r] >> 9;
			uint16_t odd = s ^ s >> 4;

			odd ^= odd >> 2;
			odd ^= odd >> 1;
			w->signs[i][r] = (uint8_t)(s | (odd & 1) << 7);
		}
		EACH_ROW code[i][r] = b->qs[i][r] & 511;
	}
	STORED(code);
	look_up8(w, qn_iq2_xs_grid, code);
	signed_words(w, w->signs);
	decode_scales(w, b->scales, 8);
	decode_d(w, b->d, 0.125f);
}

DECODER decode_iq2_s(struct decoded *w, const void *p)
{
	const struct x16_iq2_s *b = p;
	uint16_t code[32][QN_PANEL];

	for (int j = 0; j < 8; j++)
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			EACH_ROW code[4 * j + i][r] = (uint16_t)(b->qs[4 * j + i][r] | (b->qh[j][r] >> 2 * i & 3) << 8);
	STORED(code);
	look_up8(w, qn_iq2_s_grid, code);
	signed_words(w, b->signs);
	decode_scales(w, b->scales, 8);
	decode_d(w, b->d, 0.125f);
}

DECODER decode_iq3_xxs(struct decoded *w, const void *p)
{
	const struct x16_iq3_xxs *b = p;
	uint16_t code[64][QN_PANEL];

	for (int j = 0; j < 8; j++)
		decode_signs7(w, j, b->signs[j]);
	for (int i = 0; i < 64; i++)
		EACH_ROW code[i][r] = b->qs[i][r];
	STORED(code);
	look_up4(w, qn_iq3_xxs_grid, code);
	signed_words(w, w->signs);
	decode_d(w, b->d, 0.25f);
}

DECODER decode_iq3_s(struct decoded *w, const void *p)
{
	const struct x16_iq3_s *b = p;
	uint16_t code[64][QN_PANEL];

	for (int j = 0; j < 8; j++)
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			EACH_ROW code[8 * j + i][r] = (uint16_t)(b->qs[8 * j + i][r] | (b->qh[j][r] >> i & 1) << 8);
	STORED(code);
	look_up4(w, qn_iq3_s_grid, code);
	signed_words(w, b->signs);
	decode_scales(w, b->scales, 4);
	decode_d(w, b->d, 1);
}

DECODER decode_iq1_s(struct decoded *w, const void *p)
{
	const struct x16_iq1_s *b = p;
	uint16_t code[32][QN_PANEL];

	for (int j = 0; j < 8; j++) {
		const rows16 qh = load16(b->qh[j]);

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			store16(code[4 * j + i], load8(b->qs[4 * j + i]) | (qh >> 3 * i & 7) << 8);
			store8(w->signs[4 * j + i], -(qh >> 15));
		}
		store8(w->scale[j], (qh >> 12 & 7) << 1 | 1);
	}
	STORED(code);
	look_up8(w, qn_iq1_grid, code);
	shifted_words(w);
	decode_d(w, b->d, 0.125f);
}

DECODER decode_iq1_m(struct decoded *w, const void *p)
{
	const struct x16_iq1_m *b = p;
	uint16_t code[32][QN_PANEL], d[QN_PANEL];

	for (int j = 0; j < 16; j++)
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++) {
			const rows16 qh = load8(b->qh[j]) >> 4 * i;

			store16(code[2 * j + i], load8(b->qs[2 * j + i]) | (qh & 7) << 8);
			store8(w->signs[2 * j + i], -(qh >> 3 & 1));
		}
	STORED(code);
	look_up8(w, qn_iq1_grid, code);
	shifted_words(w);
	for (int j = 0; j < 4; j++) {
		const rows16 half = load8(b->scales[2 * j]) | load8(b->scales[2 * j + 1]) << 8;

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			store8(w->scale[4 * j + i], (half >> 3 * i & 7) << 1 | 1);
	}
	store16(d, load8(b->scales[1]) >> 4 | (load8(b->scales[3]) & 0xf0) | (load8(b->scales[5]) & 0xf0) << 4 |
	                   (load8(b->scales[7]) & 0xf0) << 8);
	decode_d(w, d, 0.125f);
}

/* Digit after digit of a line, into every step-th word from `first` on. */
INLINE void decode_digits(struct decoded *w, const x16_line *line, int first, int step, int digits)
{
	uint8_t rest[64];

	memcpy(rest, line, sizeof rest);
	for (int n = 0; n < digits; n++) {
		uint8_t *word = (uint8_t *)w->word[first + n * step];

		for (int k = 0; k < 64; k++) { /* 3 b / 256 is 0, 1 or 2 */
			word[k] = (uint8_t)(63 + (rest[k] > 85) + (rest[k] > 170));
			rest[k] = (uint8_t)(rest[k] + rest[k] + rest[k]);
		}
	}
}

DECODER decode_tq1_0(struct decoded *w, const void *p)
{
	const struct x16_tq1_0 *b = p;

	for (int l = 0; l < 8; l++)
		decode_digits(w, &b->qs[l], l, 8, 5);
	for (int l = 8; l < 12; l++)
		decode_digits(w, &b->qs[l], 40 + l - 8, 4, 5);
	decode_digits(w, &b->qs[12], 60, 1, 4);
	memset(w->scale, 1, sizeof w->scale);
	decode_d(w, b->d, 1);
}

/* Words of levels: 64 or 128 more than these, in tables of 16. */
#define WORD(x) x + 64,
static const uint8_t ik2_words[16] = {IK2_LEVELS(WORD)}, ik3_words[16] = {IK3_LEVELS(WORD)};
#undef WORD
#define WORD(x) x + 128,
static const uint8_t ik5_words[32] = {IK5_LEVELS(WORD)}, ik6_words[64] = {IK6_LEVELS(WORD)};
#undef WORD
#define FIRST(x, y) x + 64,
#define SECOND(x, y) y + 64,
static const uint8_t ikl_words[2][32] = {{IQ2_KL_PAIRS(FIRST)}, {IQ2_KL_PAIRS(SECOND)}};
#undef FIRST
#undef SECOND

/* What is added to the words of each of n sub-blocks: `by` where bit j of the row's number is set. */
INLINE void decode_moves(uint32_t move[][QN_PANEL], const uint16_t bits[QN_PANEL], int n, int by)
{
	for (int j = 0; j < n; j++)
		EACH_ROW move[j][r] = (uint32_t)(bits[r] >> j & 1) * ((uint32_t)by * 0x01010101);
}

/* Stores word i, of a sub-block of n words, moved by its number of `move`. */
INLINE void put_word(struct decoded *w, int i, bytes a, const uint32_t move[][QN_PANEL], int n)
{
	bytes_store(w->word[i], bytes_add(a, bytes_load(move[i / n])));
}

/* Bits of a line, from bit `at` on, both constant: two, four, or one that goes to bit `to` above a. */
INLINE bytes line_crumb(const x16_line *l, int at) { return bytes_and(bytes_shr(bytes_load(l), at), 3); }
INLINE bytes line_nibble(const x16_line *l, int at) { return bytes_and(bytes_shr(bytes_load(l), at), 15); }
INLINE bytes with_bit(bytes a, const x16_line *l, int at, int to)
{
	const bytes b = bytes_load(l);

	return bytes_or_and(a, at > to ? bytes_shr(b, at - to) : bytes_shl(b, to - at), 1 << to);
}

/* Words of levels of two bits, or of three where there is a line of them. */
INLINE void decode_crumbs(struct decoded *w, const x16_line *qs, const x16_line *qh,
                          const uint32_t move[][QN_PANEL], int n)
{
	for (int h = 0; h < 2; h++)
#pragma GCC unroll 4
		for (int s = 0; s < 4; s++)
#pragma GCC unroll 2
			for (int i = 0; i < 8; i++) {
				const bytes a = line_crumb(&qs[8 * h + i], 2 * s);

				if (!qh)
					put_word(w, 32 * h + 8 * s + i, bytes_lookup(a, ik2_words, 1), move, n);
				else
					put_word(w, 32 * h + 8 * s + i,
					         bytes_lookup(h ? with_bit(a, &qh[i], 4 + s, 2)
					                        : with_bit(a, &qh[i], s, 2),
					                      ik3_words, 1),
					         move, n);
			}
}

/* Words of levels of IQ4_NL. */
INLINE void decode_nibbles(struct decoded *w, const x16_line *qs, const uint32_t move[][QN_PANEL], int n)
{
	for (int j = 0; j < 8; j++)
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			put_word(w, 8 * j + i, bytes_iq4(line_nibble(&qs[4 * j + i % 4], 4 * (i / 4))), move, n);
}

/* Words of levels of five bits. */
INLINE void decode_fives(struct decoded *w, const x16_line *qs, const x16_line *qh,
                         const uint32_t move[][QN_PANEL], int n)
{
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 8; i++)
			put_word(w, 8 * j + i,
			         bytes_lookup(with_bit(line_nibble(&qs[j / 2 * 8 + i], 4 * (j % 2)), &qh[i], j, 4),
			                      ik5_words, 2), move, n);
}

/* Scales of 6 bits: nibbles, and bit pairs above. */
INLINE void decode_scales6(struct decoded *w, const uint8_t high[4][QN_PANEL], const uint8_t low[8][QN_PANEL])
{
#pragma GCC unroll 16
	for (int j = 0; j < 16; j++)
		EACH_ROW w->scale[j][r] =
			(int8_t)(((low[j / 2][r] >> 4 * (j % 2) & 15) | (high[j / 4][r] >> 2 * (j % 4) & 3) << 4) - 32);
}

DECODER decode_iq2_k(struct decoded *w, const void *p)
{
	const struct x16_iq2_k *b = p;
	_Alignas(64) uint32_t move[16][QN_PANEL];

	decode_moves(move, b->extra, 16, 5);
	decode_crumbs(w, b->qs, NULL, move, 4);
	for (int j = 0; j < 8; j++) {
		EACH_ROW w->scale[2 * j][r] = (int8_t)((b->scales[j][r] & 15) - 8);
		EACH_ROW w->scale[2 * j + 1][r] = (int8_t)((b->scales[j][r] >> 4) - 8);
	}
	decode_d(w, b->d, 1);
}

DECODER decode_iq3_k(struct decoded *w, const void *p)
{
	const struct x16_iq3_k *b = p;
	_Alignas(64) uint32_t move[16][QN_PANEL];

	decode_moves(move, b->extra, 16, 4);
	decode_crumbs(w, b->qs, b->qh, move, 4);
	decode_scales(w, b->scales, 8);
	for (int j = 0; j < 16; j++)
		EACH_ROW {
			const int minus = -(b->signs[r] >> j & 1);

			w->scale[j][r] = (int8_t)((w->scale[j][r] ^ minus) - minus);
		}
	decode_d(w, b->d, 1);
}

DECODER decode_iq4_k(struct decoded *w, const void *p)
{
	const struct x16_iq4_k *b = p;
	_Alignas(64) uint32_t move[16][QN_PANEL];

	decode_moves(move, b->extra, 16, 4);
	decode_nibbles(w, b->qs, move, 4);
	decode_scales6(w, b->scales_h, b->scales);
	decode_d(w, b->d, 1);
}

DECODER decode_iq5_k(struct decoded *w, const void *p)
{
	const struct x16_iq5_k *b = p;
	_Alignas(64) uint32_t move[16][QN_PANEL];

	decode_moves(move, b->extra, 16, 2);
	decode_fives(w, b->qs, b->qh, move, 4);
	decode_scales6(w, b->scales_h, b->scales);
	decode_d(w, b->d, 1);
}

DECODER decode_iq6_k(struct decoded *w, const void *p)
{
	const struct x16_iq6_k *b = p;
	_Alignas(64) uint32_t move[16][QN_PANEL];

	decode_moves(move, b->extra, 16, 1);
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 8; i++) {
			const bytes low = line_nibble(&b->qs[j / 2 * 8 + i], 4 * (j % 2));
			const bytes high = line_crumb(&b->qh[j / 4 * 8 + i], 2 * (j % 4));

			put_word(w, 8 * j + i, bytes_lookup(bytes_or_and(low, bytes_shl(high, 4), 0x30), ik6_words, 4),
			         move, 4);
		}
	memcpy(w->scale, b->scales, sizeof w->scale);
	decode_d(w, b->d, 1);
}

DECODER decode_iq2_ks(struct decoded *w, const void *p)
{
	const struct x16_iq2_ks *b = p;
	_Alignas(64) uint32_t move[8][QN_PANEL];
	uint8_t scales[4][QN_PANEL];

	decode_moves(move, b->extra, 8, 5);
	decode_crumbs(w, b->qs, NULL, move, 8);
	rows_unzip4(scales, b->scales);
	STORED(scales);
	for (int j = 0; j < 8; j++)
		EACH_ROW w->scale[j][r] =
			(int8_t)(((scales[j / 2][r] >> 4 * (j % 2) & 15) | (b->extra[r] >> (8 + j) & 1) << 4) - 16);
}

DECODER decode_iq2_kl(struct decoded *w, const void *p)
{
	const struct x16_iq2_kl *b = p;
	uint8_t scales[4][QN_PANEL];

#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 4; i++) {
			_Alignas(64) uint32_t code[QN_PANEL], pair[2][QN_PANEL];

			bytes_store(code, with_bit(line_nibble(&b->qs[j / 2 * 4 + i], 4 * (j % 2)), &b->qh[i], j, 4));
			STORED(code);
			/* Of two codes, each in the place of both of its weights. */
			for (int h = 0; h < 2; h++)
				EACH_ROW {
					const uint32_t c = code[r] >> 16 * h;

					pair[h][r] = (c & 0xff) * 0x0101 | (c & 0xff00) * 0x010100;
				}
			STORED(pair);
			for (int h = 0; h < 2; h++) {
				_Alignas(64) uint32_t first[QN_PANEL], second[QN_PANEL];

				EACH_ROW first[r] = pair[h][r] | 0x80008000;
				EACH_ROW second[r] = pair[h][r] | 0x00800080;
				STORED(first);
				STORED(second);
				bytes_store(w->word[8 * j + 2 * i + h],
				            bytes_add(bytes_lookup(bytes_load(first), ikl_words[0], 2),
				                      bytes_lookup(bytes_load(second), ikl_words[1], 2)));
			}
		}
	rows_unzip4(scales, b->scales);
	STORED(scales);
	for (int j = 0; j < 8; j++)
		EACH_ROW w->scale[j][r] =
			(int8_t)(((scales[j % 4][r] >> 4 * (j / 4) & 15) | (b->scales_h[r] >> 2 * j & 3) << 4) - 32);
}

DECODER decode_iq3_ks(struct decoded *w, const void *p)
{
	const struct x16_iq3_ks *b = p;
	_Alignas(64) uint32_t move[8][QN_PANEL];
	uint8_t scales[4][QN_PANEL];
	uint16_t bits[QN_PANEL];

	EACH_ROW bits[r] = b->extra[r] >> 8;
	decode_moves(move, bits, 8, 4);
	decode_crumbs(w, b->qs, b->qh, move, 8);
	rows_unzip4(scales, b->scales);
	STORED(scales);
	for (int j = 0; j < 8; j++)
		EACH_ROW w->scale[j][r] =
			(int8_t)(((scales[j % 4][r] >> 4 * (j / 4) & 15) | (b->extra[r] >> j & 1) << 4) - 16);
}

/* Odd scales of bytes, and moves by their lowest bits. */
INLINE void decode_odd(struct decoded *w, uint32_t move[8][QN_PANEL], const uint8_t scales[8][QN_PANEL], int by)
{
	for (int j = 0; j < 8; j++) {
		EACH_ROW w->scale[j][r] = (int8_t)((scales[j][r] & 254) - 127);
		EACH_ROW move[j][r] = (scales[j][r] & 1u) * ((uint32_t)by * 0x01010101);
	}
}

DECODER decode_iq4_ks(struct decoded *w, const void *p)
{
	const struct x16_iq4_ks *b = p;
	_Alignas(64) uint32_t move[8][QN_PANEL];

	decode_odd(w, move, b->scales, 4);
	decode_nibbles(w, b->qs, move, 8);
}

DECODER decode_iq4_kss(struct decoded *w, const void *p)
{
	const struct x16_iq4_kss *b = p;
	_Alignas(64) uint32_t move[8][QN_PANEL], qs[32][QN_PANEL];
	uint8_t scales[8][QN_PANEL];

	for (int l = 0; l < 32; l++)
		EACH_ROW {
			const uint32_t x = b->qs[l][r] & 0xfffefffe;

			qs[l][r] = x ^ (x >> 1 & 0x7fff7fff);
		}
	for (int j = 0; j < 8; j++) {
		uint32_t s[QN_PANEL] = {0};

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			EACH_ROW s[r] |= (b->qs[4 * j + i][r] & 1) << 2 * i |
			                 (b->qs[4 * j + i][r] >> 16 & 1) << (2 * i + 1);
		EACH_ROW scales[j][r] = (uint8_t)s[r];
	}
	decode_odd(w, move, scales, 4);
	decode_nibbles(w, (const x16_line *)qs, move, 8);
}

DECODER decode_iq5_ks(struct decoded *w, const void *p)
{
	const struct x16_iq5_ks *b = p;
	_Alignas(64) uint32_t move[8][QN_PANEL];

	decode_odd(w, move, b->scales, 2);
	decode_fives(w, b->qs, b->qh, move, 8);
}

/* Powers of the trellis types' factor. */
#define TRELLIS2 (QN_TRELLIS * QN_TRELLIS)
#define TRELLIS4 (TRELLIS2 * TRELLIS2)

INLINE bytes trellis_number(bytes x, uint32_t power)
{
	return bytes_and(bytes_mul32(x, power), 0x3f);
}

/* A word of the weights 0 .. 3 or 4 .. 7 of codes, one of each row. */
INLINE bytes trellis_word(const uint16_t code[QN_PANEL], int at)
{
	const uint32_t power = at ? TRELLIS4 : 1;
	const bytes x = bytes_widen(code, 4096);

	return bytes_sums(trellis_number(x, power * QN_TRELLIS), trellis_number(x, power * TRELLIS2),
	                  trellis_number(x, power * TRELLIS2 * QN_TRELLIS), trellis_number(x, power * TRELLIS4), 2);
}

/* Words of 32 codes of 8 weights each. */
INLINE void trellis_words(struct decoded *w, const uint16_t code[32][QN_PANEL])
{
	for (int i = 0; i < 32; i++) {
		bytes_store(w->word[2 * i], trellis_word(code[i], 0));
		bytes_store(w->word[2 * i + 1], trellis_word(code[i], 4));
	}
}

/* Scales from the nibbles of bytes, low or high ones: of IQ4_NL's levels. */
INLINE void decode_scales_iq4(struct decoded *w, int at, const uint8_t s[4][QN_PANEL], int high)
{
	uint8_t *scale = (uint8_t *)w->scale[at];

	bytes_store(scale, bytes_iq4(bytes_and(high ? bytes_shr(bytes_load(s), 4) : bytes_load(s), 15)));
	for (int k = 0; k < 4 * QN_PANEL; k++)
		scale[k] ^= 128;
}

DECODER decode_iq1_kt(struct decoded *w, const void *p)
{
	const struct x16_iq1_kt *b = p;
	uint16_t code[32][QN_PANEL];

#pragma GCC unroll 32
	for (int i = 0; i < 32; i++)
		store16(code[i], load8(b->ql[i]) | (load8(b->qh[i % 16]) << (i < 16 ? 8 : 4) & 0xf00) |
		                         (load8(b->sh[i / 4]) >> (4 + i % 4) & 1) << 12);
	trellis_words(w, code);
	decode_scales_iq4(w, 0, b->sh, 0);
	decode_scales_iq4(w, 4, b->sh + 4, 0);
}

DECODER decode_iq2_kt(struct decoded *w, const void *p)
{
	const struct x16_iq2_kt *b = p;
	uint8_t scales[4][QN_PANEL];

	trellis_words(w, b->ql);
	rows_unzip4(scales, b->scales);
	decode_scales_iq4(w, 0, scales, 0);
	decode_scales_iq4(w, 4, scales, 1);
}

DECODER decode_iq3_kt(struct decoded *w, const void *p)
{
	const struct x16_iq3_kt *b = p;
	uint8_t scales[4][QN_PANEL];

	trellis_words(w, b->ql);
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 8; i++)
			bytes_store(w->word[8 * j + i], bytes_signed128(bytes_load(w->word[8 * j + i]),
			                                                bytes_shl(bytes_load(&b->qh[i]), 7 - j)));
	rows_unzip4(scales, b->scales);
	STORED(scales);
	for (int j = 0; j < 4; j++) {
		EACH_ROW w->scale[j][r] = scales[j][r] & 15;
		EACH_ROW w->scale[4 + j][r] = scales[j][r] >> 4;
	}
}

DECODER decode_iq4_kt(struct decoded *w, const void *p)
{
	const struct x16_iq4_kt *b = p;

	for (int j = 0; j < 8; j++) {
		uint16_t code[8][QN_PANEL], threes[2][QN_PANEL], top[QN_PANEL];

		EACH_ROW w->scale[j][r] = (int8_t)((int)(b->sh[j][r] >> 1 & 127) - 64);
		EACH_ROW threes[0][r] = (uint16_t)(b->sh[j][r] >> 8);
		EACH_ROW threes[1][r] = (uint16_t)(b->sh[j][r] >> 16); /* the fifth of eight from bit 4 on */
		EACH_ROW top[r] = (uint16_t)(b->sh[j][r] << 15);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			const rows16 qh = load8(b->qh[8 * (j % 4) + i]);

			store16(code[i], load8(b->ql[8 * j + i]) | ((j < 4 ? qh << 8 : qh << 4) & 0xf00) |
			                         (load16(threes[i / 4]) >> (i < 4 ? 3 * i : 3 * i - 8) & 7) << 12 |
			                         load16(top));
		}
#pragma GCC unroll 2
		for (int i = 0; i < 8; i++)
			bytes_store(w->word[8 * j + i], trellis_word(code[i], 0));
	}
}

/* Scales of 16 rows that begin with them: they lie behind the super-blocks of a panel. */
INLINE floats head_d(int type, const uint8_t *panel, int64_t n_in)
{
	const uint8_t *p = panel + n_in / QK_K * QN_PANEL * block_bytes(type);

	if (type_row(type).head == 2)
		return floats_f16((const uint16_t *)p);
	return head_factor(type) == 1 ? floats_load((const float *)p)
	                              : floats_mul(floats_load((const float *)p), floats_set1(head_factor(type)));
}

#undef EACH_ROW

/* Decodes a super-block of codes; type constant. */
INLINE void decode(int type, struct decoded *w, const void *p)
{
	switch (type) {
#define CODED(name, NAME, ...)       \
	case QN_##NAME:              \
		decode_##name(w, p); \
		break;
		QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
#undef CODED
	}
}

#endif
