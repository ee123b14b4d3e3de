/*
 * check_blocks.c - blocks of keys that blocks of queries choose, and attention over these: against the formulas in
 * double, the same for each set, number of threads and batch, and the same as without a choice where all are chosen.
 */
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "check.h"

enum {
	KV_HEADS = 2,
	GROUP = 3,
	HEADS = KV_HEADS * GROUP,
	DIM = 24, /* transformed by 8 */
	N_BLOCKS = 10,
	FROM = 3 * QN_KV_BLOCK,
	TAIL = 20, /* tokens behind the last whole block */
	LONG = 4 * QN_KV_BLOCK + TAIL,
	SHORT = 2 * QN_KV_BLOCK,
	TOK = LONG + SHORT,
	SRC = 0, MASK, DST, N_BUFS_BLOCKS
};

/* Where the tokens of two sequences begin, which have the same keys, and where their prompts end. */
static const int32_t begin[2] = {5 * QN_KV_BLOCK, FROM - QN_KV_BLOCK};
static const int32_t prompt[2] = {9 * QN_KV_BLOCK, FROM + QN_KV_BLOCK};

struct problem {
	int type;
	uint8_t *kv;
	int64_t unit;
	float *keys, *values; /* [N_BLOCKS * 64][KV_HEADS][DIM] */
	float *src;           /* [TOK][HEADS][DIM] */
	struct qn_op ops[2];
};

struct outcome {
	uint32_t mask[TOK / QN_KV_BLOCK + 1][HEADS]; /* of blocks of queries, by their first token / 64 */
	float y[TOK][HEADS * DIM];
};

static int seq_of(int t)
{
	return t >= LONG;
}

static int32_t pos_of(int t)
{
	return begin[seq_of(t)] + (seq_of(t) ? t - LONG : t);
}

/* Whether a token's block of queries chooses. */
static int chooses(int t)
{
	const int32_t pos = pos_of(t);

	return pos < prompt[seq_of(t)] && pos - pos % QN_KV_BLOCK >= FROM;
}

/* A token's block of queries: tokens of both sequences begin at one. */
static int queries_of(int t)
{
	return seq_of(t) ? LONG / QN_KV_BLOCK + 1 + (t - LONG) / QN_KV_BLOCK : t / QN_KV_BLOCK;
}

/* Runs tokens from .. to, whole blocks where these choose. */
static void run(const struct problem *p, int n_ops, struct qn_pool *pool, int from, int to, struct outcome *o)
{
	static int32_t pos[TOK], seq[TOK], table[2][N_BLOCKS];
	const int n = to - from, width = 16;
	const size_t mask_bytes = sizeof(float) * (size_t)(n * width);
	const size_t y_bytes = sizeof(float) * (size_t)(n * HEADS * DIM);
	struct guard mask_guard = guard_new(mask_bytes), y_guard = guard_new(y_bytes);
	float *mask = guard_fill(&mask_guard, mask_bytes), *y = guard_fill(&y_guard, y_bytes);
	const struct qn_buf bufs[N_BUFS_BLOCKS] = {
		{p->src + from * HEADS * DIM, HEADS * DIM}, {mask, width}, {y, HEADS * DIM}};
	const struct qn_group group = group_of(p->kv, p->unit, table[0], N_BLOCKS);
	const struct qn_batch batch = {.pos = pos + from, .seq = seq + from, .groups = &group, .n_tok = n, .n_seq = 2,
	                               .n_group = 1, .prompt = prompt};
	const struct qn_op *ops = p->ops + 2 - n_ops;
	const size_t bytes = qn_plan_scratch(ops, n_ops, n) * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	for (int t = 0; t < TOK; t++) {
		pos[t] = pos_of(t);
		seq[t] = seq_of(t);
	}
	for (int b = 0; b < N_BLOCKS; b++)
		table[0][b] = table[1][b] = b;
	check_true(qn_plan_check(ops, n_ops, bufs, N_BUFS_BLOCKS) == QN_OK, "refused");
	run_ops(pool, ops, n_ops, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
	for (int t = from; t < to; t++) {
		memcpy(o->y[t], y + (t - from) * HEADS * DIM, sizeof o->y[t]);
		if (chooses(t) && pos_of(t) % QN_KV_BLOCK == 0)
			memcpy(o->mask[queries_of(t)], mask + (t - from) * width, sizeof o->mask[0]);
	}
	guard_intact("mask", &mask_guard);
	guard_intact("y", &y_guard);
	guard_free(&mask_guard);
	guard_free(&y_guard);
}

/* How far what a type keeps is from the numbers that came. */
static double kept(int type)
{
	static const double eps[QN_N_KV_TYPES] = {
		[QN_KV_F32] = 1e-5, [QN_KV_I16] = 5e-4, [QN_KV_F16] = 2e-3, [QN_KV_BF16] = 2e-2, [QN_KV_Q8] = 0.05,
		[QN_KV_Q4] = 0.4,
	};

	return eps[type];
}

/* The weights that head h of token t gives to the keys that are seen, of n: their sum is 1. */
static void weigh(const struct problem *p, int t, int h, const uint32_t *mask, int n, double *weight)
{
	double max = -INFINITY, sum = 0;

	for (int i = 0; i < n; i++) {
		weight[i] = -INFINITY;
		if (mask && !(*mask >> i / QN_KV_BLOCK & 1))
			continue;
		weight[i] = 0;
		for (int d = 0; d < DIM; d++)
			weight[i] += (double)p->src[(t * HEADS + h) * DIM + d] *
			             (double)p->keys[(i * KV_HEADS + h / GROUP) * DIM + d];
		max = fmax(max, weight[i]);
	}
	for (int i = 0; i < n; i++)
		sum += weight[i] = exp(weight[i] - max);
	for (int i = 0; i < n; i++)
		weight[i] /= sum;
}

/* The chosen blocks have the part of the weight that is asked for, and none of them could be left out. */
static void chosen(const struct problem *p, const struct outcome *o, int t, int h)
{
	static double weight[N_BLOCKS * QN_KV_BLOCK];
	const int own = pos_of(t) / QN_KV_BLOCK;
	const uint32_t mask = o->mask[queries_of(t)][h], sure = 1u | 1u << (own - 1) | 1u << own;
	const double part = (double)p->ops[0].attend.blocks.part * 8, off = 8 * 4 * kept(p->type);
	double block[N_BLOCKS] = {0}, have = 0, least = INFINITY, most = 0;

	for (int i = 7; i < QN_KV_BLOCK; i += 8) {
		weigh(p, t + i, h, NULL, pos_of(t + i) + 1, weight);
		for (int k = 0; k <= pos_of(t + i); k++)
			block[k / QN_KV_BLOCK] += weight[k];
	}
	for (int b = 0; b <= own; b++) {
		if (mask >> b & 1)
			have += block[b];
		if ((mask & ~sure) >> b & 1)
			least = fmin(least, block[b]);
		if (!(mask >> b & 1))
			most = fmax(most, block[b]);
	}
	check_true((mask & sure) == sure && mask >> (own + 1) == 0, "token %d head %d sees %x", t, h, mask);
	check_true(have >= part - off, "token %d head %d: %g of the weight", t, h, have / 8);
	check_true(most <= least + off, "token %d head %d chose %g and left %g", t, h, least, most);
	check_true(!(mask & ~sure) || have - least <= part + off, "token %d head %d: %g without the last", t, h,
	           (have - least) / 8);
}

static void attention(const struct problem *p, const struct outcome *o, int t)
{
	static double weight[N_BLOCKS * QN_KV_BLOCK];
	const int n = pos_of(t) + 1;

	for (int h = 0; h < HEADS; h++) {
		weigh(p, t, h, chooses(t) ? &o->mask[queries_of(t)][h] : NULL, n, weight);
		for (int d = 0; d < DIM; d++) {
			double want = 0;

			for (int i = 0; i < n; i++)
				want += weight[i] * (double)p->values[(i * KV_HEADS + h / GROUP) * DIM + d];
			check_near("y", h * DIM + d, (double)o->y[t][h * DIM + d], want, 20 * kept(p->type));
		}
	}
}

static void same(const struct problem *p, const struct outcome *want, struct qn_pool *pool, int step)
{
	static struct outcome got;

	for (int from = 0, to; from < TOK; from = to) {
		to = from < LONG ? from + step * QN_KV_BLOCK : from + QN_KV_BLOCK;
		to = step > N_BLOCKS || to > TOK ? TOK : from < LONG && to > LONG ? LONG : to;
		run(p, 2, pool, from, to, &got);
	}
	for (int t = 0; t < TOK; t++) {
		if (chooses(t))
			check_bytes("mask", got.mask[queries_of(t)], want->mask[queries_of(t)], sizeof want->mask[0]);
		check_floats("y", got.y[t], want->y[t], HEADS * DIM);
	}
}

static void choose(struct qn_pool *pools[2], int type, float part, float softcap)
{
	static struct outcome want, all;
	struct problem p = {.type = type, .unit = 64 + KV_HEADS * (kv_k_bytes(type, DIM) + kv_v_bytes(type, DIM))};
	const int64_t head = kv_k_bytes(type, DIM) + kv_v_bytes(type, DIM);
	const int n = N_BLOCKS * QN_KV_BLOCK * KV_HEADS;

	check_at(check_sets, "blocks of keys, type %d, part %g", type, (double)part);
	p.kv = guard_alloc((size_t)(N_BLOCKS * p.unit));
	p.keys = guard_alloc(sizeof *p.keys * (size_t)n * DIM);
	p.values = guard_alloc(sizeof *p.values * (size_t)n * DIM);
	p.src = guard_alloc(sizeof *p.src * TOK * HEADS * DIM);
	memset(p.kv, 0x33, (size_t)(N_BLOCKS * p.unit));
	for (int i = 0; i < n * DIM; i++)
		p.keys[i] = rnd_normal(), p.values[i] = rnd_normal();
	for (int i = 0; i < n; i++) {
		const int at = i / KV_HEADS;
		uint8_t *k = p.kv + at / QN_KV_BLOCK * p.unit + 64 + i % KV_HEADS * head;

		kv_put_k(type, k, at % QN_KV_BLOCK, p.keys + i * DIM, DIM);
		kv_put_v(type, k + kv_k_bytes(type, DIM), at % QN_KV_BLOCK, p.values + i * DIM, DIM);
	}
	for (int i = 0; i < TOK * HEADS * DIM; i++)
		p.src[i] = rnd_normal() * 0.5f; /* a few keys have most of the weight */
	for (int i = 0; i < 2; i++)
		p.ops[i] = (struct qn_op){
			.kind = i ? QN_OP_ATTEND : QN_OP_BLOCKS,
			.attend = {
				.q = {SRC, 0}, .dst = DST, .softcap = softcap,
				.heads =
					{.n_head = HEADS, .n_head_kv = KV_HEADS, .head_dim = DIM, .v_dim = DIM,
					 .k_type = type, .v_type = type, .kv = {.offset = 64}},
				.blocks = {.mask = MASK, .words = 1, .from = FROM, .part = part},
			},
		};
	EACH_SET(s) {
		check_at(s, "blocks of keys, type %d, part %g", type, (double)part);
		qn_init(s->isa);
		if (s == check_sets) {
			run(&p, 2, pools[0], 0, TOK, &want);
			for (int t = 0; t < TOK && softcap == 0 && part < 1; t++) {
				for (int h = 0; h < HEADS && chooses(t) && pos_of(t) % QN_KV_BLOCK == 0; h++)
					chosen(&p, &want, t, h);
				if (type != QN_KV_Q4)
					attention(&p, &want, t);
			}
		}
		same(&p, &want, pools[0], 1);
		same(&p, &want, pools[1], 2);
		if (s != check_sets)
			same(&p, &want, pools[1], N_BLOCKS + 1);
	}
	if (part == 1) { /* as if there were no choice */
		p.ops[1].attend.blocks.words = 0;
		run(&p, 1, pools[1], 0, TOK, &all);
		for (int t = 0; t < TOK; t++)
			check_floats("y", all.y[t], want.y[t], HEADS * DIM);
	}
	guard_free_all();
}

void check_blocks(void)
{
	struct qn_pool *pools[2];

	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 6 * i) == QN_OK, "no pool"))
			return;
	for (int type = 0; type < QN_N_KV_TYPES; type++)
		if (!check_quick || type == QN_KV_F16 || type == QN_KV_Q4)
			choose(pools, type, 0.7f, 0);
	if (!check_quick)
		choose(pools, QN_KV_F16, 1, 0);
	choose(pools, QN_KV_I16, 1, 0);
	choose(pools, QN_KV_I16, 0.9f, 5);
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
