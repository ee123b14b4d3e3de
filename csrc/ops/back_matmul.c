/*
 * back_matmul.c - gradients of the inputs of products: W^T dy, of any type of weights.
 *
 * The transpose of a block of 256 columns and QN_BACK_ROWS rows of W is 16 panels of BF16, made in scratch from the
 * rows as they lie in the file, and multiplied by the kernels of QN_OP_MATMUL: so this has their bits on every set.
 */
#include <string.h>

#include "ops/route.h"
#include "run/operation.h"

#define COLUMNS QN_ACT_BLOCK
#define PANELS (COLUMNS / QN_PANEL)

/* Rows of a call, at least, where too few blocks of columns are shared out with rows of dy: unpacking pays then. */
#define ROWS_LEAST 64

/* Bytes of the largest head and block of a row, of 256 columns. */
#define BLOCK_MAX 1040

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_x *op = &o->back_x;

	return rows_ok(p, o, 0) && mat_ok(&op->mat) && op->mat.layout == QN_ROWS && op->scale != 0 &&
	       op->mat.n_mat == (o->rows == QN_ROWS_PAIR ? o->routing.n_expert : 1) &&
	       buf_ok(p, op->act, op->mat.n_out) &&
	       cols_ok(p, op->dst, (op->mat.n_in + QN_PANEL - 1) / QN_PANEL * QN_PANEL);
}

static size_t scratch(const struct qn_op *o)
{
	(void)o;
	return PANELS * qn_panel_bytes(QN_BF16, QN_BACK_ROWS);
}

/* n columns from number `at` on, a multiple of 256, of row i, as floats. */
static void columns(const struct qn_mat *m, float *y, int64_t i, int64_t at, int64_t n)
{
	/* what rows of super-blocks may begin with: a scale, which is put before the block that is wanted */
	const size_t head = m->n_in % 256 ? 0 : 2 * qn_row_bytes(m->type, 256) - qn_row_bytes(m->type, 512);
	const size_t before = at ? qn_row_bytes(m->type, at) : head;
	const uint8_t *row = (const uint8_t *)m->data + (size_t)i * qn_row_bytes(m->type, m->n_in);
	uint8_t part[BLOCK_MAX];

	if (head == 0) {
		qn_dequantize(m->type, y, row + before, n);
		return;
	}
	memcpy(part, row, head);
	memcpy(part + head, row + before, qn_row_bytes(m->type, 256) - head);
	qn_dequantize(m->type, y, part, n);
}

/* The transpose of rows i .. i + n and the columns from `at` on: panels of n rounded up to 32 columns. */
static void transpose(const struct qn_mat *m, uint8_t *panels, int64_t i, int64_t n, int64_t at, int64_t n_col)
{
	const int64_t whole = (n + BF16_RUN - 1) / BF16_RUN * BF16_RUN;
	const size_t bytes = qn_panel_bytes(QN_BF16, whole);
	struct actb x[BF16_RUN];
	float row[COLUMNS];

	for (int64_t k = 0; k < whole; k += BF16_RUN) {
		const int64_t some = n - k < BF16_RUN ? n - k : BF16_RUN;

		for (int64_t j = 0; j < some; j++) {
			columns(m, row, i + k + j, at, n_col);
			qn_kernels.quantize(x + j, row, (int)n_col, QN_ACT_BF16);
		}
		memset(x + some, 0, sizeof *x * (size_t)(BF16_RUN - some));
		for (int64_t p = 0; p * QN_PANEL < n_col; p++) {
			uint16_t *line = (uint16_t *)(panels + (size_t)p * bytes) + k * QN_PANEL;

			for (int j = 0; j < BF16_RUN; j += 2, line += 2 * QN_PANEL)
				for (int r = 0; r < QN_PANEL; r++) {
					line[2 * r] = x[j].x[p * QN_PANEL + r];
					line[2 * r + 1] = x[j + 1].x[p * QN_PANEL + r];
				}
		}
	}
}

/* Columns `at` .. of dst, in rows t0 .. t1, of one matrix. */
static void block(struct run *c, const struct qn_op *o, const struct qn_mat *m, int64_t at, int64_t t0, int64_t t1)
{
	const struct qn_back_x *op = &o->back_x;
	const int64_t n_act = op_rows(c, o), left = m->n_in - at, n_col = left < COLUMNS ? left : COLUMNS;
	const int most = qn_kernels.mm_tile[QN_BF16];
	const float scale = m->scale ? op->scale * *m->scale : op->scale;
	mm_pair_fn *pair = qn_kernels.mm_pair[QN_BF16];
	_Alignas(64) float tile[2 * QN_TILE_MAX * QN_PANEL];

	for (int64_t i = 0; i < m->n_out; i += QN_BACK_ROWS) {
		const int64_t rest = m->n_out - i, n = rest < QN_BACK_ROWS ? rest : QN_BACK_ROWS;
		const int64_t whole = (n + BF16_RUN - 1) / BF16_RUN * BF16_RUN;
		const size_t bytes = qn_panel_bytes(QN_BF16, whole);

		transpose(m, c->scratch, i, n, at, n_col);
		for (int64_t t = t0; t < t1; t += most) {
			const int some = (int)(t1 - t < most ? t1 - t : most);
			const void *act = act_block(c, op->act, QN_ACT_BF16, i / QN_ACT_BLOCK * n_act + t);

			for (int64_t p = 0, both; p * QN_PANEL < n_col; p += both) {
				const uint8_t *panel = c->scratch + (size_t)p * bytes;

				both = pair && some >= QN_PAIR_MIN && (p + 1) * QN_PANEL < n_col ? 2 : 1;
				if (both == 2)
					pair(tile, panel, panel + bytes, act, whole, n_act, some);
				else
					qn_kernels.mm[QN_BF16](tile, panel, act, whole, n_act, some);
				for (int64_t j = 0; j < both; j++)
					qn_kernels.store_tile(cols_row(c, op->dst, t) + at + (p + j) * QN_PANEL,
					                      c->bufs[op->dst.buf].width,
					                      tile + j * some * QN_PANEL, NULL, scale, some,
					                      op->add || i > 0);
			}
		}
	}
}

/* Each expert's matrix, with its pairs. */
static void run_pairs(struct run *c, const struct qn_op *o)
{
	const struct qn_mat *m = &o->back_x.mat;
	const int64_t blocks = (m->n_in + COLUMNS - 1) / COLUMNS;
	const struct route r = route_of(c->bufs, &o->routing, c->batch->n_tok);
	struct deal d = deal_begin(c->pool, c->ith, blocks * m->n_mat);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t e = i / blocks;
		struct qn_mat one = *m;

		one.data = (const uint8_t *)m->data + (size_t)(e * m->n_out) * qn_row_bytes(m->type, m->n_in);
		one.scale = m->scale ? m->scale + e : NULL;
		if (r.offset[e] < r.offset[e + 1])
			block(c, o, &one, i % blocks * COLUMNS, r.offset[e], r.offset[e + 1]);
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	const int64_t rows = op_rows(c, o), blocks = (o->back_x.mat.n_in + COLUMNS - 1) / COLUMNS;
	int64_t parts = (c->nth + blocks - 1) / blocks, i;

	if (parts > (rows + ROWS_LEAST - 1) / ROWS_LEAST)
		parts = (rows + ROWS_LEAST - 1) / ROWS_LEAST;
	if (rows == 0)
		return;
	if (o->rows == QN_ROWS_PAIR) {
		run_pairs(c, o);
		return;
	}

	struct deal d = deal_begin(c->pool, c->ith, blocks * parts);

	while ((i = deal_next(c->pool, c->step, &d)) >= 0)
		block(c, o, &o->back_x.mat, i / parts * COLUMNS, rows * (i % parts) / parts,
		      rows * (i % parts + 1) / parts);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_mat *m = &o->back_x.mat;

	return (struct qn_ticks_op){
		.bytes = m->n_mat * (int64_t)m->n_out * (int64_t)qn_row_bytes(m->type, m->n_in),
		.madds = op_rows(c, o) * m->n_out * m->n_in,
	};
}

const struct operation op_back_x = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .routing = ROUTING_PAIRS, .run = run,
};
