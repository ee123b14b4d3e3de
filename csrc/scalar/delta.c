/*
 * delta.c - the gated delta rule (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks"): the specification. Of each
 * token, of the state S[i][j] of a head, i over the dk numbers of its key and query, for each column j:
 *
 *	y     = sum over i of k[i] * S[i][j]
 *	x     = fma(-decay, y, v[j]) * beta
 *	S[i]  = fma(k[i], x, decay * S[i][j])
 *	o[j]  = scale * (sum over i of q[i] * S[i][j]), of the new S
 *
 * Where rows decay apart (Kimi Delta Attention: Kimi Team 2025, "Kimi Linear"), gk[i] being g[i] * k[i]:
 *
 *	y     = sum over i of gk[i] * S[i][j]
 *	x     = (v[j] - y) * beta
 *	S[i]  = fma(k[i], x, g[i] * S[i][j])
 *
 * Where what is found goes elsewhere (RWKV 7: Peng et al. 2025, "RWKV-7 Goose"), gk and to being any:
 *
 *	y     = sum over i of gk[i] * S[i][j]
 *	S[i]  = fma(k[i], v[j], fma(to[i], y, g[i] * S[i][j]))
 *
 * A sum is two chains of fma, over even and over odd i, which are added.
 *
 * It is a recurrence over tokens: what a token computes does not depend on where a prompt was cut. The form in
 * chunks takes as many products, see docs/kernels.md.
 */
#include <math.h>

#include "scalar/set.h"

static void column(const struct delta_rows *d, int p, int j)
{
	const int64_t at = (int64_t)p * d->dk * QN_PANEL + j;
	const float *from = d->before + at;
	float *to = d->after + at;

	for (int t = 0; t < d->n; t++, from = to) {
		const float *q = d->q + t * d->stride, *k = d->k + t * d->k_stride;
		const float *found_to = d->to ? d->to + t * d->g_stride : NULL;
		const float *g = d->g ? d->g + t * d->g_stride : NULL, *seen = d->g ? d->gk + t * d->g_stride : k;
		float y[2] = {0}, o[2] = {0};

		for (int i = 0; i < d->dk; i++)
			y[i % 2] = fmaf(seen[i], from[i * QN_PANEL], y[i % 2]);

		const float v = d->v[t * d->stride + p * QN_PANEL + j], found = y[0] + y[1];
		float x = v;

		if (!d->to)
			x = (g ? v - found : fmaf(-d->decay[t], found, v)) * d->beta[t];

		for (int i = 0; i < d->dk; i++) {
			float s = (g ? g[i] : d->decay[t]) * from[i * QN_PANEL];

			if (d->to)
				s = fmaf(found_to[i], found, s);
			to[i * QN_PANEL] = fmaf(k[i], x, s);
			o[i % 2] = fmaf(q[i], to[i * QN_PANEL], o[i % 2]);
		}
		d->o[t * d->o_stride + p * QN_PANEL + j] = d->scale * (o[0] + o[1]);
	}
}

static void delta_scalar(const struct delta_rows *d)
{
	for (int p = 0; p < d->panels; p++)
		for (int j = 0; j < QN_PANEL; j++)
			column(d, p, j);
}

void delta_init_scalar(struct kernels *k) { k->delta = delta_scalar; }
