/*
 * attn.c - online softmax over one KV block: the specification (Milakov and Gimelshein 2018,
 * "Online normalizer calculation for softmax"; blocks as in FlashAttention).
 *
 *	s[p]  = sum over d of q[d] * k[d][p], one chain of fma in the order of d
 *	m'    = max(m, s[p]), p below the row's limit
 *	e[p]  = exp(s[p] - m'), 0 from the limit on
 *	c     = exp(m - m')
 *	l'    = fma(l, c, sum of e)
 *	o'[d] = o[d] * c, then one chain of fma over p below the limit of e[p] * v[p][d]
 *
 * The sum of e adds lanes p % 16: (e0 + e1) + (e2 + e3), then halves 8, 4, 2, 1. A row that sees
 * no position stays as it is.
 */
#include <math.h>
#include <string.h>

#include "fp16.h"
#include "kernels.h"
#include "qmath.h"
#include "set.h"

static float load(int kv_type, const void *p, int64_t i)
{
	return kv_type == QN_KV_F32 ? ((const float *)p)[i] : f32_of_f16(((const uint16_t *)p)[i]);
}

static float sum_of(const float e[QN_KV_BLOCK])
{
	float lane[16];

	for (int i = 0; i < 16; i++)
		lane[i] = (e[i] + e[i + 16]) + (e[i + 32] + e[i + 48]);
	for (int half = 8; half; half /= 2)
		for (int i = 0; i < half; i++)
			lane[i] += lane[i + half];
	return lane[0];
}

static void attn(int kv_type, const struct attn_rows *a, const void *k, const void *v)
{
	for (int r = 0; r < a->n; r++) {
		const float *q = a->q + r * a->head_dim;
		float *o = a->o + r * a->v_dim;
		const int last = a->lim[r] < QN_KV_BLOCK ? a->lim[r] : QN_KV_BLOCK;
		float e[QN_KV_BLOCK], m = a->m[r], c;

		if (a->lim[r] <= 0)
			continue;
		for (int p = 0; p < QN_KV_BLOCK; p++) {
			e[p] = 0;
			for (int d = 0; d < a->head_dim; d++)
				e[p] = fmaf(q[d], load(kv_type, k, d * QN_KV_BLOCK + p), e[p]);
			if (p < last && e[p] > m)
				m = e[p];
		}
		for (int p = 0; p < QN_KV_BLOCK; p++)
			e[p] = p < last ? qexp(e[p] - m) : 0;
		c = qexp(a->m[r] - m);
		a->m[r] = m;
		a->l[r] = fmaf(a->l[r], c, sum_of(e));
		for (int d = 0; d < a->v_dim; d++) {
			o[d] *= c;
			for (int p = 0; p < last; p++)
				o[d] = fmaf(e[p], load(kv_type, v, (int64_t)p * a->v_dim + d), o[d]);
		}
	}
}

static void attn_f16_scalar(const struct attn_rows *a, const void *k, const void *v)
{
	attn(QN_KV_F16, a, k, v);
}

static void attn_f32_scalar(const struct attn_rows *a, const void *k, const void *v)
{
	attn(QN_KV_F32, a, k, v);
}

void attn_init_scalar(struct kernels *k)
{
	k->attn[QN_KV_F16] = attn_f16_scalar;
	k->attn[QN_KV_F32] = attn_f32_scalar;
}
