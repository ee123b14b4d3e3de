/* embed.c - rows of a table by token or position, rows that tokens bring, and the rows whose logits are wanted. */
#include <string.h>

#include "run/operation.h"

/* Rows that QN_OP_GATHER makes one of, at most. */
#define GATHER_MAX 64

static int embed_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_embed *op = &o->embed;

	return mat_ok(&op->table) && op->table.layout == QN_ROWS && buf_ok(p, op->dst, op->table.n_in) &&
	       op->index >= QN_INDEX_TOK && op->index <= QN_INDEX_TEXT &&
	       (op->index != QN_INDEX_TEXT || op->table.n_out > 1);
}

static size_t embed_scratch(const struct qn_op *o)
{
	const struct qn_embed *op = &o->embed;

	return op->add ? sizeof(float) * (size_t)op->table.n_in : 0;
}

static void embed_run(struct run *c, const struct qn_op *o)
{
	const struct qn_embed *op = &o->embed;
	const struct qn_mat *m = &op->table;
	const int64_t n = c->batch->n_tok, bytes = (int64_t)qn_row_bytes(m->type, m->n_in);

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		float *y = buf_row(c, op->dst, t), *x = op->add ? (float *)c->scratch : y;

		qn_dequantize(m->type, x, (const uint8_t *)m->data + batch_row(c->batch, op->index, t) * bytes,
		              m->n_in);
		if (op->scale != 1)
			qn_kernels.scale_rows(x, x, op->scale, NULL, m->n_in);
		if (op->add)
			qn_kernels.add_scaled(y, x, 1, m->n_in);
		memset(y + m->n_in, 0, sizeof *y * (size_t)(c->bufs[op->dst].width - m->n_in));
	}
}

const struct operation op_embed = {.check = embed_check, .scratch = embed_scratch, .run = embed_run};

static int input_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_input *op = &o->input;

	return op->from >= 0 && op->n_col > 0 && cols_ok(p, op->dst, op->n_col);
}

static void input_run(struct run *c, const struct qn_op *o)
{
	const struct qn_input *op = &o->input;
	const int64_t n = c->batch->n_tok;

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		const float *x = c->batch->in ? c->batch->in[t] : NULL;
		float *y = cols_row(c, op->dst, t);

		if (x && op->add)
			qn_kernels.add_scaled(y, x + op->from, 1, op->n_col);
		else if (x)
			memcpy(y, x + op->from, sizeof *y * (size_t)op->n_col);
		else if (op->clear)
			memset(y, 0, sizeof *y * (size_t)op->n_col);
	}
}

const struct operation op_input = {.check = input_check, .run = input_run};

static int gather_check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_gather *op = &o->gather;

	if (op->n_row <= 1)
		return op->n_row >= 0 && buf_ok(p, op->src, 0) && buf_ok(p, op->dst, 0) &&
		       p->bufs[op->src].width == p->bufs[op->dst].width;
	return op->n_row <= GATHER_MAX && op->n_col > 0 && op->n_col % 16 == 0 && buf_ok(p, op->src, op->n_col) &&
	       buf_ok(p, op->dst, op->mean ? op->n_col : (int64_t)op->n_col * op->n_row);
}

static void gather_run(struct run *c, const struct qn_op *o)
{
	const struct qn_gather *op = &o->gather;
	const int64_t n = c->batch->n_out, cols = op->n_row > 1 ? op->n_col : c->bufs[op->src].width;

	for (int64_t i = n * c->ith / c->nth; i < n * (c->ith + 1) / c->nth; i++) {
		float *y = buf_row(c, op->dst, i);

		memcpy(y, buf_row(c, op->src, c->batch->out[i]), sizeof *y * (size_t)cols);
		for (int j = 1; j < op->n_row; j++) {
			const float *x = buf_row(c, op->src, c->batch->out[i] + j);

			if (op->mean)
				qn_kernels.add_scaled(y, x, 1, cols);
			else
				memcpy(y + j * cols, x, sizeof *y * (size_t)cols);
		}
		if (op->mean)
			qn_kernels.scale_rows(y, y, 1.0f / (float)op->n_row, NULL, cols);
	}
}

const struct operation op_gather = {.check = gather_check, .run = gather_run};
