/*
 * unpack.h - takes words and scales out of packed panels, for kernels of all widths. Not
 * compiled as it stands: see tmpl/vectors.h for the vector operations it needs.
 */
#ifndef QN_TMPL_UNPACK_H
#define QN_TMPL_UNPACK_H

#include <string.h>

#include "format/blocks.h"
#include "tmpl/decode.h"
#include "tmpl/vectors.h"
#include "format/panel.h"

/* Scales and minimums of a super-block, unpacked to bytes. Sub-blocks 2i, 2i + 1 make a pair. */
struct scales {
	_Alignas(64) int8_t scale[16][QN_PANEL];
	_Alignas(64) int8_t pair[8][QN_PANEL][2]; /* minimums, or the scales again: see pair_scales() */
};

#ifdef ROWS_IN_FOURS
/*
 * Four bytes of each row at once. Of 16 bytes at once the zipped minimums are stored in halves of what is loaded, which
 * CPUs do not forward.
 */
INLINE void scales_q45(struct scales *s, const uint8_t sl[8][QN_PANEL], const uint8_t sh[4][QN_PANEL])
{
	const bytes a = bytes_load(sl[0]), b = bytes_load(sl[4]), hi = bytes_load(sh);
	const bytes lo0 = rows_even(a, b), lo1 = rows_odd(a, b); /* of sub-blocks 2i, and 2i + 1 */

	rows_store_zip16(s->scale, bytes_or_and(bytes_and(lo0, 15), bytes_shl(hi, 4), 0x30),
	                 bytes_or_and(bytes_and(lo1, 15), hi, 0x30));
	rows_store_zip(s->pair, bytes_or_and(bytes_and(bytes_shr(lo0, 4), 15), bytes_shl(hi, 2), 0x30),
	               bytes_or_and(bytes_and(bytes_shr(lo1, 4), 15), bytes_shr(hi, 2), 0x30));
}
#else
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
#endif

INLINE void scales_q4k(struct scales *s, const struct x16_q4k *p)
{
	scales_q45(s, p->sl, p->sh);
}

INLINE void scales_q5k(struct scales *s, const struct x16_q5k *p)
{
	scales_q45(s, p->sl, p->sh);
}

INLINE void scales_q2k(struct scales *s, const struct x16_q2k *p)
{
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		const rows a = rows_load(p->sl[2 * i]), b = rows_load(p->sl[2 * i + 1]);

		rows_store(s->scale[2 * i], rows_and(a, 15));
		rows_store(s->scale[2 * i + 1], rows_and(b, 15));
		rows_zip(s->pair[i], rows_shr(a, 4, 15), rows_shr(b, 4, 15));
	}
}

INLINE void scales_q6k(struct scales *s, const struct x16_q6k *p)
{
#pragma GCC unroll 16
	for (int j = 0; j < 16; j++)
		rows_store(s->scale[j], rows_load(p->sc[j]));
}

INLINE void scales_q3k(struct scales *s, const struct x16_q3k *p)
{
#pragma GCC unroll 16
	for (int j = 0; j < 16; j++) {
		const rows lo = rows_shr(rows_load(p->sl[j % 8]), 4 * (j / 8), 15);
		const rows hi = rows_shr(rows_load(p->sh[j % 4]), 2 * (j / 4), 3);

		rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
	}
}

INLINE void scales_iq4_xs(struct scales *s, const struct x16_iq4_xs *p)
{
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++) {
		const rows lo = rows_shr(rows_load(p->sl[j / 2]), 4 * (j % 2), 15);
		const rows hi = rows_shr(rows_load(p->sh[j / 4]), 2 * (j % 4), 3);

		rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
	}
}

INLINE void scales_tq2_0(struct scales *s, const struct x16_tq2_0 *p)
{
	(void)p;
	memset(s, 1, sizeof *s);
}

/* Of a super-block of a panel, of codes of a struct decoded; type constant. */
INLINE void scales_of(struct scales *s, int type, const void *p)
{
	switch (type) {
#define SUPER(name, NAME, ...)        \
	case QN_##NAME:               \
		scales_##name(s, p);  \
		return;
		QN_TYPES(QN_SKIP, QN_SKIP, SUPER, QN_SKIP)
#undef SUPER
	}
	memcpy(s->scale, ((const struct decoded *)p)->scale, sizeof s->scale);
}

/* Scales in pairs, where no minimums are: of products that an offset is taken off. */
INLINE void pair_scales(struct scales *s)
{
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
		rows_zip(s->pair[i], rows_load(s->scale[2 * i]), rows_load(s->scale[2 * i + 1]));
}

/* Line l with its bit `at` moved to bit `to`. All constant but l. */
INLINE bytes moved(const x16_line *l, int at, int to)
{
	const bytes a = bytes_load(l);

	return at > to ? bytes_shr(a, at - to) : at < to ? bytes_shl(a, to - at) : a;
}

/* `bits` bits of the bytes of line l, from bit `at` on. */
INLINE bytes field(const x16_line *l, int at, int bits)
{
	return bytes_and(moved(l, at, 0), (1 << bits) - 1);
}

/* a, and above its bits, at bit `to`, more of them from line l. */
INLINE bytes with_field(bytes a, const x16_line *l, int at, int bits, int to)
{
	return bytes_or_and(a, moved(l, at, to), ((1 << bits) - 1) << to);
}

/*
 * A super-block is used in parts, each a contiguous piece of the panel, of some sub-blocks of some
 * words. Word i of part g is word i % words of the part's sub-block i / words. See type_row().
 */

/* Which of the super-block's sub-blocks is sub-block j of part g. */
INLINE int sub_of(int type, int g, int j)
{
	return g * type_row(type).subs + j;
}

/* Word i, constant, of part g. */
INLINE bytes word_q4k(const struct x16_q4k *p, int g, int i)
{
	return field(&p->qs[8 * g + i % 8], 4 * (i / 8), 4);
}

INLINE bytes word_q5k(const struct x16_q5k *p, int g, int i)
{
	return with_field(field(&p->part[g].qs[i % 8], 4 * (i / 8), 4), &p->part[g].qh[i / 8], i % 8, 1, 4);
}

INLINE bytes word_q6k(const struct x16_q6k *p, int g, int i)
{
	const x16_line *l = p->sub[4 * g + i / 4];

	if (i % 4 < 3)
		return bytes_and(bytes_load(l + i % 4), 63);
	return with_field(with_field(field(l, 6, 2), l + 1, 6, 2, 2), l + 2, 6, 2, 4);
}

INLINE bytes word_q2k(const struct x16_q2k *p, int g, int i)
{
	return field(&p->qs[8 * g + i % 8], 2 * (i / 8), 2);
}

INLINE bytes word_tq2_0(const struct x16_tq2_0 *p, int g, int i)
{
	return field(&p->qs[8 * g + i % 8], 2 * (i / 8), 2);
}

INLINE bytes word_q3k(const struct x16_q3k *p, int g, int i)
{
	return with_field(field(&p->half[g].qs[i % 8], 2 * (i / 8), 2), &p->half[g].qh[i / 8], i % 8, 1, 2);
}

INLINE bytes word_iq4_xs(const struct x16_iq4_xs *p, int g, int i)
{
	return bytes_iq4(field(&p->qs[4 * g + i % 4], 4 * (i / 4), 4));
}

/* The same by type, constant: of a super-block of a panel, of codes of a struct decoded. */
INLINE bytes super_word(int type, const void *p, int g, int i)
{
	switch (type) {
#define SUPER(name, NAME, ...)  \
	case QN_##NAME:         \
		return word_##name(p, g, i);
		QN_TYPES(QN_SKIP, QN_SKIP, SUPER, QN_SKIP)
#undef SUPER
	}
	return bytes_load(((const struct decoded *)p)->word[g * type_row(type).words + i]);
}

/* Bytes of a super-block's struct in a panel. */
INLINE int super_bytes(int type)
{
	switch (type) {
#define SUPER(name, NAME, ...)  \
	case QN_##NAME:         \
		return sizeof(struct x16_##name);
		QN_TYPES(QN_SKIP, QN_SKIP, SUPER, SUPER)
#undef SUPER
	}
	return 0;
}

/* From the struct of super-block b to the next one. */
INLINE int super_step(int type, int64_t b)
{
	return super_bytes(type) + (x16_d_apart(type) && b % 2 == 0 ? 2 * X16_D : 0);
}

/* d of the rows of super-block b; dmin, where there is one, follows it. Of codes it is decoded. */
INLINE const uint16_t *super_d(int type, const void *p, int64_t b)
{
	switch (type) {
	case QN_Q2_K:
		return ((const struct x16_q2k *)p)->d;
	case QN_Q4_K:
		return ((const struct x16_q4k *)p)->d;
	case QN_Q5_K:
		return ((const struct x16_q5k *)p)->d;
	case QN_IQ4_XS:
		return ((const struct x16_iq4_xs *)p)->d;
	}
	return (const uint16_t *)((const uint8_t *)p + x16_d_at(super_bytes(type), b));
}

/* 1 where words have all 8 bits and stand for themselves less 128: see ints_dot8(). */
INLINE int has_8_bits(int type)
{
	return type_row(type).offset == 128;
}

/* Lines of a block of 32 weights, or of a run of 16, without that of fifth bits. */
INLINE int small_lines(int type)
{
	const struct type_row t = type_row(type);

	return t.words * (t.bits == 5 ? 4 : t.bits) / 8;
}

/* Word i of such a block: its lines, and its line of fifth bits. i is constant. */
INLINE bytes small_word(int type, const x16_line *qs, const x16_line *qh, int i)
{
	const int lines = small_lines(type);
	bytes a;

	switch (type_row(type).bits) {
	case 1:
		return bytes_and(moved(qs, i, 1), 2);
	case 2:
		return field(&qs[i / 4], 2 * (i % 4), 2);
	case 8:
		return bytes_load(&qs[i]);
	}
	a = field(&qs[i % lines], 4 * (i / lines), 4);
	if (type_row(type).bits == 5)
		return with_field(a, qh, i, 1, 4);
	return type == QN_IQ4_NL ? bytes_iq4(a) : type_row(type).offset == 12 ? bytes_mxfp4(a) : a;
}

/* Scales of such a block, number j of a group. */
INLINE floats small_d(int type, const uint16_t *d, int j)
{
	if (type == QN_MXFP4)
		return floats_e8m0((const uint8_t *)d + j * QN_PANEL);
	if (type == QN_NVFP4)
		return floats_ue4m3((const uint8_t *)d + j * QN_PANEL);
	return floats_f16(d + j * QK / type_row(type).run * QN_PANEL);
}

#endif
