/*
 * encode.h - encoders of weights in lanes. Not compiled as it stands: a file of a set defines W, the lanes of its
 * vectors, and ENCODE_INIT, and includes it.
 *
 * The order of every sum is that of llama.cpp's encoders, and nothing is fused. So the codes are the same as theirs,
 * and what a search finds does not depend on the set.
 */
#include <math.h>
#include <string.h>

#include "encode/encode.h"
#include "encode/pack.h"

#define RUNS 16 /* runs of weights in a tile */

typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));

/* Runs of n weights, weight i of run r at [i][r], with what each counts, and what a fit finds. */
struct tile {
	_Alignas(64) float x[QK][RUNS], w[QK][RUNS];
	_Alignas(64) float scale[RUNS], min[RUNS];
	const float *at[RUNS]; /* the runs in the source */
	uint8_t q[RUNS][QK];
};

static inline vf load(const float *p)
{
	return *(const vf *)p;
}

static inline void store(float *p, vf v)
{
	*(vf *)p = v;
}

static inline vf pick(vi m, vf yes, vf no)
{
	return (vf)(((vi)yes & m) | ((vi)no & ~m));
}

static inline vf all(float v)
{
	return v - (vf){0};
}

static inline vf round_v(vf v)
{
	return (v + 12582912.f) - 12582912.f;
}

static inline vf clamp_v(vf v, float lo, float hi)
{
	v = pick(v < lo, all(lo), v);
	return pick(v > hi, all(hi), v);
}

static inline vf abs_v(vf v)
{
	return (vf)((vi)v & 0x7fffffff);
}

static inline vf sqrt_v(vf v)
{
	for (int r = 0; r < W; r++)
		v[r] = sqrtf(v[r]);
	return v;
}

static inline int any(vi m)
{
	int32_t some = 0;

	for (int r = 0; r < W; r++)
		some |= m[r];
	return some != 0;
}

/* Codes of weight i of runs r .. r + W - 1. */
static inline void put(struct tile *t, int i, int r, vf codes)
{
	for (int k = 0; k < W; k++)
		t->q[r + k][i] = (uint8_t)(int)codes[k];
}

/* ------------------------------------------------------------------ what is fitted */

/*
 * The tile that begins with block b, whose blocks have `runs` runs of n weights each. Where blocks end, the last one is
 * taken again.
 */
static void take(struct tile *t, const struct source *s, int64_t b, int runs, int n)
{
	for (int r = 0; r < RUNS; r++) {
		const int64_t block = b + r / runs < s->blocks ? b + r / runs : s->blocks - 1;

		t->at[r] = s->x + (block * runs + r % runs) * n;
		for (int i = 0; i < n; i++)
			t->x[i][r] = t->at[r][i];
	}
}

static void weigh_squares(struct tile *t, int n)
{
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RUNS; r++)
			t->w[i][r] = t->x[i][r] * t->x[i][r];
}

static void weigh_sizes(struct tile *t, int n)
{
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RUNS; r++)
			t->w[i][r] = fabsf(t->x[i][r]);
}

/* Size over the root mean square of the run. */
static void weigh_sizes_over_mean(struct tile *t, int n)
{
	for (int r = 0; r < RUNS; r += W) {
		vf sum = {0};

		for (int i = 0; i < n; i++)
			sum += load(&t->x[i][r]) * load(&t->x[i][r]);
		const vf mean = sqrt_v(sum / (float)n);

		for (int i = 0; i < n; i++)
			store(&t->w[i][r], mean + abs_v(load(&t->x[i][r])));
	}
}

/* Importance times the root of the square and what squares are about: `mean` of each run. */
static void weigh_importance(struct tile *t, const struct source *s, int64_t b, int runs, int n, const float mean[RUNS])
{
	for (int r = 0; r < RUNS; r++) {
		const int64_t block = b + r / runs < s->blocks ? b + r / runs : s->blocks - 1;
		const float *w = importance_of(s, block, runs * n) + r % runs * n;

		for (int i = 0; i < n; i++)
			t->w[i][r] = w[i];
	}
	for (int r = 0; r < RUNS; r += W)
		for (int i = 0; i < n; i++) {
			const vf x = load(&t->x[i][r]);

			store(&t->w[i][r], load(&t->w[i][r]) * sqrt_v(load(&mean[r]) + x * x));
		}
}

/* `times` the mean square of each run's block. */
static void mean_squares(float mean[RUNS], const struct source *s, int64_t b, int runs, int n, float times)
{
	for (int r = 0; r < RUNS; r++) {
		const int64_t block = b + r / runs < s->blocks ? b + r / runs : s->blocks - 1;

		mean[r] = r % runs || (r && block == b + r / runs - 1)
			? mean[r - 1]
			: times * sum_of_squares(s->x + block * runs * n, runs * n) / (float)(runs * n);
	}
}

/* The mean square of each run's row: runs are blocks. */
static void row_squares(float mean[RUNS], const struct source *s, int64_t b, int n)
{
	for (int r = 0; r < RUNS; r++) {
		const int64_t block = b + r < s->blocks ? b + r : s->blocks - 1, width = s->per_row * n;

		mean[r] = r && block % s->per_row
			? mean[r - 1]
			: sum_of_squares(s->x + block / s->per_row * width, width) / (float)width;
	}
}

/* ------------------------------------------------------------------ fits */

/* Scales to try for codes up to most: (first + step k + most) / range, k = 0 .. steps. */
struct search {
	float first, step;
	int steps;
	int sizes; /* 1: the error is the sum of sizes, and not of squares */
};

/* w = scale q - min, min at least 0, by least squares for the codes of each scale that is tried. */
static void fit_affine(struct tile *t, int n, int most, struct search s)
{
	vf q[QK];

	for (int r = 0; r < RUNS; r += W) {
		vf lo = load(&t->x[0][r]), hi = lo, sum_w = load(&t->w[0][r]), sum_x = sum_w * lo;

		for (int i = 1; i < n; i++) {
			const vf x = load(&t->x[i][r]), w = load(&t->w[i][r]);

			lo = pick(x < lo, x, lo);
			hi = pick(x > hi, x, hi);
			sum_w += w;
			sum_x += w * x;
		}
		lo = pick(lo > 0, all(0), lo);

		const vi flat = hi <= lo;
		vf inverse = (float)most / (hi - lo), scale = 1 / inverse, best = {0};
		vf best_inverse = inverse, best_lo = lo;

		for (int i = 0; i < n; i++) {
			const vf x = load(&t->x[i][r]);
			const vf off = scale * clamp_v(round_v(inverse * (x - lo)), 0, (float)most) + lo - x;

			best += load(&t->w[i][r]) * (s.sizes ? abs_v(off) : off * off);
		}
		for (int k = 0; k <= s.steps; k++) {
			vf sum_q = {0}, sum_q2 = {0}, sum_xq = {0}, error = {0};

			inverse = (s.first + s.step * (float)k + (float)most) / (hi - lo);
			for (int i = 0; i < n; i++) {
				const vf x = load(&t->x[i][r]);
				const vf wq = load(&t->w[i][r]) *
				              (q[i] = clamp_v(round_v(inverse * (x - lo)), 0, (float)most));

				sum_q += wq;
				sum_q2 += wq * q[i];
				sum_xq += wq * x;
			}
			const vf det = sum_w * sum_q2 - sum_q * sum_q;
			vf try_scale = (sum_w * sum_xq - sum_x * sum_q) / det;
			vf try_lo = (sum_q2 * sum_x - sum_q * sum_xq) / det;
			const vi above = try_lo > 0;

			try_lo = pick(above, all(0), try_lo);
			try_scale = pick(above, sum_xq / sum_q2, try_scale);
			for (int i = 0; i < n; i++) {
				const vf off = try_scale * q[i] + try_lo - load(&t->x[i][r]);

				error += load(&t->w[i][r]) * (s.sizes ? abs_v(off) : off * off);
			}
			const vi better = (det > 0) & (error < best) & ~flat;

			best = pick(better, error, best);
			best_inverse = pick(better, inverse, best_inverse);
			best_lo = pick(better, lo, best_lo);
			scale = pick(better, try_scale, scale);
			lo = pick(better, try_lo, lo);
		}
		for (int i = 0; i < n; i++) {
			const vf x = load(&t->x[i][r]);

			const vf code = clamp_v(round_v(best_inverse * (x - best_lo)), 0, (float)most);

			put(t, i, r, pick(flat, all(0), code));
		}
		store(&t->scale[r], pick(flat, all(0), scale));
		store(&t->min[r], -lo);
	}
}

/* The weight of the largest size of each run, the first of these. */
static vf largest(const struct tile *t, int n, int r, vf *size)
{
	vf most = {0}, x_most = {0};

	for (int i = 0; i < n; i++) {
		const vf x = load(&t->x[i][r]), s = abs_v(x);
		const vi more = s > most;

		most = pick(more, s, most);
		x_most = pick(more, x, x_most);
	}
	*size = most;
	return x_most;
}

/* w = scale (q - most), q from 0 to 2 most - 1. */
static void fit_signed(struct tile *t, int n, int most)
{
	for (int r = 0; r < RUNS; r += W) {
		vf size, scale = {0}, best = {0}, best_inverse = {0};
		const vf x_most = largest(t, n, r, &size);
		const vi zero = size < ENCODE_TINY;

		for (int k = -10; k <= 9; k++) { /* first without a change, then from -0.9 to 0.9 */
			const float top = k < -9 ? (float)most : (float)most + 0.1f * (float)k;
			const vf inverse = -top / x_most;
			vf sum_xq = {0}, sum_q2 = {0};

			if (!k)
				continue;
			for (int i = 0; i < n; i++) {
				const vf x = load(&t->x[i][r]), w = load(&t->w[i][r]);
				const vf q = clamp_v(round_v(inverse * x), (float)-most, (float)(most - 1));

				sum_xq += w * x * q;
				sum_q2 += w * q * q;
			}
			const vi better = k < -9 ? (sum_q2 != 0) : (sum_q2 > 0) & (sum_xq * sum_xq > best * sum_q2);
			const vf try = sum_xq / sum_q2;

			scale = pick(better, try, scale);
			best = pick(better, try * sum_xq, best);
			best_inverse = k < -9 ? inverse : pick(better, inverse, best_inverse);
		}
		for (int i = 0; i < n; i++) {
			const vf x = load(&t->x[i][r]);
			const vf q = clamp_v(round_v(best_inverse * x), (float)-most, (float)(most - 1));

			put(t, i, r, pick(zero, all(0), q + (float)most));
		}
		store(&t->scale[r], pick(zero, all(0), scale));
	}
}

/* The same for 4, weights counting as their squares: codes are changed one after the other, while that helps. */
static void fit_descent(struct tile *t, int n)
{
	vf q[QK];

	for (int r = 0; r < RUNS; r += W) {
		vf size, sum_xq = {0}, sum_q2 = {0};
		const vf inverse = -4 / largest(t, n, r, &size);
		const vi zero = size < ENCODE_TINY;

		for (int i = 0; i < n; i++) {
			const vf x = load(&t->x[i][r]), w = x * x;

			q[i] = clamp_v(round_v(inverse * x), -4, 3);
			sum_xq += w * x * q[i];
			sum_q2 += w * q[i] * q[i];
		}
		for (int round = 0; round < 5; round++) {
			vi changed = {0};

			for (int i = 0; i < n; i++) {
				const vf x = load(&t->x[i][r]), w = x * x;
				vf xq = sum_xq - w * x * q[i], q2 = sum_q2 - w * q[i] * q[i];
				const vi open = xq > 0;
				const vf new = clamp_v(round_v(x * q2 / xq), -4, 3);

				xq += w * x * new;
				q2 += w * new * new;
				const vi better = open & (new != q[i]) & (q2 > 0) &
				                  (xq * xq * sum_q2 > sum_xq * sum_xq * q2);

				q[i] = pick(better, new, q[i]);
				sum_xq = pick(better, xq, sum_xq);
				sum_q2 = pick(better, q2, sum_q2);
				changed |= better;
			}
			if (!any(changed))
				break;
		}
		for (int i = 0; i < n; i++)
			put(t, i, r, pick(zero, all(0), q[i] + 4));
		store(&t->scale[r], pick(zero | ~(sum_q2 > 0), all(0), sum_xq / sum_q2));
	}
}

/* The level of IQ4_NL that is nearest. */
static inline vf level(vf v)
{
	vf q = all(-127);

	for (int i = 1; i < 16; i++) {
		const int step = qn_iq4_values[i] - qn_iq4_values[i - 1];
		const float half = 0.5f * (float)(qn_iq4_values[i] + qn_iq4_values[i - 1]);

		q += pick(v >= half, all((float)step), all(0));
	}
	return q;
}

/* w = scale * level. */
static void fit_levels(struct tile *t)
{
	for (int r = 0; r < RUNS; r += W) {
		vf size, scale = {0}, best = {0};
		const vf x_most = largest(t, QK, r, &size);
		const vi zero = size < ENCODE_TINY;

		for (int k = -8; k <= 7; k++) {
			const vf inverse = k < -7 ? 1 / (-x_most / -127) : (float)(k - 127) / x_most;
			vf sum_xq = {0}, sum_q2 = {0};

			for (int i = 0; i < QK; i++) {
				const vf x = load(&t->x[i][r]), w = load(&t->w[i][r]), q = level(inverse * x);

				sum_xq += w * q * x;
				sum_q2 += w * q * q;
			}
			const vi better = (sum_q2 > 0) & (k < -7 ? (sum_q2 > 0) : (sum_xq * sum_xq > best * sum_q2));
			const vf try = sum_xq / sum_q2;

			scale = pick(better, try, scale);
			best = pick(better, try * sum_xq, best);
		}
		store(&t->scale[r], pick(zero, all(0), scale));
	}
}

/* ------------------------------------------------------------------ super-blocks with minimums */

/* Sums of each run's weights, in their order. */
static void sums(float *sum, const struct tile *t, int n)
{
	for (int r = 0; r < RUNS; r++)
		sum[r] = 0;
	for (int i = 0; i < n; i++)
		for (int r = 0; r < RUNS; r++)
			sum[r] += t->w[i][r];
}

/* Codes q of n numbers of 0 and more, and returns the half they are multiples of. */
static uint16_t scales_of(const float *v, const float *w, int n, int most, uint8_t *q)
{
	float top = 0;

	if (w)
		return f16_of_f32_sat(encode_positive(n, most, v, w, q));
	for (int j = 0; j < n; j++)
		top = v[j] > top ? v[j] : top;
	for (int j = 0; j < n; j++)
		q[j] = (uint8_t)encode_clamp(encode_round((top > 0 ? (float)most / top : 0) * v[j]), 0, (float)most);
	return f16_of_f32_sat(top / (float)most);
}

/* Codes of n weights anew, for the scale and the minimum that are kept. */
static void code_affine(uint8_t *q, const float *x, int n, float d, float min, int most)
{
	if (d == 0)
		return;
	for (int i = 0; i < n; i++)
		q[i] = (uint8_t)(int)encode_clamp(encode_round((x[i] + min) / d), 0, (float)most);
}

/* The blocks of the tile that begins with block b: runs of n weights, codes and scales of 0 .. most and scale_most. */
static void fit_super(struct coded_block out[2], const struct source *s, int64_t b, int n, int most, int scale_most,
                      struct search plain)
{
	const int runs = QK_K / n;
	struct tile t;
	_Alignas(64) float mean[RUNS];
	float sum[RUNS];

	take(&t, s, b, runs, n);
	if (s->importance) {
		mean_squares(mean, s, b, runs, n, n == QK ? 2 : 1);
		weigh_importance(&t, s, b, runs, n, mean);
		sums(sum, &t, n);
		fit_affine(&t, n, most, (struct search){-0.9f, 0.05f, 36, 0});
	} else {
		if (plain.sizes)
			weigh_sizes(&t, n);
		else
			weigh_sizes_over_mean(&t, n);
		fit_affine(&t, n, most, plain);
	}
	for (int k = 0; k < RUNS / runs; k++) {
		struct coded_block *a = &out[k];
		const int r0 = k * runs;

		a->d = scales_of(t.scale + r0, s->importance ? sum + r0 : NULL, runs, scale_most, a->scale);
		a->m = scales_of(t.min + r0, s->importance ? sum + r0 : NULL, runs, scale_most, a->min);
		for (int j = 0; j < runs; j++) {
			memcpy(a->q + j * n, t.q[r0 + j], (size_t)n);
			code_affine(a->q + j * n, t.at[r0 + j], n, f32_of_f16(a->d) * (float)a->scale[j],
			            f32_of_f16(a->m) * (float)a->min[j], most);
		}
	}
}

static void rows_q2k(void *dst, const struct source *s)
{
	struct q2k *y = dst;
	struct coded_block a[2];

	for (int64_t b = 0; b < s->blocks; b++) {
		fit_super(a, s, b, 16, 3, 15, (struct search){-0.5f, 0.1f, 15, 1});
		pack_q2k(&y[b], a);
	}
}

static void rows_q4k(void *dst, const struct source *s)
{
	struct q4k *y = dst;
	struct coded_block a[2];

	for (int64_t b = 0; b < s->blocks; b++) {
		if (b % 2 == 0)
			fit_super(a, s, b, QK, 15, 63, (struct search){-1, 0.1f, 20, 0});
		pack_q4k(&y[b], &a[b % 2]);
	}
}

static void rows_q5k(void *dst, const struct source *s)
{
	struct q5k *y = dst;
	struct coded_block a[2];

	for (int64_t b = 0; b < s->blocks; b++) {
		if (b % 2 == 0)
			fit_super(a, s, b, QK, 31, 63, (struct search){-0.5f, 0.1f, 15, 0});
		pack_q5k(&y[b], &a[b % 2]);
	}
}

/* ------------------------------------------------------------------ super-blocks without minimums */

/* The scale of the largest size, the first of these. */
static float largest_of(const float *scale, int n)
{
	float most = 0, size = 0;

	for (int j = 0; j < n; j++)
		if (fabsf(scale[j]) > size) {
			size = fabsf(scale[j]);
			most = scale[j];
		}
	return most;
}

static void code_signed(uint8_t *q, const float *x, int n, float d, int most)
{
	if (d == 0)
		return;
	for (int i = 0; i < n; i++) {
		const float code = encode_clamp(encode_round(x[i] / d), (float)-most, (float)(most - 1));

		q[i] = (uint8_t)(int)(code + (float)most);
	}
}

static void rows_q3k(void *dst, const struct source *s)
{
	struct q3k *y = dst;
	struct tile t;
	_Alignas(64) float mean[RUNS];
	float sum[RUNS];

	for (int64_t b = 0; b < s->blocks; b++) {
		struct coded_block c = {0};

		take(&t, s, b, 16, 16);
		if (s->importance) {
			mean_squares(mean, s, b, 16, 16, 2);
			weigh_importance(&t, s, b, 16, 16, mean);
			sums(sum, &t, 16);
			fit_signed(&t, 16, 4);
			c.d = f16_of_f32_sat(encode_signed(16, 32, t.scale, sum, c.scale));
		} else {
			fit_descent(&t, 16);
			const float most = largest_of(t.scale, 16), inverse = -32 / most;

			c.d = most != 0 ? f16_of_f32_sat(1 / inverse) : 0;
			for (int j = 0; most != 0 && j < 16; j++)
				c.scale[j] = (uint8_t)(encode_clamp(encode_round(inverse * t.scale[j]), -32, 31) + 32);
		}
		for (int j = 0; j < 16; j++) {
			memcpy(c.q + 16 * j, t.q[j], 16);
			code_signed(c.q + 16 * j, t.at[j], 16, f32_of_f16(c.d) * (float)(c.scale[j] - 32), 4);
		}
		pack_q3k(&y[b], &c);
	}
}

static void rows_q6k(void *dst, const struct source *s)
{
	struct q6k *y = dst;
	struct tile t;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *w = importance_of(s, b, QK_K);
		struct coded_block c;

		take(&t, s, b, 16, 16);
		if (w)
			for (int r = 0; r < RUNS; r++)
				for (int i = 0; i < 16; i++)
					t.w[i][r] = w[16 * r + i];
		else
			weigh_squares(&t, 16);
		fit_signed(&t, 16, 32);

		const float most = largest_of(t.scale, 16), inverse = -128 / most;

		if (fabsf(most) < ENCODE_TINY) {
			memset(&y[b], 0, sizeof y[b]);
			continue;
		}
		c.d = f16_of_f32_sat(1 / inverse);
		for (int j = 0; j < 16; j++) {
			const int8_t scale = (int8_t)encode_clamp(encode_round(inverse * t.scale[j]), -128, 127);

			c.scale[j] = (uint8_t)scale;
			memcpy(c.q + 16 * j, t.q[j], 16);
			code_signed(c.q + 16 * j, t.at[j], 16, f32_of_f16(c.d) * (float)scale, 32);
		}
		pack_q6k(&y[b], &c);
	}
}

/* ------------------------------------------------------------------ blocks of 32 */

/*
 * Codes and scales of the sixteen blocks from b on of Q4_0, Q4_1, Q5_0 and Q5_1, of which the 1 have minimums. Without
 * importance the largest weight alone says the scale.
 */
static void fit_small(struct tile *t, const struct source *s, int64_t b, int bits, int minimums)
{
	const int most = (1 << bits) - 1;
	_Alignas(64) float mean[RUNS];

	take(t, s, b, 1, QK);
	if (s->importance) {
		row_squares(mean, s, b, QK);
		weigh_importance(t, s, b, 1, QK, mean);
		if (minimums)
			fit_affine(t, QK, most, (struct search){-0.9f, 0.05f, 36, 0});
		else
			fit_signed(t, QK, 1 << (bits - 1));
		return;
	}
	for (int r = 0; r < RUNS; r += W) {
		vf size, lo = load(&t->x[0][r]), hi = lo;
		vf scale = largest(t, QK, r, &size) / (float)-(1 << (bits - 1));
		vf offset = all((float)(1 << (bits - 1)) + 0.5f);

		for (int i = 1; minimums && i < QK; i++) {
			const vf x = load(&t->x[i][r]);

			lo = pick(x < lo, x, lo);
			hi = pick(x > hi, x, hi);
		}
		if (minimums) {
			scale = (hi - lo) / (float)most;
			offset = all(0.5f);
		} else {
			lo = all(0);
		}
		const vf inverse = pick(scale != 0, 1 / scale, all(0));

		for (int i = 0; i < QK; i++) /* cut off, and not rounded */
			put(t, i, r, clamp_v((load(&t->x[i][r]) - lo) * inverse + offset, 0, (float)most + 0.5f));
		store(&t->scale[r], scale);
		store(&t->min[r], -lo);
	}
}

#define SMALL_ROWS(name, bits, minimums, fill)                       \
	static void rows_##name(void *dst, const struct source *s)   \
	{                                                            \
		struct name *y = dst;                                \
		struct tile t;                                       \
                                                                     \
		for (int64_t b = 0; b < s->blocks; b++, y++) {       \
			const int r = (int)(b % RUNS);               \
                                                                     \
			if (!r)                                      \
				fit_small(&t, s, b, bits, minimums); \
			y->d = f16_of_f32_sat(t.scale[r]);           \
			pack_halves(y->qs, t.q[r]);                  \
			fill;                                        \
		}                                                    \
	}

SMALL_ROWS(q4_0, 4, 0, )
SMALL_ROWS(q4_1, 4, 1, y->m = f16_of_f32_sat(-t.min[r]))
SMALL_ROWS(q5_0, 5, 0, pack_fifths(y->qh, t.q[r]))
SMALL_ROWS(q5_1, 5, 1, (y->m = f16_of_f32_sat(-t.min[r]), pack_fifths(y->qh, t.q[r])))

static void rows_q8_0(void *dst, const struct source *s)
{
	typedef int8_t codes __attribute__((vector_size(W)));
	struct q8_0 *y = dst;

	for (int64_t b = 0; b < s->blocks; b++) {
		const float *x = s->x + b * QK;
		vf v[QK / W], far = {0};
		float most = 0;

		memcpy(v, x, sizeof v);
		for (int i = 0; i < QK / W; i++)
			far = pick(abs_v(v[i]) > far, abs_v(v[i]), far);
		for (int r = 0; r < W; r++)
			most = far[r] > most ? far[r] : most;

		const float d = most / 127, inverse = d != 0 ? 1 / d : 0;

		y[b].d = f16_of_f32_sat(d);
		for (int i = 0; i < QK / W; i++) { /* ties away from zero */
			const vf at = v[i] * inverse;
			const vi cut = __builtin_convertvector(at, vi);
			const vf rest = at - __builtin_convertvector(cut, vf);
			const codes q = __builtin_convertvector(cut - (rest >= 0.5f) + (rest <= -0.5f), codes);

			memcpy(y[b].qs + i * W, &q, sizeof q);
		}
	}
}

/* ------------------------------------------------------------------ levels */

/* Codes of the nearest levels. */
static void code_levels(uint8_t q[QK], const float *x, float inverse)
{
	for (int i = 0; i < QK; i++)
		q[i] = 0;
	for (int k = 1; k < 16; k++) {
		const float half = 0.5f * (float)(qn_iq4_values[k] + qn_iq4_values[k - 1]);

		for (int i = 0; i < QK; i++)
			q[i] = (uint8_t)(q[i] + (inverse * x[i] >= half));
	}
}

static void take_levels(struct tile *t, const struct source *s, int64_t b, int runs)
{
	_Alignas(64) float mean[RUNS];

	take(t, s, b, runs, QK);
	if (s->importance) {
		mean_squares(mean, s, b, runs, QK, 2);
		weigh_importance(t, s, b, runs, QK, mean);
	} else {
		weigh_squares(t, QK);
	}
	fit_levels(t);
}

static void rows_iq4_nl(void *dst, const struct source *s)
{
	struct iq4_nl *y = dst;
	struct tile t;

	for (int64_t b = 0; b < s->blocks; b++) {
		const int r = (int)(b % RUNS);
		uint8_t q[QK];

		if (!r)
			take_levels(&t, s, b, 1);
		y[b].d = f16_of_f32_sat(t.scale[r]);
		code_levels(q, t.at[r], t.scale[r] != 0 ? 1 / t.scale[r] : 0);
		pack_halves(y[b].qs, q);
	}
}

static void rows_iq4_xs(void *dst, const struct source *s)
{
	struct iq4_xs *y = dst;
	struct tile t;

	for (int64_t b = 0; b < s->blocks; b++) {
		const int r0 = (int)(b % 2 * 8);

		if (!r0)
			take_levels(&t, s, b, 8);

		const float d = -largest_of(t.scale + r0, 8) / 32, inverse = d != 0 ? 1 / d : 0;
		struct coded_block c = {.d = f16_of_f32_sat(d)};

		for (int j = 0; j < 8; j++) {
			const float l = encode_clamp(encode_round(inverse * t.scale[r0 + j]), -32, 31), dl = d * l;

			c.scale[j] = (uint8_t)((int)l + 32);
			code_levels(c.q + QK * j, t.at[r0 + j], dl != 0 ? 1 / dl : 0);
		}
		pack_iq4_xs(&y[b], &c);
	}
}

void ENCODE_INIT(encode_fn **rows)
{
	rows[QN_Q4_0] = rows_q4_0;
	rows[QN_Q4_1] = rows_q4_1;
	rows[QN_Q5_0] = rows_q5_0;
	rows[QN_Q5_1] = rows_q5_1;
	rows[QN_Q8_0] = rows_q8_0;
	rows[QN_Q2_K] = rows_q2k;
	rows[QN_Q3_K] = rows_q3k;
	rows[QN_Q4_K] = rows_q4k;
	rows[QN_Q5_K] = rows_q5k;
	rows[QN_Q6_K] = rows_q6k;
	rows[QN_IQ4_NL] = rows_iq4_nl;
	rows[QN_IQ4_XS] = rows_iq4_xs;
}
