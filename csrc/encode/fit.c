/* fit.c - the scale of a run of weights, and their codes, of least error. */
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#include <math.h>

#include "encode/encode.h"

static float least(float a, float b)
{
	return a < b ? a : b;
}

float encode_positive(int n, int most, const float *x, const float *w, uint8_t *q)
{
	float top = 0, best = 0, sum_xq = 0, sum_q2 = 0, inverse;

	for (int i = 0; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (int i = 0; i < n; i++)
		q[i] = 0;
	if (top < ENCODE_TINY)
		return 0;
	inverse = (float)most / top;
	for (int k = -5; k <= 4; k++) { /* first without a change, then from -0.4 to 0.4 */
		const float try = k < -4 ? inverse : (0.1f * (float)k + (float)most) / top, scale = 1 / try;
		float error = 0;

		if (!k)
			continue;
		for (int i = 0; i < n; i++) {
			const float code = encode_round(try * x[i]);
			const float kept = k < -4 ? (float)(uint8_t)(int)code : least(code, (float)most);
			const float off = x[i] - scale * kept;

			error += w[i] * off * off;
		}
		if (k < -4 || error < best) {
			best = error;
			inverse = try;
		}
	}
	for (int i = 0; i < n; i++) {
		const float code = least(encode_round(inverse * x[i]), (float)most);

		q[i] = (uint8_t)(int)code;
		sum_xq += w[i] * x[i] * code;
		sum_q2 += w[i] * code * code;
	}
	for (int round = 0; round < 5; round++) {
		int changed = 0;

		for (int i = 0; i < n; i++) {
			float xq = sum_xq - w[i] * x[i] * (float)q[i], q2 = sum_q2 - w[i] * (float)q[i] * (float)q[i];

			if (!(xq > 0 && q2 > 0))
				continue;
			const float code = least(encode_round(x[i] * q2 / xq), (float)most);

			if (code == (float)q[i])
				continue;
			xq += w[i] * x[i] * code;
			q2 += w[i] * code * code;
			if (xq * xq * sum_q2 > sum_xq * sum_xq * q2) {
				q[i] = (uint8_t)(int)code;
				sum_xq = xq;
				sum_q2 = q2;
				changed = 1;
			}
		}
		if (!changed)
			break;
	}
	return sum_q2 > 0 ? sum_xq / sum_q2 : 0;
}

float encode_signed(int n, int most, const float *x, const float *w, uint8_t *q)
{
	float size = 0, x_most = 0, scale = 0, best = 0, best_inverse = 0;

	for (int i = 0; i < n; i++)
		if (fabsf(x[i]) > size) {
			size = fabsf(x[i]);
			x_most = x[i];
		}
	for (int i = 0; i < n; i++)
		q[i] = 0;
	if (size < ENCODE_TINY)
		return 0;
	for (int k = -10; k <= 9; k++) { /* first without a change, then from -0.9 to 0.9 */
		const float inverse = -(k < -9 ? (float)most : (float)most + 0.1f * (float)k) / x_most;
		float sum_xq = 0, sum_q2 = 0;

		if (!k)
			continue;
		for (int i = 0; i < n; i++) {
			const float code = encode_clamp(encode_round(inverse * x[i]), (float)-most, (float)(most - 1));

			sum_xq += w[i] * x[i] * code;
			sum_q2 += w[i] * code * code;
		}
		if (k < -9 ? sum_q2 != 0 : sum_q2 > 0 && sum_xq * sum_xq > best * sum_q2) {
			scale = sum_xq / sum_q2;
			best = scale * sum_xq;
			best_inverse = inverse;
		} else if (k < -9) {
			best_inverse = inverse;
		}
	}
	for (int i = 0; i < n; i++)
		q[i] = (uint8_t)(encode_clamp(encode_round(best_inverse * x[i]), (float)-most, (float)(most - 1)) +
		                 (float)most);
	return scale;
}
