/*
 * matmul_i8mm.c - products with the int8 matrix extension: one usmmla per 2 rows, 2 words and 2 tokens.
 * 8-bit weights are unsigned as they lie, and their offset is taken off once a sub-block.
 */
#define FLAGS_I8MM
#define FLAGS_REGISTERS
#include "flags.h"

#include "arm/set.h"

#include "arm/matmul_q.h"

#define MM(name) name##_i8mm
#define MM_TOKENS 4
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 1
#define MM_BY 2

/* Register j has 8 weights of row 2j, then 8 of row 2j + 1. */
typedef struct {
	uint8x16_t q[8];
} words;

/* Register j has row 2j times either token, then row 2j + 1 times either. */
typedef struct {
	int32x4_t q[8];
} dots;

#define ZIP(f, a, b) vreinterpretq_u8_u32(f(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))

static inline words words_of(bytes a, bytes b)
{
	return (words){{ZIP(vzip1q_u32, a.q[0], b.q[0]), ZIP(vzip2q_u32, a.q[0], b.q[0]),
	                ZIP(vzip1q_u32, a.q[1], b.q[1]), ZIP(vzip2q_u32, a.q[1], b.q[1]),
	                ZIP(vzip1q_u32, a.q[2], b.q[2]), ZIP(vzip2q_u32, a.q[2], b.q[2]),
	                ZIP(vzip1q_u32, a.q[3], b.q[3]), ZIP(vzip2q_u32, a.q[3], b.q[3])}};
}

static inline words words_load(const void *p)
{
	const uint8_t *b = p;

	return (words){{vld1q_u8(b), vld1q_u8(b + 16), vld1q_u8(b + 32), vld1q_u8(b + 48),
	                vld1q_u8(b + 64), vld1q_u8(b + 80), vld1q_u8(b + 96), vld1q_u8(b + 112)}};
}

static inline void words_store(void *p, words a)
{
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++)
		vst1q_u8((uint8_t *)p + 16 * j, a.q[j]);
}

static inline dots dots_set1(int32_t s, int32_t t)
{
	const int32x4_t a = vzip1q_s32(vdupq_n_s32(s), vdupq_n_s32(t));

	return (dots){{a, a, a, a, a, a, a, a}};
}

static inline ints dots_of(dots a, int k)
{
	if (k)
		return (ints){{vuzp2q_s32(a.q[0], a.q[1]), vuzp2q_s32(a.q[2], a.q[3]), vuzp2q_s32(a.q[4], a.q[5]),
		               vuzp2q_s32(a.q[6], a.q[7])}};
	return (ints){{vuzp1q_s32(a.q[0], a.q[1]), vuzp1q_s32(a.q[2], a.q[3]), vuzp1q_s32(a.q[4], a.q[5]),
	               vuzp1q_s32(a.q[6], a.q[7])}};
}

static inline acts acts_of(const int8_t *p, const int8_t *q) { return vcombine_s8(vld1_s8(p), vld1_s8(q)); }

#define DOT(j) vusmmlaq_s32(acc.q[j], a.q[j], x)

static inline dots ints_dot(dots acc, words a, acts x)
{
	return (dots){{DOT(0), DOT(1), DOT(2), DOT(3), DOT(4), DOT(5), DOT(6), DOT(7)}};
}

static inline dots ints_dot8(dots acc, words a, acts x) { return ints_dot(acc, a, x); }

#include "tmpl/matmul_int.h"

#include "arm/many_i8mm.h"

/* 24 independent usmmla: as many as six pipes with a latency of 4 take. */
static void int8_rounds_i8mm(int64_t n)
{
	int32x4_t a[24];
	int32_t sink[4];

#pragma GCC unroll 24
	for (int j = 0; j < 24; j++)
		a[j] = vdupq_n_s32(j);
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 24
		for (int j = 0; j < 24; j++)
			__asm__ volatile("usmmla %0.4s, %0.16b, %0.16b" : "+w"(a[j]));
#pragma GCC unroll 24
	for (int j = 0; j < 24; j++) {
		vst1q_s32(sink, a[j]);
		__asm__ volatile("" : : "m"(sink));
	}
}

void mm_init_i8mm(struct kernels *k)
{
	mm_fill_i8mm(k);
	many_fill(k);
	k->int8_rounds = int8_rounds_i8mm;
	k->int8_per_round = 24 * 32;
}

#include "flags_end.h"
