/*
 * encode_search.h - codes, scales and minimums of blocks searched together, and rounding in which a row's errors are
 * made good by the columns that follow. Not compiled as it stands: a file of a set defines W and includes tmpl/encode.h
 * before. A row lies in each of sixteen lanes, so that what is done for a row does not depend on the others.
 *
 * What is sought is the least sum of w[i] (x[i] - v[i])^2 over the weights i of a block, v being what its bits stand
 * for.
 */
#include "encode/search.h"

/* The same block of sixteen rows. */
struct lanes {
	_Alignas(64) float x[QK_K][RUNS]; /* what its values are to be */
	_Alignas(64) float w[QK_K][RUNS]; /* what an error counts; more than 0 in one of each run */
	_Alignas(64) float d[RUNS], m[RUNS];            /* halves */
	_Alignas(64) float scale[16][RUNS], min[16][RUNS]; /* of runs, in units of these */
	_Alignas(64) float q[QK_K][RUNS]; /* codes, or levels: values are d scale q - m min */
	_Alignas(64) float u[QK_K][RUNS]; /* of corrected rows: what each column loses, see struct turned */
};

/* A scale and a minimum of a run, with the error that they leave. */
struct fitted {
	vf s, m, error;
};

static inline vf inverse_of(vf s)
{
	const vi some = abs_v(s) > 1e-30f;

	return pick(some, 1 / pick(some, s, all(1)), all(0));
}

static inline vf half_v(vf v)
{
	for (int r = 0; r < W; r++)
		v[r] = f32_of_f16(f16_of_f32_sat(v[r]));
	return v;
}

static inline vf code_of(const struct form *f, vf v)
{
	if (f->kind == FORM_LEVELS)
		return level(v);
	return clamp_v(round_v(clamp_v(v, -1e6f, 1e6f)), (float)f->lo, (float)f->hi);
}

/* The error of the run that begins at column `at` where values are s code - m. */
static vf run_error(const struct form *f, const struct lanes *l, int at, int r, vf s, vf m)
{
	const vf inverse = inverse_of(s);
	vf sum = {0};

	for (int i = at; i < at + f->run; i++) {
		const vf x = load(&l->x[i][r]), off = s * code_of(f, (x + m) * inverse) - m - x;

		sum += load(&l->w[i][r]) * (off * off);
	}
	return sum;
}

/* The scale and the minimum that fit best the codes that a scale and a minimum give: least squares. */
static struct fitted run_squares(const struct form *f, const struct lanes *l, int at, int r, vf s, vf m)
{
	const vf inverse = inverse_of(s);
	vf w1 = {0}, wq = {0}, wqq = {0}, wx = {0}, wqx = {0};
	struct fitted y;

	for (int i = at; i < at + f->run; i++) {
		const vf x = load(&l->x[i][r]), w = load(&l->w[i][r]), q = code_of(f, (x + m) * inverse), v = w * q;

		w1 += w;
		wx += w * x;
		wq += v;
		wqq += v * q;
		wqx += v * x;
	}
	y.s = pick(wqq > 0, wqx / pick(wqq > 0, wqq, all(1)), all(0));
	y.m = all(0);
	if (f->kind == FORM_AFFINE) {
		const vi flat = ~(wqq > 0) & (w1 > 0) & (f->any_min ? (wx == wx) : (wx < 0));
		const vf det = w1 * wqq - wq * wq;
		const vi good = det > 1e-6f * (w1 * wqq);
		const vf over = 1 / pick(good, det, all(1)), min = (wq * wqx - wqq * wx) * over;
		const vi keep = good & (f->any_min ? (min == min) : (min >= 0));

		y.s = pick(keep, (w1 * wqx - wq * wx) * over, y.s);
		y.s = pick(y.s > 0, y.s, all(0));
		y.m = pick(keep, min, pick(flat, -wx / pick(flat, w1, all(1)), y.m));
	}
	y.error = run_error(f, l, at, r, y.s, y.m);
	return y;
}

/* The minimum that fits best the codes of scale s and minimum m. */
static vf run_min(const struct form *f, const struct lanes *l, int at, int r, vf s, vf m)
{
	const vf inverse = inverse_of(s);
	vf sum = {0}, w1 = {0};

	for (int i = at; i < at + f->run; i++) {
		const vf x = load(&l->x[i][r]), w = load(&l->w[i][r]);

		sum += w * (s * code_of(f, (x + m) * inverse) - x);
		w1 += w;
	}
	m = pick(w1 > 0, sum / pick(w1 > 0, w1, all(1)), m);
	return f->any_min ? m : pick(m > 0, m, all(0));
}

static inline void better(struct fitted *best, struct fitted other)
{
	const vi yes = other.error < best->error;

	best->s = pick(yes, other.s, best->s);
	best->m = pick(yes, other.m, best->m);
	best->error = pick(yes, other.error, best->error);
}

/*
 * A scale and a minimum of a run that no unit rounds. Ranges from a little more than all that the weights take to a
 * part of it, where the largest are cut: of each the best for its codes.
 */
static struct fitted fit_run(const struct form *f, const struct lanes *l, int at, int r)
{
	vf lo = load(&l->x[at][r]), hi = lo;
	struct fitted best;

	for (int i = at + 1; i < at + f->run; i++) {
		const vf x = load(&l->x[i][r]);

		lo = pick(x < lo, x, lo);
		hi = pick(x > hi, x, hi);
	}
	best.s = best.m = all(0);
	best.error = run_error(f, l, at, r, best.s, best.m);
	if (f->kind == FORM_AFFINE) {
		const float step = 0.05f + 0.005f * (float)f->hi;

		lo = f->any_min ? lo : pick(lo < 0, lo, all(0));
		for (int k = -10; k <= 24; k++) {
			const vf s = (hi - lo) / ((float)f->hi + step * (float)k);

			better(&best, run_squares(f, l, at, r, s, -lo));
			if (k > 0) /* cut on both sides */
				better(&best, run_squares(f, l, at, r, s, -lo - 0.5f * step * (float)k * s));
		}
	} else {
		const vf far = pick(-lo > hi, lo, hi);

		for (int k = -10; k <= 16; k++) {
			const float cut = 1 / (1 + 0.025f * (float)k);

			better(&best, run_squares(f, l, at, r, far * (cut / (float)f->lo), all(0)));
			better(&best, run_squares(f, l, at, r, far * (cut / (float)f->hi), all(0)));
		}
	}
	for (int k = 0; k < 3; k++)
		better(&best, run_squares(f, l, at, r, best.s, best.m));
	return best;
}

/* ------------------------------------------------------------------ units of scales */

static inline vf clamp_scale(const struct form *f, vf v)
{
	return clamp_v(v, (float)f->scale_lo, (float)f->scale_hi);
}

/* Where the units d and m of lanes r .. are known: the error of run j with this scale and minimum. */
static inline vf kept_error(const struct form *f, const struct lanes *l, int j, int r, vf scale, vf min)
{
	return run_error(f, l, j * f->run, r, load(&l->d[r]) * scale, load(&l->m[r]) * min);
}

/* Goes to neighbours of a run's scale and minimum while one of them is better; returns the error. */
static vf settle(const struct form *f, struct lanes *l, int j, int r, int rounds)
{
	vf scale = load(&l->scale[j][r]), min = load(&l->min[j][r]), error = kept_error(f, l, j, r, scale, min);
	const int mins = f->kind == FORM_AFFINE;

	for (int round = 0; round < rounds; round++) {
		const vf from = scale, from_min = min;
		vi moved = {0};

		for (int a = -1; a <= 1; a++)
			for (int b = -mins; b <= mins; b++) {
				const vf s = clamp_scale(f, from + (float)a);
				const vf m = clamp_v(from_min + (float)b, 0, (float)f->min_hi);
				const vf e = kept_error(f, l, j, r, s, m);
				const vi yes = e < error;

				scale = pick(yes, s, scale);
				min = pick(yes, m, min);
				error = pick(yes, e, error);
				moved |= yes;
			}
		if (!any(moved))
			break;
	}
	store(&l->scale[j][r], scale);
	store(&l->min[j][r], min);
	return error;
}

/* Units that fit the codes of all runs best, by least squares, where that lowers `error`. Returns whether one was. */
static int refit_units(const struct form *f, struct lanes *l, int r, vf *error)
{
	const vf d0 = load(&l->d[r]), m0 = load(&l->m[r]);
	vf uu = {0}, uv = {0}, vv = {0}, ux = {0}, vx = {0}, after = {0};

	for (int j = 0; j < f->runs; j++) {
		const vf scale = load(&l->scale[j][r]), v = load(&l->min[j][r]), m = m0 * v;
		const vf inverse = inverse_of(d0 * scale);

		for (int i = j * f->run; i < (j + 1) * f->run; i++) {
			const vf x = load(&l->x[i][r]), w = load(&l->w[i][r]);
			const vf u = scale * code_of(f, (x + m) * inverse), wu = w * u;

			uu += wu * u;
			ux += wu * x;
			uv += wu * v;
			vv += w * (v * v);
			vx += w * (v * x);
		}
	}
	vf d = pick(uu > 0, (ux + m0 * uv) / pick(uu > 0, uu, all(1)), d0), m = m0;

	if (f->kind == FORM_AFFINE) {
		const vf det = uu * vv - uv * uv;
		const vi good = det > 1e-6f * (uu * vv);
		const vf over = 1 / pick(good, det, all(1)), both = (uv * ux - uu * vx) * over;
		const vi keep = good & (f->any_min ? (both == both) : (both >= 0));

		d = pick(keep, (vv * ux - uv * vx) * over, d);
		d = pick(d > 0, d, all(0));
		m = pick(keep, both, m);
	}
	d = half_v(d);
	m = half_v(m);
	for (int j = 0; j < f->runs; j++)
		after += run_error(f, l, j * f->run, r, d * load(&l->scale[j][r]), m * load(&l->min[j][r]));

	const vi yes = after < *error;

	store(&l->d[r], pick(yes, d, d0));
	store(&l->m[r], pick(yes, m, m0));
	*error = pick(yes, after, *error);
	return any(yes);
}

/* The largest of scales or minimums by size, with its sign. */
static inline vf farthest(const vf *v, int n)
{
	vf most = v[0];

	for (int j = 1; j < n; j++)
		most = pick(abs_v(v[j]) > abs_v(most), v[j], most);
	return most;
}

/* Units to try: those with which the farthest scale gets its last code, 15 % more and 15 % less. */
#define UNITS 6
static inline vf unit_of(vf most, float last, int k)
{
	return half_v(most / (last * (1 + 0.025f * (float)k)));
}

/* Codes of all scales: the unit among those to try with which the runs' errors are least, minimums being free. */
static void choose_scales(const struct form *f, struct lanes *l, int r, const vf *s, const vf *m)
{
	const vf most = farthest(s, f->runs);
	const int affine = f->kind == FORM_AFFINE;
	vf best = {0};

	for (int k = -UNITS; k <= UNITS; k++) {
		const vf d = unit_of(most, (float)(affine ? f->scale_hi : f->scale_lo), k), inverse = inverse_of(d);
		vf scale[16], total = {0};

		for (int j = 0; j < f->runs; j++) {
			const vf near = round_v(clamp_v(s[j] * inverse, -1e6f, 1e6f));
			vf error = {0};

			for (int a = -1; a <= 1; a++) {
				const vf try = clamp_scale(f, near + (float)a);
				const vf min = affine ? run_min(f, l, j * f->run, r, d * try, m[j]) : all(0);
				const vf e = run_error(f, l, j * f->run, r, d * try, min);
				const vi yes = a < 0 ? (e == e) : (e < error);

				scale[j] = a < 0 ? try : pick(yes, try, scale[j]);
				error = pick(yes, e, error);
			}
			total += error;
		}
		const vi yes = k == -UNITS ? (total == total) : (total < best);

		best = pick(yes, total, best);
		store(&l->d[r], pick(yes, d, load(&l->d[r])));
		for (int j = 0; j < f->runs; j++)
			store(&l->scale[j][r], pick(yes, scale[j], load(&l->scale[j][r])));
	}
}

/* The same of the minimums, where scales are known. */
static void choose_mins(const struct form *f, struct lanes *l, int r, vf *m)
{
	const vf d = load(&l->d[r]);
	vf best = {0};

	for (int j = 0; j < f->runs; j++)
		for (int k = 0; k < 2; k++)
			m[j] = run_min(f, l, j * f->run, r, d * load(&l->scale[j][r]), m[j]);

	const vf most = farthest(m, f->runs);

	for (int k = -UNITS; k <= UNITS; k++) {
		const vf unit = unit_of(most, (float)f->min_hi, k), inverse = inverse_of(unit);
		vf min[16], total = {0};

		for (int j = 0; j < f->runs; j++) {
			const vf s = d * load(&l->scale[j][r]);

			min[j] = clamp_v(round_v(clamp_v(m[j] * inverse, -1e6f, 1e6f)), 0, (float)f->min_hi);
			total += run_error(f, l, j * f->run, r, s, unit * min[j]);
		}
		const vi yes = k == -UNITS ? (total == total) : (total < best);

		best = pick(yes, total, best);
		store(&l->m[r], pick(yes, unit, load(&l->m[r])));
		for (int j = 0; j < f->runs; j++)
			store(&l->min[j][r], pick(yes, min[j], load(&l->min[j][r])));
	}
}

/* Units, scales and minimums of lanes r .. r + W - 1. */
static void search_lanes(const struct form *f, struct lanes *l, int r)
{
	vf s[16], m[16], error = {0};

	for (int j = 0; j < 16; j++) {
		s[j] = m[j] = all(0);
		store(&l->scale[j][r], all(0));
		store(&l->min[j][r], all(0));
	}
	for (int j = 0; j < f->runs; j++) {
		const struct fitted y = fit_run(f, l, j * f->run, r);

		s[j] = y.s;
		m[j] = y.m;
	}
	if (f->runs == 1) {
		store(&l->d[r], half_v(s[0]));
		store(&l->m[r], half_v(m[0]));
		store(&l->scale[0][r], all(1));
		store(&l->min[0][r], all((float)f->min_hi));
	} else {
		store(&l->m[r], all(0));
		choose_scales(f, l, r, s, m);
		if (f->kind == FORM_AFFINE)
			choose_mins(f, l, r, m);
	}
	for (int round = 0; round < 6; round++) {
		vf before = error;

		error = all(0);
		for (int j = 0; j < f->runs; j++)
			error += f->runs > 1 ? settle(f, l, j, r, 2)
			                     : kept_error(f, l, j, r, all(1), all((float)f->min_hi));
		if (!refit_units(f, l, r, &error) && round && !any(error < before))
			break;
	}
}

static void search_block(const struct form *f, struct lanes *l)
{
	for (int r = 0; r < RUNS; r += W)
		search_lanes(f, l, r);
}

/* ------------------------------------------------------------------ bits */

/* Codes of the columns from .. to of all lanes, rounded from x. */
static void code_columns(const struct form *f, struct lanes *l, int from, int to)
{
	for (int r = 0; r < RUNS; r += W)
		for (int i = from; i < to; i++) {
			const int j = i / f->run;
			const vf s = load(&l->d[r]) * load(&l->scale[j][r]), m = load(&l->m[r]) * load(&l->min[j][r]);

			store(&l->q[i][r], code_of(f, (load(&l->x[i][r]) + m) * inverse_of(s)));
		}
}

/* The block of one lane. */
static void coded_lane(const struct form *f, const struct lanes *l, int lane, struct coded_block *c)
{
	c->d = f16_of_f32_sat(l->d[lane]);
	c->m = f16_of_f32_sat(f->runs == 1 ? -l->m[lane] : l->m[lane]);
	for (int j = 0; j < f->runs; j++) {
		c->scale[j] = (uint8_t)((int)l->scale[j][lane] + f->scale_bias);
		c->min[j] = (uint8_t)(int)l->min[j][lane];
	}
	for (int i = 0; i < f->run * f->runs; i++) {
		const int q = (int)l->q[i][lane];

		c->q[i] = 0;
		if (f->kind != FORM_LEVELS)
			c->q[i] = (uint8_t)(q - f->code_bias);
		else
			for (int k = 1; k < 16; k++)
				c->q[i] = (uint8_t)(c->q[i] + (q >= qn_iq4_values[k]));
	}
}

/* ------------------------------------------------------------------ rows */

/* Rows of a type with a form: as many as there are of sixteen. */
static void search_rows(const struct form *f, void *dst, const struct source *s, int64_t row, int n)
{
	const int width = f->run * f->runs;
	struct lanes l;
	struct coded_block c = {0};

	for (int64_t b = 0; b < s->per_row; b++) {
		for (int r = 0; r < RUNS; r++) {
			const int64_t block = (row + (r < n ? r : n - 1)) * s->per_row + b;
			float w[QK_K];

			search_weights(f, w, s->x + block * width, importance_of(s, block, width), width);
			for (int i = 0; i < width; i++) {
				l.x[i][r] = s->x[block * width + i];
				l.w[i][r] = w[i];
			}
		}
		search_block(f, &l);
		code_columns(f, &l, 0, width);
		for (int r = 0; r < n; r++) {
			coded_lane(f, &l, r, &c);
			f->pack((uint8_t *)dst + ((row + r) * s->per_row + b) * f->bytes, &c);
		}
	}
}

/* x[i] += sum over j from .. to of a[i][j] e[j], for n columns, a multiple of 4; a is row 0's. */
static void add_errors(float (*x)[RUNS], int n, const float *a, int64_t stride, float (*e)[RUNS], int64_t from,
                       int64_t to)
{
	for (int r = 0; r < RUNS; r += W)
		for (int i = 0; i < n; i += 4) {
			vf y0 = load(&x[i][r]), y1 = load(&x[i + 1][r]);
			vf y2 = load(&x[i + 2][r]), y3 = load(&x[i + 3][r]);
			const float *a0 = a + i * stride, *a1 = a0 + stride, *a2 = a1 + stride, *a3 = a2 + stride;

			for (int64_t j = from; j < to; j++) {
				const vf v = load(&e[j][r]);

				y0 += a0[j] * v;
				y1 += a1[j] * v;
				y2 += a2[j] * v;
				y3 += a3[j] * v;
			}
			store(&x[i][r], y0);
			store(&x[i + 1][r], y1);
			store(&x[i + 2][r], y2);
			store(&x[i + 3][r], y3);
		}
}

/*
 * Codes of run j of a block, column by column, each rounded after the errors e of those before it in the run were
 * added. first is the block's first column in the factor a, and in w and e.
 */
static void code_run(const struct form *f, struct lanes *l, int j, const float *a, int64_t stride, float (*w)[RUNS],
                     float (*e)[RUNS], int64_t first)
{
	for (int r = 0; r < RUNS; r += W) {
		const vf s = load(&l->d[r]) * load(&l->scale[j][r]), m = load(&l->m[r]) * load(&l->min[j][r]);
		const vf inverse = inverse_of(s);

		for (int i = j * f->run; i < (j + 1) * f->run; i++) {
			vf x = load(&l->x[i][r]);

			for (int k = j * f->run; k < i; k++)
				x += a[(first + i) * stride + first + k] * load(&e[first + k][r]);

			const vf q = code_of(f, (x + m) * inverse);

			store(&l->q[i][r], q);
			store(&l->u[i][r], x - (s * q - m));
			store(&e[first + i][r], load(&w[first + i][r]) - (s * q - m));
		}
	}
}

/*
 * A block's factor A, column by column, each times the root of D. With errors e, u = turned e + what earlier blocks
 * leave is what the block's columns lose, whose squares are its part of the loss; later blocks make good what they can
 * of any e.
 */
struct turned {
	float column[QK_K][QK_K]; /* [i][k], k from i on */
	float square[QK_K];       /* of column i */
};

static void turn(struct turned *t, const float *a, int64_t stride, int64_t first, int n)
{
	for (int i = 0; i < n; i++)
		t->square[i] = 0;
	for (int k = 0; k < n; k++) {
		const float *row = a + (first + k) * stride + first;
		const float root = sqrtf(row[k]);

		for (int i = 0; i <= k; i++) {
			t->column[i][k] = i < k ? row[i] * root : root;
			t->square[i] += t->column[i][k] * t->column[i][k];
		}
	}
}

/* Changes one code after the other of open lanes to what lowers the loss of the block most. Returns where any was. */
static vi descend(const struct form *f, struct lanes *l, const struct turned *t, float (*e)[RUNS], int r, vi open)
{
	const int n = f->run * f->runs;
	vi changed = {0};

	for (int i = 0; i < n; i++) {
		const vf s = load(&l->d[r]) * load(&l->scale[i / f->run][r]), q = load(&l->q[i][r]);
		vf slope = {0};

		for (int k = i; k < n; k++)
			slope += t->column[i][k] * load(&l->u[k][r]);

		const vf new = code_of(f, (s * q + slope / t->square[i]) * inverse_of(s));
		const vf off = s * (q - new); /* by which the error grows */
		const vi yes = open & (new != q) & (off * (2 * slope + off * t->square[i]) < 0);

		if (!any(yes))
			continue;
		changed |= yes;

		const vf by = pick(yes, off, all(0));

		store(&l->q[i][r], pick(yes, new, q));
		store(&e[i][r], load(&e[i][r]) + by);
		for (int k = i; k < n; k++)
			store(&l->u[k][r], load(&l->u[k][r]) + t->column[i][k] * by);
	}
	return changed;
}

/* Units that fit the codes of the block best, where a lane is open and that lowers its loss. */
static void refit_turned(const struct form *f, struct lanes *l, const struct turned *t, float (*e)[RUNS], int r,
                         vi open)
{
	const int n = f->run * f->runs, affine = f->kind == FORM_AFFINE;
	const vf d0 = load(&l->d[r]), m0 = load(&l->m[r]);
	vf p[QK_K], v[QK_K], pp = {0}, pv = {0}, vv = {0}, pu = {0}, vu = {0}, before = {0}, after = {0};

	for (int k = 0; k < n; k++)
		p[k] = v[k] = all(0);
	for (int i = 0; i < n; i++) {
		const vf min = load(&l->min[i / f->run][r]), value = load(&l->scale[i / f->run][r]) * load(&l->q[i][r]);

		for (int k = i; k < n; k++) {
			p[k] += t->column[i][k] * value;
			if (affine)
				v[k] += t->column[i][k] * min;
		}
	}
	for (int k = 0; k < n; k++) {
		const vf u = load(&l->u[k][r]);

		pp += p[k] * p[k];
		pv += p[k] * v[k];
		vv += v[k] * v[k];
		pu += p[k] * u;
		vu += v[k] * u;
		before += u * u;
	}
	vf d = d0 + pick(pp > 0, pu / pick(pp > 0, pp, all(1)), all(0)), m = m0;

	if (affine) {
		const vf det = pp * vv - pv * pv;
		const vi good = det > 1e-6f * (pp * vv);
		const vf over = 1 / pick(good, det, all(1)), both = m0 + (pv * pu - pp * vu) * over;
		const vi keep = good & (f->any_min ? (both == both) : (both >= 0));

		d = pick(keep, d0 + (vv * pu - pv * vu) * over, d);
		d = pick(d > 0, d, all(0));
		m = pick(keep, both, m);
	}
	d = half_v(d);
	m = half_v(m);
	for (int k = 0; k < n; k++) {
		const vf u = load(&l->u[k][r]) - (d - d0) * p[k] + (m - m0) * v[k];

		after += u * u;
	}
	const vi yes = open & (after < before);
	const vf by = pick(yes, d - d0, all(0)), by_min = pick(yes, m - m0, all(0));

	store(&l->d[r], d0 + by);
	store(&l->m[r], m0 + by_min);
	for (int i = 0; i < n; i++) {
		const vf min = load(&l->min[i / f->run][r]), value = load(&l->scale[i / f->run][r]) * load(&l->q[i][r]);

		store(&l->u[i][r], load(&l->u[i][r]) - by * p[i] + by_min * v[i]);
		store(&e[i][r], load(&e[i][r]) - (by * value - by_min * min));
	}
}

/* Codes and units of a block that was coded once, anew in turns while that helps. A lane ends with itself alone. */
static void refine(const struct form *f, struct lanes *l, const struct turned *t, float (*e)[RUNS])
{
	for (int r = 0; r < RUNS; r += W) {
		for (int i = 0; i < f->run * f->runs; i++)
			store(&l->u[i][r], load(&l->u[i][r]) * t->column[i][i]);
		const vi every = (vi){0} == 0;
		vi open = every;

		for (int round = 0; round < 4 && any(open); round++) {
			const vi changed = descend(f, l, t, e, r, open);

			refit_turned(f, l, t, e, r, open);
			open &= changed;
		}
		descend(f, l, t, e, r, every);
	}
}

/*
 * One block of sixteen rows of a type with a form. Its scales are searched for what the errors before it leave it to
 * be, those of each run anew for what the runs before leave.
 */
static void correct_block(const struct form *f, struct lanes *l, struct turned *t, const float *a, int64_t stride,
                          float (*w)[RUNS], float (*e)[RUNS], int64_t first)
{
	const int width = f->run * f->runs;

	for (int i = 0; i < width; i++) {
		for (int r = 0; r < RUNS; r++)
			l->w[i][r] = a[(first + i) * stride + first + i];
		memcpy(l->x[i], w[first + i], sizeof l->x[i]);
	}
	add_errors(l->x, width, a + first * stride, stride, e, 0, first);
	search_block(f, l);
	for (int j = 0; j < f->runs; j++) {
		if (j) {
			add_errors(l->x + j * f->run, f->run, a + (first + j * f->run) * stride, stride, e, first,
			           first + j * f->run);
			for (int r = 0; r < RUNS; r += W)
				settle(f, l, j, r, 4);
		}
		code_run(f, l, j, a, stride, w, e, first);
	}
	turn(t, a, stride, first, width);
	refine(f, l, t, e + first);
}

/* One block of a type whose codes are entries of a codebook: errors are made good from eight columns on. */
static void correct_grid(int32_t type, struct grid_block *c, struct lanes *l, const float *a, int64_t stride,
                         float (*w)[RUNS], float (*e)[RUNS], int64_t first)
{
	float x[QK_K], counts[QK_K], y[8];
	int run = QK_K;

	for (int i = 0; i < QK_K; i++) {
		counts[i] = a[(first + i) * stride + first + i];
		memcpy(l->x[i], w[first + i], sizeof l->x[i]);
	}
	add_errors(l->x, QK_K, a + first * stride, stride, e, 0, first);
	for (int r = 0; r < RUNS; r++) {
		for (int i = 0; i < QK_K; i++)
			x[i] = l->x[i][r];
		run = encode_grid_units(type, &c[r], x, counts);
	}
	for (int i = 0; i < QK_K; i += 8) {
		const int begin = i / run * run, n = i == begin ? run : 8; /* what is known of: all of a run first */

		add_errors(l->x + i, n, a + (first + i) * stride, stride, e, i == begin ? first : first + begin,
		           first + i);
		for (int r = 0; r < RUNS; r++) {
			for (int k = 0; k < n; k++)
				x[k] = l->x[i + k][r];
			if (i == begin)
				encode_grid_run(type, &c[r], i / run, x, counts + i);
			encode_grid_eight(type, &c[r], i / 8, x, counts + i, y);
			for (int k = 0; k < 8; k++)
				e[first + i + k][r] = w[first + i + k][r] - y[k];
		}
	}
}

/* Up to sixteen rows of n_in columns, with the factor c of these. */
static void correct_rows(const struct corrected *c, uint8_t *const *dst, const float *const *row, int n)
{
	float(*w)[RUNS] = (float(*)[RUNS])c->scratch, (*e)[RUNS] = w + c->span;
	struct turned *turned = (struct turned *)(e + c->span);
	struct lanes l;
	struct coded_block coded = {0};
	struct grid_block kept[RUNS];
	const float *a = c->factor;

	memset(e, 0, (size_t)c->span * sizeof *e);
	for (int64_t begin = 0; begin < c->n_in; begin += c->span) {
		const int64_t span = c->n_in - begin < c->span ? c->n_in - begin : c->span;

		for (int64_t i = 0; i < span; i++)
			for (int r = 0; r < RUNS; r++)
				w[i][r] = row[r < n ? r : n - 1][begin + i];
		for (int64_t first = 0; first < span; first += c->block) {
			const int64_t at = (begin + first) / c->block * c->bytes;

			if (c->form)
				correct_block(c->form, &l, turned, a, span, w, e, first);
			else
				correct_grid(c->type, kept, &l, a, span, w, e, first);
			for (int r = 0; r < n; r++)
				if (c->form) {
					coded_lane(c->form, &l, r, &coded);
					c->form->pack(dst[r] + at, &coded);
				} else {
					encode_grid_put(c->type, dst[r] + at, &kept[r]);
				}
		}
		a += span * span;
	}
}

/* ------------------------------------------------------------------ products of columns, and their factor */

/* h[i][j] += sum over t of x[t][i] y[t][j]: na rows of h, a multiple of 4, nb columns, one of 32. */
static void add_products(float *h, int64_t stride, const float *x, int na, const float *y, int nb, int64_t apart,
                         int n_tok)
{
	enum { V = 32 / W };

	for (int i = 0; i < na; i += 4)
		for (int j = 0; j < nb; j += 32) {
			vf sum[4][V];

			for (int k = 0; k < 4; k++)
				for (int v = 0; v < V; v++)
					memcpy(&sum[k][v], h + (i + k) * stride + j + v * W, sizeof(vf));
			for (int t = 0; t < n_tok; t++) {
				const float *xt = x + t * apart + i, *yt = y + t * apart + j;

				for (int v = 0; v < V; v++) {
					vf u;

					memcpy(&u, yt + v * W, sizeof u);
					for (int k = 0; k < 4; k++)
						sum[k][v] += xt[k] * u;
				}
			}
			for (int k = 0; k < 4; k++)
				for (int v = 0; v < V; v++)
					memcpy(h + (i + k) * stride + j + v * W, &sum[k][v], sizeof(vf));
		}
}

/* row[i] -= sum over panel rows p of p[k] p[i], for i up to and with k; rows are n apart. */
static void take_panel(double *row, int64_t k, const double *panel, int rows, int64_t n)
{
	enum { TILE = 32 };
	int64_t i = 0;

	for (; i + TILE <= k + 1; i += TILE) {
		double sum[TILE];

		memcpy(sum, row + i, sizeof sum);
		for (int p = rows - 1; p >= 0; p--) {
			const double *of = panel + p * n, by = of[k];

			for (int v = 0; v < TILE; v++)
				sum[v] -= by * of[i + v];
		}
		memcpy(row + i, sum, sizeof sum);
	}
	for (; i <= k; i++)
		for (int p = rows - 1; p >= 0; p--)
			row[i] -= panel[p * n + k] * panel[p * n + i];
}

/*
 * L with h = L' L, L lower triangular: a Cholesky factor that begins with the last column. In the lower triangle of h,
 * row by row. Returns 0 where h is not positive definite.
 */
static int factor_of(double *h, int64_t n)
{
	enum { PANEL = 32 };

	for (int64_t end = n; end > 0; end -= end < PANEL ? end : PANEL) {
		const int64_t begin = end < PANEL ? 0 : end - PANEL;

		for (int64_t j = end - 1; j >= begin; j--) {
			double *row = h + j * n;

			if (!(row[j] > 0))
				return 0;

			const double over = 1 / sqrt(row[j]);

			for (int64_t i = 0; i <= j; i++)
				row[i] *= over;
			for (int64_t k = begin; k < j; k++)
				for (int64_t i = 0; i <= k; i++)
					h[k * n + i] -= row[k] * row[i];
		}
		for (int64_t k = 0; k < begin; k++)
			take_panel(h + k * n, k, h + begin * n, (int)(end - begin), n);
	}
	return 1;
}

void SEARCH_INIT(struct searches *s)
{
	*s = (struct searches){search_rows, correct_rows, add_products, factor_of};
}
