/*
 * exec.c - runs a plan: each thread walks the list of operations, takes its share of each, and
 * waits for the others at its end.
 */
#include "ops.h"

struct job {
	const struct qn_op *ops;
	int32_t n_ops;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch;
	size_t scratch_each;
};

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

		if (i)
			pool_barrier(pool);
		o->run(&c, &job->ops[i]);
		c.step += o->counters;
	}
}

void qn_run(struct qn_pool *pool, const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs,
            const struct qn_batch *batch, void *scratch, size_t scratch_bytes)
{
	struct job job = {
		.ops = ops,
		.n_ops = n_ops,
		.bufs = bufs,
		.batch = batch,
		.scratch = scratch,
		.scratch_each = scratch_bytes / (size_t)qn_pool_threads(pool) / 64 * 64,
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
