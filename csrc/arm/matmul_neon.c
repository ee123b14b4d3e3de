/* matmul_neon.c - products on plain NEON: smull to int16, pairs added, and pairs of pairs to int32. */
#define FLAGS_REGISTERS
#include "flags.h"

#include "arm/set.h"

#include "arm/matmul_q.h"

#define MM(name) name##_neon
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 0

/* |w| <= 128 and |x| <= 127: a pair of products is at most 2 * 128 * 127 < 2^15. */
static inline int32x4_t dot_signed(int32x4_t acc, int8x16_t w, int8x16_t x)
{
	return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x)));
}

static inline int32x4_t dot(int32x4_t acc, uint8x16_t w, int8x16_t x)
{
	return dot_signed(acc, vreinterpretq_s8_u8(w), x);
}

/* w - 128, for the top bit is worth 128 before and -128 after. */
static inline int32x4_t dot8(int32x4_t acc, uint8x16_t w, int8x16_t x)
{
	return dot(acc, veorq_u8(w, vdupq_n_u8(0x80)), x);
}

INTS_DOT(ints_dot, dot)
INTS_DOT(ints_dot8, dot8)

#include "tmpl/matmul_int.h"

/* 8 chains of dot_signed(): their 32 instructions keep two pipes busy for longer than one chain takes. */
static void int8_rounds_neon(int64_t n)
{
	int32x4_t a[8];
	int32_t sink[4];

#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		a[j] = vdupq_n_s32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			int16x8_t p, q;

			__asm__ volatile("smull %1.8h, %0.8b, %0.8b\n\tsmull2 %2.8h, %0.16b, %0.16b\n\t"
			                 "addp %1.8h, %1.8h, %2.8h\n\tsadalp %0.4s, %1.8h"
			                 : "+w"(a[j]), "=&w"(p), "=&w"(q));
		}
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++) {
		vst1q_s32(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_neon(struct kernels *k)
{
	mm_fill_neon(k);
	k->int8_rounds = int8_rounds_neon;
	k->int8_per_round = 8 * 16;
}
