/* scan.c - selective state spaces over the positions of a sequence: see scalar/scan.c for what a step computes. */
#include "ops/recurrence.h"
#include "run/operation.h"

#define ITEM_PANELS 4     /* of the state of a head, in an item */
#define DECAYS_MAX  4096  /* by channel: what one call of the kernel has, in the first-level cache beside a panel */
#define ROWS_MAX    (DECAYS_MAX / QN_PANEL)

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_scan *op = &o->scan;
	const int64_t width = (int64_t)op->r.n_head * op->r.v_dim;

	return op->bias && op->rate && op->skip && op->step_min >= 0 &&
	       (op->step_max == 0 || op->step_max >= op->step_min) && recur_ok(&op->r) && recur_keys_ok(&op->r) &&
	       (!op->by_channel || op->r.head_dim <= ROWS_MAX) && col_ok(p, op->r.src, op->r.col[0], width) &&
	       col_ok(p, op->r.src, op->r.col[1], (int64_t)op->r.n_head_kv * op->r.head_dim) &&
	       col_ok(p, op->r.src, op->r.col[2], (int64_t)op->r.n_head_kv * op->r.head_dim) &&
	       cols_ok(p, op->step, op->by_channel ? width : op->r.n_head) && buf_ok(p, op->r.dst, width);
}

/* The steps dt = softplus(dt), within their limits. */
static void limited(const struct qn_scan *op, float *dt, int n)
{
	qn_kernels.softplus(dt, dt, n);
	if (op->step_min > 0)
		for (int i = 0; i < n; i++)
			dt[i] = dt[i] < op->step_min ? op->step_min : dt[i];
	if (op->step_max > 0)
		for (int i = 0; i < n; i++)
			dt[i] = dt[i] > op->step_max ? op->step_max : dt[i];
}

/* Tokens t .. t + s->n of head h: a step for all of its columns. */
static void by_head(const struct run *c, const struct qn_scan *op, struct scan_rows *s, int64_t h, int64_t t)
{
	float dt[QN_SCAN_TOKENS] = {0}, decay[QN_SCAN_TOKENS], rate[QN_PANEL], d[ITEM_PANELS * QN_PANEL];

	for (int i = 0; i < s->n; i++)
		dt[i] = cols_row(c, op->step, t + i)[h] + op->bias[h];
	for (int j = 0; j < QN_PANEL; j++)
		rate[j] = op->rate[h];
	for (int j = 0; j < s->panels * QN_PANEL; j++)
		d[j] = op->skip[h];
	limited(op, dt, s->n);
	for (int i = 0; i < s->n; i += QN_PANEL)
		qn_kernels.scan_decays(decay + i, dt + i, rate, 1);
	s->dt = dt;
	s->decay = decay;
	s->d = d;
	qn_kernels.scan(s);
}

/* Tokens t .. t + s->n of the panel that begins with channel ch: a step for each channel, a decay for each row too. */
static void by_channel(const struct run *c, const struct qn_scan *op, struct scan_rows *s, int64_t ch, int64_t t)
{
	const int64_t panel = (int64_t)s->n_state * QN_PANEL;
	float dt[QN_SCAN_TOKENS * QN_PANEL] = {0}, decay[DECAYS_MAX];

	for (int i = 0; i < s->n; i++)
		for (int j = 0; j < QN_PANEL; j++)
			dt[i * QN_PANEL + j] = cols_row(c, op->step, t + i)[ch + j] + op->bias[ch + j];
	limited(op, dt, s->n * QN_PANEL);
	for (int i = 0; i < s->n; i++)
		qn_kernels.scan_decays(decay + i * panel, dt + i * QN_PANEL, op->rate + ch * s->n_state, s->n_state);
	s->dt = dt;
	s->decay = decay;
	s->d = op->skip + ch;
	qn_kernels.scan(s);
}

/* Panels at .. at + n of head h, tokens t0 .. t1 of a sequence; by channel: one panel. */
static void sequence(const struct run *c, const struct qn_op *o, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const struct qn_scan *op = &o->scan;
	const int64_t group = h / (op->r.n_head / op->r.n_head_kv), ch = h * op->r.v_dim + at * QN_PANEL;
	const int64_t panel = (int64_t)op->r.head_dim * QN_PANEL;
	const int64_t fit = op->by_channel ? DECAYS_MAX / panel : QN_SCAN_TOKENS;
	const int64_t most = fit < QN_SCAN_TOKENS ? fit : QN_SCAN_TOKENS;
	struct scan_rows s = {
		.stride = c->bufs[op->r.src].width,
		.o_stride = c->bufs[op->r.dst].width,
		.n_state = op->r.head_dim,
		.panels = n,
		.by_channel = op->by_channel,
	};

	s.after = recur_state(c, &op->r, h, at, n, t0, &s.before);
	for (int64_t t = t0; t < t1; t += s.n, s.before = s.after) {
		const float *row = buf_row(c, op->r.src, t);

		s.n = (int)(t1 - t < most ? t1 - t : most);
		s.x = row + op->r.col[0] + ch;
		s.b = row + op->r.col[1] + group * op->r.head_dim;
		s.c = row + op->r.col[2] + group * op->r.head_dim;
		s.o = buf_row(c, op->r.dst, t) + ch;
		if (op->by_channel)
			by_channel(c, op, &s, ch, t);
		else
			by_head(c, op, &s, h, t);
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	recur_run(c, o, &o->scan.r, o->scan.by_channel ? 1 : ITEM_PANELS, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	return recur_moves(c, &o->scan.r, 2);
}

const struct operation op_scan = {.check = check, .counters = 1, .moves = moves, .run = run};
