/*
 * v16.h - products with float weights, over vectors of 16 lanes. Not compiled as it stands: a set
 * defines VEC(name), the type v16 and the functions below on it, and includes this once. The sets
 * differ in width only, so there is one text for all.
 */
#include <math.h>

#include "kernels.h"

INLINE v16 load_weights(int type, const void *w, int64_t k)
{
	switch (type) {
	case QN_F32:
		return v16_load((const float *)w + k * QN_PANEL);
	case QN_F16:
		return v16_load_f16((const uint16_t *)w + k * QN_PANEL);
	default:
		return v16_load_bf16((const uint16_t *)w + k * QN_PANEL);
	}
}

/* Products with float weights, nt tokens, constant. */
INLINE void mm_float(int type, int nt, float *out, const void *w, const struct actf *x, int64_t n_in, int64_t n_act)
{
	v16 even[8], odd[8];

#pragma GCC unroll 8
	for (int t = 0; t < nt; t++)
		even[t] = odd[t] = v16_zero();
	for (int64_t b = 0; b * QN_ACT_BLOCK < n_in; b++, x += n_act) {
		const int64_t left = n_in - b * QN_ACT_BLOCK, n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
		int64_t k = 0;

		for (; k + 2 <= n; k += 2) {
			const v16 w0 = load_weights(type, w, b * QN_ACT_BLOCK + k);
			const v16 w1 = load_weights(type, w, b * QN_ACT_BLOCK + k + 1);

#pragma GCC unroll 8
			for (int t = 0; t < nt; t++) {
				even[t] = v16_fma(w0, v16_set1(x[t].x[k]), even[t]);
				odd[t] = v16_fma(w1, v16_set1(x[t].x[k + 1]), odd[t]);
			}
		}
		if (k < n) { /* an odd number of columns, in the last block */
			const v16 w0 = load_weights(type, w, b * QN_ACT_BLOCK + k);

#pragma GCC unroll 8
			for (int t = 0; t < nt; t++)
				even[t] = v16_fma(w0, v16_set1(x[t].x[k]), even[t]);
		}
	}
#pragma GCC unroll 8
	for (int t = 0; t < nt; t++)
		v16_store(out + t * QN_PANEL, v16_add(even[t], odd[t]));
}

#define MM_FLOAT(name, type) \
	static void VEC(name)(float *out, const void *w, const void *act, int64_t n_in, \
	                      int64_t n_act, int n) \
	{ \
		const struct actf *x = act; \
		for (; n >= 8; n -= 8, x += 8, out += 8 * QN_PANEL) \
			mm_float(type, 8, out, w, x, n_in, n_act); \
		for (; n >= 4; n -= 4, x += 4, out += 4 * QN_PANEL) \
			mm_float(type, 4, out, w, x, n_in, n_act); \
		for (; n >= 2; n -= 2, x += 2, out += 2 * QN_PANEL) \
			mm_float(type, 2, out, w, x, n_in, n_act); \
		for (; n >= 1; n -= 1, x += 1, out += 1 * QN_PANEL) \
			mm_float(type, 1, out, w, x, n_in, n_act); \
	}

MM_FLOAT(mm_f32, QN_F32)
MM_FLOAT(mm_f16, QN_F16)
MM_FLOAT(mm_bf16, QN_BF16)

static void VEC(v16_fill)(struct kernels *k)
{
	k->mm[QN_F32] = VEC(mm_f32);
	k->mm[QN_F16] = VEC(mm_f16);
	k->mm[QN_BF16] = VEC(mm_bf16);
	k->mm_tile[QN_F32] = k->mm_tile[QN_F16] = k->mm_tile[QN_BF16] = 8;
}
