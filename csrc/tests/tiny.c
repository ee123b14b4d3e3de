/* tiny.c - builds the small model of tiny.h from random weights. */
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "tiny.h"

/*
 * Together they have every type of weights but some, keys shared by 1, 4 and 40 query heads (more
 * than a call of attention has rows), heads of no multiple of 16, values in keys, and what attention can do.
 */
const struct shape tiny_shapes[] = {
	{"gqa", 8, 2, 32, 32, QN_ROPE_NEOX, QN_KV_Q4, QN_KV_F16, 0, 0, 0, 0, 1, 1,
	 {QN_Q4_K, QN_Q4_K, QN_Q6_K}, QN_Q5_K, QN_Q4_K, QN_Q8_0, QN_Q4_K, QN_Q6_K, QN_Q6_K, QN_Q6_K,
	 0, 0, QN_FN_SILU, 0, 0, 0, 0, 0, 0, 0},
	{"mha", 4, 4, 20, 16, QN_ROPE_NORM, QN_KV_F32, QN_KV_I16, 70, 1, 0, 0, 1, 0,
	 {QN_F32, QN_Q8_0, QN_F16}, QN_BF16, QN_Q5_1, QN_Q4_0, QN_Q3_K, QN_IQ4_XS, QN_F16, QN_BF16,
	 36, 1, QN_FN_GELU, 0, 0, 0, 1, 0, 0, 0},
	{"wide", 80, 2, 12, 0, QN_ROPE_NONE, QN_KV_Q8, QN_KV_Q4, 0, 0, 40, 5, 0, 1,
	 {QN_Q2_K, QN_NVFP4, QN_IQ4_NL}, QN_Q4_1, QN_NVFP4, QN_IQ4_NL, QN_Q5_0, QN_NVFP4, QN_Q4_0, QN_F32,
	 8, 0, QN_FN_RELU2, 1, 3, 0, 1, 0, 0, 0},
	{"chunks", 6, 3, 16, 16, QN_ROPE_NEOX, QN_KV_F16, QN_KV_Q8, 63, 0, 0, 0, 0, 1,
	 {QN_Q8_0, QN_Q8_0, QN_Q8_0}, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_MXFP4, QN_MXFP4, QN_Q8_0, QN_Q8_0,
	 0, 0, QN_FN_SILU, 0, 0, 1, 0, 0, 0, 0},
	{"latent", 6, 1, 80, 16, QN_ROPE_NORM, QN_KV_I16, QN_KV_F16, 0, 0, 0, 0, 0, 1,
	 {QN_Q8_0, QN_Q8_0, QN_Q4_0}, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0, QN_Q8_0,
	 64, 0, QN_FN_SILU, 0, 0, 0, 0, 32, 0, 0},
};
const int tiny_n_shapes = COUNT(tiny_shapes);

static int pad16(int n)
{
	return (n + 15) / 16 * 16;
}

static const struct type *type_of(int type)
{
	EACH_TYPE(t)
		if (t->type == type)
			return t;
	return NULL;
}

static const float *vec(int n, float about, float spread)
{
	float *v = guard_alloc(sizeof *v * (size_t)n);

	for (int i = 0; i < n; i++)
		v[i] = about + spread * rnd_uniform();
	return v;
}

/* Of each head as many as of distances to `span` both ways, the first and the last of them 64 times. */
static const float *biases(int n_head, int span)
{
	const int n = 2 * (span + QN_KV_BLOCK), edge = QN_KV_BLOCK - 1;
	float *v = (float *)vec(n_head * n, 0, 2);

	for (int h = 0; h < n_head; h++)
		for (int i = 0; i <= edge; i++) {
			v[h * n + i] = v[h * n + edge];
			v[(h + 1) * n - 1 - i] = v[h * n + edge + 2 * span];
		}
	return v;
}

/*
 * One of n numbers for each distance near 0, and for more and more distances farther away. The numbers are what other
 * operations left: the residual, and queries, keys and values.
 */
static struct qn_relative relative(int n)
{
	const int span = 2 * n;
	int32_t *at = guard_alloc(sizeof *at * (size_t)(2 * span + 1));

	for (int i = 0; i <= 2 * span; i++) {
		const int d = i - span, far = d < 0 ? -d : d, log = far < n / 4 ? far : n / 4 + (far - n / 4) / 8;

		at[i] = n / 2 + (d < 0 ? -(log < n / 2 ? log : n / 2) : log < n / 2 ? log : n / 2 - 1);
	}
	return (struct qn_relative){.at = at, .by_query = X, .by_key = QKV, .n = n, .step = pad16(n), .span = span};
}

/* A matrix with random weights, in all layouts; mats[] and the ops' mat[] go together by data. */
static struct qn_mat mat(struct tiny *t, int type, int n_in, int n_out, int n_mat)
{
	const struct type *ty = type_of(type);
	const int64_t rows = (int64_t)n_out * n_mat, panels = (int64_t)pad16(n_out) / 16 * n_mat;
	const size_t row = qn_row_bytes(type, n_in), panel = qn_panel_bytes(type, n_in);
	const size_t twelve = type == QN_BF16 ? qn_twelve_bytes(n_in) : 0;
	uint8_t *src = guard_alloc((size_t)rows * row), *dst = guard_alloc((size_t)panels * panel);
	uint8_t *x12 = twelve ? guard_alloc((size_t)panels * twelve) : NULL;

	rnd_weights(ty, src, rows, n_in, 2 / sqrtf((float)n_in));
	for (int e = 0; e < n_mat; e++)
		for (int r = 0; r < n_out; r += 16) {
			const int status = qn_pack(type, dst, src + ((int64_t)e * n_out + r) * (int64_t)row,
			                           n_out - r < 16 ? n_out - r : 16, n_in);

			check_true(status == QN_OK, "qn_pack refuses %s", ty->name);
			dst += panel;
			if (twelve) {
				check_true(qn_pack_twelve(x12, src + ((int64_t)e * n_out + r) * (int64_t)row,
				                          n_out - r < 16 ? n_out - r : 16, n_in) == QN_OK,
				           "qn_pack_twelve refuses");
				x12 += twelve;
			}
		}
	t->mats[t->n_mats].x12 = twelve ? x12 - (size_t)panels * twelve : NULL;
	t->mats[t->n_mats].rows = src;
	t->mats[t->n_mats++].x16 = dst - (size_t)panels * panel;
	return (struct qn_mat){
		.data = src, .type = type, .layout = QN_ROWS, .n_in = n_in, .n_out = n_out, .n_mat = n_mat,
		.scale = type == QN_NVFP4 ? vec(n_mat, 1, 0.5f) : NULL,
	};
}

static struct qn_op *add(struct tiny *t, int kind, int rows)
{
	struct qn_op *op = &t->ops[t->n_ops++];

	*op = (struct qn_op){.kind = kind, .rows = rows, .routing = {ROUTE, N_EXPERT, N_USED}};
	return op;
}

#define ANY (-1)

/* The buffers of activations from number `first` on: of the kind that a type takes, or of all kinds. */
static void put_acts(int32_t act[QN_N_ACT], int first, int type)
{
	for (enum qn_act k = 0; k < QN_N_ACT; k++)
		act[k] = type == ANY || qn_type_act(type) == k ? first + (int)k : -1;
}

static struct qn_op *add_act(struct tiny *t, int kind, int rows, int src, int n, int act, int type)
{
	struct qn_op *op = add(t, kind, rows);

	op->to_act = (struct qn_to_act){.src = {src, 0}, .n_col = n};
	put_acts(op->to_act.act, act, type);
	if (kind == QN_OP_NORM) {
		op->to_act.norm.eps = 1e-5f;
		op->to_act.norm.weight = vec(n, 1, 0.5f);
		op->to_act.norm.kind = t->shape->layer ? QN_NORM_LAYER : QN_NORM_RMS;
		op->to_act.norm.bias = t->shape->layer ? vec(n, 0, 0.5f) : NULL;
	}
	return op;
}

static struct qn_op *add_matmul(struct tiny *t, int rows, int dst, int epilogue, int act, int type)
{
	struct qn_op *op = add(t, QN_OP_MATMUL, rows);

	op->matmul = (struct qn_matmul){.dst = dst, .epilogue = epilogue, .scale = 1};
	put_acts(op->matmul.act, act, type);
	for (int k = QN_N_ACT_ONE; k < QN_N_ACT && t->n_ops % 2 == 0; k++) /* every other product takes 16 bits */
		op->matmul.act[k] = -1;
	return op;
}

static void put_mat(struct tiny *t, struct qn_op *op, int type, int n_in, int n_out, int col, int bias)
{
	const int i = op->matmul.n_mat++;

	op->matmul.mat[i] = mat(t, type, n_in, n_out,
	                 op->rows == QN_ROWS_PAIR   ? (t->shape->chunked ? 1 : N_EXPERT) /* one for all */
	                 : op->rows == QN_ROWS_HEAD ? op->heads.n
	                                            : 1);
	op->matmul.col[i] = col;
	if (bias)
		op->matmul.bias[i] = vec(op->matmul.mat[i].n_mat * pad16(n_out), 0, 0.3f);
}

static struct qn_heads heads(const struct tiny *t)
{
	const struct shape *s = t->shape;

	return (struct qn_heads){
		.kv = {t->kv_offset, KV_GROUP},
		.n_head = s->n_head,
		.n_head_kv = s->n_head_kv,
		.head_dim = s->head_dim,
		.v_dim = tiny_v_dim(s),
		.v_in_k = s->latent != 0,
		.k_type = s->k_type,
		.v_type = s->v_type,
	};
}

static struct qn_op *add_norm_rows(struct tiny *t, int norm, int src, int dst, int n, int n_seg)
{
	struct qn_op *op = add(t, QN_OP_NORM_ROWS, QN_ROWS_TOK);

	op->norm_rows = (struct qn_norm_rows){
		.norm = {.kind = norm, .eps = 1e-5f}, .src = {src, 0}, .dst = {dst, 0}, .n_col = n, .n_seg = n_seg,
			.scale = 1,
	};
	return op;
}

/* Products of each head with a matrix of its own: n_in columns of src from col on, `from` apart, to n_out of dst. */
static void by_head(struct tiny *t, int type, int src, int col, int n_in, int from, int dst, int n_out, int to)
{
	struct qn_op *op = add_act(t, QN_OP_ACT, QN_ROWS_HEAD, src, n_in, HEADS, type);

	op->to_act.src.col = col;
	op->heads.n = t->shape->n_head;
	op->heads.step = from;
	op = add_matmul(t, QN_ROWS_HEAD, dst, QN_EPI_STORE, HEADS, type);
	op->heads.n = t->shape->n_head;
	op->heads.step = to;
	put_mat(t, op, type, n_in, n_out, 0, 1);
}

/* Queries whose last n_rot channels are where they belong, and keys. */
static void latent_queries(struct tiny *t)
{
	const struct shape *s = t->shape;
	const int plain = s->latent, n_v = tiny_v_dim(s);
	struct qn_op *op = add_matmul(t, QN_ROWS_TOK, QKV, QN_EPI_STORE, ACT, ANY);

	put_mat(t, op, s->qkv[1], N_EMBD, s->head_dim, s->n_head * s->head_dim, 0);
	op = add_matmul(t, QN_ROWS_TOK, QKV, QN_EPI_STORE, ACT, ANY);
	op->heads.n = s->n_head;
	op->heads.step = s->head_dim;
	put_mat(t, op, s->qkv[0], N_EMBD, s->n_head * (plain + s->n_rot), n_v - plain, 0);
	by_head(t, s->qkv[2], QKV, n_v - plain, plain, s->head_dim, QKV, n_v, s->head_dim);
}

static void attention(struct tiny *t)
{
	const struct shape *s = t->shape;
	const int n_q = s->n_head * s->head_dim, n_k = s->n_head_kv * s->head_dim;
	const int n_v = s->n_head_kv * tiny_v_dim(s), n_att = s->n_head * tiny_v_dim(s);
	struct qn_op *op;

	if (s->rope != QN_ROPE_NONE) {
		double *freq = guard_alloc(sizeof *freq * (size_t)(s->n_rot / 2));

		for (int i = 0; i < s->n_rot / 2; i++)
			freq[i] = pow(10000, -2.0 * i / s->n_rot);
		op = add(t, QN_OP_ROPE_TABLE, QN_ROWS_TOK);
		op->rope_table.dst = ROPE;
		op->rope_table.n_rot = s->n_rot;
		op->rope_table.freq = freq;
		op->rope_table.scale = 1.1f;
	}
	add_act(t, QN_OP_NORM, QN_ROWS_TOK, X, N_EMBD, ACT, ANY);
	if (s->latent) {
		latent_queries(t);
	} else {
		op = add_matmul(t, QN_ROWS_TOK, QKV, QN_EPI_STORE, ACT, ANY);
		put_mat(t, op, s->qkv[0], N_EMBD, n_q, 0, 1);
		put_mat(t, op, s->qkv[1], N_EMBD, n_k, pad16(n_q), 0);
		put_mat(t, op, s->qkv[2], N_EMBD, n_v, pad16(n_q) + pad16(n_k), 1);
	}
	if (s->layer) { /* queries, with weights for each head */
		op = add_norm_rows(t, QN_NORM_LAYER, QKV, QKV, s->head_dim, s->n_head);
		op->norm_rows.seg_weights = 1;
		op->norm_rows.norm.weight = vec(n_q, 1, 0.5f);
	}
	op = add(t, QN_OP_QKV, QN_ROWS_TOK);
	op->qkv = (struct qn_qkv){
		.heads = heads(t),
		.rope = {s->rope, s->rope != QN_ROPE_NONE ? ROPE : -1, s->latent ? tiny_v_dim(s) : 0, s->n_rot},
		.src = QKV,
		.col = {0, pad16(n_q), pad16(n_q) + pad16(n_k)},
		.eps = 1e-5f,
		.scale = 1 / sqrtf((float)s->head_dim),
		.temp_log = s->softcap > 0 ? 20 : 0,
	};
	if (s->layer) {
		op->qkv.temp = 0.1f;
		op->qkv.temp_span = 24;
		op->qkv.temp_offset = 1;
	}
	if (s->norm_heads) {
		op->qkv.q_norm = vec(s->head_dim, 1, 0.5f);
		op->qkv.k_norm = vec(s->head_dim, 1, 0.5f);
	}
	if (s->mul) {
		op->qkv.q_mul = vec(n_k, 1, 0.5f);
		op->qkv.k_mul = vec(n_k, 1, 0.5f);
		op->qkv.v_mul = vec(n_v, 1, 0.5f);
	}
	op = add(t, QN_OP_ATTEND, QN_ROWS_TOK);
	op->attend = (struct qn_attend){
		.heads = heads(t),
		.q = {QKV, 0},
		.dst = ATT,
		.window = s->window,
		.chunked = s->chunked,
		.softcap = s->softcap,
		.temp_log = s->softcap > 0 ? 20 : 0,
		.ahead = s->ahead,
		.span = s->span,
		.bias = s->span ? biases(s->n_head, s->span) : NULL,
		.sinks = s->sinks ? vec(s->n_head, 0, 3) : NULL,
		.mul = s->mul ? vec(n_v, 1, 0.5f) : NULL,
	};
	if (s->relative)
		op->attend.relative = relative(s->relative);
	if (s->layer) {
		op = add(t, QN_OP_GATE, QN_ROWS_TOK);
		op->gate.fn = QN_FN_SIGMOID;
		op->gate.src.buf = QKV;
		op->gate.dst.buf = ATT;
		op->gate.src.col = 16;
		op->gate.n_col = n_q - 16;
		op = add(t, QN_OP_GATE, QN_ROWS_TOK);
		op->gate.fn = QN_FN_SIGMOID;
		op->gate.by_row = 1;
		op->gate.src.buf = QKV;
		op->gate.dst.buf = ATT;
		op->gate.n_col = n_att;
		op = add(t, QN_OP_GATE, QN_ROWS_TOK); /* a number for each head */
		op->gate.fn = QN_FN_SOFTPLUS;
		op->gate.by_row = 1;
		op->gate.n_seg = s->n_head;
		op->gate.src.buf = QKV;
		op->gate.dst.buf = ATT;
		op->gate.n_col = n_att / s->n_head;
	}
	if (s->latent)
		by_head(t, s->out, ATT, 0, n_v, n_v, VALUES, n_v, n_v + 16);
	add_act(t, QN_OP_ACT, QN_ROWS_TOK, s->latent ? VALUES : ATT, n_att, ACT, ANY);
	op = add_matmul(t, QN_ROWS_TOK, X, QN_EPI_ADD, ACT, ANY);
	put_mat(t, op, s->out, n_att, N_EMBD, 0, 1);
	op->matmul.scale = s->layer ? 0.7f : 1;
	if (s->layer) { /* in place, and added */
		op = add_norm_rows(t, QN_NORM_RMS, X, X, N_EMBD / 4, 3);
		op->norm_rows.norm.weight = vec(N_EMBD / 4, 1, 0.5f);
		op->norm_rows.norm.bias = vec(N_EMBD / 4, 0, 0.5f);
		op->norm_rows.src.col = op->norm_rows.dst.col = N_EMBD / 4;
		op->norm_rows.scale = 1.5f;
		op = add_norm_rows(t, QN_NORM_NONE, X, X, N_EMBD / 4, 1); /* within limits */
		op->norm_rows.low = -1.25f;
		op->norm_rows.high = 2;
		op = add_norm_rows(t, QN_NORM_LAYER, ATT, X, n_att, 1);
		op->norm_rows.add = 1;
		op->norm_rows.scale = 0.5f;
	}
}

static void dense(struct tiny *t)
{
	const struct shape *s = t->shape;
	struct qn_op *op;

	add_act(t, QN_OP_NORM, QN_ROWS_TOK, X, N_EMBD, ACT, s->up);
	op = add_matmul(t, QN_ROWS_TOK, FF, s->plain ? QN_EPI_FN : QN_EPI_GLU, ACT, s->up);
	op->matmul.fn = s->fn;
	put_mat(t, op, s->up, N_EMBD, N_FF, 0, s->plain || s->layer);
	if (!s->plain)
		put_mat(t, op, s->up, N_EMBD, N_FF, 0, s->layer);
	if (s->chunked) {
		op = add(t, QN_OP_XIELU, QN_ROWS_TOK);
		op->xielu.dst.buf = FF;
		op->xielu.n_col = N_FF;
		op->xielu.param[0] = 0.8f;
		op->xielu.param[1] = 1.3f;
		op->xielu.param[2] = 0.5f;
		op->xielu.param[3] = -1e-6f;
	}
	add_act(t, QN_OP_ACT, QN_ROWS_TOK, FF, N_FF, ACT, s->down);
	op = add_matmul(t, QN_ROWS_TOK, X, QN_EPI_ADD, ACT, s->down);
	put_mat(t, op, s->down, N_FF, N_EMBD, 0, 0);
}

static void sparse(struct tiny *t)
{
	struct qn_op *op;

	add_act(t, QN_OP_NORM, QN_ROWS_TOK, X, N_EMBD, ACT, ANY);
	op = add_matmul(t, QN_ROWS_TOK, ROUTER, QN_EPI_STORE, ACT, QN_F32);
	put_mat(t, op, QN_F32, N_EMBD, N_EXPERT, 0, 0);
	op = add(t, QN_OP_MOE_ROUTE, QN_ROWS_TOK);
	op->moe_route.src = ROUTER;
	op->moe_route.norm_weights = t->shape->norm_weights;
	op->moe_route.gating = t->shape->layer ? QN_GATE_SIGMOID : QN_GATE_SOFTMAX;
	op->moe_route.bias = t->shape->layer ? vec(N_EXPERT, 0, 0.3f) : NULL;
	op->moe_route.scale = 1.5f;
	op = add(t, QN_OP_MOE_GATHER, QN_ROWS_PAIR);
	op->moe_gather.n_col = N_EMBD;
	op->moe_gather.weigh = t->shape->plain;
	put_acts(op->moe_gather.src, ACT, ANY);
	put_acts(op->moe_gather.dst, PAIR, ANY);
	op = add_matmul(t, QN_ROWS_PAIR, PAIR_FF, QN_EPI_GLU, PAIR, ANY);
	op->matmul.fn = t->shape->layer ? QN_FN_SWIGLU_CLAMP : QN_FN_SILU;
	put_mat(t, op, t->shape->exp_up, N_EMBD, N_FF_EXP, 0, t->shape->layer);
	put_mat(t, op, QN_F16, N_EMBD, N_FF_EXP, 0, t->shape->layer);
	add_act(t, QN_OP_ACT, QN_ROWS_PAIR, PAIR_FF, N_FF_EXP, PAIR_FF_ACT, ANY);
	op = add_matmul(t, QN_ROWS_PAIR, PAIR_OUT, QN_EPI_STORE, PAIR_FF_ACT, ANY);
	put_mat(t, op, t->shape->exp_down, N_FF_EXP, N_EMBD, 0, t->shape->layer);
	op = add(t, QN_OP_MOE_COMBINE, QN_ROWS_TOK);
	op->moe_combine.src = PAIR_OUT;
	op->moe_combine.dst = X;
	op->moe_combine.same = -1;
	op->moe_combine.add = !t->shape->chunked;
	op->moe_combine.weighed = t->shape->plain;
}

static void logits(struct tiny *t)
{
	struct qn_op *op = add(t, QN_OP_GATHER, QN_ROWS_OUT);

	op->gather.src = X;
	op->gather.dst = LAST;
	add_act(t, QN_OP_NORM, QN_ROWS_OUT, LAST, N_EMBD, ACT, ANY);
	op = add_matmul(t, QN_ROWS_OUT, LOGITS, QN_EPI_STORE, ACT, ANY);
	put_mat(t, op, t->shape->logits, N_EMBD, N_VOCAB, 0, 0);
	op->matmul.softcap = t->shape->cap;
	op->matmul.scale = t->shape->cap > 0 ? 0.8f : 1;
}

/* Sequences in the middle of a block, across two, far into a long one, and a lone token. */
static void tokens(struct tiny *t)
{
	static const struct {
		int pos, n;
	} seqs[N_SEQ] = {{60, 8}, {1100, 5}, {0, 9}, {5, 1}};
	int32_t blocks[N_KV_BLOCKS];
	int n = 0, used = 0;

	for (int i = 0; i < N_KV_BLOCKS; i++)
		blocks[i] = i;
	for (int i = N_KV_BLOCKS - 1; i > 0; i--) {
		const int j = rnd_below(i + 1), b = blocks[i];

		blocks[i] = blocks[j];
		blocks[j] = b;
	}
	memset(t->kv_table, 0x40, sizeof t->kv_table); /* far out of the pool where not set */
	for (int s = 0; s < N_SEQ; s++) {
		for (int i = 0; i < seqs[s].n; i++, n++) {
			t->tok[n] = rnd_below(N_VOCAB);
			t->pos[n] = seqs[s].pos + i;
			t->seq[n] = s;
		}
		/* Blocks behind the window are not there: whoever touches one touches what is far out of the pool. */
		const int seen = t->shape->window ? seqs[s].pos - t->shape->window + 1 : 0;

		for (int b = (seen > 0 ? seen : 0) / QN_KV_BLOCK; b <= (seqs[s].pos + seqs[s].n - 1) / QN_KV_BLOCK; b++)
			t->kv_table[s][b] = blocks[used++];
	}
}

int64_t tiny_kv_bytes(const struct shape *s)
{
	return (int64_t)qn_kv_bytes(s->k_type, s->v_type, 1, s->head_dim, s->latent ? 0 : tiny_v_dim(s));
}

void tiny_new(struct tiny *t, const struct shape *shape)
{
	struct qn_op *op;

	check_at(check_sets, "tiny model %s", shape->name);
	*t = (struct tiny){.shape = shape, .kv_offset = 128};
	const int64_t k_bytes = kv_k_bytes(shape->k_type, shape->head_dim), head = tiny_kv_bytes(shape);

	t->kv_block_bytes = 128 + head * shape->n_head_kv + 64;
	t->kv_bytes = t->kv_block_bytes * N_KV_BLOCKS;
	t->kv_start = guard_alloc((size_t)t->kv_bytes);
	for (int64_t at = 0; at < t->kv_bytes; at += t->kv_block_bytes)
		for (int h = 0; h < shape->n_head_kv; h++)
			for (int p = 0; p < QN_KV_BLOCK; p++) {
				float x[2][128];

				for (int d = 0; d < shape->head_dim || d < tiny_v_dim(shape); d++) {
					x[0][d] = rnd_normal();
					x[1][d] = rnd_normal();
				}
				if (shape->latent) {
					kv_put_kv(shape->k_type, t->kv_start + at + 128 + h * head, p, x[0],
					          shape->head_dim);
					continue;
				}
				kv_put_k(shape->k_type, t->kv_start + at + 128 + h * head, p, x[0], shape->head_dim);
				kv_put_v(shape->v_type, t->kv_start + at + 128 + h * head + k_bytes, p, x[1],
				         tiny_v_dim(shape));
			}
	tokens(t);
	op = add(t, QN_OP_EMBED, QN_ROWS_TOK);
	op->embed.table = (struct qn_mat){.type = shape->embed, .n_in = N_EMBD, .n_out = N_VOCAB, .n_mat = 1};
	op->embed.table.data = guard_alloc(N_VOCAB * qn_row_bytes(shape->embed, N_EMBD));
	rnd_weights(type_of(shape->embed), (void *)op->embed.table.data, N_VOCAB, N_EMBD, 1);
	op->embed.dst = X;
	op->embed.scale = 3;
	attention(t);
	dense(t);
	sparse(t);
	logits(t);
}

void tiny_layout(struct tiny *t, int layout)
{
	int n = 0;

	for (int i = 1; i < t->n_ops; i++)
		for (int k = 0; t->ops[i].kind == QN_OP_MATMUL && k < t->ops[i].matmul.n_mat; k++, n++) {
			struct qn_mat *m = &t->ops[i].matmul.mat[k];

			m->layout = layout != TINY_BY_TURNS ? layout : n % 2 ? QN_X16 : QN_ROWS;
			if (m->layout == QN_X12 && !t->mats[n].x12)
				m->layout = QN_X16;
			m->data = m->layout == QN_ROWS  ? t->mats[n].rows
			          : m->layout == QN_X16 ? t->mats[n].x16
			                                : t->mats[n].x12;
		}
}

static void buffer(struct tiny_run *r, int i, int64_t width, size_t bytes)
{
	r->guards[i] = guard_new(bytes);
	r->bytes[i] = bytes;
	r->bufs[i] = (struct qn_buf){guard_fill(&r->guards[i], bytes), width};
}

static void floats(struct tiny_run *r, int i, int64_t rows, int width)
{
	buffer(r, i, width, sizeof(float) * (size_t)(rows * width));
}

static void acts(struct tiny_run *r, int first, int64_t rows, int width)
{
	for (enum qn_act k = 0; k < QN_N_ACT; k++)
		buffer(r, first + (int)k, width, qn_act_bytes(k, rows, width));
}

void tiny_open(struct tiny_run *r, const struct tiny *t, void *kv, int from, int to, int every)
{
	const struct shape *s = t->shape;
	const int n = to - from, pairs = n * N_USED, n_q = pad16(s->n_head * s->head_dim);
	const int n_att = pad16(s->n_head * tiny_v_dim(s)), widest = n_att > N_EMBD ? n_att : N_EMBD;
	int n_out = 0;

	for (int i = 0; i < n; i++)
		if ((from + i) % every == 0)
			r->out[n_out++] = i;
	r->groups[KV_GROUP] = group_of(kv, t->kv_block_bytes, t->kv_table[0], KV_COLS);
	r->batch = (struct qn_batch){.tok = t->tok + from, .pos = t->pos + from, .seq = t->seq + from,
	                             .out = r->out, .groups = r->groups, .n_tok = n, .n_seq = N_SEQ,
	                             .n_out = n_out, .n_group = N_GROUP};
	floats(r, X, n, N_EMBD);
	floats(r, ROPE, n, pad16(s->n_rot ? s->n_rot : 16));
	acts(r, ACT, n, pad16(widest));
	floats(r, QKV, n, n_q + pad16(s->n_head_kv * s->head_dim) + pad16(s->n_head_kv * tiny_v_dim(s)));
	floats(r, ATT, n, n_att);
	floats(r, FF, n, N_FF);
	floats(r, ROUTER, n, pad16(N_EXPERT));
	buffer(r, ROUTE, 16, qn_route_bytes(n, N_EXPERT, N_USED));
	acts(r, PAIR, pairs, N_EMBD);
	floats(r, PAIR_FF, pairs, N_FF_EXP);
	acts(r, PAIR_FF_ACT, pairs, N_FF_EXP);
	floats(r, PAIR_OUT, pairs, N_EMBD);
	floats(r, LAST, n_out, N_EMBD);
	floats(r, LOGITS, n_out, pad16(N_VOCAB));
	acts(r, HEADS, n * (s->latent ? s->n_head : 1), pad16(tiny_v_dim(s)));
	floats(r, VALUES, n, s->n_head * (pad16(tiny_v_dim(s)) + 16));
}

void tiny_close(struct tiny_run *r)
{
	for (int i = 0; i < N_BUFS; i++) {
		guard_intact("a buffer", &r->guards[i]);
		guard_free(&r->guards[i]);
	}
}
