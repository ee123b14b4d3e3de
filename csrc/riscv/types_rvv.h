/*
 * types_rvv.h - the compiler's own vectors that the RISC-V sets are written with: 16 lanes, or 64 bytes. Each takes as
 * many registers as it needs: 64 bytes four of 128 bits, or two of 256.
 */
#ifndef QN_RISCV_TYPES_RVV_H
#define QN_RISCV_TYPES_RVV_H

#include <stdint.h>

typedef float v16 __attribute__((ext_vector_type(16)));
typedef int32_t i32 __attribute__((ext_vector_type(16)));
typedef uint32_t u32 __attribute__((ext_vector_type(16)));
typedef int16_t s16 __attribute__((ext_vector_type(16)));
typedef uint16_t u16 __attribute__((ext_vector_type(16)));
typedef uint8_t b16 __attribute__((ext_vector_type(16)));
typedef uint8_t b64 __attribute__((ext_vector_type(64)));

#endif
