/* parts.h - where the panels of a matrix lie, and the heads of a block, in one place or in several. */
#ifndef QN_FORMAT_PARTS_H
#define QN_FORMAT_PARTS_H

#include "quern.h"

static inline int64_t mat_panels(const struct qn_mat *m)
{
	return (m->n_out + QN_PANEL - 1) / QN_PANEL;
}

static inline int mat_places(const struct qn_mat *m)
{
	return m->places > 1 ? m->places : 1;
}

/* The first of n panels that is in part k of `places`. */
static inline int64_t part_begin(int64_t n, int k, int places)
{
	return places == 1 ? n * k : n * k / places; /* divisions take their time where steps are short */
}

/* Panel p of n of matrix e: how far from the first. */
static inline int64_t panel_at(const struct qn_mat *m, int64_t n, int64_t panel_bytes, int64_t e, int64_t p)
{
	if (m->places <= 1)
		return (e * n + p) * panel_bytes;

	const int places = m->places, k = (int)(((p + 1) * places - 1) / n); /* the last that begins at p or before */
	const int64_t room = (n + places - 1) / places;

	return k * m->place_stride + (e * room + p - part_begin(n, k, places)) * panel_bytes;
}

/*
 * K of kv head h of n of a layer, which are `bytes` each and begin at `offset` of a unit: in the part of a divided
 * group that has the head.
 */
static inline uint8_t *kv_head_at(const struct qn_group *g, int64_t unit, int64_t offset, int h, int n, int64_t bytes)
{
	uint8_t *data = (uint8_t *)g->data + unit * g->unit_bytes;

	if (g->places <= 1)
		return data + offset + h * bytes;

	const int each = n / g->places;

	return data + h / each * g->place_stride + offset / g->places + h % each * bytes;
}

#endif
