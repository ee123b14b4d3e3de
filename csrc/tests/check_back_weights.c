/*
 * check_back_weights.c - gradients of weights and steps of Muon: against their formulas in double, and the same for
 * each set and number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "math/fp16.h"

enum { TOK = 600, IN = 297, OUT = 150, COLS = 304, BLOCKS = 2, VOCAB = 40 };

static float dy[TOK][COLS], x[TOK][COLS], act[BLOCKS][TOK][QN_ACT_BLOCK];
static float got[OUT * IN], want[OUT * IN], was[OUT * IN];
static struct qn_pool *pools[2];

static void fill(void)
{
	for (int t = 0; t < TOK; t++)
		for (int i = 0; i < COLS; i++) {
			dy[t][i] = rnd_normal();
			x[t][i] = rnd_normal();
			if (i < IN)
				act[i / QN_ACT_BLOCK][t][i % QN_ACT_BLOCK] = x[t][i];
		}
	for (int i = 0; i < COUNT(was); i++)
		was[i] = rnd_normal();
}

static struct qn_batch batch_of(int n)
{
	static int32_t tok[TOK], pos[TOK], seq[TOK], out[TOK], second = 4;

	for (int t = 0; t < n; t++) {
		tok[t] = (t * 7) % VOCAB;
		pos[t] = t % 11;
		out[t] = t;
	}
	return (struct qn_batch){
		.tok = tok, .pos = pos, .seq = seq, .second = &second, .out = out,
		.n_tok = n, .n_seq = 1, .n_out = n / 3,
	};
}

/* Leaves in want what the scalar set makes of op, and compares with it what others make. */
static void everywhere(const struct qn_op *op, int n, const char *what)
{
	const struct qn_batch batch = batch_of(n);
	const struct qn_buf bufs[] = {{(float *)dy, COLS}, {(float *)x, COLS}, {(float *)act, COLS}};

	EACH_SET(s)
		for (int i = 0; i < 2; i++) {
			const size_t bytes = qn_plan_scratch(op, 1, TOK) * (size_t)qn_pool_threads(pools[i]);

			check_at(s, "%s", what);
			qn_init(s->isa);
			memcpy(got, was, sizeof got);
			check_true(qn_plan_check(op, 1, bufs, 3) == QN_OK, "refused");
			run_ops(pools[i], op, 1, bufs, &batch, guard_alloc(bytes + 64), bytes, NULL);
			if (s == check_sets && i == 0)
				memcpy(want, got, sizeof got);
			check_floats("gradient", got, want, COUNT(got));
		}
	check_at(check_sets, "%s", what);
	qn_init(check_sets->isa);
	guard_free_all();
}

static double bf16(float v) { return (double)f32_of_bf16(bf16_factor(bf16_of_f32(v))); }

static void matrices(void)
{
	static const int tokens[] = {1, 33, TOK};

	for (int way = 0; way < 6; way++) {
		const int n = tokens[way / 2], rows = way % 2 ? n / 3 : n;
		struct qn_op op = {.kind = QN_OP_BACK_W, .rows = way % 2 ? QN_ROWS_OUT : QN_ROWS_TOK};

		fill();
		/* activations are blocks of as many rows as the operation has */
		for (int t = 0; t < rows; t++)
			memcpy((float *)act + ((int64_t)rows + t) * QN_ACT_BLOCK, &x[t][QN_ACT_BLOCK],
			       sizeof(float) * (IN - QN_ACT_BLOCK));
		op.back_w = (struct qn_back_w){got, {0, way % 3 * 16}, 2, IN, OUT, 0.5f};
		everywhere(&op, n, "gradients of a matrix");
		for (int o = 0; o < OUT; o += 7)
			for (int i = 0; i < IN; i += 5) {
				double sum = (double)was[o * IN + i], size = 1e-6;

				for (int t = 0; t < rows; t++) {
					const double v = 0.5 * bf16(dy[t][way % 3 * 16 + o]) * bf16(x[t][i]);

					sum += v;
					size += fabs(v);
				}
				check_near("d_w", i, (double)want[o * IN + i], sum, 1e-6 * size + 1e-6);
			}
	}
}

static void vectors(void)
{
	enum { N = 99, SEGS = 3 };

	for (int way = 0; way < 8; way++) {
		const int segs = way % 2 ? SEGS : 1, n = way % 2 ? N : N * SEGS, rows = way & 2 ? TOK / 3 : TOK;
		struct qn_op op = {.kind = QN_OP_BACK_V, .rows = way & 2 ? QN_ROWS_OUT : QN_ROWS_TOK};

		fill();
		op.back_v = (struct qn_back_v){got, {0, 0}, {way < 4 ? 1 : -1, 0}, n, segs, 1.5f};
		everywhere(&op, TOK, "gradients of a vector");
		for (int i = 0; i < n; i += 3) {
			double sum = (double)was[i];

			for (int t = 0; t < rows; t++)
				for (int at = i; at < n * segs; at += n)
					sum += 1.5 * (double)dy[t][at] * (way < 4 ? (double)x[t][at] : 1);
			check_near("d_v", i, (double)want[i], sum, 1e-3);
		}
		check_floats("the rest", want + n, was + n, COUNT(was) - n);
	}
}

static void tables(void)
{
	static const struct {
		int index, rows;
	} all[] = {{QN_INDEX_TOK, VOCAB}, {QN_INDEX_POS, 11}, {QN_INDEX_FIRST, 1}, {QN_INDEX_TEXT, 2}};

	for (int k = 0; k < COUNT(all); k++) {
		const int index = all[k].index, rows = all[k].rows;
		struct qn_op op = {.kind = QN_OP_BACK_EMBED, .back_embed = {got, 0, IN, index, 0.5f}};
		const struct qn_batch b = batch_of(TOK);

		fill();
		everywhere(&op, TOK, "gradients of a table");
		for (int r = 0; r < rows; r++)
			for (int i = 0; i < IN; i += 3) {
				double sum = (double)was[r * IN + i];

				for (int t = 0; t < TOK; t++)
					if ((index == QN_INDEX_TOK    ? b.tok[t]
					     : index == QN_INDEX_POS  ? b.pos[t]
					     : index == QN_INDEX_TEXT ? b.pos[t] >= *b.second
					                              : 0) == r)
						sum += 0.5 * (double)dy[t][i];
				check_near("d_table", i, (double)want[r * IN + i], sum, 1e-4);
			}
		check_floats("the rest", want + rows * IN, was + rows * IN, COUNT(was) - rows * IN);
	}
}

/* u of a step in double, [tall][wide]. */
static void orthogonal(double *u, int tall, int wide)
{
	static double s[70 * 70], b[70 * 70], y[200 * 70];
	double sum = 0;

	for (int i = 0; i < tall * wide; i++)
		sum += u[i] * u[i];
	for (int i = 0; i < tall * wide; i++)
		u[i] /= sqrt(sum) + 1e-7;
	for (int round = 0; round < QN_MUON_ROUNDS; round++) {
		memset(s, 0, sizeof s);
		for (int t = 0; t < tall; t++)
			for (int i = 0; i < wide; i++)
				for (int j = 0; j < wide; j++)
					s[i * wide + j] += u[t * wide + i] * u[t * wide + j];
		for (int i = 0; i < wide; i++)
			for (int j = 0; j < wide; j++) {
				double v = 0;

				for (int k = 0; k < wide; k++)
					v += s[i * wide + k] * s[k * wide + j];
				b[i * wide + j] = 2.0315 * v - 4.7750 * s[i * wide + j];
			}
		for (int t = 0; t < tall; t++)
			for (int j = 0; j < wide; j++) {
				double v = 3.4445 * u[t * wide + j];

				for (int i = 0; i < wide; i++)
					v += u[t * wide + i] * b[i * wide + j];
				y[t * wide + j] = v;
			}
		memcpy(u, y, sizeof *u * (size_t)(tall * wide));
	}
}

static void muons(void)
{
	static const int shapes[][2] = {{70, 70}, {200, 33}, {33, 200}, {1, 50}, {50, 1}, {65, 64}};
	static float w[200 * 70], m[200 * 70], d[200 * 70], first[2][200 * 70], old[2][200 * 70];
	static double u[200 * 70];

	for (int k = 0; k < COUNT(shapes); k++) {
		const int out = shapes[k][0], in = shapes[k][1], n = out * in, flip = in > out;
		float *work = guard_alloc(sizeof *work * (size_t)qn_muon_work(out, in));

		for (int i = 0; i < n; i++) {
			old[0][i] = rnd_normal();
			old[1][i] = rnd_normal() / 4;
			d[i] = rnd_normal();
		}
		EACH_SET(s)
			for (int p = 0; p < 2; p++) {
				check_at(s, "steps of Muon, %d x %d", out, in);
				qn_init(s->isa);
				memcpy(w, old[0], sizeof w);
				memcpy(m, old[1], sizeof m);
				qn_muon(pools[p], &(struct qn_muon){
					w, m, d, work, out, in, 0.25f, 0.95f, 0.99f, 0.02f,
				});
				if (s == check_sets && p == 0) {
					memcpy(first[0], w, sizeof w);
					memcpy(first[1], m, sizeof m);
				}
				check_floats("x", w, first[0], n);
				check_floats("m", m, first[1], n);
			}
		for (int i = 0; i < out; i++)
			for (int j = 0; j < in; j++) {
				const double g = 0.25 * (double)d[i * in + j];
				const double mean = 0.95 * (double)old[1][i * in + j] + g;

				check_near("m", i, (double)first[1][i * in + j], mean, 1e-6 * (1 + fabs(mean)));
				u[flip ? j * out + i : i * in + j] = g + 0.95 * mean;
			}
		orthogonal(u, flip ? in : out, flip ? out : in);
		for (int i = 0; i < out; i++)
			for (int j = 0; j < in; j++)
				check_near("x", i, (double)first[0][i * in + j],
				           0.99 * (double)old[0][i * in + j] -
				                   0.02 * u[flip ? j * out + i : i * in + j], 1e-5);
		guard_free_all();
	}
}

static void refuses(void)
{
	static uint8_t any[64];
	static float some[1];
	struct qn_buf bufs[4];
	struct qn_op op;

	for (int i = 0; i < 4; i++)
		bufs[i] = (struct qn_buf){any, 64};
	check_at(check_sets, "what gradients of weights refuse");
#define TAKES() (qn_plan_check(&op, 1, bufs, 4) == QN_OK)
#define BAD(field, bad)                                              \
	do {                                                         \
		__typeof__(field) was_it = field;                    \
		field = bad;                                         \
		check_true(!TAKES(), "taken: " #field " = " #bad);   \
		field = was_it;                                      \
		check_true(TAKES(), "refused after " #field);        \
	} while (0)
	op = (struct qn_op){.kind = QN_OP_BACK_W, .back_w = {some, {0, 0}, 1, 64, 60, 1}};
	BAD(op.rows, QN_ROWS_PAIR);
	BAD(op.back_w.d_w, NULL);
	BAD(op.back_w.n_in, 65);
	BAD(op.back_w.n_in, 0);
	BAD(op.back_w.n_out, 65);
	BAD(op.back_w.n_out, 0);
	BAD(op.back_w.src.col, 16);
	BAD(op.back_w.act, 4);
	BAD(op.back_w.scale, 0);
	op = (struct qn_op){.kind = QN_OP_BACK_V, .back_v = {some, {0, 0}, {-1, 0}, 16, 4, 1}};
	BAD(op.rows, QN_ROWS_HEAD);
	BAD(op.back_v.d_v, NULL);
	BAD(op.back_v.n_col, 17);
	BAD(op.back_v.n_seg, 0);
	BAD(op.back_v.x.buf, 4);
	BAD(op.back_v.x.buf, -2);
	BAD(op.back_v.scale, 0);
	op = (struct qn_op){.kind = QN_OP_BACK_EMBED, .back_embed = {some, 0, 64, QN_INDEX_TOK, 1}};
	BAD(op.back_embed.d_table, NULL);
	BAD(op.back_embed.n_col, 65);
	BAD(op.back_embed.src, -1);
	BAD(op.back_embed.index, QN_INDEX_OWN);
	BAD(op.back_embed.scale, 0);
#undef BAD
#undef TAKES
}

void check_back_weights(void)
{
	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	matrices();
	vectors();
	tables();
	muons();
	refuses();
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
