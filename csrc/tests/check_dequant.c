/*
 * check_dequant.c - qn_dequantize() against encoders written from the GGUF formulas. An encoder
 * puts chosen integers into a block bit by bit; the weights that come back must be theirs. It
 * shares no code with blocks.h, not even the structs.
 */
#include <math.h>
#include <string.h>

#include "check.h"

/* What a block says: w[k] = d * scale[k / 16] * (q[k] - offset) + m * minimum[k / 16]. */
struct said {
	int q[256], scale[16], minimum[16];
	uint16_t d, m;
};

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

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
	{QN_IQ4_XS, 4, 0, -32, 31, 0, 32},
};

/* The sign of the minimum: the K types subtract it. */
static double weight(const struct range *r, const struct said *s, int k, double *size)
{
	const int q = r->type == QN_IQ4_NL || r->type == QN_IQ4_XS ? iq4[s->q[k]]
	            : r->type == QN_Q8_0                           ? (int8_t)s->q[k]
	                                                           : s->q[k] - r->offset;
	const double a = half_value(s->d) * s->scale[k / 16] * q;
	const double b = half_value(s->m) * s->minimum[k / 16] * (r->minimum_max > 1 ? -1 : 1);

	*size = fabs(a) + fabs(b);
	return a + b;
}

static void say(const struct range *r, struct said *s)
{
	const int wide = r->scale_max - r->scale_min + 1;

	memset(s, 0, sizeof *s);
	s->d = half_nearest((double)rnd_normal());
	if (r->minimum_max)
		s->m = half_nearest((double)rnd_normal());
	for (int k = 0; k < 256; k++)
		s->q[k] = rnd_below(1 << r->bits);
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

void check_dequant(void)
{
	for (int i = 0; i < COUNT(ranges); i++)
		EACH_TYPE(t)
			if (t->type == ranges[i].type)
				quantized(&ranges[i], t);
	floats();
}
