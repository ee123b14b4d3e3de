/*
 * check_plan.c - a whole plan gives the same bits for every set, number of threads, layout and way
 * to cut the tokens into batches; and qn_plan_check() refuses what is wrong.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/kv.h"
#include "math/fp16.h"
#include "run/pool.h"
#include "tiny.h"

/* What a plan computes for each token. */
struct outcome {
	float x[N_TOK][N_EMBD];
	float logits[N_TOK][N_VOCAB]; /* of the tokens that wanted them */
	uint8_t *kv;
};

/* Runs the operations, measured as one plan, else as several of so many. */
static void run_cut(const struct tiny *t, struct qn_pool *pool, struct tiny_run *r, void *scratch, size_t bytes,
                    int each, const struct qn_ticks *ticks)
{
	struct qn_plan plans[TINY_OPS];
	int32_t n = 0;

	if (ticks) {
		run_ops(pool, t->ops, t->n_ops, r->bufs, &r->batch, scratch, bytes, ticks);
		return;
	}
	for (int32_t at = 0; at < t->n_ops; at += each)
		plans[n++] = (struct qn_plan){t->ops + at, NULL, NULL, t->n_ops - at < each ? t->n_ops - at : each};
	check_true(qn_run(pool, plans, n, r->bufs, &r->batch, scratch, bytes, NULL) == n, "not all plans were run");
}

/* Runs the tokens in batches of `chunk`, and keeps what came out. */
static void run(const struct tiny *t, struct qn_pool *pool, int n_tok, int chunk, int every, struct outcome *o,
                const struct qn_ticks *ticks)
{
	const size_t scratch = qn_plan_scratch(t->ops, t->n_ops, chunk) * (size_t)qn_pool_threads(pool);
	struct guard mem = guard_new(scratch);
	void *p = guard_fill(&mem, scratch);

	memcpy(o->kv, t->kv_start, (size_t)t->kv_bytes);
	for (int from = 0; from < n_tok; from += chunk) {
		const int to = from + chunk < n_tok ? from + chunk : n_tok;
		struct tiny_run r;

		tiny_open(&r, t, o->kv, from, to, every);
		check_true(qn_plan_check(t->ops, t->n_ops, r.bufs, N_BUFS) == QN_OK, "the plan is refused");
		run_cut(t, pool, &r, p, scratch, 1 + chunk % 7, ticks);
		for (int i = 0; i < to - from; i++)
			memcpy(o->x[from + i], (float *)r.bufs[X].data + i * N_EMBD, sizeof o->x[0]);
		for (int i = 0; i < r.batch.n_out; i++)
			memcpy(o->logits[from + r.out[i]], (float *)r.bufs[LOGITS].data + i * r.bufs[LOGITS].width,
			       sizeof o->logits[0]);
		tiny_close(&r);
	}
	guard_intact("scratch", &mem);
	guard_free(&mem);
}

static void compare(const struct tiny *t, const struct outcome *got, const struct outcome *want, int n_tok, int every)
{
	check_bytes("KV pool", got->kv, want->kv, t->kv_bytes);
	for (int i = 0; i < n_tok; i++) {
		if (!check_floats("x", got->x[i], want->x[i], N_EMBD))
			return;
		if (i % every == 0)
			check_floats("logits", got->logits[i], want->logits[i], N_VOCAB);
	}
}

static void invariance(const struct shape *shape, struct qn_pool *const pools[], int n_pools)
{
	static const struct {
		int chunk, every, layout;
	} ways[] = {{1, 1, QN_X16}, {N_TOK, 1, QN_X12}, {7, 3, TINY_BY_TURNS}, {N_TOK, 23, QN_ROWS}, {12, 5, QN_X16},
	           {3, 4, QN_X12}};
	static struct tiny t;
	static struct outcome want, got;
	const int n_tok = check_quick ? 13 : N_TOK;

	tiny_new(&t, shape);
	want.kv = guard_alloc((size_t)t.kv_bytes);
	got.kv = guard_alloc((size_t)t.kv_bytes);

	/* The reference: the scalar set, one thread, each token alone. */
	check_at(check_sets, "tiny model %s, each token alone", shape->name);
	qn_init(0);
	tiny_layout(&t, QN_X16);
	run(&t, pools[0], n_tok, 1, 1, &want, NULL);
	for (int i = 0; i < n_tok; i++)
		for (int k = 0; k < N_VOCAB; k++)
			if (!check_true(isfinite(want.logits[i][k]) && fabsf(want.logits[i][k]) < 1e4f,
			                "logit %g is no sign of life", (double)want.logits[i][k]))
				return;
	EACH_SET(s) {
		qn_init(s->isa);
		for (int i = 0; i < COUNT(ways); i++)
			for (int j = 0; j < n_pools; j++) {
				const int best = s == check_sets + check_n_sets - 1;

				/* Each way on one pool, and one way on all with the best set: scalar is slow. */
				if (j != (i + (int)(s - check_sets)) % n_pools && !(best && i == 2))
					continue;
				if (s == check_sets && i != 1 && i != 2)
					continue;
				check_at(s, "tiny model %s, batches of %d, layout %d, %d threads",
				         shape->name, ways[i].chunk, ways[i].layout,
				         qn_pool_threads(pools[j]));
				tiny_layout(&t, ways[i].layout);
				run(&t, pools[j], n_tok, ways[i].chunk, ways[i].every, &got, NULL);
				compare(&t, &got, &want, n_tok, ways[i].every);
			}
	}
	guard_free_all();
}

/* n powers of two, 2^-9 to 2^9, and what undoes them. */
static void powers(float *by, float *undo, int n)
{
	for (int i = 0; i < n; i++) {
		by[i] = ldexpf(1, rnd_below(19) - 9);
		undo[i] = 1 / by[i];
	}
}

/*
 * Channels of floats multiplied by powers of two, keys against queries and values against results, give the same
 * bits. What lies in the pool is multiplied as well.
 */
static void balance(struct qn_pool *pool)
{
	enum { CHANNELS = 4 * 36 };
	struct shape shape = tiny_shapes[1];
	static float q[CHANNELS], k[CHANNELS], v[CHANNELS], y[CHANNELS];
	static struct outcome want, got;
	static struct tiny t;

	shape.name = "balanced";
	shape.k_type = shape.v_type = QN_KV_F32;
	shape.mul = shape.layer = 0; /* gates of that are of queries */
	tiny_new(&t, &shape);
	tiny_layout(&t, QN_X16);
	want.kv = guard_alloc((size_t)t.kv_bytes);
	got.kv = guard_alloc((size_t)t.kv_bytes);
	run(&t, pool, N_TOK, N_TOK, 1, &want, NULL);

	const int dv = (tiny_v_dim(&shape) + 15) / 16 * 16;
	const int64_t k_bytes = kv_k_bytes(QN_KV_F32, shape.head_dim), head = k_bytes + kv_v_bytes(QN_KV_F32, dv);

	powers(k, q, shape.n_head_kv * shape.head_dim);
	powers(v, y, shape.n_head_kv * tiny_v_dim(&shape));
	for (int64_t at = t.kv_offset; at < t.kv_bytes; at += t.kv_block_bytes)
		for (int h = 0; h < shape.n_head_kv; h++) {
			float *keys = (float *)(t.kv_start + at + h * head), *values = keys + k_bytes / 4;

			for (int i = 0; i < QN_KV_BLOCK; i++) {
				for (int d = 0; d < shape.head_dim; d++)
					keys[d * QN_KV_BLOCK + i] *= k[h * shape.head_dim + d];
				for (int d = 0; d < tiny_v_dim(&shape); d++)
					values[i * dv + d] *= v[h * tiny_v_dim(&shape) + d];
			}
		}
	for (int i = 0; i < t.n_ops; i++)
		if (t.ops[i].kind == QN_OP_QKV) {
			t.ops[i].qkv.q_mul = q;
			t.ops[i].qkv.k_mul = k;
			t.ops[i].qkv.v_mul = v;
		} else if (t.ops[i].kind == QN_OP_ATTEND) {
			t.ops[i].attend.mul = y;
		}
	check_at(check_sets, "balanced channels");
	run(&t, pool, N_TOK, N_TOK, 1, &got, NULL);
	check_true(memcmp(got.kv, want.kv, (size_t)t.kv_bytes) != 0, "the same keys and values are kept");
	for (int i = 0; i < N_TOK; i++) {
		check_floats("x", got.x[i], want.x[i], N_EMBD);
		check_floats("logits", got.logits[i], want.logits[i], N_VOCAB);
	}
	guard_free_all();
}

/*
 * Values that are channels of keys are what they would be if they were kept beside them: with floats, which round no
 * differently there, to the bit.
 */
static void latents(struct qn_pool *pool, int type)
{
	struct shape shape = tiny_shapes[tiny_n_shapes - 1];
	static struct outcome want, got;
	static struct tiny t;

	shape.k_type = shape.v_type = type;
	check_at(check_sets, "values in keys of type %d", type);
	tiny_new(&t, &shape);
	tiny_layout(&t, QN_X16);
	got.kv = guard_alloc((size_t)t.kv_bytes);
	run(&t, pool, N_TOK, N_TOK, 1, &got, NULL);

	/* The same with room for values, which are those channels of the same keys. */
	const int64_t k_bytes = kv_k_bytes(type, shape.head_dim), block = t.kv_block_bytes, blocks = t.kv_bytes / block;
	const uint8_t *start = t.kv_start;

	t.kv_block_bytes += kv_v_bytes(type, shape.v_dim);
	t.kv_bytes = t.kv_block_bytes * blocks;
	t.kv_start = guard_alloc((size_t)t.kv_bytes);
	want.kv = guard_alloc((size_t)t.kv_bytes);
	for (int64_t i = 0; i < blocks; i++) {
		uint8_t *k = t.kv_start + i * t.kv_block_bytes + t.kv_offset;

		memcpy(k, start + i * block + t.kv_offset, (size_t)k_bytes);
		for (int p = 0; p < QN_KV_BLOCK; p++) {
			float x[128];

			for (int d = 0; d < shape.v_dim; d++)
				x[d] = type == QN_KV_F32   ? ((const float *)k)[d * QN_KV_BLOCK + p]
				       : type == QN_KV_F16 ? f32_of_f16(((const uint16_t *)k)[d * QN_KV_BLOCK + p])
				                           : f32_of_bf16(((const uint16_t *)k)[d * QN_KV_BLOCK + p]);
			kv_put_v(type, k + k_bytes, p, x, shape.v_dim);
		}
	}
	for (int i = 0; i < t.n_ops; i++) {
		if (t.ops[i].kind == QN_OP_QKV) {
			t.ops[i].qkv.heads.v_in_k = 0;
			t.ops[i].qkv.col[2] = t.ops[i].qkv.col[1];
		} else if (t.ops[i].kind == QN_OP_ATTEND) {
			t.ops[i].attend.heads.v_in_k = 0;
		}
	}
	run(&t, pool, N_TOK, N_TOK, 1, &want, NULL);
	for (int i = 0; i < N_TOK; i++) {
		check_floats("x", got.x[i], want.x[i], N_EMBD);
		check_floats("logits", got.logits[i], want.logits[i], N_VOCAB);
	}
	guard_free_all();
}

/* A run with ticks gives the same bits, adds up its time, and counts what products and attention read. */
static void ticks(const struct shape *shape, struct qn_pool *pool)
{
	static struct tiny t;
	static struct outcome want, got;
	const int nth = qn_pool_threads(pool);
	struct qn_ticks_op ops[TINY_OPS] = {0};
	struct qn_ticks_time times[TINY_OPS * 8] = {0};
	const struct qn_ticks sums = {ops, times};

	tiny_new(&t, shape);
	tiny_layout(&t, QN_X16);
	want.kv = guard_alloc((size_t)t.kv_bytes);
	got.kv = guard_alloc((size_t)t.kv_bytes);
	check_at(check_sets, "ticks of %d threads", nth);
	run(&t, pool, N_TOK, N_TOK, 1, &want, NULL);
	for (int rounds = 1; rounds <= 2; rounds++) {
		run(&t, pool, N_TOK, N_TOK, 1, &got, &sums);
		compare(&t, &got, &want, N_TOK, 1);
		for (int i = 0; i < t.n_ops; i++) {
			const struct qn_op *op = &t.ops[i];
			int64_t bytes = 0, madds = 0, busy = 0, wait = 0;

			for (int k = 0; k < nth; k++) {
				busy += times[i * nth + k].busy_ns;
				wait += times[i * nth + k].wait_ns;
				check_true(times[i * nth + k].busy_ns >= 0 && times[i * nth + k].wait_ns >= 0,
				           "operation %d: negative time", i);
			}
			check_true(busy > 0 && (nth == 1 || wait > 0), "operation %d: %lld ns, waited %lld", i,
			           (long long)busy, (long long)wait);
			for (int k = 0; op->kind == QN_OP_MATMUL && k < op->matmul.n_mat; k++) {
				const struct qn_mat *m = &op->matmul.mat[k];
				const int rows = op->rows == QN_ROWS_PAIR   ? N_TOK * N_USED
				                 : op->rows == QN_ROWS_HEAD ? N_TOK * op->heads.n
				                                            : N_TOK;

				/* of experts those that are used; a matrix that some share is read for each */
				bytes += (int64_t)qn_row_bytes(m->type, m->n_in) * m->n_out *
				         (op->rows == QN_ROWS_PAIR ? N_EXPERT : m->n_mat);
				madds += (int64_t)rows * m->n_in * m->n_out;
			}
			for (int k = 0; k < N_TOK && op->kind == QN_OP_ATTEND; k++) {
				const struct qn_attend *a = &op->attend;
				const int seen = (a->chunked ? t.pos[k] % a->window : t.pos[k]) + 1;

				madds += (a->heads.head_dim + a->heads.v_dim) * a->heads.n_head *
				         (a->window && a->window < seen ? a->window : seen);
			}
			const int64_t least = op->rows == QN_ROWS_PAIR ? bytes / N_EXPERT * N_USED : bytes;

			if (op->kind == QN_OP_ATTEND)
				check_true(ops[i].bytes > 0, "attention read nothing");
			else
				check_true(ops[i].bytes >= rounds * least && ops[i].bytes <= rounds * bytes,
				           "operation %d read %lld bytes, want %lld to %lld", i,
				           (long long)ops[i].bytes, (long long)(rounds * least),
				           (long long)(rounds * bytes));
			check_true(ops[i].madds == rounds * madds, "operation %d: %lld multiply-adds, want %lld", i,
			           (long long)ops[i].madds, (long long)(rounds * madds));
		}
	}
	guard_free_all();
}

/* ------------------------------------------------------------------ places */

/* Lays the panels of m in so many parts, by what is said of them at struct qn_mat. */
static struct qn_mat in_places(const struct qn_mat *m, int places)
{
	const int64_t n = (m->n_out + QN_PANEL - 1) / QN_PANEL, room = (n + places - 1) / places;
	const int64_t bytes = (int64_t)qn_panel_bytes(m->type, m->n_in);
	const int64_t stride = (room * m->n_mat * bytes + 63) / 64 * 64;
	uint8_t *data = guard_alloc((size_t)(stride * places));
	struct qn_mat placed = *m;

	memset(data, 0, (size_t)(stride * places));
	for (int k = 0; k < places; k++)
		for (int64_t e = 0; e < m->n_mat; e++)
			for (int64_t p = n * k / places, at = 0; p < n * (k + 1) / places; p++, at++)
				memcpy(data + k * stride + (e * room + at) * bytes,
				       (const uint8_t *)m->data + (e * n + p) * bytes, (size_t)bytes);
	placed.data = data;
	placed.places = places;
	placed.place_stride = stride;
	return placed;
}

static const struct {
	int places, each[4];
} in_places_of[] = {{2, {1, 1}}, {2, {3, 1}}, {3, {1, 2, 2}}, {4, {1, 1, 1, 2}}};

/*
 * A model whose panels lie in parts gives the same bits, whether there are threads in as many places, in others, or in
 * one.
 */
static void places(const struct shape *shape, struct qn_pool *one, int way)
{
	const int n = in_places_of[way].places;
	struct qn_pool *own = pool_in_places(in_places_of[way].each, n);
	struct qn_pool *other = pool_in_places((int[]){1, 1, 1}, 5 - n), *pools[] = {own, other, one};
	static struct outcome want, got;
	static struct tiny t;

	tiny_new(&t, shape);
	tiny_layout(&t, QN_X16);
	want.kv = guard_alloc((size_t)t.kv_bytes);
	got.kv = guard_alloc((size_t)t.kv_bytes);
	run(&t, one, N_TOK, N_TOK, 1, &want, NULL);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < COUNT(pools); i++) {
			const int chunk = turn ? 1 + 7 * (i % 2) : N_TOK;

			check_at(check_sets, "tiny model %s, panels in %d places, batches of %d, %d threads in %d",
			         shape->name, turn ? n : 1, chunk, qn_pool_threads(pools[i]), pool_places(pools[i]));
			run(&t, pools[i], N_TOK, chunk, 1, &got, NULL);
			compare(&t, &got, &want, N_TOK, 1);
		}
		for (int i = 0; i < t.n_ops && !turn; i++)
			for (int k = 0; t.ops[i].kind == QN_OP_MATMUL && k < t.ops[i].matmul.n_mat; k++)
				t.ops[i].matmul.mat[k] = in_places(&t.ops[i].matmul.mat[k], n);
	}
	qn_pool_destroy(own);
	qn_pool_destroy(other);
	guard_free_all();
}

/* qn_pack_mat() is qn_pack() of each panel, for any number of threads and places, and of any part of the matrices. */
static void pack_mat(struct qn_pool *pool, int places)
{
	enum { N_IN = 96, N_OUT = 37, N_MAT = 3, PANELS = 3 };
	const size_t row = qn_row_bytes(QN_Q5_1, N_IN), panel = qn_panel_bytes(QN_Q5_1, N_IN);
	uint8_t *rows = guard_alloc(N_OUT * N_MAT * row), *dst = guard_alloc(PANELS * N_MAT * panel);
	const struct qn_mat m = {
		.data = rows, .type = QN_Q5_1, .layout = QN_ROWS, .n_in = N_IN, .n_out = N_OUT, .n_mat = N_MAT,
	};
	struct qn_mat to = m, want, bad;

	check_at(check_sets, "qn_pack_mat, %d threads, %d places of %d", qn_pool_threads(pool), places,
	         pool_places(pool));
	EACH_TYPE(t)
		if (t->type == QN_Q5_1)
			rnd_weights(t, rows, N_OUT * N_MAT, N_IN, 1);
	for (int e = 0; e < N_MAT; e++)
		for (int p = 0; p < PANELS; p++) {
			const int left = N_OUT - p * 16;

			qn_pack(QN_Q5_1, dst + (size_t)(e * PANELS + p) * panel,
			        rows + (size_t)(e * N_OUT + p * 16) * row, left < 16 ? left : 16, N_IN);
		}
	to.data = dst;
	to.layout = QN_X16;
	want = to = in_places(&to, places);
	for (int whole = 0; whole < 2; whole++) {
		const size_t bytes = (size_t)(to.place_stride * places);

		to.data = guard_alloc(bytes);
		memset((void *)to.data, 0, bytes);
		if (whole) {
			check_true(qn_pack_mat(pool, &to, 0, &m) == QN_OK, "refused");
		} else {
			/* The first panel of the second matrix, its rest, the third, the first: as files are read. */
			struct qn_mat part = m;

			part.n_mat = 1;
			part.n_out = 16;
			part.data = rows + (size_t)N_OUT * row;
			check_true(qn_pack_mat(pool, &to, PANELS, &part) == QN_OK, "refused");
			part.n_out = N_OUT - 16;
			part.data = rows + (size_t)(N_OUT + 16) * row;
			check_true(qn_pack_mat(pool, &to, PANELS + 1, &part) == QN_OK, "refused");
			part.n_out = N_OUT;
			part.data = rows + (size_t)(2 * N_OUT) * row;
			check_true(qn_pack_mat(pool, &to, 2 * PANELS, &part) == QN_OK, "refused");
			part.data = rows;
			check_true(qn_pack_mat(pool, &to, 0, &part) == QN_OK, "refused");
		}
		check_bytes("panels", to.data, want.data, (int64_t)bytes);
	}
#define REFUSES(of, field, value)                                                                                  \
	do {                                                                                                       \
		bad = of;                                                                                          \
		bad.field = value;                                                                                 \
		check_true(qn_pack_mat(pool, &of == &to ? &bad : &to, 0, &of == &to ? &m : &bad) == QN_EINVAL,     \
		           #of "." #field " " #value);                                                             \
	} while (0)
	REFUSES(m, type, 4);
	REFUSES(m, layout, QN_X16);
	REFUSES(m, n_in, 95);
	REFUSES(m, n_out, 0);
	REFUSES(m, n_mat, 0);
	REFUSES(m, n_mat, N_MAT + 1);
	REFUSES(to, type, QN_Q4_0);
	REFUSES(to, layout, QN_ROWS);
	REFUSES(to, n_in, 128);
	REFUSES(to, n_out, 0);
	REFUSES(to, n_mat, N_MAT - 1);
	REFUSES(to, places, QN_PLACES_MAX + 1);
#undef REFUSES
	check_true(qn_pack_mat(pool, &to, 1, &m) == QN_EINVAL, "takes panels beyond the last");
	check_true(qn_pack_mat(pool, &to, -1, &m) == QN_EINVAL, "takes panels before the first");
	memcpy(rows + (size_t)(N_OUT * N_MAT - 1) * row, (const uint16_t[]){0x7c00}, 2);
	check_true(qn_pack_mat(pool, &to, 0, &m) == QN_ENOTFINITE, "an infinite scale in the last row passes");
	guard_free_all();
}

/* ------------------------------------------------------------------ what a plan must be */

static struct tiny model; /* of shape 0 */
static struct tiny_run model_run;
static int n_refused;

static int find(int kind, int nth)
{
	for (int i = 0; i < model.n_ops; i++)
		if (model.ops[i].kind == kind && nth-- == 0)
			return i;
	check_true(0, "no operation of kind %d", kind);
	return 0;
}

static void expect(const struct qn_op *op, int want, const char *what)
{
	check_true(qn_plan_check(op, 1, model_run.bufs, N_BUFS) == want, "kind %d, %s: not %d", op->kind, what, want);
	n_refused += want != QN_OK;
}

/* A plan of two. */
static void expect_two(const struct qn_op *first, const struct qn_op *second, int want, const char *what)
{
	const struct qn_op ops[] = {*first, *second};

	check_true(qn_plan_check(ops, 2, model_run.bufs, N_BUFS) == want, "%s: not %d", what, want);
	n_refused += want != QN_OK;
}

/* Operation nth of a kind with one field changed. */
#define TRY(kind, nth, field, value, want)                            \
	do {                                                          \
		struct qn_op op_ = model.ops[find(kind, nth)];        \
		op_.field = value;                                    \
		expect(&op_, want, #field " = " #value);              \
	} while (0)
#define REFUSES(kind, nth, field, value) TRY(kind, nth, field, value, QN_EINVAL)
#define TAKES(kind, nth, field, value) TRY(kind, nth, field, value, QN_OK)

/* A buffer number that is none, or of a buffer too narrow for the operation. */
#define REFUSES_BUF(kind, nth, field)                  \
	do {                                           \
		REFUSES(kind, nth, field, -1);         \
		REFUSES(kind, nth, field, N_BUFS);     \
		REFUSES(kind, nth, field, INT32_MIN);  \
		REFUSES(kind, nth, field, INT32_MAX);  \
	} while (0)

#define REFUSES_MAT(kind, nth, m)                       \
	do {                                            \
		REFUSES(kind, nth, m.data, NULL);       \
		REFUSES(kind, nth, m.type, 4);          \
		REFUSES(kind, nth, m.type, -1);         \
		REFUSES(kind, nth, m.type, INT32_MAX);  \
		REFUSES(kind, nth, m.layout, 3);        \
		REFUSES(kind, nth, m.layout, -1);       \
		REFUSES(kind, nth, m.n_in, 0);          \
		REFUSES(kind, nth, m.n_in, -256);       \
		REFUSES(kind, nth, m.n_in, 1000000007); \
		REFUSES(kind, nth, m.n_in, 1 << 20);    \
		REFUSES(kind, nth, m.n_out, 0);         \
		REFUSES(kind, nth, m.n_out, INT32_MIN); \
		REFUSES(kind, nth, m.n_mat, 0);         \
	} while (0)

static void refuses_simple(void)
{
	struct qn_op types = model.ops[find(QN_OP_EMBED, 0)];

	REFUSES(QN_OP_EMBED, 0, kind, 0);
	REFUSES(QN_OP_EMBED, 0, kind, -1);
	REFUSES(QN_OP_EMBED, 0, kind, QN_OP_SELECT + 1);
	REFUSES_MAT(QN_OP_EMBED, 0, embed.table);
	REFUSES(QN_OP_EMBED, 0, embed.table.layout, QN_X16);
	REFUSES_BUF(QN_OP_EMBED, 0, embed.dst);
	REFUSES(QN_OP_EMBED, 0, embed.dst, FF);
	REFUSES(QN_OP_EMBED, 0, embed.index, -1);
	REFUSES(QN_OP_EMBED, 0, embed.index, QN_INDEX_TEXT + 1);
	types.embed.index = QN_INDEX_TEXT;
	types.embed.table.n_out = 2;
	expect(&types, QN_OK, "a row for each text of a pair");
	types.embed.table.n_out = 1;
	expect(&types, QN_EINVAL, "no row for the second text of a pair");
	TAKES(QN_OP_EMBED, 0, embed.add, 1);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.freq, NULL);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.n_rot, 0);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.n_rot, -2);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.n_rot, 7);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.n_rot, 64);
	REFUSES_BUF(QN_OP_ROPE_TABLE, 0, rope_table.dst);
	REFUSES_BUF(QN_OP_GATHER, 0, gather.src);
	REFUSES_BUF(QN_OP_GATHER, 0, gather.dst);
	REFUSES(QN_OP_GATHER, 0, gather.dst, LOGITS);
	for (int i = 0; i < 2; i++) {
		const int kind = i ? QN_OP_ACT : QN_OP_NORM;

		REFUSES(kind, 0, to_act.n_col, 0);
		REFUSES(kind, 0, to_act.n_col, -1);
		REFUSES(kind, 0, to_act.n_col, INT32_MAX);
		REFUSES_BUF(kind, 0, to_act.src.buf);
		REFUSES(kind, 0, to_act.src.buf, ROUTER);
		for (int k = 0; k < QN_N_ACT; k++) {
			REFUSES(kind, 0, to_act.act[k], N_BUFS);
			REFUSES(kind, 0, to_act.act[k], ROUTER);
			TAKES(kind, 0, to_act.act[k], -1);
		}
	}
	for (int i = 0; i < model.n_ops; i++) {
		REFUSES(model.ops[i].kind, 0, rows, -1);
		REFUSES(model.ops[i].kind, 0, rows, QN_ROWS_HEAD + 1);
		REFUSES(model.ops[i].kind, 0, rows, QN_ROWS_HEAD); /* without heads, or at all */
	}
	REFUSES(QN_OP_NORM, 0, to_act.norm.kind, QN_NORM_NONE + 1);
	REFUSES(QN_OP_NORM, 0, to_act.src.col, 8);
	REFUSES(QN_OP_ACT, 0, to_act.src.col, 1 << 20);
	REFUSES(QN_OP_NORM, 1, to_act.act[QN_ACT_Q8_256], -1); /* it has no other */
	REFUSES(QN_OP_ACT, 0, to_act.src.col, -16);
	REFUSES(QN_OP_ACT, 0, to_act.src.col, 8);
	REFUSES(QN_OP_ACT, 0, to_act.src.col, INT32_MAX - 15);
	REFUSES(QN_OP_ACT, 2, routing.n_used, 0); /* of pairs */
}

/* An operation that is taken, and is not with one field changed. */
#define REFUSES_OF(base, field, value)                           \
	do {                                                     \
		struct qn_op op_ = base;                         \
		op_.field = value;                               \
		expect(&op_, QN_EINVAL, #field " = " #value);    \
	} while (0)

#define REFUSES_COLS(base, buf, col)                             \
	do {                                                     \
		REFUSES_OF(base, buf, -1);                       \
		REFUSES_OF(base, buf, N_BUFS);                   \
		REFUSES_OF(base, col, 8);                        \
		REFUSES_OF(base, col, -16);                      \
		REFUSES_OF(base, col, INT32_MAX - 15);           \
	} while (0)

static void refuses_scan(void)
{
	const float w[64] = {0};
	const struct qn_op scan = {
		.kind = QN_OP_SCAN,
		.scan = {
			.r = {.src = X, .dst = FF, .n_head = 4, .n_head_kv = 2, .head_dim = 8, .v_dim = 16,
			      .col = {0, 64, 80}},
			.step = {ATT, 16}, .bias = w, .rate = w, .skip = w,
		},
	};

	expect(&scan, QN_OK, "scan");
	REFUSES_OF(scan, scan.bias, NULL);
	REFUSES_OF(scan, scan.rate, NULL);
	REFUSES_OF(scan, scan.skip, NULL);
	REFUSES_OF(scan, scan.step_min, -1);
	REFUSES_OF(scan, scan.step_min, NAN);
	REFUSES_OF(scan, scan.step_max, -1);
	REFUSES_OF(scan, scan.r.n_head, 0);
	REFUSES_OF(scan, scan.r.n_head, 5);
	REFUSES_OF(scan, scan.r.n_head, INT32_MAX - 1);
	REFUSES_OF(scan, scan.r.from, -1);
	REFUSES_OF(scan, scan.r.from, 4); /* as many as there are */
	REFUSES_OF(scan, scan.r.to, -1);
	REFUSES_OF(scan, scan.r.to, 5);
	REFUSES_OF(scan, scan.r.n_head_kv, 0);
	REFUSES_OF(scan, scan.r.head_dim, 0);
	REFUSES_OF(scan, scan.r.head_dim, N_EMBD);
	REFUSES_OF(scan, scan.r.v_dim, 0);
	REFUSES_OF(scan, scan.r.v_dim, 24);
	REFUSES_OF(scan, scan.r.v_dim, N_FF);
	REFUSES_OF(scan, scan.r.state.group, -1);
	REFUSES_OF(scan, scan.r.state.offset, 32);
	REFUSES_OF(scan, scan.r.state.offset, -64);
	for (int i = 0; i < 3; i++) {
		REFUSES_OF(scan, scan.r.col[i], -16);
		REFUSES_OF(scan, scan.r.col[i], 8);
		REFUSES_OF(scan, scan.r.col[i], INT32_MAX - 15);
	}
	REFUSES_COLS(scan, scan.step.buf, scan.step.col);
	REFUSES_OF(scan, scan.r.src, -1);
	REFUSES_OF(scan, scan.r.dst, N_BUFS);
	struct qn_op channels = scan;

	channels.scan.by_channel = 1;
	channels.scan.r.n_head = channels.scan.r.n_head_kv = 1;
	expect(&channels, QN_OK, "scan by channel");
	channels.scan.r.col[1] = channels.scan.r.col[2] = 16;
	channels.scan.r.head_dim = 256;
	expect(&channels, QN_OK, "scan by channel of many rows");
	REFUSES_OF(channels, scan.r.head_dim, 257);
}

static void refuses_rows(void)
{
	const struct qn_op norm = {
		.kind = QN_OP_NORM_ROWS,
		.norm_rows = {.src = {X, 0}, .dst = {X, 0}, .n_col = 48, .n_seg = 3, .scale = 1},
	};
	struct qn_op limited = norm;
	const struct qn_op gate = {.kind = QN_OP_GATE, .gate = {.src = {X, 0}, .dst = {FF, 0}, .n_col = N_FF}};
	const float w[64 * 4] = {0};
	const struct qn_op conv = {
		.kind = QN_OP_CONV,
		.conv = {.src = X, .dst = FF, .n_col = 64, .n_result = 1, .n_tap = 4, .weight = w, .col = {0, 64, 128}},
	};

	const struct qn_op sparse = {.kind = QN_OP_SPARSE, .sparse = {.dst = {X, 0}, .n_col = 48, .cutoff = 1}};
	const struct qn_op match = {.kind = QN_OP_MATCH, .match = {.src = {X, 0}, .dst = {FF, 0}, .n_col = N_FF}};
	const struct qn_op blend = {
		.kind = QN_OP_BLEND,
		.blend = {.src = {X, 0}, .dst = {FF, 0}, .by = {FF, 0}, .n_col = 48},
	};
	const struct qn_op mix = {
		.kind = QN_OP_MIX,
		.mix = {.src = {X, 0}, .dst = {X, 0}, .weight = {ROUTER, 0}, .n_col = 48, .n_seg = 2, .n_src = 2},
	};

	struct qn_op recall = mix;

	recall.mix.score = w;
	recall.mix.dst.buf = FF;
	recall.mix.n_seg = 1;
	recall.mix.weight.buf = -1;
	expect(&recall, QN_OK, "mix by scores");
	REFUSES_OF(recall, mix.dst.buf, X); /* which it reads */
	REFUSES_OF(recall, mix.n_seg, 2);
	REFUSES_OF(recall, mix.n_src, 17);
	REFUSES_OF(recall, mix.n_src, 0);
	REFUSES_OF(recall, mix.n_col, 1 << 20);
	REFUSES_OF(mix, mix.weight.col, 16);
	expect(&sparse, QN_OK, "sparse");
	REFUSES_OF(sparse, sparse.n_col, 1);
	REFUSES_OF(sparse, sparse.n_col, 1 << 20);
	REFUSES_OF(sparse, sparse.dst.col, 8);
	REFUSES_OF(sparse, rows, QN_ROWS_PAIR);
	expect(&blend, QN_OK, "blend");
	REFUSES_OF(blend, blend.fn, QN_FN_NONE - 1);
	REFUSES_OF(blend, blend.fn, QN_N_FN);
	REFUSES_OF(blend, blend.n_col, 0);
	REFUSES_OF(blend, blend.src.buf, -1);
	REFUSES_OF(blend, blend.by.buf, N_BUFS);
	REFUSES_OF(blend, blend.src.col, 1 << 20);
	REFUSES_OF(blend, blend.dst.col, 8);
	REFUSES_OF(blend, blend.by.col, 1 << 20);
	REFUSES_OF(blend, rows, QN_ROWS_PAIR);
	expect(&match, QN_OK, "match");
	REFUSES_OF(match, match.n_col, 0);
	REFUSES_OF(match, match.src.col, 1 << 20);
	REFUSES_OF(match, match.dst.col, 8);
	REFUSES_OF(match, rows, QN_ROWS_PAIR);
	expect(&mix, QN_OK, "mix");
	REFUSES_OF(mix, mix.n_col, 0);
	REFUSES_OF(mix, mix.n_seg, 0);
	REFUSES_OF(mix, mix.n_seg, 17);
	REFUSES_OF(mix, mix.src.col, 16); /* while others write there */
	REFUSES_OF(mix, mix.n_src, -1);
	REFUSES_OF(mix, mix.n_src, 17);
	REFUSES_OF(mix, mix.weight.buf, -1);
	REFUSES_OF(mix, mix.src.col, 1 << 20);
	REFUSES_OF(mix, mix.dst.col, 1 << 20);
	expect(&norm, QN_OK, "norm of rows");
	REFUSES_OF(norm, norm_rows.norm.kind, QN_NORM_NONE + 1);
	REFUSES_OF(norm, norm_rows.norm.kind, -1);
	REFUSES_OF(norm, rows, QN_ROWS_PAIR);
	REFUSES_OF(norm, norm_rows.n_col, 0);
	REFUSES_OF(norm, norm_rows.n_col, N_EMBD);
	REFUSES_OF(norm, norm_rows.n_seg, 0);
	REFUSES_OF(norm, norm_rows.n_seg, INT32_MAX);
	REFUSES_OF(norm, norm_rows.scale, 0);
	REFUSES_OF(norm, norm_rows.low, 1); /* and at most 0 */
	REFUSES_OF(norm, norm_rows.high, NAN);
	limited.norm_rows.high = 1;
	expect(&limited, QN_OK, "a norm within limits");
	REFUSES_OF(limited, norm_rows.add, 1);
	expect(&gate, QN_OK, "gate");
	REFUSES_OF(gate, gate.fn, QN_FN_NONE - 1);
	REFUSES_OF(gate, gate.fn, QN_N_FN);
	REFUSES_OF(gate, rows, QN_ROWS_PAIR);
	REFUSES_OF(gate, gate.n_col, 0);
	REFUSES_OF(gate, gate.n_col, N_EMBD);
	REFUSES_OF(gate, gate.src.buf, ROUTER);
	struct qn_op by_row = gate;
	by_row.gate.src.buf = ROUTER; /* narrower than dst */
	by_row.gate.by_row = 1;
	expect(&by_row, QN_OK, "gate by row");
	REFUSES_OF(by_row, gate.n_col, N_EMBD);
	by_row.gate.n_seg = N_EXPERT;
	by_row.gate.n_col = N_FF / N_EXPERT;
	expect(&by_row, QN_OK, "gate by segment");
	REFUSES_OF(by_row, gate.n_seg, -1);
	REFUSES_OF(by_row, gate.n_seg, 64);
	REFUSES_OF(by_row, gate.n_col, N_FF);
	const struct qn_op xielu = {
		.kind = QN_OP_XIELU,
		.xielu = {.dst = {FF, 0}, .n_col = N_FF, .param = {1, 1, 1, -1e-6f}},
	};
	expect(&xielu, QN_OK, "xIELU");
	REFUSES_OF(xielu, rows, QN_ROWS_PAIR);
	REFUSES_OF(xielu, xielu.n_col, 0);
	REFUSES_OF(xielu, xielu.n_col, N_EMBD);
	REFUSES_OF(xielu, xielu.dst.buf, N_BUFS);
	REFUSES_OF(xielu, xielu.param[3], 1);
	REFUSES_OF(xielu, xielu.param[3], NAN);
	expect(&conv, QN_OK, "convolution");
	REFUSES_OF(conv, conv.weight, NULL);
	REFUSES_OF(conv, conv.n_col, 0);
	REFUSES_OF(conv, conv.n_col, N_EMBD);
	REFUSES_OF(conv, conv.from, -16);
	REFUSES_OF(conv, conv.from, 8);
	REFUSES_OF(conv, conv.from, 64); /* as many as there are columns */
	REFUSES_OF(conv, conv.to, -1);
	REFUSES_OF(conv, conv.to, 65);
	REFUSES_OF(conv, conv.n_tap, 1);
	REFUSES_OF(conv, conv.n_tap, 65);
	REFUSES_OF(conv, conv.ahead, -1);
	REFUSES_OF(conv, conv.ahead, 4); /* as many as there are taps */
	REFUSES_OF(conv, conv.n_result, 0);
	REFUSES_OF(conv, conv.n_result, 17); /* of 4 taps */
	REFUSES_OF(conv, conv.n_result, INT32_MAX);
	REFUSES_OF(conv, conv.n_result, N_FF / 64 + 1);
	REFUSES_OF(conv, conv.state.group, -1);
	REFUSES_OF(conv, conv.state.offset, -64);
	REFUSES_OF(conv, conv.state.offset, 63);
	REFUSES_OF(conv, conv.col[2], N_EMBD - 32);
	REFUSES_OF(conv, conv.col[0], -1); /* the others need not be there */
	REFUSES_OF(conv, conv.fn, QN_FN_NONE - 1);
	struct qn_op silu = conv;

	silu.conv.col[1] = silu.conv.col[2] = -1;
	silu.conv.fn = QN_FN_SILU;
	expect(&silu, QN_OK, "convolution without gates");
	REFUSES_OF(silu, conv.fn, QN_N_FN);
	const struct qn_op delta = {
		.kind = QN_OP_DELTA,
		.delta = {
			.r = {.src = X, .dst = FF, .n_head = 4, .n_head_kv = 2, .head_dim = 8, .v_dim = 16,
			      .col = {0, 16, 32}},
			.gates = ATT, .gate_heads = 2, .bias = w, .rate = w,
		},
	};

	expect(&delta, QN_OK, "delta rule");
	REFUSES_OF(delta, delta.bias, NULL);
	REFUSES_OF(delta, delta.rate, NULL);
	REFUSES_OF(delta, delta.r.n_head, 0);
	REFUSES_OF(delta, delta.r.n_head, 5);
	REFUSES_OF(delta, delta.r.n_head, INT32_MAX - 1);
	REFUSES_OF(delta, delta.r.n_head_kv, 0);
	REFUSES_OF(delta, delta.r.head_dim, 0);
	REFUSES_OF(delta, delta.r.head_dim, N_EMBD);
	REFUSES_OF(delta, delta.r.v_dim, 0);
	REFUSES_OF(delta, delta.r.v_dim, 24);
	REFUSES_OF(delta, delta.r.v_dim, N_FF);
	REFUSES_OF(delta, delta.gate_heads, 0);
	REFUSES_OF(delta, delta.gate_heads, INT32_MAX);
	REFUSES_OF(delta, delta.r.state.group, -1);
	REFUSES_OF(delta, delta.r.state.offset, 32);
	REFUSES_OF(delta, delta.gates, N_BUFS);
	REFUSES_OF(delta, delta.gates, -1);
	REFUSES_OF(delta, delta.by_channel, 1); /* with keys of two heads */
	struct qn_op apart = delta;

	apart.delta.by_channel = 1;
	apart.delta.r.n_head_kv = 4;
	apart.delta.gate_heads = 16;
	expect(&apart, QN_OK, "delta rule with decays of channels");
	REFUSES_OF(apart, delta.gate_heads, 3);
	REFUSES_OF(apart, delta.gate_heads, INT32_MAX);
	REFUSES_OF(apart, delta.r.head_dim, 128);
	REFUSES_OF(apart, delta.gates, ROUTER);
	REFUSES_OF(apart, delta.limit, -5); /* heads of 8 */
	REFUSES_OF(apart, delta.limit, 5);
	REFUSES_OF(apart, delta.limit, NAN);
	REFUSES_OF(delta, delta.limit, -5); /* decays of heads */
	const struct qn_op wkv = {
		.kind = QN_OP_WKV,
		.wkv = {
			.r = {.src = X, .dst = FF, .n_head = 2, .head_dim = 16, .v_dim = 16, .col = {0, 32, 64}},
			.gates = FF, .direction = w, .rate = w, .bonus = w, .eps = 1e-12f,
		},
	};

	const struct qn_op compress = {
		.kind = QN_OP_COMPRESS,
		.compress = {
			.src = FF, .rope = {.table = X, .kind = QN_ROPE_NORM, .n = 16}, .n_part = 2, .head_dim = 16,
			.entries = {.every = 4}, .add = w, .norm = w, .col = {0, 32},
		},
	};
	const struct qn_op connect = {
		.kind = QN_OP_CONNECT,
		.connect = {.src = {X, 0}, .dst = FF, .n_stream = 4, .rounds = 3, .bias = w, .scale = w},
	};

	expect(&compress, QN_OK, "entries");
	REFUSES_OF(compress, compress.add, NULL);
	REFUSES_OF(compress, compress.norm, NULL);
	REFUSES_OF(compress, compress.n_part, 0);
	REFUSES_OF(compress, compress.n_part, 3);
	REFUSES_OF(compress, compress.head_dim, 0);
	REFUSES_OF(compress, compress.head_dim, 24);
	REFUSES_OF(compress, compress.head_dim, 1 << 20);
	REFUSES_OF(compress, compress.entries.every, 0);
	REFUSES_OF(compress, compress.entries.every, 5);
	REFUSES_OF(compress, compress.entries.every, 1 << 20);
	REFUSES_OF(compress, compress.k_type, QN_N_KV_TYPES);
	REFUSES_OF(compress, compress.inputs.group, -1);
	REFUSES_OF(compress, compress.entries.at.group, -1);
	REFUSES_OF(compress, compress.inputs.offset, 32);
	REFUSES_OF(compress, compress.entries.at.offset, 32);
	REFUSES_OF(compress, compress.rope.n, 18);
	REFUSES_OF(compress, compress.rope.at, 2);
	REFUSES_OF(compress, compress.rope.table, -1);
	REFUSES_OF(compress, compress.src, N_BUFS);
	REFUSES_OF(compress, compress.col[1], 1 << 20);
	struct qn_op even = compress, span = {
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {X, 0}, .dst = ATT, .chosen = FF,
			.heads = {.n_head = 2, .n_head_kv = 2, .head_dim = 16, .v_dim = 16},
			.selection = {.n = 4, .each = 4},
		},
	};
	const struct qn_op align = {
		.kind = QN_OP_ALIGN,
		.align = {.src = {X, 0}, .dst = ROUTER, .with = {X, 0}, .n_col = 16, .n_seg = 2},
	};
	const struct qn_op decay = {
		.kind = QN_OP_DECAY,
		.decay = {
			.r = {.src = X, .dst = FF, .n_head = 2, .n_head_kv = 1, .head_dim = 16, .v_dim = 16,
			      .col = {0, 32, 48}},
			.decays = FF, .bonus = w,
		},
	};
	static const int32_t axis[] = {0, QN_AXES};
	const struct qn_op input = {.kind = QN_OP_INPUT, .input = {.dst = {X, 16}, .from = 5, .n_col = 16}};
	const struct qn_op fold = {
		.kind = QN_OP_GATHER, .gather = {.src = X, .dst = FF, .n_row = 4, .n_col = 16},
	};
	const struct qn_op lru = {
		.kind = QN_OP_LRU, .lru = {.src = {X, 0}, .decay = {X, 16}, .dst = FF, .n_col = 16},
	};
	static const uint64_t hash[] = {1, 2, 3, 5, 7, 0, 2}, none[] = {1, 2, 3, 0, 7, 0, 2};
	static const uint64_t beyond[] = {1, 2, 3, 5, 7, 0, 1 << 20};
	struct qn_op ngram = {
		.kind = QN_OP_NGRAM,
		.ngram = {
			.dst = FF, .hash = hash, .n_token = 3, .n_hash = 2,
			.table = {.data = w, .type = QN_F32, .layout = QN_ROWS, .n_in = 8, .n_out = 9, .n_mat = 1},
		},
	};

	even.compress.col[1] = -1;
	even.compress.add = NULL;
	expect(&even, QN_OK, "entries of equal weights");
	expect(&span, QN_OK, "spans of positions");
	REFUSES_OF(span, attend.selection.each, 1);
	REFUSES_OF(span, attend.selection.each, INT32_MAX);
	REFUSES_OF(span, attend.selection.n, 0);
	REFUSES_OF(span, attend.selection.n, INT32_MAX);
	REFUSES_OF(span, attend.selection.entries.every, 4);
	REFUSES_OF(span, attend.selection.near, 6);
	REFUSES_OF(span, attend.window, 8);
	REFUSES_OF(span, attend.selection.choices, 3); /* of 2 heads */
	REFUSES_OF(span, attend.selection.choices, -1);
	REFUSES_OF(span, attend.ahead, 1);
	REFUSES_OF(span, attend.chosen, -1);
	expect(&align, QN_OK, "agreement of streams");
	REFUSES_OF(align, align.n_col, 0);
	REFUSES_OF(align, align.n_seg, 0);
	REFUSES_OF(align, align.n_seg, 17);
	REFUSES_OF(align, align.src.buf, -1);
	REFUSES_OF(align, align.with.buf, N_BUFS);
	REFUSES_OF(align, align.dst, -1);
	expect(&input, QN_OK, "rows that tokens bring");
	REFUSES_OF(input, input.n_col, 0);
	REFUSES_OF(input, input.n_col, 1 << 20);
	REFUSES_OF(input, input.from, -1);
	REFUSES_OF(input, input.dst.col, 8);
	REFUSES_OF(input, input.dst.buf, N_BUFS);
	expect(&fold, QN_OK, "rows side by side");
	REFUSES_OF(fold, gather.n_row, 65);
	REFUSES_OF(fold, gather.n_row, -1);
	REFUSES_OF(fold, gather.n_col, 0);
	REFUSES_OF(fold, gather.n_col, 24);
	REFUSES_OF(fold, gather.n_col, 1 << 20);
	REFUSES_OF(fold, gather.dst, ROUTER); /* which has room for one */
	REFUSES_OF(fold, gather.src, -1);
	REFUSES(QN_OP_ROPE_TABLE, 0, rope_table.axis, axis + 1);
	expect(&lru, QN_OK, "a recurrent unit");
	REFUSES_OF(lru, lru.n_col, 0);
	REFUSES_OF(lru, lru.n_col, 1 << 20);
	REFUSES_OF(lru, lru.src.col, 8);
	REFUSES_OF(lru, lru.decay.buf, -1);
	REFUSES_OF(lru, lru.dst, -1);
	REFUSES_OF(lru, lru.state.offset, 32);
	expect(&decay, QN_OK, "rows that decay apart");
	REFUSES_OF(decay, decay.r.n_head, 0);
	REFUSES_OF(decay, decay.r.n_head_kv, 3);
	REFUSES_OF(decay, decay.r.n_head, INT32_MAX - 1);
	REFUSES_OF(decay, decay.r.n_head_kv, 0);
	REFUSES_OF(decay, decay.r.head_dim, 24);
	REFUSES_OF(decay, decay.r.v_dim, 0);
	REFUSES_OF(decay, decay.r.v_dim, 1 << 20);
	REFUSES_OF(decay, decay.r.state.group, -1);
	REFUSES_OF(decay, decay.r.state.offset, 32);
	REFUSES_OF(decay, decay.decays, ROUTER);
	REFUSES_OF(decay, decay.r.dst, ROUTER);
	REFUSES_OF(decay, decay.r.col[2], 8);
	expect(&ngram, QN_OK, "rows of hashed tokens");
	REFUSES_OF(ngram, ngram.hash, NULL);
	REFUSES_OF(ngram, ngram.hash, beyond);
	REFUSES_OF(ngram, ngram.hash, none);
	REFUSES_OF(ngram, ngram.n_token, 1);
	REFUSES_OF(ngram, ngram.n_token, 17);
	REFUSES_OF(ngram, ngram.n_hash, 0);
	REFUSES_OF(ngram, ngram.state.group, -1);
	REFUSES_OF(ngram, ngram.state.offset, 32);
	REFUSES_OF(ngram, ngram.dst, N_BUFS);
	ngram.ngram.n_hash = 3;
	expect(&ngram, QN_EINVAL, "hashes that are not as many for each number of tokens");
	expect(&connect, QN_OK, "weights of streams");
	REFUSES_OF(connect, connect.n_stream, 0);
	REFUSES_OF(connect, connect.n_stream, 17);
	REFUSES_OF(connect, connect.rounds, -1);
	REFUSES_OF(connect, connect.rounds, 1 << 20);
	REFUSES_OF(connect, connect.bias, NULL);
	REFUSES_OF(connect, connect.scale, NULL);
	REFUSES_OF(connect, connect.src.buf, ROUTER); /* of 16 columns */
	REFUSES_OF(connect, connect.dst, ROUTER);
	expect(&wkv, QN_OK, "RWKV 7");
	REFUSES_OF(wkv, wkv.direction, NULL);
	REFUSES_OF(wkv, wkv.rate, NULL);
	REFUSES_OF(wkv, wkv.bonus, NULL);
	REFUSES_OF(wkv, wkv.r.n_head, 0);
	REFUSES_OF(wkv, wkv.r.n_head, INT32_MAX);
	REFUSES_OF(wkv, wkv.r.head_dim, 0);
	REFUSES_OF(wkv, wkv.r.head_dim, 24);
	REFUSES_OF(wkv, wkv.r.head_dim, INT32_MAX - 15);
	REFUSES_OF(wkv, wkv.r.v_dim, 0);
	REFUSES_OF(wkv, wkv.r.v_dim, 24);
	REFUSES_OF(wkv, wkv.r.v_dim, 1 << 20);
	REFUSES_OF(wkv, wkv.eps, 0);
	REFUSES_OF(wkv, wkv.r.state.group, -1);
	REFUSES_OF(wkv, wkv.r.state.offset, 32);
	REFUSES_OF(wkv, wkv.gates, ROUTER);
	REFUSES_OF(wkv, wkv.r.dst, ROUTER);
	REFUSES_OF(wkv, wkv.r.col[2], 8);
	REFUSES_COLS(norm, norm_rows.src.buf, norm_rows.src.col);
	REFUSES_COLS(norm, norm_rows.dst.buf, norm_rows.dst.col);
	REFUSES_COLS(gate, gate.src.buf, gate.src.col);
	REFUSES_COLS(gate, gate.dst.buf, gate.dst.col);
	REFUSES_COLS(conv, conv.src, conv.col[0]);
	REFUSES_OF(conv, conv.col[1], INT32_MAX - 15);
	REFUSES_OF(conv, conv.dst, -1);
	REFUSES_OF(conv, conv.dst, N_BUFS);
}

static void refuses_matmul(void)
{
	for (int nth = 0; nth < 5; nth++) { /* store, add, glu, add, router */
		REFUSES_MAT(QN_OP_MATMUL, nth, matmul.mat[0]);
		REFUSES_BUF(QN_OP_MATMUL, nth, matmul.dst);
		REFUSES(QN_OP_MATMUL, nth, matmul.n_mat, 0);
		REFUSES(QN_OP_MATMUL, nth, matmul.n_mat, 4);
		REFUSES(QN_OP_MATMUL, nth, matmul.n_mat, -1);
		REFUSES(QN_OP_MATMUL, nth, matmul.mat[0].n_mat, 2);
		REFUSES(QN_OP_MATMUL, nth, matmul.mat[0].n_out, INT32_MAX);
		REFUSES(QN_OP_MATMUL, nth, matmul.col[0], -16);
		REFUSES(QN_OP_MATMUL, nth, matmul.col[0], 8);
		REFUSES(QN_OP_MATMUL, nth, matmul.col[0], 1 << 20);
		REFUSES(QN_OP_MATMUL, nth, matmul.epilogue, -1);
		REFUSES(QN_OP_MATMUL, nth, matmul.epilogue, 4);
	}
	REFUSES_BUF(QN_OP_MATMUL, 0, matmul.act[QN_ACT_Q8_256]);
	REFUSES(QN_OP_MATMUL, 0, matmul.act[QN_ACT_Q8_256], ROUTER);
	REFUSES_BUF(QN_OP_MATMUL, 3, matmul.act[QN_ACT_Q8_32]);
	REFUSES_MAT(QN_OP_MATMUL, 0, matmul.mat[2]);
	REFUSES(QN_OP_MATMUL, 0, matmul.col[2], 1 << 20);
	REFUSES(QN_OP_MATMUL, 0, matmul.epilogue, QN_EPI_GLU); /* three matrices */
	REFUSES_BUF(QN_OP_MATMUL, 4, matmul.act[QN_ACT_F32]);
	REFUSES_MAT(QN_OP_MATMUL, 2, matmul.mat[1]);
	REFUSES(QN_OP_MATMUL, 2, matmul.n_mat, 1);
	REFUSES(QN_OP_MATMUL, 2, matmul.mat[1].n_out, N_FF - 16);
	REFUSES(QN_OP_MATMUL, 2, matmul.fn, QN_N_FN);
	REFUSES(QN_OP_MATMUL, 2, matmul.fn, -1);
	TAKES(QN_OP_MATMUL, 2, matmul.softcap, 1);
	REFUSES(QN_OP_MATMUL, 2, matmul.softcap, -1);
	REFUSES(QN_OP_MATMUL, 2, matmul.softcap, NAN);
	REFUSES(QN_OP_MATMUL, 0, matmul.softcap, -1);
	REFUSES(QN_OP_MATMUL, 0, matmul.softcap, NAN);
	REFUSES(QN_OP_MATMUL, 0, matmul.scale, 0);
	/* pairs */
	REFUSES_BUF(QN_OP_MATMUL, 5, routing.buf);
	REFUSES(QN_OP_MATMUL, 5, routing.n_expert, 0);
	REFUSES(QN_OP_MATMUL, 5, routing.n_expert, N_EXPERT + 1);
	REFUSES(QN_OP_MATMUL, 5, routing.n_expert, INT32_MAX);
	REFUSES(QN_OP_MATMUL, 5, routing.n_used, 0);
	REFUSES(QN_OP_MATMUL, 5, routing.n_used, N_EXPERT + 1);
	REFUSES(QN_OP_MATMUL, 5, rows, QN_ROWS_TOK); /* five matrices for no expert */
}

/* Heads that an operation of attention has at `heads`, and its queries. */
#define REFUSES_HEADS(kind, heads, buf, col)                        \
	do {                                                        \
		REFUSES(kind, 0, heads.n_head, 0);                  \
		REFUSES(kind, 0, heads.n_head, 7);                  \
		REFUSES(kind, 0, heads.n_head, 1);                  \
		REFUSES(kind, 0, heads.n_head, -8);                 \
		REFUSES(kind, 0, heads.n_head, 1 << 30);            \
		REFUSES(kind, 0, heads.n_head_kv, 0);               \
		REFUSES(kind, 0, heads.n_head_kv, -2);              \
		REFUSES(kind, 0, heads.n_head_kv, 16);              \
		REFUSES(kind, 0, heads.head_dim, 0);                \
		REFUSES(kind, 0, heads.head_dim, -32);              \
		REFUSES(kind, 0, heads.head_dim, 1 << 20);          \
		REFUSES(kind, 0, heads.v_dim, 0);                   \
		REFUSES(kind, 0, heads.v_dim, -32);                 \
		REFUSES(kind, 0, heads.v_dim, 1 << 20);             \
		REFUSES(kind, 0, heads.k_type, QN_KV_Q4 + 1);       \
		REFUSES(kind, 0, heads.k_type, -1);                 \
		REFUSES(kind, 0, heads.v_type, QN_KV_Q4 + 1);       \
		REFUSES(kind, 0, heads.v_type, -1);                 \
		REFUSES(kind, 0, heads.kv.group, -1);               \
		REFUSES(kind, 0, heads.kv.offset, -1);              \
		REFUSES(kind, 0, heads.kv.offset, -64);             \
		REFUSES(kind, 0, heads.kv.offset, 1);               \
		REFUSES(kind, 0, heads.kv.offset, 63);              \
		TAKES(kind, 0, heads.kv.offset, 64);                \
		REFUSES(kind, 0, col, 8);                           \
		REFUSES(kind, 0, col, -16);                         \
		REFUSES(kind, 0, col, 1 << 20);                     \
		REFUSES_BUF(kind, 0, buf);                          \
	} while (0)

static void refuses_attention(void)
{
	int32_t at[5] = {0, 8, 3, 1, 8};
	struct qn_op op;

	REFUSES_HEADS(QN_OP_QKV, qkv.heads, qkv.src, qkv.col[0]);
	REFUSES_HEADS(QN_OP_ATTEND, attend.heads, attend.q.buf, attend.q.col);
	REFUSES(QN_OP_ATTEND, 0, attend.window, -1);
	TAKES(QN_OP_ATTEND, 0, attend.window, 1);
	REFUSES(QN_OP_ATTEND, 0, attend.ahead, -1);
	TAKES(QN_OP_ATTEND, 0, attend.ahead, INT32_MAX);
	TAKES(QN_OP_ATTEND, 0, attend.sight, QN_SIGHT_SPAN);
	REFUSES(QN_OP_ATTEND, 0, attend.sight, QN_SIGHT_ONLY + 1);
	REFUSES(QN_OP_ATTEND, 0, attend.sight, -1);
	struct qn_op base = model.ops[find(QN_OP_ATTEND, 0)];
	for (base.attend.side = QN_SIDE_OWN; base.attend.side <= QN_SIDE_SOURCE; base.attend.side++) {
		expect(&base, QN_OK, "attention to one side");
		REFUSES_OF(base, attend.window, 64);
		REFUSES_OF(base, attend.ahead, 1);
		REFUSES_OF(base, attend.selection.n, 16);
	}
	base.attend.side = QN_SIDE_ANY;
	REFUSES_OF(base, attend.side, -1);
	REFUSES_OF(base, attend.side, QN_SIDE_SOURCE + 1);
	REFUSES(QN_OP_ATTEND, 0, attend.span, -1);
	REFUSES(QN_OP_ATTEND, 0, attend.span, INT32_MAX);
	base.attend.relative =
		(struct qn_relative){.at = at, .by_query = X, .by_key = -1, .n = 9, .step = 16, .span = 2};
	expect(&base, QN_OK, "attention by pairs");
	REFUSES_OF(base, attend.relative.by_query, N_BUFS);
	REFUSES_OF(base, attend.relative.by_query, -2);
	REFUSES_OF(base, attend.relative.by_query, ROUTER); /* too narrow */
	REFUSES_OF(base, attend.relative.by_key, N_BUFS);
	REFUSES_OF(base, attend.relative.n, 8);
	REFUSES_OF(base, attend.relative.n, 17);
	REFUSES_OF(base, attend.relative.n, INT32_MAX);
	REFUSES_OF(base, attend.relative.step, 24);
	REFUSES_OF(base, attend.relative.step, INT32_MAX - 15);
	REFUSES_OF(base, attend.relative.span, -1);
	REFUSES_OF(base, attend.relative.span, INT32_MAX);
	REFUSES_OF(base, attend.bias, (const float *)model_run.bufs[X].data);
	REFUSES_OF(base, attend.side, QN_SIDE_OWN);
	REFUSES_OF(base, attend.n_tier, 1);
	at[4] = -1;
	expect(&base, QN_EINVAL, "a number below 0 of a distance");
	base.attend.relative.at = NULL;
	base.attend.relative.n = 0;
	expect(&base, QN_OK, "attention without pairs");
	REFUSES(QN_OP_ATTEND, 0, attend.softcap, -1.0f);
	REFUSES(QN_OP_ATTEND, 0, attend.softcap, NAN);
	REFUSES(QN_OP_ATTEND, 0, attend.softcap, INFINITY);
	TAKES(QN_OP_ATTEND, 0, attend.softcap, 50.0f);
	REFUSES(QN_OP_QKV, 0, qkv.col[1], 1 << 20);
	REFUSES(QN_OP_QKV, 0, qkv.col[2], 1 << 20);
	REFUSES(QN_OP_QKV, 0, qkv.col[2], 3);
	REFUSES(QN_OP_QKV, 0, qkv.rope.n, 0);
	REFUSES(QN_OP_QKV, 0, qkv.rope.n, 3);
	REFUSES(QN_OP_QKV, 0, qkv.rope.n, 34);
	REFUSES(QN_OP_QKV, 0, qkv.rope.n, -2);
	REFUSES(QN_OP_QKV, 0, qkv.temp, 0.1f); /* no span */
	REFUSES(QN_OP_QKV, 0, qkv.temp, -0.1f);
	REFUSES(QN_OP_QKV, 0, qkv.temp, NAN);
	op = model.ops[find(QN_OP_QKV, 0)];
	op.qkv.temp = 0.1f;
	op.qkv.temp_span = 7;
	expect(&op, QN_OK, "a temperature");
	REFUSES_OF(op, qkv.temp_log, 64); /* with a temperature */
	op.qkv.temp_offset = -1;
	expect(&op, QN_EINVAL, "a negative offset");
	TAKES(QN_OP_QKV, 0, qkv.temp_log, 64);
	REFUSES(QN_OP_QKV, 0, qkv.temp_log, 1);
	REFUSES(QN_OP_QKV, 0, qkv.temp_log, -1);
	REFUSES(QN_OP_ATTEND, 0, attend.temp_log, 1);
	REFUSES_BUF(QN_OP_QKV, 0, qkv.rope.table);
	TAKES(QN_OP_QKV, 0, qkv.rope.kind, QN_ROPE_NONE);
	REFUSES(QN_OP_QKV, 0, qkv.rope.kind, -1);
	REFUSES(QN_OP_QKV, 0, qkv.rope.kind, QN_ROPE_NEOX + 1);
	/* More to rotate than a head has, with a table that is wide enough. */
	op = model.ops[find(QN_OP_QKV, 0)];
	op.qkv.rope.table = X;
	expect(&op, QN_OK, "a wide table");
	op.qkv.rope.n = op.qkv.heads.head_dim + 2;
	expect(&op, QN_EINVAL, "n_rot = head_dim + 2");
	REFUSES_BUF(QN_OP_ATTEND, 0, attend.dst);
	REFUSES(QN_OP_ATTEND, 0, attend.dst, ROUTER);
}

/* Blocks of keys that are chosen, and attention over them. */
static void refuses_blocks(void)
{
	struct qn_op attend = model.ops[find(QN_OP_ATTEND, 0)], choice;

	attend.attend.window = 0;
	attend.attend.blocks = (struct qn_blocks){.mask = FF, .words = 2, .from = 64, .part = 0.5f};
	choice = attend;
	choice.kind = QN_OP_BLOCKS;
	expect(&attend, QN_OK, "attention over blocks that another plan chose");
	expect(&choice, QN_OK, "a choice of blocks");
	expect_two(&choice, &attend, QN_OK, "attention over blocks that were chosen");
	REFUSES_OF(choice, attend.blocks.words, 0);
	REFUSES_OF(choice, attend.blocks.words, -1);
	REFUSES_OF(choice, attend.blocks.words, QN_BLOCKS_WORDS_MAX);
	REFUSES_OF(choice, attend.blocks.from, 63);
	REFUSES_OF(choice, attend.blocks.from, -64);
	REFUSES_OF(choice, attend.blocks.part, 0);
	REFUSES_OF(choice, attend.blocks.part, 1.5f);
	REFUSES_OF(choice, attend.blocks.part, NAN);
	REFUSES_OF(choice, attend.blocks.mask, N_BUFS);
	REFUSES_OF(choice, attend.window, 64);
	REFUSES_OF(choice, attend.ahead, 1);
	REFUSES_OF(choice, attend.side, QN_SIDE_OWN);
	REFUSES_OF(choice, attend.sight, QN_SIGHT_SPAN);
	REFUSES_OF(choice, attend.bias, (const float *)model_run.bufs[X].data);
	REFUSES_OF(choice, attend.q.buf, N_BUFS);
	attend.attend.blocks.words = 1;
	expect_two(&choice, &attend, QN_EINVAL, "attention over fewer blocks than were chosen among");
	attend.attend.blocks = choice.attend.blocks;
	attend.attend.blocks.mask = X;
	expect_two(&choice, &attend, QN_EINVAL, "attention over blocks of another buffer");
}

/* Heads whose columns lie apart, and values in keys. */
static void refuses_heads(void)
{
	struct qn_op attend;
	struct qn_op base = model.ops[find(QN_OP_ACT, 0)];

	base.rows = QN_ROWS_HEAD;
	base.to_act.src.buf = X;
	base.to_act.n_col = 48;
	base.heads.n = 4;
	base.heads.step = 96;
	base.to_act.src.col = 32;
	expect(&base, QN_OK, "activations of heads");
	REFUSES_OF(base, heads.n, 0);
	REFUSES_OF(base, heads.n, -1);
	REFUSES_OF(base, heads.n, INT32_MAX);
	REFUSES_OF(base, heads.step, 32);
	REFUSES_OF(base, heads.step, 88);
	REFUSES_OF(base, heads.step, INT32_MAX - 15);
	REFUSES_OF(base, to_act.n_col, N_EMBD);
	REFUSES_OF(base, to_act.src.col, 8);
	REFUSES_OF(base, to_act.src.col, -16);
	REFUSES_OF(base, to_act.src.col, N_EMBD);

	base = model.ops[find(QN_OP_MATMUL, 1)]; /* N_EMBD results */
	base.heads.n = 4;
	base.heads.step = N_EMBD / 4;
	expect(&base, QN_OK, "results of heads");
	REFUSES_OF(base, heads.n, -1);
	REFUSES_OF(base, heads.n, 3);
	REFUSES_OF(base, heads.n, N_EMBD / 8); /* of half a panel each */
	REFUSES_OF(base, heads.step, N_EMBD / 4 - 16);
	REFUSES_OF(base, heads.step, N_EMBD / 4 + 8);
	REFUSES_OF(base, heads.step, N_EMBD / 4 + 16);
	REFUSES_OF(base, matmul.col[0], 16);
	REFUSES_OF(base, rows, QN_ROWS_HEAD); /* of one matrix */
	base.rows = QN_ROWS_HEAD;
	base.matmul.mat[0].n_mat = 4;
	base.matmul.mat[0].n_out = N_EMBD / 4;
	expect(&base, QN_OK, "a matrix of each head");
	REFUSES_OF(base, heads.n, 0);
	REFUSES_OF(base, heads.n, 5);
	REFUSES_OF(base, matmul.mat[0].n_out, N_EMBD / 4 - 8);
	REFUSES_OF(base, heads.step, N_EMBD / 4 - 16);
	REFUSES_OF(base, heads.step, N_EMBD / 4 + 16);
	REFUSES_OF(base, rows, QN_ROWS_TOK);

	for (int i = 0; i < 2; i++) {
		struct qn_heads *heads = i ? &base.attend.heads : &base.qkv.heads;

		base = model.ops[find(i ? QN_OP_ATTEND : QN_OP_QKV, 0)];
		heads->v_in_k = 1;
		heads->v_dim = 16;
		heads->k_type = QN_KV_F16;
		expect(&base, QN_OK, "values in keys");
		heads->v_dim = 24;
		expect(&base, QN_EINVAL, "values of no whole panels in keys");
		heads->v_dim = 48; /* of 32 */
		expect(&base, QN_EINVAL, "more values than keys");
		heads->v_dim = 16;
		heads->k_type = QN_KV_Q4;
		expect(&base, QN_EINVAL, "half of what is transformed together");
	}
	base = model.ops[find(QN_OP_ATTEND, 0)]; /* with 8 heads of 32 */
	base.attend.heads.n_head_kv = 1;
	base.attend.heads.v_in_k = 1;
	base.attend.heads.v_dim = 32;
	base.attend.chosen = X;
	base.attend.selection.n = N_EMBD;
	expect(&base, QN_OK, "attention over chosen positions");
	REFUSES_OF(base, attend.selection.n, -1);
	REFUSES_OF(base, attend.selection.n, N_EMBD + 1);
	REFUSES_OF(base, attend.chosen, N_BUFS);
	REFUSES_OF(base, attend.window, 64);
	REFUSES_OF(base, attend.heads.n_head_kv, 2);
	REFUSES_OF(base, attend.heads.v_in_k, 0);
	REFUSES_OF(base, attend.bias, (const float *)model_run.bufs[X].data);
	attend = base;
	refuses_blocks();
	base = (struct qn_op){.kind = QN_OP_SELECT};
	base.select = (struct qn_select){
		.heads = attend.attend.heads, .q = attend.attend.q, .weight = ROUTER, .dst = X,
		.selection = attend.attend.selection,
	};
	expect(&base, QN_OK, "a choice of positions");
	expect_two(&base, &attend, QN_OK, "attention over what was chosen");
	attend.attend.selection.n--;
	expect_two(&base, &attend, QN_EINVAL, "attention over fewer than were chosen");
	attend.attend.selection.n++;
	attend.attend.chosen = FF;
	expect_two(&base, &attend, QN_EINVAL, "attention over positions of another buffer");
	struct qn_op spans = base, near = attend;

	spans.select.selection.n = 1;
	spans.select.selection.each = 64;
	spans.select.selection.near = 128;
	spans.select.selection.choices = 2;
	near.attend.chosen = spans.select.dst;
	near.attend.selection.n = 1;
	near.attend.selection.each = 64;
	near.attend.selection.near = 128;
	near.attend.heads.v_in_k = 0;
	near.attend.heads.n_head_kv = 2;
	near.attend.selection.choices = 2;
	expect(&spans, QN_OK, "a choice of spans");
	expect_two(&spans, &near, QN_OK, "attention over spans that were chosen");
	near.attend.selection.near = 64;
	expect_two(&spans, &near, QN_EINVAL, "attention over spans before others");
	near.attend.selection.near = 128;
	near.attend.selection.choices = 0;
	expect_two(&spans, &near, QN_EINVAL, "attention over one choice of two");
	REFUSES_OF(spans, select.selection.each, 1);
	REFUSES_OF(spans, select.selection.each, 48);
	REFUSES_OF(spans, select.selection.each, 1 << 30);
	REFUSES_OF(spans, select.selection.near, 32);
	REFUSES_OF(spans, select.selection.choices, 3); /* of 8 heads */
	REFUSES_OF(spans, select.selection.entries.every, 4);
	REFUSES_OF(base, select.selection.n, 0);
	REFUSES_OF(base, select.selection.n, N_EMBD + 1);
	REFUSES_OF(base, select.heads.n_head, 0);
	REFUSES_OF(base, select.heads.n_head, 17); /* of 16 weights */
	REFUSES_OF(base, select.heads.head_dim, 0);
	REFUSES_OF(base, select.heads.head_dim, 2048);
	REFUSES_OF(base, select.heads.k_type, QN_KV_Q4 + 1);
	REFUSES_OF(base, select.heads.kv.group, -1);
	REFUSES_OF(base, select.heads.kv.offset, 32);
	REFUSES_OF(base, select.q.col, 8);
	REFUSES_OF(base, select.q.buf, N_BUFS);
	REFUSES_OF(base, select.weight, -2);
	REFUSES_OF(base, select.dst, ROUTER);
	base.select.selection.entries.every = attend.attend.selection.entries.every = 4;
	attend.attend.chosen = X;
	attend.attend.window = 16;
	expect(&base, QN_OK, "a choice of entries");
	expect_two(&base, &attend, QN_OK, "attention over entries that were chosen");
	base.select.selection.entries.every = 8;
	expect_two(&base, &attend, QN_EINVAL, "attention over entries of other positions");
	REFUSES_OF(base, select.selection.entries.every, 3);
	REFUSES_OF(base, select.selection.entries.at.group, -1);
	REFUSES_OF(base, select.selection.entries.at.offset, 32);
	REFUSES_OF(attend, attend.selection.entries.every, 1);
	REFUSES_OF(attend, attend.selection.entries.every, -4);
	REFUSES_OF(attend, attend.selection.entries.every, 96);
	REFUSES_OF(attend, attend.window, 0);
	REFUSES_OF(attend, attend.side, QN_SIDE_OWN);
	REFUSES_OF(attend, attend.selection.entries.at.offset, -64);
	base = model.ops[find(QN_OP_QKV, 0)];
	base.qkv.rope.n = 16;
	base.qkv.rope.at = 16;
	expect(&base, QN_OK, "the last channels are rotated");
	REFUSES_OF(base, qkv.rope.at, 17);
	REFUSES_OF(base, qkv.rope.at, -1);
	REFUSES_OF(base, qkv.rope.at, INT32_MAX);
}

static void refuses_moe(void)
{
	static const int kinds[] = {QN_OP_MOE_ROUTE, QN_OP_MOE_GATHER, QN_OP_MOE_COMBINE};

	for (int i = 0; i < COUNT(kinds); i++) {
		REFUSES(kinds[i], 0, routing.n_expert, 0);
		REFUSES(kinds[i], 0, routing.n_expert, -1);
		REFUSES(kinds[i], 0, routing.n_expert, 1 << 20);
		REFUSES(kinds[i], 0, routing.n_used, 0);
		REFUSES(kinds[i], 0, routing.n_used, -1);
		REFUSES(kinds[i], 0, routing.n_used, N_EXPERT + 1);
	}
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.gating, -1);
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.gating, QN_GATE_SQRT_SOFTPLUS + 1);
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_group, -1);
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_group, 2); /* of 5 experts */
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_group, N_EXPERT); /* of which none is used */
	struct qn_op op = model.ops[find(QN_OP_MOE_ROUTE, 0)];
	op.moe_route.n_group = N_EXPERT;
	op.moe_route.n_group_used = N_USED;
	expect(&op, QN_OK, "groups of one");
	op.moe_route.n_group_used = N_USED - 1;
	expect(&op, QN_EINVAL, "groups with too few experts");
	op.moe_route.n_group_used = N_EXPERT + 1;
	expect(&op, QN_EINVAL, "more groups than there are");
	REFUSES_BUF(QN_OP_MOE_ROUTE, 0, moe_route.src);
	REFUSES_BUF(QN_OP_MOE_ROUTE, 0, routing.buf);
	REFUSES_BUF(QN_OP_MOE_GATHER, 0, routing.buf);
	for (int k = 0; k < QN_N_ACT; k++) {
		REFUSES_BUF(QN_OP_MOE_GATHER, 0, moe_gather.src[k]);
		REFUSES(QN_OP_MOE_GATHER, 0, moe_gather.dst[k], ROUTER);
		REFUSES(QN_OP_MOE_GATHER, 0, moe_gather.dst[k], N_BUFS);
	}
	REFUSES(QN_OP_MOE_GATHER, 0, moe_gather.n_col, 0);
	REFUSES(QN_OP_MOE_GATHER, 0, moe_gather.n_col, N_EMBD + 16);
	REFUSES_BUF(QN_OP_MOE_COMBINE, 0, routing.buf);
	REFUSES_BUF(QN_OP_MOE_COMBINE, 0, moe_combine.src);
	REFUSES_BUF(QN_OP_MOE_COMBINE, 0, moe_combine.dst);
	REFUSES(QN_OP_MOE_COMBINE, 0, moe_combine.src, PAIR_FF); /* narrower than dst */
	TAKES(QN_OP_MOE_COMBINE, 0, moe_combine.same, X);
	REFUSES(QN_OP_MOE_COMBINE, 0, moe_combine.same, ROUTER); /* so is this */
	REFUSES(QN_OP_MOE_COMBINE, 0, moe_combine.same, -2);
	REFUSES(QN_OP_MOE_COMBINE, 0, moe_combine.same, N_BUFS);
	TAKES(QN_OP_MOE_ROUTE, 0, moe_route.n_same, 3);
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_same, -1);
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_same, 16); /* more logits than there are */
	REFUSES(QN_OP_MOE_ROUTE, 0, moe_route.n_same, INT32_MAX);
	op.moe_route.n_group_used = N_USED;
	op.moe_route.n_same = 1;
	expect(&op, QN_EINVAL, "groups, and experts that return their input");

	const struct qn_op heads = {
		.kind = QN_OP_MOE_HEADS, .routing = op.routing,
		.moe_heads = {.tok = X, .pair = PAIR_OUT, .n_head = 2, .head_dim = 16},
	};

	expect(&heads, QN_OK, "heads of pairs");
	REFUSES_OF(heads, routing.n_used, 0);
	REFUSES_OF(heads, routing.buf, N_BUFS);
	REFUSES_OF(heads, moe_heads.tok, -1);
	REFUSES_OF(heads, moe_heads.tok, ROUTER);
	REFUSES_OF(heads, moe_heads.pair, N_BUFS);
	REFUSES_OF(heads, moe_heads.n_head, 0);
	REFUSES_OF(heads, moe_heads.n_head, INT32_MAX);
	REFUSES_OF(heads, moe_heads.head_dim, -16);
	REFUSES_OF(heads, moe_heads.head_dim, 1 << 20);
}

/* The whole plan with one field of operation nth of a kind changed: what operations say of each other. */
#define REFUSES_IN_PLAN(kind_, nth, field, value)                                                          \
	do {                                                                                               \
		struct qn_op ops_[TINY_OPS];                                                               \
		const int i_ = find(kind_, nth);                                                           \
                                                                                                           \
		memcpy(ops_, model.ops, sizeof ops_);                                                      \
		ops_[i_].field = value;                                                                    \
		check_true(qn_plan_check(&ops_[i_], 1, model_run.bufs, N_BUFS) == QN_OK,                   \
		           "kind %d refused alone, with " #field " = " #value, ops_[i_].kind);             \
		check_true(qn_plan_check(ops_, model.n_ops, model_run.bufs, N_BUFS) == QN_EINVAL,          \
		           "kind %d taken in a plan, with " #field " = " #value, ops_[i_].kind);           \
	} while (0)

static void refuses_routing(void)
{
	struct qn_op ops[TINY_OPS];
	const int route = find(QN_OP_MOE_ROUTE, 0), gather = find(QN_OP_MOE_GATHER, 0);

	/* The route says one thing, what follows another. */
	REFUSES_IN_PLAN(QN_OP_MOE_ROUTE, 0, routing.n_expert, N_EXPERT - 1);
	REFUSES_IN_PLAN(QN_OP_MOE_ROUTE, 0, routing.n_used, 1);
	REFUSES_IN_PLAN(QN_OP_MOE_ROUTE, 0, routing.buf, ROPE);
	REFUSES_IN_PLAN(QN_OP_MOE_GATHER, 0, routing.n_expert, N_EXPERT + 1);
	REFUSES_IN_PLAN(QN_OP_MOE_GATHER, 0, routing.n_used, 1);
	REFUSES_IN_PLAN(QN_OP_MOE_GATHER, 0, routing.buf, ROPE);
	for (int nth = 5; nth < 7; nth++) { /* of pairs; n_expert is that of the matrices as well */
		REFUSES_IN_PLAN(QN_OP_MATMUL, nth, routing.n_used, 1);
		REFUSES_IN_PLAN(QN_OP_MATMUL, nth, routing.buf, ROPE);
	}
	REFUSES_IN_PLAN(QN_OP_ACT, 2, routing.n_used, 1);
	REFUSES_IN_PLAN(QN_OP_ACT, 2, routing.buf, ROPE);
	REFUSES_IN_PLAN(QN_OP_MOE_COMBINE, 0, routing.n_expert, N_EXPERT - 1);
	REFUSES_IN_PLAN(QN_OP_MOE_COMBINE, 0, routing.n_used, 1);
	REFUSES_IN_PLAN(QN_OP_MOE_COMBINE, 0, routing.buf, ROPE);

	/* What follows a routing of another plan agrees with itself; one after the other may differ. */
	memcpy(ops, model.ops, sizeof ops);
	check_true(qn_plan_check(ops + gather, model.n_ops - gather, model_run.bufs, N_BUFS) == QN_OK,
	           "refuses the routing of another plan");
	ops[gather].routing.n_used = 1;
	check_true(qn_plan_check(ops + gather, model.n_ops - gather, model_run.bufs, N_BUFS) == QN_EINVAL,
	           "takes two sizes of a routing of another plan");
	ops[0] = ops[route];
	ops[1] = ops[gather];
	ops[0].routing.n_used = ops[1].routing.n_used = 1;
	ops[2] = model.ops[route];
	ops[3] = model.ops[gather];
	check_true(qn_plan_check(ops, 4, model_run.bufs, N_BUFS) == QN_OK, "refuses a second routing");
}

static void refuses(void)
{
	static struct qn_op many[POOL_COUNTERS + 1];
	struct qn_buf bufs[N_BUFS];

	tiny_new(&model, &tiny_shapes[0]);
	tiny_layout(&model, QN_ROWS);
	uint8_t *kv = guard_alloc((size_t)model.kv_bytes);

	tiny_open(&model_run, &model, kv, 0, 3, 1);
	check_at(check_sets, "qn_plan_check");
	for (int i = 0; i < model.n_ops; i++)
		expect(&model.ops[i], QN_OK, "as it is");
	refuses_simple();
	refuses_rows();
	refuses_scan();
	refuses_matmul();
	refuses_attention();
	refuses_heads();
	refuses_moe();
	refuses_routing();
	check_true(n_refused > 250, "only %d refusals tried", n_refused);
	/* Buffers that are none, or of no whole vectors. */
	for (int i = 0; i < 3; i++) {
		memcpy(bufs, model_run.bufs, sizeof bufs);
		if (i == 0)
			bufs[X].data = NULL;
		else
			bufs[X].width += i == 1 ? 8 : -16;
		check_true(qn_plan_check(model.ops, 1, bufs, N_BUFS) == QN_EINVAL, "takes a wrong buffer, way %d", i);
	}
	check_true(qn_plan_check(model.ops, model.n_ops, model_run.bufs, X) == QN_EINVAL, "takes a plan of no buffers");
	check_true(qn_plan_check(NULL, 0, NULL, 0) == QN_OK, "refuses the empty plan");
	check_true(qn_plan_check(model.ops, -1, model_run.bufs, N_BUFS) == QN_EINVAL, "takes -1 operations");
	for (int i = 0; i < COUNT(many); i++)
		many[i] = model.ops[find(QN_OP_NORM, 0)];
	check_true(qn_plan_check(many, POOL_COUNTERS, model_run.bufs, N_BUFS) == QN_OK, "refuses 128 counters");
	check_true(qn_plan_check(many, COUNT(many), model_run.bufs, N_BUFS) == QN_EINVAL, "takes 129 counters");
	tiny_close(&model_run);
	guard_free_all();
}

void check_plan(void)
{
	static const int threads[] = {1, 2, 3, 5};
	struct qn_pool *pools[COUNT(threads)];
	const int n = check_quick ? 3 : COUNT(threads);

	refuses();
	for (int i = 0; i < n; i++) {
		check_at(check_sets, "qn_pool_create");
		if (!check_true(qn_pool_create(&pools[i], NULL, threads[i]) == QN_OK, "no pool of %d", threads[i]))
			exit(1);
		for (int k = 1; k <= 4; k++)
			pack_mat(pools[i], k);
	}
	for (int i = 0; i < COUNT(in_places_of); i++) {
		struct qn_pool *pool = pool_in_places(in_places_of[i].each, in_places_of[i].places);

		for (int k = 1; k <= 4; k++)
			pack_mat(pool, k);
		qn_pool_destroy(pool);
	}
	for (int i = 0; i < tiny_n_shapes; i++)
		places(&tiny_shapes[i], pools[0], i % COUNT(in_places_of));
	for (int i = 0; i < tiny_n_shapes; i++)
		ticks(&tiny_shapes[i], pools[i % n]);
	for (int i = 0; i < tiny_n_shapes; i++)
		invariance(&tiny_shapes[i], pools, n);
	balance(pools[1]);
	latents(pools[1], QN_KV_F32);
	latents(pools[1], QN_KV_F16);
	latents(pools[1], QN_KV_BF16);
	for (int i = 0; i < n; i++)
		qn_pool_destroy(pools[i]);
}
