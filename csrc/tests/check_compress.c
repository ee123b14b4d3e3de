/*
 * check_compress.c - keys that stand for several positions, their choice, and attention over them and a window: against
 * the formulas in double, and the same for each set, number of threads and cut of the text.
 */
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "check.h"

enum {
	HEADS = 7, DIM = 48, N_ROT = 16, WINDOW = 20, BEST = 30, LENGTH = 300,
	N_BLOCKS = (LENGTH + QN_KV_BLOCK - 1) / QN_KV_BLOCK,
	GIVEN = 2 * 2 * DIM, /* x and weights of two parts */
	SRC = 0, QUERIES, TURNS, WEIGHTS, CHOSEN, DST, N_BUFS_COMPRESS
};

static const int widths[N_BUFS_COMPRESS] = {GIVEN, HEADS * DIM, N_ROT, 16, 32, HEADS * DIM};

struct problem {
	int type, every, parts;
	float *rows[N_BUFS_COMPRESS]; /* of all tokens */
	float *keys, *add, *norm, *sinks;
	uint8_t *raw, *given, *entries;
	int64_t raw_unit, given_unit, entry_unit;
	double entry[LENGTH][DIM];
	struct qn_op ops[3];
};

/* Runs tokens from .. to, whose keys are there. */
static void run(struct problem *p, struct qn_pool *pool, int from, int to)
{
	static int32_t seq[LENGTH], pos[LENGTH], table[N_BLOCKS];
	const struct qn_group groups[3] = {group_of(p->given, p->given_unit, table, N_BLOCKS),
	                                   group_of(p->entries, p->entry_unit, table, N_BLOCKS),
	                                   group_of(p->raw, p->raw_unit, table, N_BLOCKS)};
	const struct qn_batch batch = {.pos = pos + from, .seq = seq, .groups = groups, .n_tok = to - from, .n_seq = 1,
	                               .n_group = 3};
	struct qn_buf bufs[N_BUFS_COMPRESS];
	const size_t bytes = qn_plan_scratch(p->ops, 3, to - from) * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	for (int i = 0; i < LENGTH; i++)
		pos[i] = i;
	for (int b = 0; b < N_BLOCKS; b++)
		table[b] = N_BLOCKS - 1 - b;
	for (int i = 0; i < N_BUFS_COMPRESS; i++)
		bufs[i] = (struct qn_buf){p->rows[i] + (int64_t)from * widths[i], widths[i]};
	check_true(qn_plan_check(p->ops, 3, bufs, N_BUFS_COMPRESS) == QN_OK, "refused");
	run_ops(pool, p->ops, 3, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
}

/* Entry e by the formulas. */
static void entry_of(struct problem *p, int e)
{
	const int last = e * p->every + p->every - 1, first = last + 1 - p->parts * p->every, width = p->parts * DIM;
	double *y = p->entry[e], squares = 0;

	for (int d = 0; d < DIM; d++) {
		double sum = 0, max = -INFINITY;

		y[d] = 0;
		for (int twice = 0; twice < 2; twice++)
			for (int pos = first < 0 ? 0 : first; pos <= last; pos++) {
				const int c = (pos > last - p->every ? p->parts - 1 : 0) * DIM + d;
				const float *row = p->rows[SRC] + pos * GIVEN;
				const double w = (double)row[width + c] + (double)p->add[pos % p->every * width + c];

				if (!twice) {
					max = fmax(max, w);
					continue;
				}
				sum += exp(w - max);
				y[d] += exp(w - max) * (double)row[c];
			}
		y[d] /= sum;
		squares += y[d] * y[d];
	}
	for (int d = 0; d < DIM; d++)
		y[d] *= (double)p->norm[d] / sqrt(squares / DIM + 1e-6);
	for (int i = 0; i < N_ROT / 2; i++) {
		const float *turn = p->rows[TURNS] + last * N_ROT + 2 * i;
		double *a = y + DIM - N_ROT + 2 * i;
		const double was = a[0];

		a[0] = was * (double)turn[0] - a[1] * (double)turn[1];
		a[1] = was * (double)turn[1] + a[1] * (double)turn[0];
	}
}

static double score(const struct problem *p, int pos, int h, const double *key)
{
	double sum = 0;

	for (int d = 0; d < DIM; d++)
		sum += (double)p->rows[QUERIES][(pos * HEADS + h) * DIM + d] * key[d];
	return sum;
}

/* How far what a type keeps is from the numbers that came. */
static double kept(int type)
{
	return type == QN_KV_F32 ? 1e-5 : type == QN_KV_I16 ? 4e-4 : 0.03;
}

/* The chosen entries are the best; n: how many there are. */
static void best(const struct problem *p, int pos, int n)
{
	const int32_t *chosen = (const int32_t *)(p->rows[CHOSEN] + pos * 32);
	double worst = INFINITY, other = -INFINITY;
	int in = 0;

	for (int i = 0; i < BEST; i++)
		if (!check_true(chosen[i] < n && chosen[i] > (i ? chosen[i - 1] : -1), "choice %d is %d", i, chosen[i]))
			return;
	for (int e = 0; e < n; e++) {
		double sum = 0;

		for (int h = 0; h < HEADS; h++)
			sum += (double)p->rows[WEIGHTS][pos * 16 + h] * fmax(score(p, pos, h, p->entry[e]), 0);
		if (in < BEST && chosen[in] == e) {
			worst = fmin(worst, sum);
			in++;
		} else {
			other = fmax(other, sum);
		}
	}
	check_true(worst >= other - 40 * kept(p->type), "position %d chose %g and left %g", pos, worst, other);
}

static void attention(const struct problem *p, int pos)
{
	const int32_t *chosen = (const int32_t *)(p->rows[CHOSEN] + pos * 32);
	const int all = (pos + 1) / p->every, some = all > BEST, n = some ? BEST : all;
	const int raw = pos + 1 < WINDOW ? pos + 1 : WINDOW;

	if (some)
		best(p, pos, all);
	for (int h = 0; h < HEADS; h++) {
		double key[BEST + WINDOW][DIM], w[BEST + WINDOW], sum = exp((double)p->sinks[h]);

		for (int i = 0; i < n + raw; i++) {
			for (int d = 0; d < DIM; d++)
				key[i][d] = i < n ? p->entry[some ? chosen[i] : i][d]
				                  : (double)p->keys[(pos + 1 - raw + i - n) * DIM + d];
			sum += w[i] = exp(score(p, pos, h, key[i]));
		}
		for (int d = 0; d < DIM; d++) {
			double want = 0;

			for (int i = 0; i < n + raw; i++)
				want += w[i] / sum * key[i][d];
			check_near("y", h * DIM + d, (double)p->rows[DST][(pos * HEADS + h) * DIM + d], want,
			           10 * kept(p->type));
		}
	}
}

static void compress(struct qn_pool *pools[2], int type, int every, int parts)
{
	static float want[LENGTH * HEADS * DIM];
	struct problem p = {.type = type, .every = every, .parts = parts};
	const size_t row = sizeof(float) * LENGTH;

	check_at(check_sets, "entries of %d positions, keys %d", every, type);
	p.raw_unit = kv_k_bytes(type, DIM);
	p.given_unit = QN_KV_BLOCK * 2 * parts * DIM * (int)sizeof(float) + 64;
	p.entry_unit = (int64_t)qn_entry_bytes(type, DIM, every) + 128;
	p.raw = guard_alloc((size_t)(N_BLOCKS * p.raw_unit));
	p.given = guard_alloc((size_t)(N_BLOCKS * p.given_unit));
	p.entries = guard_alloc((size_t)(N_BLOCKS * p.entry_unit));
	p.keys = guard_alloc(row * DIM);
	p.add = guard_alloc(sizeof(float) * (size_t)(every * parts * DIM));
	p.norm = guard_alloc(sizeof(float) * DIM);
	p.sinks = guard_alloc(sizeof(float) * HEADS);
	for (int i = 0; i < N_BUFS_COMPRESS; i++) {
		p.rows[i] = guard_alloc(row * (size_t)widths[i]);
		for (int k = 0; k < LENGTH * widths[i]; k++)
			p.rows[i][k] = rnd_normal() / (i == QUERIES ? sqrtf(DIM) : 1);
	}
	for (int i = 0; i < LENGTH * DIM; i++)
		p.keys[i] = rnd_normal();
	for (int i = 0; i < every * parts * DIM; i++)
		p.add[i] = rnd_normal();
	for (int i = 0; i < DIM; i++)
		p.norm[i] = 1 + rnd_uniform() / 4;
	for (int i = 0; i < HEADS; i++)
		p.sinks[i] = rnd_normal();
	for (int i = 0; i < LENGTH * N_ROT / 2; i++) {
		const double a = 3 * (double)rnd_uniform();

		p.rows[TURNS][2 * i] = (float)cos(a);
		p.rows[TURNS][2 * i + 1] = (float)sin(a);
	}
	for (int i = 0; i < LENGTH; i++)
		kv_put_kv(type, p.raw + (N_BLOCKS - 1 - i / QN_KV_BLOCK) * p.raw_unit, i % QN_KV_BLOCK,
		          p.keys + i * DIM, DIM);
	for (int e = 0; (e + 1) * every <= LENGTH; e++)
		entry_of(&p, e);
	p.ops[0] = (struct qn_op){
		.kind = QN_OP_COMPRESS,
		.compress = {
			.src = SRC, .rope = {.table = TURNS, .kind = QN_ROPE_NORM, .n = N_ROT, .at = DIM - N_ROT},
			.col = {0, parts * DIM}, .n_part = parts, .head_dim = DIM, .k_type = type,
			.entries = {.every = every, .at = {.group = 1, .offset = 128}}, .add = p.add, .norm = p.norm,
			.eps = 1e-6f, .inputs = {.group = 0, .offset = 64},
		},
	};
	p.ops[1] = (struct qn_op){
		.kind = QN_OP_SELECT,
		.select = {
			.q = {QUERIES, 0}, .weight = WEIGHTS, .dst = CHOSEN,
			.heads = {.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .k_type = type},
			.selection = {.n = BEST, .entries = {.every = every, .at = {.group = 1, .offset = 128}}},
		},
	};
	p.ops[2] = (struct qn_op){
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {QUERIES, 0}, .chosen = CHOSEN, .dst = DST,
			.heads =
				{.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .v_dim = DIM, .v_in_k = 1,
				 .k_type = type, .kv = {.group = 2}},
			.window = WINDOW,
			.selection = {.n = BEST, .entries = {.every = every, .at = {.group = 1, .offset = 128}}},
			.sinks = p.sinks,
		},
	};
	EACH_SET(s) {
		check_at(s, "entries of %d positions, keys %d", every, type);
		qn_init(s->isa);
		for (int i = s == check_sets ? 0 : 1; i < 2; i++) /* token by token without the waits of threads */
			for (int size = i ? 129 : LENGTH; size > 0; size = size > 40 ? 37 : size > 1 && !i ? 1 : 0) {
				memset(p.given, 0x33, (size_t)(N_BLOCKS * p.given_unit));
				memset(p.entries, 0x33, (size_t)(N_BLOCKS * p.entry_unit));
				for (int from = 0; from < LENGTH; from += size)
					run(&p, pools[i], from, from + size < LENGTH ? from + size : LENGTH);
				if (s == check_sets && size == LENGTH) {
					memcpy(want, p.rows[DST], sizeof want);
					for (int pos = 0; pos < LENGTH; pos += pos < 20 || pos > 250 ? 1 : 5)
						attention(&p, pos);
				}
				check_floats("y", p.rows[DST], want, COUNT(want));
			}
	}
	guard_free_all();
}

enum { KV = 2, GROUP = 3, CHOSE = 9 };

/* Attention of heads that share keys to the best spans of positions: entries choose them, each of a whole span. */
static void spans(struct qn_pool *pools[2], int type, int every)
{
	static float want[LENGTH * HEADS * DIM];
	struct problem p = {.type = type, .every = every, .parts = 1};
	const size_t row = sizeof(float) * LENGTH;
	const int64_t head = kv_k_bytes(type, DIM) + kv_v_bytes(type, DIM);
	const double near = 10 * kept(type);
	float *values;

	check_at(check_sets, "spans of %d positions, keys %d", every, type);
	p.raw_unit = KV * head;
	p.given_unit = QN_KV_BLOCK * 2 * DIM * (int)sizeof(float) + 64;
	p.entry_unit = (int64_t)qn_entry_bytes(type, DIM, every) + 128;
	p.raw = guard_alloc((size_t)(N_BLOCKS * p.raw_unit));
	p.given = guard_alloc((size_t)(N_BLOCKS * p.given_unit));
	p.entries = guard_alloc((size_t)(N_BLOCKS * p.entry_unit));
	p.keys = guard_alloc(row * KV * DIM);
	values = guard_alloc(row * KV * DIM);
	p.norm = guard_alloc(sizeof(float) * DIM);
	for (int i = 0; i < N_BUFS_COMPRESS; i++) {
		p.rows[i] = guard_alloc(row * (size_t)widths[i]);
		for (int k = 0; k < LENGTH * widths[i]; k++)
			p.rows[i][k] = rnd_normal() / (i == QUERIES ? sqrtf(DIM) : 1);
	}
	for (int i = 0; i < DIM; i++)
		p.norm[i] = 1 + rnd_uniform() / 4;
	for (int i = 0; i < LENGTH * KV * DIM; i++) {
		p.keys[i] = rnd_normal();
		values[i] = rnd_normal();
	}
	for (int i = 0; i < LENGTH * KV; i++) {
		uint8_t *k = p.raw + (N_BLOCKS - 1 - i / KV / QN_KV_BLOCK) * p.raw_unit + i % KV * head;

		kv_put_k(type, k, i / KV % QN_KV_BLOCK, p.keys + i * DIM, DIM);
		kv_put_v(type, k + kv_k_bytes(type, DIM), i / KV % QN_KV_BLOCK, values + i * DIM, DIM);
	}
	p.ops[0] = (struct qn_op){
		.kind = QN_OP_COMPRESS,
		.compress = {
			.src = SRC, .rope = {.table = -1}, .col = {0, -1}, .n_part = 1, .head_dim = DIM,
			.k_type = type, .entries = {.every = every, .at = {.group = 1, .offset = 128}},
			.norm = p.norm, .eps = 1e-6f, .inputs = {.group = 0, .offset = 64},
		},
	};
	p.ops[1] = (struct qn_op){
		.kind = QN_OP_SELECT,
		.select = {
			.q = {QUERIES, 0}, .weight = -1, .dst = CHOSEN,
			.heads = {.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .k_type = type},
			.selection = {.n = CHOSE, .entries = {.every = every, .at = {.group = 1, .offset = 128}}},
		},
	};
	p.ops[2] = (struct qn_op){
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {QUERIES, 0}, .chosen = CHOSEN, .dst = DST,
			.heads =
				{.n_head = KV * GROUP, .n_head_kv = KV, .head_dim = DIM, .v_dim = DIM, .k_type = type,
				 .v_type = type, .kv = {.group = 2}},
			.selection = {.n = CHOSE, .each = every},
		},
	};
	EACH_SET(s) {
		check_at(s, "spans of %d positions, keys %d", every, type);
		qn_init(s->isa);
		for (int i = s == check_sets ? 0 : 1; i < 2; i++)
			for (int size = i ? 129 : LENGTH; size > 0; size = size > 40 ? 37 : 0) {
				memset(p.given, 0x33, (size_t)(N_BLOCKS * p.given_unit));
				memset(p.entries, 0x33, (size_t)(N_BLOCKS * p.entry_unit));
				for (int from = 0; from < LENGTH; from += size)
					run(&p, pools[i], from, from + size < LENGTH ? from + size : LENGTH);
				if (s == check_sets && size == LENGTH)
					memcpy(want, p.rows[DST], sizeof want);
				check_floats("y", p.rows[DST], want, COUNT(want));
			}
	}
	for (int pos = 0; pos < LENGTH; pos += pos > 250 ? 1 : 7) {
		const int32_t *chosen = (const int32_t *)(p.rows[CHOSEN] + pos * 32);
		const int all = (pos + 1) / every, some = all > CHOSE;
		const int n = some ? CHOSE * every + (pos + 1) % every : pos + 1;
		double worst = INFINITY, other = -INFINITY;

		for (int e = 0, in = 0; some && e < all; e++) {
			double mean[DIM] = {0}, squares = 0, sum = 0;

			for (int d = 0; d < DIM; d++) {
				for (int i = 0; i < every; i++)
					mean[d] += (double)p.rows[SRC][(e * every + i) * GIVEN + d] / every;
				squares += mean[d] * mean[d];
			}
			for (int d = 0; d < DIM; d++)
				mean[d] *= (double)p.norm[d] / sqrt(squares / DIM + 1e-6);
			for (int h = 0; h < HEADS; h++)
				sum += fmax(score(&p, pos, h, mean), 0);
			if (in < CHOSE && chosen[in] == e) {
				worst = fmin(worst, sum);
				in++;
			} else {
				other = fmax(other, sum);
			}
		}
		check_true(!some || worst >= other - 4 * near, "position %d chose %g and left %g", pos, worst, other);
		for (int h = 0; h < KV * GROUP; h++) {
			double sum = 0, y[DIM] = {0};

			for (int i = 0; i < n; i++) {
				const int far = some && i < CHOSE * every;
				const int at = far ? chosen[i / every] * every + i % every : pos + 1 - n + i;
				const float *k = p.keys + (at * KV + h / GROUP) * DIM;
				const float *v = values + (at * KV + h / GROUP) * DIM;
				double s = 0;

				for (int d = 0; d < DIM; d++)
					s += (double)p.rows[QUERIES][pos * HEADS * DIM + h * DIM + d] * (double)k[d];
				sum += exp(s);
				for (int d = 0; d < DIM; d++)
					y[d] += exp(s) * (double)v[d];
			}
			for (int d = 0; d < DIM; d++)
				check_near("y", h * DIM + d, (double)want[(pos * HEADS + h) * DIM + d], y[d] / sum,
				           near);
		}
	}
	guard_free_all();
}

void check_compress(void)
{
	struct qn_pool *pools[2];

	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	compress(pools, QN_KV_F32, 4, 2);
	compress(pools, QN_KV_I16, 4, 2);
	compress(pools, QN_KV_Q8, 4, 2);
	compress(pools, QN_KV_F32, 128, 1);
	compress(pools, QN_KV_F16, 64, 1);
	spans(pools, QN_KV_F32, 4);
	spans(pools, QN_KV_Q8, 8);
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
