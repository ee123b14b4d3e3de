/*
 * check_ops.c - each operation of a plan against its formula in double, from what its buffers held
 * before. The operations are shared by all sets: that those agree proves nothing about them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/kv.h"
#include "math/fp16.h"
#include "ops/route.h"
#include "run/run.h"
#include "tiny.h"

/* One run, and a copy of the buffers and the KV pool as they were before the operation. */
struct scene {
	const struct tiny *t;
	const struct tiny_run *r;
	const struct qn_op *op;
	uint8_t *was[N_BUFS], *kv, *kv_was;
};

static const float *row(const struct scene *s, int buf, int64_t i)
{
	return (const float *)s->r->bufs[buf].data + i * s->r->bufs[buf].width;
}

static const float *row_was(const struct scene *s, int buf, int64_t i)
{
	return (const float *)s->was[buf] + i * s->r->bufs[buf].width;
}

static int64_t n_rows(const struct scene *s)
{
	const struct qn_batch *b = &s->r->batch;

	switch (s->op->rows) {
	case QN_ROWS_OUT:
		return b->n_out;
	case QN_ROWS_PAIR:
		return b->n_tok * N_USED;
	case QN_ROWS_HEAD:
		return (int64_t)b->n_tok * s->op->heads.n;
	default:
		return b->n_tok;
	}
}

static void embed(const struct scene *s)
{
	const struct qn_mat *m = &s->op->embed.table;
	float want[N_EMBD];

	for (int t = 0; t < s->r->batch.n_tok; t++) {
		const struct qn_batch *b = &s->r->batch;
		const int32_t second = b->second && b->second[b->seq[t]] ? b->second[b->seq[t]] : INT32_MAX;
		const int32_t rows[] = {b->tok[t], b->pos[t], 0, b->pos[t] - (b->source ? b->source[b->seq[t]] : 0),
		                        b->pos[t] >= second};

		qn_dequantize(m->type, want,
		              (const uint8_t *)m->data +
		                      (size_t)rows[s->op->embed.index] * qn_row_bytes(m->type, m->n_in),
		              m->n_in);
		for (int i = 0; i < N_EMBD; i++) {
			want[i] *= s->op->embed.scale;
			if (s->op->embed.add)
				want[i] += ((const float *)s->was[X])[t * N_EMBD + i];
		}
		check_floats("row", row(s, X, t), want, N_EMBD);
	}
}

static void rope_table(const struct scene *s)
{
	for (int t = 0; t < s->r->batch.n_tok; t++)
		for (int i = 0; i < s->op->rope_table.n_rot / 2; i++) {
			const double theta = s->r->batch.pos[t] * s->op->rope_table.freq[i];

			check_near("cos", i, (double)row(s, ROPE, t)[2 * i],
			           cos(theta) * (double)s->op->rope_table.scale, 2e-7);
			check_near("sin", i, (double)row(s, ROPE, t)[2 * i + 1],
			           sin(theta) * (double)s->op->rope_table.scale, 2e-7);
		}
}

static void gather(const struct scene *s)
{
	for (int i = 0; i < s->r->batch.n_out; i++)
		check_floats("row", row(s, LAST, i), row(s, X, s->r->batch.out[i]), N_EMBD);
}

/* Column i of row t of the activations that op reads or writes. */
static double act_at(const struct scene *s, enum qn_act kind, int64_t rows, int64_t t, int i)
{
	const int32_t *act = s->op->kind == QN_OP_MATMUL ? s->op->matmul.act : s->op->to_act.act;
	const uint8_t *blocks = s->r->bufs[act[kind]].data;

	return act_value(blocks + (i / QN_ACT_BLOCK * rows + t) * act_bytes(kind), kind, i % QN_ACT_BLOCK);
}

/* The largest of n values' magnitudes. */
static double largest(const double *y, int n)
{
	double max = 0;

	for (int i = 0; i < n; i++)
		max = fabs(y[i]) > max ? fabs(y[i]) : max;
	return max;
}

/* y = the norm of x, of n columns, with weights w and b or NULL. */
static void norm(const struct qn_norm *op, double *y, const float *x, int n, const float *w, const float *b)
{
	double mean = 0, sum = 0, size = 1;

	for (int i = 0; i < n && op->kind == QN_NORM_LAYER; i++)
		mean += (double)x[i] / n;
	for (int i = 0; i < n; i++)
		sum += ((double)x[i] - mean) * ((double)x[i] - mean);
	if (op->kind != QN_NORM_NONE)
		size = sqrt(sum / n + (double)op->eps);
	for (int i = 0; i < n; i++)
		y[i] = ((double)x[i] - mean) / size * (w ? (double)w[i] : 1) +
		       (b ? (double)b[i] : 0);
}

static void norm_rows(const struct scene *s)
{
	const struct qn_norm_rows *op = &s->op->norm_rows;
	const float *weight = op->norm.weight, *bias = op->norm.bias;

	for (int64_t t = 0; t < n_rows(s); t++)
		for (int seg = 0; seg < op->n_seg; seg++) {
			const int at = seg * op->n_col, w = op->seg_weights ? at : 0;
			const float *was = row_was(s, op->dst.buf, t) + op->dst.col + at;
			double y[1024];

			norm(&op->norm, y, row_was(s, op->src.buf, t) + op->src.col + at, op->n_col,
			     weight ? weight + w : NULL, bias ? bias + w : NULL);
			for (int i = 0; i < op->n_col; i++) {
				const double old = op->add ? (double)was[i] : 0;
				double want = old + (double)op->scale * y[i];

				if (op->low < op->high)
					want = fmin(fmax(want, (double)op->low), (double)op->high);
				check_near("y", at + i, (double)row(s, op->dst.buf, t)[op->dst.col + at + i], want,
				           2e-6 * (fabs(old) + fabs(want) + 1));
			}
		}
}

static double fn_of(int fn, double x)
{
	switch (fn) {
	case QN_FN_SILU: return x / (1 + exp(-x));
	case QN_FN_SIGMOID: return 1 / (1 + exp(-x));
	case QN_FN_GELU: return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
	case QN_FN_GELU_ERF: return x / 2 * erfc(-x / sqrt(2));
	case QN_FN_GELU_QUICK: return x / (1 + exp(-1.702 * x));
	case QN_FN_SWIGLU_CLAMP: return fmin(x, 7) / (1 + exp(-1.702 * fmin(x, 7)));
	case QN_FN_SOFTPLUS: return log1p(exp(x));
	default: return x > 0 ? x * x : 0;
	}
}

static void gate(const struct scene *s)
{
	const struct qn_gate *op = &s->op->gate;

	const int segs = op->by_row && op->n_seg ? op->n_seg : 1;

	for (int64_t t = 0; t < n_rows(s); t++)
		for (int i = 0; i < segs * op->n_col; i++) {
			const int from = op->src.col + (op->by_row ? i / op->n_col : i);
			const double want = fn_of(op->fn, (double)row(s, op->src.buf, t)[from]) *
			                    (double)row_was(s, op->dst.buf, t)[op->dst.col + i];

			check_near("y", i, (double)row(s, op->dst.buf, t)[op->dst.col + i], want,
			           1e-6 * fabs(want) + 1e-30);
		}
}

static void xielu(const struct scene *s)
{
	const struct qn_xielu *op = &s->op->xielu;

	for (int64_t t = 0; t < n_rows(s); t++)
		for (int i = 0; i < op->n_col; i++) {
			const double x = (double)row_was(s, op->dst.buf, t)[op->dst.col + i],
				     low = fmin(x, (double)op->param[3]);
			const double bent = x > 0 ? (double)op->param[0] * x * x
			                          : (expm1(low) - x) * (double)op->param[1];

			check_near("y", i, (double)row(s, op->dst.buf, t)[op->dst.col + i],
			           bent + (double)op->param[2] * x,
			           /* e^x is rounded before 1 is subtracted */
			           2e-7 * (fabs(bent) + fabs(x) + fabs((double)op->param[1])));
		}
}

static void act(const struct scene *s)
{
	const int n = s->op->to_act.n_col;
	const int64_t rows = n_rows(s);

	for (int64_t t = 0; t < rows; t++) {
		const int64_t n_tok = s->op->rows == QN_ROWS_HEAD ? s->r->batch.n_tok : rows, h = t / n_tok;
		const float *x =
			row(s, s->op->to_act.src.buf, t % n_tok) +
				(n_tok < rows ? s->op->to_act.src.col + h * s->op->heads.step : 0);
		double y[1024];

		if (s->op->kind == QN_OP_NORM)
			norm(&s->op->to_act.norm, y, x, n, s->op->to_act.norm.weight, s->op->to_act.norm.bias);
		else
			for (int i = 0; i < n; i++)
				y[i] = (double)x[i];
		for (enum qn_act k = 0; k < QN_N_ACT; k++)
			for (int i = 0; i < n && s->op->to_act.act[k] >= 0; i++) {
				const int run = act_half(k) == QN_ACT_Q8_256 ? QN_ACT_BLOCK : 32, at = i / run * run;
				const double max = largest(y + at, n - at < run ? n - at : run);

				if (!check_near("activation", i, act_at(s, k, rows, t, i), y[i],
				                k == QN_ACT_F32 ? 1e-6 * (fabs(y[i]) +
				                                          (s->op->to_act.norm.bias != NULL))
				                : k == QN_ACT_BF16 ? 0x1.01p-8 * fabs(y[i]) + 1e-6
				                : k < QN_N_ACT_ONE ? max * 0.5001 / 127 + 1e-6
				                : max * 0.5001 / 127 / 254 + 1e-6 * (1 + fabs(y[i]))))
					return;
			}
	}
}

/* Rows of matrix e of m as floats. */
static float *dequantized(const struct qn_mat *m, const void *rows, int e)
{
	float *w = malloc(sizeof *w * (size_t)m->n_out * (size_t)m->n_in);

	for (int r = 0; r < m->n_out; r++)
		qn_dequantize(m->type, w + (size_t)r * (size_t)m->n_in,
		              (const uint8_t *)rows + ((size_t)e * (size_t)m->n_out + (size_t)r) *
		                                              qn_row_bytes(m->type, m->n_in),
		              m->n_in);
	return w;
}

enum { N_IN_MAX = 1024 };

/* The activations of row t that m multiplies. */
static void activations(const struct scene *s, const struct qn_mat *m, int64_t rows, int64_t t, double *x)
{
	const enum qn_act kind = act_of(s->op->matmul.act, m->type);

	check_true(m->n_in <= N_IN_MAX, "a wider matrix than the check has room for");
	for (int i = 0; i < m->n_in; i++)
		x[i] = act_at(s, kind, rows, t, i);
}

/* Row r of w, matrix e of m, times x. */
static double dot(const struct qn_mat *m, const float *w, int e, int r, const double *x, double *size)
{
	double sum = 0;

	*size = 0;
	for (int i = 0; i < m->n_in; i++) {
		const double y = (double)w[r * m->n_in + i] * x[i];

		sum += y;
		*size += fabs(y);
	}
	*size *= m->scale ? fabs((double)m->scale[e]) : 1;
	return m->scale ? sum * (double)m->scale[e] : sum;
}

/* Where the product of row t of the activations with row r of mat[k], of matrix e, goes. */
static const float *product(const struct scene *s, const float *(*rows)(const struct scene *, int, int64_t), int k,
                            int e, int64_t t, int r)
{
	const struct qn_op *op = s->op;
	const int64_t n_tok = s->r->batch.n_tok;
	int64_t col = op->matmul.col[k] + r;

	if (op->rows == QN_ROWS_HEAD) {
		t -= e * n_tok;
		col += (int64_t)e * op->heads.step;
	} else if (op->rows == QN_ROWS_TOK && op->heads.n) {
		const int each = op->matmul.mat[k].n_out / op->heads.n;

		col = op->matmul.col[k] + r / each * (int64_t)op->heads.step + r % each;
	}
	return rows(s, op->matmul.dst, t) + col;
}

/* Rows t0 .. t1 of mat[k] of expert or head e. */
static void matmul_rows(const struct scene *s, int k, int e, const void *data, const void *data2,
                        int64_t t0, int64_t t1)
{
	const struct qn_mat *m = &s->op->matmul.mat[k];
	const int64_t rows = n_rows(s);
	const int bias = e * ((m->n_out + 15) / 16 * 16);
	float *w = dequantized(m, data, e), *w2 = data2 ? dequantized(&s->op->matmul.mat[1], data2, e) : NULL;

	for (int64_t t = t0; t < t1; t++) {
		double x[N_IN_MAX], x2[N_IN_MAX];

		activations(s, m, rows, t, x);
		if (w2)
			activations(s, &s->op->matmul.mat[1], rows, t, x2);
		for (int r = 0; r < m->n_out; r++) {
			double size, size2, want = dot(m, w, e, r, x, &size);

			if (s->op->matmul.bias[k])
				want += (double)s->op->matmul.bias[k][bias + r];
			if (w2) {
				const double gate = want;
				double up = dot(&s->op->matmul.mat[1], w2, e, r, x2, &size2);

				if (s->op->matmul.bias[1])
					up += (double)s->op->matmul.bias[1][bias + r];
				if (s->op->matmul.fn == QN_FN_SWIGLU_CLAMP)
					up = 1 + fmax(fmin(up, 7), -7);
				want = fn_of(s->op->matmul.fn, gate) * up;
				size = size * (1 + fabs(up)) + size2 * (1 + fabs(gate));
			} else if (s->op->matmul.epilogue == QN_EPI_FN) {
				size *= 1 + 2 * fabs(want);
				want = fn_of(s->op->matmul.fn, want);
			} else {
				want *= (double)s->op->matmul.scale;
			}
			if (s->op->matmul.softcap > 0)
				want = (double)s->op->matmul.softcap * tanh(want / (double)s->op->matmul.softcap);
			if (s->op->matmul.epilogue == QN_EPI_ADD)
				want += (double)*product(s, row_was, k, e, t, r);
			if (!check_near("y", t * m->n_out + r, (double)*product(s, row, k, e, t, r), want,
			                1e-5 * (size + fabs(want)) + 1e-6))
				break;
		}
	}
	free(w);
	free(w2);
}

/* `first` counts the matrices of the operations before. The rows are the truth for both layouts. */
static void matmul(const struct scene *s, int first)
{
	const int glu = s->op->matmul.epilogue == QN_EPI_GLU;
	const struct route route = route_of(s->r->bufs, &s->op->routing, s->r->batch.n_tok);

	for (int k = 0; k < (glu ? 1 : s->op->matmul.n_mat); k++) {
		const void *data = s->t->mats[first + k].rows, *data2 = glu ? s->t->mats[first + 1].rows : NULL;

		if (s->op->rows == QN_ROWS_HEAD)
			for (int h = 0; h < s->op->heads.n; h++)
				matmul_rows(s, k, h, data, data2, h * s->r->batch.n_tok, (h + 1) * s->r->batch.n_tok);
		else if (s->op->rows != QN_ROWS_PAIR)
			matmul_rows(s, k, 0, data, data2, 0, n_rows(s));
		else
			for (int e = 0; e < N_EXPERT; e++)
				matmul_rows(s, k, e * s->op->matmul.mat[k].n_mat / N_EXPERT, data, data2,
				            route.offset[e],
				            route.offset[e + 1]);
	}
}

/* Bits at i of an array of K or V, as a number. */
static double kv_word(int type, const uint8_t *p, int64_t i)
{
	uint16_t half;
	int16_t word;
	float x;

	switch (type) {
	case QN_KV_F32:
		memcpy(&x, p + 4 * i, 4);
		return (double)x;
	case QN_KV_I16:
		memcpy(&word, p + 2 * i, 2);
		return word;
	case QN_KV_Q8:
		return (int8_t)p[i];
	default:
		memcpy(&half, p + 2 * i, 2);
		return type == QN_KV_F16 ? half_value(half) : (double)f32_of_bf16(half);
	}
}

/* Of QN_OP_QKV and QN_OP_ATTEND. */
static const struct qn_heads *heads_of(const struct qn_op *op)
{
	return op->kind == QN_OP_QKV ? &op->qkv.heads : &op->attend.heads;
}

/* An element of K (part 0) or V (part 1) in the KV pool, as it is kept: that of Q4 transformed. */
static double kv_at(const struct scene *s, const uint8_t *kv, int seq, int pos, int h, int part, int d)
{
	const struct qn_heads *op = heads_of(s->op);

	if (op->v_in_k)
		part = 0;

	const int at = pos % 64, v_dim = (op->v_dim + 15) / 16 * 16, type = part ? op->v_type : op->k_type;
	const int64_t k_bytes = kv_k_bytes(op->k_type, op->head_dim);
	const uint8_t *p = kv + s->t->kv_table[seq][pos / 64] * s->t->kv_block_bytes + s->t->kv_offset;
	float scale = 1;

	p += h * tiny_kv_bytes(s->t->shape) + (part ? k_bytes : 0);
	if (kv_integer(type))
		memcpy(&scale, p + 4 * at + (part ? kv_v_elems(type, v_dim) : kv_k_elems(type, op->head_dim)), 4);
	if (!kv_integer(type))
		return kv_word(type, p, part ? at * v_dim + d : d * 64 + at);
	if (type == QN_KV_Q4) {
		const int high = part ? d / (v_dim / 2) : d % 8 / 4;
		const int i = part ? at / 2 * v_dim + d % (v_dim / 2) * 2 + at % 2 : (d / 8 * 64 + at) * 4 + d % 4;

		return (double)scale * (2 * (high ? p[i] / 16 : p[i] % 16) - 15);
	}
	if (part)
		return (double)scale * kv_word(type, p, (at / 2 * v_dim + d) * 2 + at % 2);
	if (type == QN_KV_I16)
		return (double)scale * kv_word(type, p, (d / 2 * 64 + at) * 2 + d % 2);
	return (double)scale * (p[(d / 4 * 64 + at) * 4 + d % 4] - 128);
}

/* How far what is kept may be from what came, for values about 1. */
static double kv_eps(int type)
{
	static const double eps[QN_N_KV_TYPES] = {
		[QN_KV_F32] = 1e-6, [QN_KV_I16] = 1e-3, [QN_KV_F16] = 1e-3, [QN_KV_BF16] = 5e-3, [QN_KV_Q8] = 0.02,
		[QN_KV_Q4] = 0.4,
	};

	return eps[type];
}

static void rotate(const struct scene *s, double *y, int64_t t)
{
	const struct qn_qkv *op = &s->op->qkv;
	const int half = op->rope.n / 2;

	y += op->rope.at;
	for (int i = 0; i < half && op->rope.kind != QN_ROPE_NONE; i++) {
		const int a = op->rope.kind == QN_ROPE_NEOX ? i : 2 * i,
		      b = op->rope.kind == QN_ROPE_NEOX ? i + half : 2 * i + 1;
		const double c = (double)row(s, ROPE, t)[2 * i], sn = (double)row(s, ROPE, t)[2 * i + 1];
		const double ya = y[a], yb = y[b];

		y[a] = ya * c - yb * sn;
		y[b] = ya * sn + yb * c;
	}
}

/* x[head_dim] of a head, normalised and rotated. */
static void head(const struct scene *s, double *y, const float *x, const float *norm, int64_t t)
{
	const struct qn_qkv *op = &s->op->qkv;
	const int n = op->heads.head_dim;
	double sum = 0;

	for (int d = 0; d < n; d++)
		y[d] = (double)x[d];
	if (op->rope_first)
		rotate(s, y, t);
	for (int d = 0; d < n; d++)
		sum += y[d] * y[d];
	for (int d = 0; d < n; d++)
		y[d] *= norm ? (double)norm[d] / sqrt(sum / n + (double)op->eps) : 1;
	if (!op->rope_first)
		rotate(s, y, t);
}

/* What channel d of kv head h is multiplied by. */
static double channel(const float *mul, int h, int n, int d)
{
	return mul ? (double)mul[h * n + d] : 1;
}

/* The type in which values are kept. */
static int value_type(const struct qn_heads *h)
{
	return h->v_in_k ? h->k_type : h->v_type;
}

/* By what scores of token t grow with its position. */
static double growth(const struct scene *s, int32_t temp_log, int t)
{
	const double pos = s->r->batch.pos[t], from = temp_log;

	return from > 0 && pos > from ? log(pos) / log(from) : 1;
}

static void qkv(const struct scene *s)
{
	const struct qn_qkv *op = &s->op->qkv;
	double y[128], v[128];

	for (int t = 0; t < s->r->batch.n_tok; t++) {
		const float *was = row_was(s, QKV, t);

		for (int h = 0; h < op->heads.n_head; h++) {
			const double span = op->temp_span ? (double)op->temp_span : 1;
			const double at = floor((s->r->batch.pos[t] + op->temp_offset) / span);
			const double scale =
				(double)op->scale * growth(s, op->temp_log, t) * (1 + (double)op->temp * log(at + 1));
			const int hk = h / (op->heads.n_head / op->heads.n_head_kv);

			head(s, y, was + op->col[0] + h * op->heads.head_dim, op->q_norm, t);
			for (int d = 0; d < op->heads.head_dim; d++)
				y[d] *= channel(op->q_mul, hk, op->heads.head_dim, d);
			for (int d = 0; d < op->heads.head_dim; d++)
				check_near(
					"q", h * op->heads.head_dim + d,
					(double)row(s, QKV, t)[op->col[0] + h * op->heads.head_dim + d],
					y[d] * scale, 2e-6 * (1 + fabs(y[d])));
		}
		for (int h = 0; h < op->heads.n_head_kv && !op->q_only; h++) {
			head(s, y, was + op->col[1] + h * op->heads.head_dim, op->k_norm, t);
			for (int d = 0; d < op->heads.head_dim; d++)
				y[d] *= channel(op->k_mul, h, op->heads.head_dim, d);
			for (int d = 0; d < op->heads.v_dim; d++)
				v[d] = (double)was[op->col[2] + h * op->heads.v_dim + d] *
				       channel(op->v_mul, h, op->heads.v_dim, d);
			if (op->heads.k_type == QN_KV_Q4)
				check_hadamard(y, op->heads.head_dim);
			if (op->heads.v_type == QN_KV_Q4)
				check_hadamard(v, op->heads.v_dim);
			if (op->heads.v_in_k)
				memcpy(v, y, sizeof v);
			for (int d = 0; d < op->heads.head_dim; d++) {
				const int seq = s->r->batch.seq[t], pos = s->r->batch.pos[t];

				check_near("k", h * op->heads.head_dim + d,
				           kv_at(s, s->kv, seq, pos, h, 0, d), y[d],
				           kv_eps(op->heads.k_type) * (1 + fabs(y[d])));
			}
			for (int d = 0; d < op->heads.v_dim; d++) {
				const int seq = s->r->batch.seq[t], pos = s->r->batch.pos[t];

				check_near("v", h * op->heads.v_dim + d,
				           kv_at(s, s->kv, seq, pos, h, 1, d), v[d],
				           kv_eps(value_type(&op->heads)) * (1 + fabs(v[d])));
			}
			for (int d = op->heads.v_dim; d % 16 && !op->heads.v_in_k && op->heads.v_type != QN_KV_Q4; d++)
				check_near("padding of v", d,
				           kv_at(s, s->kv, s->r->batch.seq[t], s->r->batch.pos[t], h, 1, d), 0, 0);
		}
	}
	/* Positions before the batch's are as they were. */
	for (int t = 0; t < s->r->batch.n_tok; t++) {
		const int window = s->t->shape->window, now = s->r->batch.pos[t];

		for (int pos = window && now >= window ? now - window + 1 : 0; pos < now; pos++) {
			int ours = 0;

			for (int i = 0; i < s->r->batch.n_tok; i++)
				ours |= s->r->batch.seq[i] == s->r->batch.seq[t] && s->r->batch.pos[i] == pos;
			for (int d = 0; !ours && d < op->heads.head_dim; d++) {
				const int seq = s->r->batch.seq[t], h = pos % op->heads.n_head_kv;

				check_near("k before", d, kv_at(s, s->kv, seq, pos, h, 0, d),
				           kv_at(s, s->kv_was, seq, pos, h, 0, d), 0);
			}
			for (int d = 0; !ours && d < op->heads.v_dim; d++) {
				const int seq = s->r->batch.seq[t], h = pos % op->heads.n_head_kv;

				check_near("v before", d, kv_at(s, s->kv, seq, pos, h, 1, d),
				           kv_at(s, s->kv_was, seq, pos, h, 1, d), 0);
			}
		}
	}
}

/* What the score of token t's head h for the key at position p gets of their distance. */
static double related(const struct scene *s, int t, int h, int p)
{
	const struct qn_relative *rel = &s->op->attend.relative;
	const struct qn_batch *b = &s->r->batch;
	const int d = b->pos[t] - p, i = d < -rel->span ? -rel->span : d > rel->span ? rel->span : d;
	const int at = h * rel->step + rel->at[rel->span + i];
	double sum = rel->by_query < 0 ? 0 : (double)row(s, rel->by_query, t)[at];

	for (int key = 0; key < b->n_tok && rel->by_key >= 0; key++)
		if (b->seq[key] == b->seq[t] && b->pos[key] == p)
			sum += (double)row(s, rel->by_key, key)[at];
	return sum;
}

static void attend(const struct scene *s)
{
	const struct qn_attend *op = &s->op->attend;
	static double score[KV_COLS * QN_KV_BLOCK];

	for (int t = 0; t < s->r->batch.n_tok; t++)
		for (int h = 0; h < op->heads.n_head; h++) {
			const int seq = s->r->batch.seq[t], pos = s->r->batch.pos[t],
				  hk = h / (op->heads.n_head / op->heads.n_head_kv);
			const int end = s->r->batch.pos[batch_run(&s->r->batch, t) - 1];
			const int last = end - pos > op->ahead ? pos + op->ahead : end;
			const int near = op->window && pos >= op->window ? pos - op->window + 1 : 0;
			const int from = op->chunked ? pos / op->window * op->window : near;
			double q[128], y[128];
			double max = op->sinks ? (double)op->sinks[h] : -INFINITY, sum = 0, most = 0, error = 1.5e-5;
			const double cap = (double)op->softcap * growth(s, op->temp_log, t);

			for (int d = 0; d < op->heads.head_dim; d++)
				q[d] = (double)row(s, QKV, t)[op->q.col + h * op->heads.head_dim + d];
			if (op->heads.k_type == QN_KV_Q4)
				check_hadamard(q, op->heads.head_dim);
			for (int d = 0; d < op->heads.head_dim; d++)
				most = fabs(q[d]) > most ? fabs(q[d]) : most;
			for (int p = from; p <= last; p++) {
				double size = 0;

				score[p] = 0;
				for (int d = 0; d < op->heads.head_dim; d++) {
					score[p] += q[d] * kv_at(s, s->kv, seq, p, hk, 0, d);
					size += fabs(kv_at(s, s->kv, seq, p, hk, 0, d));
				}
				/* the query is rounded as well */
				size *= kv_expanded(op->heads.k_type) == QN_KV_Q8 ? 0.51 * most / 127 : 0;
				error = size > error ? size : error;
				if (op->softcap > 0)
					score[p] = cap * tanh(score[p] / cap);
				if (op->bias) {
					const int n = op->span, i = p - pos < -n ? -n : p - pos > n ? n : p - pos;

					score[p] += (double)op->bias[h * 2 * (n + QN_KV_BLOCK) + n + QN_KV_BLOCK - 1 +
					                            i];
				}
				if (op->relative.at)
					score[p] += related(s, t, h, p);
				max = score[p] > max ? score[p] : max;
			}
			for (int p = from; p <= last; p++)
				sum += score[p] = exp(score[p] - max);
			if (op->sinks)
				sum += exp((double)op->sinks[h] - max);
			for (int d = 0; d < op->heads.v_dim; d++) /* as values are kept */
				y[d] = (double)row(s, ATT, t)[h * op->heads.v_dim + d] /
				       channel(op->mul, hk, op->heads.v_dim, d);
			if (op->heads.v_in_k &&
			    op->heads.k_type == QN_KV_Q4) { /* with what was transformed with them */
				const int block = op->heads.head_dim & -op->heads.head_dim;

				for (int at = 0; at < op->heads.v_dim; at += block)
					check_hadamard(y + at, block);
			} else if (value_type(&op->heads) == QN_KV_Q4) {
				check_hadamard(y, op->heads.v_dim);
			}
			for (int d = 0; d < op->heads.v_dim; d++) {
				double want = 0, size = 0;

				for (int p = from; p <= last; p++) {
					const double x = score[p] / sum * kv_at(s, s->kv, seq, p, hk, 1, d);

					want += x;
					size += fabs(x);
				}
				check_near("y", h * op->heads.v_dim + d, y[d], want,
				           expm1(2 * error) * size + (kv_integer(value_type(&op->heads)) ? 1e-3 : 0));
			}
		}
}

/* What op says the experts' logits of a token are worth. */
static void worths(double *worth, const struct qn_op *op, const float *logits)
{
	double sum = 0;

	for (int e = 0; e < op->routing.n_expert; e++)
		sum += worth[e] = op->moe_route.gating == QN_GATE_SIGMOID         ? 1 / (1 + exp(-(double)logits[e]))
		                  : op->moe_route.gating == QN_GATE_SQRT_SOFTPLUS ? sqrt(log1p(exp((double)logits[e])))
		                                                        : exp((double)logits[e]);
	for (int e = 0; e < op->routing.n_expert && op->moe_route.gating != QN_GATE_SIGMOID &&
	     op->moe_route.gating != QN_GATE_SQRT_SOFTPLUS; e++)
		worth[e] /= sum;
}

/* How an expert is ranked, before groups are left out. */
static double score_of(const struct qn_op *op, const double *worth, int e)
{
	return worth[e] + (op->moe_route.bias ? (double)op->moe_route.bias[e] : 0);
}

/* A group's best, or the sum of its two best. */
static double group_score(const struct qn_op *op, const double *worth, int g)
{
	const int size = op->routing.n_expert / op->moe_route.n_group;
	double best = -INFINITY, second = -INFINITY;

	for (int e = g * size; e < (g + 1) * size; e++) {
		const double x = score_of(op, worth, e);

		second = x > best ? best : x > second ? x : second;
		best = x > best ? x : best;
	}
	return size > 1 && !op->moe_route.group_best ? best + second : best;
}

/* 1 where so many groups are better than that of expert e that it cannot be chosen. */
static int left_out(const struct qn_op *op, const double *worth, int e)
{
	const int g = op->moe_route.n_group > 1 ? e / (op->routing.n_expert / op->moe_route.n_group) : 0;
	int better = 0;

	for (int i = 0; i < op->moe_route.n_group && op->moe_route.n_group > 1; i++)
		better += group_score(op, worth, i) > group_score(op, worth, g) + 1e-6;
	return op->moe_route.n_group > 1 && better >= op->moe_route.n_group_used;
}

/* The weight of choice k by SparseMixer: among those left that are nearly as good. */
static double mixed(const struct qn_op *op, const float *logits, const int32_t *expert, int k)
{
	const double m = (double)logits[expert[k]];
	double sum = 0;

	for (int i = 0; i < op->routing.n_expert; i++) {
		const double x = (double)logits[i];
		int before = 0;

		for (int j = 0; j < k; j++)
			before |= expert[j] == i;
		if (!before && (m - x) <= 0.02f * fmax(fabs(x), m))
			sum += exp(x - m);
	}
	return 1 / sum;
}

/* The choices of a token are the best, best first, and weigh what they should. */
static void chosen(const struct qn_op *op, const float *logits, const int32_t *expert, const float *weight)
{
	const int size = op->moe_route.n_group > 1 ? op->routing.n_expert / op->moe_route.n_group : 0; /* of groups */
	static double worth[4096];
	double sum = 0, all = 0;

	check_true(op->routing.n_expert <= COUNT(worth), "more experts than the check has room for");
	worths(worth, op, logits);
	for (int k = 0; k < op->routing.n_used; k++) {
		sum += worth[expert[k]];
		all += exp((double)logits[expert[k]]);
	}
	for (int k = 0; k < op->routing.n_used; k++) {
		const int e = expert[k];
		double want = worth[e];

		if (op->moe_route.gating == QN_GATE_CHOSEN)
			want = exp((double)logits[e]) / all;
		else if (op->moe_route.gating == QN_GATE_MIXER)
			want = mixed(op, logits, expert, k);
		else if (op->moe_route.norm_weights)
			want /= sum;
		check_near("weight", k, (double)weight[k], want * (double)op->moe_route.scale, 1e-5 * want + 1e-30);
		if (op->moe_route.choice)
			continue; /* they are not the best */
		if (!check_true(!left_out(op, worth, e), "expert %d is of a group that is left out", e))
			return;
		for (int i = 0; i < op->routing.n_expert; i++) {
			int before = 0;

			for (int j = 0; j < k; j++)
				before |= expert[j] == i;
			if (before || i == e || left_out(op, worth, i))
				continue;
			/* groups that are nearly as good as each other could be left out or not */
			if (size && i / size != e / size)
				continue;
			if (!check_true(op->moe_route.bias || op->moe_route.n_group > 1
			                        ? score_of(op, worth, i) <=
			                                  score_of(op, worth, e) + 1e-6
			                        : logits[i] < logits[e] ||
			                                  (logits[i] == logits[e] && i > e),
			                "choice %d is %d, and %d is better", k, e, i))
				return;
		}
	}
}

/* The routing is a permutation of pairs by expert, and its choices are the best. */
static void routing(const struct qn_op *op, const struct qn_buf *bufs, int n_tok)
{
	const struct qn_buf *src = &bufs[op->moe_route.src];
	const struct route r = route_of(bufs, &op->routing, n_tok);
	int32_t *last = calloc((size_t)op->routing.n_expert, sizeof *last); /* pair of each expert's last token */

	check_true(r.offset[0] == 0 && r.offset[op->routing.n_expert] == n_tok * op->routing.n_used,
	           "offsets from %d to %d", r.offset[0], r.offset[op->routing.n_expert]);
	for (int e = 0; e < op->routing.n_expert; e++)
		last[e] = r.offset[e] - 1;
	for (int t = 0; t < n_tok; t++) {
		chosen(op, (const float *)src->data + t * src->width, r.expert + t * op->routing.n_used,
		       r.weight + t * op->routing.n_used);
		for (int k = 0; k < op->routing.n_used; k++) {
			const int e = r.expert[t * op->routing.n_used + k], p = r.pair[t * op->routing.n_used + k];

			check_true(p == last[e] + 1 && p < r.offset[e + 1], "pair %d of token %d, expert %d", p, t, e);
			last[e] = p;
		}
	}
	free(last);
}

static void moe_route(const struct scene *s)
{
	routing(s->op, s->r->bufs, s->r->batch.n_tok);
}

static void moe_gather(const struct scene *s)
{
	const int n_tok = s->r->batch.n_tok, pairs = n_tok * N_USED;
	const struct route r = route_of(s->r->bufs, &s->op->routing, n_tok);

	for (enum qn_act k = 0; k < QN_N_ACT; k++)
		for (int i = 0; i < pairs; i++)
			for (int b = 0; b < N_EMBD / QN_ACT_BLOCK; b++) {
				const uint8_t *got = s->r->bufs[PAIR + k].data, *want = s->r->bufs[ACT + k].data;

				got += (b * pairs + r.pair[i]) * act_bytes(k);
				want += (b * n_tok + i / N_USED) * act_bytes(k);
				if (!s->op->moe_gather.weigh)
					check_bytes("activations", got, want, act_bytes(k));
				for (int j = 0; j < QN_ACT_BLOCK && s->op->moe_gather.weigh; j++) {
					const double y = act_value(want, k, j) * (double)r.weight[i];

					check_near("activation", j, act_value(got, k, j), y,
					           (k == QN_ACT_BF16 ? 0x1p-8 : 1e-6) * fabs(y));
				}
			}
}

static void moe_combine(const struct scene *s)
{
	const struct route r = route_of(s->r->bufs, &s->op->routing, s->r->batch.n_tok);

	for (int t = 0; t < s->r->batch.n_tok; t++)
		for (int i = 0; i < N_EMBD; i++) {
			double want = s->op->moe_combine.add ? (double)row_was(s, X, t)[i] : 0;
			double size = fabs(want);

			for (int k = 0; k < N_USED; k++) {
				const double x = (s->op->moe_combine.weighed ? 1 : (double)r.weight[t * N_USED + k]) *
				                 (double)row(s, PAIR_OUT, r.pair[t * N_USED + k])[i];

				want += x;
				size += fabs(x);
			}
			check_near("x", i, (double)row(s, X, t)[i], want, 1e-6 * size);
		}
}

/* The buffer that an operation writes into, or an array of them by kind of activations, NULL for none. */
static int32_t written(const struct qn_op *op, const int32_t **acts)
{
	*acts = NULL;
	switch (op->kind) {
	case QN_OP_EMBED: return op->embed.dst;
	case QN_OP_ROPE_TABLE: return op->rope_table.dst;
	case QN_OP_GATHER: return op->gather.dst;
	case QN_OP_NORM_ROWS: return op->norm_rows.dst.buf;
	case QN_OP_GATE: return op->gate.dst.buf;
	case QN_OP_XIELU: return op->xielu.dst.buf;
	case QN_OP_MATMUL: return op->matmul.dst;
	case QN_OP_QKV: return op->qkv.src;
	case QN_OP_ATTEND: return op->attend.dst;
	case QN_OP_MOE_ROUTE: return op->routing.buf;
	case QN_OP_MOE_COMBINE: return op->moe_combine.dst;
	case QN_OP_MOE_GATHER: *acts = op->moe_gather.dst; return -1;
	default: *acts = op->to_act.act; return -1;
	}
}

/* What an operation does not write stays. */
static void untouched(const struct scene *s)
{
	const int32_t *acts, dst = written(s->op, &acts);

	for (int i = 0; i < N_BUFS; i++) {
		int own = i == dst;

		for (int k = 0; k < QN_N_ACT; k++)
			own |= acts && i == acts[k];
		if (!own)
			check_bytes("a buffer that is not its own", s->r->bufs[i].data, s->was[i],
			            (int64_t)s->r->bytes[i]);
	}
	if (s->op->kind != QN_OP_QKV || s->op->qkv.q_only)
		check_bytes("the KV pool", s->kv, s->kv_was, s->t->kv_bytes);
}

static void judge(const struct scene *s, int first)
{
	switch (s->op->kind) {
	case QN_OP_EMBED: embed(s); break;
	case QN_OP_ROPE_TABLE: rope_table(s); break;
	case QN_OP_GATHER: gather(s); break;
	case QN_OP_NORM: case QN_OP_ACT: act(s); break;
	case QN_OP_NORM_ROWS: norm_rows(s); break;
	case QN_OP_GATE: gate(s); break;
	case QN_OP_XIELU: xielu(s); break;
	case QN_OP_MATMUL: matmul(s, first); break;
	case QN_OP_QKV: qkv(s); break;
	case QN_OP_ATTEND: attend(s); break;
	case QN_OP_MOE_ROUTE: moe_route(s); break;
	case QN_OP_MOE_GATHER: moe_gather(s); break;
	case QN_OP_MOE_COMBINE: moe_combine(s); break;
	}
}

/* Runs the operation in as much scratch as it says it needs, and no more. */
static void run(const struct scene *s, struct qn_pool *pool)
{
	const size_t bytes = qn_plan_scratch(s->op, 1, N_TOK) * (size_t)qn_pool_threads(pool);
	struct guard g = guard_new(bytes);

	run_ops(pool, s->op, 1, s->r->bufs, &s->r->batch, guard_fill(&g, bytes), bytes, NULL);
	guard_intact("scratch", &g);
	guard_free(&g);
}

/* Rows wider than an embedding end in zeros. */
static void embed_wide(struct scene *s, struct qn_pool *pool)
{
	struct qn_op op = s->t->ops[0];
	const int64_t width = s->r->bufs[ATT].width;

	op.embed.dst = ATT;
	s->op = &op;
	run(s, pool);
	for (int t = 0; t < s->r->batch.n_tok; t++)
		for (int64_t i = N_EMBD; i < width; i++)
			check_near("padding", i, (double)row(s, ATT, t)[i], 0, 0);
}

/* Rows by position, that behind a source too, the first, and those of texts of pairs, added to what is there. */
static void embed_added(const struct scene *s, struct qn_pool *pool)
{
	static const int32_t source[N_SEQ] = {1, 7, 0, 3}, second[N_SEQ] = {63, 0, 4, 6};
	struct scene one = *s;
	struct tiny_run r = *s->r;
	const int n = s->r->batch.pos[s->r->batch.n_tok - 1] + 2000;
	struct qn_op op = s->t->ops[0];
	void *data = guard_alloc((size_t)n * qn_row_bytes(QN_F16, N_EMBD));

	for (int i = 0; i < n * N_EMBD; i++)
		((uint16_t *)data)[i] = (uint16_t)(0x3800 + rnd_below(0x800));
	op.embed.table = (struct qn_mat){.type = QN_F16, .data = data, .n_in = N_EMBD, .n_out = n, .n_mat = 1};
	op.embed.add = 1;
	one.op = &op;
	one.r = &r;
	r.batch.source = source;
	r.batch.second = second;
	for (op.embed.index = QN_INDEX_TOK; op.embed.index <= QN_INDEX_TEXT; op.embed.index++) {
		memcpy(s->was[X], s->r->bufs[X].data, s->r->bytes[X]);
		run(&one, pool);
		embed(&one);
	}
}

/* A text alone has the results that it has among others. */
static void attend_alone(const struct scene *s, struct qn_pool *pool)
{
	const struct qn_batch *b = &s->r->batch;

	for (int t = 0, end; t < b->n_tok; t = end) {
		const int64_t q = s->r->bufs[QKV].width, y = s->r->bufs[ATT].width;
		struct scene one = *s;
		struct tiny_run r;

		end = (int)batch_run(b, t);
		one.r = &r;
		tiny_open(&r, s->t, s->kv, t, end, 2);
		memcpy(r.bufs[QKV].data, row(s, QKV, t), sizeof(float) * (size_t)(q * (end - t)));
		memcpy(r.bufs[X].data, row(s, X, t), sizeof(float) * (size_t)(N_EMBD * (end - t)));
		run(&one, pool);
		check_floats("alone", r.bufs[ATT].data, row(s, ATT, t), (int)y * (end - t));
		tiny_close(&r);
	}
}

/* Queries alone: keys, values and the KV pool stay, and the groups are not looked at. */
static void queries(struct scene *s, struct qn_pool *pool)
{
	struct tiny_run r = *s->r;
	struct qn_op op = {0};
	struct scene alone;

	for (int i = 0; i < s->t->n_ops; i++)
		if (s->t->ops[i].kind == QN_OP_QKV)
			op = s->t->ops[i];
	op.qkv.q_only = 1;
	s->op = &op;
	for (int b = 0; b < N_BUFS; b++)
		memcpy(s->was[b], s->r->bufs[b].data, s->r->bytes[b]);
	memcpy(s->kv_was, s->kv, (size_t)s->t->kv_bytes);
	r.batch.groups = NULL;
	alone = *s;
	alone.r = &r;
	run(&alone, pool);
	qkv(s);
	untouched(s);
	for (int t = 0; t < s->r->batch.n_tok; t++)
		check_floats("keys and values", row(s, QKV, t) + op.qkv.col[1], row_was(s, QKV, t) + op.qkv.col[1],
		             s->r->bufs[QKV].width - op.qkv.col[1]);
}

static void model(const struct shape *shape, struct qn_pool *pool, int layout)
{
	static struct tiny t;
	struct tiny_run r;
	struct scene s = {.t = &t, .r = &r};
	int first = 0;

	tiny_new(&t, shape);
	tiny_layout(&t, layout);
	s.kv = guard_alloc((size_t)t.kv_bytes);
	s.kv_was = guard_alloc((size_t)t.kv_bytes);
	memcpy(s.kv, t.kv_start, (size_t)t.kv_bytes);
	tiny_open(&r, &t, s.kv, 0, check_quick ? 13 : N_TOK, 2);
	for (int i = 0; i < N_BUFS; i++)
		s.was[i] = guard_alloc(r.bytes[i]);
	check_at(check_sets, "plan of tiny model %s", shape->name);
	if (!check_true(qn_plan_check(t.ops, t.n_ops, r.bufs, N_BUFS) == QN_OK, "refused"))
		return;
	for (int i = 0; i < t.n_ops; first += t.ops[i].kind == QN_OP_MATMUL ? t.ops[i].matmul.n_mat : 0, i++) {
		s.op = &t.ops[i];
		for (int b = 0; b < N_BUFS; b++)
			memcpy(s.was[b], r.bufs[b].data, r.bytes[b]);
		memcpy(s.kv_was, s.kv, (size_t)t.kv_bytes);
		check_at(check_sets, "operation %d of tiny model %s, kind %d", i, shape->name, s.op->kind);
		run(&s, pool);
		judge(&s, first);
		untouched(&s);
		if (s.op->kind == QN_OP_ATTEND)
			attend_alone(&s, pool);
	}
	check_at(check_sets, "embeddings added to those of tiny model %s", shape->name);
	embed_added(&s, pool);
	check_at(check_sets, "embedding of tiny model %s in wide rows", shape->name);
	if (r.bufs[ATT].width > N_EMBD)
		embed_wide(&s, pool);
	check_at(check_sets, "queries of tiny model %s", shape->name);
	queries(&s, pool);
	tiny_close(&r);
	guard_free_all();
}

enum { CONV_TOK = 11, CONV_TAPS = 4, CONV_SRC = 0, CONV_DST = 1 };

/*
 * Runs tokens from .. to of two sequences, the second of which has 4: from nothing where in < 0, else from the states
 * in units 0 and 2, to those in 1 and 3.
 */
static void conv_run(struct qn_pool *pool, const struct qn_op *op, float *src, float *dst, float *state,
                     int64_t unit, int from, int to, int in)
{
	int32_t seq[CONV_TOK], table[2][2] = {{in, 1}, {in < 0 ? -1 : 2, 3}};
	const struct qn_group group = group_of(state, unit, table[0], 2);
	const int width = (op->conv.n_col + 15) / 16 * 16, out = op->conv.n_result * width;
	const struct qn_buf bufs[2] = {{src + (int64_t)from * 3 * width, 3 * width},
	                               {dst + (int64_t)from * out, out}};
	const struct qn_batch batch = {.seq = seq, .groups = &group, .n_tok = to - from, .n_seq = 2, .n_group = 1};

	for (int t = from; t < to; t++)
		seq[t - from] = t >= CONV_TOK - 4;
	check_true(qn_plan_check(op, 1, bufs, 2) == QN_OK, "refused");
	run_ops(pool, op, 1, bufs, &batch, NULL, 0, NULL);
}

/*
 * A convolution over all tokens, and over them in two batches: the same, and the formula, of `segs` results. plain:
 * without gates, SiLU; 2: and biases.
 */
static void conv(struct qn_pool *pool, int n, int plain, int segs)
{
	const int width = (n + 15) / 16 * 16, out = segs * width, each = segs * n;
	const int64_t unit = 64 + (CONV_TAPS - 1) * n * (int64_t)sizeof(float) / 64 * 64 + 64;
	float *src = guard_alloc(sizeof *src * 3 * CONV_TOK * (size_t)width);
	float *w = guard_alloc(sizeof *w * CONV_TAPS * (size_t)each), *bias = guard_alloc(sizeof *bias * (size_t)each);
	float *dst[2], *state[2];
	const struct qn_op op = {
		.kind = QN_OP_CONV,
		.conv = {
			.src = CONV_SRC, .dst = CONV_DST, .col = {0, plain ? -1 : width, plain ? -1 : 2 * width},
			.fn = plain ? QN_FN_SILU : QN_FN_NONE, .n_col = n, .n_result = segs, .n_tap = CONV_TAPS,
			.weight = w, .bias = plain > 1 ? bias : NULL, .state = {.offset = 64},
		},
	};

	check_at(check_sets, "%d convolutions of %d columns%s", segs, n, plain ? ", plain" : "");
	for (int i = 0; i < 3 * CONV_TOK * width; i++)
		src[i] = rnd_normal();
	for (int i = 0; i < CONV_TAPS * each; i++)
		w[i] = rnd_normal();
	for (int i = 0; i < each; i++)
		bias[i] = rnd_normal();
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * CONV_TOK * (size_t)out);
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(dst[i], 0, sizeof **dst * CONV_TOK * (size_t)out);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	conv_run(pool, &op, src, dst[0], state[0], unit, 0, CONV_TOK, -1);
	for (int t = 0; t < CONV_TOK; t++)
		for (int e = 0; e < each; e++) {
			const int first = t >= CONV_TOK - 4 ? CONV_TOK - 4 : 0, i = e % n;
			const double gate = plain ? 1 : (double)src[t * 3 * width + width + i];
			double want = op.conv.bias ? (double)bias[e] : 0, size = fabs(want);

			for (int tap = 0; tap < CONV_TAPS; tap++) {
				const int at = t - (CONV_TAPS - 1) + tap;
				const float *x = src + (int64_t)at * 3 * width + i;

				if (at >= first) {
					const double u = (double)x[0] * (plain ? 1 : (double)x[2 * width]);

					want += u * (double)w[e * CONV_TAPS + tap];
					size += fabs(u * (double)w[e * CONV_TAPS + tap]);
				}
			}
			want *= plain ? 1 / (1 + exp(-want)) : gate;
			check_near("y", t * each + e, (double)dst[0][t * out + e], want,
			           1e-6 * size * (plain ? 2 : fabs(gate)));
		}
	for (int cut = 1; cut < CONV_TOK - 4; cut++) { /* of the first sequence */
		memset(state[1], 0x55, 4 * (size_t)unit);
		conv_run(pool, &op, src, dst[1], state[1], unit, 0, cut, -1);
		check_at(check_sets, "convolution of %d columns, cut at %d", n, cut);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		memcpy((uint8_t *)state[1] + 2 * unit, (uint8_t *)state[1] + 3 * unit, (size_t)unit);
		conv_run(pool, &op, src, dst[1], state[1], unit, cut, CONV_TOK - 4, 0);
		for (int t = 0; t < CONV_TOK - 4; t++)
			check_floats("y", dst[1] + t * out, dst[0] + t * out, each);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64,
		            (CONV_TAPS - 1) * n * (int64_t)sizeof(float));
	}
	guard_free_all();
}

/* Convolutions that read what is ahead, of three results that are gated, and have no state. */
static void conv_ahead(struct qn_pool *pool, int n, int ahead)
{
	enum { SEGS = 3 };
	const int out = SEGS * n;
	float *src = guard_alloc(sizeof *src * 3 * CONV_TOK * (size_t)n);
	float *w = guard_alloc(sizeof *w * CONV_TAPS * (size_t)out);
	float *dst = guard_alloc(sizeof *dst * CONV_TOK * (size_t)out);
	const struct qn_op op = {
		.kind = QN_OP_CONV,
		.conv = {
			.src = CONV_SRC, .dst = CONV_DST, .col = {0, n, 2 * n}, .fn = QN_FN_NONE, .n_col = n,
			.n_result = SEGS, .n_tap = CONV_TAPS, .ahead = ahead, .weight = w, .state = {.offset = 1},
		},
	};

	check_at(check_sets, "convolutions of %d columns, %d ahead", n, ahead);
	for (int i = 0; i < 3 * CONV_TOK * n; i++)
		src[i] = rnd_normal();
	for (int i = 0; i < CONV_TAPS * out; i++)
		w[i] = rnd_normal();
	conv_run(pool, &op, src, dst, NULL, 0, 0, CONV_TOK, -1);
	for (int t = 0; t < CONV_TOK; t++)
		for (int e = 0; e < out; e++) {
			const int first = t >= CONV_TOK - 4 ? CONV_TOK - 4 : 0, end = first ? CONV_TOK : CONV_TOK - 4;
			double want = 0, size = 0;

			for (int tap = 0; tap < CONV_TAPS; tap++) {
				const int at = t + ahead - (CONV_TAPS - 1) + tap;
				const float *x = src + (int64_t)at * 3 * n + e % n;

				if (at >= first && at < end) {
					const double u = (double)x[0] * (double)x[2 * n];

					want += u * (double)w[e * CONV_TAPS + tap];
					size += fabs(u * (double)w[e * CONV_TAPS + tap]);
				}
			}

			const double gate = (double)src[t * 3 * n + n + e % n];

			check_near("y", t * out + e, (double)dst[t * out + e], want * gate, 1e-6 * size * fabs(gate));
		}
	guard_free_all();
}

/* Runs tokens from .. to of the two sequences of conv_run(), with the same states. */
static void lru_run(struct qn_pool *pool, const struct qn_op *op, float *src, float *dst, float *state, int64_t unit,
                    int from, int to, int in)
{
	int32_t seq[CONV_TOK], table[2][2] = {{in, 1}, {in < 0 ? -1 : 2, 3}};
	const struct qn_group group = group_of(state, unit, table[0], 2);
	const int width = (op->lru.n_col + 15) / 16 * 16;
	const struct qn_buf bufs[2] = {{src + (int64_t)from * 2 * width, 2 * width},
	                               {dst + (int64_t)from * width, width}};
	const struct qn_batch batch = {.seq = seq, .groups = &group, .n_tok = to - from, .n_seq = 2, .n_group = 1};

	for (int t = from; t < to; t++)
		seq[t - from] = t >= CONV_TOK - 4;
	check_true(qn_plan_check(op, 1, bufs, 2) == QN_OK, "refused");
	run_ops(pool, op, 1, bufs, &batch, NULL, 0, NULL);
}

/* A recurrent unit over all tokens, and over them in two batches: the same, and the formula. */
static void lru(struct qn_pool *pool, int n)
{
	const int width = (n + 15) / 16 * 16;
	const int64_t unit = 64 + (n * (int64_t)sizeof(float) + 63) / 64 * 64;
	float *src = guard_alloc(sizeof *src * 2 * CONV_TOK * (size_t)width), *dst[2], *state[2];
	double *h = guard_alloc(sizeof *h * (size_t)n);
	double *bound = guard_alloc(sizeof *bound * (size_t)n); /* of the error of h */
	const struct qn_op op = {
		.kind = QN_OP_LRU,
		.lru = {.src = {CONV_SRC, 0}, .decay = {CONV_SRC, width}, .dst = CONV_DST, .n_col = n,
		        .state = {.offset = 64}},
	};

	check_at(check_sets, "a recurrent unit of %d columns", n);
	for (int i = 0; i < 2 * CONV_TOK * width; i++)
		src[i] = i / width % 2 ? -fabsf(rnd_normal()) : rnd_normal();
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * CONV_TOK * (size_t)width);
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(dst[i], 0, sizeof **dst * CONV_TOK * (size_t)width);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	lru_run(pool, &op, src, dst[0], state[0], unit, 0, CONV_TOK, -1);
	for (int t = 0; t < CONV_TOK; t++)
		for (int i = 0; i < n; i++) {
			const double a = exp((double)src[(2 * t + 1) * width + i]), x = (double)src[2 * t * width + i];

			if (t == 0 || t == CONV_TOK - 4) {
				h[i] = x;
				bound[i] = 0;
			} else { /* where a is nearly 1, its last bit is a large part of 1 - a^2 */
				h[i] = a * h[i] + sqrt(1 - a * a) * x;
				bound[i] = a * bound[i] + fabs(x) * 2e-7 / sqrt(1 - a * a + 2e-7);
			}
			check_near("h", t * n + i, (double)dst[0][t * width + i], h[i],
			           bound[i] + 2e-6 * (1 + fabs(h[i]) + fabs(x)));
		}
	for (int cut = 1; cut < CONV_TOK - 4; cut++) { /* of the first sequence */
		memset(state[1], 0x55, 4 * (size_t)unit);
		lru_run(pool, &op, src, dst[1], state[1], unit, 0, cut, -1);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		lru_run(pool, &op, src, dst[1], state[1], unit, cut, CONV_TOK - 4, 0);
		for (int t = 0; t < CONV_TOK - 4; t++)
			check_floats("h", dst[1] + t * width, dst[0] + t * width, n);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64,
		            n * (int64_t)sizeof(float));
	}
	guard_free_all();
}

/* Activations of some columns. */
static void columns(struct qn_pool *pool)
{
	float src[3][96], act[3][QN_ACT_BLOCK];
	const struct qn_buf bufs[] = {{src, 96}, {act, QN_ACT_BLOCK}};
	const struct qn_batch batch = {.n_tok = 3};
	struct qn_op op = {.kind = QN_OP_ACT, .to_act = {.n_col = 40, .src = {.col = 48}}};

	for (int i = 0; i < 3 * 96; i++)
		src[i / 96][i % 96] = rnd_normal();
	for (int k = 0; k < QN_N_ACT; k++)
		op.to_act.act[k] = k == QN_ACT_F32 ? 1 : -1;
	check_at(check_sets, "activations of columns from %d on", op.to_act.src.col);
	check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
	run_ops(pool, &op, 1, bufs, &batch, NULL, 0, NULL);
	for (int t = 0; t < 3; t++)
		check_floats("act", act[t], src[t] + 48, 40);
}

/* Routings of the kinds that models have, in one share and in several. */
static void routes(struct qn_pool *pool)
{
	static const struct {
		int n_expert, n_used, gating, norm, bias, n_group, n_group_used, group_best;
	} kinds[] = {
		{256, 8, QN_GATE_SOFTMAX, 1, 0, 0, 0, 0}, {256, 8, QN_GATE_SIGMOID, 1, 1, 8, 4, 0},
		{384, 8, QN_GATE_SIGMOID, 0, 1, 1, 1, 0}, {32, 4, QN_GATE_CHOSEN, 0, 0, 0, 0, 0},
		{60, 6, QN_GATE_SOFTMAX, 0, 1, 6, 2, 0},  {16, 1, QN_GATE_SIGMOID, 0, 0, 0, 0, 0},
		{16, 2, QN_GATE_MIXER, 0, 0, 0, 0, 0},    {5, 5, QN_GATE_SOFTMAX, 1, 0, 5, 5, 0},
		{160, 6, QN_GATE_SOFTMAX, 0, 0, 8, 3, 1}, {4096, 256, QN_GATE_SIGMOID, 1, 0, 0, 0, 0},
		{256, 6, QN_GATE_SQRT_SOFTPLUS, 1, 1, 0, 0, 0}, {256, 6, QN_GATE_SQRT_SOFTPLUS, 1, 0, 0, 0, 2},
	};

	for (int i = 0; i < COUNT(kinds); i++) {
		const int n = kinds[i].n_expert, n_tok = n > 1000 ? 3 : 37, width = (n + 15) / 16 * 16;
		const size_t bytes = qn_route_bytes(n_tok, n, kinds[i].n_used);
		float *logits = guard_alloc(sizeof *logits * (size_t)(n_tok * width)),
		      *bias = guard_alloc(sizeof *bias * (size_t)n);
		struct qn_buf bufs[2] = {{logits, width}, {guard_alloc(bytes), 16}};
		const int said = kinds[i].group_best == 2; /* by the tokens */
		int32_t tok[37], choice[11 * 8];
		const struct qn_batch batch = {.n_tok = n_tok, .tok = tok};
		const struct qn_op op = {
			.kind = QN_OP_MOE_ROUTE, .routing = {.buf = 1, .n_expert = n, .n_used = kinds[i].n_used},
			.moe_route = {
				.src = 0, .gating = kinds[i].gating, .norm_weights = kinds[i].norm, .scale = 2.5f,
				.bias = kinds[i].bias ? bias : NULL, .n_group = kinds[i].n_group,
				.n_group_used = kinds[i].n_group_used, .group_best = kinds[i].group_best,
				.choice = said ? choice : NULL,
			},
		};

		for (int k = 0; k < n; k++)
			bias[k] = rnd_uniform();
		for (int k = 0; k < COUNT(tok); k++)
			tok[k] = rnd_below(11);
		for (int k = 0; said && k < 11 * op.routing.n_used; k++)
			choice[k] = rnd_below(n);
		for (int k = 0; k < n_tok * width; k++)
			logits[k] = rnd_below(8) ? 2 * rnd_normal() : (float)rnd_below(3); /* some are equal */
		memset(bufs[1].data, 0x55, bytes);
		check_at(check_sets, "routing to %d of %d experts, gating %d", op.routing.n_used, n,
		         op.moe_route.gating);
		check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
		run_ops(pool, &op, 1, bufs, &batch, NULL, 0, NULL);
		routing(&op, bufs, n_tok);
		for (int k = 0; said && k < n_tok * op.routing.n_used; k++)
			check_true(route_of(bufs, &op.routing, n_tok).expert[k] ==
			                   choice[tok[k / op.routing.n_used] * op.routing.n_used +
			                          k % op.routing.n_used],
			           "expert %d is none of its token's", k);
	}
	guard_free_all();
}

enum { SAME_TOK = 11, SAME_EXPERTS = 6, SAME = 5, SAME_USED = 4, SAME_COLS = 48, SAME_HEADS = 3 };

/*
 * Some experts return their input: their pairs come last, and what is combined has their input. Heads of pairs go to
 * the rows of tokens, and back.
 */
static void same_experts(struct qn_pool *pool)
{
	enum { LOGITS_, ROUTE_, SRC_, SAME_, DST_, TOK_, BACK_, BUFS_ };
	const int pairs = SAME_TOK * SAME_USED, n = SAME_EXPERTS + SAME, wide = SAME_COLS * SAME_USED;
	const int widths[BUFS_] = {16, 16, SAME_COLS, SAME_COLS, SAME_COLS, wide, SAME_COLS};
	const int rows[BUFS_] = {SAME_TOK, 0, pairs, SAME_TOK, SAME_TOK, SAME_TOK, pairs};
	const struct qn_routing routing = {.buf = ROUTE_, .n_expert = SAME_EXPERTS, .n_used = SAME_USED};
	const struct qn_batch batch = {.n_tok = SAME_TOK, .tok = (int32_t[SAME_TOK]){0}};
	struct qn_op ops[4] = {
		{.kind = QN_OP_MOE_ROUTE, .routing = routing,
		 .moe_route = {.src = LOGITS_, .n_same = SAME, .scale = 2.5f}},
		{.kind = QN_OP_MOE_COMBINE, .routing = routing,
		 .moe_combine = {.src = SRC_, .dst = DST_, .same = SAME_}},
		{.kind = QN_OP_MOE_HEADS, .routing = routing},
		{.kind = QN_OP_MOE_HEADS, .routing = routing},
	};
	struct qn_buf bufs[BUFS_];
	float *bias = guard_alloc(sizeof *bias * (size_t)n);

	check_at(check_sets, "experts that return their input");
	for (int i = 0; i < BUFS_; i++) {
		const size_t count = (size_t)(rows[i] * widths[i]);

		bufs[i] = (struct qn_buf){
			guard_alloc(i == ROUTE_ ? qn_route_bytes(SAME_TOK, SAME_EXPERTS, SAME_USED)
			                        : sizeof(float) * count),
			widths[i],
		};
		for (size_t k = 0; k < count; k++)
			((float *)bufs[i].data)[k] = 2 * rnd_normal();
	}
	for (int e = 0; e < n; e++)
		bias[e] = 0.1f * rnd_uniform();
	ops[0].moe_route.bias = bias;
	ops[2].moe_heads = (struct qn_moe_heads){
		.tok = TOK_, .pair = SRC_, .n_head = SAME_HEADS, .head_dim = SAME_COLS / SAME_HEADS,
	};
	ops[3].moe_heads = ops[2].moe_heads;
	ops[3].moe_heads.pair = BACK_;
	ops[3].moe_heads.to_pairs = 1;
	check_true(qn_plan_check(ops, 4, bufs, BUFS_) == QN_OK, "refused");
	run_ops(pool, ops, 4, bufs, &batch, NULL, 0, NULL);

	const struct route r = route_of(bufs, &routing, SAME_TOK);
	int with = 0, *seen = calloc((size_t)pairs, sizeof *seen);

	for (int t = 0; t < SAME_TOK; t++) {
		const float *logits = (float *)bufs[LOGITS_].data + t * 16, *tok = (float *)bufs[TOK_].data + t * wide;
		double sum = 0, least = INFINITY;

		for (int e = 0; e < n; e++)
			sum += exp((double)logits[e]);
		for (int k = 0; k < SAME_USED; k++) {
			const int i = t * SAME_USED + k, e = r.expert[i];

			with += e < SAME_EXPERTS;
			check_true(!seen[r.pair[i]]++, "pair %d is of two", r.pair[i]);
			if (check_true(e >= 0 && e < n, "expert %d", e) && e < SAME_EXPERTS)
				check_true(r.pair[i] >= r.offset[e] && r.pair[i] < r.offset[e + 1], "pair %d",
				           r.pair[i]);
			else
				check_true(r.pair[i] >= r.offset[SAME_EXPERTS], "pair %d of none", r.pair[i]);
			check_near("weight", i, (double)r.weight[i], 2.5 * exp((double)logits[e]) / sum, 1e-5);
			least = fmin(least, exp((double)logits[e]) / sum + (double)bias[e]);
			for (int h = 0; h < SAME_HEADS; h++)
				check_floats("head", tok + (h * SAME_USED + k) * SAME_COLS / SAME_HEADS,
				             (float *)bufs[SRC_].data + r.pair[i] * SAME_COLS +
				                     h * SAME_COLS / SAME_HEADS,
				             SAME_COLS / SAME_HEADS);
		}
		for (int e = 0; e < n; e++) {
			int is = 0;

			for (int k = 0; k < SAME_USED; k++)
				is |= r.expert[t * SAME_USED + k] == e;
			check_true(is || exp((double)logits[e]) / sum + (double)bias[e] <= least + 1e-6,
			           "%d is better", e);
		}
		for (int i = 0; i < SAME_COLS; i++) {
			double want = 0, size = 0;

			for (int k = 0; k < SAME_USED; k++) {
				const int at = t * SAME_USED + k;
				const float *x = r.expert[at] < SAME_EXPERTS
				                         ? (float *)bufs[SRC_].data + r.pair[at] * SAME_COLS
				                         : (float *)bufs[SAME_].data + t * SAME_COLS;

				want += (double)r.weight[at] * (double)x[i];
				size += fabs((double)r.weight[at] * (double)x[i]);
			}
			check_near("x", i, (double)((float *)bufs[DST_].data)[t * SAME_COLS + i], want, 1e-6 * size);
		}
	}
	check_true(r.offset[0] == 0 && r.offset[SAME_EXPERTS] == with && with > 0 && with < pairs,
	           "%d pairs of experts with matrices, of %d", r.offset[SAME_EXPERTS], with);
	check_floats("back", bufs[BACK_].data, bufs[SRC_].data, pairs * SAME_COLS);
	free(seen);
	guard_free_all();
}

/* Attention in both directions, to the ends of a text and in a window. */
static const struct shape encoders[] = {
	{"encoder", 6, 3, 16, 16, QN_ROPE_NEOX, QN_KV_F16, QN_KV_I16, 0, 0, 5, 0, 0, 1,
	 {QN_Q8_0, QN_Q8_0, QN_Q8_0}, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0,
	 0, 1, QN_FN_GELU_ERF, 0, 0, 0, 0, 0, INT32_MAX, 0},
	{"windowed encoder", 4, 4, 32, 32, QN_ROPE_NEOX, QN_KV_F16, QN_KV_F32, 4, 0, 0, 0, 0, 1,
	 {QN_Q8_0, QN_Q8_0, QN_Q8_0}, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0,
	 0, 0, QN_FN_GELU_ERF, 0, 0, 0, 0, 0, 3, 0},
	{"relative encoder", 8, 4, 16, 0, QN_ROPE_NONE, QN_KV_F16, QN_KV_F32, 0, 1, 0, 0, 0, 1,
	 {QN_Q8_0, QN_Q8_0, QN_Q8_0}, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0,
	 0, 0, QN_FN_GELU_ERF, 0, 0, 0, 0, 0, INT32_MAX, 12},
};

/* A text of several tiles behind another one, with what is relative, or part of it. */
static void pairs(struct qn_pool *pool)
{
	enum { TOK = 150, BEFORE = 5, HEADS_N = 3, DIM = 16, N = 20, STEP = 32, SPAN = 130, BLOCKS = 4 };
	const int64_t unit = (int64_t)qn_kv_bytes(QN_KV_F32, QN_KV_F32, HEADS_N, DIM, DIM), each = unit / HEADS_N;
	int32_t pos[BEFORE + TOK], seq[BEFORE + TOK], at[2 * SPAN + 1], table[2][BLOCKS] = {{3}, {2, 0, 1}};
	const struct qn_group group = group_of(guard_alloc((size_t)unit * BLOCKS), unit, table[0], BLOCKS);
	const struct qn_batch batch = {.pos = pos, .seq = seq, .groups = &group, .n_tok = BEFORE + TOK, .n_seq = 2,
	                               .n_group = 1};
	float *data[5], *kv = guard_alloc(sizeof *kv * 2 * (BEFORE + TOK) * HEADS_N * DIM);
	struct qn_buf bufs[5]; /* queries, by query, by key, results and the first of these */
	struct qn_op op = {
		.kind = QN_OP_ATTEND,
		.attend = {
			.heads = {.n_head = HEADS_N, .n_head_kv = HEADS_N, .head_dim = DIM, .v_dim = DIM,
			          .k_type = QN_KV_F32, .v_type = QN_KV_F32},
			.q = {0, 0}, .dst = 3, .ahead = INT32_MAX,
			.relative = {.at = at, .n = N, .step = STEP, .span = SPAN},
		},
	};

	for (int i = 0; i < 5; i++) {
		const int64_t width = i == 1 || i == 2 ? HEADS_N * STEP : HEADS_N * DIM;

		data[i] = guard_alloc(sizeof(float) * (size_t)((BEFORE + TOK) * width));
		for (int64_t k = 0; k < (BEFORE + TOK) * width; k++)
			data[i][k] = rnd_normal();
		bufs[i] = (struct qn_buf){data[i], width};
	}
	for (int i = 0; i <= 2 * SPAN; i++)
		at[i] = rnd_below(N);
	for (int t = 0; t < BEFORE + TOK; t++) {
		seq[t] = t >= BEFORE;
		pos[t] = seq[t] ? t - BEFORE : t;
		for (int h = 0; h < HEADS_N; h++) {
			uint8_t *block = (uint8_t *)group.data + table[seq[t]][pos[t] / 64] * unit + h * each;
			float *k = kv + (t * HEADS_N + h) * 2 * DIM;

			for (int d = 0; d < 2 * DIM; d++)
				k[d] = rnd_normal();
			kv_put_k(QN_KV_F32, block, pos[t] % 64, k, DIM);
			kv_put_v(QN_KV_F32, block + kv_k_bytes(QN_KV_F32, DIM), pos[t] % 64, k + DIM, DIM);
		}
	}
	for (int terms = 0; terms < 4; terms++) {
		op.attend.relative.by_query = terms & 1 ? 1 : -1;
		op.attend.relative.by_key = terms & 2 ? 2 : -1;
		EACH_SET(s) {
			const size_t bytes = qn_plan_scratch(&op, 1, TOK) * (size_t)qn_pool_threads(pool);

			qn_init(s->isa);
			op.attend.dst = s == check_sets ? 4 : 3;
			check_at(s, "attention by pairs, terms %d", terms);
			check_true(qn_plan_check(&op, 1, bufs, 5) == QN_OK, "refused");
			run_ops(pool, &op, 1, bufs, &batch, guard_alloc(bytes), bytes, NULL);
			if (s != check_sets)
				check_floats("y", data[3], data[4], (BEFORE + TOK) * HEADS_N * DIM);
		}
		for (int t = 0; t < BEFORE + TOK; t++)
			for (int h = 0; h < HEADS_N; h++) {
				double sum = 0, y[DIM] = {0};

				for (int key = 0; key < BEFORE + TOK; key++) {
					const int d = pos[t] - pos[key], far = d < -SPAN ? -SPAN : d > SPAN ? SPAN : d;
					const int i = h * STEP + at[SPAN + far];
					const float *k = kv + (key * HEADS_N + h) * 2 * DIM;
					double score = (terms & 1 ? (double)data[1][t * HEADS_N * STEP + i] : 0) +
					               (terms & 2 ? (double)data[2][key * HEADS_N * STEP + i] : 0);

					if (seq[key] != seq[t])
						continue;
					for (int c = 0; c < DIM; c++)
						score += (double)data[0][(t * HEADS_N + h) * DIM + c] * (double)k[c];
					sum += exp(score);
					for (int c = 0; c < DIM; c++)
						y[c] += exp(score) * (double)k[DIM + c];
				}
				for (int c = 0; c < DIM; c++)
					check_near("y", (t * HEADS_N + h) * DIM + c,
					           (double)data[4][(t * HEADS_N + h) * DIM + c], y[c] / sum, 2e-5);
			}
	}
	guard_free_all();
}

enum { STREAM_TOK = 9, STREAM_COLS = 272, STREAMS = 4 }; /* two blocks of columns */

/* Runs op over buffers of STREAM_TOK rows of x and y, and of the weights w. */
static void stream_run(struct qn_pool *pool, const struct qn_op *op, float *x, float *y, float *w)
{
	const struct qn_buf bufs[3] = {{x, STREAM_COLS * STREAMS}, {y, STREAM_COLS * STREAMS}, {w, 16}};
	const struct qn_batch batch = {.n_tok = STREAM_TOK};

	const size_t bytes = qn_plan_scratch(op, 1, STREAM_TOK) * (size_t)qn_pool_threads(pool);

	check_true(qn_plan_check(op, 1, bufs, 3) == QN_OK, "refused");
	run_ops(pool, op, 1, bufs, &batch, guard_alloc(bytes), bytes, NULL);
}

/* What streams are mixed, matched and made sparse with, against the formulas. */
static void streams(struct qn_pool *pool)
{
	enum { ROW = STREAM_COLS * STREAMS, N = STREAM_TOK * ROW };
	float *x = guard_alloc(sizeof *x * N), *y = guard_alloc(sizeof *y * N), *was = guard_alloc(sizeof *was * N);
	float *w = guard_alloc(sizeof *w * STREAM_TOK * 16);
	struct qn_op op = {
		.kind = QN_OP_MIX,
		.mix = {
			.src = {0, 0}, .dst = {1, 0}, .weight = {2, 0}, .n_col = STREAM_COLS, .n_seg = STREAMS,
			.n_src = STREAMS,
		},
	};

	for (int i = 0; i < N; i++) {
		x[i] = rnd_normal();
		y[i] = rnd_normal();
	}
	for (int i = 0; i < STREAM_TOK * 16; i++)
		w[i] = rnd_normal();
	for (int kind = 0; kind < 4; kind++) {
		const int in_place = kind & 1, add = kind < 2;
		const float *from = in_place ? was : x;

		check_at(check_sets, "mix of streams, in place %d, added %d", in_place, add);
		op.mix.src.buf = in_place;
		op.mix.add = add;
		memcpy(was, y, sizeof *y * N);
		stream_run(pool, &op, x, y, w);
		for (int i = 0; i < N; i++) {
			const int t = i / ROW, s = i % ROW / STREAM_COLS, at = i % STREAM_COLS;
			double want = add ? (double)was[i] : 0, size = fabs(want);

			for (int j = 0; j < STREAMS; j++) {
				const double a = (double)w[t * 16 + s * STREAMS + j] *
				                 (double)from[t * ROW + j * STREAM_COLS + at];

				want += a;
				size += fabs(a);
			}
			check_near("y", i, (double)y[i], want, 1e-6 * size);
		}
	}
	check_at(check_sets, "mix of streams by their scores");
	op = (struct qn_op){
		.kind = QN_OP_MIX,
		.mix = {
			.src = {0, 0}, .dst = {1, 0}, .weight = {-1, 0}, .n_col = STREAM_COLS, .n_seg = 1,
			.n_src = STREAMS, .score = x + ROW, .eps = 1e-3f,
		},
	};
	stream_run(pool, &op, x, y, w);
	for (int t = 0; t < STREAM_TOK; t++) {
		double share[STREAMS], sum = 0;

		for (int j = 0; j < STREAMS; j++) {
			const float *z = x + t * ROW + j * STREAM_COLS;
			double squares = 0, score = 0;

			for (int i = 0; i < STREAM_COLS; i++) {
				squares += pow((double)z[i], 2);
				score += (double)z[i] * (double)op.mix.score[i];
			}
			sum += share[j] = exp(score / sqrt(squares / STREAM_COLS + (double)op.mix.eps));
		}
		for (int i = 0; i < STREAM_COLS; i++) {
			double want = 0, size = 0;

			for (int j = 0; j < STREAMS; j++) {
				const double a = share[j] / sum * (double)x[t * ROW + j * STREAM_COLS + i];

				want += a;
				size += fabs(a);
			}
			check_near("y", i, (double)y[t * ROW + i], want, 1e-4 * size);
		}
	}
	check_at(check_sets, "length of a stream");
	op = (struct qn_op){
		.kind = QN_OP_MATCH,
		.match = {.src = {0, 0}, .dst = {1, STREAM_COLS}, .n_col = STREAM_COLS},
	};
	memset(y + STREAM_COLS, 0, sizeof *y * STREAM_COLS); /* of token 0: it stays nothing */
	memcpy(was, y, sizeof *y * N);
	stream_run(pool, &op, x, y, w);
	for (int t = 0; t < STREAM_TOK; t++) {
		double is = 0, want = 0;

		for (int i = 0; i < STREAM_COLS; i++) {
			want += pow((double)x[t * ROW + i], 2);
			is += pow((double)was[t * ROW + STREAM_COLS + i], 2);
		}
		for (int i = 0; i < ROW; i++) {
			const int of = i / STREAM_COLS == 1;
			const double y0 = (double)was[t * ROW + i] * (of && is > 0 ? sqrt(want / is) : 1);

			check_near("y", i, (double)y[t * ROW + i], y0, of ? 1e-6 * fabs(y0) : 0);
		}
	}
	check_at(check_sets, "sparse");
	op = (struct qn_op){
		.kind = QN_OP_SPARSE,
		.sparse = {.dst = {1, STREAM_COLS}, .n_col = STREAM_COLS, .cutoff = 1.2f},
	};
	memcpy(was, y, sizeof *y * N);
	stream_run(pool, &op, x, y, w);
	for (int t = 0; t < STREAM_TOK; t++) {
		const float *z = was + t * ROW + STREAM_COLS;
		double mean = 0, squares = 0;

		for (int i = 0; i < STREAM_COLS; i++)
			mean += (double)z[i] / STREAM_COLS;
		for (int i = 0; i < STREAM_COLS; i++)
			squares += pow((double)z[i] - mean, 2);
		for (int i = 0; i < STREAM_COLS; i++)
			check_near("y", i, (double)y[t * ROW + STREAM_COLS + i],
			           fmax((double)z[i] - mean -
			                        (double)op.sparse.cutoff * sqrt(squares / (STREAM_COLS - 1)), 0),
			           1e-5);
		check_floats("before", y + t * ROW, was + t * ROW, STREAM_COLS);
	}
	check_at(check_sets, "blend");
	op = (struct qn_op){
		.kind = QN_OP_BLEND,
		.blend = {
			.src = {0, 0}, .dst = {1, STREAM_COLS}, .by = {0, STREAM_COLS}, .n_col = STREAM_COLS,
			.fn = QN_FN_SIGMOID,
		},
	};
	memcpy(was, y, sizeof *y * N);
	stream_run(pool, &op, x, y, w);
	for (int i = 0; i < N; i++) {
		const int t = i / ROW, at = i % STREAM_COLS, of = i % ROW / STREAM_COLS == 1;
		const double by = 1 / (1 + exp(-(double)x[t * ROW + STREAM_COLS + at])), old = (double)was[i];

		check_near("y", i, (double)y[i], old + (of ? by * ((double)x[t * ROW + at] - old) : 0),
		           of ? 1e-6 * (fabs(old) + 1) : 0);
	}
	check_at(check_sets, "blend by the numbers themselves");
	op.blend.fn = QN_FN_NONE;
	memcpy(was, y, sizeof *y * N);
	stream_run(pool, &op, x, y, w);
	for (int i = 0; i < N; i++) {
		const int t = i / ROW, at = i % STREAM_COLS, of = i % ROW / STREAM_COLS == 1;
		const double by = (double)x[t * ROW + STREAM_COLS + at], old = (double)was[i];

		check_near("y", i, (double)y[i], old + (of ? by * ((double)x[t * ROW + at] - old) : 0),
		           of ? 4e-6 * (fabs(old) + 1) * (fabs(by) + 1) : 0);
	}
	check_at(check_sets, "agreement of streams");
	op = (struct qn_op){
		.kind = QN_OP_ALIGN,
		.align = {
			.src = {0, 0}, .dst = 2, .with = {1, 0}, .n_col = STREAM_COLS, .n_seg = STREAMS,
			.scale = 0.25f,
		},
	};
	memset(y + STREAM_COLS, 0, sizeof *y * STREAM_COLS); /* a segment that agrees with nothing */
	for (int i = 0; i < STREAM_COLS; i++) /* and one whose product is small */
		y[i] = i ? 0 : 1e-9f / x[0];
	stream_run(pool, &op, x, y, w);
	for (int i = 0; i < STREAM_TOK * STREAMS; i++) {
		const int at = i / STREAMS * ROW + i % STREAMS * STREAM_COLS;
		double d = 0, size = 0;

		for (int k = 0; k < STREAM_COLS; k++) {
			d += (double)x[at + k] * (double)y[at + k] / 4;
			size += fabs((double)x[at + k] * (double)y[at + k]) / 4;
		}

		const double root = d == 0 ? 0 : copysign(sqrt(fmax(fabs(d), 1e-6)), d);

		check_near("agreement", i, (double)w[i / STREAMS * 16 + i % STREAMS], 1 / (1 + exp(-root)),
		           1e-6 + 1e-6 * size / fmax(fabs(root), 1e-3));
	}
	for (int by_row = 0; by_row < 2; by_row++) {
		check_at(check_sets, "products, by row %d", by_row);
		op = (struct qn_op){
			.kind = QN_OP_GATE,
			.gate = {
				.src = {0, 0}, .dst = {1, STREAM_COLS}, .n_col = STREAM_COLS, .fn = QN_FN_NONE,
				.by_row = by_row,
			},
		};
		memcpy(was, y, sizeof *y * N);
		stream_run(pool, &op, x, y, w);
		for (int i = 0; i < N; i++) {
			const float by = x[i / ROW * ROW + (by_row ? 0 : i % STREAM_COLS)];

			const double product = (double)was[i] * (i % ROW / STREAM_COLS == 1 ? (double)by : 1);

			check_near("y", i, (double)y[i], product, 1e-7 * fabs(product));
		}
	}
	check_at(check_sets, "activations from a column");
	op = (struct qn_op){
		.kind = QN_OP_NORM,
		.to_act = {
			.norm = {.kind = QN_NORM_NONE, .weight = x}, .src = {0, STREAM_COLS}, .n_col = STREAM_COLS,
			.act = {-1, -1, -1, -1, -1, -1, -1, -1},
		},
	};
	op.to_act.act[QN_ACT_F32] = 1;
	stream_run(pool, &op, x, y, w);
	for (int i = 0; i < STREAM_TOK * STREAM_COLS; i++) {
		const int t = i / STREAM_COLS, at = i % STREAM_COLS;
		const uint8_t *blocks = (const uint8_t *)y +
		                        (at / QN_ACT_BLOCK * STREAM_TOK + t) * act_bytes(QN_ACT_F32);

		check_near("activation", i, act_value(blocks, QN_ACT_F32, at % QN_ACT_BLOCK),
		           (double)x[t * ROW + STREAM_COLS + at] * (double)x[at], 1e-6);
	}
	guard_free_all();
}

/* Rows that hashes of the last tokens choose: two sequences, the first cut at any place. */
static void ngrams(struct qn_pool *pool)
{
	enum { TOKENS = 3, HASHES = 4, LENGTH = 24, SECOND = 7, ROWS = 40, EMBD = 8, STOP = 9, UNIT = 64 + 16 };
	static const uint64_t hash[TOKENS + 2 * HASHES] = {3, 1000003, UINT64_C(88172645463325252), 11, 7, 13, 9,
	                                                   0, 11, 18, 31};
	static const int32_t table[2][2] = {{-1, 0}, {-1, 1}}, later[2][2] = {{0, 0}, {-1, 1}};
	int32_t tok[LENGTH + SECOND], pos[LENGTH + SECOND], seq[LENGTH + SECOND];
	float *rows = guard_alloc(sizeof *rows * ROWS * EMBD);
	float *want = guard_alloc(sizeof *want * (LENGTH + SECOND) * HASHES * EMBD);
	float *dst = guard_alloc(sizeof *dst * (LENGTH + SECOND) * HASHES * EMBD);
	uint8_t *state = guard_alloc(2 * UNIT);
	const struct qn_buf buf = {dst, HASHES * EMBD};
	const struct qn_op op = {
		.kind = QN_OP_NGRAM,
		.ngram = {
			.table = {.data = rows, .type = QN_F32, .n_in = EMBD, .n_out = ROWS, .n_mat = 1},
			.hash = hash, .n_token = TOKENS, .n_hash = HASHES, .stop = STOP, .state = {.offset = 64},
		},
	};

	check_at(check_sets, "rows of hashed tokens");
	for (int i = 0; i < ROWS * EMBD; i++)
		rows[i] = rnd_normal();
	for (int i = 0; i < LENGTH + SECOND; i++) {
		tok[i] = rnd_below(12);
		seq[i] = i >= LENGTH;
		pos[i] = seq[i] ? i - LENGTH : i;
	}
	for (int i = 0; i < LENGTH + SECOND; i++)
		for (int h = 0; h < HASHES; h++) {
			uint64_t mixed = 0;
			int ended = 0;

			for (int back = 0; back <= 1 + h / (HASHES / (TOKENS - 1)); back++) {
				ended = ended || back > pos[i] || (back > 0 && tok[i - back] == STOP);
				mixed ^= hash[back] * (uint64_t)(ended ? STOP : tok[i - back]);
			}
			memcpy(want + (i * HASHES + h) * EMBD,
			       rows + (mixed % hash[TOKENS + h] + hash[TOKENS + HASHES + h]) * EMBD,
			       sizeof *rows * EMBD);
		}
	for (int cut = 0; cut < LENGTH; cut++) {
		memset(state, 0x55, 2 * UNIT);
		for (int part = cut ? 0 : 1; part < 2; part++) {
			const int from = part ? cut : 0, to = part ? LENGTH + SECOND : cut;
			const struct qn_group group =
				group_of(state, UNIT, part && cut ? &later[0][0] : &table[0][0], 2);
			const struct qn_batch batch = {.tok = tok + from, .pos = pos + from, .seq = seq + from,
			                               .groups = &group, .n_tok = to - from, .n_seq = 2, .n_group = 1};
			const struct qn_buf at = {(float *)buf.data + (int64_t)from * buf.width, buf.width};

			check_true(qn_plan_check(&op, 1, &at, 1) == QN_OK, "refused");
			run_ops(pool, &op, 1, &at, &batch, NULL, 0, NULL);
		}
		check_floats("rows", dst, want, (LENGTH + SECOND) * HASHES * EMBD);
	}
	guard_free_all();
}

/* What streams are mixed by: rows and columns sum to 1, and a matrix that does so already stays as it is. */
static void connections(struct qn_pool *pool)
{
	enum { N = STREAMS, IN = N * (2 + N) };
	float *m = guard_alloc(sizeof *m * 3 * 32), *y = guard_alloc(sizeof *y * 3 * 48), base[IN];
	const float scale[3] = {0.5f, 2, 1.5f};
	const struct qn_buf bufs[2] = {{m, 32}, {y, 48}};
	const struct qn_batch batch = {.n_tok = 3};
	struct qn_op op = {
		.kind = QN_OP_CONNECT,
		.connect = {.src = {0, 0}, .dst = 1, .n_stream = N, .bias = base, .scale = scale, .eps = 1e-6f},
	};

	for (int i = 0; i < IN; i++)
		base[i] = rnd_normal();
	for (int i = 0; i < 3 * 32; i++)
		m[i] = rnd_normal();
	for (op.connect.rounds = 0; op.connect.rounds < 30; op.connect.rounds += 3) {
		check_at(check_sets, "weights of streams, %d rounds", op.connect.rounds);
		check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
		run_ops(pool, &op, 1, bufs, &batch, NULL, 0, NULL);
		for (int t = 0; t < 3; t++) {
			const float *x = m + t * 32, *got = y + t * 48;
			double by[N][N];

			for (int i = 0; i < N; i++)
				check_near("pre", i, (double)got[i],
				           1e-6 + 1 / (1 + exp(-(double)(scale[0] * x[i] + base[i]))), 1e-6);
			if (op.connect.rounds == 0)
				continue;
			for (int i = 0; i < N; i++)
				check_near("post", i, (double)got[16 + i],
				           2 / (1 + exp(-(double)(scale[1] * x[N + i] + base[N + i]))), 1e-6);
			for (int i = 0; i < N; i++) {
				double sum = 0;

				for (int k = 0; k < N; k++)
					sum += by[i][k] = exp((double)(scale[2] * x[2 * N + i * N + k] +
					                               base[2 * N + i * N + k]));
				for (int k = 0; k < N; k++)
					by[i][k] = by[i][k] / sum + 1e-6;
			}
			for (int half = 1; half < 2 * op.connect.rounds; half++)
				for (int i = 0; i < N; i++) { /* columns, then rows in turns */
					double sum = 1e-6;

					for (int k = 0; k < N; k++)
						sum += half % 2 ? by[k][i] : by[i][k];
					for (int k = 0; k < N; k++)
						*(half % 2 ? &by[k][i] : &by[i][k]) /= sum;
				}
			for (int i = 0; i < N * N; i++)
				check_near("mixed", i, (double)got[32 + i], by[i % N][i / N], 1e-5);
		}
	}
	guard_free_all();
}

/* SiTU: a gate with a cap beside its function, times what it opens, within a limit or as it is. */
static double situ(const struct qn_op *op, double gate, double up)
{
	const double cap = (double)op->matmul.softcap, limit = (double)op->matmul.limit;

	return cap * tanh(gate / cap) / (1 + exp(-gate)) * (limit > 0 ? limit * tanh(up / limit) : up);
}

/* Products within a limit, and with a function of what is. */
static void limits(struct qn_pool *pool)
{
	enum { N = 32, TOK = 5 };
	float *w[2] = {guard_alloc(sizeof(float) * N * N), guard_alloc(sizeof(float) * N * N)};
	float *act = guard_alloc(qn_act_bytes(QN_ACT_F32, TOK, N));
	float *y = guard_alloc(sizeof *y * TOK * 2 * N), want[TOK][2][N];
	const struct qn_buf bufs[2] = {{act, N}, {y, 2 * N}};
	const struct qn_batch batch = {.n_tok = TOK};
	struct qn_op op = {
		.kind = QN_OP_MATMUL,
		.matmul = {
			.dst = 1, .act = {-1, -1, -1, -1, -1, -1, -1, -1}, .n_mat = 2, .col = {0, N}, .scale = 1,
			.fn = QN_FN_SILU,
		},
	};

	op.matmul.act[QN_ACT_F32] = 0;
	memset(act, 0, qn_act_bytes(QN_ACT_F32, TOK, N));
	for (int t = 0; t < TOK; t++)
		for (int i = 0; i < N; i++)
			act[t * QN_ACT_BLOCK + i] = rnd_normal();
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < N * N; k++)
			w[i][k] = rnd_normal();
		op.matmul.mat[i] = (struct qn_mat){
			.data = w[i], .type = QN_F32, .layout = QN_ROWS, .n_in = N, .n_out = N, .n_mat = 1,
		};
	}
	for (int kind = 0; kind < 4; kind++) { /* without, within it, gated, the gate within it */
		const size_t bytes = qn_plan_scratch(&op, 1, TOK) * (size_t)qn_pool_threads(pool);

		check_at(check_sets, "products within a limit, %d", kind);
		op.matmul.limit = kind ? 2.5f : 0;
		op.matmul.epilogue = kind >= 2 ? QN_EPI_GLU : QN_EPI_STORE;
		op.matmul.limit_fn = kind == 3;
		check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
		run_ops(pool, &op, 1, bufs, &batch, guard_alloc(bytes), bytes, NULL);
		if (kind == 0)
			memcpy(want, y, sizeof want);
		for (int i = 0; kind && i < TOK * N; i++) {
			const double g0 = (double)want[i / N][0][i % N], g = fmin(g0, 2.5);
			const double gated = kind == 3 ? fmin(g0 / (1 + exp(-g0)), 2.5) : g / (1 + exp(-g));
			const double u = fmax(fmin((double)want[i / N][1][i % N], 2.5), -2.5);

			check_near("y", i, (double)y[i / N * 2 * N + i % N],
			           kind == 1 ? fmax(g, -2.5) : gated * u, 1e-5);
			if (kind == 1)
				check_near("y", i, (double)y[i / N * 2 * N + N + i % N], u, 0);
		}
	}
	for (int kind = 0; kind < 2; kind++) {
		const size_t bytes = qn_plan_scratch(&op, 1, TOK) * (size_t)qn_pool_threads(pool);

		check_at(check_sets, "gates with a cap, %d", kind);
		op.matmul.fn = QN_FN_SIGMOID;
		op.matmul.softcap = 1.5f;
		op.matmul.limit = kind ? 2.5f : 0;
		op.matmul.limit_fn = 0;
		check_true(qn_plan_check(&op, 1, bufs, 2) == QN_OK, "refused");
		run_ops(pool, &op, 1, bufs, &batch, guard_alloc(bytes), bytes, NULL);
		for (int i = 0; i < TOK * N; i++)
			check_near("y", i, (double)y[i / N * 2 * N + i % N],
			           situ(&op, (double)want[i / N][0][i % N], (double)want[i / N][1][i % N]), 1e-5);
	}
	guard_free_all();
}

void check_ops(void)
{
	struct qn_pool *pool;

	qn_init(check_sets[check_n_sets - 1].isa); /* the fastest: run/plan.c holds the others to it */
	check_at(check_sets, "qn_pool_create");
	if (!check_true(qn_pool_create(&pool, NULL, 2) == QN_OK, "no pool"))
		return;
	for (int i = 0; i < tiny_n_shapes; i++)
		model(&tiny_shapes[i], pool, i % 3);
	for (int type = 0; type < QN_N_KV_TYPES; type++) { /* values in keys of each type */
		struct shape shape = tiny_shapes[tiny_n_shapes - 1];

		shape.k_type = type;
		model(&shape, pool, type % 3);
	}
	for (int i = 0; i < COUNT(encoders); i++)
		model(&encoders[i], pool, i);
	for (int plain = 0; plain < 3; plain++) {
		conv(pool, 64, plain, 1);
		conv(pool, 200, plain, 1);
		conv(pool, 96, plain, 3);
	}
	for (int ahead = 1; ahead < CONV_TAPS; ahead++)
		conv_ahead(pool, 80, ahead);
	pairs(pool);
	lru(pool, 64);
	lru(pool, 200);
	columns(pool);
	routes(pool);
	same_experts(pool);
	streams(pool);
	connections(pool);
	ngrams(pool);
	limits(pool);
	qn_pool_destroy(pool);
}
