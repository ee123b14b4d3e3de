/*
 * attn.h - what the texts of attention share: how rows are taken together, and the next block is
 * asked for. A set defines ATTN_VECS: its registers hold ATTN_ROWS_AT_ONCE times as many vectors of sums,
 * one of keys or values and one of a query or weight.
 */
#ifndef QN_TMPL_ATTN_H
#define QN_TMPL_ATTN_H

#include "format/kv.h"
#include "math/exp.h"

#define ATTN_ROWS_AT_ONCE 6
#define ATTN_ROWS_UP ((QN_ATTN_ROWS + 15) / 16 * 16) /* for what is computed for 16 rows at once */
#define KV_VECS (QN_KV_BLOCK / 16)

/* Whether row r sees all positions of the block. */
INLINE int sees_all(const struct attn_rows *a, int r)
{
	return a->from[r] <= 0 && a->lim[r] >= QN_KV_BLOCK;
}

/* Whether all rows do. */
INLINE int all_see_all(const struct attn_rows *a)
{
	return a->from[a->n - 1] <= 0 && a->lim[0] >= QN_KV_BLOCK;
}

/* Asks for the cache lines of the next block that lie where the `size` bytes at `at` do in this one. */
INLINE void ask_next(const struct attn_rows *a, int64_t at, int64_t size)
{
	for (int64_t i = 0; i < size; i += 64)
		__builtin_prefetch(a->ahead + at + i, 0, 2);
}

/* Rows in sixes; eight rows as two fours. */
#define ATTN_EACH_ROWS(a, call)                                \
	do {                                                   \
		int r = 0;                                     \
		for (; (a)->n - r >= 6 && (a)->n - r != 8; r += 6) \
			call(6);                               \
		for (; (a)->n - r >= 4; r += 4)                \
			call(4);                               \
		for (; (a)->n - r >= 2; r += 2)                \
			call(2);                               \
		for (; (a)->n - r >= 1; r++)                   \
			call(1);                               \
	} while (0)

#endif
