/* search.h - what tmpl/encode_search.h is told of a type, and what it fills. */
#ifndef QN_ENCODE_SEARCH_H
#define QN_ENCODE_SEARCH_H

#include "encode/encode.h"
#include "encode/pack.h"

enum form_kind { FORM_AFFINE, FORM_SIGNED, FORM_LEVELS };

/* A type whose weights are d scale code - m min, each code its weight's own. */
struct form {
	enum form_kind kind;
	int run, runs;          /* weights of a run, which share a scale; runs of a block: 1 where each has a half */
	int lo, hi;             /* codes, as numbers; the first and last level of a table */
	int scale_lo, scale_hi; /* of more than one run */
	int min_hi;             /* 0: there are no minimums */
	int any_min;            /* 1: minimums may be below 0 */
	int code_bias, scale_bias; /* what kept codes and scales have to be less and more */
	int bytes;
	void (*pack)(void *dst, const struct coded_block *c);
};

/* Rounding with errors made good. */
struct corrected {
	int32_t type;
	const struct form *form; /* NULL: codes are entries of a codebook */
	int block, bytes;        /* weights of one, and what it takes */
	int64_t n_in, span;      /* columns, and how many of them a factor has; a multiple of block */
	const float *factor;     /* of each span, one after the other: see qn_factor() */
	float *scratch;          /* [2][span][16] and a block's factor, 64-byte aligned */
};

struct searches {
	void (*rows)(const struct form *f, void *dst, const struct source *s, int64_t row, int n);
	void (*correct)(const struct corrected *c, uint8_t *const *dst, const float *const *row, int n);
	void (*products)(float *h, int64_t stride, const float *x, int na, const float *y, int nb, int64_t apart,
	                 int n_tok);
	int (*factor)(double *h, int64_t n);
};

void search_init_scalar(struct searches *s);
void search_init_avx2(struct searches *s);
void search_init_avx512(struct searches *s);

/* The best of what isa has. */
struct searches searches_of(uint32_t isa);

/*
 * What errors of a block's n weights count: importance, and with codes at equal steps times the root of the square and
 * of what squares are about, as fast encoders weigh them: with importance alone the largest weights lose too much.
 */
void search_weights(const struct form *f, float *w, const float *x, const float *importance, int n);

#endif
