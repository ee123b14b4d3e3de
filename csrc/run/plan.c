/*
 * plan.c - what a plan must be, checked once when it is built and never again. What a single operation must be
 * is said where it is computed (run/operation.h).
 */
#include "format/pack.h"
#include "ops/entries.h"
#include "ops/route.h"
#include "run/operation.h"
#include "run/plan.h"

int buf_ok(const struct plan *p, int i, int64_t width)
{
	return i >= 0 && i < p->n_bufs && p->bufs[i].data && p->bufs[i].width % 16 == 0 && p->bufs[i].width >= width;
}

int col_ok(const struct plan *p, int buf, int32_t col, int64_t n)
{
	return col >= 0 && col % 16 == 0 && buf_ok(p, buf, col + n);
}

int cols_ok(const struct plan *p, struct qn_cols at, int64_t n)
{
	return col_ok(p, at.buf, at.col, n);
}

int place_ok(const struct qn_place *at)
{
	return at->group >= 0 && at->offset >= 0 && at->offset % 64 == 0;
}

int mat_ok(const struct qn_mat *m)
{
	if (m->places > 1 && (m->layout == QN_ROWS || m->places > QN_PLACES_MAX || m->place_stride <= 0 ||
	                      m->place_stride % 64 != 0))
		return 0;
	return m->data && qn_type_ok(m->type, m->n_in) && m->n_out > 0 && m->n_mat > 0 && m->places >= 0 &&
	       (m->layout == QN_ROWS || m->layout == QN_X16 || mat_twelve(m));
}

int act_ok(const struct plan *p, const int32_t *act, const int32_t *from, int64_t n)
{
	int some = 0;

	for (int k = 0; k < QN_N_ACT; k++) {
		if (act[k] < 0)
			continue;
		if (!buf_ok(p, act[k], n) || (from && !buf_ok(p, from[k], n)))
			return 0;
		some = 1;
	}
	return some;
}

int rows_ok(const struct plan *p, const struct qn_op *op, int64_t n)
{
	if (op->rows == QN_ROWS_PAIR)
		return experts_ok(p, &op->routing);
	return op->rows != QN_ROWS_HEAD || (op->heads.n > 0 && op->heads.step >= n && op->heads.step % 16 == 0);
}

/* The buffer of the routing that op reads or writes, -1 for none. */
static int32_t routing_of(const struct qn_op *op)
{
	switch (operation_of(op->kind)->routing) {
	case ROUTING_PAIRS:
		return op->rows == QN_ROWS_PAIR ? op->routing.buf : -1;
	case ROUTING_READS:
	case ROUTING_WRITES:
		return op->routing.buf;
	default:
		return -1;
	}
}

static int same_experts(const struct qn_op *a, const struct qn_op *b)
{
	return a->routing.n_expert == b->routing.n_expert && a->routing.n_used == b->routing.n_used;
}

/*
 * Operation i reads a routing as those before it see it: with the same numbers of experts, and, where the plan has
 * written a routing by then, one that it has written. A plan without QN_OP_MOE_ROUTE reads what another one wrote.
 */
static int routing_ok(const struct plan *p, int32_t i)
{
	const int32_t buf = routing_of(&p->ops[i]);
	int written = 0;

	if (buf < 0 || operation_of(p->ops[i].kind)->routing == ROUTING_WRITES)
		return 1;
	for (int32_t k = i - 1; k >= 0; k--) {
		if (routing_of(&p->ops[k]) == buf)
			return same_experts(&p->ops[k], &p->ops[i]);
		written |= operation_of(p->ops[k].kind)->routing == ROUTING_WRITES;
	}
	return !written;
}

/* What a QN_OP_SELECT chose is what a QN_OP_ATTEND reads: as many, of the same spans, or entries that are these. */
static int alike(const struct qn_selection *chosen, const struct qn_selection *read)
{
	return chosen->n == read->n && choices_of(chosen) == choices_of(read) &&
	       (chosen->each ? chosen->each == read->each && chosen->near == read->near :
	                       chosen->entries.every == (read->each ? read->each : read->entries.every) &&
	                               (!read->each || !read->near));
}

/*
 * Chosen positions are read as they were written, as routings are: as many as a QN_OP_SELECT before chose. A plan
 * without one reads what another plan wrote.
 */
static int chosen_ok(const struct plan *p, int32_t i)
{
	const struct qn_attend *op = &p->ops[i].attend;
	int written = 0;

	if (p->ops[i].kind != QN_OP_ATTEND || !op->selection.n)
		return 1;
	for (int32_t k = i - 1; k >= 0; k--)
		if (p->ops[k].kind == QN_OP_SELECT) {
			if (p->ops[k].select.dst == op->chosen)
				return alike(&p->ops[k].select.selection, &op->selection);
			written = 1;
		}
	return !written;
}

/* Blocks that are chosen are read as they were written, as positions are, by as many heads. */
static int blocks_ok(const struct plan *p, int32_t i)
{
	const struct qn_blocks *read = &p->ops[i].attend.blocks;
	int written = 0;

	if (p->ops[i].kind != QN_OP_ATTEND || !read->words)
		return 1;
	for (int32_t k = i - 1; k >= 0; k--)
		if (p->ops[k].kind == QN_OP_BLOCKS) {
			const struct qn_attend *op = &p->ops[k].attend;

			if (op->blocks.mask == read->mask)
				return op->blocks.words == read->words && op->blocks.from == read->from &&
				       op->heads.n_head == p->ops[i].attend.heads.n_head;
			written = 1;
		}
	return !written;
}

int qn_plan_check(const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs, int32_t n_bufs)
{
	const struct plan p = {ops, n_ops, bufs, n_bufs};
	int64_t counters = 0;

	if (n_ops < 0)
		return QN_EINVAL;
	for (int32_t i = 0; i < n_ops; i++) {
		const struct operation *o = operation_of(ops[i].kind);

		if (!o || ops[i].rows < QN_ROWS_TOK || ops[i].rows > (o->by_head ? QN_ROWS_HEAD : QN_ROWS_PAIR) ||
		    !o->check(&p, &ops[i]))
			return QN_EINVAL;
		counters += o->counters;
		if (counters > POOL_COUNTERS || !routing_ok(&p, i) || !chosen_ok(&p, i) ||
		    !blocks_ok(&p, i))
			return QN_EINVAL;
	}
	return QN_OK;
}
