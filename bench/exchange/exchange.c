/*
 * exchange.c - how long two ranks take to exchange pieces by UCX: two processes of this machine, in network namespaces
 * if two are named. Prints the median, and what nine of ten and 99 of 100 do not exceed, in us. Build and run, as root
 * for namespaces (scripts/setup.sh cluster; make). Behind them, how long a rank takes in ms to send a piece of so many
 * bytes and to compute for 10 ms, while the other receives it and computes as long: the least, and what a quarter of
 * the tries do not exceed.
 *
 *	bench/exchange/build.sh
 *	build/exchange                      shared memory
 *	UCX_TLS=tcp build/exchange          the loopback interface
 *	UCX_TLS=tcp build/exchange qa qb    namespaces of "ip netns", whose interfaces join them
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "quern.h"
#include "quern_ucx.h"

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "exchange: %s\n", what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The other's address comes on `line`, this one's goes there. */
static struct qn_ranks *join(int rank, int line, int alone)
{
	struct qn_ranks *g;
	struct qn_ucx *u;
	uint8_t both[2 * 4096];
	uint8_t theirs[4096];
	const uint8_t near[2] = {!alone, !alone};
	size_t bytes[2], n;
	ssize_t got;
	int32_t missing;
	const uint8_t *mine;

	need(qn_ucx_open(&u, getenv("DEVICES")) == QN_OK, "no UCX");
	mine = qn_ucx_address(u, &n);
	need(n <= sizeof theirs && write(line, mine, n) == (ssize_t)n, "no line");
	got = read(line, theirs, sizeof theirs);
	need(got > 0, "no address");
	bytes[rank] = n;
	bytes[!rank] = (size_t)got;
	memcpy(both + (rank ? bytes[0] : 0), mine, n);
	memcpy(both + (rank ? 0 : bytes[0]), theirs, (size_t)got);
	need(qn_ucx_join(u, rank, 2, both, bytes, near, &g, &missing) == QN_OK, "the other cannot be reached");
	return g;
}

static void measure(struct qn_ranks *g, int rank, size_t whole, int rounds)
{
	const size_t n[2] = {whole / 2, whole / 2};
	uint8_t *at[2];
	double *took = malloc((size_t)rounds * sizeof *took);

	for (int r = 0; r < 2; r++) {
		at[r] = aligned_alloc(64, QN_RANKS_HEAD + n[r] + 64);
		need(at[r] && took, "no memory");
		memset(at[r], r, QN_RANKS_HEAD + n[r]);
	}
	for (int i = -100; i < rounds; i++) {
		const double start = now_us();

		need(qn_ranks_exchange(g, at, n, -1, 1) == QN_OK, "an exchange fails");
		if (i >= 0)
			took[i] = now_us() - start;
	}
	qsort(took, (size_t)rounds, sizeof *took, by_size);
	if (rank == 0)
		printf("%8zu %8.1f %8.1f %8.1f\n", whole, took[rounds / 2], took[rounds * 9 / 10],
		       took[rounds * 99 / 100]);
	fflush(stdout);
	free(at[0]);
	free(at[1]);
	free(took);
}

/* Computes, as far as the network knows. */
static void compute(double us)
{
	for (const double end = now_us() + us; now_us() < end;)
		;
}

static void measure_beside(struct qn_ranks *g, int rank, size_t bytes)
{
	enum { TRIES = 30, ROUNDS = 8 };
	const size_t one[2] = {bytes, 0}, none[2] = {0, 0};
	double took[TRIES];
	uint8_t *at[2];

	for (int r = 0; r < 2; r++) {
		at[r] = aligned_alloc(64, QN_RANKS_HEAD + bytes + 64);
		need(at[r] != NULL, "no memory");
		memset(at[r], r, QN_RANKS_HEAD + bytes);
	}
	for (int k = 0; k < TRIES; k++) {
		double start;

		need(qn_ranks_exchange(g, at, none, -1, 1) == QN_OK, "an exchange fails");
		start = now_us();
		for (int i = 0; i < ROUNDS; i++) {
			need(qn_ranks_exchange(g, at, one, 1, 2) == QN_OK, "a piece is not sent");
			compute(1e4);
		}
		need(qn_ranks_exchange(g, at, none, -1, 3) == QN_OK, "an exchange fails");
		took[k] = (now_us() - start) / ROUNDS * 1e-3;
	}
	qsort(took, TRIES, sizeof *took, by_size);
	if (rank == 0)
		printf("%8zu %8.2f %8.2f\n", bytes, took[0], took[TRIES / 4]);
	fflush(stdout);
	free(at[0]);
	free(at[1]);
}

static int run(int rank, int line, const char *namespace)
{
	static const size_t sizes[] = {64, 8192, 16384, 65536, 262144, 1048576};
	struct qn_ranks *g;

	if (namespace) {
		char path[256];

		snprintf(path, sizeof path, "/run/netns/%s", namespace);
		need(setns(open(path, O_RDONLY), CLONE_NEWNET) == 0, "no such namespace");
		/* UCX looks for interfaces in /sys, which is that of the namespace it is mounted in. */
		need(unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
		     mount("sysfs", "/sys", "sysfs", 0, NULL) == 0, "no /sys");
	}
	g = join(rank, line, namespace != NULL);
	qn_ranks_begin(g, NULL);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		measure(g, rank, sizes[i], sizes[i] > 100000 ? 500 : 4000);
	for (size_t bytes = 65536; bytes <= 4194304; bytes *= 4)
		measure_beside(g, rank, bytes);
	qn_ranks_close(g);
	return 0;
}

int main(int argc, char **argv)
{
	int line[2], status;
	pid_t other;

	need(argc == 1 || argc == 3, "want two namespaces, or none");
	need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) == 0, "no line");
	other = fork();
	need(other >= 0, "no process");
	if (!other)
		return run(1, line[1], argc > 1 ? argv[2] : NULL);
	run(0, line[0], argc > 1 ? argv[1] : NULL);
	waitpid(other, &status, 0);
	return status != 0;
}
