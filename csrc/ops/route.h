/* route.h - the routing of a batch through experts. */
#ifndef QN_OPS_ROUTE_H
#define QN_OPS_ROUTE_H

#include "run/plan.h"

/* Bounds of a mixture of experts; choosing takes time in their product. */
#define QN_EXPERTS_MAX 4096
#define QN_USED_MAX 256

/* Lies in a buffer, followed by the arrays it points to. */
struct route {
	int32_t *offset; /* [n_expert + 1] first pair of each expert */
	int32_t *pair;   /* [n_tok][n_used] pair of each token's choices, best first */
	int32_t *expert; /* [n_tok][n_used] */
	float *weight;   /* [n_tok][n_used] */
};

struct route route_of(const struct qn_buf *bufs, const struct qn_routing *r, int64_t n_tok);

/* What the n logits of a token are worth to op: weights of experts before some are chosen, or the logits themselves. */
void route_worths(const struct qn_moe_route *op, int n, float *y, const float *logits);

/* 1 where numbers of experts are within the bounds, and the buffer is there. */
int experts_ok(const struct plan *p, const struct qn_routing *r);

#endif
