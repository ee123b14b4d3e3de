/*
 * back_weights.c - gradients of weights: of matrices, of vectors that rows are multiplied by or that are added, and of
 * tables. All add to what is there; each number is one thread's.
 */
#include <string.h>

#include "math/fp16.h"
#include "run/operation.h"

/* ------------------------------------------------------------------ matrices */

/* A block of x, transposed, is 16 panels; a block of dy, transposed, is so many rows of activations. */
#define COLUMNS QN_ACT_BLOCK
#define PANELS (COLUMNS / QN_PANEL)
#define OUTS 256
#define OUTS_LEAST 32 /* of an item, where threads would lack items: below it transposing x takes most of the time */

/* Rows of dy that are asked for before they are read: each is a line of its own page. */
#define AHEAD 8

/* Blocks of activations of a row of dy transposed. */
#define TIMES (QN_BACK_ROWS / QN_ACT_BLOCK)

static int w_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_w *op = &o->back_w;

	return o->rows != QN_ROWS_PAIR && o->rows != QN_ROWS_HEAD && op->d_w && op->n_in > 0 && op->n_out > 0 &&
	       op->scale != 0 && cols_ok(p, op->src, op->n_out) && buf_ok(p, op->act, op->n_in);
}

static size_t w_scratch(const struct qn_op *o)
{
	(void)o;
	return PANELS * qn_panel_bytes(QN_BF16, QN_BACK_ROWS) + TIMES * OUTS * sizeof(struct actb);
}

/* Block `block` of columns of x in rows t .. t + n, transposed: panels of n rounded up to 32 columns. */
static void panels_of_x(const struct run *c, const struct qn_op *o, uint8_t *panels, int64_t block, int64_t t,
                        int64_t n)
{
	const int64_t whole = (n + BF16_RUN - 1) / BF16_RUN * BF16_RUN;
	const size_t bytes = qn_panel_bytes(QN_BF16, whole);
	const struct actf *x = act_block(c, o->back_w.act, QN_ACT_F32, block * op_rows(c, o) + t);

	for (int64_t k = 0; k < whole; k += 2) {
		struct actb row[2] = {0};

		for (int64_t j = 0; j < 2 && k + j < n; j++)
			qn_kernels.quantize(&row[j], x[k + j].x, COLUMNS, QN_ACT_BF16);
		for (int64_t p = 0; p < PANELS; p++) {
			uint16_t *line = (uint16_t *)(panels + (size_t)p * bytes) + k * QN_PANEL;

			for (int r = 0; r < QN_PANEL; r++) {
				line[2 * r] = row[0].x[p * QN_PANEL + r];
				line[2 * r + 1] = row[1].x[p * QN_PANEL + r];
			}
		}
	}
}

/* Columns i .. i + n_out of dy in rows t .. t + n, transposed: n_out rows of activations, of TIMES blocks. */
static void rows_of_dy(const struct run *c, const struct qn_back_w *op, struct actb *act, int64_t i, int64_t n_out,
                       int64_t t, int64_t n)
{
	for (int64_t k = 0; k < n; k += QN_ACT_BLOCK) {
		const int64_t some = n - k < QN_ACT_BLOCK ? n - k : QN_ACT_BLOCK;

		for (int64_t j = 0; j < n_out; j += QN_PANEL) {
			const int64_t left = n_out - j, rows = left < QN_PANEL ? left : QN_PANEL;
			float y[QN_PANEL][QN_ACT_BLOCK + QN_PANEL]; /* apart by no power of two */

			for (int64_t at = 0; at < some; at++) {
				const float *dy = cols_row(c, op->src, t + k + at) + i + j;

				__builtin_prefetch(dy + AHEAD * c->bufs[op->src.buf].width);
				for (int64_t r = 0; r < rows; r++)
					y[r][at] = dy[r];
			}
			for (int64_t r = 0; r < rows; r++)
				qn_kernels.quantize(&act[k / QN_ACT_BLOCK * n_out + j + r], y[r], (int)some,
				                    QN_ACT_BF16);
		}
	}
}

/* A tile of n rows of d_w from row i on, and n_col <= 16 columns of it from number `at` on. */
static void add_tile(const struct qn_back_w *op, const float *tile, int64_t i, int64_t n, int64_t at, int64_t n_col)
{
	float *y = op->d_w + i * op->n_in + at;

	if (n_col == QN_PANEL) {
		qn_kernels.store_tile(y, op->n_in, tile, NULL, op->scale, (int)n, 1);
		return;
	}
	for (int64_t r = 0; r < n; r++) {
		float row[QN_PANEL] = {0};

		memcpy(row, y + r * op->n_in, sizeof *row * (size_t)n_col);
		qn_kernels.store_tile(row, QN_PANEL, tile + r * QN_PANEL, NULL, op->scale, 1, 1);
		memcpy(y + r * op->n_in, row, sizeof *row * (size_t)n_col);
	}
}

/* What a thread's panels are of: a block of columns, in rows from t on. */
struct held {
	int64_t block, t;
};

/* n_out rows of d_w from row i on, of a block of columns. */
static void w_block(struct run *c, const struct qn_op *o, struct held *held, int64_t block, int64_t i, int64_t n_out)
{
	const struct qn_back_w *op = &o->back_w;
	const int64_t rows = op_rows(c, o), first = block * COLUMNS, left = op->n_in - first;
	const int64_t n_col = left < COLUMNS ? left : COLUMNS;
	const int most = qn_kernels.mm_tile[QN_BF16];
	uint8_t *panels = c->scratch;
	struct actb *act = (struct actb *)(panels + PANELS * qn_panel_bytes(QN_BF16, QN_BACK_ROWS));
	_Alignas(64) float tile[QN_TILE_MAX * QN_PANEL];

	for (int64_t t = 0; t < rows; t += QN_BACK_ROWS) {
		const int64_t n = rows - t < QN_BACK_ROWS ? rows - t : QN_BACK_ROWS;
		const int64_t whole = (n + BF16_RUN - 1) / BF16_RUN * BF16_RUN;
		const size_t bytes = qn_panel_bytes(QN_BF16, whole);

		if (held->block != block || held->t != t)
			panels_of_x(c, o, panels, block, t, n);
		*held = (struct held){block, t};
		rows_of_dy(c, op, act, i, n_out, t, n);
		for (int64_t r = 0; r < n_out; r += most) {
			const int some = (int)(n_out - r < most ? n_out - r : most);

			for (int64_t at = 0; at < n_col; at += QN_PANEL) {
				const int64_t cols = n_col - at < QN_PANEL ? n_col - at : QN_PANEL;

				qn_kernels.mm[QN_BF16](tile, panels + (size_t)(at / QN_PANEL) * bytes, act + r, whole,
				                       n_out, some);
				add_tile(op, tile, i + r, some, first + at, cols);
			}
		}
	}
}

static void w_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_w *op = &o->back_w;
	const int64_t blocks = (op->n_in + COLUMNS - 1) / COLUMNS, want = (4 * c->nth + blocks - 1) / blocks;
	int64_t outs = c->nth > 1 ? (op->n_out / want + OUTS_LEAST - 1) / OUTS_LEAST * OUTS_LEAST : OUTS, i;

	outs = outs < OUTS_LEAST ? OUTS_LEAST : outs > OUTS ? OUTS : outs;

	const int64_t parts = (op->n_out + outs - 1) / outs;
	struct deal d = deal_begin(c->pool, c->ith, blocks * parts);
	struct held held = {-1, 0};

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t from = i % parts * outs, n = op->n_out - from < outs ? op->n_out - from : outs;

		w_block(c, o, &held, i / parts, from, n);
	}
}

static struct qn_ticks_op w_moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_back_w *op = &o->back_w;

	return (struct qn_ticks_op){
		.bytes = 8 * (int64_t)op->n_out * op->n_in,
		.madds = op_rows(c, o) * op->n_out * op->n_in,
	};
}

const struct operation op_back_w = {
	.check = w_check, .scratch = w_scratch, .counters = 1, .moves = w_moves, .run = w_run,
};

/* ------------------------------------------------------------------ vectors, tables */

/* Columns that are one thread's at a time: whole cache lines, few enough that narrow rows are shared out. */
#define NARROW 64

static int v_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_v *op = &o->back_v;
	const int64_t n = (int64_t)op->n_seg * op->n_col;

	return o->rows != QN_ROWS_PAIR && o->rows != QN_ROWS_HEAD && op->d_v && op->n_col > 0 && op->n_seg > 0 &&
	       op->scale != 0 && cols_ok(p, op->dy, n) && (op->x.buf == -1 || cols_ok(p, op->x, n));
}

static void v_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_v *op = &o->back_v;
	const int64_t rows = op_rows(c, o);
	struct deal d = deal_begin(c->pool, c->ith, (op->n_col + NARROW - 1) / NARROW);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = i * NARROW, n = op->n_col - at < NARROW ? op->n_col - at : NARROW;

		for (int64_t t = 0; t < rows; t++)
			for (int64_t seg = at; seg < (int64_t)op->n_seg * op->n_col; seg += op->n_col) {
				const float *dy = cols_row(c, op->dy, t) + seg;
				float y[NARROW];

				if (op->x.buf >= 0) {
					qn_kernels.scale_rows(y, dy, op->scale, cols_row(c, op->x, t) + seg, n);
					qn_kernels.add_scaled(op->d_v + at, y, 1, n);
				} else {
					qn_kernels.add_scaled(op->d_v + at, dy, op->scale, n);
				}
			}
	}
}

const struct operation op_back_v = {.check = v_check, .counters = 1, .run = v_run};

static int embed_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_embed *op = &o->back_embed;

	return op->d_table && op->n_col > 0 && op->scale != 0 && buf_ok(p, op->src, op->n_col) &&
	       ((op->index >= QN_INDEX_TOK && op->index <= QN_INDEX_FIRST) || op->index == QN_INDEX_TEXT);
}

static void embed_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_embed *op = &o->back_embed;
	const struct qn_batch *b = c->batch;
	struct deal d = deal_begin(c->pool, c->ith, (op->n_col + NARROW - 1) / NARROW);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = i * NARROW, n = op->n_col - at < NARROW ? op->n_col - at : NARROW;

		for (int64_t t = 0; t < b->n_tok; t++) {
			float *row = op->d_table + batch_row(b, op->index, t) * op->n_col;

			qn_kernels.add_scaled(row + at, buf_row(c, op->src, t) + at, op->scale, n);
		}
	}
}

const struct operation op_back_embed = {.check = embed_check, .counters = 1, .run = embed_run};
