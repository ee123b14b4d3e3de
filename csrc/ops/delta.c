/* delta.c - the gated delta rule over the positions of a sequence: see scalar/delta.c for what a step computes. */
#include "ops/recurrence.h"
#include "run/operation.h"

#define ITEM_PANELS 4 /* of the state of a head, in an item */

/* Where the gates of head h are in a row of gates: b there, a gate_heads further. */
static int64_t gate_col(const struct qn_delta *op, int64_t h)
{
	return h / op->gate_heads * 2 * op->gate_heads + h % op->gate_heads;
}

/* The columns of gates. */
static int gates_ok(const struct plan *p, const struct qn_delta *op)
{
	if (!op->by_channel)
		return op->limit == 0 && buf_ok(p, op->gates, gate_col(op, op->r.n_head - 1) + op->gate_heads + 1);
	return op->gate_heads >= op->r.n_head && op->r.n_head_kv == op->r.n_head &&
	       (op->limit == 0 || (op->limit < 0 && op->r.head_dim % QN_PANEL == 0)) &&
	       buf_ok(p, op->gates, op->gate_heads + (int64_t)op->r.n_head * op->r.head_dim);
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_delta *op = &o->delta;
	return op->bias && op->rate && recur_ok(&op->r) && recur_keys_ok(&op->r) && op->gate_heads > 0 &&
	       col_ok(p, op->r.src, op->r.col[0], (int64_t)op->r.n_head_kv * op->r.head_dim) &&
	       col_ok(p, op->r.src, op->r.col[1], (int64_t)op->r.n_head_kv * op->r.head_dim) &&
	       col_ok(p, op->r.src, op->r.col[2], (int64_t)op->r.n_head * op->r.v_dim) &&
	       buf_ok(p, op->r.dst, (int64_t)op->r.n_head * op->r.v_dim) && gates_ok(p, op);
}

/* Floats of a thread's decays and keys times these, for as many tokens as a kernel takes. */
static int64_t apart_floats(const struct qn_delta *op)
{
	return op->by_channel ? 2 * (int64_t)QN_DELTA_TOKENS * op->r.head_dim : 0;
}

static size_t scratch(const struct qn_op *o)
{
	const struct qn_delta *op = &o->delta;
	return sizeof(float) * (size_t)apart_floats(op);
}

/* The decays of the rows of head h, of which none is below e^limit, of numbers at g. */
static void bounded(const struct qn_delta *op, int64_t h, float *g)
{
	float least[QN_PANEL];

	for (int i = 0; i < QN_PANEL; i++)
		least[i] = op->limit;
	qn_kernels.scale_rows(g, g, op->rate[h], NULL, op->r.head_dim);
	qn_kernels.fn[QN_FN_SIGMOID](g, g, NULL, op->r.head_dim);
	qn_kernels.scan_decays(g, least, g, op->r.head_dim / QN_PANEL);
}

/* The decays of the rows of head h, and the keys times these, of the d->n tokens from t on. */
static void rows_apart(const struct run *c, const struct qn_delta *op, int64_t h, int64_t t, struct delta_rows *d)
{
	float *g = (float *)c->scratch, *gk = g + (int64_t)QN_DELTA_TOKENS * op->r.head_dim;

	d->g = g;
	d->gk = gk;
	d->g_stride = op->r.head_dim;
	for (int i = 0; i < d->n; i++, g += op->r.head_dim, gk += op->r.head_dim) {
		const float *a = buf_row(c, op->gates, t + i) + op->gate_heads + h * op->r.head_dim;
		const float *k = d->k + i * d->stride;

		for (int r = 0; r < op->r.head_dim; r++)
			g[r] = a[r] + op->bias[h * op->r.head_dim + r];
		if (op->limit < 0)
			bounded(op, h, g);
		else
			qn_kernels.delta_gates(g, gk, g, g, 0, op->rate[h], op->r.head_dim);
		for (int r = 0; r < op->r.head_dim; r++)
			gk[r] = g[r] * k[r];
	}
}

/* Panels at .. at + n of head h, tokens t0 .. t1 of a sequence. */
static void sequence(const struct run *c, const struct qn_op *o, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const struct qn_delta *op = &o->delta;
	const int64_t key = op->k_tiled ? h % op->r.n_head_kv : h / (op->r.n_head / op->r.n_head_kv);
	const int64_t gate = gate_col(op, h), col = h * op->r.v_dim + at * QN_PANEL;
	float a[QN_DELTA_TOKENS], b[QN_DELTA_TOKENS], decay[QN_DELTA_TOKENS], beta[QN_DELTA_TOKENS];
	struct delta_rows d = {
		.stride = c->bufs[op->r.src].width,
		.k_stride = c->bufs[op->r.src].width,
		.o_stride = c->bufs[op->r.dst].width,
		.decay = decay,
		.beta = beta,
		.dk = op->r.head_dim,
		.panels = n,
		.scale = op->scale,
	};

	d.after = recur_state(c, &op->r, h, at, n, t0, &d.before);
	for (int64_t t = t0; t < t1; t += d.n, d.before = d.after) {
		const float *row = buf_row(c, op->r.src, t);

		d.n = (int)(t1 - t < QN_DELTA_TOKENS ? t1 - t : QN_DELTA_TOKENS);
		for (int i = 0; i < d.n; i++) {
			const float *g = buf_row(c, op->gates, t + i) + gate;

			b[i] = g[0];
			a[i] = op->by_channel ? 0 : g[op->gate_heads];
		}
		qn_kernels.delta_gates(decay, beta, a, b, op->by_channel ? 0 : op->bias[h], op->rate[h], d.n);
		d.q = row + op->r.col[0] + key * op->r.head_dim;
		d.k = row + op->r.col[1] + key * op->r.head_dim;
		if (op->by_channel)
			rows_apart(c, op, h, t, &d);
		d.v = row + op->r.col[2] + col;
		d.o = buf_row(c, op->r.dst, t) + col;
		qn_kernels.delta(&d);
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	recur_run(c, o, &o->delta.r, ITEM_PANELS, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	return recur_moves(c, &o->delta.r, 3);
}

const struct operation op_delta = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run,
};
