/* plan.h - a plan while it is checked: what the checks of operations are made of. All return 1 where all is well. */
#ifndef QN_RUN_PLAN_H
#define QN_RUN_PLAN_H

#include "quern.h"

struct plan {
	const struct qn_op *ops;
	int32_t n_ops;
	const struct qn_buf *bufs;
	int32_t n_bufs;
};

/* Buffer i is there and has at least `width` columns. */
int buf_ok(const struct plan *p, int i, int64_t width);

/* So it has, and column col begins a panel; columns col .. col + n are there. */
int col_ok(const struct plan *p, int buf, int32_t col, int64_t n);
int cols_ok(const struct plan *p, struct qn_cols at, int64_t n);

/* It may be in some group: whether it is in the batch's, the caller of qn_run() knows. */
int place_ok(const struct qn_place *at);

int mat_ok(const struct qn_mat *m);

/* Activations of n columns, of some kind at least; `from`, or NULL, says of each that is there what it comes from. */
int act_ok(const struct plan *p, const int32_t *act, const int32_t *from, int64_t n);

/* The rows are of tokens, of pairs with a routing, or of heads whose columns are n apart or more. */
int rows_ok(const struct plan *p, const struct qn_op *op, int64_t n);

#endif
