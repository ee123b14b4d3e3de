/*
 * encode_grid.c - encoders of the types whose codes are entries of a codebook: IQ1_*, IQ2_* and IQ3_*.
 *
 * Weights are rounded to levels for each of some scales, and where these levels are no entry, the nearest of its
 * neighbours is taken: the entries at the least distances from there, found once for each codebook.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "encode.h"
#include "iq_grids.h"
#include "kernels.h"

#define LIST(a, b, c, d) 0x##a, 0x##b, 0x##c, 0x##d,

static const uint16_t iq2_xxs_codes[] = {IQ2_XXS_GRID(LIST)}, iq2_xs_codes[] = {IQ2_XS_GRID(LIST)};
static const uint16_t iq2_s_codes[] = {IQ2_S_GRID(LIST)}, iq1_codes[] = {IQ1_GRID(LIST)};
static const uint16_t iq3_xxs_codes[] = {IQ3_XXS_GRID(LIST)}, iq3_s_codes[] = {IQ3_S_GRID(LIST)};

/* ------------------------------------------------------------------ codebooks and neighbours */

/* A codebook: entries are points of n levels of `bits` bits. */
struct book {
	const uint16_t *codes;
	int size, n, bits, near; /* neighbours are the entries at the `near` least distances */

	int8_t (*point)[8]; /* levels of entry i */
	int32_t *entry;     /* of each point: its entry, or -1 - where its list of neighbours starts */
	uint16_t *lists;    /* each begins with its length */
};

enum { IQ2_XXS, IQ2_XS, IQ2_S, IQ1, IQ3_XXS, IQ3_S, BOOKS };

static struct book books[BOOKS] = {
	[IQ2_XXS] = {iq2_xxs_codes, 256, 8, 2, 2, 0, 0, 0}, [IQ2_XS] = {iq2_xs_codes, 512, 8, 2, 2, 0, 0, 0},
	[IQ2_S] = {iq2_s_codes, 1024, 8, 2, 1, 0, 0, 0},    [IQ1] = {iq1_codes, 2048, 8, 2, 3, 0, 0, 0},
	[IQ3_XXS] = {iq3_xxs_codes, 256, 4, 3, 2, 0, 0, 0}, [IQ3_S] = {iq3_s_codes, 512, 4, 3, 3, 0, 0, 0},
};
static pthread_once_t once[BOOKS] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                     PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static void levels_of(const struct book *b, int code, int8_t *level)
{
	for (int k = 0; k < b->n; k++)
		level[k] = (int8_t)(code >> b->bits * k & ((1 << b->bits) - 1));
}

/* Squared distances are at most 8 * 3^2 or 4 * 7^2. */
#define FAR 200

/* The neighbours of a point that is no entry, by distance and then by number; returns how many. */
static int neighbours(const struct book *b, const int8_t *from, uint16_t *list)
{
	uint8_t distance[2048];
	int present[FAR] = {0}, n = 0;

	for (int i = 0; i < b->size; i++) {
		int d = 0;

		for (int k = 0; k < b->n; k++)
			d += (b->point[i][k] - from[k]) * (b->point[i][k] - from[k]);
		distance[i] = (uint8_t)d;
		present[d] = 1;
	}
	for (int d = 0, near = 0; near < b->near && d < FAR; d++) {
		if (!present[d])
			continue;
		near++;
		for (int i = 0; i < b->size; i++)
			if (distance[i] == d)
				list[n++] = (uint16_t)i;
	}
	return n;
}

static void make_book(struct book *b)
{
	const int points = 1 << b->bits * b->n;
	uint16_t list[2048];
	size_t used = 0, room = 1 << 16;

	b->point = calloc((size_t)b->size, sizeof *b->point);
	b->entry = malloc((size_t)points * sizeof *b->entry);
	b->lists = malloc(room * sizeof *b->lists);
	if (!b->point || !b->entry || !b->lists)
		abort();
	for (int i = 0; i < points; i++)
		b->entry[i] = -1;
	for (int i = 0; i < b->size; i++) {
		levels_of(b, b->codes[i], b->point[i]);
		b->entry[b->codes[i]] = i;
	}
	for (int p = 0; p < points; p++) {
		int8_t from[8];
		int n;

		levels_of(b, p, from);
		if (b->entry[p] >= 0 || (b->n == 8 && (p & p >> 1 & 0x5555))) /* two bits are levels 0, 1, 2 */
			continue;
		n = neighbours(b, from, list);
		if (used + (size_t)n + 1 > room) {
			room *= 2;
			b->lists = realloc(b->lists, room * sizeof *b->lists);
			if (!b->lists)
				abort();
		}
		b->entry[p] = -1 - (int32_t)used;
		b->lists[used++] = (uint16_t)n;
		memcpy(b->lists + used, list, (size_t)n * sizeof *list);
		used += (size_t)n;
	}
}

static void make_iq2_xxs(void) { make_book(&books[IQ2_XXS]); }
static void make_iq2_xs(void) { make_book(&books[IQ2_XS]); }
static void make_iq2_s(void) { make_book(&books[IQ2_S]); }
static void make_iq1(void) { make_book(&books[IQ1]); }
static void make_iq3_xxs(void) { make_book(&books[IQ3_XXS]); }
static void make_iq3_s(void) { make_book(&books[IQ3_S]); }

static const struct book *book(int which)
{
	static void (*const make[BOOKS])(void) = {make_iq2_xxs, make_iq2_xs, make_iq2_s,
	                                          make_iq1, make_iq3_xxs, make_iq3_s};

	pthread_once(&once[which], make[which]);
	return &books[which];
}

static int point_of(const struct book *b, const int8_t *level)
{
	int p = 0;

	for (int k = 0; k < b->n; k++)
		p |= level[k] << b->bits * k;
	return p;
}

/* ------------------------------------------------------------------ IQ2 and IQ3: levels 1, 3, 5, .. with signs */

/* The codes of a block: a scale of each run, an entry of each group, signs of each eight weights. */
struct grid_block {
	uint16_t d;
	uint8_t code[16], sign[32];
	uint16_t entry[64];
};

/* A type: how it searches, and how its blocks are written. */
struct form {
	int book, run;    /* weights of a scale */
	int most;         /* number of levels */
	int even;         /* 1: the number of minuses is even */
	int tries;        /* scales from -tries to tries */
	float step, tiny; /* between two of them, and what counts as zeros */
	int positive;     /* 1: the search begins with encode_positive() */
	int all_again;    /* 1: at the end all levels are rounded anew, not only those that were no entries */
	float times, rest; /* what the mean square counts beside a square: with importance and without */
	float widen;      /* of the scale that was found */
	void (*put)(void *dst, const struct grid_block *c);
};

/* A run: sizes, what they count, and what is found. */
struct grid_run {
	float x[32], w[32], near[32]; /* near[i]: what it counts where a neighbour is chosen */
	int8_t level[32];
	uint8_t sign[4];
	float scale;
};

/* Sizes and signs. Where minuses must be even, the weight that matters least may change its sign. */
static void take_signs(struct grid_run *r, const float *x, const struct form *f)
{
	for (int k = 0; k < f->run / 8; k++) {
		int minuses = 0, least = 0;
		float least_counts = 0;

		r->sign[k] = 0;
		for (int i = 8 * k; i < 8 * k + 8; i++) {
			const int minus = !(x[i] >= 0);
			const float counts = r->w[i] * x[i] * x[i];

			r->x[i] = minus ? -x[i] : x[i];
			r->sign[k] |= (uint8_t)(minus << i % 8);
			minuses += minus;
			if (i == 8 * k || counts < least_counts) {
				least_counts = counts;
				least = i;
			}
		}
		if (f->even && minuses % 2) {
			r->x[least] = -r->x[least];
			r->sign[k] ^= (uint8_t)(1 << least % 8);
		}
		if (f->even)
			r->sign[k] &= 127;
	}
}

/* The neighbour of point p that is nearest to n weights at this scale; its levels go to level. */
static void nearest_neighbour(const struct book *b, int p, const float *x, const float *w, float scale, int8_t *level)
{
	const uint16_t *list = b->lists - b->entry[p] - 1;
	float best = FLT_MAX;
	int found = list[1];

	for (int j = 1; j <= list[0]; j++) {
		const int8_t *point = b->point[list[j]];
		float d = 0;

		for (int i = 0; i < b->n; i++) {
			const float off = scale * (float)(2 * point[i] + 1) - x[i];

			d += w[i] * off * off;
		}
		if (d < best) {
			best = d;
			found = list[j];
		}
	}
	memcpy(level, b->point[found], (size_t)b->n);
}

/* Rounds the levels of group k for 1 / inverse; returns whether they are an entry, and makes them one. */
static int round_group(const struct grid_run *r, const struct form *f, const struct book *b, int k, float inverse,
                       float scale, int8_t *level)
{
	const int at = k * b->n;
	int p;

	for (int i = 0; i < b->n; i++)
		level[at + i] = (int8_t)encode_clamp(encode_round(0.5f * (inverse * r->x[at + i] - 1)), 0,
		                                     (float)(f->most - 1));
	p = point_of(b, level + at);
	if (b->entry[p] >= 0)
		return 1;
	nearest_neighbour(b, p, r->x + at, r->near + at, scale, level + at);
	return 0;
}

static void grid_sums(const struct grid_run *r, int n, const int8_t *level, float *sum_xq, float *sum_q2)
{
	*sum_xq = *sum_q2 = 0;
	for (int i = 0; i < n; i++) {
		const float q = (float)(2 * level[i] + 1);

		*sum_xq += r->w[i] * r->x[i] * q;
		*sum_q2 += r->w[i] * q * q;
	}
}

/* Levels and the scale of a run whose signs are taken. */
static void fit_grid(struct grid_run *r, const struct form *f)
{
	const struct book *b = book(f->book);
	const int groups = f->run / b->n, top = 2 * f->most - 1;
	int8_t level[32];
	int on[8] = {0}, all_on = 1;
	float most = r->x[0], best = 0, sum_xq, sum_q2;

	for (int i = 1; i < f->run; i++)
		most = r->x[i] > most ? r->x[i] : most;
	memset(r->level, 0, sizeof r->level);
	r->scale = 0;
	if (most < f->tiny || !(most > 0))
		return;
	r->scale = most / (float)top;
	if (f->positive) {
		uint8_t codes[32];

		r->scale = encode_positive(f->run, f->most + 1, r->x, r->w, codes);
		most = r->scale * (float)f->most;
		if (most <= 0) {
			r->scale = 0;
			return;
		}
	}
	for (int k = 0; k < groups; k++)
		on[k] = f->book != IQ3_S;
	for (int t = -f->tries; t <= f->tries; t++) {
		const float inverse = ((float)top + (float)t * f->step) / most;
		int on_now[8];

		for (int k = 0; k < groups; k++)
			on_now[k] = round_group(r, f, b, k, inverse, 1 / inverse, level);
		grid_sums(r, f->run, level, &sum_xq, &sum_q2);
		if (sum_q2 > 0 && sum_xq * sum_xq > best * sum_q2) {
			r->scale = sum_xq / sum_q2;
			best = r->scale * sum_xq;
			memcpy(r->level, level, (size_t)f->run);
			memcpy(on, on_now, sizeof on);
		}
	}
	for (int k = 0; k < groups; k++)
		all_on &= on[k];
	if (r->scale > 0 && (!all_on || f->positive)) {
		const float inverse = 1 / r->scale;

		for (int k = 0; k < groups; k++)
			if (f->all_again || !on[k])
				round_group(r, f, b, k, inverse, r->scale, r->level);
		grid_sums(r, f->run, r->level, &sum_xq, &sum_q2);
		if (sum_q2 > 0)
			r->scale = sum_xq / sum_q2;
	}
	if (r->scale < 0) { /* codes of scales have no sign */
		r->scale = -r->scale;
		for (int k = 0; k < f->run / 8; k++) {
			r->sign[k] = (uint8_t)(~r->sign[k] & (f->even ? 127 : 255));
			for (int i = 8 * k; i < 8 * k + 8; i++)
				r->x[i] = -r->x[i];
		}
	}
}

/* Entry of group k of the run. */
static int entry_of(const struct grid_run *r, const struct book *b, int k)
{
	return b->entry[point_of(b, r->level + k * b->n)];
}

/* Codes of 4 bits of n scales, as 2 s + 1 times a 31st of the largest, which is returned. */
static float grid_scales(const struct grid_run *r, int n, uint8_t *code)
{
	float most = 0;

	for (int j = 0; j < n; j++)
		most = r[j].scale > most ? r[j].scale : most;

	const float d = most / 31, inverse = most != 0 ? 1 / d : 0;

	for (int j = 0; j < n; j++)
		code[j] = (uint8_t)encode_clamp(encode_round(0.5f * (inverse * r[j].scale - 1)), 0, 15);
	return d;
}

/* All runs of block b, and codes of their scales; returns the scale of these, 0 where all weights are zeros. */
static float fit_block(struct grid_run *r, uint8_t *code, const struct source *s, int64_t b, const struct form *f)
{
	const float *x = s->x + b * QK_K, *w = importance_of(s, b, QK_K);
	const float mean = f->times * sum_of_squares(x, QK_K) / QK_K;

	for (int j = 0; j < QK_K / f->run; j++) {
		struct grid_run *to = &r[j];

		for (int i = j * f->run, k = 0; k < f->run; i++, k++) {
			to->w[k] = w ? w[i] * sqrtf(mean + x[i] * x[i]) : f->rest * mean + x[i] * x[i];
			to->near[k] = sqrtf(to->w[k]);
		}
		take_signs(to, x + j * f->run, f);
		fit_grid(to, f);
	}
	return grid_scales(r, QK_K / f->run, code);
}

/* ------------------------------------------------------------------ the same for the least error */

/* The error of a run at a scale, whose levels are rounded for it. */
static float level_error(const struct grid_run *r, const struct form *f, const struct book *b, float scale,
                         int8_t *level)
{
	float sum = 0;

	for (int k = 0; k < f->run / b->n; k++)
		round_group(r, f, b, k, 1 / scale, scale, level);
	for (int i = 0; i < f->run; i++) {
		const float off = scale * (float)(2 * level[i] + 1) - r->x[i];

		sum += r->w[i] * off * off;
	}
	return sum;
}

/* The code near that of a run's scale with the least error, where d is the unit; returns that error. */
static float settle_run(struct grid_run *r, const struct form *f, const struct book *b, float d, int near,
                        uint8_t *code)
{
	float best = FLT_MAX;
	int8_t level[32];

	for (int c = near - 1; c <= near + 1; c++) {
		if (c < 0 || c > 15)
			continue;

		const float error = level_error(r, f, b, d * (float)(2 * c + 1), level);

		if (error < best) {
			best = error;
			*code = (uint8_t)c;
			memcpy(r->level, level, sizeof level);
		}
	}
	return best;
}

/* Codes of all runs for unit d, near scales that were fitted to each alone; returns the error. */
static float settle_block(struct grid_run *r, const struct form *f, float d, const float *scale, uint8_t *code)
{
	const struct book *b = book(f->book);
	float sum = 0;

	for (int j = 0; j < QK_K / f->run; j++) {
		const float near = encode_clamp(encode_round(0.5f * (scale[j] / d - 1)), 0, 15);

		sum += settle_run(&r[j], f, b, d, (int)near, &code[j]);
	}
	return sum;
}

/* The unit that fits the codes of all runs best: least squares, as it is kept. */
static float refit_unit(const struct grid_run *r, const struct form *f, const uint8_t *code)
{
	float sum_xq = 0, sum_q2 = 0;

	for (int j = 0; j < QK_K / f->run; j++)
		for (int i = 0; i < f->run; i++) {
			const float q = (float)((2 * code[j] + 1) * (2 * r[j].level[i] + 1));

			sum_xq += r[j].w[i] * r[j].x[i] * q;
			sum_q2 += r[j].w[i] * q * q;
		}
	return sum_q2 > 0 ? f32_of_f16(f16_of_f32_sat(sum_xq / sum_q2)) : 0;
}

/*
 * The runs of block b for the least sum of importance times squared error: scales of each alone, in finer steps than
 * fast encoders take, then the unit among those near 1/31 of the largest with which codes lose least, and from there
 * the unit and the codes in turns.
 */
static float search_grid(struct grid_run *r, uint8_t *code, const struct source *s, int64_t b, const struct form *f)
{
	const float *x = s->x + b * QK_K, *w = importance_of(s, b, QK_K);
	const int runs = QK_K / f->run;
	struct form fine = *f;
	float scale[16], most = 0, best = FLT_MAX, d = 0;
	uint8_t try[16];

	fine.tries = 2 * f->tries;
	fine.step = 0.6f * f->step;
	fine.all_again = 1;
	for (int j = 0; j < runs; j++) {
		for (int i = 0; i < f->run; i++)
			r[j].w[i] = r[j].near[i] = w ? w[j * f->run + i] : 1;
		take_signs(&r[j], x + j * f->run, f);
		fit_grid(&r[j], &fine);
		scale[j] = r[j].scale;
		most = scale[j] > most ? scale[j] : most;
	}
	memset(code, 0, 16);
	for (int k = -6; k <= 6 && most > 0; k++) {
		const float unit = f32_of_f16(f16_of_f32_sat(most / 31 * (1 + 0.025f * (float)k)));
		const float error = unit > 0 ? settle_block(r, f, unit, scale, try) : FLT_MAX;

		if (error < best) {
			best = error;
			d = unit;
		}
	}
	for (int round = 0; round < 4 && d > 0; round++) {
		settle_block(r, f, d, scale, code);

		const float unit = refit_unit(r, f, code);
		const float error = unit > 0 && unit != d ? settle_block(r, f, unit, scale, try) : FLT_MAX;

		if (!(error < best))
			break;
		best = error;
		d = unit;
	}
	if (d > 0)
		settle_block(r, f, d, scale, code);
	for (int j = 0; j < runs; j++) /* all have levels, and signs */
		r[j].scale = d;
	return d;
}

/* ------------------------------------------------------------------ bits of IQ2 and IQ3 */

/* Signs of 7 bits of the four groups of run j, and the code of its scale. */
static void put_signs(uint8_t *p, const struct grid_block *c, int j)
{
	uint32_t v = (uint32_t)c->code[j] << 28;

	for (int k = 0; k < 4; k++)
		v |= (uint32_t)c->sign[4 * j + k] << 7 * k;
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void put_codes(uint8_t *scales, const struct grid_block *c, int runs)
{
	for (int j = 0; j < runs; j += 2)
		scales[j / 2] = (uint8_t)(c->code[j] | c->code[j + 1] << 4);
}

static void put_iq2_xxs(void *dst, const struct grid_block *c)
{
	struct iq2_xxs *y = dst;

	y->d = c->d;
	for (int j = 0; j < 8; j++) {
		for (int k = 0; k < 4; k++)
			y->qs[8 * j + k] = (uint8_t)c->entry[4 * j + k];
		put_signs(y->qs + 8 * j + 4, c, j);
	}
}

static void put_iq2_xs(void *dst, const struct grid_block *c)
{
	struct iq2_xs *y = dst;

	y->d = c->d;
	put_codes(y->scales, c, 16);
	for (int n = 0; n < 32; n++)
		y->qs[n] = (uint16_t)(c->entry[n] | c->sign[n] << 9);
}

static void put_iq2_s(void *dst, const struct grid_block *c)
{
	struct iq2_s *y = dst;

	y->d = c->d;
	put_codes(y->scales, c, 16);
	memcpy(y->signs, c->sign, sizeof y->signs);
	memset(y->qh, 0, sizeof y->qh);
	for (int n = 0; n < 32; n++) {
		y->qs[n] = (uint8_t)c->entry[n];
		y->qh[n / 4] |= (uint8_t)(c->entry[n] >> 8 << 2 * (n % 4));
	}
}

static void put_iq3_xxs(void *dst, const struct grid_block *c)
{
	struct iq3_xxs *y = dst;

	y->d = c->d;
	for (int n = 0; n < 64; n++)
		y->qs[n] = (uint8_t)c->entry[n];
	for (int j = 0; j < 8; j++)
		put_signs(y->signs + 4 * j, c, j);
}

static void put_iq3_s(void *dst, const struct grid_block *c)
{
	struct iq3_s *y = dst;

	y->d = c->d;
	put_codes(y->scales, c, 8);
	memcpy(y->signs, c->sign, sizeof y->signs);
	memset(y->qh, 0, sizeof y->qh);
	for (int n = 0; n < 64; n++) {
		y->qs[n] = (uint8_t)c->entry[n];
		y->qh[n / 8] |= (uint8_t)(c->entry[n] >> 8 << n % 8);
	}
}

static const struct form forms[ENCODE_TYPES] = {
	[QN_IQ2_XXS] = {IQ2_XXS, 32, 3, 1, 6, 0.1f, ENCODE_TINY, 1, 1, 1, 0, 1, put_iq2_xxs},
	[QN_IQ2_XS] = {IQ2_XS, 16, 3, 1, 9, 0.1f, ENCODE_TINY, 0, 0, 1, 0, 1, put_iq2_xs},
	[QN_IQ2_S] = {IQ2_S, 16, 3, 0, 9, 0.1f, 1e-8f, 0, 0, 2, 0.25f, 0.9875f, put_iq2_s},
	[QN_IQ3_XXS] = {IQ3_XXS, 32, 8, 1, 15, 0.2f, 1e-8f, 0, 0, 2, 0, 1.0125f, put_iq3_xxs},
	[QN_IQ3_S] = {IQ3_S, 32, 8, 0, 9, 0.2f, 0, 0, 1, 2, 0, 1.033f, put_iq3_s},
};

/* What a block is, with scale d; where that is 0 it is zeros, and so is a run where its own is. */
static void grid_block(struct grid_block *c, const struct grid_run *r, const struct form *f, float d)
{
	const struct book *b = book(f->book);
	const int groups = f->run / b->n, signs = f->run / 8;

	memset(c->entry, 0, sizeof c->entry);
	memset(c->sign, 0, sizeof c->sign);
	c->d = f16_of_f32_sat(d);
	if (d == 0)
		memset(c->code, 0, sizeof c->code);
	for (int j = 0; d != 0 && j < QK_K / f->run; j++) {
		for (int k = 0; r[j].scale != 0 && k < groups; k++)
			c->entry[j * groups + k] = (uint16_t)entry_of(&r[j], b, k);
		for (int k = 0; r[j].scale != 0 && k < signs; k++)
			c->sign[j * signs + k] = r[j].sign[k];
	}
}

static void rows_grid(int32_t type, void *dst, const struct source *s)
{
	const struct form *f = &forms[type];
	struct grid_run r[16];
	struct grid_block c;

	for (int64_t i = 0; i < s->blocks; i++) {
		grid_block(&c, r, f, f->widen * fit_block(r, c.code, s, i, f));
		f->put((uint8_t *)dst + i * block_bytes(type), &c);
	}
}

#define ROWS(name, NAME)                                              \
	static void rows_##name(void *dst, const struct source *s)    \
	{                                                             \
		rows_grid(QN_##NAME, dst, s);                         \
	}

ROWS(iq2_xxs, IQ2_XXS)
ROWS(iq2_xs, IQ2_XS)
ROWS(iq2_s, IQ2_S)
ROWS(iq3_xxs, IQ3_XXS)
ROWS(iq3_s, IQ3_S)

int encode_grid_searched(int32_t type)
{
	return type >= 0 && type < ENCODE_TYPES && forms[type].put;
}

void encode_grid_search(int32_t type, void *dst, const struct source *s)
{
	const struct form *f = &forms[type];
	struct grid_run r[16];
	struct grid_block c;

	for (int64_t i = 0; i < s->blocks; i++) {
		grid_block(&c, r, f, search_grid(r, c.code, s, i, f));
		f->put((uint8_t *)dst + i * block_bytes(type), &c);
	}
}

/* ------------------------------------------------------------------ IQ1: levels -1, 0, 1 and a shift */

/* What levels 0, 1, 2 stand for with the shift up and with the shift down. */
static const float shifted[2][3] = {{-0.875f, 0.125f, 1.125f}, {-1.125f, -0.125f, 0.875f}};

/* A run of 32 or 16 weights; shift[k] is that of group k. */
struct ternary_run {
	const float *x;
	float w[32], scale;
	int8_t level[32];
	uint8_t shift[4];
	uint16_t entry[4];
};

/* The weights' order by size; equal ones as they come. */
static void order_of(uint8_t *order, const float *x, int n)
{
	for (int i = 0; i < n; i++) {
		int j = i;

		for (; j > 0 && x[order[j - 1]] > x[i]; j--)
			order[j] = order[j - 1];
		order[j] = (uint8_t)i;
	}
}

/* Levels of weights in order: 0 up to the first bound, 1 up to the second, 2 beyond. */
static void split_at(struct ternary_run *r, const uint8_t *order, int n, int first, int second)
{
	for (int j = 0; j < n; j++)
		r->level[order[j]] = (int8_t)(j < first ? 0 : j < second ? 1 : 2);
}

/*
 * The two bounds, the scale and the shift with the least error: all of them are tried. Returns 0 where there are none.
 */
static int split_32(struct ternary_run *r)
{
	uint8_t order[32];
	float sum_x[33] = {0}, sum_w[33] = {0}, best = -FLT_MAX;
	int first = -1, second = -1;

	order_of(order, r->x, 32);
	for (int j = 0; j < 32; j++) {
		const int i = order[j];

		sum_x[j + 1] = sum_x[j] + r->w[i] * r->x[i];
		sum_w[j + 1] = sum_w[j] + r->w[i];
	}
	for (int a = 0; a <= 32; a++)
		for (int b = a; b <= 32; b++)
			for (int down = 0; down < 2; down++) {
				const float *v = shifted[down];
				const float xq = sum_x[a] * v[0] + (sum_x[b] - sum_x[a]) * v[1] +
				                 (sum_x[32] - sum_x[b]) * v[2];
				const float q2 = sum_w[a] * v[0] * v[0] + (sum_w[b] - sum_w[a]) * v[1] * v[1] +
				                 (sum_w[32] - sum_w[b]) * v[2] * v[2];

				if (q2 > 0 && xq * xq > best * q2) {
					r->scale = xq / q2;
					best = r->scale * xq;
					first = a;
					second = b;
					memset(r->shift, down, sizeof r->shift);
				}
			}
	if (first < 0)
		return 0;
	split_at(r, order, 32, first, second);
	return 1;
}

/* The same where each half of the run has a shift of its own. */
static int split_16(struct ternary_run *r)
{
	uint8_t order[16];
	float sum_x[2][17] = {{0}}, sum_w[2][17] = {{0}}, best = -FLT_MAX;
	int first = -1, second = -1;

	order_of(order, r->x, 16);
	for (int j = 0; j < 16; j++) {
		const int i = order[j], h = i / 8;

		sum_x[h][j + 1] = sum_x[h][j] + r->w[i] * r->x[i];
		sum_x[1 - h][j + 1] = sum_x[1 - h][j];
		sum_w[h][j + 1] = sum_w[h][j] + r->w[i];
		sum_w[1 - h][j + 1] = sum_w[1 - h][j];
	}
	for (int a = 0; a <= 16; a++)
		for (int b = a; b <= 16; b++) {
			float xq[2][2], q2[2][2]; /* [half][shift] */

			for (int h = 0; h < 2; h++)
				for (int down = 0; down < 2; down++) {
					const float *v = shifted[down];

					xq[h][down] = sum_x[h][16] * v[2] - (sum_x[h][a] + sum_x[h][b]);
					q2[h][down] = sum_w[h][16] * v[2] * v[2] +
					              sum_w[h][a] * (v[0] * v[0] - v[1] * v[1]) +
					              sum_w[h][b] * (v[1] * v[1] - v[2] * v[2]);
				}
			for (int k = 0; k < 4; k++) {
				const float sum_xq = xq[0][k / 2] + xq[1][k % 2], sum_q2 = q2[0][k / 2] + q2[1][k % 2];

				if (sum_q2 > 0 && sum_xq * sum_xq > best * sum_q2) {
					r->scale = sum_xq / sum_q2;
					best = r->scale * sum_xq;
					first = a;
					second = b;
					r->shift[0] = (uint8_t)(k / 2);
					r->shift[1] = (uint8_t)(k % 2);
				}
			}
		}
	if (first < 0)
		return 0;
	split_at(r, order, 16, first, second);
	return 1;
}

/* The neighbour of point p that is nearest at this scale. */
static int nearest_ternary(const struct book *b, int p, const float *x, const float *w, float scale, const float *v)
{
	const uint16_t *list = b->lists - b->entry[p] - 1;
	float best = FLT_MAX;
	int found = list[1];

	for (int j = 1; j <= list[0]; j++) {
		float d = 0;

		for (int i = 0; i < 8; i++) {
			const float off = scale * v[b->point[list[j]][i]] - x[i];

			d += w[i] * off * off;
		}
		if (d < best) {
			best = d;
			found = list[j];
		}
	}
	return found;
}

/* The entries of a run of n weights and its scale. */
static void fit_ternary(struct ternary_run *r, int n, float tiny)
{
	const struct book *b = book(IQ1);
	float most = 0, sum_xq = 0, sum_q2 = 0;
	int all_on = 1;

	for (int i = 0; i < n; i++)
		most = fabsf(r->x[i]) > most ? fabsf(r->x[i]) : most;
	memset(r->shift, 0, sizeof r->shift);
	memset(r->entry, 0, sizeof r->entry);
	r->scale = 0;
	if (most < tiny)
		return;
	if (!(n == 32 ? split_32(r) : split_16(r))) {
		memset(r->shift, 0, sizeof r->shift);
		r->scale = 0;
		return;
	}
	if (r->scale < 0) {
		r->scale = -r->scale;
		for (int i = 0; i < n; i++)
			r->level[i] = (int8_t)(2 - r->level[i]);
		for (int k = 0; k < 4; k++)
			r->shift[k] = !r->shift[k];
	}
	for (int k = 0; k < n / 8; k++) {
		const int p = point_of(b, r->level + 8 * k);
		int entry = b->entry[p];

		if (entry < 0) {
			all_on = 0;
			entry = nearest_ternary(b, p, r->x + 8 * k, r->w + 8 * k, r->scale, shifted[r->shift[k]]);
		}
		r->entry[k] = (uint16_t)entry;
	}
	for (int i = 0; i < n && !all_on; i++) {
		const float q = shifted[r->shift[i / 8]][b->point[r->entry[i / 8]][i % 8]];

		sum_xq += r->w[i] * q * r->x[i];
		sum_q2 += r->w[i] * q * q;
	}
	if (sum_xq > 0 && sum_q2 > 0)
		r->scale = sum_xq / sum_q2;
}

/* The runs of block b, of n weights each; returns the largest scale. */
static float fit_ternaries(struct ternary_run *r, const struct source *s, int64_t b, int n, float tiny)
{
	const float *x = s->x + b * QK_K, *w = importance_of(s, b, QK_K);
	const float mean = 2 * sum_of_squares(x, QK_K) / QK_K;
	float most = 0;

	for (int j = 0; j < QK_K / n; j++) {
		r[j].x = x + j * n;
		for (int i = 0; i < n; i++)
			r[j].w[i] = w[j * n + i] * sqrtf(mean + r[j].x[i] * r[j].x[i]);
		fit_ternary(&r[j], n, tiny);
		most = r[j].scale > most ? r[j].scale : most;
	}
	return most;
}

/* A scale as 2 s + 1. */
static int odd_scale(float scale, float inverse)
{
	return (int)encode_clamp(encode_round(0.5f * (inverse * scale - 1)), 0, 7);
}

static void rows_iq1_s(void *dst, const struct source *s)
{
	struct iq1_s *y = dst;
	struct ternary_run r[8];

	for (int64_t i = 0; i < s->blocks; i++, y++) {
		const float most = fit_ternaries(r, s, i, 32, 1e-12f), d = most / 15, inverse = 1 / d;

		memset(y, 0, sizeof *y);
		y->d = f16_of_f32_sat(d * 1.125f);
		for (int j = 0; most != 0 && j < 8; j++) {
			unsigned h = (unsigned)(odd_scale(r[j].scale, inverse) | r[j].shift[0] << 3) << 12;

			for (int k = 0; k < 4; k++) {
				y->qs[4 * j + k] = (uint8_t)r[j].entry[k];
				h |= (unsigned)r[j].entry[k] >> 8 << 3 * k;
			}
			y->qh[j] = (uint16_t)h;
		}
	}
}

static void rows_iq1_m(void *dst, const struct source *s)
{
	const struct book *b = book(IQ1);
	struct iq1_m *y = dst;
	struct ternary_run r[16];

	for (int64_t i = 0; i < s->blocks; i++, y++) {
		const float most = fit_ternaries(r, s, i, 16, 1e-7f), inverse = 1 / (most / 15);
		float d = most / 15, sum_xq = 0, sum_q2 = 0;
		unsigned scales[4] = {0};

		memset(y, 0, sizeof *y);
		if (!(most > 0))
			continue;
		for (int j = 0; j < 16; j++) {
			const int scale = odd_scale(r[j].scale, inverse);

			scales[j / 4] |= (unsigned)scale << 3 * (j % 4);
			for (int k = 0; k < 2; k++) {
				y->qs[2 * j + k] = (uint8_t)r[j].entry[k];
				y->qh[j] |= (uint8_t)((r[j].entry[k] >> 8 | r[j].shift[k] << 3) << 4 * k);
			}
			for (int l = 0; l < 16; l++) { /* the step anew, for the scales as they are kept */
				const float level = shifted[r[j].shift[l / 8]][b->point[r[j].entry[l / 8]][l % 8]];
				const float q = level * (float)(2 * scale + 1);

				sum_xq += r[j].w[l] * q * r[j].x[l];
				sum_q2 += r[j].w[l] * q * q;
			}
		}
		if (sum_q2 > 0)
			d = sum_xq / sum_q2;

		const unsigned half = f16_of_f32_sat(d * 1.1125f);

		for (int j = 0; j < 4; j++) {
			scales[j] |= (half >> 4 * j & 15) << 12;
			y->scales[2 * j] = (uint8_t)scales[j];
			y->scales[2 * j + 1] = (uint8_t)(scales[j] >> 8);
		}
	}
}

void encode_init_grid(encode_fn **rows)
{
	rows[QN_IQ1_S] = rows_iq1_s;
	rows[QN_IQ1_M] = rows_iq1_m;
	rows[QN_IQ2_XXS] = rows_iq2_xxs;
	rows[QN_IQ2_XS] = rows_iq2_xs;
	rows[QN_IQ2_S] = rows_iq2_s;
	rows[QN_IQ3_XXS] = rows_iq3_xxs;
	rows[QN_IQ3_S] = rows_iq3_s;
}
