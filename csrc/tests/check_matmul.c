/*
 * check_matmul.c - products of packed panels and activations: the scalar ones against a dot product in
 * double of dequantized rows, the others against the scalar ones.
 *
 * A product of n tokens is taken from the end of n_act: a kernel that mixes up the strides meets
 * another token's activations, one that reads too far the unmapped page.
 */
#include <math.h>
#include <string.h>

#include "math/fp16.h"
#include "check.h"

#define N_ACT_MAX (QN_TILE_MAX + 3)
#define N_IN_MAX 1280

enum weights { W_RANDOM, W_ONES, W_ZERO_BITS, W_ZERO, W_ONE_HUGE };
/* A_CALM: magnitudes of 16 add up to 1023, or 1 more in some blocks; A_MIXED: each block is one of some. */
enum acts { A_RANDOM, A_MAX, A_MIN, A_SIGNS, A_CALM, A_ZERO, A_ONE_HUGE, A_NAN, A_MIXED };

static const struct {
	const char *name;
	enum weights w;
	enum acts a;
} cases[] = {
	{"random", W_RANDOM, A_RANDOM},       {"largest", W_ONES, A_MAX},        {"all bits, -127", W_ONES, A_MIN},
	{"no bits, 127", W_ZERO_BITS, A_MAX}, {"no bits, -127", W_ZERO_BITS, A_MIN},
	{"random, +-127", W_RANDOM, A_SIGNS}, {"all bits, +-127", W_ONES, A_SIGNS},
	{"zero weights", W_ZERO, A_RANDOM},   {"zero activations", W_RANDOM, A_ZERO},
	{"one huge weight", W_ONE_HUGE, A_RANDOM}, {"one huge activation", W_RANDOM, A_ONE_HUGE},
	{"random, calm", W_RANDOM, A_CALM},   {"all bits, calm", W_ONES, A_CALM},
	{"random, calm and not", W_RANDOM, A_MIXED},
	{"random again", W_RANDOM, A_RANDOM}, {"one NaN", W_RANDOM, A_NAN},
};

static void put_half(uint8_t *p, int at, float x)
{
	const uint16_t h = half_nearest((double)x);

	if (at >= 0)
		memcpy(p + at, &h, sizeof h);
}

static void set_float(const struct type *t, uint8_t *p, float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	if (t->type == QN_F32)
		memcpy(p, &x, sizeof x);
	else if (t->type == QN_F16)
		put_half(p, 0, x);
	else
		memcpy(p, (const uint16_t[]){(uint16_t)(u >> 16)}, 2);
}

/* n rows of weights. */
static void fill_weights(const struct type *t, enum weights kind, uint8_t *rows, int64_t n, int64_t n_in)
{
	rnd_weights(t, rows, n, n_in, kind == W_ONE_HUGE ? 1e-3f : 1);
	for (int64_t i = 0; i < n * n_in / t->elems && kind != W_RANDOM; i++) {
		uint8_t *p = block_at(t, rows, n_in, i);

		if (kind == W_ONE_HUGE) {
			if (i % 7 == 3 && t->d < 0)
				set_float(t, p, 6e4f);
			else if (i % 7 == 3)
				put_scale(t, rows, n_in, i, half_nearest(6e4));
			continue;
		}
		memset(p, kind == W_ONES ? 0xff : 0, (size_t)t->bytes);
		if (t->d < 0) {
			set_float(t, p, kind == W_ONES ? 6e4f : 0);
		} else {
			put_scale(t, rows, n_in, i, half_nearest(kind == W_ONES ? 65504 : kind == W_ZERO_BITS ? 1 : 0));
			put_half(p, t->m, kind == W_ONES ? -65504 : kind == W_ZERO_BITS ? 1 : 0);
		}
		if (t->type == QN_MXFP4 && kind == W_ZERO) { /* has no zero: the least scales, which are subnormal */
			rnd_bytes(p, (size_t)t->bytes);
			*p = rnd() & 1;
		}
	}
}

/* One block of activations. NaN beyond n in the floats: nobody wrote there, nobody may look. */
static void fill_act(enum acts kind, struct actf *xf, void *q8, enum qn_act as, int n)
{
	int8_t q[QN_ACT_BLOCK] = {0};
	int more, sign = 1;

	if (kind == A_MIXED)
		kind = rnd() & 1 ? A_RANDOM : rnd() & 1 ? A_SIGNS : A_CALM;
	more = rnd_below(4) == 0;
	for (int k = 0; k < n; k++) {
		xf->x[k] = kind == A_ZERO ? 0 : rnd_sized();
		if (kind >= A_MAX && kind <= A_CALM) {
			if (k % 16 == 0)
				sign = rnd() & 1 ? 1 : -1;
			q[k] = kind == A_MAX ? 127 : kind == A_MIN ? -127 : rnd() & 1 ? 127 : -127;
			if (kind == A_CALM)
				q[k] = (int8_t)(sign * (k % 16 ? 64 : 63 + more));
			xf->x[k] = q[k];
		}
	}
	if (kind == A_ONE_HUGE)
		xf->x[rnd_below(n)] = 1e6f;
	if (as != QN_ACT_F32)
		check_sets[0].k.quantize(q8, xf->x, n, as);
	if (as != QN_ACT_F32 && as != QN_ACT_BF16 && kind >= A_MAX && kind <= A_CALM)
		act8_of(q8, as, q, rnd() & 1 ? 1 : 0x1p-90f);
	for (int k = n; k < QN_ACT_BLOCK; k++)
		xf->x[k] = NAN;
}

/* Rows of 16 in one format or another, and n_act tokens. */
struct problem {
	const struct type *t;
	enum qn_act kind;
	int64_t n_in, blocks; /* blocks of activations in a row */
	int n_act;
	uint8_t *rows, *turned; /* turned: the rows from last to first */
	void *panel, *panel2;   /* of rows, of turned */
	struct actf *xf;
	uint8_t *x8;        /* of the kind; of no use where that is floats */
	float want[N_ACT_MAX][QN_PANEL];
	int nan; /* a token of NaN, or -1 */
};

/* Block i of the activations, as the product takes them. */
static void *block(const struct problem *p, int64_t i)
{
	return p->kind == QN_ACT_F32 ? (void *)(p->xf + i) : (void *)(p->x8 + i * act_bytes(p->kind));
}

static void fill(struct problem *p, enum weights w, enum acts a)
{
	fill_weights(p->t, w, p->rows, QN_PANEL, p->n_in);
	p->nan = -1;
	for (int64_t b = 0; b < p->blocks; b++)
		for (int i = 0; i < p->n_act; i++) {
			const int64_t left = p->n_in - b * QN_ACT_BLOCK;

			fill_act(a, &p->xf[b * p->n_act + i], block(p, b * p->n_act + i), p->kind,
			         (int)(left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK));
		}
	if (a == A_NAN) { /* in one block, of which a first 32 are always used */
		const int64_t i = rnd_below((int)p->blocks) * p->n_act + rnd_below(p->n_act);

		p->nan = (int)(i % p->n_act);
		p->xf[i].x[0] = NAN;
		if (p->kind != QN_ACT_F32)
			check_sets[0].k.quantize(block(p, i), p->xf[i].x, 1, p->kind);
	}
	check_true(qn_pack(p->t->type, p->panel, p->rows, QN_PANEL, p->n_in) == QN_OK, "qn_pack refuses");

	const size_t row = qn_row_bytes(p->t->type, p->n_in);

	for (size_t r = 0; r < QN_PANEL; r++)
		memcpy(p->turned + r * row, p->rows + (QN_PANEL - 1 - r) * row, row);
	check_true(qn_pack(p->t->type, p->panel2, p->turned, QN_PANEL, p->n_in) == QN_OK, "qn_pack refuses");
}

/* All activations of a token. */
static void activations(const struct problem *p, int token, double *x)
{
	for (int64_t k = 0; k < p->n_in; k++) {
		const int64_t i = k / QN_ACT_BLOCK * p->n_act + token;

		x[k] = act_value(block(p, i), p->kind, k % QN_ACT_BLOCK);
	}
}

/*
 * The scalar product against dequantized rows: each row with every fourth token, each token with every
 * fourth row. A row is dequantized twice, once without its minimums and once without its scales, because
 * the two may cancel.
 */
static void oracle(const struct problem *p)
{
	static float part[2][N_IN_MAX];
	static double x[N_ACT_MAX][N_IN_MAX];
	static uint8_t row[N_IN_MAX * 4];
	const size_t bytes = qn_row_bytes(p->t->type, p->n_in);

	for (int t = 0; t < p->n_act; t++)
		activations(p, t, x[t]);
	for (int r = 0; r < QN_PANEL; r++) {
		for (int i = 0; i < 2; i++) {
			memcpy(row, p->rows + (size_t)r * bytes, bytes);
			for (int64_t b = 0; b < p->n_in / p->t->elems; b++) {
				if (i && p->t->d >= 0)
					put_scale(p->t, row, p->n_in, b, 0);
				else if (!i)
					put_half(row + b * p->t->bytes, p->t->m, 0);
			}
			qn_dequantize(p->t->type, part[i], row, p->n_in);
			if (i && p->t->m < 0)
				memset(part[i], 0, sizeof part[i]);
		}
		for (int t = r % 4; t < p->n_act; t += 4) {
			double sum = 0, size = 0;

			for (int64_t k = 0; k < p->n_in; k++) {
				sum += ((double)part[0][k] + (double)part[1][k]) * x[t][k];
				size += (fabs((double)part[0][k]) + fabs((double)part[1][k])) * fabs(x[t][k]);
			}
			if (t == p->nan)
				check_true(isnan(p->want[t][r]), "token %d, row %d hides a NaN", t, r);
			else
				check_near("row", r, (double)p->want[t][r], sum, 1e-5 * size + 1e-40);
		}
	}
}

/* The last n tokens with the kernel of s. */
static void one(const struct problem *p, struct set *s, struct guard *out, int n, const char *name)
{
	const int t0 = p->n_act - n;
	float *y = guard_fill(out, sizeof *y * QN_PANEL * (size_t)n);

	check_at(s, "mm %s, n_in %lld, n %d, %s", p->t->name, (long long)p->n_in, n, name);
	s->k.mm[p->t->type](y, p->panel, block(p, t0), p->n_in, p->n_act, n);
	check_floats("[token][row]", y, p->want[t0], n * QN_PANEL);
	guard_intact("out", out);
}

/* The last n tokens with the kernel of s for two panels, of which the second is the first one turned. */
static void two(const struct problem *p, struct set *s, struct guard *out, int n, const char *name)
{
	const int t0 = p->n_act - n;
	float *y = guard_fill(out, 2 * sizeof *y * QN_PANEL * (size_t)n);

	check_at(s, "mm_pair %s, n_in %lld, n %d, %s", p->t->name, (long long)p->n_in, n, name);
	s->k.mm_pair[p->t->type](y, p->panel, p->panel2, block(p, t0), p->n_in, p->n_act, n);
	check_floats("[token][row]", y, p->want[t0], n * QN_PANEL);
	for (int t = 0; t < n; t++)
		for (int r = 0; r < QN_PANEL; r++)
			if (!check_floats("second", &y[(n + t) * QN_PANEL + r], &p->want[t0 + t][QN_PANEL - 1 - r], 1))
				return;
	guard_intact("out", out);
}

/*
 * Tokens of case i: as many as the largest tile for random data in short rows, where every n is
 * tried; else as many as show each way to cut a tile.
 */
static int most(const struct problem *p, int i)
{
	const int some = 35;
	int tile = 0;

	EACH_SET(s)
		tile = s->k.mm_tile[p->t->type] > tile ? s->k.mm_tile[p->t->type] : tile;
	return tile < some || (i == 0 && p->n_in < 300 && !check_quick) ? tile : some;
}

static int worth(const struct set *s, const struct problem *p, int n, int i)
{
	if (s == check_sets)
		return n % 5 == 1;
	return (i == 0 && p->n_in < 300) || n <= 9 || n % 13 == 0 || n > p->n_act - 6;
}

static void sized(const struct type *t, int64_t n_in)
{
	static struct problem p;
	struct guard out = guard_new(2 * sizeof p.want);
	struct guard xf = guard_new(qn_act_bytes(QN_ACT_F32, N_ACT_MAX, n_in));
	struct guard x8;

	p = (struct problem){.t = t, .kind = qn_type_act(t->type), .n_in = n_in};
	x8 = guard_new(qn_act_bytes(p.kind, N_ACT_MAX, n_in));
	p.blocks = (n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	p.rows = guard_alloc(16 * qn_row_bytes(t->type, n_in));
	p.turned = guard_alloc(16 * qn_row_bytes(t->type, n_in));
	p.panel = guard_alloc(qn_panel_bytes(t->type, n_in));
	p.panel2 = guard_alloc(qn_panel_bytes(t->type, n_in));
	for (int i = 0; i < COUNT(cases); i++) {
		const int n_max = most(&p, i);

		p.n_act = n_max + 3;
		p.xf = guard_fill(&xf, qn_act_bytes(QN_ACT_F32, p.n_act, n_in));
		p.x8 = guard_fill(&x8, qn_act_bytes(p.kind, p.n_act, n_in));
		check_at(check_sets, "mm %s, n_in %lld, %s", t->name, (long long)n_in, cases[i].name);
		fill(&p, cases[i].w, cases[i].a);
		check_sets[0].k.mm[t->type](p.want[0], p.panel, block(&p, 0), n_in, p.n_act, p.n_act);
		oracle(&p);
		EACH_SET(s)
			for (int n = 1; n <= n_max && n <= s->k.mm_tile[t->type]; n++)
				if (worth(s, &p, n, i)) {
					one(&p, s, &out, n, cases[i].name);
					if (s->k.mm_pair[t->type] && n >= QN_PAIR_MIN)
						two(&p, s, &out, n, cases[i].name);
				}
	}
	guard_free(&out);
	guard_free(&xf);
	guard_free(&x8);
	guard_free_all();
}

void check_mm(void)
{
	static const int64_t blocks[] = {32, 64, 96, 224, 256, 288, 512, 736, N_IN_MAX};
	static const int64_t floats[] = {1, 2, 3, 64, 172, 255, 256, 257, 600};

	EACH_SET(s)
		EACH_TYPE(t) {
			check_at(s, "mm %s", t->name);
			check_true(s->k.mm[t->type] && s->k.mm_tile[t->type] >= 1 &&
		                           s->k.mm_tile[t->type] <= QN_TILE_MAX,
		                   "no kernel, or a tile of %d", s->k.mm_tile[t->type]);
		}
	EACH_TYPE(t) {
		check_limit();
		for (int i = 0; i < COUNT(blocks); i++) {
			const int64_t n_in = t->elems == 1 ? floats[i] : blocks[i];

			if (qn_type_ok(t->type, n_in) && !(check_quick && n_in > 600))
				sized(t, n_in);
		}
	}
}
