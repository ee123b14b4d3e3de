/*
 * check_logits.c - what samplers ask of logits: the scalar kernels against formulas in double, every set against the
 * scalar one, and whole vocabularies, whose last block is of any length.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "check.h"

enum { N_MAX = 5000 };

/* Logits of a kind: of a model, all alike, in steps, or with what is no number and what is banned. */
static void fill(float *x, int64_t n, int kind)
{
	for (int64_t i = 0; i < n; i++) {
		x[i] = kind == 1 ? 3 : kind == 2 ? (float)rnd_below(40) / 4 : rnd_normal() * 3;
		if (kind != 3)
			continue;
		switch (rnd_below(8)) {
		case 0:
			x[i] = NAN;
			break;
		case 1:
		case 2:
			x[i] = -INFINITY;
			break;
		case 3:
			x[i] = rnd_below(2) ? -0.0f : rnd_below(2) ? -FLT_MAX : 1e-40f;
			break;
		}
	}
}

static float largest(const float *x, int64_t n, int64_t step)
{
	float top = -INFINITY;

	for (int64_t i = 0; i < n; i++)
		if (x[i * step] > top)
			top = x[i * step];
	return top;
}

static void check_peaks(const float *x, int64_t n)
{
	const int64_t chunks = (n + QN_LOGITS_CHUNK - 1) / QN_LOGITS_CHUNK;
	float *peak = guard_alloc(sizeof *peak * (size_t)(chunks * QN_LOGITS_LANES));

	qn_logits_peaks(peak, x, n);
	for (int64_t j = 0; j < chunks * QN_LOGITS_LANES; j++) {
		const int64_t first = j / QN_LOGITS_LANES * QN_LOGITS_CHUNK + j % QN_LOGITS_LANES;
		const int64_t end = first / QN_LOGITS_CHUNK * QN_LOGITS_CHUNK + QN_LOGITS_CHUNK;
		float want = -INFINITY;

		for (int64_t i = first; i < end && i < n; i += QN_LOGITS_LANES)
			if (x[i] > want)
				want = x[i];
		check_true(peak[j] == want, "peak %lld of %lld is %g, want %g", (long long)j, (long long)n,
		           (double)peak[j], (double)want);
	}
}

/* Bits of all sets are those of the first, `first`, which the caller holds against the formula. */
static void check_weigh(struct set *set, struct qn_mass *first, const float *x, int64_t n, int64_t step, float from,
                        float to, float scale)
{
	const int64_t blocks = (n + QN_LOGITS_BLOCK - 1) / QN_LOGITS_BLOCK;
	const float top = largest(x, n, step);
	struct qn_mass *mass = guard_alloc(sizeof *mass * (size_t)blocks);

	if (!(top >= from)) /* nothing to weigh */
		return;
	qn_logits_weigh(mass, x, n, step, top, scale, from, to < top ? to : top);
	if (set != check_sets) {
		check_floats("mass", &mass->sum, &first->sum, 2 * blocks);
		return;
	}
	memcpy(first, mass, sizeof *mass * (size_t)blocks);
	for (int64_t b = 0; b < blocks; b++) {
		double sum = 0, moment = 0;

		for (int64_t i = b * QN_LOGITS_BLOCK; i < n && i < (b + 1) * QN_LOGITS_BLOCK; i++) {
			const float v = x[i * step];

			if (!(v >= from && v <= to))
				continue;
			const double e = ((double)v - (double)top) * (double)scale;

			sum += exp2(e);
			moment += e > -1000 ? exp2(e) * e : 0;
		}
		check_near("sum", b, (double)mass[b].sum, sum, 2e-5 * sum + 1e-26);
		check_near("moment", b, (double)mass[b].moment, moment, 2e-5 * (fabs(moment) + sum) + 1e-26);
	}
}

/* The bin of a logit, by the rule of the header in double where that is clear; else -1: single precision decides. */
static int64_t bin_of(double x, double to, double per)
{
	const double at = (to - x) * per;

	if (!(at < QN_LOGITS_BINS))
		return QN_LOGITS_BINS - 1;
	return fabs(at - round(at)) > 1e-5 * (1 + at) ? (int64_t)at : -1;
}

/* As check_weigh(): bits of all sets are those of the first. */
static void check_bins(struct set *set, double *first, const float *x, int64_t n, int64_t step, float from, float to,
                       float scale)
{
	static double mass[QN_LOGITS_BINS * QN_LOGITS_SUMS], want[QN_LOGITS_BINS];
	const float top = largest(x, n, step), high = to < top ? to : top, per = 100;
	double all = 0, sum = 0;

	if (!(top >= from))
		return;
	qn_logits_bins(mass, x, n, step, top, scale, per, from, high);
	if (set != check_sets) {
		check_true(!memcmp(mass, first, sizeof want), "bins differ from those of the first set");
		return;
	}
	memcpy(first, mass, sizeof want);
	memset(want, 0, sizeof want);
	for (int64_t i = 0; i < n; i++) {
		const float v = x[i * step];
		const int64_t b = bin_of((double)v, (double)high, (double)per);

		if (!(v >= from && v <= high))
			continue;
		const double w = scale > 0 ? exp2(((double)v - (double)top) * (double)scale) : 1;

		all += w;
		if (b >= 0)
			want[b] += w;
	}
	for (int64_t b = 0; b < QN_LOGITS_BINS; b++) {
		check_true(mass[b] >= want[b] * (1 - 2e-5) - 1e-26, "bin %lld has %g, want %g or more", (long long)b,
		           mass[b], want[b]);
		sum += mass[b];
	}
	check_near("all bins", n, sum, all, 2e-5 * all + 1e-26);
}

static int same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void same_spread(const struct qn_spread *got, const struct qn_spread *want)
{
	check_true(got->n == want->n && same(got->mean, want->mean) && same(got->variance, want->variance),
	           "spread %g, %a, %a, want %g, %a, %a", got->n, got->mean, got->variance, want->n, want->mean,
	           want->variance);
}

static void check_spread(struct set *set, struct qn_spread *first, const float *x, int64_t n, int64_t step)
{
	struct qn_spread s;
	double count = 0, mean = 0, squares = 0;

	qn_logits_spread(&s, x, n, step);
	if (set != check_sets) {
		same_spread(&s, first);
		return;
	}
	*first = s;
	for (int64_t i = 0; i < n; i++)
		if (isfinite(x[i * step])) {
			count++;
			mean += (double)x[i * step];
		}
	check_true(s.n == count, "%g are finite, want %g", s.n, count);
	mean = count > 0 ? mean / count : 0;
	if (!(fabs(mean) < 1e6)) /* sums with FLT_MAX are no floats */
		return;
	for (int64_t i = 0; i < n; i++)
		if (isfinite(x[i * step]))
			squares += ((double)x[i * step] - mean) * ((double)x[i * step] - mean);
	squares = count > 0 ? squares / count : 0;
	check_near("mean", n, s.mean, mean, 1e-6 * (fabs(mean) + sqrt(squares)));
	/* squares are floats: below FLT_MIN they lose bits, and are zero in the end */
	check_near("variance", n, s.variance, squares, 1e-5 * squares + 1e-12 * mean * mean + (double)FLT_MIN);
}

static void check_chosen(const float *x, int64_t n, float from, float to, int64_t room)
{
	float *peak = guard_alloc(sizeof *peak * (size_t)((n / QN_LOGITS_CHUNK + 1) * QN_LOGITS_LANES));
	struct qn_token *y = guard_alloc(sizeof *y * (size_t)room);
	int64_t k = 0, got;

	qn_logits_peaks(peak, x, n);
	got = qn_logits_select(y, room, x, n, peak, from, to);
	for (int64_t i = 0; i < n; i++)
		if (x[i] >= from && x[i] <= to) {
			if (k < room)
				check_true(y[k].id == i && !memcmp(&y[k].logit, &x[i], sizeof *x),
				           "place %lld has token %d with %g, want %lld with %g", (long long)k, y[k].id,
				           (double)y[k].logit, (long long)i, (double)x[i]);
			k++;
		}
	check_true(got == k, "%lld are selected, want %lld", (long long)got, (long long)k);
}

static int64_t reached(const float *x, int64_t n, float from, float to)
{
	int64_t k = 0;

	for (int64_t i = 0; i < n; i++)
		k += x[i] >= from && x[i] <= to;
	return k;
}

/* The same for all sets as for the first. Where no two logits are equal, a few halvings suffice. */
static void check_bound(struct set *set, float *first, const float *x, int64_t n, int64_t k, float from, int apart)
{
	const float top = largest(x, n, 1);
	float got;
	int64_t all, reach;

	if (!(top >= from))
		return;
	got = qn_logits_bound(x, n, k, from, top);
	if (set != check_sets) {
		check_floats("bound", &got, first, 1);
		return;
	}
	*first = got;
	all = reached(x, n, from, top);
	reach = reached(x, n, got, top);
	check_true(got >= from && got <= top && reach >= (k < all ? k : all), "%lld of %lld reach %g, want %lld",
	           (long long)reach, (long long)all, (double)got, (long long)k);
	if (apart)
		check_true(reach <= k + k / 4 + 8, "%lld reach %g, want about %lld", (long long)reach, (double)got,
		           (long long)k);
}

static void check_order(const float *x, int64_t n, int64_t k)
{
	struct qn_token *list = guard_alloc(sizeof *list * (size_t)n);
	struct qn_token *y = guard_alloc(sizeof *y * (size_t)(k < n ? k : n));
	int64_t m = 0;

	for (int64_t i = 0; i < n && m < QN_LOGITS_ORDER; i++)
		if (!isnan(x[i]))
			list[m++] = (struct qn_token){(int32_t)i, x[i]};
	qn_logits_order(y, k, list, m);
	for (int64_t i = 0; i < m; i++) {
		int64_t before = 0;

		for (int64_t j = 0; j < m; j++)
			before += list[j].logit > list[i].logit || (list[j].logit == list[i].logit && j < i);
		if (before < k)
			check_true(y[before].id == list[i].id && !memcmp(&y[before].logit, &list[i].logit, sizeof *x),
			           "place %lld of %lld has token %d, want %d", (long long)before, (long long)m,
			           y[before].id, list[i].id);
	}
	qn_logits_order(list, m, list, m);
	for (int64_t i = 0; i < m && i < k; i++)
		check_true(list[i].id == y[i].id, "in place: token %d, want %d", list[i].id, y[i].id);
}

static void check_size(int64_t n, int kind)
{
	static struct qn_mass mass[2][N_MAX / QN_LOGITS_BLOCK + 1];
	const float edge = rnd_normal() * 3, other = edge + fabsf(rnd_normal()), scale = fabsf(rnd_normal()) + 0.01f;
	float *x = guard_alloc(sizeof *x * (size_t)n), *pairs = guard_alloc(sizeof *x * (size_t)(2 * n - 1));
	struct qn_spread spread[2] = {{0}};
	static double bins[3][QN_LOGITS_BINS];
	float bound[3] = {0};

	fill(x, n, kind);
	for (int64_t i = 0; i < 2 * n - 1; i++)
		pairs[i] = i % 2 ? NAN : x[i / 2];
	EACH_SET(s) {
		qn_init(s->isa);
		check_at(s, "%lld logits of kind %d", (long long)n, kind);
		check_peaks(x, n);
		check_weigh(s, mass[0], x, n, 1, -FLT_MAX, FLT_MAX, scale);
		check_weigh(s, mass[1], x, n, 1, edge, other, scale);
		check_bins(s, bins[0], x, n, 1, -FLT_MAX, FLT_MAX, scale);
		check_bins(s, bins[1], x, n, 1, edge, other, 0);
		check_bins(s, bins[2], x, n, 1, -FLT_MAX, FLT_MAX, 0);
		check_spread(s, &spread[0], x, n, 1);
		check_chosen(x, n, edge, FLT_MAX, n);
		check_chosen(x, n, edge, other, n / 3);
		check_bound(s, &bound[0], x, n, 1, -FLT_MAX, kind == 0);
		check_bound(s, &bound[1], x, n, n / 3 + 1, -FLT_MAX, kind == 0);
		check_bound(s, &bound[2], x, n, n / 2 + 1, edge, 0);
		check_order(x, n, 1);
		check_order(x, n, n / 3 + 1);
		check_order(x, n, QN_LOGITS_ORDER);
		check_at(s, "%lld logits of kind %d, in a list", (long long)n, kind);
		check_weigh(s, mass[1], pairs, n, 2, edge, other, scale);
		check_bins(s, bins[1], pairs, n, 2, edge, other, 0);
		check_spread(s, &spread[1], pairs, n, 2);
		same_spread(&spread[1], &spread[0]);
	}
	qn_init(UINT32_MAX);
	guard_free_all();
}

void check_logits(void)
{
	static const int sizes[] = {1, 2, 15, 16, 17, 64, 80, 255, 256, 257, 1000, 1024, 1025, 2048, 4112, N_MAX};

	for (int i = 0; i < COUNT(sizes); i += check_quick ? 3 : 1)
		for (int kind = 0; kind < 4; kind++)
			check_size(sizes[i], kind);
}
