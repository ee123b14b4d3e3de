/*
 * wkv.c - the recurrence of RWKV 7 over the positions of a sequence: a delta rule (scalar/delta.c) that takes what a
 * key finds out of other rows than it puts a value into, and whose rows decay apart.
 */
#include <float.h>
#include <math.h>

#include "ops/recurrence.h"
#include "run/operation.h"

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_wkv *op = &o->wkv;
	const int64_t rows = (int64_t)op->r.n_head * op->r.head_dim, cols = (int64_t)op->r.n_head * op->r.v_dim;

	return op->direction && op->rate && op->bonus && recur_ok(&op->r) && op->r.head_dim % QN_PANEL == 0 &&
	       op->eps > 0 && col_ok(p, op->r.src, op->r.col[0], rows) && col_ok(p, op->r.src, op->r.col[1], rows) &&
	       col_ok(p, op->r.src, op->r.col[2], cols) &&
	       buf_ok(p, op->r.dst, 2 * cols) && buf_ok(p, op->gates, 2 * rows);
}

/* What the rows of a state are given for a token: decays, what is looked up, where that goes, and the key. */
struct rows {
	float *decay, *seen, *to, *key;
	float *products; /* scratch */
};

static size_t scratch(const struct qn_op *o)
{
	const struct qn_wkv *op = &o->wkv;
	return sizeof(float) * (4 * QN_DELTA_TOKENS + 1) * (size_t)op->r.head_dim;
}

/* The rows of head h for token t, and what its own value counts for in its result. */
static float token(const struct run *c, const struct qn_wkv *op, int64_t h, int64_t t, struct rows r)
{
	static const float loss[QN_PANEL] = { /* a row keeps e^(-1 / sqrt(e)) of itself or more */
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
	};
	const int64_t n = op->r.head_dim, at = h * n;
	const float *src = buf_row(c, op->r.src, t), *q = src + op->r.col[0] + at, *k = src + op->r.col[1] + at;
	const float *w = buf_row(c, op->gates, t) + at, *a = w + op->r.n_head * n;

	qn_kernels.fn[QN_FN_SIGMOID](r.key, w, NULL, n);
	qn_kernels.scan_decays(r.decay, loss, r.key, n / QN_PANEL);
	qn_kernels.scale_rows(r.seen, k, 1, op->direction + at, n);

	const float sum = qn_kernels.sumsq(r.seen, n), length = sqrtf(sum);

	/* where squares overflow, NaN, not 0: nonsense must not look like text */
	const float by = sum <= FLT_MAX ? -1 / (length < op->eps ? op->eps : length) : NAN;

	qn_kernels.scale_rows(r.seen, r.seen, by, NULL, n);
	qn_kernels.fn[QN_FN_SIGMOID](r.to, a, NULL, n);
	for (int64_t i = 0; i < n; i++) {
		r.key[i] = k[i] * (1 + (r.to[i] - 1) * op->rate[at + i]);
		r.to[i] *= -r.seen[i];
		r.products[i] = q[i] * r.key[i] * op->bonus[at + i];
	}
	return qn_kernels.sum(r.products, n);
}

/* Head h over tokens t0 .. t1 of a sequence. */
static void sequence(const struct run *c, const struct qn_op *o, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const struct qn_wkv *op = &o->wkv;
	const int64_t each = (int64_t)QN_DELTA_TOKENS * op->r.head_dim, col = h * op->r.v_dim;
	float *decay = (float *)c->scratch;
	struct delta_rows d = {
		.k = decay + 3 * each,
		.g = decay,
		.gk = decay + each,
		.to = decay + 2 * each,
		.stride = c->bufs[op->r.src].width,
		.o_stride = c->bufs[op->r.dst].width,
		.k_stride = op->r.head_dim,
		.g_stride = op->r.head_dim,
		.dk = op->r.head_dim,
		.panels = n,
		.scale = 1,
	};

	d.after = recur_state(c, &op->r, h, at, n, t0, &d.before);
	for (int64_t t = t0; t < t1; t += d.n, d.before = d.after) {
		d.n = (int)(t1 - t < QN_DELTA_TOKENS ? t1 - t : QN_DELTA_TOKENS);
		for (int i = 0; i < d.n; i++) {
			float *row = decay + (int64_t)i * op->r.head_dim;
			const float *v = buf_row(c, op->r.src, t + i) + op->r.col[2] + col;
			float *y = buf_row(c, op->r.dst, t + i) + op->r.n_head * (int64_t)op->r.v_dim + col;
			const float own = token(c, op, h, t + i, (struct rows){
				row, row + each, row + 2 * each, row + 3 * each, decay + 4 * each,
			});

			qn_kernels.scale_rows(y, v, own, NULL, op->r.v_dim);
		}
		d.q = buf_row(c, op->r.src, t) + op->r.col[0] + h * op->r.head_dim;
		d.v = buf_row(c, op->r.src, t) + op->r.col[2] + col;
		d.o = buf_row(c, op->r.dst, t) + col;
		qn_kernels.delta(&d);
	}
}

/* Whole heads: what the rows of a state are given is computed once. */
static void run(struct run *c, const struct qn_op *o)
{
	recur_run(c, o, &o->wkv.r, o->wkv.r.v_dim / QN_PANEL, sequence);
}

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	return recur_moves(c, &o->wkv.r, 4);
}

const struct operation op_wkv = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run,
};
