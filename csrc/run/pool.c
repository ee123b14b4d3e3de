/*
 * pool.c - threads.
 *
 * A layer has about ten steps with a barrier between them, each far shorter than a trip through
 * the operating system. So threads spin for a bounded time, and sleep on a futex after that: a
 * layer's steps follow each other at memory speed, and an idle engine costs nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "run/pool.h"

#define THREADS_MAX 1024
#define SPIN_NS 50000

/* A word that threads wait on to change. */
struct gate {
	_Alignas(64) _Atomic uint32_t word;
	_Atomic uint32_t sleepers;
};

struct worker {
	struct qn_pool *pool;
	pthread_t thread;
	int ith;
};

struct qn_pool {
	struct gate start;   /* counts jobs */
	struct gate barrier; /* counts barriers passed */
	_Alignas(64) _Atomic int32_t arrived;
	_Alignas(64) _Atomic int64_t counter[2 * POOL_COUNTERS];
	job_fn *fn; /* NULL: end */
	void *arg;
	int n;
	struct worker workers[];
};

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

int64_t pool_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void gate_wait(struct gate *g, uint32_t old)
{
	int64_t until = 0;

	for (;;) {
		for (int i = 0; i < 64; i++) {
			if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
				return;
			relax();
		}
		if (!until)
			until = pool_ns() + SPIN_NS;
		else if (pool_ns() > until)
			break;
	}
	/* Sequentially consistent: either the opener sees the sleeper, or the sleeper the new word. */
	atomic_fetch_add(&g->sleepers, 1);
	while (atomic_load(&g->word) == old)
		syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
	atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(struct gate *g)
{
	atomic_fetch_add(&g->word, 1);
	if (atomic_load(&g->sleepers))
		syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void pool_barrier(struct qn_pool *p)
{
	const uint32_t old = atomic_load_explicit(&p->barrier.word, memory_order_acquire);

	if (p->n == 1)
		return;
	if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->n - 1) {
		atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
		gate_open(&p->barrier);
	} else {
		gate_wait(&p->barrier, old);
	}
}

void pool_wait(struct qn_pool *p, struct qn_ticks_time *time)
{
	const int64_t start = time ? pool_ns() : 0;

	pool_barrier(p);
	if (time) {
		const int64_t waited = pool_ns() - start;

		time->wait_ns += waited;
		time->busy_ns -= waited;
	}
}

void pool_clear(struct qn_pool *p, int first, int n)
{
	for (int i = first; i < first + n; i++)
		atomic_store_explicit(&p->counter[i], 0, memory_order_relaxed);
}

void pool_run(struct qn_pool *p, job_fn *fn, void *arg)
{
	pool_clear(p, 0, 2 * POOL_COUNTERS);
	p->fn = fn;
	p->arg = arg;
	if (p->n > 1)
		gate_open(&p->start);
	fn(p, arg, 0, p->n);
	pool_barrier(p);
}

static void *worker_main(void *arg)
{
	const struct worker *w = arg;
	struct qn_pool *p = w->pool;
	uint32_t seen = 0;

	for (;;) {
		gate_wait(&p->start, seen);
		seen++; /* one job at a time: the word cannot have moved on by more */
		if (!p->fn)
			return NULL;
		p->fn(p, p->arg, w->ith, p->n);
		pool_barrier(p);
	}
}

int qn_pool_create(struct qn_pool **pool, const int32_t *cpus, int32_t n)
{
	struct qn_pool *p;
	sigset_t all, old;
	size_t bytes;
	int status = QN_OK;

	*pool = NULL;
	if (n < 1 || n > THREADS_MAX)
		return QN_EINVAL;
	bytes = (sizeof *p + sizeof p->workers[0] * (size_t)n + 63) / 64 * 64;
	p = aligned_alloc(64, bytes);
	if (!p)
		return QN_ENOMEM;
	*p = (struct qn_pool){.n = 1};
	/*
	 * Signals are for the program's own threads, which have the stacks that its handlers want. But that of a
	 * mapped file's page that cannot be read goes to who reads it, and would end the process if it were blocked.
	 */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 1; i < n; i++) {
		struct worker *w = &p->workers[i];

		*w = (struct worker){.pool = p, .ith = i};
		if (pthread_create(&w->thread, NULL, worker_main, w)) {
			status = QN_ENOMEM;
			break;
		}
		p->n = i + 1;
		if (cpus) {
			cpu_set_t set;

			CPU_ZERO(&set);
			if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE)
				CPU_SET((unsigned)cpus[i], &set);
			/* A CPU that is not ours to use leaves the thread unpinned, which is only slower. */
			pthread_setaffinity_np(w->thread, sizeof set, &set);
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (status)
		qn_pool_destroy(p);
	else
		*pool = p;
	return status;
}

void qn_pool_destroy(struct qn_pool *p)
{
	if (!p)
		return;
	p->fn = NULL;
	gate_open(&p->start);
	for (int i = 1; i < p->n; i++)
		pthread_join(p->workers[i].thread, NULL);
	free(p);
}

int32_t qn_pool_threads(const struct qn_pool *p)
{
	return p->n;
}

struct deal deal_begin(int ith, int nth, int64_t n)
{
	/*
	 * A quarter is shared: of two threads one may run at three fifths of the other's speed, or be off its CPU for a
	 * quarter of the step, and they still end together.
	 */
	const int64_t own = nth == 1 ? n : n - n / 4;

	return (struct deal){
		.next = own * ith / nth,
		.end = own * (ith + 1) / nth,
		.tail = own,
		.n = n,
		.nth = nth,
	};
}

int64_t deal_next(struct qn_pool *p, int counter, struct deal *d)
{
	int64_t i;

	if (d->next < d->end)
		return d->next++;
	if (d->tail >= d->n)
		return -1;
	i = d->tail + atomic_fetch_add_explicit(&p->counter[counter], 1, memory_order_relaxed);
	return i < d->n ? i : -1;
}

int64_t deal_some(struct qn_pool *p, int counter, struct deal *d, int64_t most, int64_t *n)
{
	int64_t i = d->next, taken;

	if (i < d->end) {
		*n = d->end - i < most ? d->end - i : most;
		d->next += *n;
		return i;
	}
	taken = atomic_load_explicit(&p->counter[counter], memory_order_relaxed);
	do {
		const int64_t left = d->n - d->tail - taken, fair = left / (2 * d->nth);

		if (left <= 0)
			return -1;
		*n = fair < 1 ? 1 : fair < most ? fair : most;
	} while (!atomic_compare_exchange_weak_explicit(&p->counter[counter], &taken, taken + *n, memory_order_relaxed,
	                                                memory_order_relaxed));
	return d->tail + taken;
}
