/* float_rvv256.c - the float kernels with vectors of 256 bits and more. Flags: V, Zvl256b. */
#define FLAGS_RVV256
#define FLAGS_VECTORS
#include "flags.h"

#include "riscv/set.h"

#if RVV_COMPILED
#define RVV_BITS 256
#define VEC(name) name##_rvv256
#define MM_FLOAT_TOKENS 6
#define ATTN_VECS 2
#include "riscv/float_rvv.h"

void float_init_rvv256(struct kernels *k)
{
	fill_all_rvv256(k);
}
#endif

#include "flags_end.h"
