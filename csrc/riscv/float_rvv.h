/*
 * float_rvv.h - the float kernels, and attention: what both files of sets include, which have defined RVV_BITS,
 * VEC(name), MM_FLOAT_TOKENS and ATTN_VECS.
 */
#include "riscv/lanes_rvv.h"
#include "tmpl/sums.h"
#include "tmpl/elementwise.h"
#include "tmpl/derivatives.h"
#include "tmpl/kv.h"

#include "tmpl/matmul_float.h"
#include "riscv/twelve_rvv.h"
#include "tmpl/matmul_bf16.h"
#include "tmpl/product.h"

#define DELTA_PANELS 1
#include "tmpl/delta.h"

#define SCAN_PANELS 1
#include "tmpl/scan.h"

#include "tmpl/logits.h"
#include "tmpl/attn_float.h"

#include "riscv/ints_rvv.h"
#include "tmpl/attn_int.h"

static void VEC(fill_all)(struct kernels *k)
{
	VEC(vec_fill)(k);
	VEC(derivatives_fill)(k);
	VEC(kv_fill)(k);
	VEC(v16_fill)(k);
	VEC(bf16_fill)(k);
	VEC(product_fill)(k);
	VEC(delta_fill)(k);
	VEC(scan_fill)(k);
	VEC(logits_fill)(k);
	VEC(attn_fill)(k);
	VEC(attn_int_fill)(k);
}
