/*
 * dequant.c - rows of GGUF blocks to floats, from the formulas above each struct of format/blocks.h.
 * Read by embeddings, by the backward pass of training, by encoders, and the reference of the tests: loops have a
 * scale each, so that compilers make vectors of them.
 */
#include <assert.h>
#include <string.h>

#include "format/blocks.h"
#include "format/codebook.h"
#include "kernels.h"
#include "math/fp16.h"

static void dequant_q4_0(float *y, const struct q4_0 *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < 16; k++) {
		y[k] = d * (float)((b->qs[k] & 15) - 8);
		y[k + 16] = d * (float)((b->qs[k] >> 4) - 8);
	}
}

static void dequant_q4_1(float *y, const struct q4_1 *b)
{
	const float d = f32_of_f16(b->d), m = f32_of_f16(b->m);

	for (int k = 0; k < 16; k++) {
		y[k] = d * (float)(b->qs[k] & 15) + m;
		y[k + 16] = d * (float)(b->qs[k] >> 4) + m;
	}
}

/* The codes of a Q5_0 or Q5_1 block, without their offset. */
static void q5_codes(uint8_t q[QK], const uint8_t qh[4], const uint8_t qs[16])
{
	static const uint8_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};

	for (int k = 0; k < 16; k++) {
		q[k] = qs[k] & 15;
		q[k + 16] = qs[k] >> 4;
	}
	for (int j = 0; j < 4; j++)
		for (int k = 0; k < 8; k++)
			q[8 * j + k] |= (uint8_t)((qh[j] & bit[k]) != 0) << 4;
}

static void dequant_q5_0(float *y, const struct q5_0 *b)
{
	const float d = f32_of_f16(b->d);
	uint8_t q[QK];

	q5_codes(q, b->qh, b->qs);
	for (int k = 0; k < QK; k++)
		y[k] = d * (float)(q[k] - 16);
}

static void dequant_q5_1(float *y, const struct q5_1 *b)
{
	const float d = f32_of_f16(b->d), m = f32_of_f16(b->m);
	uint8_t q[QK];

	q5_codes(q, b->qh, b->qs);
	for (int k = 0; k < QK; k++)
		y[k] = d * (float)q[k] + m;
}

static void dequant_q8_0(float *y, const struct q8_0 *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < QK; k++)
		y[k] = d * (float)b->qs[k];
}

static void dequant_iq4_nl(float *y, const struct iq4_nl *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < 16; k++) {
		y[k] = d * (float)qn_iq4_values[b->qs[k] & 15];
		y[k + 16] = d * (float)qn_iq4_values[b->qs[k] >> 4];
	}
}

static void dequant_q2k(float *y, const struct q2k *b)
{
	const float d = f32_of_f16(b->d), dmin = f32_of_f16(b->dmin);

	for (int j = 0; j < 16; j++, y += 16) {
		const uint8_t *qs = b->qs + j / 8 * 32 + j % 2 * 16;
		const float scale = d * (float)(b->scales[j] & 15), min = dmin * (float)(b->scales[j] >> 4);

		for (int k = 0; k < 16; k++)
			y[k] = scale * (float)(qs[k] >> 2 * (j / 2 % 4) & 3) - min;
	}
}

static void dequant_q3k(float *y, const struct q3k *b)
{
	const float d = f32_of_f16(b->d);

	for (int j = 0; j < 16; j++, y += 16) {
		const uint8_t *qs = b->qs + j / 8 * 32 + j % 2 * 16, *hmask = b->hmask + j % 2 * 16;
		const float scale = d * (float)q3k_scale(b->scales, j);

		for (int k = 0; k < 16; k++) {
			const int lo = qs[k] >> 2 * (j / 2 % 4) & 3, hi = hmask[k] >> j / 2 & 1;

			y[k] = scale * (float)((lo | hi << 2) - 4);
		}
	}
}

static void dequant_q4k(float *y, const struct q4k *b)
{
	const float d = f32_of_f16(b->d), dmin = f32_of_f16(b->dmin);

	for (int j = 0; j < 8; j++, y += 32) {
		const uint8_t *qs = b->qs + j / 2 * 32;
		uint8_t sc, mn;

		q4k_scale(b->scales, j, &sc, &mn);

		const float scale = d * (float)sc, min = dmin * (float)mn;

		for (int k = 0; k < 32; k++)
			y[k] = scale * (float)(qs[k] >> 4 * (j % 2) & 15) - min;
	}
}

static void dequant_q5k(float *y, const struct q5k *b)
{
	const float d = f32_of_f16(b->d), dmin = f32_of_f16(b->dmin);

	for (int j = 0; j < 8; j++, y += 32) {
		const uint8_t *qs = b->qs + j / 2 * 32;
		uint8_t sc, mn;

		q4k_scale(b->scales, j, &sc, &mn);

		const float scale = d * (float)sc, min = dmin * (float)mn;

		for (int k = 0; k < 32; k++) {
			const int lo = qs[k] >> 4 * (j % 2) & 15, hi = b->qh[k] >> j & 1;

			y[k] = scale * (float)(lo | hi << 4) - min;
		}
	}
}

static void dequant_q6k(float *y, const struct q6k *b)
{
	const float d = f32_of_f16(b->d);

	for (int j = 0; j < 16; j++, y += 16) {
		const uint8_t *ql = b->ql + j / 8 * 64 + j % 4 * 16, *qh = b->qh + j / 8 * 32 + j % 2 * 16;
		const float scale = d * (float)b->scales[j];

		for (int k = 0; k < 16; k++) {
			const int lo = ql[k] >> 4 * (j % 8 / 4) & 15, hi = qh[k] >> 2 * (j % 8 / 2) & 3;

			y[k] = scale * (float)((lo | hi << 4) - 32);
		}
	}
}

static void dequant_iq4_xs(float *y, const struct iq4_xs *b)
{
	const float d = f32_of_f16(b->d);

	for (int j = 0; j < 8; j++, y += 32) {
		const float scale = d * (float)iq4xs_scale(b, j);

		for (int k = 0; k < 16; k++) {
			y[k] = scale * (float)qn_iq4_values[b->qs[j * 16 + k] & 15];
			y[k + 16] = scale * (float)qn_iq4_values[b->qs[j * 16 + k] >> 4];
		}
	}
}

static void dequant_mxfp4(float *y, const struct mxfp4 *b)
{
	const float d = f32_of_e8m0_half(b->e);

	for (int k = 0; k < 16; k++) {
		y[k] = d * (float)qn_mxfp4_values[b->qs[k] & 15];
		y[k + 16] = d * (float)qn_mxfp4_values[b->qs[k] >> 4];
	}
}

static void dequant_nvfp4(float *y, const struct nvfp4 *b)
{
	for (int k = 0; k < 64; k++)
		y[k] = f32_of_ue4m3_half(b->d[k / 16]) *
		       (float)qn_mxfp4_values[b->qs[k / 16 * 8 + k % 8] >> 4 * (k / 8 % 2) & 15];
}

static void dequant_q1_0(float *y, const struct q1_0 *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < 128; k++)
		y[k] = b->qs[k / 8] >> k % 8 & 1 ? d : -d;
}

static void dequant_q2_0(float *y, const struct q2_0 *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < 64; k++)
		y[k] = d * (float)((b->qs[k / 4] >> 2 * (k % 4) & 3) - 1);
}

static void dequant_tq2_0(float *y, const struct tq2_0 *b)
{
	const float d = f32_of_f16(b->d);

	for (int k = 0; k < QK_K; k++)
		y[k] = d * (float)((b->qs[k / 128 * 32 + k % 32] >> 2 * (k % 128 / 32) & 3) - 1);
}

/* The types of format/codebook.h. */
static void dequant_coded(int type, float *y, const uint8_t *row, int64_t n_in)
{
	const int head = type_row(type).head;
	const float d = head ? coded_head(type, row) : 1;
	struct coded c;

	for (int64_t i = 0; i < n_in / QK_K; i++) {
		coded_block(&c, type, row + head + i * block_bytes(type));
		for (int k = 0; k < QK_K; k++)
			y[i * QK_K + k] = d * c.d * (float)(c.scale[k / 16] * c.q[k]);
	}
}

/*
 * Halves to floats as f32_of_f16() does it, without a branch: what quantize reads is mostly that, and compilers make
 * vectors of it. A subnormal half is the float of the same mantissa with the least exponent, less what that adds.
 */
static void dequant_f16(float *y, const uint16_t *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const uint32_t rest = x[i] & 0x7fffu, sign = (uint32_t)(x[i] & 0x8000u) << 16;
		const uint32_t normal = (rest << 13) + ((127 - 15) << 23);
		const uint32_t small = bits_of_f32(f32_of_bits(normal + (1u << 23)) - 0x1p-14f);
		const uint32_t far = -(uint32_t)(rest >= 0x7c00) & (255u - 143u) << 23; /* infinity, NaN */
		const uint32_t tiny = -(uint32_t)(rest < 0x0400);

		y[i] = f32_of_bits(sign | (tiny & small) | (~tiny & (normal + far)));
	}
}

static void dequant_f32(float *y, const float *x, int64_t n)
{
	memcpy(y, x, (size_t)n * sizeof *y);
}

static void dequant_bf16(float *y, const uint16_t *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = f32_of_bf16(x[i]);
}

void qn_dequantize(int32_t type, float *y, const void *row, int64_t n_in)
{
	switch (type) {
#define BLOCKS(name, NAME, block, n)                                          \
	case QN_##NAME:                                                       \
		for (int64_t i = 0; i < n_in / (n); i++)                      \
			dequant_##name(y + i * (n), (const block *)row + i);  \
		return;
#define FLOAT(name, NAME, element)                     \
	case QN_##NAME:                                \
		dequant_##name(y, (const element *)row, n_in); \
		return;
#define SMALL(name, NAME, elems, ...) BLOCKS(name, NAME, struct name, elems)
#define SUPER(name, NAME, ...) BLOCKS(name, NAME, struct name, QK_K)
#define CODED(name, NAME, ...) case QN_##NAME:
		QN_TYPES(FLOAT, SMALL, SUPER, QN_SKIP)
		QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
		dequant_coded(type, y, row, n_in);
		return;
	}
	assert(!"a type that qn_type_ok() refuses");
}
