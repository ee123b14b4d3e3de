/*
 * pool.c - threads.
 *
 * A layer has about ten steps with a barrier between them, each far shorter than a trip through
 * the operating system. So threads spin for a bounded time, and sleep on a word after that: a
 * layer's steps follow each other at memory speed, and an idle engine costs nothing.
 *
 * Threads are in groups, within places (NUMA nodes): a word that a hundred threads write or wait on is passed from CPU
 * to CPU a hundred times. Each group has its own words, the last of a group to come to a barrier goes on to the one of
 * all groups, and threads that sleep are woken by those of their group that were woken before.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "platform/platform.h"
#include "run/pool.h"

#define THREADS_MAX 1024
#define SPIN_NS 50000 /* but not in a pool with more threads than CPUs: who spins there keeps off who is waited for */
/*
 * A quarter of the items is shared: of two threads one may run at three fifths of the other's speed, or be off its CPU
 * for a quarter of the step, and they still end together.
 */
#define SHARED 4

#define HELP_NS 20000 /* after which threads of a place that is done help another */
#define GROUP 16

/* A word that threads wait on to change. */
struct gate {
	_Alignas(64) _Atomic uint32_t word;
	_Atomic uint32_t sleepers;
};

struct worker {
	struct qn_pool *pool;
	struct sys_thread thread;
	int ith, group, place;
};

/* Threads that wait on the same words. */
struct group {
	struct gate start;   /* counts jobs */
	struct gate barrier; /* counts barriers passed */
	_Alignas(64) _Atomic int32_t arrived;
	int n;
};

struct place {
	_Alignas(64) _Atomic int64_t counter[2 * POOL_COUNTERS];
	int first, n; /* its threads */
};

struct qn_pool {
	_Alignas(64) _Atomic int32_t arrived; /* groups */
	_Alignas(64) job_fn *fn;              /* NULL: end */
	void *arg;
	struct group *groups;
	struct place *places;
	int n, n_groups, n_places;
	int64_t spin_ns;
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

/* Each thread that was woken wakes two more, while any sleep. */
static void gate_wait(struct gate *g, uint32_t old, int64_t spin_ns)
{
	int64_t until = 0;

	for (;;) {
		for (int i = 0; i < 64; i++) {
			if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
				return;
			relax();
		}
		if (!spin_ns)
			break;
		if (!until)
			until = sys_ns() + spin_ns;
		else if (sys_ns() > until)
			break;
	}
	/* Sequentially consistent: either the opener sees the sleeper, or the sleeper the new word. */
	atomic_fetch_add(&g->sleepers, 1);
	while (atomic_load(&g->word) == old)
		sys_sleep(&g->word, old);
	if (atomic_fetch_sub(&g->sleepers, 1) > 1)
		sys_wake(&g->word, old, 2);
}

/*
 * Opens a gate of each group, `at` bytes from where the group is. The fence is between words and sleepers; it lets the
 * words go out together.
 */
static void gates_open(struct qn_pool *p, size_t at)
{
	if (p->n_groups == 1) {
		struct gate *g = (struct gate *)((char *)p->groups + at);
		const uint32_t old = atomic_fetch_add(&g->word, 1);

		if (atomic_load(&g->sleepers))
			sys_wake(&g->word, old, 1);
		return;
	}
	for (int i = 0; i < p->n_groups; i++) {
		struct gate *g = (struct gate *)((char *)&p->groups[i] + at);
		const uint32_t old = atomic_load_explicit(&g->word, memory_order_relaxed);

		atomic_store_explicit(&g->word, old + 1, memory_order_release); /* only one thread writes */
	}
	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < p->n_groups; i++) {
		struct gate *g = (struct gate *)((char *)&p->groups[i] + at);

		if (atomic_load_explicit(&g->sleepers, memory_order_relaxed))
			sys_wake(&g->word, atomic_load_explicit(&g->word, memory_order_relaxed) - 1, 1);
	}
}

/* Whether the caller is the last of n to come, for whom the count begins again. */
static int is_last(_Atomic int32_t *arrived, int n)
{
	if (atomic_fetch_add_explicit(arrived, 1, memory_order_acq_rel) != n - 1)
		return 0;
	atomic_store_explicit(arrived, 0, memory_order_relaxed);
	return 1;
}

void pool_barrier(struct qn_pool *p, int ith)
{
	struct group *g = &p->groups[p->workers[ith].group];
	const uint32_t old = atomic_load_explicit(&g->barrier.word, memory_order_acquire);

	if (p->n == 1)
		return;
	if (is_last(&g->arrived, g->n) && (p->n_groups == 1 || is_last(&p->arrived, p->n_groups)))
		gates_open(p, offsetof(struct group, barrier));
	else
		gate_wait(&g->barrier, old, p->spin_ns);
}

void pool_wait(struct qn_pool *p, int ith, struct qn_ticks_time *time)
{
	const int64_t start = time ? sys_ns() : 0;

	pool_barrier(p, ith);
	if (time) {
		const int64_t waited = sys_ns() - start;

		time->wait_ns += waited;
		time->busy_ns -= waited;
	}
}

void pool_clear(struct qn_pool *p, int first, int n)
{
	for (int k = 0; k < p->n_places; k++)
		for (int i = first; i < first + n; i++)
			atomic_store_explicit(&p->places[k].counter[i], 0, memory_order_relaxed);
}

void pool_run(struct qn_pool *p, job_fn *fn, void *arg)
{
	pool_clear(p, 0, 2 * POOL_COUNTERS);
	p->fn = fn;
	p->arg = arg;
	if (p->n > 1)
		gates_open(p, offsetof(struct group, start));
	fn(p, arg, 0, p->n);
	pool_barrier(p, 0);
}

static void worker_main(void *arg)
{
	const struct worker *w = arg;
	struct qn_pool *p = w->pool;
	uint32_t seen = 0;

	for (;;) {
		gate_wait(&p->groups[w->group].start, seen, p->spin_ns);
		seen++; /* one job at a time: the word cannot have moved on by more */
		if (!p->fn)
			return;
		p->fn(p, p->arg, w->ith, p->n);
		pool_barrier(p, w->ith);
	}
}

static int threads_ok(const struct qn_thread *threads, int32_t n)
{
	int32_t place = -1;

	for (int i = 0; threads && i < n; i++) {
		if (threads[i].n_cpus < 0 || threads[i].place >= QN_PLACES_MAX ||
		    (threads[i].place != place && threads[i].place != place + 1))
			return 0;
		place = threads[i].place;
		if (i == 0 && place != 0)
			return 0;
	}
	return 1;
}

/* Threads of a place are in groups of nearly equal size. */
static void group_threads(struct qn_pool *p)
{
	p->n_groups = 0;
	for (int k = 0; k < p->n_places; k++) {
		const struct place *at = &p->places[k];
		const int groups = (at->n + GROUP - 1) / GROUP;

		for (int i = 0; i < at->n; i++)
			p->workers[at->first + i].group = p->n_groups + i * groups / at->n;
		p->n_groups += groups;
	}
	for (int i = 0; i < p->n; i++)
		p->groups[p->workers[i].group].n++;
}

static int n_places(const struct qn_thread *threads, int32_t n)
{
	return threads ? threads[n - 1].place + 1 : 1;
}

/* A pool of n threads that are not started. */
static struct qn_pool *new_pool(const struct qn_thread *threads, int32_t n)
{
	const int places = n_places(threads, n), groups = n / GROUP + places; /* at most */
	const size_t workers = (sizeof(struct qn_pool) + sizeof(struct worker) * (size_t)n + 63) / 64 * 64;
	const size_t bytes = workers + sizeof(struct group) * (size_t)groups + sizeof(struct place) * (size_t)places;
	uint8_t *room = sys_alloc(bytes);
	struct qn_pool *p = (struct qn_pool *)room;

	if (!p)
		return NULL;
	memset(room, 0, bytes);
	p->n = n;
	p->n_places = places;
	p->spin_ns = n > sys_cpus() ? 0 : SPIN_NS;
	p->groups = (struct group *)(room + workers);
	p->places = (struct place *)(room + workers + sizeof(struct group) * (size_t)groups);
	for (int i = 0; i < n; i++) {
		p->workers[i] = (struct worker){.pool = p, .ith = i, .place = threads ? threads[i].place : 0};
		p->places[p->workers[i].place].n++;
	}
	for (int k = 1; k < places; k++)
		p->places[k].first = p->places[k - 1].first + p->places[k - 1].n;
	group_threads(p);
	return p;
}

/* Ends the threads that were started: all before number n. */
static void stop(struct qn_pool *p, int n)
{
	p->fn = NULL;
	gates_open(p, offsetof(struct group, start));
	for (int i = 1; i < n; i++)
		sys_thread_join(&p->workers[i].thread);
	sys_free(p);
}

int qn_pool_create(struct qn_pool **pool, const struct qn_thread *threads, int32_t n)
{
	struct qn_pool *p;
	int i;

	*pool = NULL;
	if (n < 1 || n > THREADS_MAX || !threads_ok(threads, n))
		return QN_EINVAL;
	p = new_pool(threads, n);
	if (!p)
		return QN_ENOMEM;
	for (i = 1; i < n; i++) {
		struct worker *w = &p->workers[i];

		if (!sys_thread_start(&w->thread, worker_main, w))
			break;
		if (threads)
			sys_thread_keep(&w->thread, threads[i].cpus, threads[i].n_cpus);
	}
	if (i < n) {
		stop(p, i);
		return QN_ENOMEM;
	}
	*pool = p;
	return QN_OK;
}

void qn_pool_destroy(struct qn_pool *p)
{
	if (p)
		stop(p, p->n);
}

int32_t qn_pool_threads(const struct qn_pool *p)
{
	return p->n;
}

int pool_places(const struct qn_pool *p)
{
	return p->n_places;
}

int pool_before(const struct qn_pool *p, int k)
{
	return k < p->n_places ? p->places[k].first : p->n;
}

/* Items of place k of several, and the first; and how many of them its threads have as their own. */
static int64_t items_of(const struct qn_pool *p, const struct deal *d, int k, int64_t *first, int64_t *own)
{
	const struct place *at = &p->places[k];
	int64_t n;

	if (d->each) {
		*first = 0;
		for (int i = 0; i < k; i++)
			*first += d->each[i];
		n = d->each[k];
	} else {
		*first = d->n * at->first / p->n;
		n = d->n * (at->first + at->n) / p->n - *first;
	}
	/* Of a place with more items than threads for them, more is shared. */
	const int64_t fair = (d->n - d->n / SHARED) * at->n / p->n;

	*own = n - n / SHARED < fair ? n - n / SHARED : fair;
	return n;
}

static struct deal deal_of(struct qn_pool *p, int ith, const int64_t *each, int64_t n)
{
	struct deal d = {.n = n, .each = each, .ith = ith};

	if (p->n_places == 1) { /* short steps notice the divisions of the general case */
		const int64_t own = p->n == 1 ? n : n - n / SHARED;

		d.next = own * ith / p->n;
		d.end = own * (ith + 1) / p->n;
		d.tail = own;
		d.last = n;
		return d;
	}
	d.place = p->workers[ith].place;

	const struct place *at = &p->places[d.place];
	int64_t first, own, items = items_of(p, &d, d.place, &first, &own);

	d.next = first + own * (ith - at->first) / at->n;
	d.end = first + own * (ith - at->first + 1) / at->n;
	d.tail = first + own;
	d.last = first + items;
	return d;
}

struct deal deal_begin(struct qn_pool *p, int ith, int64_t n)
{
	return deal_of(p, ith, NULL, n);
}

struct deal deal_placed(struct qn_pool *p, int ith, const int64_t *n)
{
	int64_t all = 0;

	for (int k = 0; k < p->n_places; k++)
		all += n[k];
	return deal_of(p, ith, n, all);
}

/* Whether the thread may take from another place, which has something left. */
static int deal_help(struct qn_pool *p, int counter, struct deal *d)
{
	const int home = p->workers[d->ith].place;

	if (p->n_places == 1 || d->home)
		return 0;
	for (;;) {
		int some = 0;

		for (int i = 1; i < p->n_places; i++) {
			const int k = (home + i) % p->n_places;
			int64_t first, own, items = items_of(p, d, k, &first, &own);

			if (atomic_load_explicit(&p->places[k].counter[counter], memory_order_relaxed) >= items - own)
				continue;
			some = 1;
			if (d->until != INT64_MIN)
				continue;
			d->place = k;
			d->tail = first + own;
			d->last = first + items;
			return 1;
		}
		if (!some)
			return 0;
		if (!d->until)
			d->until = sys_ns() + HELP_NS;
		else if (sys_ns() > d->until)
			d->until = INT64_MIN;
		for (int i = 0; i < 32 && d->until != INT64_MIN; i++)
			relax();
	}
}

int64_t deal_next(struct qn_pool *p, int counter, struct deal *d)
{
	int64_t i;

	if (d->next < d->end)
		return d->next++;
	do {
		if (d->tail >= d->last)
			continue;
		i = d->tail + atomic_fetch_add_explicit(&p->places[d->place].counter[counter], 1, memory_order_relaxed);
		if (i < d->last)
			return i;
	} while (deal_help(p, counter, d));
	return -1;
}

/* Some of the tail that a thread takes from. */
static int64_t deal_tail(struct qn_pool *p, int counter, struct deal *d, int64_t most, int64_t *n)
{
	_Atomic int64_t *of = &p->places[d->place].counter[counter];
	int64_t taken = atomic_load_explicit(of, memory_order_relaxed);

	do {
		const int64_t left = d->last - d->tail - taken, fair = left / (2 * p->places[d->place].n);

		if (left <= 0)
			return -1;
		*n = fair < 1 ? 1 : fair < most ? fair : most;
	} while (!atomic_compare_exchange_weak_explicit(of, &taken, taken + *n, memory_order_relaxed,
	                                                memory_order_relaxed));
	return d->tail + taken;
}

int64_t deal_some(struct qn_pool *p, int counter, struct deal *d, int64_t most, int64_t *n)
{
	int64_t i = d->next;

	if (i < d->end) {
		*n = d->end - i < most ? d->end - i : most;
		d->next += *n;
		return i;
	}
	do
		i = deal_tail(p, counter, d, most, n);
	while (i < 0 && deal_help(p, counter, d));
	return i;
}
