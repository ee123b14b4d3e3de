/* pool.h - worker threads that run one function together, and what they need to share its work. */
#ifndef QN_RUN_POOL_H
#define QN_RUN_POOL_H

#include <stdint.h>

#include "quern.h"

/*
 * Counters for the work items of one plan, which has fewer steps than this. There are twice as many: while a plan uses
 * one half, the other can be cleared for the next one.
 */
#define POOL_COUNTERS 128

/* Called by every thread of the pool: thread ith of nth. */
typedef void job_fn(struct qn_pool *pool, void *arg, int ith, int nth);

/* Runs fn on all threads and returns when all have. */
void pool_run(struct qn_pool *pool, job_fn *fn, void *arg);

/* Places that the pool's threads are in. */
int pool_places(const struct qn_pool *pool);

/* Threads of the places before place k, which may be the number of places. */
int pool_before(const struct qn_pool *pool, int k);

/* Every thread of the job waits here for the others. */
void pool_barrier(struct qn_pool *pool, int ith);

/*
 * The same inside an operation. Where its time is measured (not NULL), the wait counts as such, and no longer as busy,
 * which is what the whole operation is measured as.
 */
void pool_wait(struct qn_pool *pool, int ith, struct qn_ticks_time *time);

/*
 * Work items of step `counter` of a job (0 .. 2 * POOL_COUNTERS - 1), n in all, dealt in order. Most of
 * each thread's share is its own, contiguous, so that it streams; the tail of all is taken by who
 * comes first, so that a thread whose CPU was taken away does not hold up the others.
 *
 *	struct deal d = deal_begin(pool, ith, n);
 *	while ((i = deal_next(pool, counter, &d)) >= 0)
 *		...
 *
 * Each place has its own items, and their tail is taken by its threads. Where one place is done and others are not for
 * a while, its threads help them; so a thread's items rise within a place only.
 */
struct deal {
	int64_t next, end;   /* the thread's own items */
	int64_t tail, last;  /* the shared ones of a place */
	int64_t n;           /* of all places */
	const int64_t *each; /* [places] items of each, or NULL: as many as it has threads for */
	int64_t until;       /* when others may be helped; 0: the thread has items of its own place, INT64_MIN: now */
	int ith, place;      /* the thread, and the place that it takes from */
	int home;            /* whether it helps no other place: 0 until the caller sets it */
};

struct deal deal_begin(struct qn_pool *pool, int ith, int64_t n);
int64_t deal_next(struct qn_pool *pool, int counter, struct deal *d);

/* Items of each place, n[k] of place k, are numbered one place after the other. n stays while they are dealt. */
struct deal deal_placed(struct qn_pool *pool, int ith, const int64_t *n);

/*
 * Several items that follow each other, at most `most`; *n of them. In the tail they become fewer towards its end, so
 * that threads end together.
 */
int64_t deal_some(struct qn_pool *pool, int counter, struct deal *d, int64_t most, int64_t *n);

/* Sets n counters from `first` on to 0, which no thread uses before the next barrier. */
void pool_clear(struct qn_pool *pool, int first, int n);

#endif
