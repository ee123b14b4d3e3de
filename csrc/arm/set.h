/* set.h - the parts of the Arm sets; each fills the slots it has. */
#ifndef QN_ARM_SET_H
#define QN_ARM_SET_H

#include "kernels.h"

void float_init_neon(struct kernels *k);
void mm_init_neon(struct kernels *k);
void mm_init_dotprod(struct kernels *k);
void attn_init_dotprod(struct kernels *k);
void mm_init_usdot(struct kernels *k);
void mm_init_i8mm(struct kernels *k);

#endif
