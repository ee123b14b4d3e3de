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

/* One matrix of an operation, with what every panel of it needs looked up once. */
struct operand {
	const struct qn_mat *m;
	mm_fn *mm;
	const uint8_t *act; /* the first row's activations */
	int64_t act_bytes;  /* from one row's to the next's */
	int64_t panels, panel_bytes, row_bytes;
	uint8_t *scratch; /* for a panel packed on the way */
};

static struct operand operand_of(const struct run *c, const struct qn_op *op, int i)
{
	const struct qn_mat *m = &op->mat[i];
	const int q8 = qn_type_q8(m->type);

	return (struct operand){
		.m = m,
		.mm = qn_kernels.mm[m->type],
		.act = c->bufs[q8 ? op->act_q8 : op->act_f32].data,
		.act_bytes = q8 ? sizeof(struct act8) : sizeof(struct actf),
		.panels = panels(m),
		.panel_bytes = (int64_t)qn_panel_bytes(m->type, m->n_in),
		.row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in),
		.scratch = c->scratch + (i ? matmul_scratch(op) : 0), /* exec.c gives room for two */
	};
}

/* Panel p of matrix e of o: where it lies, or packed into scratch. */
static const void *panel_of(const struct operand *o, int64_t e, int64_t p)
{
	if (o->m->layout == QN_X16)
		return (const uint8_t *)o->m->data + (e * o->panels + p) * o->panel_bytes;

	const int64_t row = p * QN_PANEL, left = o->m->n_out - row;
	const uint8_t *rows = (const uint8_t *)o->m->data + (e * o->m->n_out + row) * o->row_bytes;

	/* A scale that is not finite shows in the result; there is nobody to tell here. */
	qn_pack(o->m->type, o->scratch, rows, (int32_t)(left < QN_PANEL ? left : QN_PANEL), o->m->n_in);
	return o->scratch;
}

/* Panel p, at w (and its twin at w2 for SwiGLU), times rows t .. t + n of n_act rows of activations. */
static void panel_tile(const struct run *c, const struct qn_op *op, const struct operand *o, const struct operand *up,
                       const void *w, const void *w2, int64_t p, int64_t n_act, int64_t t, int n)
{
	const int i = (int)(o->m - op->mat);
	const int64_t col = op->col[i] + p * QN_PANEL;
	_Alignas(64) float tile[QN_TILE_MAX * QN_PANEL];

	/* Rows of a large batch lie in other pages and out of the caches: ask for them before the product. */
	for (int k = 0; k < n; k++)
		__builtin_prefetch(buf_row(c, op->dst, t + k) + col, 1);
	o->mm(tile, w, o->act + t * o->act_bytes, o->m->n_in, n_act, n);
	if (up) {
		_Alignas(64) float tile2[QN_TILE_MAX * QN_PANEL];

		up->mm(tile2, w2, up->act + t * up->act_bytes, up->m->n_in, n_act, n);
		qn_kernels.swiglu(tile, tile, tile2, n * QN_PANEL);
	}
	qn_kernels.store_tile(buf_row(c, op->dst, t) + col, c->bufs[op->dst].width, tile,
	                      op->bias[i] ? op->bias[i] + p * QN_PANEL : NULL, n, op->epilogue == QN_EPI_ADD);
}

/* Rows t0 .. t1 in tiles of nearly equal size, none larger than a kernel takes. */
struct tiles {
	int64_t t0, t1, n;
};

static struct tiles tiles_of(const struct operand *o, const struct operand *up, int64_t t0, int64_t t1)
{
	int most = qn_kernels.mm_tile[o->m->type];

	if (up && qn_kernels.mm_tile[up->m->type] < most)
		most = qn_kernels.mm_tile[up->m->type];
	return (struct tiles){t0, t1, (t1 - t0 + most - 1) / most};
}

static int64_t tile_start(const struct tiles *s, int64_t k)
{
	return s->t0 + (s->t1 - s->t0) * k / s->n;
}

/* Panels p0 .. p1 of expert e of o, times rows t0 .. t1. */
static void group(const struct run *c, const struct qn_op *op, const struct operand *o, const struct operand *up,
                  int64_t e, int64_t p0, int64_t p1, int64_t n_act, int64_t t0, int64_t t1)
{
	const struct tiles s = tiles_of(o, up, t0, t1);
	/* A panel that has to be packed is packed once for all tiles; else a tile meets all panels. */
	const int panel_first = o->m->layout == QN_ROWS || (up && up->m->layout == QN_ROWS);
	const int64_t step = panel_first ? 1 : p1 - p0;

	for (int64_t a = p0; a < p1; a += step) {
		const void *w = NULL, *w2 = NULL;

		if (panel_first) {
			w = panel_of(o, e, a);
			w2 = up ? panel_of(up, e, a) : NULL;
		}
		for (int64_t k = 0; k < s.n; k++)
			for (int64_t p = a; p < a + step; p++) {
				const int64_t t = tile_start(&s, k);

				if (!panel_first) {
					w = panel_of(o, e, p);
					w2 = up ? panel_of(up, e, p) : NULL;
				}
				panel_tile(c, op, o, up, w, w2, p, n_act, t, (int)(tile_start(&s, k + 1) - t));
			}
	}
}

void op_matmul(struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op);
	const int glu = op->epilogue == QN_EPI_SWIGLU;
	const int n_mat = glu ? 1 : op->n_mat;
	const int size = rows > qn_kernels.mm_tile[op->mat[0].type] ? GROUP : 1;
	int64_t items[3] = {0}, per_expert = 0, n_active = 1, i;
	struct route route = {0};
	struct operand o[3];

	if (rows == 0)
		return;
	for (int k = 0; k < op->n_mat; k++)
		o[k] = operand_of(c, op, k);
	for (int k = 0; k < n_mat; k++)
		per_expert += items[k] = (o[k].panels + size - 1) / size;
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

		const int64_t p0 = rest * size, n = o[k].panels;

		group(c, op, &o[k], glu ? &o[1] : NULL, e, p0, p0 + size < n ? p0 + size : n, rows, t0, t1);
	}
	c->step++;
}
