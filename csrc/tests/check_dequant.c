/*
 * check_dequant.c - qn_dequantize() against encoders written from the GGUF formulas. An encoder
 * puts chosen integers into a block bit by bit; the weights that come back must be theirs. It
 * shares no code with format/blocks.h, not even the structs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/ik_levels.h"
#include "format/iq_grids.h"
#include "check.h"

/* What a block says: w[k] = d * scale[k / 16] * (q[k] - offset) + m * minimum[k / 16]. */
struct said {
	int q[256], scale[16], minimum[16];
	uint16_t d, m;
};

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static const int mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Puts the low `bits` bits of value at bit `at` of byte `byte`. The block starts as zeros. */
static void put(uint8_t *b, int byte, int at, int bits, int value)
{
	b[byte] |= (uint8_t)((value & ((1 << bits) - 1)) << at);
}

static void put_half(uint8_t *b, int byte, uint16_t h)
{
	b[byte] = (uint8_t)h;
	b[byte + 1] = (uint8_t)(h >> 8);
}

/* Nibbles of runs of `run` weights: the first run low, the second high, and so on. */
static void put_nibbles(uint8_t *b, int byte, const int *q, int n, int run)
{
	for (int k = 0; k < n; k++)
		put(b, byte + k / (2 * run) * run + k % run, k / run % 2 * 4, 4, q[k]);
}

/* Bit pairs of four runs of 32 to each 32 bytes. */
static void put_pairs(uint8_t *b, int byte, const int *q, int shift)
{
	for (int k = 0; k < 256; k++)
		put(b, byte + k / 128 * 32 + k % 32, k % 128 / 32 * 2, 2, q[k] >> shift);
}

static void small(uint8_t *b, const struct said *s, int at_m, int at_qh, int at_qs)
{
	put_half(b, 0, s->d);
	if (at_m)
		put_half(b, at_m, s->m);
	if (at_qh)
		for (int k = 0; k < 32; k++)
			put(b, at_qh + k / 8, k % 8, 1, s->q[k] >> 4);
	put_nibbles(b, at_qs, s->q, 32, 16);
}

/* The 6-bit scales and minimums of eight sub-blocks in 12 bytes. */
static void put_scales(uint8_t *b, int byte, const struct said *s)
{
	for (int j = 0; j < 8; j++) {
		const int sc = s->scale[2 * j], mn = s->minimum[2 * j];

		if (j < 4) {
			put(b, byte + j, 0, 6, sc);
			put(b, byte + 4 + j, 0, 6, mn);
		} else {
			put(b, byte + 4 + j, 0, 4, sc);
			put(b, byte + 4 + j, 4, 4, mn);
			put(b, byte + j - 4, 6, 2, sc >> 4);
			put(b, byte + j, 6, 2, mn >> 4);
		}
	}
}

static void encode(int type, uint8_t *b, const struct said *s)
{
	switch (type) {
	case QN_Q4_0: case QN_IQ4_NL:
		small(b, s, 0, 0, 2);
		break;
	case QN_Q4_1:
		small(b, s, 2, 0, 4);
		break;
	case QN_Q5_0:
		small(b, s, 0, 2, 6);
		break;
	case QN_Q5_1:
		small(b, s, 2, 4, 8);
		break;
	case QN_Q8_0:
		put_half(b, 0, s->d);
		for (int k = 0; k < 32; k++)
			put(b, 2 + k, 0, 8, s->q[k]);
		break;
	case QN_Q2_K:
		for (int j = 0; j < 16; j++) {
			put(b, j, 0, 4, s->scale[j]);
			put(b, j, 4, 4, s->minimum[j]);
		}
		put_pairs(b, 16, s->q, 0);
		put_half(b, 80, s->d);
		put_half(b, 82, s->m);
		break;
	case QN_Q3_K:
		for (int k = 0; k < 256; k++)
			put(b, k % 32, k / 32, 1, s->q[k] >> 2);
		put_pairs(b, 32, s->q, 0);
		for (int j = 0; j < 16; j++) {
			put(b, 96 + j % 8, j / 8 * 4, 4, s->scale[j] + 32);
			put(b, 104 + j % 4, j / 4 * 2, 2, (s->scale[j] + 32) >> 4);
		}
		put_half(b, 108, s->d);
		break;
	case QN_Q4_K: case QN_Q5_K:
		put_half(b, 0, s->d);
		put_half(b, 2, s->m);
		put_scales(b, 4, s);
		if (type == QN_Q5_K)
			for (int k = 0; k < 256; k++)
				put(b, 16 + k % 32, k / 32, 1, s->q[k] >> 4);
		put_nibbles(b, type == QN_Q5_K ? 48 : 16, s->q, 256, 32);
		break;
	case QN_Q6_K:
		put_nibbles(b, 0, s->q, 256, 64);
		put_pairs(b, 128, s->q, 4);
		for (int j = 0; j < 16; j++)
			put(b, 192 + j, 0, 8, s->scale[j]);
		put_half(b, 208, s->d);
		break;
	case QN_IQ4_XS:
		put_half(b, 0, s->d);
		for (int j = 0; j < 8; j++) {
			put(b, 2 + j / 4, j % 4 * 2, 2, (s->scale[2 * j] + 32) >> 4);
			put(b, 4 + j / 2, j % 2 * 4, 4, s->scale[2 * j] + 32);
		}
		put_nibbles(b, 8, s->q, 256, 16);
		break;
	case QN_MXFP4:
		b[0] = (uint8_t)s->d;
		put_nibbles(b, 1, s->q, 32, 16);
		break;
	case QN_NVFP4:
		for (int j = 0; j < 4; j++) {
			b[j] = (uint8_t)s->scale[j];
			put_nibbles(b, 4 + 8 * j, s->q + 16 * j, 16, 8);
		}
		break;
	case QN_Q1_0:
		put_half(b, 0, s->d);
		for (int k = 0; k < 128; k++)
			put(b, 2 + k / 8, k % 8, 1, s->q[k]);
		break;
	case QN_Q2_0:
		put_half(b, 0, s->d);
		for (int k = 0; k < 64; k++)
			put(b, 2 + k / 4, k % 4 * 2, 2, s->q[k]);
		break;
	case QN_TQ2_0:
		put_pairs(b, 0, s->q, 0);
		put_half(b, 64, s->d);
		break;
	case QN_TQ1_0:
		for (int i = 0; i < 52; i++) {
			const int n = i < 48 ? 5 : 4;
			int v = 0;

			for (int j = 0; j < n; j++)
				v = 3 * v + s->q[i < 32 ? 32 * j + i : i < 48 ? 128 + 16 * j + i : 192 + 4 * j + i];
			b[i] = (uint8_t)(((n == 5 ? v : 3 * v) * 256 + 242) / 243);
		}
		put_half(b, 52, s->d);
		break;
	}
}

/* Ranges of what a block of the type can say. Offset as in the struct. */
static const struct range {
	int type, bits, offset, scale_min, scale_max, minimum_max, run;
} ranges[] = {
	{QN_Q4_0, 4, 8, 1, 1, 0, 32},      {QN_Q4_1, 4, 0, 1, 1, 1, 32},     {QN_Q5_0, 5, 16, 1, 1, 0, 32},
	{QN_Q5_1, 5, 0, 1, 1, 1, 32},      {QN_Q8_0, 8, 0, 1, 1, 0, 32},     {QN_IQ4_NL, 4, 0, 1, 1, 0, 32},
	{QN_Q2_K, 2, 0, 0, 15, 15, 16},    {QN_Q3_K, 3, 4, -32, 31, 0, 16},  {QN_Q4_K, 4, 0, 0, 63, 63, 32},
	{QN_Q5_K, 5, 0, 0, 63, 63, 32},    {QN_Q6_K, 6, 32, -128, 127, 0, 16},
	{QN_IQ4_XS, 4, 0, -32, 31, 0, 32}, {QN_MXFP4, 4, 0, 1, 1, 0, 32},    {QN_TQ2_0, 2, 1, 1, 1, 0, 32},
	{QN_TQ1_0, 1, 1, 1, 1, 0, 32},     {QN_NVFP4, 4, 0, 0, 255, 0, 16},  {QN_Q1_0, 1, 0, 1, 1, 0, 32},
	{QN_Q2_0, 2, 1, 1, 1, 0, 32},
};

/* A float of a sign that does not count, 4 bits of exponent and 3 of mantissa. */
static double ue4m3(int x)
{
	const int exp = x >> 3 & 15, frac = x & 7;

	return x == 0x7f ? 0 : exp ? ldexp(8 + frac, exp - 10) : ldexp(frac, -9);
}

/* The sign of the minimum: the K types subtract it. */
static double weight(const struct range *r, const struct said *s, int k, double *size)
{
	const int q = r->type == QN_IQ4_NL || r->type == QN_IQ4_XS ? iq4[s->q[k]]
	            : r->type == QN_MXFP4 || r->type == QN_NVFP4   ? mxfp4[s->q[k]]
	            : r->type == QN_Q1_0                           ? 2 * s->q[k] - 1
	            : r->type == QN_Q8_0                           ? (int8_t)s->q[k]
	                                                           : s->q[k] - r->offset;
	const double d = r->type == QN_MXFP4 ? ldexp(1, s->d - 128) : half_value(s->d);
	const double a = r->type == QN_NVFP4 ? ue4m3(s->scale[k / 16]) / 2 * q : d * s->scale[k / 16] * q;
	const double b = half_value(s->m) * s->minimum[k / 16] * (r->minimum_max > 1 ? -1 : 1);

	*size = fabs(a) + fabs(b);
	return a + b;
}

static void say(const struct range *r, struct said *s)
{
	const int wide = r->scale_max - r->scale_min + 1;

	memset(s, 0, sizeof *s);
	s->d = r->type == QN_MXFP4 ? (uint16_t)rnd_below(253) : half_nearest((double)rnd_normal());
	if (r->minimum_max)
		s->m = half_nearest((double)rnd_normal());
	for (int k = 0; k < 256; k++)
		s->q[k] = rnd_below(r->type == QN_TQ1_0 ? 3 : 1 << r->bits);
	for (int j = 0; j < 16; j += r->run / 16)
		for (int i = 0; i < r->run / 16; i++) {
			s->scale[j + i] = i ? s->scale[j] : r->scale_min + rnd_below(wide);
			s->minimum[j + i] = i ? s->minimum[j]
			                  : r->minimum_max == 1 ? 1
			                                        : rnd_below(r->minimum_max + 1);
		}
}

static void quantized(const struct range *r, const struct type *t)
{
	struct guard row = guard_new(3 * 256), out = guard_new(3 * 256 * sizeof(float));

	for (int round = 0; round < 50; round++) {
		const int n = 1 + round % 3;
		uint8_t *b = guard_fill(&row, (size_t)(n * t->bytes));
		float *y = guard_fill(&out, sizeof *y * (size_t)(n * t->elems));
		struct said s[3];

		memset(b, 0, (size_t)(n * t->bytes));
		for (int i = 0; i < n; i++) {
			say(r, &s[i]);
			encode(r->type, b + i * t->bytes, &s[i]);
		}
		check_at(check_sets, "qn_dequantize %s", t->name);
		check_true(qn_row_bytes(t->type, (int64_t)n * t->elems) == (size_t)(n * t->bytes), "bytes of a row");
		qn_dequantize(t->type, y, b, (int64_t)n * t->elems);
		for (int k = 0; k < n * t->elems; k++) {
			double size;
			const double want = weight(r, &s[k / t->elems], k % t->elems, &size);

			if (!check_near("weight", k, (double)y[k], want, 4e-7 * size))
				break;
		}
		guard_intact("floats", &out);
	}
	guard_free(&row);
	guard_free(&out);
}

/* The codebooks again, by their entries' levels. */
#define ENTRIES(a, b, c, d) 0x##a, 0x##b, 0x##c, 0x##d,
static const uint16_t iq2_xxs[] = {IQ2_XXS_GRID(ENTRIES)}, iq2_xs[] = {IQ2_XS_GRID(ENTRIES)};
static const uint16_t iq2_s[] = {IQ2_S_GRID(ENTRIES)}, iq1[] = {IQ1_GRID(ENTRIES)};
static const uint16_t iq3_xxs[] = {IQ3_XXS_GRID(ENTRIES)}, iq3_s[] = {IQ3_S_GRID(ENTRIES)};

/*
 * Types of codes: codes for `run` weights each, whose levels are levels[], times d / div * (2 s + 1). IQ1 adds or
 * subtracts 1 where the others have signs: of 7 bits and one more, or of 8.
 */
static const struct book {
	int type, bits, n_codes, run, s_run, s_max, sign_bits;
	const uint16_t *entries;
	int levels[8], div;
} books[] = {
	{QN_IQ2_XXS, 2, COUNT(iq2_xxs), 8, 32, 15, 7, iq2_xxs, {8, 25, 43}, 8},
	{QN_IQ2_XS, 2, COUNT(iq2_xs), 8, 16, 15, 7, iq2_xs, {8, 25, 43}, 8},
	{QN_IQ2_S, 2, COUNT(iq2_s), 8, 16, 15, 8, iq2_s, {8, 25, 43}, 8},
	{QN_IQ3_XXS, 3, COUNT(iq3_xxs), 4, 32, 15, 7, iq3_xxs, {4, 12, 20, 28, 36, 44, 52, 62}, 4},
	{QN_IQ3_S, 3, COUNT(iq3_s), 4, 32, 15, 8, iq3_s, {1, 3, 5, 7, 9, 11, 13, 15}, 1},
	{QN_IQ1_S, 2, COUNT(iq1), 8, 32, 7, 0, iq1, {-8, 0, 8}, 8},
	{QN_IQ1_M, 2, COUNT(iq1), 8, 16, 7, 0, iq1, {-8, 0, 8}, 8},
};

/* Puts `bits` bits of value at bit `at` of a block, across bytes. */
static void put_at(uint8_t *b, int at, int bits, int value)
{
	for (int i = 0; i < bits; i++)
		put(b, (at + i) / 8, (at + i) % 8, 1, value >> i);
}

/* Random codes: the block b, and the integers that d multiplies. */
static void say_codes(const struct book *p, uint8_t *b, uint16_t d, int want[256])
{
	int s[16], code = 0, signs = 0;

	for (int j = 0; j < 256 / p->s_run; j++) {
		s[j] = rnd_below(p->s_max + 1);
		switch (p->type) {
		case QN_IQ2_XXS:
			put_at(b, 16 + 64 * j + 60, 4, s[j]);
			break;
		case QN_IQ2_XS:
			put_at(b, 8 * 66 + 4 * j, 4, s[j]);
			break;
		case QN_IQ2_S:
			put_at(b, 8 * 74 + 4 * j, 4, s[j]);
			break;
		case QN_IQ3_XXS:
			put_at(b, 8 * 66 + 32 * j + 28, 4, s[j]);
			break;
		case QN_IQ3_S:
			put_at(b, 8 * 106 + 4 * j, 4, s[j]);
			break;
		case QN_IQ1_S:
			put_at(b, 8 * 34 + 16 * j + 12, 3, s[j]);
			break;
		case QN_IQ1_M:
			put_at(b, 8 * 48 + 16 * (j / 4) + 3 * (j % 4), 3, s[j]);
			break;
		}
	}
	for (int k = 0; k < 256; k++) {
		const int i = k / p->run, g = k / 8;

		if (k % p->run == 0) {
			code = rnd_below(p->n_codes);
			switch (p->type) {
			case QN_IQ2_XXS:
				put_at(b, 16 + 64 * (i / 4) + 8 * (i % 4), 8, code);
				break;
			case QN_IQ2_XS:
				put_at(b, 16 + 16 * i, 9, code);
				break;
			case QN_IQ2_S:
				put_at(b, 16 + 8 * i, 8, code);
				put_at(b, 8 * 66 + 2 * i, 2, code >> 8);
				break;
			case QN_IQ3_XXS:
				put_at(b, 16 + 8 * i, 8, code);
				break;
			case QN_IQ3_S:
				put_at(b, 16 + 8 * i, 8, code);
				put_at(b, 8 * 66 + i, 1, code >> 8);
				break;
			case QN_IQ1_S:
				put_at(b, 16 + 8 * i, 8, code);
				put_at(b, 8 * 34 + 16 * (i / 4) + 3 * (i % 4), 3, code >> 8);
				break;
			case QN_IQ1_M:
				put_at(b, 8 * i, 8, code);
				put_at(b, 8 * 32 + 4 * i, 3, code >> 8);
				break;
			}
		}
		if (k % 8 == 0 && p->sign_bits) {
			signs = rnd_below(1 << p->sign_bits);
			switch (p->type) {
			case QN_IQ2_XXS:
				put_at(b, 16 + 64 * (g / 4) + 32 + 7 * (g % 4), 7, signs);
				break;
			case QN_IQ2_XS:
				put_at(b, 16 + 16 * g + 9, 7, signs);
				break;
			case QN_IQ2_S:
				put_at(b, 8 * 34 + 8 * g, 8, signs);
				break;
			case QN_IQ3_XXS:
				put_at(b, 8 * 66 + 32 * (g / 4) + 7 * (g % 4), 7, signs);
				break;
			case QN_IQ3_S:
				put_at(b, 8 * 74 + 8 * g, 8, signs);
				break;
			}
			if (p->sign_bits == 7)
				for (int t = 0; t < 7; t++)
					signs ^= (signs >> t & 1) << 7;
		} else if (k % (p->type == QN_IQ1_S ? 32 : 8) == 0) {
			signs = rnd() & 1 ? 255 : 0;
			put_at(b, p->type == QN_IQ1_S ? 8 * 34 + 16 * (k / 32) + 15 : 8 * 32 + 4 * g + 3, 1, signs);
		}

		const int level = p->levels[p->entries[code] >> p->bits * (k % p->run) & ((1 << p->bits) - 1)];
		const int minus = signs >> k % 8 & 1;

		want[k] = (2 * s[k / p->s_run] + 1) *
		          (!p->sign_bits ? level + (minus ? -1 : 1) : minus ? -level : level);
	}
	if (p->type == QN_IQ1_M)
		for (int i = 0; i < 4; i++)
			put(b, 49 + 2 * i, 4, 4, d >> 4 * i);
	else
		put_half(b, 0, d);
}

static void coded(const struct book *p, const struct type *t)
{
	struct guard row = guard_new(3 * 256), out = guard_new(3 * 256 * sizeof(float));

	for (int round = 0; round < 200; round++) {
		const int n = 1 + round % 3;
		uint8_t *b = guard_fill(&row, (size_t)(n * t->bytes));
		float *y = guard_fill(&out, sizeof *y * (size_t)(n * 256));
		int want[3][256];
		uint16_t d[3];

		memset(b, 0, (size_t)(n * t->bytes));
		for (int i = 0; i < n; i++) {
			d[i] = half_nearest((double)rnd_normal());
			say_codes(p, b + i * t->bytes, d[i], want[i]);
		}
		check_at(check_sets, "qn_dequantize %s", t->name);
		qn_dequantize(t->type, y, b, (int64_t)n * 256);
		for (int k = 0; k < n * 256; k++) /* exact: the product has 23 bits */
			if (!check_near("weight", k, (double)y[k],
			                half_value(d[k / 256]) / p->div * want[k / 256][k % 256], 0))
				break;
		guard_intact("floats", &out);
	}
	guard_free(&row);
	guard_free(&out);
}

/*
 * ik_llama.cpp's types: levels of codes of some bits, for sub-blocks of `run` weights, moved by `shift` where a bit of
 * the sub-block is set. Scales from the least to the largest, by steps of 1 or 2.
 */
#define LEVEL(x) x,
static const int ik2[] = {IK2_LEVELS(LEVEL)}, ik3[] = {IK3_LEVELS(LEVEL)};
static const int ik5[] = {IK5_LEVELS(LEVEL)}, ik6[] = {IK6_LEVELS(LEVEL)};
#undef LEVEL
#define PAIR(x, y) {x, y},
static const int ik_pairs[][2] = {IQ2_KL_PAIRS(PAIR)};
#undef PAIR
static const struct ik {
	int type, bits, run, shift, scale_min, scale_max, step;
	const int *levels;
} iks[] = {
	{QN_IQ2_K, 2, 16, 5, -8, 7, 1, ik2},        {QN_IQ3_K, 3, 16, 4, -31, 31, 2, ik3},
	{QN_IQ4_K, 4, 16, 4, -32, 31, 1, iq4},      {QN_IQ5_K, 5, 16, 2, -32, 31, 1, ik5},
	{QN_IQ6_K, 6, 16, 1, -128, 127, 1, ik6},    {QN_IQ2_KS, 2, 32, 5, -16, 15, 1, ik2},
	{QN_IQ2_KL, 5, 32, 0, -32, 31, 1, NULL},    {QN_IQ3_KS, 3, 32, 4, -16, 15, 1, ik3},
	{QN_IQ4_KS, 4, 32, 4, -127, 127, 2, iq4},   {QN_IQ4_KSS, 4, 32, 4, -127, 127, 2, iq4},
	{QN_IQ5_KS, 5, 32, 2, -127, 127, 2, ik5},
};

/* Bit k / 32 of byte k % 32. */
static void put_above(uint8_t *b, int byte, const int *q, int bit)
{
	for (int k = 0; k < 256; k++)
		put(b, byte + k % 32, k / 32, 1, q[k] >> bit);
}

/* A random block: its bytes, but for the scale, and the integers that it multiplies. */
static void say_ik(const struct ik *p, uint8_t *b, int want[256])
{
	const int n = 256 / p->run, pairs = p->type == QN_IQ2_KL;
	int q[256], s[16], moved[16];

	for (int j = 0; j < n; j++) {
		s[j] = p->scale_min + p->step * rnd_below((p->scale_max - p->scale_min) / p->step + 1);
		moved[j] = pairs ? 0 : rnd_below(2);
	}
	for (int k = 0; k < (pairs ? 128 : 256); k++)
		q[k] = rnd_below(1 << p->bits);
	switch (p->type) {
	case QN_IQ2_K:
		for (int j = 0; j < 16; j++) {
			put(b, 2 + j / 8, j % 8, 1, moved[j]);
			put(b, 4 + j / 2, j % 2 * 4, 4, s[j] + 8);
		}
		put_pairs(b, 12, q, 0);
		break;
	case QN_IQ3_K:
		for (int j = 0; j < 16; j++) {
			put(b, 2 + j / 8, j % 8, 1, moved[j]);
			put(b, 4 + j / 8, j % 8, 1, s[j] < 0);
			put(b, 6 + j / 2, j % 2 * 4, 4, ((s[j] < 0 ? -s[j] : s[j]) - 1) / 2);
		}
		put_pairs(b, 14, q, 0);
		put_above(b, 78, q, 2);
		break;
	case QN_IQ4_K: case QN_IQ5_K:
		for (int j = 0; j < 16; j++) {
			put(b, 2 + j / 8, j % 8, 1, moved[j]);
			put(b, 4 + j / 4, j % 4 * 2, 2, (s[j] + 32) >> 4);
			put(b, 8 + j / 2, j % 2 * 4, 4, s[j] + 32);
		}
		put_nibbles(b, 16, q, 256, p->type == QN_IQ4_K ? 16 : 32);
		if (p->type == QN_IQ5_K)
			put_above(b, 144, q, 4);
		break;
	case QN_IQ6_K:
		for (int j = 0; j < 16; j++) {
			put(b, 2 + j / 8, j % 8, 1, moved[j]);
			put(b, 4 + j, 0, 8, s[j]);
		}
		put_nibbles(b, 20, q, 256, 32);
		put_pairs(b, 148, q, 4);
		break;
	case QN_IQ2_KS:
		for (int j = 0; j < 8; j++) {
			put(b, 0, j, 1, moved[j]);
			put(b, 1, j, 1, (s[j] + 16) >> 4);
			put(b, 2 + j / 2, j % 2 * 4, 4, s[j] + 16);
		}
		put_pairs(b, 6, q, 0);
		break;
	case QN_IQ2_KL:
		for (int j = 0; j < 8; j++) {
			put(b, j / 4, j % 4 * 2, 2, (s[j] + 32) >> 4);
			put(b, 2 + j % 4, j / 4 * 4, 4, s[j] + 32);
		}
		put_nibbles(b, 6, q, 128, 16);
		for (int k = 0; k < 128; k++)
			put(b, 70 + k % 16, k / 16, 1, q[k] >> 4);
		break;
	case QN_IQ3_KS:
		for (int j = 0; j < 8; j++) {
			put(b, 0, j, 1, (s[j] + 16) >> 4);
			put(b, 1, j, 1, moved[j]);
			put(b, 2 + j % 4, j / 4 * 4, 4, s[j] + 16);
		}
		put_pairs(b, 6, q, 0);
		put_above(b, 70, q, 2);
		break;
	case QN_IQ4_KS: case QN_IQ5_KS:
		for (int j = 0; j < 8; j++)
			put(b, j, 0, 8, (s[j] + 127) | moved[j]);
		put_nibbles(b, 8, q, 256, p->type == QN_IQ4_KS ? 16 : 32);
		if (p->type == QN_IQ5_KS)
			put_above(b, 136, q, 4);
		break;
	case QN_IQ4_KSS: /* 15 random bits, of which the codes follow */
		for (int i = 0; i < 64; i++) {
			const int x = rnd_below(1 << 15) << 1, gray = x ^ x >> 1, at = i / 8 * 32 + i % 8 * 2;

			put_at(b, 16 * i, 16, x | (((s[i / 8] + 127) | moved[i / 8]) >> i % 8 & 1));
			for (int t = 0; t < 4; t++)
				q[at + t / 2 + t % 2 * 16] = gray >> 4 * t & 15;
		}
		break;
	}
	for (int k = 0; k < 256; k++)
		want[k] = s[k / p->run] *
		          (pairs ? ik_pairs[q[k / 2]][k % 2] : p->levels[q[k]] + p->shift * moved[k / p->run]);
}

/* Its trellis types: bits of a code, weights that it stands for, and what the scale of a row is multiplied by. */
static const struct kt {
	int type, bits, weights;
	float factor;
} kts[] = {
	{QN_IQ1_KT, 13, 8, 1}, {QN_IQ2_KT, 16, 8, 1.05f}, {QN_IQ3_KT, 16, 8, 1.01f}, {QN_IQ4_KT, 16, 4, 1},
};

/* Weight t of a code. */
static int sequence(int code, int t)
{
	uint64_t x = (uint64_t)code + 4096;
	int sum = -126;

	for (int i = 0; i <= t; i++)
		x = x * 3417055213u % (UINT64_C(1) << 32);
	for (; x; x /= 256)
		sum += (int)(x % 64);
	return sum;
}

/* What ik_llama.cpp's products made of three codes of IQ2_KT. */
static void sequences(void)
{
	static const struct {
		int code, q[8];
	} seen[] = {
		{280, {-4, 12, -3, -6, 8, -58, 49, 36}},
		{19384, {-18, -14, -6, 40, 23, -5, -39, 33}},
		{64580, {-5, -17, -16, -13, 37, 9, -7, -74}},
	};

	check_at(check_sets, "sequences");
	for (int i = 0; i < COUNT(seen); i++)
		for (int t = 0; t < 8; t++)
			check_true(sequence(seen[i].code, t) == seen[i].q[t], "code %d, weight %d", seen[i].code, t);
}

static void say_kt(const struct kt *p, uint8_t *b, int want[256])
{
	for (int j = 0; j < 8; j++) {
		const int s = rnd_below(p->type == QN_IQ4_KT ? 128 : 16);

		switch (p->type) {
		case QN_IQ1_KT:
			put(b, j, 0, 4, s);
			break;
		case QN_IQ2_KT: case QN_IQ3_KT:
			put(b, j % 4, j / 4 * 4, 4, s);
			break;
		case QN_IQ4_KT:
			put(b, 4 * j, 1, 7, s);
			break;
		}
		for (int k = 32 * j; k < 32 * j + 32; k++)
			want[k] = p->type == QN_IQ4_KT ? s - 64 : p->type == QN_IQ3_KT ? s : iq4[s];
	}
	for (int i = 0; i < 256 / p->weights; i++) {
		const int code = rnd_below(1 << p->bits);

		switch (p->type) {
		case QN_IQ1_KT:
			put(b, 8 + i, 0, 8, code);
			put(b, 40 + i % 16, i / 16 * 4, 4, code >> 8);
			put(b, i / 4, 4 + i % 4, 1, code >> 12);
			break;
		case QN_IQ2_KT: case QN_IQ3_KT:
			put_at(b, 8 * (4 + 2 * i), 16, code);
			break;
		case QN_IQ4_KT: /* the top bit is that of all codes of the 32 weights */
			if (i % 8 == 0)
				put(b, 4 * (i / 8), 0, 1, rnd_below(2));
			put(b, 32 + i, 0, 8, code);
			put(b, 96 + i % 32, i / 32 * 4, 4, code >> 8);
			put_at(b, 32 * (i / 8) + 8 + 3 * (i % 8), 3, code >> 12);
			break;
		}
		for (int t = 0; t < p->weights; t++) {
			const int k = p->weights * i + t, top = p->type == QN_IQ4_KT ? b[4 * (i / 8)] & 1 : code >> 15;
			const int q = sequence((code & 0x7fff) | top << 15, t), minus = rnd_below(2);

			if (p->type == QN_IQ3_KT)
				put(b, 68 + k % 32, k / 32, 1, minus);
			want[k] *= p->type != QN_IQ3_KT ? q : minus ? -abs(q) : abs(q);
		}
	}
}

/* Blocks of p or of q, times scales of blocks or of a row. */
static void ik(const struct ik *p, const struct kt *q, const struct type *t)
{
	const double factor = q ? (double)q->factor : 1;
	struct guard row = guard_new(4 + 3 * 256), out = guard_new(3 * 256 * sizeof(float));

	for (int round = 0; round < 100; round++) {
		const int n = 1 + round % 3;
		uint8_t *b = guard_fill(&row, (size_t)(t->head + n * t->bytes));
		float *y = guard_fill(&out, sizeof *y * (size_t)(n * 256));
		int want[3][256];
		uint16_t d[3];

		memset(b, 0, (size_t)(t->head + n * t->bytes));
		for (int i = 0; i < n; i++) {
			if (p)
				say_ik(p, b + t->head + i * t->bytes, want[i]);
			else
				say_kt(q, b + t->head + i * t->bytes, want[i]);
			d[i] = t->head && i ? d[0] : half_nearest((double)rnd_normal());
			put_scale(t, b, (int64_t)n * 256, i, d[i]);
		}
		check_at(check_sets, "qn_dequantize %s", t->name);
		qn_dequantize(t->type, y, b, (int64_t)n * 256);
		for (int k = 0; k < n * 256; k++) /* rounded once, twice with a factor */
			if (!check_near("weight", k, (double)y[k],
			                half_value(d[k / 256]) * factor * want[k / 256][k % 256],
			                (factor == 1 ? 6e-8 : 1.2e-7) * fabs((double)y[k])))
				break;
		guard_intact("floats", &out);
	}
	guard_free(&row);
	guard_free(&out);
}

static void floats(void)
{
	static const uint16_t halves[] = {0, 0x8000, 1, 0x83ff, 0x3c00, 0xc248, 0x7bff};
	float y[COUNT(halves)];

	check_at(check_sets, "qn_dequantize f16");
	qn_dequantize(QN_F16, y, halves, COUNT(halves));
	for (int i = 0; i < COUNT(halves); i++)
		check_near("weight", i, (double)y[i], half_value(halves[i]), 0);
	check_at(check_sets, "qn_dequantize bf16");
	qn_dequantize(QN_BF16, y, (const uint16_t[]){0x3f80, 0xc000, 0x4049}, 3);
	check_true(y[0] == 1 && y[1] == -2 && y[2] == 3.140625f, "not 1, -2, 3.140625");
	check_at(check_sets, "qn_dequantize f32");
	qn_dequantize(QN_F32, y, (const float[]){1, -2, 0x1p-140f}, 3);
	check_true(y[0] == 1 && y[1] == -2 && y[2] == 0x1p-140f, "not what it was");
}

/* Each type that has codes has an encoder here. */
static void all_types(void)
{
	EACH_TYPE(t) {
		int n = t->elems == 1;

		for (int i = 0; i < COUNT(ranges); i++)
			n += ranges[i].type == t->type;
		for (int i = 0; i < COUNT(books); i++)
			n += books[i].type == t->type;
		for (int i = 0; i < COUNT(iks); i++)
			n += iks[i].type == t->type;
		for (int i = 0; i < COUNT(kts); i++)
			n += kts[i].type == t->type;
		check_at(check_sets, "qn_dequantize %s", t->name);
		check_true(n == 1, "%d encoders", n);
	}
}

void check_dequant(void)
{
	all_types();
	for (int i = 0; i < COUNT(ranges); i++)
		EACH_TYPE(t)
			if (t->type == ranges[i].type)
				quantized(&ranges[i], t);
	for (int i = 0; i < COUNT(books); i++)
		EACH_TYPE(t)
			if (t->type == books[i].type)
				coded(&books[i], t);
	for (int i = 0; i < COUNT(iks); i++)
		EACH_TYPE(t)
			if (t->type == iks[i].type)
				ik(&iks[i], NULL, t);
	for (int i = 0; i < COUNT(kts); i++)
		EACH_TYPE(t)
			if (t->type == kts[i].type)
				ik(NULL, &kts[i], t);
	sequences();
	floats();
}
