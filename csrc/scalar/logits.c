/* logits.c - what samplers ask of logits: the specification. Sums are in 16 lanes, halves added 8, 4, 2, 1. */
#include <float.h>
#include <math.h>

#include "math/exp.h"
#include "scalar/set.h"

enum { LANES = 16 };

static void peaks(float *peak, const float *x, int64_t n)
{
	for (int j = 0; j < LANES; j++)
		peak[j] = -INFINITY;
	for (int64_t i = 0; i < n; i++)
		if (x[i] > peak[i % LANES]) /* false for NaN */
			peak[i % LANES] = x[i] + 0.0f; /* -0 is 0 */
}

static float add_lanes(float *lane)
{
	for (int half = LANES / 2; half; half /= 2)
		for (int j = 0; j < half; j++)
			lane[j] += lane[j + half];
	return lane[0];
}

static void weigh(struct qn_mass *mass, const float *x, int64_t n, const struct logits_range *r)
{
	float sum[LANES] = {0}, moment[LANES] = {0};

	for (int64_t i = 0; i < n; i++) {
		const float d = (x[i] - r->top) * r->scale, v = QEXP2_MIN > d ? QEXP2_MIN : d, w = qexp2(d);
		const int in = x[i] >= r->from && x[i] <= r->to;

		sum[i % LANES] += in ? w : 0;
		moment[i % LANES] += in ? w * v : 0;
	}
	*mass = (struct qn_mass){add_lanes(sum), add_lanes(moment)};
}

static void spread(float of[3], const float *x, int64_t n, float mid)
{
	float count[LANES] = {0}, sum[LANES] = {0}, squares[LANES] = {0};

	for (int64_t i = 0; i < n; i++) {
		const float d = x[i] - mid;
		const int in = fabsf(x[i]) <= FLT_MAX;

		count[i % LANES] += in ? 1 : 0;
		sum[i % LANES] += in ? d : 0;
		squares[i % LANES] += in ? d * d : 0;
	}
	of[0] = add_lanes(count);
	of[1] = add_lanes(sum);
	of[2] = add_lanes(squares);
}

static void bins(float *w, float *at, const float *x, int64_t n, const struct logits_range *r, float per, float last)
{
	for (int64_t i = 0; i < n; i++) {
		const float d = (x[i] - r->to) * per, far = 0 - (d > -last ? d : -last);

		w[i] = x[i] >= r->from && x[i] <= r->to ? qexp2((x[i] - r->top) * r->scale) : 0;
		at[i] = far > 0 ? far : 0;
	}
}

static int64_t select_tokens(struct qn_token *y, int64_t room, const float *x, int64_t n, int32_t id, float from,
                             float to)
{
	int64_t k = 0;

	for (int64_t i = 0; i < n; i++)
		if (x[i] >= from && x[i] <= to) {
			if (k < room)
				y[k] = (struct qn_token){id + (int32_t)i, x[i]};
			k++;
		}
	return k;
}

static int64_t count(const float *x, int64_t n, float from, float to)
{
	int64_t k = 0;

	for (int64_t i = 0; i < n; i++)
		k += x[i] >= from && x[i] <= to;
	return k;
}

static void ranks(int32_t *rank, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		rank[i] = 0;
		for (int64_t j = 0; j < n; j++)
			rank[i] += x[j] > x[i] || (x[j] == x[i] && j < i);
	}
}

void logits_init_scalar(struct kernels *k)
{
	k->logits_peaks = peaks;
	k->logits_weigh = weigh;
	k->logits_spread = spread;
	k->logits_select = select_tokens;
	k->logits_count = count;
	k->logits_ranks = ranks;
	k->logits_bins = bins;
}
