/* cpu.c - what this RISC-V CPU and its OS support, and the choice of kernels. */
#include "kernels.h"
#include "platform/platform.h"
#include "quern.h"
#include "riscv/set.h"

uint32_t qn_cpu_isa(void)
{
	const int bits = RVV_COMPILED ? sys_riscv_vector_bits() : 0;

	return (bits >= 128 ? QN_RVV : 0) | (bits >= 256 ? QN_RVV256 : 0);
}

/* From the oldest set to the newest: the last assignment wins, an empty slot keeps the older one. */
void kernels_init_riscv(struct kernels *k, uint32_t isa)
{
#if RVV_COMPILED
	if (isa & QN_RVV) {
		float_init_rvv(k);
		mm_init_rvv(k);
	}
	if (isa & QN_RVV256) {
		float_init_rvv256(k);
		mm_init_rvv256(k);
	}
#else
	(void)k, (void)isa;
#endif
}
