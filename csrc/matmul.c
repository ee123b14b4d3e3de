/*
 * matmul.c - products of weight matrices and a batch of activations.
 *
 * The work is dealt in groups of panels. A group meets all tokens of the batch, in tiles of as many
 * as a kernel takes: its weights come from memory once and stay in the second-level cache, the
 * tile's activations stay in the first-level one.
 */
#include <string.h>

#include "exec.h"

/* Panels of a group when tokens need more than one tile: 64 rows of 4096 Q4_K weights are 150 KB. */
#define GROUP 4

static int64_t panels(const struct qn_mat *m)
{
	return (m->n_out + QN_PANEL - 1) / QN_PANEL;
}

size_t matmul_scratch(const struct qn_op *op)
{
	size_t bytes = 0; /* the largest panel; an operation needs room for two (exec.c) */

	for (int i = 0; i < op->n_mat; i++) {
		const struct qn_mat *m = &op->mat[i];

		if (m->layout == QN_ROWS && qn_panel_bytes(m->type, m->n_in) > bytes)
			bytes = qn_panel_bytes(m->type, m->n_in);
	}
	return bytes;
}

/* Panel p of matrix e of m: where it lies, or packed into the thread's scratch. */
static const void *panel_of(const struct run *c, const struct qn_mat *m, int64_t e, int64_t p)
{
	if (m->layout == QN_X16)
		return (const uint8_t *)m->data + (e * panels(m) + p) * (int64_t)qn_panel_bytes(m->type, m->n_in);

	const int64_t row = p * QN_PANEL;
	const int64_t left = m->n_out - row;
	const uint8_t *rows = (const uint8_t *)m->data + (e * m->n_out + row) * (int64_t)qn_row_bytes(m->type, m->n_in);

	/* A scale that is not finite shows in the result; there is nobody to tell here. */
	qn_pack(m->type, c->scratch, rows, (int32_t)(left < QN_PANEL ? left : QN_PANEL), m->n_in);
	return c->scratch;
}

/* The block of activations of row t that m reads. */
static const void *act_of(const struct run *c, const struct qn_op *op, const struct qn_mat *m, int64_t t)
{
	if (qn_type_q8(m->type))
		return (const struct act8 *)c->bufs[op->act_q8].data + t;
	return (const struct actf *)c->bufs[op->act_f32].data + t;
}

/* One panel of mat[i] (and its twin for SwiGLU) times rows t .. t + n of the activations. */
static void panel_tile(const struct run *c, const struct qn_op *op, int i, const void *w, const void *w2, int64_t p,
                       int64_t n_act, int64_t t, int n)
{
	const struct qn_mat *m = &op->mat[i];
	_Alignas(64) float tile[QN_TILE_MAX * QN_PANEL];

	/* Rows of a large batch lie in other pages and out of the caches: ask for them before the product. */
	for (int k = 0; k < n; k++)
		__builtin_prefetch(buf_row(c, op->dst, t + k) + op->col[i] + p * QN_PANEL, 1);
	qn_kernels.mm[m->type](tile, w, act_of(c, op, m, t), m->n_in, n_act, n);
	if (op->epilogue == QN_EPI_SWIGLU) {
		const struct qn_mat *up = &op->mat[1];
		_Alignas(64) float tile2[QN_TILE_MAX * QN_PANEL];

		qn_kernels.mm[up->type](tile2, w2, act_of(c, op, up, t), up->n_in, n_act, n);
		qn_kernels.swiglu(tile, tile, tile2, n * QN_PANEL);
	}
	qn_kernels.store_tile(buf_row(c, op->dst, t) + op->col[i] + p * QN_PANEL, c->bufs[op->dst].width, tile,
	                      op->bias[i] ? op->bias[i] + p * QN_PANEL : NULL, n, op->epilogue == QN_EPI_ADD);
}

/* Panels p0 .. p1 of expert e of mat[i], times rows t0 .. t1. */
static void group(const struct run *c, const struct qn_op *op, int i, int64_t e, int64_t p0, int64_t p1, int64_t n_act,
                  int64_t t0, int64_t t1)
{
	const int glu = op->epilogue == QN_EPI_SWIGLU;
	int tile = qn_kernels.mm_tile[op->mat[i].type];

	if (glu && qn_kernels.mm_tile[op->mat[1].type] < tile)
		tile = qn_kernels.mm_tile[op->mat[1].type];
	const int64_t tiles = (t1 - t0 + tile - 1) / tile;

	/* Weights packed on the way are packed once for all tokens: panels outside. */
	if (op->mat[i].layout == QN_ROWS || (glu && op->mat[1].layout == QN_ROWS)) {
		for (int64_t p = p0; p < p1; p++) {
			struct run c2 = *c;
			const void *w = panel_of(c, &op->mat[i], e, p);

			/* scratch holds two panels where two may be packed */
			c2.scratch = c->scratch + matmul_scratch(op);
			const void *w2 = glu ? panel_of(&c2, &op->mat[1], e, p) : NULL;

			for (int64_t k = 0; k < tiles; k++) {
				const int64_t a = t0 + (t1 - t0) * k / tiles, b = t0 + (t1 - t0) * (k + 1) / tiles;

				panel_tile(c, op, i, w, w2, p, n_act, a, (int)(b - a));
			}
		}
		return;
	}
	for (int64_t k = 0; k < tiles; k++) { /* tiles of nearly equal size */
		const int64_t a = t0 + (t1 - t0) * k / tiles, b = t0 + (t1 - t0) * (k + 1) / tiles;

		for (int64_t p = p0; p < p1; p++)
			panel_tile(c, op, i, panel_of(c, &op->mat[i], e, p),
			           glu ? panel_of(c, &op->mat[1], e, p) : NULL, p, n_act, a,
			           (int)(b - a));
	}
}

void op_matmul(struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op);
	const int n_mat = op->epilogue == QN_EPI_SWIGLU ? 1 : op->n_mat;
	const int size = rows > qn_kernels.mm_tile[op->mat[0].type] ? GROUP : 1;
	int64_t items[3] = {0}, per_expert = 0, n_active = 1, i;
	struct route route = {0};

	if (rows == 0)
		return;
	for (int k = 0; k < n_mat; k++)
		per_expert += items[k] = (panels(&op->mat[k]) + size - 1) / size;
	if (op->rows == QN_ROWS_PAIR) {
		route = route_of(&c->bufs[op->aux], c->batch->n_tok, op->n_expert, op->n_used);
		n_active = 0;
		for (int e = 0; e < op->n_expert; e++)
			n_active += route.offset[e] < route.offset[e + 1];
	}

	struct deal d = deal_begin(c->ith, c->nth, n_active * per_expert);
	int64_t active = 0, expert = -1; /* `expert` is the active one number `active` - 1 */

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		int64_t rest = i % per_expert, e = 0, t0 = 0, t1 = rows;
		int k = 0;

		if (op->rows == QN_ROWS_PAIR) {
			for (; active <= i / per_expert; active++) /* items come in rising order */
				do
					expert++;
				while (route.offset[expert] == route.offset[expert + 1]);
			e = expert;
			t0 = route.offset[e];
			t1 = route.offset[e + 1];
		}
		while (rest >= items[k])
			rest -= items[k++];

		const int64_t p0 = rest * size, n = panels(&op->mat[k]);

		group(c, op, k, e, p0, p0 + size < n ? p0 + size : n, rows, t0, t1);
	}
	c->step++;
}
