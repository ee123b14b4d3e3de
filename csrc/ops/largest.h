/* largest.h - the largest number of a row. */
#ifndef QN_OPS_LARGEST_H
#define QN_OPS_LARGEST_H

#include <stdint.h>

/* The largest of top and x[0 .. n): in lanes, which do not wait for each other. A NaN in x is none. */
static inline float largest(const float *x, int64_t n, float top)
{
	float most[16];
	int64_t i = 0;

	for (int l = 0; l < 16; l++)
		most[l] = top;
	for (; i + 16 <= n; i += 16)
		for (int l = 0; l < 16; l++)
			most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
	for (; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (int l = 0; l < 16; l++)
		top = most[l] > top ? most[l] : top;
	return top;
}

#endif
