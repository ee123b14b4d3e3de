/* pack.h - codes and scales of a block to its bits. */
#ifndef QN_ENCODE_PACK_H
#define QN_ENCODE_PACK_H

#include <string.h>

#include "format/blocks.h"

/*
 * A block before it is packed: halves, scales and minimums of its runs as they are kept (those with a sign from their
 * least on, but Q6_K's), and codes from 0 on.
 */
struct coded_block {
	uint16_t d, m;
	uint8_t scale[16], min[16];
	uint8_t q[QK_K];
};

/* Two bits of each weight as Q2_K and Q3_K have them. */
static inline void pack_2_bits(uint8_t qs[64], const uint8_t q[QK_K])
{
	for (int h = 0; h < 2; h++)
		for (int l = 0; l < 32; l++) {
			const uint8_t *p = q + 128 * h + l;

			qs[32 * h + l] = (uint8_t)((p[0] & 3) | (p[32] & 3) << 2 | (p[64] & 3) << 4 | (p[96] & 3) << 6);
		}
}

/* Bit `bit` of each weight, those 32 apart in one byte. */
static inline void pack_bit(uint8_t h[32], const uint8_t q[QK_K], int bit)
{
	for (int l = 0; l < 32; l++) {
		h[l] = 0;
		for (int j = 0; j < 8; j++)
			h[l] |= (uint8_t)((q[32 * j + l] >> bit & 1) << j);
	}
}

/* Four bits of each weight as Q4_K and Q5_K have them. */
static inline void pack_nibbles(uint8_t qs[128], const uint8_t q[QK_K])
{
	for (int i = 0; i < 128; i++)
		qs[i] = (uint8_t)((q[i / 32 * 64 + i % 32] & 15) | (q[i / 32 * 64 + i % 32 + 32] & 15) << 4);
}

/* Four bits of each of 32 weights, and the fifth. */
static inline void pack_halves(uint8_t qs[16], const uint8_t q[QK])
{
	for (int i = 0; i < 16; i++)
		qs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static inline void pack_fifths(uint8_t qh[4], const uint8_t q[QK])
{
	memset(qh, 0, 4);
	for (int i = 0; i < QK; i++)
		qh[i / 8] |= (uint8_t)((q[i] >> 4) << i % 8);
}

static inline void pack_scales_k4(uint8_t p[12], const struct coded_block *c)
{
	for (int j = 0; j < 4; j++) {
		const int s = c->scale[j + 4], m = c->min[j + 4];

		p[j] = (uint8_t)(c->scale[j] | (s >> 4) << 6);
		p[j + 4] = (uint8_t)(c->min[j] | (m >> 4) << 6);
		p[j + 8] = (uint8_t)((s & 15) | (m & 15) << 4);
	}
}

static inline void pack_q2k(struct q2k *y, const struct coded_block *c)
{
	y->d = c->d;
	y->dmin = c->m;
	for (int j = 0; j < 16; j++)
		y->scales[j] = (uint8_t)(c->scale[j] | c->min[j] << 4);
	pack_2_bits(y->qs, c->q);
}

static inline void pack_scales_q3k(uint8_t p[12], const uint8_t scale[16])
{
	for (int j = 0; j < 4; j++) {
		p[8 + j] = 0;
		for (int k = 0; k < 4; k++)
			p[8 + j] |= (uint8_t)((scale[4 * k + j] >> 4) << 2 * k);
	}
	for (int j = 0; j < 8; j++)
		p[j] = (uint8_t)((scale[j] & 15) | (scale[j + 8] & 15) << 4);
}

static inline void pack_q3k(struct q3k *y, const struct coded_block *c)
{
	y->d = c->d;
	pack_scales_q3k(y->scales, c->scale);
	pack_bit(y->hmask, c->q, 2);
	pack_2_bits(y->qs, c->q);
}

static inline void pack_q4k(struct q4k *y, const struct coded_block *c)
{
	y->d = c->d;
	y->dmin = c->m;
	pack_scales_k4(y->scales, c);
	pack_nibbles(y->qs, c->q);
}

static inline void pack_q5k(struct q5k *y, const struct coded_block *c)
{
	y->d = c->d;
	y->dmin = c->m;
	pack_scales_k4(y->scales, c);
	pack_nibbles(y->qs, c->q);
	pack_bit(y->qh, c->q, 4);
}

static inline void pack_q6k(struct q6k *y, const struct coded_block *c)
{
	y->d = c->d;
	for (int j = 0; j < 16; j++)
		y->scales[j] = (int8_t)c->scale[j];
	for (int h = 0; h < 2; h++)
		for (int l = 0; l < 32; l++) {
			const uint8_t *p = c->q + 128 * h + l;

			y->ql[64 * h + l] = (uint8_t)((p[0] & 15) | (p[64] & 15) << 4);
			y->ql[64 * h + l + 32] = (uint8_t)((p[32] & 15) | (p[96] & 15) << 4);
			y->qh[32 * h + l] = (uint8_t)(p[0] >> 4 | (p[32] >> 4) << 2 | (p[64] >> 4) << 4 |
			                              (p[96] >> 4) << 6);
		}
}

/* Scale j of IQ4_XS, of 6 bits; all bits of scales begin as 0. */
static inline void put_scale_iq4_xs(struct iq4_xs *y, int j, int scale)
{
	y->scales_l[j / 2] |= (uint8_t)((scale & 15) << 4 * (j % 2));
	y->scales_h |= (uint16_t)(scale >> 4 << 2 * j);
}

static inline void pack_iq4_xs(struct iq4_xs *y, const struct coded_block *c)
{
	y->d = c->d;
	y->scales_h = 0;
	memset(y->scales_l, 0, sizeof y->scales_l);
	for (int j = 0; j < 8; j++) {
		put_scale_iq4_xs(y, j, c->scale[j]);
		pack_halves(y->qs + 16 * j, c->q + 32 * j);
	}
}

#endif
