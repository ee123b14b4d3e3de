/*
 * matmul.c - products of weight matrices and a batch of activations.
 *
 * The work is dealt in groups of panels. A group meets all tokens of the batch, in tiles of as many
 * as a kernel takes: its weights come from memory once and stay in the second-level cache, the
 * tile's activations stay in the first-level one. Where threads share what is left, groups become smaller.
 */
#include <math.h>
#include <string.h>

#include "format/pack.h"
#include "format/parts.h"
#include "ops/route.h"
#include "run/operation.h"

/* Panels of a group when tokens need more than one tile: 64 rows of 4096 Q4_K weights are 150 KB. */
#define GROUP 4

/*
 * Panels in a row that a thread takes at once where tokens need one tile; of a gate, where they are FEW at most, as
 * many and then their twins. Of rows of 2048 Q4_K weights a panel is 18 KB: the CPU's own prefetch, which begins anew
 * where the next one lies elsewhere, gets 25 GB/s of Zen 4's memory from single panels, and 30 from eight in a row.
 */
#define RUN_PANELS 8
#define FEW 4

/* Bytes of activations of a large tile, but no fewer tokens than unpacking the weights is worth. */
#define TILE_BYTES (720 << 10)
#define TILE_LEAST 64
#define TILE_UNIT 16

/* The largest panel that has to be packed on the way. */
static size_t scratch_each(const struct qn_op *op)
{
	size_t bytes = 0;

	for (int i = 0; i < op->matmul.n_mat; i++) {
		const struct qn_mat *m = &op->matmul.mat[i];

		if (m->layout == QN_ROWS && qn_panel_bytes(m->type, m->n_in) > bytes)
			bytes = qn_panel_bytes(m->type, m->n_in);
	}
	return bytes;
}

static size_t scratch(const struct qn_op *op)
{
	return 2 * scratch_each(op);
}

/* One matrix of an operation, with what every panel of it needs looked up once. */
struct operand {
	const struct qn_mat *m;
	int64_t share; /* experts that have one matrix */
	mm_fn *mm;
	mm_pair_fn *pair;
	const uint8_t *act; /* the first row's activations */
	int64_t act_bytes;  /* from one row's to the next's */
	int planes;         /* blocks of a kernel that a row has of 256 columns: 2 of 16 bits */
	int64_t panels, panel_bytes, row_bytes;
	uint8_t *scratch; /* for two panels packed on the way */
	size_t scratch_each;
};

/* Matrices that an operation has, or experts that may share some. */
static int64_t n_mat(const struct qn_op *op)
{
	return op->rows == QN_ROWS_PAIR ? op->routing.n_expert : op->rows == QN_ROWS_HEAD ? op->heads.n : 1;
}

/* Which of the kernels multiplies a matrix. */
static int mm_of(const struct qn_mat *m)
{
	return m->layout == QN_X12 ? QN_MM_TWELVE : m->type;
}

static struct operand operand_of(const struct run *c, const struct qn_op *op, int i)
{
	const struct qn_mat *m = &op->matmul.mat[i];
	const enum qn_act kind = act_of(op->matmul.act, m->type);

	return (struct operand){
		.m = m,
		.share = n_mat(op) / m->n_mat,
		.mm = qn_kernels.mm[mm_of(m)],
		.act = c->bufs[op->matmul.act[kind]].data,
		.act_bytes = act_bytes(kind),
		.planes = act_half(kind) == kind ? 1 : 2,
		.pair = qn_kernels.mm_pair[mm_of(m)],
		.panels = mat_panels(m),
		.panel_bytes = mat_panel_bytes(m),
		.row_bytes = (int64_t)qn_row_bytes(m->type, m->n_in),
		.scratch = c->scratch,
		.scratch_each = scratch_each(op),
	};
}

/* Panel p of matrix e of o: where it lies, or packed into a part of scratch. */
static const void *panel_of(const struct operand *o, int64_t e, int64_t p, int part)
{
	e /= o->share;
	if (o->m->layout != QN_ROWS)
		return (const uint8_t *)o->m->data + panel_at(o->m, o->panels, o->panel_bytes, e, p);

	const int64_t row = p * QN_PANEL, left = o->m->n_out - row;
	const uint8_t *rows = (const uint8_t *)o->m->data + (e * o->m->n_out + row) * o->row_bytes;
	uint8_t *panel = o->scratch + part * o->scratch_each;

	/* A scale that is not finite shows in the result; there is no way to report it here. */
	qn_pack(o->m->type, panel, rows, (int32_t)(left < QN_PANEL ? left : QN_PANEL), o->m->n_in);
	return panel;
}

/*
 * One or two panels that meet the same tokens: panel p of a matrix, and w[1] the next one, its twin
 * of the other matrix where that is set (QN_EPI_GLU), or NULL.
 */
struct panels {
	const struct operand *o, *twin;
	const void *w[2];
	int64_t e, p; /* of expert e */
	int64_t bias; /* where the biases of panel p are */
};

static struct panels panels_at(const struct operand *o, const struct operand *twin, int64_t e, int64_t p, int64_t end)
{
	struct panels s = {o, twin, {panel_of(o, e, p, 0), NULL}, e, p, (e / o->share * o->panels + p) * QN_PANEL};

	if (twin)
		s.w[1] = panel_of(twin, e, p, 1);
	else if (p + 1 < end)
		s.w[1] = panel_of(o, e, p + 1, 1);
	return s;
}

/* Which column of dst panel p of matrix e begins at, from that of the first. */
static int64_t panel_col(const struct qn_op *op, const struct operand *o, int64_t e, int64_t p)
{
	if (op->rows == QN_ROWS_PAIR || op->heads.n == 0)
		return p * QN_PANEL;
	if (op->rows == QN_ROWS_HEAD)
		return e * op->heads.step + p * QN_PANEL;

	const int64_t each = o->panels / op->heads.n;

	return p / each * op->heads.step + p % each * QN_PANEL;
}

/* Multiplies n rows of products by the scale of matrix e. */
static void scale_tile(float *tile, const struct operand *o, int64_t e, int n)
{
	if (o->m->scale)
		qn_kernels.scale_rows(tile, tile, o->m->scale[e / o->share], NULL, n * QN_PANEL);
}

/* Adds what adapters make of rows `row` .. row + n to the products of panel p of matrix i, times their gains. */
static void add_delta(const struct run *c, const struct qn_op *op, float *tile, int i, int64_t row, int64_t p, int n)
{
	if (!(op->matmul.adapted >> i & 1))
		return;
	for (int k = 0; k < n; k++, tile += QN_PANEL) {
		const float *d = buf_row(c, op->matmul.delta, row + k) + p * QN_PANEL;

		if (op->matmul.gain_col[i]) {
			const float *g = d + op->matmul.gain_col[i];
			float by[QN_PANEL];

			for (int j = 0; j < QN_PANEL; j++)
				by[j] = 1 + g[j];
			qn_kernels.scale_rows(tile, tile, 1, by, QN_PANEL);
		}
		qn_kernels.add_scaled(tile, d + op->matmul.delta_col[i], 1, QN_PANEL);
	}
}

/* Adds a panel's biases, from number `at` on, to n rows of its products. */
static void add_bias(float *tile, const float *bias, int64_t at, int n)
{
	if (bias)
		qn_kernels.store_tile(tile, QN_PANEL, tile, bias + at, 1, n, 0);
}

/* What a gate opens, within the limit, times the gate within the softcap: both by tanh. */
static void cap(const struct qn_op *op, const float *gate, float *up, int64_t n)
{
	float by[QN_PANEL];

	if (op->matmul.limit > 0)
		qn_kernels.softcap(up, up, op->matmul.limit, n);
	for (int64_t i = 0; i < n; i += QN_PANEL) {
		qn_kernels.softcap(by, gate + i, op->matmul.softcap, QN_PANEL);
		qn_kernels.scale_rows(up + i, up + i, 1, by, QN_PANEL);
	}
}

/* Products of the panels with n rows become results: tile is of the first panel, tile2 of the second. */
static void finish(const struct run *c, const struct qn_op *op, const struct panels *s, float *tile, float *tile2,
                   int64_t t, int n)
{
	const struct qn_matmul *a = &op->matmul;
	const struct operand *o = s->o, *second = s->twin ? s->twin : o;
	const int i = (int)(o->m - a->mat), i2 = (int)(second->m - a->mat), n_store = s->w[1] && !s->twin ? 2 : 1;
	const int64_t row = op->rows == QN_ROWS_HEAD ? t - s->e * c->batch->n_tok : t;
	const int64_t col[2] = {
		a->col[i] + panel_col(op, o, s->e, s->p), a->col[i] + panel_col(op, o, s->e, s->p + 1),
	};

	scale_tile(tile, o, s->e, n);
	add_delta(c, op, tile, i, row, s->p, n);
	if (s->w[1]) {
		scale_tile(tile2, second, s->e, n);
		add_delta(c, op, tile2, i2, row, s->twin ? s->p : s->p + 1, n);
	}
	if (s->twin || a->epilogue == QN_EPI_FN) { /* biases come before the function */
		add_bias(tile, a->bias[i], s->bias, n);
		if (s->w[1])
			add_bias(tile2, a->bias[i2], s->bias + (s->twin ? 0 : QN_PANEL), n);
		if (s->twin && a->softcap > 0) {
			cap(op, tile, tile2, n * QN_PANEL);
		} else if (s->twin && a->limit > 0) {
			if (a->limit_fn)
				qn_kernels.fn[a->fn](tile, tile, NULL, n * QN_PANEL);
			qn_kernels.clamp(tile, -INFINITY, a->limit, n * QN_PANEL);
			qn_kernels.clamp(tile2, -a->limit, a->limit, n * QN_PANEL);
		}
		if (s->twin && a->limit > 0 && a->limit_fn)
			qn_kernels.scale_rows(tile, tile, 1, tile2, n * QN_PANEL);
		else if (s->twin)
			qn_kernels.fn[a->fn](tile, tile, tile2, n * QN_PANEL);
		else
			qn_kernels.fn[a->fn](tile, tile, NULL, n_store * n * QN_PANEL);
	}
	for (int j = 0; j < n_store; j++) {
		float *y = buf_row(c, a->dst, row) + col[j];
		const int64_t stride = c->bufs[a->dst].width;

		if (a->epilogue == QN_EPI_GLU || a->epilogue == QN_EPI_FN)
			qn_kernels.store_tile(y, stride, j ? tile2 : tile, NULL, 1, n, 0);
		else
			qn_kernels.store_tile(y, stride, j ? tile2 : tile,
			                      a->bias[i] ? a->bias[i] + s->bias + j * QN_PANEL : NULL, a->scale, n,
			                      a->epilogue == QN_EPI_ADD);
		if (a->softcap > 0 && a->epilogue == QN_EPI_STORE)
			for (int k = 0; k < n; k++)
				qn_kernels.softcap(y + k * stride, y + k * stride, a->softcap, QN_PANEL);
		if (a->limit > 0 && a->epilogue == QN_EPI_STORE)
			for (int k = 0; k < n; k++)
				qn_kernels.clamp(y + k * stride, -a->limit, a->limit, QN_PANEL);
	}
}

/* n rows of products become half as many: the two planes of a row of activations lie side by side. */
static void add_planes(float *tile, int n)
{
	for (int k = 0; k < n / 2; k++)
		for (int r = 0; r < QN_PANEL; r++)
			tile[k * QN_PANEL + r] = tile[2 * k * QN_PANEL + r] + tile[(2 * k + 1) * QN_PANEL + r];
}

/* Rows t .. t + n times a panel, or two. tile: n rows for each, and room for as many more where there are planes. */
static void multiply(const struct operand *o, float *tile, const void *w, const void *w2, int64_t n_act, int64_t t,
                     int n)
{
	const uint8_t *act = o->act + t * o->act_bytes;
	const int each = n * o->planes;

	if (w2)
		o->pair(tile, w, w2, act, o->m->n_in, n_act * o->planes, each);
	else
		o->mm(tile, w, act, o->m->n_in, n_act * o->planes, each);
	if (o->planes == 2)
		add_planes(tile, w2 ? 2 * each : each);
}

/* Panels times rows t .. t + n of n_act rows of activations. */
static void panel_tile(const struct run *c, const struct qn_op *op, const struct panels *s, int64_t n_act, int64_t t,
                       int n)
{
	const struct operand *o = s->o, *second = s->twin ? s->twin : o;
	const int i = (int)(o->m - op->matmul.mat), n_store = s->w[1] && !s->twin ? 2 : 1;
	const int64_t row = op->rows == QN_ROWS_HEAD ? t - s->e * c->batch->n_tok : t;
	_Alignas(64) float tile[2 * QN_TILE_MAX * QN_PANEL];
	float *tile2 = tile + n * QN_PANEL;

	/* Rows of a large batch lie in other pages and out of the caches: ask for them before the product. */
	for (int k = 0; k < n; k++)
		for (int j = 0; j < n_store; j++) {
			const int64_t col = op->matmul.col[i] + panel_col(op, o, s->e, s->p + j);

			__builtin_prefetch(buf_row(c, op->matmul.dst, row + k) + col, 1);
		}
	if (s->w[1] && n * o->planes >= QN_PAIR_MIN && o->pair && mm_of(o->m) == mm_of(second->m)) {
		multiply(o, tile, s->w[0], s->w[1], n_act, t, n);
	} else {
		multiply(o, tile, s->w[0], NULL, n_act, t, n);
		if (s->w[1])
			multiply(second, tile2, s->w[1], NULL, n_act, t, n);
	}
	finish(c, op, s, tile, tile2, t, n);
}

/* Panels p0 .. p1 of expert e of o, then their twins, times rows t .. t + n: RUN_PANELS and FEW at most. */
static void panels_in_turn(const struct run *c, const struct qn_op *op, const struct operand *o,
                           const struct operand *twin, int64_t e, int64_t p0, int64_t p1, int64_t n_act, int64_t t,
                           int n)
{
	_Alignas(64) float tile[2][FEW * (RUN_PANELS + 1) * QN_PANEL];
	const int64_t each = n * QN_PANEL;

	for (int64_t p = p0; p < p1; p++)
		multiply(o, tile[0] + (p - p0) * each, panel_of(o, e, p, 0), NULL, n_act, t, n);
	for (int64_t p = p0; p < p1; p++)
		multiply(twin, tile[1] + (p - p0) * each, panel_of(twin, e, p, 1), NULL, n_act, t, n);
	for (int64_t p = p0; p < p1; p++) {
		const struct panels s = panels_at(o, twin, e, p, p1);

		finish(c, op, &s, tile[0] + (p - p0) * each, tile[1] + (p - p0) * each, t, n);
	}
}

/*
 * Tokens to take at once: as many as the kernel does, but of large tiles no more than those whose activations stay in
 * the second-level cache from one panel to the next, in whole UNITs.
 */
static int64_t tile_tokens(const struct operand *o)
{
	const int64_t most = qn_kernels.mm_tile[mm_of(o->m)] / o->planes;
	const int64_t each = (o->m->n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK * o->act_bytes;
	const int64_t fit = TILE_BYTES / each / TILE_UNIT * TILE_UNIT;

	if (most <= TILE_LEAST || fit >= most)
		return most;
	return fit > TILE_LEAST ? fit : TILE_LEAST;
}

/* Rows t0 .. t1 in tiles of nearly equal size: large ones, but the last, of whole units. */
struct tiles {
	int64_t t0, t1, n, unit;
};

static struct tiles tiles_of(const struct operand *o, const struct operand *up, int64_t t0, int64_t t1)
{
	int64_t most = tile_tokens(o);

	if (up && tile_tokens(up) < most)
		most = tile_tokens(up);
	return (struct tiles){t0, t1, (t1 - t0 + most - 1) / most, most < TILE_LEAST ? 1 : TILE_UNIT};
}

static int64_t tile_start(const struct tiles *s, int64_t k)
{
	const int64_t at = (s->t1 - s->t0) * k / s->n, whole = (at + s->unit - 1) / s->unit * s->unit;

	return s->t0 + whole < s->t1 ? s->t0 + whole : s->t1;
}

/* Panels p0 .. p1 of expert e of o, and their twins, times rows t0 .. t1. */
static void group(const struct run *c, const struct qn_op *op, const struct operand *o, const struct operand *twin,
                  int64_t e, int64_t p0, int64_t p1, int64_t n_act, int64_t t0, int64_t t1)
{
	const struct tiles s = tiles_of(o, twin, t0, t1);
	const int64_t at_once = twin ? 1 : 2;
	/* Panels that have to be packed are packed once for all tiles; else a tile meets all panels. */
	const int panels_first = o->m->layout == QN_ROWS || (twin && twin->m->layout == QN_ROWS);
	const int64_t step = panels_first ? at_once : p1 - p0;
	struct panels w;

	if (twin && !panels_first && s.n == 1 && t1 - t0 <= FEW && p1 - p0 <= RUN_PANELS) {
		panels_in_turn(c, op, o, twin, e, p0, p1, n_act, t0, (int)(t1 - t0));
		return;
	}
	for (int64_t a = p0; a < p1; a += step) {
		if (panels_first)
			w = panels_at(o, twin, e, a, p1);
		for (int64_t k = 0; k < s.n; k++)
			for (int64_t p = a; p < a + step && p < p1; p += at_once) {
				const int64_t t = tile_start(&s, k);

				if (!panels_first)
					w = panels_at(o, twin, e, p, p1);
				panel_tile(c, op, &w, n_act, t, (int)(tile_start(&s, k + 1) - t));
			}
	}
}

/* Panels of an item: those that a kernel takes at once. */
static int item_size(const struct qn_op *op, int64_t rows)
{
	const int pairs = qn_kernels.mm_pair[mm_of(op->matmul.mat)] && op->matmul.epilogue != QN_EPI_GLU;

	return rows >= QN_PAIR_MIN && pairs ? 2 : 1;
}

/*
 * Items to take at once: more tokens than a kernel takes at once should find their panels in the caches, and others
 * find theirs in long streams.
 */
static int items_at_once(const struct qn_op *op, int64_t rows)
{
	return (rows > qn_kernels.mm_tile[mm_of(op->matmul.mat)] ? GROUP : RUN_PANELS) / item_size(op, rows);
}

/* The columns of dst for the results of m, which are there for each head where there are heads. */
static int dst_ok(const struct plan *p, const struct qn_op *op, int32_t col, const struct qn_mat *m)
{
	int64_t each = m->n_out;

	if (op->rows == QN_ROWS_PAIR || op->heads.n == 0)
		return col_ok(p, op->matmul.dst, col, (each + QN_PANEL - 1) / QN_PANEL * QN_PANEL);
	if (op->heads.n < 0 || (op->rows != QN_ROWS_HEAD && each % op->heads.n != 0))
		return 0;
	if (op->rows != QN_ROWS_HEAD)
		each /= op->heads.n;
	return each % QN_PANEL == 0 && op->heads.step % QN_PANEL == 0 && op->heads.step >= each &&
	       col_ok(p, op->matmul.dst, col, (op->heads.n - 1) * (int64_t)op->heads.step + each);
}

/* What is added to the products of matrix i is there. */
static int delta_ok(const struct plan *p, const struct qn_op *op, int i)
{
	const int64_t width = ((int64_t)op->matmul.mat[i].n_out + QN_PANEL - 1) / QN_PANEL * QN_PANEL;

	if (!(op->matmul.adapted >> i & 1))
		return 1;
	return op->rows != QN_ROWS_HEAD && col_ok(p, op->matmul.delta, op->matmul.delta_col[i], width) &&
	       (op->matmul.gain_col[i] == 0 || col_ok(p, op->matmul.delta, op->matmul.gain_col[i], width));
}

static int check(const struct plan *p, const struct qn_op *op)
{
	const struct qn_matmul *a = &op->matmul;
	const int glu = a->epilogue == QN_EPI_GLU, fn = glu || a->epilogue == QN_EPI_FN;

	if (a->n_mat < 1 || a->n_mat > 3 || a->epilogue < QN_EPI_STORE || a->epilogue > QN_EPI_FN)
		return 0;
	if (glu && (a->n_mat != 2 || a->mat[0].n_out != a->mat[1].n_out || a->mat[0].n_mat != a->mat[1].n_mat))
		return 0;
	if (fn ? a->fn < 0 || a->fn >= QN_N_FN : a->scale == 0) /* 0: not set */
		return 0;
	if (a->limit_fn && a->fn == QN_FN_SWIGLU_CLAMP) /* whose other factor is not its own */
		return 0;
	if (a->limit != 0 && ((a->epilogue != QN_EPI_STORE && !glu) || !(a->limit > 0)))
		return 0;
	if (a->softcap != 0 && ((a->epilogue != QN_EPI_STORE && !glu) || !(a->softcap > 0)))
		return 0;
	if (a->softcap != 0 && glu && (a->limit_fn || a->fn == QN_FN_SWIGLU_CLAMP))
		return 0;
	if (!rows_ok(p, op, 0))
		return 0;
	for (int i = 0; i < a->n_mat; i++) {
		const struct qn_mat *m = &a->mat[i];

		if (!mat_ok(m) || (op->rows == QN_ROWS_PAIR ? n_mat(op) % m->n_mat : n_mat(op) != m->n_mat))
			return 0;
		if (!buf_ok(p, a->act[act_of(a->act, m->type)], m->n_in))
			return 0;
		if ((!(glu && i) && !dst_ok(p, op, a->col[i], m)) || !delta_ok(p, op, i))
			return 0;
	}
	return 1;
}

/*
 * Items of a place: of each active matrix, its panels of each operand that lie there, a few at a time, in order; of an
 * operand that is in one place, as many as the place has threads for.
 */
struct share {
	int64_t first[3], end[3], items[3]; /* panels of each operand, and the items that they make */
	int64_t each;                       /* items of a matrix */
};

/* The first panel of an operand for place k. */
static int64_t share_begin(const struct run *c, const struct operand *o, int k, int places)
{
	if (places == 1 || mat_places(o->m) > 1)
		return part_begin(o->panels, k, places);
	return o->panels * pool_before(c->pool, k) / c->nth;
}

static int64_t share_of(const struct run *c, struct share *s, const struct operand *o, int parts, int size, int k,
                        int places)
{
	s->each = 0;
	for (int i = 0; i < parts; i++) {
		s->first[i] = share_begin(c, &o[i], k, places);
		s->end[i] = share_begin(c, &o[i], k + 1, places);
		s->items[i] = (s->end[i] - s->first[i] + size - 1) / size;
		s->each += s->items[i];
	}
	return s->each;
}

/*
 * Places that the panels of all operands are dealt in: the pool's, or 1 where some lie in other places than those of
 * the threads. Of matrices that lie in one place, and that all tokens use, threads of a place read the same panels in
 * each pass: streamed ones are placed for them. Experts and heads that lie in one place are dealt as one: the few
 * panels of each divide unevenly.
 */
static int places_of(const struct run *c, const struct qn_op *op)
{
	const int places = pool_places(c->pool);

	for (int i = 0; i < op->matmul.n_mat; i++)
		if (mat_places(&op->matmul.mat[i]) != places && (mat_places(&op->matmul.mat[i]) > 1 || n_mat(op) > 1))
			return 1;
	return places;
}

/* A walk over active matrices: experts that some token chose, or heads, or one. */
struct active {
	int64_t n, seen, expert; /* `expert` is the active one number `seen` - 1 */
};

/* Goes to active expert number `at`: items come in rising order, but where another place is helped. */
static int64_t active_expert(struct active *a, const struct route *r, int64_t at)
{
	if (at + 1 < a->seen) {
		a->seen = 0;
		a->expert = -1;
	}
	for (; a->seen <= at; a->seen++)
		do
			a->expert++;
		while (r->offset[a->expert] == r->offset[a->expert + 1]);
	return a->expert;
}

static void run(struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op);
	const int glu = op->matmul.epilogue == QN_EPI_GLU;
	const int by_head = op->rows == QN_ROWS_HEAD, parts = glu ? 1 : op->matmul.n_mat;
	const int64_t each = by_head ? c->batch->n_tok : rows;
	const int size = item_size(op, each), most = items_at_once(op, each), places = places_of(c, op);
	struct active active = {.n = by_head ? op->heads.n : 1, .expert = -1};
	int64_t all[QN_PLACES_MAX], begin, end, i, n;
	struct route route = {0};
	struct operand o[3];
	struct share s = {0};
	int place; /* that s is of */

	if (rows == 0)
		return;
	for (int k = 0; k < op->matmul.n_mat; k++)
		o[k] = operand_of(c, op, k);
	if (op->rows == QN_ROWS_PAIR) {
		route = route_of(c->bufs, &op->routing, c->batch->n_tok);
		active.n = 0;
		for (int e = 0; e < op->routing.n_expert; e++)
			active.n += route.offset[e] < route.offset[e + 1];
	}
	for (int k = 0; k < places; k++)
		all[k] = active.n * share_of(c, &s, o, parts, size, k, places);
	place = places - 1;
	end = places == 1 ? all[0] : 0;
	begin = places == 1 ? 0 : INT64_MAX; /* s is not of the place where items begin */

	struct deal d = places > 1 ? deal_placed(c->pool, c->ith, all) : deal_begin(c->pool, c->ith, all[0]);

	while ((i = deal_some(c->pool, c->step, &d, most, &n)) >= 0)
		for (int64_t some; n > 0; i += some, n -= some) { /* some of one matrix */
			int64_t rest, e = 0, t0 = 0, t1 = rows;
			int k = 0;

			if (i < begin) {
				place = -1;
				begin = end = 0;
			}
			while (i >= end) {
				begin = end;
				end += all[++place];
				share_of(c, &s, o, parts, size, place, places);
			}
			rest = (i - begin) % s.each;
			if (op->rows == QN_ROWS_PAIR) {
				e = active_expert(&active, &route, (i - begin) / s.each);
				t0 = route.offset[e];
				t1 = route.offset[e + 1];
			} else if (by_head) {
				e = (i - begin) / s.each;
				t0 = e * c->batch->n_tok;
				t1 = t0 + c->batch->n_tok;
			}
			while (rest >= s.items[k])
				rest -= s.items[k++];
			some = s.items[k] - rest < n ? s.items[k] - rest : n;

			const int64_t p0 = s.first[k] + rest * size, p1 = p0 + some * size;

			group(c, op, &o[k], glu ? &o[1] : NULL, e, p0, p1 < s.end[k] ? p1 : s.end[k], rows, t0, t1);
		}
}

/* Weights are read once, of experts those that some token uses. */
static struct qn_ticks_op moves(const struct run *c, const struct qn_op *op)
{
	const int64_t rows = op_rows(c, op);
	int64_t used = rows > 0 ? n_mat(op) : 0;
	struct qn_ticks_op m = {0};

	if (op->rows == QN_ROWS_PAIR) {
		const struct route r = route_of(c->bufs, &op->routing, c->batch->n_tok);

		used = 0;
		for (int e = 0; e < op->routing.n_expert; e++)
			used += r.offset[e] < r.offset[e + 1];
	}
	for (int i = 0; i < op->matmul.n_mat; i++) {
		const struct qn_mat *w = &op->matmul.mat[i];

		m.bytes += used * (w->layout == QN_X12 ? mat_panels(w) * mat_panel_bytes(w)
		                                       : w->n_out * (int64_t)qn_row_bytes(w->type, w->n_in));
		m.madds += rows * w->n_out * w->n_in;
	}
	return m;
}

const struct operation op_matmul = {
	.check = check,
	.scratch = scratch,
	.counters = 1,
	.moves = moves,
	.routing = ROUTING_PAIRS,
	.by_head = 1,
	.run = run,
};
