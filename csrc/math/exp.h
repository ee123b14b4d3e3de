/*
 * exp.h - the exponentials that every set shares, bit for bit.
 *
 * exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. ln 2 is split in two so that
 * n * hi is exact; the polynomial is the Taylor series to r^7, whose remainder is below
 * 0.35^8 / 8! = 5e-9. Largest error about 1 ulp.
 */
#ifndef QN_MATH_EXP_H
#define QN_MATH_EXP_H

#include <math.h>

#include "math/fp16.h"

#define QEXP_LOG2E  0x1.715476p+0f
#define QEXP_LN2_HI 0x1.62ep-1f       /* 13 bits: n * hi is exact for |n| < 2^11 */
#define QEXP_LN2_LO 0x1.0bfbe8p-15f
#define QEXP_MAGIC  0x1.8p+23f        /* adding it rounds to an integer in the low bits */
#define QEXP_MIN    -87.0f            /* below: 0. exp(-87) is still a normal float */
#define QEXP_MAX    88.0f             /* above: exp(88) */
#define QEXP_C7 (1.0f / 5040)
#define QEXP_C6 (1.0f / 720)
#define QEXP_C5 (1.0f / 120)
#define QEXP_C4 (1.0f / 24)
#define QEXP_C3 (1.0f / 6)
#define QEXP_C2 0.5f

static inline float qexp(float x)
{
	const float c = x < QEXP_MAX ? x : QEXP_MAX;
	const float v = c > QEXP_MIN ? c : QEXP_MIN;
	const float t = fmaf(v, QEXP_LOG2E, QEXP_MAGIC);
	const float n = t - QEXP_MAGIC;
	const float r = fmaf(-n, QEXP_LN2_LO, fmaf(-n, QEXP_LN2_HI, v));
	float p = QEXP_C7;

	p = fmaf(p, r, QEXP_C6);
	p = fmaf(p, r, QEXP_C5);
	p = fmaf(p, r, QEXP_C4);
	p = fmaf(p, r, QEXP_C3);
	p = fmaf(p, r, QEXP_C2);
	p = fmaf(p, r, 1.0f);
	p = fmaf(p, r, 1.0f);
	p *= f32_of_bits((bits_of_f32(t) - bits_of_f32(QEXP_MAGIC) + 127) << 23);
	return x < QEXP_MIN ? 0.0f : p;
}

/*
 * 2^x for x <= 0, of attention: 2^n * 2^r, n = round(x), r exact. The polynomial is the minimax one of
 * degree 6 that is 1 at 0, with relative error 3e-9. NaN stays NaN. Below -100 the result is 0, so that
 * products with values stay far from denormal numbers, which are slow.
 */
#define QEXP2_MIN -100.0f
#define QEXP2_C6 0x1.470b4ap-13f
#define QEXP2_C5 0x1.5f7276p-10f
#define QEXP2_C4 0x1.3b270ep-7f
#define QEXP2_C3 0x1.c6ae72p-5f
#define QEXP2_C2 0x1.ebfbe2p-3f
#define QEXP2_C1 0x1.62e432p-1f

#define QEXP2_TANH 0x1.715476p+1f /* tanh x = (1 - t) / (1 + t), t = 2^(-x * this), x >= 0 */

static inline float qexp2(float x)
{
	const float v = QEXP2_MIN > x ? QEXP2_MIN : x;
	const float t = v + QEXP_MAGIC;
	const float r = v - (t - QEXP_MAGIC);
	float p = QEXP2_C6;

	p = fmaf(p, r, QEXP2_C5);
	p = fmaf(p, r, QEXP2_C4);
	p = fmaf(p, r, QEXP2_C3);
	p = fmaf(p, r, QEXP2_C2);
	p = fmaf(p, r, QEXP2_C1);
	p = fmaf(p, r, 1.0f);
	p *= f32_of_bits((bits_of_f32(t) - bits_of_f32(QEXP_MAGIC) + 127) << 23);
	return x < QEXP2_MIN ? 0.0f : p;
}

/* tanh: off by 1e-7 at most, near 0 too. */
static inline float qtanh(float x)
{
	const float a = f32_of_bits(bits_of_f32(x) & 0x7fffffff), t = qexp2(-a * QEXP2_TANH);

	return f32_of_bits((bits_of_f32((1 - t) / (1 + t)) & 0x7fffffff) | (bits_of_f32(x) & 0x80000000));
}

/*
 * log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|. With s = u / (2 + u) <= 1/3 the logarithm is 2 artanh s: its
 * series to s^17, whose remainder is below 3^-18 / 19 of it. Where x is not finite: NaN or infinity.
 */
static inline float qsoftplus(float x)
{
	const float a = f32_of_bits(bits_of_f32(x) & 0x7fffffff), u = qexp(-a), s = u / (2 + u), z = s * s;
	float p = 1.0f / 17;

	p = fmaf(p, z, 1.0f / 15);
	p = fmaf(p, z, 1.0f / 13);
	p = fmaf(p, z, 1.0f / 11);
	p = fmaf(p, z, 1.0f / 9);
	p = fmaf(p, z, 1.0f / 7);
	p = fmaf(p, z, 1.0f / 5);
	p = fmaf(p, z, 1.0f / 3);
	p = fmaf(p, z, 1.0f);
	return fmaf(2 * s, p, x > 0 ? x : x * 0);
}

/* x / 2 (1 + tanh z) = x / (1 + e^-2z), z = sqrt(2 / pi) (x + 0.044715 x^3). */
#define QGELU_C1 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define QGELU_C3 0x1.244500p-4f /* that times 0.044715 */

static inline float qgelu(float x)
{
	return x / (1 + qexp(-x * fmaf(x * x, QGELU_C3, QGELU_C1)));
}

/*
 * x times the normal distribution function. erfc(t) = e^(-t^2) k P(k), k = 1 / (1 + 0.4 t); P is the minimax
 * polynomial of degree 8 for t <= 10, with an error below 5e-8.
 */
#define QERF_P  0x1.99999ap-2f
#define QERF_C8 0x1.3b762ep-5f
#define QERF_C7 -0x1.05029cp-3f
#define QERF_C6 0x1.ded434p-5f
#define QERF_C5 0x1.da8ea6p-4f
#define QERF_C4 0x1.f786cap-5f
#define QERF_C3 0x1.9b1eeap-3f
#define QERF_C2 0x1.99db44p-3f
#define QERF_C1 0x1.d03a14p-3f
#define QERF_C0 0x1.ce12c2p-3f

/* The normal distribution function of -|x|. */
static inline float qnormal_tail(float x)
{
	const float t = f32_of_bits(bits_of_f32(x) & 0x7fffffff) * 0x1.6a09e6p-1f;
	const float k = 1 / fmaf(t, QERF_P, 1.0f);
	float p = QERF_C8;

	p = fmaf(p, k, QERF_C7);
	p = fmaf(p, k, QERF_C6);
	p = fmaf(p, k, QERF_C5);
	p = fmaf(p, k, QERF_C4);
	p = fmaf(p, k, QERF_C3);
	p = fmaf(p, k, QERF_C2);
	p = fmaf(p, k, QERF_C1);
	p = fmaf(p, k, QERF_C0);
	return 0.5f * k * p * qexp(-(t * t));
}

static inline float qgelu_erf(float x)
{
	const float p = qnormal_tail(x);

	return x * (x < 0 ? p : 1 - p);
}

#endif
