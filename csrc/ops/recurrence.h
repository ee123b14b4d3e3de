/*
 * recurrence.h - what the operations share whose state is a matrix for each head, in panels of 16 of its v_dim columns.
 */
#ifndef QN_OPS_RECURRENCE_H
#define QN_OPS_RECURRENCE_H

#include <string.h>

#include "run/plan.h"
#include "run/run.h"

/* Computes panels at .. at + n of head h over tokens t0 .. t1, which are all of a sequence's in the batch. */
typedef void recur_fn(const struct run *c, const struct qn_op *o, int64_t h, int64_t at, int n, int64_t t0,
                      int64_t t1);

/* Where the heads end that are computed. */
static inline int32_t recur_to(const struct qn_recurrence *r)
{
	return r->to ? r->to : r->n_head;
}

/* Threads share heads and, of a head, items of `each` panels: no two write the same part of a state. */
static inline void recur_run(struct run *c, const struct qn_op *o, const struct qn_recurrence *r, int each,
                             recur_fn *sequence)
{
	const struct qn_batch *b = c->batch;
	const int64_t panels = r->v_dim / QN_PANEL, parts = (panels + each - 1) / each;
	struct deal d = deal_begin(c->pool, c->ith, (recur_to(r) - r->from) * parts);
	int64_t item;

	while ((item = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t at = item % parts * each, left = panels - at;

		for (int64_t t0 = 0, t1; t0 < b->n_tok; t0 = t1) {
			t1 = batch_run(b, t0);
			sequence(c, o, r->from + item / parts, at, (int)(left < each ? left : each), t0, t1);
		}
	}
}

/*
 * Where panels at .. at + n of head h are after the batch, and in *before where they are read: there too, if they
 * begin as zeros.
 */
static inline float *recur_state(const struct run *c, const struct qn_recurrence *r, int64_t h, int64_t at, int n,
                                 int64_t t0, const float **before)
{
	const int64_t panel = (int64_t)r->head_dim * QN_PANEL;
	const int64_t offset = ((h - r->from) * (r->v_dim / QN_PANEL) + at) * panel;
	const float *was = batch_state(c->batch, &r->state, t0, 0);
	float *after = batch_state(c->batch, &r->state, t0, 1) + offset;

	*before = was ? was + offset : after;
	if (!was)
		memset(after, 0, sizeof *after * (size_t)(n * panel));
	return after;
}

/*
 * The state is read and written once a pass, however many tokens there are; each token takes `times` multiply-adds
 * for each of its numbers.
 */
static inline struct qn_ticks_op recur_moves(const struct run *c, const struct qn_recurrence *r, int times)
{
	const int64_t state = (int64_t)(recur_to(r) - r->from) * r->head_dim * r->v_dim;
	int64_t runs = 0;

	for (int64_t t = 0; t < c->batch->n_tok; t = batch_run(c->batch, t))
		runs++;
	return (struct qn_ticks_op){2 * runs * state * (int64_t)sizeof(float), times * c->batch->n_tok * state};
}

static inline int recur_ok(const struct qn_recurrence *r)
{
	return r->from >= 0 && r->from < recur_to(r) && recur_to(r) <= r->n_head && r->head_dim > 0 && r->v_dim > 0 &&
	       r->v_dim % QN_PANEL == 0 && place_ok(&r->state);
}

/* Heads share key heads evenly. */
static inline int recur_keys_ok(const struct qn_recurrence *r)
{
	return r->n_head_kv > 0 && r->n_head % r->n_head_kv == 0;
}

#endif
