/*
 * exec.c - runs plans: each thread walks their lists of operations, takes its share of each, and
 * waits for the others at its end.
 */
#include <stdatomic.h>

#include "platform/platform.h"
#include "run/operation.h"

struct job {
	const struct qn_plan *plans;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch;
	size_t scratch_each;
	const uint32_t *stop;
	int32_t n_plans;
	_Atomic int32_t end; /* plans before this one are run */
};

/* Operation i of a plan, and the wait for its end, on the clock. */
static void run_measured(struct run *c, const struct qn_plan *plan, int32_t i, const struct operation *o)
{
	const struct qn_op *op = &plan->ops[i];
	const int64_t start = sys_ns();
	int64_t end;

	c->time = &plan->ticks->times[(int64_t)i * c->nth + c->ith];
	o->run(c, op);
	end = sys_ns();
	c->time->busy_ns += end - start;
	pool_barrier(c->pool, c->ith);
	c->time->wait_ns += sys_ns() - end;
	if (c->ith == 0 && o->moves) {
		const struct qn_ticks_op m = o->moves(c, op);

		plan->ticks->ops[i].bytes += m.bytes;
		plan->ticks->ops[i].madds += m.madds;
	}
}

static void run_plan(struct run *c, const struct qn_plan *plan)
{
	c->time = NULL;
	for (int32_t i = 0; i < plan->n_ops; i++) {
		const struct operation *o = operation_of(plan->ops[i].kind);

		if (i && !plan->ticks)
			pool_barrier(c->pool, c->ith);
		if (plan->taps && plan->taps[i].sums)
			run_tap(c, &plan->ops[i], &plan->taps[i]);
		if (plan->ticks)
			run_measured(c, plan, i, o);
		else
			o->run(c, &plan->ops[i]);
		c->step += o->counters;
	}
}

static int stopped(const uint32_t *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Plans in turns use one half of the counters or the other; the first thread clears what the plan before has used. */
static void run_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct job *job = arg;
	struct run c = {
		.pool = pool,
		.bufs = job->bufs,
		.batch = job->batch,
		.scratch = job->scratch + (size_t)ith * job->scratch_each,
		.scratch_each = job->scratch_each,
		.ith = ith,
		.nth = nth,
	};
	int used = 0;

	for (int32_t k = 0; k < atomic_load_explicit(&job->end, memory_order_relaxed); k++) {
		const int half = k % 2 * POOL_COUNTERS;

		if (ith == 0)
			pool_clear(pool, POOL_COUNTERS - half, used);
		c.step = half;
		run_plan(&c, &job->plans[k]);
		used = c.step - half;
		if (k + 1 == job->n_plans)
			break; /* the job's end is a barrier */
		/* Before the barrier, so that all threads go on or none; one that is late may see the next decision. */
		if (ith == 0 && stopped(job->stop))
			atomic_store_explicit(&job->end, k + 1, memory_order_relaxed);
		pool_barrier(pool, ith);
	}
}

int32_t qn_run(struct qn_pool *pool, const struct qn_plan *plans, int32_t n_plans, const struct qn_buf *bufs,
               const struct qn_batch *batch, void *scratch, size_t scratch_bytes, const uint32_t *stop)
{
	struct job job = {
		.plans = plans,
		.n_plans = n_plans,
		.bufs = bufs,
		.batch = batch,
		.scratch = scratch,
		.scratch_each = scratch_bytes / (size_t)qn_pool_threads(pool) / 64 * 64,
		.stop = stop,
	};

	atomic_init(&job.end, stopped(stop) ? 0 : n_plans);
	pool_run(pool, run_job, &job);
	return atomic_load_explicit(&job.end, memory_order_relaxed);
}

size_t qn_plan_scratch(const struct qn_op *ops, int32_t n_ops, int32_t n_tok_max)
{
	size_t most = 0;

	(void)n_tok_max; /* tiles are of fixed size: no operation's scratch grows with the batch */
	for (int32_t i = 0; i < n_ops; i++) {
		const struct operation *o = operation_of(ops[i].kind);
		const size_t bytes = o && o->scratch ? o->scratch(&ops[i]) : 0;

		most = bytes > most ? bytes : most;
	}
	return (most + 63) / 64 * 64;
}
