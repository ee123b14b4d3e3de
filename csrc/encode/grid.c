/*
 * grid.c - encoders of the types whose codes are entries of a codebook: IQ1_*, IQ2_* and IQ3_*.
 *
 * Weights are rounded to levels for each of some scales, and where these levels are no entry, the nearest of its
 * neighbours is taken: the entries at the least distances from there, found once for each codebook. IQ2 and IQ3 have
 * levels 1, 3, 5 .. and keep signs apart; IQ1 has -1, 0 and 1, all of them shifted up or down.
 */
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "encode/encode.h"
#include "format/iq_grids.h"
#include "kernels.h"
#include "platform/platform.h"

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
	atomic_int made;
};

enum { IQ2_XXS, IQ2_XS, IQ2_S, IQ1, IQ3_XXS, IQ3_S, BOOKS };

static struct book books[BOOKS] = {
	[IQ2_XXS] = {.codes = iq2_xxs_codes, .size = 256, .n = 8, .bits = 2, .near = 2},
	[IQ2_XS] = {.codes = iq2_xs_codes, .size = 512, .n = 8, .bits = 2, .near = 2},
	[IQ2_S] = {.codes = iq2_s_codes, .size = 1024, .n = 8, .bits = 2, .near = 1},
	[IQ1] = {.codes = iq1_codes, .size = 2048, .n = 8, .bits = 2, .near = 3},
	[IQ3_XXS] = {.codes = iq3_xxs_codes, .size = 256, .n = 4, .bits = 3, .near = 2},
	[IQ3_S] = {.codes = iq3_s_codes, .size = 512, .n = 4, .bits = 3, .near = 3},
};

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

static const struct book *book(int which)
{
	static struct sys_mutex making = SYS_UNLOCKED;
	struct book *b = &books[which];

	if (!atomic_load_explicit(&b->made, memory_order_acquire)) {
		sys_lock(&making);
		if (!atomic_load_explicit(&b->made, memory_order_relaxed)) {
			make_book(b);
			atomic_store_explicit(&b->made, 1, memory_order_release);
		}
		sys_unlock(&making);
	}
	return b;
}

static int point_of(const struct book *b, const int8_t *level)
{
	int p = 0;

	for (int k = 0; k < b->n; k++)
		p |= level[k] << b->bits * k;
	return p;
}

/* ------------------------------------------------------------------ types and runs */

/* What levels 0, 1, 2 .. stand for: first, first + apart .. */
struct values {
	float first, apart, over; /* 1 / apart */
};

static inline float value_of(struct values v, int level)
{
	return v.first + v.apart * (float)level;
}

static const struct values odd[] = {{1, 2, 0.5f}}, shifted[] = {{-0.875f, 1, 1}, {-1.125f, 1, 1}};

/* A type: how it searches, and how its blocks are written. */
struct form {
	int book, run;               /* weights of a scale */
	int most, scales;            /* numbers of levels, and of codes of scales */
	const struct values *values; /* what levels may stand for */
	int kinds, alike;            /* how many of these; the number of weights that have the same */
	int even;                    /* 1: the number of minuses is even */
	int tries;                   /* scales from -tries to tries */
	float step, tiny;            /* between two of them, and what counts as zeros */
	int positive;                /* 1: the search begins with encode_positive() */
	int again;         /* 1: at the end all levels are rounded anew, not only those that were no entries */
	int refit;         /* 1: so is the unit of scales, for all codes */
	float times, rest; /* what the mean square counts beside a square: with importance and without */
	float widen;       /* of the unit that was found */
	void (*put)(void *dst, const struct grid_block *c);
};

/* A run: sizes, or weights of IQ1, what they count, and what is found. */
struct grid_run {
	float x[32], w[32], near[32]; /* near[i]: what it counts where a neighbour is chosen */
	int8_t level[32];
	uint8_t sign[4], kind[4]; /* of each eight */
	float scale;
};

/* Sizes and signs. Where minuses must be even, the weight that matters least may change its sign. */
static void take_signs(struct grid_run *r, const float *x, int n, const struct form *f)
{
	for (int k = 0; k < n / 8; k++) {
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
static void nearest_neighbour(const struct book *b, int p, const float *x, const float *w, float scale, struct values v,
                              int8_t *level)
{
	const uint16_t *list = b->lists - b->entry[p] - 1;
	float best = FLT_MAX;
	int found = list[1];

	for (int j = 1; j <= list[0]; j++) {
		const int8_t *point = b->point[list[j]];
		float d = 0;

		for (int i = 0; i < b->n; i++) {
			const float off = scale * value_of(v, point[i]) - x[i];

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
                       float scale, struct values v, int8_t *level)
{
	const int at = k * b->n;
	int p;

	for (int i = 0; i < b->n; i++)
		level[at + i] = (int8_t)encode_clamp(encode_round((inverse * r->x[at + i] - v.first) * v.over), 0,
		                                     (float)(f->most - 1));
	p = point_of(b, level + at);
	if (b->entry[p] >= 0)
		return 1;
	nearest_neighbour(b, p, r->x + at, r->near + at, scale, v, level + at);
	return 0;
}

static void grid_sums(const struct grid_run *r, int n, const int8_t *level, float *sum_xq, float *sum_q2)
{
	*sum_xq = *sum_q2 = 0;
	for (int i = 0; i < n; i++) {
		const float q = value_of(*odd, level[i]);

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
			on_now[k] = round_group(r, f, b, k, inverse, 1 / inverse, *odd, level);
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
			if (f->again || !on[k])
				round_group(r, f, b, k, inverse, r->scale, *odd, r->level);
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

/* ------------------------------------------------------------------ IQ1 */

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
static void split_at(struct grid_run *r, const uint8_t *order, int n, int first, int second)
{
	for (int j = 0; j < n; j++)
		r->level[order[j]] = (int8_t)(j < first ? 0 : j < second ? 1 : 2);
}

/*
 * The two bounds, the scale and the shift with the least error: all of them are tried. Returns 0 where there are none.
 */
static int split_32(struct grid_run *r)
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
				const float lo = shifted[down].first, mid = lo + 1, hi = lo + 2;
				const float xq =
					sum_x[a] * lo + (sum_x[b] - sum_x[a]) * mid + (sum_x[32] - sum_x[b]) * hi;
				const float q2 = sum_w[a] * lo * lo + (sum_w[b] - sum_w[a]) * mid * mid +
				                 (sum_w[32] - sum_w[b]) * hi * hi;

				if (q2 > 0 && xq * xq > best * q2) {
					r->scale = xq / q2;
					best = r->scale * xq;
					first = a;
					second = b;
					memset(r->kind, down, sizeof r->kind);
				}
			}
	if (first < 0)
		return 0;
	split_at(r, order, 32, first, second);
	return 1;
}

/* The same where each half of the run has a shift of its own. */
static int split_16(struct grid_run *r)
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
					const float lo = shifted[down].first, mid = lo + 1, hi = lo + 2;

					xq[h][down] = sum_x[h][16] * hi - (sum_x[h][a] + sum_x[h][b]);
					q2[h][down] = sum_w[h][16] * hi * hi + sum_w[h][a] * (lo * lo - mid * mid) +
					              sum_w[h][b] * (mid * mid - hi * hi);
				}
			for (int k = 0; k < 4; k++) {
				const float sum_xq = xq[0][k / 2] + xq[1][k % 2], sum_q2 = q2[0][k / 2] + q2[1][k % 2];

				if (sum_q2 > 0 && sum_xq * sum_xq > best * sum_q2) {
					r->scale = sum_xq / sum_q2;
					best = r->scale * sum_xq;
					first = a;
					second = b;
					r->kind[0] = (uint8_t)(k / 2);
					r->kind[1] = (uint8_t)(k % 2);
				}
			}
		}
	if (first < 0)
		return 0;
	split_at(r, order, 16, first, second);
	return 1;
}

/* Levels, what they stand for and the scale of a run of IQ1. */
static void fit_ternary(struct grid_run *r, const struct form *f)
{
	const struct book *b = book(f->book);
	float most = 0, sum_xq = 0, sum_q2 = 0;
	int all_on = 1;

	for (int i = 0; i < f->run; i++)
		most = fabsf(r->x[i]) > most ? fabsf(r->x[i]) : most;
	if (most < f->tiny || !(f->run == 32 ? split_32(r) : split_16(r))) {
		memset(r->kind, 0, sizeof r->kind);
		for (int k = 0; k < f->run; k += 8)
			memcpy(r->level + k, b->point[0], 8);
		r->scale = 0;
		return;
	}
	if (r->scale < 0) {
		r->scale = -r->scale;
		for (int i = 0; i < f->run; i++)
			r->level[i] = (int8_t)(2 - r->level[i]);
		for (int k = 0; k < 4; k++)
			r->kind[k] = !r->kind[k];
	}
	for (int k = 0; k < f->run; k += 8) {
		const int p = point_of(b, r->level + k);

		if (b->entry[p] >= 0)
			continue;
		all_on = 0;
		nearest_neighbour(b, p, r->x + k, r->near + k, r->scale, shifted[r->kind[k / 8]], r->level + k);
	}
	for (int i = 0; i < f->run && !all_on; i++) {
		const float q = value_of(shifted[r->kind[i / 8]], r->level[i]);

		sum_xq += r->w[i] * q * r->x[i];
		sum_q2 += r->w[i] * q * q;
	}
	if (sum_xq > 0 && sum_q2 > 0)
		r->scale = sum_xq / sum_q2;
}

/* ------------------------------------------------------------------ blocks */

static void take_run(struct grid_run *r, const float *x, int n, const struct form *f)
{
	memset(r->kind, 0, sizeof r->kind);
	if (f->values == odd)
		take_signs(r, x, n, f);
	else
		memcpy(r->x, x, (size_t)n * sizeof *x);
}

static void fit_run(struct grid_run *r, const struct form *f)
{
	if (f->values == odd)
		fit_grid(r, f);
	else
		fit_ternary(r, f);
}

/* The code of a scale as 2 s + 1 times a unit. */
static int scale_code(const struct form *f, float units)
{
	return (int)encode_clamp(encode_round(0.5f * (units - 1)), 0, (float)(f->scales - 1));
}

/* The unit with which all codes of a block lose least: least squares. */
static float unit_of(const struct grid_run *r, const struct form *f, const uint8_t *code)
{
	float sum_xq = 0, sum_q2 = 0;

	for (int j = 0; j < QK_K / f->run; j++)
		for (int i = 0; i < f->run; i++) {
			const float q = value_of(f->values[r[j].kind[i / 8]], r[j].level[i]) * (float)(2 * code[j] + 1);

			sum_xq += r[j].w[i] * q * r[j].x[i];
			sum_q2 += r[j].w[i] * q * q;
		}
	return sum_q2 > 0 ? sum_xq / sum_q2 : 0;
}

/* All runs of block b, and codes of their scales; returns the unit of these, 0 where all weights are zeros. */
static float fit_block(struct grid_run *r, uint8_t *code, const struct source *s, int64_t b, const struct form *f)
{
	const float *x = s->x + b * QK_K, *w = importance_of(s, b, QK_K);
	const float mean = f->times * sum_of_squares(x, QK_K) / QK_K;
	float most = 0;

	for (int j = 0; j < QK_K / f->run; j++) {
		struct grid_run *to = &r[j];

		for (int i = j * f->run, k = 0; k < f->run; i++, k++) {
			to->w[k] = w ? w[i] * sqrtf(mean + x[i] * x[i]) : f->rest * mean + x[i] * x[i];
			to->near[k] = f->values == odd ? sqrtf(to->w[k]) : to->w[k];
		}
		take_run(to, x + j * f->run, f->run, f);
		fit_run(to, f);
		most = to->scale > most ? to->scale : most;
	}

	const float d = most / (float)(2 * f->scales - 1), inverse = most != 0 ? 1 / d : 0;

	for (int j = 0; j < QK_K / f->run; j++)
		code[j] = (uint8_t)scale_code(f, inverse * r[j].scale);
	if (f->refit && most > 0) {
		const float fitted = unit_of(r, f, code);

		return f->widen * (fitted != 0 ? fitted : d);
	}
	return f->widen * d;
}

/* ------------------------------------------------------------------ the same for the least error */

/* Rounds `n` weights of a run from `from` on for a scale; returns their error. */
static float round_part(const struct grid_run *r, const struct form *f, const struct book *b, int from, int n,
                        float scale, struct values v, int8_t *level)
{
	float sum = 0;

	for (int k = from / b->n; k < (from + n) / b->n; k++)
		round_group(r, f, b, k, 1 / scale, scale, v, level);
	for (int i = from; i < from + n; i++) {
		const float off = scale * value_of(v, level[i]) - r->x[i];

		sum += r->w[i] * off * off;
	}
	return sum;
}

/* The same with the kind of values that has the least error, which goes to kind[]. */
static float round_kinds(const struct grid_run *r, const struct form *f, const struct book *b, int from, int n,
                         float scale, uint8_t *kind, int8_t *level)
{
	float best = FLT_MAX;
	int8_t try[32];

	for (int k = 0; k < f->kinds; k++) {
		const float error = round_part(r, f, b, from, n, scale, f->values[k], try);

		if (error < best) {
			best = error;
			memset(kind + from / 8, k, (size_t)n / 8);
			memcpy(level + from, try + from, (size_t)n);
		}
	}
	return best;
}

/* The code near that of a run's scale with the least error, where d is the unit; returns that error. */
static float settle_run(struct grid_run *r, const struct form *f, float d, int near, uint8_t *code)
{
	const struct book *b = book(f->book);
	float best = FLT_MAX;
	int8_t level[32];
	uint8_t kind[4];

	for (int c = near - 1; c <= near + 1; c++) {
		float error = 0;

		if (c < 0 || c >= f->scales)
			continue;
		for (int i = 0; i < f->run; i += f->alike)
			error += round_kinds(r, f, b, i, f->alike, d * (float)(2 * c + 1), kind, level);
		if (error < best) {
			best = error;
			*code = (uint8_t)c;
			memcpy(r->level, level, (size_t)f->run);
			memcpy(r->kind, kind, (size_t)f->run / 8);
		}
	}
	return best;
}

/* Codes of all runs for unit d, near scales that were fitted to each alone; returns the error. */
static float settle_block(struct grid_run *r, const struct form *f, float d, const float *scale, uint8_t *code)
{
	float sum = 0;

	for (int j = 0; j < QK_K / f->run; j++)
		sum += settle_run(&r[j], f, d, scale_code(f, scale[j] / d), &code[j]);
	return sum;
}

static float kept_unit(float d)
{
	return d > 0 ? f32_of_f16(f16_of_f32_sat(d)) : 0;
}

/*
 * The runs of a block for the least sum of w times squared error: scales of each alone, in finer steps than fast
 * encoders take, then the unit among those near the one that gives the largest the last code, with which codes lose
 * least, and from there the unit and the codes in turns.
 */
static float search_grid(struct grid_run *r, uint8_t *code, const float *x, const float *w, const struct form *f)
{
	const int runs = QK_K / f->run;
	struct form fine = *f;
	float scale[16], most = 0, best = FLT_MAX, d = 0;
	uint8_t try[16];

	fine.tries = 2 * f->tries;
	fine.step = 0.6f * f->step;
	fine.again = 1;
	for (int j = 0; j < runs; j++) {
		for (int i = 0; i < f->run; i++)
			r[j].w[i] = r[j].near[i] = w ? w[j * f->run + i] : 1;
		take_run(&r[j], x + j * f->run, f->run, f);
		fit_run(&r[j], &fine);
		scale[j] = r[j].scale;
		most = scale[j] > most ? scale[j] : most;
	}
	memset(code, 0, 16);
	for (int k = -6; k <= 6 && most > 0; k++) {
		const float unit = kept_unit(most / (float)(2 * f->scales - 1) * (1 + 0.025f * (float)k));
		const float error = unit > 0 ? settle_block(r, f, unit, scale, try) : FLT_MAX;

		if (error < best) {
			best = error;
			d = unit;
		}
	}
	for (int round = 0; round < 4 && d > 0; round++) {
		settle_block(r, f, d, scale, code);

		const float unit = kept_unit(unit_of(r, f, code));
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

/* ------------------------------------------------------------------ bits */

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

static void put_iq1_s(void *dst, const struct grid_block *c)
{
	struct iq1_s *y = dst;

	y->d = c->d;
	for (int j = 0; j < 8; j++) {
		unsigned h = (unsigned)(c->code[j] | c->kind[4 * j] << 3) << 12;

		for (int k = 0; k < 4; k++) {
			y->qs[4 * j + k] = (uint8_t)c->entry[4 * j + k];
			h |= (unsigned)c->entry[4 * j + k] >> 8 << 3 * k;
		}
		y->qh[j] = (uint16_t)h;
	}
}

/* The unit's four digits are above the codes of four scales each. */
static void put_iq1_m(void *dst, const struct grid_block *c)
{
	struct iq1_m *y = dst;

	memset(y->qh, 0, sizeof y->qh);
	for (int n = 0; n < 32; n++) {
		y->qs[n] = (uint8_t)c->entry[n];
		y->qh[n / 2] |= (uint8_t)((c->entry[n] >> 8 | c->kind[n] << 3) << 4 * (n % 2));
	}
	for (int j = 0; j < 4; j++) {
		unsigned v = (c->d >> 4 * j & 15u) << 12;

		for (int k = 0; k < 4; k++)
			v |= (unsigned)c->code[4 * j + k] << 3 * k;
		y->scales[2 * j] = (uint8_t)v;
		y->scales[2 * j + 1] = (uint8_t)(v >> 8);
	}
}

static const struct form forms[ENCODE_TYPES] = {
	[QN_IQ1_S] = {IQ1, 32, 3, 8, shifted, 2, 32, .tiny = 1e-12f, .times = 2, .widen = 1.125f, .put = put_iq1_s},
	[QN_IQ1_M] = {IQ1, 16, 3, 8, shifted, 2, 8, .tiny = 1e-7f, .refit = 1, .times = 2, .widen = 1.1125f,
                      .put = put_iq1_m},
	[QN_IQ2_XXS] = {IQ2_XXS, 32, 3, 16, odd, 1, 32, 1, 6, 0.1f, ENCODE_TINY, 1, 1, 0, 1, 0, 1, put_iq2_xxs},
	[QN_IQ2_XS] = {IQ2_XS, 16, 3, 16, odd, 1, 16, 1, 9, 0.1f, ENCODE_TINY, 0, 0, 0, 1, 0, 1, put_iq2_xs},
	[QN_IQ2_S] = {IQ2_S, 16, 3, 16, odd, 1, 16, 0, 9, 0.1f, 1e-8f, 0, 0, 0, 2, 0.25f, 0.9875f, put_iq2_s},
	[QN_IQ3_XXS] = {IQ3_XXS, 32, 8, 16, odd, 1, 32, 1, 15, 0.2f, 1e-8f, 0, 0, 0, 2, 0, 1.0125f, put_iq3_xxs},
	[QN_IQ3_S] = {IQ3_S, 32, 8, 16, odd, 1, 32, 0, 9, 0.2f, 0, 0, 1, 0, 2, 0, 1.033f, put_iq3_s},
};

/* What a block is, with unit d; where that is 0 it is zeros, and so is a run of IQ2 or IQ3 where its own scale is. */
static void grid_block(struct grid_block *c, const struct grid_run *r, const struct form *f, float d)
{
	const struct book *b = book(f->book);

	memset(c->entry, 0, sizeof c->entry);
	memset(c->sign, 0, sizeof c->sign);
	memset(c->kind, 0, sizeof c->kind);
	c->d = f16_of_f32_sat(d);
	if (d == 0)
		memset(c->code, 0, sizeof c->code);
	for (int j = 0; d != 0 && j < QK_K / f->run; j++) {
		const int groups = f->run / b->n, eights = f->run / 8;

		if (r[j].scale == 0 && f->values == odd)
			continue;
		for (int k = 0; k < groups; k++)
			c->entry[j * groups + k] = (uint16_t)b->entry[point_of(b, r[j].level + k * b->n)];
		for (int k = 0; k < eights; k++) {
			c->sign[j * eights + k] = f->values == odd ? r[j].sign[k] : 0;
			c->kind[j * eights + k] = r[j].kind[k];
		}
	}
}

static void rows_grid(void *dst, const struct source *s)
{
	const struct form *f = &forms[s->type];
	struct grid_run r[16];
	struct grid_block c;

	for (int64_t i = 0; i < s->blocks; i++) {
		grid_block(&c, r, f, fit_block(r, c.code, s, i, f));
		f->put((uint8_t *)dst + i * block_bytes(s->type), &c);
	}
}

int encode_grid_searched(int32_t type)
{
	return type >= 0 && type < ENCODE_TYPES && forms[type].put;
}

void encode_grid_search(void *dst, const struct source *s)
{
	const struct form *f = &forms[s->type];
	struct grid_run r[16];
	struct grid_block c;

	for (int64_t i = 0; i < s->blocks; i++) {
		const float d = search_grid(r, c.code, s->x + i * QK_K, importance_of(s, i, QK_K), f);

		grid_block(&c, r, f, d);
		f->put((uint8_t *)dst + i * block_bytes(s->type), &c);
	}
}

int encode_grid_units(int32_t type, struct grid_block *c, const float *x, const float *w)
{
	const struct form *f = &forms[type];
	struct grid_run r[16];

	grid_block(c, r, f, search_grid(r, c->code, x, w, f));
	return f->run;
}

/* Weights that follow each other in a block, and what each counts. */
static void take_some(struct grid_run *r, const float *x, const float *w, int n, const struct form *f)
{
	memcpy(r->w, w, (size_t)n * sizeof *w);
	memcpy(r->near, w, (size_t)n * sizeof *w);
	take_run(r, x, n, f);
}

void encode_grid_run(int32_t type, struct grid_block *c, int j, const float *x, const float *w)
{
	const struct form *f = &forms[type];
	struct grid_run r;

	if (!c->d)
		return;
	take_some(&r, x, w, f->run, f);
	settle_run(&r, f, f32_of_f16(c->d), c->code[j], &c->code[j]);
	memcpy(c->kind + j * f->run / 8, r.kind, (size_t)f->run / 8);
}

void encode_grid_eight(int32_t type, struct grid_block *c, int eight, const float *x, const float *w, float y[8])
{
	struct form f = forms[type];
	const struct book *b = book(f.book);
	const float scale = f32_of_f16(c->d) * (float)(2 * c->code[8 * eight / f.run] + 1);
	struct grid_run r;
	int minuses;

	memset(y, 0, 8 * sizeof *y);
	if (!c->d)
		return;
	take_some(&r, x, w, 8, &f);
	if (f.alike > 8) { /* the run has chosen */
		f.values += c->kind[eight];
		f.kinds = 1;
		round_kinds(&r, &f, b, 0, 8, scale, r.kind, r.level);
	} else {
		round_kinds(&r, &f, b, 0, 8, scale, &c->kind[eight], r.level);
		f.values += c->kind[eight];
	}
	for (int k = 0; k < 8 / b->n; k++)
		c->entry[eight * 8 / b->n + k] = (uint16_t)b->entry[point_of(b, r.level + k * b->n)];
	minuses = c->sign[eight] = forms[type].values == odd ? r.sign[0] : 0;
	if (f.even) /* the eighth is what makes their number even */
		minuses |= (minuses ^ minuses >> 1 ^ minuses >> 2 ^ minuses >> 3 ^ minuses >> 4 ^ minuses >> 5 ^
		            minuses >> 6)
		                   << 7 &
		           128;
	for (int i = 0; i < 8; i++) {
		const float v = scale * value_of(*f.values, r.level[i]);

		y[i] = minuses >> i & 1 ? -v : v;
	}
}

void encode_grid_put(int32_t type, void *dst, const struct grid_block *c)
{
	forms[type].put(dst, c);
}

void encode_init_grid(encode_fn **rows)
{
	for (int type = 0; type < ENCODE_TYPES; type++)
		if (forms[type].put)
			rows[type] = rows_grid;
}
