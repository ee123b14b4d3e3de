/*
 * self.c - ranks that are threads of one process: what a split computes can be checked without a network. Threads
 * sleep while they wait, since there may be more of them than CPUs.
 */
#include <stdlib.h>
#include <string.h>

#include "platform/platform.h"
#include "quern.h"
#include "ranks/ranks.h"

struct message {
	struct message *next;
	size_t n;
	uint8_t text[];
};

/* What all ranks share, under the lock. */
struct group {
	struct sys_mutex lock;
	struct sys_cond changed;
	int32_t n, open, waiting; /* waiting: at the meeting */
	uint64_t meeting;
	int broken;
	int left[QN_RANKS_MAX]; /* of each rank: it is closed */
	const uint8_t *piece[QN_RANKS_MAX]; /* of each rank that waits */
	size_t bytes[QN_RANKS_MAX];
	struct message *queue[2][QN_RANKS_MAX][QN_RANKS_MAX]; /* [kind][from][to], the first first */
};

/* What is queued. */
enum { MESSAGE, PIECE };

struct self {
	struct qn_ranks g;
	struct group *group;
};

static struct group *group_of(struct qn_ranks *g)
{
	return ((struct self *)g)->group;
}

static void break_locked(struct group *all)
{
	all->broken = 1;
	sys_cond_wake(&all->changed);
}

/* Exchanges need all ranks. */
static int is_over(const struct group *all)
{
	return all->broken || all->open < all->n;
}

/* Every rank waits here for the others. With the lock held. */
static int meet(struct group *all, int64_t end)
{
	const uint64_t here = all->meeting;
	int late = 0;

	if (!is_over(all) && ++all->waiting == all->n) {
		all->waiting = 0;
		all->meeting++;
		sys_cond_wake(&all->changed);
	}
	while (all->meeting == here && !is_over(all) && !late)
		late = !sys_cond_wait(&all->changed, &all->lock, end);
	if (all->meeting != here)
		return QN_OK;
	if (late)
		break_locked(all);
	return late ? QN_ETIMEOUT : QN_EBROKEN;
}

/* Pieces stay where they are until all ranks have copied them. */
static int gather(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int64_t timeout_ns)
{
	struct group *all = group_of(g);
	const int64_t end = sys_ns() + timeout_ns;
	int rc, fits = 1;

	sys_lock(&all->lock);
	all->piece[g->rank] = at[g->rank];
	all->bytes[g->rank] = n[g->rank];
	rc = meet(all, end);
	sys_unlock(&all->lock);
	if (rc != QN_OK)
		return rc;
	for (int32_t r = 0; r < g->n; r++) {
		if (r == g->rank)
			continue;
		fits &= all->bytes[r] == n[r];
		if (all->bytes[r] == n[r])
			memcpy(at[r], all->piece[r], n[r]);
	}
	sys_lock(&all->lock);
	rc = meet(all, end);
	sys_unlock(&all->lock);
	return rc != QN_OK ? rc : fits ? QN_OK : QN_EDESYNC;
}

static int put(struct qn_ranks *g, int kind, int32_t to, const void *text, size_t n)
{
	struct group *all = group_of(g);
	struct message **last, *m = malloc(sizeof *m + n);
	int rc = QN_OK;

	if (!m)
		return QN_ENOMEM;
	m->next = NULL;
	m->n = n;
	memcpy(m->text, text, n);
	sys_lock(&all->lock);
	if (all->broken || all->left[to]) {
		free(m);
		rc = QN_EBROKEN;
	} else {
		for (last = &all->queue[kind][g->rank][to]; *last; last = &(*last)->next)
			;
		*last = m;
		sys_cond_wake(&all->changed);
	}
	sys_unlock(&all->lock);
	return rc;
}

/* Waits for the first of a queue, forever with timeout_ns 0. */
static int take(struct qn_ranks *g, int kind, int32_t from, int64_t timeout_ns, struct message **m)
{
	struct group *all = group_of(g);
	struct message **first = &all->queue[kind][from][g->rank];
	const int64_t end = timeout_ns ? sys_ns() + timeout_ns : 0;
	int late = 0;

	sys_lock(&all->lock);
	while (!*first && !all->broken && !all->left[from] && !late)
		late = !sys_cond_wait(&all->changed, &all->lock, end);
	*m = *first;
	if (*m)
		*first = (*m)->next;
	sys_unlock(&all->lock);
	return *m ? QN_OK : late ? QN_ETIMEOUT : QN_EBROKEN;
}

/* Who sends to one rank does not wait for it. */
static int self_exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, int64_t timeout_ns)
{
	int rc = QN_OK;

	if (to < 0)
		return gather(g, at, n, timeout_ns);
	if (to != g->rank)
		return put(g, PIECE, to, at[g->rank], n[g->rank]);
	for (int32_t r = 0; r < g->n && rc == QN_OK; r++) {
		struct message *m;

		if (r == g->rank || !n[r])
			continue;
		rc = take(g, PIECE, r, timeout_ns, &m);
		if (rc != QN_OK)
			break;
		if (m->n == n[r])
			memcpy(at[r], m->text, n[r]);
		else
			rc = QN_EDESYNC;
		free(m);
	}
	return rc;
}

static int self_send(struct qn_ranks *g, int32_t to, const void *msg, size_t n)
{
	return put(g, MESSAGE, to, msg, n);
}

static int self_recv(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns)
{
	struct message *m;
	int rc = take(g, MESSAGE, from, timeout_ns, &m);

	if (rc != QN_OK)
		return rc;
	if (m->n > room)
		rc = QN_ETOOLONG;
	else
		memcpy(msg, m->text, m->n);
	*n = m->n;
	free(m);
	return rc;
}

static void self_interrupt(struct qn_ranks *g)
{
	struct group *all = group_of(g);

	sys_lock(&all->lock);
	break_locked(all);
	sys_unlock(&all->lock);
}

static void group_free(struct group *all)
{
	for (int32_t i = 0; i < 2 * all->n * all->n; i++)
		for (struct message *m = all->queue[i % 2][i / 2 / all->n][i / 2 % all->n], *next; m; m = next) {
			next = m->next;
			free(m);
		}
	sys_cond_free(&all->changed);
	sys_mutex_free(&all->lock);
	free(all);
}

/* The others have no exchanges without this one. Messages that it has sent are still received. */
static void self_close(struct qn_ranks *g)
{
	struct group *all = group_of(g);
	int last;

	sys_lock(&all->lock);
	all->left[g->rank] = 1;
	last = --all->open == 0;
	sys_cond_wake(&all->changed);
	sys_unlock(&all->lock);
	if (last)
		group_free(all);
	free(g);
}

static const struct transport self = {
	.exchange = self_exchange,
	.send = self_send,
	.recv = self_recv,
	.interrupt = self_interrupt,
	.close = self_close,
};

int qn_ranks_self(struct qn_ranks **ranks, int32_t n)
{
	struct group *all;

	if (n < 1 || n > QN_RANKS_MAX)
		return QN_EINVAL;
	all = calloc(1, sizeof *all);
	if (!all)
		return QN_ENOMEM;
	all->n = n;
	sys_mutex_init(&all->lock);
	sys_cond_init(&all->changed);
	for (; all->open < n; all->open++) {
		struct self *s = calloc(1, sizeof *s);

		if (!s) {
			const int32_t made = all->open;

			for (int32_t r = 0; r < made; r++)
				qn_ranks_close(ranks[r]);
			if (!made)
				group_free(all);
			return QN_ENOMEM;
		}
		s->g = (struct qn_ranks){.by = &self, .rank = all->open, .n = n};
		s->group = all;
		ranks[all->open] = &s->g;
	}
	return QN_OK;
}
