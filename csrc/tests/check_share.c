/* check_share.c - ranks that are threads: what each has of rows, messages, and how a pass ends on all of them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host.h"
#include "kernels.h"
#include "run/pool.h"

enum { RANKS = 3, WIDE = 320, BLOCKS = 5, PLANS = 4 };
enum { X, ACT, STAGE, N_BUF };

static const int32_t cut[RANKS + 1] = {16, 48, 272, 301}; /* a width that is no multiple of 16 */
static const int32_t blocks[RANKS + 1] = {0, 1, 4, 5};

/* One rank, and what all are asked to do. */
struct rank {
	struct qn_ranks *g;
	struct qn_pool *pool;
	struct qn_buf bufs[N_BUF];
	struct qn_op op;
	int32_t n_tok, ran;
	const uint32_t *ask;
	float *x, *all; /* what it had, and what all have together */
	uint8_t *act, *all_act;
	struct sys_thread thread;
};

static struct qn_op share(struct qn_ranks *g, int apart)
{
	const int32_t r = qn_ranks_rank(g);

	return (struct qn_op){
		.kind = QN_OP_SHARE,
		.share = {
			.ranks = g, .n_part = 2, .stage = STAGE, .to = -1, .step = 7,
			.part = {{.cut = cut, .dst = X, .own = apart ? 0 : cut[r], .act = -1},
			         {.cut = blocks, .dst = ACT, .own = blocks[r], .act = QN_ACT_Q8_256}},
		},
	};
}

static size_t act_size(int n_tok)
{
	return qn_act_bytes(QN_ACT_Q8_256, n_tok, BLOCKS * QN_ACT_BLOCK);
}

/* A rank with columns of its own, at the first column or in their place, and noise in those of others. */
static void rank_open(struct rank *k, struct qn_ranks *g, struct qn_pool *pool, int n_tok, int apart, const float *all,
                      const uint8_t *all_act)
{
	const int32_t r = qn_ranks_rank(g), stage = QN_SHARE_ROOM(RANKS) + 288 + BLOCKS * 80;
	const size_t block = (size_t)act_bytes(QN_ACT_Q8_256) * (size_t)n_tok;

	*k = (struct rank){.g = g, .pool = pool, .op = share(g, apart), .n_tok = n_tok};
	k->x = guard_alloc(sizeof *k->x * (size_t)(n_tok * WIDE));
	k->act = guard_alloc(act_size(n_tok));
	for (int i = 0; i < n_tok * WIDE; i++)
		k->x[i] = rnd_normal();
	for (int i = 0; i < n_tok; i++) {
		memcpy(k->x + i * WIDE + k->op.share.part[0].own, all + i * WIDE + cut[r],
		       sizeof *all * (size_t)(cut[r + 1] - cut[r]));
	}
	memset(k->act, 0x55, act_size(n_tok));
	memcpy(k->act + block * (size_t)blocks[r], all_act + block * (size_t)blocks[r],
	       block * (size_t)(blocks[r + 1] - blocks[r]));
	k->bufs[X] = (struct qn_buf){k->x, WIDE};
	k->bufs[ACT] = (struct qn_buf){k->act, BLOCKS * QN_ACT_BLOCK};
	k->bufs[STAGE] = (struct qn_buf){guard_alloc((size_t)n_tok * (size_t)stage * sizeof(float)), stage};
}

static void rank_run(void *arg)
{
	struct rank *k = arg;
	const struct qn_plan plan = {.ops = &k->op, .n_ops = 1};
	struct qn_plan plans[PLANS];
	struct qn_batch batch = {.n_tok = k->n_tok};

	for (int i = 0; i < PLANS; i++)
		plans[i] = plan;
	k->ran = qn_run(k->pool, plans, k->ask ? PLANS : 1, k->bufs, &batch, NULL, 0, qn_ranks_begin(k->g, k->ask));
}

static void together(struct rank *ranks, int n)
{
	for (int r = 0; r < n; r++)
		check_true(sys_thread_start(&ranks[r].thread, rank_run, &ranks[r]), "no thread");
	for (int r = 0; r < n; r++)
		sys_thread_join(&ranks[r].thread);
}

/* All have the columns and blocks of all, and what is beside them is as it was. */
static void gathers(struct qn_pool *const pools[], int n_tok, int apart, int to)
{
	struct qn_ranks *g[RANKS];
	struct rank ranks[RANKS];
	float *all = guard_alloc(sizeof *all * (size_t)(n_tok * WIDE));
	uint8_t *all_act = guard_alloc(act_size(n_tok));

	check_at(check_sets, "%d ranks share %d rows, apart %d, to %d", RANKS, n_tok, apart, to);
	for (int i = 0; i < n_tok * WIDE; i++)
		all[i] = rnd_normal();
	for (size_t i = 0; i < act_size(n_tok); i++)
		all_act[i] = (uint8_t)rnd_below(256);
	check_true(qn_ranks_self(g, RANKS) == QN_OK, "no ranks");
	for (int r = 0; r < RANKS; r++) {
		rank_open(&ranks[r], g[r], pools[r], n_tok, apart, all, all_act);
		ranks[r].op.share.to = to;
		check_true(qn_plan_check(&ranks[r].op, 1, ranks[r].bufs, N_BUF) == QN_OK, "refused");
	}
	together(ranks, RANKS);
	for (int r = 0; r < RANKS; r++) {
		check_true(qn_ranks_failed(g[r]) == QN_OK, "rank %d failed: %d", r, qn_ranks_failed(g[r]));
		check_true(qn_ranks_shares(g[r]) == 1, "%d shares", (int)qn_ranks_shares(g[r]));
		for (int i = 0; (to < 0 || to == r) && i < n_tok; i++)
			check_floats("x", ranks[r].x + i * WIDE + cut[0], all + i * WIDE + cut[0],
			             cut[RANKS] - cut[0]);
		if (to < 0 || to == r)
			check_bytes("activations", ranks[r].act, all_act, (int64_t)act_size(n_tok));
		qn_ranks_close(g[r]);
	}
	guard_free_all();
}

/* One rank hands columns to another: the third is not waited for, and counts the exchange when it comes to it. */
static void hands(struct qn_pool *const pools[], int n_tok, int to)
{
	static const int32_t one[RANKS + 1] = {48, 48, 272, 272};
	const int32_t third = 2 - to;
	struct qn_ranks *g[RANKS];
	struct rank ranks[RANKS];
	float *all = guard_alloc(sizeof *all * (size_t)(n_tok * WIDE));
	uint8_t *all_act = guard_alloc(act_size(n_tok));

	check_at(check_sets, "rank 1 hands %d rows to rank %d", n_tok, to);
	for (int i = 0; i < n_tok * WIDE; i++)
		all[i] = rnd_normal();
	memset(all_act, 0, act_size(n_tok));
	check_true(qn_ranks_self(g, RANKS) == QN_OK, "no ranks");
	for (int r = 0; r < RANKS; r++) {
		rank_open(&ranks[r], g[r], pools[r], n_tok, 0, all, all_act);
		ranks[r].op.share.n_part = 1;
		ranks[r].op.share.part[0].cut = one;
		ranks[r].op.share.part[0].own = one[r];
		ranks[r].op.share.to = to;
		check_true(qn_plan_check(&ranks[r].op, 1, ranks[r].bufs, N_BUF) == QN_OK, "refused");
	}
	rank_run(&ranks[1]); /* it does not wait, either */
	rank_run(&ranks[to]);
	for (int i = 0; i < n_tok; i++)
		check_floats("x", ranks[to].x + i * WIDE + one[0], all + i * WIDE + one[0], one[RANKS] - one[0]);
	rank_run(&ranks[third]);
	for (int r = 0; r < RANKS; r++) {
		check_true(qn_ranks_failed(g[r]) == QN_OK, "rank %d failed: %d", r, qn_ranks_failed(g[r]));
		check_true(qn_ranks_shares(g[r]) == 1, "%d shares", (int)qn_ranks_shares(g[r]));
		qn_ranks_close(g[r]);
	}
	guard_free_all();
}

/* A pass ends behind the same plan on all ranks, where rank 0 is asked to end it; other ranks are not asked. */
static void stops(struct qn_pool *const pools[])
{
	static const uint32_t yes = 1, no = 0;
	struct qn_ranks *g[RANKS];
	struct rank ranks[RANKS];
	float *all = guard_alloc(sizeof *all * WIDE);
	uint8_t *all_act = guard_alloc(act_size(1));

	memset(all, 0, sizeof *all * WIDE);
	memset(all_act, 0, act_size(1));
	for (int asked = 0; asked < 2; asked++) {
		check_at(check_sets, "a pass is stopped by rank %d", asked);
		check_true(qn_ranks_self(g, RANKS) == QN_OK, "no ranks");
		for (int r = 0; r < RANKS; r++) {
			rank_open(&ranks[r], g[r], pools[r], 1, 0, all, all_act);
			ranks[r].ask = r == asked ? &yes : &no;
		}
		together(ranks, RANKS);
		for (int r = 0; r < RANKS; r++) {
			check_true(ranks[r].ran == (asked ? PLANS : 1), "rank %d ran %d plans", r, ranks[r].ran);
			qn_ranks_close(g[r]);
		}
	}
	guard_free_all();
}

/* Ranks that are at different operations, or without one of them, fail, and end their passes. */
static void fails(struct qn_pool *const pools[])
{
	struct qn_ranks *g[RANKS];
	struct rank ranks[RANKS];
	float *all = guard_alloc(sizeof *all * 2 * WIDE);
	uint8_t *all_act = guard_alloc(act_size(2));

	memset(all, 0, sizeof *all * 2 * WIDE);
	memset(all_act, 0, act_size(2));
	for (int way = 0; way < 3; way++) {
		static const char *const names[] = {"another step", "another number of rows", "one has left"};
		const int n = way == 2 ? RANKS - 1 : RANKS, want = way == 2 ? QN_EBROKEN : QN_EDESYNC;

		check_at(check_sets, "ranks fail: %s", names[way]);
		check_true(qn_ranks_self(g, RANKS) == QN_OK, "no ranks");
		for (int r = 0; r < RANKS; r++)
			rank_open(&ranks[r], g[r], pools[r], way == 1 && r == 1 ? 2 : 1, 0, all, all_act);
		if (way == 0)
			ranks[1].op.share.step++;
		if (way == 2)
			qn_ranks_close(g[RANKS - 1]);
		together(ranks, n);
		for (int r = 0; r < n; r++) {
			check_true(qn_ranks_failed(g[r]) == want, "rank %d: %d", r, qn_ranks_failed(g[r]));
			check_true(*qn_ranks_begin(g[r], NULL) == 1, "rank %d goes on", r);
			qn_ranks_close(g[r]);
		}
	}
	guard_free_all();
}

static void messages(void)
{
	struct qn_ranks *g[2];
	char text[8];
	size_t n;

	check_at(check_sets, "messages");
	check_true(qn_ranks_self(g, 2) == QN_OK, "no ranks");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 1000000) == QN_ETIMEOUT, "a message of nobody");
	check_true(qn_ranks_send(g[0], -1, "first", 5) == QN_OK && qn_ranks_send(g[0], 1, "", 0) == QN_OK &&
	                   qn_ranks_send(g[0], 1, "too long for it", 15) == QN_OK &&
	                   qn_ranks_send(g[0], 1, "b", 1) == QN_OK,
	           "not sent");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_OK && n == 5 && !memcmp(text, "first", 5),
	           "the first");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_OK && n == 0, "the second");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_ETOOLONG && n == 15, "the third");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_OK && n == 1 && text[0] == 'b', "the fourth");
	check_true(qn_ranks_recv(g[1], 1, text, sizeof text, &n, 0) == QN_EINVAL, "from itself");
	check_true(qn_ranks_recv(g[1], 2, text, sizeof text, &n, 0) == QN_EINVAL, "from nobody");
	check_true(qn_ranks_send(g[1], 1, "x", 1) == QN_EINVAL && qn_ranks_send(g[1], 2, "x", 1) == QN_EINVAL,
	           "sent to nobody");
	qn_ranks_break(g[0]);
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_EBROKEN, "the group is broken");
	check_true(qn_ranks_send(g[1], 0, "x", 1) == QN_EBROKEN, "sent to a broken group");
	qn_ranks_close(g[0]);
	qn_ranks_close(g[1]);
	check_true(qn_ranks_self(g, 2) == QN_OK && qn_ranks_send(g[0], 1, "last", 4) == QN_OK, "not sent");
	qn_ranks_close(g[0]);
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_OK && n == 4, "of one who has left");
	check_true(qn_ranks_recv(g[1], 0, text, sizeof text, &n, 0) == QN_EBROKEN, "no more of one who has left");
	check_true(qn_ranks_send(g[1], 0, "x", 1) == QN_EBROKEN, "sent to one who has left");
	qn_ranks_close(g[1]);
	check_true(qn_ranks_self(g, 0) == QN_EINVAL && qn_ranks_self(g, QN_RANKS_MAX + 1) == QN_EINVAL,
	           "any number of ranks");
}

/* A plan with o, changed as said, is refused. */
#define REFUSED(change)                                                                          \
	do {                                                                                     \
		struct qn_op o = share(g[1], 0);                                                 \
		int32_t at[RANKS + 1];                                                           \
		memcpy(at, cut, sizeof at);                                                      \
		o.share.part[0].cut = at;                                                        \
		change;                                                                          \
		check_true(qn_plan_check(&o, 1, bufs, N_BUF) == QN_EINVAL, "%s is taken", #change); \
	} while (0)

static void refuses(void)
{
	struct qn_ranks *g[RANKS];
	const int32_t stage = QN_SHARE_ROOM(RANKS) + 288 + BLOCKS * 80;
	_Alignas(64) static uint8_t nothing[64];
	struct qn_op plain;
	struct qn_buf bufs[N_BUF] = {{nothing, WIDE}, {nothing, BLOCKS * QN_ACT_BLOCK}, {nothing, stage}};

	check_at(check_sets, "plans that share");
	check_true(qn_ranks_self(g, RANKS) == QN_OK, "no ranks");
	plain = share(g[1], 0);
	check_true(qn_plan_check(&plain, 1, bufs, N_BUF) == QN_OK, "a plan is refused");
	REFUSED(o.share.ranks = NULL);
	REFUSED(o.share.n_part = 0);
	REFUSED(o.share.n_part = QN_SHARE_PARTS + 1);
	REFUSED(o.share.to = RANKS);
	REFUSED(o.share.to = -2);
	REFUSED(o.share.stage = -1);
	REFUSED(o.share.part[0].cut = NULL);
	REFUSED(o.share.part[0].dst = N_BUF);
	REFUSED(o.share.part[0].act = QN_N_ACT);
	REFUSED(o.share.part[0].own = -16);
	REFUSED(o.share.part[0].own = 8);
	REFUSED(o.share.part[0].own = WIDE - 208);
	REFUSED(o.share.part[1].own = 3);
	REFUSED(at[1] = 40);
	REFUSED(at[0] = -16);
	REFUSED(at[2] = 32);
	REFUSED(at[RANKS] = WIDE + 1);
	REFUSED(o.rows = QN_ROWS_HEAD);
	REFUSED((o.rows = QN_ROWS_HEAD, o.heads.n = 2, o.heads.step = WIDE));
	REFUSED(o.rows = QN_ROWS_PAIR);
	bufs[STAGE].width = stage - 16;
	REFUSED((void)at);
	for (int r = 0; r < RANKS; r++)
		qn_ranks_close(g[r]);
}

void check_share(void)
{
	struct qn_pool *pools[RANKS];

	qn_init(0);
	for (int r = 0; r < RANKS; r++)
		check_true(qn_pool_create(&pools[r], NULL, 1 + r % 2) == QN_OK, "no pool");
	for (int apart = 0; apart < 2; apart++) {
		gathers(pools, 1, apart, -1);
		gathers(pools, 5, apart, 0);
		gathers(pools, 57, apart, -1); /* more than one thread copies alone */
		gathers(pools, 57, apart, RANKS - 1);
	}
	hands(pools, 1, 0);
	hands(pools, 57, RANKS - 1);
	stops(pools);
	fails(pools);
	messages();
	refuses();
	for (int r = 0; r < RANKS; r++)
		qn_pool_destroy(pools[r]);
}
