/*
 * attn.c - online softmax over one KV block: the specification (Milakov and Gimelshein 2018,
 * "Online normalizer calculation for softmax"; blocks as in FlashAttention). Everything is in powers
 * of 2: queries come multiplied by log2 e.
 *
 * Scores, of all 64 positions:
 *	s[p]  = sum over d of q[d] * k[d][p], one chain of fma in the order of d       keys of floats
 *	s[p]  = (float)(sum over d of q[d] * k[d][p]) * (qd * kd[p])                   of integers
 *
 * Weights:
 *	s[p]  = cap * tanh(s[p] / cap), where there is a cap
 *	s[p]  = fma(bias[p], log2 e, s[p]), where there are biases
 *	m'    = max(m, s[p]), p in from .. lim - 1
 *	e[p]  = 2^(s[p] - m'), 0 for other p
 *	c     = 2^(m - m')
 *	l'    = fma(l, c, sum of e)
 *
 * Values of floats:
 *	o'[d] = o[d] * c, then one chain of fma over p in from .. lim - 1 of e[p] * v[p][d]
 * Of integers, with w[p] = e[p] * vd[p] in 16 bits, as multiples of u:
 *	u     = max(max of w * (1 / KV_WEIGHT_TOP), sum of w * (1 / KV_WEIGHT_SUM))
 *	o'[d] = fma((float)(sum over p of round(w[p] * (1 / u)) * v[p][d]), u, o[d] * c)
 *
 * Sums of e and of w add lanes p % 16: (x0 + x1) + (x2 + x3), then halves 8, 4, 2, 1.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "math/exp.h"
#include "scalar/set.h"

static float load(int type, const void *p, int64_t i)
{
	switch (type) {
	case QN_KV_F32:
		return ((const float *)p)[i];
	case QN_KV_F16:
		return f32_of_f16(((const uint16_t *)p)[i]);
	default:
		return f32_of_bf16(((const uint16_t *)p)[i]);
	}
}

static float sum_of(const float x[QN_KV_BLOCK])
{
	float lane[16];

	for (int i = 0; i < 16; i++)
		lane[i] = (x[i] + x[i + 16]) + (x[i + 32] + x[i + 48]);
	for (int half = 8; half; half /= 2)
		for (int i = 0; i < half; i++)
			lane[i] += lane[i + half];
	return lane[0];
}

/* The positions that row r sees: from the first to before the last. */
static int first_of(const struct attn_rows *a, int r)
{
	return a->from[r] > 0 ? a->from[r] : 0;
}

static int last_of(const struct attn_rows *a, int r)
{
	return a->lim[r] < QN_KV_BLOCK ? a->lim[r] : QN_KV_BLOCK;
}

static void scores(int type, const struct attn_rows *a, const void *k)
{
	const float *kd = (const float *)((const uint8_t *)k + kv_k_elems(type, a->head_dim));

	for (int r = 0; r < a->n; r++) {
		const void *q = (const uint8_t *)a->q + r * a->q_bytes;
		float *e = a->e + r * QN_KV_BLOCK;

		for (int p = 0; p < QN_KV_BLOCK; p++) {
			int32_t sum = 0;

			e[p] = 0;
			for (int d = 0; d < a->head_dim; d++)
				if (type == QN_KV_I16) /* wraps at positions not written yet, which nobody sees */
					sum = (int32_t)((uint32_t)sum +
					                (uint32_t)(((const int16_t *)q)[d] *
					                           ((const int16_t *)k)[(d / 2 * QN_KV_BLOCK + p) * 2 +
					                                                d % 2]));
				else if (type == QN_KV_Q8)
					sum += ((const int8_t *)q)[d] *
					       (((const uint8_t *)k)[(d / 4 * QN_KV_BLOCK + p) * 4 + d % 4] - 128);
				else
					e[p] = fmaf(((const float *)q)[d], load(type, k, d * QN_KV_BLOCK + p), e[p]);
			if (kv_integer(type))
				e[p] = (float)sum * (a->qd[r] * kd[p]);
		}
	}
}

static float softcap(float s, float cap)
{
	const float x = s / cap, t = qexp2((0 - fabsf(x)) * QEXP2_TANH);

	return copysignf((1 - t) / (1 + t), x) * cap;
}

static void weights(const struct attn_rows *a)
{
	for (int r = 0; r < a->n; r++) {
		const int first = first_of(a, r), last = last_of(a, r);
		float *e = a->e + r * QN_KV_BLOCK, m = a->m[r];

		for (int p = 0; p < QN_KV_BLOCK; p++) {
			if (a->cap)
				e[p] = softcap(e[p], a->cap[r]);
			if (a->bias)
				e[p] = fmaf(a->bias[r][p], LOG2E, e[p]);
			if (p >= first && p < last && e[p] > m)
				m = e[p];
		}
		for (int p = 0; p < QN_KV_BLOCK; p++)
			e[p] = p >= first && p < last ? qexp2(e[p] - m) : 0;
		a->c[r] = qexp2(a->m[r] - m);
		a->m[r] = m;
		a->l[r] = fmaf(a->l[r], a->c[r], sum_of(e));
	}
}

static void float_values(int type, const struct attn_rows *a, const void *v)
{
	for (int r = 0; r < a->n; r++) {
		const int first = first_of(a, r), last = last_of(a, r);
		float *o = a->o + r * a->v_dim;

		for (int d = 0; d < a->v_dim; d++) {
			o[d] *= a->c[r];
			for (int p = first; p < last; p++)
				o[d] = fmaf(a->e[r * QN_KV_BLOCK + p], load(type, v, (int64_t)p * a->v_dim + d), o[d]);
		}
	}
}

static void integer_values(int type, const struct attn_rows *a, const void *v)
{
	const float *vd = (const float *)((const uint8_t *)v + kv_v_elems(type, a->v_dim));

	for (int r = 0; r < a->n; r++) {
		const int first = first_of(a, r), last = last_of(a, r);
		float *o = a->o + r * a->v_dim, w[QN_KV_BLOCK], max = 0, sum, u, inv;
		int32_t q[QN_KV_BLOCK];

		for (int p = 0; p < QN_KV_BLOCK; p++) {
			w[p] = p >= first && p < last ? a->e[r * QN_KV_BLOCK + p] * vd[p] : 0;
			max = w[p] > max ? w[p] : max;
		}
		sum = sum_of(w);
		inv = kv_weight_unit(max, sum, &u);
		for (int p = 0; p < QN_KV_BLOCK; p++)
			q[p] = inv > 0 ? (int32_t)(bits_of_f32(w[p] * inv + QEXP_MAGIC) - bits_of_f32(QEXP_MAGIC)) : 0;
		for (int d = 0; d < a->v_dim; d++) {
			int32_t dot = 0;

			for (int p = 0; p < QN_KV_BLOCK; p++) {
				const int64_t i = (p / 2 * a->v_dim + d) * 2 + p % 2;

				dot += q[p] * (type == QN_KV_I16 ? ((const int16_t *)v)[i] : ((const int8_t *)v)[i]);
			}
			o[d] = fmaf((float)dot, u, o[d] * a->c[r]);
		}
	}
}

#define SLOTS(name, type, values) \
	static void scores_##name##_scalar(const struct attn_rows *a, const void *k) { scores(type, a, k); } \
	static void values_##name##_scalar(const struct attn_rows *a, const void *v) { values(type, a, v); }

SLOTS(f32, QN_KV_F32, float_values)
SLOTS(f16, QN_KV_F16, float_values)
SLOTS(bf16, QN_KV_BF16, float_values)
SLOTS(i16, QN_KV_I16, integer_values)
SLOTS(q8, QN_KV_Q8, integer_values)

void attn_init_scalar(struct kernels *k)
{
	k->attn_scores[QN_KV_F32] = scores_f32_scalar;
	k->attn_scores[QN_KV_F16] = scores_f16_scalar;
	k->attn_scores[QN_KV_BF16] = scores_bf16_scalar;
	k->attn_scores[QN_KV_I16] = scores_i16_scalar;
	k->attn_scores[QN_KV_Q8] = scores_q8_scalar;
	k->attn_weights = weights;
	k->attn_values[QN_KV_F32] = values_f32_scalar;
	k->attn_values[QN_KV_F16] = values_f16_scalar;
	k->attn_values[QN_KV_BF16] = values_bf16_scalar;
	k->attn_values[QN_KV_I16] = values_i16_scalar;
	k->attn_values[QN_KV_Q8] = values_q8_scalar;
}
