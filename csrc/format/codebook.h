/*
 * codebook.h - types whose codes stand for several weights each: IQ1, IQ2, IQ3 and TQ1_0, and those of ik_llama.cpp,
 * whose codes stand for levels of two tables, or are where a sequence of numbers starts. format/blocks.h has their
 * formulas.
 *
 * A weight is an integer of 7 or 8 bits with its sign, times a scale of 8 bits, times one float for the super-block or
 * the row. So all of them are decoded into one form, and products are computed on that.
 */
#ifndef QN_FORMAT_CODEBOOK_H
#define QN_FORMAT_CODEBOOK_H

#include <stdint.h>

#include "format/blocks.h"
#include "quern_types.h"

/* The codebooks: levels of the weights, one to a byte, the first in the lowest. Hidden as in kernels.h. */
#pragma GCC visibility push(hidden)
extern const uint64_t qn_iq2_xxs_grid[256], qn_iq2_xs_grid[512], qn_iq2_s_grid[1024];
extern const uint32_t qn_iq3_xxs_grid[256], qn_iq3_s_grid[512];
extern const uint64_t qn_iq1_grid[2048]; /* level + 1 */
#pragma GCC visibility pop

/*
 * One super-block of one row: w = d * scale[k / 16] * q[k]. Exact: d is a half divided by a power of two. Where the row
 * has it, d is 1 here: coded_head().
 */
struct coded {
	int8_t q[QK_K], scale[16];
	float d;
};

/* What the scale that a row begins with is multiplied by. */
static inline float head_factor(int type)
{
	return type == QN_IQ2_KT ? 1.05f : type == QN_IQ3_KT ? 1.01f : 1;
}

/* That product. */
float coded_head(int type, const void *row);

/* The specification, from the formulas. */
void coded_block(struct coded *c, int type, const void *block);

/* A super-block of a panel from one block of each row, and row r's block back out of it. */
void coded_to_panel(int type, void *panel, const uint8_t *const block[QN_PANEL]);
void coded_of_panel(int type, void *block, const void *panel, int r);

#endif
