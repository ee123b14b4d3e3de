/* norms.h - what norms and their reverse make of a row. */
#ifndef QN_OPS_NORMS_H
#define QN_OPS_NORMS_H

#include <float.h>
#include <math.h>

#include "kernels.h"
#include "quern_ops.h"

/* What a norm makes of x: (x - mean) * r. Where squares overflow r is NaN, not 0: nonsense must not look like text. */
struct norm {
	float mean, r;
};

static inline struct norm norm_of(const struct qn_norm *op, const float *x, int64_t n)
{
	if (op->kind == QN_NORM_NONE)
		return (struct norm){0, 1};

	const float mean = op->kind == QN_NORM_LAYER ? qn_kernels.sum(x, n) / (float)n : 0;
	const float sum = op->kind == QN_NORM_LAYER ? qn_kernels.sumsq_about(x, mean, n) : qn_kernels.sumsq(x, n);

	return (struct norm){mean, sum <= FLT_MAX ? 1 / sqrtf(sum / (float)n + op->eps) : NAN};
}

#endif
