/*
 * matmul.c - products of packed panels and activations: the specification.
 *
 * Quantized types are exact integers up to the scales. In a super-block of 256 weights
 *
 *	S = sum over sub-blocks j of scale[j] * sum(q * x)		int32
 *
 * and y grows by one or two fma:
 *
 *	Q2_K Q4_K Q5_K    y = fma(-(dmin * dx), M, y), M = sum of minimum[j] * sum(x)
 *	                  y = fma(d * dx, S, y)
 *	Q3_K Q6_K IQ4_XS  y = fma(d * dx, S - offset * sum of scale[j] * sum(x), y)
 *	TQ2_0, format/codebook.h    the same; the scales of TQ2_0 and TQ1_0 are 1
 *
 * Bounds: |x| <= 127, and the largest S is IQ4_XS's, 256 * 32 * 255 * 127 = 2.7e8 < 2^31. The types of
 * format/codebook.h come after it, 256 * 31 * (64 + 62) * 127 = 1.3e8, but for some of ik_llama.cpp's: 256 * 128 * 128
 * * 127 = 5.4e8.
 *
 * Types of small blocks have a float scale for each 32 weights or more, as their activations do: dx[j]. NVFP4 has one
 * for each 16, and two such sums for a dx.
 *
 *	f = d * sum((q - offset) * x), then f = fma(m, sum(x), f) where there is an m
 *	y = fma(f, dx, y)
 *
 * Floats: two chains of fma, even and odd columns, added at the end.
 */
#include <math.h>
#include <string.h>

#include "format/blocks.h"
#include "format/codebook.h"
#include "format/panel.h"
#include "format/twelve.h"
#include "kernels.h"
#include "math/fp16.h"
#include "scalar/set.h"

/* One super-block of one row, unpacked. */
struct super {
	int16_t q[QK_K];                /* without their offset: a type has that or minimums */
	int16_t scale[16], minimum[16]; /* of each 16 weights, even where a sub-block is 32 */
	float d, dmin;
};

/* Weight k's nibble in lines that hold word i and word i + run in the two nibbles. */
static int nibble(const x16_line *lines, int k, int r, int run)
{
	const int i = k / 4, pair = i / (2 * run), line = pair * run + i % run;

	return lines[line][r][k % 4] >> 4 * (i / run % 2) & 15;
}

/* Weight k's two bits in lines that hold words i, i + 8, i + 16, i + 24 of each half. */
static int twobit(const x16_line *lines, int k, int r)
{
	const int half = k / 128, i = k % 128 / 4;

	return lines[half * 8 + i % 8][r][k % 4] >> 2 * (i / 8) & 3;
}

/* Weight k's bit in lines that hold 32 weights each. */
static int onebit(const x16_line *lines, int k, int r)
{
	return lines[k / 32][r][k % 4] >> k % 32 / 4 & 1;
}

/* Weight k's six bits in lines that hold four words by threes. */
static int sixbit(const x16_line (*lines)[3], int k, int r)
{
	const x16_line *l = lines[k / 16];
	const int i = k % 16 / 4, t = k % 4;

	if (i < 3)
		return l[i][r][t] & 63;
	return l[0][r][t] >> 6 | l[1][r][t] >> 6 << 2 | l[2][r][t] >> 6 << 4;
}

static void unpack_scales(struct super *s, const uint8_t sl[8][QN_PANEL], const uint8_t sh[4][QN_PANEL], int r)
{
	for (int j = 0; j < 16; j++) {
		const int lo = sl[j / 2][r], hi = sh[j / 4][r] >> 4 * (j / 2 % 2);

		s->scale[j] = (int16_t)((lo & 15) | (hi & 3) << 4);
		s->minimum[j] = (int16_t)(lo >> 4 | (hi >> 2 & 3) << 4);
	}
}

/* A super-block of codes. */
static void unpack_coded(struct super *s, int type, const uint8_t *panel, int64_t b, int r)
{
	_Alignas(4) uint8_t block[256];
	struct coded c;

	coded_of_panel(type, block, panel + b * QN_PANEL * block_bytes(type), r);
	coded_block(&c, type, block);
	for (int k = 0; k < QK_K; k++)
		s->q[k] = c.q[k];
	for (int j = 0; j < 16; j++)
		s->scale[j] = c.scale[j];
	s->d = c.d;
}

static void unpack_q4k(struct super *s, const struct x16_q4k *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)nibble(p->qs, k, r, 8);
	unpack_scales(s, p->sl, p->sh, r);
	s->d = f32_of_f16(p->d[r]);
	s->dmin = f32_of_f16(p->dmin[r]);
}

static void unpack_q5k(struct super *s, const struct x16_q5k *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)(nibble(p->part[k / 64].qs, k % 64, r, 8) |
		                    onebit(p->part[k / 64].qh, k % 64, r) << 4);
	unpack_scales(s, p->sl, p->sh, r);
	s->d = f32_of_f16(p->d[r]);
	s->dmin = f32_of_f16(p->dmin[r]);
}

static void unpack_q6k(struct super *s, const struct x16_q6k *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)(sixbit(p->sub, k, r) - 32);
	for (int j = 0; j < 16; j++)
		s->scale[j] = p->sc[j][r];
}

static void unpack_q2k(struct super *s, const struct x16_q2k *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)twobit(p->qs, k, r);
	for (int j = 0; j < 16; j++) {
		s->scale[j] = p->sl[j][r] & 15;
		s->minimum[j] = p->sl[j][r] >> 4;
	}
	s->d = f32_of_f16(p->d[r]);
	s->dmin = f32_of_f16(p->dmin[r]);
}

static void unpack_q3k(struct super *s, const struct x16_q3k *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)((twobit(p->half[k / 128].qs, k % 128, r) |
		                     onebit(p->half[k / 128].qh, k % 128, r) << 2) - 4);
	for (int j = 0; j < 16; j++)
		s->scale[j] = (int16_t)(((p->sl[j % 8][r] >> 4 * (j / 8) & 15) |
		                         (p->sh[j % 4][r] >> 2 * (j / 4) & 3) << 4) - 32);
}

static void unpack_iq4_xs(struct super *s, const struct x16_iq4_xs *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = qn_iq4_values[nibble(p->qs, k, r, 4)];
	for (int j = 0; j < 16; j++) {
		const int i = j / 2;

		s->scale[j] = (int16_t)(((p->sl[i / 2][r] >> 4 * (i % 2) & 15) |
		                         (p->sh[i / 4][r] >> 2 * (i % 4) & 3) << 4) - 32);
	}
	s->d = f32_of_f16(p->d[r]);
}

static void unpack_tq2_0(struct super *s, const struct x16_tq2_0 *p, int r)
{
	for (int k = 0; k < QK_K; k++)
		s->q[k] = (int16_t)(twobit(p->qs, k, r) - 1);
	for (int j = 0; j < 16; j++)
		s->scale[j] = 1;
}

/* The d of row r and super-block b, apart from p, of `bytes`. */
static float d_apart(const uint8_t *p, size_t bytes, int64_t b, int r)
{
	return f32_of_f16(((const uint16_t *)(p + x16_d_at((int64_t)bytes, b)))[r]);
}

INLINE void unpack(struct super *s, int type, const void *panel, int64_t b, int r)
{
	const uint8_t *p = (const uint8_t *)panel + b * QN_PANEL * block_bytes(type) + x16_before(type, b);

	memset(s, 0, sizeof *s);
	switch (type) {
#define SUPER(name, NAME, ...)                                                             \
	case QN_##NAME:                                                                    \
		unpack_##name(s, (const void *)p, r);                                      \
		if (x16_d_apart(type))                                                     \
			s->d = d_apart(p, sizeof(struct x16_##name), b, r);                \
		return;
		QN_TYPES(QN_SKIP, QN_SKIP, SUPER, QN_SKIP)
#undef SUPER
	}
	unpack_coded(s, type, panel, b, r);
}

/* The sum of n products of weights and activations. */
INLINE int32_t dot(const int16_t *q, const int8_t *x, int n)
{
	int32_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += q[i] * x[i];
	return sum;
}

INLINE void mm_super(int type, float *out, const void *panel, const struct act8 *act, int64_t n_in,
                     int64_t n_act, int n)
{
	const int head = type_row(type).head;
	struct super s;

	memset(out, 0, sizeof *out * QN_PANEL * (size_t)n);
	for (int64_t b = 0; b < n_in / QK_K; b++) {
		for (int r = 0; r < QN_PANEL; r++) {
			unpack(&s, type, panel, b, r);
			if (head)
				s.d = coded_head(type, (const uint8_t *)panel +
				                               n_in / QK_K * QN_PANEL *
				                                       block_bytes(type) +
				                               r * head);
			for (int t = 0; t < n; t++) {
				const struct act8 *x = &act[b * n_act + t];
				float *y = &out[t * QN_PANEL + r];
				int32_t sum = 0, mins = 0;

				for (int j = 0; j < 16; j++) {
					sum += s.scale[j] * dot(s.q + 16 * j, x->qs + 16 * j, 16);
					mins += s.minimum[j] * x->sum16[j];
				}
				if (!type_row(type).offset)
					*y = fmaf(-(s.dmin * x->d), (float)mins, *y);
				*y = fmaf(s.d * x->d, (float)sum, *y);
			}
		}
	}
}

/* Weight k of a group of n times 32, row r, without its offset. */
INLINE int small_weight(int type, const uint8_t *p, int n, int k, int r)
{
	const struct type_row t = type_row(type);
	const x16_line *lines = (const x16_line *)p;
	int q;

	switch (t.bits) {
	case 1:
		return 2 * onebit(lines, k, r) - 1;
	case 2:
		return (lines[k / 16][r][k % 4] >> 2 * (k / 4 % 4) & 3) - t.offset;
	case 8:
		return lines[k / 4][r][k % 4] - t.offset;
	}
	q = nibble(lines, k, r, t.run / 8);
	if (t.bits == 5)
		q |= onebit(lines + 4 * n, k, r) << 4;
	return type == QN_IQ4_NL ? qn_iq4_values[q] : t.offset == 12 ? qn_mxfp4_values[q] : q - t.offset;
}

/* The scale of weight k of a group, row r. */
INLINE float small_scale(int type, const uint8_t *d, int k, int r)
{
	const int i = k / type_row(type).run * QN_PANEL + r;

	return type == QN_MXFP4 ? f32_of_e8m0_half(d[i])
	     : type == QN_NVFP4 ? f32_of_ue4m3_half(d[i])
	                        : f32_of_f16(((const uint16_t *)d)[i]);
}

INLINE void mm_small(int type, float *out, const uint8_t *panel, const struct act8 *act, int64_t n_in,
                     int64_t n_act, int n)
{
	const int has_m = type_row(type).min, run = 4 * type_row(type).words;

	memset(out, 0, sizeof *out * QN_PANEL * (size_t)n);
	for (int64_t b = 0; b * QN_ACT_BLOCK < n_in; b++) {
		const int64_t left = n_in / QK - b * X16_GROUP;
		const int nb = (int)(left < X16_GROUP ? left : X16_GROUP);
		const uint8_t *d = panel + x16_line_bytes(type, nb);
		const uint16_t *m = (const uint16_t *)d + nb * QN_PANEL;

		for (int r = 0; r < QN_PANEL; r++) {
			int16_t q[QN_ACT_BLOCK];

			for (int k = 0; k < nb * QK; k++)
				q[k] = (int16_t)small_weight(type, panel, nb, k, r);
			for (int t = 0; t < n; t++) {
				const struct act8 *x = &act[b * n_act + t];
				float *y = &out[t * QN_PANEL + r];

				for (int k = 0; k < nb * QK; k += run) {
					float f = (float)dot(q + k, x->qs + k, run) * small_scale(type, d, k, r);

					if (has_m)
						f = fmaf(f32_of_f16(m[k / QK * QN_PANEL + r]), x->fsum32[k / QK], f);
					*y = fmaf(f, x->d32[k / QK], *y);
				}
			}
		}
		panel += x16_line_bytes(type, nb) + x16_scale_bytes(type, nb);
	}
}

/*
 * BF16, as tiles of AMX multiply it: of each 32 columns the even ones and the odd ones are a chain of fma each, and
 * their sum is added to the row's.
 */
static void mm_pairs(float *out, const void *panel, int twelve, const struct actb *act, int64_t n_in, int64_t n_act,
                     int n)
{
	_Alignas(64) uint16_t lines[TWELVE_HALVES];

	memset(out, 0, sizeof *out * QN_PANEL * (size_t)n);
	for (int64_t b = 0; b < n_in; b += QN_ACT_BLOCK, act += n_act) {
		const int cols = (int)(n_in - b < QN_ACT_BLOCK ? n_in - b : QN_ACT_BLOCK);
		const uint16_t *block = (const uint16_t *)panel + b * QN_PANEL;

		if (twelve) {
			twelve_lines_scalar(lines, twelve_block(panel, b), cols);
			block = lines;
		}
		for (int i = 0; i < n * QN_PANEL; i++)
			for (int k = 0; k < cols; k += BF16_RUN) {
				const uint16_t *x = act[i / QN_PANEL].x + k;
				const uint16_t *w = block + (k / 2 * QN_PANEL + i % QN_PANEL) * 2;
				float even = 0, odd = 0;

				for (int j = 0; j < BF16_RUN && k + j < cols; j += 2) {
					even = fmaf(f32_of_bf16(w[j * QN_PANEL]), f32_of_bf16(x[j]), even);
					odd = fmaf(f32_of_bf16(w[j * QN_PANEL + 1]), f32_of_bf16(x[j + 1]), odd);
				}
				out[i] += even + odd;
			}
	}
}

static void mm_twelve_scalar(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	mm_pairs(out, panel, 1, act, n_in, n_act, n);
}

INLINE void mm_float(int type, float *out, const void *panel, const void *blocks, int64_t n_in, int64_t n_act, int n)
{
	const struct actf *act = blocks;

	if (type == QN_BF16) {
		mm_pairs(out, panel, 0, blocks, n_in, n_act, n);
		return;
	}
	for (int t = 0; t < n; t++) {
		for (int r = 0; r < QN_PANEL; r++) {
			float chain[2] = {0, 0};

			for (int64_t k = 0; k < n_in; k++) {
				const float x = act[k / QN_ACT_BLOCK * n_act + t].x[k % QN_ACT_BLOCK];
				const int64_t i = k * QN_PANEL + r;
				const float w = type == QN_F32 ? ((const float *)panel)[i]
				                               : f32_of_f16(((const uint16_t *)panel)[i]);

				chain[k % 2] = fmaf(w, x, chain[k % 2]);
			}
			out[t * QN_PANEL + r] = chain[0] + chain[1];
		}
	}
}

#define MM(name, type, family)                                                                    \
	static void mm_##name##_scalar(float *out, const void *panel, const void *act, int64_t n_in, \
	                               int64_t n_act, int n)                                         \
	{                                                                                            \
		mm_##family(type, out, panel, act, n_in, n_act, n);                                      \
	}
#define FLOAT(name, NAME, ...) MM(name, QN_##NAME, float)
#define SMALL(name, NAME, ...) MM(name, QN_##NAME, small)
#define SUPER(name, NAME, ...) MM(name, QN_##NAME, super)

QN_TYPES(FLOAT, SMALL, SUPER, SUPER)

void mm_init_scalar(struct kernels *k)
{
#define SLOT(name, NAME, ...) k->mm[QN_##NAME] = mm_##name##_scalar;
	QN_TYPES(SLOT, SLOT, SLOT, SLOT)
#undef SLOT
	k->mm[QN_MM_TWELVE] = mm_twelve_scalar;
	for (int t = 0; t < QN_N_MM; t++)
		k->mm_tile[t] = 8;
}
