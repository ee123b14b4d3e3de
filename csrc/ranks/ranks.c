/*
 * ranks.c - what exchanges are whatever carries them: a head in front of each piece, by which ranks notice that they
 * are not at the same place, and end a pass at the same one.
 */
#include <string.h>

#include "platform/platform.h"
#include "quern.h"
#include "ranks/ranks.h"
#include "run/pool.h"

struct head {
	uint64_t sequence, pass, bytes;
	uint32_t step, stop;
	int64_t computed_ns, waited_ns; /* of the sender, up to here */
};

_Static_assert(sizeof(struct head) <= QN_RANKS_HEAD, "a head is larger than its place");

int32_t qn_ranks_rank(const struct qn_ranks *g)
{
	return g->rank;
}

int32_t qn_ranks_count(const struct qn_ranks *g)
{
	return g->n;
}

int qn_ranks_failed(const struct qn_ranks *g)
{
	return g->failed;
}

int64_t qn_ranks_shares(const struct qn_ranks *g)
{
	return __atomic_load_n(&g->shares, __ATOMIC_RELAXED);
}

/* What other threads may read at any time. */
static void add(int64_t *to, int64_t n)
{
	__atomic_store_n(to, *to + n, __ATOMIC_RELAXED);
}

struct qn_ranks_load qn_ranks_load(const struct qn_ranks *g, int32_t rank)
{
	const struct qn_ranks_load *l = &g->load[rank];

	return (struct qn_ranks_load){
		.computed_ns = __atomic_load_n(&l->computed_ns, __ATOMIC_RELAXED),
		.waited_ns = __atomic_load_n(&l->waited_ns, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&l->bytes, __ATOMIC_RELAXED),
	};
}

const uint32_t *qn_ranks_begin(struct qn_ranks *g, const uint32_t *ask)
{
	g->ask = ask;
	g->pass++;
	g->since = sys_ns();
	__atomic_store_n(&g->stop, g->failed != QN_OK, __ATOMIC_RELAXED);
	return &g->stop;
}

/* Whether what came is what all ranks are exchanging, from rank `from`. */
static int expected(const struct qn_ranks *g, const uint8_t *at, size_t bytes, uint32_t step)
{
	struct head h;

	memcpy(&h, at, sizeof h);
	return h.sequence == g->sequence && h.pass == g->pass && h.bytes == bytes && h.step == step;
}

/* What rank r says of itself. */
static void hear(struct qn_ranks *g, int32_t r, const uint8_t *at)
{
	struct head h;

	memcpy(&h, at, sizeof h);
	__atomic_store_n(&g->load[r].computed_ns, h.computed_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&g->load[r].waited_ns, h.waited_ns, __ATOMIC_RELAXED);
}

/* How long the others may take. What this rank computed longest is forgotten in some hundred exchanges. */
static int64_t patience(struct qn_ranks *g, int64_t now)
{
	const int64_t least = g->least_ns ? g->least_ns : INT64_C(5000000000);

	g->longest_ns -= g->longest_ns / 256;
	if (g->longest_ns < now - g->since)
		g->longest_ns = now - g->since;
	return g->longest_ns > least / 20 ? 20 * g->longest_ns : least;
}

static int exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, uint32_t step,
                    int64_t timeout_ns)
{
	const struct head mine = {
		.sequence = g->sequence,
		.pass = g->pass,
		.bytes = n[g->rank],
		.step = step,
		.stop = g->rank == 0 && g->ask && __atomic_load_n(g->ask, __ATOMIC_RELAXED),
		.computed_ns = g->load[g->rank].computed_ns,
		.waited_ns = g->load[g->rank].waited_ns,
	};
	size_t with_head[QN_RANKS_MAX];
	int rc;

	for (int32_t r = 0; r < g->n; r++)
		with_head[r] = to < 0 || n[r] ? n[r] + QN_RANKS_HEAD : 0;
	if (to >= 0 && to != g->rank && !n[g->rank])
		return QN_OK;
	memset(at[g->rank], 0, QN_RANKS_HEAD);
	memcpy(at[g->rank], &mine, sizeof mine);
	rc = g->by->exchange(g, at, with_head, to, timeout_ns);
	if (rc != QN_OK || (to >= 0 && to != g->rank))
		return rc;
	for (int32_t r = 0; r < g->n; r++)
		if (with_head[r] && !expected(g, at[r], n[r], step))
			return QN_EDESYNC;
	for (int32_t r = 0; r < g->n; r++)
		if (with_head[r] && r != g->rank)
			hear(g, r, at[r]);
	/* Where one rank receives, the others would not know: there is then no stop. */
	if (to < 0 && ((const struct head *)(const void *)at[0])->stop)
		__atomic_store_n(&g->stop, 1, __ATOMIC_RELAXED);
	return QN_OK;
}

int qn_ranks_exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, uint32_t step)
{
	const int64_t start = sys_ns();
	struct qn_ranks_load *mine = &g->load[g->rank];

	if (g->failed != QN_OK)
		return g->failed;
	add(&mine->computed_ns, g->since ? start - g->since : 0);
	g->failed = exchange(g, at, n, to, step, patience(g, start));
	g->since = sys_ns();
	g->sequence++;
	add(&g->shares, 1);
	add(&mine->waited_ns, g->since - start);
	for (int32_t r = 0; r < g->n; r++)
		add(&g->load[r].bytes, (int64_t)n[r]);
	if (g->failed != QN_OK)
		__atomic_store_n(&g->stop, 1, __ATOMIC_RELAXED);
	return g->failed;
}

void qn_ranks_end(struct qn_ranks *g)
{
	const int64_t now = sys_ns();

	add(&g->load[g->rank].computed_ns, now - g->since);
	g->since = now;
}

void qn_ranks_patience(struct qn_ranks *g, int64_t least_ns)
{
	g->least_ns = least_ns;
}

/* A rank that a message does not reach does not do what the others do: there is no going on. */
int qn_ranks_send(struct qn_ranks *g, int32_t to, const void *msg, size_t n)
{
	int rc = QN_OK;

	if (to == g->rank || to >= g->n || to < -1)
		return QN_EINVAL;
	for (int32_t r = 0; r < g->n && rc == QN_OK; r++)
		if (r != g->rank && (to < 0 || to == r))
			rc = g->by->send(g, r, msg, n);
	if (rc != QN_OK && g->failed == QN_OK)
		g->failed = rc;
	return rc;
}

int qn_ranks_recv(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns)
{
	if (from == g->rank || from >= g->n || from < 0)
		return QN_EINVAL;
	return g->by->recv(g, from, msg, room, n, timeout_ns);
}

void qn_ranks_break(struct qn_ranks *g)
{
	g->by->interrupt(g);
}

void qn_ranks_close(struct qn_ranks *g)
{
	if (g)
		g->by->close(g);
}
