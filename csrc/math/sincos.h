/*
 * sincos.h - sine and cosine in double, the same bits on every machine: sums and products in a fixed order, each of
 * them rounded, and no call of a library, whose variant would depend on the CPU.
 *
 * x less n quarter turns is r, |r| <= pi/4, to which Taylor series apply. pi/2 is in four parts. The first three have
 * 23 bits and n has 30, so their products with n are exact, and so are the first two differences; the rest of r is kept
 * in two doubles. That leaves r with an error below 2^-94, from which no x below 2^30 comes nearer to a multiple of
 * pi/2 than some 2^-60: results have a relative error below 2^-51 but there, and 2^-33 there. So the float of a result
 * is the one nearest to the exact value, or in one case of 2^26 its neighbour.
 */
#ifndef QN_MATH_SINCOS_H
#define QN_MATH_SINCOS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define QSINCOS_MAX 0x1p30 /* of |x|; beyond it both are NaN */

/* pi/2 */
#define QSINCOS_A 0x1.921fb4p+0
#define QSINCOS_B 0x1.4442dp-24
#define QSINCOS_C 0x1.846988p-48
#define QSINCOS_D 0x1.8cc51701b839ap-72

#define QSINCOS_QUARTERS 0x1.45f306dc9c883p-1 /* 2/pi */
#define QSINCOS_MAGIC    0x1.8p52              /* adding it rounds to an integer in the low bits */

/* a + b is the result and *rest, exactly (Knuth). */
static inline double qsum2(double a, double b, double *rest)
{
	const double s = a + b, t = s - a;

	*rest = (a - (s - t)) + (b - t);
	return s;
}

static inline void qsincos(double x, double *sine, double *cosine)
{
	const double t = x * QSINCOS_QUARTERS + QSINCOS_MAGIC, n = t - QSINCOS_MAGIC;
	double e1, e2, r, lo, z, s, c;
	uint64_t quarter;

	if (!(fabs(x) <= QSINCOS_MAX)) {
		*sine = *cosine = NAN;
		return;
	}
	r = qsum2(x - n * QSINCOS_A - n * QSINCOS_B, -(n * QSINCOS_C), &e1);
	r = qsum2(r, -(n * QSINCOS_D), &e2);
	lo = e1 + e2;
	z = r * r;

	/* sin(r + lo) = r - r^3/3! + r^5/5! - .. + lo cos r */
	s = 1 / 355687428096000.0;
	s = s * z - 1 / 1307674368000.0;
	s = s * z + 1 / 6227020800.0;
	s = s * z - 1 / 39916800.0;
	s = s * z + 1 / 362880.0;
	s = s * z - 1 / 5040.0;
	s = s * z + 1 / 120.0;
	s = s * z - 1 / 6.0;
	s = r + (r * z * s + lo * (1 - z / 2));

	/* cos(r + lo) = 1 - r^2/2! + r^4/4! - .. - lo sin r; what 1 - r^2/2 rounds off is put back */
	c = 1 / 20922789888000.0;
	c = c * z - 1 / 87178291200.0;
	c = c * z + 1 / 479001600.0;
	c = c * z - 1 / 3628800.0;
	c = c * z + 1 / 40320.0;
	c = c * z - 1 / 720.0;
	c = c * z + 1 / 24.0;
	{
		const double h = z / 2, c0 = 1 - h;

		c = c0 + ((1 - c0 - h) + (z * z * c - r * lo));
	}

	memcpy(&quarter, &t, sizeof quarter);
	*sine = quarter & 1 ? c : s;
	*cosine = quarter & 1 ? s : c;
	if (quarter & 2)
		*sine = -*sine;
	if ((quarter + 1) & 2)
		*cosine = -*cosine;
}

#endif
