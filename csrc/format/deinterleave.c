/*
 * deinterleave.c - rows that a file has interleaved by fours or eights, taken apart into rows of GGUF's blocks.
 *
 * ik_llama.cpp writes such files for its own kernels, as types named _R4 and _R8. A block of these is the
 * same block of each row, field by field, in exactly the bytes of the rows: scales of all rows first, and of codes four
 * bytes of each row in turn, so that 4 k + i is byte i of row k. Which weights a byte holds is another order than in
 * GGUF, but nothing is rounded: what comes out is the rows that went in, bit for bit.
 */
#include <string.h>

#include "format/blocks.h"
#include "quern.h"

/* Fields of 4 and 8 rows, in the order of the file. */
struct q4_0_r8 { uint16_t d[8]; uint8_t qs[128]; };
struct q5_0_r4 { uint16_t d[4]; uint8_t qh[16]; uint8_t qs[64]; };
struct q8_0_r8 { uint16_t d[8]; int8_t qs[256]; };
struct mxfp4_r8 { uint8_t e[8]; uint8_t qs[128]; };
struct iq4_nl_r4 { uint16_t d[4]; uint8_t qs[64]; };
struct q2k_r4 { uint16_t d[4], dmin[4]; uint8_t scales[64]; uint8_t qs[256]; };
struct q3k_r4 { uint16_t d[4]; uint8_t scales_h[16], scales_l[32]; uint8_t qh[128]; uint8_t qs[256]; };
struct q4k_r4 { uint16_t d[4], dmin[4]; uint8_t scales_h[16], scales_l[32]; uint8_t qs[512]; };
struct q5k_r4 { uint16_t d[4], dmin[4]; uint8_t scales_h[16], scales_l[32]; uint8_t qh[128]; uint8_t qs[512]; };
struct q6k_r4 { uint16_t d[4]; int8_t scales[64]; uint8_t qh[256]; uint8_t ql[512]; };
struct iq4_xs_r8 { uint16_t d[8]; uint8_t scales_h[16], scales_l[32]; uint8_t qs[1024]; };
struct iq2_k_r4 { uint16_t d[4]; uint8_t extra[8]; uint8_t scales[32]; uint8_t qs[256]; };
struct iq3_k_r4 { uint16_t d[4]; uint8_t extra[8]; uint8_t signs[8], scales[32]; uint8_t qs[256]; uint8_t qh[128]; };
struct iq4_k_r4 { uint16_t d[4]; uint8_t extra[8]; uint8_t scales_h[16], scales_l[32]; uint8_t qs[512]; };
struct iq5_k_r4 {
	uint16_t d[4];
	uint8_t extra[8];
	uint8_t scales_h[16], scales_l[32];
	uint8_t qs[512];
	uint8_t qh[128];
};
struct iq4_ks_r4 { uint8_t scales[32]; uint8_t qs[512]; };
struct iq5_ks_r4 { uint8_t scales[32]; uint8_t qs[512]; uint8_t qh[128]; };

/* ------------------------------------------------------------------ codes of 32 weights of row k, out of words */

/* Nibbles by fours: 0.. and 8.., 16.. and 24.., 4.. and 12.., 20.. and 28... */
static void nibbles(uint8_t *q, const uint8_t *words, int k)
{
	static const uint8_t from[4] = {0, 16, 4, 20};

	for (int g = 0; g < 4; g++)
		for (int i = 0; i < 4; i++) {
			const uint8_t b = words[16 * g + 4 * k + i];

			q[from[g] + i] = b & 15;
			q[from[g] + i + 8] = b >> 4;
		}
}

/* Fields of two bits: of 16 weights in a word, those 4 apart. */
static void twos(uint8_t *q, const uint8_t *words, int k)
{
	for (int g = 0; g < 2; g++)
		for (int j = 0; j < 4; j++)
			for (int i = 0; i < 4; i++)
				q[16 * g + 4 * j + i] = words[16 * g + 4 * k + i] >> 2 * j & 3;
}

/* One bit more for each: bit j of a word belongs to weights order[j] .. order[j] + 3. */
static void bits(uint8_t *q, const uint8_t *words, int k, const uint8_t order[8], int shift)
{
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 4; i++)
			q[order[j] + i] |= (uint8_t)((words[4 * k + i] >> j & 1) << shift);
}

static const uint8_t order_q5_0[8] = {0, 16, 4, 20, 8, 24, 12, 28};
static const uint8_t order_q3k[8] = {0, 4, 8, 12, 16, 20, 24, 28};
static const uint8_t order_q5k[8] = {0, 8, 4, 12, 16, 24, 20, 28};
static const uint8_t order_iq5_k[8] = {0, 8, 16, 24, 4, 12, 20, 28};

/* ------------------------------------------------------------------ codes into a block of a row */

/* Nibbles of 2 n weights whose n bytes hold weights n apart. */
static void put_nibbles(uint8_t *qs, const uint8_t *q, int n)
{
	for (int i = 0; i < n; i++)
		qs[i] = (uint8_t)((q[i] & 15) | (q[i + n] & 15) << 4);
}

/* As in Q4_0, for each 32 of a super-block. */
static void put_by_32(uint8_t *qs, const uint8_t *q)
{
	for (int j = 0; j < QK_K; j += 32)
		put_nibbles(qs + j / 2, q + j, 16);
}

/* As in Q4_K. */
static void put_by_64(uint8_t *qs, const uint8_t *q)
{
	for (int j = 0; j < QK_K; j += 64)
		put_nibbles(qs + j / 2, q + j, 32);
}

/* As in Q2_K. */
static void put_twos(uint8_t *qs, const uint8_t *q)
{
	for (int half = 0; half < 2; half++, q += 128)
		for (int i = 0; i < 32; i++)
			*qs++ = (uint8_t)((q[i] & 3) | (q[i + 32] & 3) << 2 | (q[i + 64] & 3) << 4 |
			                  (q[i + 96] & 3) << 6);
}

/* Bit `bit` of each code as in Q5_K. */
static void put_bits(uint8_t *qh, const uint8_t *q, int bit)
{
	for (int i = 0; i < 32; i++) {
		qh[i] = 0;
		for (int j = 0; j < 8; j++)
			qh[i] |= (uint8_t)((q[32 * j + i] >> bit & 1) << j);
	}
}

/* n words of row k of eight, whose codes are in GGUF's order. */
static void put_words(void *qs, const void *words, int n, int k)
{
	for (int l = 0; l < n; l++)
		memcpy((uint8_t *)qs + 4 * l, (const uint8_t *)words + 32 * l + 4 * k, 4);
}

/* ------------------------------------------------------------------ scales */

/* Number i of 64 fields of `width` bits, which lie one above the other in n bytes. */
static int field(const uint8_t *p, int n, int width, int i)
{
	return p[i % n] >> width * (i / n) & ((1 << width) - 1);
}

/* Where scale j of 16 of row k is among the fields of four rows. */
static int scale16(int j, int k)
{
	return 8 * (j / 2) + 4 * (j % 2) + k;
}

/* Bits of row k: those of even sub-blocks in one byte, those of odd ones in another. */
static uint16_t extra_of(const uint8_t extra[8], int k)
{
	int x = 0;

	for (int j = 0; j < 16; j++)
		x |= (extra[k + 4 * (j % 2)] >> j / 2 & 1) << j;
	return (uint16_t)x;
}

/* Low nibbles of 16 scales, two to a byte. */
static void put_scales(uint8_t scales[8], const uint8_t *low, int k)
{
	for (int j = 0; j < 16; j += 2)
		scales[j / 2] = (uint8_t)(field(low, 32, 4, scale16(j, k)) | field(low, 32, 4, scale16(j + 1, k)) << 4);
}

/* Two bits above each, four to a byte. */
static void put_scales_h(uint8_t scales_h[4], const uint8_t *high, int k)
{
	memset(scales_h, 0, 4);
	for (int j = 0; j < 16; j++)
		scales_h[j / 4] |= (uint8_t)(field(high, 16, 2, scale16(j, k)) << 2 * (j % 4));
}

/* Scales and minimums of Q4_K and Q5_K. */
static void put_scales_q4k(uint8_t scales[12], const uint8_t *low, const uint8_t *high, int k)
{
	uint8_t sc[8], mn[8];

	for (int j = 0; j < 8; j++) {
		const int h = field(high, 16, 4, 4 * j + k);

		sc[j] = (uint8_t)((low[4 * j + k] & 15) | (h & 3) << 4);
		mn[j] = (uint8_t)(low[4 * j + k] >> 4 | (h >> 2) << 4);
	}
	for (int j = 0; j < 4; j++) { /* see q4k_scale() */
		scales[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
		scales[j + 4] = (uint8_t)(mn[j] | (mn[j + 4] >> 4) << 6);
		scales[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
	}
}

/* ------------------------------------------------------------------ a block of row k */

static void apart_q4_0(struct q4_0 *y, const struct q4_0_r8 *x, int k)
{
	y->d = x->d[k];
	put_words(y->qs, x->qs, 4, k);
}

static void apart_q5_0(struct q5_0 *y, const struct q5_0_r4 *x, int k)
{
	uint8_t q[QK];

	y->d = x->d[k];
	nibbles(q, x->qs, k);
	/* GGUF's bits are in the order of the weights, four bytes of eight. */
	bits(q, x->qh, k, order_q5_0, 4);
	put_nibbles(y->qs, q, 16);
	for (int j = 0; j < 4; j++) {
		y->qh[j] = 0;
		for (int i = 0; i < 8; i++)
			y->qh[j] |= (uint8_t)((q[8 * j + i] >> 4) << i);
	}
}

static void apart_q8_0(struct q8_0 *y, const struct q8_0_r8 *x, int k)
{
	y->d = x->d[k];
	put_words(y->qs, x->qs, 8, k);
}

static void apart_mxfp4(struct mxfp4 *y, const struct mxfp4_r8 *x, int k)
{
	y->e = x->e[k];
	put_words(y->qs, x->qs, 4, k);
}

static void apart_iq4_nl(struct iq4_nl *y, const struct iq4_nl_r4 *x, int k)
{
	uint8_t q[QK];

	y->d = x->d[k];
	nibbles(q, x->qs, k);
	put_nibbles(y->qs, q, 16);
}

static void apart_q2k(struct q2k *y, const struct q2k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->dmin = x->dmin[k];
	for (int j = 0; j < 16; j++)
		y->scales[j] = x->scales[4 * j + k];
	for (int j = 0; j < 8; j++)
		twos(q + 32 * j, x->qs + 32 * j, k);
	put_twos(y->qs, q);
}

static void apart_q3k(struct q3k *y, const struct q3k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	memset(y->scales, 0, sizeof y->scales);
	for (int j = 0; j < 16; j++) { /* see q3k_scale() */
		y->scales[j % 8] |= (uint8_t)(field(x->scales_l, 32, 4, scale16(j, k)) << 4 * (j / 8));
		y->scales[8 + j % 4] |= (uint8_t)(field(x->scales_h, 16, 2, scale16(j, k)) << 2 * (j / 4));
	}
	for (int j = 0; j < 8; j++) {
		twos(q + 32 * j, x->qs + 32 * j, k);
		bits(q + 32 * j, x->qh + 16 * j, k, order_q3k, 2);
	}
	put_twos(y->qs, q);
	put_bits(y->hmask, q, 2);
}

static void apart_q4k(struct q4k *y, const struct q4k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->dmin = x->dmin[k];
	put_scales_q4k(y->scales, x->scales_l, x->scales_h, k);
	for (int j = 0; j < 8; j++)
		nibbles(q + 32 * j, x->qs + 64 * j, k);
	put_by_64(y->qs, q);
}

static void apart_q5k(struct q5k *y, const struct q5k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->dmin = x->dmin[k];
	put_scales_q4k(y->scales, x->scales_l, x->scales_h, k);
	for (int j = 0; j < 8; j++) {
		nibbles(q + 32 * j, x->qs + 64 * j, k);
		bits(q + 32 * j, x->qh + 16 * j, k, order_q5k, 4);
	}
	put_by_64(y->qs, q);
	put_bits(y->qh, q, 4);
}

static void apart_q6k(struct q6k *y, const struct q6k_r4 *x, int k)
{
	static const uint8_t order[4] = {0, 8, 4, 12};
	uint8_t q[QK_K];

	y->d = x->d[k];
	for (int j = 0; j < 16; j++)
		y->scales[j] = x->scales[scale16(j, k)];
	for (int j = 0; j < 8; j++) {
		nibbles(q + 32 * j, x->ql + 64 * j, k);
		for (int g = 0; g < 2; g++)
			for (int n = 0; n < 4; n++)
				for (int i = 0; i < 4; i++)
					q[32 * j + 16 * g + order[n] + i] |=
						(uint8_t)((x->qh[32 * j + 16 * g + 4 * k + i] >> 2 * n & 3) << 4);
	}
	for (int half = 0; half < 2; half++) {
		put_nibbles(y->ql + 64 * half, q + 128 * half, 64);
		for (int i = 0; i < 32; i++) {
			const uint8_t *h = q + 128 * half + i;

			y->qh[32 * half + i] = (uint8_t)(h[0] >> 4 | (h[32] >> 4) << 2 | (h[64] >> 4) << 4 |
			                                 (h[96] >> 4) << 6);
		}
	}
}

static void apart_iq4_xs(struct iq4_xs *y, const struct iq4_xs_r8 *x, int k)
{
	uint8_t q[QK_K];
	int high = 0;

	y->d = x->d[k];
	memset(y->scales_l, 0, sizeof y->scales_l);
	for (int j = 0; j < 8; j++) {
		y->scales_l[j / 2] |= (uint8_t)(field(x->scales_l, 32, 4, 8 * j + k) << 4 * (j % 2));
		high |= field(x->scales_h, 16, 2, 8 * j + k) << 2 * j;
		for (int l = 0; l < 4; l++)
			for (int i = 0; i < 4; i++) { /* nibbles 4 apart */
				const uint8_t b = x->qs[128 * j + 32 * l + 4 * k + i];

				q[32 * j + 8 * l + i] = b & 15;
				q[32 * j + 8 * l + i + 4] = b >> 4;
			}
	}
	y->scales_h = (uint16_t)high;
	put_by_32(y->qs, q);
}

static void apart_iq2_k(struct iq2_k *y, const struct iq2_k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->extra = extra_of(x->extra, k);
	put_scales(y->scales, x->scales, k);
	for (int j = 0; j < 8; j++)
		twos(q + 32 * j, x->qs + 32 * j, k);
	put_twos(y->qs, q);
}

static void apart_iq3_k(struct iq3_k *y, const struct iq3_k_r4 *x, int k)
{
	uint8_t q[QK_K];
	int signs = 0;

	y->d = x->d[k];
	y->extra = extra_of(x->extra, k);
	put_scales(y->scales, x->scales, k);
	for (int j = 0; j < 16; j++)
		signs |= field(x->signs, 8, 1, scale16(j, k)) << j;
	y->signs = (uint16_t)signs;
	for (int j = 0; j < 8; j++) {
		twos(q + 32 * j, x->qs + 32 * j, k);
		bits(q + 32 * j, x->qh + 16 * j, k, order_q3k, 2);
	}
	put_twos(y->qs, q);
	put_bits(y->qh, q, 2);
}

static void apart_iq4_k(struct iq4_k *y, const struct iq4_k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->extra = extra_of(x->extra, k);
	put_scales(y->scales, x->scales_l, k);
	put_scales_h(y->scales_h, x->scales_h, k);
	for (int j = 0; j < 8; j++)
		nibbles(q + 32 * j, x->qs + 64 * j, k);
	put_by_32(y->qs, q);
}

static void apart_iq5_k(struct iq5_k *y, const struct iq5_k_r4 *x, int k)
{
	uint8_t q[QK_K];

	y->d = x->d[k];
	y->extra = extra_of(x->extra, k);
	put_scales(y->scales, x->scales_l, k);
	put_scales_h(y->scales_h, x->scales_h, k);
	for (int j = 0; j < 8; j++) {
		nibbles(q + 32 * j, x->qs + 64 * j, k);
		bits(q + 32 * j, x->qh + 16 * j, k, order_iq5_k, 4);
	}
	put_by_64(y->qs, q);
	put_bits(y->qh, q, 4);
}

static void apart_iq4_ks(struct iq4_ks *y, const struct iq4_ks_r4 *x, int k)
{
	uint8_t q[QK_K];

	for (int j = 0; j < 8; j++) {
		y->scales[j] = x->scales[4 * j + k];
		nibbles(q + 32 * j, x->qs + 64 * j, k);
	}
	put_by_32(y->qs, q);
}

static void apart_iq5_ks(struct iq5_ks *y, const struct iq5_ks_r4 *x, int k)
{
	uint8_t q[QK_K];

	for (int j = 0; j < 8; j++) {
		y->scales[j] = x->scales[4 * j + k];
		nibbles(q + 32 * j, x->qs + 64 * j, k);
		bits(q + 32 * j, x->qh + 16 * j, k, order_iq5_k, 4);
	}
	put_by_64(y->qs, q);
	put_bits(y->qh, q, 4);
}

/* ------------------------------------------------------------------ rows */

/* The types that files interleave: of how many rows, and bytes of scales before the blocks of a row. */
#define TOGETHER(X)                 \
	X(Q4_0, q4_0, 8, 0)         \
	X(Q5_0, q5_0, 4, 0)         \
	X(Q8_0, q8_0, 8, 0)         \
	X(MXFP4, mxfp4, 8, 0)       \
	X(IQ4_NL, iq4_nl, 4, 0)     \
	X(Q2_K, q2k, 4, 0)          \
	X(Q3_K, q3k, 4, 0)          \
	X(Q4_K, q4k, 4, 0)          \
	X(Q5_K, q5k, 4, 0)          \
	X(Q6_K, q6k, 4, 0)          \
	X(IQ4_XS, iq4_xs, 8, 0)     \
	X(IQ2_K, iq2_k, 4, 0)       \
	X(IQ3_K, iq3_k, 4, 0)       \
	X(IQ4_K, iq4_k, 4, 0)       \
	X(IQ5_K, iq5_k, 4, 0)       \
	X(IQ4_KS, iq4_ks, 4, 4)     \
	X(IQ5_KS, iq5_ks, 4, 4)

#define NAME_(a, b) a##b
#define NAME(a, b) NAME_(a, b)

#define ROWS(NAME_UP, name, n, head)                                                                          \
	_Static_assert(sizeof(struct NAME(name##_r, n)) == n * sizeof(struct name), #NAME_UP);                \
	static void rows_##name(uint8_t *rows, const uint8_t *together, int64_t row_bytes)                    \
	{                                                                                                     \
		const struct NAME(name##_r, n) *x = (const void *)(together + n * head);                      \
                                                                                                              \
		for (int k = 0; k < n; k++, rows += row_bytes) {                                              \
			struct name *y = (void *)(rows + head);                                               \
                                                                                                              \
			memcpy(rows, together + k * head, head);                                              \
			for (int64_t b = 0; b < (row_bytes - head) / (int64_t)sizeof *y; b++)                 \
				apart_##name(y + b, x + b, k);                                                \
		}                                                                                             \
	}
TOGETHER(ROWS)

int32_t qn_rows_together(int32_t type)
{
	switch (type) {
#define CASE(NAME_UP, name, n, head) case QN_##NAME_UP: return n;
	TOGETHER(CASE)
#undef CASE
	default:
		return 1;
	}
}

int qn_rows_apart(int32_t type, void *rows, const void *together, int64_t n_rows, int64_t n_in)
{
	const int32_t n = qn_rows_together(type);
	const int64_t row_bytes = qn_type_ok(type, n_in) ? (int64_t)qn_row_bytes(type, n_in) : 0;

	if (n == 1 || row_bytes == 0 || n_rows < 1 || n_rows % n != 0)
		return QN_EINVAL;
	for (int64_t r = 0; r < n_rows; r += n) {
		uint8_t *y = (uint8_t *)rows + r * row_bytes;
		const uint8_t *x = (const uint8_t *)together + r * row_bytes;

		switch (type) {
#define CASE(NAME_UP, name, n, head) case QN_##NAME_UP: rows_##name(y, x, row_bytes); break;
		TOGETHER(CASE)
#undef CASE
		}
	}
	return QN_OK;
}
