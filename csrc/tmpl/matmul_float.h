/*
 * matmul_float.h - products with weights of F32 and F16, over vectors of 16 lanes. Not compiled as it stands: a set
 * defines VEC(name), the type v16 and the functions below on it, and includes this once. The sets
 * differ in width only, so there is one text for all.
 *
 *	MM_FLOAT_TOKENS  tokens whose sums registers hold, two vectors each; at most 12
 */
#include <math.h>
#include <string.h>

#include "kernels.h"

#define MM_FLOAT_TILE 48 /* tokens of a call: a block of 256 columns is read once for all */

/* Both chains of a token's sums, those of even columns and those of odd ones. */
struct chains {
	float of[2][QN_PANEL];
};

INLINE v16 load_weights(int type, const void *w, int64_t i)
{
	return type == QN_F32 ? v16_load((const float *)w + i) : v16_load_f16((const uint16_t *)w + i);
}

/* Adds n columns, the first of them even, times nt tokens to their chains; type and nt are constant. */
INLINE void mm_columns(int type, int nt, struct chains *y, const void *w, const struct actf *x, int n)
{
	v16 sum[MM_FLOAT_TOKENS][2];
	int i = 0;

#pragma GCC unroll 12
	for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
		for (int c = 0; c < 2; c++)
			sum[t][c] = v16_load(y[t].of[c]);
	for (; i + 2 <= n; i += 2)
#pragma GCC unroll 2
		for (int c = 0; c < 2; c++) {
			const v16 v = load_weights(type, w, (i + c) * QN_PANEL);

#pragma GCC unroll 12
			for (int t = 0; t < nt; t++)
				sum[t][c] = v16_fma(v, v16_set1(x[t].x[i + c]), sum[t][c]);
		}
	if (i < n) { /* an odd number of columns, in the last block */
		const v16 v = load_weights(type, w, i * QN_PANEL);

#pragma GCC unroll 12
		for (int t = 0; t < nt; t++)
			sum[t][0] = v16_fma(v, v16_set1(x[t].x[i]), sum[t][0]);
	}
#pragma GCC unroll 12
	for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
		for (int c = 0; c < 2; c++)
			v16_store(y[t].of[c], sum[t][c]);
}

/* The next tokens to take at once of n: two tiles that are nearly equal rather than a full one and a small one. */
static inline int next_tokens(int n)
{
	return n >= 2 * MM_FLOAT_TOKENS ? MM_FLOAT_TOKENS : n > MM_FLOAT_TOKENS ? (n + 1) / 2 : n;
}

/* n columns times nt tokens, as many as registers hold at a time. */
INLINE void mm_tokens(int type, struct chains *y, const void *w, const struct actf *x, int n, int nt)
{
	for (int at; nt > 0; nt -= at, y += at, x += at) {
		at = next_tokens(nt);
		switch (at) {
#define TOKENS(nt)                                         \
	case nt:                                           \
		if (nt <= MM_FLOAT_TOKENS)                 \
			mm_columns(type, nt, y, w, x, n);  \
		break;
			TOKENS(1) TOKENS(2) TOKENS(3) TOKENS(4) TOKENS(5) TOKENS(6)
			TOKENS(7) TOKENS(8) TOKENS(9) TOKENS(10) TOKENS(11) TOKENS(12)
#undef TOKENS
		}
	}
}

static void VEC(mm_tokens_f32)(struct chains *y, const void *w, const struct actf *x, int n, int nt)
{
	mm_tokens(QN_F32, y, w, x, n, nt);
}

INLINE void mm_float(int type, float *out, const void *w, const struct actf *x, int64_t n_in, int64_t n_act, int n)
{
	_Alignas(64) float wide[QN_ACT_BLOCK * QN_PANEL];
	struct chains y[MM_FLOAT_TILE];

	memset(y, 0, sizeof *y * (size_t)n);
	for (int64_t k = 0; k < n_in; k += QN_ACT_BLOCK, x += n_act) {
		const int cols = n_in - k < QN_ACT_BLOCK ? (int)(n_in - k) : QN_ACT_BLOCK;
		const void *block = (const uint8_t *)w + k * QN_PANEL * (type == QN_F32 ? 4 : 2);

		if (type != QN_F32 && n > 2 * MM_FLOAT_TOKENS) { /* converted once, in the first-level cache */
			for (int i = 0; i < cols; i++)
				v16_store(wide + i * QN_PANEL, load_weights(type, block, i * QN_PANEL));
			VEC(mm_tokens_f32)(y, wide, x, cols, n);
		} else {
			mm_tokens(type, y, block, x, cols, n);
		}
	}
	for (int t = 0; t < n; t++)
		v16_store(out + t * QN_PANEL, v16_add(v16_load(y[t].of[0]), v16_load(y[t].of[1])));
}

#define MM_FLOAT(name, type)                                                                              \
	static void VEC(name)(float *out, const void *w, const void *act, int64_t n_in, int64_t n_act, int n) \
	{                                                                                                 \
		mm_float(type, out, w, act, n_in, n_act, n);                                              \
	}

MM_FLOAT(mm_f32, QN_F32)
MM_FLOAT(mm_f16, QN_F16)

static void VEC(v16_fill)(struct kernels *k)
{
	k->mm[QN_F32] = VEC(mm_f32);
	k->mm[QN_F16] = VEC(mm_f16);
	k->mm_tile[QN_F32] = k->mm_tile[QN_F16] = MM_FLOAT_TILE;
}
