/* check_media.c - what tokens of pictures and sounds need: rows that they bring, places on several axes, and spans. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "format/kv.h"

enum { TOK = 150, BEFORE = 5, ALL = BEFORE + TOK, COLS = 80, WIDE = 112 };

static float *floats(int64_t n)
{
	float *v = guard_alloc(sizeof *v * (size_t)n);

	for (int64_t i = 0; i < n; i++)
		v[i] = rnd_normal();
	return v;
}

/* Rows that two of three tokens bring: copied, added, and zeros for the others. */
static void input(struct qn_pool *pool)
{
	const float *in[TOK];
	float *y = floats(TOK * WIDE), *was = guard_alloc(sizeof *was * TOK * WIDE);
	const struct qn_buf buf = {y, WIDE};
	struct qn_batch batch = {.in = in, .n_tok = TOK};
	struct qn_op op = {.kind = QN_OP_INPUT, .input = {.dst = {0, 16}, .from = 3, .n_col = COLS}};

	for (int t = 0; t < TOK; t++)
		in[t] = t % 3 ? floats(3 + COLS) : NULL;
	for (int i = 0; i < 5; i++) { /* the last without any rows */
		op.input.add = i & 1;
		op.input.clear = i >> 1 & 1;
		batch.in = i < 4 ? in : NULL;
		check_at(check_sets, "rows that tokens bring, %d", i);
		memcpy(was, y, sizeof *y * TOK * WIDE);
		check_true(qn_plan_check(&op, 1, &buf, 1) == QN_OK, "refused");
		run_ops(pool, &op, 1, &buf, &batch, NULL, 0, NULL);
		for (int t = 0; t < TOK; t++)
			for (int c = 0; c < WIDE; c++) {
				const int at = t * WIDE + c, ours = c >= 16 && c < 16 + COLS;
				double want = (double)was[at];

				if (ours && i < 4 && in[t])
					want = (double)in[t][3 + c - 16] + (op.input.add ? want : 0);
				else if (ours && op.input.clear)
					want = 0;
				check_near("y", at, (double)y[at], want, op.input.add ? 1e-6 * (1 + fabs(want)) : 0);
			}
	}
	guard_free_all();
}

/* Rows side by side, and the mean of rows. */
static void gather(struct qn_pool *pool)
{
	enum { MOST = 5, OUT = TOK / MOST };
	float *src = floats(TOK * COLS), *dst = floats(OUT * MOST * COLS);
	int32_t out[OUT];
	const struct qn_buf bufs[2] = {{src, COLS}, {dst, MOST * COLS}};
	const struct qn_batch batch = {.out = out, .n_tok = TOK, .n_out = OUT};
	struct qn_op op = {.kind = QN_OP_GATHER, .gather = {.src = 0, .dst = 1, .n_col = COLS}};

	for (int i = 0; i < OUT; i++)
		out[i] = i * MOST;
	for (int n = 2; n <= MOST; n++)
		for (int mean = 0; mean < 2; mean++) {
			op.gather.n_row = n;
			op.gather.mean = mean;
			check_at(check_sets, "%d rows as one, mean %d", n, mean);
			check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
			run_ops(pool, &op, 1, bufs, &batch, NULL, 0, NULL);
			for (int i = 0; i < OUT; i++)
				for (int c = 0; c < (mean ? 1 : n) * COLS; c++) {
					const float *x = src + (out[i] + c / COLS) * COLS + c % COLS;
					double want = (double)x[0];

					for (int j = 1; mean && j < n; j++)
						want += (double)x[j * COLS];
					check_near("y", c, (double)dst[i * MOST * COLS + c], mean ? want / n : want,
					           mean ? 1e-6 * (1 + fabs(want)) : 0);
				}
		}
	guard_free_all();
}

/* Rotations by places on axes, and by positions where nobody says more. */
static void axes(struct qn_pool *pool)
{
	enum { ROT = 12 };
	static const int32_t axis[ROT / 2] = {0, 1, 2, 3, 1, 0};
	static const double freq[ROT / 2] = {1, 0.5, 0.25, 0.1, 0.01, 0.001};
	int32_t place[TOK * QN_AXES], pos[TOK];
	float *y = floats(TOK * 16);
	const struct qn_buf buf = {y, 16};
	struct qn_batch batch = {.pos = pos, .place = place, .n_tok = TOK};
	const struct qn_op op = {
		.kind = QN_OP_ROPE_TABLE,
		.rope_table = {.freq = freq, .axis = axis, .dst = 0, .n_rot = ROT, .shift = 1, .scale = 1},
	};

	for (int t = 0; t < TOK; t++) {
		pos[t] = 3 * t;
		for (int i = 0; i < QN_AXES; i++)
			place[t * QN_AXES + i] = rnd_below(1000);
	}
	for (int placed = 1; placed >= 0; placed--) {
		batch.place = placed ? place : NULL;
		check_at(check_sets, "rotations by axes, places %d", placed);
		check_true(qn_plan_check(&op, 1, &buf, 1) == QN_OK, "refused");
		run_ops(pool, &op, 1, &buf, &batch, NULL, 0, NULL);
		for (int t = 0; t < TOK; t++)
			for (int i = 0; i < ROT / 2; i++) {
				const int at = placed ? place[t * QN_AXES + axis[i]] : pos[t];
				const double theta = (at + 1) * freq[i];

				check_near("cos", i, (double)y[t * 16 + 2 * i], cos(theta), 2e-7);
				check_near("sin", i, (double)y[t * 16 + 2 * i + 1], sin(theta), 2e-7);
			}
	}
	guard_free_all();
}

/* Attention with spans, of which some are as long as several tiles and blocks, beside tokens that are alone. */
static void spans(struct qn_pool *pool)
{
	enum { HEADS = 3, DIM = 16, BLOCKS = 4 };
	const int64_t unit = (int64_t)qn_kv_bytes(QN_KV_F32, QN_KV_F32, HEADS, DIM, DIM), each = unit / HEADS;
	static const int ends[] = {0, 3, 5, 20, 21, 110, 111, 150}; /* every second part of the long text is a span */
	int32_t pos[ALL], seq[ALL], span[ALL][2], table[2][BLOCKS] = {{3}, {2, 0, 1}};
	const struct qn_group group = group_of(guard_alloc((size_t)unit * BLOCKS), unit, table[0], BLOCKS);
	struct qn_batch batch = {.pos = pos, .seq = seq, .groups = &group, .n_tok = ALL, .n_seq = 2, .n_group = 1};
	float *q = floats(ALL * HEADS * DIM), *y = floats(ALL * HEADS * DIM), *first = floats(ALL * HEADS * DIM);
	float *kv = floats((int64_t)ALL * HEADS * 2 * DIM);
	const struct qn_buf bufs[3] = {{q, HEADS * DIM}, {y, HEADS * DIM}, {first, HEADS * DIM}};
	struct qn_op op = {
		.kind = QN_OP_ATTEND,
		.attend = {
			.heads = {.n_head = HEADS, .n_head_kv = HEADS, .head_dim = DIM, .v_dim = DIM,
			          .k_type = QN_KV_F32, .v_type = QN_KV_F32},
			.q = {0, 0},
		},
	};

	for (int t = 0; t < ALL; t++) {
		seq[t] = t >= BEFORE;
		pos[t] = seq[t] ? t - BEFORE : t;
		span[t][0] = span[t][1] = pos[t];
		for (int i = 1; seq[t] && i < COUNT(ends); i += 2)
			if (pos[t] >= ends[i - 1] && pos[t] < ends[i]) {
				span[t][0] = ends[i - 1];
				span[t][1] = ends[i] - 1;
			}
		for (int h = 0; h < HEADS; h++) {
			uint8_t *block = (uint8_t *)group.data + table[seq[t]][pos[t] / 64] * unit + h * each;
			const float *k = kv + (t * HEADS + h) * 2 * DIM;

			kv_put_k(QN_KV_F32, block, pos[t] % 64, k, DIM);
			kv_put_v(QN_KV_F32, block + kv_k_bytes(QN_KV_F32, DIM), pos[t] % 64, k + DIM, DIM);
		}
	}
	for (int i = 0; i < 5; i++) {
		op.attend.sight = i < 3 ? QN_SIGHT_SPAN : QN_SIGHT_ONLY;
		op.attend.window = i == 1 ? 10 : 0;
		batch.span = i == 2 || i == 4 ? NULL : span[0];
		EACH_SET(s) {
			const size_t bytes = qn_plan_scratch(&op, 1, ALL) * (size_t)qn_pool_threads(pool);

			qn_init(s->isa);
			op.attend.dst = s == check_sets ? 2 : 1;
			check_at(s, "attention to spans, %d", i);
			check_true(qn_plan_check(&op, 1, bufs, 3) == QN_OK, "refused");
			run_ops(pool, &op, 1, bufs, &batch, guard_alloc(bytes), bytes, NULL);
			if (s != check_sets)
				check_floats("y", y, first, ALL * HEADS * DIM);
		}
		for (int t = 0; t < ALL; t++)
			for (int h = 0; h < HEADS; h++) {
				const int end = batch.span ? span[t][1] : pos[t];
				const int own = batch.span ? span[t][0] : pos[t];
				double sum = 0, want[DIM] = {0};

				for (int key = 0; key < ALL; key++) {
					const float *k = kv + (key * HEADS + h) * 2 * DIM;
					double score = 0;

					if (seq[key] != seq[t] || pos[key] > end ||
					    (op.attend.sight == QN_SIGHT_ONLY && pos[key] < own) ||
					    (op.attend.window && pos[key] <= pos[t] - op.attend.window))
						continue;
					for (int c = 0; c < DIM; c++)
						score += (double)q[(t * HEADS + h) * DIM + c] * (double)k[c];
					sum += exp(score);
					for (int c = 0; c < DIM; c++)
						want[c] += exp(score) * (double)k[DIM + c];
				}
				for (int c = 0; c < DIM; c++)
					check_near("y", (t * HEADS + h) * DIM + c,
					           (double)first[(t * HEADS + h) * DIM + c], want[c] / sum, 2e-5);
			}
	}
	guard_free_all();
}

void check_media(void)
{
	struct qn_pool *pool;

	check_true(qn_pool_create(&pool, NULL, 3) == QN_OK, "no pool");
	input(pool);
	gather(pool);
	axes(pool);
	spans(pool);
	qn_pool_destroy(pool);
}
