/* coded.c - blocks of codes to integers and scales: the specification, from the formulas of blocks.h. */
#include <string.h>

#include "coded.h"
#include "fp16.h"
#include "kernels.h"

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

void coded_block(struct coded *c, int type, const void *block)
{
	switch (type) {
#define CODED(name, NAME, run)  \
	case QN_##NAME:         \
		name(c, block); \
		break;
	QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
	}
}
