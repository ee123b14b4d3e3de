// What the experiments in C share: a clock, random numbers, and the form of a result.
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline uint64_t random64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

// Memory on lines, of at least that many bytes; the program ends where there is none.
static inline void *lines(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return p;
}

static inline double least(double a, double b)
{
	return a < b ? a : b;
}

// Prints one finding of a result, without what stands around it.
static inline void finding(const char *key, const char *measure, const char *number,
                           const char *threshold, const char *verdict)
{
	printf("{\"key\":\"%s\",\"measure\":\"%s\",\"number\":\"%s\",\"threshold\":\"%s\","
	       "\"verdict\":\"%s\"}",
	       key, measure, number, threshold, verdict);
}

#endif
