/* pack.h - packing of panels that nobody reads soon. */
#ifndef QN_FORMAT_PACK_H
#define QN_FORMAT_PACK_H

#include <stdint.h>

#include "quern_ops.h"

/* 1 for a matrix of BF16 in 12 bits whose rows can be. */
static inline int mat_twelve(const struct qn_mat *m)
{
	return m->layout == QN_X12 && m->type == QN_BF16 && qn_twelve_bytes(m->n_in) > 0;
}

/* Bytes of a panel of a matrix, whose layout is not QN_ROWS. */
static inline int64_t mat_panel_bytes(const struct qn_mat *m)
{
	return (int64_t)(m->layout == QN_X12 ? qn_twelve_bytes(m->n_in) : qn_panel_bytes(m->type, m->n_in));
}

/* As qn_pack() and qn_pack_twelve(), but the panel is written past the caches. */
int pack_away(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in);
int pack_twelve_away(void *panel, const void *rows, int32_t n_rows, int64_t n_in);

#endif
