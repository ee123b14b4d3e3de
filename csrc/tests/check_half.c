/* check_half.c - math/fp16.h and qexp() against plain arithmetic in double. They have no sets. */
#include <math.h>

#include "math/exp.h"
#include "math/fp16.h"
#include "check.h"

static void to_float(void)
{
	check_at(check_sets, "f32_of_f16");
	for (uint32_t h = 0; h < 0x10000; h++) {
		const float got = f32_of_f16((uint16_t)h), want = (float)half_value((uint16_t)h);

		check_true(isnan(want) ? isnan(got) : bits_of_f32(got) == bits_of_f32(want),
		           "%#x = %a, want %a", h, (double)got, (double)want);
	}
	check_at(check_sets, "f32_of_bf16");
	for (uint32_t h = 0; h < 0x10000; h++)
		check_true(bits_of_f32(f32_of_bf16((uint16_t)h)) == h << 16, "%#x", h);
}

static void one_half(float x)
{
	const uint16_t got = f16_of_f32_sat(x), want = half_nearest((double)x);

	check_true(got == want || (isnan(x) && (got & 0x7fff) > 0x7c00), "%a = %#x, want %#x", (double)x, got,
	           want);
}

static void from_float(void)
{
	check_at(check_sets, "f16_of_f32_sat");
	for (uint32_t h = 0; h < 0x7c00; h++) {
		const float x = f32_of_f16((uint16_t)h);
		const float next = h == 0x7bff ? 65536 : f32_of_f16((uint16_t)(h + 1));
		const float mid = x + (next - x) / 2; /* exact */
		const float near[] = {x, nextafterf(x, INFINITY), nextafterf(mid, 0), mid, nextafterf(mid, INFINITY)};

		check_true(f16_of_f32_sat(x) == h && f16_of_f32_sat(-x) == (h | 0x8000), "%#x does not come back", h);
		for (int i = 0; i < COUNT(near); i++) {
			one_half(near[i]);
			one_half(-near[i]);
		}
	}
	for (int i = 0; i < 200000; i++)
		one_half(f32_of_bits((uint32_t)rnd()));
	one_half(INFINITY);
	one_half(-INFINITY);
	one_half(0x1.fffffep127f);
	one_half(0x1p-149f);
	one_half(NAN);
}

static void one_exp(float x)
{
	const double want = exp((double)x);
	const double ulp = ldexp(1, ilogb(want) - 23);

	check_true(fabs((double)qexp(x) - want) <= 2 * ulp, "exp(%a) = %a, %.2f ulp off", (double)x,
	           (double)qexp(x), fabs((double)qexp(x) - want) / ulp);
}

static void exponential(void)
{
	check_at(check_sets, "qexp");
	for (int i = 0; i <= 175 * 1024; i++)
		one_exp(-87 + (float)i / 1024);
	for (int i = 0; i < 100000; i++) {
		one_exp(0.5f + 87.5f * rnd_uniform());
		one_exp(rnd_uniform());
	}
	check_true(qexp(0) == 1 && qexp(-0.0f) == 1, "exp(0) = %a", (double)qexp(0));
	check_true(qexp(nextafterf(QEXP_MIN, -INFINITY)) == 0 && qexp(-1e30f) == 0 && qexp(-INFINITY) == 0,
	           "not 0 below the smallest");
	check_true(qexp(QEXP_MIN) >= 0x1p-126f, "subnormal at the smallest");
	check_true(qexp(89) == qexp(88) && qexp(INFINITY) == qexp(88) && isfinite(qexp(88)),
	           "not that of 88 above the largest");
}

void check_half(void)
{
	to_float();
	from_float();
	exponential();
}
