/*
 * mm_x16.h - products of packed quantized panels and 8-bit activations: one text for all sets. Not
 * compiled as it stands: a set defines MM(name) and the vector operations below, and includes this.
 * scalar/mm.c says what is computed.
 *
 * Lanes are rows. For each word of a panel (4 weights of each of 16 rows) and each token, the word
 * meets the token's 4 activations, broadcast: no shuffles, no horizontal sums, and the same weights
 * in registers for all tokens of the tile.
 *
 *	bytes   64 weights: a line, or a word taken out of one
 *	ints    16 int32
 *	floats  16 floats
 *
 *	bytes_load(p) bytes_and(a, mask) bytes_or(a, b) bytes_shr(a, n) bytes_shl(a, n)
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

#include "blocks.h"
#include "fp16.h"
#include "kernels.h"
#include "x16.h"

#define INLINE static inline __attribute__((always_inline))

/* Scales and minimums of a super-block, unpacked to bytes. Sub-blocks 2i, 2i + 1 make a pair. */
struct scales {
	_Alignas(64) int8_t scale[16][QN_PANEL];
	_Alignas(64) int8_t pair[8][QN_PANEL][2]; /* minimums, or scales again for types with an offset */
};

INLINE void scales_q45(struct scales *s, const uint8_t sl[8][QN_PANEL], const uint8_t sh[4][QN_PANEL])
{
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		const rows lo0 = rows_load(sl[2 * i]), lo1 = rows_load(sl[2 * i + 1]), hi = rows_load(sh[i]);
		/* The two high bits of each, moved to bits 4 and 5. */
		const rows sc0 = rows_shl(hi, 4, 0x30), mn0 = rows_shl(hi, 2, 0x30);
		const rows sc1 = rows_and(hi, 0x30), mn1 = rows_shr(hi, 2, 0x30);

		rows_store(s->scale[2 * i], rows_or(rows_and(lo0, 15), sc0));
		rows_store(s->scale[2 * i + 1], rows_or(rows_and(lo1, 15), sc1));
		rows_zip(s->pair[i], rows_or(rows_shr(lo0, 4, 15), mn0), rows_or(rows_shr(lo1, 4, 15), mn1));
	}
}

INLINE void scales_of(struct scales *s, int type, const void *p)
{
	switch (type) {
	case QN_Q4_K:
		scales_q45(s, ((const struct x16_q4k *)p)->sl, ((const struct x16_q4k *)p)->sh);
		return;
	case QN_Q5_K:
		scales_q45(s, ((const struct x16_q5k *)p)->sl, ((const struct x16_q5k *)p)->sh);
		return;
	case QN_Q2_K:
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			const rows a = rows_load(((const struct x16_q2k *)p)->sl[2 * i]);
			const rows b = rows_load(((const struct x16_q2k *)p)->sl[2 * i + 1]);

			rows_store(s->scale[2 * i], rows_and(a, 15));
			rows_store(s->scale[2 * i + 1], rows_and(b, 15));
			rows_zip(s->pair[i], rows_shr(a, 4, 15), rows_shr(b, 4, 15));
		}
		return;
	case QN_Q6_K:
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			rows_store(s->scale[j], rows_load(((const struct x16_q6k *)p)->sc[j]));
		break;
	case QN_Q3_K: {
		const struct x16_q3k *q = p;

#pragma GCC unroll 16
		for (int j = 0; j < 16; j++) {
			const rows lo = rows_shr(rows_load(q->sl[j % 8]), 4 * (j / 8), 15);
			const rows hi = rows_shr(rows_load(q->sh[j % 4]), 2 * (j / 4), 3);

			rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
		}
		break;
	}
	case QN_IQ4_XS: {
		const struct x16_iq4xs *q = p;

#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			const rows lo = rows_shr(rows_load(q->sl[j / 2]), 4 * (j % 2), 15);
			const rows hi = rows_shr(rows_load(q->sh[j / 4]), 2 * (j % 4), 3);

			rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
		}
		break;
	}
	}
	for (int i = 0; i < (type == QN_IQ4_XS ? 4 : 8); i++)
		rows_zip(s->pair[i], rows_load(s->scale[2 * i]), rows_load(s->scale[2 * i + 1]));
}

/* The bytes of line l, `bits` of them from bit `at` on, moved to bit `to`. All constant. */
INLINE bytes field(const x16_line *l, int at, int bits, int to)
{
	const int mask = ((1 << bits) - 1) << to;
	bytes a = bytes_load(l);

	if (at > to)
		a = bytes_shr(a, at - to);
	else if (at < to)
		a = bytes_shl(a, to - at);
	return bytes_and(a, mask);
}

/* Word i of part g of a super-block; the parts are those of mm_super(). i is constant. */
INLINE bytes super_word(int type, const void *p, int g, int i)
{
	switch (type) {
	case QN_Q4_K:
		return field(&((const struct x16_q4k *)p)->qs[8 * g + i % 8], 4 * (i / 8), 4, 0);
	case QN_Q5_K: {
		const struct x16_q5k *q = p;

		return bytes_or(field(&q->qs[8 * g + i % 8], 4 * (i / 8), 4, 0), field(&q->qh[2 * g + i / 8], i % 8, 1, 4));
	}
	case QN_Q6_K: {
		const struct x16_q6k *q = p;

		return bytes_or(field(&q->ql[16 * g + i % 16], 4 * (i / 16), 4, 0),
		                field(&q->qh[8 * g + i % 8], 2 * (i / 8), 2, 4));
	}
	case QN_Q2_K:
		return field(&((const struct x16_q2k *)p)->qs[8 * g + i % 8], 2 * (i / 8), 2, 0);
	case QN_Q3_K: {
		const struct x16_q3k *q = p;

		return bytes_or(field(&q->qs[8 * g + i % 8], 2 * (i / 8), 2, 0), field(&q->qh[4 * g + i / 8], i % 8, 1, 2));
	}
	default: /* IQ4_XS */
		return bytes_iq4(field(&((const struct x16_iq4xs *)p)->qs[4 * g + i % 4], 4 * (i / 4), 4, 0));
	}
}

INLINE int super_bytes(int type)
{
	switch (type) {
	case QN_Q4_K: return sizeof(struct x16_q4k);
	case QN_Q5_K: return sizeof(struct x16_q5k);
	case QN_Q6_K: return sizeof(struct x16_q6k);
	case QN_Q2_K: return sizeof(struct x16_q2k);
	case QN_Q3_K: return sizeof(struct x16_q3k);
	default: return sizeof(struct x16_iq4xs);
	}
}

/* d of a super-block; dmin, where there is one, follows it. Both end the block. */
INLINE const uint16_t *super_d(int type, const uint8_t *p)
{
	const int n = type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K ? 2 : 1;

	return (const uint16_t *)(p + super_bytes(type)) - n * QN_PANEL;
}

/* nt tokens, type and nt constant. */
INLINE void mm_super(int type, int nt, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act)
{
	/* A super-block has `parts` parts of `subs` sub-blocks of `words` words. */
	const int parts = type == QN_Q4_K || type == QN_Q5_K ? 4 : type == QN_IQ4_XS ? 8 : 2;
	const int subs = type == QN_Q4_K || type == QN_Q5_K ? 2 : type == QN_IQ4_XS ? 1 : 8;
	const int words = subs == 8 ? 4 : 8;
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
					sum[t] = ints_pair(sum[t], s.pair[i], words == 8 ? &x[t].sum32[2 * i] : &x[t].sum16[2 * i]);
			if (has_min) {
				const floats dmin = floats_f16(super_d(type, p) + QN_PANEL);

				acc[t] = floats_fnma(floats_mul(dmin, floats_set1(x[t].d)), floats_of(sum[t]), acc[t]);
				sum[t] = ints_zero();
			} else if (has_offset) {
				sum[t] = ints_sub(ints_zero(), ints_shl(sum[t], offset_shift));
			}
		}
		for (int g = 0; g < parts; g++) {
			const int8_t *xg = x[0].qs + g * subs * words * 4;

#pragma GCC unroll 8
			for (int j = 0; j < subs; j++) {
				const ints scale = ints_of8(s.scale[g * subs + j]);
				ints dot[MM_TILE];

#pragma GCC unroll 16
				for (int t = 0; t < nt; t++)
					dot[t] = ints_zero();
#pragma GCC unroll 8
				for (int i = 0; i < words; i++) {
					const bytes w = super_word(type, p, g, j * words + i);

#pragma GCC unroll 16
					for (int t = 0; t < nt; t++) {
						const int8_t *xt = xg + t * (int)sizeof *x + (j * words + i) * 4;

						dot[t] = type == QN_IQ4_XS ? ints_dot8(dot[t], w, xt) : ints_dot(dot[t], w, xt);
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

/* Word i of a block of 32 weights: its lines, and its line of fifth bits. i is constant. */
INLINE bytes small_word(int type, const x16_line *qs, const x16_line *qh, int i)
{
	switch (type) {
	case QN_Q8_0:
		return bytes_load(&qs[i]);
	case QN_IQ4_NL:
		return bytes_iq4(field(&qs[i % 4], 4 * (i / 4), 4, 0));
	case QN_Q5_0: case QN_Q5_1:
		return bytes_or(field(&qs[i % 4], 4 * (i / 4), 4, 0), field(qh, i, 1, 4));
	default:
		return field(&qs[i % 4], 4 * (i / 4), 4, 0);
	}
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
					f[t] = floats_fma(floats_f16(d + (nb + j) * QN_PANEL), floats_set1((float)x[t].sum32[j]), f[t]);
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

#define MM_TYPE(name, t, family)                                                                         \
	static void MM(name)(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n) \
	{                                                                                                   \
		enum { type = t };                                                                              \
		switch (n) {                                                                                    \
			MM_CASES(family)                                                                            \
		}                                                                                               \
	}

MM_TYPE(mm_q4_0, QN_Q4_0, mm_small)
MM_TYPE(mm_q4_1, QN_Q4_1, mm_small)
MM_TYPE(mm_q5_0, QN_Q5_0, mm_small)
MM_TYPE(mm_q5_1, QN_Q5_1, mm_small)
MM_TYPE(mm_q8_0, QN_Q8_0, mm_small)
MM_TYPE(mm_iq4_nl, QN_IQ4_NL, mm_small)
MM_TYPE(mm_q2k, QN_Q2_K, mm_super)
MM_TYPE(mm_q3k, QN_Q3_K, mm_super)
MM_TYPE(mm_q4k, QN_Q4_K, mm_super)
MM_TYPE(mm_q5k, QN_Q5_K, mm_super)
MM_TYPE(mm_q6k, QN_Q6_K, mm_super)
MM_TYPE(mm_iq4xs, QN_IQ4_XS, mm_super)

static void MM(mm_fill)(struct kernels *k)
{
	static const struct {
		int type;
		mm_fn *fn;
	} fns[] = {
		{QN_Q4_0, MM(mm_q4_0)}, {QN_Q4_1, MM(mm_q4_1)}, {QN_Q5_0, MM(mm_q5_0)}, {QN_Q5_1, MM(mm_q5_1)},
		{QN_Q8_0, MM(mm_q8_0)}, {QN_IQ4_NL, MM(mm_iq4_nl)}, {QN_Q2_K, MM(mm_q2k)}, {QN_Q3_K, MM(mm_q3k)},
		{QN_Q4_K, MM(mm_q4k)}, {QN_Q5_K, MM(mm_q5k)}, {QN_Q6_K, MM(mm_q6k)}, {QN_IQ4_XS, MM(mm_iq4xs)},
	};

	for (unsigned i = 0; i < sizeof fns / sizeof *fns; i++) {
		k->mm[fns[i].type] = fns[i].fn;
		k->mm_tile[fns[i].type] = MM_TILE;
	}
}
