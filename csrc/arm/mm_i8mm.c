/*
 * mm_i8mm.c - products with the int8 matrix extension, of which this uses usdot: 8-bit weights are
 * unsigned as they lie, and their offset is taken off once a sub-block, not once a word.
 */
#include "arm/set.h"

#include "arm/mm_q.h"

#define MM(name) name##_i8mm
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 1

INTS_DOT(ints_dot, vusdotq_s32)
INTS_DOT(ints_dot8, vusdotq_s32)

#include "mm_x16.h"

/* 16 independent usdot: as many as four pipes with a latency of 4 take. */
static void int8_rounds_i8mm(int64_t n)
{
	int32x4_t a[16];
	int32_t sink[4];

#pragma GCC unroll 16
	for (int j = 0; j < 16; j++)
		a[j] = vdupq_n_s32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			__asm__ volatile("usdot %0.4s, %0.16b, %0.16b" : "+w"(a[j]));
#pragma GCC unroll 16
	for (int j = 0; j < 16; j++) {
		vst1q_s32(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_i8mm(struct kernels *k)
{
	mm_fill_i8mm(k);
	k->int8_rounds = int8_rounds_i8mm;
	k->int8_per_round = 16 * 16;
}
