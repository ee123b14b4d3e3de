/*
 * check_back_moe.c - gradients through experts: against differences of the formulas in double, and the same for each
 * set and number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "math/fp16.h"
#include "ops/route.h"

enum { TOK = 37, EXPERTS = 6, USED = 3, PAIRS = TOK * USED, IN = 297, OUT = 40, COLS = 304, RANK = 3, N_BUFS_MOE = 10 };

/* Buffers: 0 router logits, 1 the routing, 2 to 7 rows of numbers, 8 and 9 activations. */
enum { LOGITS, ROUTE, ROWS, ACT_F32 = 8, ACT_BF16 };

static float rows[N_BUFS_MOE][PAIRS][COLS], was[N_BUFS_MOE][PAIRS][COLS], want[N_BUFS_MOE][PAIRS][COLS];
static float act[2 * PAIRS * QN_ACT_BLOCK];
static struct actb act_bf16[PAIRS];
static float a[EXPERTS * RANK * IN], b[EXPERTS * RANK * OUT], d_a[COUNT(a)], d_b[COUNT(b)];
static float want_a[COUNT(a)], want_b[COUNT(b)];
static float w[EXPERTS * OUT * IN];
static uint8_t route_bytes[4096];
static struct qn_pool *pools[2];

static struct route routing(void)
{
	const struct qn_buf bufs[] = {{0}, {route_bytes, 0}};

	return route_of(bufs, &(struct qn_routing){ROUTE, EXPERTS, USED}, TOK);
}

static void fill(void)
{
	float *x = (float *)was;

	for (int64_t i = 0; i < (int64_t)(sizeof was / sizeof *x); i++)
		x[i] = rnd_normal();
	for (int i = 0; i < COUNT(act); i++)
		act[i] = rnd_normal();
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < QN_ACT_BLOCK; k++)
			act_bf16[i].x[k] = k < OUT ? bf16_factor(bf16_of_f32(rnd_normal())) : 0;
	for (int i = 0; i < COUNT(a); i++)
		a[i] = rnd_normal();
	for (int i = 0; i < COUNT(b); i++)
		b[i] = rnd_normal();
	for (int i = 0; i < COUNT(w); i++)
		w[i] = f32_of_bf16(bf16_factor(bf16_of_f32(rnd_normal())));
}

/* The routing by op, and then op itself, or the routing alone. */
static void once(struct qn_pool *pool, const struct qn_op *route, const struct qn_op *op)
{
	static int32_t pos[TOK], seq[TOK], out[TOK], tok[TOK];
	const struct qn_batch batch = {
		.tok = tok, .pos = pos, .seq = seq, .out = out, .n_tok = TOK, .n_seq = 1, .n_out = 1,
	};
	const struct qn_op ops[] = {*route, op ? *op : *route};
	struct qn_buf bufs[N_BUFS_MOE];
	size_t bytes;

	for (int i = 0; i < N_BUFS_MOE; i++)
		bufs[i] = (struct qn_buf){rows[i], COLS};
	bufs[ROUTE].data = route_bytes;
	bufs[ACT_F32].data = act;
	bufs[ACT_BF16].data = act_bf16;
	memcpy(rows, was, sizeof rows);
	memset(d_a, 0xff, sizeof d_a);
	memset(d_b, 0xff, sizeof d_b);
	bytes = qn_plan_scratch(ops, 1 + (op != NULL), TOK) * (size_t)qn_pool_threads(pool);
	check_true(qn_plan_check(ops, 1 + (op != NULL), bufs, N_BUFS_MOE) == QN_OK, "refused");
	run_ops(pool, ops, 1 + (op != NULL), bufs, &batch, guard_alloc(bytes + 64), bytes, NULL);
}

static void everywhere(const struct qn_op *route, const struct qn_op *op, const char *what)
{
	EACH_SET(s)
		for (int i = 0; i < 2; i++) {
			check_at(s, "%s", what);
			qn_init(s->isa);
			once(pools[i], route, op);
			if (s == check_sets && i == 0) {
				memcpy(want, rows, sizeof want);
				memcpy(want_a, d_a, sizeof want_a);
				memcpy(want_b, d_b, sizeof want_b);
			}
			check_floats("rows", (const float *)rows, (const float *)want, (int64_t)sizeof rows / 4);
			check_floats("d_a", d_a, want_a, COUNT(d_a));
			check_floats("d_b", d_b, want_b, COUNT(d_b));
		}
	check_at(check_sets, "%s", what);
	qn_init(check_sets->isa);
	once(pools[0], route, op);
	guard_free_all();
}

static struct qn_op route_op(int gating, int norm, float scale)
{
	return (struct qn_op){
		.kind = QN_OP_MOE_ROUTE, .routing = {ROUTE, EXPERTS, USED},
		.moe_route = {.src = LOGITS, .gating = gating, .norm_weights = norm, .scale = scale},
	};
}

/* The sum of dw times the weights of the choices of a token. */
static double weights_of(const double *x, const struct qn_moe_route *op, const int32_t *expert, const float *dw)
{
	double v[USED], sum = 0, y = 0, all = 0, chosen = 0;

	for (int e = 0; e < EXPERTS; e++)
		all += exp(x[e]);
	for (int k = 0; k < USED; k++)
		chosen += exp(x[expert[k]]);
	for (int k = 0; k < USED; k++) {
		const double at = x[expert[k]];

		switch (op->gating) {
		case QN_GATE_SOFTMAX: v[k] = exp(at) / all; break;
		case QN_GATE_SIGMOID: v[k] = 1 / (1 + exp(-at)); break;
		case QN_GATE_CHOSEN: v[k] = exp(at) / chosen; break;
		case QN_GATE_SQRT_SOFTPLUS: v[k] = sqrt(log1p(exp(at))); break;
		default: /* logits of the checks are so near to each other that all that are left count */
			v[k] = 0;
			for (int e = 0; e < EXPERTS; e++) {
				int left = 1;

				for (int j = 0; j < k; j++)
					left &= expert[j] != e;
				v[k] += left ? exp(x[e] - at) : 0;
			}
			v[k] = 1 / v[k];
		}
		sum += v[k];
	}
	for (int k = 0; k < USED; k++)
		y += (double)dw[k] * (double)op->scale * v[k] / (op->norm_weights ? sum : 1);
	return y;
}

static void routes(void)
{
	for (int way = 0; way < 10; way++) {
		const struct qn_op route = route_op(way / 2, way % 2, 1.5f);
		struct qn_op op = {
			.kind = QN_OP_BACK_ROUTE, .routing = route.routing,
			.back_route = {route.moe_route, ROWS, ROWS + 1},
		};

		fill();
		for (int t = 0; t < TOK && way / 2 == QN_GATE_MIXER; t++)
			for (int e = 0; e < EXPERTS; e++)
				was[LOGITS][t][e] = 5 + 0.01f * was[LOGITS][t][e];
		everywhere(&route, &op, "gradients of a router");
		for (int t = 0; t < TOK; t++) {
			const int32_t *expert = routing().expert + (ptrdiff_t)t * USED;
			double x[EXPERTS], up, down;

			for (int e = 0; e < EXPERTS; e++)
				x[e] = (double)was[LOGITS][t][e];
			for (int e = 0; e < EXPERTS; e++) {
				x[e] += 1e-5;
				up = weights_of(x, &route.moe_route, expert, was[ROWS][t]);
				x[e] -= 2e-5;
				down = weights_of(x, &route.moe_route, expert, was[ROWS][t]);
				x[e] += 1e-5;
				check_near("logit", e, (double)rows[ROWS + 1][t][e], (up - down) / 2e-5, 1e-5);
			}
		}
	}
}

static double dot_of(const float *x, const float *y, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)x[i] * (double)y[i];
	return sum;
}

static void moves(void)
{
	const struct qn_op route = route_op(QN_GATE_SOFTMAX, 1, 1);

	for (int way = 0; way < 4; way++) {
		const int plain = way % 2, add = way / 2;
		struct qn_op combine = {
			.kind = QN_OP_BACK_COMBINE, .routing = route.routing,
			.back_combine = {ROWS, ROWS + 1, ROWS + 2, ROWS + 3, IN, plain},
		};
		struct qn_op pairs = {
			.kind = QN_OP_BACK_PAIRS, .routing = route.routing,
			.back_pairs = {{ROWS + 1, 0}, ROWS, ACT_F32, ROWS + 3, IN, add, !plain},
		};
		const struct route r = routing();

		fill();
		everywhere(&route, &combine, "gradients of what experts return");
		for (int i = 0; i < PAIRS; i++) {
			const double weight = plain ? 1 : (double)r.weight[i];
			const int p = r.pair[i];

			for (int k = 0; k < IN; k++)
				check_near("pair", k, (double)rows[ROWS + 1][p][k],
				           weight * (double)was[ROWS + 2][i / USED][k], 1e-6);
			if (!plain)
				check_near("weight", i, (double)rows[ROWS + 3][i / USED][i % USED],
				           dot_of(was[ROWS + 2][i / USED], was[ROWS][p], IN), 1e-4);
		}
		everywhere(&route, &pairs, "gradients of what experts take");
		for (int t = 0; t < TOK; t++) {
			for (int k = 0; k < IN; k++) {
				double sum = add ? (double)was[ROWS + 1][t][k] : 0;

				for (int i = t * USED; i < (t + 1) * USED; i++)
					sum += (plain ? 1 : (double)r.weight[i]) * (double)was[ROWS][r.pair[i]][k];
				check_near("token", k, (double)rows[ROWS + 1][t][k], sum, 1e-5);
			}
			for (int k = 0; k < USED && !plain; k++) {
				const float *dy = was[ROWS][r.pair[t * USED + k]];
				const float *x = act + (ptrdiff_t)t * QN_ACT_BLOCK;

				const float *rest = x + (ptrdiff_t)TOK * QN_ACT_BLOCK;

				check_near("weight", k, (double)rows[ROWS + 3][t][k],
				           dot_of(x, dy, QN_ACT_BLOCK) +
				                   dot_of(rest, dy + QN_ACT_BLOCK, IN - QN_ACT_BLOCK), 1e-4);
			}
		}
	}
}

/* The expert of a pair. */
static int expert_of(const struct route *r, int pair)
{
	int e = 0;

	while (r->offset[e + 1] <= pair)
		e++;
	return e;
}

/* Number j of the activations of a pair. */
static double input(int pair, int j)
{
	return (double)act[(j / QN_ACT_BLOCK * PAIRS + pair) * QN_ACT_BLOCK + j % QN_ACT_BLOCK];
}

static void products(void)
{
	const struct qn_op route = route_op(QN_GATE_SIGMOID, 0, 1);
	struct qn_op op = {.kind = QN_OP_BACK_X, .rows = QN_ROWS_PAIR, .routing = route.routing};
	const struct route r = routing();

	fill();
	for (int t = 0; t < TOK; t++)
		was[LOGITS][t][4] = -9; /* an expert without tokens */
	op.back_x = (struct qn_back_x){
		.mat = {.data = w, .type = QN_F32, .layout = QN_ROWS, .n_in = IN, .n_out = OUT, .n_mat = EXPERTS},
		.dst = {ROWS, 0}, .act = ACT_BF16, .scale = 0.5f,
	};
	everywhere(&route, &op, "gradients through matrices of experts");
	check_true(r.offset[4] == r.offset[5], "the expert has tokens");
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < IN; k += 7) {
			double sum = 0;

			for (int j = 0; j < OUT; j++)
				sum += 0.5 * (double)f32_of_bf16(act_bf16[i].x[j]) *
				       (double)w[(expert_of(&r, i) * OUT + j) * IN + k];
			check_near("dx", k, (double)rows[ROWS][i][k], sum, 1e-4);
		}
	op.kind = QN_OP_BACK_LOW;
	op.back_low = (struct qn_back_low){
		a, b, d_a, d_b, {ROWS, 0}, {ROWS + 1, 0}, ACT_F32, ROWS + 2, IN, OUT, RANK, 0.5f,
	};
	everywhere(&route, &op, "gradients of adapters of experts");
	for (int e = 0; e < EXPERTS; e++)
		for (int k = 0; k < RANK; k++) {
			for (int j = 0; j < OUT; j++) {
				double sum = 0;

				for (int i = r.offset[e]; i < r.offset[e + 1]; i++)
					sum += (double)was[ROWS][i][j] * (double)rows[ROWS + 2][i][k];
				check_near("d_b", j, (double)d_b[(e * OUT + j) * RANK + k], sum, 1e-3);
			}
			for (int j = 0; j < IN; j++) {
				double sum = 0;

				for (int i = r.offset[e]; i < r.offset[e + 1]; i++)
					sum += (double)rows[ROWS + 2][i][RANK + k] *
					       input(i, j);
				check_near("d_a", j, (double)d_a[(e * RANK + k) * IN + j], sum, 1e-3);
			}
		}
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < RANK; k++) {
			const int e = expert_of(&r, i);
			double h = 0, back = 0;

			for (int j = 0; j < IN; j++)
				h += input(i, j) *
				     (double)a[(e * RANK + k) * IN + j];
			for (int j = 0; j < OUT; j++)
				back += (double)was[ROWS][i][j] * (double)b[(e * OUT + j) * RANK + k];
			check_near("h", k, (double)rows[ROWS + 2][i][k], 0.5 * h, 1e-4);
			check_near("e", k, (double)rows[ROWS + 2][i][RANK + k], 0.5 * back, 1e-4);
		}
}

/* Gates of pairs, and numbers that multiply segments of a row. */
static void gates(void)
{
	enum { N = 20, SEGS = 4 };
	const struct qn_op route = route_op(QN_GATE_SIGMOID, 0, 1);

	for (int fn = QN_FN_NONE; fn < QN_N_FN; fn++) {
		struct qn_op op = {.kind = QN_OP_BACK_GATE, .rows = QN_ROWS_PAIR, .routing = route.routing};

		if (fn == QN_FN_SWIGLU_CLAMP)
			continue;
		fill();
		op.back_gate = (struct qn_back_gate){
			{ROWS, 0}, {ROWS + 1, 0}, {ROWS + 2, 0}, {ROWS + 3, 0}, {ROWS + 4, 0}, N, SEGS, 1, fn,
		};
		everywhere(&route, &op, "gates of segments");
		for (int i = 0; i < PAIRS; i++)
			for (int s = 0; s < SEGS; s++) {
				float g = was[ROWS][i][s], slope = 1, value = g;
				double sum = 0;

				if (fn != QN_FN_NONE) {
					qn_kernels.fn[fn](&value, &g, NULL, 1);
					qn_kernels.derivative[fn](&slope, &g, NULL, 1);
				}
				for (int k = s * N; k < (s + 1) * N; k++) {
					sum += (double)slope * (double)was[ROWS + 1][i][k] *
					       (double)was[ROWS + 2][i][k];
					check_near("du", k, (double)rows[ROWS + 4][i][k],
					           (double)value * (double)was[ROWS + 2][i][k], 1e-6);
				}
				check_near("dg", s, (double)rows[ROWS + 3][i][s], sum, 1e-4);
			}
	}
}

static void xielu(void)
{
	const struct qn_op route = route_op(QN_GATE_SIGMOID, 0, 1);
	struct qn_op op = {.kind = QN_OP_BACK_XIELU};

	fill();
	op.back_xielu = (struct qn_back_xielu){{{ROWS + 1, 0}, IN, {0.7f, 1.3f, 0.5f, -1e-6f}}, {ROWS, 0}};
	everywhere(&route, &op, "gradients of xIELU");
	for (int t = 0; t < TOK; t++)
		for (int k = 0; k < IN; k++) {
			const double x = (double)was[ROWS][t][k];
			const double slope = x > 0 ? 2 * (double)0.7f * x + 0.5 : (exp(x) - 1) * (double)1.3f + 0.5;

			check_near("dx", k, (double)rows[ROWS + 1][t][k], slope * (double)was[ROWS + 1][t][k], 1e-5);
		}
}

void check_back_moe(void)
{
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	check_true(qn_route_bytes(TOK, EXPERTS, USED) <= sizeof route_bytes, "a routing has room");
	routes();
	moves();
	products();
	gates();
	xielu();
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
