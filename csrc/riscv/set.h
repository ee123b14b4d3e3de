/* set.h - the parts of the RISC-V sets; each fills the slots it has. */
#ifndef QN_RISCV_SET_H
#define QN_RISCV_SET_H

#include "kernels.h"

/*
 * Kernels are written with the compiler's own vectors of 64 bytes, which Clang makes vector instructions of, in groups
 * of as many registers as that takes. Clang 19 takes none of them in assembly; 20 and 21 were not tried. GCC 12 makes
 * scalars of them; later ones were not tried. There all is scalar.
 */
#if defined(__clang__) && __clang_major__ >= 22
#define RVV_COMPILED 1
#else
#define RVV_COMPILED 0
#endif

void float_init_rvv(struct kernels *k);
void mm_init_rvv(struct kernels *k);
void float_init_rvv256(struct kernels *k);
void mm_init_rvv256(struct kernels *k);

#endif
