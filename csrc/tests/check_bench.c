/*
 * check_bench.c - each kernel alone, on one thread, on data that stay in the second-level cache.
 * A product is measured against the set's own int8 peak, found in the same run.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
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

static float out[QN_TILE_MAX * QN_PANEL];

static void panels(const struct set *s, const struct type *t, const uint8_t *w, const void *act, int n)
{
	for (int p = 0; p < PANELS; p++)
		s->k.mm[t->type](out, w + (size_t)p * qn_panel_bytes(t->type, N_IN), act, N_IN, n, n);
}

static void mm(struct set *s, double peak)
{
	static const int counts[] = {1, 2, 4, 8, 16, 32, 64, 256};

	EACH_TYPE(t) {
		const size_t panel = qn_panel_bytes(t->type, N_IN);
		uint8_t *rows = guard_alloc(16 * qn_row_bytes(t->type, N_IN)), *w = guard_alloc(PANELS * panel);
		struct actf *xf = guard_alloc(qn_act_f32_bytes(QN_TILE_MAX, N_IN));
		struct act8 *x8 = guard_alloc(qn_act_q8_bytes(QN_TILE_MAX, N_IN));

		for (int b = 0; b < QN_TILE_MAX * N_IN / QN_ACT_BLOCK; b++) {
			for (int k = 0; k < QN_ACT_BLOCK; k++)
				xf[b].x[k] = rnd_normal();
			check_sets[0].k.quantize(&x8[b], xf[b].x, QN_ACT_BLOCK);
		}
		rnd_weights(t, rows, 16 * N_IN / t->elems, 1);
		for (int p = 0; p < PANELS; p++)
			qn_pack(t->type, w + (size_t)p * panel, rows, 16, N_IN);
		for (int i = 0; i < COUNT(counts) && counts[i] <= s->k.mm_tile[t->type]; i++) {
			const int n = counts[i], q8 = qn_type_q8(t->type);
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

static void attn(struct set *s)
{
	enum { DIM = 128, BLOCKS = 8 };
	static const int rows[] = {1, 4, 8, 32};
	static float o[QN_ATTN_ROWS * DIM], m[QN_ATTN_ROWS], l[QN_ATTN_ROWS], q[QN_ATTN_ROWS * DIM];
	static int32_t lim[QN_ATTN_ROWS];
	const struct attn_rows all = {o, m, l, q, lim, 0, DIM, DIM};

	for (int i = 0; i < COUNT(q); i++)
		q[i] = 0.1f * rnd_normal();
	for (int type = QN_KV_F16; type <= QN_KV_F32; type++) {
		const size_t bytes = qn_kv_bytes(type, 1, DIM);
		uint8_t *kv = guard_alloc(bytes * BLOCKS);

		for (size_t k = 0; k < bytes * BLOCKS; k += type == QN_KV_F32 ? 4 : 2) {
			const float x = rnd_normal();
			const uint16_t h = half_nearest((double)x);

			memcpy(kv + k, type == QN_KV_F32 ? (void *)&x : (void *)&h, type == QN_KV_F32 ? 4 : 2);
		}
		for (int i = 0; i < COUNT(rows); i++) {
			struct attn_rows r = all;
			double time;

			r.n = rows[i];
			for (int k = 0; k < r.n; k++) {
				lim[k] = QN_KV_BLOCK;
				m[k] = -INFINITY;
				l[k] = 0;
			}
			memset(o, 0, sizeof o);
			TIME(time, for (int b = 0; b < BLOCKS; b++)
			                   s->k.attn[type](&r, kv + (size_t)b * bytes,
			                                   kv + (size_t)b * bytes + bytes / 2));
			printf("%-10s  attn %-5s n %-3d  %7.2f GB/s %8.1f GMAC/s\n", s->name,
			       type ? "f32" : "f16", r.n, (double)(bytes * BLOCKS) / time * 1e-9,
			       2.0 * r.n * DIM * QN_KV_BLOCK * BLOCKS / time * 1e-9);
		}
		guard_free_all();
	}
}

static void line(const struct set *s, const char *kernel, double bytes_per_second)
{
	printf("%-10s  %-14s  %7.2f GB/s\n", s->name, kernel, bytes_per_second * 1e-9);
}

static void vec(struct set *s)
{
	enum { N = 4096 };
	static float x[N], y[N], w[N];
	static struct act8 q[N / QN_ACT_BLOCK];
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
	TIME(time, for (int b = 0; b < N / QN_ACT_BLOCK; b++) s->k.quantize(&q[b], x + b * QN_ACT_BLOCK, QN_ACT_BLOCK));
	line(s, "quantize", (4 + 320.0 / QN_ACT_BLOCK) * N / time);
	TIME(time, s->k.swiglu(y, x, w, N));
	line(s, "swiglu", (12) * N / time);
	TIME(time, s->k.rope(y, w, N / 2, 1));
	line(s, "rope neox", (12) * N / time);
	TIME(time, s->k.rope(y, w, N / 2, 0));
	line(s, "rope norm", (12) * N / time);
	(void)sink;
}

void check_bench(void)
{
	EACH_SET(s) {
		double time, peak;

		TIME(time, s->k.int8_rounds(ROUNDS));
		peak = ROUNDS * s->k.int8_per_round / time;
		printf("%-10s  int8 peak                  %8.1f GMAC/s\n", s->name, peak * 1e-9);
		mm(s, peak);
		attn(s);
		vec(s);
	}
}
