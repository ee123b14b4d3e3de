/* logits.c - what samplers ask of the logits of a vocabulary: block by block, in one thread. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "quern.h"

/* As many as are left of a part. */
static int64_t part(int64_t n, int64_t i, int64_t most)
{
	return n - i < most ? n - i : most;
}

/*
 * n logits of a part, `step` apart: where they are, or next to each other in `copy`, with what no range has up to a
 * multiple of 16.
 */
static const float *in_lanes(float *copy, const float *x, int64_t step, int64_t *n)
{
	const int64_t lanes = (*n + QN_LOGITS_LANES - 1) / QN_LOGITS_LANES * QN_LOGITS_LANES;

	if (step == 1 && lanes == *n)
		return x;
	for (int64_t i = 0; i < *n; i++)
		copy[i] = x[i * step];
	for (int64_t i = *n; i < lanes; i++)
		copy[i] = -INFINITY;
	*n = lanes;
	return copy;
}

void qn_logits_peaks(float *peak, const float *x, int64_t n)
{
	float copy[QN_LOGITS_CHUNK];

	for (int64_t i = 0; i < n; i += QN_LOGITS_CHUNK, peak += QN_LOGITS_LANES) {
		int64_t m = part(n, i, QN_LOGITS_CHUNK);
		const float *p = in_lanes(copy, x + i, 1, &m);

		qn_kernels.logits_peaks(peak, p, m);
	}
}

void qn_logits_weigh(struct qn_mass *mass, const float *x, int64_t n, int64_t step, float top, float scale, float from,
                     float to)
{
	const struct logits_range range = {top, scale, from, to};
	float copy[QN_LOGITS_BLOCK];

	for (int64_t i = 0; i < n; i += QN_LOGITS_BLOCK) {
		int64_t m = part(n, i, QN_LOGITS_BLOCK);
		const float *p = in_lanes(copy, x + i * step, step, &m);

		qn_kernels.logits_weigh(mass++, p, m, &range);
	}
}

/* Counts, sums of x - mid and of its square, over all blocks. */
static void spread_about(double of[3], const float *x, int64_t n, int64_t step, float mid)
{
	float copy[QN_LOGITS_BLOCK], block[3];

	of[0] = of[1] = of[2] = 0;
	for (int64_t i = 0; i < n; i += QN_LOGITS_BLOCK) {
		int64_t m = part(n, i, QN_LOGITS_BLOCK);
		const float *p = in_lanes(copy, x + i * step, step, &m);

		qn_kernels.logits_spread(block, p, m, mid);
		for (int j = 0; j < 3; j++)
			of[j] += (double)block[j];
	}
}

/* Twice: squares of distances from a number near the mean are not much larger than the variance. */
void qn_logits_spread(struct qn_spread *s, const float *x, int64_t n, int64_t step)
{
	double of[3], off;
	float mid;

	spread_about(of, x, n, step, 0);
	mid = of[0] > 0 ? (float)(of[1] / of[0]) : 0;
	spread_about(of, x, n, step, mid);
	off = of[0] > 0 ? of[1] / of[0] : 0;
	*s = (struct qn_spread){of[0], (double)mid + off, of[0] > 0 ? of[2] / of[0] - off * off : 0};
}

/* A bin has four sums, for logits next to each other are often of one: each addition would wait for the one before. */
void qn_logits_bins(double *mass, const float *x, int64_t n, int64_t step, float top, float scale, float per,
                    float from, float to)
{
	const struct logits_range range = {top, scale, from, to};
	float copy[QN_LOGITS_BLOCK], w[QN_LOGITS_BLOCK], at[QN_LOGITS_BLOCK];

	memset(mass, 0, sizeof *mass * QN_LOGITS_BINS * QN_LOGITS_SUMS);
	for (int64_t i = 0; i < n; i += QN_LOGITS_BLOCK) {
		int64_t m = part(n, i, QN_LOGITS_BLOCK);
		const float *p = in_lanes(copy, x + i * step, step, &m);

		qn_kernels.logits_bins(w, at, p, m, &range, per, QN_LOGITS_BINS - 1);
		for (int64_t j = 0; j < m; j += QN_LOGITS_SUMS)
			for (int c = 0; c < QN_LOGITS_SUMS; c++)
				mass[(int)at[j + c] * QN_LOGITS_SUMS + c] += (double)w[j + c];
	}
	for (int b = 0; b < QN_LOGITS_BINS; b++) {
		const double *s = mass + b * QN_LOGITS_SUMS;

		mass[b] = (s[0] + s[1]) + (s[2] + s[3]);
	}
}

int64_t qn_logits_select(struct qn_token *y, int64_t room, const float *x, int64_t n, const float *peak, float from,
                         float to)
{
	float copy[QN_LOGITS_CHUNK];
	int64_t k = 0;

	for (int64_t i = 0; i < n; i += QN_LOGITS_CHUNK, peak += QN_LOGITS_LANES) {
		int64_t m = part(n, i, QN_LOGITS_CHUNK), left = k < room ? room - k : 0;
		int some = 0;

		for (int j = 0; j < QN_LOGITS_LANES; j++)
			some |= peak[j] >= from;
		if (!some)
			continue;
		const float *p = in_lanes(copy, x + i, 1, &m);

		k += qn_kernels.logits_select(left ? y + k : NULL, left, p, m, (int32_t)i, from, to);
	}
	return k;
}

static int64_t count_from(const float *x, int64_t n, float from, float top)
{
	float copy[QN_LOGITS_CHUNK];
	int64_t k = 0, whole = n / QN_LOGITS_LANES * QN_LOGITS_LANES, left = n - whole;

	k = qn_kernels.logits_count(x, whole, from, top);
	if (left > 0) {
		const float *p = in_lanes(copy, x + whole, 1, &left);

		k += qn_kernels.logits_count(p, left, from, top);
	}
	return k;
}

float qn_logits_bound(const float *x, int64_t n, int64_t k, float from, float top)
{
	const int64_t most = k + k / 4 + 8;
	float lo = top, hi = top;
	int64_t reach = count_from(x, n, from, top);

	if (reach <= most)
		return from;
	reach = count_from(x, n, top, top);
	for (float far = 1; reach < k && lo > from; far *= 2) { /* in the end infinity */
		hi = lo;
		lo = top - far > from ? top - far : from;
		reach = count_from(x, n, lo, top);
	}
	for (int halvings = 0; reach > most && halvings < 24; halvings++) {
		const float mid = lo / 2 + hi / 2;
		const int64_t m = count_from(x, n, mid, top);

		if (!(mid > lo && mid < hi))
			break;
		if (m < k) {
			hi = mid;
		} else {
			lo = mid;
			reach = m;
		}
	}
	return lo;
}

void qn_logits_order(struct qn_token *y, int64_t k, const struct qn_token *x, int64_t n)
{
	struct qn_token token[QN_LOGITS_ORDER];
	int32_t rank[QN_LOGITS_ORDER];
	float copy[QN_LOGITS_ORDER];
	int64_t lanes = n;

	if (n < 1)
		return;
	memcpy(token, x, sizeof *x * (size_t)n);
	const float *p = in_lanes(copy, &token[0].logit, 2, &lanes);

	qn_kernels.logits_ranks(rank, p, lanes);
	for (int64_t i = 0; i < n; i++)
		if (rank[i] < k)
			y[rank[i]] = token[i];
}
