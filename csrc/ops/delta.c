/* delta.c - the gated delta rule over the positions of a sequence: see scalar/delta.c for what a step computes. */
#include "ops/recurrence.h"
#include "run/operation.h"

#define ITEM_PANELS 4 /* of the state of a head, in an item */

/* Where the gates of head h are in a row of aux: b there, a n_seg further. */
static int64_t gate_col(const struct qn_op *op, int64_t h)
{
	return h / op->n_seg * 2 * op->n_seg + h % op->n_seg;
}

/* The columns of gates. */
static int gates_ok(const struct plan *p, const struct qn_op *op)
{
	if (!op->by_channel)
		return op->limit == 0 && buf_ok(p, op->aux, gate_col(op, op->n_head - 1) + op->n_seg + 1);
	return op->n_seg >= op->n_head && op->n_head_kv == op->n_head &&
	       (op->limit == 0 || (op->limit < 0 && op->head_dim % QN_PANEL == 0)) &&
	       buf_ok(p, op->aux, op->n_seg + (int64_t)op->n_head * op->head_dim);
}

static int check(const struct plan *p, const struct qn_op *op)
{
	return op->vec && op->vec2 && op->n_head > 0 && op->n_head_kv > 0 && op->n_head % op->n_head_kv == 0 &&
	       op->head_dim > 0 && op->v_dim > 0 && op->v_dim % QN_PANEL == 0 && op->n_seg > 0 && op->group >= 0 &&
	       op->kv_offset >= 0 && op->kv_offset % 64 == 0 &&
	       col_ok(p, op->src, op->col[0], (int64_t)op->n_head_kv * op->head_dim) &&
	       col_ok(p, op->src, op->col[1], (int64_t)op->n_head_kv * op->head_dim) &&
	       col_ok(p, op->src, op->col[2], (int64_t)op->n_head * op->v_dim) &&
	       buf_ok(p, op->dst, (int64_t)op->n_head * op->v_dim) && gates_ok(p, op);
}

/* Floats of a thread's decays and keys times these, for as many tokens as a kernel takes. */
static int64_t apart_floats(const struct qn_op *op)
{
	return op->by_channel ? 2 * (int64_t)QN_DELTA_TOKENS * op->head_dim : 0;
}

static size_t scratch(const struct qn_op *op)
{
	return sizeof(float) * (size_t)apart_floats(op);
}

/* The decays of the rows of head h, of which none is below e^limit, of numbers at g. */
static void bounded(const struct qn_op *op, int64_t h, float *g)
{
	float least[QN_PANEL];

	for (int i = 0; i < QN_PANEL; i++)
		least[i] = op->limit;
	qn_kernels.scale_rows(g, g, op->vec2[h], NULL, op->head_dim);
	qn_kernels.fn[QN_FN_SIGMOID](g, g, NULL, op->head_dim);
	qn_kernels.scan_decays(g, least, g, op->head_dim / QN_PANEL);
}

/* The decays of the rows of head h, and the keys times these, of the d->n tokens from t on. */
static void rows_apart(const struct run *c, const struct qn_op *op, int64_t h, int64_t t, struct delta_rows *d)
{
	float *g = (float *)c->scratch, *gk = g + (int64_t)QN_DELTA_TOKENS * op->head_dim;

	d->g = g;
	d->gk = gk;
	d->g_stride = op->head_dim;
	for (int i = 0; i < d->n; i++, g += op->head_dim, gk += op->head_dim) {
		const float *a = buf_row(c, op->aux, t + i) + op->n_seg + h * op->head_dim, *k = d->k + i * d->stride;

		for (int r = 0; r < op->head_dim; r++)
			g[r] = a[r] + op->vec[h * op->head_dim + r];
		if (op->limit < 0)
			bounded(op, h, g);
		else
			qn_kernels.delta_gates(g, gk, g, g, 0, op->vec2[h], op->head_dim);
		for (int r = 0; r < op->head_dim; r++)
			gk[r] = g[r] * k[r];
	}
}

/* Panels at .. at + n of head h, tokens t0 .. t1 of a sequence. */
static void sequence(const struct run *c, const struct qn_op *op, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const int64_t key = op->k_tiled ? h % op->n_head_kv : h / (op->n_head / op->n_head_kv), gate = gate_col(op, h);
	const int64_t col = h * op->v_dim + at * QN_PANEL;
	float a[QN_DELTA_TOKENS], b[QN_DELTA_TOKENS], decay[QN_DELTA_TOKENS], beta[QN_DELTA_TOKENS];
	struct delta_rows d = {
		.stride = c->bufs[op->src].width,
		.k_stride = c->bufs[op->src].width,
		.o_stride = c->bufs[op->dst].width,
		.decay = decay,
		.beta = beta,
		.dk = op->head_dim,
		.panels = n,
		.scale = op->scale,
	};

	d.after = recur_state(c, op, h, at, n, t0, &d.before);
	for (int64_t t = t0; t < t1; t += d.n, d.before = d.after) {
		const float *row = buf_row(c, op->src, t);

		d.n = (int)(t1 - t < QN_DELTA_TOKENS ? t1 - t : QN_DELTA_TOKENS);
		for (int i = 0; i < d.n; i++) {
			const float *g = buf_row(c, op->aux, t + i) + gate;

			b[i] = g[0];
			a[i] = op->by_channel ? 0 : g[op->n_seg];
		}
		qn_kernels.delta_gates(decay, beta, a, b, op->by_channel ? 0 : op->vec[h], op->vec2[h], d.n);
		d.q = row + op->col[0] + key * op->head_dim;
		d.k = row + op->col[1] + key * op->head_dim;
		if (op->by_channel)
			rows_apart(c, op, h, t, &d);
		d.v = row + op->col[2] + col;
		d.o = buf_row(c, op->dst, t) + col;
		qn_kernels.delta(&d);
	}
}

static void run(struct run *c, const struct qn_op *op)
{
	recur_run(c, op, ITEM_PANELS, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	return recur_moves(c, op, 3);
}

const struct operation op_delta = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run,
};
