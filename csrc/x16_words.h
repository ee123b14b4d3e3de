/*
 * x16_words.h - takes words and scales out of packed panels, for kernels of all widths. Not
 * compiled as it stands: see mm_x16.h for the vector operations it needs.
 */
#ifndef QN_X16_WORDS_H
#define QN_X16_WORDS_H

#include <string.h>

#include "blocks.h"
#include "decode.h"
#include "kernels.h"
#include "x16.h"

/* Bytes of a super-block of a panel of codes. */
INLINE int coded_bytes(int type)
{
	switch (type) {
#define CODED(name, t, run) case t: return sizeof(struct x16_##name);
	QN_CODED_TYPES(CODED)
#undef CODED
	default: return 0;
	}
}

/* The types of coded.h: for them, a super-block is a struct decoded. */
INLINE int is_coded(int type)
{
	switch (type) {
#define CODED(name, t, run) case t:
	QN_CODED_TYPES(CODED)
#undef CODED
		return 1;
	default:
		return 0;
	}
}

/* Decodes a super-block of codes; type constant. */
INLINE void decode(int type, struct decoded *w, const void *p)
{
	switch (type) {
#define CODED(name, t, run)          \
	case t:                      \
		decode_##name(w, p); \
		break;
	QN_CODED_TYPES(CODED)
#undef CODED
	}
}

/* Scales and minimums of a super-block, unpacked to bytes. Sub-blocks 2i, 2i + 1 make a pair. */
struct scales {
	_Alignas(64) int8_t scale[16][QN_PANEL];
	_Alignas(64) int8_t pair[8][QN_PANEL][2]; /* minimums */
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
	case QN_TQ2_0:
		memset(s, 1, sizeof *s);
		return;
	case QN_Q6_K:
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			rows_store(s->scale[j], rows_load(((const struct x16_q6k *)p)->sc[j]));
		return;
	case QN_Q3_K: {
		const struct x16_q3k *q = p;

#pragma GCC unroll 16
		for (int j = 0; j < 16; j++) {
			const rows lo = rows_shr(rows_load(q->sl[j % 8]), 4 * (j / 8), 15);
			const rows hi = rows_shr(rows_load(q->sh[j % 4]), 2 * (j / 4), 3);

			rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
		}
		return;
	}
	case QN_IQ4_XS: {
		const struct x16_iq4xs *q = p;

#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			const rows lo = rows_shr(rows_load(q->sl[j / 2]), 4 * (j % 2), 15);
			const rows hi = rows_shr(rows_load(q->sh[j / 4]), 2 * (j % 4), 3);

			rows_store(s->scale[j], rows_sub(rows_or(lo, rows_shl(hi, 4, 0x30)), 32));
		}
		return;
	}
	}
	if (is_coded(type))
		memcpy(s->scale, ((const struct decoded *)p)->scale, sizeof s->scale);
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
 * words. Word i of part g is word i % words of the part's sub-block i / words.
 */
struct parts {
	int parts, subs, words;
};

INLINE struct parts parts_of(int type)
{
	switch (type) {
	case QN_Q4_K: case QN_Q5_K:
		return (struct parts){4, 2, 8};
	case QN_Q6_K:
		return (struct parts){4, 4, 4};
	case QN_IQ4_XS:
		return (struct parts){8, 1, 8};
	case QN_TQ2_0:
		return (struct parts){2, 4, 8};
	case QN_IQ2_XS: case QN_IQ2_S: case QN_IQ1_M:
		return (struct parts){16, 1, 4};
	case QN_IQ2_XXS: case QN_IQ3_XXS: case QN_IQ3_S: case QN_IQ1_S: case QN_TQ1_0:
		return (struct parts){8, 1, 8};
	default: /* Q2_K, Q3_K */
		return (struct parts){2, 8, 4};
	}
}

/* Which of the super-block's sub-blocks is sub-block j of part g. */
INLINE int sub_of(int type, int g, int j)
{
	if (type == QN_Q6_K) /* a part has every second one of a half, for they share lines */
		return g / 2 * 8 + g % 2 + 2 * j;
	return g * parts_of(type).subs + j;
}

/* Word i, constant, of part g. */
INLINE bytes super_word(int type, const void *p, int g, int i)
{
	if (is_coded(type))
		return bytes_load(((const struct decoded *)p)->word[g * parts_of(type).words + i]);
	switch (type) {
	case QN_Q4_K:
		return field(&((const struct x16_q4k *)p)->qs[8 * g + i % 8], 4 * (i / 8), 4);
	case QN_Q5_K: {
		const struct x16_q5k *q = p;

		return with_field(field(&q->part[g].qs[i % 8], 4 * (i / 8), 4), &q->part[g].qh[i / 8], i % 8, 1, 4);
	}
	case QN_Q6_K: {
		const struct x16_q6k *q = p;
		const int j = i / 4, word = 4 * g + i % 4;

		return with_field(field(&q->word[word].lo[j % 2], 4 * (j / 2), 4), &q->word[word].hi, 2 * j, 2, 4);
	}
	case QN_Q2_K:
		return field(&((const struct x16_q2k *)p)->qs[8 * g + i % 8], 2 * (i / 8), 2);
	case QN_TQ2_0:
		return field(&((const struct x16_tq2_0 *)p)->qs[8 * g + i % 8], 2 * (i / 8), 2);
	case QN_Q3_K: {
		const struct x16_q3k *q = p;

		return with_field(field(&q->half[g].qs[i % 8], 2 * (i / 8), 2), &q->half[g].qh[i / 8], i % 8, 1, 2);
	}
	default: /* IQ4_XS */
		return bytes_iq4(field(&((const struct x16_iq4xs *)p)->qs[4 * g + i % 4], 4 * (i / 4), 4));
	}
}

INLINE int super_bytes(int type)
{
	if (is_coded(type))
		return coded_bytes(type);
	switch (type) {
	case QN_Q4_K: return sizeof(struct x16_q4k);
	case QN_Q5_K: return sizeof(struct x16_q5k);
	case QN_Q6_K: return sizeof(struct x16_q6k);
	case QN_Q2_K: return sizeof(struct x16_q2k);
	case QN_Q3_K: return sizeof(struct x16_q3k);
	case QN_TQ2_0: return sizeof(struct x16_tq2_0);
	default: return sizeof(struct x16_iq4xs);
	}
}

/* d of a super-block's rows; dmin, where there is one, follows it. */
INLINE const uint16_t *super_d(int type, const void *p)
{
	switch (type) {
	case QN_Q4_K: return ((const struct x16_q4k *)p)->d;
	case QN_Q5_K: return ((const struct x16_q5k *)p)->d;
	case QN_Q6_K: return ((const struct x16_q6k *)p)->d;
	case QN_Q2_K: return ((const struct x16_q2k *)p)->d;
	case QN_Q3_K: return ((const struct x16_q3k *)p)->d;
	case QN_TQ2_0: return ((const struct x16_tq2_0 *)p)->d;
	default: return ((const struct x16_iq4xs *)p)->d;
	}
}

/* Word i of a block of 32 weights: its lines, and its line of fifth bits. i is constant. */
INLINE bytes small_word(int type, const x16_line *qs, const x16_line *qh, int i)
{
	switch (type) {
	case QN_Q8_0:
		return bytes_load(&qs[i]);
	case QN_IQ4_NL:
		return bytes_iq4(field(&qs[i % 4], 4 * (i / 4), 4));
	case QN_MXFP4:
		return bytes_mxfp4(field(&qs[i % 4], 4 * (i / 4), 4));
	case QN_Q5_0: case QN_Q5_1:
		return with_field(field(&qs[i % 4], 4 * (i / 4), 4), qh, i, 1, 4);
	default:
		return field(&qs[i % 4], 4 * (i / 4), 4);
	}
}

/* Scales of block j of a group. */
INLINE floats small_d(int type, const uint16_t *d, int j)
{
	return type == QN_MXFP4 ? floats_e8m0((const uint8_t *)d + j * QN_PANEL) : floats_f16(d + j * QN_PANEL);
}

#endif
