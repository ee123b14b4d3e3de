/* rope.c - the rotations of a batch's positions, once for all layers. */
#include "math/sincos.h"
#include "run/operation.h"

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_rope_table *op = &o->rope_table;

	if (!op->freq || op->n_rot < 1 || op->n_rot % 2 != 0 || !buf_ok(p, op->dst, op->n_rot))
		return 0;
	for (int i = 0; op->axis && i < op->n_rot / 2; i++)
		if (op->axis[i] < 0 || op->axis[i] >= QN_AXES)
			return 0;
	return 1;
}

/* Where token t is on the axis of frequency i. */
static int32_t at(const struct qn_batch *b, const struct qn_rope_table *op, int64_t t, int i)
{
	return op->axis && b->place ? b->place[t * QN_AXES + op->axis[i]] : b->pos[t];
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_rope_table *op = &o->rope_table;
	const int64_t n = c->batch->n_tok;

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		float *cs = buf_row(c, op->dst, t);

		for (int i = 0; i < op->n_rot / 2; i++) {
			double sine, cosine;

			qsincos((at(c->batch, op, t, i) + op->shift) * op->freq[i], &sine, &cosine);
			cs[2 * i] = (float)cosine * op->scale;
			cs[2 * i + 1] = (float)sine * op->scale;
		}
	}
}

const struct operation op_rope_table = {.check = check, .run = run};
