/*
 * check_select.c - positions that are chosen, and attention over these alone: against the formulas in double, and the
 * same for each set, number of threads and batch.
 */
#include <math.h>
#include <string.h>

#include "format/kv.h"
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
	const struct qn_group group = group_of(p->kv, p->unit, table[0], N_BLOCKS);
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

/* Of LENGTH keys so many are distinct, which come again and again: their scores are equal, and the first are chosen. */
static void choose(struct qn_pool *pools[2], int type, int distinct)
{
	static struct outcome want, got;
	struct problem p = {.type = type, .unit = 64 + kv_k_bytes(type, DIM)};

	check_at(check_sets, "chosen positions, keys %d, %d distinct", type, distinct);
	p.kv = guard_alloc((size_t)(N_BLOCKS * p.unit));
	p.keys = guard_alloc(sizeof *p.keys * LENGTH * DIM);
	p.src = guard_alloc(sizeof *p.src * TOK * HEADS * DIM);
	p.weights = guard_alloc(sizeof *p.weights * TOK * 32);
	memset(p.kv, 0x33, (size_t)(N_BLOCKS * p.unit));
	for (int i = 0; i < LENGTH * DIM; i++)
		p.keys[i] = i < distinct * DIM ? rnd_normal() : p.keys[i - distinct * DIM];
	for (int i = 0; i < LENGTH; i++)
		kv_put_kv(type, p.kv + i / QN_KV_BLOCK * p.unit + 64, i % QN_KV_BLOCK, p.keys + i * DIM, DIM);
	for (int i = 0; i < TOK * HEADS * DIM; i++)
		p.src[i] = rnd_normal() / sqrtf(DIM);
	for (int i = 0; i < TOK * 32; i++)
		p.weights[i] = rnd_normal();
	p.ops[0] = (struct qn_op){
		.kind = QN_OP_SELECT,
		.select = {
			.q = {SRC, 0}, .weight = WEIGHTS, .dst = CHOSEN,
			.heads =
				{.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .k_type = type,
				 .kv = {.offset = 64}},
			.selection = {.n = BEST},
		},
	};
	p.ops[1] = (struct qn_op){
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {SRC, 0}, .chosen = CHOSEN, .dst = DST,
			.heads =
				{.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .v_dim = V_DIM, .v_in_k = 1,
				 .k_type = type, .kv = {.offset = 64}},
			.selection = {.n = BEST},
		},
	};
	EACH_SET(s) {
		check_at(s, "chosen positions, keys %d, %d distinct", type, distinct);
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

/*
 * Spans of positions that are chosen, by each key-value head for itself, and attention over these and the last ones: a
 * span scores as the best of its positions, below zero too.
 */
enum {
	KV_HEADS = 3,
	GROUP = 2,
	SPANS = 3,
	NEAR_SPANS = 2,
	SPAN_LENGTH = 6 * 128 + 70,
	SPAN_BLOCKS = (SPAN_LENGTH + 63) / 64
};

struct spans {
	int type, each, near;
	uint8_t *kv, *index;
	int64_t kv_unit, index_unit;
	float *keys, *values; /* [SPAN_LENGTH][KV_HEADS][DIM] */
	float *index_keys;    /* [SPAN_LENGTH][DIM] */
	float *src, *q;
	struct qn_op ops[2];
};

/* Positions around those from which on a token makes a choice, and has one more to make it among. */
static int span_positions(const struct spans *p, int32_t pos[12])
{
	const int few = (SPANS + (p->near ? NEAR_SPANS : 0)) * p->each;
	int n = 0;

	for (int at = few - 2; at <= few + 1; at++)
		pos[n++] = at;
	for (int at = few + p->each - 2; at <= few + p->each; at++)
		pos[n++] = at;
	pos[n++] = SPAN_LENGTH - 1;
	return n;
}

static void run_spans(const struct spans *p, struct qn_pool *pool, const int32_t *pos, int n, int32_t *chosen,
                      float *y)
{
	static int32_t seq[12], table[12][SPAN_BLOCKS];
	const int width = 16, heads = KV_HEADS * GROUP;
	const size_t chosen_bytes = sizeof(float) * (size_t)(n * width),
		     y_bytes = sizeof(float) * (size_t)(n * heads * DIM);
	struct guard chosen_guard = guard_new(chosen_bytes), y_guard = guard_new(y_bytes);
	float *c = guard_fill(&chosen_guard, chosen_bytes), *o = guard_fill(&y_guard, y_bytes);
	const struct qn_buf bufs[N_BUFS_SELECT] = {
		{p->src, KV_HEADS * DIM}, {p->q, heads * DIM}, {c, width}, {o, heads * DIM}};
	const struct qn_group groups[2] = {group_of(p->index, p->index_unit, table[0], SPAN_BLOCKS),
	                                   group_of(p->kv, p->kv_unit, table[0], SPAN_BLOCKS)};
	const struct qn_batch batch = {
		.pos = pos, .seq = seq, .groups = groups, .n_tok = n, .n_seq = n, .n_group = 2};
	const size_t bytes = qn_plan_scratch(p->ops, 2, n) * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	for (int t = 0; t < n; t++) {
		seq[t] = t;
		for (int b = 0; b < SPAN_BLOCKS; b++)
			table[t][b] = b;
	}
	memset(c, 0x55, chosen_bytes);
	check_true(qn_plan_check(p->ops, 2, bufs, N_BUFS_SELECT) == QN_OK, "refused");
	run_ops(pool, p->ops, 2, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
	memcpy(chosen, c, chosen_bytes);
	memcpy(y, o, y_bytes);
	guard_intact("chosen", &chosen_guard);
	guard_intact("y", &y_guard);
	guard_free(&chosen_guard);
	guard_free(&y_guard);
}

static double product(const float *a, const float *b)
{
	double sum = 0;

	for (int d = 0; d < DIM; d++)
		sum += (double)a[d] * (double)b[d];
	return sum;
}

/* What token t of those at pos chose and made of it. */
static void check_spans(const struct spans *p, const int32_t *pos, int t, const int32_t *chosen, const float *y)
{
	const int before = p->near ? pos[t] / p->each + 1 - NEAR_SPANS : (pos[t] + 1) / p->each;
	const int some = before > SPANS;

	for (int h = 0; h < KV_HEADS; h++) {
		const int32_t *own = chosen + t * 16 + h * SPANS;
		double worst = INFINITY, other = -INFINITY;
		int in = 0, seen[SPAN_LENGTH];

		memset(seen, 0, sizeof seen);
		for (int at = 0; at <= pos[t]; at++)
			seen[at] = !some || at >= before * p->each;
		if (!some)
			check_true(own[0] == 0x55555555, "position %d chose", pos[t]);
		for (int span = 0; some && span < before; span++) {
			double best_score = -INFINITY;

			for (int i = 0; i < p->each; i++)
				best_score = fmax(best_score, product(p->src + (t * KV_HEADS + h) * DIM,
				                                      p->index_keys + (span * p->each + i) * DIM));
			if (in < SPANS && own[in] == span) {
				worst = fmin(worst, best_score);
				in++;
				for (int i = 0; i < p->each; i++)
					seen[span * p->each + i] = 1;
			} else {
				other = fmax(other, best_score);
			}
		}
		check_true(!some || in == SPANS, "position %d chose %d, %d, %d", pos[t], own[0], own[1], own[2]);
		check_true(worst >= other - 64 * kept(p->type), "position %d chose %g and left %g", pos[t], worst,
		           other);
		for (int g = 0; g < GROUP; g++) {
			const float *q = p->q + (t * KV_HEADS * GROUP + h * GROUP + g) * DIM;
			double sum = 0, want[DIM] = {0};

			for (int at = 0; at <= pos[t]; at++) {
				const double w = seen[at] ? exp(product(q, p->keys + (at * KV_HEADS + h) * DIM)) : 0;

				sum += w;
				for (int d = 0; d < DIM; d++)
					want[d] += w * (double)p->values[(at * KV_HEADS + h) * DIM + d];
			}
			for (int d = 0; d < DIM; d++)
				check_near("y", (h * GROUP + g) * DIM + d,
				           (double)y[(t * KV_HEADS * GROUP + h * GROUP + g) * DIM + d], want[d] / sum,
				           10 * kept(p->type));
		}
	}
}

static void choose_spans(struct qn_pool *pools[2], int type, int each, int near)
{
	const int64_t head = kv_k_bytes(type, DIM) + kv_v_bytes(type, DIM);
	struct spans p = {.type = type,
	                  .each = each,
	                  .near = near,
	                  .kv_unit = KV_HEADS * head,
	                  .index_unit = kv_k_bytes(type, DIM)};
	int32_t pos[12], chosen[12 * 16], got_chosen[12 * 16];
	static float y[12 * KV_HEADS * GROUP * DIM], got[12 * KV_HEADS * GROUP * DIM];
	const int n = span_positions(&p, pos);

	p.kv = guard_alloc((size_t)(SPAN_BLOCKS * p.kv_unit));
	p.index = guard_alloc((size_t)(SPAN_BLOCKS * p.index_unit));
	p.keys = guard_alloc(sizeof(float) * SPAN_LENGTH * KV_HEADS * DIM);
	p.values = guard_alloc(sizeof(float) * SPAN_LENGTH * KV_HEADS * DIM);
	p.index_keys = guard_alloc(sizeof(float) * SPAN_LENGTH * DIM);
	p.src = guard_alloc(sizeof(float) * 12 * KV_HEADS * DIM);
	p.q = guard_alloc(sizeof(float) * 12 * KV_HEADS * GROUP * DIM);
	memset(p.kv, 0x33, (size_t)(SPAN_BLOCKS * p.kv_unit));
	memset(p.index, 0x33, (size_t)(SPAN_BLOCKS * p.index_unit));
	for (int i = 0; i < SPAN_LENGTH * KV_HEADS * DIM; i++) {
		p.keys[i] = rnd_normal();
		p.values[i] = rnd_normal();
	}
	for (int i = 0; i < SPAN_LENGTH * DIM; i++)
		p.index_keys[i] = near ? rnd_normal() : -fabsf(rnd_normal()); /* all scores are below zero then */
	for (int i = 0; i < 12 * KV_HEADS * DIM; i++)
		p.src[i] = near ? rnd_normal() : fabsf(rnd_normal());
	for (int i = 0; i < 12 * KV_HEADS * GROUP * DIM; i++)
		p.q[i] = rnd_normal() / sqrtf(DIM);
	for (int i = 0; i < SPAN_LENGTH; i++) {
		kv_put_kv(type, p.index + i / QN_KV_BLOCK * p.index_unit, i % QN_KV_BLOCK, p.index_keys + i * DIM,
		          DIM);
		for (int h = 0; h < KV_HEADS; h++) {
			uint8_t *k = p.kv + i / QN_KV_BLOCK * p.kv_unit + h * head;

			kv_put_k(type, k, i % QN_KV_BLOCK, p.keys + (i * KV_HEADS + h) * DIM, DIM);
			kv_put_v(type, k + kv_k_bytes(type, DIM), i % QN_KV_BLOCK,
			         p.values + (i * KV_HEADS + h) * DIM, DIM);
		}
	}
	p.ops[0] = (struct qn_op){
		.kind = QN_OP_SELECT,
		.select = {
			.q = {SRC, 0}, .weight = -1, .dst = CHOSEN,
			.heads = {.n_head = KV_HEADS, .n_head_kv = 1, .head_dim = DIM, .k_type = type},
			.selection = {.n = SPANS, .each = each, .near = near * each, .choices = KV_HEADS},
		},
	};
	p.ops[1] = (struct qn_op){
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {WEIGHTS, 0}, .chosen = CHOSEN, .dst = DST,
			.heads =
				{.n_head = KV_HEADS * GROUP, .n_head_kv = KV_HEADS, .head_dim = DIM, .v_dim = DIM,
				 .k_type = type, .v_type = type, .kv = {.group = 1}},
			.selection = {.n = SPANS, .each = each, .near = near * each, .choices = KV_HEADS},
		},
	};
	EACH_SET(s) {
		check_at(s, "chosen spans of %d, %d near, keys %d", each, near, type);
		qn_init(s->isa);
		if (s == check_sets) {
			run_spans(&p, pools[0], pos, n, chosen, y);
			for (int t = 0; t < n; t++)
				check_spans(&p, pos, t, chosen, y);
		}
		for (int i = 0; i < 2; i++)
			for (int size = 1; size <= n; size += n - 1)
				for (int from = 0; from < n; from += size) {
					struct spans some = p;

					some.src += from * KV_HEADS * DIM;
					some.q += from * KV_HEADS * GROUP * DIM;
					run_spans(&some, pools[i], pos + from, size, got_chosen, got);
					check_bytes("chosen", got_chosen, chosen + from * 16,
					            sizeof *chosen * (size_t)size * 16);
					check_floats("y", got, y + from * KV_HEADS * GROUP * DIM,
					             size * KV_HEADS * GROUP * DIM);
				}
	}
	guard_free_all();
}

void check_select(void)
{
	struct qn_pool *pools[2];

	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 6 * i) == QN_OK, "no pool"))
			return;
	for (int type = 0; type < QN_N_KV_TYPES; type++)
		choose(pools, type, LENGTH);
	choose(pools, QN_KV_I16, 3);
	choose(pools, QN_KV_Q8, 1);
	for (int near = 0; near <= NEAR_SPANS; near += NEAR_SPANS) {
		choose_spans(pools, QN_KV_F32, 128, near);
		choose_spans(pools, QN_KV_I16, 64, near);
		choose_spans(pools, QN_KV_Q8, 16, near);
	}
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
