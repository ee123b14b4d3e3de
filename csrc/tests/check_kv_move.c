/*
 * check_kv_move.c - keys and values that are moved to other positions or kept in other types, against the same of the
 * vectors that they were made of.
 */
#include <math.h>
#include <string.h>

#include "format/kv.h"
#include "check.h"

enum { BLOCKS = 4, LAYERS = 2, HEADS = 2, DIM_MAX = 64, POS = BLOCKS * QN_KV_BLOCK };

static float keys[LAYERS][HEADS][POS][DIM_MAX], values[LAYERS][HEADS][POS][DIM_MAX];
static double freq[DIM_MAX / 2];
static float mul[HEADS * DIM_MAX];

/* A key as it is kept at a position. */
static void turned(const struct qn_kv *l, int h, int pos, const float *x, float *y)
{
	memcpy(y, x, sizeof *y * (size_t)l->head_dim);
	for (int i = 0; i < l->n_rot / 2 && l->rope != QN_ROPE_NONE; i++) {
		const int a = l->rope_at + (l->rope == QN_ROPE_NEOX ? i : 2 * i);
		const int b = l->rope == QN_ROPE_NEOX ? a + l->n_rot / 2 : a + 1;
		const double c = cos(pos * l->freq[i]), s = sin(pos * l->freq[i]);

		y[a] = (float)((double)x[a] * c - (double)x[b] * s);
		y[b] = (float)((double)x[a] * s + (double)x[b] * c);
	}
	for (int i = 0; l->mul && i < l->head_dim; i++)
		y[i] *= l->mul[h * l->head_dim + i];
}

static int64_t head_bytes(const struct qn_kv *l)
{
	return kv_k_bytes(l->k_type, l->head_dim) + (l->v_in_k ? 0 : kv_v_bytes(l->v_type, l->v_dim));
}

/* So many units, whose heads are in this many places, one after the other. */
static struct qn_group divided(uint8_t *data, int64_t unit, int n, int places)
{
	return (struct qn_group){.data = data, .unit_bytes = unit / places, .places = places,
	                         .place_stride = n * unit / places};
}

static uint8_t *head_at(const struct qn_kv *l, const struct qn_group *g, const int32_t *table, int pos, int h)
{
	const int64_t before = l->offset + h * head_bytes(l); /* in a unit that is whole */
	const int64_t unit = table[pos / QN_KV_BLOCK] * g->unit_bytes;

	if (g->places == 1)
		return (uint8_t *)g->data + unit + before;
	/* Of two places each has one of the two heads. */
	return (uint8_t *)g->data + h * g->place_stride + unit + l->offset / 2;
}

static void store(const struct qn_kv *layers, const struct qn_group *g, const int32_t *table, int from, int n)
{
	for (int i = 0; i < LAYERS; i++)
		for (int h = 0; h < HEADS; h++)
			for (int p = 0; p < n; p++) {
				const struct qn_kv *l = &layers[i];
				uint8_t *k = head_at(l, g, table, p, h);
				float x[DIM_MAX];

				turned(l, h, p, keys[i][h][from + p], x);
				if (l->v_in_k)
					kv_put_kv(l->k_type, k, p % QN_KV_BLOCK, x, l->head_dim);
				else
					kv_put_k(l->k_type, k, p % QN_KV_BLOCK, x, l->head_dim);
				if (!l->v_in_k)
					kv_put_v(l->v_type, k + kv_k_bytes(l->k_type, l->head_dim), p % QN_KV_BLOCK,
					         values[i][h][from + p], l->v_dim);
			}
}

/* Relative to the vector's length: what a type loses of it, once. */
static const double lost[QN_N_KV_TYPES] = {[QN_KV_F16] = 1e-3, [QN_KV_F32] = 1e-6, [QN_KV_BF16] = 8e-3,
                                           [QN_KV_I16] = 1e-3, [QN_KV_Q8] = 2e-2, [QN_KV_Q4] = 0.3};

static void near(const char *what, int pos, const float *got, const float *want, int n, double most)
{
	double off = 0, len = 0;

	for (int i = 0; i < n; i++) {
		off += pow((double)got[i] - (double)want[i], 2);
		len += pow((double)want[i], 2);
	}
	check_near(what, pos, sqrt(off), 0, most * sqrt(len) + 1e-6);
}

/* Position p of a table has what position q of the vectors makes, to within `most` times what its types lose. */
static void holds(const struct qn_kv *l, int i, const struct qn_group *g, const int32_t *table, int p, int q,
                  int most)
{
	for (int h = 0; h < HEADS; h++) {
		const uint8_t *k = head_at(l, g, table, p, h);
		float x[DIM_MAX], y[DIM_MAX];

		turned(l, h, p, keys[i][h][q], x);
		kv_get_k(l->k_type, y, k, p % QN_KV_BLOCK, l->head_dim);
		near("k", p, y, x, l->head_dim, most * lost[l->k_type]);
		if (l->v_in_k)
			continue;
		kv_get_v(l->v_type, y, k + kv_k_bytes(l->k_type, l->head_dim), p % QN_KV_BLOCK, l->v_dim);
		near("v", p, y, values[i][h][q], l->v_dim, most * lost[l->v_type]);
	}
}

static void shifted(struct qn_pool *pool, const struct qn_kv *layers, int64_t unit, int places, int at, int by, int n)
{
	static const int32_t from[BLOCKS] = {2, 0, 3, 1};
	static const int32_t apart[BLOCKS] = {4, 5, 6, 7};
	int32_t same[BLOCKS];
	const size_t half = (size_t)unit * BLOCKS;
	uint8_t *data = guard_alloc(half), *both = guard_alloc(2 * half);
	const struct qn_group a = divided(data, unit, BLOCKS, places), b = divided(both, unit, 2 * BLOCKS, places);

	rnd_bytes(data, half);
	store(layers, &a, from, 0, n);
	for (int i = 0; i < 2 * places; i++) /* of each place twice as many blocks */
		memcpy(both + i * half / (size_t)places, data + i / 2 * half / (size_t)places, half / (size_t)places);
	for (int i = 0; i < BLOCKS; i++) /* a block may take the place of what it begins with */
		same[i] = i * QN_KV_BLOCK <= at || (i * QN_KV_BLOCK + by) / QN_KV_BLOCK >= BLOCKS
		                  ? from[i] : from[(i * QN_KV_BLOCK + by) / QN_KV_BLOCK];
	check_true(qn_kv_shift(pool, &a, same, from, at, n - by, by, layers, LAYERS) == QN_OK, "shift");
	check_true(qn_kv_shift(pool, &b, apart, from, at, n - by, by, layers, LAYERS) == QN_OK, "shift apart");
	for (int i = 0; i < LAYERS; i++)
		for (int p = at; p < n - by; p++) {
			float x[DIM_MAX], y[DIM_MAX];

			/* kept twice, and a channel may be turned into one of 4 times its factor */
			holds(&layers[i], i, &a, same, p, p + by, 5);
			for (int h = 0; h < HEADS; h++) {
				kv_get_k(layers[i].k_type, x, head_at(&layers[i], &a, same, p, h), p % QN_KV_BLOCK,
				         layers[i].head_dim);
				kv_get_k(layers[i].k_type, y, head_at(&layers[i], &b, apart, p, h),
				         p % QN_KV_BLOCK, layers[i].head_dim);
				if (!check_floats("in place", x, y, layers[i].head_dim))
					break;
			}
		}
}

static void converted(struct qn_pool *pool, const struct qn_kv *layers, int64_t unit, const struct qn_kv *old,
                      int64_t old_unit, int old_places, int places)
{
	static const int32_t old_table[1] = {2}, table[1] = {1};
	const struct qn_group a = divided(guard_alloc(3 * (size_t)old_unit), old_unit, 3, old_places);
	const struct qn_group b = divided(guard_alloc(2 * (size_t)unit), unit, 2, places);
	const struct qn_kv_block from = {a, old, old_table[0]}, to = {b, layers, table[0]};

	store(old, &a, old_table, 0, QN_KV_BLOCK);
	check_true(qn_kv_convert(pool, &to, &from, LAYERS) == QN_OK, "convert");
	for (int i = 0; i < LAYERS; i++)
		for (int p = 0; p < QN_KV_BLOCK; p++) {
			const struct qn_kv *l = &layers[i], *o = &old[i];
			const double k = lost[l->k_type] + lost[o->k_type], v = lost[l->v_type] + lost[o->v_type];

			for (int h = 0; h < HEADS; h++) {
				const uint8_t *y = head_at(l, &b, table, p, h);
				float x[DIM_MAX], got[DIM_MAX];

				turned(l, h, p, keys[i][h][p], x);
				kv_get_k(l->k_type, got, y, p, l->head_dim);
				near("k converted", p, got, x, l->head_dim, k);
				if (l->v_in_k)
					continue;
				kv_get_v(l->v_type, got, y + kv_k_bytes(l->k_type, l->head_dim), p, l->v_dim);
				near("v converted", p, got, values[i][h][p], l->v_dim, v);
			}
		}
}

/* Heads that cannot be divided, and layers that do not fit a unit. */
static void refused(struct qn_pool *pool, const struct qn_kv *layers, int64_t unit)
{
	static const int32_t table[BLOCKS] = {0, 1, 2, 3};
	const struct qn_group three = divided(guard_alloc(BLOCKS * (size_t)unit), unit, BLOCKS, 3);
	const struct qn_group shorter = divided(three.data, unit - 128, BLOCKS, 2);

	check_true(qn_kv_shift(pool, &three, table, table, 0, 1, 1, layers, LAYERS) == QN_EINVAL, "3 places");
	check_true(qn_kv_shift(pool, &shorter, table, table, 0, 1, 1, layers, LAYERS) == QN_EINVAL, "too short");
}

/* Layers one after the other, the second of which has values in its keys, where it may. Returns the bytes of a unit. */
static int64_t layers_of(struct qn_kv l[LAYERS], int dim, int k_type, int v_type, int rope, int in_keys)
{
	int64_t unit = 128;

	for (int i = 0; i < LAYERS; i++) {
		l[i] = (struct qn_kv){.offset = unit, .freq = freq, .mul = i ? NULL : mul, .k_type = k_type,
		                      .v_type = v_type, .n_head_kv = HEADS, .head_dim = dim, .v_dim = dim,
		                      .v_in_k = i && in_keys, .rope = rope, .rope_at = dim > 16 ? 2 : 0,
		                      .n_rot = dim > 16 ? dim - 4 : dim / 2 * 2};
		unit += (HEADS * head_bytes(&l[i]) + 127) / 128 * 128;
	}
	return unit;
}

void check_kept(void)
{
	static const int dims[] = {8, 20, 64}, at[] = {0, 1, 5, 64, 70, 128}, by[] = {1, 30, 64, 65, 100, 128};
	struct qn_pool *pool = pool_in_places((int[]){2, 1}, 2);

	for (int i = 0; i < DIM_MAX / 2; i++)
		freq[i] = pow(10000, -2.0 * i / DIM_MAX);
	for (int i = 0; i < HEADS * DIM_MAX; i++)
		mul[i] = ldexpf(1, rnd_below(3) - 1);
	for (float *x = keys[0][0][0]; x < keys[0][0][0] + LAYERS * HEADS * POS * DIM_MAX; x++)
		*x = rnd_normal();
	for (float *x = values[0][0][0]; x < values[0][0][0] + LAYERS * HEADS * POS * DIM_MAX; x++)
		*x = rnd_normal();
	for (int d = 0; d < COUNT(dims); d++)
		for (int type = 0; type < QN_N_KV_TYPES; type++) {
			const int v_type = rnd_below(2) ? type : rnd_below(QN_N_KV_TYPES), rope = rnd_below(3);
			const int in_keys = dims[d] % 16 == 0, n = POS - rnd_below(40);
			struct qn_kv layers[LAYERS], old[LAYERS];
			const int64_t unit = layers_of(layers, dims[d], type, v_type, rope, in_keys);
			const int64_t old_unit = layers_of(old, dims[d], QN_KV_I16, QN_KV_I16, rope, in_keys);

			check_at(check_sets, "kept k %d, v %d, %d channels, rotation %d", type, v_type, dims[d], rope);
			for (int round = 0; round < (check_quick ? 1 : 3); round++)
				for (int places = 1; places <= 2; places++)
					shifted(pool, layers, unit, places, at[rnd_below(COUNT(at))],
					        by[rnd_below(COUNT(by))], n);
			for (int places = 1; places <= 2; places++)
				converted(pool, layers, unit, old, old_unit, 1 + rnd_below(2), places);
			refused(pool, layers, unit);
			guard_free_all();
		}
	qn_pool_destroy(pool);
}
