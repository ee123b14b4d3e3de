/* kv.c - keys and values into a KV block, and queries as integer keys want them. */
#include <string.h>

#include "format/kv.h"

/* top: the largest integer of I16. */
static void put_k(int type, void *k, int p, const float *x, int head_dim, float top)
{
	float *d = (float *)((uint8_t *)k + kv_k_elems(type, head_dim));
	uint8_t code[KV_HEAD_DIM_MAX];
	int16_t q[KV_HEAD_DIM_MAX];
	uint16_t half[KV_HEAD_DIM_MAX];

	switch (type) {
	case QN_KV_F32:
		for (int i = 0; i < head_dim; i++)
			((float *)k)[i * QN_KV_BLOCK + p] = x[i];
		break;
	case QN_KV_F16:
	case QN_KV_BF16:
		qn_kernels.kv_halves(type, half, x, head_dim);
		for (int i = 0; i < head_dim; i++)
			((uint16_t *)k)[i * QN_KV_BLOCK + p] = half[i];
		break;
	case QN_KV_I16:
		qn_kernels.kv_round(q, &d[p], x, head_dim, kv_pad(head_dim, 2), top, KV_I16_LENGTH);
		for (int i = 0; i < head_dim; i += 2)
			memcpy((int16_t *)k + (i / 2 * QN_KV_BLOCK + p) * 2, q + i, 4);
		break;
	case QN_KV_Q8:
		qn_kernels.kv_round(q, &d[p], x, head_dim, kv_pad(head_dim, 4), KV_Q8_TOP, 0);
		for (int i = 0; i < kv_pad(head_dim, 4); i++)
			code[i] = (uint8_t)(128 + q[i]);
		for (int i = 0; i < head_dim; i += 4)
			memcpy((uint8_t *)k + (i / 4 * QN_KV_BLOCK + p) * 4, code + i, 4);
		break;
	case QN_KV_Q4:
		qn_kernels.kv_codes(code, &d[p], x, head_dim);
		for (int i = 0; i < kv_pad(head_dim, 8) / 2; i++)
			((uint8_t *)k)[(i / 4 * QN_KV_BLOCK + p) * 4 + i % 4] =
				(uint8_t)(code[i / 4 * 8 + i % 4] | code[i / 4 * 8 + i % 4 + 4] << 4);
		break;
	}
}

void kv_put_k(int type, void *k, int p, const float *x, int head_dim)
{
	put_k(type, k, p, x, head_dim, KV_I16_TOP);
}

void kv_put_kv(int type, void *k, int p, const float *x, int head_dim)
{
	put_k(type, k, p, x, head_dim, KV_I16_VALUE);
}

void kv_put_v(int type, void *v, int p, const float *x, int head_dim)
{
	const int64_t dv = kv_pad(head_dim, 16);
	float *d = (float *)((uint8_t *)v + kv_v_elems(type, dv));
	uint8_t code[KV_HEAD_DIM_MAX];
	int16_t q[KV_HEAD_DIM_MAX];

	switch (type) {
	case QN_KV_F32:
		for (int i = 0; i < dv; i++)
			((float *)v)[p * dv + i] = i < head_dim ? x[i] : 0;
		break;
	case QN_KV_F16:
	case QN_KV_BF16:
		qn_kernels.kv_halves(type, (uint16_t *)v + p * dv, x, head_dim);
		memset((uint16_t *)v + p * dv + head_dim, 0, sizeof(uint16_t) * (size_t)(dv - head_dim));
		break;
	case QN_KV_I16:
		qn_kernels.kv_round(q, &d[p], x, head_dim, dv, KV_I16_VALUE, 0);
		for (int i = 0; i < dv; i++)
			((int16_t *)v)[(p / 2 * dv + i) * 2 + p % 2] = q[i];
		break;
	case QN_KV_Q8:
		qn_kernels.kv_round(q, &d[p], x, head_dim, dv, KV_Q8_TOP, 0);
		for (int i = 0; i < dv; i++)
			((int8_t *)v)[(p / 2 * dv + i) * 2 + p % 2] = (int8_t)q[i];
		break;
	case QN_KV_Q4:
		qn_kernels.kv_codes(code, &d[p], x, head_dim);
		for (int i = 0; i < dv / 2; i++)
			((uint8_t *)v)[p / 2 * dv + 2 * i + p % 2] = (uint8_t)(code[i] | code[dv / 2 + i] << 4);
		break;
	}
}

/* 16 bytes of words, of halves and of bytes of them; every compiler's baseline has these shuffles. */
typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

static words words_at(const void *p)
{
	words w;

	memcpy(&w, p, sizeof w);
	return w;
}

/* Words of four rows of K, of positions p .. p + 3: row by row becomes position by position. */
static void turn(words w[4])
{
	const words low = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5);
	const words high = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7);
	const words low2 = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5);
	const words high2 = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);

	w[0] = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
	w[1] = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
	w[2] = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
	w[3] = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
}

/* The elements of two positions, in turns. */
static void store_halves(uint8_t *y, words a, words b)
{
	const halves low = __builtin_shufflevector((halves)a, (halves)b, 0, 8, 1, 9, 2, 10, 3, 11);
	const halves high = __builtin_shufflevector((halves)a, (halves)b, 4, 12, 5, 13, 6, 14, 7, 15);

	memcpy(y, &low, sizeof low);
	memcpy(y + sizeof low, &high, sizeof high);
}

static void store_bytes(uint8_t *y, words a, words b)
{
	const bytes x = (bytes)a, z = (bytes)b;
	const bytes low = __builtin_shufflevector(x, z, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	const bytes high = __builtin_shufflevector(x, z, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);

	memcpy(y, &low, sizeof low);
	memcpy(y + sizeof low, &high, sizeof high);
}

/* Words of two dimensions out of rows d and d + 1 of 16-bit floats, of positions p .. p + 7. */
static void pair_rows(words w[2], const uint16_t *row)
{
	const words a = words_at(row), b = words_at(row + QN_KV_BLOCK);

	store_halves((uint8_t *)w, a, b);
}

void kv_values_of_keys(int type, void *v, const void *k, int head_dim, int v_dim)
{
	const int64_t row = QN_KV_BLOCK * 4; /* bytes of a row of words */
	const uint8_t *x = k;
	uint8_t *y = v;

	switch (type) {
	case QN_KV_F32:
		for (int d = 0; d < v_dim; d += 4)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d + i) * row + p * 4);
				turn(w);
				for (int i = 0; i < 4; i++)
					memcpy(y + ((int64_t)(p + i) * v_dim + d) * 4, &w[i], sizeof w[i]);
			}
		break;
	case QN_KV_F16:
	case QN_KV_BF16:
		for (int d = 0; d < v_dim; d += 8)
			for (int p = 0; p < QN_KV_BLOCK; p += 8) {
				words w[2][4];

				for (int i = 0; i < 4; i++) {
					words two[2];

					pair_rows(two, (const uint16_t *)k + (d + 2 * i) * QN_KV_BLOCK + p);
					w[0][i] = two[0];
					w[1][i] = two[1];
				}
				turn(w[0]);
				turn(w[1]);
				for (int i = 0; i < 8; i++)
					memcpy(y + ((int64_t)(p + i) * v_dim + d) * 2, &w[i / 4][i % 4], sizeof(words));
			}
		break;
	case QN_KV_I16:
		for (int d = 0; d < v_dim; d += 8)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d / 2 + i) * row + p * 4);
				turn(w);
				store_halves(y + ((int64_t)p / 2 * v_dim + d) * 4, w[0], w[1]);
				store_halves(y + ((int64_t)(p / 2 + 1) * v_dim + d) * 4, w[2], w[3]);
			}
		break;
	default: /* Q8: of keys with an offset of 128 */
		for (int d = 0; d < v_dim; d += 16)
			for (int p = 0; p < QN_KV_BLOCK; p += 4) {
				words w[4];

				for (int i = 0; i < 4; i++)
					w[i] = words_at(x + (d / 4 + i) * row + p * 4) ^ 0x80808080;
				turn(w);
				store_bytes(y + ((int64_t)p / 2 * v_dim + d) * 2, w[0], w[1]);
				store_bytes(y + ((int64_t)(p / 2 + 1) * v_dim + d) * 2, w[2], w[3]);
			}
		break;
	}
	memcpy(y + kv_v_elems(type, v_dim), x + kv_k_elems(type, head_dim), (size_t)kv_scales(type));
}

void kv_copy_k(int type, void *to, int p, const void *k, int from, int head_dim)
{
	const int64_t elems = kv_k_elems(type, head_dim);

	if (type == QN_KV_F16 || type == QN_KV_BF16)
		for (int64_t i = 0; i < elems / 2; i += QN_KV_BLOCK)
			((uint16_t *)to)[i + p] = ((const uint16_t *)k)[i + from];
	else /* floats and words of integers */
		for (int64_t i = 0; i < elems / 4; i += QN_KV_BLOCK)
			((uint32_t *)to)[i + p] = ((const uint32_t *)k)[i + from];
	if (kv_integer(type))
		((float *)((uint8_t *)to + elems))[p] = ((const float *)((const uint8_t *)k + elems))[from];
}

/* One column of K, and what lies beside it: n words of `size` bytes, one from each row, from x to y. */
static void copy_column(uint8_t *y, int64_t y_step, const uint8_t *x, int64_t x_step, int64_t n, int size)
{
	if (size == 2)
		for (int64_t i = 0; i < n; i++)
			memcpy(y + i * y_step, x + i * x_step, 2);
	else
		for (int64_t i = 0; i < n; i++)
			memcpy(y + i * y_step, x + i * x_step, 4);
}

static int word_bytes(int type)
{
	return type == QN_KV_F16 || type == QN_KV_BF16 ? 2 : 4;
}

void kv_take_k(int type, void *entry, const void *k, int p, int head_dim)
{
	const int64_t elems = kv_k_elems(type, head_dim), size = word_bytes(type), row = size * QN_KV_BLOCK;

	copy_column(entry, size, (const uint8_t *)k + p * size, row, elems / row, (int)size);
	if (kv_integer(type))
		memcpy((uint8_t *)entry + elems / QN_KV_BLOCK, (const uint8_t *)k + elems + p * 4, 4);
}

void kv_lay_k(int type, void *k, int p, const void *entry, int head_dim)
{
	const int64_t elems = kv_k_elems(type, head_dim), size = word_bytes(type), row = size * QN_KV_BLOCK;

	copy_column((uint8_t *)k + p * size, row, entry, size, elems / row, (int)size);
	if (kv_integer(type))
		memcpy((uint8_t *)k + elems + p * 4, (const uint8_t *)entry + elems / QN_KV_BLOCK, 4);
}

void kv_copy_v(int type, void *to, int p, const void *v, int from, int head_dim)
{
	const int64_t dv = kv_pad(head_dim, 16), elems = kv_v_elems(type, dv);
	const int each = type == QN_KV_F32 ? 4 : type == QN_KV_Q8 || type == QN_KV_Q4 ? 1 : 2;
	const int64_t n = type == QN_KV_Q4 ? dv / 2 : dv;
	uint8_t *y = to;
	const uint8_t *x = v;

	if (!kv_integer(type)) {
		memcpy(y + p * n * each, x + from * n * each, (size_t)(n * each));
		return;
	}
	for (int64_t i = 0; i < n; i++) /* two positions in turns */
		memcpy(y + ((p / 2 * n + i) * 2 + p % 2) * each, x + ((from / 2 * n + i) * 2 + from % 2) * each,
		       (size_t)each);
	((float *)(y + elems))[p] = ((const float *)(x + elems))[from];
}

/* What 16-bit floats are. */
static float of_half(int type, uint16_t h)
{
	return type == QN_KV_F16 ? f32_of_f16(h) : f32_of_bf16(h);
}

void kv_get_k(int type, float *x, const void *k, int p, int head_dim)
{
	const float *d = (const float *)((const uint8_t *)k + kv_k_elems(type, head_dim));
	const uint8_t *codes = k;

	for (int i = 0; i < head_dim; i++)
		switch (type) {
		case QN_KV_F32:
			x[i] = ((const float *)k)[i * QN_KV_BLOCK + p];
			break;
		case QN_KV_I16:
			x[i] = d[p] * ((const int16_t *)k)[(i / 2 * QN_KV_BLOCK + p) * 2 + i % 2];
			break;
		case QN_KV_Q8:
			x[i] = d[p] * (float)(codes[(i / 4 * QN_KV_BLOCK + p) * 4 + i % 4] - 128);
			break;
		case QN_KV_Q4:
			x[i] = d[p] * (float)(2 * (codes[(i / 8 * QN_KV_BLOCK + p) * 4 + i % 4] >> i % 8 / 4 * 4 & 15) -
			                      KV_Q4_TOP);
			break;
		default:
			x[i] = of_half(type, ((const uint16_t *)k)[i * QN_KV_BLOCK + p]);
			break;
		}
	if (type == QN_KV_Q4)
		kv_hadamard(x, head_dim);
}

void kv_get_v(int type, float *x, const void *v, int p, int head_dim)
{
	const int64_t dv = kv_pad(head_dim, 16), half = dv / 2;
	const float *d = (const float *)((const uint8_t *)v + kv_v_elems(type, dv));
	const uint8_t *codes = v;

	for (int64_t i = 0; i < head_dim; i++)
		switch (type) {
		case QN_KV_F32:
			x[i] = ((const float *)v)[p * dv + i];
			break;
		case QN_KV_I16:
			x[i] = d[p] * ((const int16_t *)v)[(p / 2 * dv + i) * 2 + p % 2];
			break;
		case QN_KV_Q8:
			x[i] = d[p] * ((const int8_t *)v)[(p / 2 * dv + i) * 2 + p % 2];
			break;
		case QN_KV_Q4:
			x[i] = d[p] * (float)(2 * (codes[p / 2 * dv + i % half * 2 + p % 2] >> i / half * 4 & 15) -
			                      KV_Q4_TOP);
			break;
		default:
			x[i] = of_half(type, ((const uint16_t *)v)[p * dv + i]);
			break;
		}
	if (type == QN_KV_Q4)
		kv_hadamard(x, head_dim);
}

void kv_expand_k(void *y, const void *k, int head_dim, const uint8_t *ahead)
{
	const int64_t n = kv_k_elems(QN_KV_Q4, head_dim);

	qn_kernels.kv_expand(y, k, n, 4 * QN_KV_BLOCK, 128 - KV_Q4_TOP, ahead);
	memcpy((uint8_t *)y + kv_k_elems(QN_KV_Q8, head_dim), (const uint8_t *)k + n, (size_t)kv_scales(QN_KV_Q4));
}

void kv_expand_v(void *y, const void *v, int head_dim, const uint8_t *ahead)
{
	const int64_t dv = kv_pad(head_dim, 16), n = kv_v_elems(QN_KV_Q4, dv);

	qn_kernels.kv_expand(y, v, n, dv, -KV_Q4_TOP, ahead);
	memcpy((uint8_t *)y + 2 * n, (const uint8_t *)v + n, (size_t)kv_scales(QN_KV_Q4));
}

void kv_query(int type, void *q, float *d, int32_t *sum, const float *x, int head_dim)
{
	float y[KV_HEAD_DIM_MAX];
	int16_t r[KV_HEAD_DIM_MAX];
	int all = 0;

	*sum = 0;
	switch (type) {
	case QN_KV_I16:
		qn_kernels.kv_round(q, d, x, head_dim, kv_pad(head_dim, 2), KV_I16_TOP, KV_I16_LENGTH);
		break;
	case QN_KV_Q4:
		memcpy(y, x, sizeof *y * (size_t)head_dim);
		kv_hadamard(y, head_dim);
		kv_query(QN_KV_Q8, q, d, sum, y, head_dim);
		return;
	case QN_KV_Q8:
		qn_kernels.kv_round(r, d, x, head_dim, kv_pad(head_dim, 4), KV_Q8_TOP, 0);
		for (int i = 0; i < kv_pad(head_dim, 4); i++)
			((int8_t *)q)[i] = (int8_t)r[i];
		for (int i = 0; i < head_dim; i++)
			all += r[i];
		*sum = 128 * all;
		break;
	default:
		*d = 1;
		for (int i = 0; i < head_dim; i++)
			((float *)q)[i] = x[i] * LOG2E;
		return;
	}
	*d *= LOG2E;
}
