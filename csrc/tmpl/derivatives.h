/*
 * derivatives.h - the element-wise kernels of training: derivatives of functions, exponentials, steps. Not compiled as
 * it stands: each set includes it once, after tmpl/elementwise.h and as that.
 */

static void VEC(exp_from)(float *y, const float *x, float top, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++) {
		const float v = x[i] - top;

		y[i] = qexp(v) + (v < 0 ? 0 : v * 0); /* NaN stays NaN */
	}
}

/* y = derivative * u or the derivative, for an expression of x and of s, a sigmoid of some w. */
#define DERIVATIVE(name, sigmoid_of, expr)                                          \
	static void VEC(name)(float *y, const float *g, const float *u, int64_t n)  \
	{                                                                           \
		IN_PLACE                                                            \
		for (int64_t i = 0; i < n; i++) {                                   \
			const float x = g[i], s = 1 / (1 + qexp(-(sigmoid_of)));    \
                                                                                    \
			y[i] = (expr) + x * 0 * s; /* NaN where x is not finite */  \
		}                                                                   \
		if (u)                                                              \
			VEC(scale_rows)(y, y, 1, u, n);                             \
	}

DERIVATIVE(silu_derivative, x, s * fmaf(x, 1 - s, 1.0f))
DERIVATIVE(sigmoid_derivative, x, s * (1 - s))
DERIVATIVE(gelu_derivative, x * fmaf(x * x, QGELU_C3, QGELU_C1),
           fmaf(x * s * (1 - s), fmaf(x * x, 3 * QGELU_C3, QGELU_C1), s))
DERIVATIVE(gelu_quick_derivative, 1.702f * x, fmaf(1.702f * x * s, 1 - s, s))
DERIVATIVE(softplus_derivative, x, s)
DERIVATIVE(relu_derivative, 0.0f, x > 0 ? 2 * s : 0)
DERIVATIVE(relu2_derivative, 0.0f, x > 0 ? 4 * s * x : 0)
#undef DERIVATIVE

/* The normal distribution function and x times its density, whose factor is 1 / sqrt(2 pi). */
static void VEC(gelu_erf_derivative)(float *y, const float *g, const float *u, int64_t n)
{
	IN_PLACE
	for (int64_t i = 0; i < n; i++) {
		const float x = g[i], p = qnormal_tail(x);

		y[i] = fmaf(x * 0x1.988454p-2f, qexp(-0.5f * x * x), x < 0 ? p : 1 - p) + x * 0;
	}
	if (u)
		VEC(scale_rows)(y, y, 1, u, n);
}

static void VEC(adamw)(const struct adamw *s, float *x, float *m, float *v, const float *d, int64_t n)
{
	const float keep = 1 - s->rate * s->decay, new1 = 1 - s->beta1, new2 = 1 - s->beta2;

	IN_PLACE
	for (int64_t i = 0; i < n; i++) {
		const float g = s->scale * d[i];

		m[i] = fmaf(s->beta1, m[i], new1 * g);
		v[i] = fmaf(s->beta2, v[i], new2 * g * g);
		x[i] = fmaf(x[i], keep, -(s->rate * (m[i] * s->correction1) / (sqrtf(v[i] * s->correction2) + s->eps)));
	}
}

static void VEC(derivatives_fill)(struct kernels *k)
{
	k->dot = VEC(dot);
	k->exp_from = VEC(exp_from);
	k->derivative[QN_FN_SILU] = VEC(silu_derivative);
	k->derivative[QN_FN_SIGMOID] = VEC(sigmoid_derivative);
	k->derivative[QN_FN_GELU] = VEC(gelu_derivative);
	k->derivative[QN_FN_GELU_ERF] = VEC(gelu_erf_derivative);
	k->derivative[QN_FN_GELU_QUICK] = VEC(gelu_quick_derivative);
	k->derivative[QN_FN_RELU] = VEC(relu_derivative);
	k->derivative[QN_FN_RELU2] = VEC(relu2_derivative);
	k->derivative[QN_FN_SOFTPLUS] = VEC(softplus_derivative);
	k->adamw = VEC(adamw);
}
