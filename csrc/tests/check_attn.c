/*
 * check_attn.c - attention over the KV blocks of a sequence: the scalar kernel against a softmax in
 * double over all positions, the others against the scalar one after each block.
 */
#include <math.h>
#include <string.h>

#include "../fp16.h"
#include "check.h"

#define BLOCKS_MAX 4
#define DIM_MAX 256

enum data { NORMAL, WIDE, ZERO, HUGE_VALUE, NAN_KEY, NAN_LAST_VALUE, N_DATA };
static const char *const data_names[] = {"normal", "wide scores", "zero queries", "a huge value", "a NaN key",
                                         "a NaN as the last value"};

struct problem {
	int n, heads, head_dim, v_dim, kv_type;
	int pos; /* of the first row's token; a token has `heads` rows */
	int blocks;
	enum data data;
	uint8_t *k[BLOCKS_MAX], *v[BLOCKS_MAX];
	float *q;
};

/* What a kernel leaves of one run over the blocks. */
struct state {
	float o[QN_ATTN_ROWS * DIM_MAX], m[QN_ATTN_ROWS], l[QN_ATTN_ROWS];
};

static int limit(const struct problem *p, int row, int block)
{
	return p->pos + row / p->heads + 1 - block * QN_KV_BLOCK;
}

static void put(const struct problem *p, uint8_t *kv, int i, float x)
{
	if (p->kv_type == QN_KV_F32)
		memcpy(kv + 4 * i, &x, 4);
	else
		memcpy(kv + 2 * i, (const uint16_t[]){f16_of_f32_sat(x)}, 2);
}

static double get(const struct problem *p, const uint8_t *kv, int i)
{
	float x;
	uint16_t h;

	memcpy(&x, kv + 4 * i * (p->kv_type == QN_KV_F32), 4);
	memcpy(&h, kv + 2 * i * (p->kv_type != QN_KV_F32), 2);
	return p->kv_type == QN_KV_F32 ? (double)x : half_value(h);
}

static void fill(const struct problem *p)
{
	const int last = p->pos + (p->n - 1) / p->heads; /* position */
	const float size = (p->data == WIDE ? 12 : p->data == ZERO ? 0 : 2) / sqrtf((float)p->head_dim);

	for (int i = 0; i < p->n * p->head_dim; i++)
		p->q[i] = size * rnd_normal();
	for (int b = 0; b < p->blocks; b++)
		for (int i = 0; i < QN_KV_BLOCK; i++) {
			const int written = b * QN_KV_BLOCK + i <= last; /* beyond, memory holds anything */

			for (int d = 0; d < p->head_dim; d++)
				put(p, p->k[b], d * QN_KV_BLOCK + i, written ? rnd_normal() : rnd() & 1 ? NAN : 3e4f);
			for (int d = 0; d < p->v_dim; d++)
				put(p, p->v[b], i * p->v_dim + d,
				    !written ? NAN : d < p->head_dim ? rnd_normal() : 0);
		}
	if (p->data == HUGE_VALUE)
		put(p, p->v[0], rnd_below(p->pos + 1) % QN_KV_BLOCK * p->v_dim, 6e4f);
	if (p->data == NAN_KEY)
		put(p, p->k[0], rnd_below(p->pos + 1) % QN_KV_BLOCK, NAN);
	if (p->data == NAN_LAST_VALUE)
		put(p, p->v[last / QN_KV_BLOCK], last % QN_KV_BLOCK * p->v_dim, NAN);
}

/* What a row does not see must not reach it, not even as 0 times something. */
static void unseen(const struct problem *p, const struct state *s)
{
	const int last = limit(p, p->n - 1, 0) - 1;

	for (int r = 0; r < p->n && limit(p, r, 0) <= last; r++)
		check_true(isfinite(s->o[r * p->v_dim]), "row %d has a value that it does not see", r);
}

static struct guard g_o, g_m, g_l, g_lim;

/* Starts a run: o, m, l of rows that have seen nothing, in memory that ends at unmapped pages. */
static struct attn_rows begin(const struct problem *p)
{
	struct attn_rows r = {.q = p->q, .n = p->n, .head_dim = p->head_dim, .v_dim = p->v_dim};

	r.o = guard_fill(&g_o, sizeof *r.o * (size_t)(p->n * p->v_dim));
	r.m = guard_fill(&g_m, sizeof *r.m * (size_t)p->n);
	r.l = guard_fill(&g_l, sizeof *r.l * (size_t)p->n);
	r.lim = guard_fill(&g_lim, sizeof *r.lim * (size_t)p->n);
	memset(r.o, 0, sizeof *r.o * (size_t)(p->n * p->v_dim));
	for (int i = 0; i < p->n; i++) {
		r.m[i] = -INFINITY;
		r.l[i] = 0;
	}
	return r;
}

static void step(const struct problem *p, const struct set *s, const struct attn_rows *r, int block)
{
	for (int i = 0; i < p->n; i++)
		((int32_t *)r->lim)[i] = limit(p, i, block);
	s->k.attn[p->kv_type](r, p->k[block], p->v[block]);
}

static void save(const struct problem *p, const struct attn_rows *r, struct state *s)
{
	memcpy(s->o, r->o, sizeof *r->o * (size_t)(p->n * p->v_dim));
	memcpy(s->m, r->m, sizeof *r->m * (size_t)p->n);
	memcpy(s->l, r->l, sizeof *r->l * (size_t)p->n);
}

static void oracle(const struct problem *p, const struct state *s)
{
	for (int r = 0; r < p->n; r++) {
		const int seen = limit(p, r, 0);
		double score[BLOCKS_MAX * QN_KV_BLOCK], max = -INFINITY, sum = 0, error = 1e-5;

		for (int i = 0; i < seen; i++) {
			double size = 0;

			score[i] = 0;
			for (int d = 0; d < p->head_dim; d++) {
				const double x = (double)p->q[r * p->head_dim + d] *
				                 get(p, p->k[i / QN_KV_BLOCK], d * QN_KV_BLOCK + i % QN_KV_BLOCK);

				score[i] += x;
				size += fabs(x);
			}
			max = score[i] > max ? score[i] : max;
			error = size * 2e-6 > error ? size * 2e-6 : error; /* exp makes absolute errors relative */
		}
		for (int i = 0; i < seen; i++)
			sum += score[i] = exp(score[i] - max);
		for (int d = 0; d < p->head_dim; d++) {
			double want = 0, size = 0;

			for (int i = 0; i < seen; i++) {
				const double x = score[i] / sum *
				                 get(p, p->v[i / QN_KV_BLOCK],
				                     i % QN_KV_BLOCK * p->v_dim + d);

				want += x;
				size += fabs(x);
			}
			if (!check_near("o", r * p->v_dim + d, (double)s->o[r * p->v_dim + d] / (double)s->l[r], want,
			                error * size + 1e-37))
				return;
		}
	}
}

static void one(struct problem *p)
{
	static struct state want[BLOCKS_MAX];

	fill(p);
	EACH_SET(s) {
		struct attn_rows r = begin(p);

		check_at(s, "attn %s, head_dim %d, %d rows of %d heads from %d, %s",
		         p->kv_type == QN_KV_F32 ? "f32" : "f16", p->head_dim, p->n, p->heads, p->pos,
		         data_names[p->data]);
		for (int b = 0; b < p->blocks; b++) {
			step(p, s, &r, b);
			if (s == check_sets)
				save(p, &r, &want[b]);
			if (!check_floats("o", r.o, want[b].o, p->n * p->v_dim) ||
			    !check_floats("m", r.m, want[b].m, p->n) || !check_floats("l", r.l, want[b].l, p->n))
				break;
		}
		/* A block that nobody sees leaves all as it is. */
		for (int i = 0; i < p->n; i++)
			((int32_t *)r.lim)[i] = i % 2 ? 0 : -i;
		s->k.attn[p->kv_type](&r, p->k[0], p->v[0]);
		check_floats("o after a block unseen", r.o, want[p->blocks - 1].o, p->n * p->v_dim);
		check_floats("l after a block unseen", r.l, want[p->blocks - 1].l, p->n);
		guard_intact("o", &g_o);
		guard_intact("m", &g_m);
		guard_intact("l", &g_l);
		if (s == check_sets && p->data == NAN_LAST_VALUE)
			unseen(p, &want[p->blocks - 1]);
		else if (s == check_sets && p->data != NAN_KEY)
			oracle(p, &want[p->blocks - 1]);
	}
}

/* All row counts and starting positions in turn for one shape of head. */
static void shape(int head_dim, int kv_type)
{
	static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32};
	static const int heads[] = {1, 1, 2, 3, 4, 8};
	static const int pos[] = {0, 1, 14, 15, 16, 30, 60, 61, 62, 63, 64, 65, 100, 127, 128, 190};
	const int elem = kv_type == QN_KV_F32 ? 4 : 2;
	struct problem p = {.head_dim = head_dim, .v_dim = (head_dim + 15) / 16 * 16, .kv_type = kv_type};

	for (int b = 0; b < BLOCKS_MAX; b++) {
		p.k[b] = guard_alloc((size_t)(head_dim * QN_KV_BLOCK * elem));
		p.v[b] = guard_alloc((size_t)(p.v_dim * QN_KV_BLOCK * elem));
	}
	for (int i = 0; i < COUNT(rows); i++)
		for (int round = 0; round < (check_quick ? 1 : 2); round++) {
			struct guard q = guard_new(sizeof(float) * (size_t)(rows[i] * head_dim));

			p.n = rows[i];
			p.heads = heads[rnd_below(COUNT(heads))];
			p.pos = pos[rnd_below(COUNT(pos))];
			p.data = (enum data)rnd_below(N_DATA);
			p.blocks = (p.pos + (p.n - 1) / p.heads) / QN_KV_BLOCK + 1;
			p.q = guard_fill(&q, sizeof *p.q * (size_t)(p.n * head_dim));
			one(&p);
			guard_free(&q);
		}
	guard_free_all();
}

void check_attn(void)
{
	static const int dims[] = {1, 4, 8, 16, 20, 48, 64, 80, 96, 112, 128, DIM_MAX};

	g_o = guard_new(sizeof(float) * QN_ATTN_ROWS * DIM_MAX);
	g_m = guard_new(sizeof(float) * QN_ATTN_ROWS);
	g_l = guard_new(sizeof(float) * QN_ATTN_ROWS);
	g_lim = guard_new(sizeof(int32_t) * QN_ATTN_ROWS);
	for (int i = 0; i < COUNT(dims); i++) {
		shape(dims[i], QN_KV_F16);
		shape(dims[i], QN_KV_F32);
	}
	guard_free(&g_o);
	guard_free(&g_m);
	guard_free(&g_l);
	guard_free(&g_lim);
}
