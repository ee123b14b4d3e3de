/*
 * gather_rvv.h - entries of a table by numbers: what the compiler's own vectors have no expression for. RVV_BITS is
 * what the set is compiled for.
 */
#ifndef QN_RISCV_GATHER_RVV_H
#define QN_RISCV_GATHER_RVV_H

#include "inline.h"
#include "riscv/types_rvv.h"

#if RVV_BITS == 256
#define RVV_64_BYTES "m2"
#define RVV_16_HALVES "m1"
#else
#define RVV_64_BYTES "m4"
#define RVV_16_HALVES "m2"
#endif

/* table[at], for numbers below 64. */
INLINE b64 b64_gather(b64 table, b64 at)
{
	b64 y;

	__asm__("vsetvli zero, %3, e8, " RVV_64_BYTES ", ta, ma\n\tvrgather.vv %0, %1, %2"
	        : "=&vr"(y)
	        : "vr"(table), "vr"(at), "r"(64L)
	        : "vl", "vtype");
	return y;
}

/* The same of 16 halves. */
INLINE u16 u16_gather(u16 table, u16 at)
{
	u16 y;

	__asm__("vsetivli zero, 16, e16, " RVV_16_HALVES ", ta, ma\n\tvrgather.vv %0, %1, %2"
	        : "=&vr"(y)
	        : "vr"(table), "vr"(at)
	        : "vl", "vtype");
	return y;
}

#endif
