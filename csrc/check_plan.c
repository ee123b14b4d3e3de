/* check_plan.c - what a plan must be, checked once when it is built and never again. */
#include "exec.h"
#include "kv.h"
#include "quern.h"

#define SOFTCAP_MAX 0x1p100f

struct plan {
	const struct qn_buf *bufs;
	int32_t n_bufs;
};

static int buf_ok(const struct plan *p, int i, int64_t width)
{
	return i >= 0 && i < p->n_bufs && p->bufs[i].data && p->bufs[i].width % 16 == 0 && p->bufs[i].width >= width;
}

static int mat_ok(const struct qn_mat *m)
{
	return m->data && qn_type_ok(m->type, m->n_in) && m->n_out > 0 && m->n_mat > 0 &&
	       (m->layout == QN_ROWS || m->layout == QN_X16);
}

static int col_ok(const struct plan *p, int buf, int32_t col, int64_t n)
{
	return col >= 0 && col % 16 == 0 && buf_ok(p, buf, col + n);
}

static int heads_ok(const struct qn_op *op)
{
	return op->head_dim > 0 && op->head_dim <= KV_HEAD_DIM_MAX && op->n_head_kv > 0 &&
	       op->n_head >= op->n_head_kv && op->n_head % op->n_head_kv == 0 && op->group >= 0 && op->kv_offset >= 0 &&
	       op->kv_offset % 64 == 0 &&
	       op->k_type >= 0 && op->k_type < QN_N_KV_TYPES && op->v_type >= 0 && op->v_type < QN_N_KV_TYPES;
}

static int experts_ok(const struct qn_op *op)
{
	return op->n_expert > 0 && op->n_expert <= QN_EXPERTS_MAX && op->n_used > 0 &&
	       op->n_used <= op->n_expert && op->n_used <= QN_USED_MAX;
}

/* Activations of n columns, of some kind at least; `from` says of each that is there what it comes from. */
static int act_ok(const struct plan *p, const int32_t *act, const int32_t *from, int64_t n)
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

static int matmul_ok(const struct plan *p, const struct qn_op *op)
{
	const int glu = op->epilogue == QN_EPI_SWIGLU;

	if (op->n_mat < 1 || op->n_mat > 3 || op->epilogue < QN_EPI_STORE || op->epilogue > QN_EPI_SWIGLU)
		return 0;
	if (glu && (op->n_mat != 2 || op->mat[0].n_out != op->mat[1].n_out || op->bias[0] || op->bias[1]))
		return 0;
	if (op->rows == QN_ROWS_PAIR && (!experts_ok(op) || !buf_ok(p, op->aux, 0)))
		return 0;
	for (int i = 0; i < op->n_mat; i++) {
		const struct qn_mat *m = &op->mat[i];

		if (!mat_ok(m) || m->n_mat != (op->rows == QN_ROWS_PAIR ? op->n_expert : 1))
			return 0;
		if (!buf_ok(p, op->act[qn_type_act(m->type)], m->n_in))
			return 0;
		if (!(glu && i) && !col_ok(p, op->dst, op->col[i], ((int64_t)m->n_out + 15) / 16 * 16))
			return 0;
	}
	return 1;
}

static int op_ok(const struct plan *p, const struct qn_op *op)
{
	if (op->rows < QN_ROWS_TOK || op->rows > QN_ROWS_PAIR)
		return 0;
	switch (op->kind) {
	case QN_OP_EMBED:
		return mat_ok(&op->mat[0]) && op->mat[0].layout == QN_ROWS && buf_ok(p, op->dst, op->mat[0].n_in);
	case QN_OP_ROPE_TABLE:
		return op->freq && op->n_rot > 0 && op->n_rot % 2 == 0 && buf_ok(p, op->dst, op->n_rot);
	case QN_OP_GATHER:
		return buf_ok(p, op->src, 0) && buf_ok(p, op->dst, 0) &&
		       p->bufs[op->src].width == p->bufs[op->dst].width;
	case QN_OP_NORM:
		if (!op->vec)
			return 0;
		/* fall through */
	case QN_OP_ACT:
		return op->n_col > 0 && buf_ok(p, op->src, op->n_col) && act_ok(p, op->act, NULL, op->n_col) &&
		       (op->rows != QN_ROWS_PAIR || op->n_used > 0);
	case QN_OP_MATMUL:
		return matmul_ok(p, op);
	case QN_OP_QKV:
		return heads_ok(op) && col_ok(p, op->src, op->col[0], (int64_t)op->n_head * op->head_dim) &&
		       col_ok(p, op->src, op->col[1], (int64_t)op->n_head_kv * op->head_dim) &&
		       col_ok(p, op->src, op->col[2], (int64_t)op->n_head_kv * op->head_dim) &&
		       op->rope >= QN_ROPE_NONE && op->rope <= QN_ROPE_NEOX &&
		       (op->rope == QN_ROPE_NONE || (op->n_rot % 2 == 0 && op->n_rot > 0 && op->n_rot <= op->head_dim &&
		                                     buf_ok(p, op->aux, op->n_rot)));
	case QN_OP_ATTEND:
		return heads_ok(op) && col_ok(p, op->src, op->col[0], (int64_t)op->n_head * op->head_dim) &&
		       buf_ok(p, op->dst, (int64_t)op->n_head * op->head_dim) && op->window >= 0 && op->softcap >= 0 &&
		       op->softcap <= SOFTCAP_MAX;
	case QN_OP_MOE_ROUTE:
		return experts_ok(op) && buf_ok(p, op->src, op->n_expert) && buf_ok(p, op->dst, 0);
	case QN_OP_MOE_GATHER:
		return experts_ok(op) && op->n_col > 0 && act_ok(p, op->act, op->src_act, op->n_col) &&
		       buf_ok(p, op->aux, 0);
	case QN_OP_MOE_COMBINE:
		return experts_ok(op) && buf_ok(p, op->aux, 0) && buf_ok(p, op->dst, 1) &&
		       buf_ok(p, op->src, p->bufs[op->dst].width);
	}
	return 0;
}

int qn_plan_check(const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs, int32_t n_bufs)
{
	const struct plan p = {bufs, n_bufs};
	int64_t counters = 0;

	if (n_ops < 0)
		return QN_EINVAL;
	for (int i = 0; i < n_ops; i++) {
		counters += ops[i].kind == QN_OP_ATTEND ? 2 : 1; /* at most that many */
		if (counters > POOL_COUNTERS || !op_ok(&p, &ops[i]))
			return QN_EINVAL;
	}
	return QN_OK;
}
