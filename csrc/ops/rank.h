/* rank.h - the best of many scores: of experts, of positions. */
#ifndef QN_OPS_RANK_H
#define QN_OPS_RANK_H

#include "math/fp16.h"

/*
 * A number that is larger the earlier something comes: by score, then the lower index; no two are equal. A score that
 * is NaN comes last.
 */
static inline uint64_t rank_of(float score, int32_t i)
{
	const uint32_t bits = bits_of_f32(score + 0.0f); /* -0 is 0 */
	const uint32_t up = score != score ? 0 : bits & 0x80000000 ? ~bits : bits | 0x80000000;

	return (uint64_t)up << 32 | (uint32_t)~i;
}

/* Puts r at place i of a heap of n, and from there down to where it belongs: the smallest is at the top. */
static inline void sift_from(uint64_t *heap, int n, int i, uint64_t r)
{
	int child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (r < heap[child])
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = r;
}

static inline void sift(uint64_t *heap, int n, uint64_t r)
{
	sift_from(heap, n, 0, r);
}

/* The index of what has a rank. */
static inline int32_t ranked(uint64_t rank)
{
	return (int32_t)~(uint32_t)rank;
}

#endif
