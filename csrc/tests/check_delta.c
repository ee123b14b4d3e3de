/*
 * check_delta.c - the gated delta rule: the scalar kernel against the formula in double, every set against the scalar
 * one, and the operation on sequences that are cut anywhere.
 */
#include <math.h>
#include <string.h>

#include "check.h"

/* As the kernel: decays are one for each token; dk of them; so, and what is found goes elsewhere. */
enum way { WHOLE, APART, ELSEWHERE };

/* The state and the results of a head after n tokens, in double. S: [dk][cols]. */
static void oracle(double *s, double *o, int dk, int cols, int n, const float *q, const float *k, const float *v,
                   int64_t stride, const float *decay, int apart, const float *beta, float scale)
{
	for (int t = 0; t < n; t++, q += stride, k += stride, v += stride)
		for (int j = 0; j < cols; j++) {
			const float *g = decay + (apart ? t * dk : t);
			double y = 0, sum = 0;

			for (int i = 0; i < dk; i++)
				y += (double)k[i] * (double)g[apart ? i : 0] * s[i * cols + j];
			const double x = (double)beta[t] * ((double)v[j] - y);

			for (int i = 0; i < dk; i++) {
				s[i * cols + j] = (double)g[apart ? i : 0] * s[i * cols + j] + (double)k[i] * x;
				sum += (double)q[i] * s[i * cols + j];
			}
			o[t * cols + j] = (double)scale * sum;
		}
}

/* Random rows of length about 1, n of `width` floats. */
static void unit_rows(float *x, int n, int width)
{
	for (int i = 0; i < n * width; i++)
		x[i] = rnd_normal() / sqrtf((float)width);
}

/* The same where what is found goes elsewhere. g, seen, to, k: [n][dk]. */
static void oracle_elsewhere(double *s, double *o, int dk, int cols, int n, const float *q, const float *v,
                             int64_t stride, const float *g, const float *seen, const float *to, const float *k)
{
	for (int t = 0; t < n; t++, q += stride, v += stride, g += dk, seen += dk, to += dk, k += dk)
		for (int j = 0; j < cols; j++) {
			double y = 0, sum = 0;

			for (int i = 0; i < dk; i++)
				y += (double)seen[i] * s[i * cols + j];
			for (int i = 0; i < dk; i++) {
				double *at = &s[i * cols + j];

				*at = (double)g[i] * *at + (double)to[i] * y + (double)k[i] * (double)v[j];
				sum += (double)q[i] * *at;
			}
			o[t * cols + j] = sum;
		}
}

static void kernel(int dk, int panels, int n, enum way way)
{
	const int cols = panels * QN_PANEL, stride = 2 * dk + cols;
	const size_t state = sizeof(float) * (size_t)(dk * cols);
	float *rows = guard_alloc(sizeof *rows * (size_t)(n * stride));
	float *decay = guard_alloc(sizeof *decay * (size_t)(n * dk)), *gk = guard_alloc(sizeof *gk * (size_t)(n * dk));
	float *beta = guard_alloc(sizeof *beta * (size_t)n), *before = guard_alloc(state);
	float *to = guard_alloc(sizeof *to * (size_t)(n * dk)), *key = guard_alloc(sizeof *key * (size_t)(n * dk));
	float *after[2], *o[2];
	static double s[256 * 16 * 9], want[QN_DELTA_TOKENS * 16 * 9];

	unit_rows(rows, n, stride);
	for (int i = 0; i < n * dk; i++) {
		decay[i] = fabsf(rnd_uniform());
		gk[i] = decay[i] * rows[i / dk * stride + dk + i % dk];
		to[i] = -gk[i] * fabsf(rnd_uniform());
		key[i] = rnd_normal() / sqrtf((float)dk);
	}
	for (int t = 0; t < n; t++) {
		beta[t] = fabsf(rnd_uniform());
	}
	for (int i = 0; i < dk * cols; i++)
		before[i] = rnd_normal();
	for (int p = 0; p < panels; p++)
		for (int i = 0; i < dk * QN_PANEL; i++)
			s[i / QN_PANEL * cols + p * QN_PANEL + i % QN_PANEL] = (double)before[p * dk * QN_PANEL + i];
	for (int i = 0; i < 2; i++) {
		after[i] = guard_alloc(state);
		o[i] = guard_alloc(sizeof **o * (size_t)(n * cols));
	}
	struct delta_rows d = {.q = rows, .k = rows + dk, .v = rows + 2 * dk, .stride = stride, .k_stride = stride,
	                       .o_stride = cols, .decay = decay, .beta = beta, .before = before, .n = n, .dk = dk,
	                       .panels = panels, .scale = 0.25f};

	if (way != WHOLE) {
		d.decay = NULL;
		d.g = decay;
		d.gk = gk;
		d.g_stride = dk;
	}
	if (way == ELSEWHERE) {
		d.beta = NULL;
		d.to = to;
		d.k = key;
		d.k_stride = dk;
		d.scale = 1;
		oracle_elsewhere(s, want, dk, cols, n, d.q, d.v, stride, decay, gk, to, key);
	} else {
		oracle(s, want, dk, cols, n, d.q, d.k, d.v, stride, decay, way == APART, beta, d.scale);
	}
	EACH_SET(set) {
		const int i = set != check_sets;

		d.after = after[i];
		d.o = o[i];
		check_at(set, "delta rule of %d rows, way %d, %d panels, %d tokens", dk, (int)way, panels, n);
		set->k.delta(&d);
		if (i) {
			check_floats("state", after[1], after[0], dk * cols);
			check_floats("o", o[1], o[0], n * cols);
		} else {
			for (int e = 0; e < n * cols; e++)
				check_near("o", e, (double)o[0][e], want[e], 1e-5);
			for (int e = 0; e < dk * cols; e++) {
				const int p = e / (dk * QN_PANEL), r = e / QN_PANEL % dk, j = e % QN_PANEL;

				check_near("state", e, (double)after[0][e], s[r * cols + p * QN_PANEL + j], 1e-5);
			}
		}
		memcpy(after[1], before, state); /* in place */
		d.before = d.after = after[1];
		d.o = o[1];
		set->k.delta(&d);
		check_floats("state in place", after[1], after[0], dk * cols);
		d.before = before;
	}
	guard_free_all();
}

static void gates(void)
{
	for (int n = 1; n <= QN_DELTA_TOKENS; n++) {
		float a[QN_DELTA_TOKENS], b[QN_DELTA_TOKENS], want[2][QN_DELTA_TOKENS], got[2][QN_DELTA_TOKENS];
		const float dt = rnd_normal(), rate = -fabsf(rnd_sized());

		for (int i = 0; i < n; i++) {
			a[i] = rnd_sized() * (rnd() & 1 ? 10 : 1);
			b[i] = rnd_sized();
		}
		if (n > 8) {
			a[3] = NAN, a[4] = INFINITY, a[5] = 1e30f, a[6] = -1e30f;
			b[3] = NAN, b[4] = INFINITY, b[5] = 1e30f, b[6] = -1e30f;
		}
		EACH_SET(s) {
			check_at(s, "gates of the delta rule, %d", n);
			s->k.delta_gates(got[0], got[1], a, b, dt, rate, n);
			if (s == check_sets) {
				memcpy(want, got, sizeof want);
				for (int i = 0; i < n; i++) {
					const double z = (double)(a[i] + dt),
						     soft = (z > 0 ? z : 0) + log1p(exp(-fabs(z)));
					const double g = exp((double)rate * soft);

					if (!isfinite(a[i]) || !isfinite(b[i])) {
						check_true(isnan(got[0][i]) && isnan(got[1][i]),
						           "%g and %g of %g and %g",
						           (double)got[0][i], (double)got[1][i],
						           (double)a[i], (double)b[i]);
						continue;
					}
					check_near("decay", i, (double)got[0][i], g,
					           1e-6 + 4e-7 * g * fabs((double)rate * soft));
					check_near("beta", i, (double)got[1][i], 1 / (1 + exp(-(double)b[i])), 2e-7);
				}
			}
			check_floats("decay", got[0], want[0], n);
			check_floats("beta", got[1], want[1], n);
		}
	}
}

enum { TOK = 80, SECOND = 5, SRC = 0, DST, GATES, N_BUFS_DELTA };

struct shape {
	int heads, keys, dk, dv, gate_heads, tiled, apart;
	float limit; /* of the logarithms of decays; 0: none */
};

/*
 * Runs tokens from .. to of two sequences, the second of which is the last SECOND of all: from nothing where in < 0,
 * else from the states in units 0 and 2, to those in 1 and 3.
 */
static void run(struct qn_pool *pool, const struct qn_op *op, const struct qn_buf *bufs, float *state, int64_t unit,
                int from, int to, int in)
{
	int32_t seq[TOK], table[2][2] = {{in, 1}, {in < 0 ? -1 : 2, 3}};
	const struct qn_group group = group_of(state, unit, table[0], 2);
	struct qn_buf moved[N_BUFS_DELTA];
	const struct qn_batch batch = {.seq = seq, .groups = &group, .n_tok = to - from, .n_seq = 2, .n_group = 1};

	for (int t = from; t < to; t++)
		seq[t - from] = t >= TOK - SECOND;
	for (int i = 0; i < N_BUFS_DELTA; i++)
		moved[i] = (struct qn_buf){(float *)bufs[i].data + from * bufs[i].width, bufs[i].width};
	check_true(qn_plan_check(op, 1, moved, N_BUFS_DELTA) == QN_OK, "refused");

	const size_t bytes = qn_plan_scratch(op, 1, to - from) * (size_t)qn_pool_threads(pool);
	struct guard scratch = guard_new(bytes);

	run_ops(pool, op, 1, moved, &batch, guard_fill(&scratch, bytes), bytes, NULL);
	guard_intact("scratch", &scratch);
	guard_free(&scratch);
}

/* Two sequences in one batch, and the first in two, with one thread and with two: the formula, and the same bits. */
static void operation(struct qn_pool *pools[2], struct shape s)
{
	const int n_key = s.keys * s.dk, width = 2 * n_key + s.heads * s.dv, out = s.heads * s.dv;
	const int n_gates = s.apart ? s.gate_heads + s.heads * s.dk : 2 * (s.heads + s.gate_heads);
	const int gate_width = (n_gates + 15) / 16 * 16, n_bias = s.heads * (s.apart ? s.dk : 1);
	const size_t bytes = sizeof(float) * (size_t)(s.heads * s.dk * s.dv);
	const int64_t unit = (int64_t)bytes + 64;
	float *src = guard_alloc(sizeof *src * (size_t)(TOK * width));
	float *gate = guard_alloc(sizeof *gate * (size_t)(TOK * gate_width));
	float *vec = guard_alloc(sizeof *vec * (size_t)n_bias), *vec2 = guard_alloc(sizeof *vec2 * (size_t)s.heads);
	float *dst[2], *state[2];
	const struct qn_op op = {
		.kind = QN_OP_DELTA,
		.delta = {
			.r = {.src = SRC, .dst = DST, .col = {0, n_key, 2 * n_key}, .n_head = s.heads,
			      .n_head_kv = s.keys, .head_dim = s.dk, .v_dim = s.dv, .state = {.offset = 64}},
			.gates = GATES, .gate_heads = s.gate_heads, .k_tiled = s.tiled, .by_channel = s.apart,
			.limit = s.limit, .bias = vec, .rate = vec2, .scale = 0.5f,
		},
	};
	static double want[TOK * 64], st[128 * 64];

	check_at(check_sets, "delta rule of %d heads of %d by %d", s.heads, s.dk, s.dv);
	unit_rows(src, TOK, width);
	for (int i = 0; i < TOK * gate_width; i++)
		gate[i] = rnd_normal();
	for (int i = 0; i < n_bias; i++)
		vec[i] = rnd_normal();
	for (int h = 0; h < s.heads; h++)
		vec2[h] = s.limit < 0 ? 0.1f + fabsf(rnd_normal()) : -fabsf(rnd_normal());
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * (size_t)(TOK * out));
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	struct qn_buf bufs[N_BUFS_DELTA] = {{src, width}, {dst[0], out}, {gate, gate_width}};

	run(pools[1], &op, bufs, state[0], unit, 0, TOK, -1);
	for (int h = 0; h < s.heads; h++)
		for (int seq = 0; seq < 2; seq++) {
			const int first = seq ? TOK - SECOND : 0, n = seq ? SECOND : TOK - SECOND;
			const int key = s.tiled ? h % s.keys : h / (s.heads / s.keys);
			const int col = h / s.gate_heads * 2 * s.gate_heads + h % s.gate_heads;
			const int each = s.apart ? s.dk : 1;
			float decay[TOK * 32], beta[TOK];
			const float *row = src + first * width;

			for (int t = 0; t < n; t++) {
				const float *g = gate + (first + t) * gate_width + col;
				for (int i = 0; i < each; i++) {
					const float a = s.apart ? g[s.gate_heads - h + h * s.dk + i] : g[s.gate_heads];
					const double z = (double)a + (double)vec[h * each + i];

					const double rate = (double)vec2[h];
					const double bound = (double)s.limit / (1 + exp(-rate * z));

					decay[t * each + i] = (float)exp(s.limit < 0 ? bound : rate * log1p(exp(z)));
				}
				beta[t] = (float)(1 / (1 + exp(-(double)g[0])));
			}
			memset(st, 0, sizeof st);
			oracle(st, want, s.dk, s.dv, n, row + key * s.dk, row + n_key + key * s.dk,
			       row + 2 * n_key + h * s.dv, width, decay, s.apart, beta, op.delta.scale);
			for (int t = 0; t < n; t++)
				for (int j = 0; j < s.dv; j++)
					check_near("y", (first + t) * out + h * s.dv + j,
					           (double)dst[0][(first + t) * out + h * s.dv + j],
					           want[t * s.dv + j], 1e-5);
		}
	bufs[DST].data = dst[1];
	for (int cut = 1; cut < TOK - SECOND; cut += 1 + rnd_below(9)) { /* of the first sequence */
		check_at(check_sets, "delta rule of %d heads of %d by %d, cut at %d", s.heads, s.dk, s.dv, cut);
		memset(state[1], 0x55, 4 * (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, 0, cut, -1);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, cut, TOK - SECOND, 0);
		check_floats("y", dst[1], dst[0], (TOK - SECOND) * out);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64, (int64_t)bytes);
	}
	guard_free_all();
}

/* The recurrence of RWKV 7: two sequences in one batch, and the first in two, as in operation(). */
static void wkv(struct qn_pool *pools[2], int heads, int dk, int dv)
{
	const int rows = heads * dk, cols = heads * dv, width = 2 * rows + cols;
	const size_t bytes = sizeof(float) * (size_t)(heads * dk * dv);
	const int64_t unit = (int64_t)bytes + 64;
	float *src = guard_alloc(sizeof *src * (size_t)(TOK * width)), *vec[3], *dst[2], *state[2];
	float *gate = guard_alloc(sizeof *gate * (size_t)(TOK * 2 * rows));
	static double want[TOK * 64], st[64 * 64];
	static float g[TOK * 64], seen[TOK * 64], to[TOK * 64], key[TOK * 64];

	for (int i = 0; i < 3; i++) {
		vec[i] = guard_alloc(sizeof **vec * (size_t)rows);
		for (int j = 0; j < rows; j++)
			vec[i][j] = rnd_normal();
	}
	unit_rows(src, TOK, width);
	for (int i = 0; i < TOK * 2 * rows; i++)
		gate[i] = rnd_normal();
	for (int i = 0; i < dk; i++)
		src[3 * width + rows + i] = 0; /* a key without a direction */
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * (size_t)(TOK * 2 * cols));
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	struct qn_buf bufs[N_BUFS_DELTA] = {{src, width}, {dst[0], 2 * cols}, {gate, 2 * rows}};
	const struct qn_op op = {
		.kind = QN_OP_WKV,
		.wkv = {
			.r = {.src = SRC, .dst = DST, .col = {0, rows, 2 * rows}, .n_head = heads, .head_dim = dk,
			      .v_dim = dv, .state = {.offset = 64}},
			.gates = GATES, .direction = vec[0], .rate = vec[1], .bonus = vec[2], .eps = 1e-12f,
		},
	};

	check_at(check_sets, "RWKV 7 of %d heads of %d by %d", heads, dk, dv);
	run(pools[1], &op, bufs, state[0], unit, 0, TOK, -1);
	for (int h = 0; h < heads; h++)
		for (int seq = 0; seq < 2; seq++) {
			const int first = seq ? TOK - SECOND : 0, n = seq ? SECOND : TOK - SECOND;
			const float *row = src + first * width + h * dk, *v = src + first * width + 2 * rows + h * dv;
			double own[TOK] = {0};

			for (int t = 0; t < n; t++) {
				const float *k = row + t * width + rows, *w = gate + (first + t) * 2 * rows + h * dk;
				double length = 0;

				for (int i = 0; i < dk; i++)
					length += pow((double)k[i] * (double)vec[0][h * dk + i], 2);
				length = fmax(sqrt(length), 1e-12);
				for (int i = 0; i < dk; i++) {
					const double a = 1 / (1 + exp(-(double)w[rows + i]));
					const double z = (double)k[i] * (double)vec[0][h * dk + i] / length;
					const double kept = (double)k[i] * (1 + (a - 1) * (double)vec[1][h * dk + i]);

					g[t * dk + i] = (float)exp(-exp(-0.5) / (1 + exp(-(double)w[i])));
					seen[t * dk + i] = (float)z;
					to[t * dk + i] = (float)(-z * a);
					key[t * dk + i] = (float)kept;
					own[t] += (double)row[t * width + i] * kept * (double)vec[2][h * dk + i];
				}
			}
			memset(st, 0, sizeof st);
			oracle_elsewhere(st, want, dk, dv, n, row, v, width, g, seen, to, key);
			for (int t = 0; t < n; t++)
				for (int j = 0; j < dv; j++) {
					const float *y = dst[0] + (first + t) * 2 * cols + h * dv + j;

					check_near("y", t * dv + j, (double)y[0], want[t * dv + j], 1e-5);
					check_near("own value", t * dv + j, (double)y[cols],
					           own[t] * (double)v[t * width + j], 1e-5);
				}
		}
	bufs[DST].data = dst[1];
	for (int cut = 1; cut < TOK - SECOND; cut += 1 + rnd_below(9)) { /* of the first sequence */
		check_at(check_sets, "RWKV 7 of %d heads of %d by %d, cut at %d", heads, dk, dv, cut);
		memset(state[1], 0x55, 4 * (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, 0, cut, -1);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, cut, TOK - SECOND, 0);
		check_floats("y", dst[1], dst[0], (TOK - SECOND) * 2 * cols);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64, (int64_t)bytes);
	}
	guard_free_all();
}

/* Linear attention whose rows decay apart: two sequences in one batch, and the first in two, as in operation(). */
static void decay(struct qn_pool *pools[2], int heads, int shared, int dk, int dv, int late)
{
	const int rows = heads * dk, keys = shared * dk, cols = heads * dv, width = rows + keys + shared * dv;
	const size_t bytes = sizeof(float) * (size_t)(heads * dk * dv);
	const int64_t unit = (int64_t)bytes + 64;
	float *src = guard_alloc(sizeof *src * (size_t)(TOK * width));
	float *bonus = guard_alloc(sizeof *bonus * (size_t)rows);
	float *gate = guard_alloc(sizeof *gate * (size_t)(TOK * rows)), *dst[2], *state[2];
	const struct qn_op op = {
		.kind = QN_OP_DECAY,
		.decay = {
			.r = {.src = SRC, .dst = DST, .col = {0, rows, rows + keys}, .n_head = heads,
			      .n_head_kv = shared, .head_dim = dk, .v_dim = dv, .state = {.offset = 64}},
			.decays = GATES, .bonus = late ? NULL : bonus, .scale = 0.25f,
		},
	};

	check_at(check_sets, "decays of %d heads of %d by %d", heads, dk, dv);
	unit_rows(src, TOK, width);
	for (int i = 0; i < rows; i++)
		bonus[i] = rnd_normal();
	for (int i = 0; i < TOK * rows; i++)
		gate[i] = i % 97 ? rnd_normal() - 1 : 60 * rnd_uniform();
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * (size_t)(TOK * cols));
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	struct qn_buf bufs[N_BUFS_DELTA] = {{src, width}, {dst[0], cols}, {gate, rows}};

	run(pools[1], &op, bufs, state[0], unit, 0, TOK, -1);
	for (int h = 0; h < heads; h++)
		for (int seq = 0; seq < 2; seq++) {
			static double st[64][64];

			memset(st, 0, sizeof st);
			for (int t = seq ? TOK - SECOND : 0; t < (seq ? TOK : TOK - SECOND); t++) {
				const int of = h * shared / heads;
				const float *row = src + t * width, *q = row + h * dk, *k = row + rows + of * dk;
				const float *v = row + rows + keys + of * dv, *u = bonus + h * dk;
				double sum[64] = {0};

				for (int i = 0; i < dk; i++) {
					const double g = exp(-exp((double)gate[t * rows + h * dk + i]));
					const double key = (double)k[i] * (late ? 1 - g : 1);

					for (int j = 0; j < dv; j++) {
						const double own = (double)u[i] * (double)k[i] * (double)v[j];
						const double before = st[i][j];

						st[i][j] = g * before + key * (double)v[j];
						sum[j] += (double)q[i] *
						          (late ? (double)op.decay.scale * st[i][j] : before + own);
					}
				}
				for (int j = 0; j < dv; j++)
					check_near("y", t * dv + j, (double)dst[0][t * cols + h * dv + j], sum[j],
					           1e-5);
			}
		}
	bufs[DST].data = dst[1];
	for (int cut = 1; cut < TOK - SECOND; cut += 1 + rnd_below(9)) { /* of the first sequence */
		memset(state[1], 0x55, 4 * (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, 0, cut, -1);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, cut, TOK - SECOND, 0);
		check_floats("y", dst[1], dst[0], (TOK - SECOND) * cols);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64, (int64_t)bytes);
	}
	guard_free_all();
}

void check_delta(void)
{
	static const int rows[] = {1, 2, 7, 32, 128}, tokens[] = {1, 2, 5, QN_DELTA_TOKENS};
	static const struct shape shapes[] = {
		{4, 2, 32, 32, 16, 1, 0, 0}, {4, 2, 32, 32, 2, 0, 0, 0}, {6, 2, 24, 64, 3, 0, 0, 0},
		{2, 2, 128, 48, 1, 1, 0, 0}, {1, 1, 16, 16, 1, 0, 0, 0}, {2, 2, 32, 32, 16, 0, 1, 0},
		{2, 2, 24, 64, 3, 0, 1, 0}, {2, 2, 32, 32, 16, 0, 1, -5},
	};
	struct qn_pool *pools[2];

	gates();
	for (int r = 0; r < COUNT(rows); r++)
		for (int panels = 1; panels <= 5; panels++)
			for (int t = 0; t < COUNT(tokens); t++)
				for (enum way way = WHOLE; way <= ELSEWHERE; way++)
					kernel(rows[r], panels, tokens[t], way);
	qn_init(check_sets[check_n_sets - 1].isa); /* the fastest */
	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, i + 1) == QN_OK, "no pool"))
			return;
	for (int i = 0; i < COUNT(shapes); i++)
		operation(pools, shapes[i]);
	wkv(pools, 3, 32, 32);
	wkv(pools, 2, 64, 48);
	wkv(pools, 1, 16, 64);
	for (int late = 0; late < 2; late++) {
		decay(pools, 4, 2, 32, 32, late);
		decay(pools, 2, 2, 64, 48, late);
	}
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
