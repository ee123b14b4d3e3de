/*
 * elementwise.h - the element-wise kernels. Not compiled as it stands: each set includes it once,
 * with VEC(name) defined as the name with the set's suffix and after its sums, under its own compile flags.
 *
 * Plain loops, written so that the compiler can use lanes of any width and still compute the same
 * bits: reductions have 16 explicit lanes, every fused multiply-add is spelled out.
 */
#include <math.h>
#include <string.h>

#include "math/fp16.h"
#include "kernels.h"
#include "math/exp.h"

#define LANES 16

/* Before a loop whose result may lie where an operand does: element for element, which vectors do not mind. */
#if defined(__clang__)
#define IN_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define IN_PLACE _Pragma("GCC ivdep")
#endif

static void VEC(affine)(float *y, const float *x, float mean, float r, const float *w, const float *b, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++)
		y[i] = (x[i] - mean) * r;
	if (w) {
		IN_PLACE
		for (int64_t i = 0; i < n; i++)
			y[i] *= w[i];
	}
	if (b) {
		IN_PLACE
		for (int64_t i = 0; i < n; i++)
			y[i] += b[i];
	}
}

static void VEC(add_scaled)(float *y, const float *x, float s, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++)
		y[i] += s * x[i];
}

static void VEC(scale_rows)(float *y, const float *x, float r, const float *w, int64_t n)
{
	if (w) {
		IN_PLACE
		for (int64_t i = 0; i < n; i++)
			y[i] = x[i] * r * w[i];
	} else {
		IN_PLACE
		for (int64_t i = 0; i < n; i++)
			y[i] = x[i] * r;
	}
}

/*
 * d = max|x| / 127, q = x * (127 / max|x|) to the nearest integer, ties to even. Of values that are not finite q is 0
 * and d NaN, so that the fault is seen and not spread as noise.
 */
static inline __attribute__((always_inline)) float VEC(quantize_run)(int8_t *q, const float *x, int n)
{
	int32_t top = 0; /* bits of magnitudes are in their order, and above those of numbers where there is none */
	float max, inv;

	for (int i = 0; i < n; i++) {
		const int32_t a = (int32_t)(bits_of_f32(x[i]) & 0x7fffffff);

		top = a > top ? a : top;
	}
	if (top >= 0x7f800000) {
		memset(q, 0, (size_t)n);
		return NAN; /* always the same one */
	}
	max = f32_of_bits((uint32_t)top);
	inv = max > 0x1p-120f ? 127.0f / max : 0; /* below, 127 / max is not finite */
	for (int i = 0; i < n; i++) {
		/* |x * inv| <= 127: adding 1.5 * 2^23 leaves the rounded integer in the low bits */
		const float t = x[i] * inv + 0x1.8p23f;

		q[i] = (int8_t)(bits_of_f32(t) & 0xff);
	}
	return inv > 0 ? max / 127.0f : 0;
}

static inline __attribute__((always_inline)) void VEC(sums_of_16)(int16_t *sum16, const int8_t *q)
{
	for (int j = 0; j < QN_ACT_BLOCK / 16; j++) {
		int sum = 0;

		for (int i = 0; i < 16; i++)
			sum += q[16 * j + i];
		sum16[j] = (int16_t)sum;
	}
}

/* The largest sum of 16 magnitudes. */
static inline __attribute__((always_inline)) int32_t VEC(most_of_16)(const int8_t *q)
{
	int32_t most = 0;

	for (int j = 0; j < QN_ACT_BLOCK / 16; j++) {
		int32_t sum = 0;

		for (int i = 0; i < 16; i++)
			sum += q[16 * j + i] < 0 ? -q[16 * j + i] : q[16 * j + i];
		most = sum > most ? sum : most;
	}
	return most;
}

static void VEC(quantize_bf16)(struct actb *y, const float *x, int n)
{
	for (int i = 0; i < n; i++)
		y->x[i] = bf16_factor(bf16_of_f32(x[i]));
	memset(y->x + n, 0, sizeof *y->x * (size_t)(QN_ACT_BLOCK - n));
}

static void VEC(quantize)(void *block, const float *x, int n, enum qn_act kind)
{
	struct act8 *y = block;
	float padded[QN_ACT_BLOCK];

	if (kind == QN_ACT_BF16) {
		VEC(quantize_bf16)(block, x, n);
		return;
	}

	if (n < QN_ACT_BLOCK) {
		memcpy(padded, x, sizeof *x * (size_t)n);
		memset(padded + n, 0, sizeof *padded * (size_t)(QN_ACT_BLOCK - n));
		x = padded;
	}
	if (kind == QN_ACT_Q8_32 || kind == QN_ACT_Q8_32_16) {
		for (int j = 0; j < QN_ACT_BLOCK / 32; j++)
			y->d32[j] = VEC(quantize_run)(y->qs + 32 * j, x + 32 * j, 32);
		if (kind == QN_ACT_Q8_32_16) {
			VEC(sums_of_16)(y->half_sum, y->qs);
			return;
		}
		for (int j = 0; j < QN_ACT_BLOCK / 32; j++) {
			int sum = 0;

			for (int i = 0; i < 32; i++)
				sum += y->qs[32 * j + i];
			y->fsum32[j] = (float)sum;
		}
		return;
	}
	y->d = VEC(quantize_run)(y->qs, x, QN_ACT_BLOCK);
	VEC(sums_of_16)(y->sum16, y->qs);
	for (int j = 0; j < QN_ACT_BLOCK / 32; j++)
		y->sum32[j] = (int16_t)(y->sum16[2 * j] + y->sum16[2 * j + 1]);
	y->most16 = VEC(most_of_16)(y->qs);
	memset(y->unused, 0, sizeof y->unused);
}

/* y = fn(g) * u or fn(g), for an expression of x. */
#define FN(name, expr)                                                              \
	static void VEC(name)(float *y, const float *g, const float *u, int64_t n)  \
	{                                                                           \
		if (u) {                                                            \
			IN_PLACE                                                    \
			for (int64_t i = 0; i < n; i++) {                           \
				const float x = g[i];                               \
				y[i] = (expr) * u[i];                               \
			}                                                           \
		} else {                                                            \
			IN_PLACE                                                    \
			for (int64_t i = 0; i < n; i++) {                           \
				const float x = g[i];                               \
				y[i] = (expr);                                      \
			}                                                           \
		}                                                                   \
	}

FN(silu, x / (1 + qexp(-x)))
FN(sigmoid, (1 + x * 0) / (1 + qexp(-x))) /* NaN where x is not finite */
FN(gelu, qgelu(x))
FN(gelu_erf, qgelu_erf(x))
FN(gelu_quick, x / (1 + qexp(-1.702f * x)))
FN(relu2, (x > 0 ? x : x * 0) * (x > 0 ? x : x * 0)) /* NaN stays NaN */
FN(relu, x > 0 ? x : x * 0)
FN(softplus_times, qsoftplus(x))
#undef FN

static void VEC(swiglu_clamp)(float *y, const float *g, const float *u, int64_t n)
{
	if (u)
		for (int64_t i = 0; i < n; i++) {
			const float x = g[i] > 7 ? 7 : g[i], low = u[i] < -7 ? -7 : u[i];

			y[i] = x / (1 + qexp(-1.702f * x)) * (1 + (low > 7 ? 7 : low));
		}
	else
		for (int64_t i = 0; i < n; i++) {
			const float x = g[i] > 7 ? 7 : g[i];

			y[i] = x / (1 + qexp(-1.702f * x));
		}
}

static void VEC(softcap)(float *y, const float *x, float cap, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++)
		y[i] = cap * qtanh(x[i] / cap);
}

static void VEC(clamp)(float *x, float low, float top, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const float v = x[i] > top ? top : x[i];

		x[i] = v < low ? low : v;
	}
}

/* e^x - 1 - x of x <= 0 is near 0, where the others cancel, made by its series. */
static void VEC(xielu)(float *x, const float by[4], int64_t n)
{
	const float positive = by[0], other = by[1], beta = by[2], eps = by[3];

	for (int64_t i = 0; i < n; i++) {
		const float v = x[i], low = v < eps ? v : eps, far = qexp(low) - 1 - low;
		const float near = low * low *
				   (1.0f / 2 + low * (1.0f / 6 + low * (1.0f / 24 + low * (1.0f / 120 + low *
				   (1.0f / 720 + low / 5040)))));
		const float rest = low < -0.5f ? far : near;

		x[i] = v > 0 ? positive * v * v + beta * v : (rest + (low - v)) * other + beta * v;
	}
}

/* bias and add constant. Written by eights, or the compiler makes vectors of rows, which lie apart. */
static inline __attribute__((always_inline)) void VEC(store_rows)(float *y, int64_t stride, const float *x,
                                                                  const float *bias, float scale, int n, int add)
{
	typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

	for (int t = 0; t < n; t++, y += stride, x += QN_PANEL)
		for (int r = 0; r < QN_PANEL; r += 8) {
			eight sum = *(const eight *)(x + r);

			if (bias)
				sum += *(const eight *)(bias + r);
			sum *= scale;
			if (add)
				sum += *(const eight *)(y + r);
			*(eight *)(y + r) = sum;
		}
}

static void VEC(store_tile)(float *y, int64_t stride, const float *x, const float *bias, float scale, int n, int add)
{
	if (bias && add)
		VEC(store_rows)(y, stride, x, bias, scale, n, 1);
	else if (bias)
		VEC(store_rows)(y, stride, x, bias, scale, n, 0);
	else if (add)
		VEC(store_rows)(y, stride, x, NULL, scale, n, 1);
	else
		VEC(store_rows)(y, stride, x, NULL, scale, n, 0);
}

static void VEC(rope)(float *x, const float *cs, int n_pairs, int neox)
{
	if (neox)
		for (int i = 0; i < n_pairs; i++) {
			const float a = x[i], b = x[i + n_pairs], c = cs[2 * i], s = cs[2 * i + 1];

			x[i] = fmaf(a, c, -(b * s));
			x[i + n_pairs] = fmaf(a, s, b * c);
		}
	else
		for (int i = 0; i < n_pairs; i++) {
			const float a = x[2 * i], b = x[2 * i + 1], c = cs[2 * i], s = cs[2 * i + 1];

			x[2 * i] = fmaf(a, c, -(b * s));
			x[2 * i + 1] = fmaf(a, s, b * c);
		}
}

static void VEC(delta_gates)(float *decay, float *beta, const float *a, const float *b, float dt, float rate, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++) {
		const float x = rate * qsoftplus(a[i] + dt);

		decay[i] = qexp(x) + x * 0; /* NaN where x is not finite */
	}
	for (int64_t i = 0; i < n; i++)
		beta[i] = (1 + b[i] * 0) / (1 + qexp(-b[i]));
}

static void VEC(softplus)(float *y, const float *x, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++)
		y[i] = qsoftplus(x[i]);
}

static void VEC(scan_decays)(float *y, const float *dt, const float *rate, int64_t n)
{
	for (int64_t i = 0; i < n * LANES; i += LANES)
		for (int j = 0; j < LANES; j++) {
			const float x = dt[j] * rate[i + j];

			y[i + j] = qexp(x) + x * 0; /* NaN where x is not finite */
		}
}

static void VEC(conv)(float *y, const float *const *u, const float *w, int n_tap, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = 0;
	for (int tap = 0; tap < n_tap; tap++, w += n) {
		const float *x = u[tap];

		for (int64_t i = 0; i < n; i++)
			y[i] += x[i] * w[i];
	}
}

static void VEC(attn_merge)(float *oa, float *ma, float *la, const float *ob, float mb, float lb, int n)
{
	const float m = *ma > mb ? *ma : mb;
	const float ca = qexp2(*ma - m), cb = qexp2(mb - m);

	if (lb == 0) /* part b saw nothing */
		return;
	if (*la == 0) {
		*ma = mb;
		*la = lb;
		memcpy(oa, ob, sizeof *oa * (size_t)n);
		return;
	}
	*ma = m;
	*la = fmaf(*la, ca, lb * cb);
	for (int i = 0; i < n; i++)
		oa[i] = fmaf(oa[i], ca, ob[i] * cb);
}

static void VEC(kv_expand)(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, int64_t part, int add,
                           const uint8_t *ahead)
{
	const uint8_t more = (uint8_t)add;

	for (; n > 0; n -= part, x += part, y += 2 * part, ahead += part) {
		for (int64_t i = 0; i < part; i += 64)
			__builtin_prefetch(ahead + i, 0, 2);
		for (int64_t i = 0; i < part; i++) {
			const uint8_t low = x[i] & 15, high = x[i] >> 4;

			y[i] = (uint8_t)((uint8_t)(low + low) + more);
			y[part + i] = (uint8_t)((uint8_t)(high + high) + more);
		}
	}
}

static void VEC(vec_fill)(struct kernels *k)
{
	k->sumsq = VEC(sumsq);
	k->scale_rows = VEC(scale_rows);
	k->quantize = VEC(quantize);
	k->sum = VEC(sum);
	k->sumsq_about = VEC(sumsq_about);
	k->affine = VEC(affine);
	k->add_scaled = VEC(add_scaled);
	k->fn[QN_FN_SILU] = VEC(silu);
	k->fn[QN_FN_SIGMOID] = VEC(sigmoid);
	k->fn[QN_FN_GELU] = VEC(gelu);
	k->fn[QN_FN_GELU_ERF] = VEC(gelu_erf);
	k->fn[QN_FN_GELU_QUICK] = VEC(gelu_quick);
	k->fn[QN_FN_RELU2] = VEC(relu2);
	k->fn[QN_FN_RELU] = VEC(relu);
	k->fn[QN_FN_SWIGLU_CLAMP] = VEC(swiglu_clamp);
	k->fn[QN_FN_SOFTPLUS] = VEC(softplus_times);
	k->softcap = VEC(softcap);
	k->clamp = VEC(clamp);
	k->xielu = VEC(xielu);
	k->store_tile = VEC(store_tile);
	k->rope = VEC(rope);
	k->delta_gates = VEC(delta_gates);
	k->softplus = VEC(softplus);
	k->scan_decays = VEC(scan_decays);
	k->conv = VEC(conv);
	k->attn_merge = VEC(attn_merge);
	k->kv_expand = VEC(kv_expand);
}
