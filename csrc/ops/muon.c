/*
 * muon.c - the optimiser of matrices whose steps are orthogonal: qn_muon(). The matrix is taken as [tall][wide], with
 * no more columns than rows, so that all products read rows as they lie.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "run/pool.h"

struct muon {
	struct qn_muon s;
	int64_t tall, wide;
	float *u, *next; /* [tall][wide] */
	float *gram, *by; /* [wide][wide] */
	float *sums;      /* [tall]: of squares of rows of u */
};

int64_t qn_muon_work(int64_t n_out, int64_t n_in)
{
	const int64_t tall = n_out > n_in ? n_out : n_in, wide = n_out > n_in ? n_in : n_out;

	return 2 * tall * wide + 2 * wide * wide + tall;
}

/* A thread's part of n rows: whole tiles of most sets' products. */
static int64_t part(int64_t n, int ith, int nth)
{
	const int64_t tiles = (n + 11) / 12, at = tiles * ith / nth * 12;

	return at < n ? at : n;
}

/* The momentum, and u as [tall][wide]. */
static void direction(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	const struct qn_muon *s = &m->s;
	const int flip = s->n_in > s->n_out;

	(void)pool;
	for (int64_t i = s->n_out * ith / nth; i < s->n_out * (ith + 1) / nth; i++)
		for (int64_t j = 0; j < s->n_in; j++) {
			float *at = s->m + i * s->n_in + j;
			const float g = s->scale * s->d[i * s->n_in + j];

			*at = fmaf(s->beta, *at, g);
			m->u[flip ? j * s->n_out + i : i * s->n_in + j] = fmaf(s->beta, *at, g);
		}
}

static void squares(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;

	(void)pool;
	for (int64_t i = part(m->tall, ith, nth); i < part(m->tall, ith + 1, nth); i++)
		m->sums[i] = qn_kernels.sumsq(m->u + i * m->wide, m->wide);
}

static void divide(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	float sum = 0;

	(void)pool;
	for (int64_t i = 0; i < m->tall; i++)
		sum += m->sums[i];

	const float by = 1 / (sqrtf(sum) + 1e-7f);

	for (int64_t i = part(m->tall, ith, nth); i < part(m->tall, ith + 1, nth); i++)
		qn_kernels.scale_rows(m->u + i * m->wide, m->u + i * m->wide, by, NULL, m->wide);
}

/* s = u^T u. */
static void gram(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	const int64_t from = part(m->wide, ith, nth), to = part(m->wide, ith + 1, nth);

	(void)pool;
	if (from < to)
		qn_kernels.multiply(&(struct product){
			.y = m->gram + from * m->wide, .y_row = m->wide, .a = m->u + from, .a_row = 1, .a_col = m->wide,
			.b = m->u, .b_row = m->wide, .rows = to - from, .cols = m->wide, .depth = m->tall,
		});
}

/* -4.7750 s + 2.0315 s^2. */
static void polynomial(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	const int64_t from = part(m->wide, ith, nth), to = part(m->wide, ith + 1, nth);

	(void)pool;
	if (from == to)
		return;
	qn_kernels.multiply(&(struct product){
		.y = m->by + from * m->wide, .y_row = m->wide, .a = m->gram + from * m->wide, .a_row = m->wide,
		.a_col = 1, .b = m->gram, .b_row = m->wide, .rows = to - from, .cols = m->wide, .depth = m->wide,
	});
	for (int64_t i = from; i < to; i++) {
		float *y = m->by + i * m->wide;

		qn_kernels.scale_rows(y, y, 2.0315f, NULL, m->wide);
		qn_kernels.add_scaled(y, m->gram + i * m->wide, -4.7750f, m->wide);
	}
}

static void advance(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	const int64_t from = part(m->tall, ith, nth), to = part(m->tall, ith + 1, nth);

	(void)pool;
	if (from == to)
		return;
	for (int64_t i = from; i < to; i++)
		qn_kernels.scale_rows(m->next + i * m->wide, m->u + i * m->wide, 3.4445f, NULL, m->wide);
	qn_kernels.multiply(&(struct product){
		.y = m->next + from * m->wide, .y_row = m->wide, .a = m->u + from * m->wide, .a_row = m->wide,
		.a_col = 1, .b = m->by, .b_row = m->wide, .rows = to - from, .cols = m->wide, .depth = m->wide,
		.add = 1,
	});
}

static void move(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct muon *m = arg;
	const struct qn_muon *s = &m->s;
	const int flip = s->n_in > s->n_out;

	(void)pool;
	for (int64_t i = s->n_out * ith / nth; i < s->n_out * (ith + 1) / nth; i++)
		for (int64_t j = 0; j < s->n_in; j++) {
			float *x = s->x + i * s->n_in + j;

			*x = fmaf(*x, s->keep, -(s->move * m->u[flip ? j * s->n_out + i : i * s->n_in + j]));
		}
}

void qn_muon(struct qn_pool *pool, const struct qn_muon *s)
{
	struct muon m = {
		.s = *s,
		.tall = s->n_out > s->n_in ? s->n_out : s->n_in,
		.wide = s->n_out > s->n_in ? s->n_in : s->n_out,
	};

	m.u = s->work;
	m.next = m.u + m.tall * m.wide;
	m.gram = m.next + m.tall * m.wide;
	m.by = m.gram + m.wide * m.wide;
	m.sums = m.by + m.wide * m.wide;
	pool_run(pool, direction, &m);
	pool_run(pool, squares, &m);
	pool_run(pool, divide, &m);
	for (int i = 0; i < QN_MUON_ROUNDS; i++) {
		float *was = m.u;

		pool_run(pool, gram, &m);
		pool_run(pool, polynomial, &m);
		pool_run(pool, advance, &m);
		m.u = m.next;
		m.next = was;
	}
	pool_run(pool, move, &m);
}
