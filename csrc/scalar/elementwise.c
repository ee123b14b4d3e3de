/*
 * elementwise.c - the element-wise kernels, compiled for the baseline; and the peak of the scalar set.
 */
#define FLAGS_VECTORS
#include "flags.h"

#include <math.h>

#include "kernels.h"
#include "scalar/set.h"

/* Number i of a row is in lane i % QN_PANEL of a sum; then halves of the lanes are added, 8, 4, 2, 1. */
static float add_lanes(float *lane)
{
	for (int half = QN_PANEL / 2; half; half /= 2)
		for (int j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

static float sum_scalar(const float *x, int64_t n)
{
	float lane[QN_PANEL] = {0};

	for (int64_t i = 0; i < n; i++)
		lane[i % QN_PANEL] += x[i];
	return add_lanes(lane);
}

static float sumsq_scalar(const float *x, int64_t n)
{
	float lane[QN_PANEL] = {0};

	for (int64_t i = 0; i < n; i++)
		lane[i % QN_PANEL] = fmaf(x[i], x[i], lane[i % QN_PANEL]);
	return add_lanes(lane);
}

static float sumsq_about_scalar(const float *x, float mean, int64_t n)
{
	float lane[QN_PANEL] = {0};

	for (int64_t i = 0; i < n; i++)
		lane[i % QN_PANEL] = fmaf(x[i] - mean, x[i] - mean, lane[i % QN_PANEL]);
	return add_lanes(lane);
}

static float dot_scalar(const float *x, const float *y, int64_t n)
{
	float lane[QN_PANEL] = {0};

	for (int64_t i = 0; i < n; i++)
		lane[i % QN_PANEL] = fmaf(x[i], y[i], lane[i % QN_PANEL]);
	return add_lanes(lane);
}

#define VEC(name) name##_scalar
#include "tmpl/elementwise.h"
#include "tmpl/derivatives.h"
#include "tmpl/kv.h"

static void int8_rounds_scalar(int64_t n)
{
	volatile uint32_t sink;
	uint32_t a[4] = {1, 2, 3, 4}; /* it overflows */

	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < 4; j++)
			a[j] += a[j] * (uint32_t)(int8_t)i;
	sink = a[0] + a[1] + a[2] + a[3];
	(void)sink;
}

void vec_init_scalar(struct kernels *k)
{
	vec_fill_scalar(k);
	derivatives_fill_scalar(k);
	kv_fill_scalar(k);
	k->int8_rounds = int8_rounds_scalar;
	k->int8_per_round = 4;
}
