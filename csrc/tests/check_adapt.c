/*
 * check_adapt.c - adapters: what they add, against the formulas in double, and the same for each set, number of threads
 * and company; a token without adapters has the bits of a product that knows of none.
 */
#include <math.h>
#include <string.h>

#include "check.h"

enum {
	IN = 300,
	OUT = 72, /* not whole panels */
	OUT_PAD = 80,
	VOCAB = 40,
	EXPERTS = 4,
	USED = 2,
	ADAPTERS = 4, /* the last has nothing */
	EACH = 2,     /* of a sequence */
	SEQS = 5,
	TOK = 67,
	RANK_PAD = 304,
	SRC = 0, ACT, OUT_SRC, OUT_ACT, LOGITS, ROUTE, PAIR_ACT, LOW, OUT_LOW, PAIR_LOW,
	DELTA, OUT_DELTA, PAIR_DELTA, SUM, EMBD, PLAIN, GLU, N_BUFS_ADAPT,
	N_OPS = 12
};

static const int types[] = {QN_F32, QN_F16, QN_F32}, ranks[] = {1, 20, 300};
static const int lengths[SEQS] = {3, 1, 60, 1, 2};
static const int32_t adapters[SEQS][EACH] = {{-1, -1}, {0, -1}, {1, 2}, {2, 0}, {3, 1}};
static const float scales[SEQS][EACH] = {{9, 9}, {1, 9}, {0.5F, -2}, {1, 3}, {7, 1}};

struct matrix {
	struct qn_mat m; /* packed */
	float *w;        /* its numbers */
};

struct problem {
	struct matrix a[ADAPTERS], b[ADAPTERS], table[ADAPTERS], table_b[ADAPTERS];
	struct matrix expert_a[ADAPTERS], expert_b[ADAPTERS];
	struct matrix w[2];
	struct qn_low_rank low[ADAPTERS], low_table[ADAPTERS], low_experts[ADAPTERS];
	float *gain; /* of the second adapter */
	float src[TOK][RANK_PAD], logits[TOK][16], embd[TOK][OUT_PAD];
	struct qn_op ops[N_OPS];
};

struct outcome {
	float delta[TOK][2 * OUT_PAD], out[TOK][2 * OUT_PAD], sum[TOK][OUT_PAD]; /* and gains */
	float embd[TOK][OUT_PAD], plain[TOK][OUT_PAD], glu[TOK][OUT_PAD];
};

/* n_mat random matrices of a type. */
static struct matrix random_matrix(struct qn_pool *pool, int type, int n_in, int n_out, int n_mat, int layout)
{
	const int64_t n = (int64_t)n_in * n_out * n_mat, bytes = type == QN_F32 ? 4 : 2;
	struct matrix r = {.m = {.type = type, .layout = QN_ROWS, .n_in = n_in, .n_out = n_out, .n_mat = n_mat},
	                   .w = guard_alloc(sizeof(float) * (size_t)n)};
	uint8_t *rows = guard_alloc((size_t)(n * bytes));

	for (int64_t i = 0; i < n; i++) {
		const float x = rnd_normal() / sqrtf((float)n_in);
		uint32_t bits;

		memcpy(&bits, &x, sizeof bits);
		const uint16_t half = type == QN_F16 ? half_nearest((double)x) : (uint16_t)(bits >> 16);

		memcpy(rows + i * bytes, type == QN_F32 ? (const void *)&x : &half, (size_t)bytes);
	}
	qn_dequantize(type, r.w, rows, n);
	r.m.data = rows;
	if (layout == QN_X16) {
		void *packed = guard_alloc((size_t)((n_out + 15) / 16 * n_mat) * qn_panel_bytes(type, n_in));

		check_true(pack_rows(pool, packed, &r.m) == QN_OK, "not packed");
		r.m.data = packed;
		r.m.layout = QN_X16;
	}
	return r;
}

/* Runs sequences from .. to as a batch. */
static void run(const struct problem *p, struct qn_pool *pool, int from, int to, struct outcome *o)
{
	int32_t tok[TOK], pos[TOK], seq[TOK], out[TOK], n = 0, n_out = 0, first = 0;
	void *data[N_BUFS_ADAPT];
	struct qn_buf bufs[N_BUFS_ADAPT];
	struct guard guards[N_BUFS_ADAPT], scratch;

	for (int s = 0; s < to; s++)
		for (int i = 0; i < lengths[s]; i++) {
			if (s < from) {
				first++;
				continue;
			}
			if ((first + n) % 3 != 1)
				out[n_out++] = n;
			tok[n] = (first + n) * 7 % VOCAB;
			pos[n] = i;
			seq[n++] = s - from;
		}

	const int64_t pairs = n * USED;
	const int64_t sizes[N_BUFS_ADAPT][2] = { /* columns, bytes */
		[SRC] = {RANK_PAD, 4 * n * RANK_PAD},
		[ACT] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, n, IN)},
		[OUT_SRC] = {RANK_PAD, 4 * n_out * RANK_PAD},
		[OUT_ACT] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, n_out, IN)},
		[LOGITS] = {16, 4 * n * 16},
		[ROUTE] = {16, (int64_t)qn_route_bytes(n, EXPERTS, USED)},
		[PAIR_ACT] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, pairs, IN)},
		[LOW] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, n, RANK_PAD)},
		[OUT_LOW] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, n_out, RANK_PAD)},
		[PAIR_LOW] = {RANK_PAD, (int64_t)qn_act_bytes(QN_ACT_F32, pairs, RANK_PAD)},
		[DELTA] = {2 * OUT_PAD, 4 * n * 2 * OUT_PAD},
		[OUT_DELTA] = {2 * OUT_PAD, 4 * n_out * 2 * OUT_PAD},
		[PAIR_DELTA] = {OUT_PAD, 4 * pairs * OUT_PAD},
		[SUM] = {OUT_PAD, 4 * n * OUT_PAD},
		[EMBD] = {OUT_PAD, 4 * n * OUT_PAD},
		[PLAIN] = {OUT_PAD, 4 * n * OUT_PAD},
		[GLU] = {OUT_PAD, 4 * n * OUT_PAD},
	};

	for (int i = 0; i < N_BUFS_ADAPT; i++) {
		guards[i] = guard_new((size_t)(sizes[i][1] + 63) / 64 * 64);
		data[i] = guard_fill(&guards[i], (size_t)(sizes[i][1] + 63) / 64 * 64);
		bufs[i] = (struct qn_buf){data[i], sizes[i][0]};
	}
	memcpy(data[SRC], p->src[first], (size_t)sizes[SRC][1]);
	memcpy(data[LOGITS], p->logits[first], (size_t)sizes[LOGITS][1]);
	memcpy(data[EMBD], p->embd[first], (size_t)sizes[EMBD][1]);

	const struct qn_batch batch = {.tok = tok, .pos = pos, .seq = seq, .out = out, .adapter = adapters[from],
	                               .adapter_scale = scales[from], .n_adapter = EACH, .n_tok = n, .n_seq = to - from,
	                               .n_out = n_out};
	const size_t bytes = (qn_plan_scratch(p->ops, N_OPS, n) + 64) * (size_t)qn_pool_threads(pool);

	check_true(qn_plan_check(p->ops, N_OPS, bufs, N_BUFS_ADAPT) == QN_OK, "refused");
	scratch = guard_new(bytes);
	run_ops(pool, p->ops, N_OPS, bufs, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_free(&scratch);
	memcpy(o->delta[first], data[DELTA], (size_t)sizes[DELTA][1]);
	memcpy(o->sum[first], data[SUM], (size_t)sizes[SUM][1]);
	memcpy(o->embd[first], data[EMBD], (size_t)sizes[EMBD][1]);
	memcpy(o->plain[first], data[PLAIN], (size_t)sizes[PLAIN][1]);
	memcpy(o->glu[first], data[GLU], (size_t)sizes[GLU][1]);
	for (int i = 0; i < n_out; i++)
		memcpy(o->out[first + out[i]], (float *)data[OUT_DELTA] + i * 2 * OUT_PAD, sizeof o->out[0]);
	for (int i = 0; i < N_BUFS_ADAPT; i++)
		guard_free(&guards[i]);
}

/* Row `row` of matrix e of m times x. */
static double dot(const struct matrix *m, int e, int row, const double *x)
{
	double sum = 0;

	for (int i = 0; i < m->m.n_in; i++)
		sum += (double)m->w[((int64_t)e * m->m.n_out + row) * m->m.n_in + i] * x[i];
	return sum;
}

/* Number j of what the adapters of sequence s add: B (A x), or B times row tok of A. */
static double added(const struct matrix *a, const struct matrix *b, int s, int e, const float *x, int tok, int j)
{
	double sum = 0, in[IN], low[RANK_PAD];

	for (int i = 0; i < IN; i++)
		in[i] = x ? (double)x[i] : 0;
	for (int k = 0; k < EACH; k++) {
		const int n = adapters[s][k];

		if (n < 0 || n == ADAPTERS - 1)
			continue;
		for (int i = 0; i < ranks[n]; i++)
			low[i] = x ? dot(&a[n], e, i, in) : (double)a[n].w[tok * ranks[n] + i];
		sum += (double)scales[s][k] * (n + 1) * dot(&b[n], e, j, low);
	}
	return sum;
}

/* What the adapters of sequence s add to number j of a product, as a share of it. */
static double gain_of(const struct problem *p, int s, int j)
{
	double sum = 0;

	for (int k = 0; k < EACH; k++)
		if (adapters[s][k] == 1)
			sum += (double)scales[s][k] * (double)p->gain[j];
	return sum;
}

static double silu(double x)
{
	return x / (1 + exp(-x));
}

static void formulas(const struct problem *p, const struct outcome *o)
{
	for (int s = 0, t = 0; s < SEQS; s++)
		for (int i = 0; i < lengths[s]; i++, t++) {
			const int tok = t * 7 % VOCAB;
			double in[IN], weight[EXPERTS], all = 0;
			int best[USED] = {0, 1};

			if (i > 3 && i < lengths[s] - 2)
				continue;
			for (int k = 0; k < IN; k++)
				in[k] = (double)p->src[t][k];
			for (int e = 0; e < EXPERTS; e++) {
				all += weight[e] = exp((double)p->logits[t][e]);
				if (p->logits[t][e] > p->logits[t][best[0]]) {
					best[1] = best[0];
					best[0] = e;
				} else if (e != best[0] && (best[1] == best[0] ||
				                            p->logits[t][e] > p->logits[t][best[1]])) {
					best[1] = e;
				}
			}
			for (int j = 0; j < OUT; j++) {
				const double d = added(p->a, p->b, s, 0, p->src[t], 0, j), g = gain_of(p, s, j);
				const double gate = (1 + g) * dot(&p->w[0], 0, j, in) + d, up = dot(&p->w[1], 0, j, in);
				double sum = 0;

				for (int u = 0; u < USED; u++)
					sum += weight[best[u]] / all *
					       added(p->expert_a, p->expert_b, s, best[u], p->src[t], 0, j);
				check_near("delta", j, (double)o->delta[t][j], d, 1e-4);
				check_near("gain", j, (double)o->delta[t][OUT_PAD + j], g, 1e-6);
				if (t % 3 != 1) {
					check_near("output", j, (double)o->out[t][j], d, 1e-4);
					check_near("output's gain", j, (double)o->out[t][OUT_PAD + j], g, 1e-6);
				}
				check_near("glu", j, (double)o->glu[t][j], silu(gate) * up, 1e-3);
				check_near("experts", j, (double)o->sum[t][j], sum, 1e-4);
				check_near("embedding", j, (double)o->embd[t][j],
				           (double)p->embd[t][j] +
				                   3 * added(p->table, p->table_b, s, 0, NULL, tok, j), 1e-4);
			}
		}
}

static struct qn_op adapt(int rows, int act, int low, int dst, const struct qn_low_rank *list)
{
	struct qn_op op = {.kind = QN_OP_ADAPT, .rows = rows};

	op.adapt = (struct qn_adapt){
		.low = list, .dst = {dst, 0}, .act = act, .reduced = low, .n_col = OUT, .n_low = ADAPTERS, .scale = 1,
		.gain_col = list[1].gain ? OUT_PAD : 0,
	};
	return op;
}

static struct qn_op act(int rows, int src, int dst)
{
	struct qn_op op = {.kind = QN_OP_ACT, .rows = rows, .to_act = {.src = {src, 0}, .n_col = IN}};

	memset(op.to_act.act, -1, sizeof op.to_act.act);
	op.to_act.act[QN_ACT_F32] = dst;
	return op;
}

static void plan(struct problem *p)
{
	const struct qn_routing routing = {ROUTE, EXPERTS, USED};
	struct qn_op *op = p->ops, mm = {.kind = QN_OP_MATMUL};
	struct qn_op pair = {.kind = QN_OP_MOE_GATHER, .routing = routing};

	*op++ = act(QN_ROWS_TOK, SRC, ACT);
	*op++ = (struct qn_op){.kind = QN_OP_GATHER, .gather = {.src = SRC, .dst = OUT_SRC}};
	*op++ = act(QN_ROWS_OUT, OUT_SRC, OUT_ACT);
	*op = (struct qn_op){.kind = QN_OP_MOE_ROUTE, .routing = routing};
	op++->moe_route = (struct qn_moe_route){.src = LOGITS, .scale = 1};
	pair.moe_gather.n_col = IN;
	memset(pair.moe_gather.src, -1, sizeof pair.moe_gather.src);
	memset(pair.moe_gather.dst, -1, sizeof pair.moe_gather.dst);
	pair.moe_gather.src[QN_ACT_F32] = ACT;
	pair.moe_gather.dst[QN_ACT_F32] = PAIR_ACT;
	*op++ = pair;
	*op++ = adapt(QN_ROWS_TOK, ACT, LOW, DELTA, p->low);
	*op++ = adapt(QN_ROWS_OUT, OUT_ACT, OUT_LOW, OUT_DELTA, p->low);
	*op = adapt(QN_ROWS_PAIR, PAIR_ACT, PAIR_LOW, PAIR_DELTA, p->low_experts);
	op++->routing = routing;
	*op = (struct qn_op){.kind = QN_OP_MOE_COMBINE, .routing = routing};
	op++->moe_combine = (struct qn_moe_combine){.src = PAIR_DELTA, .dst = SUM, .same = -1};
	*op = adapt(QN_ROWS_TOK, -1, LOW, EMBD, p->low_table);
	op->adapt.by_token = 1;
	op->adapt.add = 1;
	op++->adapt.scale = 3;
	memset(mm.matmul.act, -1, sizeof mm.matmul.act);
	mm.matmul.act[QN_ACT_F32] = ACT;
	mm.matmul.dst = PLAIN;
	mm.matmul.epilogue = QN_EPI_GLU;
	mm.matmul.n_mat = 2;
	for (int i = 0; i < 2; i++)
		mm.matmul.mat[i] = p->w[i].m;
	*op++ = mm;
	mm.matmul.dst = GLU;
	mm.matmul.adapted = 1; /* the gate */
	mm.matmul.delta = DELTA;
	mm.matmul.gain_col[0] = OUT_PAD;
	*op++ = mm;
}

static void prepare(struct problem *p, struct qn_pool *pool)
{
	p->gain = guard_alloc(sizeof *p->gain * OUT_PAD);
	for (int j = 0; j < OUT_PAD; j++)
		p->gain[j] = j < OUT ? rnd_normal() : 0;
	for (int n = 0; n < ADAPTERS - 1; n++) {
		const int type = types[n], other = types[(n + 1) % 3], r = ranks[n];

		p->a[n] = random_matrix(pool, type, IN, r, 1, QN_X16);
		p->b[n] = random_matrix(pool, other, r, OUT, 1, QN_X16);
		p->table[n] = random_matrix(pool, type, r, VOCAB, 1, QN_ROWS);
		p->table_b[n] = random_matrix(pool, other, r, OUT, 1, QN_X16);
		p->expert_a[n] = random_matrix(pool, type, IN, r, EXPERTS, QN_X16);
		p->expert_b[n] = random_matrix(pool, type, r, OUT, EXPERTS, QN_X16);
		p->low[n] = (struct qn_low_rank){p->a[n].m, p->b[n].m, (float)(n + 1), n == 1 ? p->gain : NULL};
		p->low_table[n] = (struct qn_low_rank){p->table[n].m, p->table_b[n].m, (float)(n + 1), NULL};
		p->low_experts[n] = (struct qn_low_rank){p->expert_a[n].m, p->expert_b[n].m, (float)(n + 1), NULL};
	}
	for (int i = 0; i < 2; i++)
		p->w[i] = random_matrix(pool, QN_F32, IN, OUT, 1, QN_X16);
	for (int t = 0; t < TOK; t++) {
		for (int i = 0; i < IN; i++)
			p->src[t][i] = rnd_normal();
		for (int i = 0; i < EXPERTS; i++)
			p->logits[t][i] = rnd_normal();
		for (int i = 0; i < OUT; i++)
			p->embd[t][i] = rnd_normal();
	}
	plan(p);
}

static void same(const struct outcome *got, const struct outcome *want)
{
	for (int s = 0, t = 0; s < SEQS; s++)
		for (int i = 0; i < lengths[s]; i++, t++) {
			check_floats("delta", got->delta[t], want->delta[t], OUT);
			check_floats("gain", got->delta[t] + OUT_PAD, want->delta[t] + OUT_PAD, OUT);
			if (t % 3 != 1) {
				check_floats("output", got->out[t], want->out[t], OUT);
				check_floats("output's gain", got->out[t] + OUT_PAD, want->out[t] + OUT_PAD, OUT);
			}
			check_floats("experts", got->sum[t], want->sum[t], OUT);
			check_floats("embedding", got->embd[t], want->embd[t], OUT);
			check_floats("glu", got->glu[t], want->glu[t], OUT);
			if (s == 0)
				check_bytes("without", got->glu[t], want->plain[t], sizeof(float) * OUT);
		}
}

/* Each field that makes a plan wrong. */
static void refuses(const struct problem *p)
{
	static uint8_t any[64];
	struct qn_buf bufs[N_BUFS_ADAPT];
	struct qn_low_rank low[ADAPTERS];
	struct qn_op op = p->ops[5], mm = p->ops[N_OPS - 1];

	for (int i = 0; i < N_BUFS_ADAPT; i++)
		bufs[i] = (struct qn_buf){any, i < DELTA ? RANK_PAD : i <= OUT_DELTA ? 2 * OUT_PAD : OUT_PAD};
	memcpy(low, p->low, sizeof low);
	op.adapt.low = low;
#define CHECKED(o) (qn_plan_check(&(o), 1, bufs, N_BUFS_ADAPT) == QN_OK)
#define REFUSES(o, field, bad)                                                     \
	do {                                                                       \
		__typeof__(field) was = field;                                     \
		field = bad;                                                       \
		check_true(!CHECKED(o), "taken: " #field " = " #bad);              \
		field = was;                                                       \
		check_true(CHECKED(o), "refused again after " #field);             \
	} while (0)
	REFUSES(op, op.adapt.n_low, 0);
	REFUSES(op, op.adapt.low, NULL);
	REFUSES(op, op.adapt.n_col, OUT + 1);
	REFUSES(op, op.adapt.dst.col, OUT_PAD + 16);
	REFUSES(op, op.adapt.gain_col, 0); /* and one has gains */
	REFUSES(op, op.adapt.gain_col, 8);
	REFUSES(op, op.adapt.gain_col, -16);
	REFUSES(op, op.adapt.gain_col, OUT_PAD + 16);
	REFUSES(op, op.adapt.add, 1);
	REFUSES(op, op.adapt.dst.col, -16);
	REFUSES(op, op.adapt.dst.buf, N_BUFS_ADAPT);
	REFUSES(op, op.adapt.act, -1);
	REFUSES(op, op.adapt.reduced, -1);
	REFUSES(op, op.adapt.reduced, DELTA); /* too narrow for rank 300 */
	REFUSES(op, op.rows, QN_ROWS_HEAD);
	REFUSES(op, op.adapt.by_token, 1);
	REFUSES(op, low[1].a.layout, QN_ROWS);
	REFUSES(op, low[1].a.n_out, 21);
	REFUSES(op, low[1].a.n_in, 2 * IN);
	REFUSES(op, low[1].a.type, QN_Q8_0);
	REFUSES(op, low[1].a.n_mat, 2);
	REFUSES(op, low[1].b.n_mat, 2);
	REFUSES(op, low[1].b.layout, QN_ROWS);
	REFUSES(op, low[1].b.n_out, OUT - 1);
	REFUSES(op, low[1].b.n_in, QN_RANK_MAX + 1);
	REFUSES(op, low[1].b.data, NULL);
	REFUSES(mm, mm.matmul.delta, -1);
	REFUSES(mm, mm.matmul.delta_col[0], OUT_PAD + 16);
	REFUSES(mm, mm.matmul.gain_col[0], OUT_PAD + 16);
	REFUSES(mm, mm.matmul.gain_col[0], -16);
	REFUSES(mm, mm.matmul.gain_col[0], 3);
	REFUSES(mm, mm.matmul.delta_col[0], 3);
	REFUSES(mm, mm.matmul.delta, N_BUFS_ADAPT);
}

void check_adapt(void)
{
	static struct problem p;
	static struct outcome want, got;
	struct qn_pool *pools[2];

	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, 1 + 2 * i) == QN_OK, "no pool"))
			return;
	check_at(check_sets, "adapters");
	qn_init(check_sets->isa);
	prepare(&p, pools[0]);
	run(&p, pools[0], 0, SEQS, &want);
	formulas(&p, &want);
	refuses(&p);
	EACH_SET(s) {
		check_at(s, "adapters");
		qn_init(s->isa);
		for (int i = 0; i < 2; i++) {
			run(&p, pools[i], 0, SEQS, &got);
			same(&got, &want);
			for (int k = 0; k < SEQS; k++)
				run(&p, pools[i], k, k + 1, &got);
			same(&got, &want);
		}
	}
	guard_free_all();
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
