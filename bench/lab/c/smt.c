// Does a core's second hyperthread help by reading ahead?
//
// Claim      HAI: while one hyperthread multiplies, its sibling prefetches the weights that come next.
// Measure    Weights of 8 bits from memory, times n vectors, on one hyperthread of each core: the time of a pass
//            where the siblings sleep, and where each prefetches into the caches of its core, a fixed distance ahead
//            of its neighbour's progress. The workers prefetch for themselves in both. In turns; the fastest pass of
//            each counts.
// Data       Random numbers, 64 MB a core. Arguments: n, then pairs of CPUs that share a core, such as 0:8 1:9.
// Threshold  At n = 1 adopted from 1.05 times, refuted below; at n = 4 it may not be slower. bench/lab/hardware.go
//            judges.
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { BYTES = 64 << 20, COLS = 4096, AHEAD = 64 << 10, MOST = 64, TOKENS = 8 };

struct core {
	int worker_cpu, helper_cpu;
	int8_t *weights;
	_Alignas(64) _Atomic size_t at;
	_Alignas(64) float sums[TOKENS];
};

static struct core cores[MOST];
static int n_cores, n_tokens;
static float vectors[TOKENS][COLS];
static pthread_barrier_t begin, end;
static atomic_int helping, stopped;

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof set, &set)) {
		fprintf(stderr, "cannot run on CPU %d\n", cpu);
		exit(1);
	}
}

static float dot(const int8_t *w, const float *x)
{
	float part[16] = {0};
	for (int i = 0; i < COLS; i += 16)
		for (int k = 0; k < 16; k++)
			part[k] += (float)w[i + k] * x[i + k];
	float sum = 0;
	for (int k = 0; k < 16; k++)
		sum += part[k];
	return sum;
}

static void *work(void *arg)
{
	struct core *c = arg;
	pin(c->worker_cpu);
	for (;;) {
		pthread_barrier_wait(&begin);
		if (stopped)
			return NULL;
		for (size_t at = 0; at < BYTES; at += COLS) {
			atomic_store_explicit(&c->at, at, memory_order_relaxed);
			for (size_t i = 0; i < COLS; i += 64)
				__builtin_prefetch(c->weights + at + COLS + i); // the next row
			for (int t = 0; t < n_tokens; t++)
				c->sums[t] += dot(c->weights + at, vectors[t]);
		}
		atomic_store_explicit(&c->at, BYTES, memory_order_relaxed);
		pthread_barrier_wait(&end);
	}
}

static void *help(void *arg)
{
	struct core *c = arg;
	pin(c->helper_cpu);
	for (;;) {
		pthread_barrier_wait(&begin);
		if (stopped)
			return NULL;
		for (size_t next = 0, at = 0; helping && at < BYTES;) {
			at = atomic_load_explicit(&c->at, memory_order_relaxed);
			if (next < at)
				next = at;
			if (next >= at + AHEAD || next >= BYTES) {
#if defined(__x86_64__)
				__builtin_ia32_pause();
#endif
				continue;
			}
			for (size_t stop = next + 1024; next < stop; next += 64)
				__builtin_prefetch(c->weights + next);
		}
		pthread_barrier_wait(&end);
	}
}

static double pass(int with)
{
	helping = with;
	for (int i = 0; i < n_cores; i++)
		cores[i].at = 0;
	pthread_barrier_wait(&begin);
	double start = seconds();
	pthread_barrier_wait(&end);
	return seconds() - start;
}

int main(int argc, char **argv)
{
	pthread_t threads[2 * MOST];
	uint64_t seed = 88172645463325252u;
	n_tokens = argc > 2 ? atoi(argv[1]) : 0;
	if (n_tokens < 1 || n_tokens > TOKENS || argc - 2 > MOST) {
		fprintf(stderr, "want 1 to %d tokens and up to %d pairs of CPUs\n", TOKENS, MOST);
		return 1;
	}
	for (int i = 2; i < argc; i++, n_cores++) {
		struct core *c = &cores[n_cores];
		if (sscanf(argv[i], "%d:%d", &c->worker_cpu, &c->helper_cpu) != 2) {
			fprintf(stderr, "%s: not a pair of CPUs\n", argv[i]);
			return 1;
		}
		c->weights = lines(BYTES + COLS);
		for (size_t k = 0; k < BYTES / 8; k++)
			((uint64_t *)c->weights)[k] = random64(&seed);
	}
	for (int t = 0; t < TOKENS; t++)
		for (int i = 0; i < COLS; i++)
			vectors[t][i] = (float)(random64(&seed) >> 40) / (1 << 24) - 0.5f;
	pthread_barrier_init(&begin, NULL, 2 * (unsigned)n_cores + 1);
	pthread_barrier_init(&end, NULL, 2 * (unsigned)n_cores + 1);
	for (int i = 0; i < n_cores; i++)
		if (pthread_create(&threads[2 * i], NULL, work, &cores[i]) ||
		    pthread_create(&threads[2 * i + 1], NULL, help, &cores[i])) {
			fprintf(stderr, "no threads\n");
			return 1;
		}
	double best[2] = {INFINITY, INFINITY};
	for (int i = 0; i < 40; i++)
		best[i & 1] = least(best[i & 1], pass(i & 1));
	stopped = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 2 * n_cores; i++)
		pthread_join(threads[i], NULL);
	printf("{\"alone\":%.6f,\"helped\":%.6f,\"gbps\":%.1f}\n", best[0], best[1],
	       1e-9 * BYTES * n_cores / best[0]);
	return 0;
}
