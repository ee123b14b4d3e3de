/* log.h - the natural logarithm in double, the same bits on every machine: as math/sincos.h, and for its reasons. */
#ifndef QN_MATH_LOG_H
#define QN_MATH_LOG_H

#include <stdint.h>
#include <string.h>

#define QLOG_LN2 0x1.62e42fefa39efp-1

/*
 * ln x of a normal x > 0. x = 2^n m, m from 2/3 to 4/3, and ln m = 2 (s + s^3 / 3 + s^5 / 5 + ..), s = (m - 1) / (m +
 * 1), |s| <= 1/5: what is left out is below 2^-53 of it.
 */
static inline double qln(double x)
{
	uint64_t bits;
	double m, s, z, sum = 0;
	int n;

	memcpy(&bits, &x, sizeof bits);
	n = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffff) | (uint64_t)1023 << 52;
	memcpy(&m, &bits, sizeof m);
	if (m > 4.0 / 3) {
		m /= 2;
		n++;
	}
	s = (m - 1) / (m + 1);
	z = s * s;
	for (int k = 23; k > 0; k -= 2)
		sum = sum * z + 1.0 / k;
	return n * QLOG_LN2 + 2 * s * sum;
}

#endif
