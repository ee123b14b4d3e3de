/* matmul_avxvnni.c - products on 256-bit VNNI, for CPUs that have it without AVX-512. */
#define FLAGS_AVXVNNI
#define FLAGS_REGISTERS
#include "flags.h"

#include "x86/set.h"

#include "x86/matmul_ymm.h"

#define MM(name) name##_avxvnni
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 1
#define MM_READY_FROM (2 * MM_TOKENS + 1)

static inline ints ints_dot(ints acc, bytes w, acts x)
{
	return (ints){_mm256_dpbusd_avx_epi32(acc.lo, w.lo, x), _mm256_dpbusd_avx_epi32(acc.hi, w.hi, x)};
}

static inline ints ints_dot8(ints acc, bytes w, acts x) { return ints_dot(acc, w, x); }

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	const ints w = pairs16(a);

	return (ints){_mm256_dpwssd_avx_epi32(acc.lo, w.lo, x), _mm256_dpwssd_avx_epi32(acc.hi, w.hi, x)};
}

#include "tmpl/matmul_int.h"

static void int8_rounds_avxvnni(int64_t n)
{
	__m256i a[12];
	int32_t sink[8];

#pragma GCC unroll 12
	for (int j = 0; j < 12; j++)
		a[j] = _mm256_set1_epi32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 12
		for (int j = 0; j < 12; j++)
			__asm__ volatile("%{vex%} vpdpbusd %0, %0, %0" : "+x"(a[j]));
#pragma GCC unroll 12
	for (int j = 0; j < 12; j++) {
		_mm256_storeu_si256((__m256i *)sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_avxvnni(struct kernels *k)
{
	mm_fill_avxvnni(k);
	k->int8_rounds = int8_rounds_avxvnni;
	k->int8_per_round = 12 * 32;
}

#include "flags_end.h"
