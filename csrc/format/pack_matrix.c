/* pack_matrix.c - whole matrices into panels, by all threads of a pool. */
#include "format/pack.h"
#include "format/parts.h"
#include "quern.h"
#include "run/pool.h"

struct pack_job {
	const struct qn_mat *src, *dst;
	int64_t first;
	_Atomic int status;
};

/* Panel i of src goes to where it is to lie in dst. */
static int pack_one(const struct pack_job *job, int64_t i)
{
	const struct qn_mat *m = job->src, *to = job->dst;
	const int64_t n = mat_panels(m), n_to = mat_panels(to), row = i % n * QN_PANEL, left = m->n_out - row;
	const int64_t row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	const int64_t panel_bytes = (int64_t)qn_panel_bytes(m->type, m->n_in);
	const uint8_t *rows = (const uint8_t *)m->data + (i / n * m->n_out + row) * row_bytes;
	const int64_t at = panel_at(to, n_to, panel_bytes, (job->first + i) / n_to, (job->first + i) % n_to);
	uint8_t *panel = (uint8_t *)to->data + at;

	return pack_away(m->type, panel, rows, (int32_t)(left < QN_PANEL ? left : QN_PANEL), m->n_in);
}

/* Those of panels first .. first + n, counted over all matrices, that lie in part k of one matrix of n_to panels. */
static int64_t within(const struct pack_job *job, int64_t n, int k, int64_t e, int64_t *from)
{
	const int64_t n_to = mat_panels(job->dst);
	int64_t a = e * n_to + part_begin(n_to, k, mat_places(job->dst)) - job->first;
	int64_t b = e * n_to + part_begin(n_to, k + 1, mat_places(job->dst)) - job->first;

	a = a < 0 ? 0 : a;
	b = b > n ? n : b;
	*from = a;
	return b > a ? b - a : 0;
}

/* Items of a place are the panels that lie there, in order; src is one matrix or a part of one more often than not. */
static void pack_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct pack_job *job = arg;
	const int64_t n = mat_panels(job->src) * job->src->n_mat, n_to = mat_panels(job->dst);
	const int64_t e0 = job->first / n_to, e1 = (job->first + n - 1) / n_to + 1;
	int64_t items[QN_PLACES_MAX] = {n}, i, from;
	int places = mat_places(job->dst);

	(void)nth;
	if (places != pool_places(pool))
		places = 1;
	for (int k = 0; k < places && places > 1; k++) {
		items[k] = 0;
		for (int64_t e = e0; e < e1; e++)
			items[k] += within(job, n, k, e, &from);
	}

	struct deal d = places > 1 ? deal_placed(pool, ith, items) : deal_begin(pool, ith, n);

	while ((i = deal_next(pool, 0, &d)) >= 0) {
		int64_t e = e0, some;
		int k = 0, status;

		if (places > 1) {
			for (; i >= items[k]; k++)
				i -= items[k];
			for (; (some = within(job, n, k, e, &from)) <= i; e++)
				i -= some;
			i += from;
		}
		status = pack_one(job, i);
		if (status)
			job->status = status;
	}
}

int qn_pack_mat(struct qn_pool *pool, const struct qn_mat *dst, int64_t first, const struct qn_mat *src)
{
	struct pack_job job = {.src = src, .dst = dst, .first = first};

	if (!qn_type_ok(src->type, src->n_in) || src->n_out < 1 || src->n_mat < 1 || src->layout != QN_ROWS)
		return QN_EINVAL;
	if (dst->type != src->type || dst->n_in != src->n_in || dst->layout != QN_X16 || dst->places > QN_PLACES_MAX ||
	    dst->n_out < 1 || dst->n_mat < 1 || first < 0 ||
	    first + mat_panels(src) * src->n_mat > mat_panels(dst) * dst->n_mat)
		return QN_EINVAL;
	pool_run(pool, pack_job, &job);
	return job.status;
}
