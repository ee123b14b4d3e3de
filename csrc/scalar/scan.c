/*
 * scan.c - the recurrence of selective state spaces (Gu, Dao 2023, "Mamba"; Dao, Gu 2024, "Transformers are SSMs"):
 * the specification. Of each token, of the state S[i][j] of a head, i over n_state, for each column j:
 *
 *	u     = dt * x[j]
 *	S[i]  = fma(b[i], u, decay * S[i][j])
 *	o[j]  = fma(d[j], x[j], sum over i of c[i] * S[i][j]), of the new S
 *
 * The sum is two chains of fma, over even and over odd i, which are added. decay and dt are of the head, or, by
 * channel, dt is of the column and decay of it and i.
 *
 * It is a recurrence over tokens, as the delta rule is: see docs/kernels.md.
 */
#include <math.h>

#include "scalar/set.h"

static void column(const struct scan_rows *s, int p, int j)
{
	const int64_t at = (int64_t)p * s->n_state * QN_PANEL + j;
	const float *from = s->before + at;
	const float d = s->d[p * QN_PANEL + j];
	float *to = s->after + at;

	for (int t = 0; t < s->n; t++, from = to) {
		const float *b = s->b + t * s->stride, *c = s->c + t * s->stride;
		const float x = s->x[t * s->stride + p * QN_PANEL + j];
		const float u = (s->by_channel ? s->dt[t * QN_PANEL + j] : s->dt[t]) * x;
		float y[2] = {0};

		for (int i = 0; i < s->n_state; i++) {
			const int64_t e = ((int64_t)t * s->n_state + i) * QN_PANEL + j;
			const float decay = s->by_channel ? s->decay[e] : s->decay[t];

			to[i * QN_PANEL] = fmaf(b[i], u, decay * from[i * QN_PANEL]);
			y[i % 2] = fmaf(c[i], to[i * QN_PANEL], y[i % 2]);
		}
		s->o[t * s->o_stride + p * QN_PANEL + j] = fmaf(d, x, y[0] + y[1]);
	}
}

static void scan_scalar(const struct scan_rows *s)
{
	for (int p = 0; p < s->panels; p++)
		for (int j = 0; j < QN_PANEL; j++)
			column(s, p, j);
}

void scan_init_scalar(struct kernels *k) { k->scan = scan_scalar; }
