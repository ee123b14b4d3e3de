/*
 * check_select.c - positions that are chosen, and attention over these alone: against the formulas in double, and the
 * same for each set, number of threads and batch.
 */
#include <math.h>
#include <string.h>

#include "../kv.h"
#include "check.h"

enum {
	HEADS = 27, /* more than a kernel takes */
	DIM = 48, /* transformed by 16 */
	V_DIM = 16,
	BEST = 70, /* not whole blocks */
	LENGTH = 300,
	TOK = 9,
	N_BLOCKS = (LENGTH + QN_KV_BLOCK - 1) / QN_KV_BLOCK,
	SRC = 0, WEIGHTS, CHOSEN, DST, N_BUFS_SELECT
};

/* Tokens at these positions, each of its own sequence, all of which have the same keys. */
static const int32_t positions[TOK] = {0, BEST - 1, BEST, BEST + 1, 127, 128, 200, LENGTH - 2, LENGTH - 1};

struct problem {
	int type;
	uint8_t *kv;
	int64_t unit;
	float *keys; /* [LENGTH][DIM] as they came */
	float *src, *weights;
	struct qn_op ops[2];
};

struct outcome {
	int32_t chosen[TOK][BEST];
	float y[TOK][HEADS * V_DIM];
};

/* Runs tokens from .. to. */
static void run(const struct problem *p, struct qn_pool *pool, int from, int to, struct outcome *o)
{
	static int32_t seq[TOK], table[TOK][N_BLOCKS];
	const int n = to - from, width = 80;
	const size_t chosen_bytes = sizeof(float) * (size_t)(n * width);
	const size_t y_bytes = sizeof(float) * (size_t)(n * HEADS * V_DIM);
	struct guard chosen_guard = guard_new(chosen_bytes), y_guard = guard_new(y_bytes);
	float *chosen = guard_fill(&chosen_guard, chosen_bytes), *y = guard_fill(&y_guard, y_bytes);
	const struct qn_buf bufs[N_BUFS_SELECT] = {{p->src + from * HEADS * DIM, HEADS * DIM},
	                                           {p->weights + from * 32, 32},
	                                           {chosen, width},
	                                           {y, HEADS * V_DIM}};
	const struct qn_group group = {p->kv, p->unit, table[0], N_BLOCKS};
	const struct qn_batch batch = {.pos = positions + from, .seq = seq, .groups = &group, .n_tok = n, .n_seq = TOK,
	                               .n_group = 1};
	const size_t bytes = qn_plan_scratch(p->ops, 2, n) * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	for (int t = 0; t < TOK; t++) {
		seq[t] = t;
		for (int b = 0; b < N_BLOCKS; b++)
			table[t][b] = b;
	}
	memset(chosen, 0x55, chosen_bytes);
	check_true(qn_plan_check(p->ops, 2, bufs, N_BUFS_SELECT) == QN_OK, "refused");
	run_ops(pool, p->ops, 2, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
	for (int t = 0; t < n; t++) {
		memcpy(o->chosen[from + t], chosen + t * width, sizeof o->chosen[0]);
		memcpy(o->y[from + t], y + t * HEADS * V_DIM, sizeof o->y[0]);
	}
	guard_intact("chosen", &chosen_guard);
	guard_intact("y", &y_guard);
	guard_free(&chosen_guard);
	guard_free(&y_guard);
}

/* How far what a type keeps is from the numbers that came. */
static double kept(int type)
{
	static const double eps[QN_N_KV_TYPES] = {
		[QN_KV_F32] = 1e-6, [QN_KV_I16] = 2e-4, [QN_KV_F16] = 1e-3, [QN_KV_BF16] = 5e-3, [QN_KV_Q8] = 0.02,
		[QN_KV_Q4] = 0.25,
	};

	return eps[type];
}

static double dot(const struct problem *p, int t, int h, int pos)
{
	double sum = 0;

	for (int d = 0; d < DIM; d++)
		sum += (double)p->src[(t * HEADS + h) * DIM + d] * (double)p->keys[pos * DIM + d];
	return sum;
}

/* The chosen are the best, rising; a token that sees no more than there may be chose none. */
static void best(const struct problem *p, const struct outcome *o, int t)
{
	double worst = INFINITY, other = -INFINITY, size = 0;
	int in = 0;

	if (positions[t] < BEST) {
		check_true(o->chosen[t][0] == 0x55555555, "token %d chose", t);
		return;
	}
	for (int i = 0; i < BEST; i++)
		if (!check_true(o->chosen[t][i] <= positions[t] && o->chosen[t][i] > (i ? o->chosen[t][i - 1] : -1),
		                "token %d: position %d is %d", t, i, o->chosen[t][i]))
			return;
	for (int pos = 0; pos <= positions[t]; pos++) {
		double sum = 0, all = 0;

		for (int h = 0; h < HEADS; h++) {
			const double s = (double)p->weights[t * 32 + h] * fmax(dot(p, t, h, pos), 0);

			sum += s;
			all += fabs((double)p->weights[t * 32 + h]) * sqrt(DIM);
		}
		size = fmax(size, all);
		if (in < BEST && o->chosen[t][in] == pos) {
			worst = fmin(worst, sum);
			in++;
		} else {
			other = fmax(other, sum);
		}
	}
	check_true(worst >= other - 2 * kept(p->type) * size, "token %d chose %g and left %g", t, worst, other);
}

/* Attention over the chosen, or over all that a token sees. */
static void attention(const struct problem *p, const struct outcome *o, int t)
{
	const int all = positions[t] < BEST, n = all ? positions[t] + 1 : BEST;

	for (int h = 0; h < HEADS; h++) {
		double weight[BEST], max = -INFINITY, sum = 0;

		for (int i = 0; i < n; i++) {
			weight[i] = dot(p, t, h, all ? i : o->chosen[t][i]);
			max = fmax(max, weight[i]);
		}
		for (int i = 0; i < n; i++)
			sum += weight[i] = exp(weight[i] - max);
		for (int d = 0; d < V_DIM; d++) {
			double want = 0;

			for (int i = 0; i < n; i++)
				want += weight[i] / sum * (double)p->keys[(all ? i : o->chosen[t][i]) * DIM + d];
			check_near("y", h * V_DIM + d, (double)o->y[t][h * V_DIM + d], want, 20 * kept(p->type));
		}
	}
}

static void choose(struct qn_pool *pools[2], int type)
{
	static struct outcome want, got;
	struct problem p = {.type = type, .unit = 64 + kv_k_bytes(type, DIM)};

	check_at(check_sets, "chosen positions, keys %d", type);
	p.kv = guard_alloc((size_t)(N_BLOCKS * p.unit));
	p.keys = guard_alloc(sizeof *p.keys * LENGTH * DIM);
	p.src = guard_alloc(sizeof *p.src * TOK * HEADS * DIM);
	p.weights = guard_alloc(sizeof *p.weights * TOK * 32);
	memset(p.kv, 0x33, (size_t)(N_BLOCKS * p.unit));
	for (int i = 0; i < LENGTH * DIM; i++)
		p.keys[i] = rnd_normal();
	for (int i = 0; i < LENGTH; i++)
		kv_put_kv(type, p.kv + i / QN_KV_BLOCK * p.unit + 64, i % QN_KV_BLOCK, p.keys + i * DIM, DIM);
	for (int i = 0; i < TOK * HEADS * DIM; i++)
		p.src[i] = rnd_normal() / sqrtf(DIM);
	for (int i = 0; i < TOK * 32; i++)
		p.weights[i] = rnd_normal();
	p.ops[0] = (struct qn_op){.kind = QN_OP_SELECT, .src = SRC, .aux = WEIGHTS, .dst = CHOSEN, .n_head = HEADS,
	                          .n_head_kv = 1, .head_dim = DIM, .k_type = type, .kv_offset = 64, .n_select = BEST};
	p.ops[1] = (struct qn_op){.kind = QN_OP_ATTEND, .src = SRC, .aux = CHOSEN, .dst = DST, .n_head = HEADS,
	                          .n_head_kv = 1, .head_dim = DIM, .v_dim = V_DIM, .v_in_k = 1, .k_type = type,
	                          .kv_offset = 64, .n_select = BEST};
	EACH_SET(s) {
		check_at(s, "chosen positions, keys %d", type);
		qn_init(s->isa);
		if (s == check_sets) {
			run(&p, pools[0], 0, TOK, &want);
			for (int t = 0; t < TOK; t++) {
				best(&p, &want, t);
				if (type != QN_KV_Q4)
					attention(&p, &want, t);
			}
		}
		for (int i = 0; i < 2; i++)
			for (int size = 1; size <= TOK; size += 4) {
				for (int from = 0; from < TOK; from += size)
					run(&p, pools[i], from, from + size < TOK ? from + size : TOK, &got);
				for (int t = 0; t < TOK; t++) {
					check_bytes("chosen", got.chosen[t], want.chosen[t], sizeof want.chosen[t]);
					check_floats("y", got.y[t], want.y[t], HEADS * V_DIM);
				}
			}
	}
	guard_free_all();
}

void check_select(void)
{
	struct qn_pool *pools[2];

	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	for (int type = 0; type < QN_N_KV_TYPES; type++)
		choose(pools, type);
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
