/* pack_matrix.c - whole matrices into panels, by all threads of a pool. */
#include "format/pack.h"
#include "quern.h"
#include "run/pool.h"

struct pack_job {
	const struct qn_mat *src;
	uint8_t *dst;
	_Atomic int status;
};

static void pack_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct pack_job *job = arg;
	const struct qn_mat *m = job->src;
	const int64_t panels = (m->n_out + QN_PANEL - 1) / QN_PANEL;
	const int64_t row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	struct deal d = deal_begin(ith, nth, panels * m->n_mat);
	int64_t i;

	while ((i = deal_next(pool, 0, &d)) >= 0) {
		const int64_t row = i % panels * QN_PANEL, left = m->n_out - row;
		const uint8_t *rows = (const uint8_t *)m->data + (i / panels * m->n_out + row) * row_bytes;
		const int status = pack_away(m->type, job->dst + i * (int64_t)qn_panel_bytes(m->type, m->n_in), rows,
		                             (int32_t)(left < QN_PANEL ? left : QN_PANEL), m->n_in);

		if (status)
			job->status = status;
	}
}

int qn_pack_mat(struct qn_pool *pool, void *dst, const struct qn_mat *src)
{
	struct pack_job job = {.src = src, .dst = dst};

	if (!qn_type_ok(src->type, src->n_in) || src->n_out < 1 || src->n_mat < 1 || src->layout != QN_ROWS)
		return QN_EINVAL;
	pool_run(pool, pack_job, &job);
	return job.status;
}
