/*
 * types.h - the types of weights: one row each, from which every table and every switch over types is made.
 *
 * QN_TYPES() has them by family. A row begins with the type's name in C, as struct name of format/blocks.h and struct
 * x16_name of format/panel.h, and GGUF's, as the number QN_NAME; what follows is
 *
 *	FLOAT(name, NAME, element)                    the C type that holds a weight
 *	SMALL(name, NAME, elems, run, bits, offset, most, min, scale)
 *	                                              a scale for 16, 32 or more weights, of 32 and more in a block
 *	SUPER(name, NAME, offset, most, min, parts, subs, quick, once)
 *	                                              a super-block of 256, with scales inside
 *	CODED(name, NAME, run, offset, head)          the same, of codes that are decoded first: see format/codebook.h
 *
 *	elems, run   weights of a block, and to a scale
 *	bits         of a weight as it lies in its lines
 *	offset       a word w stands for w - offset; 128: weights have all 8 bits
 *	most         the largest word
 *	min          1 where blocks have minimums beside their scales
 *	scale        bytes of a scale: 2, a half, or 1, an exponent or a float of 7 bits
 *	parts, subs  how a super-block is cut up, see tmpl/unpack.h: parts, and sub-blocks in each
 *	quick        1 where words take few instructions for each line that they lie in
 *	once         1 where words take so many that unpacking them once pays for many tokens of two panels
 *	run          weights to a scale, 32 or 16
 *	head         bytes of a scale that rows begin with, before their super-blocks: 0, 2, a half, or 4, a float
 */
#ifndef QN_FORMAT_TYPES_H
#define QN_FORMAT_TYPES_H

#include "inline.h"
#include "quern_types.h"

#define QN_TYPES(FLOAT, SMALL, SUPER, CODED)                \
	FLOAT(f32, F32, float)                              \
	FLOAT(f16, F16, uint16_t)                           \
	FLOAT(bf16, BF16, uint16_t)                         \
	SMALL(q4_0, Q4_0, 32, 32, 4, 8, 15, 0, 2)           \
	SMALL(q4_1, Q4_1, 32, 32, 4, 0, 15, 1, 2)           \
	SMALL(q5_0, Q5_0, 32, 32, 5, 16, 31, 0, 2)          \
	SMALL(q5_1, Q5_1, 32, 32, 5, 0, 31, 1, 2)           \
	SMALL(q8_0, Q8_0, 32, 32, 8, 128, 255, 0, 2)        \
	SUPER(q2k, Q2_K, 0, 3, 1, 2, 8, 1, 0)               \
	SUPER(q3k, Q3_K, 4, 7, 0, 2, 8, 0, 1)               \
	SUPER(q4k, Q4_K, 0, 15, 1, 4, 2, 1, 0)              \
	SUPER(q5k, Q5_K, 0, 31, 1, 4, 2, 0, 0)              \
	SUPER(q6k, Q6_K, 32, 63, 0, 4, 4, 1, 0)             \
	SMALL(iq4_nl, IQ4_NL, 32, 32, 4, 128, 241, 0, 2)    \
	SUPER(iq4_xs, IQ4_XS, 128, 241, 0, 8, 1, 0, 1)      \
	SMALL(mxfp4, MXFP4, 32, 32, 4, 12, 24, 0, 1)        \
	SMALL(nvfp4, NVFP4, 64, 16, 4, 12, 24, 0, 1)        \
	SMALL(q1_0, Q1_0, 128, 128, 1, 1, 2, 0, 2)          \
	SMALL(q2_0, Q2_0, 64, 64, 2, 1, 3, 0, 2)            \
	CODED(iq1_s, IQ1_S, 32, 64, 0)                      \
	CODED(iq1_m, IQ1_M, 16, 64, 0)                      \
	CODED(iq2_xxs, IQ2_XXS, 32, 64, 0)                  \
	CODED(iq2_xs, IQ2_XS, 16, 64, 0)                    \
	CODED(iq2_s, IQ2_S, 16, 64, 0)                      \
	CODED(iq3_xxs, IQ3_XXS, 32, 64, 0)                  \
	CODED(iq3_s, IQ3_S, 32, 64, 0)                      \
	CODED(tq1_0, TQ1_0, 32, 64, 0)                      \
	SUPER(tq2_0, TQ2_0, 1, 3, 0, 2, 4, 1, 0)            \
	CODED(iq2_k, IQ2_K, 16, 64, 0)                      \
	CODED(iq3_k, IQ3_K, 16, 64, 0)                      \
	CODED(iq4_k, IQ4_K, 16, 128, 0)                     \
	CODED(iq5_k, IQ5_K, 16, 128, 0)                     \
	CODED(iq6_k, IQ6_K, 16, 128, 0)                     \
	CODED(iq2_ks, IQ2_KS, 32, 64, 2)                    \
	CODED(iq2_kl, IQ2_KL, 32, 64, 2)                    \
	CODED(iq3_ks, IQ3_KS, 32, 64, 2)                    \
	CODED(iq4_kss, IQ4_KSS, 32, 128, 4)                 \
	CODED(iq4_ks, IQ4_KS, 32, 128, 4)                   \
	CODED(iq5_ks, IQ5_KS, 32, 128, 4)                   \
	CODED(iq1_kt, IQ1_KT, 32, 128, 4)                   \
	CODED(iq2_kt, IQ2_KT, 32, 128, 4)                   \
	CODED(iq3_kt, IQ3_KT, 32, 128, 4)                   \
	CODED(iq4_kt, IQ4_KT, 32, 128, 4)

/* For the families that a list leaves out. */
#define QN_SKIP(...)

/* One more than the largest enum qn_type: the size of the largest member. */
#define QN_ROW(name, NAME, ...) char name[QN_##NAME + 1];
enum { QN_N_TYPES = sizeof(union { QN_TYPES(QN_ROW, QN_ROW, QN_ROW, QN_ROW) }) };
#undef QN_ROW

/* Columns of a row; 0 where the family does not have them. */
struct type_row {
	int elems, run, bits, offset, most, min, scale, head;
	int parts, subs, words; /* words: of a sub-block; of small blocks those of 32 weights, or of a run of 16 */
	int quick, once;
};

/* Of quantized types. */
INLINE struct type_row type_row(int type)
{
	switch (type) {
#define SMALL(name, NAME, e, r, b, o, w, m, s) \
	case QN_##NAME: \
		return (struct type_row){.elems = e, \
		                         .run = r, \
		                         .bits = b, \
		                         .offset = o, \
		                         .most = w, \
		                         .min = m, \
		                         .scale = s, \
		                         .words = r < 32 ? r / 4 : 8};
#define SUPER(name, NAME, o, w, m, p, s, q, n) \
	case QN_##NAME: \
		return (struct type_row){.offset = o, \
		                         .most = w, \
		                         .min = m, \
		                         .parts = p, \
		                         .subs = s, \
		                         .words = 64 / (p * s), \
		                         .quick = q, \
		                         .once = n};
#define CODED(name, NAME, r, o, h) \
	case QN_##NAME: \
		return (struct type_row){.offset = o, \
		                         .most = o + 63, \
		                         .head = h, \
		                         .parts = 256 / r, \
		                         .subs = 1, \
		                         .words = r / 4};
		QN_TYPES(QN_SKIP, SMALL, SUPER, CODED)
#undef SMALL
#undef SUPER
#undef CODED
	}
	return (struct type_row){0};
}

/* 1 for the types of format/codebook.h. */
INLINE int is_coded(int type)
{
	switch (type) {
#define CODED(name, NAME, ...) case QN_##NAME:
		QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
#undef CODED
		return 1;
	default:
		return 0;
	}
}

#endif
