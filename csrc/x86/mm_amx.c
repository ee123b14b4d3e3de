/*
 * mm_amx.c - products on AMX-INT8, for batches of tokens.
 *
 * A panel's word order is the tile's: word i of a sub-block is row i of the B tile, with one weight
 * row in each of 16 columns. Activations are the A tile as they lie, one token to a row, 320 bytes
 * apart. So C has the lanes of the other kernels, 16 weight rows for each token, and the sums are
 * the same integers.
 *
 * Each sub-block has its own scale, so a tile product spans one sub-block (32 or 16 columns, of the
 * 64 that the unit could do at once), and C is folded into the sums of the super-block by vpmulld.
 * That fold, not the tile unit, is what limits the speed: about 24 cycles for a tile of 16 tokens.
 */
#include <string.h>

#include "x86/set.h"

#include "x86/mm_zmm.h"
#include "x16_words.h"

#define AMX_TILE 64  /* tokens that share one unpacking of the weights */
#define AMX_MIN 6    /* fewer tokens are faster without tiles */

/*
 * Tile registers, as the intrinsics want them: literal numbers. C and A come in three heights, so
 * that a batch that is not a multiple of 16 wastes little.
 */
#define C16 0
#define C16_ODD 1
#define A16 2
#define B 3
#define C8 4
#define A8 5
#define C4 6
#define A4 7

/*
 * GCC 12's own intrinsics do not say that these read memory, and so lose the stores before them.
 * t is one of the numbers above.
 */
#define STR(t) STR_(t)
#define STR_(t) #t
#define TILE_LOAD(t, p, stride) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" STR(t) : : "r"(p), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(t, p, stride) \
	__asm__ volatile("tilestored %%tmm" STR(t) ", (%0,%1,1)" : : "r"(p), "r"((int64_t)(stride)) : "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" STR(t) : :)
/* c += a . b; a signed, b unsigned bytes */
#define TILE_DOT(c, a, b) __asm__ volatile("tdpbsud %%tmm" STR(b) ", %%tmm" STR(a) ", %%tmm" STR(c) : :)

struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t colsb[16]; /* bytes of a row */
	uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Tiles for products of k columns; h8, h4: rows of the lower tiles, 8 and 4 but for the peak. */
static void configure(int k, uint8_t h8, uint8_t h4)
{
	const uint16_t a = (uint16_t)k;
	const struct tile_config t = {
		.palette = 1,
		.colsb = {[C16] = 64, [C16_ODD] = 64, [A16] = a, [B] = 64, [C8] = 64, [A8] = a, [C4] = 64, [A4] = a},
		.rows = {[C16] = 16, [C16_ODD] = 16, [A16] = 16, [B] = (uint8_t)(k / 4), [C8] = h8, [A8] = h8, [C4] = h4, [A4] = h4},
	};

	__asm__ volatile("ldtilecfg %0" : : "m"(t));
}

/* c[m][16] = x . w: one sub-block of m tokens. odd, of 16 tokens, alternates the accumulators. */
INLINE void tile_dot(int m, int32_t *c, const int8_t *x, const uint8_t *w, int odd)
{
#define DOT(acc, a)                             \
	do {                                        \
		TILE_ZERO(acc);                        \
		TILE_LOAD(a, x, sizeof(struct act8)); \
		TILE_LOAD(B, w, 64);                  \
		TILE_DOT(acc, a, B);                \
		TILE_STORE(acc, c, 64);               \
	} while (0)
	if (m == 4)
		DOT(C4, A4);
	else if (m == 8)
		DOT(C8, A8);
	else if (odd)
		DOT(C16_ODD, A16);
	else
		DOT(C16, A16);
#undef DOT
}

/* The panel's next super-block, unpacked to bytes. */
INLINE void unpack_super(int type, uint8_t *w, const uint8_t *p, int parts, int words)
{
	for (int g = 0; g < parts; g++)
#pragma GCC unroll 32
		for (int i = 0; i < words; i++)
			_mm512_store_si512(w + (g * words + i) * 64, super_word(type, p, g, i));
}

/* The last n < 4 tokens with room for a tile of 4: the tile would read past the end of the batch. */
INLINE const struct act8 *padded(const struct act8 *x, struct act8 rest[4], int n)
{
	memcpy(rest, x, sizeof *rest * (size_t)n);
	return rest;
}

/* Sums of one super-block for tokens x .. x + m into acc. m is 4, 8 or 16, and constant. */
INLINE void super_tile(int type, int m, floats *acc, const struct act8 *x, const uint8_t *w,
                       const struct scales *s, floats d, floats dmin)
{
	const int wide = type == QN_Q4_K || type == QN_Q5_K || type == QN_IQ4_XS; /* sub-blocks of 32 */
	const int subs = wide ? 8 : 16;
	const int has_min = type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K;
	const int shift = type == QN_Q6_K ? 5 : type == QN_Q3_K ? 2 : 7;
	_Alignas(64) int32_t c[2][16 * 16];
	ints sum[16];

#pragma GCC unroll 16
	for (int t = 0; t < m; t++) {
		sum[t] = ints_zero();
#pragma GCC unroll 8
		for (int i = 0; i < subs / 2; i++) {
			int32_t pair;

			memcpy(&pair, wide ? &x[t].sum32[2 * i] : &x[t].sum16[2 * i], sizeof pair);
			sum[t] = _mm512_dpwssd_epi32(sum[t], pairs16(s->pair[i]), _mm512_set1_epi32(pair));
		}
		if (has_min) {
			acc[t] = floats_fnma(floats_mul(dmin, floats_set1(x[t].d)), floats_of(sum[t]), acc[t]);
			sum[t] = ints_zero();
		} else {
			sum[t] = ints_sub(ints_zero(), ints_shl(sum[t], shift));
		}
	}
	tile_dot(m, c[0], x->qs, w, 0);
#pragma GCC unroll 16
	for (int j = 0; j < subs; j++) {
		const ints scale = ints_of8(s->scale[j]);

		if (j + 1 < subs) /* the next product runs beside this fold */
			tile_dot(m, c[(j + 1) % 2], x->qs + (j + 1) * (256 / subs), w + (j + 1) * 64 * (64 / subs), (j + 1) % 2);
#pragma GCC unroll 16
		for (int t = 0; t < m; t++)
			sum[t] = ints_muladd(sum[t], _mm512_load_si512(&c[j % 2][t * 16]), scale);
	}
#pragma GCC unroll 16
	for (int t = 0; t < m; t++)
		acc[t] = floats_fma(floats_mul(d, floats_set1(x[t].d)), floats_of(sum[t]), acc[t]);
}

INLINE void mm_super(int type, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int wide = type == QN_Q4_K || type == QN_Q5_K || type == QN_IQ4_XS;
	const int parts = type == QN_IQ4_XS ? 8 : wide ? 4 : 2;
	const int has_min = type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K;
	_Alignas(64) uint8_t w[64 * 64];
	struct act8 rest[4] = {0};
	floats acc[AMX_TILE + 3];
	struct scales s;

	configure(wide ? 32 : 16, 8, 4);
	for (int t = 0; t < AMX_TILE + 3; t++)
		acc[t] = floats_zero();
	for (int64_t b = 0; b < n_in / QK_K; b++, p += super_bytes(type), x += n_act) {
		const floats d = floats_f16(super_d(type, p));
		const floats dmin = has_min ? floats_f16(super_d(type, p) + QN_PANEL) : floats_zero();
		int t = 0;

		scales_of(&s, type, p);
		unpack_super(type, w, p, parts, 64 / parts);
		for (; t + 16 <= n; t += 16)
			super_tile(type, 16, acc + t, x + t, w, &s, d, dmin);
		for (; t + 8 <= n; t += 8)
			super_tile(type, 8, acc + t, x + t, w, &s, d, dmin);
		for (; t + 4 <= n; t += 4)
			super_tile(type, 4, acc + t, x + t, w, &s, d, dmin);
		if (t < n)
			super_tile(type, 4, acc + t, padded(x + t, rest, n - t), w, &s, d, dmin);
	}
	_tile_release();
	for (int t = 0; t < n; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

/* Sums of one group of nb blocks of 32 weights for tokens x .. x + m into acc. */
INLINE void small_tile(int type, int m, floats *acc, const struct act8 *x, const uint8_t *w, int nb,
                       const uint16_t *d)
{
	const int has_m = type == QN_Q4_1 || type == QN_Q5_1;
	const int minus_offset = type == QN_Q4_0 ? -8 : type == QN_Q5_0 ? -16 : -128;
	_Alignas(64) int32_t c[2][16 * 16];
	floats f[16];

#pragma GCC unroll 16
	for (int t = 0; t < m; t++)
		f[t] = floats_zero();
	tile_dot(m, c[0], x->qs, w, 0);
	for (int j = 0; j < nb; j++) {
		const floats dj = floats_f16(d + j * QN_PANEL);

		if (j + 1 < nb) {
			if (j % 2)
				tile_dot(m, c[0], x->qs + (j + 1) * QK, w + (j + 1) * 512, 0);
			else
				tile_dot(m, c[1], x->qs + (j + 1) * QK, w + (j + 1) * 512, 1);
		}
#pragma GCC unroll 16
		for (int t = 0; t < m; t++) {
			ints dot = _mm512_load_si512(&c[j % 2][t * 16]);

			if (!has_m)
				dot = _mm512_add_epi32(dot, _mm512_set1_epi32(minus_offset * x[t].sum32[j]));
			f[t] = floats_fma(dj, floats_of(dot), f[t]);
			if (has_m)
				f[t] = floats_fma(floats_f16(d + (nb + j) * QN_PANEL), floats_set1((float)x[t].sum32[j]), f[t]);
		}
	}
#pragma GCC unroll 16
	for (int t = 0; t < m; t++)
		acc[t] = floats_fma(f[t], floats_set1(x[t].d), acc[t]);
}

INLINE void mm_small(int type, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int has_m = type == QN_Q4_1 || type == QN_Q5_1;
	const int lines = type == QN_Q8_0 ? 8 : 4;
	_Alignas(64) uint8_t w[64 * 64];
	struct act8 rest[4] = {0};
	floats acc[AMX_TILE + 3];

	configure(QK, 8, 4);
	for (int t = 0; t < AMX_TILE + 3; t++)
		acc[t] = floats_zero();
	for (int64_t left = n_in / QK; left > 0; left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP;
		const uint16_t *d = (const uint16_t *)(p + x16_line_bytes(type, nb));
		int t = 0;

		for (int j = 0; j < nb; j++)
#pragma GCC unroll 8
			for (int i = 0; i < 8; i++)
				_mm512_store_si512(w + (j * 8 + i) * 64, small_word(type, (const x16_line *)p + j * lines,
				                                                    (const x16_line *)p + nb * lines + j, i));
		for (; t + 16 <= n; t += 16)
			small_tile(type, 16, acc + t, x + t, w, nb, d);
		for (; t + 8 <= n; t += 8)
			small_tile(type, 8, acc + t, x + t, w, nb, d);
		for (; t + 4 <= n; t += 4)
			small_tile(type, 4, acc + t, x + t, w, nb, d);
		if (t < n)
			small_tile(type, 4, acc + t, padded(x + t, rest, n - t), w, nb, d);
		p += x16_line_bytes(type, nb) + nb * QN_PANEL * (has_m ? 4 : 2);
	}
	_tile_release();
	for (int t = 0; t < n; t++)
		floats_store(out + t * QN_PANEL, acc[t]);
}

/* The kernels for few tokens, by type: those of the set below. */
static mm_fn *few[QN_N_TYPES];

#define MM_TYPE(name, type, family)                                                                              \
	static void name##_amx(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)   \
	{                                                                                                           \
		if (n < AMX_MIN)                                                                                        \
			few[type](out, panel, act, n_in, n_act, n);                                                         \
		else                                                                                                    \
			family(type, out, panel, act, n_in, n_act, n);                                                      \
	}

MM_TYPE(mm_q4_0, QN_Q4_0, mm_small)
MM_TYPE(mm_q4_1, QN_Q4_1, mm_small)
MM_TYPE(mm_q5_0, QN_Q5_0, mm_small)
MM_TYPE(mm_q5_1, QN_Q5_1, mm_small)
MM_TYPE(mm_q8_0, QN_Q8_0, mm_small)
MM_TYPE(mm_iq4_nl, QN_IQ4_NL, mm_small)
MM_TYPE(mm_q2k, QN_Q2_K, mm_super)
MM_TYPE(mm_q3k, QN_Q3_K, mm_super)
MM_TYPE(mm_q4k, QN_Q4_K, mm_super)
MM_TYPE(mm_q5k, QN_Q5_K, mm_super)
MM_TYPE(mm_q6k, QN_Q6_K, mm_super)
MM_TYPE(mm_iq4xs, QN_IQ4_XS, mm_super)

static void int8_rounds_amx(int64_t n)
{
	static const uint8_t zeros[1024];

	configure(64, 16, 16);
	TILE_ZERO(C16);
	TILE_ZERO(C16_ODD);
	TILE_ZERO(C8);
	TILE_ZERO(C4);
	TILE_LOAD(A16, zeros, 64);
	TILE_LOAD(B, zeros, 64);
	for (int64_t i = 0; i < n; i++) {
		TILE_DOT(C16, A16, B);
		TILE_DOT(C16_ODD, A16, B);
		TILE_DOT(C8, A16, B);
		TILE_DOT(C4, A16, B);
	}
	_tile_release();
}

void mm_init_amx(struct kernels *k)
{
	static const struct {
		int type;
		mm_fn *fn;
	} fns[] = {
		{QN_Q4_0, mm_q4_0_amx}, {QN_Q4_1, mm_q4_1_amx}, {QN_Q5_0, mm_q5_0_amx}, {QN_Q5_1, mm_q5_1_amx},
		{QN_Q8_0, mm_q8_0_amx}, {QN_IQ4_NL, mm_iq4_nl_amx}, {QN_Q2_K, mm_q2k_amx}, {QN_Q3_K, mm_q3k_amx},
		{QN_Q4_K, mm_q4k_amx}, {QN_Q5_K, mm_q5k_amx}, {QN_Q6_K, mm_q6k_amx}, {QN_IQ4_XS, mm_iq4xs_amx},
	};

	for (unsigned i = 0; i < sizeof fns / sizeof *fns; i++) {
		few[fns[i].type] = k->mm[fns[i].type];
		k->mm[fns[i].type] = fns[i].fn;
		k->mm_tile[fns[i].type] = AMX_TILE;
	}
	k->int8_rounds = int8_rounds_amx;
	k->int8_per_round = 4.0 * 16 * 16 * 64;
}
