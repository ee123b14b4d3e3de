/*
 * decay.c - linear attention over the positions of a sequence, whose rows decay apart by what each token says
 * (Peng et al. 2024, "Eagle and Finch": RWKV 6; gated linear attention).
 */
#include "ops/recurrence.h"
#include "run/operation.h"

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_decay *op = &o->decay;
	const int64_t q = (int64_t)op->r.n_head * op->r.head_dim, k = (int64_t)op->r.n_head_kv * op->r.head_dim;

	return recur_ok(&op->r) && recur_keys_ok(&op->r) && op->r.head_dim % QN_PANEL == 0 &&
	       col_ok(p, op->r.src, op->r.col[0], q) && col_ok(p, op->r.src, op->r.col[1], k) &&
	       col_ok(p, op->r.src, op->r.col[2], (int64_t)op->r.n_head_kv * op->r.v_dim) && buf_ok(p, op->decays, q) &&
	       buf_ok(p, op->r.dst, (int64_t)op->r.n_head * op->r.v_dim);
}

/* What the rows of a state are given for a token: decays, and the key. */
struct rows {
	float *decay, *key;
	float *products; /* scratch */
};

static size_t scratch(const struct qn_op *o)
{
	const struct qn_decay *op = &o->decay;
	return sizeof(float) * 3 * (size_t)op->r.head_dim;
}

/* The rows of a head for a token with q, k and w of it; returns what its own value counts for in its result. */
static float token(const struct qn_decay *op, const float *q, const float *k, const float *w, const float *bonus,
                   struct rows r)
{
	static const float ones[QN_PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	static const float less[QN_PANEL] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
	const int64_t n = op->r.head_dim;

	qn_kernels.scan_decays(r.key, ones, w, n / QN_PANEL);
	qn_kernels.scan_decays(r.decay, less, r.key, n / QN_PANEL);
	for (int64_t i = 0; i < n; i++) {
		r.decay[i] += w[i] - w[i]; /* NaN where it is not finite: nonsense must not look like text */
		r.key[i] = bonus ? k[i] : k[i] * (1 - r.decay[i]);
		r.products[i] = bonus ? q[i] * k[i] * bonus[i] : 0;
	}
	return bonus ? qn_kernels.sum(r.products, n) : 0;
}

/*
 * One token in a panel of 16 columns of a state, with its v: the result, of the state before it or after it. Rows are
 * added in their order.
 */
static void panel(const struct qn_decay *op, float *after, const float *before, const float *q, struct rows r,
                  float own, const float *v, float *y)
{
	const int late = !op->bonus;
	float sum[QN_PANEL] = {0}, x[QN_PANEL], was[QN_PANEL], is[QN_PANEL];

	memcpy(x, v, sizeof x);
	for (int64_t i = 0; i < op->r.head_dim; i++) {
		memcpy(was, before + i * QN_PANEL, sizeof was);
		for (int j = 0; j < QN_PANEL; j++)
			is[j] = r.decay[i] * was[j] + r.key[i] * x[j];
		for (int j = 0; j < QN_PANEL; j++)
			sum[j] += q[i] * (late ? is[j] : was[j]);
		memcpy(after + i * QN_PANEL, is, sizeof is);
	}
	for (int j = 0; j < QN_PANEL; j++)
		y[j] = late ? op->scale * sum[j] : sum[j] + own * x[j];
}

/* Head h over tokens t0 .. t1 of a sequence. */
static void sequence(const struct run *c, const struct qn_op *o, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const struct qn_decay *op = &o->decay;
	const int64_t dk = op->r.head_dim, dv = op->r.v_dim, kv = h / (op->r.n_head / op->r.n_head_kv);
	float *room = (float *)c->scratch;
	const struct rows r = {room, room + dk, room + 2 * dk};
	const float *before;
	float *after = recur_state(c, &op->r, h, at, n, t0, &before);

	for (int64_t t = t0; t < t1; t++, before = after) {
		const float *src = buf_row(c, op->r.src, t), *q = src + op->r.col[0] + h * dk;
		const float *v = src + op->r.col[2] + kv * dv + at * QN_PANEL;
		float *y = buf_row(c, op->r.dst, t) + h * dv + at * QN_PANEL;
		const float own = token(op, q, src + op->r.col[1] + kv * dk, buf_row(c, op->decays, t) + h * dk,
		                        op->bonus ? op->bonus + h * dk : NULL, r);

		for (int64_t i = 0; i < n; i++, v += QN_PANEL, y += QN_PANEL)
			panel(op, after + i * dk * QN_PANEL, before + i * dk * QN_PANEL, q, r, own, v, y);
	}
}

/* Whole heads: what the rows of a state are given is computed once. */
static void run(struct run *c, const struct qn_op *o)
{
	recur_run(c, o, &o->decay.r, o->decay.r.v_dim / QN_PANEL, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	return recur_moves(c, &o->decay.r, 2);
}

const struct operation op_decay = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run,
};
