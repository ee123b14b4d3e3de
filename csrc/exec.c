/*
 * exec.c - runs a plan: each thread walks the list of operations, takes its share of each, and
 * waits for the others at its end.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "ops.h"

struct job {
	const struct qn_op *ops;
	int32_t n_ops;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch;
	size_t scratch_each;
	const struct qn_ticks *ticks; /* or NULL */
};

/*
 * The system's clock: 20 to 30 ns through the vDSO, of operations that take 10 us and more. A CPU's own counter is
 * cheaper and would need its rate measured, and trust that it is the same on all CPUs.
 */
static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void run_barrier(struct run *c)
{
	const int64_t start = c->time ? now_ns() : 0;

	pool_barrier(c->pool);
	if (c->time) {
		const int64_t waited = now_ns() - start;

		c->time->wait_ns += waited;
		c->time->busy_ns -= waited; /* it is inside what run_measured() counts */
	}
}

/* Operation i, and the wait for its end, on the clock. */
static void run_measured(struct run *c, const struct job *job, int32_t i, const struct operation *o)
{
	const struct qn_op *op = &job->ops[i];
	const int64_t start = now_ns();
	int64_t end;

	c->time = &job->ticks->times[(int64_t)i * c->nth + c->ith];
	o->run(c, op);
	end = now_ns();
	c->time->busy_ns += end - start;
	pool_barrier(c->pool);
	c->time->wait_ns += now_ns() - end;
	if (c->ith == 0 && o->moves) {
		const struct qn_ticks_op m = o->moves(c, op);

		job->ticks->ops[i].bytes += m.bytes;
		job->ticks->ops[i].madds += m.madds;
	}
}

static void run_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct job *job = arg;
	struct run c = {
		.pool = pool,
		.bufs = job->bufs,
		.batch = job->batch,
		.scratch = job->scratch + (size_t)ith * job->scratch_each,
		.scratch_each = job->scratch_each,
		.ith = ith,
		.nth = nth,
	};

	for (int32_t i = 0; i < job->n_ops; i++) {
		const struct operation *o = operation_of(job->ops[i].kind);

		if (job->ticks) {
			run_measured(&c, job, i, o);
		} else {
			if (i)
				pool_barrier(pool);
			o->run(&c, &job->ops[i]);
		}
		c.step += o->counters;
	}
}

void qn_run(struct qn_pool *pool, const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs,
            const struct qn_batch *batch, void *scratch, size_t scratch_bytes, const struct qn_ticks *ticks)
{
	struct job job = {
		.ops = ops,
		.n_ops = n_ops,
		.bufs = bufs,
		.batch = batch,
		.scratch = scratch,
		.scratch_each = scratch_bytes / (size_t)qn_pool_threads(pool) / 64 * 64,
		.ticks = ticks,
	};

	pool_run(pool, run_job, &job);
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
