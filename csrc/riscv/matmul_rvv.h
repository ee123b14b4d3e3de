/*
 * matmul_rvv.h - products of quantized panels: what both files of sets include, which have defined RVV_BITS, MM(name)
 * and MM_TOKENS.
 */
#include "riscv/bytes_rvv.h"

#define MM_PAIR_TOKENS 0
#define MM_DOT8_OFFSET 0
#define MM_FOUR 64
/* By the bits: casts of vectors are instructions that QEMU 7.2 ends at. */
#define MM_WHOLE(x) ((int32_t)bits_of_f32((x) + SUM_UNIT) - SUM_BITS)

#include "tmpl/matmul_int.h"

#define INT8_CHAINS 12

/* Independent widening multiply-adds of whole registers of bytes: as many as fit beside two operands. */
static void MM(int8_rounds)(int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		__asm__ volatile("vsetvli zero, %0, e8, m1, ta, ma\n\t"
		                 "vwmacc.vv v8, v2, v3\n\tvwmacc.vv v10, v2, v3\n\tvwmacc.vv v12, v2, v3\n\t"
		                 "vwmacc.vv v14, v2, v3\n\tvwmacc.vv v16, v2, v3\n\tvwmacc.vv v18, v2, v3\n\t"
		                 "vwmacc.vv v20, v2, v3\n\tvwmacc.vv v22, v2, v3\n\tvwmacc.vv v24, v2, v3\n\t"
		                 "vwmacc.vv v26, v2, v3\n\tvwmacc.vv v28, v2, v3\n\tvwmacc.vv v30, v2, v3"
		                 :
		                 : "r"((long)(RVV_BITS / 8))
		                 : "vl", "vtype", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
		                   "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
		                   "v30", "v31");
}

static void MM(fill_all)(struct kernels *k)
{
	MM(mm_fill)(k);
	k->int8_rounds = MM(int8_rounds);
	k->int8_per_round = INT8_CHAINS * RVV_BITS / 8;
}
