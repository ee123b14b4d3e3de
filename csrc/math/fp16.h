/* fp16.h - half and bfloat16 to float and back, bit for bit as the hardware does. */
#ifndef QN_MATH_FP16_H
#define QN_MATH_FP16_H

#include <stdint.h>
#include <string.h>

static inline float f32_of_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint32_t bits_of_f32(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float f32_of_bf16(uint16_t h)
{
	return f32_of_bits((uint32_t)h << 16);
}

/* Rounds to the nearest, ties to even; NaN stays one. */
static inline uint16_t bf16_of_f32(float f)
{
	const uint32_t u = bits_of_f32(f);
	const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = (u >> 16) | 0x40;

	return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/*
 * A factor of a BF16 product: below 2^-56 it is 0. So both factors of a product are multiples of 2^-63, products and
 * all rounded sums of them multiples of 2^-126, and none of these is subnormal. Instructions for BF16 take subnormal
 * numbers for 0 and others do not: here it makes no difference.
 */
static inline uint16_t bf16_factor(uint16_t h)
{
	return (h & 0x7fff) < (127 - 56) << 7 ? 0 : h;
}

/* 2^(e - 128): the scale of MXFP4. Below the least normal number it is a subnormal, and exact. */
static inline float f32_of_e8m0_half(uint8_t e)
{
	return f32_of_bits(e ? (uint32_t)e << 23 : 0x00400000) * 0.5f;
}

static inline float f32_of_f16(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t rest = h & 0x7fff;

	if (rest >= 0x7c00) /* infinity, NaN */
		return f32_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x0400) /* normal: rebias the exponent from 15 to 127 */
		return f32_of_bits(sign | ((rest << 13) + ((127 - 15) << 23)));
	/* subnormal: rest * 2^-24 is exact */
	return f32_of_bits(sign | bits_of_f32((float)rest * 0x1p-24f));
}

/*
 * The scale of NVFP4, halved: 4 bits of exponent, bias 7, and 3 of mantissa. The sign is not looked at, and 127 is 0.
 */
static inline float f32_of_ue4m3_half(uint8_t x)
{
	return x == 0x7f ? 0 : f32_of_f16((uint16_t)((x & 0x7f) << 7)) * 128;
}

/*
 * Rounds to the nearest half, ties to even, and saturates: values beyond 65504 become 65504, so
 * that a stored key or value is never infinite.
 */
static inline uint16_t f16_of_f32_sat(float f)
{
	const uint32_t u = bits_of_f32(f);
	const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
	const uint32_t mag = u & 0x7fffffff;

	if (mag > 0x7f800000) /* NaN stays one */
		return sign | 0x7e00;
	if (mag >= 0x477ff000) /* rounds to 65520 or more */
		return sign | 0x7bff;
	if (mag < 0x38800000) { /* below 2^-14: the sum's last bits are the subnormal, rounded to even */
		const float sum = f32_of_bits(mag) + 0.5f;
		return sign | (uint16_t)(bits_of_f32(sum) - 0x3f000000);
	}
	return sign | (uint16_t)((mag - 0x38000000 + 0xfff + (mag >> 13 & 1)) >> 13);
}

#endif
