/* set.h - the parts of the scalar set. */
#ifndef QN_SCALAR_SET_H
#define QN_SCALAR_SET_H

#include "kernels.h"

void mm_init_scalar(struct kernels *k);
void vec_init_scalar(struct kernels *k);
void attn_init_scalar(struct kernels *k);
void delta_init_scalar(struct kernels *k);
void scan_init_scalar(struct kernels *k);
void product_init_scalar(struct kernels *k);
void logits_init_scalar(struct kernels *k);

#endif
