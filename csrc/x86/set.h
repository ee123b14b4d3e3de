/* set.h - the parts of the x86 sets; each fills the slots it has. */
#ifndef QN_X86_SET_H
#define QN_X86_SET_H

#include "kernels.h"

void float_init_avx2(struct kernels *k);
void mm_init_avx2(struct kernels *k);
void mm_init_avxvnni(struct kernels *k);
void attn_init_avxvnni(struct kernels *k);
void float_init_avx512(struct kernels *k);
void mm_init_avx512(struct kernels *k);
void mm_init_avx512vnni(struct kernels *k);
void attn_init_avx512vnni(struct kernels *k);
void mm_init_avx512bf16(struct kernels *k);
void mm_init_amx(struct kernels *k);

#endif
