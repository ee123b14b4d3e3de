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

/* Where panel i of src is to lie in dst. */
static uint8_t *panel_of(const struct pack_job *job, int64_t i, int64_t bytes)
{
	const int64_t n = mat_panels(job->dst), p = job->first + i;

	return (uint8_t *)job->dst->data + panel_at(job->dst, n, bytes, p / n, p % n);
}

static int pack_one(const struct pack_job *job, int64_t i)
{
	const struct qn_mat *m = job->src;
	const int64_t n = mat_panels(m), row = i % n * QN_PANEL, left = m->n_out - row;
	const int64_t row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	const uint8_t *rows = (const uint8_t *)m->data + (i / n * m->n_out + row) * row_bytes;
	const int32_t n_rows = (int32_t)(left < QN_PANEL ? left : QN_PANEL);
	uint8_t *panel = panel_of(job, i, mat_panel_bytes(job->dst));

	if (job->dst->layout == QN_X12)
		return pack_twelve_away(panel, rows, n_rows, m->n_in);
	return pack_away(m->type, panel, rows, n_rows, m->n_in);
}

/* Writes to each page of a panel that is about to be packed. */
static void touch_one(const struct pack_job *job, int64_t i)
{
	const int64_t bytes = mat_panel_bytes(job->dst);
	volatile uint8_t *panel = panel_of(job, i, bytes);

	for (int64_t at = 0; at < bytes; at += 4096)
		panel[at] = 0;
	panel[bytes - 1] = 0;
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

/* Item i of all places: the panels that lie in each, in order. */
static int64_t panel_in(const struct pack_job *job, int64_t n, const int64_t *items, int64_t i)
{
	int64_t e = job->first / mat_panels(job->dst), some, from;
	int k = 0;

	for (; i >= items[k]; k++)
		i -= items[k];
	for (; (some = within(job, n, k, e, &from)) <= i; e++)
		i -= some;
	return i + from;
}

/*
 * src is one matrix or a part of one more often than not, all of whose panels may lie in one place. Others help to pack
 * them, and where memory may not be bound to a node, pages are where they are written first: so that is done before, by
 * threads of the place.
 */
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

	if (places > 1) {
		struct deal own = d;

		own.home = 1;
		while ((i = deal_next(pool, 1, &own)) >= 0)
			touch_one(job, panel_in(job, n, items, i));
		pool_barrier(pool, ith);
	}
	while ((i = deal_next(pool, 0, &d)) >= 0) {
		const int status = job->status ? QN_OK : pack_one(job, places > 1 ? panel_in(job, n, items, i) : i);

		if (status)
			job->status = status;
	}
}

int qn_pack_mat(struct qn_pool *pool, const struct qn_mat *dst, int64_t first, const struct qn_mat *src)
{
	struct pack_job job = {.src = src, .dst = dst, .first = first};

	if (!qn_type_ok(src->type, src->n_in) || src->n_out < 1 || src->n_mat < 1 || src->layout != QN_ROWS)
		return QN_EINVAL;
	if (dst->type != src->type || dst->n_in != src->n_in || dst->places > QN_PLACES_MAX ||
	    (dst->layout != QN_X16 && !mat_twelve(dst)) || dst->n_out < 1 || dst->n_mat < 1 || first < 0 ||
	    first + mat_panels(src) * src->n_mat > mat_panels(dst) * dst->n_mat)
		return QN_EINVAL;
	pool_run(pool, pack_job, &job);
	return job.status;
}
