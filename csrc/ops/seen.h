/* seen.h - blocks of keys that blocks of queries see: see struct qn_blocks. */
#ifndef QN_OPS_SEEN_H
#define QN_OPS_SEEN_H

#include "run/plan.h"
#include "run/run.h"

/* Whether token t is in a block of queries that sees some blocks of keys. */
static inline int sees_some(const struct run *c, const struct qn_attend *op, int64_t t)
{
	const struct qn_batch *b = c->batch;

	return op->blocks.words && b->prompt && b->pos[t] < b->prompt[b->seq[t]] &&
	       b->pos[t] - b->pos[t] % QN_KV_BLOCK >= op->blocks.from;
}

/* Blocks of queries of the batch: that from token t on, or the next one; n_tok behind the last. */
static inline int64_t next_queries(const struct run *c, const struct qn_attend *op, int64_t t)
{
	while (t < c->batch->n_tok && !sees_some(c, op, t))
		t++;
	return t;
}

static inline int64_t count_queries(const struct run *c, const struct qn_attend *op)
{
	int64_t n = 0;

	for (int64_t t = 0; op->blocks.words && (t = next_queries(c, op, t)) < c->batch->n_tok; t += QN_KV_BLOCK)
		n++;
	return n;
}

/* The first token of block of queries number i. */
static inline int64_t nth_queries(const struct run *c, const struct qn_attend *op, int64_t i)
{
	int64_t t = next_queries(c, op, 0);

	for (; i > 0; i--)
		t = next_queries(c, op, t + QN_KV_BLOCK);
	return t;
}

/* What a head of the block of queries that token t begins sees. */
static inline uint32_t *mask_of(const struct run *c, const struct qn_attend *op, int64_t t, int head)
{
	return (uint32_t *)(void *)buf_row(c, op->blocks.mask, t) + (int64_t)head * op->blocks.words;
}

/* The first block from b on, before end, that a mask has; NULL: of all. */
static inline int64_t next_seen(const uint32_t *mask, int64_t b, int64_t end)
{
	while (mask && b < end && !(mask[b / 32] >> b % 32 & 1))
		b++;
	return b;
}

static inline int blocks_fit(const struct plan *p, const struct qn_attend *op)
{
	const struct qn_blocks *s = &op->blocks;
	const int64_t words = (int64_t)op->heads.n_head * s->words;

	if (s->words == 0)
		return 1;
	return s->words > 0 && s->words <= QN_BLOCKS_WORDS_MAX && s->from >= 0 && s->from % QN_KV_BLOCK == 0 &&
	       s->part > 0 && s->part <= 1 && buf_ok(p, s->mask, (words + QN_KV_BLOCK - 1) / QN_KV_BLOCK) &&
	       op->window == 0 && !op->bias && !op->relative.at && op->side == QN_SIDE_ANY &&
	       op->sight == QN_SIGHT_NONE && op->ahead == 0 && op->n_tier == 0 && op->selection.n == 0 &&
	       op->selection.entries.every == 0;
}

#endif
