/* codebook.c - blocks of codes to integers and scales: the specification, from the formulas of format/blocks.h. */
#include <string.h>

#include "format/codebook.h"
#include "format/ik_levels.h"
#include "kernels.h"
#include "math/fp16.h"

/* Byte t of an entry of a codebook. */
static int level(uint64_t entry, int t)
{
	return (int)(entry >> 8 * t & 0xff);
}

/* Eight signs of which seven are given: an even number of them is set. */
static int signs_of7(int s)
{
	return s | (__builtin_popcount((unsigned)s) & 1) << 7;
}

/* -x where bit t of signs is set. */
static int8_t with_sign(int x, int signs, int t)
{
	return (int8_t)(signs >> t & 1 ? -x : x);
}

static uint32_t u32_at(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int nibble(const uint8_t *p, int i)
{
	return p[i / 2] >> 4 * (i % 2) & 15;
}

static void iq2_xxs(struct coded *c, const struct iq2_xxs *b)
{
	for (int k = 0; k < QK_K; k++) {
		const uint8_t *sub = b->qs + k / 32 * 8;
		const int i = k % 32 / 8, signs = signs_of7(u32_at(sub + 4) >> 7 * i & 127);

		c->q[k] = with_sign(level(qn_iq2_xxs_grid[sub[i]], k % 8), signs, k % 8);
		c->scale[k / 16] = (int8_t)(2 * (u32_at(sub + 4) >> 28) + 1);
	}
	c->d = f32_of_f16(b->d) / 8;
}

static void iq2_xs(struct coded *c, const struct iq2_xs *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int code = b->qs[k / 8];

		c->q[k] = with_sign(level(qn_iq2_xs_grid[code & 511], k % 8), signs_of7(code >> 9), k % 8);
		c->scale[k / 16] = (int8_t)(2 * nibble(b->scales, k / 16) + 1);
	}
	c->d = f32_of_f16(b->d) / 8;
}

static void iq2_s(struct coded *c, const struct iq2_s *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 8, code = b->qs[i] | (b->qh[i / 4] >> 2 * (i % 4) & 3) << 8;

		c->q[k] = with_sign(level(qn_iq2_s_grid[code], k % 8), b->signs[i], k % 8);
		c->scale[k / 16] = (int8_t)(2 * nibble(b->scales, k / 16) + 1);
	}
	c->d = f32_of_f16(b->d) / 8;
}

static void iq3_xxs(struct coded *c, const struct iq3_xxs *b)
{
	for (int k = 0; k < QK_K; k++) {
		const uint32_t sub = u32_at(b->signs + k / 32 * 4);
		const int signs = signs_of7(sub >> 7 * (k % 32 / 8) & 127);

		c->q[k] = with_sign(level(qn_iq3_xxs_grid[b->qs[k / 4]], k % 4), signs, k % 8);
		c->scale[k / 16] = (int8_t)(2 * (sub >> 28) + 1);
	}
	c->d = f32_of_f16(b->d) / 4;
}

static void iq3_s(struct coded *c, const struct iq3_s *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 4, code = b->qs[i] | (b->qh[i / 8] >> i % 8 & 1) << 8;

		c->q[k] = with_sign(level(qn_iq3_s_grid[code], k % 4), b->signs[k / 8], k % 8);
		c->scale[k / 16] = (int8_t)(2 * nibble(b->scales, k / 32) + 1);
	}
	c->d = f32_of_f16(b->d);
}

static void iq1_s(struct coded *c, const struct iq1_s *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 8, qh = b->qh[k / 32], code = b->qs[i] | (qh >> 3 * (i % 4) & 7) << 8;

		c->q[k] = (int8_t)(8 * (level(qn_iq1_grid[code], k % 8) - 1) + (qh >> 15 ? -1 : 1));
		c->scale[k / 16] = (int8_t)(2 * (qh >> 12 & 7) + 1);
	}
	c->d = f32_of_f16(b->d) / 8;
}

static void iq1_m(struct coded *c, const struct iq1_m *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 8, qh = nibble(b->qh, i), code = b->qs[i] | (qh & 7) << 8;
		const uint8_t *half = b->scales + k / 64 * 2; /* of the scales of 64 weights */

		c->q[k] = (int8_t)(8 * (level(qn_iq1_grid[code], k % 8) - 1) + (qh >> 3 ? -1 : 1));
		c->scale[k / 16] = (int8_t)(2 * ((half[0] | half[1] << 8) >> 3 * (k / 16 % 4) & 7) + 1);
	}
	c->d = f32_of_f16(iq1m_d(b->scales)) / 8;
}

static void tq1_0(struct coded *c, const struct tq1_0 *b)
{
	static const int pow3[5] = {1, 3, 9, 27, 81};

	for (int k = 0; k < QK_K; k++) {
		const int byte = k < 160 ? b->qs[k % 32] : k < 240 ? b->qs[32 + k % 16] : b->qh[k % 4];
		const int digit = k < 160 ? k / 32 : k < 240 ? (k - 160) / 16 : (k - 240) / 4;

		c->q[k] = (int8_t)((byte * pow3[digit] % 256 * 3 >> 8) - 1);
		c->scale[k / 16] = 1;
	}
	c->d = f32_of_f16(b->d);
}

#define LEVEL(x) x,
static const int8_t ik2[] = {IK2_LEVELS(LEVEL)}, ik3[] = {IK3_LEVELS(LEVEL)};
static const int8_t ik5[] = {IK5_LEVELS(LEVEL)}, ik6[] = {IK6_LEVELS(LEVEL)};
#undef LEVEL

/* The low bits of weight k as Q2_K, Q4_K and IQ4_XS keep them. */
static int crumb(const uint8_t *qs, int k)
{
	return qs[k / 128 * 32 + k % 32] >> 2 * (k % 128 / 32) & 3;
}

static int nibble64(const uint8_t *qs, int k)
{
	return qs[k / 64 * 32 + k % 32] >> 4 * (k / 32 % 2) & 15;
}

static int nibble32(const uint8_t *qs, int k)
{
	return qs[k / 32 * 16 + k % 16] >> 4 * (k / 16 % 2) & 15;
}

/* Bit k / 32 of byte k % 32: the bit above those. */
static int above(const uint8_t *qh, int k)
{
	return qh[k % 32] >> k / 32 & 1;
}

/* Scale j of IQ4_K and IQ5_K. */
static int scale6(const uint8_t *high, const uint8_t *low, int j)
{
	return (nibble(low, j) | (high[j / 4] >> 2 * (j % 4) & 3) << 4) - 32;
}

static void iq2_k(struct coded *c, const struct iq2_k *b)
{
	for (int k = 0; k < QK_K; k++) {
		c->q[k] = (int8_t)(ik2[crumb(b->qs, k)] + 5 * (b->extra >> k / 16 & 1));
		c->scale[k / 16] = (int8_t)(nibble(b->scales, k / 16) - 8);
	}
	c->d = f32_of_f16(b->d);
}

static void iq3_k(struct coded *c, const struct iq3_k *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int j = k / 16, s = 2 * nibble(b->scales, j) + 1;

		c->q[k] = (int8_t)(ik3[crumb(b->qs, k) | above(b->qh, k) << 2] + 4 * (b->extra >> j & 1));
		c->scale[j] = (int8_t)(b->signs >> j & 1 ? -s : s);
	}
	c->d = f32_of_f16(b->d);
}

static void iq4_k(struct coded *c, const struct iq4_k *b)
{
	for (int k = 0; k < QK_K; k++) {
		c->q[k] = (int8_t)(qn_iq4_values[nibble32(b->qs, k)] + 4 * (b->extra >> k / 16 & 1));
		c->scale[k / 16] = (int8_t)scale6(b->scales_h, b->scales, k / 16);
	}
	c->d = f32_of_f16(b->d);
}

static void iq5_k(struct coded *c, const struct iq5_k *b)
{
	for (int k = 0; k < QK_K; k++) {
		c->q[k] = (int8_t)(ik5[nibble64(b->qs, k) | above(b->qh, k) << 4] + 2 * (b->extra >> k / 16 & 1));
		c->scale[k / 16] = (int8_t)scale6(b->scales_h, b->scales, k / 16);
	}
	c->d = f32_of_f16(b->d);
}

static void iq6_k(struct coded *c, const struct iq6_k *b)
{
	for (int k = 0; k < QK_K; k++) {
		c->q[k] = (int8_t)(ik6[nibble64(b->qs, k) | crumb(b->qh, k) << 4] + (b->extra >> k / 16 & 1));
		c->scale[k / 16] = b->scales[k / 16];
	}
	c->d = f32_of_f16(b->d);
}

static void iq2_ks(struct coded *c, const struct iq2_ks *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int j = k / 32;

		c->q[k] = (int8_t)(ik2[crumb(b->qs, k)] + 5 * (b->extra >> j & 1));
		c->scale[k / 16] = (int8_t)((nibble(b->scales, j) | (b->extra >> (8 + j) & 1) << 4) - 16);
	}
	c->d = 1;
}

static void iq2_kl(struct coded *c, const struct iq2_kl *b)
{
#define PAIR(x, y) {x, y},
	static const int8_t pairs[32][2] = {IQ2_KL_PAIRS(PAIR)};
#undef PAIR

	for (int k = 0; k < QK_K; k++) {
		const int j = k / 32, i = k % 32 / 2;
		const int code = (b->qs[j / 2 * 16 + i] >> 4 * (j % 2) & 15) | (b->qh[i] >> j & 1) << 4;

		c->q[k] = pairs[code][k % 2];
		c->scale[k / 16] =
			(int8_t)(((b->scales[j % 4] >> 4 * (j / 4) & 15) | (b->scales_h >> 2 * j & 3) << 4) - 32);
	}
	c->d = 1;
}

static void iq3_ks(struct coded *c, const struct iq3_ks *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int j = k / 32;

		c->q[k] = (int8_t)(ik3[crumb(b->qs, k) | above(b->qh, k) << 2] + 4 * (b->extra >> (8 + j) & 1));
		c->scale[k / 16] =
			(int8_t)(((b->scales[j % 4] >> 4 * (j / 4) & 15) | (b->extra >> j & 1) << 4) - 16);
	}
	c->d = 1;
}

static void iq4_ks(struct coded *c, const struct iq4_ks *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int s = b->scales[k / 32];

		c->q[k] = (int8_t)(qn_iq4_values[nibble32(b->qs, k)] + 4 * (s & 1));
		c->scale[k / 16] = (int8_t)((s & 254) - 127);
	}
	c->d = 1;
}

static void iq4_kss(struct coded *c, const struct iq4_kss *b)
{
	struct iq4_ks plain = {0};

	for (int i = 0; i < 64; i++) {
		const int x = b->qs[i] & 0xfffe, codes = x ^ x >> 1;

		plain.scales[i / 8] |= (uint8_t)((b->qs[i] & 1) << i % 8);
		plain.qs[2 * i] = (uint8_t)codes;
		plain.qs[2 * i + 1] = (uint8_t)(codes >> 8);
	}
	iq4_ks(c, &plain);
}

static void iq5_ks(struct coded *c, const struct iq5_ks *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int s = b->scales[k / 32];

		c->q[k] = (int8_t)(ik5[nibble64(b->qs, k) | above(b->qh, k) << 4] + 2 * (s & 1));
		c->scale[k / 16] = (int8_t)((s & 254) - 127);
	}
	c->d = 1;
}

/* Weight t of the sequence that a code of a trellis type starts. */
static int trellis(int code, int t)
{
	uint32_t x = 4096u + (uint32_t)code;

	for (int i = 0; i <= t; i++)
		x *= QN_TRELLIS;
	return (int)((x & 63) + (x >> 8 & 63) + (x >> 16 & 63) + (x >> 24 & 63)) - 126;
}

static void iq1_kt(struct coded *c, const struct iq1_kt *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 8, sh = b->sh[k / 32];
		const int code = b->ql[i] | (b->qh[i % 16] >> 4 * (i / 16) & 15) << 8 | (sh >> (4 + i % 4) & 1) << 12;

		c->q[k] = (int8_t)trellis(code, k % 8);
		c->scale[k / 16] = qn_iq4_values[sh & 15];
	}
	c->d = 1;
}

static void iq2_kt(struct coded *c, const struct iq2_kt *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int j = k / 32;

		c->q[k] = (int8_t)trellis(b->ql[k / 8], k % 8);
		c->scale[k / 16] = qn_iq4_values[b->scales[j % 4] >> 4 * (j / 4) & 15];
	}
	c->d = 1;
}

static void iq3_kt(struct coded *c, const struct iq3_kt *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int j = k / 32, q = trellis(b->ql[k / 8], k % 8);

		c->q[k] = with_sign(q < 0 ? -q : q, above(b->qh, k), 0);
		c->scale[k / 16] = (int8_t)(b->scales[j % 4] >> 4 * (j / 4) & 15);
	}
	c->d = 1;
}

static void iq4_kt(struct coded *c, const struct iq4_kt *b)
{
	for (int k = 0; k < QK_K; k++) {
		const int i = k / 4;
		const uint32_t sh = b->sh[i / 8];
		const int code = b->ql[i] | (b->qh[i % 32] >> 4 * (i / 32) & 15) << 8 |
		                 (int)(sh >> (8 + 3 * (i % 8)) & 7) << 12 | (int)(sh & 1) << 15;

		c->q[k] = (int8_t)trellis(code, k % 4);
		c->scale[k / 16] = (int8_t)((int)(sh >> 1 & 127) - 64);
	}
	c->d = 1;
}

float coded_head(int type, const void *row)
{
	uint16_t h;
	float f;

	if (type_row(type).head == sizeof h) {
		memcpy(&h, row, sizeof h);
		f = f32_of_f16(h);
	} else {
		memcpy(&f, row, sizeof f);
	}
	return f * head_factor(type);
}

void coded_block(struct coded *c, int type, const void *block)
{
	switch (type) {
#define CODED(name, NAME, ...)  \
	case QN_##NAME:         \
		name(c, block); \
		break;
	QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
	}
}
