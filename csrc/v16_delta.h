/*
 * v16_delta.h - the gated delta rule over vectors of 16 lanes, which are columns of the state. Not compiled as it
 * stands, see v16.h; DELTA_PANELS panels are taken at once. A token's pass over the state also multiplies it with the
 * next token's key, so that it is read and written once for each token.
 */
#include "kernels.h"

struct VEC(delta_sums) {
	v16 y[2][DELTA_PANELS], o[2][DELTA_PANELS]; /* chains of even and of odd rows */
};

/* The key of token t as it meets the state before: times the decays, where rows have their own. */
INLINE const float *delta_seen(int apart, const struct delta_rows *d, int t)
{
	return apart ? d->gk + t * d->g_stride : d->k + t * d->stride;
}

/* Row i of nv panels: S = g S + k x, o += q S, and, where there is a next token, y += its key times S. */
INLINE void delta_row(int nv, int more, int chain, struct VEC(delta_sums) *sum, const float *from, float *to,
                      int64_t panel, v16 g, const v16 *x, float q, float k, float next)
{
#pragma GCC unroll 4
	for (int p = 0; p < nv; p++) {
		const v16 s = v16_fma(v16_set1(k), x[p], v16_mul(g, v16_load(from + p * panel)));

		v16_store(to + p * panel, s);
		sum->o[chain][p] = v16_fma(v16_set1(q), s, sum->o[chain][p]);
		if (more)
			sum->y[chain][p] = v16_fma(v16_set1(next), s, sum->y[chain][p]);
	}
}

/*
 * Token t, whose key times the state is in sum->y. `more`: there is a next one. apart: rows have decays of their own.
 * nv, more, apart: constant.
 */
INLINE void delta_step(int nv, int more, int apart, const struct delta_rows *d, int t, const float *from, float *to,
                       int64_t at, struct VEC(delta_sums) *sum)
{
	const int64_t panel = (int64_t)d->dk * QN_PANEL;
	const float *q = d->q + t * d->stride, *k = d->k + t * d->stride;
	const float *next = more ? delta_seen(apart, d, t + 1) : k, *gs = apart ? d->g + t * d->g_stride : k;
	const v16 g = apart ? v16_zero() : v16_set1(d->decay[t]);
	v16 x[DELTA_PANELS];
	int i = 0;

#pragma GCC unroll 4
	for (int p = 0; p < nv; p++) {
		const v16 v = v16_load(d->v + t * d->stride + at + p * QN_PANEL);
		const v16 y = v16_add(sum->y[0][p], sum->y[1][p]);

		x[p] = v16_mul(apart ? v16_sub(v, y) : v16_fma(v16_set1(-d->decay[t]), y, v), v16_set1(d->beta[t]));
		sum->o[0][p] = sum->o[1][p] = sum->y[0][p] = sum->y[1][p] = v16_zero();
	}
	for (; i + 2 <= d->dk; i += 2, from += 2 * QN_PANEL, to += 2 * QN_PANEL) {
		delta_row(nv, more, 0, sum, from, to, panel, apart ? v16_set1(gs[i]) : g, x, q[i], k[i], next[i]);
		delta_row(nv, more, 1, sum, from + QN_PANEL, to + QN_PANEL, panel, apart ? v16_set1(gs[i + 1]) : g, x,
		          q[i + 1], k[i + 1], next[i + 1]);
	}
	if (i < d->dk)
		delta_row(nv, more, 0, sum, from, to, panel, apart ? v16_set1(gs[i]) : g, x, q[i], k[i], next[i]);
#pragma GCC unroll 4
	for (int p = 0; p < nv; p++)
		v16_store(d->o + t * d->o_stride + at + p * QN_PANEL,
		          v16_mul(v16_set1(d->scale), v16_add(sum->o[0][p], sum->o[1][p])));
}

/* Panels p .. p + nv of all tokens. nv, apart: constant. */
INLINE void delta_panels(int nv, int apart, const struct delta_rows *d, int p)
{
	const int64_t panel = (int64_t)d->dk * QN_PANEL, at = (int64_t)p * QN_PANEL;
	const float *from = d->before + p * panel, *k = delta_seen(apart, d, 0);
	float *to = d->after + p * panel;
	struct VEC(delta_sums) sum;
	int i = 0;

#pragma GCC unroll 4
	for (int j = 0; j < nv; j++)
		sum.y[0][j] = sum.y[1][j] = v16_zero();
	for (; i < d->dk; i += 2)
#pragma GCC unroll 4
		for (int j = 0; j < nv; j++) {
			const float *s = from + j * panel + i * QN_PANEL;

			sum.y[0][j] = v16_fma(v16_set1(k[i]), v16_load(s), sum.y[0][j]);
			if (i + 1 < d->dk)
				sum.y[1][j] = v16_fma(v16_set1(k[i + 1]), v16_load(s + QN_PANEL), sum.y[1][j]);
		}
	for (int t = 0; t < d->n - 1; t++, from = to)
		delta_step(nv, 1, apart, d, t, from, to, at, &sum);
	delta_step(nv, 0, apart, d, d->n - 1, from, to, at, &sum);
}

/* All panels of all tokens. apart: constant. */
INLINE void delta_all(int apart, const struct delta_rows *d)
{
	int p = 0;

	for (; p + DELTA_PANELS <= d->panels; p += DELTA_PANELS)
		delta_panels(DELTA_PANELS, apart, d, p);
	for (; p < d->panels; p++)
		delta_panels(1, apart, d, p);
}

static void VEC(delta)(const struct delta_rows *d)
{
	if (d->g)
		delta_all(1, d);
	else
		delta_all(0, d);
}

static void VEC(delta_fill)(struct kernels *k) { k->delta = VEC(delta); }
