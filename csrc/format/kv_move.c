/*
 * kv_move.c - keys and values that are kept already: moved to other positions, or kept in other types.
 *
 * An item is a head of a layer, all of whose positions one thread takes in their order: what it computes depends on
 * nothing else, and positions may move within a block.
 */
#include "format/kv.h"
#include "format/parts.h"
#include "math/sincos.h"
#include "run/pool.h"

static int layer_ok(const struct qn_kv *l)
{
	return l->offset >= 0 && l->offset % 64 == 0 && l->k_type >= 0 && l->k_type < QN_N_KV_TYPES && l->v_type >= 0 &&
	       l->v_type < QN_N_KV_TYPES && l->n_head_kv > 0 && l->head_dim > 0 && l->head_dim <= KV_HEAD_DIM_MAX &&
	       l->v_dim > 0 && l->v_dim <= KV_HEAD_DIM_MAX && l->rope >= QN_ROPE_NONE && l->rope <= QN_ROPE_NEOX &&
	       (l->rope == QN_ROPE_NONE || (l->freq && l->n_rot > 0 && l->n_rot % 2 == 0 && l->rope_at >= 0 &&
	                                    l->n_rot <= l->head_dim && l->rope_at <= l->head_dim - l->n_rot));
}

static int64_t head_bytes(const struct qn_kv *l)
{
	return kv_k_bytes(l->k_type, l->head_dim) + (l->v_in_k ? 0 : kv_v_bytes(l->v_type, l->v_dim));
}

/* The layer of item i, whose head becomes i. */
static int32_t layer_of(const struct qn_kv *layers, int64_t *i)
{
	int32_t l = 0;

	while (*i >= layers[l].n_head_kv)
		*i -= layers[l++].n_head_kv;
	return l;
}

static int64_t items(const struct qn_kv *layers, int32_t n)
{
	int64_t all = 0;

	for (int32_t l = 0; l < n; l++)
		all += layers[l].n_head_kv;
	return all;
}

static void put_key(const struct qn_kv *l, uint8_t *k, int p, const float *x)
{
	if (l->v_in_k)
		kv_put_kv(l->k_type, k, p, x, l->head_dim);
	else
		kv_put_k(l->k_type, k, p, x, l->head_dim);
}

struct shift {
	const struct qn_kv *layers;
	int32_t n_layers;
	const struct qn_group *group;
	int64_t at, end, by;
	const int32_t *to, *from;
};

/* The key that position p of k has, rotated by cs, into position p2 of k2. */
static void turn_key(const struct qn_kv *l, int h, uint8_t *k2, int p2, const uint8_t *k, int p, const float *cs)
{
	const float *mul = l->mul ? l->mul + (int64_t)h * l->head_dim : NULL;
	float x[KV_HEAD_DIM_MAX];

	kv_get_k(l->k_type, x, k, p, l->head_dim);
	for (int i = 0; mul && i < l->head_dim; i++)
		x[i] /= mul[i];
	qn_kernels.rope(x + l->rope_at, cs, l->n_rot / 2, l->rope == QN_ROPE_NEOX);
	for (int i = 0; mul && i < l->head_dim; i++)
		x[i] *= mul[i];
	put_key(l, k2, p2, x);
}

static void shift_head(const struct shift *s, const struct qn_kv *l, int h)
{
	const int64_t bytes = head_bytes(l), k_bytes = kv_k_bytes(l->k_type, l->head_dim);
	float cs[KV_HEAD_DIM_MAX];

	for (int i = 0; l->rope != QN_ROPE_NONE && i < l->n_rot / 2; i++) {
		double sine, cosine;

		qsincos((double)-s->by * l->freq[i], &sine, &cosine);
		cs[2 * i] = (float)cosine;
		cs[2 * i + 1] = (float)sine;
	}
	for (int64_t pos = s->at; pos < s->end; pos++) {
		const int32_t to = s->to[pos / QN_KV_BLOCK], from = s->from[(pos + s->by) / QN_KV_BLOCK];
		const int p2 = (int)(pos % QN_KV_BLOCK), p = (int)((pos + s->by) % QN_KV_BLOCK);
		const int there = to == from && p == p2;

		if (to < 0 || from < 0)
			continue;

		uint8_t *k2 = kv_head_at(s->group, to, l->offset, h, l->n_head_kv, bytes);
		const uint8_t *k = kv_head_at(s->group, from, l->offset, h, l->n_head_kv, bytes);

		if (l->rope != QN_ROPE_NONE)
			turn_key(l, h, k2, p2, k, p, cs);
		else if (!there)
			kv_copy_k(l->k_type, k2, p2, k, p, l->head_dim);
		if (!l->v_in_k && !there)
			kv_copy_v(l->v_type, k2 + k_bytes, p2, k + k_bytes, p, l->v_dim);
	}
}

static void shift_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct shift *s = arg;
	struct deal d = deal_begin(pool, ith, items(s->layers, s->n_layers));
	int64_t i;

	(void)nth;
	while ((i = deal_next(pool, 0, &d)) >= 0) {
		const struct qn_kv *l = s->layers + layer_of(s->layers, &i);

		shift_head(s, l, (int)i);
	}
}

/* Whether the layers fit units of the group, each place of it as many heads of every layer as another. */
static int layers_ok(const struct qn_group *g, const struct qn_kv *layers, int32_t n)
{
	const int places = g->places > 1 ? g->places : 1;

	for (int32_t l = 0; l < n; l++)
		if (!layer_ok(&layers[l]) || layers[l].n_head_kv % places || layers[l].offset % (64 * places) ||
		    layers[l].offset + layers[l].n_head_kv * head_bytes(&layers[l]) > g->unit_bytes * places)
			return 0;
	return 1;
}

int qn_kv_shift(struct qn_pool *pool, const struct qn_group *group, const int32_t *to, const int32_t *from,
                int64_t at, int64_t end, int64_t by, const struct qn_kv *layers, int32_t n_layers)
{
	struct shift s = {layers, n_layers, group, at, end, by, to, from};

	if (!layers_ok(group, layers, n_layers))
		return QN_EINVAL;
	if (at < 0 || by < 1)
		return QN_EINVAL;
	pool_run(pool, shift_job, &s);
	return QN_OK;
}

struct convert {
	const struct qn_kv_block *to, *from;
	int32_t n_layers;
};

/* K of a head of a layer of a block. */
static uint8_t *block_head(const struct qn_kv_block *b, int32_t layer, int h)
{
	const struct qn_kv *l = &b->layers[layer];

	return kv_head_at(&b->group, b->unit, l->offset, h, l->n_head_kv, head_bytes(l));
}

static void convert_head(const struct qn_kv *to, uint8_t *y, const struct qn_kv *from, const uint8_t *x)
{
	const int64_t y_v = kv_k_bytes(to->k_type, to->head_dim), x_v = kv_k_bytes(from->k_type, from->head_dim);
	float one[KV_HEAD_DIM_MAX];

	for (int p = 0; p < QN_KV_BLOCK; p++) {
		kv_get_k(from->k_type, one, x, p, from->head_dim);
		put_key(to, y, p, one);
		if (from->v_in_k)
			continue;
		kv_get_v(from->v_type, one, x + x_v, p, from->v_dim);
		kv_put_v(to->v_type, y + y_v, p, one, to->v_dim);
	}
}

static void convert_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct convert *c = arg;
	struct deal d = deal_begin(pool, ith, items(c->from->layers, c->n_layers));
	int64_t i;

	(void)nth;
	while ((i = deal_next(pool, 0, &d)) >= 0) {
		const int32_t l = layer_of(c->from->layers, &i);

		convert_head(c->to->layers + l, block_head(c->to, l, (int)i), c->from->layers + l,
		             block_head(c->from, l, (int)i));
	}
}

int qn_kv_convert(struct qn_pool *pool, const struct qn_kv_block *to, const struct qn_kv_block *from, int32_t n_layers)
{
	struct convert c = {to, from, n_layers};

	if (!layers_ok(&to->group, to->layers, n_layers) || !layers_ok(&from->group, from->layers, n_layers))
		return QN_EINVAL;
	for (int32_t l = 0; l < n_layers; l++) {
		const struct qn_kv *a = to->layers + l, *b = from->layers + l;

		if (a->n_head_kv != b->n_head_kv || a->head_dim != b->head_dim || a->v_dim != b->v_dim ||
		    a->v_in_k != b->v_in_k)
			return QN_EINVAL;
	}
	pool_run(pool, convert_job, &c);
	return QN_OK;
}
