/* back_adapt.c - the reverse of an adapter's term: gradients of its two matrices, and of their input. */
#include "run/operation.h"

#define ROWS 32  /* of tokens to an item */
#define OUTS 128 /* rows of B to an item */

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_low *op = &o->back_low;

	return o->rows != QN_ROWS_PAIR && o->rows != QN_ROWS_HEAD && op->a && op->b && op->d_a && op->d_b &&
	       op->n_in > 0 && op->n_out > 0 && op->rank > 0 && op->rank <= QN_RANK_MAX &&
	       cols_ok(p, op->src, op->n_out) && cols_ok(p, op->dst, op->n_in) && buf_ok(p, op->act, op->n_in) &&
	       buf_ok(p, op->low, 2 * (int64_t)op->rank);
}

/* h and e of rows t .. t + n. */
static void reduce(const struct run *c, const struct qn_back_low *op, int64_t rows, int64_t t, int64_t n)
{
	const int64_t low = c->bufs[op->low].width;
	float *h = buf_row(c, op->low, t);

	/* A x, of each number a sum over blocks of columns in order. */
	for (int64_t i = 0; i < n; i++, h += low)
		for (int r = 0; r < op->rank; r++) {
			float sum = 0;

			for (int64_t at = 0; at < op->n_in; at += QN_ACT_BLOCK) {
				const int64_t left = op->n_in - at, some = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
				const struct actf *x =
					act_block(c, op->act, QN_ACT_F32, at / QN_ACT_BLOCK * rows + t + i);

				sum += qn_kernels.dot(x->x, op->a + (int64_t)r * op->n_in + at, some);
			}
			h[r] = op->scale * sum;
		}
	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->low, t) + op->rank,
		.y_row = low,
		.a = cols_row(c, op->src, t),
		.a_row = c->bufs[op->src.buf].width,
		.a_col = 1,
		.b = op->b,
		.b_row = op->rank,
		.rows = n,
		.cols = op->rank,
		.depth = op->n_out,
	});
	h = buf_row(c, op->low, t) + op->rank;
	for (int64_t i = 0; i < n; i++, h += low)
		qn_kernels.scale_rows(h, h, op->scale, NULL, op->rank);
}

/* Rows from number i on of d_b: h has the scale already. */
static void gradient_b(const struct run *c, const struct qn_back_low *op, int64_t rows, int64_t i)
{
	const int64_t n = op->n_out - i < OUTS ? op->n_out - i : OUTS;

	qn_kernels.multiply(&(struct product){
		.y = op->d_b + i * op->rank,
		.y_row = op->rank,
		.a = cols_row(c, op->src, 0) + i,
		.a_row = 1,
		.a_col = c->bufs[op->src.buf].width,
		.b = buf_row(c, op->low, 0),
		.b_row = c->bufs[op->low].width,
		.rows = n,
		.cols = op->rank,
		.depth = rows,
	});
}

/* A block of columns of d_a. */
static void gradient_a(const struct run *c, const struct qn_back_low *op, int64_t rows, int64_t block)
{
	const int64_t at = block * QN_ACT_BLOCK, left = op->n_in - at;
	const struct actf *x = act_block(c, op->act, QN_ACT_F32, block * rows);

	qn_kernels.multiply(&(struct product){
		.y = op->d_a + at,
		.y_row = op->n_in,
		.a = buf_row(c, op->low, 0) + op->rank,
		.a_row = 1,
		.a_col = c->bufs[op->low].width,
		.b = x->x,
		.b_row = QN_ACT_BLOCK,
		.rows = op->rank,
		.cols = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK,
		.depth = rows,
	});
}

static void gradient_x(const struct run *c, const struct qn_back_low *op, int64_t t, int64_t n)
{
	qn_kernels.multiply(&(struct product){
		.y = cols_row(c, op->dst, t),
		.y_row = c->bufs[op->dst.buf].width,
		.a = buf_row(c, op->low, t) + op->rank,
		.a_row = c->bufs[op->low].width,
		.a_col = 1,
		.b = op->a,
		.b_row = op->n_in,
		.rows = n,
		.cols = op->n_in,
		.depth = op->rank,
		.add = 1,
	});
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t rows = op_rows(c, o), tiles = (rows + ROWS - 1) / ROWS, outs = (op->n_out + OUTS - 1) / OUTS;
	const int64_t blocks = (op->n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct deal d = deal_begin(c->pool, c->ith, tiles);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0)
		reduce(c, op, rows, i * ROWS, rows - i * ROWS < ROWS ? rows - i * ROWS : ROWS);
	run_barrier(c);
	d = deal_begin(c->pool, c->ith, tiles + outs + blocks);
	while ((i = deal_next(c->pool, c->step + 1, &d)) >= 0) {
		if (i < blocks)
			gradient_a(c, op, rows, i);
		else if ((i -= blocks) < outs)
			gradient_b(c, op, rows, i * OUTS);
		else if ((i -= outs) < tiles)
			gradient_x(c, op, i * ROWS, rows - i * ROWS < ROWS ? rows - i * ROWS : ROWS);
	}
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_back_low *op = &o->back_low;

	return (struct qn_ticks_op){
		.bytes = 4 * (int64_t)op->rank * (op->n_in + op->n_out) * 2,
		.madds = 3 * op_rows(c, o) * op->rank * (op->n_in + op->n_out),
	};
}

const struct operation op_back_low = {.check = check, .counters = 2, .moves = moves, .run = run};
