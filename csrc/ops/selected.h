/*
 * selected.h - keys that a token sees one by one, of positions out of many blocks or of entries: which they are, and
 * blocks of them.
 */
#ifndef QN_OPS_SELECTED_H
#define QN_OPS_SELECTED_H

#include "ops/entries.h"
#include "ops/heads.h"

/* Positions of spans that a token may see. */
#define SELECTED_MAX (1 << 24)

/* 1 where tokens have keys of their own, so that none shares a tile with another. */
static inline int selects(const struct qn_attend *op)
{
	return op->selection.n || op->selection.entries.every;
}

/* The positions, entries or spans of positions that token t chose, NULL where it sees all. */
static inline const int32_t *chosen(const struct run *c, const struct qn_attend *op, int64_t t)
{
	if (!op->selection.n || choosable(&op->selection, c->batch->pos[t]) <= op->selection.n)
		return NULL;
	return (const int32_t *)buf_row(c, op->chosen, t);
}

/* Entries that token t sees. */
static inline int64_t entries_of(const struct run *c, const struct qn_attend *op, int64_t t)
{
	return chosen(c, op, t) ? op->selection.n : entries_seen(&op->selection.entries, c->batch->pos[t]);
}

/* Keys that token t sees one by one: entries and then positions. 0: it sees blocks. */
static inline int64_t selected(const struct run *c, const struct qn_attend *op, int64_t t)
{
	const struct qn_selection *s = &op->selection;
	const int64_t n = (int64_t)c->batch->pos[t] + 1;

	if (s->entries.every)
		return entries_of(c, op, t) + (n < op->window ? n : op->window);
	if (!chosen(c, op, t))
		return 0;
	return s->each ? (s->n - spans_before(s, n - 1)) * s->each + n : s->n;
}

/* Block b of the keys of kv head h that token t sees one by one, to k; returns how many there are from it on. */
static inline int64_t selected_block(const struct run *c, const struct qn_attend *op, int64_t t, int h, int64_t b,
                                     uint8_t *k)
{
	const struct qn_heads *heads = &op->heads;
	const struct qn_selection *s = &op->selection;
	const int32_t *all = chosen(c, op, t), *some = all && choices_of(s) > 1 ? all + h * s->n : all;
	const int64_t kept = s->entries.every ? entries_of(c, op, t) : 0, n = selected(c, op, t);
	const int64_t behind = (int64_t)c->batch->pos[t] + 1 - n; /* position of what would be key 0 */
	const int64_t k_bytes = kv_k_bytes(heads->k_type, heads->head_dim);

	for (int64_t i = b * QN_KV_BLOCK; i < n && i < (b + 1) * QN_KV_BLOCK; i++) {
		const int p = (int)(i % QN_KV_BLOCK);

		if (i < kept) {
			kv_lay_k(heads->k_type, k, p,
			         entry_at(c, &s->entries, heads->k_type, heads->head_dim, t, some ? some[i] : i),
			         heads->head_dim);
		} else {
			const int64_t of = s->each ? i / s->each : i;
			const int64_t pos = s->entries.every || of >= s->n ? behind + i :
					    s->each ? (int64_t)some[of] * s->each + i % s->each : some[i];
			const uint8_t *kv = kv_head(c, heads, t, pos, h);

			kv_copy_k(heads->k_type, k, p, kv, pos % QN_KV_BLOCK, heads->head_dim);
			if (!heads->v_in_k)
				kv_copy_v(heads->v_type, k + k_bytes, p, kv + k_bytes, pos % QN_KV_BLOCK,
				          heads->v_dim);
		}
	}
	return n - b * QN_KV_BLOCK;
}

static inline int selection_ok(const struct plan *p, const struct qn_attend *op)
{
	const struct qn_selection *s = &op->selection;
	const int every = s->entries.every;

	if (s->n == 0 && every == 0)
		return s->each == 0;
	if (s->each != 0 && (!spans_ok(s) || s->each > SELECTED_MAX / s->n ||
	                     (s->choices != 0 && s->choices != op->heads.n_head_kv)))
		return 0;
	return s->n >= 0 && op->ahead == 0 && !op->bias && !op->chunked &&
	       (s->each > 0 || (op->heads.v_in_k && op->heads.n_head_kv == 1)) &&
	       (every ? entries_ok(&s->entries) && op->window > 0 && op->side == QN_SIDE_ANY : op->window == 0) &&
	       (s->n == 0 || buf_ok(p, op->chosen, (int64_t)choices_of(s) * s->n));
}

#endif
