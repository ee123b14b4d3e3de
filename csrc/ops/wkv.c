/*
 * wkv.c - the recurrence of RWKV 7 over the positions of a sequence: a delta rule (scalar/delta.c) that takes what a
 * key finds out of other rows than it puts a value into, and whose rows decay apart.
 */
#include <float.h>
#include <math.h>

#include "ops/recurrence.h"
#include "run/operation.h"

static int check(const struct plan *p, const struct qn_op *op)
{
	const int64_t rows = (int64_t)op->n_head * op->head_dim, cols = (int64_t)op->n_head * op->v_dim;

	return op->vec && op->vec2 && op->mul[0] && op->n_head > 0 && op->head_dim > 0 &&
	       op->head_dim % QN_PANEL == 0 && op->v_dim > 0 && op->v_dim % QN_PANEL == 0 && op->group >= 0 &&
	       op->kv_offset >= 0 && op->kv_offset % 64 == 0 && op->eps > 0 && col_ok(p, op->src, op->col[0], rows) &&
	       col_ok(p, op->src, op->col[1], rows) && col_ok(p, op->src, op->col[2], cols) &&
	       buf_ok(p, op->dst, 2 * cols) && buf_ok(p, op->aux, 2 * rows);
}

/* What the rows of a state are given for a token: decays, what is looked up, where that goes, and the key. */
struct rows {
	float *decay, *seen, *to, *key;
	float *products; /* scratch */
};

static size_t scratch(const struct qn_op *op)
{
	return sizeof(float) * (4 * QN_DELTA_TOKENS + 1) * (size_t)op->head_dim;
}

/* The rows of head h for token t, and what its own value counts for in its result. */
static float token(const struct run *c, const struct qn_op *op, int64_t h, int64_t t, struct rows r)
{
	static const float loss[QN_PANEL] = { /* a row keeps e^(-1 / sqrt(e)) of itself or more */
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
		-0.60653066f, -0.60653066f, -0.60653066f, -0.60653066f,
	};
	const int64_t n = op->head_dim, at = h * n;
	const float *src = buf_row(c, op->src, t), *q = src + op->col[0] + at, *k = src + op->col[1] + at;
	const float *w = buf_row(c, op->aux, t) + at, *a = w + op->n_head * n;

	qn_kernels.fn[QN_FN_SIGMOID](r.key, w, NULL, n);
	qn_kernels.scan_decays(r.decay, loss, r.key, n / QN_PANEL);
	qn_kernels.scale_rows(r.seen, k, 1, op->vec + at, n);

	const float sum = qn_kernels.sumsq(r.seen, n), length = sqrtf(sum);

	/* where squares overflow, NaN, not 0: nonsense must not look like text */
	const float by = sum <= FLT_MAX ? -1 / (length < op->eps ? op->eps : length) : NAN;

	qn_kernels.scale_rows(r.seen, r.seen, by, NULL, n);
	qn_kernels.fn[QN_FN_SIGMOID](r.to, a, NULL, n);
	for (int64_t i = 0; i < n; i++) {
		r.key[i] = k[i] * (1 + (r.to[i] - 1) * op->vec2[at + i]);
		r.to[i] *= -r.seen[i];
		r.products[i] = q[i] * r.key[i] * op->mul[0][at + i];
	}
	return qn_kernels.sum(r.products, n);
}

/* Head h over tokens t0 .. t1 of a sequence. */
static void sequence(const struct run *c, const struct qn_op *op, int64_t h, int64_t at, int n, int64_t t0, int64_t t1)
{
	const int64_t each = (int64_t)QN_DELTA_TOKENS * op->head_dim, col = h * op->v_dim;
	float *decay = (float *)c->scratch;
	struct delta_rows d = {
		.k = decay + 3 * each,
		.g = decay,
		.gk = decay + each,
		.to = decay + 2 * each,
		.stride = c->bufs[op->src].width,
		.o_stride = c->bufs[op->dst].width,
		.k_stride = op->head_dim,
		.g_stride = op->head_dim,
		.dk = op->head_dim,
		.panels = n,
		.scale = 1,
	};

	d.after = recur_state(c, op, h, at, n, t0, &d.before);
	for (int64_t t = t0; t < t1; t += d.n, d.before = d.after) {
		d.n = (int)(t1 - t < QN_DELTA_TOKENS ? t1 - t : QN_DELTA_TOKENS);
		for (int i = 0; i < d.n; i++) {
			float *row = decay + (int64_t)i * op->head_dim;
			const float *v = buf_row(c, op->src, t + i) + op->col[2] + col;
			float *o = buf_row(c, op->dst, t + i) + op->n_head * (int64_t)op->v_dim + col;
			const float own = token(c, op, h, t + i, (struct rows){
				row, row + each, row + 2 * each, row + 3 * each, decay + 4 * each,
			});

			qn_kernels.scale_rows(o, v, own, NULL, op->v_dim);
		}
		d.q = buf_row(c, op->src, t) + op->col[0] + h * op->head_dim;
		d.v = buf_row(c, op->src, t) + op->col[2] + col;
		d.o = buf_row(c, op->dst, t) + col;
		qn_kernels.delta(&d);
	}
}

/* Whole heads: what the rows of a state are given is computed once. */
static void run(struct run *c, const struct qn_op *op) { recur_run(c, op, op->v_dim / QN_PANEL, sequence); }

static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	return recur_moves(c, op, 4);
}

const struct operation op_wkv = {
	.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run,
};
