/*
 * mm_x16.h - products of packed quantized panels and 8-bit activations: one text for all sets. Not
 * compiled as it stands: a set defines MM(name) and the vector operations below, and includes this.
 * scalar/mm.c says what is computed.
 *
 * Lanes are rows. For each word of a panel (4 weights of each of 16 rows) and each token, the word
 * meets the token's 4 activations, broadcast: no shuffles, no horizontal sums, and the same weights
 * in registers for all tokens of the tile.
 *
 *	MM_AHEAD               how many bytes ahead of use to ask for weights, 0 not to
 *
 *	bytes   64 weights: a line, or a word taken out of one
 *	ints    16 int32
 *	floats  16 floats
 *
 *	bytes_load(p) bytes_and(a, mask) bytes_or_and(a, b, mask) bytes_shr(a, n) bytes_shl(a, n)
 *	    shifts may move bits across the bytes of a 16-bit pair: a mask follows
 *	bytes_iq4(a)           table value + 128 of each nibble
 *	rows    16 bytes, one of each row
 *	rows_load(p) rows_store(p, a) rows_and(a, mask) rows_or(a, b) rows_sub(a, n)
 *	rows_shr(a, n, mask) rows_shl(a, n, mask)    shifted, then masked
 *	rows_zip(p, a, b)      stores a and b interleaved
 *
 *	ints_zero() ints_of8(p)    the latter from 16 int8
 *	ints_shl(a, n) ints_sub(a, b)
 *	ints_dot(acc, w, x)    acc + w . x, 4 by 4; w unsigned below 128, x the address of 4 int8
 *	ints_dot8(acc, w, x)   the same for w up to 255 that stands for w - 128. MM_DOT8_OFFSET is 1
 *	                       where it leaves the offset to the caller
 *	ints_pair(acc, a, x)   acc + a . x, 2 by 2; a the address of [16][2] int8, x of 2 int16
 *	ints_muladd(acc, a, b) acc + a * b
 *	floats_zero() floats_set1(x) floats_f16(p) floats_of(ints) floats_mul(a, b)
 *	floats_fma(a, b, c) floats_fnma(a, b, c) floats_store(p, a)
 */
#include <string.h>

#include "x16_words.h"

/* nt tokens, type and nt constant. */
INLINE void mm_super(int type, int nt, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act)
{
	const int parts = parts_of(type).parts, subs = parts_of(type).subs, words = parts_of(type).words;
	const int has_min = type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K;
	const int has_offset = type == QN_IQ4_XS ? MM_DOT8_OFFSET : !has_min;
	const int offset_shift = type == QN_Q6_K ? 5 : type == QN_Q3_K ? 2 : 7; /* offsets 32, 4, 128 */
	floats acc[MM_TILE];
	struct scales s;

#pragma GCC unroll 16
	for (int t = 0; t < nt; t++)
		acc[t] = floats_zero();
	for (int64_t b = 0; b < n_in / QK_K; b++, p += super_bytes(type), x += n_act) {
		const floats d = floats_f16(super_d(type, p));
		ints sum[MM_TILE];

		scales_of(&s, type, p);
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++) {
			sum[t] = ints_zero();
			if (has_min || has_offset)
#pragma GCC unroll 8
				for (int i = 0; i < parts * subs / 2; i++)
					sum[t] = ints_pair(sum[t], s.pair[i],
					                   words == 8 ? &x[t].sum32[2 * i]
					                              : &x[t].sum16[2 * i]);
			if (has_min) {
				const floats dmin = floats_f16(super_d(type, p) + QN_PANEL);

				acc[t] = floats_fnma(floats_mul(dmin, floats_set1(x[t].d)), floats_of(sum[t]), acc[t]);
				sum[t] = ints_zero();
			} else if (has_offset) {
				sum[t] = ints_sub(ints_zero(), ints_shl(sum[t], offset_shift));
			}
		}
		for (int g = 0; g < parts; g++) {
			if (MM_AHEAD) {
				const int part = super_bytes(type) / parts;

#pragma GCC unroll 32
				for (int at = 0; at < part; at += 64)
					__builtin_prefetch(p + g * part + at + MM_AHEAD);
			}

#pragma GCC unroll 8
			for (int j = 0; j < subs; j++) {
				const int sub = sub_of(type, g, j);
				const ints scale = ints_of8(s.scale[sub]);
				const int8_t *xs = x[0].qs + sub * words * 4;
				ints dot[MM_TILE];

#pragma GCC unroll 16
				for (int t = 0; t < nt; t++)
					dot[t] = ints_zero();
#pragma GCC unroll 8
				for (int i = 0; i < words; i++) {
					const bytes w = super_word(type, p, g, j * words + i);

#pragma GCC unroll 16
					for (int t = 0; t < nt; t++) {
						const int8_t *xt = xs + t * (int)sizeof *x + i * 4;

						dot[t] = type == QN_IQ4_XS
						                 ? ints_dot8(dot[t], w, xt)
						                 : ints_dot(dot[t], w, xt);
					}
				}
#pragma GCC unroll 16
				for (int t = 0; t < nt; t++)
					sum[t] = ints_muladd(sum[t], dot[t], scale);
			}
		}
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			acc[t] = floats_fma(floats_mul(d, floats_set1(x[t].d)), floats_of(sum[t]), acc[t]);
	}
#pragma GCC unroll 16
	for (int t = 0; t < nt; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

INLINE void mm_small(int type, int nt, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act)
{
	const int eight = type == QN_Q8_0 || type == QN_IQ4_NL; /* bits, offset 128 */
	const int has_m = type == QN_Q4_1 || type == QN_Q5_1;
	const int has_offset = eight ? MM_DOT8_OFFSET : !has_m;
	const int minus_offset = type == QN_Q4_0 ? -8 : type == QN_Q5_0 ? -16 : -128;
	const int lines = type == QN_Q8_0 ? 8 : 4;
	_Alignas(64) int8_t minus[QN_PANEL][2];
	floats acc[MM_TILE];

	memset(minus, minus_offset, sizeof minus);
#pragma GCC unroll 16
	for (int t = 0; t < nt; t++)
		acc[t] = floats_zero();
	for (int64_t left = n_in / QK; left > 0; left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP;
		const uint16_t *d = (const uint16_t *)(p + x16_line_bytes(type, nb));
		floats f[MM_TILE];

#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			f[t] = floats_zero();
		for (int j = 0; j < nb; j++) {
			const x16_line *qs = (const x16_line *)p + j * lines;
			const x16_line *qh = (const x16_line *)p + nb * lines + j;
			const floats dj = floats_f16(d + j * QN_PANEL);
			ints dot[MM_TILE];

			if (MM_AHEAD)
#pragma GCC unroll 8
				for (int l = 0; l < lines; l++)
					__builtin_prefetch((const uint8_t *)&qs[l] + MM_AHEAD);

#pragma GCC unroll 16
			for (int t = 0; t < nt; t++) {
				dot[t] = ints_zero();
				if (has_offset)
					dot[t] = ints_pair(dot[t], minus, &x[t].sum16[2 * j]);
			}
#pragma GCC unroll 8
			for (int i = 0; i < 8; i++) {
				const bytes w = small_word(type, qs, qh, i);

#pragma GCC unroll 16
				for (int t = 0; t < nt; t++) {
					const int8_t *xt = x[t].qs + j * QK + i * 4;

					dot[t] = eight ? ints_dot8(dot[t], w, xt) : ints_dot(dot[t], w, xt);
				}
			}
#pragma GCC unroll 16
			for (int t = 0; t < nt; t++) {
				f[t] = floats_fma(dj, floats_of(dot[t]), f[t]);
				if (has_m)
					f[t] = floats_fma(floats_f16(d + (nb + j) * QN_PANEL),
					                  floats_set1((float)x[t].sum32[j]), f[t]);
			}
		}
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			acc[t] = floats_fma(f[t], floats_set1(x[t].d), acc[t]);
		p += x16_line_bytes(type, nb) + nb * QN_PANEL * (has_m ? 4 : 2);
	}
#pragma GCC unroll 16
	for (int t = 0; t < nt; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

/* n is at most MM_TILE, which the set defines: as many tokens as its registers hold. */
#if MM_TILE == 8
#define MM_CASES(family) MM_CASE_(family, 1) MM_CASE_(family, 2) MM_CASE_(family, 3) MM_CASE_(family, 4) \
	MM_CASE_(family, 5) MM_CASE_(family, 6) MM_CASE_(family, 7) MM_CASE_(family, 8)
#elif MM_TILE == 4
#define MM_CASES(family) MM_CASE_(family, 1) MM_CASE_(family, 2) MM_CASE_(family, 3) MM_CASE_(family, 4)
#else
#error "MM_TILE is 4 or 8"
#endif
#define MM_CASE_(family, nt)                                  \
	case nt:                                                 \
		family(type, nt, out, panel, act, n_in, n_act);      \
		break;

#define MM_TYPE(name, t, family) \
	static void MM(mm_##name)(float *out, const void *panel, const void *act, int64_t n_in, \
	                          int64_t n_act, int n) \
	{ \
		enum { type = t }; \
		switch (n) { \
			MM_CASES(mm_##family) \
		} \
	}

QN_Q8_TYPES(MM_TYPE)

static void MM(mm_fill)(struct kernels *k)
{
#define MM_SLOT(name, t, family)    \
	k->mm[t] = MM(mm_##name); \
	k->mm_tile[t] = MM_TILE;
	QN_Q8_TYPES(MM_SLOT)
#undef MM_SLOT
}
