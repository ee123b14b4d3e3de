/* check_elementwise.c - the element-wise kernels, and the rounds that measure a set's peak. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/kv.h"
#include "check.h"

/* Lengths around every width of vector and unrolling that a compiler may choose. */
static int length(int i)
{
	static const int more[] = {79, 80, 81, 127, 128, 129, 255, 256, 257, 1000, 2048, 4099};

	return i < 70 ? i + 1 : i < 70 + COUNT(more) ? more[i - 70] : 0;
}

static struct guard in, in2, in3, out; /* room for 8192 floats each */

static void sumsq(void)
{
	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n);
		double exact = 0;

		for (int k = 0; k < n; k++) {
			x[k] = rnd_sized() * (i % 3 == 0 ? 0x1p-70f : 1); /* squares that are subnormal */
			exact += (double)x[k] * (double)x[k];
		}
		const float want = check_sets[0].k.sumsq(x, n);

		check_at(check_sets, "sumsq n %d", n);
		check_near("sum", 0, (double)want, exact, 1e-6 * exact + n * 0x1p-149);
		EACH_SET(s) {
			check_at(s, "sumsq n %d", n);
			const float got = s->k.sumsq(x, n);

			check_floats("sum", &got, &want, 1);
		}
	}
}

static void scale_rows(void)
{
	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n), *w = guard_fill(&in2, sizeof *w * (size_t)n);
		const float r = rnd_normal();
		float want[8192];

		for (int k = 0; k < n; k++) {
			x[k] = rnd_sized();
			w[k] = rnd_sized();
		}
		EACH_SET(s)
			for (int ones = 0; ones < 2; ones++) {
				float *y = guard_fill(&out, sizeof *y * (size_t)n);

				for (int k = 0; k < n; k++)
					want[k] = ones ? x[k] * r : x[k] * r * w[k];
				check_at(s, "scale_rows n %d%s", n, ones ? " of ones" : "");
				s->k.scale_rows(y, x, r, ones ? NULL : w, n);
				check_floats("y", y, want, n);
				guard_intact("y", &out);
				memcpy(y, x, sizeof *y * (size_t)n);
				s->k.scale_rows(y, y, r, ones ? NULL : w, n);
				check_floats("y in place", y, want, n);
			}
	}
}

/* d and q of the formula; the sums of what q is. */
static void run_oracle(const int8_t *q, float d, const float *x, int n, int run)
{
	double max = 0;
	int finite = 1;

	for (int k = 0; k < n && k < run; k++) {
		finite &= isfinite(x[k]) != 0;
		max = fabs((double)x[k]) > max ? fabs((double)x[k]) : max;
	}
	if (!finite)
		check_true(isnan(d), "d = %g of values that are not finite", (double)d);
	else if (max < 0x1p-121) /* 127 / max is infinite, or nearly */
		check_true(d == 0, "d = %g of values too small", (double)d);
	else if (max > 0x1p-119)
		check_near("d", 0, (double)d, max / 127, max * 1e-8);
	for (int k = 0; k < run; k++) {
		const double want = finite && k < n && max > 0x1p-119 ? (double)x[k] * 127 / max : 0;

		if (!check_near("q", k, q[k], want, want == 0 ? 0 : 0.5001))
			break;
	}
}

static int sum_of(const int8_t *q, int n)
{
	int sum = 0;

	for (int k = 0; k < n; k++)
		sum += q[k];
	return sum;
}

static void quantize_oracle(const struct act8 *y, enum qn_act kind, const float *x, int n)
{
	for (int j = 0; j < 8; j++) {
		const int want = sum_of(y->qs + 32 * j, 32);

		const float got = kind == QN_ACT_Q8_32      ? y->fsum32[j]
		                : kind == QN_ACT_Q8_32_16 ? (float)(y->half_sum[2 * j] + y->half_sum[2 * j + 1])
		                                          : y->sum32[j];

		check_true(got == (float)want, "sum of 32 at %d = %g, want %d", 32 * j, (double)got, want);
		if (kind != QN_ACT_Q8_256)
			run_oracle(y->qs + 32 * j, y->d32[j], x + 32 * j, n - 32 * j, 32);
	}
	if (kind == QN_ACT_Q8_32)
		return;
	if (kind == QN_ACT_Q8_256) {
		int most = 0;

		for (int j = 0, sum = 0; j < QN_ACT_BLOCK; j++) {
			sum = (j % 16 ? sum : 0) + abs(y->qs[j]);
			most = sum > most ? sum : most;
		}
		check_true(y->most16 == most, "largest sum of 16 magnitudes %d, want %d", y->most16, most);
		run_oracle(y->qs, y->d, x, n, QN_ACT_BLOCK);
	}
	for (int j = 0; j < 16; j++) {
		const int want = sum_of(y->qs + 16 * j, 16), got = kind == QN_ACT_Q8_256 ? y->sum16[j] : y->half_sum[j];

		check_true(got == want, "sum of 16 at %d = %d, want %d", 16 * j, got, want);
	}
}

static void bf16_oracle(const struct actb *y, const float *x, int n)
{
	for (int k = 0; k < QN_ACT_BLOCK; k++) {
		const double want = k < n ? (double)x[k] : 0, got = (double)f32_of_bf16(y->x[k]);
		int exp = 0;

		frexp(want, &exp);
		if (fabs(want) < 0x1p-56) /* but for what rounds up to that */
			check_true(got == 0 || (fabs(got) == 0x1p-56 && fabs(want) >= 0x1p-56 * 511 / 512),
			           "[%d] = %g, of %g", k, got, want);
		else if (isfinite(want) && fabs(want) < 0x1.ffp127)
			check_near("bf16", k, got, want, ldexp(1, exp - 9));
		else
			check_true(isnan(want) ? isnan(got) : isinf(got) && (got > 0) == (want > 0),
			           "[%d] = %g, of %g", k, got, want);
	}
}

static void quantize_fill(float *x, int n, int kind)
{
	const float size = ldexpf(1, rnd_below(120) - 60);

	for (int k = 0; k < n; k++)
		x[k] = kind == 1   ? 0
		     : kind == 2   ? 0x1p-99f * rnd_uniform()                /* too small to divide by */
		     : kind == 3   ? (float)(rnd_below(255) - 127) * 0.5f     /* ties, where 63.5 is the largest */
		     : kind == 4   ? (rnd() & 1 ? 0x1.fffffep127f : -0x1.fffffep127f)
		                   : size * rnd_sized();
	if (kind == 3)
		x[rnd_below(n)] = 63.5f;
	if (kind == 5)
		x[rnd_below(n)] = 1e30f;
	if (kind == 6)
		x[rnd_below(n)] = NAN;
	if (kind == 7)
		x[rnd_below(n)] = INFINITY;
	if (kind == 8)
		x[rnd_below(n)] = -INFINITY;
	if (kind == 9) /* NaN and infinity of both signs, with payloads */
		for (int j = 0; j < 4; j++) {
			const uint32_t u = 0x7f800000 | (uint32_t)(rnd() & 0x80500000);

			memcpy(&x[rnd_below(n)], &u, sizeof u);
		}
}

static void quantize(void)
{
	for (int n = 1; n <= QN_ACT_BLOCK; n += check_quick ? 5 : 1)
		for (int i = 0; i < (n == QN_ACT_BLOCK ? 400 : 40); i++) { /* whole blocks may go another way */
			const enum qn_act kind = QN_ACT_Q8_256 + (enum qn_act)(i % (QN_N_ACT_ONE - 1));
			float *x = guard_fill(&in, sizeof *x * (size_t)n);
			union {
				struct act8 q8;
				struct actb b;
			} want;

			quantize_fill(x, n, i / (QN_N_ACT_ONE - 1) % 10);
			memset(&want, 0x77, sizeof want);
			check_at(check_sets, "quantize n %d, kind %d, data %d", n, kind, i / (QN_N_ACT_ONE - 1));
			check_sets[0].k.quantize(&want, x, n, kind);
			if (kind == QN_ACT_BF16)
				bf16_oracle(&want.b, x, n);
			else
				quantize_oracle(&want.q8, kind, x, n);
			EACH_SET(s) {
				void *y = guard_fill(&out, (size_t)act_bytes(kind));

				check_at(s, "quantize n %d, kind %d, data %d", n, kind, i / (QN_N_ACT_ONE - 1));
				s->k.quantize(y, x, n, kind);
				check_bytes("block", y, &want, act_bytes(kind));
				guard_intact("block", &out);
			}
		}
}

static double silu_of(double x)
{
	return x / (1 + exp(-x));
}

static double sigmoid_of(double x)
{
	return 1 / (1 + exp(-x));
}

static double gelu_of(double x)
{
	return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf_of(double x)
{
	return x / 2 * erfc(-x / sqrt(2));
}

static double gelu_quick_of(double x)
{
	return x / (1 + exp(-1.702 * x));
}

static double relu2_of(double x)
{
	return x > 0 ? x * x : 0;
}

static double relu_of(double x)
{
	return x > 0 ? x : 0;
}

static double softplus_of(double x)
{
	return x > 40 ? x : log1p(exp(x));
}

static double swiglu_clamp_of(double x)
{
	x = x > 7 ? 7 : x;
	return x / (1 + exp(-1.702 * x));
}

static double plus_one_within_7(double u)
{
	return 1 + (u > 7 ? 7 : u < -7 ? -7 : u);
}

/* The arguments of exponentials are rounded: far below zero that is a larger share of a result near 0. */
static const struct {
	const char *name;
	double (*exact)(double x);
	double relative, least;
	double (*factor)(double u); /* NULL: u itself */
} functions[QN_N_FN] = {
	[QN_FN_SILU] = {"silu", silu_of, 1e-6, 1e-43, NULL},
	[QN_FN_SIGMOID] = {"sigmoid", sigmoid_of, 1e-6, 1e-43, NULL},
	[QN_FN_GELU] = {"gelu", gelu_of, 1e-6, 1e-7, NULL},
	[QN_FN_GELU_ERF] = {"gelu_erf", gelu_erf_of, 1e-6, 3e-7, NULL},
	[QN_FN_GELU_QUICK] = {"gelu_quick", gelu_quick_of, 1e-5, 1e-36, NULL},
	[QN_FN_RELU2] = {"relu2", relu2_of, 1e-6, 0, NULL},
	[QN_FN_RELU] = {"relu", relu_of, 1e-6, 0, NULL},
	[QN_FN_SOFTPLUS] = {"softplus", softplus_of, 1e-6, 1e-30, NULL},
	[QN_FN_SWIGLU_CLAMP] = {"swiglu_clamp", swiglu_clamp_of, 1e-5, 1e-36, plus_one_within_7},
};

static void fn_fill(float *g, float *u, int n, float size)
{
	for (int k = 0; k < n; k++) {
		g[k] = rnd_sized() * size;
		u[k] = rnd_sized();
	}
	if (n > 8) {
		g[1] = NAN;
		g[2] = INFINITY;
		g[3] = -INFINITY;
		g[4] = -0.0f;
		u[5] = NAN;
		g[6] = -88;
		g[7] = 87.5f;
	}
}

static void function(enum qn_fn f)
{
	const char *name = functions[f].name;

	for (int i = 0, n; (n = length(i)); i++) {
		float *g = guard_fill(&in, sizeof *g * (size_t)n), *u = guard_fill(&in2, sizeof *u * (size_t)n);
		float *want = guard_fill(&in3, sizeof *want * (size_t)n);
		const float *by = i % 3 ? u : NULL;

		fn_fill(g, u, n, i % 2 ? 30 : 1);
		check_at(check_sets, "%s n %d", name, n);
		check_sets[0].k.fn[f](want, g, by, n);
		for (int k = 0; k < n; k++) {
			const double x = (double)g[k], w = by ? (double)u[k] : 1;
			const double v = by && functions[f].factor ? functions[f].factor(w) : w;
			const double exact = functions[f].exact(x) * v;

			if (isfinite(x) && fabs(x) < 80)
				check_near("y", k, (double)want[k], exact,
				           functions[f].relative * fabs(exact) + functions[f].least * (1 + fabs(v)));
			if (isnan(g[k]) || (by && isnan(u[k])))
				check_true(isnan(want[k]), "y[%d] = %g hides a NaN", k, (double)want[k]);
		}
		EACH_SET(s) {
			float *y = guard_fill(&out, sizeof *y * (size_t)n);

			check_at(s, "%s n %d", name, n);
			s->k.fn[f](y, g, by, n);
			check_floats("y", y, want, n);
			guard_intact("y", &out);
			memcpy(y, g, sizeof *y * (size_t)n);
			s->k.fn[f](y, y, by, n);
			check_floats("y in place", y, want, n);
		}
	}
}

static void softcap(void)
{
	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n), *want = guard_fill(&in3, sizeof *want * (size_t)n);
		const float cap = i % 2 ? 30 : 0.5f;

		for (int k = 0; k < n; k++)
			x[k] = rnd_sized() * (i % 3 ? 20 : 1);
		if (n > 3)
			x[3] = NAN;
		check_at(check_sets, "softcap n %d", n);
		check_sets[0].k.softcap(want, x, cap, n);
		for (int k = 0; k < n; k++)
			if (isnan(x[k]))
				check_true(isnan(want[k]), "y[%d] = %g hides a NaN", k, (double)want[k]);
			else
				check_near("y", k, (double)want[k], (double)cap * tanh((double)x[k] / (double)cap),
				           3e-7 * (double)cap);
		EACH_SET(s) {
			float *y = guard_fill(&out, sizeof *y * (size_t)n);

			check_at(s, "softcap n %d", n);
			memcpy(y, x, sizeof *y * (size_t)n);
			s->k.softcap(y, y, cap, n);
			check_floats("y", y, want, n);
			guard_intact("y", &out);
		}
	}
}

static void clamp(void)
{
	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n);

		for (int k = 0; k < n; k++)
			x[k] = k % 7 == 3 ? NAN : rnd_sized() * 10;
		EACH_SET(s) {
			float *y = guard_fill(&out, sizeof *y * (size_t)n);

			check_at(s, "clamp n %d", n);
			memcpy(y, x, sizeof *y * (size_t)n);
			s->k.clamp(y, -3, 7, n);
			for (int k = 0; k < n; k++)
				check_true(isnan(x[k]) ? isnan(y[k]) : y[k] == fmaxf(-3, fminf(7, x[k])),
				           "y[%d] = %g of %g", k, (double)y[k], (double)x[k]);
			guard_intact("y", &out);
		}
	}
}

static void xielu(void)
{
	static const float by[4] = {0.8f, 1.3f, 0.5f, -1e-6f};

	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n), *want = guard_fill(&in3, sizeof *want * (size_t)n);

		for (int k = 0; k < n; k++)
			want[k] = x[k] = k % 7 == 3 ? NAN : rnd_sized() * 10;
		check_at(check_sets, "xielu n %d", n);
		check_sets[0].k.xielu(want, by, n);
		for (int k = 0; k < n; k++) {
			const double v = (double)x[k], low = fmin(v, (double)by[3]);
			const double bent = v > 0 ? (double)by[0] * v * v : (expm1(low) - v) * (double)by[1];

			if (isnan(x[k]))
				check_true(isnan(want[k]), "y[%d] = %g hides a NaN", k, (double)want[k]);
			else
				check_near("y", k, (double)want[k], bent + (double)by[2] * v,
				           3e-7 * (fabs(bent) + fabs(v) + 1));
		}
		EACH_SET(s) {
			float *y = guard_fill(&out, sizeof *y * (size_t)n);

			check_at(s, "xielu n %d", n);
			memcpy(y, x, sizeof *y * (size_t)n);
			s->k.xielu(y, by, n);
			check_floats("y", y, want, n);
			guard_intact("y", &out);
		}
	}
}

/* What layer norms are made of. */
static void moments(void)
{
	for (int i = 0, n; (n = length(i)); i++) {
		float *x = guard_fill(&in, sizeof *x * (size_t)n), *w = guard_fill(&in2, sizeof *w * (size_t)n);
		float *b = guard_fill(&in3, sizeof *b * (size_t)n), want[8192];
		const float mean = rnd_normal(), r = rnd_normal();
		double sum = 0, size = 0, about = 0;

		for (int k = 0; k < n; k++) {
			x[k] = rnd_sized();
			w[k] = rnd_sized();
			b[k] = rnd_sized();
			sum += (double)x[k];
			size += fabs((double)x[k]);
			about += ((double)x[k] - (double)mean) * ((double)x[k] - (double)mean);
		}
		const float s0 = check_sets[0].k.sum(x, n), q0 = check_sets[0].k.sumsq_about(x, mean, n);

		check_at(check_sets, "moments n %d", n);
		check_near("sum", 0, (double)s0, sum, 1e-6 * size);
		check_near("squares", 0, (double)q0, about, 1e-5 * about);
		EACH_SET(s) {
			const float got = s->k.sum(x, n), squares = s->k.sumsq_about(x, mean, n);

			check_at(s, "moments n %d", n);
			check_floats("sum", &got, &s0, 1);
			check_floats("squares", &squares, &q0, 1);
			for (int j = 0; j < 4; j++) {
				float *y = guard_fill(&out, sizeof *y * (size_t)n);

				for (int k = 0; k < n; k++) {
					want[k] = (x[k] - mean) * r;
					want[k] = j & 1 ? want[k] * w[k] : want[k];
					want[k] = j & 2 ? want[k] + b[k] : want[k];
				}
				s->k.affine(y, x, mean, r, j & 1 ? w : NULL, j & 2 ? b : NULL, n);
				check_floats("affine", y, want, n);
				guard_intact("affine", &out);
				for (int k = 0; k < n; k++)
					want[k] = y[k] + r * w[k];
				s->k.add_scaled(y, w, r, n);
				check_floats("add_scaled", y, want, n);
			}
		}
	}
}

static void rope(void)
{
	for (int pairs = 1; pairs <= 130; pairs += pairs < 40 ? 1 : 9)
		for (int neox = 0; neox < 2; neox++) {
			const size_t bytes = sizeof(float) * (size_t)(2 * pairs);
			float *x = guard_fill(&in, bytes), *cs = guard_fill(&in2, bytes);
			float *want = guard_fill(&in3, bytes);

			for (int k = 0; k < 2 * pairs; k++)
				x[k] = rnd_sized();
			for (int k = 0; k < pairs; k++) {
				const double theta = 1000 * (double)rnd_uniform();

				cs[2 * k] = (float)cos(theta);
				cs[2 * k + 1] = (float)sin(theta);
			}
			memcpy(want, x, bytes);
			check_at(check_sets, "rope %s, %d pairs", neox ? "neox" : "norm", pairs);
			check_sets[0].k.rope(want, cs, pairs, neox);
			for (int k = 0; k < pairs; k++) {
				const int a = neox ? k : 2 * k, b = neox ? k + pairs : 2 * k + 1;
				const double size = 2e-7 * (fabs((double)x[a]) + fabs((double)x[b]));

				check_near("x", a, (double)want[a],
				           (double)x[a] * (double)cs[2 * k] -
				                   (double)x[b] * (double)cs[2 * k + 1],
				           size);
				check_near("x", b, (double)want[b],
				           (double)x[a] * (double)cs[2 * k + 1] +
				                   (double)x[b] * (double)cs[2 * k],
				           size);
			}
			EACH_SET(s) {
				float *y = guard_fill(&out, bytes);

				memcpy(y, x, bytes);
				check_at(s, "rope %s, %d pairs", neox ? "neox" : "norm", pairs);
				s->k.rope(y, cs, pairs, neox);
				check_floats("x", y, want, 2 * pairs);
				guard_intact("x", &out);
			}
		}
}

/* One part of an attention row: m, l, o; empty ones have seen no key, and hold `none`. */
static void merge_part(float *ml, float *o, int n, int empty, float none)
{
	ml[0] = empty ? -INFINITY : 30 * rnd_normal();
	ml[1] = empty ? 0 : 1 + fabsf(rnd_sized());
	for (int k = 0; k < n; k++)
		o[k] = empty ? none : rnd_sized();
}

static void attn_merge(void)
{
	for (int n = 16; n <= 272; n += 16)
		for (int kind = 0; kind < 6; kind++) {
			float *oa = guard_fill(&in, sizeof *oa * (size_t)n),
			      *ob = guard_fill(&in2, sizeof *ob * (size_t)n);
			float *want = guard_fill(&in3, sizeof *want * (size_t)n);
			float a[2], b[2], want_a[2];

			merge_part(a, oa, n, kind == 1 || kind == 3, 0);
			merge_part(b, ob, n, kind == 2 || kind == 3, NAN);
			if (kind == 4)
				b[0] = a[0];
			if (kind == 5)
				b[0] = a[0] - 130; /* too small to count */
			memcpy(want, oa, sizeof *want * (size_t)n);
			memcpy(want_a, a, sizeof a);
			check_at(check_sets, "attn_merge n %d, kind %d", n, kind);
			check_sets[0].k.attn_merge(want, &want_a[0], &want_a[1], ob, b[0], b[1], n);
			if (b[1] == 0) {
				check_floats("o", want, oa, n);
				check_floats("m, l", want_a, a, 2);
			} else {
				const double m = (double)fmaxf(a[0], b[0]);
				const double ca = exp2((double)a[0] - m), cb = exp2((double)b[0] - m);

				check_near("m", 0, (double)want_a[0], m, 0);
				/*
				 * A difference of two m is off by their last bit, and 2^x makes that
				 * relative; below 2^-100 it is 0.
				 */
				check_near("l", 0, (double)want_a[1], (double)a[1] * ca + (double)b[1] * cb,
				           ((double)a[1] * ca + (double)b[1] * cb) * 1e-5 +
				                   ((double)a[1] + (double)b[1]) * 0x1p-99);
				for (int k = 0; k < n; k++) {
					const double x = (double)oa[k], y = (double)ob[k];

					check_near("o", k, (double)want[k], x * ca + y * cb,
					           (fabs(x) * ca + fabs(y) * cb) * 1e-5 +
					                   (fabs(x) + fabs(y)) * 0x1p-99);
				}
			}
			EACH_SET(s) {
				float *o = guard_fill(&out, sizeof *o * (size_t)n), ml[2] = {a[0], a[1]};

				memcpy(o, oa, sizeof *o * (size_t)n);
				check_at(s, "attn_merge n %d, kind %d", n, kind);
				s->k.attn_merge(o, &ml[0], &ml[1], ob, b[0], b[1], n);
				check_floats("o", o, want, n);
				check_floats("m, l", ml, want_a, 2);
				guard_intact("o", &out);
			}
		}
}

static void kv_expand(void)
{
	for (int part = 16; part <= 272; part += 16) {
		const int n = part * (1 + rnd_below(4)), add = rnd_below(256) - 128;
		uint8_t *x = guard_fill(&in, (size_t)n);

		rnd_bytes(x, (size_t)n);
		EACH_SET(s) {
			uint8_t *y = guard_fill(&out, (size_t)(2 * n)), want[2 * 4 * 272];

			for (int i = 0; i < 2 * n; i++) {
				const int of = i / (2 * part) * part + i % part, high = i / part % 2;

				want[i] = (uint8_t)(2 * (high ? x[of] / 16 : x[of] % 16) + add);
			}
			check_at(s, "kv_expand %d bytes by %d, and %d", n, part, add);
			s->k.kv_expand(y, x, n, part, add, x);
			check_bytes("y", y, want, 2 * n);
			guard_intact("y", &out);
		}
	}
}

/* n floats for a head: as they come, of little or nothing, and with what is not a number or has no room in 16 bits. */
static void head_fill(float *x, int n, int kind)
{
	for (int i = 0; i < n; i++)
		x[i] = kind == 1   ? 0
		     : kind == 2   ? 0x1p-60f * rnd_normal()
		     : kind == 3   ? 0x1p-15f * rnd_normal()
		                   : rnd_sized();
	if (kind == 4)
		x[rnd_below(n)] = NAN;
	if (kind == 5)
		x[rnd_below(n)] = -INFINITY;
	if (kind == 6)
		x[rnd_below(n)] = 65519.99f + 0.01f * (float)rnd_below(2);
}

/* What KV blocks keep: each set's numbers are the scalar ones'; check_attn.c holds those against the formulas. */
static void kv_numbers(void)
{
	static const float tops[][2] = {
		{KV_I16_TOP, KV_I16_LENGTH}, {KV_I16_VALUE, 0}, {KV_I16_VALUE, KV_I16_LENGTH}, {KV_Q8_TOP, 0},
	};
	static float y[2][KV_HEAD_DIM_MAX];
	static int16_t q[2][KV_HEAD_DIM_MAX];
	static uint16_t half[2][KV_HEAD_DIM_MAX];
	static uint8_t code[2][KV_HEAD_DIM_MAX];

	for (int i = 0, n; (n = length(i)) && n <= KV_HEAD_DIM_MAX; i++) {
		const int kind = i % 7, to = (int)kv_pad(n, 16);
		float *x = guard_fill(&in, sizeof *x * (size_t)n), d[2];

		head_fill(x, n, kind);
		EACH_SET(s) {
			const struct kernels *k[2] = {&check_sets[0].k, &s->k};

			check_at(s, "numbers to keep of kind %d n %d", kind, n);
			for (int t = 0; t < COUNT(tops); t++) {
				for (int j = 0; j < 2; j++)
					k[j]->kv_round(q[j], &d[j], x, n, to, tops[t][0], tops[t][1]);
				check_bytes("q", q[1], q[0], to * (int)sizeof **q);
				check_bytes("d", &d[1], &d[0], sizeof *d);
			}
			for (int t = 0; t < 2; t++) {
				for (int j = 0; j < 2; j++)
					k[j]->kv_halves(t ? QN_KV_BF16 : QN_KV_F16, half[j], x, n);
				check_bytes(t ? "bf16" : "f16", half[1], half[0], n * (int)sizeof **half);
			}
			for (int j = 0; j < 2; j++)
				k[j]->kv_codes(code[j], &d[j], x, n);
			check_bytes("codes", code[1], code[0], to);
			check_bytes("d of codes", &d[1], &d[0], sizeof *d);
			if (kind == 4 || kind == 5) /* which NaN is the compiler's choice */
				continue;
			for (int j = 0; j < 2; j++) {
				memcpy(y[j], x, sizeof *x * (size_t)n);
				k[j]->kv_hadamard(y[j], n);
			}
			check_floats("transform", y[1], y[0], n);
		}
	}
}

static void conv(void)
{
	for (int i = 0, n; (n = length(i)) && n <= 1000; i++) {
		const int taps = 1 + rnd_below(7);
		float *w = guard_fill(&in, sizeof *w * (size_t)(taps * n)), want[1024];
		float *x = guard_fill(&in2, sizeof *x * (size_t)(taps * n));
		const float *u[8];

		for (int k = 0; k < taps * n; k++) {
			w[k] = rnd_sized();
			x[k] = rnd_sized();
		}
		for (int tap = 0; tap < taps; tap++)
			u[tap] = x + (taps - 1 - tap) * n;
		for (int k = 0; k < n; k++) {
			want[k] = 0;
			for (int tap = 0; tap < taps; tap++)
				want[k] += u[tap][k] * w[tap * n + k];
		}
		EACH_SET(s) {
			float *y = guard_fill(&out, sizeof *y * (size_t)n);

			check_at(s, "conv of %d taps n %d", taps, n);
			s->k.conv(y, u, w, taps, n);
			check_floats("y", y, want, n);
			guard_intact("y", &out);
		}
	}
}

void check_vec(void)
{
	in = guard_new(8192 * sizeof(float));
	in2 = guard_new(8192 * sizeof(float));
	in3 = guard_new(8192 * sizeof(float));
	out = guard_new(8192 * sizeof(float));
	sumsq();
	scale_rows();
	quantize();
	for (enum qn_fn f = 0; f < QN_N_FN; f++)
		function(f);
	softcap();
	clamp();
	xielu();
	moments();
	rope();
	attn_merge();
	conv();
	kv_expand();
	kv_numbers();
	EACH_SET(s) {
		check_at(s, "int8_rounds");
		s->k.int8_rounds(3);
		check_true(s->k.int8_per_round > 0, "no products in a round");
	}
	guard_free(&in);
	guard_free(&in2);
	guard_free(&in3);
	guard_free(&out);
}
