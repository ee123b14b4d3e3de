/*
 * decode.h - a super-block of codes of 16 rows into words, for kernels of all widths. Not compiled as it stands:
 * see mm_ops.h for the vector operations it needs. scalar/coded.c says what comes out.
 *
 * It is most of the work of one token, and shared by all tokens of a batch. Only the look-up of a code goes one by
 * one; signs are given to whole vectors, and the loops over the 16 rows of a panel are left to the compiler.
 */
#ifndef QN_DECODE_H
#define QN_DECODE_H

#include <string.h>

#include "coded.h"
#include "mm_ops.h"
#include "x16.h"

/* A super-block of 16 rows. */
struct decoded {
	union {
		_Alignas(64) x16_line word[64];     /* weight + 64, so that products need no sign */
		uint64_t levels[32][QN_PANEL];      /* before that: of 8 weights of a row, without signs */
		uint32_t half_levels[32][QN_PANEL][2];
	};
	_Alignas(64) int8_t scale[16][QN_PANEL]; /* of each 16 weights, or of each 32: then 8 of them */
	_Alignas(64) uint8_t signs[32][QN_PANEL]; /* of 8 weights */
	_Alignas(64) float d[QN_PANEL];
};

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

INLINE void decode_iq2_xxs(struct decoded *w, const void *p)
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

INLINE void decode_iq2_xs(struct decoded *w, const void *p)
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

INLINE void decode_iq2_s(struct decoded *w, const void *p)
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

INLINE void decode_iq3_xxs(struct decoded *w, const void *p)
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

INLINE void decode_iq3_s(struct decoded *w, const void *p)
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

INLINE void decode_iq1_s(struct decoded *w, const void *p)
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

INLINE void decode_iq1_m(struct decoded *w, const void *p)
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

INLINE void decode_tq1_0(struct decoded *w, const void *p)
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

#undef EACH_ROW

/* Decodes a super-block of codes; type constant. */
INLINE void decode(int type, struct decoded *w, const void *p)
{
	switch (type) {
#define CODED(name, NAME, run)       \
	case QN_##NAME:              \
		decode_##name(w, p); \
		break;
		QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
#undef CODED
	}
}

#endif
