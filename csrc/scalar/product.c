/* product.c - products of floats by any strides, of training: the specification. */
#include <math.h>

#include "scalar/set.h"

static void multiply_scalar(const struct product *p)
{
	for (int64_t i = 0; i < p->rows; i++)
		for (int64_t j = 0; j < p->cols; j++) {
			float sum = p->add ? p->y[i * p->y_row + j] : 0;

			for (int64_t k = 0; k < p->depth; k++)
				sum = fmaf(p->a[i * p->a_row + k * p->a_col], p->b[k * p->b_row + j], sum);
			p->y[i * p->y_row + j] = sum;
		}
}

void product_init_scalar(struct kernels *k) { k->multiply = multiply_scalar; }
