/* check_sincos.c - sine and cosine: near libm's, which differs from machine to machine, and the same everywhere. */
#include <math.h>
#include <string.h>

#include "math/sincos.h"
#include "check.h"

/* One angle's; libm is within an ulp. */
static int near(double x)
{
	const double want[2] = {sin(x), cos(x)};
	double got[2];

	qsincos(x, &got[0], &got[1]);
	for (int i = 0; i < 2; i++)
		if (!check_true(fabs(got[i] - want[i]) <= 0x1p-50 * fabs(want[i]) + 0x1p-93, "%s(%a) = %a, want %a",
		                i ? "cos" : "sin", x, got[i], want[i]))
			return 0;
	return 1;
}

static double rnd_01(void)
{
	return (double)(rnd() >> 11) * 0x1p-53;
}

static void against_libm(void)
{
	const int n = check_quick ? 2000 : 200000;

	check_at(check_sets, "qsincos of random angles");
	for (int i = 0; i < n; i++)
		if (!near((rnd() & 1 ? 1 : -1) * rnd_01() * QSINCOS_MAX) ||
		    !near(ldexp(1 + rnd_01(), rnd_below(60) - 31)))
			break;
	/* Where a result is all but zero, of rounding alone, and where quarters meet. */
	check_at(check_sets, "qsincos near multiples of pi/4");
	for (int i = 0; i < n; i++) {
		const double x = floor(rnd_01() * 0x1p30) * 0x1.921fb54442d18p-1;

		if (x < QSINCOS_MAX && (!near(x) || !near(nextafter(x, 0)) || !near(-nextafter(x, 1e30))))
			break;
	}
	check_at(check_sets, "qsincos of positions");
	for (int i = 0; i < 64; i++)
		for (int pos = 0; pos < 1 << 20; pos += check_quick ? 65537 : 4099)
			if (!near(pos * pow(5e5, -i / 64.0)))
				return;
}

static void limits(void)
{
	static const double none[] = {INFINITY, -INFINITY, NAN, 0x1.0000000000001p30, -0x1p31, 1e300};
	double s, c;

	check_at(check_sets, "qsincos limits");
	qsincos(0, &s, &c);
	check_true(s == 0 && c == 1, "of 0: %g, %g", s, c);
	near(QSINCOS_MAX);
	near(-QSINCOS_MAX);
	near(0x1p-1000);
	for (int i = 0; i < COUNT(none); i++) {
		qsincos(none[i], &s, &c);
		check_true(isnan(s) && isnan(c), "of %g: %g, %g", none[i], s, c);
	}
}

/* The same number on every machine, with every compiler. */
static void same_bits(void)
{
	uint64_t state = 1, hash = 0;

	check_at(check_sets, "qsincos, bits");
	for (int i = 0; i < 10000; i++) {
		double x, y[2];
		uint64_t bits[2];

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth's MMIX */
		x = (double)(state >> 11) * (i & 1 ? 0x1p-23 : 0x1p-43);
		qsincos(x, &y[0], &y[1]);
		memcpy(bits, y, sizeof bits);
		for (int k = 0; k < 2; k++)
			hash = (hash ^ bits[k]) * UINT64_C(1099511628211);
	}
	check_true(hash == UINT64_C(0x629dfcfebfbe8e41), "hash %016llx", (unsigned long long)hash);
}

void check_sincos(void)
{
	against_libm();
	limits();
	same_bits();
}
