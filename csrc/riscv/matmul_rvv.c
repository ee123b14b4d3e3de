/* matmul_rvv.c - products of quantized panels with vectors of 128 bits and more. Flags: V. */
#define FLAGS_RVV
#include "flags.h"

#include "riscv/set.h"

#if RVV_COMPILED
#define RVV_BITS 128
#define MM(name) name##_rvv
#define MM_TOKENS 2 /* a token's sums and products take a quarter of the registers */
#include "riscv/matmul_rvv.h"

void mm_init_rvv(struct kernels *k)
{
	fill_all_rvv(k);
}
#endif

#include "flags_end.h"
