/* scan.c - selective state spaces over the positions of a sequence: see scalar/scan.c for what a step computes. */
#include "ops/recurrence.h"
#include "run/operation.h"

#define ITEM_PANELS 4     /* of the state of a head, in an item */
#define DECAYS_MAX  4096  /* by channel: what one call of the kernel has, in the first-level cache beside a panel */
#define ROWS_MAX    (DECAYS_MAX / QN_PANEL)

static int check(const struct plan *p, const struct qn_op *op)
{
	const int64_t width = (int64_t)op->n_head * op->v_dim;

	return op->vec && op->vec2 && op->mul[0] && op->n_head > 0 && op->n_head_kv > 0 &&
	       op->n_head % op->n_head_kv == 0 && op->head_dim > 0 && op->v_dim > 0 && op->v_dim % QN_PANEL == 0 &&
	       (!op->by_channel || op->head_dim <= ROWS_MAX) && op->group >= 0 && op->kv_offset >= 0 &&
	       op->kv_offset % 64 == 0 && col_ok(p, op->src, op->col[0], width) &&
	       col_ok(p, op->src, op->col[1], (int64_t)op->n_head_kv * op->head_dim) &&
	       col_ok(p, op->src, op->col[2], (int64_t)op->n_head_kv * op->head_dim) &&
	       col_ok(p, op->aux, op->col[3], op->by_channel ? width : op->n_head) && buf_ok(p, op->dst, width);
}

/* Tokens t .. t + s->n of head h: a step for all of its columns. */
static void by_head(const struct run *c, const struct qn_op *op, struct scan_rows *s, int64_t h, int64_t t)
{
	float dt[QN_SCAN_TOKENS] = {0}, decay[QN_SCAN_TOKENS], rate[QN_PANEL], d[ITEM_PANELS * QN_PANEL];

	for (int i = 0; i < s->n; i++)
		dt[i] = buf_row(c, op->aux, t + i)[op->col[3] + h] + op->vec[h];
	for (int j = 0; j < QN_PANEL; j++)
		rate[j] = op->vec2[h];
	for (int j = 0; j < s->panels * QN_PANEL; j++)
		d[j] = op->mul[0][h];
	qn_kernels.softplus(dt, dt, s->n);
	for (int i = 0; i < s->n; i += QN_PANEL)
		qn_kernels.scan_decays(decay + i, dt + i, rate, 1);
	s->dt = dt;
	s->decay = decay;
	s->d = d;
	qn_kernels.scan(s);
}

/* Tokens t .. t + s->n of the panel that begins with channel ch: a step for each channel, a decay for each row too. */
static void by_channel(const struct run *c, const struct qn_op *op, struct scan_rows *s, int64_t ch, int64_t t)
{
	const int64_t panel = (int64_t)s->n_state * QN_PANEL;
	float dt[QN_SCAN_TOKENS * QN_PANEL], decay[DECAYS_MAX];

	for (int i = 0; i < s->n; i++)
		for (int j = 0; j < QN_PANEL; j++)
			dt[i * QN_PANEL + j] = buf_row(c, op->aux, t + i)[op->col[3] + ch + j] + op->vec[ch + j];
	qn_kernels.softplus(dt, dt, s->n * QN_PANEL);
	for (int i = 0; i < s->n; i++)
		qn_kernels.scan_decays(decay + i * panel, dt + i * QN_PANEL, op->vec2 + ch * s->n_state, s->n_state);
	s->dt = dt;
	s->decay = decay;
	s->d = op->mul[0] + ch;
	qn_kernels.scan(s);
}

/* Panels at .. at + n of head h, tokens t0 .. t1 of a sequence; by channel: one panel. */
static void sequence(const struct run *c, const struct qn_op *op, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const int64_t group = h / (op->n_head / op->n_head_kv), ch = h * op->v_dim + at * QN_PANEL;
	const int64_t panel = (int64_t)op->head_dim * QN_PANEL;
	const int64_t fit = op->by_channel ? DECAYS_MAX / panel : QN_SCAN_TOKENS;
	const int64_t most = fit < QN_SCAN_TOKENS ? fit : QN_SCAN_TOKENS;
	struct scan_rows s = {
		.stride = c->bufs[op->src].width,
		.o_stride = c->bufs[op->dst].width,
		.n_state = op->head_dim,
		.panels = n,
		.by_channel = op->by_channel,
	};

	s.after = recur_state(c, op, h, at, n, t0, &s.before);
	for (int64_t t = t0; t < t1; t += s.n, s.before = s.after) {
		const float *row = buf_row(c, op->src, t);

		s.n = (int)(t1 - t < most ? t1 - t : most);
		s.x = row + op->col[0] + ch;
		s.b = row + op->col[1] + group * op->head_dim;
		s.c = row + op->col[2] + group * op->head_dim;
		s.o = buf_row(c, op->dst, t) + ch;
		if (op->by_channel)
			by_channel(c, op, &s, ch, t);
		else
			by_head(c, op, &s, h, t);
	}
}

static void run(struct run *c, const struct qn_op *op)
{
	recur_run(c, op, op->by_channel ? 1 : ITEM_PANELS, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	return recur_moves(c, op, 2);
}

const struct operation op_scan = {.check = check, .counters = 1, .moves = moves, .run = run};
