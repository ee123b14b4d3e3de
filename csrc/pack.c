/*
 * pack.c - GGUF rows into panels of 16 (x16.h). Every function takes one block of each of the 16
 * rows; a row that does not exist is a block of zeros.
 *
 * Nibbles and bit pairs that GGUF already pairs up in a byte stay paired: most of the work is to
 * move 32-bit words. Runs at load, and for weights that are used where they lie in the file.
 */
#include <assert.h>
#include <string.h>

#include "blocks.h"
#include "fp16.h"
#include "x16.h"

/* The 16 rows being packed: row r's block i is at base + r * stride + i * bytes. */
struct rows {
	const uint8_t *base;
	int64_t stride;
	int n;
};

static const uint8_t zeros[QK_K]; /* the largest block has 210 bytes */

static const void *block(const struct rows *s, int r, int64_t i, size_t bytes)
{
	return r < s->n ? s->base + r * s->stride + i * (int64_t)bytes : zeros;
}

static int finite16(uint16_t h)
{
	return (h & 0x7c00) != 0x7c00;
}

/* Bits `bit` of 4 bytes of b, as bits g of the bytes of a line. */
static void gather_bits(uint8_t line[4], const uint8_t *b, int bit, int g)
{
	for (int t = 0; t < 4; t++)
		line[t] |= (uint8_t)((b[t] >> bit & 1) << g);
}

/* The 6-bit scales and minimums of row r's block of Q4_K or Q5_K. sh starts as zeros. */
static void pack_scales(uint8_t sl[8][QN_PANEL], uint8_t sh[4][QN_PANEL], const uint8_t scales[12], int r)
{
	for (int j = 0; j < 8; j++) {
		uint8_t sc, mn;

		q4k_scale(scales, j, &sc, &mn);
		sl[j][r] = (uint8_t)((sc & 15) | (mn & 15) << 4);
		sh[j / 2][r] |= (uint8_t)((sc >> 4 | mn >> 4 << 2) << 4 * (j % 2));
	}
}

static int pack_q4k(struct x16_q4k *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	memset(p->sh, 0, sizeof p->sh);
	for (int r = 0; r < QN_PANEL; r++) {
		const struct q4k *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 32; l++)
			memcpy(p->qs[l][r], b->qs + 4 * l, 4);
		pack_scales(p->sl, p->sh, b->scales, r);
		p->d[r] = b->d;
		p->dmin[r] = b->dmin;
		ok &= finite16(b->d) & finite16(b->dmin);
	}
	return ok;
}

static int pack_q5k(struct x16_q5k *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	memset(p->sh, 0, sizeof p->sh);
	memset(p->part, 0, sizeof p->part);
	for (int r = 0; r < QN_PANEL; r++) {
		const struct q5k *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 32; l++)
			memcpy(p->part[l / 8].qs[l % 8][r], b->qs + 4 * l, 4);
		for (int j = 0; j < 8; j++)
			for (int g = 0; g < 8; g++)
				gather_bits(p->part[j / 2].qh[j % 2][r], b->qh + 4 * g, j, g);
		pack_scales(p->sl, p->sh, b->scales, r);
		p->d[r] = b->d;
		p->dmin[r] = b->dmin;
		ok &= finite16(b->d) & finite16(b->dmin);
	}
	return ok;
}

static int pack_q6k(struct x16_q6k *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	for (int r = 0; r < QN_PANEL; r++) {
		const struct q6k *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 32; l++)
			memcpy(p->word[l / 16 * 8 + l % 8].lo[l / 8 % 2][r], b->ql + 4 * l, 4);
		for (int l = 0; l < 16; l++)
			memcpy(p->word[l].hi[r], b->qh + 4 * l, 4);
		for (int j = 0; j < 16; j++)
			p->sc[j][r] = b->scales[j];
		p->d[r] = b->d;
		ok &= finite16(b->d);
	}
	return ok;
}

static int pack_q2k(struct x16_q2k *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	for (int r = 0; r < QN_PANEL; r++) {
		const struct q2k *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 16; l++)
			memcpy(p->qs[l][r], b->qs + 4 * l, 4);
		for (int j = 0; j < 16; j++)
			p->sl[j][r] = b->scales[j];
		p->d[r] = b->d;
		p->dmin[r] = b->dmin;
		ok &= finite16(b->d) & finite16(b->dmin);
	}
	return ok;
}

static int pack_q3k(struct x16_q3k *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	memset(p->sl, 0, sizeof p->sl);
	memset(p->sh, 0, sizeof p->sh);
	memset(p->half, 0, sizeof p->half);
	for (int r = 0; r < QN_PANEL; r++) {
		const struct q3k *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 16; l++)
			memcpy(p->half[l / 8].qs[l % 8][r], b->qs + 4 * l, 4);
		for (int j = 0; j < 8; j++)
			for (int g = 0; g < 8; g++)
				gather_bits(p->half[j / 4].qh[j % 4][r], b->hmask + 4 * g, j, g);
		for (int j = 0; j < 16; j++) {
			const unsigned sc = (unsigned)(q3k_scale(b->scales, j) + 32);

			p->sl[j % 8][r] |= (uint8_t)((sc & 15) << 4 * (j / 8));
			p->sh[j % 4][r] |= (uint8_t)((sc >> 4) << 2 * (j / 4));
		}
		p->d[r] = b->d;
		ok &= finite16(b->d);
	}
	return ok;
}

static int pack_iq4xs(struct x16_iq4xs *p, const struct rows *s, int64_t i)
{
	int ok = 1;

	memset(p->sl, 0, sizeof p->sl);
	memset(p->sh, 0, sizeof p->sh);
	for (int r = 0; r < QN_PANEL; r++) {
		const struct iq4_xs *b = block(s, r, i, sizeof *b);

		for (int l = 0; l < 32; l++)
			memcpy(p->qs[l][r], b->qs + 4 * l, 4);
		for (int j = 0; j < 8; j++) {
			const unsigned sc = (unsigned)(iq4xs_scale(b, j) + 32);

			p->sl[j / 2][r] |= (uint8_t)((sc & 15) << 4 * (j % 2));
			p->sh[j / 4][r] |= (uint8_t)((sc >> 4) << 2 * (j % 4));
		}
		p->d[r] = b->d;
		ok &= finite16(b->d);
	}
	return ok;
}

/* Where the parts of a block of 32 weights lie: bytes from its start, -1 for none. */
struct small {
	int bytes, m, qh, qs, n_qs;
};

static struct small small_of(int type)
{
	switch (type) {
	case QN_Q4_1:
		return (struct small){sizeof(struct q4_1), 2, -1, 4, 16};
	case QN_Q5_0:
		return (struct small){sizeof(struct q5_0), -1, 2, 6, 16};
	case QN_Q5_1:
		return (struct small){sizeof(struct q5_1), 2, 4, 8, 16};
	case QN_Q8_0:
		return (struct small){sizeof(struct q8_0), -1, -1, 2, 32};
	default: /* Q4_0, IQ4_NL */
		return (struct small){sizeof(struct q4_0), -1, -1, 2, 16};
	}
}

/* A group of n blocks of 32 weights, blocks i .. i + n - 1 of each row. */
static int pack_group(int type, uint8_t *p, const struct rows *s, int64_t i, int n)
{
	const struct small f = small_of(type);
	x16_line *qs = (x16_line *)p;
	x16_line *qh = qs + n * f.n_qs / 4;
	uint16_t(*d)[QN_PANEL] = (uint16_t(*)[QN_PANEL])(p + x16_line_bytes(type, n));
	uint16_t(*m)[QN_PANEL] = d + n;
	int ok = 1;

	if (f.qh >= 0)
		memset(qh, 0, sizeof *qh * (size_t)n);
	for (int j = 0; j < n; j++) {
		for (int r = 0; r < QN_PANEL; r++) {
			/* A row of zeros has d = 0, which also silences Q8_0's offset. */
			const uint8_t *b = block(s, r, i + j, (size_t)f.bytes);

			for (int l = 0; l < f.n_qs / 4; l++)
				for (int t = 0; t < 4; t++)
					qs[j * f.n_qs / 4 + l][r][t] =
						b[f.qs + 4 * l + t] ^ (type == QN_Q8_0 ? 0x80 : 0);
			if (f.qh >= 0)
				for (int k = 0; k < QK; k++)
					qh[j][r][k % 4] |= (uint8_t)((b[f.qh + k / 8] >> k % 8 & 1) << k / 4);
			memcpy(&d[j][r], b, 2);
			ok &= finite16(d[j][r]);
			if (f.m >= 0) {
				memcpy(&m[j][r], b + f.m, 2);
				ok &= finite16(m[j][r]);
			}
		}
	}
	return ok;
}

static int pack_f32(uint32_t *p, const struct rows *s, int64_t n_in)
{
	int ok = 1;

	for (int r = 0; r < QN_PANEL; r++) {
		const uint32_t *w = (const uint32_t *)(s->base + r * s->stride);

		for (int64_t k = 0; k < n_in; k++) {
			const uint32_t u = r < s->n ? w[k] : 0;

			ok &= (u & 0x7f800000) != 0x7f800000;
			p[k * QN_PANEL + r] = u;
		}
	}
	return ok;
}

/* F16 and BF16: exp is the exponent's mask. */
static int pack_16(uint16_t *p, const struct rows *s, int64_t n_in, uint16_t exp)
{
	int ok = 1;

	for (int r = 0; r < QN_PANEL; r++) {
		const uint16_t *w = (const uint16_t *)(s->base + r * s->stride);

		for (int64_t k = 0; k < n_in; k++) {
			const uint16_t u = r < s->n ? w[k] : 0;

			ok &= (u & exp) != exp;
			p[k * QN_PANEL + r] = u;
		}
	}
	return ok;
}

#define SUPER(T) \
	for (int64_t i = 0; i < n_in / QK_K; i++) \
		ok &= pack_##T((struct x16_##T *)panel + i, &s, i); \
	break

int qn_pack(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in)
{
	const struct rows s = {rows, (int64_t)qn_row_bytes(type, n_in), n_rows};
	int ok = 1;

	if (!qn_type_ok(type, n_in) || n_rows < 1 || n_rows > QN_PANEL)
		return QN_EINVAL;
	switch (type) {
	case QN_F32:
		ok = pack_f32(panel, &s, n_in);
		break;
	case QN_F16:
		ok = pack_16(panel, &s, n_in, 0x7c00);
		break;
	case QN_BF16:
		ok = pack_16(panel, &s, n_in, 0x7f80);
		break;
	case QN_Q2_K: SUPER(q2k);
	case QN_Q3_K: SUPER(q3k);
	case QN_Q4_K: SUPER(q4k);
	case QN_Q5_K: SUPER(q5k);
	case QN_Q6_K: SUPER(q6k);
	case QN_IQ4_XS: SUPER(iq4xs);
	default: {
		uint8_t *p = panel;

		for (int64_t i = 0; i < n_in / QK; i += X16_GROUP) {
			const int n = (int)(n_in / QK - i < X16_GROUP ? n_in / QK - i : X16_GROUP);

			ok &= pack_group(type, p, &s, i, n);
			p += n * QN_PANEL * small_of(type).bytes;
		}
	}
	}
	return ok ? QN_OK : QN_ENOTFINITE;
}
