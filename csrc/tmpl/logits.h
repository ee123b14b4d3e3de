/*
 * logits.h - what samplers ask of logits, over vectors of 16 lanes. Not compiled as it stands, see tmpl/matmul_float.h.
 */
#include <float.h>

#include "kernels.h"

/* Four chains hide the latency of a maximum, which is the same in any order: zeros lose their signs. */
static void VEC(logits_peaks)(float *peak, const float *x, int64_t n)
{
	v16 top[4];
	int64_t i = 0;

#pragma GCC unroll 4
	for (int c = 0; c < 4; c++)
		top[c] = v16_set1(-INFINITY);
	for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
		for (int c = 0; c < 4; c++)
			top[c] = v16_max(v16_load(x + i + 16 * c), top[c]);
	for (; i < n; i += 16)
		top[0] = v16_max(v16_load(x + i), top[0]);
	top[0] = v16_max(v16_max(top[0], top[1]), v16_max(top[2], top[3]));
	v16_store(peak, v16_add(top[0], v16_zero()));
}

static void VEC(logits_weigh)(struct qn_mass *mass, const float *x, int64_t n, const struct logits_range *r)
{
	const v16 top = v16_set1(r->top), scale = v16_set1(r->scale), from = v16_set1(r->from), to = v16_set1(r->to);
	v16 sum = v16_zero(), moment = v16_zero();

	for (int64_t i = 0; i < n; i += 16) {
		const v16 a = v16_load(x + i), d = v16_mul(v16_sub(a, top), scale), w = v16_exp2(d);

		sum = v16_add(sum, v16_where(w, a, from, to));
		moment = v16_add(moment, v16_where(v16_mul(w, v16_max(v16_set1(QEXP2_MIN), d)), a, from, to));
	}
	*mass = (struct qn_mass){v16_sum(sum), v16_sum(moment)};
}

static void VEC(logits_spread)(float of[3], const float *x, int64_t n, float mid)
{
	const v16 from = v16_set1(-FLT_MAX), to = v16_set1(FLT_MAX);
	v16 count = v16_zero(), sum = v16_zero(), squares = v16_zero();

	for (int64_t i = 0; i < n; i += 16) {
		const v16 a = v16_load(x + i), d = v16_sub(a, v16_set1(mid));

		count = v16_add(count, v16_where(v16_set1(1), a, from, to));
		sum = v16_add(sum, v16_where(d, a, from, to));
		squares = v16_add(squares, v16_where(v16_mul(d, d), a, from, to));
	}
	of[0] = v16_sum(count);
	of[1] = v16_sum(sum);
	of[2] = v16_sum(squares);
}

static void VEC(logits_bins)(float *w, float *at, const float *x, int64_t n, const struct logits_range *r, float per,
                             float last)
{
	const v16 top = v16_set1(r->top), scale = v16_set1(r->scale), from = v16_set1(r->from), to = v16_set1(r->to);

	for (int64_t i = 0; i < n; i += 16) {
		const v16 a = v16_load(x + i), d = v16_mul(v16_sub(a, to), v16_set1(per));

		v16_store(w + i, v16_where(v16_exp2(v16_mul(v16_sub(a, top), scale)), a, from, to));
		v16_store(at + i, v16_max(v16_sub(v16_zero(), v16_max(d, v16_set1(-last))), v16_zero()));
	}
}

static int64_t VEC(logits_select)(struct qn_token *y, int64_t room, const float *x, int64_t n, int32_t id, float from,
                                  float to)
{
	const v16 lo = v16_set1(from), hi = v16_set1(to);
	int64_t k = 0;

	for (int64_t i = 0; i < n; i += 16)
		for (uint32_t in = v16_within(v16_load(x + i), lo, hi); in; in &= in - 1, k++) {
			const int64_t at = i + __builtin_ctz(in);

			if (k >= room) { /* counted only */
				k += __builtin_popcount(in);
				break;
			}
			y[k] = (struct qn_token){id + (int32_t)at, x[at]};
		}
	return k;
}

static int64_t VEC(logits_count)(const float *x, int64_t n, float from, float to)
{
	const v16 lo = v16_set1(from), hi = v16_set1(to);
	int64_t k = 0;

	for (int64_t i = 0; i < n; i += 16)
		k += __builtin_popcount(v16_within(v16_load(x + i), lo, hi));
	return k;
}

/* Equal ones come first in the lanes before that of x[i], and after it in the others. */
static void VEC(logits_ranks)(int32_t *rank, const float *x, int64_t n)
{
	const v16 least = v16_set1(-INFINITY), most = v16_set1(INFINITY);

	for (int64_t i = 0; i < n; i++) {
		const v16 a = v16_set1(x[i]), own = v16_load(x + i / 16 * 16);
		const uint32_t below = (1u << i % 16) - 1;
		int64_t k = __builtin_popcount((v16_within(own, a, most) & below) |
		                               (~v16_within(own, least, a) & 0xffff & ~below)), j = 0;

		for (; j < i / 16 * 16; j += 16)
			k += __builtin_popcount(v16_within(v16_load(x + j), a, most));
		for (j += 16; j < n; j += 16)
			k += 16 - __builtin_popcount(v16_within(v16_load(x + j), least, a));
		rank[i] = (int32_t)k;
	}
}

static void VEC(logits_fill)(struct kernels *k)
{
	k->logits_peaks = VEC(logits_peaks);
	k->logits_weigh = VEC(logits_weigh);
	k->logits_spread = VEC(logits_spread);
	k->logits_select = VEC(logits_select);
	k->logits_count = VEC(logits_count);
	k->logits_ranks = VEC(logits_ranks);
	k->logits_bins = VEC(logits_bins);
}
