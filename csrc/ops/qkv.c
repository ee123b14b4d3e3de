/* qkv.c - queries, and keys and values into KV blocks. */
#include <math.h>

#include "ops/heads.h"
#include "run/operation.h"

size_t qn_kv_bytes(int32_t k_type, int32_t v_type, int32_t n_head_kv, int32_t head_dim, int32_t v_dim)
{
	const struct qn_heads h = {
		.k_type = k_type, .v_type = v_type, .head_dim = head_dim, .v_dim = v_dim, .v_in_k = v_dim == 0,
	};
	const struct qn_tier own = own_tier(&h);

	if (k_type < 0 || k_type >= QN_N_KV_TYPES || v_type < 0 || v_type >= QN_N_KV_TYPES)
		return 0;
	return (size_t)(head_bytes(&h, &own) * n_head_kv);
}

/* Normalises and rotates one head in place. */
static void norm_rope(const struct run *c, const struct qn_qkv *op, float *x, const float *norm, int64_t t)
{
	const int64_t n = op->heads.head_dim;

	if (op->rope_first)
		rotate(c, &op->rope, x, t);
	if (norm)
		qn_kernels.scale_rows(x, x, 1 / sqrtf(qn_kernels.sumsq(x, n) / (float)n + op->eps), norm, n);
	if (!op->rope_first)
		rotate(c, &op->rope, x, t);
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_qkv *op = &o->qkv;

	return heads_ok(&op->heads) && col_ok(p, op->src, op->col[0], (int64_t)op->heads.n_head * op->heads.head_dim) &&
	       (op->q_only ||
	        (col_ok(p, op->src, op->col[1], (int64_t)op->heads.n_head_kv * op->heads.head_dim) &&
	         (op->heads.v_in_k ||
	          col_ok(p, op->src, op->col[2], (int64_t)op->heads.n_head_kv * op->heads.v_dim)))) &&
	       (op->temp == 0 || (op->temp > 0 && op->temp_span > 0 && op->temp_offset >= 0)) &&
	       (op->temp_log == 0 || (op->temp_log > 1 && op->temp == 0)) && /* there is one growth, not two */
	       rotation_ok(p, &op->rope, op->heads.head_dim);
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_qkv *op = &o->qkv;
	/* An item is a kv head of a token, with the query heads that share it. Places of a group have as many each. */
	const int places = op->q_only ? 1 : head_places(c, &op->heads), heads = op->heads.n_head_kv / places;
	const int64_t n = (int64_t)c->batch->n_tok * heads;
	const int group = op->heads.n_head / op->heads.n_head_kv;
	int64_t each[QN_PLACES_MAX], i;
	struct deal deal = deal_each(c, places, n, each);

	while ((i = deal_next(c->pool, c->step, &deal)) >= 0) {
		const int64_t t = i % n / heads, pos = c->batch->pos[t];
		const int h = (int)(i / n * heads + i % n % heads), p = (int)(pos % QN_KV_BLOCK);
		float *row = buf_row(c, op->src, t);
		float *q = row + op->col[0] + (int64_t)h * group * op->heads.head_dim;
		float *k = row + op->col[1] + (int64_t)h * op->heads.head_dim;
		const float scale = qkv_scale(op, pos);

		for (int g = 0; g < group; g++) {
			float *x = q + g * op->heads.head_dim;

			norm_rope(c, op, x, op->q_norm, t);
			qn_kernels.scale_rows(x, x, scale, channels(op->q_mul, h, op->heads.head_dim),
			                      op->heads.head_dim);
		}
		if (op->q_only)
			continue;
		norm_rope(c, op, k, op->k_norm, t);
		if (op->k_mul)
			qn_kernels.scale_rows(k, k, 1, channels(op->k_mul, h, op->heads.head_dim), op->heads.head_dim);

		uint8_t *kv = kv_head(c, &op->heads, t, pos, h);

		if (op->heads.v_in_k) {
			kv_put_kv(op->heads.k_type, kv, p, k, op->heads.head_dim);
			continue;
		}

		float *v = row + op->col[2] + (int64_t)h * op->heads.v_dim;

		if (op->v_mul)
			qn_kernels.scale_rows(v, v, 1, channels(op->v_mul, h, op->heads.v_dim), op->heads.v_dim);
		kv_put_k(op->heads.k_type, kv, p, k, op->heads.head_dim);
		kv_put_v(op->heads.v_type, kv + kv_k_bytes(op->heads.k_type, op->heads.head_dim), p, v,
		         op->heads.v_dim);
	}
}

const struct operation op_qkv = {.check = check, .counters = 1, .run = run};
