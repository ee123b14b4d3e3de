/*
 * delta.h - the gated delta rule over vectors of 16 lanes, which are columns of the state. Not compiled as it
 * stands, see tmpl/matmul_float.h; DELTA_PANELS panels are taken at once. A token's pass over the state also multiplies
 * it with the next token's key, so that it is read and written once for each token.
 */
#include "kernels.h"

struct VEC(delta_sums) {
	v16 y[2][DELTA_PANELS], o[2][DELTA_PANELS]; /* chains of even and of odd rows */
};

/* How the state changes: it decays as a whole, or row by row, or so and what is found goes elsewhere. */
enum delta_way { DELTA_WHOLE, DELTA_APART, DELTA_ELSEWHERE };

/* The key of token t as it meets the state before. */
INLINE const float *delta_seen(enum delta_way way, const struct delta_rows *d, int t)
{
	return way == DELTA_WHOLE ? d->k + t * d->k_stride : d->gk + t * d->g_stride;
}

/* What a row's pass takes of a token. */
struct VEC(delta_row) {
	const float *q, *k, *g, *to, *next; /* next: the key of the token after it */
	v16 decay; /* of all rows, where they decay as a whole */
	v16 x[DELTA_PANELS], found[DELTA_PANELS];
};

/* Row i of nv panels: S = g S + to found + k x, o += q S, and, where there is a next token, y += its key times S. */
INLINE void delta_row(int nv, int more, enum delta_way way, int chain, const struct VEC(delta_row) *r, int i,
                      struct VEC(delta_sums) *sum, const float *from, float *to, int64_t panel)
{
	const v16 g = way == DELTA_WHOLE ? r->decay : v16_set1(r->g[i]);

#pragma GCC unroll 4
	for (int p = 0; p < nv; p++) {
		v16 s = v16_mul(g, v16_load(from + p * panel));

		if (way == DELTA_ELSEWHERE)
			s = v16_fma(v16_set1(r->to[i]), r->found[p], s);
		s = v16_fma(v16_set1(r->k[i]), r->x[p], s);
		v16_store(to + p * panel, s);
		sum->o[chain][p] = v16_fma(v16_set1(r->q[i]), s, sum->o[chain][p]);
		if (more)
			sum->y[chain][p] = v16_fma(v16_set1(r->next[i]), s, sum->y[chain][p]);
	}
}

/*
 * Token t, whose key times the state is in sum->y. `more`: there is a next one. nv, more, way: constant.
 */
INLINE void delta_step(int nv, int more, enum delta_way way, const struct delta_rows *d, int t, const float *from,
                       float *to, int64_t at, struct VEC(delta_sums) *sum)
{
	const int64_t panel = (int64_t)d->dk * QN_PANEL, apart = t * d->g_stride;
	struct VEC(delta_row) r = {.q = d->q + t * d->stride, .k = d->k + t * d->k_stride};
	int i = 0;

	if (more)
		r.next = delta_seen(way, d, t + 1);
	if (way == DELTA_WHOLE)
		r.decay = v16_set1(d->decay[t]);
	else
		r.g = d->g + apart;
	if (way == DELTA_ELSEWHERE)
		r.to = d->to + apart;
#pragma GCC unroll 4
	for (int p = 0; p < nv; p++) {
		const v16 v = v16_load(d->v + t * d->stride + at + p * QN_PANEL);
		const v16 y = v16_add(sum->y[0][p], sum->y[1][p]);

		if (way == DELTA_ELSEWHERE) {
			r.x[p] = v;
			r.found[p] = y;
		} else {
			r.x[p] = v16_mul(way == DELTA_APART ? v16_sub(v, y) : v16_fma(v16_set1(-d->decay[t]), y, v),
			                 v16_set1(d->beta[t]));
		}
		sum->o[0][p] = sum->o[1][p] = sum->y[0][p] = sum->y[1][p] = v16_zero();
	}
	for (; i + 2 <= d->dk; i += 2, from += 2 * QN_PANEL, to += 2 * QN_PANEL) {
		delta_row(nv, more, way, 0, &r, i, sum, from, to, panel);
		delta_row(nv, more, way, 1, &r, i + 1, sum, from + QN_PANEL, to + QN_PANEL, panel);
	}
	if (i < d->dk)
		delta_row(nv, more, way, 0, &r, i, sum, from, to, panel);
#pragma GCC unroll 4
	for (int p = 0; p < nv; p++)
		v16_store(d->o + t * d->o_stride + at + p * QN_PANEL,
		          v16_mul(v16_set1(d->scale), v16_add(sum->o[0][p], sum->o[1][p])));
}

/* Panels p .. p + nv of all tokens. nv, way: constant. */
INLINE void delta_panels(int nv, enum delta_way way, const struct delta_rows *d, int p)
{
	const int64_t panel = (int64_t)d->dk * QN_PANEL, at = (int64_t)p * QN_PANEL;
	const float *from = d->before + p * panel, *k = delta_seen(way, d, 0);
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
		delta_step(nv, 1, way, d, t, from, to, at, &sum);
	delta_step(nv, 0, way, d, d->n - 1, from, to, at, &sum);
}

/* All panels of all tokens. way: constant. */
INLINE void delta_all(enum delta_way way, const struct delta_rows *d)
{
	int p = 0;

	for (; p + DELTA_PANELS <= d->panels; p += DELTA_PANELS)
		delta_panels(DELTA_PANELS, way, d, p);
	for (; p < d->panels; p++)
		delta_panels(1, way, d, p);
}

static void VEC(delta)(const struct delta_rows *d)
{
	if (d->to)
		delta_all(DELTA_ELSEWHERE, d);
	else if (d->g)
		delta_all(DELTA_APART, d);
	else
		delta_all(DELTA_WHOLE, d);
}

static void VEC(delta_fill)(struct kernels *k) { k->delta = VEC(delta); }
