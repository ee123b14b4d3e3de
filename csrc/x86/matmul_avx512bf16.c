/*
 * matmul_avx512bf16.c - products with BF16 weights by vdpbf16ps.
 *
 * It adds two products to each lane, first that of the high halves, then that of the low ones, and rounds after each:
 * two steps of one chain. A line of a panel has an even column in its low halves and an odd one in its high halves, of
 * different chains. So the words of two lines are paired anew, once for many tokens: the even columns of both, the
 * first in the high half, and the odd ones; those of activations too.
 */
#define FLAGS_AVX512BF16
#include "flags.h"

#include <immintrin.h>
#include <string.h>

#include "kernels.h"
#include "x86/set.h"
#include "x86/twelve_zmm.h"

#define TOKENS 12     /* tokens of one panel whose sums registers hold; of two, half as many */
#define TILE 96       /* tokens of a call: words are paired once for all */

/*
 * Columns at a time of many tokens: the words of two panels take 8 KB, so that those, the activations of two tiles and
 * the sums of TILE tokens are in 32 KB of first-level cache.
 */
#define PART 128

/* The even columns of two lines, and the odd ones. */
struct paired {
	__m512i of[2];
};

INLINE struct paired pair_lines(__m512i first, __m512i second)
{
	const __mmask32 low = 0x55555555;

	return (struct paired){{
		_mm512_mask_blend_epi16(low, _mm512_slli_epi32(first, 16), second),
		_mm512_mask_blend_epi16(low, first, _mm512_srli_epi32(second, 16)),
	}};
}

/* Lines i and i + 1 of the n of a block; done: they are paired. */
INLINE struct paired lines_at(int done, const uint8_t *w, int i, int n)
{
	const __m512i first = _mm512_loadu_si512(w + i * 64);
	const __m512i second = done || i + 1 < n ? _mm512_loadu_si512(w + (i + 1) * 64) : _mm512_setzero_si512();

	return done ? (struct paired){{first, second}} : pair_lines(first, second);
}

/* Of each two words of n activations: the even columns, then the odd ones. */
INLINE void pair_acts(uint32_t *y, const uint16_t *x, int n)
{
	const __m512i order = _mm512_set_epi16(29, 31, 28, 30, 25, 27, 24, 26, 21, 23, 20, 22, 17, 19, 16, 18,
	                                       13, 15, 12, 14, 9, 11, 8, 10, 5, 7, 4, 6, 1, 3, 0, 2);

	for (int i = 0; i < n; i += 32)
		_mm512_store_si512(y + i / 2, _mm512_permutexvar_epi16(order, _mm512_loadu_si512(x + i)));
}

/* Asks for the activations of nt tokens in a part, from a column of the first on: a CPU does not foresee such steps. */
INLINE void ask_acts(const uint16_t *x, int nt)
{
	for (int t = 0; t < nt; t++, x += QN_ACT_BLOCK)
#pragma GCC unroll 4
		for (int i = 0; i < PART; i += 32)
			__builtin_prefetch(x + i);
}

/* c += a . b, in words of two. */
INLINE __m512 dot(__m512 c, __m512i a, __m512i b)
{
	return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

/* Adds n lines of np panels times nt tokens to y; done, np, nt are constant. asks: see ask_weights(). */
INLINE void columns(int done, int np, int nt, float (*const y[2])[QN_PANEL], const uint8_t *const w[2],
                    uint32_t (*x)[QN_ACT_BLOCK / 2], int n, int asks)
{
	const int run = BF16_RUN / 2;

	for (int k = 0; k < n; k += run) {
		const int end = n - k < run ? n : k + run;
		__m512 sum[2][TOKENS][2];

#pragma GCC unroll 2
		for (int p = 0; p < np; p++)
#pragma GCC unroll 12
			for (int t = 0; t < nt; t++)
				sum[p][t][0] = sum[p][t][1] = _mm512_setzero_ps();
		for (int i = k; i < end; i += 2) {
			struct paired v[2];

			if (!done)
				ask_weights(w[0] + i * 64, 128, asks);
#pragma GCC unroll 2
			for (int p = 0; p < np; p++)
				v[p] = lines_at(done, w[p], i, n);
#pragma GCC unroll 2
			for (int c = 0; c < 2; c++)
#pragma GCC unroll 12
				for (int t = 0; t < nt; t++) {
					const __m512i b = _mm512_set1_epi32((int)x[t][i + c]);

#pragma GCC unroll 2
					for (int p = 0; p < np; p++)
						sum[p][t][c] = dot(sum[p][t][c], v[p].of[c], b);
				}
		}
#pragma GCC unroll 2
		for (int p = 0; p < np; p++)
#pragma GCC unroll 12
			for (int t = 0; t < nt; t++) {
				const __m512 both = _mm512_add_ps(sum[p][t][0], sum[p][t][1]);

				_mm512_storeu_ps(y[p][t], _mm512_add_ps(_mm512_loadu_ps(y[p][t]), both));
			}
	}
}

/*
 * The same, nt not constant, at most TOKENS / np; x: the first token's column of the first line. more: tokens
 * follow, nearly as many.
 */
INLINE void tokens(int done, int np, float *const out[2], int at, const uint8_t *const w[2], const uint16_t *x, int n,
                   int nt, int more, int asks)
{
	_Alignas(64) uint32_t words[TOKENS][QN_ACT_BLOCK / 2];
	float (*const y[2])[QN_PANEL] = {(void *)(out[0] + at * QN_PANEL), (void *)(out[1] + at * QN_PANEL)};

	for (int t = 0; t < nt; t++)
		pair_acts(words[t], x + t * QN_ACT_BLOCK, 2 * n);
	if (more)
		ask_acts(x + nt * QN_ACT_BLOCK, nt);
	switch (nt) {
#define COUNT(nt)                                              \
	case nt:                                               \
		if (nt <= TOKENS / np)                         \
			columns(done, np, nt, y, w, words, n, asks); \
		break;
		COUNT(1) COUNT(2) COUNT(3) COUNT(4) COUNT(5) COUNT(6)
		COUNT(7) COUNT(8) COUNT(9) COUNT(10) COUNT(11) COUNT(12)
#undef COUNT
	}
}

static void tokens_of_lines(float *const out[2], int at, const uint8_t *const w[2], const uint16_t *x, int n, int nt,
                            int asks)
{
	tokens(0, 1, out, at, w, x, n, nt, 0, asks);
}

static void tokens_of_words(float *const out[2], int at, const uint8_t *const w[2], const uint16_t *x, int n, int nt,
                            int more)
{
	tokens(1, 1, out, at, w, x, n, nt, more, 0);
}

static void tokens_of_two(float *const out[2], int at, const uint8_t *const w[2], const uint16_t *x, int n, int nt,
                          int more)
{
	tokens(1, 2, out, at, w, x, n, nt, more, 0);
}

/* Weight i of line l of a block, as 32 l + i, is there where words are paired. */
INLINE int paired_at(int at) { return (at & ~33) | (at & 1) << 5 | (~at >> 5 & 1); }

/* The lines of a block of weights in 12 bits, paired: with their escapes. */
INLINE void pair_twelve(uint8_t (*words)[64], const uint8_t *block, int cols, int asks)
{
	const struct twelve_head *h = (const struct twelve_head *)block;
	const struct twelve_group *g = twelve_groups(block);
	const __m512i table = twelve_table(block);

	for (int i = 0; i < cols / 2; i += 4, g++) {
		__m512i line[4];

		ask_weights((const uint8_t *)g, sizeof *g, asks);
		twelve_decode(line, g, table);
#pragma GCC unroll 2
		for (int k = 0; k < 4; k += 2) {
			const struct paired v = pair_lines(line[k], line[k + 1]);

			_mm512_store_si512(words[i + k], v.of[0]);
			_mm512_store_si512(words[i + k + 1], v.of[1]);
		}
	}
	for (int i = 0; i < h->n % (TWELVE_ESCAPES + 1); i++) {
		uint16_t *w = (uint16_t *)words[0] + paired_at(h->at[i] % TWELVE_HALVES);

		*w = (uint16_t)((*w & TWELVE_KEPT) | h->escape[i] << 7);
	}
}

/* np panels times more tokens than are taken of lines as they lie; twelve: of QN_X12. Both constant. */
INLINE void many_tokens(int twelve, int np, float *const out[2], const uint8_t *const panel[2], const struct actb *x,
                        int64_t n_in, int64_t n_act, int n)
{
	_Alignas(64) uint8_t words[2][QN_ACT_BLOCK / 2][64];
	const int most = TOKENS / np;

	for (int64_t k = 0; k < n_in; k += PART) {
		const int left = n_in - k < QN_ACT_BLOCK ? (int)(n_in - k + 1) / 2 : QN_ACT_BLOCK / 2; /* lines */
		const int at = (int)(k % QN_ACT_BLOCK), lines = left < PART / 2 ? left : PART / 2;
		const struct actb *block = x + k / QN_ACT_BLOCK * n_act;
		const uint8_t *w[2] = {words[0][twelve ? at / 2 : 0], words[1][twelve ? at / 2 : 0]};

		for (int p = 0; p < np; p++) {
			if (twelve && at == 0)
				pair_twelve(words[p], twelve_block(panel[p], k), 2 * left, n);
			for (int i = 0; !twelve && i < lines; i += 2) {
				const struct paired v = lines_at(0, panel[p] + k * QN_PANEL * 2, i, lines);

				ask_weights(panel[p] + (k + 2 * i) * QN_PANEL * 2, 128, n);
				_mm512_store_si512(words[p][i], v.of[0]);
				_mm512_store_si512(words[p][i + 1], v.of[1]);
			}
		}
		for (int t = 0, nt; t < n; t += nt) { /* two nearly equal tiles rather than a full and a small one */
			nt = n - t >= 2 * most ? most : n - t > most ? (n - t + 1) / 2 : n - t;
			if (np == 2)
				tokens_of_two(out, t, w, block[t].x + at, lines, nt, t + nt < n);
			else
				tokens_of_words(out, t, w, block[t].x + at, lines, nt, t + nt < n);
		}
	}
}

/* np panels; twelve: of QN_X12. Both constant. */
INLINE void mm_bf16(int twelve, int np, float *const out[2], const uint8_t *const panel[2], const struct actb *x,
                    int64_t n_in, int64_t n_act, int n)
{
	for (int p = 0; p < np; p++)
		memset(out[p], 0, sizeof(float) * QN_PANEL * (size_t)n);
	if (twelve || np == 2 || n > TOKENS) {
		many_tokens(twelve, np, out, panel, x, n_in, n_act, n);
		return;
	}
	for (int64_t k = 0; k < n_in; k += QN_ACT_BLOCK, x += n_act) {
		const int lines = (int)((n_in - k < QN_ACT_BLOCK ? n_in - k : QN_ACT_BLOCK) + 1) / 2;

		tokens_of_lines(out, 0, (const uint8_t *const[]){panel[0] + k * QN_PANEL * 2, NULL}, x->x, lines, n, n);
	}
}

INLINE void one_panel(int twelve, float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	mm_bf16(twelve, 1, (float *const[]){out, out}, (const uint8_t *const[]){panel, panel}, act, n_in, n_act, n);
}

INLINE void two_panels(int twelve, float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                       int64_t n_act, int n)
{
	mm_bf16(twelve, 2, (float *const[]){out, out + n * QN_PANEL}, (const uint8_t *const[]){panel, panel2}, act,
	        n_in, n_act, n);
}

static void mm_bf16_avx512bf16(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	one_panel(0, out, panel, act, n_in, n_act, n);
}

static void mm_twelve_avx512bf16(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	one_panel(1, out, panel, act, n_in, n_act, n);
}

static void mm_pair_bf16_avx512bf16(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                                    int64_t n_act, int n)
{
	if (n <= TOKENS) { /* one tile of one panel, of lines as they lie */
		mm_bf16_avx512bf16(out, panel, act, n_in, n_act, n);
		mm_bf16_avx512bf16(out + n * QN_PANEL, panel2, act, n_in, n_act, n);
		return;
	}
	two_panels(0, out, panel, panel2, act, n_in, n_act, n);
}

static void mm_pair_twelve_avx512bf16(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                                      int64_t n_act, int n)
{
	if (n <= TOKENS) {
		mm_twelve_avx512bf16(out, panel, act, n_in, n_act, n);
		mm_twelve_avx512bf16(out + n * QN_PANEL, panel2, act, n_in, n_act, n);
		return;
	}
	two_panels(1, out, panel, panel2, act, n_in, n_act, n);
}

void mm_init_avx512bf16(struct kernels *k)
{
	k->mm[QN_BF16] = mm_bf16_avx512bf16;
	k->mm_pair[QN_BF16] = mm_pair_bf16_avx512bf16;
	k->mm[QN_MM_TWELVE] = mm_twelve_avx512bf16;
	k->mm_pair[QN_MM_TWELVE] = mm_pair_twelve_avx512bf16;
	k->mm_tile[QN_BF16] = k->mm_tile[QN_MM_TWELVE] = TILE;
}

#include "flags_end.h"
