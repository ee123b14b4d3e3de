/* check_pool.c - threads: that each item is dealt once, barriers hold, and pools come and go. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run/pool.h"
#include "check.h"

#define ITEMS_MAX 1000
#define STEPS 4

struct count {
	int n; /* items of a step */
	_Atomic int threads[16];
	_Atomic int dealt[STEPS][ITEMS_MAX];
	int plain[STEPS][ITEMS_MAX]; /* written without atomics: a barrier must publish them */
	_Atomic int wrong;
};

static void count_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct count *c = arg;

	c->threads[ith]++;
	if (nth != qn_pool_threads(pool))
		c->wrong++;
	for (int step = 0; step < STEPS; step++) {
		struct deal d = deal_begin(ith, nth, c->n);
		int64_t i, n = 1, last = -1;

		while ((i = step % 2 ? deal_some(pool, step, &d, 1 + step % 5, &n) : deal_next(pool, step, &d)) >= 0) {
			if (n < 1 || i + n > c->n || i <= last) { /* op_matmul() counts on rising items */
				c->wrong++;
				break;
			}
			for (last = i + n - 1; i <= last; i++) {
				c->dealt[step][i]++;
				c->plain[step][i] = step + 1;
			}
		}
		pool_barrier(pool);
		for (int k = 0; k < c->n; k++)
			if (c->dealt[step][k] != 1 || c->plain[step][k] != step + 1)
				c->wrong++;
	}
}

static void dealing(struct qn_pool *pool, int threads, int n)
{
	static struct count c;

	memset(&c, 0, sizeof c);
	c.n = n;
	check_at(check_sets, "pool of %d threads, %d items", threads, c.n);
	pool_run(pool, count_job, &c);
	check_true(c.wrong == 0, "%d times an item was not dealt once, in rising order", c.wrong);
	for (int t = 0; t < COUNT(c.threads); t++)
		check_true(c.threads[t] == (t < threads), "thread %d ran %d times", t, c.threads[t]);
}

/* Which CPUs each thread may use. */
struct pins {
	cpu_set_t may[4];
};

static void pins_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct pins *p = arg;

	(void)pool, (void)nth;
	sched_getaffinity(0, sizeof p->may[ith], &p->may[ith]);
}

static void pinning(void)
{
	struct qn_pool *pool;
	struct pins p;
	cpu_set_t ours;
	int32_t cpus[] = {0, 0, -1, 1 << 20}; /* the last two are nobody's: those threads stay unpinned */
	int32_t last = 0;

	sched_getaffinity(0, sizeof ours, &ours);
	for (int i = 0; i < CPU_SETSIZE; i++)
		last = CPU_ISSET(i, &ours) ? i : last;
	cpus[1] = last;
	check_at(check_sets, "pool pinned to CPU %d", last);
	if (!check_true(qn_pool_create(&pool, cpus, COUNT(cpus)) == QN_OK, "not created"))
		return;
	pool_run(pool, pins_job, &p);
	qn_pool_destroy(pool);
	check_true(CPU_COUNT(&p.may[1]) == 1 && CPU_ISSET(last, &p.may[1]), "thread 1 is not");
	for (int i = 0; i < COUNT(cpus); i++)
		check_true(i == 1 || CPU_EQUAL(&p.may[i], &ours), "thread %d may not use all CPUs of ours", i);
}

static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void empty_runs(struct qn_pool *pool, int threads)
{
	const struct qn_batch none = {0};
	/* Threads beyond the CPUs make every run a trip through the scheduler. */
	const int runs = (check_quick ? 2000 : 20000) / (threads <= sysconf(_SC_NPROCESSORS_ONLN) ? 1 : 10);

	check_at(check_sets, "pool of %d threads, empty runs", threads);
	for (int i = 0; i < runs; i++) {
		run_ops(pool, NULL, 0, NULL, &none, NULL, 0, NULL);
		if (i % 400 == 0)
			nap(200000); /* workers fall asleep, or just about to */
		if (i % 401 == 0)
			nap(50000);
	}
}

static void *stop_soon(void *word)
{
	nap(200000);
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Plans, of no operations, are run until the word says stop; all threads stop before the same one. */
static void stopping(struct qn_pool *pool, int threads)
{
	static struct qn_plan plans[1 << 20];
	const struct qn_batch none = {0};
	uint32_t stop = 1;
	pthread_t other;
	int32_t ran;

	check_at(check_sets, "pool of %d threads, stopped", threads);
	ran = qn_run(pool, plans, 3, NULL, &none, NULL, 0, &stop);
	check_true(ran == 0, "%d plans ran after the word was set", ran);
	stop = 0;
	ran = qn_run(pool, plans, 1000, NULL, &none, NULL, 0, &stop);
	check_true(ran == 1000, "%d plans of 1000 ran", ran);
	if (pthread_create(&other, NULL, stop_soon, &stop))
		return;
	do
		ran = qn_run(pool, plans, COUNT(plans), NULL, &none, NULL, 0, &stop);
	while (ran == COUNT(plans));
	pthread_join(other, NULL);
	check_true(ran >= 0 && ran < (int32_t)COUNT(plans), "%d plans ran", ran);
	run_ops(pool, NULL, 0, NULL, &none, NULL, 0, NULL); /* as ever */
}

static void measures(struct qn_pool *pool, int threads)
{
	const size_t bytes = 1 << 16;
	uint8_t *buf = guard_alloc(bytes), *copy = guard_alloc(bytes);

	check_at(check_sets, "measurements with %d threads", threads);
	check_true(qn_measure_read(pool, buf, bytes, 2) > 0, "qn_measure_read");
	for (size_t i = 0; i < bytes; i++)
		buf[i] = (uint8_t)rnd();
	check_true(qn_measure_copy(pool, copy, buf, bytes, 2) > 0, "qn_measure_copy");
	check_bytes("copy", copy, buf, (int64_t)bytes);
	check_true(qn_measure_int8(pool, 1000) > 0, "qn_measure_int8");
	guard_free_all();
}

static void refused(void)
{
	struct qn_pool *pool = (struct qn_pool *)&pool;

	check_at(check_sets, "qn_pool_create");
	check_true(qn_pool_create(&pool, NULL, 0) == QN_EINVAL && !pool, "takes no threads");
	check_true(qn_pool_create(&pool, NULL, -1) == QN_EINVAL && !pool, "takes -1 threads");
	check_true(qn_pool_create(&pool, NULL, 1 << 30) == QN_EINVAL && !pool, "takes 2^30 threads");
	qn_pool_destroy(NULL);
}

void check_pool(void)
{
	static const int32_t cpus[] = {0, 0, -1, 1 << 20, 1}; /* some are nobody's */
	static const int items[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, ITEMS_MAX};
	struct qn_pool *pool;

	refused();
	pinning();
	for (int threads = 1; threads <= 5; threads++) {
		check_at(check_sets, "pool of %d threads", threads);
		if (!check_true(qn_pool_create(&pool, threads == 3 ? cpus : NULL, threads) == QN_OK, "not created"))
			continue;
		check_true(qn_pool_threads(pool) == threads, "says it has %d", qn_pool_threads(pool));
		for (int k = 0; k < 4 * COUNT(items); k++)
			dealing(pool, threads, items[k % COUNT(items)]);
		empty_runs(pool, threads);
		stopping(pool, threads);
		measures(pool, threads);
		qn_pool_destroy(pool);
	}
	for (int i = 0; i < (check_quick ? 30 : 300); i++) {
		const int threads = 1 + i % 5;

		check_at(check_sets, "pool %d, of %d threads", i, threads);
		if (!check_true(qn_pool_create(&pool, i % 2 ? cpus : NULL, threads) == QN_OK, "not created"))
			break;
		if (i % 3)
			dealing(pool, threads, items[i % COUNT(items)]);
		qn_pool_destroy(pool);
	}
}
