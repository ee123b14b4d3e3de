/*
 * check_bench.c - each kernel alone, on one thread, on data that stay in the second-level cache.
 * A product is measured against the set's own int8 peak, found in the same run. Attention of one
 * token is measured over long sequences, too, on two threads.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format/kv.h"
#include "check.h"
#include "host.h"

static double seconds(void)
{
	return (double)sys_ns() * 1e-9;
}

/* Seconds of one call: the best of some tries, each of a few milliseconds. */
#define TIME(result, call)                                         \
	do {                                                       \
		int n_ = 1;                                        \
		double best_ = INFINITY;                           \
		for (int try_ = 0; try_ < 6;) {                    \
			const double t0_ = seconds();              \
			for (int i_ = 0; i_ < n_; i_++)            \
				call;                              \
			const double t_ = seconds() - t0_;         \
			if (t_ < 2e-3 && n_ < 1 << 24) {           \
				n_ *= 2;                           \
				continue;                          \
			}                                          \
			best_ = t_ / n_ < best_ ? t_ / n_ : best_; \
			try_++;                                    \
		}                                                  \
		(result) = best_;                                  \
	} while (0)

enum { PANELS = 16, N_IN = 2048, ROUNDS = 2000 };

static float out[2 * QN_TILE_MAX * QN_PANEL];

static void panels(const struct set *s, const struct type *t, const uint8_t *w, const void *act, int n)
{
	const size_t bytes = qn_panel_bytes(t->type, N_IN);

	if (s->k.mm_pair[t->type] && n >= QN_PAIR_MIN)
		for (int p = 0; p < PANELS; p += 2, w += 2 * bytes)
			s->k.mm_pair[t->type](out, w, w + bytes, act, N_IN, n, n);
	else
		for (int p = 0; p < PANELS; p++, w += bytes)
			s->k.mm[t->type](out, w, act, N_IN, n, n);
}

/* BF16 in 12 bits, and BF16: passes over panels of `bytes` in all, in the second-level cache or, larger, in memory. */
static void twelve(const struct set *s, const char *where, size_t bytes)
{
	static const int counts[] = {1, 2, 4, 8, 16, 48, 96};
	const size_t of[2] = {qn_panel_bytes(QN_BF16, N_IN), qn_twelve_bytes(N_IN)};
	const int mm[2] = {QN_BF16, QN_MM_TWELVE}, panels = (int)(bytes / of[0]);
	uint16_t *rows = guard_alloc(sizeof *rows * QN_PANEL * N_IN);
	uint8_t *w[2] = {guard_alloc(bytes + (64 << 10)), guard_alloc(bytes + (64 << 10))};
	struct actb *act = guard_alloc(qn_act_bytes(QN_ACT_BF16, QN_TILE_MAX, N_IN));
	float x[QN_ACT_BLOCK];

	for (int b = 0; b < QN_TILE_MAX * N_IN / QN_ACT_BLOCK; b++) {
		for (int k = 0; k < QN_ACT_BLOCK; k++)
			x[k] = rnd_normal();
		check_sets[0].k.quantize(act + b, x, QN_ACT_BLOCK, QN_ACT_BF16);
	}
	EACH_TYPE(t)
		if (t->type == QN_BF16)
			rnd_weights(t, rows, QN_PANEL, N_IN, 1);
	for (int p = 0; p < panels; p++) {
		qn_pack(QN_BF16, w[0] + (size_t)p * of[0], rows, QN_PANEL, N_IN);
		qn_pack_twelve(w[1] + (size_t)p * of[1], rows, QN_PANEL, N_IN);
	}
	for (int i = 0; i < COUNT(counts) && counts[i] <= s->k.mm_tile[QN_MM_TWELVE]; i++) {
		const int n = counts[i];
		double best[2] = {INFINITY, INFINITY};

		for (int try = 0; try < 2 * (panels > 64 ? 9 : 300); try++) { /* in turns */
			const int k = try % 2;
			const double t0 = seconds();
			int p = 0;

			for (; s->k.mm_pair[mm[k]] && n >= QN_PAIR_MIN && p + 1 < panels; p += 2)
				s->k.mm_pair[mm[k]](out, w[k] + (size_t)p * of[k], w[k] + (size_t)(p + 1) * of[k], act,
				                    N_IN, n, n);
			for (; p < panels; p++)
				s->k.mm[mm[k]](out, w[k] + (size_t)p * of[k], act, N_IN, n, n);
			best[k] = seconds() - t0 < best[k] ? seconds() - t0 : best[k];
		}
		printf("%-10s  mm bf16 from %-6s n %-3d %7.2f GB/s, in 12 bits %7.2f GB/s, %5.2f times as fast\n",
		       s->name, where, n, (double)panels * of[0] / best[0] * 1e-9,
		       (double)panels * of[1] / best[1] * 1e-9, best[0] / best[1]);
	}
	guard_free_all();
}

static void mm(struct set *s, double peak)
{
	static const int counts[] = {1, 2, 4, 8, 16, 32, 48, 64, 256};

	EACH_TYPE(t) {
		const size_t panel = qn_panel_bytes(t->type, N_IN);
		uint8_t *rows = guard_alloc(16 * qn_row_bytes(t->type, N_IN)), *w = guard_alloc(PANELS * panel);
		struct actf *xf = guard_alloc(qn_act_bytes(QN_ACT_F32, QN_TILE_MAX, N_IN));
		const enum qn_act kind = qn_type_act(t->type);
		uint8_t *x8 = guard_alloc(qn_act_bytes(kind, QN_TILE_MAX, N_IN));

		for (int b = 0; b < QN_TILE_MAX * N_IN / QN_ACT_BLOCK; b++) {
			for (int k = 0; k < QN_ACT_BLOCK; k++)
				xf[b].x[k] = rnd_normal();
			if (kind != QN_ACT_F32)
				check_sets[0].k.quantize(x8 + b * act_bytes(kind), xf[b].x, QN_ACT_BLOCK, kind);
		}
		rnd_weights(t, rows, 16, N_IN, 1);
		for (int p = 0; p < PANELS; p++)
			qn_pack(t->type, w + (size_t)p * panel, rows, 16, N_IN);
		for (int i = 0; i < COUNT(counts) && counts[i] <= s->k.mm_tile[t->type]; i++) {
			const int n = counts[i], q8 = kind != QN_ACT_F32;
			const double macs = (double)PANELS * QN_PANEL * N_IN * n;
			double time;

			TIME(time, panels(s, t, w, q8 ? (void *)x8 : (void *)xf, n));
			printf("%-10s  mm %-7s n %-3d  %7.2f GB/s %8.1f GMAC/s", s->name, t->name, n,
			       (double)(PANELS * panel) / time * 1e-9, macs / time * 1e-9);
			if (q8)
				printf("  %3.0f %% of peak", 100 * macs / time / peak);
			printf("\n");
		}
		guard_free_all();
	}
}

static void over_blocks(const struct set *s, int type, struct attn_rows *a, const uint8_t *kv, int blocks)
{
	const int64_t k_bytes = kv_k_bytes(type, a->head_dim), bytes = k_bytes + kv_v_bytes(type, a->head_dim);

	static uint8_t k8[QN_KV_BLOCK * (128 + 4)], v8[QN_KV_BLOCK * (128 + 4)];

	for (int b = 0; b < blocks; b++) {
		const uint8_t *k = kv + b * bytes, *v = k + k_bytes, *next = kv + (b + 1) % blocks * bytes;
		const uint8_t *next_k = next, *next_v = next + k_bytes;

		if (type == QN_KV_Q4) {
			kv_expand_k(k8, k, a->head_dim, next);
			kv_expand_v(v8, v, a->head_dim, next + k_bytes);
			next_k = k = k8;
			next_v = v = v8;
		}
		a->ahead = next_k;
		s->k.attn_scores[kv_expanded(type)](a, k);
		s->k.attn_weights(a);
		a->ahead = next_v;
		s->k.attn_values[kv_expanded(type)](a, v);
	}
}

/* Each slot of attention alone, on one block that is in the first-level cache. */
static void attn_slots(struct set *s, int type, struct attn_rows *a, const uint8_t *kv)
{
	const uint8_t *v = kv + kv_k_bytes(type, a->head_dim);
	const double macs = (double)a->n * a->head_dim * QN_KV_BLOCK;
	double scores, weights, values;

	if (type == QN_KV_Q4)
		return;
	a->ahead = kv;
	TIME(scores, s->k.attn_scores[type](a, kv));
	TIME(weights, s->k.attn_weights(a));
	a->ahead = v;
	TIME(values, s->k.attn_values[type](a, v));
	printf(", scores %.1f, values %.1f, weights %.1f ns a row", macs / scores * 1e-9, macs / values * 1e-9,
	       weights / a->n * 1e9);
}

/*
 * Bytes of keys and values a second as one head's are read, and products of both kinds a second; of data in the caches
 * each slot for itself as well.
 */
static void attn_of(struct set *s, int type, int dim, int n, int blocks)
{
	static const char *const names[QN_N_KV_TYPES] = {"f16", "f32", "bf16", "i16", "q8", "q4"};
	static float o[QN_ATTN_ROWS * 128], m[QN_ATTN_ROWS], l[QN_ATTN_ROWS], c[QN_ATTN_ROWS];
	static float e[QN_ATTN_ROWS * QN_KV_BLOCK], q[QN_ATTN_ROWS * 128], qd[QN_ATTN_ROWS], x[128];
	static int32_t from[QN_ATTN_ROWS], lim[QN_ATTN_ROWS], qsum[QN_ATTN_ROWS];
	const size_t k_bytes = (size_t)kv_k_bytes(type, dim), bytes = qn_kv_bytes(type, type, 1, dim, dim);
	uint8_t *kv = guard_alloc(bytes * (size_t)blocks);
	struct attn_rows a = {.o = o, .m = m, .l = l, .e = e, .c = c, .q = q, .qd = qd, .qsum = qsum, .from = from,
	                      .lim = lim, .n = n, .head_dim = dim, .v_dim = dim, .q_bytes = 4 * dim};
	double time;

	for (int i = 0; i < QN_KV_BLOCK; i++) {
		for (int d = 0; d < dim; d++)
			x[d] = rnd_normal();
		kv_put_k(type, kv, i, x, dim);
		kv_put_v(type, kv + k_bytes, i, x, dim);
	}
	for (int b = 1; b < blocks; b++)
		memcpy(kv + (size_t)b * bytes, kv, bytes);
	for (int r = 0; r < n; r++) {
		for (int d = 0; d < dim; d++)
			x[d] = 0.1f * rnd_normal();
		kv_query(type, (uint8_t *)q + r * 4 * dim, &qd[r], &qsum[r], x, dim);
		lim[r] = QN_KV_BLOCK;
		m[r] = -INFINITY;
		l[r] = 0;
	}
	memset(o, 0, sizeof o);
	TIME(time, over_blocks(s, type, &a, kv, blocks));
	printf("%-10s  attn %-5s head_dim %-3d n %-3d from %s %7.2f GB/s %8.1f GMAC/s", s->name, names[type], dim, n,
	       blocks > 64 ? "memory" : "caches", (double)(bytes * (size_t)blocks) / time * 1e-9,
	       2.0 * n * dim * QN_KV_BLOCK * blocks / time * 1e-9);
	if (blocks <= 64)
		attn_slots(s, type, &a, kv);
	printf("\n");
	guard_free_all();
}

/* One token of 20 heads that share a latent vector, as GLM 4.7 Flash has, over more and more positions. */
static void deep(struct set *s)
{
	enum { HEADS = 20, DIM = 576, VALUE = 512, MOST = 64 << 10, BLOCKS = MOST / QN_KV_BLOCK };
	static int32_t table[BLOCKS];
	const int32_t seq = 0;
	const struct qn_op op = {
		.kind = QN_OP_ATTEND,
		.attend = {
			.q = {0, 0}, .dst = 1,
			.heads =
				{.n_head = HEADS, .n_head_kv = 1, .head_dim = DIM, .v_dim = VALUE, .v_in_k = 1,
				 .k_type = QN_KV_I16, .v_type = QN_KV_I16},
		},
	};
	const size_t unit = qn_kv_bytes(QN_KV_I16, QN_KV_I16, 1, DIM, 0), scratch = qn_plan_scratch(&op, 1, 1);
	uint8_t *kv = guard_alloc(unit * BLOCKS), *room = guard_alloc(2 * scratch);
	float *q = guard_alloc(sizeof *q * HEADS * DIM), *y = guard_alloc(sizeof *y * HEADS * VALUE), x[DIM];
	const struct qn_buf bufs[] = {{q, HEADS * DIM}, {y, HEADS * VALUE}};
	const struct qn_group group = group_of(kv, (int64_t)unit, table, BLOCKS);
	struct qn_pool *pool;

	if (qn_pool_create(&pool, NULL, 2))
		return;
	for (int i = 0; i < HEADS * DIM; i++)
		q[i] = 0.1f * rnd_normal();
	for (int i = 0; i < QN_KV_BLOCK; i++) {
		for (int d = 0; d < DIM; d++)
			x[d] = rnd_normal();
		kv_put_kv(QN_KV_I16, kv, i, x, DIM);
	}
	for (int b = 0; b < BLOCKS; b++) {
		table[b] = b;
		if (b)
			memcpy(kv + (size_t)b * unit, kv, unit);
	}
	for (int n = 4 << 10; n <= MOST; n += n < 24 << 10 ? 2 << 10 : 8 << 10) {
		const int32_t pos = n - 1;
		const struct qn_batch batch = {.pos = &pos, .seq = &seq, .groups = &group, .n_tok = 1, .n_seq = 1,
		                               .n_group = 1};
		double time;

		TIME(time, run_ops(pool, &op, 1, bufs, &batch, room, 2 * scratch, NULL));
		printf("%-10s  attend 20 x %d over %6d positions, 2 threads  %7.3f ms  %6.1f ns a position\n",
		       s->name, DIM, n, time * 1e3, time * 1e9 / n);
	}
	qn_pool_destroy(pool);
	guard_free_all();
}

static void attn(struct set *s)
{
	static const int rows[] = {1, 4, 8, QN_ATTN_ROWS};

	qn_init(s->isa); /* for what expands codes */
	for (int type = 0; type < QN_N_KV_TYPES; type++)
		for (int dim = 64; dim <= 128; dim += 64) {
			for (int i = 0; i < COUNT(rows); i++)
				attn_of(s, type, dim, rows[i], 8);
			if (s->isa) /* one head's share of 4 rows, with grouped queries */
				attn_of(s, type, dim, 4, (64 << 20) / (int)qn_kv_bytes(type, type, 1, dim, dim));
		}
	if (s->isa)
		deep(s);
}

static void line(const struct set *s, const char *kernel, double bytes_per_second)
{
	printf("%-10s  %-14s  %7.2f GB/s\n", s->name, kernel, bytes_per_second * 1e-9);
}

static void vec(struct set *s)
{
	enum { N = 4096 };
	static float x[N], y[N], w[N];
	static struct actb q[N / QN_ACT_BLOCK]; /* the largest */
	volatile float sink;
	double time;

	for (int i = 0; i < N; i++) {
		x[i] = rnd_normal();
		w[i] = rnd_normal();
	}
	TIME(time, sink = s->k.sumsq(x, N));
	line(s, "sumsq", (4) * N / time);
	TIME(time, s->k.scale_rows(y, x, 1.5f, w, N));
	line(s, "scale_rows", (12) * N / time);
	for (enum qn_act kind = QN_ACT_Q8_256; kind < QN_N_ACT_ONE; kind++) {
		TIME(time, for (int b = 0; b < N / QN_ACT_BLOCK; b++)
		                   s->k.quantize(&q[b], x + b * QN_ACT_BLOCK, QN_ACT_BLOCK, kind));
		line(s,
		     kind == QN_ACT_Q8_256  ? "quantize"
		     : kind == QN_ACT_Q8_32 ? "quantize by 32"
		     : kind == QN_ACT_BF16  ? "round to bf16"
		                            : "quantize by 32, sums of 16",
		     (4 + (double)act_bytes(kind) / QN_ACT_BLOCK) * N / time);
	}
	TIME(time, s->k.fn[QN_FN_SILU](y, x, w, N));
	line(s, "silu", (12) * N / time);
	TIME(time, s->k.fn[QN_FN_GELU](y, x, w, N));
	line(s, "gelu", (12) * N / time);
	TIME(time, s->k.rope(y, w, N / 2, 1));
	line(s, "rope neox", (12) * N / time);
	TIME(time, s->k.rope(y, w, N / 2, 0));
	line(s, "rope norm", (12) * N / time);
	(void)sink;
}

void check_bench(const char *only)
{
	EACH_SET(s) {
		double time, peak;

		TIME(time, s->k.int8_rounds(ROUNDS));
		peak = ROUNDS * s->k.int8_per_round / time;
		printf("%-10s  int8 peak                  %8.1f GMAC/s\n", s->name, peak * 1e-9);
		if (!only || !strcmp(only, "mm"))
			mm(s, peak);
		if (!only || !strcmp(only, "twelve")) {
			twelve(s, "cache", 512 << 10);
			if (s != check_sets) /* which memory does not wait for */
				twelve(s, "memory", (size_t)256 << 20);
		}
		if (!only || !strcmp(only, "attn"))
			attn(s);
		if (!only || !strcmp(only, "vec"))
			vec(s);
	}
}
