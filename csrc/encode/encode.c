/*
 * encode.c - floats to quantized weights: which encoder takes a type, and the types whose scale is a block's largest
 * weight.
 */
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "encode/encode.h"
#include "encode/trellis.h"
#include "kernels.h"
#include "quern.h"

/* ------------------------------------------------------------------ floats */

static void rows_f32(void *dst, const struct source *s)
{
	memcpy(dst, s->x, (size_t)s->blocks * sizeof(float));
}

static void rows_f16(void *dst, const struct source *s)
{
	uint16_t *y = dst;

	for (int64_t i = 0; i < s->blocks; i++)
		y[i] = f16_of_f32_sat(s->x[i]);
}

static void rows_bf16(void *dst, const struct source *s)
{
	uint16_t *y = dst;

	for (int64_t i = 0; i < s->blocks; i++)
		y[i] = bf16_of_f32(s->x[i]);
}

/* ------------------------------------------------------------------ one scale, from the sizes */

static float size_of(const float *x, int n)
{
	float most = 0;

	for (int i = 0; i < n; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	return most;
}

/* To the nearest integer, ties away from zero. */
static int round_away(float v)
{
	const int cut = (int)v;
	const float rest = v - (float)cut;

	return cut + (rest >= 0.5f) - (rest <= -0.5f);
}

/* Signs, and the mean size. */
static void rows_q1_0(void *dst, const struct source *s)
{
	struct q1_0 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * 128;
		float sum = 0;

		memset(y[b].qs, 0, sizeof y[b].qs);
		for (int i = 0; i < 128; i++) {
			sum += fabsf(x[i]);
			y[b].qs[i / 8] |= (uint8_t)((x[i] >= 0) << i % 8);
		}
		y[b].d = f16_of_f32_sat(sum / 128);
	}
}

static void rows_q2_0(void *dst, const struct source *s)
{
	struct q2_0 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * 64, d = size_of(x, 64), inverse = d > 0 ? 1 / d : 0;

		y[b].d = f16_of_f32_sat(d);
		memset(y[b].qs, 0, sizeof y[b].qs);
		for (int i = 0; i < 64; i++)
			y[b].qs[i / 4] |= (uint8_t)((round_away(x[i] * inverse) + 1) << i % 4 * 2);
	}
}

/* Digits 0, 1, 2 of the n weights that lie `apart`, as TQ1_0 has them in a byte. */
static uint8_t digits(const float *x, int n, int apart, float inverse)
{
	int q = 0;

	for (int i = 0; i < 5; i++)
		q = q * 3 + (i < n ? round_away(x[i * apart] * inverse) + 1 : 0);
	return (uint8_t)((q * 256 + 242) / 243);
}

static void rows_tq1_0(void *dst, const struct source *s)
{
	struct tq1_0 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * QK_K, d = size_of(x, QK_K), inverse = d != 0 ? 1 / d : 0;

		y[b].d = f16_of_f32_sat(d);
		for (int i = 0; i < 32; i++)
			y[b].qs[i] = digits(x + i, 5, 32, inverse);
		for (int i = 0; i < 16; i++)
			y[b].qs[32 + i] = digits(x + 160 + i, 5, 16, inverse);
		for (int i = 0; i < 4; i++)
			y[b].qh[i] = digits(x + 240 + i, 4, 4, inverse);
	}
}

static void rows_tq2_0(void *dst, const struct source *s)
{
	struct tq2_0 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * QK_K, d = size_of(x, QK_K), inverse = d != 0 ? 1 / d : 0;

		y[b].d = f16_of_f32_sat(d);
		memset(y[b].qs, 0, sizeof y[b].qs);
		for (int i = 0; i < QK_K; i++)
			y[b].qs[i / 128 * 32 + i % 32] |=
				(uint8_t)((round_away(x[i] * inverse) + 1) << i % 128 / 32 * 2);
	}
}

/* Codes of n weights among the sixteen floats of 4 bits times d: the nearest, the first of two. */
static void code_floats(uint8_t *q, const float *x, int n, float d)
{
	float error[QK];

	for (int i = 0; i < n; i++) {
		q[i] = 0;
		error[i] = fabsf(x[i]);
	}
	for (int k = 1; k < 16; k++) {
		const float v = (float)qn_mxfp4_values[k] * d;

		for (int i = 0; i < n; i++) {
			const float e = fabsf(v - x[i]);

			q[i] = e < error[i] ? (uint8_t)k : q[i];
			error[i] = e < error[i] ? e : error[i];
		}
	}
}

static void rows_mxfp4(void *dst, const struct source *s)
{
	struct mxfp4 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * QK, size = size_of(x, QK);
		/* The logarithm is rounded to a float: a size just below a power of two counts as that. */
		const float e = size > 0 ? floorf((float)log2((double)size)) + 125 : 0;
		uint8_t q[QK];

		y[b].e = (uint8_t)encode_clamp(e, 0, 254);
		code_floats(q, x, QK, f32_of_e8m0_half(y[b].e));
		for (int i = 0; i < 16; i++)
			y[b].qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
	}
}

/* The scale of NVFP4 that is nearest, ties up, at most 448. */
static uint8_t ue4m3_of_f32(float v)
{
	const uint32_t u = bits_of_f32(v);
	int code;

	if (!(v > 0))
		return 0;
	if (v < 0x1p-6f) /* less than the least normal number */
		code = (int)(v * 512 + 0.5f) < 7 ? (int)(v * 512 + 0.5f) : 7;
	else
		code = v > 448 ? 0x7e : (int)((u - (120u << 23) + (1u << 19)) >> 20);
	return (uint8_t)(code < 0x7e ? code : 0x7e);
}

static void rows_nvfp4(void *dst, const struct source *s)
{
	struct nvfp4 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++)
		for (int j = 0; j < 4; j++) {
			const float *x = s->x + b * 64 + 16 * j;
			uint8_t q[16];

			y[b].d[j] = ue4m3_of_f32(size_of(x, 16) / 6);
			code_floats(q, x, 16, f32_of_ue4m3_half(y[b].d[j]));
			for (int i = 0; i < 8; i++)
				y[b].qs[8 * j + i] = (uint8_t)(q[i] | q[i + 8] << 4);
		}
}

/* ------------------------------------------------------------------ the choice */

static encode_fn *encoder_of(uint32_t isa, int32_t type)
{
	encode_fn *rows[ENCODE_TYPES] = {
		[QN_F32] = rows_f32, [QN_F16] = rows_f16, [QN_BF16] = rows_bf16, [QN_Q1_0] = rows_q1_0,
		[QN_Q2_0] = rows_q2_0, [QN_TQ1_0] = rows_tq1_0, [QN_TQ2_0] = rows_tq2_0, [QN_MXFP4] = rows_mxfp4,
		[QN_NVFP4] = rows_nvfp4,
	};

	encode_init_scalar(rows);
	encode_init_grid(rows);
#if defined(__x86_64__)
	if (isa & QN_AVX2)
		encode_init_avx2(rows);
	if (isa & QN_AVX512)
		encode_init_avx512(rows);
#else
	(void)isa;
#endif
	return type >= 0 && type < ENCODE_TYPES ? rows[type] : NULL;
}

int qn_encode_ok(int32_t type, int64_t n_in)
{
	return (encoder_of(0, type) || encode_is_trellis(type)) && qn_type_ok(type, n_in);
}

int qn_encode_needs_importance(int32_t type)
{
	return type == QN_IQ1_S || type == QN_IQ1_M || type == QN_IQ2_XXS || type == QN_IQ2_XS;
}

/* The largest size of n numbers, as bits; from those of infinity on one is not finite. */
static uint32_t largest_bits(const float *x, int64_t n)
{
	uint32_t most = 0;

	for (int64_t i = 0; i < n; i++) {
		const uint32_t u = bits_of_f32(x[i]) & 0x7fffffff;

		most = u > most ? u : most;
	}
	return most;
}

int encode_check(int32_t type, const float *rows, int64_t n_rows, int64_t n_in, const float *importance)
{
	const int scaled_by_half = type != QN_F32 && type != QN_BF16 && type != QN_MXFP4 && type != QN_NVFP4 &&
	                           !encode_is_trellis(type);
	const uint32_t limit = bits_of_f32(scaled_by_half ? 65504 : FLT_MAX);

	if (n_rows < 1 || !qn_encode_ok(type, n_in) || (qn_encode_needs_importance(type) && !importance))
		return QN_EINVAL;
	if (largest_bits(rows, n_rows * n_in) > limit ||
	    (importance && largest_bits(importance, n_in) > bits_of_f32(FLT_MAX)))
		return QN_ENOTFINITE;
	return QN_OK;
}

int qn_encode(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
              const float *importance)
{
	const int status = encode_check(type, rows, n_rows, n_in, importance);

	if (status != QN_OK)
		return status;
	if (encode_is_trellis(type))
		return encode_trellis(isa, type, dst, rows, n_rows, n_in, importance, 0);

	const int64_t per_row = (int64_t)qn_row_bytes(type, n_in) / block_bytes(type);
	const struct source s = {type, rows, importance, n_rows * per_row, per_row};

	encoder_of(isa, type)(dst, &s);
	return QN_OK;
}
