/* matmul_dotprod.c - products with the dot product extension: one sdot per 4 rows, word and token. */
#define FLAGS_DOTPROD
#define FLAGS_REGISTERS
#include "flags.h"

#include "arm/set.h"

#include "arm/matmul_q.h"

#define MM(name) name##_dotprod
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 0

static inline int32x4_t dot(int32x4_t acc, uint8x16_t w, int8x16_t x)
{
	return vdotq_s32(acc, vreinterpretq_s8_u8(w), x);
}

/* w - 128, for the top bit is worth 128 before and -128 after. Done once for all tokens of a tile. */
static inline int32x4_t dot8(int32x4_t acc, uint8x16_t w, int8x16_t x)
{
	return dot(acc, veorq_u8(w, vdupq_n_u8(0x80)), x);
}

INTS_DOT(ints_dot, dot)
INTS_DOT(ints_dot8, dot8)

#include "tmpl/matmul_int.h"

/* 24 independent sdot: as many as six pipes with a latency of 4 take. */
static void int8_rounds_dotprod(int64_t n)
{
	int32x4_t a[24];
	int32_t sink[4];

#pragma GCC unroll 24
	for (int j = 0; j < 24; j++)
		a[j] = vdupq_n_s32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 24
		for (int j = 0; j < 24; j++)
			__asm__ volatile("sdot %0.4s, %0.16b, %0.16b" : "+w"(a[j]));
#pragma GCC unroll 24
	for (int j = 0; j < 24; j++) {
		vst1q_s32(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_dotprod(struct kernels *k)
{
	mm_fill_dotprod(k);
	k->int8_rounds = int8_rounds_dotprod;
	k->int8_per_round = 24 * 16;
}

#include "flags_end.h"
