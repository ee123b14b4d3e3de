/* matmul_avx512vnni.c - products on AVX-512 with VNNI: one vpdpbusd per word and token. */
#define FLAGS_AVX512VNNI
#define FLAGS_REGISTERS
#include "flags.h"

#include "x86/set.h"

#include "x86/matmul_zmm_vnni.h"

#define MM(name) name##_avx512vnni
#define MM_TOKENS 6
#define MM_PAIR_TOKENS 6
#define MM_FEW 2

#include "tmpl/matmul_int.h"

/* 16 independent vpdpbusd: twice as many as its latency needs on any CPU that has it. */
static void int8_rounds_avx512vnni(int64_t n)
{
	__m512i a[16];
	int32_t sink[16];

#pragma GCC unroll 16
	for (int j = 0; j < 16; j++)
		a[j] = _mm512_set1_epi32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			__asm__ volatile("vpdpbusd %0, %0, %0" : "+v"(a[j]));
#pragma GCC unroll 16
	for (int j = 0; j < 16; j++) {
		_mm512_storeu_si512(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_avx512vnni(struct kernels *k)
{
	mm_fill_avx512vnni(k);
	k->int8_rounds = int8_rounds_avx512vnni;
	k->int8_per_round = 16 * 64;
}

#include "flags_end.h"
