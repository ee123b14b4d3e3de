/* lanes_rvv.h - the vector of tmpl/matmul_float.h: 16 floats, in a group of registers. */
#ifndef QN_RISCV_LANES_RVV_H
#define QN_RISCV_LANES_RVV_H

#include <string.h>

#include "math/fp16.h"
#include "math/exp.h"
#include "riscv/types_rvv.h"

typedef float v8 __attribute__((ext_vector_type(8)));
typedef float v4 __attribute__((ext_vector_type(4)));
typedef float v2 __attribute__((ext_vector_type(2)));

INLINE v16 v16_set1(float x) { return (v16)x; }
INLINE v16 v16_zero(void) { return v16_set1(0); }

INLINE v16 v16_load(const float *p)
{
	v16 a;

	memcpy(&a, p, sizeof a);
	return a;
}

INLINE void v16_store(float *p, v16 a) { memcpy(p, &a, sizeof a); }

INLINE u16 u16_load(const uint16_t *p)
{
	u16 a;

	memcpy(&a, p, sizeof a);
	return a;
}

/* As f32_of_f16(), by powers of two: exact, of subnormal numbers too. */
INLINE v16 v16_of_f16(u16 h)
{
	const u32 u = __builtin_convertvector(h, u32), rest = (u & 0x7fff) << 13;
	const u32 finite = (u32)((v16)rest * 0x1p112f);

	return (v16)((rest >= 0x7c00u << 13 ? rest | 0x7f800000u : finite) | (u & 0x8000) << 16);
}

INLINE v16 v16_load_f16(const uint16_t *p) { return v16_of_f16(u16_load(p)); }
INLINE v16 v16_load_bf16(const uint16_t *p) { return (v16)(__builtin_convertvector(u16_load(p), u32) << 16); }

/* The low halves of 16 words, and the high ones, as BF16. */
INLINE u32 halves_load(const uint16_t *p)
{
	u32 a;

	memcpy(&a, p, sizeof a);
	return a;
}

INLINE v16 v16_load_low(const uint16_t *p) { return (v16)(halves_load(p) << 16); }
INLINE v16 v16_load_high(const uint16_t *p) { return (v16)(halves_load(p) & 0xffff0000u); }

INLINE v16 v16_add(v16 a, v16 b) { return a + b; }
INLINE v16 v16_sub(v16 a, v16 b) { return a - b; }
INLINE v16 v16_mul(v16 a, v16 b) { return a * b; }
INLINE v16 v16_div(v16 a, v16 b) { return a / b; }

/* Compared and selected, for vfmax does other things with NaN: b where a is not greater. */
INLINE v16 v16_max(v16 a, v16 b) { return a > b ? a : b; }

INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return __builtin_elementwise_fma(a, b, c); }

INLINE v8 low8(v16 a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7); }
INLINE v8 high8(v16 a) { return __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15); }
INLINE v4 low4(v8 a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3); }
INLINE v4 high4(v8 a) { return __builtin_shufflevector(a, a, 4, 5, 6, 7); }
INLINE v2 low2(v4 a) { return __builtin_shufflevector(a, a, 0, 1); }
INLINE v2 high2(v4 a) { return __builtin_shufflevector(a, a, 2, 3); }

INLINE float v16_sum(v16 a)
{
	const v8 s8 = low8(a) + high8(a);
	const v4 s4 = low4(s8) + high4(s8);
	const v2 s2 = low2(s4) + high2(s4);

	return s2[0] + s2[1];
}

INLINE float v16_maxall(v16 a)
{
	const v8 m8 = low8(a) > high8(a) ? low8(a) : high8(a);
	const v4 m4 = low4(m8) > high4(m8) ? low4(m8) : high4(m8);
	const v2 m2 = low2(m4) > high2(m4) ? low2(m4) : high2(m4);

	return m2[0] > m2[1] ? m2[0] : m2[1];
}

INLINE void v16_sum4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_sum(a[i]);
}

INLINE void v16_max4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_maxall(a[i]);
}

INLINE i32 lane_numbers(void) { return (i32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

INLINE v16 v16_within_or(v16 a, int from, int lim, float x)
{
	return ((lane_numbers() >= from) & (lane_numbers() < lim)) ? a : v16_set1(x);
}

INLINE v16 v16_iota(void) { return __builtin_convertvector(lane_numbers(), v16); }

INLINE v16 v16_copysign(v16 a, v16 b) { return (v16)(((u32)a & 0x7fffffff) | ((u32)b & 0x80000000)); }

INLINE i32 within(v16 x, v16 from, v16 to) { return (x >= from) & (x <= to); }

/* The lanes within from .. to, as bits. */
INLINE uint32_t v16_within(v16 x, v16 from, v16 to)
{
	return __builtin_reduce_or((u32)within(x, from, to) & (u32)1 << (u32)lane_numbers());
}

/* a in the lanes where x is within from .. to, else 0. */
INLINE v16 v16_where(v16 a, v16 x, v16 from, v16 to) { return (v16)((i32)a & within(x, from, to)); }

INLINE v16 v16_exp2(v16 x)
{
	const v16 v = v16_max(v16_set1(QEXP2_MIN), x), t = v + QEXP_MAGIC, r = v - (t - QEXP_MAGIC);
	const u32 e = (u32)t - (bits_of_f32(QEXP_MAGIC) - 127);
	v16 p = v16_set1(QEXP2_C6);

	p = v16_fma(p, r, v16_set1(QEXP2_C5));
	p = v16_fma(p, r, v16_set1(QEXP2_C4));
	p = v16_fma(p, r, v16_set1(QEXP2_C3));
	p = v16_fma(p, r, v16_set1(QEXP2_C2));
	p = v16_fma(p, r, v16_set1(QEXP2_C1));
	p = v16_fma(p, r, v16_set1(1));
	p *= (v16)(e << 23);
	/* the lanes that are not below QEXP2_MIN, NaN among them */
	return (v16)((i32)p & ~(x < QEXP2_MIN));
}

#endif
