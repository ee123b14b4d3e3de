/*
 * check_back.c - training: gradients against differences of the formulas in double, products and steps against theirs,
 * and all of it the same for each set and number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "math/fp16.h"

enum { TOK = 91, FIRST = 70, COLS = 304, N_BUFS_BACK = 8, HEADS = 4, KV_HEADS = 2, DIM = 24, STATS = 16 };

/* Rows of random numbers, which runs of an operation begin with. */
static float rows[N_BUFS_BACK][TOK][COLS], was[N_BUFS_BACK][TOK][COLS], want[N_BUFS_BACK][TOK][COLS];
static float d_a[20 * COLS], d_b[20 * COLS], want_a[20 * COLS], want_b[20 * COLS];
static struct qn_pool *pools[2];

/* Two sequences, of FIRST tokens and the rest. */
static struct qn_batch batch_of(void)
{
	static int32_t pos[TOK], seq[TOK], out[TOK / 3];

	for (int t = 0; t < TOK; t++) {
		pos[t] = t < FIRST ? t : t - FIRST;
		seq[t] = t >= FIRST;
	}
	for (int i = 0; i < TOK / 3; i++)
		out[i] = 3 * i + 1;
	return (struct qn_batch){.pos = pos, .seq = seq, .out = out, .n_tok = TOK, .n_seq = 2, .n_out = TOK / 3};
}

static void once(struct qn_pool *pool, const struct qn_op *op)
{
	const struct qn_batch batch = batch_of();
	const size_t each = qn_plan_scratch(op, 1, TOK), bytes = each * (size_t)qn_pool_threads(pool);
	struct qn_buf bufs[N_BUFS_BACK];

	for (int i = 0; i < N_BUFS_BACK; i++)
		bufs[i] = (struct qn_buf){rows[i], COLS};
	memcpy(rows, was, sizeof rows);
	memset(d_a, 0xff, sizeof d_a);
	memset(d_b, 0xff, sizeof d_b);
	check_true(qn_plan_check(op, 1, bufs, N_BUFS_BACK) == QN_OK, "refused");
	run_ops(pool, op, 1, bufs, &batch, guard_alloc(bytes + 64), bytes, NULL);
}

/* Leaves what the scalar set makes of op in rows, and compares with it what others make. */
static void everywhere(const struct qn_op *op, const char *what)
{
	check_at(check_sets, "%s", what);
	qn_init(check_sets->isa);
	once(pools[0], op);
	memcpy(want, rows, sizeof rows);
	memcpy(want_a, d_a, sizeof d_a);
	memcpy(want_b, d_b, sizeof d_b);
	EACH_SET(s)
		for (int i = 0; i < 2; i++) {
			check_at(s, "%s", what);
			qn_init(s->isa);
			once(pools[i], op);
			check_floats("rows", (const float *)rows, (const float *)want,
			             (int64_t)N_BUFS_BACK * TOK * COLS);
			check_floats("d_a", d_a, want_a, COUNT(d_a));
			check_floats("d_b", d_b, want_b, COUNT(d_b));
		}
	check_at(check_sets, "%s", what);
	qn_init(check_sets->isa);
	once(pools[0], op);
	guard_free_all();
}

static void fill(void)
{
	float *x = (float *)was;

	for (int64_t i = 0; i < (int64_t)N_BUFS_BACK * TOK * COLS; i++)
		x[i] = rnd_normal();
}

/* The derivative at x[i] of f, a function of some numbers in double. */
static double derivative_at(double (*f)(const double *x, const void *by), double *x, int64_t i, const void *by)
{
	const double h = 1e-5, at = x[i];
	double up, down;

	x[i] = at + h;
	up = f(x, by);
	x[i] = at - h;
	down = f(x, by);
	x[i] = at;
	return (up - down) / (2 * h);
}

/* ------------------------------------------------------------------ rows */

static void losses(void)
{
	enum { N = 299 };
	static int32_t target[TOK];
	static float weight[TOK];
	struct qn_op op = {.kind = QN_OP_LOSS, .rows = QN_ROWS_OUT};

	fill();
	for (int t = 0; t < TOK; t++) {
		target[t] = rnd_below(N);
		weight[t] = t % 4 ? rnd_uniform() + 1 : 0;
	}
	for (int capped = 0; capped < 2; capped++) {
		op.loss = (struct qn_loss){target, weight, 0, 1, N, capped ? 5 : 0};
		everywhere(&op, capped ? "loss of capped logits" : "loss");
		for (int i = 0; i < TOK / 3; i++) {
			const int t = 3 * i + 1, k = target[t];
			const double w = (double)weight[t];
			double sum = 0;

			for (int j = 0; j < N; j++)
				sum += exp((double)was[0][i][j]);
			check_near("loss", i, (double)rows[1][i][0], w * (log(sum) - (double)was[0][i][k]), 1e-5);
			for (int j = 0; j < N; j++) {
				const double x = (double)was[0][i][j], by = capped ? 1 - x * x / 25 : 1;

				check_near("gradient", j, (double)rows[0][i][j],
				           w * (exp(x) / sum - (j == k)) * by, 1e-6);
			}
		}
	}
}

struct norm_by {
	const float *dy, *w;
	int kind, n;
	double eps, scale;
};

static double norm_of_row(const double *x, const void *of)
{
	const struct norm_by *by = of;
	double mean = 0, sum = 0, size = 1, y = 0;

	for (int i = 0; i < by->n && by->kind == QN_NORM_LAYER; i++)
		mean += x[i] / by->n;
	for (int i = 0; i < by->n; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	if (by->kind != QN_NORM_NONE)
		size = sqrt(sum / by->n + by->eps);
	for (int i = 0; i < by->n; i++)
		y += (double)by->dy[i] * by->scale * (x[i] - mean) / size * (by->w ? (double)by->w[i] : 1);
	return y;
}

static void norms(void)
{
	enum { N = 297 / 3, SEGS = 3 };
	static float w[N * SEGS];
	struct qn_op op = {.kind = QN_OP_BACK_NORM};

	fill();
	for (int i = 0; i < N * SEGS; i++)
		w[i] = rnd_normal();
	for (int way = 0; way < 12; way++) {
		const int kind = way % 3, segs = way % 2 ? SEGS : 1, n = way % 2 ? N : N * SEGS;

		op.rows = way % 4 == 3 ? QN_ROWS_OUT : QN_ROWS_TOK;
		op.back_norm = (struct qn_back_norm){
			.norm = {.weight = way < 9 ? w : NULL, .kind = kind, .eps = 1e-3f}, .x = {0, 0}, .dy = {1, 0},
			.dst = {way % 5 == 4 ? 1 : 2, 0}, .n_col = n, .n_seg = segs, .seg_weights = way < 6,
			.add = way % 5 != 4 && way % 2, .scale = 1.5f,
		};
		everywhere(&op, "gradients through norms");
		for (int t = 0; t < (op.rows ? TOK / 3 : TOK); t += 13)
			for (int seg = 0; seg < segs; seg++) {
				const int at = seg * n, dst = op.back_norm.dst.buf;
				const float *weights = op.back_norm.norm.weight;
				const struct norm_by by = {
					was[1][t] + at, weights ? weights + (way < 6 ? at : 0) : NULL, kind, n, 1e-3,
					1.5,
				};
				double x[N * SEGS];

				for (int i = 0; i < n; i++)
					x[i] = (double)was[0][t][at + i];
				for (int i = 0; i < n; i += 7)
					check_near("gradient", i, (double)rows[dst][t][at + i],
					           derivative_at(norm_of_row, x, i, &by) +
					                   (op.back_norm.add ? (double)was[dst][t][at + i] : 0), 2e-5);
			}
	}
}

static double fn_at(const double *x, const void *fn)
{
	const double v = *x, root = sqrt(2 / acos(-1));

	switch (*(const int *)fn) {
	case QN_FN_SILU: return v / (1 + exp(-v));
	case QN_FN_SIGMOID: return 1 / (1 + exp(-v));
	case QN_FN_GELU: return v / 2 * (1 + tanh(root * (v + 0.044715 * v * v * v)));
	case QN_FN_GELU_ERF: return v / 2 * erfc(-v / sqrt(2));
	case QN_FN_GELU_QUICK: return v / (1 + exp(-1.702 * v));
	case QN_FN_SOFTPLUS: return log1p(exp(v));
	case QN_FN_RELU: return v > 0 ? v : 0;
	default: return v > 0 ? v * v : 0;
	}
}

static void gates(void)
{
	enum { N = 299 };
	struct qn_op op = {.kind = QN_OP_BACK_GATE};

	fill();
	for (int fn = 0; fn < QN_N_FN; fn++)
		for (int alone = 0; alone < 2 && fn != QN_FN_SWIGLU_CLAMP; alone++) {
			op.back_gate = (struct qn_back_gate){
				.g = {0, 0}, .u = {alone ? -1 : 1, 0}, .dy = {2, 0}, .dg = {3, 0}, .du = {2, 0},
				.n_col = N, .fn = fn,
			};
			everywhere(&op, "gradients through gates");
			for (int t = 0; t < TOK; t += 9)
				for (int i = 0; i < N; i++) {
					double x = (double)was[0][t][i];
					const double u = alone ? 1 : (double)was[1][t][i], dy = (double)was[2][t][i];

					if (fabs(x) > 1e-4)
						check_near("dg", i, (double)rows[3][t][i],
						           derivative_at(fn_at, &x, 0, &fn) * u * dy,
						           1e-5 * (1 + fabs(u * dy)));
					if (!alone)
						check_near("du", i, (double)rows[2][t][i], fn_at(&x, &fn) * dy,
						           1e-5);
				}
		}
}

static void scatters(void)
{
	struct qn_op op = {.kind = QN_OP_SCATTER, .scatter = {.src = 0, .dst = 1, .n_col = 99}};

	fill();
	everywhere(&op, "scatter");
	for (int t = 0; t < TOK; t++)
		for (int i = 0; i < COLS; i++) {
			const float more = t % 3 == 1 && t / 3 < TOK / 3 && i < 99 ? was[0][t / 3][i] : 0;

			check_true(rows[1][t][i] == was[1][t][i] + more, "row %d, column %d", t, i);
		}
}

/* ------------------------------------------------------------------ products */

static void transposes(void)
{
	enum { OUT = 290, IN = 544 }; /* 512 and 32 columns, and more rows than whole runs */
	static float x[TOK][IN], w[OUT][IN], y[TOK][IN], first[TOK][IN];
	static uint16_t act[2][TOK][QN_ACT_BLOCK];
	static uint8_t data[OUT * IN * 4];

	EACH_TYPE(type) {
		const int n_in = type->elems == 256 ? 512 : 544;
		const struct qn_buf bufs[] = {{x, IN}, {y, IN}, {act, 512}};
		const struct qn_batch batch = {.n_tok = TOK};
		struct qn_op ops[2] = {
			{.kind = QN_OP_ACT, .to_act = {.n_col = OUT}},
			{.kind = QN_OP_BACK_X,
			 .back_x = {.mat = {.data = data, .type = type->type, .n_in = n_in, .n_out = OUT, .n_mat = 1},
			            .dst = {1, 0}, .act = 2, .add = type->type % 2, .scale = 0.5f}},
		};

		if (n_in % type->elems)
			ops[1].back_x.mat.n_in = 512;

		const int cols = ops[1].back_x.mat.n_in;

		memset(ops[0].to_act.act, -1, sizeof ops[0].to_act.act);
		ops[0].to_act.act[QN_ACT_BF16] = 2;
		rnd_weights(type, data, OUT, cols, 1);
		for (int i = 0; i < OUT; i++)
			qn_dequantize(type->type, w[i], data + (size_t)i * qn_row_bytes(type->type, cols), cols);
		for (int t = 0; t < TOK; t++)
			for (int i = 0; i < IN; i++)
				x[t][i] = rnd_normal();
		EACH_SET(s)
			for (int i = 0; i < 2; i++) {
				const size_t bytes = qn_plan_scratch(ops, 2, TOK) * (size_t)qn_pool_threads(pools[i]);

				check_at(s, "gradients through a product of %s", type->name);
				qn_init(s->isa);
				for (int k = 0; k < TOK * IN; k++)
					y[k / IN][k % IN] = 1;
				check_true(qn_plan_check(ops, 2, bufs, 3) == QN_OK, "refused");
				run_ops(pools[i], ops, 2, bufs, &batch, guard_alloc(bytes), bytes, NULL);
				if (s == check_sets && i == 0)
					memcpy(first, y, sizeof y);
				check_floats("dx", y[0], first[0], TOK * IN);
				guard_free_all();
			}
		for (int t = 0; t < TOK; t += 10)
			for (int i = 0; i < cols; i += 5) {
				double sum = ops[1].back_x.add, size = 1e-6;

				for (int k = 0; k < OUT; k++) {
					const double a = 0.5 * (double)f32_of_bf16(bf16_of_f32(x[t][k])) *
					                 (double)f32_of_bf16(bf16_of_f32(w[k][i]));

					sum += a;
					size += fabs(a);
				}
				check_near("dx", i, (double)first[t][i], sum, 1e-6 * size + 1e-6);
			}
	}
}

static void low_ranks(void)
{
	enum { IN = 290, OUT = 150 };
	static float a[20 * COLS], b[20 * COLS], x[2][TOK][QN_ACT_BLOCK];
	static const int ranks[] = {1, 8, 16, 19};
	struct qn_op op = {.kind = QN_OP_BACK_LOW};

	for (int k = 0; k < COUNT(ranks); k++) {
		const int rank = ranks[k];

		fill();
		for (int i = 0; i < COUNT(a); i++) {
			a[i] = rnd_normal() / 16;
			b[i] = rnd_normal() / 16;
		}
		/* buffer 3 as activations: blocks of 256 columns of all rows, one after the other */
		for (int t = 0; t < TOK; t++)
			for (int i = 0; i < 2 * QN_ACT_BLOCK; i++)
				x[i / QN_ACT_BLOCK][t][i % QN_ACT_BLOCK] = rnd_normal();
		memcpy(was[3], x, sizeof x); /* goes on in buffer 4 */
		op.back_low = (struct qn_back_low){
			a, b, d_a, d_b, {0, 0}, {1, 0}, 3, 2, IN, OUT, rank, 0.75f,
		};
		everywhere(&op, "gradients of an adapter");
		for (int t = 0; t < TOK; t++)
			for (int r = 0; r < rank; r++) {
				double h = 0, e = 0;

				for (int i = 0; i < IN; i++)
					h += (double)a[r * IN + i] * (double)x[i / QN_ACT_BLOCK][t][i % QN_ACT_BLOCK];
				for (int o = 0; o < OUT; o++)
					e += (double)b[o * rank + r] * (double)was[0][t][o];
				check_near("h", r, (double)rows[2][t][r], 0.75 * h, 1e-5);
				check_near("e", r, (double)rows[2][t][rank + r], 0.75 * e, 1e-5);
			}
		for (int r = 0; r < rank; r++) {
			for (int i = 0; i < IN; i += 3) {
				double sum = 0;

				for (int t = 0; t < TOK; t++)
					sum += (double)rows[2][t][rank + r] *
					       (double)x[i / QN_ACT_BLOCK][t][i % QN_ACT_BLOCK];
				check_near("d_a", i, (double)d_a[r * IN + i], sum, 1e-4);
			}
			for (int o = 0; o < OUT; o++) {
				double sum = 0;

				for (int t = 0; t < TOK; t++)
					sum += (double)was[0][t][o] * (double)rows[2][t][r];
				check_near("d_b", o, (double)d_b[o * rank + r], sum, 1e-4);
			}
		}
		for (int t = 0; t < TOK; t += 5)
			for (int i = 0; i < IN; i++) {
				double sum = (double)was[1][t][i];

				for (int r = 0; r < rank; r++)
					sum += (double)rows[2][t][rank + r] * (double)a[r * IN + i];
				check_near("dx", i, (double)rows[1][t][i], sum, 1e-5);
			}
	}
}

static void multiplies(void)
{
	enum { MOST = 70 };
	static float a[MOST * MOST * 2], b[MOST * 130], y[MOST * 130], first[MOST * 130];

	for (int round = 0; round < 60; round++) {
		struct product p = {
			.y = y, .a = a, .b = b, .rows = 1 + rnd_below(40), .cols = 1 + rnd_below(100),
			.depth = rnd_below(MOST), .add = rnd_below(2),
		};

		p.y_row = p.cols + rnd_below(9);
		p.b_row = p.cols + rnd_below(9);
		p.a_row = rnd_below(2) ? 1 : MOST;
		p.a_col = p.a_row == 1 ? MOST : 1;
		for (int i = 0; i < COUNT(a); i++)
			a[i] = rnd_sized();
		for (int i = 0; i < COUNT(b); i++)
			b[i] = rnd_sized();
		EACH_SET(s) {
			check_at(s, "%d x %d products of %d", (int)p.rows, (int)p.cols, (int)p.depth);
			for (int i = 0; i < COUNT(y); i++)
				y[i] = (float)i;
			s->k.multiply(&p);
			if (s == check_sets)
				memcpy(first, y, sizeof y);
			check_floats("y", y, first, COUNT(y));
		}
		for (int64_t i = 0; i < p.rows; i++)
			for (int64_t j = 0; j < p.cols; j++) {
				double sum = p.add ? (double)(i * p.y_row + j) : 0, size = fabs(sum) + 1e-30;

				for (int64_t k = 0; k < p.depth; k++) {
					const double v = (double)a[i * p.a_row + k * p.a_col] *
					                 (double)b[k * p.b_row + j];

					sum += v;
					size += fabs(v);
				}
				check_near("y", j, (double)first[i * p.y_row + j], sum, 1e-5 * size);
			}
	}
}

/* ------------------------------------------------------------------ attention */

struct head_by {
	const struct qn_qkv *op;
	const float *d, *cs, *norm, *mul;
	double scale;
	int n; /* channels */
};

static void turn(const struct head_by *by, double *x)
{
	const int half = by->op->rope.n / 2, at = by->op->rope.at;

	for (int i = 0; i < half && by->op->rope.kind; i++) {
		const int neox = by->op->rope.kind == QN_ROPE_NEOX;
		const int j = at + (neox ? i : 2 * i), k = j + (neox ? half : 1);
		const double a = x[j], b = x[k], c = (double)by->cs[2 * i], s = (double)by->cs[2 * i + 1];

		x[j] = a * c - b * s;
		x[k] = a * s + b * c;
	}
}

static double head_of(const double *from, const void *of)
{
	const struct head_by *by = of;
	double x[DIM], sum = 0, y = 0;

	memcpy(x, from, sizeof x);
	if (by->op->rope_first)
		turn(by, x);
	for (int i = 0; i < DIM; i++)
		sum += x[i] * x[i];
	for (int i = 0; i < DIM && by->norm; i++)
		x[i] *= (double)by->norm[i] / sqrt(sum / DIM + (double)by->op->eps);
	if (!by->op->rope_first)
		turn(by, x);
	for (int i = 0; i < by->n; i++)
		y += (double)by->d[i] * x[i] * by->scale * (by->mul ? (double)by->mul[i] : 1);
	return y;
}

/* What queries of a position are multiplied by. */
static double query_scale(const struct qn_qkv *q, int pos)
{
	double by = (double)q->scale;

	if (q->temp > 0)
		by *= 1 + (double)q->temp * log(floor((pos + q->temp_offset) / (double)q->temp_span) + 1);
	if (q->temp_log > 0 && pos > q->temp_log)
		by *= log(pos) / log(q->temp_log);
	return by;
}

static void stores(void)
{
	static float norm[2][DIM], mul[3][KV_HEADS * DIM];
	struct qn_op op = {.kind = QN_OP_BACK_QKV};

	fill();
	for (int i = 0; i < KV_HEADS * DIM; i++)
		for (int k = 0; k < 3; k++)
			mul[k][i] = rnd_normal();
	for (int i = 0; i < DIM; i++) {
		norm[0][i] = rnd_normal();
		norm[1][i] = rnd_normal();
	}
	for (int way = 0; way < 14; way++) {
		const int normed = way % 2, muled = way / 2 % 2, v_dim = way < 12 ? DIM : 16;
		struct qn_qkv *q = &op.back_qkv.qkv;

		*q = (struct qn_qkv){
			.heads = {.n_head = HEADS, .n_head_kv = KV_HEADS, .head_dim = DIM, .v_dim = v_dim},
			.rope = {.kind = way % 3, .table = 2, .at = 2, .n = 20},
			.q_norm = normed ? norm[0] : NULL, .k_norm = normed ? norm[1] : NULL,
			.q_mul = muled ? mul[0] : NULL, .k_mul = muled ? mul[1] : NULL, .v_mul = muled ? mul[2] : NULL,
			.src = 1, .col = {0, 96, 144}, .rope_first = way / 4 % 2, .eps = 1e-3f, .scale = 0.3f,
			.temp = way == 12 ? 0.5f : 0, .temp_span = 3, .temp_offset = 1, .temp_log = way == 13 ? 4 : 0,
		};
		op.back_qkv.was = normed ? 0 : -1;
		everywhere(&op, "gradients through queries and keys");
		for (int t = 0; t < TOK; t += 13)
			for (int h = 0; h < HEADS + 2 * KV_HEADS; h++) {
				const int kind = h < HEADS ? 0 : h < HEADS + KV_HEADS ? 1 : 2;
				const int kv = kind == 0 ? h / 2 : (h - HEADS) % KV_HEADS;
				const int n = kind == 2 ? v_dim : DIM;
				const int at = kind == 0 ? h * DIM : q->col[kind] + kv * n;
				struct head_by by = {
					q, was[1][t] + at, was[2][t], kind < 2 && normed ? norm[kind] : NULL,
					muled ? mul[kind] + kv * n : NULL,
					kind ? 1 : query_scale(q, t < FIRST ? t : t - FIRST), n,
				};
				struct qn_qkv plain = *q;
				double x[DIM];

				if (kind == 2) {
					plain.rope.kind = 0;
					by.op = &plain;
				}
				for (int i = 0; i < DIM; i++)
					x[i] = i < n ? (double)was[0][t][at + i] : 0;
				for (int i = 0; i < n; i++)
					check_near("gradient", at + i, (double)rows[1][t][at + i],
					           derivative_at(head_of, x, i, &by), 1e-4);
			}
	}
}

struct attend_by {
	const struct qn_attend *op;
	int first, end, head;
};

/* What is added to the score of a key that is so many positions after the query. */
static double bias_of(const struct qn_attend *op, int head, int far)
{
	if (!op->bias)
		return 0;
	far = far < -op->span ? -op->span : far > op->span ? op->span : far;
	return (double)op->bias[head * 2 * (op->span + QN_KV_BLOCK) + op->span + QN_KV_BLOCK - 1 + far];
}

/* Of a sequence: the sum of dy and the results of a head; x: queries, keys and values of all tokens, [3][TOK][DIM]. */
static double attend_of(const double *x, const void *of)
{
	const struct attend_by *by = of;
	const struct qn_attend *op = by->op;
	const double *q = x, *k = x + TOK * DIM, *v = x + 2 * TOK * DIM, cap = (double)op->softcap;
	const int n = op->heads.v_dim;
	double y = 0;

	for (int t = by->first; t < by->end; t++) {
		const int pos = t - by->first;
		double sum = op->sinks ? exp((double)op->sinks[by->head]) : 0, part = 0;
		int from = by->first;

		if (op->window > 0)
			from += op->chunked ? pos - pos % op->window : pos >= op->window ? pos - op->window + 1 : 0;
		for (int s = from; s < by->end && s - t <= op->ahead; s++) {
			double score = 0, along = 0;

			for (int i = 0; i < DIM; i++)
				score += q[t * DIM + i] * k[s * DIM + i];
			for (int i = 0; i < n; i++)
				along += v[s * DIM + i] * (double)was[3][t][by->head * n + i] *
				         (op->mul ? (double)op->mul[by->head / 2 * n + i] : 1);
			if (cap > 0)
				score = cap * tanh(score / cap);
			score += bias_of(op, by->head, s - t);
			sum += exp(score);
			part += exp(score) * along;
		}
		y += part / sum;
	}
	return y;
}

/* Buffer 2 = the results that the backward pass is given, of all heads. */
static void results(const struct qn_attend *op)
{
	static double x[3][TOK][DIM];
	const int n = op->heads.v_dim;

	for (int h = 0; h < HEADS; h++) {
		for (int t = 0; t < TOK; t++)
			for (int i = 0; i < DIM; i++) {
				x[0][t][i] = (double)was[0][t][h * DIM + i];
				x[1][t][i] = (double)was[0][t][96 + h / 2 * DIM + i];
				x[2][t][i] = i < n ? (double)was[0][t][144 + h / 2 * n + i] : 0;
			}
		for (int t = 0; t < TOK; t++) { /* one row at a time, one channel at a time: dy is 1 there */
			const int first = t < FIRST ? 0 : FIRST, end = t < FIRST ? FIRST : TOK, pos = t - first;
			double sum = op->sinks ? exp((double)op->sinks[h]) : 0, y[DIM] = {0};
			int from = first;

			if (op->window > 0)
				from += op->chunked ? pos - pos % op->window :
				                      pos >= op->window ? pos - op->window + 1 : 0;
			for (int s = from; s < end && s - t <= op->ahead; s++) {
				double score = 0;

				for (int i = 0; i < DIM; i++)
					score += x[0][t][i] * x[1][s][i];
				if (op->softcap > 0)
					score = (double)op->softcap * tanh(score / (double)op->softcap);
				score += bias_of(op, h, s - t);
				sum += exp(score);
				for (int i = 0; i < DIM; i++)
					y[i] += exp(score) * x[2][s][i];
			}
			for (int i = 0; i < n; i++)
				was[2][t][h * n + i] =
					(float)(y[i] / sum * (op->mul ? (double)op->mul[h / 2 * n + i] : 1));
		}
	}
}

static void attends(void)
{
	static float mul[KV_HEADS * DIM], sinks[HEADS] = {0.5f, -1, 2, 0};
	enum { SPAN = 20 };
	static float bias[HEADS * 2 * (SPAN + QN_KV_BLOCK)];
	static double x[3][TOK][DIM];
	struct qn_op op = {.kind = QN_OP_BACK_ATTEND};

	for (int way = 0; way < 12; way++) {
		struct qn_attend *a = &op.back_attend.attend;
		const int v_dim = way == 6 ? 16 : DIM;

		fill();
		for (int i = 0; i < KV_HEADS * DIM; i++)
			mul[i] = rnd_normal();
		for (int i = 0; i < HEADS * 2 * (SPAN + QN_KV_BLOCK); i++) { /* far keys have the numbers of the last */
			const int far = i % (2 * (SPAN + QN_KV_BLOCK)) - SPAN - QN_KV_BLOCK + 1;

			bias[i] = far <= -SPAN || far > SPAN ? bias[i - (i > 0)] : rnd_normal();
		}
		for (int t = 0; t < TOK; t++) /* queries have their scale */
			for (int i = 0; i < HEADS * DIM; i++)
				was[0][t][i] *= 0.3f;
		*a = (struct qn_attend){
			.heads = {.n_head = HEADS, .n_head_kv = KV_HEADS, .head_dim = DIM, .v_dim = v_dim},
			.window = way == 1 || way == 8 ? 5 : way == 2 || way == 5 || way == 9 ? 67 : 0,
			.chunked = way == 5,
			.ahead = way == 7 || way == 11 ? INT32_MAX : way == 8 ? 4 : way == 9 ? 66 : 0,
			.softcap = way == 3 ? 4 : 0, .sinks = way == 4 ? sinks : NULL,
			.mul = way == 4 || way == 6 ? mul : NULL, .bias = way >= 10 ? bias : NULL, .span = SPAN,
		};
		op.back_attend.x = 0;
		memcpy(op.back_attend.col, (int32_t[]){0, 96, 144}, sizeof op.back_attend.col);
		op.back_attend.y = 2;
		op.back_attend.dy = 3;
		op.back_attend.dst = 4;
		op.back_attend.stats = 5;
		results(a);
		everywhere(&op, "gradients through attention");
		for (int round = 0; round < 90; round++) {
			const int t = rnd_below(TOK), kind = round % 3, kv = rnd_below(KV_HEADS);
			const int n = kind == 2 ? v_dim : DIM, i = rnd_below(n);
			const int head = kind ? kv : rnd_below(HEADS);
			const int at = (kind == 0 ? 0 : kind == 1 ? 96 : 144) + head * n + i;
			double sum = 0;

			for (int h = kind ? 2 * kv : head; h < (kind ? 2 * kv + 2 : head + 1); h++) {
				const struct attend_by by = {a, t < FIRST ? 0 : FIRST, t < FIRST ? FIRST : TOK, h};

				for (int k = 0; k < TOK; k++)
					for (int j = 0; j < DIM; j++) {
						x[0][k][j] = (double)was[0][k][h * DIM + j];
						x[1][k][j] = (double)was[0][k][96 + h / 2 * DIM + j];
						x[2][k][j] = j < v_dim ?
						             (double)was[0][k][144 + h / 2 * v_dim + j] : 0;
					}
				sum += derivative_at(attend_of, x[0][0], ((int64_t)kind * TOK + t) * DIM + i, &by);
			}
			check_near("gradient", at, (double)rows[4][t][at], sum, 1e-4 * (1 + fabs(sum)));
		}
	}
}

/* ------------------------------------------------------------------ attention of long texts */

enum { LONG = 320, L_HEADS = 8, L_KV = 4, L_DIM = 16, L_COLS = 256 }; /* queries 0, keys 128, values 192 */

static float longs[6][LONG][L_COLS], long_was[6][LONG][L_COLS], long_want[6][LONG][L_COLS];
static double long_d[LONG][L_COLS];

static double dot_of(const float *x, const float *y)
{
	double sum = 0;

	for (int i = 0; i < L_DIM; i++)
		sum += (double)x[i] * (double)y[i];
	return sum;
}

/* Token t of a text from `first` on: its result of a head, and what it brings to gradients, by the formulas. */
static void long_row(const struct qn_attend *op, int first, int end, int t, int h)
{
	const int q = h * L_DIM, k = 128 + h / 2 * L_DIM, v = 192 + h / 2 * L_DIM;
	const int from = op->window > 0 && t - first >= op->window ? t - op->window + 1 : first;
	const int to = op->ahead ? end : t + 1;
	const float *dy = long_was[3][t] + q;
	double p[LONG], sum = 0, y[L_DIM] = {0}, common = 0;

	for (int s = from; s < to; s++)
		sum += p[s] = exp(dot_of(long_was[0][t] + q, long_was[0][s] + k));
	for (int s = from; s < to; s++) {
		p[s] /= sum;
		for (int i = 0; i < L_DIM; i++)
			y[i] += p[s] * (double)long_was[0][s][v + i];
	}
	for (int i = 0; i < L_DIM; i++) {
		long_was[2][t][q + i] = (float)y[i];
		common += y[i] * (double)dy[i];
	}
	for (int s = from; s < to; s++) {
		const double d = p[s] * (dot_of(dy, long_was[0][s] + v) - common);

		for (int i = 0; i < L_DIM; i++) {
			long_d[t][q + i] += d * (double)long_was[0][s][k + i];
			long_d[s][k + i] += d * (double)long_was[0][t][q + i];
			long_d[s][v + i] += p[s] * (double)dy[i];
		}
	}
}

/* More tiles than two, in texts that 4 threads share out by heads of keys (the first ones), or by queries and keys. */
static void long_texts(void)
{
	static const int ends[2][3] = {{150, 170, 320}, {200, 205, 223}};
	static int32_t pos[LONG], seq[LONG];
	struct qn_pool *shared[3] = {0};

	for (int i = 0; i < 3; i++)
		if (!check_true(qn_pool_create(&shared[i], NULL, 1 << i) == QN_OK, "no pool"))
			return;
	for (int way = 0; way < 6; way++) {
		const int *end = ends[way % 2], n = end[2];
		struct qn_op op = {.kind = QN_OP_BACK_ATTEND};
		const struct qn_batch batch = {.pos = pos, .seq = seq, .n_tok = n, .n_seq = 3};

		op.back_attend = (struct qn_back_attend){
			.attend = {.heads = {.n_head = L_HEADS, .n_head_kv = L_KV, .head_dim = L_DIM, .v_dim = L_DIM},
			           .window = way / 2 == 1 ? 131 : 0, .ahead = way / 2 == 2 ? INT32_MAX : 0},
			.x = 0, .col = {0, 128, 192}, .y = 2, .dy = 3, .dst = 4, .stats = 5,
		};
		for (int64_t i = 0; i < 6 * LONG * (int64_t)L_COLS; i++)
			((float *)long_was)[i] = rnd_normal() / 2;
		memset(long_d, 0, sizeof long_d);
		for (int s = 0, t = 0; s < 3; s++)
			for (const int first = s ? end[s - 1] : 0; t < end[s]; t++) {
				pos[t] = t - first;
				seq[t] = s;
				for (int h = 0; h < L_HEADS; h++)
					long_row(&op.back_attend.attend, first, end[s], t, h);
			}
		check_at(check_sets, "gradients through attention of long texts");
		for (int k = 0; k < 3; k++) {
			const size_t bytes = qn_plan_scratch(&op, 1, n) * (size_t)(1 << k);
			struct qn_buf bufs[6];

			EACH_SET(s) {
				check_at(s, "gradients through attention of long texts");
				qn_init(s->isa);
				for (int i = 0; i < 6; i++)
					bufs[i] = (struct qn_buf){longs[i], L_COLS};
				memcpy(longs, long_was, sizeof longs);
				check_true(qn_plan_check(&op, 1, bufs, 6) == QN_OK, "refused");
				run_ops(shared[k], &op, 1, bufs, &batch, guard_alloc(bytes + 64), bytes, NULL);
				if (s == check_sets && k == 0)
					memcpy(long_want, longs, sizeof longs);
				check_floats("rows", (const float *)longs, (const float *)long_want,
				             6 * LONG * (int64_t)L_COLS);
				guard_free_all();
			}
		}
		for (int t = 0; t < n; t++)
			for (int i = 0; i < L_COLS; i++)
				check_near("gradient", t * L_COLS + i, (double)long_want[4][t][i], long_d[t][i], 1e-4);
	}
	for (int i = 0; i < 3; i++)
		qn_pool_destroy(shared[i]);
}

/* ------------------------------------------------------------------ steps */

static void steps(void)
{
	enum { N = 1003 };
	static float x[N], m[N], v[N], d[N], first[3][N];
	float was_x[N], was_m[N], was_v[N];

	for (int i = 0; i < N; i++) {
		was_x[i] = rnd_normal();
		was_m[i] = rnd_normal() / 8;
		was_v[i] = fabsf(rnd_normal()) / 8;
		d[i] = rnd_sized();
	}
	EACH_SET(s)
		for (int p = 0; p < 2; p++) {
			const struct qn_adamw by = {x, m, v, d, N, 0.25f, 0.9f, 0.99f, 2, 3, 0.01f, 0.1f, 1e-6f};

			check_at(s, "steps of AdamW");
			qn_init(s->isa);
			memcpy(x, was_x, sizeof x);
			memcpy(m, was_m, sizeof m);
			memcpy(v, was_v, sizeof v);
			qn_adamw(pools[p], &by);
			if (s == check_sets && p == 0) {
				memcpy(first[0], x, sizeof x);
				memcpy(first[1], m, sizeof m);
				memcpy(first[2], v, sizeof v);
			}
			check_floats("x", x, first[0], N);
			check_floats("m", m, first[1], N);
			check_floats("v", v, first[2], N);
		}
	for (int i = 0; i < N; i++) {
		const double g = 0.25 * (double)d[i], m1 = 0.9 * (double)was_m[i] + 0.1 * g,
			     v1 = 0.99 * (double)was_v[i] + 0.01 * g * g;

		check_near("m", i, (double)first[1][i], m1, 1e-6 * (1 + fabs(m1)));
		check_near("v", i, (double)first[2][i], v1, 1e-5 * (1 + v1));
		check_near("x", i, (double)first[0][i],
		           (double)was_x[i] * (1 - 0.001) - 0.01 * 2 * m1 / (sqrt(3 * v1) + 1e-6),
		           1e-5 * (1 + fabs(m1)));
	}
}

/* ------------------------------------------------------------------ what is refused */

static void refuses(void)
{
	static uint8_t any[64];
	static int32_t target[1];
	static float some[1];
	struct qn_buf bufs[4];
	struct qn_op op;

	for (int i = 0; i < 4; i++)
		bufs[i] = (struct qn_buf){any, 64};
	check_at(check_sets, "what training refuses");
#define TAKES() (qn_plan_check(&op, 1, bufs, 4) == QN_OK)
#define BAD(field, bad)                                              \
	do {                                                         \
		__typeof__(field) was_it = field;                    \
		field = bad;                                         \
		check_true(!TAKES(), "taken: " #field " = " #bad);   \
		field = was_it;                                      \
		check_true(TAKES(), "refused after " #field);        \
	} while (0)
	op = (struct qn_op){.kind = QN_OP_LOSS, .rows = QN_ROWS_OUT, .loss = {target, some, 0, 1, 60, 0}};
	BAD(op.rows, QN_ROWS_TOK);
	BAD(op.loss.target, NULL);
	BAD(op.loss.weight, NULL);
	BAD(op.loss.n_col, 65);
	BAD(op.loss.dst, 4);
	BAD(op.loss.softcap, -1);
	op = (struct qn_op){.kind = QN_OP_SCATTER, .scatter = {0, 1, 64}};
	BAD(op.scatter.n_col, 65);
	BAD(op.scatter.src, -1);
	BAD(op.scatter.dst, 4);
	op = (struct qn_op){.kind = QN_OP_BACK_X,
	                    .back_x = {.mat = {.data = any, .n_in = 64, .n_out = 60, .n_mat = 1},
	                               .act = 1, .scale = 1}};
	BAD(op.rows, QN_ROWS_PAIR);
	BAD(op.back_x.mat.layout, QN_X16);
	BAD(op.back_x.mat.n_mat, 2);
	BAD(op.back_x.mat.n_out, 65);
	BAD(op.back_x.mat.n_in, 65);
	BAD(op.back_x.scale, 0);
	BAD(op.back_x.dst.col, 16);
	op = (struct qn_op){.kind = QN_OP_BACK_LOW,
	                    .back_low = {some, some, some, some, {0, 0}, {1, 0}, 2, 3, 64, 60, 8, 1}};
	BAD(op.back_low.rank, 0);
	BAD(op.back_low.rank, 33);
	BAD(op.back_low.a, NULL);
	BAD(op.back_low.d_b, NULL);
	BAD(op.back_low.n_in, 65);
	BAD(op.back_low.n_out, 65);
	BAD(op.rows, QN_ROWS_HEAD);
	op = (struct qn_op){.kind = QN_OP_BACK_NORM, .back_norm = {.n_col = 16, .n_seg = 4, .scale = 1}};
	BAD(op.back_norm.n_seg, 5);
	BAD(op.back_norm.norm.kind, 3);
	BAD(op.back_norm.scale, 0);
	BAD(op.rows, QN_ROWS_PAIR);
	op = (struct qn_op){.kind = QN_OP_BACK_GATE, .back_gate = {.n_col = 64, .du = {1, 0}, .dg = {2, 0}}};
	BAD(op.back_gate.fn, QN_FN_NONE - 1);
	BAD(op.back_gate.fn, QN_FN_SWIGLU_CLAMP);
	BAD(op.back_gate.fn, QN_N_FN);
	BAD(op.back_gate.u.buf, -2);
	BAD(op.back_gate.du.buf, -1);
	BAD(op.back_gate.n_col, 65);
	op.back_gate.fn = QN_FN_NONE;
	BAD(op.back_gate.u.buf, -1);
	op = (struct qn_op){.kind = QN_OP_BACK_QKV,
	                    .back_qkv = {.qkv = {.heads = {.n_head = 2, .n_head_kv = 1, .head_dim = 16, .v_dim = 16},
	                                         .q_norm = some, .col = {0, 32, 48}, .scale = 1}, .was = 1}};
	BAD(op.back_qkv.was, -1);
	BAD(op.back_qkv.qkv.heads.v_in_k, 1);
	BAD(op.back_qkv.qkv.q_only, 1);
	BAD(op.back_qkv.qkv.col[2], 64);
	op = (struct qn_op){.kind = QN_OP_BACK_ATTEND,
	                    .back_attend = {.attend = {.heads = {.n_head = 2, .n_head_kv = 1, .head_dim = 16,
	                                                         .v_dim = 16}},
	                                    .col = {0, 32, 48}, .y = 1, .dy = 1, .dst = 2, .stats = 3}};
	BAD(op.back_attend.attend.ahead, -1);
	op.back_attend.attend.bias = some;
	BAD(op.back_attend.attend.span, -1);
	BAD(op.back_attend.attend.span, INT32_MAX);
	op.back_attend.attend.bias = NULL;
	BAD(op.back_attend.attend.n_tier, 1);
	BAD(op.back_attend.attend.side, QN_SIDE_OWN);
	BAD(op.back_attend.attend.sight, QN_SIGHT_SPAN);
	BAD(op.back_attend.attend.heads.v_in_k, 1);
	BAD(op.back_attend.attend.temp_log, 2);
	BAD(op.back_attend.attend.softcap, -1);
	BAD(op.back_attend.attend.softcap, INFINITY);
	BAD(op.back_attend.attend.softcap, NAN);
	BAD(op.back_attend.attend.window, -1);
	BAD(op.back_attend.col[1], 64);
	BAD(op.back_attend.stats, 4);
	BAD(op.back_attend.dst, op.back_attend.x);
	BAD(op.back_attend.dst, op.back_attend.dy);
	BAD(op.back_attend.dst, op.back_attend.stats);
}

void check_back(void)
{
	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	losses();
	norms();
	gates();
	scatters();
	transposes();
	low_ranks();
	multiplies();
	stores();
	attends();
	long_texts();
	steps();
	refuses();
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
