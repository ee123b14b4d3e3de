/*
 * panel.h - packed panels: 16 rows of weights interleaved by 32-bit words.
 *
 * A panel holds 16 rows of n_in weights. The basic unit is a line: 64 bytes, 4 of each row, so that
 * a vector of 16 lanes has one row per lane and a dot product needs no horizontal sum. One layout
 * serves every number of tokens, and takes exactly the bytes of the rows it replaces.
 *
 * "Word w" of a block is weights 4w .. 4w + 3. Where a type has fewer than 8 bits a weight, a line
 * serves several words, at different shifts. Fifth and third bits lie in lines of their own, one
 * for each 32 weights: bit g of byte t belongs to weight 4g + t.
 *
 * Scales smaller than a byte are split so that no byte is wasted: sl has nibbles, sh bit pairs. They
 * come first and lines lie in the order of their use: the hardware's prefetch follows one stream.
 * Index r is the row.
 *
 * Where a super-block's lines and its d would make half a line too many, d is apart: behind super-blocks 0, 2 .. and
 * before super-blocks 1, 3 .. So two of them share a line of d between them, and lines are lines of the cache.
 */
#ifndef QN_FORMAT_PANEL_H
#define QN_FORMAT_PANEL_H

#include <stdint.h>

#include "format/types.h"
#include "quern_types.h"

typedef uint8_t x16_line[QN_PANEL][4];

#define X16_D (QN_PANEL * 2) /* bytes of the d of 16 rows */

/* Whether the d of a type's super-blocks is apart. */
static inline int x16_d_apart(int type)
{
	return type == QN_Q3_K || type == QN_Q6_K || type == QN_TQ2_0;
}

/* Bytes of super-block b that lie before its struct. */
static inline int64_t x16_before(int type, int64_t b)
{
	return x16_d_apart(type) ? b % 2 * X16_D : 0;
}

/* A d that is apart, relative to the struct, which has `size` bytes, of super-block b. */
static inline int64_t x16_d_at(int64_t size, int64_t b)
{
	return b % 2 ? -X16_D : size;
}

/* Q4_K. Line 8p + g: word 16p + g in the low nibbles, 16p + 8 + g in the high ones. */
struct x16_q4k {
	uint8_t sl[8][QN_PANEL]; /* scale j | minimum j << 4, low four bits */
	uint8_t sh[4][QN_PANEL]; /* nibble j % 2 of sh[j / 2]: scale j | minimum j << 2, high two bits */
	uint16_t d[QN_PANEL], dmin[QN_PANEL];
	x16_line qs[32];
};
_Static_assert(sizeof(struct x16_q4k) == 16 * 144, "packing does not grow");

/* Q5_K: as Q4_K; qh[j] of a part has the fifth bits of its sub-block j. */
struct x16_q5k {
	uint8_t sl[8][QN_PANEL];
	uint8_t sh[4][QN_PANEL];
	uint16_t d[QN_PANEL], dmin[QN_PANEL];
	struct {
		x16_line qs[8], qh[2];
	} part[4];
};
_Static_assert(sizeof(struct x16_q5k) == 16 * 176, "packing does not grow");

/*
 * Q6_K, d apart. Line k of a sub-block has its word k in the low six bits, and above them bits 2k and 2k + 1 of its
 * fourth word.
 */
struct x16_q6k {
	int8_t sc[16][QN_PANEL];
	x16_line sub[16][3];
};
_Static_assert(sizeof(struct x16_q6k) + X16_D == 16 * 210, "packing does not grow");

/* Q2_K. In each half h of 32 words: word i in bits 2 (i / 8) of qs[8h + i % 8]. */
struct x16_q2k {
	uint8_t sl[16][QN_PANEL]; /* scale | minimum << 4 */
	uint16_t d[QN_PANEL], dmin[QN_PANEL];
	x16_line qs[16];
};
_Static_assert(sizeof(struct x16_q2k) == 16 * 84, "packing does not grow");

/* Q3_K, d apart. qs as in Q2_K; line i of qh has the third bits of weights 32i .. of the half. */
struct x16_q3k {
	uint8_t sl[8][QN_PANEL]; /* nibble j / 8 of sl[j % 8]: scale j, low four bits */
	uint8_t sh[4][QN_PANEL]; /* bits 2 (j / 4) of sh[j % 4]: the high two */
	struct {
		x16_line qs[8], qh[4];
	} half[2];
};
_Static_assert(sizeof(struct x16_q3k) + X16_D == 16 * 110, "packing does not grow");

/* IQ4_XS. Line 4j + g: word 8j + g in the low nibbles, 8j + 4 + g in the high ones. */
struct x16_iq4_xs {
	uint8_t sl[4][QN_PANEL]; /* nibble j % 2 of sl[j / 2]: scale j, low four bits */
	uint8_t sh[2][QN_PANEL]; /* bits 2 (j % 4) of sh[j / 4]: the high two */
	uint16_t d[QN_PANEL];
	x16_line qs[32];
};
_Static_assert(sizeof(struct x16_iq4_xs) == 16 * 136, "packing does not grow");

/* TQ2_0, d apart. qs as in Q2_K. */
struct x16_tq2_0 {
	x16_line qs[16];
};
_Static_assert(sizeof(struct x16_tq2_0) + X16_D == 16 * 66, "packing does not grow");

/*
 * Types of codes (format/codebook.h): the 16 blocks, interleaved by the codes, scales and signs that they hold. Their
 * formulas are those of format/blocks.h, with one index more.
 */
struct x16_iq2_xxs {
	uint16_t d[QN_PANEL];
	struct {
		uint8_t codes[QN_PANEL][4];
		uint32_t signs[QN_PANEL];
	} sub[8];
};
_Static_assert(sizeof(struct x16_iq2_xxs) == 16 * 66, "packing does not grow");

struct x16_iq2_xs {
	uint16_t d[QN_PANEL], qs[32][QN_PANEL];
	uint8_t scales[8][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq2_xs) == 16 * 74, "packing does not grow");

struct x16_iq2_s {
	uint16_t d[QN_PANEL];
	uint8_t qs[32][QN_PANEL], signs[32][QN_PANEL], qh[8][QN_PANEL], scales[8][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq2_s) == 16 * 82, "packing does not grow");

struct x16_iq3_xxs {
	uint16_t d[QN_PANEL];
	uint8_t qs[64][QN_PANEL];
	uint32_t signs[8][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq3_xxs) == 16 * 98, "packing does not grow");

struct x16_iq3_s {
	uint16_t d[QN_PANEL];
	uint8_t qs[64][QN_PANEL], qh[8][QN_PANEL], signs[32][QN_PANEL], scales[4][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq3_s) == 16 * 110, "packing does not grow");

struct x16_iq1_s {
	uint16_t d[QN_PANEL];
	uint8_t qs[32][QN_PANEL];
	uint16_t qh[8][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq1_s) == 16 * 50, "packing does not grow");

struct x16_iq1_m {
	uint8_t qs[32][QN_PANEL], qh[16][QN_PANEL], scales[8][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq1_m) == 16 * 56, "packing does not grow");

/* Digit n of line l is word 8n + l where l < 8, 40 + 4n + l - 8 where l < 12, else 60 + n. */
struct x16_tq1_0 {
	x16_line qs[13];
	uint16_t d[QN_PANEL];
};
_Static_assert(sizeof(struct x16_tq1_0) == 16 * 54, "packing does not grow");

/*
 * ik_llama.cpp's: lines of nibbles are those of Q4_K and Q5_K or of IQ4_XS, of bit pairs those of Q2_K. Line i of qh
 * has bit j of word i of each 32 weights j. Where a row begins with a scale, those of 16 rows lie behind all
 * super-blocks.
 */
struct x16_iq2_k {
	uint16_t d[QN_PANEL], extra[QN_PANEL];
	uint8_t scales[8][QN_PANEL];
	x16_line qs[16];
};
_Static_assert(sizeof(struct x16_iq2_k) == 16 * 76, "packing does not grow");

struct x16_iq3_k {
	uint16_t d[QN_PANEL], extra[QN_PANEL], signs[QN_PANEL];
	uint8_t scales[8][QN_PANEL];
	x16_line qs[16], qh[8];
};
_Static_assert(sizeof(struct x16_iq3_k) == 16 * 110, "packing does not grow");

struct x16_iq4_k {
	uint16_t d[QN_PANEL], extra[QN_PANEL];
	uint8_t scales_h[4][QN_PANEL], scales[8][QN_PANEL];
	x16_line qs[32];
};
_Static_assert(sizeof(struct x16_iq4_k) == 16 * 144, "packing does not grow");

struct x16_iq5_k {
	uint16_t d[QN_PANEL], extra[QN_PANEL];
	uint8_t scales_h[4][QN_PANEL], scales[8][QN_PANEL];
	x16_line qs[32], qh[8];
};
_Static_assert(sizeof(struct x16_iq5_k) == 16 * 176, "packing does not grow");

struct x16_iq6_k {
	uint16_t d[QN_PANEL], extra[QN_PANEL];
	int8_t scales[16][QN_PANEL];
	x16_line qs[32], qh[16]; /* qh: as the qs of Q2_K */
};
_Static_assert(sizeof(struct x16_iq6_k) == 16 * 212, "packing does not grow");

struct x16_iq2_ks {
	uint16_t extra[QN_PANEL];
	uint8_t scales[QN_PANEL][4];
	x16_line qs[16];
};
_Static_assert(sizeof(struct x16_iq2_ks) == 16 * 70, "packing does not grow");

/* Codes of two weights each, four of a row in a line. */
struct x16_iq2_kl {
	uint16_t scales_h[QN_PANEL];
	uint8_t scales[QN_PANEL][4];
	x16_line qs[16], qh[4];
};
_Static_assert(sizeof(struct x16_iq2_kl) == 16 * 86, "packing does not grow");

struct x16_iq3_ks {
	uint16_t extra[QN_PANEL];
	uint8_t scales[QN_PANEL][4];
	x16_line qs[16], qh[8];
};
_Static_assert(sizeof(struct x16_iq3_ks) == 16 * 102, "packing does not grow");

struct x16_iq4_ks {
	uint8_t scales[8][QN_PANEL];
	x16_line qs[32];
};
_Static_assert(sizeof(struct x16_iq4_ks) == 16 * 136, "packing does not grow");

struct x16_iq4_kss {
	uint32_t qs[32][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq4_kss) == 16 * 128, "packing does not grow");

struct x16_iq5_ks {
	uint8_t scales[8][QN_PANEL];
	x16_line qs[32], qh[8];
};
_Static_assert(sizeof(struct x16_iq5_ks) == 16 * 168, "packing does not grow");

/* The trellis types: bytes and halves of codes as they are, and of IQ3_KT lines of signs as the qh of IQ5_KS. */
struct x16_iq1_kt {
	uint8_t sh[8][QN_PANEL], ql[32][QN_PANEL], qh[16][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq1_kt) == 16 * 56, "packing does not grow");

struct x16_iq2_kt {
	uint8_t scales[QN_PANEL][4];
	uint16_t ql[32][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq2_kt) == 16 * 68, "packing does not grow");

struct x16_iq3_kt {
	uint8_t scales[QN_PANEL][4];
	uint16_t ql[32][QN_PANEL];
	x16_line qh[8];
};
_Static_assert(sizeof(struct x16_iq3_kt) == 16 * 100, "packing does not grow");

struct x16_iq4_kt {
	uint32_t sh[8][QN_PANEL];
	uint8_t ql[64][QN_PANEL], qh[32][QN_PANEL];
};
_Static_assert(sizeof(struct x16_iq4_kt) == 16 * 128, "packing does not grow");

/*
 * Types of small blocks: up to 256 weights make a group, lines first, then scales, so that lines stay 64-byte
 * aligned. Only the last group of a row can be shorter. For n times 32 weights:
 *
 *   lines   Q8_0 8n: weight + 128, word 8j + g in line 8j + g
 *           Q4_0, Q4_1, IQ4_NL, MXFP4 4n: as IQ4_XS
 *           NVFP4 4n: word 4j + g in the low nibbles of line 2j + g, 4j + 2 + g in the high ones
 *           Q5_0, Q5_1 4n as Q4_0, then n lines of fifth bits
 *           Q2_0 2n: word 4j + g in bits 2g of line j; Q1_0 n: word 8j + g in bit g of line j
 *   d       n x 16 halves; MXFP4: bytes, NVFP4: two of them; Q2_0: half as many, Q1_0: a fourth
 *   m       n x 16 halves (Q4_1, Q5_1)
 */
#define X16_GROUP 8

/* Bytes of lines of n times 32 weights, without scales. */
static inline int64_t x16_line_bytes(int type, int64_t n)
{
	return n * 64 * type_row(type).bits;
}

/* Bytes of their scales and minimums. */
static inline int64_t x16_scale_bytes(int type, int64_t n)
{
	return n * 32 / type_row(type).run * QN_PANEL * type_row(type).scale * (1 + type_row(type).min);
}

/* Floats: [n_in][16] of the type's element. */

#endif
