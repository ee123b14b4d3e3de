/*
 * quads_rvv.h - words of four bytes of 16 rows, times four bytes for all rows. The extension adds up nothing within a
 * lane: so the four bytes of each row lie apart, in 16 bits, and meet numbers of scalar registers. Two products fit 16
 * bits, and are added to 32 together.
 */
#ifndef QN_RISCV_QUADS_RVV_H
#define QN_RISCV_QUADS_RVV_H

#include <string.h>

#include "inline.h"
#include "riscv/types_rvv.h"

typedef struct {
	s16 of[4];
} quads;

typedef struct {
	int8_t of[4];
} quad_acts;

/* Byte by byte: compilers load four at once without their signs, and then extend each. */
INLINE quad_acts quad_acts_load(const void *p)
{
	const int8_t *b = p;

	return (quad_acts){{b[0], b[1], b[2], b[3]}};
}

/* Bytes without a sign. */
INLINE quads quads_unsigned(u32 a)
{
	const u16 lo = __builtin_convertvector(a, u16), hi = __builtin_convertvector(a >> 16, u16);

	return (quads){{(s16)(lo & 0xff), (s16)(lo >> 8), (s16)(hi & 0xff), (s16)(hi >> 8)}};
}

INLINE quads quads_signed(u32 a)
{
	const u16 lo = __builtin_convertvector(a, u16), hi = __builtin_convertvector(a >> 16, u16);

	return (quads){{(s16)(lo << 8) >> 8, (s16)lo >> 8, (s16)(hi << 8) >> 8, (s16)hi >> 8}};
}

/* Products stay in the order of the source: left alone, Clang takes tokens one by one and keeps words in memory. */
#define IN_ORDER(sum) __asm__ volatile("" : "+vr"(sum))

/* sum + a . x; the magnitudes of a are at most 128, those of x at most 127. */
INLINE i32 quads_dot(i32 sum, quads a, quad_acts x)
{
	sum += __builtin_convertvector(a.of[0] * (int16_t)x.of[0] + a.of[1] * (int16_t)x.of[1], i32);
	IN_ORDER(sum);
	sum += __builtin_convertvector(a.of[2] * (int16_t)x.of[2] + a.of[3] * (int16_t)x.of[3], i32);
	IN_ORDER(sum);
	return sum;
}

/* The same where those of a are at most 64: all four products fit 16 bits together. */
INLINE i32 quads_dot_small(i32 sum, quads a, quad_acts x)
{
	s16 four = a.of[0] * (int16_t)x.of[0] + a.of[1] * (int16_t)x.of[1];

	four += a.of[2] * (int16_t)x.of[2] + a.of[3] * (int16_t)x.of[3];
	sum += __builtin_convertvector(four, i32);
	IN_ORDER(sum);
	return sum;
}

#endif
