/* step.c - optimisers, whose steps move weights by their gradient. */
#include "kernels.h"
#include "run/pool.h"

static void share(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct qn_adamw *s = arg;
	const int64_t from = s->n * ith / nth, n = s->n * (ith + 1) / nth - from;
	const struct adamw by = {
		.scale = s->scale,
		.beta1 = s->beta1,
		.beta2 = s->beta2,
		.correction1 = s->correction1,
		.correction2 = s->correction2,
		.rate = s->rate,
		.decay = s->decay,
		.eps = s->eps,
	};

	(void)pool;
	qn_kernels.adamw(&by, s->x + from, s->m + from, s->v + from, s->d + from, n);
}

void qn_adamw(struct qn_pool *pool, const struct qn_adamw *s)
{
	struct qn_adamw copy = *s;

	pool_run(pool, share, &copy);
}
