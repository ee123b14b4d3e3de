/*
 * trellis.c - rows to IQ1_KT, IQ2_KT, IQ3_KT and IQ4_KT. Codes of these types have no structure to search by: a code
 * starts a sequence that looks random. So the sequences of all codes are listed once, as the entries of a codebook, and
 * clustered. An entry is sought in the clusters whose centers are nearest.
 *
 * A row has one float, and each 32 weights one of 16 or 128 levels of it. First each 32 alone get the scale that they
 * would like, then the row the float whose levels are near those scales. Then levels and codes, and the float by least
 * squares, in turn. No step but the first two lets the error grow.
 */
#define FLAGS_ROOTS
#include "flags.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "encode/encode.h"
#include "encode/trellis.h"
#include "format/codebook.h"
#include "kernels.h"
#include "platform/platform.h"
#include "quern.h"

/* ------------------------------------------------------------------ codebooks */

#define CLUSTERS 512 /* at most */
#define ROUNDS 6     /* of k-means */

struct trellis_book {
	int dims, first, size, clusters; /* weights of a code, codes; clusters are a multiple of 16 */
	int sizes;                       /* 1: of entries without signs */
	float rms;
	int8_t (*value)[8]; /* of code first + i */
	float *centers, *lines; /* see trellis.h; each cluster begins a line, and ends with its last entry repeated */
	int32_t start[CLUSTERS + 1]; /* lines of clusters */
	uint16_t *code;              /* of each entry of lines, less first */
	atomic_int made;
};

enum { BOOK_1, BOOK_2, BOOK_3, BOOK_4_LOW, BOOK_4_HIGH, BOOKS };

static struct trellis_book books[BOOKS] = {
	[BOOK_1] = {.dims = 8, .size = 8192, .clusters = 128},
	[BOOK_2] = {.dims = 8, .size = 65536, .clusters = 512},
	[BOOK_3] = {.dims = 8, .size = 65536, .clusters = 512, .sizes = 1},
	[BOOK_4_LOW] = {.dims = 4, .size = 32768, .clusters = 512},
	[BOOK_4_HIGH] = {.dims = 4, .first = 32768, .size = 32768, .clusters = 512},
};

static void list_values(struct trellis_book *b)
{
	double sum = 0;

	for (int i = 0; i < b->size; i++) {
		uint32_t x = 4096u + (uint32_t)(b->first + i);

		for (int t = 0; t < b->dims; t++) {
			x *= QN_TRELLIS;
			const int v = (int)((x & 63) + (x >> 8 & 63) + (x >> 16 & 63) + (x >> 24 & 63)) - 126;

			b->value[i][t] = (int8_t)(b->sizes && v < 0 ? -v : v);
			sum += v * v;
		}
	}
	b->rms = (float)sqrt(sum / (b->size * b->dims));
}

static float *of_entry(const struct trellis_book *b, float *lines, int at)
{
	return lines + (int64_t)at / 16 * 16 * b->dims + at % 16;
}

static void put_entry(const struct trellis_book *b, int at, int i)
{
	for (int t = 0; t < b->dims; t++)
		of_entry(b, b->lines, at)[16 * t] = b->value[i][t];
	b->code[at] = (uint16_t)i;
}

/* The cluster of each entry. Sums are of integers, so they are exact. */
static void cluster(const struct trellis_book *b, const struct trellis_loops *loops, uint16_t *of)
{
	static int32_t sum[CLUSTERS][8], count[CLUSTERS];

	for (int k = 0; k < b->clusters; k++)
		for (int t = 0; t < b->dims; t++)
			of_entry(b, b->centers, k)[16 * t] = b->value[k * (b->size / b->clusters)][t];
	for (int round = 0;; round++) {
		memset(sum, 0, sizeof sum);
		memset(count, 0, sizeof count);
		for (int i = 0; i < b->size; i++) {
			struct trellis_least best = {FLT_MAX, 0};
			float p[8], q[8];

			for (int t = 0; t < b->dims; t++) {
				p[t] = 1;
				q[t] = -2.f * b->value[i][t];
			}
			loops->least(&best, b->centers, 0, b->clusters / 16, b->dims, p, q);
			of[i] = (uint16_t)best.at;
			count[best.at]++;
			for (int t = 0; t < b->dims; t++)
				sum[best.at][t] += b->value[i][t];
		}
		if (round == ROUNDS)
			return;
		for (int k = 0; k < b->clusters; k++)
			for (int t = 0; t < b->dims && count[k]; t++)
				of_entry(b, b->centers, k)[16 * t] = (float)sum[k][t] / (float)count[k];
	}
}

static int make_book(struct trellis_book *b, const struct trellis_loops *loops)
{
	const size_t lines = (size_t)(b->size / 16 + b->clusters), dims = (size_t)b->dims;
	uint16_t *of = malloc((size_t)b->size * sizeof *of);

	b->value = malloc((size_t)b->size * sizeof *b->value);
	b->code = malloc(lines * 16 * sizeof *b->code);
	b->centers = sys_alloc((size_t)b->clusters * dims * sizeof *b->centers);
	b->lines = sys_alloc(lines * 16 * dims * sizeof *b->lines);
	if (!of || !b->value || !b->code || !b->centers || !b->lines) {
		free(of);
		free(b->value);
		free(b->code);
		sys_free(b->centers);
		sys_free(b->lines);
		return 0;
	}
	list_values(b);
	cluster(b, loops, of);

	int32_t at[CLUSTERS] = {0}; /* first how many entries there are, then where the next one goes */

	for (int i = 0; i < b->size; i++)
		at[of[i]]++;
	for (int k = 0; k < b->clusters; k++) {
		b->start[k + 1] = b->start[k] + (at[k] + 15) / 16;
		at[k] = 16 * b->start[k];
	}
	for (int i = 0; i < b->size; i++)
		put_entry(b, at[of[i]]++, i);
	for (int k = 0; k < b->clusters; k++)
		for (; at[k] < 16 * b->start[k + 1]; at[k]++)
			put_entry(b, at[k], b->code[at[k] - 1]);
	free(of);
	return 1;
}

/* NULL where there is no memory for it. */
static const struct trellis_book *book_of(int which, const struct trellis_loops *loops)
{
	static struct sys_mutex making = SYS_UNLOCKED;
	struct trellis_book *b = &books[which];
	int made = atomic_load_explicit(&b->made, memory_order_acquire);

	if (!made) {
		sys_lock(&making);
		made = atomic_load_explicit(&b->made, memory_order_relaxed);
		if (!made) {
			made = make_book(b, loops);
			atomic_store_explicit(&b->made, made, memory_order_release);
		}
		sys_unlock(&making);
	}
	return made ? b : NULL;
}

/* ------------------------------------------------------------------ 32 weights */

#define RUN 32
#define PROBES 12 /* clusters that are searched, at most */

/*
 * What a search takes its time for: scales to try, as parts of one that is expected, first in few clusters, and the
 * best of levels in more of them.
 */
struct effort {
	int n_first, n_level, rounds, n_best;
	float first[3], level[3];
	int few, more; /* clusters */
};

static const struct effort efforts[2] = {
	{3, 1, 1, 1, {0.85f, 0.98f, 1.15f}, {1}, 2, 6},
	{3, 3, 2, 2, {0.84f, 0.97f, 1.12f}, {0.9f, 1, 1.1f}, 4, 12},
};

struct coder {
	int32_t type;
	struct trellis_loops loops;
	const struct trellis_book *book[2];
	int n_books, n_levels, dims, both; /* both: there are levels below 0 */
	int level[128];
	const struct effort *effort;
};

/* The weights of one level, without their signs where codes have none, and what was found for them. */
struct run {
	float x[RUN], w[RUN];
	float scale;       /* the best for the codes, or for those that were tried first */
	double error;      /* less that of zeros */
	double vx, vv;     /* sums of w v x and w v v over what codes stand for */
	int level, book;   /* level: its number */
	uint16_t code[8];
};

static float nearest(const struct coder *c, const struct trellis_book *b, const float *p, const float *q, int probes,
                     uint16_t *code)
{
	_Alignas(64) float score[CLUSTERS];
	float off[PROBES];
	int near[PROBES], n = 0;
	struct trellis_least best = {FLT_MAX, 0};

	c->loops.scores(score, b->centers, b->clusters / 16, b->dims, p, q);
	for (int k = 0; k < b->clusters; k++) {
		if (b->start[k] == b->start[k + 1] || (n == probes && !(score[k] < off[n - 1])))
			continue;
		int i = n < probes ? n++ : n - 1;

		for (; i > 0 && score[k] < off[i - 1]; i--) {
			off[i] = off[i - 1];
			near[i] = near[i - 1];
		}
		off[i] = score[k];
		near[i] = k;
	}
	for (int i = 0; i < n; i++) {
		const int at = b->start[near[i]];

		c->loops.least(&best, b->lines, at, b->start[near[i] + 1] - at, b->dims, p, q);
	}
	*code = b->code[best.at];
	return best.score;
}

/* Codes of a run for one scale. Returns the error, less that of zeros. */
static double try_scale(const struct coder *c, const struct run *r, float scale, int book, int probes, uint16_t *code)
{
	double sum = 0;

	for (int at = 0; at < RUN; at += c->dims) {
		float p[8], q[8];

		for (int t = 0; t < c->dims; t++) {
			p[t] = r->w[at + t] * (scale * scale);
			q[t] = -2 * scale * (r->w[at + t] * r->x[at + t]);
		}
		sum += (double)nearest(c, c->book[book], p, q, probes, code++);
	}
	return sum;
}

static void take_codes(const struct coder *c, struct run *r, int book, const uint16_t *code)
{
	memcpy(r->code, code, sizeof r->code);
	r->book = book;
	r->vx = r->vv = 0;
	for (int k = 0; k < RUN; k++) {
		const double v = c->book[book]->value[code[k / c->dims]][k % c->dims];

		r->vx += (double)r->w[k] * v * (double)r->x[k];
		r->vv += (double)r->w[k] * v * v;
	}
	r->scale = r->vv > 0 ? (float)fabs(r->vx / r->vv) : 0;
}

/* The scale that a run would have if it had it alone. */
static void first_scale(const struct coder *c, struct run *r)
{
	const struct effort *e = c->effort;
	double sum = 0, weight = 0, least = INFINITY;

	for (int k = 0; k < RUN; k++) {
		sum += (double)r->w[k] * (double)r->x[k] * (double)r->x[k];
		weight += (double)r->w[k];
	}
	r->scale = 0;
	r->vv = r->vx = 0;
	if (!(sum > 0))
		return;

	const float expected = (float)sqrt(sum / weight) / c->book[0]->rms;

	for (int i = 0; i < e->n_first; i++) {
		uint16_t code[8] = {0};
		const double error = try_scale(c, r, e->first[i] * expected, 0, e->few, code);

		if (error < least) {
			least = error;
			take_codes(c, r, 0, code);
		}
	}
}

/* The number of the level of a sign that is nearest. */
static int nearest_level(const struct coder *c, float want)
{
	float off = INFINITY;
	int best = 0;

	for (int i = 0; i < c->n_levels; i++) {
		const float d = fabsf((float)c->level[i] - want);

		if (d < off && (want < 0) == (c->level[i] < 0)) {
			off = d;
			best = i;
		}
	}
	return best;
}

#define BEST 2

/* A level to try, and what it leaves where few clusters are searched. */
struct attempt {
	double error;
	int level, book;
};

/* Puts an attempt among the best: n, of at most `most`. Returns how many there are. */
static int keep(struct attempt *best, int n, int most, struct attempt a)
{
	if (n == most && !(a.error < best[n - 1].error))
		return n;
	int i = n < most ? n++ : n - 1;

	for (; i > 0 && a.error < best[i - 1].error; i--)
		best[i] = best[i - 1];
	best[i] = a;
	return n;
}

/* Levels near the run's scale, and codes for them, where they have less error than what it has. */
static void settle(const struct coder *c, struct run *r, float d)
{
	const struct effort *e = c->effort;
	const float scale = r->scale;
	struct attempt best[BEST];
	uint16_t code[8] = {0};
	int n = 0;

	for (int sign = 1; sign >= (c->both ? -1 : 1); sign -= 2)
		for (int book = 0; book < c->n_books; book++)
			for (int i = 0, last = -1; i < e->n_level; i++) {
				const int level = nearest_level(c, (float)sign * e->level[i] * (scale / d));

				if (level == last)
					continue;
				last = level;

				const float at = d * (float)c->level[level];
				const double error = try_scale(c, r, at, book, e->few, code);

				n = keep(best, n, e->n_best, (struct attempt){error, level, book});
			}
	for (int i = 0; i < n; i++) {
		const double error = try_scale(c, r, d * (float)c->level[best[i].level], best[i].book, e->more, code);

		if (error < r->error) {
			r->error = error;
			r->level = best[i].level;
			take_codes(c, r, best[i].book, code);
		}
	}
}

/* ------------------------------------------------------------------ rows */

/* What it costs if runs get the levels of d that are nearest to their scales. */
static double cost_of(const struct coder *c, const struct run *r, int64_t n, float d)
{
	double sum = 0;

	for (int64_t j = 0; j < n; j++) {
		float least = INFINITY;

		for (int i = 0; i < c->n_levels; i++) {
			const float off = fabsf(fabsf(d * (float)c->level[i]) - r[j].scale);

			least = off < least ? off : least;
		}
		sum += r[j].vv * (double)least * (double)least;
	}
	return sum;
}

static float first_float(const struct coder *c, const struct run *r, int64_t n)
{
	float largest = 0, most = 0, best = 0, d;
	double least = INFINITY;

	for (int64_t j = 0; j < n; j++)
		largest = r[j].scale > largest ? r[j].scale : largest;
	for (int i = 0; i < c->n_levels; i++)
		most = fabsf((float)c->level[i]) > most ? fabsf((float)c->level[i]) : most;
	d = 0.8f * largest / most;
	for (int i = 0; i < 40; i++, d *= 1.025f) {
		const double cost = cost_of(c, r, n, d);

		if (cost < least) {
			least = cost;
			best = d;
		}
	}
	return best;
}

/* The float that is best for levels and codes. */
static float fit(const struct coder *c, const struct run *r, int64_t n, float d)
{
	double vx = 0, vv = 0;

	for (int64_t j = 0; j < n; j++) {
		const double level = c->level[r[j].level];

		vx += level * r[j].vx;
		vv += level * level * r[j].vv;
	}
	return vx > 0 ? (float)(vx / vv) : d;
}

static double error_at(const struct coder *c, const struct run *r, float d)
{
	const double scale = (double)d * c->level[r->level];

	return scale * (scale * r->vv - 2 * r->vx);
}

static float encode_row(const struct coder *c, struct run *r, int64_t n)
{
	float d;

	for (int64_t j = 0; j < n; j++)
		first_scale(c, &r[j]);
	d = first_float(c, r, n);
	if (!(d > 0))
		return 0;
	for (int round = 0; round < c->effort->rounds; round++) {
		for (int64_t j = 0; j < n; j++) {
			r[j].error = round ? error_at(c, &r[j], d) : INFINITY;
			settle(c, &r[j], d);
		}
		d = fit(c, r, n, d);
	}
	return d;
}

/* What runs leave, less what zeros do. */
static double row_error(const struct coder *c, const struct run *r, int64_t n, float d)
{
	double sum = 0;

	for (int64_t j = 0; j < n; j++)
		sum += error_at(c, &r[j], d);
	return sum;
}

/*
 * The better of what each effort finds, for a search: a row's float is found once, and more effort may find one that
 * turns out worse. Other has room for n runs.
 */
static float search_row(struct coder *c, struct run *r, struct run *other, int64_t n)
{
	float d, quick;

	memcpy(other, r, (size_t)n * sizeof *r);
	d = encode_row(c, r, n);
	c->effort = &efforts[0];
	quick = encode_row(c, other, n);
	c->effort = &efforts[1];
	if (!(quick > 0) || (d > 0 && row_error(c, r, n, d) <= row_error(c, other, n, quick)))
		return d;
	memcpy(r, other, (size_t)n * sizeof *r);
	return quick;
}

/* Codes of eight runs, code i those of weights dims i .., levels of runs, and signs, to a block. */
static void put_block(const struct coder *c, void *dst, const struct run *r, const float *x)
{
	union {
		struct iq1_kt q1;
		struct iq2_kt q2;
		struct iq3_kt q3;
		struct iq4_kt q4;
	} b;
	const int each = RUN / c->dims;

	memset(&b, 0, sizeof b);
	for (int j = 0; j < 8; j++) {
		const unsigned level = (unsigned)r[j].level;

		switch (c->type) {
		case QN_IQ1_KT: b.q1.sh[j] = (uint8_t)level; break;
		case QN_IQ2_KT: b.q2.scales[j % 4] |= (uint8_t)(level << 4 * (j / 4)); break;
		case QN_IQ3_KT: b.q3.scales[j % 4] |= (uint8_t)(level << 4 * (j / 4)); break;
		default: b.q4.sh[j] = (uint32_t)r[j].book | level << 1;
		}
	}
	for (int i = 0; i < 8 * each; i++) {
		const unsigned code = r[i / each].code[i % each];

		switch (c->type) {
		case QN_IQ1_KT:
			b.q1.ql[i] = (uint8_t)code;
			b.q1.qh[i % 16] |= (uint8_t)((code >> 8 & 15) << 4 * (i / 16));
			b.q1.sh[i / 4] |= (uint8_t)(code >> 12 << (4 + i % 4));
			break;
		case QN_IQ2_KT: b.q2.ql[i] = (uint16_t)code; break;
		case QN_IQ3_KT: b.q3.ql[i] = (uint16_t)code; break;
		default:
			b.q4.ql[i] = (uint8_t)code;
			b.q4.qh[i % 32] |= (uint8_t)((code >> 8 & 15) << 4 * (i / 32));
			b.q4.sh[i / 8] |= (code >> 12 & 7) << (8 + 3 * (i % 8));
		}
	}
	for (int k = 0; k < QK_K && c->type == QN_IQ3_KT; k++)
		b.q3.qh[k % 32] |= (uint8_t)((x[k] < 0) << k / 32);
	memcpy(dst, &b, (size_t)block_bytes(c->type));
}

/* Weights of a row over the largest, and importance likewise: no square overflows or vanishes then. */
static void take_row(const struct coder *c, struct run *r, const float *x, const float *importance, int64_t n,
                     float most)
{
	float heaviest = 0;

	for (int64_t k = 0; importance && k < n; k++)
		heaviest = importance[k] > heaviest ? importance[k] : heaviest;
	for (int64_t k = 0; k < n; k++) {
		const float v = x[k] / most;

		r[k / RUN].x[k % RUN] = c->book[0]->sizes ? fabsf(v) : v;
		r[k / RUN].w[k % RUN] = !(heaviest > 0) ? 1 : importance[k] >= 0 ? importance[k] / heaviest : 0;
	}
}

static int take_type(struct coder *c, int32_t type)
{
	const int first = type == QN_IQ1_KT   ? BOOK_1
	                  : type == QN_IQ2_KT ? BOOK_2
	                  : type == QN_IQ3_KT ? BOOK_3
	                                      : BOOK_4_LOW;

	c->type = type;
	c->n_books = type == QN_IQ4_KT ? 2 : 1;
	c->n_levels = type == QN_IQ4_KT ? 128 : 16;
	c->both = type != QN_IQ3_KT;
	for (int i = 0; i < c->n_levels; i++)
		c->level[i] = type == QN_IQ4_KT ? i - 64 : type == QN_IQ3_KT ? i : qn_iq4_values[i];
	for (int i = 0; i < c->n_books; i++) {
		c->book[i] = book_of(first + i, &c->loops);
		if (!c->book[i])
			return QN_ENOMEM;
	}
	c->dims = c->book[0]->dims;
	return QN_OK;
}

int encode_is_trellis(int32_t type)
{
	return type == QN_IQ1_KT || type == QN_IQ2_KT || type == QN_IQ3_KT || type == QN_IQ4_KT;
}

int encode_trellis(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                   const float *importance, int search)
{
	struct coder c = {.effort = &efforts[search != 0]};

	trellis_init_scalar(&c.loops);
#if defined(__x86_64__)
	if (isa & QN_AVX2)
		trellis_init_avx2(&c.loops);
	if (isa & QN_AVX512)
		trellis_init_avx512(&c.loops);
#else
	(void)isa;
#endif
	if (take_type(&c, type) != QN_OK)
		return QN_ENOMEM;

	const int64_t bytes = (int64_t)qn_row_bytes(type, n_in), block = block_bytes(type);
	const int64_t runs = n_in / RUN;
	struct run *r = malloc((size_t)(runs * (1 + (search != 0))) * sizeof *r);

	if (!r)
		return QN_ENOMEM;
	for (int64_t row = 0; row < n_rows; row++) {
		const float *x = rows + row * n_in;
		uint8_t *to = (uint8_t *)dst + row * bytes;
		float most = 0, d;

		memset(to, 0, (size_t)bytes);
		for (int64_t k = 0; k < n_in; k++)
			most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
		if (most < ENCODE_TINY)
			continue;
		take_row(&c, r, x, importance, n_in, most);
		d = search ? search_row(&c, r, r + runs, runs) : encode_row(&c, r, runs);
		d *= most / head_factor(type);
		if (!(d > 0))
			continue;
		memcpy(to, &d, sizeof d);
		for (int64_t b = 0; b < n_in / QK_K; b++)
			put_block(&c, to + sizeof d + b * block, r + 8 * b, x + b * QK_K);
	}
	free(r);
	return QN_OK;
}
