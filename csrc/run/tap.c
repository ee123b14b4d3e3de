/*
 * tap.c - what products multiply by: sums of squares, so how much each column of their weights counts, and of products.
 */
#include "encode/search.h"
#include "ops/route.h"
#include "run/operation.h"

/* Column k of a block of activations. */
static float column(const void *block, enum qn_act kind, int k)
{
	const enum qn_act half = act_half(kind);
	const struct act8 *a = block;

	if (kind == QN_ACT_F32)
		return ((const struct actf *)block)->x[k];
	if (kind == QN_ACT_BF16)
		return f32_of_bf16(((const struct actb *)block)->x[k]);
	return half == kind ? act8_at(a, kind, k) : act8_at(a, half, k) + act8_at(a + 1, half, k);
}

/* Rows from .. to of `rows` inputs of a product. */
struct inputs {
	const struct run *run;
	int buf;
	enum qn_act kind;
	int64_t rows, from, to, n_in;
};

/* Adds the products of the columns of blocks b1 and b2 to h. */
static void add_blocks(const struct inputs *in, const struct searches *s, float *h, int64_t stride, int64_t b1,
                       int64_t b2)
{
	enum { STRIP = 32 };
	float x[2][STRIP][QN_ACT_BLOCK];
	const int64_t left[2] = {in->n_in - b1 * QN_ACT_BLOCK, in->n_in - b2 * QN_ACT_BLOCK}, block[2] = {b1, b2};
	int n[2];

	for (int k = 0; k < 2; k++)
		n[k] = left[k] < QN_ACT_BLOCK ? (int)left[k] : QN_ACT_BLOCK;
	for (int64_t t = in->from; t < in->to; t += STRIP) {
		const int strip = in->to - t < STRIP ? (int)(in->to - t) : STRIP;
		const float *at[2];

		for (int k = 0; k < 2; k++) {
			if (in->kind == QN_ACT_F32) {
				at[k] = act_block(in->run, in->buf, in->kind, block[k] * in->rows + t);
				continue;
			}
			for (int u = 0; u < strip; u++) {
				const void *a = act_block(in->run, in->buf, in->kind, block[k] * in->rows + t + u);

				for (int i = 0; i < n[k]; i++)
					x[k][u][i] = column(a, in->kind, i);
			}
			at[k] = x[k][0];
		}
		s->products(h, stride, at[0], n[0], at[1], n[1], QN_ACT_BLOCK, strip);
	}
}

/* The products of matrix e: a thread takes every nth pair of blocks. */
static void tap_products(const struct inputs *in, const struct qn_tap *tap, const struct searches *s, int64_t e)
{
	const int64_t n = in->n_in, span = tap->span, rest = n % span, each = n / span * span * span + rest * rest;
	float *h = tap->products + e * each;
	int64_t job = 0;

	for (int64_t begin = 0; begin < n; begin += span) {
		const int64_t wide = n - begin < span ? n - begin : span;
		const int64_t first = begin / QN_ACT_BLOCK, end = (begin + wide + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;

		for (int64_t b1 = first; b1 < end; b1++)
			for (int64_t b2 = b1; b2 < end; b2++)
				if (job++ % in->run->nth == in->run->ith)
					add_blocks(in, s, h + ((b1 - first) * wide + b2 - first) * QN_ACT_BLOCK, wide,
					           b1, b2);
		h += wide * wide;
	}
}

void run_tap(const struct run *c, const struct qn_op *op, const struct qn_tap *tap)
{
	const struct qn_mat *m = &op->matmul.mat[0];
	const enum qn_act kind = act_of(op->matmul.act, m->type);
	const int64_t rows = op_rows(c, op), blocks = (m->n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	/* experts that have one matrix */
	const int32_t share = op->rows == QN_ROWS_PAIR ? op->routing.n_expert / m->n_mat : 1;
	struct route route = {0};
	struct searches searches = {0};

	if (tap->products)
		searches = searches_of(tap->isa);
	if (op->rows == QN_ROWS_PAIR)
		route = route_of(c->bufs, &op->routing, c->batch->n_tok);
	for (int32_t e = 0; e < m->n_mat; e++) {
		const int64_t from = op->rows == QN_ROWS_PAIR ? route.offset[e * share] : rows / m->n_mat * e;
		const int64_t to = op->rows == QN_ROWS_PAIR ? route.offset[(e + 1) * share] : rows / m->n_mat * (e + 1);

		for (int64_t b = c->ith; b < blocks; b += c->nth) {
			const int64_t left = m->n_in - b * QN_ACT_BLOCK;
			double *sum = tap->sums + (int64_t)e * m->n_in + b * QN_ACT_BLOCK;

			for (int64_t t = from; t < to; t++) {
				const void *block = act_block(c, op->matmul.act[kind], kind, b * rows + t);

				for (int k = 0; k < QN_ACT_BLOCK && k < left; k++) {
					const double x = column(block, kind, k);

					sum[k] += x * x;
				}
			}
		}
		if (tap->products) {
			const struct inputs in = {c, op->matmul.act[kind], kind, rows, from, to, m->n_in};

			tap_products(&in, tap, &searches, e);
		}
		if (c->ith == 0)
			tap->counts[e] += to - from;
	}
}
