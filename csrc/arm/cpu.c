/* cpu.c - what this Arm CPU and its OS support, and the choice of kernels. */
#include "kernels.h"
#include "platform/platform.h"
#include "quern.h"
#include "arm/set.h"

uint32_t qn_cpu_isa(void)
{
	return sys_arm_isa();
}

/* From the oldest set to the newest: the last assignment wins, an empty slot keeps the older one. */
void kernels_init_arm(struct kernels *k, uint32_t isa)
{
	if (isa & QN_NEON) {
		float_init_neon(k);
		mm_init_neon(k);
	}
	if (isa & QN_DOTPROD) {
		mm_init_dotprod(k);
		attn_init_dotprod(k);
	}
	if (isa & QN_I8MM) {
		mm_init_usdot(k);
		mm_init_i8mm(k);
	}
}
