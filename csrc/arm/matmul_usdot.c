/*
 * matmul_usdot.c - products of one token on CPUs with the int8 matrix extension, by usdot, which comes with
 * it: 8-bit weights are unsigned as they lie, and their offset is taken off once a sub-block.
 */
#define FLAGS_I8MM
#define FLAGS_REGISTERS
#include "flags.h"

#include "arm/set.h"

#include "arm/matmul_q.h"

#define MM(name) name##_usdot
#define MM_TOKENS 1
#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 1

INTS_DOT(ints_dot, vusdotq_s32)
INTS_DOT(ints_dot8, vusdotq_s32)

#include "tmpl/matmul_int.h"

void mm_init_usdot(struct kernels *k)
{
	mm_fill_usdot(k);
}

#include "flags_end.h"
