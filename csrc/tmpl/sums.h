/*
 * sums.h - sums over rows. Not compiled as it stands: a set includes it once, with the vectors of tmpl/matmul_float.h
 * and before tmpl/elementwise.h.
 *
 * In vectors: of a loop over lanes GCC 12 makes sixteen scalar sums for AVX-512, and gathers them at each end.
 */
#include <math.h>

#include "kernels.h"

/* Of x - about, or of its squares; constant. */
INLINE float sum_of(int squares, const float *x, float about, int64_t n)
{
	v16 sum = v16_zero();
	float lane[QN_PANEL];
	int64_t i = 0;

	for (; i + QN_PANEL <= n; i += QN_PANEL) {
		const v16 d = v16_sub(v16_load(x + i), v16_set1(about));

		sum = squares ? v16_fma(d, d, sum) : v16_add(sum, d);
	}
	if (i == n)
		return v16_sum(sum);
	v16_store(lane, sum);
	for (int j = 0; i + j < n; j++) {
		const float d = x[i + j] - about;

		lane[j] = squares ? fmaf(d, d, lane[j]) : lane[j] + d;
	}
	return v16_sum(v16_load(lane));
}

static float VEC(sum)(const float *x, int64_t n)
{
	return sum_of(0, x, 0, n);
}

static float VEC(sumsq)(const float *x, int64_t n)
{
	return sum_of(1, x, 0, n);
}

static float VEC(sumsq_about)(const float *x, float mean, int64_t n)
{
	return sum_of(1, x, mean, n);
}

static float VEC(dot)(const float *x, const float *y, int64_t n)
{
	v16 sum = v16_zero();
	float lane[QN_PANEL];
	int64_t i = 0;

	for (; i + QN_PANEL <= n; i += QN_PANEL)
		sum = v16_fma(v16_load(x + i), v16_load(y + i), sum);
	if (i == n)
		return v16_sum(sum);
	v16_store(lane, sum);
	for (int j = 0; i + j < n; j++)
		lane[j] = fmaf(x[i + j], y[i + j], lane[j]);
	return v16_sum(v16_load(lane));
}
