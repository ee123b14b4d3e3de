/*
 * adapt.c - what adapters add to the products of a matrix: two thin products for each, B (A x).
 *
 * Tokens of a sequence have the same adapters and are adjacent, so rows need no grouping: a span is as many rows of one
 * adapter and scale as a kernel takes. With experts each pair is a span of its own. A row's result is a sum over its
 * own adapters in their order, and does not depend on other rows.
 */
#include <string.h>

#include "ops/route.h"
#include "run/operation.h"

/* Rows that meet the same matrices: those of expert e. n is 0 at the end. */
struct span {
	const struct qn_low_rank *low; /* NULL: no adapter */
	int64_t row, e;
	int n;
	float scale, by; /* of B (A x), and of gains */
};

/* The rows of an operation, as they are taken one after the other. */
struct rows {
	const struct run *c;
	const struct qn_op *op;
	struct route route;
	int64_t at, n;
	int nth; /* of a sequence's adapters */
};

static struct rows rows_of(const struct run *c, const struct qn_op *op, int nth)
{
	struct rows r = {.c = c, .op = op, .n = op_rows(c, op), .nth = nth};

	if (op->rows == QN_ROWS_PAIR)
		r.route = route_of(c->bufs, &op->routing, c->batch->n_tok);
	return r;
}

/* Row i of the operation: with experts, choice i of the batch. */
static struct span row_span(const struct rows *r, int64_t i)
{
	const struct qn_batch *b = r->c->batch;
	const struct qn_op *op = r->op;
	const int pairs = op->rows == QN_ROWS_PAIR;
	const int64_t t = pairs ? i / op->routing.n_used : op->rows == QN_ROWS_OUT ? b->out[i] : i;
	const int64_t k = (int64_t)b->seq[t] * b->n_adapter + r->nth;
	const int32_t number = b->adapter[k];
	struct span s = {.row = pairs ? r->route.pair[i] : i, .e = pairs ? r->route.expert[i] : 0, .n = 1};

	if (number >= 0 && number < op->adapt.n_low && op->adapt.low[number].a.data) {
		s.low = &op->adapt.low[number];
		s.by = b->adapter_scale[k];
		s.scale = op->adapt.scale * (s.by * s.low->scale);
	}
	return s;
}

static struct span next_span(struct rows *r)
{
	struct span s = {0};
	int most = 1;

	if (r->at >= r->n)
		return s;
	s = row_span(r, r->at++);
	if (s.low && r->op->rows != QN_ROWS_PAIR)
		most = qn_kernels.mm_tile[s.low->b.type];
	if (s.low && !r->op->adapt.by_token && qn_kernels.mm_tile[s.low->a.type] < most)
		most = qn_kernels.mm_tile[s.low->a.type];
	while (s.n < most && r->at < r->n) {
		const struct span other = row_span(r, r->at);

		if (other.low != s.low || other.scale != s.scale || other.by != s.by)
			break;
		s.n++;
		r->at++;
	}
	return s;
}

static int64_t panels(const struct qn_mat *m)
{
	return (m->n_out + QN_PANEL - 1) / QN_PANEL;
}

/* Panel p of matrix e of m times rows of activations, n_act of which there are in the buffer. */
static void product(float *tile, const struct qn_mat *m, int64_t e, int64_t p, const void *act, int64_t n_act, int n)
{
	const int64_t bytes = (int64_t)qn_panel_bytes(m->type, m->n_in);
	const uint8_t *panel = (const uint8_t *)m->data + (e * panels(m) + p) * bytes;

	qn_kernels.mm[m->type](tile, panel, act, m->n_in, n_act, n);
}

/* Numbers `from` .. from + n of row `row` of A x. */
static void put(struct run *c, const struct qn_op *op, int64_t row, int64_t from, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += QN_PANEL) {
		const int64_t at = from + i;
		const int64_t block = at / QN_ACT_BLOCK * op_rows(c, op) + row;
		struct actf *y = act_block(c, op->adapt.reduced, QN_ACT_F32, block);

		memcpy(y->x + at % QN_ACT_BLOCK, x + i, sizeof *x * (size_t)(n - i < QN_PANEL ? n - i : QN_PANEL));
	}
}

/* Item p of a span's A x: 16 numbers of each row, or all of one that is looked up. */
static void reduce(struct run *c, const struct qn_op *op, const struct span *s, int64_t p)
{
	const struct qn_mat *a = &s->low->a;
	_Alignas(64) float x[QN_TILE_MAX * QN_PANEL];

	_Static_assert(QN_TILE_MAX * QN_PANEL >= QN_RANK_MAX, "a row that is looked up fits");
	if (op->adapt.by_token) {
		const uint8_t *row = (const uint8_t *)a->data +
				     c->batch->tok[s->row + p] * (int64_t)qn_row_bytes(a->type, a->n_in);

		qn_dequantize(a->type, x, row, a->n_in);
		put(c, op, s->row + p, 0, x, a->n_in);
		return;
	}
	product(x, a, s->e, p, act_block(c, op->adapt.act, QN_ACT_F32, s->row), op_rows(c, op), s->n);
	for (int i = 0; i < s->n; i++)
		put(c, op, s->row + i, p * QN_PANEL, x + i * QN_PANEL, QN_PANEL);
}

/* Panel p of a span's B (A x), added to dst, and of its gains. */
static void expand(struct run *c, const struct qn_op *op, const struct span *s, int64_t p)
{
	_Alignas(64) float tile[QN_TILE_MAX * QN_PANEL];

	const void *x = act_block(c, op->adapt.reduced, QN_ACT_F32, s->row);
	float *y = cols_row(c, op->adapt.dst, s->row) + p * QN_PANEL;

	product(tile, &s->low->b, s->e, p, x, op_rows(c, op), s->n);
	qn_kernels.store_tile(y, c->bufs[op->adapt.dst.buf].width, tile, NULL, s->scale, s->n, 1);
	if (!s->low->gain)
		return;
	for (int i = 0; i < s->n; i++) {
		float *g = buf_row(c, op->adapt.dst.buf, s->row + i) + op->adapt.gain_col + p * QN_PANEL;

		qn_kernels.add_scaled(g, s->low->gain + p * QN_PANEL, s->by, QN_PANEL);
	}
}

static int64_t items(const struct qn_op *op, const struct span *s, int second)
{
	if (!s->low)
		return 0;
	return second ? panels(&s->low->b) : op->adapt.by_token ? s->n : panels(&s->low->a);
}

/* This thread's share of one of the two products with the nth adapters of all rows. */
static void share(struct run *c, const struct qn_op *op, int nth, int second)
{
	struct rows r = rows_of(c, op, nth), again = r;
	int64_t total = 0, at = 0;

	for (struct span s = next_span(&r); s.n; s = next_span(&r))
		total += items(op, &s, second);

	const int64_t from = total * c->ith / c->nth, to = total * (c->ith + 1) / c->nth;

	for (struct span s = next_span(&again); s.n && at < to; s = next_span(&again)) {
		const int64_t n = items(op, &s, second);

		for (int64_t p = from > at ? from - at : 0; p < n && at + p < to; p++) {
			if (second)
				expand(c, op, &s, p);
			else
				reduce(c, op, &s, p);
		}
		at += n;
	}
}

/* -0 in this thread's share of the rows. */
static void clear(struct run *c, const struct qn_op *op)
{
	const int64_t n = op_rows(c, op), width = ((int64_t)op->adapt.n_col + QN_PANEL - 1) / QN_PANEL * QN_PANEL;

	for (int64_t i = n * c->ith / c->nth; i < n * (c->ith + 1) / c->nth; i++) {
		float *y = cols_row(c, op->adapt.dst, i), *g = buf_row(c, op->adapt.dst.buf, i) + op->adapt.gain_col;

		for (int64_t j = 0; j < width; j++)
			y[j] = -0.0f;
		for (int64_t j = 0; op->adapt.gain_col && j < width; j++)
			g[j] = -0.0f;
	}
}

static void run(struct run *c, const struct qn_op *op)
{
	if (!op->adapt.add)
		clear(c, op);
	for (int nth = 0; nth < c->batch->n_adapter; nth++) {
		if (nth)
			run_barrier(c); /* A x of the adapter before was read */
		share(c, op, nth, 0);
		run_barrier(c);
		share(c, op, nth, 1);
	}
}

/* 1 where one adapter's matrices, n_mat of each, are floats that fit the operation and each other. */
static int low_ok(const struct plan *p, const struct qn_op *op, const struct qn_low_rank *l, int64_t n_mat)
{
	const struct qn_mat *a = &l->a, *b = &l->b;

	if (!a->data)
		return 1;
	if (!mat_ok(a) || !mat_ok(b) || a->places > 1 || b->places > 1 || a->scale || b->scale ||
	    a->n_mat != n_mat || b->n_mat != n_mat)
		return 0;
	if (qn_type_act(a->type) != QN_ACT_F32 || qn_type_act(b->type) != QN_ACT_F32 || b->layout != QN_X16)
		return 0;
	if (l->gain && op->adapt.gain_col == 0)
		return 0;
	if (b->n_out != op->adapt.n_col || b->n_in > QN_RANK_MAX || !buf_ok(p, op->adapt.reduced, b->n_in))
		return 0;
	if (op->adapt.by_token)
		return a->layout == QN_ROWS && a->n_in == b->n_in;
	return a->layout == QN_X16 && a->n_out == b->n_in && buf_ok(p, op->adapt.act, a->n_in);
}

/* Gains have columns of their own, if any. */
static int gain_ok(const struct plan *p, const struct qn_op *op)
{
	const struct qn_adapt *a = &op->adapt;
	const int64_t width = ((int64_t)a->n_col + QN_PANEL - 1) / QN_PANEL * QN_PANEL;

	return a->gain_col == 0 || (!a->add && !a->by_token && op->rows != QN_ROWS_PAIR &&
	                            col_ok(p, a->dst.buf, a->gain_col, width));
}

static int check(const struct plan *p, const struct qn_op *op)
{
	if (!rows_ok(p, op, 0) || (op->adapt.by_token && op->rows != QN_ROWS_TOK) || op->adapt.n_col < 1 ||
	    op->adapt.n_low < 1 || !op->adapt.low)
		return 0;
	if (!cols_ok(p, op->adapt.dst, ((int64_t)op->adapt.n_col + QN_PANEL - 1) / QN_PANEL * QN_PANEL))
		return 0;
	if (!gain_ok(p, op))
		return 0;
	for (int i = 0; i < op->adapt.n_low; i++)
		if (!low_ok(p, op, &op->adapt.low[i], op->rows == QN_ROWS_PAIR ? op->routing.n_expert : 1))
			return 0;
	return 1;
}

/* What each span reads and multiplies. */
static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	struct qn_ticks_op m = {0};

	for (int nth = 0; nth < c->batch->n_adapter; nth++) {
		struct rows r = rows_of(c, op, nth);

		for (struct span s = next_span(&r); s.n; s = next_span(&r)) {
			if (!s.low)
				continue;

			const struct qn_mat *a = &s.low->a, *b = &s.low->b;
			const int64_t rows = op->adapt.by_token ? s.n : a->n_out;

			m.bytes += rows * (int64_t)qn_row_bytes(a->type, a->n_in) +
				   b->n_out * (int64_t)qn_row_bytes(b->type, b->n_in);
			m.madds += s.n * ((int64_t)b->n_out * b->n_in +
			                  (op->adapt.by_token ? 0 : (int64_t)a->n_out * a->n_in));
		}
	}
	return m;
}

const struct operation op_adapt = {.check = check, .moves = moves, .routing = ROUTING_PAIRS, .run = run};
