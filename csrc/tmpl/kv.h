/*
 * kv.h - keys, values and queries as the numbers that KV blocks keep. Not compiled as it stands: each set
 * includes it once, after tmpl/elementwise.h and in the same way. Where the numbers go is up to format/kv.c.
 */
#include "format/kv.h"

/*
 * The scale of integers for x: 1 / d is the least of top / max|x| and length / |x|; 0 for a vector of
 * nothing. What is not finite gives d = NaN, so that the fault is seen. Returns 1 / d.
 */
static float VEC(kv_scale)(const float *x, int n, float top, float length, float *d)
{
	const float sum = VEC(sumsq)(x, n);
	int32_t bits = 0; /* of the largest magnitude: they are in the order of magnitudes */
	float max, inv;

	if (!(sum <= FLT_MAX)) {
		*d = NAN;
		return 0;
	}
	for (int i = 0; i < n; i++) {
		const int32_t a = (int32_t)(bits_of_f32(x[i]) & 0x7fffffff);

		bits = a > bits ? a : bits;
	}
	max = f32_of_bits((uint32_t)bits);
	if (max < KV_TINY) {
		*d = 0;
		return 0;
	}
	inv = top / max;
	if (length > 0 && length / sqrtf(sum) < inv)
		inv = length / sqrtf(sum);
	*d = 1 / inv;
	return inv;
}

static void VEC(kv_round)(int16_t *restrict q, float *d, const float *restrict x, int n, int64_t to, float top,
                          float length)
{
	const float inv = VEC(kv_scale)(x, n, top, length, d);

	if (!(inv > 0)) /* x may then be anything */
		n = 0;
	for (int i = 0; i < n; i++) {
		const float t = x[i] * inv + 0x1.8p23f; /* the integer is in the low bits */

		q[i] = (int16_t)(bits_of_f32(t) & 0xffff);
	}
	memset(q + n, 0, sizeof *q * (size_t)(to - n));
}

static void VEC(kv_halves)(int type, uint16_t *restrict y, const float *restrict x, int n)
{
	if (type == QN_KV_F16)
		for (int i = 0; i < n; i++)
			y[i] = f16_of_f32_sat(x[i]);
	else
		for (int i = 0; i < n; i++)
			y[i] = bf16_of_f32(x[i]);
}

static void VEC(kv_hadamard)(float *x, int n)
{
	const int block = n & -n, half = block / 2;
	const float unit = 1 / sqrtf((float)block);
	float y[KV_HEAD_DIM_MAX];

	for (int at = 0; at < n; at += block)
		for (int pass = 1; pass < block; pass *= 2) { /* all alike, so that vectors take them */
			for (int i = 0; i < half; i++) {
				const float a = x[at + i], b = x[at + half + i];

				y[2 * i] = a + b;
				y[2 * i + 1] = a - b;
			}
			memcpy(x + at, y, sizeof *y * (size_t)block);
		}
	for (int i = 0; i < n; i++)
		x[i] *= unit;
}

/* The odd numbers of -15 .. 15 that are nearest to w * step / 2^15. */
static inline void VEC(kv_levels)(int16_t *restrict q, const int16_t *restrict w, int n, int16_t step)
{
	for (int i = 0; i < n; i++) {
		const int16_t down = (int16_t)(w[i] * step >> 16);

		q[i] = (int16_t)(2 * (down > 7 ? 7 : down < -8 ? -8 : down) + 1);
	}
}

/*
 * Codes are of the head transformed to x, with the scale *d of the least squares of x - d * (2 * code - 15). x is
 * first integers w below 2^12, so that sums are exact; then levels are tried at seven distances, 1/7 to 1/11.5 of
 * max|x|, and the best scale of each is sum(w q) / sum(q q).
 */
static void VEC(kv_codes)(uint8_t *code, float *d, const float *head, int n)
{
	enum { TOP = 4095 };
	int16_t w[KV_HEAD_DIM_MAX], q[KV_HEAD_DIM_MAX], by = 0;
	float x[KV_HEAD_DIM_MAX], best = -1, unit = 0;

	memcpy(x, head, sizeof *x * (size_t)n);
	VEC(kv_hadamard)(x, n);
	VEC(kv_round)(w, d, x, n, n, TOP, 0);
	for (int16_t step = 112; step <= 184; step += 12) { /* w * step / 2^16 = w / TOP * 7 .. 11.5 */
		int32_t wq = 0, qq = 0;
		float gain;

		VEC(kv_levels)(q, w, n, step);
		for (int i = 0; i < n; i++)
			wq += w[i] * q[i];
		for (int i = 0; i < n; i++)
			qq += q[i] * q[i];
		gain = (float)wq * (float)wq / (float)qq;
		if (gain > best) {
			best = gain;
			by = step;
			unit = (float)wq / (float)qq;
		}
	}
	*d *= unit;
	VEC(kv_levels)(q, w, n, by);
	for (int i = 0; i < n; i++)
		code[i] = (uint8_t)((q[i] + KV_Q4_TOP) / 2);
	memset(code + n, 0, (size_t)(kv_pad(n, 16) - n));
}

static void VEC(kv_fill)(struct kernels *k)
{
	k->kv_round = VEC(kv_round);
	k->kv_halves = VEC(kv_halves);
	k->kv_hadamard = VEC(kv_hadamard);
	k->kv_codes = VEC(kv_codes);
}
