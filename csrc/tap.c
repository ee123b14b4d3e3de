/* tap.c - what products multiply by, as sums of squares: how much each column of their weights counts. */
#include "ops.h"
#include "route.h"

/* Column k of a block of activations. */
static float column(const void *block, enum qn_act kind, int k)
{
	const struct act8 *a = block;

	if (kind == QN_ACT_F32)
		return ((const struct actf *)block)->x[k];
	return (kind == QN_ACT_Q8_256 ? a->d : a->d32[k / 32]) * (float)a->qs[k];
}

void run_tap(const struct run *c, const struct qn_op *op, const struct qn_tap *tap)
{
	const struct qn_mat *m = &op->mat[0];
	const enum qn_act kind = qn_type_act(m->type);
	const int64_t rows = op_rows(c, op), blocks = (m->n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	struct route route = {0};

	if (op->rows == QN_ROWS_PAIR)
		route = route_of(&c->bufs[op->aux], c->batch->n_tok, op->n_expert, op->n_used);
	for (int32_t e = 0; e < m->n_mat; e++) {
		const int64_t from = op->rows == QN_ROWS_PAIR ? route.offset[e] : rows / m->n_mat * e;
		const int64_t to = op->rows == QN_ROWS_PAIR ? route.offset[e + 1] : rows / m->n_mat * (e + 1);

		for (int64_t b = c->ith; b < blocks; b += c->nth) {
			const int64_t left = m->n_in - b * QN_ACT_BLOCK;
			double *sum = tap->sums + (int64_t)e * m->n_in + b * QN_ACT_BLOCK;

			for (int64_t t = from; t < to; t++) {
				const void *block = act_block(c, op->act[kind], kind, b * rows + t);

				for (int k = 0; k < QN_ACT_BLOCK && k < left; k++) {
					const double x = column(block, kind, k);

					sum[k] += x * x;
				}
			}
		}
		if (c->ith == 0)
			tap->counts[e] += to - from;
	}
}
