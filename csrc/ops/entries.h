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
static inline int64_t entries_seen(const struct qn_entries *e, int64_t pos)
{
	return (pos + 1) / e->every;
}

/* Entry i, of keys of head_dim channels, of token t's sequence. */
static inline uint8_t *entry_at(const struct run *c, const struct qn_entries *e, int32_t k_type, int32_t head_dim,
                                int64_t t, int64_t i)
{
	return kv_part(c, &e->at, t, i * e->every + e->every - 1) +
	       i % entries_per_block(e->every) * kv_entry_bytes(k_type, head_dim);
}

/* Spans of `each` positions that a token at pos chooses among: those before the last ones, all of which it sees. */
static inline int64_t spans_before(const struct qn_selection *s, int64_t pos)
{
	const int64_t n = s->near ? pos / s->each + 1 - s->near / s->each : (pos + 1) / s->each;

	return n > 0 ? n : 0;
}

/* Choices that a token makes, side by side: of spans, one for all heads or as many as there are parts of them. */
static inline int choices_of(const struct qn_selection *s)
{
	return s->each && s->choices ? s->choices : 1;
}

/* What a token at pos chooses among, or sees all of: positions, entries or spans. */
static inline int64_t choosable(const struct qn_selection *s, int64_t pos)
{
	return s->entries.every ? entries_seen(&s->entries, pos) : s->each ? spans_before(s, pos) : pos + 1;
}

static inline int spans_ok(const struct qn_selection *s)
{
	return s->each > 1 && s->near >= 0 && s->near % s->each == 0 && s->choices >= 0 && s->entries.every == 0 &&
	       s->n > 0 && s->n <= INT32_MAX / s->each;
}

static inline int entries_ok(const struct qn_entries *e)
{
	return e->every > 1 && (QN_KV_BLOCK % e->every == 0 || e->every % QN_KV_BLOCK == 0) && place_ok(&e->at);
}

#endif
