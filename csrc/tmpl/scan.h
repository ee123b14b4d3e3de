/*
 * scan.h - the selective scan over vectors of 16 lanes, which are columns of the state. Not compiled as it
 * stands, see tmpl/matmul_float.h; SCAN_PANELS panels are taken at once, which share the numbers of the group.
 */
#include "kernels.h"

/* Token t of nv panels. by_channel: decays are vectors. nv, by_channel: constant. */
INLINE void scan_step(int nv, int by_channel, const struct scan_rows *s, int t, const float *from, float *to,
                      int64_t at)
{
	const int64_t panel = (int64_t)s->n_state * QN_PANEL;
	const float *b = s->b + t * s->stride, *c = s->c + t * s->stride;
	const float *x = s->x + t * s->stride + at, *decay = s->decay + (by_channel ? t * panel : t);
	const v16 dt = by_channel ? v16_load(s->dt + t * QN_PANEL) : v16_set1(s->dt[t]);
	v16 g = by_channel ? v16_zero() : v16_set1(*decay), u[SCAN_PANELS], y[2][SCAN_PANELS];
	int i = 0;

#pragma GCC unroll 4
	for (int p = 0; p < nv; p++) {
		u[p] = v16_mul(dt, v16_load(x + p * QN_PANEL));
		y[0][p] = y[1][p] = v16_zero();
	}
	for (; i + 2 <= s->n_state; i += 2)
#pragma GCC unroll 2
		for (int chain = 0; chain < 2; chain++, from += QN_PANEL, to += QN_PANEL) {
			const v16 bi = v16_set1(b[i + chain]), ci = v16_set1(c[i + chain]);

			if (by_channel)
				g = v16_load(decay + (i + chain) * QN_PANEL);
#pragma GCC unroll 4
			for (int p = 0; p < nv; p++) {
				const v16 e = v16_fma(bi, u[p], v16_mul(g, v16_load(from + p * panel)));

				v16_store(to + p * panel, e);
				y[chain][p] = v16_fma(ci, e, y[chain][p]);
			}
		}
	if (i < s->n_state) { /* an odd number of rows */
		if (by_channel)
			g = v16_load(decay + i * QN_PANEL);
#pragma GCC unroll 4
		for (int p = 0; p < nv; p++) {
			const v16 old = v16_mul(g, v16_load(from + p * panel));
			const v16 e = v16_fma(v16_set1(b[i]), u[p], old);

			v16_store(to + p * panel, e);
			y[0][p] = v16_fma(v16_set1(c[i]), e, y[0][p]);
		}
	}
#pragma GCC unroll 4
	for (int p = 0; p < nv; p++)
		v16_store(s->o + t * s->o_stride + at + p * QN_PANEL,
		          v16_fma(v16_load(s->d + at + p * QN_PANEL), v16_load(x + p * QN_PANEL),
		                  v16_add(y[0][p], y[1][p])));
}

/* Panels p .. p + nv of all tokens. */
INLINE void scan_panels(int nv, int by_channel, const struct scan_rows *s, int p)
{
	const int64_t at = (int64_t)p * QN_PANEL, state = at * s->n_state;
	const float *from = s->before + state;
	float *to = s->after + state;

	for (int t = 0; t < s->n; t++, from = to)
		scan_step(nv, by_channel, s, t, from, to, at);
}

static void VEC(scan)(const struct scan_rows *s)
{
	int p = 0;

	if (s->by_channel) {
		scan_panels(1, 1, s, 0);
		return;
	}
	for (; p + SCAN_PANELS <= s->panels; p += SCAN_PANELS)
		scan_panels(SCAN_PANELS, 0, s, p);
	for (; p < s->panels; p++)
		scan_panels(1, 0, s, p);
}

static void VEC(scan_fill)(struct kernels *k) { k->scan = VEC(scan); }
