/*
 * exec.c - runs a plan: each thread walks the list of operations, takes its share of each, and
 * waits for the others at its end.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "exec.h"

static void op_embed(struct run *c, const struct qn_op *op)
{
	const struct qn_mat *m = &op->mat[0];
	const int64_t n = c->batch->n_tok, bytes = (int64_t)qn_row_bytes(m->type, m->n_in);

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		float *y = buf_row(c, op->dst, t);

		qn_dequantize(m->type, y, (const uint8_t *)m->data + c->batch->tok[t] * bytes, m->n_in);
		if (op->scale != 1)
			qn_kernels.scale_rows(y, y, op->scale, NULL, m->n_in);
		memset(y + m->n_in, 0, sizeof *y * (size_t)(c->bufs[op->dst].width - m->n_in));
	}
}

static void op_rope_table(struct run *c, const struct qn_op *op)
{
	const int64_t n = c->batch->n_tok;

	for (int64_t t = n * c->ith / c->nth; t < n * (c->ith + 1) / c->nth; t++) {
		float *cs = buf_row(c, op->dst, t);

		for (int i = 0; i < op->n_rot / 2; i++) {
			const double theta = c->batch->pos[t] * op->freq[i];

			cs[2 * i] = (float)cos(theta) * op->scale;
			cs[2 * i + 1] = (float)sin(theta) * op->scale;
		}
	}
}

static void op_gather(struct run *c, const struct qn_op *op)
{
	const int64_t n = c->batch->n_out;

	for (int64_t i = n * c->ith / c->nth; i < n * (c->ith + 1) / c->nth; i++)
		memcpy(buf_row(c, op->dst, i), buf_row(c, op->src, c->batch->out[i]),
		       sizeof(float) * (size_t)c->bufs[op->src].width);
}

/* 1 / rms of a row. Where its squares overflow that is NaN, not 0: nonsense must not look like text. */
static float rms_scale(const float *x, int64_t n, float eps)
{
	const float sum = qn_kernels.sumsq(x, n);

	return sum <= FLT_MAX ? 1 / sqrtf(sum / (float)n + eps) : NAN;
}

/* Columns b * 256 .. of row t, times r and w (both may be absent: 1, NULL), into the activation buffers. */
static void put_act(const struct run *c, const struct qn_op *op, int64_t rows, int64_t t, int64_t b, float r,
                    const float *w)
{
	const int64_t left = op->n_col - b * QN_ACT_BLOCK, n = left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK;
	const float *x = buf_row(c, op->src, t) + b * QN_ACT_BLOCK;
	struct actf tmp;

	if (w) {
		qn_kernels.scale_rows(tmp.x, x, r, w + b * QN_ACT_BLOCK, n);
		x = tmp.x;
	}
	for (enum qn_act k = 0; k < QN_N_ACT; k++) {
		if (op->act[k] < 0)
			continue;

		void *y = act_block(c, op->act[k], k, b * rows + t);

		if (k == QN_ACT_F32)
			memcpy(y, x, sizeof *x * (size_t)n);
		else
			qn_kernels.quantize(y, x, (int)n, k);
	}
}

/* NORM and ACT. Items are blocks of rows: one row alone is still shared by all threads. */
static void op_act(struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op), blocks = (op->n_col + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	const int norm = op->kind == QN_OP_NORM;
	struct deal d = deal_begin(c->ith, c->nth, rows * blocks);
	int64_t i, row = -1;
	float r = 1;

	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		if (norm && i / blocks != row) /* each thread for itself: cheaper than to tell each other */
			r = rms_scale(buf_row(c, op->src, i / blocks), op->n_col, op->eps);
		row = i / blocks;
		put_act(c, op, rows, row, i % blocks, r, norm ? op->vec : NULL);
	}
	c->step++;
}

struct job {
	const struct qn_op *ops;
	int32_t n_ops;
	const struct qn_buf *bufs;
	const struct qn_batch *batch;
	uint8_t *scratch;
	size_t scratch_each;
};

static void run_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct job *job = arg;
	struct run c = {
		.pool = pool,
		.bufs = job->bufs,
		.batch = job->batch,
		.scratch = job->scratch + (size_t)ith * job->scratch_each,
		.scratch_each = job->scratch_each,
		.ith = ith,
		.nth = nth,
	};

	for (int i = 0; i < job->n_ops; i++) {
		const struct qn_op *op = &job->ops[i];

		if (i)
			pool_barrier(pool);
		switch (op->kind) {
		case QN_OP_EMBED:
			op_embed(&c, op);
			break;
		case QN_OP_ROPE_TABLE:
			op_rope_table(&c, op);
			break;
		case QN_OP_GATHER:
			op_gather(&c, op);
			break;
		case QN_OP_NORM:
		case QN_OP_ACT:
			op_act(&c, op);
			break;
		case QN_OP_MATMUL:
			op_matmul(&c, op);
			break;
		case QN_OP_QKV:
			op_qkv(&c, op);
			break;
		case QN_OP_ATTEND:
			op_attend(&c, op);
			break;
		case QN_OP_MOE_ROUTE:
			op_moe_route(&c, op);
			break;
		case QN_OP_MOE_GATHER:
			op_moe_gather(&c, op);
			break;
		case QN_OP_MOE_COMBINE:
			op_moe_combine(&c, op);
			break;
		}
	}
}

void qn_run(struct qn_pool *pool, const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs,
            const struct qn_batch *batch, void *scratch, size_t scratch_bytes)
{
	struct job job = {
		.ops = ops,
		.n_ops = n_ops,
		.bufs = bufs,
		.batch = batch,
		.scratch = scratch,
		.scratch_each = scratch_bytes / (size_t)qn_pool_threads(pool) / 64 * 64,
	};

	pool_run(pool, run_job, &job);
}

size_t qn_plan_scratch(const struct qn_op *ops, int32_t n_ops, int32_t n_tok_max)
{
	size_t most = 0;

	(void)n_tok_max; /* tiles are of fixed size: no operation's scratch grows with the batch */
	for (int i = 0; i < n_ops; i++) {
		const struct qn_op *op = &ops[i];
		const size_t bytes = op->kind == QN_OP_MATMUL ? matmul_scratch(op)
		                   : op->kind == QN_OP_ATTEND ? attend_scratch(op)
		                                              : 0;

		most = bytes > most ? bytes : most;
	}
	return (most + 63) / 64 * 64;
}

struct pack_job {
	const struct qn_mat *src;
	uint8_t *dst;
	_Atomic int status;
};

static void pack_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	struct pack_job *job = arg;
	const struct qn_mat *m = job->src;
	const int64_t panels = (m->n_out + QN_PANEL - 1) / QN_PANEL;
	const int64_t row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in);
	struct deal d = deal_begin(ith, nth, panels * m->n_mat);
	int64_t i;

	while ((i = deal_next(pool, 0, &d)) >= 0) {
		const int64_t row = i % panels * QN_PANEL, left = m->n_out - row;
		const uint8_t *rows = (const uint8_t *)m->data + (i / panels * m->n_out + row) * row_bytes;
		const int status = pack_away(m->type, job->dst + i * (int64_t)qn_panel_bytes(m->type, m->n_in), rows,
		                             (int32_t)(left < QN_PANEL ? left : QN_PANEL), m->n_in);

		if (status)
			job->status = status;
	}
}

int qn_pack_mat(struct qn_pool *pool, void *dst, const struct qn_mat *src)
{
	struct pack_job job = {.src = src, .dst = dst};

	if (!qn_type_ok(src->type, src->n_in) || src->n_out < 1 || src->n_mat < 1 || src->layout != QN_ROWS)
		return QN_EINVAL;
	pool_run(pool, pack_job, &job);
	return job.status;
}
