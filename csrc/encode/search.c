/* search.c - which types are searched, and rows to the searches of tmpl/encode_search.h. */
#include <math.h>
#include <string.h>

#include "encode/search.h"
#include "encode/trellis.h"
#include "kernels.h"
#include "quern.h"

#define PACK(name)                                                     \
	static void put_##name(void *dst, const struct coded_block *c) \
	{                                                              \
		pack_##name(dst, c);                                   \
	}

PACK(q2k)
PACK(q3k)
PACK(q4k)
PACK(q5k)
PACK(q6k)
PACK(iq4_xs)

static void put_q4_0(void *dst, const struct coded_block *c)
{
	struct q4_0 *y = dst; /* and IQ4_NL */

	y->d = c->d;
	pack_halves(y->qs, c->q);
}

static void put_q4_1(void *dst, const struct coded_block *c)
{
	struct q4_1 *y = dst;

	y->d = c->d;
	y->m = c->m;
	pack_halves(y->qs, c->q);
}

static void put_q5_0(void *dst, const struct coded_block *c)
{
	struct q5_0 *y = dst;

	y->d = c->d;
	pack_halves(y->qs, c->q);
	pack_fifths(y->qh, c->q);
}

static void put_q5_1(void *dst, const struct coded_block *c)
{
	struct q5_1 *y = dst;

	y->d = c->d;
	y->m = c->m;
	pack_halves(y->qs, c->q);
	pack_fifths(y->qh, c->q);
}

static void put_q8_0(void *dst, const struct coded_block *c)
{
	struct q8_0 *y = dst;

	y->d = c->d;
	memcpy(y->qs, c->q, QK);
}

/* kind, weights of a run, runs, codes, codes of scales, of minimums, any_min, biases, bytes */
static const struct form forms[ENCODE_TYPES] = {
	[QN_Q4_0] = {FORM_SIGNED, 32, 1, -8, 7, 0, 0, 0, 0, -8, 0, sizeof(struct q4_0), put_q4_0},
	[QN_Q4_1] = {FORM_AFFINE, 32, 1, 0, 15, 0, 0, 1, 1, 0, 0, sizeof(struct q4_1), put_q4_1},
	[QN_Q5_0] = {FORM_SIGNED, 32, 1, -16, 15, 0, 0, 0, 0, -16, 0, sizeof(struct q5_0), put_q5_0},
	[QN_Q5_1] = {FORM_AFFINE, 32, 1, 0, 31, 0, 0, 1, 1, 0, 0, sizeof(struct q5_1), put_q5_1},
	[QN_Q8_0] = {FORM_SIGNED, 32, 1, -127, 127, 0, 0, 0, 0, 0, 0, sizeof(struct q8_0), put_q8_0},
	[QN_Q2_K] = {FORM_AFFINE, 16, 16, 0, 3, 0, 15, 15, 0, 0, 0, sizeof(struct q2k), put_q2k},
	[QN_Q3_K] = {FORM_SIGNED, 16, 16, -4, 3, -32, 31, 0, 0, -4, 32, sizeof(struct q3k), put_q3k},
	[QN_Q4_K] = {FORM_AFFINE, 32, 8, 0, 15, 0, 63, 63, 0, 0, 0, sizeof(struct q4k), put_q4k},
	[QN_Q5_K] = {FORM_AFFINE, 32, 8, 0, 31, 0, 63, 63, 0, 0, 0, sizeof(struct q5k), put_q5k},
	[QN_Q6_K] = {FORM_SIGNED, 16, 16, -32, 31, -128, 127, 0, 0, -32, 0, sizeof(struct q6k), put_q6k},
	[QN_IQ4_NL] = {FORM_LEVELS, 32, 1, -127, 113, 0, 0, 0, 0, 0, 0, sizeof(struct iq4_nl), put_q4_0},
	[QN_IQ4_XS] = {FORM_LEVELS, 32, 8, -127, 113, -32, 31, 0, 0, 0, 32, sizeof(struct iq4_xs), put_iq4_xs},
};

static const struct form *form_of(int32_t type)
{
	return type >= 0 && type < ENCODE_TYPES && forms[type].run ? &forms[type] : NULL;
}

int qn_encode_searched(int32_t type)
{
	return qn_encode_correctable(type) || encode_is_trellis(type);
}

int qn_encode_correctable(int32_t type)
{
	return form_of(type) != NULL || encode_grid_searched(type);
}

struct searches searches_of(uint32_t isa)
{
	struct searches s;

	search_init_scalar(&s);
#if defined(__x86_64__)
	if (isa & QN_AVX2)
		search_init_avx2(&s);
	if (isa & QN_AVX512)
		search_init_avx512(&s);
#else
	(void)isa;
#endif
	return s;
}

void search_weights(const struct form *f, float *w, const float *x, const float *importance, int n)
{
	const int sizes = f && f->kind != FORM_LEVELS && importance;
	const float mean = sum_of_squares(x, n) / (float)n;

	for (int i = 0; i < n; i++)
		w[i] = (importance ? importance[i] : 1) * (sizes ? sqrtf(mean + x[i] * x[i]) : 1);
}

/* The error that a block leaves, weighted. */
static double block_error(int32_t type, const void *block, const float *x, const float *w, int n)
{
	float y[QK_K];
	double sum = 0;

	qn_dequantize(type, y, block, n);
	for (int i = 0; i < n; i++) {
		const double off = (double)y[i] - (double)x[i];

		sum += (double)w[i] * off * off;
	}
	return sum;
}

int qn_encode_search(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                     const float *importance, void *scratch)
{
	const struct form *f = form_of(type);

	if (encode_is_trellis(type)) {
		const int bad = encode_check(type, rows, n_rows, n_in, importance);

		return bad ? bad : encode_trellis(isa, type, dst, rows, n_rows, n_in, importance, 1);
	}

	const int status = qn_encode(isa, type, dst, rows, n_rows, n_in, importance);

	if (status != QN_OK || !qn_encode_searched(type))
		return status;

	const int width = f ? f->run * f->runs : QK_K;
	const int64_t per_row = n_in / width, blocks = n_rows * per_row, bytes = block_bytes(type);
	const struct source s = {type, rows, importance, blocks, per_row};
	const struct searches searches = searches_of(isa);
	uint8_t *kept = dst, *found = scratch;

	for (int64_t row = 0; f && row < n_rows; row += 16)
		searches.rows(f, scratch, &s, row, (int)(n_rows - row < 16 ? n_rows - row : 16));
	if (!f)
		encode_grid_search(scratch, &s);
	for (int64_t b = 0; b < blocks; b++) {
		const float *x = rows + b * width;
		uint8_t *was = kept + b * bytes, *is = found + b * bytes;
		float w[QK_K];

		search_weights(f, w, x, importance_of(&s, b, width), width);
		if (block_error(type, is, x, w, width) < block_error(type, was, x, w, width))
			memcpy(was, is, (size_t)bytes);
	}
	return QN_OK;
}

int qn_factor(uint32_t isa, float *h, int64_t n, double damp, double *work)
{
	double mean = 0;

	if (n < 1 || !(damp >= 0))
		return QN_EINVAL;
	for (int64_t i = 0; i < n; i++)
		mean += (double)h[i * n + i] / (double)n;
	if (mean == 0) {
		memset(h, 0, (size_t)(n * n) * sizeof *h);
		for (int64_t i = 0; i < n; i++)
			h[i * n + i] = 1;
		return QN_OK;
	}
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j <= i; j++)
			work[i * n + j] = (double)h[j * n + i] + (i == j ? damp * mean : 0);
	if (!isfinite(mean) || !searches_of(isa).factor(work, n))
		return QN_ENOTFINITE;
	for (int64_t i = 0; i < n; i++) {
		const double own = work[i * n + i];

		for (int64_t j = 0; j < n; j++)
			h[i * n + j] = j < i ? (float)(work[i * n + j] / own) : 0;
		h[i * n + i] = (float)(own * own / mean); /* of a size that no sum overflows with */
		if (!isfinite(h[i * n + i]))
			return QN_ENOTFINITE;
	}
	return QN_OK;
}

int qn_encode_corrected(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                        const float *factor, int64_t span, float *scratch)
{
	const struct form *f = form_of(type);
	const int status = encode_check(type, rows, n_rows, n_in, factor); /* which has n_in floats at least */
	struct corrected c = {.type = type, .form = f, .n_in = n_in, .factor = factor, .scratch = scratch};

	if (status != QN_OK)
		return status;
	if (!qn_encode_correctable(type) || span < 1)
		return QN_EINVAL;
	c.span = span < n_in ? span : n_in;
	c.block = f ? f->run * f->runs : QK_K;
	c.bytes = (int)block_bytes(type);
	if (c.span % c.block)
		return QN_EINVAL;

	const int64_t row_bytes = (int64_t)qn_row_bytes(type, n_in);
	const struct searches searches = searches_of(isa);

	for (int64_t row = 0; row < n_rows; row += 16) {
		const int n = (int)(n_rows - row < 16 ? n_rows - row : 16);
		uint8_t *to[16];
		const float *from[16];

		for (int r = 0; r < n; r++) {
			to[r] = (uint8_t *)dst + (row + r) * row_bytes;
			from[r] = rows + (row + r) * n_in;
		}
		searches.correct(&c, to, from, n);
	}
	return QN_OK;
}
