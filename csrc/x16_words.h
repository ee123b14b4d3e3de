/*
 * x16_words.h - takes words and scales out of packed panels, for kernels of all widths. Not
 * compiled as it stands: see mm_x16.h for the vector operations it needs.
 */
#ifndef QN_X16_WORDS_H
#define QN_X16_WORDS_H

#include "blocks.h"
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

		return bytes_or(field(&q->qs[8 * g + i % 8], 4 * (i / 8), 4, 0),
		                field(&q->qh[2 * g + i / 8], i % 8, 1, 4));
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

		return bytes_or(field(&q->qs[8 * g + i % 8], 2 * (i / 8), 2, 0),
		                field(&q->qh[4 * g + i / 8], i % 8, 1, 2));
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

#endif
