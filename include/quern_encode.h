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
 * Returns QN_EINVAL, QN_ENOTFINITE where a weight or what it weighs is NaN, infinite or beyond what scales hold, or
 * QN_ENOMEM: the trellis types, of which llama.cpp has no encoder, take memory.
 */
int qn_encode(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
              const float *importance);

/*
 * The same with scales, minimums and codes searched together, for the least sum of squared errors. Each is times its
 * importance and, where that is given and codes are at equal steps, the root of the square and the block's mean square.
 * In no block, of the trellis types in no row, is that more than what qn_encode() leaves there. Types of one or two
 * bits with one scale, MXFP4 and NVFP4 are not searched: they get qn_encode()'s bits. scratch has the size of dst.
 */
int qn_encode_search(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                     const float *importance, void *scratch);

/* 1 where qn_encode_search() has something to search. */
int qn_encode_searched(int32_t type);

/* 1 where qn_encode_corrected() takes the type: those that are searched, but the trellis types. */
int qn_encode_correctable(int32_t type);

/*
 * Makes of h[n][n], the sums of x[i] x[j] over the inputs x of a matrix, of which the upper triangle is read, the
 * factor that qn_encode_corrected() takes: h = A' D A, A lower triangular with ones on its diagonal, in whose place D
 * is. damp times the mean of h's diagonal is added to that. Where all of h is 0, A and D are ones. work is [n][n].
 * Returns QN_EINVAL, or QN_ENOTFINITE where h, so damped, is not positive definite.
 */
int qn_factor(uint32_t isa, float *h, int64_t n, double damp, double *work);

/*
 * As qn_encode() of a type that is searched, with each error made good by the columns of the row that follow it, from
 * the next eight on where codes are entries of a codebook. With e the errors of a row, the loss e' h e is the sum over
 * columns i of D[i] (e[i] + sum over j < i of A[i][j] e[j])^2, so column i is rounded for what the second term leaves,
 * and an error of it counts D[i] (GPTQ, or LDLQ). Scales are searched when a block's turn comes. factor has those of
 * each span columns of n_in, [span][span], the last one narrower: errors stay within a span. span is a multiple of the
 * type's block. scratch: QN_CORRECTED_SCRATCH(span) floats, 64-byte aligned.
 */
#define QN_CORRECTED_SCRATCH(span) (2 * 16 * (span) + 257 * 256)
int qn_encode_corrected(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                        const float *factor, int64_t span, float *scratch);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_ENCODE_H */
