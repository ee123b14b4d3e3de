//go:build mpi

/*
 * mpi.c - ranks that are the processes of an MPI job. Pieces go to all others at once. While a process waits for a
 * message it sleeps between looks, since MPI's own waits spin.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "quern.h"
#include "ranks/ranks.h"

enum { TAG_PIECE = 1, TAG_MESSAGE = 2 };

struct mpi {
	struct qn_ranks g;
	int broken;
};

static struct mpi *of(struct qn_ranks *g)
{
	return (struct mpi *)g;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int is_broken(struct mpi *m)
{
	return __atomic_load_n(&m->broken, __ATOMIC_RELAXED);
}

/* Waits for all requests. Those of a broken job are left to the end of the process. */
static int await(struct mpi *m, MPI_Request *requests, int n, int64_t timeout_ns)
{
	const int64_t end = now_ns() + timeout_ns;
	MPI_Status statuses[2 * QN_RANKS_MAX];

	for (unsigned i = 1;; i++) {
		int done;

		if (MPI_Testall(n, requests, &done, statuses) != MPI_SUCCESS || is_broken(m))
			return QN_EBROKEN;
		if (done)
			return QN_OK;
		if (i % 1024 == 0 && now_ns() > end)
			return QN_ETIMEOUT;
	}
}

static int mpi_exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, int64_t timeout_ns)
{
	MPI_Request requests[2 * QN_RANKS_MAX];
	int count = 0, rc = MPI_SUCCESS;

	for (int32_t i = 1; i < g->n; i++) {
		const int32_t from = (g->rank + g->n - i) % g->n;

		if (n[from] > INT_MAX || n[g->rank] > INT_MAX)
			return QN_EINVAL;
		if (n[from] && (to < 0 || to == g->rank))
			rc |= MPI_Irecv(at[from], (int)n[from], MPI_BYTE, from, TAG_PIECE, MPI_COMM_WORLD,
			                &requests[count++]);
	}
	for (int32_t i = 1; i < g->n; i++) {
		const int32_t r = (g->rank + i) % g->n;

		if (n[g->rank] && (to < 0 || to == r))
			rc |= MPI_Isend(at[g->rank], (int)n[g->rank], MPI_BYTE, r, TAG_PIECE, MPI_COMM_WORLD,
			                &requests[count++]);
	}
	return rc != MPI_SUCCESS ? QN_EBROKEN : await(of(g), requests, count, timeout_ns);
}

static void mpi_interrupt(struct qn_ranks *g)
{
	__atomic_store_n(&of(g)->broken, 1, __ATOMIC_RELAXED);
}

/* Sends a copy, which stays for as long as MPI may read it: if it cannot be sent, to the end of the process. */
static int mpi_send(struct qn_ranks *g, int32_t to, const void *msg, size_t n)
{
	MPI_Request request;
	void *copy;
	int rc = QN_EBROKEN;

	if (n > INT_MAX)
		return QN_EINVAL;
	if (is_broken(of(g)))
		return QN_EBROKEN;
	copy = malloc(n ? n : 1);
	if (!copy)
		return QN_ENOMEM;
	memcpy(copy, msg, n);
	if (MPI_Isend(copy, (int)n, MPI_BYTE, to, TAG_MESSAGE, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
		rc = await(of(g), &request, 1, INT64_C(10000000000));
	if (rc == QN_OK)
		free(copy);
	else
		mpi_interrupt(g);
	return rc;
}

/* Between looks: none for 2 ms, which is less than what users notice, then naps of 1 ms. */
static void nap(int64_t waited_ns)
{
	const struct timespec t = {0, 1000000};

	if (waited_ns > 2000000)
		nanosleep(&t, NULL);
}

static int mpi_recv(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns)
{
	const int64_t start = now_ns();

	for (;;) {
		MPI_Status status;
		MPI_Message message;
		int there, size;
		const int64_t waited = now_ns() - start;

		if (is_broken(of(g)) ||
		    MPI_Improbe(from, TAG_MESSAGE, MPI_COMM_WORLD, &there, &message, &status) != MPI_SUCCESS)
			return QN_EBROKEN;
		if (!there) {
			if (timeout_ns && waited > timeout_ns)
				return QN_ETIMEOUT;
			nap(waited);
			continue;
		}
		MPI_Get_count(&status, MPI_BYTE, &size);
		*n = (size_t)size;
		if (*n <= room)
			return MPI_Mrecv(msg, size, MPI_BYTE, &message, &status) == MPI_SUCCESS ? QN_OK : QN_EBROKEN;

		void *rest = malloc(*n);

		if (!rest || MPI_Mrecv(rest, size, MPI_BYTE, &message, &status) != MPI_SUCCESS) {
			free(rest);
			return QN_EBROKEN;
		}
		free(rest);
		return QN_ETOOLONG;
	}
}

/* Where ranks have failed, the others may be gone: nothing waits for them. */
static void mpi_close(struct qn_ranks *g)
{
	if (g->failed == QN_OK && !is_broken(of(g)))
		MPI_Finalize();
	free(g);
}

static const struct transport mpi = {
	.exchange = mpi_exchange,
	.send = mpi_send,
	.recv = mpi_recv,
	.interrupt = mpi_interrupt,
	.close = mpi_close,
};

int qn_ranks_mpi(struct qn_ranks **g)
{
	struct mpi *m;
	int rank, n, had;

	/* Several threads call, one at a time. */
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &had) != MPI_SUCCESS || had < MPI_THREAD_SERIALIZED)
		return QN_EINVAL;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (n > QN_RANKS_MAX)
		return QN_EINVAL;
	m = calloc(1, sizeof *m);
	if (!m)
		return QN_ENOMEM;
	m->g = (struct qn_ranks){.by = &mpi, .rank = rank, .n = n};
	*g = &m->g;
	return QN_OK;
}
