/*
 * entries.h - keys that stand for several positions of a sequence, each in the block of the last of these; and spans of
 * positions.
 */
#ifndef QN_OPS_ENTRIES_H
#define QN_OPS_ENTRIES_H

#include "format/kv.h"
#include "run/plan.h"
#include "run/run.h"

/* Entries in a block, which may have one where others have none. */
static inline int64_t entries_per_block(int32_t every)
{
	return every < QN_KV_BLOCK ? QN_KV_BLOCK / every : 1;
}

/* How many a token at pos sees. */
static inline int64_t entries_seen(const struct qn_op *op, int64_t pos)
{
	return (pos + 1) / op->every;
}

/* Entry i of token t's sequence. */
static inline uint8_t *entry_at(const struct run *c, const struct qn_op *op, int64_t t, int64_t i)
{
	const struct qn_group *g = &c->batch->groups[op->group2];
	const int64_t pos = i * op->every + op->every - 1;
	const int64_t block = g->table[(int64_t)c->batch->seq[t] * g->cols + pos / QN_KV_BLOCK];

	return (uint8_t *)g->data + block * g->unit_bytes + op->kv_offset2 +
	       i % entries_per_block(op->every) * kv_entry_bytes(op->k_type, op->head_dim);
}

/* Spans of `each` positions that a token at pos chooses among: those before the last ones, all of which it sees. */
static inline int64_t spans_before(const struct qn_op *op, int64_t pos)
{
	const int64_t n = op->window ? pos / op->each + 1 - op->window / op->each : (pos + 1) / op->each;

	return n > 0 ? n : 0;
}

/* Choices that a token makes, side by side: of spans, one for all heads or as many as there are parts of them. */
static inline int choices_of(const struct qn_op *op)
{
	return op->each && op->n_seg ? op->n_seg : 1;
}

static inline int spans_ok(const struct qn_op *op)
{
	return op->each > 1 && op->window >= 0 && op->window % op->each == 0 && op->n_seg >= 0 && op->every == 0 &&
	       op->n_select > 0 && op->n_select <= INT32_MAX / op->each;
}

static inline int entries_ok(const struct qn_op *op)
{
	return op->every > 1 && (QN_KV_BLOCK % op->every == 0 || op->every % QN_KV_BLOCK == 0) && op->group2 >= 0 &&
	       op->kv_offset2 >= 0 && op->kv_offset2 % 64 == 0;
}

#endif
