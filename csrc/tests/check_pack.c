/* check_pack.c - sizes, panels and what packing refuses. That panels say what rows said, check_matmul.c. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <strings.h>

#include "check.h"
#include "host.h"
#include "run/pool.h"

static void sizes(void)
{
	int n_types = 0;

	EACH_TYPE(t) {
		check_at(check_sets, "sizes of %s", t->name);
		check_true(qn_type_name(t->type) && !strcasecmp(qn_type_name(t->type), t->name), "qn_type_name");
		for (int64_t n = -1; n <= 1025; n++) {
			const int ok = n > 0 && n % t->elems == 0;
			const size_t row = ok ? (size_t)(t->head + n / t->elems * t->bytes) : 0;

			check_true(qn_type_ok(t->type, n) == ok, "qn_type_ok of %lld", (long long)n);
			check_true(qn_row_bytes(t->type, n) == row, "qn_row_bytes of %lld", (long long)n);
			check_true(qn_panel_bytes(t->type, n) == (16 * row + 63) / 64 * 64, "qn_panel_bytes of %lld",
			           (long long)n);
		}
		check_true(!qn_type_ok(t->type, INT64_MAX / 256 * 256), "rows of 2^63 are ok");
		check_true(qn_type_act(t->type) == (t->type == QN_BF16 ? QN_ACT_BF16
		                                    : t->elems == 1   ? QN_ACT_F32
		                                    : t->elems == 256 ? QN_ACT_Q8_256
		                                    : t->type == QN_NVFP4 ? QN_ACT_Q8_32_16
		                                                          : QN_ACT_Q8_32), "qn_type_act");
	}
	check_at(check_sets, "sizes of unknown types");
	for (int type = -3; type < 300; type++) {
		int known = 0;

		EACH_TYPE(t)
			known |= t->type == type;
		check_true(known || (!qn_type_name(type) && !qn_type_ok(type, 256) && !qn_row_bytes(type, 256) &&
		                     !qn_panel_bytes(type, 256) && qn_type_act(type) == QN_ACT_F32), "type %d", type);
	}
	for (int32_t type; (type = qn_type_at(n_types)) >= 0; n_types++)
		check_true(qn_type_name(type) != NULL, "qn_type_at(%d) is type %d", n_types, type);
	check_true(n_types == check_n_types && qn_type_at(-1) < 0, "%d types, want %d", n_types, check_n_types);
	for (enum qn_act kind = 0; kind < QN_N_ACT; kind++) {
		const size_t block = kind == QN_ACT_F32    ? 1024
		                     : kind == QN_ACT_BF16 ? 512
		                     : kind < QN_N_ACT_ONE ? 320
		                                           : 640;

		check_true(qn_act_bytes(kind, 3, 1) == 3 * block && qn_act_bytes(kind, 3, 256) == 3 * block &&
		                   qn_act_bytes(kind, 5, 257) == 10 * block, "qn_act_bytes of kind %d", kind);
	}
}

/* out[n][16] of the scalar product of a panel and n tokens. */
static void product(const struct type *t, float *out, const void *panel, const void *act, int64_t n_in, int n)
{
	check_sets[0].k.mm[t->type](out, panel, act, n_in, n, n);
}

/* Panels of fewer rows: the rows they have are those of the full panel, the others give zeros. */
static void rows(const struct type *t, int64_t n_in)
{
	enum { TOKENS = 2 };
	const size_t row = qn_row_bytes(t->type, n_in), bytes = qn_panel_bytes(t->type, n_in);
	const int64_t blocks = (n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	const enum qn_act kind = qn_type_act(t->type);
	struct guard src = guard_new(16 * row), dst = guard_new(bytes);
	float *x = guard_alloc(sizeof *x * TOKENS * (size_t)blocks * QN_ACT_BLOCK);
	uint8_t *q = guard_alloc((size_t)(act_bytes(kind) * TOKENS * blocks));
	uint8_t *all = guard_alloc(16 * row), *again = guard_alloc(bytes);
	float full[TOKENS][16], part[TOKENS][16];

	for (int64_t b = 0; b < TOKENS * blocks; b++) {
		for (int k = 0; k < QN_ACT_BLOCK; k++)
			x[b * QN_ACT_BLOCK + k] = rnd_normal();
		if (kind != QN_ACT_F32)
			check_sets[0].k.quantize(q + b * act_bytes(kind), &x[b * QN_ACT_BLOCK], QN_ACT_BLOCK, kind);
	}
	rnd_weights(t, all, 16, n_in, 1);
	for (int n = 16; n >= 1; n--) {
		void *from = guard_fill(&src, (size_t)n * row), *panel = guard_fill(&dst, bytes);

		check_at(check_sets, "qn_pack %s, n_in %lld, %d rows", t->name, (long long)n_in, n);
		memcpy(from, all, (size_t)n * row);
		check_true(qn_pack(t->type, panel, from, n, n_in) == QN_OK, "refused");
		guard_intact("panel", &dst);

		/* Every byte is written: what was there before does not matter. */
		memset(again, 0x3c, bytes);
		qn_pack(t->type, again, from, n, n_in);
		check_bytes("packed over other bytes", panel, again, 16 * (int64_t)row);

		product(t, part[0], panel, kind == QN_ACT_F32 ? (void *)x : (void *)q, n_in, TOKENS);
		if (n == 16)
			memcpy(full, part, sizeof full);
		for (int k = 0; k < TOKENS; k++) {
			check_floats("rows", part[k], full[k], n);
			for (int r = n; r < 16; r++)
				check_true(part[k][r] == 0, "missing row %d gives %g", r, (double)part[k][r]);
		}
	}
	guard_free(&src);
	guard_free(&dst);
	guard_free_all();
}

/* A weight or a scale that is not finite, anywhere. */
static void not_finite(const struct type *t)
{
	const int64_t n_in = 2 * (t->elems < 16 ? 16 : t->elems), blocks = n_in / t->elems;
	const size_t bytes = 16 * qn_row_bytes(t->type, n_in);
	uint8_t *rows = guard_alloc(bytes), *panel = guard_alloc(qn_panel_bytes(t->type, n_in));

	for (int round = 0; round < 48; round++) {
		const int n = 1 + rnd_below(16), block = rnd_below((int)(n * blocks));
		const int field = round % 2 && t->m >= 0 ? t->m : t->d >= 0 ? t->d : 0;
		uint16_t bad = (uint16_t)(0x7c00 | (round % 4 < 2 ? 0 : 1 + rnd_below(1023)) | (rnd() & 0x8000));

		rnd_weights(t, rows, 16, n_in, 1);
		check_at(check_sets, "qn_pack %s, %d rows, %#x in block %d", t->name, n, bad, block);
		check_true(qn_pack(t->type, panel, rows, n, n_in) == QN_OK, "refused before");
		if (t->type == QN_BF16)
			bad |= 0x7f80;
		if (t->type == QN_F32) {
			const uint32_t u = 0x7f800000 | (uint32_t)(bad & 0x83ff) << 8;

			memcpy(rows + block * t->bytes, &u, sizeof u);
		} else if (t->d >= 0 && field == t->d) {
			put_scale(t, rows, n_in, block, bad);
		} else {
			memcpy(rows + block * t->bytes + field, &bad, sizeof bad);
		}
		check_true(qn_pack(t->type, panel, rows, n, n_in) == QN_ENOTFINITE, "not QN_ENOTFINITE");
	}
	/* The largest finite half is one. */
	if (t->d >= 0) {
		const uint16_t most = 0xfbff;

		rnd_weights(t, rows, 16, n_in, 1);
		put_scale(t, rows, n_in, 0, most);
		check_true(qn_pack(t->type, panel, rows, 16, n_in) == QN_OK, "refuses -65504");
	}
	guard_free_all();
}

/* Whole matrices, by all threads and past the caches: the same panels. */
static void matrices(const struct type *t, struct qn_pool *pool)
{
	const struct qn_mat m = {
		.type = t->type, .layout = QN_ROWS, .n_in = 9 * t->elems, .n_out = 37, .n_mat = 2,
	};
	const size_t row = qn_row_bytes(t->type, m.n_in), bytes = qn_panel_bytes(t->type, m.n_in);
	const int64_t panels = (m.n_out + QN_PANEL - 1) / QN_PANEL;
	uint8_t *src = guard_alloc((size_t)(m.n_mat * m.n_out) * row), *want = guard_alloc(bytes);
	struct guard dst = guard_new((size_t)(m.n_mat * panels) * bytes);
	uint8_t *got = guard_fill(&dst, (size_t)(m.n_mat * panels) * bytes);
	struct qn_mat from = m;

	rnd_weights(t, src, m.n_mat * m.n_out, m.n_in, 1);
	from.data = src;
	check_at(check_sets, "qn_pack_mat %s", t->name);
	check_true(pack_rows(pool, got, &from) == QN_OK, "refused");
	guard_intact("panels", &dst);
	for (int64_t p = 0; p < m.n_mat * panels; p++) {
		const int64_t first = p % panels * QN_PANEL, left = m.n_out - first;

		qn_pack(t->type, want, src + (size_t)(p / panels * m.n_out + first) * row,
		        (int32_t)(left < QN_PANEL ? left : QN_PANEL), m.n_in);
		check_bytes("panel", got + (size_t)p * bytes, want, 16 * (int64_t)row);
	}
	guard_free(&dst);
	guard_free_all();
}

/* Page faults of each of two threads. */
static void faults_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	(void)pool, (void)nth;
	((int64_t *)arg)[ith] = host_faults();
}

/* Pages of a place are written first by its own thread, though all panels are its own and the other thread helps. */
static void first_touch(void)
{
	enum { IN = 1024, PANELS = 64, PAGES = PANELS / 2 * IN * 4 * QN_PANEL / 4096 };
	static const struct qn_thread threads[] = {{.place = 0}, {.place = 1}};
	const int64_t stride = PANELS / 2 * (int64_t)qn_panel_bytes(QN_F32, IN), rows = PANELS / 2 * QN_PANEL;
	uint8_t *to = host_map(2 * (size_t)stride, 0);
	const struct qn_mat from = {
		.data = guard_alloc(sizeof(float) * IN * (size_t)rows), .type = QN_F32, .layout = QN_ROWS, .n_in = IN,
		.n_out = (int32_t)rows, .n_mat = 1,
	};
	const struct qn_mat dst = {
		.data = to, .type = QN_F32, .layout = QN_X16, .n_in = IN, .n_out = PANELS * QN_PANEL, .n_mat = 1,
		.places = 2, .place_stride = stride,
	};
	struct qn_pool *pool;
	int64_t before[2], after[2];

	check_at(check_sets, "first touch of panels in two places");
	if (!check_true(to && qn_pool_create(&pool, threads, 2) == QN_OK, "nothing to try it with"))
		return;
	memset((void *)from.data, 0, sizeof(float) * IN * (size_t)rows);
	pool_run(pool, faults_job, before);
	check_true(qn_pack_mat(pool, &dst, PANELS / 2, &from) == QN_OK, "refused");
	pool_run(pool, faults_job, after);
	/* A few faults are of the threads' own. Emulators may count none, and are quick. */
	if (after[0] >= 0) {
		const int others = (int)(after[0] - before[0]), own = (int)(after[1] - before[1]);

		check_true(own >= PAGES || check_quick, "%d faults of %d pages", own, PAGES);
		check_true(others < PAGES / 8, "%d faults of another place's thread, %d of its own, %d pages", others,
		           own, PAGES);
	}
	qn_pool_destroy(pool);
	host_unmap(to, 2 * (size_t)stride, 0);
	guard_free_all();
}

static int64_t ones(const uint8_t *p, size_t bytes)
{
	int64_t n = 0;

	while (bytes--)
		n += __builtin_popcount(*p++);
	return n;
}

/* Interleaved rows taken apart: every bit goes somewhere. Where, a test of go/model has from files. */
static void apart(const struct type *t)
{
	const int32_t n = qn_rows_together(t->type);
	const int64_t n_in = 3 * t->elems;
	const size_t row = qn_row_bytes(t->type, n_in), bytes = 2 * (size_t)n * row;
	uint8_t *src = guard_alloc(bytes);
	struct guard dst = guard_new(bytes);
	uint8_t *got = guard_fill(&dst, bytes);

	check_at(check_sets, "qn_rows_apart %s", t->name);
	rnd_weights(t, src, 2 * n, n_in, 1);
	if (n > 1) {
		check_true(qn_rows_apart(t->type, got, src, 2 * n, n_in) == QN_OK, "refused");
		check_true(ones(got, bytes) == ones(src, bytes), "bits are lost");
		guard_intact("rows", &dst);
	}
	check_true(qn_rows_apart(t->type, got, src, n > 1 ? n + 1 : n, n_in) == QN_EINVAL, "takes %d rows", n + 1);
	check_true(qn_rows_apart(t->type, got, src, n, n_in - 1) == QN_EINVAL || t->elems == 1, "takes half a block");
	check_true(qn_rows_apart(t->type, got, src, 0, n_in) == QN_EINVAL, "takes no rows");
	guard_free(&dst);
	guard_free_all();
}

static void refused(void)
{
	static float w[32 * 16];
	static _Alignas(64) uint8_t panel[sizeof w];

	check_at(check_sets, "qn_pack");
	check_true(qn_pack(QN_F32, panel, w, 16, 32) == QN_OK, "refuses f32");
	check_true(qn_pack(QN_F32, panel, w, 0, 32) == QN_EINVAL, "takes no rows");
	check_true(qn_pack(QN_F32, panel, w, 17, 32) == QN_EINVAL, "takes 17 rows");
	check_true(qn_pack(QN_F32, panel, w, 1, 0) == QN_EINVAL, "takes rows of nothing");
	check_true(qn_pack(QN_F32, panel, w, 1, -32) == QN_EINVAL, "takes rows of less than nothing");
	check_true(qn_pack(QN_Q4_K, panel, w, 1, 128) == QN_EINVAL, "takes half a super-block");
	check_true(qn_pack(4, panel, w, 1, 32) == QN_EINVAL, "takes type 4");
	check_true(qn_pack(-1, panel, w, 1, 32) == QN_EINVAL, "takes type -1");
}

void check_pack(void)
{
	struct qn_pool *pool;

	sizes();
	check_at(check_sets, "pool of 3 threads");
	if (check_true(qn_pool_create(&pool, NULL, 3) == QN_OK, "not created")) {
		EACH_TYPE(t)
			matrices(t, pool);
		qn_pool_destroy(pool);
	}
	first_touch();
	EACH_TYPE(t) {
		rows(t, t->elems);
		rows(t, t->elems * 9);
		if (t->elems == 1)
			rows(t, 300);
		apart(t);
		if (t->type != QN_NVFP4) /* whose scales are all numbers */
			not_finite(t);
	}
	refused();
}
