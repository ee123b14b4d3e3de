/* matmul_rvv256.c - products of quantized panels with vectors of 256 bits and more. Flags: V, Zvl256b. */
#define FLAGS_RVV256
#include "flags.h"

#include "riscv/set.h"

#if RVV_COMPILED
#define RVV_BITS 256
#define MM(name) name##_rvv256
#define MM_TOKENS 4
#include "riscv/matmul_rvv.h"

void mm_init_rvv256(struct kernels *k)
{
	fill_all_rvv256(k);
}
#endif

#include "flags_end.h"
