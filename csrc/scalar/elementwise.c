/*
 * elementwise.c - the element-wise kernels, compiled for the baseline; and the peak of the scalar set.
 */
#define FLAGS_VECTORS
#include "flags.h"

#define VEC(name) name##_scalar
#include "scalar/set.h"
#include "tmpl/elementwise.h"
#include "tmpl/kv.h"

static void int8_rounds_scalar(int64_t n)
{
	volatile uint32_t sink;
	uint32_t a[4] = {1, 2, 3, 4}; /* it overflows */

	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < 4; j++)
			a[j] += a[j] * (uint32_t)(int8_t)i;
	sink = a[0] + a[1] + a[2] + a[3];
	(void)sink;
}

void vec_init_scalar(struct kernels *k)
{
	vec_fill_scalar(k);
	kv_fill_scalar(k);
	k->int8_rounds = int8_rounds_scalar;
	k->int8_per_round = 4;
}
