/*
 * encode.h - the encoders of weights. Those of tmpl/encode.h take sixteen runs of weights at once, one to a lane, and
 * do in each what is done for a run alone, in the same order: so all sets give the same bits.
 */
#ifndef QN_ENCODE_ENCODE_H
#define QN_ENCODE_ENCODE_H

#include "format/blocks.h"
#include "math/fp16.h"
#include "quern_encode.h"

/* What is encoded: blocks one after the other, per_row of them to a row; importance is that of a row's columns. */
struct source {
	int32_t type;
	const float *x, *importance;
	int64_t blocks, per_row;
};

typedef void encode_fn(void *dst, const struct source *s);

/* Below this a run of weights counts as zeros. */
#define ENCODE_TINY 1e-15f

/* To the nearest integer, ties to even, where |v| is below 2^22. */
static inline float encode_round(float v)
{
	return (v + 12582912.f) - 12582912.f;
}

static inline float encode_clamp(float v, float lo, float hi)
{
	v = v < lo ? lo : v;
	return v > hi ? hi : v;
}

/* The importance of block b's columns of n weights, NULL where all count alike. */
static inline const float *importance_of(const struct source *s, int64_t b, int n)
{
	return s->importance ? s->importance + b % s->per_row * n : NULL;
}

static inline float sum_of_squares(const float *x, int64_t n)
{
	float sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sum;
}

/*
 * Codes q of 0 .. most, and returns the scale, for n numbers of 0 and more: by weighted least squares, from the
 * best of nine scales on, and then by changing one code after the other. IQ2_XXS has a few numbers below 0 among them,
 * whose codes wrap, and wants the scale alone.
 */
float encode_positive(int n, int most, const float *x, const float *w, uint8_t *q);

/* The same of signed numbers and codes 0 .. 2 most - 1 of -most ..: the best of nineteen scales. */
float encode_signed(int n, int most, const float *x, const float *w, uint8_t *q);

/* 0, or why rows cannot be encoded: an enum qn_status. */
int encode_check(int32_t type, const float *rows, int64_t n_rows, int64_t n_in, const float *importance);

/* Each fills its slots: rows of one type by its number. */
#define ENCODE_TYPES 64
void encode_init_scalar(encode_fn **rows);
void encode_init_avx2(encode_fn **rows);
void encode_init_avx512(encode_fn **rows);
void encode_init_grid(encode_fn **rows);

/* The codes of a block: a scale of each run, an entry of each group, signs and what levels stand for of each eight. */
struct grid_block {
	uint16_t d;
	uint8_t code[16], sign[32], kind[32];
	uint16_t entry[64];
};

/* Types whose codes are entries of a codebook, and a search for the least sum of importance times squared error. */
int encode_grid_searched(int32_t type);
void encode_grid_search(void *dst, const struct source *s);

/*
 * The same in steps, for rows whose errors are made good. First the unit and scales of a block, the least error being
 * sought for x, each square of which counts w; then run j's scale anew, for what its weights have come to be, and of
 * each eight weights the entries, and in y what these stand for. Returns the weights of a run.
 */
int encode_grid_units(int32_t type, struct grid_block *c, const float *x, const float *w);
void encode_grid_run(int32_t type, struct grid_block *c, int j, const float *x, const float *w);
void encode_grid_eight(int32_t type, struct grid_block *c, int eight, const float *x, const float *w, float y[8]);
void encode_grid_put(int32_t type, void *dst, const struct grid_block *c);

#endif
