/*
 * check_scan.c - selective state spaces: the scalar kernel against the formula in double, every set against the scalar
 * one, and the operation on sequences that are cut anywhere.
 */
#include <math.h>
#include <string.h>

#include "check.h"

enum { STATE_MAX = 256, COLS_MAX = 16 * 5 };

/* What a token does to the state of one column, S: [n], in double; returns its result. */
static double step(double *s, int n, const float *b, const float *c, double x, double dt, const double *decay, double d)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		s[i] = decay[i] * s[i] + (double)b[i] * dt * x;
		sum += (double)c[i] * s[i];
	}
	return sum + d * x;
}

static void fill(float *x, int64_t n, float scale)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = rnd_normal() * scale;
}

static void fill_positive(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = fabsf(rnd_uniform());
}

static void kernel(int n_state, int panels, int n, int by_channel)
{
	const int cols = panels * QN_PANEL, stride = 2 * n_state + cols, lanes = by_channel ? QN_PANEL : 1;
	const int decays = by_channel ? QN_PANEL * n_state : 1;
	const size_t state = sizeof(float) * (size_t)(n_state * cols);
	float *rows = guard_alloc(sizeof *rows * (size_t)(n * stride));
	float *dt = guard_alloc(sizeof *dt * (size_t)(n * lanes)), *d = guard_alloc(sizeof *d * (size_t)cols);
	float *decay = guard_alloc(sizeof *decay * (size_t)(n * decays)), *before = guard_alloc(state);
	float *after[2], *o[2];

	fill(rows, n * stride, 1 / sqrtf((float)n_state));
	fill_positive(dt, n * lanes);
	fill_positive(decay, n * decays);
	fill(before, n_state * cols, 1);
	fill(d, cols, 1);
	for (int i = 0; i < 2; i++) {
		after[i] = guard_alloc(state);
		o[i] = guard_alloc(sizeof **o * (size_t)(n * cols));
	}
	struct scan_rows s = {.x = rows + 2 * n_state, .b = rows, .c = rows + n_state, .stride = stride,
	                      .o_stride = cols, .dt = dt, .decay = decay, .d = d, .before = before, .n = n,
	                      .n_state = n_state, .panels = panels, .by_channel = by_channel};

	EACH_SET(set) {
		const int i = set != check_sets;

		s.after = after[i];
		s.o = o[i];
		check_at(set, "scan of %d numbers, %d panels, %d tokens%s", n_state, panels, n,
		         by_channel ? ", by channel" : "");
		set->k.scan(&s);
		if (i) {
			check_floats("state", after[1], after[0], n_state * cols);
			check_floats("o", o[1], o[0], n * cols);
		}
		memcpy(after[1], before, state); /* in place */
		s.before = s.after = after[1];
		s.o = o[1];
		set->k.scan(&s);
		check_floats("state in place", after[1], after[0], n_state * cols);
		s.before = before;
	}
	check_at(check_sets, "scan of %d numbers, %d panels, %d tokens", n_state, panels, n);
	for (int j = 0; j < cols; j++) {
		const int at = j / QN_PANEL * n_state * QN_PANEL + j % QN_PANEL;
		double column[STATE_MAX], g[STATE_MAX];

		for (int i = 0; i < n_state; i++)
			column[i] = (double)before[at + i * QN_PANEL];
		for (int t = 0; t < n; t++) {
			const float *row = rows + t * stride;

			for (int i = 0; i < n_state; i++)
				g[i] = (double)(by_channel ? decay[(t * n_state + i) * QN_PANEL + j] : decay[t]);
			check_near("o", t * cols + j, (double)o[0][t * cols + j],
			           step(column, n_state, row, row + n_state, (double)row[2 * n_state + j],
			                (double)dt[by_channel ? t * QN_PANEL + j : t], g, (double)d[j]),
			           2e-5);
		}
		for (int i = 0; i < n_state; i++)
			check_near("state", at + i * QN_PANEL, (double)after[0][at + i * QN_PANEL], column[i], 2e-5);
	}
	guard_free_all();
}

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static void steps(void)
{
	for (int n = 1; n <= 20; n++) {
		float x[20], dt[QN_PANEL], rate[20 * QN_PANEL], want[2][20 * QN_PANEL], got[20 * QN_PANEL];

		for (int i = 0; i < n; i++)
			x[i] = rnd_sized() * (rnd() & 1 ? 10 : 1);
		for (int i = 0; i < n * QN_PANEL; i++)
			rate[i] = rnd_sized() * (rnd() & 1 ? -10 : -1);
		for (int j = 0; j < QN_PANEL; j++)
			dt[j] = fabsf(rnd_sized());
		if (n > 8) {
			x[3] = NAN, x[4] = INFINITY, x[5] = 1e30f, x[6] = -1e30f, x[7] = -INFINITY;
			dt[3] = NAN, dt[4] = INFINITY, dt[5] = 1e30f;
		}
		EACH_SET(s) {
			check_at(s, "softplus of %d", n);
			s->k.softplus(got, x, n);
			if (s == check_sets)
				memcpy(want[0], got, sizeof got);
			check_floats("y", got, want[0], n);
			check_at(s, "decays of %d", n);
			s->k.scan_decays(got, dt, rate, n);
			if (s == check_sets)
				memcpy(want[1], got, sizeof got);
			check_floats("y", got, want[1], n * QN_PANEL);
		}
		for (int i = 0; i < n; i++)
			if (isfinite(x[i]))
				check_near("softplus", i, (double)want[0][i], softplus((double)x[i]),
				           4e-7 * softplus((double)x[i]) + 1e-37);
			else
				check_true(!isfinite(want[0][i]), "softplus of %g is %g", (double)x[i],
				           (double)want[0][i]);
		for (int i = 0; i < n * QN_PANEL; i++) {
			const double z = (double)dt[i % QN_PANEL] * (double)rate[i];

			if (isfinite((float)z) && z < 80)
				check_near("decay", i, (double)want[1][i], exp(z),
				           4e-7 * exp(z) * (1 + fabs(z)) + 1e-37);
			else if (!isfinite((float)z))
				check_true(isnan(want[1][i]), "decay of %g is %g", z, (double)want[1][i]);
		}
	}
}

enum { TOK = 80, SECOND = 5, SRC = 0, DST, STEPS, N_BUFS_SCAN };

struct shape {
	int heads, groups, n_state, dim, by_channel;
	float step_min, step_max;
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
	struct qn_buf moved[N_BUFS_SCAN];
	const struct qn_batch batch = {.seq = seq, .groups = &group, .n_tok = to - from, .n_seq = 2, .n_group = 1};

	for (int t = from; t < to; t++)
		seq[t - from] = t >= TOK - SECOND;
	for (int i = 0; i < N_BUFS_SCAN; i++)
		moved[i] = (struct qn_buf){(float *)bufs[i].data + from * bufs[i].width, bufs[i].width};
	check_true(qn_plan_check(op, 1, moved, N_BUFS_SCAN) == QN_OK, "refused");
	run_ops(pool, op, 1, moved, &batch, NULL, 0, NULL);
}

/* The formula, of one column of a head and of the tokens of one sequence. */
static void column(const struct qn_op *op, const struct qn_buf *bufs, int h, int j, int first, int n)
{
	const int ch = h * op->scan.r.v_dim + j, at = op->scan.by_channel ? ch : h,
	      group = h / (op->scan.r.n_head / op->scan.r.n_head_kv);
	double s[STATE_MAX] = {0}, g[STATE_MAX];

	for (int t = first; t < first + n; t++) {
		const float *row = (const float *)bufs[SRC].data + t * bufs[SRC].width;
		const float raw = ((const float *)bufs[STEPS].data)[t * bufs[STEPS].width + op->scan.step.col + at];
		const double any = softplus((double)raw + (double)op->scan.bias[at]),
		             low = fmax(any, (double)op->scan.step_min),
		             dt = op->scan.step_max > 0 ? fmin(low, (double)op->scan.step_max) : low;

		for (int i = 0; i < op->scan.r.head_dim; i++) {
			const int e = ((ch / QN_PANEL) * op->scan.r.head_dim + i) * QN_PANEL + j % QN_PANEL;

			g[i] = exp(dt * (double)op->scan.rate[op->scan.by_channel ? e : h]);
		}
		const double want = step(s, op->scan.r.head_dim, row + op->scan.r.col[1] + group * op->scan.r.head_dim,
		                         row + op->scan.r.col[2] + group * op->scan.r.head_dim,
		                         (double)row[op->scan.r.col[0] + ch], dt, g,
		                         (double)op->scan.skip[at]);

		check_near("y", t * bufs[DST].width + ch,
		           (double)((const float *)bufs[DST].data)[t * bufs[DST].width + ch], want,
		           1e-5 * (1 + fabs(want)));
	}
}

/* Two sequences in one batch, and the first in two, with one thread and with two: the formula, and the same bits. */
static void operation(struct qn_pool *pools[2], struct shape s)
{
	const int out = s.heads * s.dim, n_group = (s.groups * s.n_state + 15) / 16 * 16, width = 2 * n_group + out;
	const int numbers = s.by_channel ? out : s.heads, step_width = 16 + (numbers + 15) / 16 * 16;
	const int rates = s.by_channel ? out * s.n_state : s.heads;
	const size_t bytes = sizeof(float) * (size_t)(out * s.n_state);
	const int64_t unit = (int64_t)bytes + 64;
	float *src = guard_alloc(sizeof *src * (size_t)(TOK * width));
	float *steps = guard_alloc(sizeof *steps * (size_t)(TOK * step_width));
	float *vec = guard_alloc(sizeof *vec * (size_t)numbers), *vec2 = guard_alloc(sizeof *vec2 * (size_t)rates);
	float *mul = guard_alloc(sizeof *mul * (size_t)numbers), *dst[2], *state[2];
	const struct qn_op op = {
		.kind = QN_OP_SCAN,
		.scan = {
			.r = {.src = SRC, .dst = DST, .col = {2 * n_group, n_group, 0}, .n_head = s.heads,
			      .n_head_kv = s.groups, .head_dim = s.n_state, .v_dim = s.dim, .state = {.offset = 64}},
			.step = {STEPS, 16}, .step_min = s.step_min, .step_max = s.step_max, .by_channel = s.by_channel,
			.bias = vec, .rate = vec2, .skip = mul,
		},
	};

	fill(src, TOK * width, 0.3f);
	fill(steps, TOK * step_width, 1);
	fill(vec, numbers, 1);
	fill(mul, numbers, 1);
	for (int i = 0; i < rates; i++)
		vec2[i] = -fabsf(rnd_normal());
	for (int i = 0; i < 2; i++) {
		dst[i] = guard_alloc(sizeof **dst * (size_t)(TOK * out));
		state[i] = guard_alloc(4 * (size_t)unit);
		memset(state[i], 0x55, 4 * (size_t)unit);
	}
	struct qn_buf bufs[N_BUFS_SCAN] = {{src, width}, {dst[0], out}, {steps, step_width}};

	check_at(check_sets, "scan of %d heads of %d by %d", s.heads, s.n_state, s.dim);
	run(pools[1], &op, bufs, state[0], unit, 0, TOK, -1);
	for (int ch = 0; ch < out; ch++) {
		column(&op, bufs, ch / s.dim, ch % s.dim, 0, TOK - SECOND);
		column(&op, bufs, ch / s.dim, ch % s.dim, TOK - SECOND, SECOND);
	}
	bufs[DST].data = dst[1];
	for (int cut = 1; cut < TOK - SECOND; cut += 1 + rnd_below(9)) { /* of the first sequence */
		check_at(check_sets, "scan of %d heads of %d by %d, cut at %d", s.heads, s.n_state, s.dim, cut);
		memset(state[1], 0x55, 4 * (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, 0, cut, -1);
		memcpy(state[1], (uint8_t *)state[1] + unit, (size_t)unit);
		run(pools[cut % 2], &op, bufs, state[1], unit, cut, TOK - SECOND, 0);
		check_floats("y", dst[1], dst[0], (TOK - SECOND) * out);
		check_bytes("state", (uint8_t *)state[1] + unit + 64, (uint8_t *)state[0] + unit + 64, (int64_t)bytes);
	}
	guard_free_all();
}

void check_scan(void)
{
	static const int sizes[] = {1, 2, 7, 16, 128, STATE_MAX}, tokens[] = {1, 2, 5, QN_SCAN_TOKENS};
	static const struct shape shapes[] = {
		{4, 2, 32, 32, 0, 0, 0}, {6, 1, 128, 80, 0, 0.5f, 0}, {2, 2, 9, 16, 0, 0.4f, 0.9f},
		{1, 1, 16, 80, 1, 0, 0}, {2, 1, STATE_MAX, 32, 1, 0, 0.7f}, {2, 2, 5, 48, 1, 0.6f, 0.6f},
	};
	struct qn_pool *pools[2];

	steps();
	for (int r = 0; r < COUNT(sizes); r++)
		for (int t = 0; t < COUNT(tokens); t++) {
			for (int panels = 1; panels <= COLS_MAX / QN_PANEL; panels++)
				kernel(sizes[r], panels, tokens[t], 0);
			kernel(sizes[r], 1, tokens[t], 1);
		}
	qn_init(check_sets[check_n_sets - 1].isa); /* the fastest */
	check_at(check_sets, "qn_pool_create");
	for (int i = 0; i < 2; i++)
		if (!check_true(qn_pool_create(&pools[i], NULL, i + 1) == QN_OK, "no pool"))
			return;
	for (int i = 0; i < COUNT(shapes); i++)
		operation(pools, shapes[i]);
	for (int i = 0; i < 2; i++)
		qn_pool_destroy(pools[i]);
}
