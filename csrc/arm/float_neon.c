/* float_neon.c - the float kernels, four q registers per vector. Flags: none, NEON is the baseline. */
#define FLAGS_REGISTERS
#define FLAGS_VECTORS
#include "flags.h"

#include "arm/set.h"

#define VEC(name) name##_neon
#include "arm/lanes_neon.h"
#include "tmpl/sums.h"
#include "tmpl/elementwise.h"
#include "tmpl/derivatives.h"
#include "tmpl/kv.h"

/*
 * Two tokens: 16 sums and two vectors of weights are what 32 registers hold. More spill: by GCC
 * 12, F16 takes 8.6 instructions a column and token with 2 tokens, 9.3 with 4, 11.2 with 8.
 */
#define MM_FLOAT_TOKENS 2
#include "tmpl/matmul_float.h"
#include "arm/twelve_neon.h"
#include "tmpl/matmul_bf16.h"
#include "tmpl/product.h"

#define DELTA_PANELS 1
#include "tmpl/delta.h"

#define SCAN_PANELS 1
#include "tmpl/scan.h"

#include "tmpl/logits.h"

#define ATTN_VECS 1
#include "tmpl/attn_float.h"

#include "arm/ints_neon.h"

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	for (int i = 0; i < 4; i++) {
		const int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8(a.q[i]), vget_low_s8(b)));
		const int32x4_t hi = vpaddlq_s16(vmull_high_s8(a.q[i], b));

		sum.q[i] = vaddq_s32(sum.q[i], vpaddq_s32(lo, hi));
	}
	return sum;
}

#include "tmpl/attn_int.h"

void float_init_neon(struct kernels *k)
{
	vec_fill_neon(k);
	derivatives_fill_neon(k);
	kv_fill_neon(k);
	v16_fill_neon(k);
	bf16_fill_neon(k);
	product_fill_neon(k);
	delta_fill_neon(k);
	scan_fill_neon(k);
	logits_fill_neon(k);
	attn_fill_neon(k);
	attn_int_fill_neon(k);
}
