/* float_rvv.c - the float kernels with vectors of 128 bits and more. Flags: V. */
#define FLAGS_RVV
#define FLAGS_VECTORS
#include "flags.h"

#include "riscv/set.h"

#if RVV_COMPILED
#define RVV_BITS 128
#define VEC(name) name##_rvv
#define MM_FLOAT_TOKENS 2
#define ATTN_VECS 1
#include "riscv/float_rvv.h"

void float_init_rvv(struct kernels *k)
{
	fill_all_rvv(k);
}
#endif

#include "flags_end.h"
