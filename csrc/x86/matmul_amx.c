/*
 * matmul_amx.c - products on AMX, for batches of tokens.
 *
 * A panel's word order is the tile's: word i is row i of the B tile, with one weight row in each of
 * 16 columns. Activations are the A tile as they lie, one token to a row, 320 bytes apart. So C has
 * the lanes of the other kernels, 16 weight rows for each token, and the sums are the same integers.
 *
 * Sub-blocks have scales of their own, and to take a product out of the tile unit for each costs more
 * than the product. So scales go in before: scale * (q - offset) fits 16 bits, and its two bytes go
 * through the unit as two planes, S = 256 * H + L. That doubles the products and spans whole
 * super-blocks with them. Types with a float scale for each 32 weights cannot do that.
 *
 * Weights of BF16 are B tiles as they lie, and their activations A tiles: of 32 columns the even and the odd products
 * are a chain of fma each, as in the specification.
 */
#define FLAGS_AMX
#include "flags.h"

#include <string.h>

#include "x86/set.h"

#include "x86/matmul_zmm.h"
#include "tmpl/unpack.h"
#include "x86/twelve_zmm.h"

#define AMX_TILE 256 /* tokens that share one unpacking of the weights */
#define AMX_MIN 9    /* fewer tokens are faster without tiles */

/* Tile registers: sums, activations of two groups of tokens, weights of two planes. */
#define C0 0
#define C1 1
#define C2 2
#define C3 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7

/*
 * GCC 12's own intrinsics do not say that these read memory, and so lose the stores before them.
 * t is one of the numbers above.
 */
#if !defined(TILE_LOAD) /* tests have tiles of their own, for CPUs without */
#define STR(t) STR_(t)
#define STR_(t) #t
#define TILE_LOAD(t, p, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" STR(t) : : "r"(p), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(t, p) \
	__asm__ volatile("tilestored %%tmm" STR(t) ", (%0,%1,1)" : : "r"(p), "r"(INT64_C(64)) : "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" STR(t) : :)
/* c += a . b; a signed, b unsigned or signed bytes */
#define TILE_DOT_U8(c, a, b) __asm__ volatile("tdpbsud %%tmm" STR(b) ", %%tmm" STR(a) ", %%tmm" STR(c) : :)
#define TILE_DOT_S8(c, a, b) __asm__ volatile("tdpbssd %%tmm" STR(b) ", %%tmm" STR(a) ", %%tmm" STR(c) : :)
/* c += a . b, pairs of BF16 */
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" STR(b) ", %%tmm" STR(a) ", %%tmm" STR(c) : :)
#define TILE_CONFIG(t) __asm__ volatile("ldtilecfg %0" : : "m"(t))
#define TILE_RELEASE() __asm__ volatile("tilerelease" : :)
#endif

struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t colsb[16]; /* bytes of a row */
	uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Tiles for products of k columns and m tokens. */
static void configure(int k, int m)
{
	struct tile_config t = {.palette = 1};

	for (int i = C0; i <= C3; i++) {
		t.colsb[i] = 64;
		t.rows[i] = (uint8_t)m;
	}
	t.colsb[A0] = t.colsb[A1] = (uint16_t)k;
	t.rows[A0] = t.rows[A1] = (uint8_t)m;
	t.colsb[B0] = t.colsb[B1] = 64;
	t.rows[B0] = t.rows[B1] = (uint8_t)(k / 4);
	TILE_CONFIG(t);
}

/* Tokens of a tile: 8 while one tile of 8 is enough. */
static int tile_height(int n)
{
	return n <= 8 ? 8 : 16;
}

/* The last n < m tokens, with room for a whole tile, which would read past the end of the batch. */
INLINE const struct act8 *padded(const struct act8 *x, struct act8 rest[16], int n)
{
	memcpy(rest, x, sizeof *rest * (size_t)n);
	return rest;
}

/* Both planes of a super-block: [64 words][64 bytes], low bytes and high bytes. */
struct planes {
	_Alignas(64) uint8_t lo[64][64], hi[64][64];
};

/* Only Q2_K's products, at most 15 * 3, and TQ2_0's, -1 to 2, fit one byte. */
INLINE int has_hi(int type)
{
	return type != QN_Q2_K && type != QN_TQ2_0;
}

INLINE void unpack_super(int type, struct planes *w, const uint8_t *p, const struct scales *s)
{
	const int parts = type_row(type).parts, subs = type_row(type).subs, words = type_row(type).words;
	const int offset = type_row(type).offset;
	const __m512i low = _mm512_set1_epi16(0x00ff);

	for (int g = 0; g < parts; g++) {
#pragma GCC unroll 32
		for (int i = 0; i < subs * words; i++) {
			const int sub = sub_of(type, g, i / words), at = sub * words + i % words;
			const ints wide_scale = ints_of8(s->scale[sub]);
			const __m512i scale = _mm512_or_si512(_mm512_slli_epi32(wide_scale, 16),
			                                      _mm512_and_si512(wide_scale, _mm512_set1_epi32(0xffff)));
			const bytes q = super_word(type, p, g, i);
			__m512i even = _mm512_and_si512(q, low), odd = _mm512_srli_epi16(q, 8);

			if (offset) {
				even = _mm512_sub_epi16(even, _mm512_set1_epi16((short)offset));
				odd = _mm512_sub_epi16(odd, _mm512_set1_epi16((short)offset));
			}
			even = _mm512_mullo_epi16(even, scale);
			odd = _mm512_mullo_epi16(odd, scale);
			/* 0xca: where the mask is set the second operand, else the third */
			_mm512_store_si512(w->lo[at],
			                   _mm512_ternarylogic_epi32(
						   low, even, _mm512_slli_epi16(odd, 8), 0xca));
			if (has_hi(type))
				_mm512_store_si512(
					w->hi[at],
					_mm512_ternarylogic_epi32(low, _mm512_srli_epi16(even, 8),
				                                  odd, 0xca));
		}
	}
}

/* Products of one or two tiles of tokens with both planes: c[tile][0] low, c[tile][1] high. */
INLINE void super_dots(int type, int tiles, int32_t c[2][2][256], const int8_t *x0, const int8_t *x1,
                       const struct planes *w)
{
	TILE_ZERO(C0);
	TILE_ZERO(C1);
	TILE_ZERO(C2);
	TILE_ZERO(C3);
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++) {
		TILE_LOAD(B0, w->lo[16 * k], 64);
		TILE_LOAD(A0, x0 + 64 * k, sizeof(struct act8));
		if (type == QN_TQ2_0)
			TILE_DOT_S8(C0, A0, B0);
		else
			TILE_DOT_U8(C0, A0, B0);
		if (tiles == 2) {
			TILE_LOAD(A1, x1 + 64 * k, sizeof(struct act8));
			if (type == QN_TQ2_0)
				TILE_DOT_S8(C2, A1, B0);
			else
				TILE_DOT_U8(C2, A1, B0);
		}
		if (has_hi(type)) {
			TILE_LOAD(B1, w->hi[16 * k], 64);
			TILE_DOT_S8(C1, A0, B1);
			if (tiles == 2)
				TILE_DOT_S8(C3, A1, B1);
		}
	}
	TILE_STORE(C0, c[0][0]);
	if (has_hi(type))
		TILE_STORE(C1, c[0][1]);
	if (tiles == 2) {
		TILE_STORE(C2, c[1][0]);
		if (has_hi(type))
			TILE_STORE(C3, c[1][1]);
	}
}

/* Adds one super-block to the results of m tokens; m constant. */
INLINE void super_add(int type, int m, floats *acc, int32_t c[2][256], const struct act8 *x, const struct scales *s,
                      floats d, floats dmin)
{
	const int has_min = type_row(type).min;
	const int pairs = type_row(type).words == 4 ? 8 : 4;
	__m512i pair[8];

	if (has_min)
#pragma GCC unroll 8
		for (int i = 0; i < pairs; i++)
			pair[i] = pairs16(s->pair[i]);
#pragma GCC unroll 4
	for (int t = 0; t < m; t++) {
		const floats dx = floats_set1(x[t].d);
		ints sum = _mm512_load_si512(c[0] + 16 * t);

		if (has_hi(type))
			sum = _mm512_add_epi32(sum, _mm512_slli_epi32(_mm512_load_si512(c[1] + 16 * t), 8));
		if (has_min) {
			ints min = ints_zero();

#pragma GCC unroll 8
			for (int i = 0; i < pairs; i++)
				min = _mm512_dpwssd_epi32(min, pair[i],
				                          acts_load(pairs == 8
				                                            ? &x[t].sum16[2 * i]
				                                            : &x[t].sum32[2 * i]));
			acc[t] = floats_fnma(floats_mul(dmin, dx), floats_of(min), acc[t]);
		}
		acc[t] = floats_fma(floats_mul(d, dx), floats_of(sum), acc[t]);
	}
}

INLINE void mm_super_m(int type, int m, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in,
                       int64_t n_act, int n)
{
	const int has_min = type_row(type).min;
	_Alignas(64) int32_t c[2][2][256];
	struct act8 rest[16] = {0};
	floats acc[AMX_TILE];
	struct decoded decoded;
	struct planes w;
	struct scales s;
	const floats head = type_row(type).head ? head_d(type, p, n_in) : floats_set1(0);

	for (int t = 0; t < (n + m - 1) / m * m; t++)
		acc[t] = floats_set1(0);
	for (int64_t b = 0; b < n_in / QK_K; p += super_step(type, b), b++, x += n_act) {
		const uint8_t *q = is_coded(type) ? (const uint8_t *)&decoded : p;
		const floats dmin = has_min ? floats_f16(super_d(type, p, b) + QN_PANEL) : floats_set1(0);
		floats d;

		if (is_coded(type)) {
			decode(type, &decoded, p);
			d = type_row(type).head ? head : floats_load(decoded.d);
		} else {
			d = floats_f16(super_d(type, p, b));
		}

		scales_of(&s, type, q);
		unpack_super(type, &w, q, &s);
		for (int t = 0; t < n; t += 2 * m) {
			const struct act8 *x0 = t + m <= n ? x + t : padded(x + t, rest, n - t);

			if (t + m >= n) {
				super_dots(type, 1, c, x0->qs, NULL, &w);
				super_add(type, m, acc + t, c[0], x0, &s, d, dmin);
				break;
			}

			const struct act8 *x1 = t + 2 * m <= n ? x + t + m : padded(x + t + m, rest, n - t - m);

			super_dots(type, 2, c, x0->qs, x1->qs, &w);
			super_add(type, m, acc + t, c[0], x0, &s, d, dmin);
			super_add(type, m, acc + t + m, c[1], x1, &s, d, dmin);
		}
	}
	for (int t = 0; t < n; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

INLINE void mm_super(int type, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int m = tile_height(n);

	configure(64, m);
	if (m == 8)
		mm_super_m(type, 8, out, p, x, n_in, n_act, n);
	else
		mm_super_m(type, 16, out, p, x, n_in, n_act, n);
	TILE_RELEASE();
}

/* c[m][16] = x . w, one block of 32 columns, or of 16. odd alternates the accumulators. */
INLINE void small_dot(int32_t *c, const int8_t *x, const uint8_t *w, int odd)
{
#define DOT(acc, a, b)                          \
	do {                                        \
		TILE_ZERO(acc);                         \
		TILE_LOAD(a, x, sizeof(struct act8));   \
		TILE_LOAD(b, w, 64);                    \
		TILE_DOT_U8(acc, a, b);                 \
		TILE_STORE(acc, c);                     \
	} while (0)
	if (odd)
		DOT(C1, A1, B1);
	else
		DOT(C0, A0, B0);
#undef DOT
}

/* The sum of the activations of block j. */
INLINE float small_sum(int type, const struct act8 *x, int j)
{
	return type_row(type).words == 4 ? (float)x->half_sum[j] : x->fsum32[j];
}

/* Adds one group of nb blocks of 32 weights, or of 16, to the results of m tokens; m constant. */
INLINE void small_add(int type, int m, floats *acc, const struct act8 *x, const uint8_t *w, int nb, const uint16_t *d)
{
	const int has_m = type_row(type).min, words = type_row(type).words;
	const float minus_offset = (float)-type_row(type).offset;
	_Alignas(64) int32_t c[2][16 * 16];

	small_dot(c[0], x->qs, w, 0);
	for (int j = 0; j < nb; j++) {
		const floats dj = small_d(type, d, j);

		if (j + 1 < nb) /* the next product runs beside this fold */
			small_dot(c[(j + 1) % 2], x->qs + (j + 1) * words * 4, w + (j + 1) * words * 64, (j + 1) % 2);
#pragma GCC unroll 16
		for (int t = 0; t < m; t++) {
			floats f = floats_of(_mm512_load_si512(&c[j % 2][t * 16])); /* exact: below 2^21 */

			if (!has_m)
				f = floats_fma(floats_set1(minus_offset), floats_set1(small_sum(type, x + t, j)), f);
			f = floats_mul(dj, f);
			if (has_m)
				f = floats_fma(floats_f16(d + (nb + j) * QN_PANEL), floats_set1(x[t].fsum32[j]), f);
			acc[t] = floats_fma(f, floats_set1(x[t].d32[j * words / 8]), acc[t]);
		}
	}
}

INLINE void mm_small_m(int type, int m, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in,
                       int64_t n_act, int n)
{
	const int lines = small_lines(type), words = type_row(type).words;
	_Alignas(64) uint8_t w[64 * 64];
	struct act8 rest[16] = {0};
	floats acc[AMX_TILE];

	for (int t = 0; t < (n + m - 1) / m * m; t++)
		acc[t] = floats_set1(0);
	for (int64_t left = n_in / QK; left > 0; left -= X16_GROUP, x += n_act) {
		const int n32 = left < X16_GROUP ? (int)left : X16_GROUP, nb = n32 * 8 / words;
		const uint16_t *d = (const uint16_t *)(p + x16_line_bytes(type, n32));

		for (int j = 0; j < nb; j++)
#pragma GCC unroll 8
			for (int i = 0; i < words; i++)
				_mm512_store_si512(w + (j * words + i) * 64,
				                   small_word(type, (const x16_line *)p + j * lines,
				                              (const x16_line *)p + nb * lines + j, i));
		for (int t = 0; t < n; t += m)
			small_add(type, m, acc + t, t + m <= n ? x + t : padded(x + t, rest, n - t), w, nb, d);
		p += x16_line_bytes(type, n32) + x16_scale_bytes(type, n32);
	}
	for (int t = 0; t < n; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

INLINE void mm_small(int type, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int m = tile_height(n);

	configure(4 * type_row(type).words, m);
	if (m == 8)
		mm_small_m(type, 8, out, p, x, n_in, n_act, n);
	else
		mm_small_m(type, 16, out, p, x, n_in, n_act, n);
	TILE_RELEASE();
}

/* The 16 lines of columns k .. k + 31 of a panel: its last ones with zeros behind them, in rest. */
INLINE const uint8_t *bf16_lines(const uint8_t *panel, uint8_t *rest, int64_t k, int64_t n_in)
{
	const int64_t lines = (n_in - k + 1) / 2;

	if (lines >= 16)
		return panel + k * 2 * QN_PANEL;
	memset(rest, 0, 1024);
	memcpy(rest, panel + k * 2 * QN_PANEL, (size_t)lines * 64);
	return rest;
}

/* One tile of m tokens or two, times one panel or two: both constant. more: added to what out has. */
INLINE void bf16_tiles(int two_acts, int two_panels, int more, float *out, float *out2, const uint8_t *p,
                       const uint8_t *p2, const struct actb *x, int64_t n_in, int64_t n_act, int m)
{
	_Alignas(64) uint8_t rest[2][1024];

	TILE_ZERO(C0);
	TILE_ZERO(C1);
	TILE_ZERO(C2);
	TILE_ZERO(C3);
	if (more) {
		TILE_LOAD(C0, out, 64);
		if (two_panels)
			TILE_LOAD(C1, out2, 64);
		if (two_acts) {
			TILE_LOAD(C2, out + m * QN_PANEL, 64);
			if (two_panels)
				TILE_LOAD(C3, out2 + m * QN_PANEL, 64);
		}
	}
	for (int64_t k = 0; k < n_in; k += BF16_RUN) {
		const struct actb *a = x + k / QN_ACT_BLOCK * n_act;
		const int64_t at = k % QN_ACT_BLOCK;

		TILE_LOAD(B0, bf16_lines(p, rest[0], k, n_in), 64);
		TILE_LOAD(A0, a->x + at, sizeof *a);
		TILE_DOT_BF16(C0, A0, B0);
		if (two_panels) {
			TILE_LOAD(B1, bf16_lines(p2, rest[1], k, n_in), 64);
			TILE_DOT_BF16(C1, A0, B1);
		}
		if (two_acts) {
			TILE_LOAD(A1, a[m].x + at, sizeof *a);
			TILE_DOT_BF16(C2, A1, B0);
			if (two_panels)
				TILE_DOT_BF16(C3, A1, B1);
		}
	}
	TILE_STORE(C0, out);
	if (two_panels)
		TILE_STORE(C1, out2);
	if (two_acts) {
		TILE_STORE(C2, out + m * QN_PANEL);
		if (two_panels)
			TILE_STORE(C3, out2 + m * QN_PANEL);
	}
}

INLINE void mm_bf16(int two_panels, int more, float *out, const void *p, const void *p2, const struct actb *x,
                    int64_t n_in, int64_t n_act, int n)
{
	float *out2 = out + n * QN_PANEL;
	int m = 16;

	configure(64, m);
	for (; n >= 2 * m; n -= 2 * m, x += 2 * m, out += 2 * m * QN_PANEL, out2 += 2 * m * QN_PANEL)
		bf16_tiles(1, two_panels, more, out, out2, p, p2, x, n_in, n_act, m);
	for (; n > 0; n -= m, x += m, out += m * QN_PANEL, out2 += m * QN_PANEL) {
		if (n < m) { /* the last ones: a tile of as many rows */
			m = n;
			configure(64, m);
		}
		bf16_tiles(0, two_panels, more, out, out2, p, p2, x, n_in, n_act, m);
	}
	TILE_RELEASE();
}

/* Panels in 12 bits: some columns of them become lines, in the first-level cache, and meet all tokens. */
INLINE void mm_twelve(int two_panels, float *out, const void *p, const void *p2, const struct actb *x, int64_t n_in,
                      int64_t n_act, int n)
{
	enum { BLOCKS = 2 };
	_Alignas(64) uint16_t lines[2][BLOCKS * TWELVE_HALVES];

	for (int64_t k = 0; k < n_in; k += BLOCKS * QN_ACT_BLOCK, x += BLOCKS * n_act) {
		const int64_t cols = n_in - k < BLOCKS * QN_ACT_BLOCK ? n_in - k : BLOCKS * QN_ACT_BLOCK;

		for (int64_t i = 0; i < cols; i += QN_ACT_BLOCK) {
			const int some = (int)(cols - i < QN_ACT_BLOCK ? cols - i : QN_ACT_BLOCK);

			twelve_lines(lines[0] + i * QN_PANEL, twelve_block(p, k + i), some, n);
			if (two_panels)
				twelve_lines(lines[1] + i * QN_PANEL, twelve_block(p2, k + i), some, n);
		}
		mm_bf16(two_panels, k > 0, out, lines[0], lines[1], x, cols, n_act, n);
	}
}

/* The kernels for few tokens, by type: those of the set below. */
static mm_fn *few[QN_N_MM];

/*
 * How many of n tokens are left to them. Up to AMX_REST beyond whole tiles of 16 cost a tile as much as 16
 * do; among many tokens one more tile matters less than decoding the panel's words a second time.
 */
INLINE int left_to_few(int n)
{
	enum { AMX_REST = 6, AMX_MANY = 64 };

	if (n < AMX_MIN)
		return n;
	return n > AMX_MANY || n % 16 > AMX_REST ? 0 : n % 16;
}

#define MM_KERNEL(name, type, family) \
	static void mm_##name##_amx(float *out, const void *panel, const void *act, int64_t n_in, \
	                       int64_t n_act, int n) \
	{ \
		const int rest = left_to_few(n), tiled = n - rest; \
		if (tiled) \
			mm_##family(type, out, panel, act, n_in, n_act, tiled); \
		if (rest) \
			few[type](out + tiled * QN_PANEL, panel, (const struct act8 *)act + tiled, n_in, n_act, rest); \
	}

#define MM_SMALL(name, NAME, ...) MM_KERNEL(name, QN_##NAME, small)
#define MM_SUPER(name, NAME, ...) MM_KERNEL(name, QN_##NAME, super)
QN_TYPES(QN_SKIP, MM_SMALL, MM_SUPER, MM_SUPER)

static void mm_bf16_amx(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	if (n < AMX_MIN)
		few[QN_BF16](out, panel, act, n_in, n_act, n);
	else
		mm_bf16(0, 0, out, panel, NULL, act, n_in, n_act, n);
}

static void mm_pair_bf16_amx(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                             int64_t n_act, int n)
{
	if (n < AMX_MIN) {
		few[QN_BF16](out, panel, act, n_in, n_act, n);
		few[QN_BF16](out + n * QN_PANEL, panel2, act, n_in, n_act, n);
	} else {
		mm_bf16(1, 0, out, panel, panel2, act, n_in, n_act, n);
	}
}

static void mm_twelve_amx(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	if (n < AMX_MIN)
		few[QN_MM_TWELVE](out, panel, act, n_in, n_act, n);
	else
		mm_twelve(0, out, panel, NULL, act, n_in, n_act, n);
}

static void mm_pair_twelve_amx(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,
                               int64_t n_act, int n)
{
	if (n < AMX_MIN) {
		few[QN_MM_TWELVE](out, panel, act, n_in, n_act, n);
		few[QN_MM_TWELVE](out + n * QN_PANEL, panel2, act, n_in, n_act, n);
	} else {
		mm_twelve(1, out, panel, panel2, act, n_in, n_act, n);
	}
}

static void int8_rounds_amx(int64_t n)
{
	static const uint8_t zeros[1024];

	configure(64, 16);
	TILE_ZERO(C0);
	TILE_ZERO(C1);
	TILE_ZERO(C2);
	TILE_ZERO(C3);
	TILE_LOAD(A0, zeros, 64);
	TILE_LOAD(B0, zeros, 64);
	for (int64_t i = 0; i < n; i++) {
		TILE_DOT_U8(C0, A0, B0);
		TILE_DOT_U8(C1, A0, B0);
		TILE_DOT_U8(C2, A0, B0);
		TILE_DOT_U8(C3, A0, B0);
	}
	TILE_RELEASE();
}

void mm_init_amx(struct kernels *k)
{
#define MM_SLOT(name, NAME, ...)              \
	few[QN_##NAME] = k->mm[QN_##NAME];    \
	k->mm[QN_##NAME] = mm_##name##_amx;   \
	k->mm_tile[QN_##NAME] = AMX_TILE;     \
	k->mm_pair[QN_##NAME] = NULL;
	QN_TYPES(QN_SKIP, MM_SLOT, MM_SLOT, MM_SLOT)
#undef MM_SLOT
	few[QN_BF16] = k->mm[QN_BF16];
	k->mm[QN_BF16] = mm_bf16_amx;
	k->mm_pair[QN_BF16] = mm_pair_bf16_amx;
	few[QN_MM_TWELVE] = k->mm[QN_MM_TWELVE];
	k->mm[QN_MM_TWELVE] = mm_twelve_amx;
	k->mm_pair[QN_MM_TWELVE] = mm_pair_twelve_amx;
	k->mm_tile[QN_BF16] = k->mm_tile[QN_MM_TWELVE] = AMX_TILE;
	k->int8_rounds = int8_rounds_amx;
	k->int8_per_round = 4.0 * 16 * 16 * 64;
}

#include "flags_end.h"
