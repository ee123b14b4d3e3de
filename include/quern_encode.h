/*
 * quern_encode.h - floats to rows of quantized weights: the other direction of qn_dequantize(). Beside quern.h, since a
 * forward pass has no use for it.
 *
 * The bits are those that llama.cpp's reference encoders give, whatever the instruction set; docs/quantize.md has what
 * each type searches.
 */
#ifndef QUERN_ENCODE_H
#define QUERN_ENCODE_H

#include "quern_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 where qn_encode() writes rows of n_in elements of this type. */
int qn_encode_ok(int32_t type, int64_t n_in);

/* 1 where the codes of a type are too few to choose among without importance: IQ1_*, IQ2_XXS and IQ2_XS. */
int qn_encode_needs_importance(int32_t type);

/*
 * Writes n_rows rows of n_in floats as rows of a type. importance[n_in] says how much the error of each column counts,
 * at least 0, or is NULL where all count alike; isa is qn_cpu_isa() or less of it. Safe to call from several threads.
 * Returns QN_EINVAL, or QN_ENOTFINITE where a weight or what it weighs is NaN, infinite or beyond what scales hold.
 */
int qn_encode(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
              const float *importance);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_ENCODE_H */
