/* scan.c - selective state spaces over the positions of a sequence: see scalar/scan.c for what a step computes. */
#include <string.h>

#include "ops.h"

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
	const int64_t panel = (int64_t)op->head_dim * QN_PANEL, state = ch * op->head_dim;
	const int64_t fit = op->by_channel ? DECAYS_MAX / panel : QN_SCAN_TOKENS;
	const int64_t most = fit < QN_SCAN_TOKENS ? fit : QN_SCAN_TOKENS;
	const float *before = batch_state(c->batch, op, t0, 0);
	struct scan_rows s = {
		.stride = c->bufs[op->src].width,
		.o_stride = c->bufs[op->dst].width,
		.after = batch_state(c->batch, op, t0, 1) + state,
		.n_state = op->head_dim,
		.panels = n,
		.by_channel = op->by_channel,
	};

	s.before = s.after;
	if (before)
		s.before = before + state;
	else
		memset(s.after, 0, sizeof *s.after * (size_t)(n * panel));
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
	const struct qn_batch *b = c->batch;
	const int each = op->by_channel ? 1 : ITEM_PANELS;
	const int64_t panels = op->v_dim / QN_PANEL, parts = (panels + each - 1) / each;
	struct deal d = deal_begin(c->ith, c->nth, op->n_head * parts);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = item % parts * each, left = panels - at;

		for (int64_t t0 = 0, t1; t0 < b->n_tok; t0 = t1) {
			t1 = batch_run(b, t0);
			sequence(c, op, item / parts, at, (int)(left < each ? left : each), t0, t1);
		}
	}
}

/* The state is read and written once a pass, however many tokens there are. */
static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	const int64_t state = (int64_t)op->n_head * op->head_dim * op->v_dim;
	int64_t runs = 0;

	for (int64_t t = 0; t < c->batch->n_tok; t = batch_run(c->batch, t))
		runs++;
	return (struct qn_ticks_op){2 * runs * state * (int64_t)sizeof(float), 2 * c->batch->n_tok * state};
}

const struct operation op_scan = {.check = check, .counters = 1, .moves = moves, .run = run};
