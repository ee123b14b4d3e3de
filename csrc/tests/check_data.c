/* check_data.c - random weights and activations, and by plain arithmetic halves and a transform. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/blocks.h"
#include "math/fp16.h"
#include "check.h"

#define SMALL(T, m, top) sizeof(struct T), offsetof(struct T, d), m, top

const struct type check_types[] = {
	{"f32", QN_F32, 1, 4, -1, -1, 1, 0},
	{"f16", QN_F16, 1, 2, -1, -1, 1, 0},
	{"bf16", QN_BF16, 1, 2, -1, -1, 1, 0},
	{"q4_0", QN_Q4_0, 32, SMALL(q4_0, -1, 8), 0},
	{"q4_1", QN_Q4_1, 32, SMALL(q4_1, offsetof(struct q4_1, m), 15), 0},
	{"q5_0", QN_Q5_0, 32, SMALL(q5_0, -1, 16), 0},
	{"q5_1", QN_Q5_1, 32, SMALL(q5_1, offsetof(struct q5_1, m), 31), 0},
	{"q8_0", QN_Q8_0, 32, SMALL(q8_0, -1, 128), 0},
	{"iq4_nl", QN_IQ4_NL, 32, SMALL(iq4_nl, -1, 127), 0},
	{"q2_K", QN_Q2_K, 256, SMALL(q2k, offsetof(struct q2k, dmin), 3 * 15), 0},
	{"q3_K", QN_Q3_K, 256, SMALL(q3k, -1, 4 * 32), 0},
	{"q4_K", QN_Q4_K, 256, SMALL(q4k, offsetof(struct q4k, dmin), 15 * 63), 0},
	{"q5_K", QN_Q5_K, 256, SMALL(q5k, offsetof(struct q5k, dmin), 31 * 63), 0},
	{"q6_K", QN_Q6_K, 256, SMALL(q6k, -1, 32 * 128), 0},
	{"iq4_xs", QN_IQ4_XS, 256, SMALL(iq4_xs, -1, 127 * 32), 0},
	{"mxfp4", QN_MXFP4, 32, sizeof(struct mxfp4), 0, -1, 12, 0},
	{"nvfp4", QN_NVFP4, 64, sizeof(struct nvfp4), 0, -1, 6, 0},
	{"q1_0", QN_Q1_0, 128, SMALL(q1_0, -1, 1), 0},
	{"q2_0", QN_Q2_0, 64, SMALL(q2_0, -1, 2), 0},
	{"iq2_xxs", QN_IQ2_XXS, 256, SMALL(iq2_xxs, -1, 31 * 43 / 8.f), 0},
	{"iq2_xs", QN_IQ2_XS, 256, SMALL(iq2_xs, -1, 31 * 43 / 8.f), 0},
	{"iq2_s", QN_IQ2_S, 256, SMALL(iq2_s, -1, 31 * 43 / 8.f), 0},
	{"iq3_xxs", QN_IQ3_XXS, 256, SMALL(iq3_xxs, -1, 31 * 62 / 4.f), 0},
	{"iq3_s", QN_IQ3_S, 256, SMALL(iq3_s, -1, 31 * 15), 0},
	{"iq1_s", QN_IQ1_S, 256, SMALL(iq1_s, -1, 15 * 9 / 8.f), 0},
	{"iq1_m", QN_IQ1_M, 256, sizeof(struct iq1_m), offsetof(struct iq1_m, scales), -1, 15 * 9 / 8.f, 0},
	{"tq1_0", QN_TQ1_0, 256, SMALL(tq1_0, -1, 1), 0},
	{"tq2_0", QN_TQ2_0, 256, SMALL(tq2_0, -1, 2), 0},
	{"iq2_k", QN_IQ2_K, 256, SMALL(iq2_k, -1, 31 * 8), 0},
	{"iq3_k", QN_IQ3_K, 256, SMALL(iq3_k, -1, 63 * 31), 0},
	{"iq4_k", QN_IQ4_K, 256, SMALL(iq4_k, -1, 127 * 32), 0},
	{"iq5_k", QN_IQ5_K, 256, SMALL(iq5_k, -1, 126 * 32), 0},
	{"iq6_k", QN_IQ6_K, 256, SMALL(iq6_k, -1, 127 * 128), 0},
	{"iq2_ks", QN_IQ2_KS, 256, sizeof(struct iq2_ks), 0, -1, 31 * 16, 2},
	{"iq2_kl", QN_IQ2_KL, 256, sizeof(struct iq2_kl), 0, -1, 63 * 32, 2},
	{"iq3_ks", QN_IQ3_KS, 256, sizeof(struct iq3_ks), 0, -1, 63 * 16, 2},
	{"iq4_ks", QN_IQ4_KS, 256, sizeof(struct iq4_ks), 0, -1, 127 * 127, 4},
	{"iq4_kss", QN_IQ4_KSS, 256, sizeof(struct iq4_kss), 0, -1, 127 * 127, 4},
	{"iq5_ks", QN_IQ5_KS, 256, sizeof(struct iq5_ks), 0, -1, 126 * 127, 4},
	{"iq1_kt", QN_IQ1_KT, 256, sizeof(struct iq1_kt), 0, -1, 126 * 127, 4},
	{"iq2_kt", QN_IQ2_KT, 256, sizeof(struct iq2_kt), 0, -1, 126 * 127, 4},
	{"iq3_kt", QN_IQ3_KT, 256, sizeof(struct iq3_kt), 0, -1, 126 * 15, 4},
	{"iq4_kt", QN_IQ4_KT, 256, sizeof(struct iq4_kt), 0, -1, 126 * 64, 4},
};
const int check_n_types = COUNT(check_types);

double half_value(uint16_t h)
{
	const int exp = h >> 10 & 31, frac = h & 1023;
	const double sign = h >> 15 ? -1 : 1;

	if (exp == 31)
		return frac ? NAN : sign * INFINITY;
	return sign * (exp ? ldexp(1024 + frac, exp - 25) : ldexp(frac, -24));
}

uint16_t half_nearest(double x)
{
	const uint16_t sign = signbit(x) ? 0x8000 : 0;
	int exp;
	double ulp, n;

	if (isnan(x))
		return sign | 0x7e00;
	x = fabs(x);
	if (x >= 65504)
		return sign | 0x7bff;
	frexp(x, &exp); /* x = 0.5 .. 1 times 2^exp */
	exp = exp - 1 < -14 || x == 0 ? -14 : exp - 1;
	ulp = ldexp(1, exp - 10);
	n = nearbyint(x / ulp); /* the division is exact; ties go to even */
	/* n runs on through the exponent: 2048 at one is 1024 at the next, and below 1024 is subnormal */
	return sign | (uint16_t)((exp + 14) * 1024 + (int)n);
}

/* The largest float of 4 bits of exponent and 3 of mantissa that is not above x. */
static uint8_t ue4m3_below(double x)
{
	for (int i = 0x7e; i > 0; i--)
		if ((i >> 3 ? ldexp(8 + i % 8, (i >> 3) - 10) : ldexp(i, -9)) <= x)
			return (uint8_t)i;
	return 0;
}

/* Where row `row` begins. */
static uint8_t *row_at(const struct type *t, void *rows, int64_t n_in, int64_t row)
{
	return (uint8_t *)rows + row * (int64_t)qn_row_bytes(t->type, n_in);
}

uint8_t *block_at(const struct type *t, void *rows, int64_t n_in, int64_t i)
{
	const int64_t each = n_in / t->elems;

	return row_at(t, rows, n_in, i / each) + t->head + i % each * t->bytes;
}

void put_scale(const struct type *t, void *rows, int64_t n_in, int64_t i, uint16_t h)
{
	uint8_t *block = t->head ? row_at(t, rows, n_in, i / (n_in / t->elems)) : block_at(t, rows, n_in, i);
	const float f = (float)half_value(h);
	int exp;

	if (t->head == 4) {
		memcpy(block, &f, sizeof f);
		return;
	}
	switch (t->type) {
	case QN_MXFP4: /* 2^(e - 128): the power of two below, and NaN for what is not finite */
		frexp(half_value(h), &exp);
		*block = (h & 0x7c00) == 0x7c00 ? 255 : (uint8_t)(127 + exp);
		break;
	case QN_NVFP4: /* four, each somewhat less than the one before */
		for (int k = 0; k < 4; k++)
			block[k] = ue4m3_below(fabs(half_value(h)) * (8 - k) / 8);
		break;
	case QN_IQ1_M: /* a nibble above the scales of each 64 weights */
		for (int k = 0; k < 4; k++)
			block[t->d + 2 * k + 1] = (uint8_t)((block[t->d + 2 * k + 1] & 15) | (h >> 4 * k & 15) << 4);
		break;
	default:
		memcpy(block + t->d, &h, sizeof h);
	}
}

/* A half about `size`, of either sign; now and then zero or subnormal. */
static uint16_t rnd_scale(float size)
{
	switch (rnd_below(32)) {
	case 0:
		return rnd() & 1 ? 0x8000 : 0;
	case 1:
		return (uint16_t)(rnd() & 0x83ff);
	default:
		return half_nearest((double)size * (double)rnd_uniform());
	}
}

void rnd_weights(const struct type *t, void *rows, int64_t n, int64_t n_in, float size)
{
	if (t->d >= 0)
		rnd_bytes(rows, (size_t)n * qn_row_bytes(t->type, n_in));
	for (int64_t i = 0; i < n * n_in / t->elems; i++) {
		uint8_t *p = block_at(t, rows, n_in, i);
		const float x = size * rnd_uniform();
		uint16_t h = half_nearest((double)x);
		uint32_t u;

		switch (t->type) {
		case QN_F32:
			memcpy(p, &x, sizeof x);
			break;
		case QN_BF16:
			memcpy(&u, &x, sizeof u);
			h = (uint16_t)(u >> 16);
			/* fall through */
		case QN_F16:
			memcpy(p, &h, sizeof h);
			break;
		default:
			h = rnd_scale(size / t->top);
			put_scale(t, rows, n_in, i, h);
			if (t->m >= 0) {
				h = rnd_scale(t->elems == 32 ? size : size / 63);
				memcpy(p + t->m, &h, sizeof h);
			}
		}
	}
}

void act8_of(struct act8 *y, enum qn_act kind, const int8_t *q, float d)
{
	memset(y, 0, sizeof *y);
	for (int i = 0; i < QN_ACT_BLOCK; i++) {
		y->qs[i] = q[i];
		if (kind == QN_ACT_Q8_32) {
			y->d32[i / 32] = d;
			y->fsum32[i / 32] += q[i];
		} else if (kind == QN_ACT_Q8_32_16) {
			y->d32[i / 32] = d;
			y->half_sum[i / 16] = (int16_t)(y->half_sum[i / 16] + q[i]);
		} else {
			y->d = d;
			y->sum16[i / 16] = (int16_t)(y->sum16[i / 16] + q[i]);
			y->sum32[i / 32] = (int16_t)(y->sum32[i / 32] + q[i]);
		}
	}
	for (int i = 0, sum = 0; i < QN_ACT_BLOCK && kind == QN_ACT_Q8_256; i++) {
		sum = (i % 16 ? sum : 0) + abs(q[i]);
		y->most16 = sum > y->most16 ? sum : y->most16;
	}
}

double act_value(const void *block, enum qn_act kind, int k)
{
	const enum qn_act half = act_half(kind);
	const struct act8 *x = block;

	if (half != kind)
		return act_value(x, half, k) + act_value(x + 1, half, k);
	if (kind == QN_ACT_F32)
		return (double)((const struct actf *)block)->x[k];
	if (kind == QN_ACT_BF16)
		return (double)f32_of_bf16(((const struct actb *)block)->x[k]);
	return (double)(kind == QN_ACT_Q8_256 ? x->d : x->d32[k / 32]) * x->qs[k];
}

void check_hadamard(double *x, int n)
{
	const int block = n & -n;
	double y[1024];

	for (int i = 0; i < n; i++) {
		y[i] = 0;
		for (int j = 0; j < block; j++)
			y[i] += (__builtin_parity((unsigned)(i % block & j)) ? -1 : 1) * x[i - i % block + j];
	}
	for (int i = 0; i < n; i++)
		x[i] = y[i] / sqrt(block);
}
