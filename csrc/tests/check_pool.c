/* check_pool.c - threads: that each item is dealt once, barriers hold, and pools come and go. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "run/pool.h"
#include "check.h"
#include "host.h"

#define ITEMS_MAX 1000
#define STEPS 4

struct count {
	int n; /* items of a step */
	int64_t each[QN_PLACES_MAX]; /* of them in each place, in steps that are dealt so */
	_Atomic int threads[64];
	_Atomic int dealt[STEPS][ITEMS_MAX];
	int plain[STEPS][ITEMS_MAX]; /* written without atomics: a barrier must publish them */
	_Atomic int wrong;
};

struct qn_pool *pool_in_places(const int *each, int places)
{
	struct qn_thread threads[16] = {{0}};
	struct qn_pool *pool;
	int n = 0;

	for (int k = 0; k < places; k++)
		for (int i = 0; i < each[k]; i++)
			threads[n++].place = k;
	check_at(check_sets, "qn_pool_create, %d threads in %d places", n, places);
	if (!check_true(qn_pool_create(&pool, threads, n) == QN_OK, "no pool"))
		exit(1);
	return pool;
}

static void count_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct count *c = arg;

	c->threads[ith]++;
	if (nth != qn_pool_threads(pool))
		c->wrong++;
	for (int step = 0; step < STEPS; step++) {
		struct deal d = step < 2 ? deal_begin(pool, ith, c->n) : deal_placed(pool, ith, c->each);
		int64_t i, n = 1, last = -1, at[QN_PLACES_MAX + 1] = {0};

		for (int k = 0; k < QN_PLACES_MAX; k++)
			at[k + 1] = at[k] + c->each[k];

		while ((i = step % 2 ? deal_some(pool, step, &d, 1 + step % 5, &n) : deal_next(pool, step, &d)) >= 0) {
			int k = 0;

			while (at[k + 1] <= i)
				k++;
			/* op_matmul() counts on rising items, but of another place, and on items of one place. */
			if (n < 1 || i + n > c->n || (i <= last && pool_places(pool) == 1) ||
			    (step >= 2 && i + n > at[k + 1])) {
				c->wrong++;
				break;
			}
			for (last = i + n - 1; i <= last; i++) {
				c->dealt[step][i]++;
				c->plain[step][i] = step + 1;
			}
		}
		pool_barrier(pool, ith);
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
	for (int k = 0; k < pool_places(pool); k++) { /* of the last place all that are left, of the others any */
		const int64_t some = k == pool_places(pool) - 1 ? n : rnd_below(n + 1);

		c.each[k] = some;
		n -= (int)some;
	}
	check_at(check_sets, "pool of %d threads in %d places, %d items", threads, pool_places(pool), c.n);
	pool_run(pool, count_job, &c);
	check_true(c.wrong == 0, "%d times an item was not dealt once, in rising order", c.wrong);
	for (int t = 0; t < COUNT(c.threads); t++)
		check_true(c.threads[t] == (t < threads), "thread %d ran %d times", t, c.threads[t]);
}

/* Which CPUs each thread may use. */
struct pins {
	uint64_t may[4][HOST_CPUS / 64];
};

static void pins_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct pins *p = arg;

	(void)pool, (void)nth;
	host_affinity(p->may[ith]);
}

static void pinning(void)
{
	struct qn_pool *pool;
	struct pins p;
	uint64_t ours[HOST_CPUS / 64], one[HOST_CPUS / 64] = {0};
	static const int32_t bad = 1 << 20, negative = -1; /* nobody's: those threads stay unpinned */
	int32_t last = 0;

	if (!host_affinity(ours))
		return;
	for (int i = 0; i < HOST_CPUS; i++)
		last = ours[i / 64] >> i % 64 & 1 ? i : last;
	one[last / 64] = UINT64_C(1) << last % 64;
	const struct qn_thread threads[] = {{0}, {&last, 1, 0}, {&negative, 1, 0}, {&bad, 1, 0}};

	check_at(check_sets, "pool pinned to CPU %d", last);
	if (!check_true(qn_pool_create(&pool, threads, COUNT(threads)) == QN_OK, "not created"))
		return;
	pool_run(pool, pins_job, &p);
	qn_pool_destroy(pool);
	check_true(!memcmp(p.may[1], one, sizeof one), "thread 1 is not");
	for (int i = 0; i < COUNT(threads); i++)
		check_true(i == 1 || !memcmp(p.may[i], ours, sizeof ours),
		           "thread %d may not use all CPUs of ours", i);
}

static void empty_runs(struct qn_pool *pool, int threads)
{
	const struct qn_batch none = {0};
	/* Threads beyond the CPUs make every run a trip through the scheduler. */
	const int runs = (check_quick ? 2000 : 20000) / (threads <= host_cpus() ? 1 : 10);

	check_at(check_sets, "pool of %d threads, empty runs", threads);
	for (int i = 0; i < runs; i++) {
		run_ops(pool, NULL, 0, NULL, &none, NULL, 0, NULL);
		if (i % 400 == 0)
			host_nap(200000); /* workers fall asleep, or just about to */
		if (i % 401 == 0)
			host_nap(50000);
	}
}

static void sleepy_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	(void)arg;
	for (int i = 0; i < (check_quick ? 20 : 100); i++) {
		if (i % nth == ith)
			host_nap(300000); /* all others sleep */
		pool_barrier(pool, ith);
	}
}

static void woken_in_any_order(void)
{
	struct qn_pool *pool;

	if (!host_wake_last(1))
		return;
	check_at(check_sets, "pool of 12 threads, of which the last that sleeps is woken first");
	if (check_true(qn_pool_create(&pool, NULL, 12) == QN_OK, "not created")) {
		pool_run(pool, sleepy_job, NULL);
		qn_pool_destroy(pool);
	}
	host_wake_last(0);
}

static void stop_soon(void *word)
{
	host_nap(200000);
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELAXED);
}

/* Plans, of no operations, are run until the word says stop; all threads stop before the same one. */
static void stopping(struct qn_pool *pool, int threads)
{
	static struct qn_plan plans[1 << 20];
	const struct qn_batch none = {0};
	uint32_t stop = 1;
	struct sys_thread other;
	int32_t ran;

	check_at(check_sets, "pool of %d threads, stopped", threads);
	ran = qn_run(pool, plans, 3, NULL, &none, NULL, 0, &stop);
	check_true(ran == 0, "%d plans ran after the word was set", ran);
	stop = 0;
	ran = qn_run(pool, plans, 1000, NULL, &none, NULL, 0, &stop);
	check_true(ran == 1000, "%d plans of 1000 ran", ran);
	if (!sys_thread_start(&other, stop_soon, &stop))
		return;
	do
		ran = qn_run(pool, plans, COUNT(plans), NULL, &none, NULL, 0, &stop);
	while (ran == COUNT(plans));
	sys_thread_join(&other);
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
	static const struct qn_thread bad[][3] = {
		{{0}, {.place = -1}, {0}},         {{.place = 1}, {.place = 1}, {.place = 1}},
		{{0}, {.place = 2}, {.place = 2}}, {{0}, {.place = 1}, {.place = 0}},
		{{0}, {.n_cpus = -1}, {0}},
	};
	struct qn_pool *pool = (struct qn_pool *)&pool;

	check_at(check_sets, "qn_pool_create");
	check_true(qn_pool_create(&pool, NULL, 0) == QN_EINVAL && !pool, "takes no threads");
	check_true(qn_pool_create(&pool, NULL, -1) == QN_EINVAL && !pool, "takes -1 threads");
	check_true(qn_pool_create(&pool, NULL, 1 << 30) == QN_EINVAL && !pool, "takes 2^30 threads");
	for (int i = 0; i < COUNT(bad); i++) {
		pool = (struct qn_pool *)&pool;
		check_true(qn_pool_create(&pool, bad[i], 3) == QN_EINVAL && !pool, "takes wrong threads, way %d", i);
	}
	qn_pool_destroy(NULL);
}

/* Pools of many threads, in places and groups. */
static void placed(void)
{
	static const struct {
		int places, each[8];
	} of[] = {{2, {1, 1}}, {2, {3, 1}}, {3, {1, 1, 1}}, {8, {1, 1, 1, 1, 1, 1, 1, 1}}, {2, {17, 16}}, {1, {35}}};
	struct qn_thread threads[64];
	struct qn_pool *pool;

	for (int i = 0; i < COUNT(of); i++) {
		int n = 0;

		memset(threads, 0, sizeof threads);
		for (int k = 0; k < of[i].places; k++)
			for (int j = 0; j < of[i].each[k]; j++)
				threads[n++].place = k;
		check_at(check_sets, "pool of %d threads in %d places", n, of[i].places);
		if (!check_true(qn_pool_create(&pool, threads, n) == QN_OK, "not created"))
			continue;
		check_true(pool_places(pool) == of[i].places, "says it has %d", pool_places(pool));
		for (int k = 0; k < (n > 8 ? 4 : 40); k++)
			dealing(pool, n, rnd_below(k % 2 ? 30 : ITEMS_MAX));
		if (n > 8)
			host_nap(1000000); /* all sleep */
		dealing(pool, n, ITEMS_MAX);
		qn_pool_destroy(pool);
	}
}

void check_pool(void)
{
	static const int32_t nobody = 1 << 20, cpus[] = {0, 1};
	static const struct qn_thread pins[] = {{cpus, 1, 0}, {cpus, 2, 0}, {&nobody, 1, 0}, {cpus + 1, 1, 0}, {0}};
	static const int items[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, ITEMS_MAX};
	struct qn_pool *pool;

	refused();
	pinning();
	placed();
	woken_in_any_order();
	for (int threads = 1; threads <= 5; threads++) {
		check_at(check_sets, "pool of %d threads", threads);
		if (!check_true(qn_pool_create(&pool, threads == 3 ? pins : NULL, threads) == QN_OK, "not created"))
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
		if (!check_true(qn_pool_create(&pool, i % 2 ? pins : NULL, threads) == QN_OK, "not created"))
			break;
		if (i % 3)
			dealing(pool, threads, items[i % COUNT(items)]);
		qn_pool_destroy(pool);
	}
}
