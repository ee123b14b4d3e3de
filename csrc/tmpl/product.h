/*
 * product.h - products of floats by any strides, over vectors of 16 lanes. Not compiled as it stands: each set includes
 * it once, after tmpl/matmul_float.h and with its MM_FLOAT_TOKENS, here rows.
 */

/* As many as the last, narrow columns of b are copied of at a time. */
#define PRODUCT_DEPTH 64

/* n rows of one or two vectors of columns from y and b on; n and vecs are constant. */
INLINE void product_tile(int n, int vecs, float *y, int64_t y_row, const float *a, int64_t a_row, int64_t a_col,
                         const float *b, int64_t b_row, int64_t depth, int add)
{
	v16 sum[MM_FLOAT_TOKENS][2];

#pragma GCC unroll 12
	for (int i = 0; i < n; i++)
#pragma GCC unroll 2
		for (int c = 0; c < vecs; c++)
			sum[i][c] = add ? v16_load(y + i * y_row + 16 * c) : v16_zero();
	for (int64_t k = 0; k < depth; k++, a += a_col, b += b_row) {
		v16 v[2];

#pragma GCC unroll 2
		for (int c = 0; c < vecs; c++)
			v[c] = v16_load(b + 16 * c);
#pragma GCC unroll 12
		for (int i = 0; i < n; i++) { /* of a one number at a time: all of them at once do not fit registers */
			const v16 x = v16_set1(a[i * a_row]);

#pragma GCC unroll 2
			for (int c = 0; c < vecs; c++)
				sum[i][c] = v16_fma(x, v[c], sum[i][c]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < n; i++)
#pragma GCC unroll 2
		for (int c = 0; c < vecs; c++)
			v16_store(y + i * y_row + 16 * c, sum[i][c]);
}

/* All rows of these columns, as many as registers hold at a time. */
INLINE void product_rows(int vecs, float *y, int64_t y_row, const float *a, int64_t a_row, int64_t a_col,
                         const float *b, int64_t b_row, int64_t rows, int64_t depth, int add)
{
	for (int64_t at; rows > 0; rows -= at, y += at * y_row, a += at * a_row) {
		at = next_tokens(MM_FLOAT_TOKENS, rows < 1000 ? (int)rows : 1000);
		switch (at) {
#define ROWS(n)                                                                           \
	case n:                                                                           \
		if (n <= MM_FLOAT_TOKENS)                                                 \
			product_tile(n, vecs, y, y_row, a, a_row, a_col, b, b_row, depth, add); \
		break;
			ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
			ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#undef ROWS
		}
	}
}

/* Fewer than 16 columns from number j on: copied, with zeros beside them. */
static void VEC(product_narrow)(const struct product *p, int64_t j)
{
	const size_t bytes = sizeof(float) * (size_t)(p->cols - j);
	float y[MM_FLOAT_TOKENS * 16] = {0}, b[PRODUCT_DEPTH * 16] = {0};

	for (int64_t k = 0; k < p->depth || k == 0; k += PRODUCT_DEPTH) {
		const int64_t depth = p->depth - k < PRODUCT_DEPTH ? p->depth - k : PRODUCT_DEPTH;
		const int add = p->add || k > 0;

		for (int64_t i = 0; i < depth; i++)
			memcpy(b + 16 * i, p->b + (k + i) * p->b_row + j, bytes);
		for (int64_t r = 0, n; r < p->rows; r += n) {
			n = p->rows - r < MM_FLOAT_TOKENS ? p->rows - r : MM_FLOAT_TOKENS;
			for (int64_t i = 0; i < n && add; i++)
				memcpy(y + 16 * i, p->y + (r + i) * p->y_row + j, bytes);
			product_rows(1, y, 16, p->a + r * p->a_row + k * p->a_col, p->a_row, p->a_col, b, 16, n, depth,
			             add);
			for (int64_t i = 0; i < n; i++)
				memcpy(p->y + (r + i) * p->y_row + j, y + 16 * i, bytes);
		}
	}
}

static void VEC(multiply)(const struct product *p)
{
	int64_t j = 0;

	for (; j + 32 <= p->cols; j += 32)
		product_rows(2, p->y + j, p->y_row, p->a, p->a_row, p->a_col, p->b + j, p->b_row, p->rows, p->depth,
		             p->add);
	for (; j + 16 <= p->cols; j += 16)
		product_rows(1, p->y + j, p->y_row, p->a, p->a_row, p->a_col, p->b + j, p->b_row, p->rows, p->depth,
		             p->add);
	if (j < p->cols)
		VEC(product_narrow)(p, j);
}

static void VEC(product_fill)(struct kernels *k) { k->multiply = VEC(multiply); }
