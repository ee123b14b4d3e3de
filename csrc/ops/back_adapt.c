/* back_adapt.c - the reverse of an adapter's term: gradients of its two matrices, and of their input. */
#include "ops/route.h"
#include "run/operation.h"

#define ROWS 32  /* of tokens to an item */
#define OUTS 128 /* rows of B to an item */
#define RUN 64   /* tokens of a sum over them that are in the caches at a time */

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_low *op = &o->back_low;

	return rows_ok(p, o, 0) && op->a && op->b && op->d_a && op->d_b && op->n_in > 0 && op->n_out > 0 &&
	       op->rank > 0 && op->rank <= QN_RANK_MAX && cols_ok(p, op->src, op->n_out) &&
	       cols_ok(p, op->dst, op->n_in) && buf_ok(p, op->act, op->n_in) &&
	       buf_ok(p, op->low, 2 * (int64_t)op->rank);
}

/* Rows from `first` on that have matrices of their own: all, or the pairs of an expert. */
struct part {
	const float *a, *b;
	float *d_a, *d_b;
	int64_t first, n;
};

static struct part part_of(const struct run *c, const struct qn_op *o, int64_t e)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t a = e * op->rank * op->n_in, b = e * op->rank * op->n_out;
	struct part s = {op->a + a, op->b + b, op->d_a + a, op->d_b + b, 0, op_rows(c, o)};

	if (o->rows == QN_ROWS_PAIR) {
		const struct route r = route_of(c->bufs, &o->routing, c->batch->n_tok);

		s.first = r.offset[e];
		s.n = r.offset[e + 1] - s.first;
	}
	return s;
}

/* Row t of a block of columns of x. */
static const float *x_block(const struct run *c, const struct qn_op *o, int64_t block, int64_t t)
{
	const struct actf *x = act_block(c, o->back_low.act, QN_ACT_F32, block * op_rows(c, o) + t);

	return x->x;
}

/*
 * A block of columns of A as rows, in d_a: products want rows of as many numbers as the rank, and d_a is free until the
 * gradient is there.
 */
static void transpose(const struct qn_back_low *op, const struct part *s, int64_t block)
{
	const int64_t at = block * QN_ACT_BLOCK, left = op->n_in - at;
	const int64_t end = left < QN_ACT_BLOCK ? op->n_in : at + QN_ACT_BLOCK;

	for (int64_t i = at; i < end; i++)
		for (int64_t r = 0; r < op->rank; r++)
			s->d_a[i * op->rank + r] = s->a[r * op->n_in + i];
}

/* h and e of rows t .. t + n. */
static void reduce(const struct run *c, const struct qn_op *o, const struct part *s, int64_t t, int64_t n)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t low = c->bufs[op->low].width;
	float *h = buf_row(c, op->low, t);

	for (int64_t at = 0; at < op->n_in; at += QN_ACT_BLOCK) {
		const int64_t left = op->n_in - at;

		qn_kernels.multiply(&(struct product){
			.y = h,
			.y_row = low,
			.a = x_block(c, o, at / QN_ACT_BLOCK, t),
			.a_row = QN_ACT_BLOCK,
			.a_col = 1,
			.b = s->d_a + at * op->rank,
			.b_row = op->rank,
			.rows = n,
			.cols = op->rank,
			.depth = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK,
			.add = at > 0,
		});
	}
	qn_kernels.multiply(&(struct product){
		.y = buf_row(c, op->low, t) + op->rank,
		.y_row = low,
		.a = cols_row(c, op->src, t),
		.a_row = c->bufs[op->src.buf].width,
		.a_col = 1,
		.b = s->b,
		.b_row = op->rank,
		.rows = n,
		.cols = op->rank,
		.depth = op->n_out,
	});
	for (int64_t i = 0; i < n; i++, h += low)
		qn_kernels.scale_rows(h, h, op->scale, NULL, 2 * (int64_t)op->rank);
}

/* Rows from number i on of d_b: h has the scale already. */
static void gradient_b(const struct run *c, const struct qn_op *o, const struct part *s, int64_t i)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t n = op->n_out - i < OUTS ? op->n_out - i : OUTS;

	for (int64_t t = 0; t < s->n || t == 0; t += RUN)
		qn_kernels.multiply(&(struct product){
			.y = s->d_b + i * op->rank,
			.y_row = op->rank,
			.a = cols_row(c, op->src, s->first + t) + i,
			.a_row = 1,
			.a_col = c->bufs[op->src.buf].width,
			.b = buf_row(c, op->low, s->first + t),
			.b_row = c->bufs[op->low].width,
			.rows = n,
			.cols = op->rank,
			.depth = s->n - t < RUN ? s->n - t : RUN,
			.add = t > 0,
		});
}

/* A block of columns of d_a. */
static void gradient_a(const struct run *c, const struct qn_op *o, const struct part *s, int64_t block)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t at = block * QN_ACT_BLOCK, left = op->n_in - at;

	for (int64_t t = 0; t < s->n || t == 0; t += RUN)
		qn_kernels.multiply(&(struct product){
			.y = s->d_a + at,
			.y_row = op->n_in,
			.a = buf_row(c, op->low, s->first + t) + op->rank,
			.a_row = 1,
			.a_col = c->bufs[op->low].width,
			.b = x_block(c, o, block, s->first + t),
			.b_row = QN_ACT_BLOCK,
			.rows = op->rank,
			.cols = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK,
			.depth = s->n - t < RUN ? s->n - t : RUN,
			.add = t > 0,
		});
}

static void gradient_x(const struct run *c, const struct qn_op *o, const struct part *s, int64_t t, int64_t n)
{
	const struct qn_back_low *op = &o->back_low;

	qn_kernels.multiply(&(struct product){
		.y = cols_row(c, op->dst, t),
		.y_row = c->bufs[op->dst.buf].width,
		.a = buf_row(c, op->low, t) + op->rank,
		.a_row = c->bufs[op->low].width,
		.a_col = 1,
		.b = s->a,
		.b_row = op->n_in,
		.rows = n,
		.cols = op->n_in,
		.depth = op->rank,
		.add = 1,
	});
}

/* Tile i of a part's rows is t .. t + n: 0 where the part has no such tile. */
static int64_t tile_of(const struct part *s, int64_t i, int64_t *t)
{
	const int64_t left = s->n - i * ROWS;

	*t = s->first + i * ROWS;
	return left < 0 ? 0 : left < ROWS ? left : ROWS;
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_low *op = &o->back_low;
	const int64_t rows = op_rows(c, o), tiles = (rows + ROWS - 1) / ROWS, outs = (op->n_out + OUTS - 1) / OUTS;
	const int64_t blocks = (op->n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK, each = tiles + outs + blocks;
	const int64_t parts = o->rows == QN_ROWS_PAIR ? o->routing.n_expert : 1;
	struct deal d = deal_begin(c->pool, c->ith, parts * blocks);
	int64_t i, t, n;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const struct part s = part_of(c, o, i / blocks);

		if (s.n > 0)
			transpose(op, &s, i % blocks);
	}
	run_barrier(c);
	d = deal_begin(c->pool, c->ith, parts * tiles);
	while ((i = deal_next(c->pool, c->step + 1, &d)) >= 0) {
		const struct part s = part_of(c, o, i / tiles);

		if ((n = tile_of(&s, i % tiles, &t)) > 0)
			reduce(c, o, &s, t, n);
	}
	run_barrier(c);
	d = deal_begin(c->pool, c->ith, parts * each);
	while ((i = deal_next(c->pool, c->step + 2, &d)) >= 0) {
		const struct part s = part_of(c, o, i / each);

		if ((i %= each) < blocks)
			gradient_a(c, o, &s, i);
		else if ((i -= blocks) < outs)
			gradient_b(c, o, &s, i * OUTS);
		else if ((n = tile_of(&s, i - outs, &t)) > 0)
			gradient_x(c, o, &s, t, n);
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

const struct operation op_back_low = {
	.check = check, .counters = 3, .moves = moves, .routing = ROUTING_PAIRS, .run = run,
};
