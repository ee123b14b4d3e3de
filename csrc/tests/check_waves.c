/*
 * check_waves.c - attention over long sequences, whose chunks threads share out: the same bits for each set and number
 * of threads as one thread has with scalar kernels. The first sequence's tile is so large that there is room for few
 * results of chunks, and all take several waves.
 */
#include <string.h>

#include "format/kv.h"
#include "run/pool.h"
#include "check.h"

enum {
	HEADS = 4,
	WIDE = 60, /* tokens of the first sequence */
	TOK = WIDE + 6,
	N_SEQ = 4,
	COLS = 7 * 16, /* blocks of a sequence */
	N_UNITS = 7, /* that the sequences have in turns */
	CHUNK_POSITIONS = 16 * QN_KV_BLOCK,
	AGED = 40, /* blocks from which on a tier has them */
	QUERIES = 0, RESULTS, N_BUFS_WAVES
};

/* Where tokens are: the first of a sequence, at the end of a chunk and across one, and without whole chunks. */
static const struct {
	int pos, n;
} seqs[N_SEQ] = {{0, WIDE}, {6 * CHUNK_POSITIONS + 5, 1}, {3 * CHUNK_POSITIONS - 2, 4}, {2 * CHUNK_POSITIONS - 1, 1}};

struct problem {
	const char *name;
	int head_dim, v_dim, kv_heads, latent, window, tiers, sinks;
};

static const struct problem problems[] = {
	{.name = "keys and values", .head_dim = 256, .v_dim = 256, .kv_heads = 2},
	{.name = "values in keys", .head_dim = 512, .v_dim = 512, .kv_heads = 2, .latent = 1},
	{.name = "a window", .head_dim = 256, .v_dim = 256, .kv_heads = 2,
	 .window = 2 * CHUNK_POSITIONS + 77, .sinks = 1},
	{.name = "tiers", .head_dim = 256, .v_dim = 256, .kv_heads = 2, .tiers = 1},
};

/* The units of a group with the heads of each in two places. */
static struct qn_group in_two(const struct qn_group *g)
{
	const int64_t half = g->unit_bytes / 2, stride = N_UNITS * half + 64;
	struct qn_group two = *g;
	uint8_t *to = guard_alloc((size_t)(2 * stride));

	for (int k = 0; k < 2; k++)
		for (int i = 0; i < N_UNITS; i++)
			memcpy(to + k * stride + i * half, (uint8_t *)g->data + i * g->unit_bytes + k * half,
			       (size_t)half);
	two.data = to;
	two.unit_bytes = half;
	two.places = 2;
	two.place_stride = stride;
	return two;
}

/* Keys and values of all units of a group, as op has them. */
static uint8_t *units(const struct problem *p, int k_type, int v_type, int64_t bytes)
{
	uint8_t *data = guard_alloc((size_t)(N_UNITS * bytes)), *kv = data;
	const int64_t k_bytes = kv_k_bytes(k_type, p->head_dim);
	float x[512];

	for (int i = 0; i < N_UNITS * p->kv_heads; i++, kv += bytes / p->kv_heads)
		for (int pos = 0; pos < QN_KV_BLOCK; pos++) {
			for (int d = 0; d < p->head_dim; d++)
				x[d] = rnd_normal();
			if (p->latent) {
				kv_put_kv(k_type, kv, pos, x, p->head_dim);
				continue;
			}
			kv_put_k(k_type, kv, pos, x, p->head_dim);
			for (int d = 0; d < p->v_dim; d++)
				x[d] = rnd_normal();
			kv_put_v(v_type, kv + k_bytes, pos, x, p->v_dim);
		}
	return data;
}

static void run(struct qn_pool *pool, const struct qn_op *op, const struct qn_group *groups, float *q, float *y)
{
	int32_t pos[TOK], seq[TOK];
	const struct qn_buf bufs[N_BUFS_WAVES] =
		{{q, HEADS * op->attend.heads.head_dim}, {y, HEADS * op->attend.heads.v_dim}};
	const struct qn_batch batch = {
		.pos = pos, .seq = seq, .groups = groups, .n_tok = TOK, .n_seq = N_SEQ, .n_group = 2};
	const size_t each = qn_plan_scratch(op, 1, TOK), bytes = each * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	for (int s = 0, t = 0; s < N_SEQ; s++)
		for (int i = 0; i < seqs[s].n; i++, t++) {
			pos[t] = seqs[s].pos + i;
			seq[t] = s;
		}
	memset(y, 0x55, sizeof *y * (size_t)(TOK * HEADS * op->attend.heads.v_dim));
	if (check_true(qn_plan_check(op, 1, bufs, N_BUFS_WAVES) == QN_OK, "refused"))
		run_ops(pool, op, 1, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
}

static void waves(struct qn_pool *const pools[], int n_pools, const struct problem *p, int type)
{
	static int32_t tables[2][N_SEQ][COLS];
	const int aged_type = type == QN_KV_Q4 ? QN_KV_I16 : QN_KV_Q4;
	const int64_t n_y = (int64_t)TOK * HEADS * p->v_dim, n_q = (int64_t)TOK * HEADS * p->head_dim;
	const int64_t unit = (int64_t)qn_kv_bytes(type, type, p->kv_heads, p->head_dim, p->latent ? 0 : p->v_dim);
	const int64_t aged = (int64_t)qn_kv_bytes(aged_type, aged_type, p->kv_heads, p->head_dim, p->v_dim);
	float sinks[HEADS];
	struct qn_op op = {
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {QUERIES, 0}, .dst = RESULTS,
			.heads =
				{.n_head = HEADS, .n_head_kv = p->kv_heads, .head_dim = p->head_dim, .v_dim = p->v_dim,
				 .k_type = type, .v_type = type, .v_in_k = p->latent},
			.window = p->window, .sinks = p->sinks ? sinks : NULL, .n_tier = p->tiers,
			.tier = {{.kv = {0, 1}, .k_type = aged_type, .v_type = aged_type}},
		},
	};
	float *q, *y, *want;

	qn_init(check_sets->isa);
	check_at(check_sets, "waves of %s, type %d", p->name, type);
	q = guard_alloc(sizeof *q * (size_t)n_q);
	y = guard_alloc(sizeof *y * (size_t)n_y);
	want = guard_alloc(sizeof *want * (size_t)n_y);
	for (int64_t i = 0; i < n_q; i++)
		q[i] = rnd_normal() * 0.2f;
	for (int i = 0; i < HEADS; i++)
		sinks[i] = rnd_normal();
	for (int s = 0; s < N_SEQ; s++)
		for (int b = 0; b < COLS; b++) {
			const int old = p->tiers && b < AGED;

			tables[0][s][b] = old ? -1 : (3 * b + s) % N_UNITS;
			tables[1][s][b] = old ? (5 * b + s) % N_UNITS : -1;
		}

	const struct qn_group groups[2] = {group_of(units(p, type, type, unit), unit, tables[0][0], COLS),
	                                   group_of(units(p, aged_type, aged_type, aged), aged, tables[1][0], COLS)};
	const struct qn_group divided[2] = {in_two(&groups[0]), in_two(&groups[1])};

	/* The scratch of three threads has less room than the results of all chunks take, so they come in waves. */
	check_true(3 * qn_plan_scratch(&op, 1, TOK) <
	                   (p->window ? 20 : 28) * sizeof(float) * WIDE * HEADS /
	                           (size_t)p->kv_heads * (size_t)(p->v_dim + 2),
	           "there is room for all chunks");
	EACH_SET(s) {
		qn_init(s->isa);
		for (int i = 0; i < n_pools; i++) {
			check_at(s, "waves of %s, type %d, %d threads in %d places", p->name, type,
			         qn_pool_threads(pools[i]), pool_places(pools[i]));
			run(pools[i], &op, groups, q, s == check_sets && i == 0 ? want : y);
			if (s != check_sets || i > 0)
				check_floats("y", y, want, n_y);
			check_at(s, "waves of %s in two places, type %d, %d threads in %d", p->name, type,
			         qn_pool_threads(pools[i]), pool_places(pools[i]));
			run(pools[i], &op, divided, q, y);
			check_floats("y", y, want, n_y);
		}
	}
	guard_free_all();
}

void check_waves(void)
{
	struct qn_pool *pools[] = {
		pool_in_places((int[]){1}, 1), pool_in_places((int[]){2}, 1), pool_in_places((int[]){3}, 1),
		pool_in_places((int[]){1, 1}, 2), pool_in_places((int[]){1, 3}, 2),
		pool_in_places((int[]){1, 1, 1}, 3),
	};

	for (int i = 0; i < COUNT(problems); i++)
		for (int type = 0; type < QN_N_KV_TYPES; type++)
			if (!check_quick || type == QN_KV_I16 || type == QN_KV_Q4) {
				check_limit();
				waves(pools, COUNT(pools), &problems[i], type);
			}
	for (int i = 0; i < COUNT(pools); i++)
		qn_pool_destroy(pools[i]);
}
