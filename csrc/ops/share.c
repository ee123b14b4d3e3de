/*
 * share.c - what each rank has computed of the columns of a row, put where all have it.
 *
 * Pieces lie in the stage one after the other, a rank's parts together: of rows of floats [row][columns], of
 * activations [block][row], which are in one piece in their buffers as well. Nothing is added up, so that the bits are
 * those of one process.
 */
#include <string.h>

#include "run/operation.h"

/* Bytes below which the first thread does it all: two barriers would take longer. */
enum { ALONE_BYTES = 64 << 10 };

/* Of each row, bytes that rank r has of a part. */
static int64_t row_bytes(const struct qn_share_part *p, int32_t r)
{
	const int64_t n = p->cut[r + 1] - p->cut[r];

	return n * (p->act < 0 ? (int64_t)sizeof(float) : act_bytes((enum qn_act)p->act));
}

static int part_ok(const struct plan *p, const struct qn_share_part *part, int32_t n_rank, int32_t rank)
{
	const int64_t unit = part->act < 0 ? 1 : QN_ACT_BLOCK, align = part->act < 0 ? QN_PANEL : 1;
	const int32_t *cut = part->cut;

	if (!cut || part->act < -1 || part->act >= QN_N_ACT || cut[0] < 0 || part->own < 0 || part->own % align)
		return 0;
	for (int32_t r = 0; r < n_rank; r++)
		if (cut[r] % align || cut[r + 1] < cut[r])
			return 0;
	return buf_ok(p, part->dst, cut[n_rank] * unit) &&
	       buf_ok(p, part->dst, ((int64_t)part->own + cut[rank + 1] - cut[rank]) * unit);
}

static int share_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_share *op = &o->share;
	int64_t need = 0;

	if (!op->ranks || op->n_part < 1 || op->n_part > QN_SHARE_PARTS || op->to < -1 ||
	    op->to >= qn_ranks_count(op->ranks) || !rows_ok(p, o, 0))
		return 0;
	for (int i = 0; i < op->n_part; i++) {
		if (!part_ok(p, &op->part[i], qn_ranks_count(op->ranks), qn_ranks_rank(op->ranks)))
			return 0;
		for (int32_t r = 0; r < qn_ranks_count(op->ranks); r++)
			need += row_bytes(&op->part[i], r) / (int64_t)sizeof(float);
	}
	return buf_ok(p, op->stage, QN_SHARE_ROOM(qn_ranks_count(op->ranks)) + need);
}

/* Copies this thread's share of a part of rank r to its piece, or from it to where it belongs. */
static void copy_part(const struct run *c, const struct qn_share_part *p, int64_t rows, int32_t r, int64_t at,
                      uint8_t *piece, int out, int ith, int nth)
{
	const int64_t each = row_bytes(p, r), from = rows * ith / nth, to = rows * (ith + 1) / nth;

	if (p->act >= 0) { /* [block][row], whose bytes are in one piece */
		uint8_t *x = act_block(c, p->dst, (enum qn_act)p->act, at * rows);

		if (out)
			memcpy(piece + from * each, x + from * each, (size_t)((to - from) * each));
		else
			memcpy(x + from * each, piece + from * each, (size_t)((to - from) * each));
		return;
	}
	for (int64_t i = from; i < to; i++) {
		float *x = buf_row(c, p->dst, i) + at;

		if (out)
			memcpy(piece + i * each, x, (size_t)each);
		else
			memcpy(x, piece + i * each, (size_t)each);
	}
}

/* All parts of rank r. */
static void copy_piece(const struct run *c, const struct qn_share *op, int64_t rows, int32_t r, uint8_t *piece, int out,
                       int ith, int nth)
{
	for (int i = 0; i < op->n_part; i++) {
		const struct qn_share_part *p = &op->part[i];

		copy_part(c, p, rows, r, out ? p->own : p->cut[r], piece, out, ith, nth);
		piece += rows * row_bytes(p, r);
	}
}

static void share_run(struct run *c, const struct qn_op *o)
{
	const struct qn_share *op = &o->share;
	const int32_t n_rank = qn_ranks_count(op->ranks), rank = qn_ranks_rank(op->ranks);
	const int64_t rows = op_rows(c, o);
	uint8_t *piece[QN_RANKS_MAX], *next = c->bufs[op->stage].data;
	size_t bytes[QN_RANKS_MAX];
	int64_t total = 0;
	int alone, ith, nth;

	for (int32_t r = 0; r < n_rank; r++) {
		bytes[r] = 0;
		for (int i = 0; i < op->n_part; i++)
			bytes[r] += (size_t)(rows * row_bytes(&op->part[i], r));
		piece[r] = next;
		next += QN_RANKS_HEAD + (bytes[r] + 63) / 64 * 64;
		total += (int64_t)bytes[r];
	}
	alone = total <= ALONE_BYTES;
	if (alone && c->ith)
		return;
	ith = alone ? 0 : c->ith;
	nth = alone ? 1 : c->nth;
	copy_piece(c, op, rows, rank, piece[rank] + QN_RANKS_HEAD, 1, ith, nth);
	if (nth > 1)
		run_barrier(c);
	if (ith == 0)
		qn_ranks_exchange(op->ranks, piece, bytes, op->to, (uint32_t)op->step);
	if (nth > 1)
		run_barrier(c);
	if (op->to >= 0 && op->to != rank)
		return;
	for (int32_t r = 0; r < n_rank; r++)
		copy_piece(c, op, rows, r, piece[r] + QN_RANKS_HEAD, 0, ith, nth);
}

const struct operation op_share = {.check = share_check, .routing = ROUTING_PAIRS, .run = share_run};
