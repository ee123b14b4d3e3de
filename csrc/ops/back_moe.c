/* back_moe.c - the reverse of experts: gradients of a router's logits, of what experts return, and of their input. */
#include <math.h>
#include <string.h>

#include "math/exp.h"
#include "ops/route.h"
#include "run/operation.h"

static int route_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_route *op = &o->back_route;

	return experts_ok(p, &o->routing) && op->route.n_same == 0 && op->route.gating >= QN_GATE_SOFTMAX &&
	       op->route.gating <= QN_GATE_SQRT_SOFTPLUS && buf_ok(p, op->route.src, o->routing.n_expert) &&
	       buf_ok(p, op->d_weight, o->routing.n_used) && buf_ok(p, op->dst, o->routing.n_expert);
}

/* QN_GATE_MIXER: the shares of n logits in choice k, whose own is its weight. */
static float mixer_shares(float *share, const float *logits, int n, const int32_t *expert, int k)
{
	const float m = logits[expert[k]];
	float sum = 0;

	for (int e = 0; e < n; e++) {
		const float size = fabsf(logits[e]) > m ? fabsf(logits[e]) : m;
		int left = 1;

		for (int j = 0; j < k; j++)
			left &= expert[j] != e;
		share[e] = left && !(m - logits[e] > 0.02f * size) ? qexp(logits[e] - m) : 0;
		sum += share[e];
	}
	for (int e = 0; e < n; e++)
		share[e] /= sum;
	return share[expert[k]];
}

/* What the weights of the chosen are before they are divided by their sum. */
static void chosen_worths(const struct qn_moe_route *op, int n, const float *logits, const float *worth,
                          const int32_t *expert, int used, float *v)
{
	float max = -INFINITY, sum = 0, share[QN_EXPERTS_MAX];

	for (int k = 0; k < used; k++) {
		v[k] = op->gating == QN_GATE_MIXER ? mixer_shares(share, logits, n, expert, k) : worth[expert[k]];
		max = v[k] > max ? v[k] : max;
	}
	if (op->gating != QN_GATE_CHOSEN)
		return;
	for (int k = 0; k < used; k++)
		sum += v[k] = qexp(v[k] - max);
	for (int k = 0; k < used; k++)
		v[k] /= sum;
}

static void route_row(const struct qn_op *o, const float *logits, const int32_t *expert, const float *dw, float *y)
{
	const struct qn_moe_route *op = &o->back_route.route;
	const int n = o->routing.n_expert, used = o->routing.n_used;
	float worth[QN_EXPERTS_MAX + QN_PANEL], share[QN_EXPERTS_MAX], v[QN_USED_MAX], d[QN_USED_MAX];
	float sum = 0, along = 0;

	route_worths(op, n, worth, logits);
	chosen_worths(op, n, logits, worth, expert, used, v);
	for (int k = 0; k < used; k++) {
		d[k] = op->scale * dw[k];
		sum += v[k];
		along += d[k] * v[k];
	}
	if (op->norm_weights) { /* v / sum */
		sum = sum < 1e-20f ? 1e-20f : sum;
		for (int k = 0; k < used; k++)
			d[k] = (d[k] - along / sum) / sum;
		along = 0;
		for (int k = 0; k < used; k++)
			along += d[k] * v[k];
	}
	for (int e = 0; e < n; e++)
		y[e] = op->gating == QN_GATE_SOFTMAX ? -worth[e] * along : 0;
	for (int k = 0; k < used; k++) {
		const float w = v[k];
		float s, *at = y + expert[k];

		switch (op->gating) {
		case QN_GATE_SOFTMAX:
			*at += w * d[k];
			break;
		case QN_GATE_SIGMOID:
			*at += w * (1 - w) * d[k];
			break;
		case QN_GATE_CHOSEN:
			*at += w * (d[k] - along);
			break;
		case QN_GATE_MIXER:
			mixer_shares(share, logits, n, expert, k);
			qn_kernels.add_scaled(y, share, -w * d[k], n);
			*at += w * d[k];
			break;
		default: /* the derivative of softplus is the sigmoid */
			qn_kernels.fn[QN_FN_SIGMOID](&s, logits + expert[k], NULL, 1);
			*at += w > 0 ? s / (2 * w) * d[k] : 0;
		}
	}
}

static void route_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_route *op = &o->back_route;
	const struct route r = route_of(c->bufs, &o->routing, c->batch->n_tok);
	struct deal d = deal_begin(c->pool, c->ith, c->batch->n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0)
		route_row(o, buf_row(c, op->route.src, t), r.expert + t * o->routing.n_used,
		          buf_row(c, op->d_weight, t), buf_row(c, op->dst, t));
}

const struct operation op_back_route = {
	.check = route_check, .counters = 1, .routing = ROUTING_READS, .run = route_run,
};

static int combine_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_combine *op = &o->back_combine;

	return experts_ok(p, &o->routing) && op->n_col > 0 && buf_ok(p, op->dst, op->n_col) &&
	       buf_ok(p, op->dy, op->n_col) &&
	       (op->weighed || (buf_ok(p, op->x, op->n_col) && buf_ok(p, op->d_weight, o->routing.n_used)));
}

/* The sum of products of two rows, of blocks in order. */
static float along(const float *x, const float *y, int64_t n)
{
	float sum = 0;

	for (int64_t at = 0; at < n; at += QN_ACT_BLOCK)
		sum += qn_kernels.dot(x + at, y + at, n - at < QN_ACT_BLOCK ? n - at : QN_ACT_BLOCK);
	return sum;
}

static void combine_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_combine *op = &o->back_combine;
	const struct route r = route_of(c->bufs, &o->routing, c->batch->n_tok);
	const int used = o->routing.n_used;
	struct deal d = deal_begin(c->pool, c->ith, (int64_t)c->batch->n_tok * used);
	int64_t i;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const float *dy = buf_row(c, op->dy, i / used);
		float *y = buf_row(c, op->dst, r.pair[i]);

		if (op->weighed) {
			memcpy(y, dy, sizeof *y * (size_t)op->n_col);
			continue;
		}
		buf_row(c, op->d_weight, i / used)[i % used] = along(dy, buf_row(c, op->x, r.pair[i]), op->n_col);
		qn_kernels.scale_rows(y, dy, r.weight[i], NULL, op->n_col);
	}
}

const struct operation op_back_combine = {
	.check = combine_check, .counters = 1, .routing = ROUTING_READS, .run = combine_run,
};

static int pairs_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_back_pairs *op = &o->back_pairs;

	return experts_ok(p, &o->routing) && op->n_col > 0 && buf_ok(p, op->dy, op->n_col) &&
	       cols_ok(p, op->dst, op->n_col) &&
	       (!op->weigh || (buf_ok(p, op->x, op->n_col) && buf_ok(p, op->d_weight, o->routing.n_used)));
}

static void pairs_run(struct run *c, const struct qn_op *o)
{
	const struct qn_back_pairs *op = &o->back_pairs;
	const int64_t n_tok = c->batch->n_tok;
	const struct route r = route_of(c->bufs, &o->routing, n_tok);
	struct deal d = deal_begin(c->pool, c->ith, n_tok);
	int64_t t;

	while ((t = deal_next(c->pool, c->step, &d)) >= 0) {
		float *y = cols_row(c, op->dst, t);

		if (!op->add)
			memset(y, 0, sizeof *y * (size_t)op->n_col);
		for (int k = 0; k < o->routing.n_used; k++) {
			const int64_t i = t * o->routing.n_used + k;
			const float *dy = buf_row(c, op->dy, r.pair[i]);
			float sum = 0;

			qn_kernels.add_scaled(y, dy, op->weigh ? r.weight[i] : 1, op->n_col);
			for (int64_t at = 0; at < op->n_col && op->weigh; at += QN_ACT_BLOCK) {
				const int64_t left = op->n_col - at;
				const struct actf *x = act_block(c, op->x, QN_ACT_F32, at / QN_ACT_BLOCK * n_tok + t);

				sum += qn_kernels.dot(x->x, dy + at, left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK);
			}
			if (op->weigh)
				buf_row(c, op->d_weight, t)[k] = sum;
		}
	}
}

const struct operation op_back_pairs = {
	.check = pairs_check, .counters = 1, .routing = ROUTING_READS, .run = pairs_run,
};
