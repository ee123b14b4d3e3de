/*
 * matmul_float.h - products with weights of F32 and F16, over vectors of 16 lanes. Not compiled as it stands: a set
 * defines VEC(name), the type v16 and the functions below on it, and includes this once. The sets
 * differ in width only, so there is one text for all.
 *
 *	MM_FLOAT_TOKENS  tokens whose sums registers hold, two vectors each; at most 12
 *	MM_FLOAT_PAIRS   1 where registers hold those of two panels times half as many: fewer loads. 0
 *	MM_FLOAT_PART    columns at a time of all tokens, a part of 256. With 64, those of two panels, activations of
 *	                 two tiles and all sums are in 32 KB of first-level cache; with fewer tokens in registers,
 *	                 sums would be loaded and stored too often. 256
 */
#include <math.h>
#include <string.h>

#include "kernels.h"

#ifndef MM_FLOAT_PAIRS
#define MM_FLOAT_PAIRS 0
#endif
#ifndef MM_FLOAT_PART
#define MM_FLOAT_PART QN_ACT_BLOCK
#endif

#define MM_FLOAT_TILE 48 /* tokens of a call: columns are read once for all */

/* Both chains of a token's sums, those of even columns and those of odd ones. */
struct chains {
	float of[2][QN_PANEL];
};

INLINE v16 load_weights(int type, const void *w, int64_t i)
{
	return type == QN_F32 ? v16_load((const float *)w + i) : v16_load_f16((const uint16_t *)w + i);
}

/* Adds column i, of chain c, of np panels times nt tokens; type, np and nt are constant. */
INLINE void mm_column(int type, int np, int nt, int c, v16 sum[2][MM_FLOAT_TOKENS][2], const void *const w[2],
                      const float *x, int i)
{
	v16 v[2];

#pragma GCC unroll 2
	for (int p = 0; p < np; p++)
		v[p] = load_weights(type, w[p], i * QN_PANEL);
#pragma GCC unroll 12
	for (int t = 0; t < nt; t++) {
		const v16 b = v16_set1(x[t * QN_ACT_BLOCK + i]);

#pragma GCC unroll 2
		for (int p = 0; p < np; p++)
			sum[p][t][c] = v16_fma(v[p], b, sum[p][t][c]);
	}
}

/* Adds n columns, the first of them even, of np panels times nt tokens to their chains. */
INLINE void mm_columns(int type, int np, int nt, struct chains *const y[2], const void *const w[2],
                       const float *x, int n)
{
	v16 sum[2][MM_FLOAT_TOKENS][2];
	int i = 0;

#pragma GCC unroll 2
	for (int p = 0; p < np; p++)
#pragma GCC unroll 12
		for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
			for (int c = 0; c < 2; c++)
				sum[p][t][c] = v16_load(y[p][t].of[c]);
	for (; i + 2 <= n; i += 2) {
		mm_column(type, np, nt, 0, sum, w, x, i);
		mm_column(type, np, nt, 1, sum, w, x, i + 1);
	}
	if (i < n) /* an odd number of columns, in the last block */
		mm_column(type, np, nt, 0, sum, w, x, i);
#pragma GCC unroll 2
	for (int p = 0; p < np; p++)
#pragma GCC unroll 12
		for (int t = 0; t < nt; t++)
#pragma GCC unroll 2
			for (int c = 0; c < 2; c++)
				v16_store(y[p][t].of[c], sum[p][t][c]);
}

/* Of n tokens those to take next, `most` at most: two nearly equal tiles rather than a full one and a small one. */
static inline int next_tokens(int most, int n)
{
	return n >= 2 * most ? most : n > most ? (n + 1) / 2 : n;
}

/* Asks for the activations of nt tokens in a part, from a column of the first on: a CPU does not foresee such steps. */
INLINE void ask_acts(const float *x, int nt)
{
	for (int t = 0; t < nt; t++, x += QN_ACT_BLOCK)
#pragma GCC unroll 8
		for (int i = 0; i < MM_FLOAT_PART; i += 16)
			__builtin_prefetch(x + i);
}

/* n columns of np panels times nt tokens, as many as registers hold at a time. */
INLINE void mm_tokens(int type, int np, struct chains *const y[2], const void *const w[2], const float *x, int n,
                      int nt)
{
	for (int t = 0, at; t < nt; t += at) {
		struct chains *const yt[2] = {y[0] + t, y[1] + t};

		at = next_tokens(MM_FLOAT_TOKENS / np, nt - t);
		if (MM_FLOAT_PART < QN_ACT_BLOCK && t + at < nt)
			ask_acts(x + (t + at) * QN_ACT_BLOCK, at);
		switch (at) {
#define TOKENS(nt)                                                                \
	case nt:                                                                  \
		if (nt <= MM_FLOAT_TOKENS / np)                                   \
			mm_columns(type, np, nt, yt, w, x + t * QN_ACT_BLOCK, n); \
		break;
			TOKENS(1) TOKENS(2) TOKENS(3) TOKENS(4) TOKENS(5) TOKENS(6)
			TOKENS(7) TOKENS(8) TOKENS(9) TOKENS(10) TOKENS(11) TOKENS(12)
#undef TOKENS
		}
	}
}

static void VEC(mm_tokens_f32)(struct chains *y, const void *w, const float *x, int n, int nt)
{
	mm_tokens(QN_F32, 1, (struct chains *const[]){y, y}, (const void *const[]){w, w}, x, n, nt);
}

#if MM_FLOAT_PAIRS
static void VEC(mm_tokens_f32_pair)(struct chains *const y[2], const void *const w[2], const float *x, int n, int nt)
{
	mm_tokens(QN_F32, 2, y, w, x, n, nt);
}
#endif

/* Products of np panels; constant. */
INLINE void mm_float(int type, int np, float *const out[2], const void *const panel[2], const struct actf *x,
                     int64_t n_in, int64_t n_act, int n)
{
	_Alignas(64) float wide[2][MM_FLOAT_PART * QN_PANEL];
	struct chains sums[2][MM_FLOAT_TILE], *const y[2] = {sums[0], sums[1]};

	for (int p = 0; p < np; p++)
		memset(y[p], 0, sizeof *y[p] * (size_t)n);
	for (int64_t k = 0; k < n_in; k += MM_FLOAT_PART) {
		const int cols = n_in - k < MM_FLOAT_PART ? (int)(n_in - k) : MM_FLOAT_PART;
		const float *acts = x[k / QN_ACT_BLOCK * n_act].x + k % QN_ACT_BLOCK;
		const void *w[2];

		for (int p = 0; p < 2; p++)
			w[p] = (const uint8_t *)panel[p] + k * QN_PANEL * (type == QN_F32 ? 4 : 2);
		if (type != QN_F32 && n > 2 * MM_FLOAT_TOKENS / np) {
			for (int p = 0; p < np; p++, w[p - 1] = wide[p - 1])
				for (int i = 0; i < cols; i++)
					v16_store(wide[p] + i * QN_PANEL, load_weights(type, w[p], i * QN_PANEL));
#if MM_FLOAT_PAIRS
			if (np == 2) {
				VEC(mm_tokens_f32_pair)(y, w, acts, cols, n);
				continue;
			}
#endif
			VEC(mm_tokens_f32)(y[0], w[0], acts, cols, n);
		} else {
			mm_tokens(type, np, y, w, acts, cols, n);
		}
	}
	for (int p = 0; p < np; p++)
		for (int t = 0; t < n; t++)
			v16_store(out[p] + t * QN_PANEL, v16_add(v16_load(y[p][t].of[0]), v16_load(y[p][t].of[1])));
}

#define MM_FLOAT(name, type)                                                                                 \
	static void VEC(mm_##name)(float *out, const void *w, const void *act, int64_t n_in, int64_t n_act,  \
	                           int n)                                                                    \
	{                                                                                                    \
		mm_float(type, 1, (float *const[]){out, out}, (const void *const[]){w, w}, act, n_in, n_act, n); \
	}

MM_FLOAT(f32, QN_F32)
MM_FLOAT(f16, QN_F16)

#if MM_FLOAT_PAIRS
#define MM_FLOAT_PAIR(name, type)                                                                            \
	static void VEC(mm_pair_##name)(float *out, const void *w, const void *w2, const void *act,          \
	                                int64_t n_in, int64_t n_act, int n)                                  \
	{                                                                                                    \
		mm_float(type, 2, (float *const[]){out, out + n * QN_PANEL}, (const void *const[]){w, w2},   \
		         act, n_in, n_act, n);                                                               \
	}

MM_FLOAT_PAIR(f32, QN_F32)
MM_FLOAT_PAIR(f16, QN_F16)
#endif

static void VEC(v16_fill)(struct kernels *k)
{
	k->mm[QN_F32] = VEC(mm_f32);
	k->mm[QN_F16] = VEC(mm_f16);
#if MM_FLOAT_PAIRS
	k->mm_pair[QN_F32] = VEC(mm_pair_f32);
	k->mm_pair[QN_F16] = VEC(mm_pair_f16);
#endif
	k->mm_tile[QN_F32] = k->mm_tile[QN_F16] = MM_FLOAT_TILE;
}
