/*
 * blocks.h - quantized weight blocks, bit for bit as GGUF stores them (little endian).
 * d, m, dmin are halves. The formula of each type stands above its struct; k counts the weights
 * of a block.
 */
#ifndef QN_FORMAT_BLOCKS_H
#define QN_FORMAT_BLOCKS_H

#include <stdint.h>

#define QK 32    /* weights in a small block */
#define QK_K 256 /* weights in a super-block */

/* w = d * (q - 8); weights k and k + 16 share byte k. */
struct q4_0 { uint16_t d; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct q4_0) == 18, "Q4_0");

/* w = d * q + m. */
struct q4_1 { uint16_t d, m; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct q4_1) == 20, "Q4_1");

/* w = d * (q - 16); bit k of qh is the fifth bit of weight k. */
struct q5_0 { uint16_t d; uint8_t qh[4]; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct q5_0) == 22, "Q5_0");

/* w = d * q + m. */
struct q5_1 { uint16_t d, m; uint8_t qh[4]; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct q5_1) == 24, "Q5_1");

/* w = d * q. */
struct q8_0 { uint16_t d; int8_t qs[QK]; };
_Static_assert(sizeof(struct q8_0) == 34, "Q8_0");

/* w = d * table[q]: the nibbles index qn_iq4_values. */
struct iq4_nl { uint16_t d; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct iq4_nl) == 18, "IQ4_NL");

/*
 * Sub-blocks of 16: w = d * sc * q - dmin * mn, sc the low nibble of scales[k / 16], mn the high.
 * qs: 2 bits; in each half of 128, weights l, l + 32, l + 64, l + 96 share byte l.
 */
struct q2k { uint8_t scales[16]; uint8_t qs[64]; uint16_t d, dmin; };
_Static_assert(sizeof(struct q2k) == 84, "Q2_K");

/*
 * Sub-blocks of 16: w = d * (sc - 32) * (q - 4). qs holds the low 2 bits as in Q2_K; bit k / 32 of
 * hmask[k % 32] is the third. Scale j: nibble j / 8 of scales[j % 8], and bits 2 (j / 4) of
 * scales[8 + j % 4].
 */
struct q3k { uint8_t hmask[32]; uint8_t qs[64]; uint8_t scales[12]; uint16_t d; };
_Static_assert(sizeof(struct q3k) == 110, "Q3_K");

/*
 * Sub-blocks of 32: w = d * sc * q - dmin * mn. Sub-blocks 2i, 2i + 1 are the low, high nibbles of
 * qs[32 i ..]. scales: 8 scales and 8 minimums of 6 bits, see q4k_scale().
 */
struct q4k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[128]; };
_Static_assert(sizeof(struct q4k) == 144, "Q4_K");

/* As Q4_K; bit k / 32 of qh[k % 32] is the fifth bit. */
struct q5k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[32]; uint8_t qs[128]; };
_Static_assert(sizeof(struct q5k) == 176, "Q5_K");

/*
 * Sub-blocks of 16: w = d * scales[k / 16] * (q - 32). In each half of 128: weights l, l + 64 are
 * the nibbles of ql[l], l < 64, and bits 2 i of qh[l % 32] belong to weight l + 32 i.
 */
struct q6k { uint8_t ql[128]; uint8_t qh[64]; int8_t scales[16]; uint16_t d; };
_Static_assert(sizeof(struct q6k) == 210, "Q6_K");

/*
 * Sub-blocks of 32: w = d * (sc - 32) * table[q]; sub-block j lies in qs[16 j ..] as in Q4_0.
 * sc: nibble j % 2 of scales_l[j / 2], and bits 2 j of scales_h.
 */
struct iq4_xs { uint16_t d, scales_h; uint8_t scales_l[4]; uint8_t qs[128]; };
_Static_assert(sizeof(struct iq4_xs) == 136, "IQ4_XS");

/*
 * w = 2^(e - 128) * qn_mxfp4_values[q]: a scale of 8 bits that is a power of two, and 4-bit floats, of which the
 * table has the doubles. Nibbles as in Q4_0. e = 255 is NaN.
 */
struct mxfp4 { uint8_t e; uint8_t qs[QK / 2]; };
_Static_assert(sizeof(struct mxfp4) == 17, "MXFP4");

/*
 * Four sub-blocks of 16: w = d[k / 16] / 2 * qn_mxfp4_values[q]; scales are floats of 4 bits of exponent and 3 of
 * mantissa, see f32_of_ue4m3_half(). Weights k and k + 8 of sub-block j share byte 8 j + k. What a converter has
 * beside the blocks, one more scale for a whole matrix, is a tensor of its own.
 */
struct nvfp4 { uint8_t d[4]; uint8_t qs[32]; };
_Static_assert(sizeof(struct nvfp4) == 36, "NVFP4");

/* 128 weights: w = d * (2 q - 1); weight k is bit k % 8 of qs[k / 8]. */
struct q1_0 { uint16_t d; uint8_t qs[16]; };
_Static_assert(sizeof(struct q1_0) == 18, "Q1_0");

/* 64 weights: w = d * (q - 1); weight k is bits 2 (k % 4) of qs[k / 4]. */
struct q2_0 { uint16_t d; uint8_t qs[16]; };
_Static_assert(sizeof(struct q2_0) == 18, "Q2_0");

/*
 * The IQ2 and IQ3 types: w = d / D * scale * level * sign, an integer of 11 bits at most times d / D. Levels
 * come from the type's codebook (iq.h), for 8 or 4 weights at once. Where signs have 7 bits, the eighth makes
 * the number of minuses even: iq_signs().
 *
 * IQ2_XXS, D = 8, sub-blocks of 32. Each has 8 bytes: four codes of 8 bits, then from the lowest bit on four
 * signs of 7 bits and, in the upper 4, s: scale = 2 s + 1.
 */
struct iq2_xxs { uint16_t d; uint8_t qs[64]; };
_Static_assert(sizeof(struct iq2_xxs) == 66, "IQ2_XXS");

/* D = 8, sub-blocks of 16: s is nibble j % 2 of scales[j / 2]. qs: codes of 9 bits below signs of 7. */
struct iq2_xs { uint16_t d; uint16_t qs[32]; uint8_t scales[8]; };
_Static_assert(sizeof(struct iq2_xs) == 74, "IQ2_XS");

/* As IQ2_XS; code i is qs[i] below bits 2 (i % 4) of qh[i / 4], its signs are signs[i]. */
struct iq2_s { uint16_t d; uint8_t qs[32], signs[32]; uint8_t qh[8]; uint8_t scales[8]; };
_Static_assert(sizeof(struct iq2_s) == 82, "IQ2_S");

/* D = 4, sub-blocks of 32: two codes for 8 weights; signs and s as in IQ2_XXS, 4 bytes each. */
struct iq3_xxs { uint16_t d; uint8_t qs[64]; uint8_t signs[32]; };
_Static_assert(sizeof(struct iq3_xxs) == 98, "IQ3_XXS");

/* D = 1, sub-blocks of 32: s is nibble j % 2 of scales[j / 2]. Bit i % 8 of qh[i / 8] is above code i. */
struct iq3_s { uint16_t d; uint8_t qs[64]; uint8_t qh[8]; uint8_t signs[32]; uint8_t scales[4]; };
_Static_assert(sizeof(struct iq3_s) == 110, "IQ3_S");

/*
 * w = d / 8 * (2 s + 1) * (8 * level +- 1), sub-blocks of 32. qh[j]: bits 3 l above code l of the sub-block's four,
 * then 3 bits of s, then 1 for -1.
 */
struct iq1_s { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; };
_Static_assert(sizeof(struct iq1_s) == 50, "IQ1_S");

/*
 * As IQ1_S, s for each 16 weights: bits 3 (j % 4) of half j / 4 of scales, whose upper nibbles together are d. Nibble
 * i % 2 of qh[i / 2] is 3 bits above code i, and 1 for -1.
 */
struct iq1_m { uint8_t qs[32]; uint8_t qh[16]; uint8_t scales[8]; };
_Static_assert(sizeof(struct iq1_m) == 56, "IQ1_M");

/*
 * w = d * (t - 1). A byte b has five digits t, the first is 3 b / 256, and the next are those of 3 b, 9 b, .. modulo
 * 256. Digit n of qs[l] is weight 32 n + l, of qs[32 + l] weight 160 + 16 n + l, of qh[l] weight 240 + 4 n + l.
 */
struct tq1_0 { uint8_t qs[48]; uint8_t qh[4]; uint16_t d; };
_Static_assert(sizeof(struct tq1_0) == 54, "TQ1_0");

/* w = d * (q - 1), qs as in Q2_K. */
struct tq2_0 { uint8_t qs[64]; uint16_t d; };
_Static_assert(sizeof(struct tq2_0) == 66, "TQ2_0");

/*
 * ik_llama.cpp's types: w = d * scale * (level + shift * b), an integer of 16 bits times d, a level from a table of
 * format/ik_levels.h. b is a bit of a sub-block, of 16 weights in those named _K, of 32 in the others. _KS, _KSS and
 * _KL have one d for a row, before its blocks.
 *
 * IQ2_K, shift 5: scale j is nibble j % 2 of scales[j / 2], less 8; b is bit j of extra. qs as in Q2_K.
 */
struct iq2_k { uint16_t d, extra; uint8_t scales[8]; uint8_t qs[64]; };
_Static_assert(sizeof(struct iq2_k) == 76, "IQ2_K");

/*
 * Shift 4: scale 2 s + 1, s such a nibble, negative where bit j of signs is set. Third bits of qs as in Q5_K the fifth.
 */
struct iq3_k { uint16_t d, extra, signs; uint8_t scales[8]; uint8_t qs[64]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq3_k) == 110, "IQ3_K");

/* Shift 4: scale j is such a nibble, above it bits 2 (j % 4) of scales_h[j / 4], less 32. qs as in IQ4_XS. */
struct iq4_k { uint16_t d, extra; uint8_t scales_h[4], scales[8]; uint8_t qs[128]; };
_Static_assert(sizeof(struct iq4_k) == 144, "IQ4_K");

/* Shift 2: scales as in IQ4_K, qs and qh as in Q5_K. */
struct iq5_k { uint16_t d, extra; uint8_t scales_h[4], scales[8]; uint8_t qs[128]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq5_k) == 176, "IQ5_K");

/* Shift 1: qs as in Q4_K, and above each nibble two bits as in Q2_K. */
struct iq6_k { uint16_t d, extra; int8_t scales[16]; uint8_t qs[128]; uint8_t qh[64]; };
_Static_assert(sizeof(struct iq6_k) == 212, "IQ6_K");

/* Shift 5, d a half: scale j is nibble j % 2 of scales[j / 2], above it bit 8 + j of extra, less 16; b is bit j. */
struct iq2_ks { uint16_t extra; uint8_t scales[4]; uint8_t qs[64]; };
_Static_assert(sizeof(struct iq2_ks) == 70, "IQ2_KS");

/*
 * d a half: scale j is nibble j / 4 of scales[j % 4], above it bits 2 j of scales_h, less 32. A code stands for two
 * weights, and there is no b: codes i < 16 of sub-block j are nibble j % 2 of qs[16 (j / 2) + i], below bit j of qh[i].
 */
struct iq2_kl { uint16_t scales_h; uint8_t scales[4]; uint8_t qs[64]; uint8_t qh[16]; };
_Static_assert(sizeof(struct iq2_kl) == 86, "IQ2_KL");

/* Shift 4, d a half: scale j is such a nibble, above it bit j of extra, less 16; b is bit 8 + j. Codes as in IQ3_K. */
struct iq3_ks { uint16_t extra; uint8_t scales[4]; uint8_t qs[64]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq3_ks) == 102, "IQ3_KS");

/* Shift 4, d a float: scales[j] without its lowest bit, less 127; the lowest bit is b. qs as in IQ4_XS. */
struct iq4_ks { uint8_t scales[8]; uint8_t qs[128]; };
_Static_assert(sizeof(struct iq4_ks) == 136, "IQ4_KS");

/*
 * The same with bit i of scales[j] in the lowest bit of half qs[8 j + i], whose other bits are a Gray code: with the
 * lowest bit cleared, x ^ x >> 1 are the four nibbles.
 */
struct iq4_kss { uint16_t qs[64]; };
_Static_assert(sizeof(struct iq4_kss) == 128, "IQ4_KSS");

/* Shift 2: scales as in IQ4_KS, qs and qh as in Q5_K. */
struct iq5_ks { uint8_t scales[8]; uint8_t qs[128]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq5_ks) == 168, "IQ5_KS");

/*
 * ik_llama.cpp's trellis types: w = d * scale * q, d a float for a row, a scale for 32 weights. Codes have no table: a
 * code of up to 16 bits is the start of a sequence, of as many weights as it stands for. x[0] is 4096 + code, x[t + 1]
 * is x[t] * 0xcbac1fed mod 2^32, and weight t is the sum of the four bytes of x[t + 1] & 0x3f3f3f3f, less 126: its
 * distribution is nearly normal. The types' first form made floats of such numbers; files of it cannot be told apart.
 *
 * IQ1_KT: scale j is entry (sh[j] & 15) of qn_iq4_values. Code i, of 13 bits for 8 weights, is ql[i], above it nibble
 * i / 16 of qh[i % 16], above that bit 4 + i % 4 of sh[i / 4].
 */
struct iq1_kt { uint8_t sh[8]; uint8_t ql[32]; uint8_t qh[16]; };
_Static_assert(sizeof(struct iq1_kt) == 56, "IQ1_KT");

/*
 * Scale j is entry s of qn_iq4_values, s nibble j / 4 of scales[j % 4]; ql[i] is code i, for 8 weights. d is the row's
 * times 1.05 in all products of ik_llama.cpp, and here.
 */
struct iq2_kt { uint8_t scales[4]; uint16_t ql[32]; };
_Static_assert(sizeof(struct iq2_kt) == 68, "IQ2_KT");

/* As IQ2_KT with scale s, d times 1.01, and |q|: negative where bit k / 32 of qh[k % 32] is set. */
struct iq3_kt { uint8_t scales[4]; uint16_t ql[32]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq3_kt) == 100, "IQ3_KT");

/*
 * Scale j is bits 1 .. 7 of sh[j], less 64. Code i, of 16 bits for 4 weights, is ql[i], above it nibble i / 32 of
 * qh[i % 32], above that the three bits 8 + 3 (i % 8) of sh[i / 8], and at the top that word's lowest bit.
 */
struct iq4_kt { uint32_t sh[8]; uint8_t ql[64]; uint8_t qh[32]; };
_Static_assert(sizeof(struct iq4_kt) == 128, "IQ4_KT");

/* What the trellis types' numbers are multiplied by, again and again. */
#define QN_TRELLIS 0xcbac1fedu

/* Twice the sixteen values of MXFP4 and NVFP4: a sign, two bits of exponent, one of mantissa. */
static const int8_t qn_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The sixteen values of IQ4_NL and IQ4_XS, spaced as the weights of trained models are. */
static const int8_t qn_iq4_values[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

/* Scale and minimum of sub-block j of Q4_K and Q5_K. */
static inline void q4k_scale(const uint8_t scales[12], int j, uint8_t *sc, uint8_t *mn)
{
	if (j < 4) {
		*sc = scales[j] & 63;
		*mn = scales[j + 4] & 63;
	} else { /* low four bits in bytes 8..11, the top two above those of sub-block j - 4 */
		*sc = (uint8_t)((scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4);
		*mn = (uint8_t)((scales[j + 4] >> 4) | (scales[j] >> 6) << 4);
	}
}

/* Scale j of Q3_K, with its offset taken off: -32..31. */
static inline int q3k_scale(const uint8_t scales[12], int j)
{
	const int lo = scales[j % 8] >> 4 * (j / 8) & 15;
	const int hi = scales[8 + j % 4] >> 2 * (j / 4) & 3;

	return (lo | hi << 4) - 32;
}

/* Scale j of IQ4_XS, with its offset taken off. */
static inline int iq4xs_scale(const struct iq4_xs *b, int j)
{
	return ((b->scales_l[j / 2] >> 4 * (j % 2) & 15) | (b->scales_h >> 2 * j & 3) << 4) - 32;
}

/* d of IQ1_M, as a half. */
static inline uint16_t iq1m_d(const uint8_t scales[8])
{
	return (uint16_t)(scales[1] >> 4 | (scales[3] & 0xf0) | (scales[5] & 0xf0) << 4 | (scales[7] & 0xf0) << 8);
}

#endif
