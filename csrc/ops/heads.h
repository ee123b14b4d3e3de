/* heads.h - what the operations of attention share: how blocks keep the keys and values of a layer. */
#ifndef QN_OPS_HEADS_H
#define QN_OPS_HEADS_H

#include "format/kv.h"
#include "format/parts.h"
#include "math/log.h"
#include "run/plan.h"
#include "run/run.h"

/* How the group of the heads keeps blocks. */
static inline struct qn_tier own_tier(const struct qn_heads *h)
{
	return (struct qn_tier){h->kv, h->k_type, h->v_type};
}

/* Bytes of a kv head in a block of a tier. */
static inline int64_t head_bytes(const struct qn_heads *h, const struct qn_tier *as)
{
	return kv_k_bytes(as->k_type, h->head_dim) + (h->v_in_k ? 0 : kv_v_bytes(as->v_type, h->v_dim));
}

/* K of kv head i in the KV block that holds position pos of token t's sequence, in the heads' own group. */
static inline uint8_t *kv_head(const struct run *c, const struct qn_heads *h, int64_t t, int64_t pos, int i)
{
	const struct qn_tier own = own_tier(h);
	const struct qn_group *g = &c->batch->groups[h->kv.group];
	const int64_t block = g->table[(int64_t)c->batch->seq[t] * g->cols + pos / QN_KV_BLOCK];

	return kv_head_at(g, block, h->kv.offset, i, h->n_head_kv, head_bytes(h, &own));
}

/* Among how many places kv heads are dealt out: as many as their group is divided among and the pool has, else one. */
static inline int head_places(const struct run *c, const struct qn_heads *h)
{
	const struct qn_group *g = &c->batch->groups[h->kv.group];

	return g->places > 1 && g->places == pool_places(c->pool) ? g->places : 1;
}

/* n items in each of these places, dealt out. */
static inline struct deal deal_each(const struct run *c, int places, int64_t n, int64_t each[QN_PLACES_MAX])
{
	if (places == 1)
		return deal_begin(c->pool, c->ith, n);
	for (int k = 0; k < places; k++)
		each[k] = n;
	return deal_placed(c->pool, c->ith, each);
}

/* By what scores grow with the position beyond temp_log. */
static inline float growth(int32_t temp_log, int64_t pos)
{
	return temp_log && pos > temp_log ? (float)(qln((double)pos) / qln((double)temp_log)) : 1;
}

/* What queries at a position are scaled by. */
static inline float qkv_scale(const struct qn_qkv *op, int64_t pos)
{
	if (op->temp == 0)
		return op->scale * growth(op->temp_log, pos);
	return op->scale * (float)(1 + (double)op->temp * qln((double)((pos + op->temp_offset) / op->temp_span + 1)));
}

/* What the n channels of kv head h are multiplied by; NULL for ones. */
static inline const float *channels(const float *mul, int h, int n)
{
	return mul ? mul + (int64_t)h * n : NULL;
}

/* Channels that Q4 transforms together. */
static inline int transformed(int n)
{
	return n & -n;
}

static inline int tier_ok(const struct qn_heads *h, const struct qn_tier *as)
{
	if (!place_ok(&as->kv) || as->k_type < 0 || as->k_type >= QN_N_KV_TYPES || as->v_type < 0 ||
	    as->v_type >= QN_N_KV_TYPES)
		return 0;
	/* values are channels of keys as these are kept, of whole transforms */
	return !h->v_in_k || (h->v_dim <= h->head_dim && h->v_dim % 16 == 0 &&
	                      (as->k_type != QN_KV_Q4 || h->v_dim % transformed(h->head_dim) == 0));
}

static inline int heads_ok(const struct qn_heads *h)
{
	const struct qn_tier own = own_tier(h);

	return h->head_dim > 0 && h->head_dim <= KV_HEAD_DIM_MAX && h->v_dim > 0 && h->v_dim <= KV_HEAD_DIM_MAX &&
	       h->n_head_kv > 0 && h->n_head >= h->n_head_kv && h->n_head % h->n_head_kv == 0 && tier_ok(h, &own);
}

/* Of heads of head_dim channels, by a table that is there. */
static inline int rotation_ok(const struct plan *p, const struct qn_rotation *r, int32_t head_dim)
{
	if (r->kind == QN_ROPE_NONE)
		return 1;
	return (r->kind == QN_ROPE_NORM || r->kind == QN_ROPE_NEOX) && r->n % 2 == 0 && r->n > 0 && r->n <= head_dim &&
	       r->at >= 0 && r->at <= head_dim - r->n && buf_ok(p, r->table, r->n);
}

/* Rotates one head of token t in place. */
static inline void rotate(const struct run *c, const struct qn_rotation *r, float *x, int64_t t)
{
	if (r->kind != QN_ROPE_NONE)
		qn_kernels.rope(x + r->at, buf_row(c, r->table, t), r->n / 2, r->kind == QN_ROPE_NEOX);
}

/* What is added to the scores of 64 keys, of which the first is i positions after the head's own. */
static inline const float *bias_at(const struct qn_attend *op, int head, int64_t i)
{
	const int64_t span = op->span, edge = QN_KV_BLOCK - 1;

	i = i < -span - edge ? -span - edge : i > span ? span : i;
	return op->bias + head * 2 * (span + QN_KV_BLOCK) + span + edge + i;
}

#endif
