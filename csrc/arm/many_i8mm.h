/*
 * many_i8mm.h - products of a panel and many tokens by the int8 matrix extension. Included by matmul_i8mm.c, after the
 * template, whose unpacking it uses.
 *
 * One smmla multiplies 8 weights of 2 rows by 8 activations of 2 tokens. Everything stays in its form, to the end:
 * sums, scales and results of 2 rows and 2 tokens are a register, (row 0, token 0), (row 0, token 1), (row 1, token 0),
 * (row 1, token 1). What the template does for each tile, taking products apart by token, is done once a call.
 *
 * Weights are signed here, less their offset, which is then in no sum. Minimums are a product of the same kind: those
 * of 8 sub-blocks, of 6 bits at most, by the sums of 8 sub-blocks' activations, in two planes of 8 bits.
 *
 * Shaped by predicted cycles, since no Arm machine was there: see docs/kernels.md.
 */

/* Rows by twos: registers of a panel. */
enum { TWOS = QN_PANEL / 2 };

/* Tokens of a call, by twos, and those of a tile. */
#define MANY_CALL 64
#define MANY_PAIRS (MANY_CALL / 2)
#define MANY_TILE 3
#define MANY_FROM 5 /* tokens from which this is the faster way */

/* 256 activations of two tokens. */
struct pair {
	int8_t q[32][16];      /* 8 of one, 8 of the other */
	int8_t sum[2][2][16];  /* of sub-blocks, by eights: sum = 64 * [0] + [1] */
	float d[8][4];         /* scales, of each 32 or in d[0]: of one, of the other, and again */
	float fsum[8][4];      /* sums of each 32 */
};

/* 256 columns of a panel. */
struct many {
	int8_t q[32][TWOS][16];      /* 8 weights of a row, 8 of the next */
	int32_t scale[16][TWOS][4];  /* of sub-blocks, less the next one's: of a row twice, of the next twice */
	int8_t min[2][TWOS][16];     /* of sub-blocks, by eights */
	float d[16][TWOS][4];        /* of small blocks, or in d[0] */
	float least[8][TWOS][4];     /* dmin, or the minimums of small blocks */
};

INLINE void twos_of_floats(float to[TWOS][4], floats a)
{
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		vst1q_f32(to[2 * i], vzip1q_f32(a.q[i], a.q[i]));
		vst1q_f32(to[2 * i + 1], vzip2q_f32(a.q[i], a.q[i]));
	}
}

INLINE void pair_floats(float to[4], float a, float b)
{
	vst1q_f32(to, vzip1q_f32(vdupq_n_f32(a), vdupq_n_f32(b)));
}

/* 8 sums of each token, at most 64 * 127 in size, as planes. */
INLINE void pair_sums(int8_t to[2][16], const int16_t *a, const int16_t *b)
{
	const int16x8_t x = vld1q_s16(a), y = vld1q_s16(b), hx = vrshrq_n_s16(x, 6), hy = vrshrq_n_s16(y, 6);

	vst1q_s8(to[0], vmovn_high_s16(vmovn_s16(hx), hy));
	vst1q_s8(to[1], vmovn_high_s16(vmovn_s16(vsubq_s16(x, vshlq_n_s16(hx, 6))), vsubq_s16(y, vshlq_n_s16(hy, 6))));
}

/* Activations of two tokens, as a type wants them; type and super constant. */
INLINE void pair_acts(int type, int super, struct pair *p, const struct act8 *a, const struct act8 *b)
{
	for (int i = 0; i < 16; i++) {
		const int64x2_t x = vreinterpretq_s64_s8(vld1q_s8(a->qs + 16 * i));
		const int64x2_t y = vreinterpretq_s64_s8(vld1q_s8(b->qs + 16 * i));

		vst1q_s8(p->q[2 * i], vreinterpretq_s8_s64(vzip1q_s64(x, y)));
		vst1q_s8(p->q[2 * i + 1], vreinterpretq_s8_s64(vzip2q_s64(x, y)));
	}
	if (super) {
		pair_floats(p->d[0], a->d, b->d);
		if (type_row(type).min && type_row(type).words == 8)
			pair_sums(p->sum[0], a->sum32, b->sum32);
		else if (type_row(type).min)
			for (int k = 0; k < 2; k++)
				pair_sums(p->sum[k], a->sum16 + 8 * k, b->sum16 + 8 * k);
		return;
	}
	for (int j = 0; j < 8; j++) {
		pair_floats(p->d[j], a->d32[j], b->d32[j]);
		if (type_row(type).min)
			pair_floats(p->fsum[j], a->fsum32[j], b->fsum32[j]);
	}
}

INLINE void many_words(int type, struct many *m, int at, bytes a, bytes b)
{
	const words w = words_of(bytes_add(a, bytes_set1(-type_row(type).offset)),
	                         bytes_add(b, bytes_set1(-type_row(type).offset)));

	words_store(m->q[at / 2], w);
}

/* Minimums of 16 rows, from pairs of 8 sub-blocks. */
INLINE void many_mins(int8_t to[TWOS][16], const int8_t pair[4][QN_PANEL][2])
{
#pragma GCC unroll 2
	for (int h = 0; h < 2; h++) { /* 8 rows */
		const int16x8_t a = vreinterpretq_s16_s8(vld1q_s8(pair[0][8 * h]));
		const int16x8_t b = vreinterpretq_s16_s8(vld1q_s8(pair[1][8 * h]));
		const int16x8_t c = vreinterpretq_s16_s8(vld1q_s8(pair[2][8 * h]));
		const int16x8_t d = vreinterpretq_s16_s8(vld1q_s8(pair[3][8 * h]));
		const int32x4_t ab0 = vreinterpretq_s32_s16(vzip1q_s16(a, b));
		const int32x4_t ab1 = vreinterpretq_s32_s16(vzip2q_s16(a, b));
		const int32x4_t cd0 = vreinterpretq_s32_s16(vzip1q_s16(c, d));
		const int32x4_t cd1 = vreinterpretq_s32_s16(vzip2q_s16(c, d));

		vst1q_s8(to[4 * h], vreinterpretq_s8_s32(vzip1q_s32(ab0, cd0)));
		vst1q_s8(to[4 * h + 1], vreinterpretq_s8_s32(vzip2q_s32(ab0, cd0)));
		vst1q_s8(to[4 * h + 2], vreinterpretq_s8_s32(vzip1q_s32(ab1, cd1)));
		vst1q_s8(to[4 * h + 3], vreinterpretq_s8_s32(vzip2q_s32(ab1, cd1)));
	}
}

/* A super-block, of which super_begin() has found the scales. */
INLINE void many_super(int type, struct many *m, const struct block *w)
{
	const struct type_row s = type_row(type);
	const void *p = is_coded(type) ? (const void *)&w->u : w->p;

	for (int g = 0; g < s.parts; g++)
#pragma GCC unroll 32
		for (int i = 0; i < s.subs * s.words; i += 2) {
			const int at = sub_of(type, g, i / s.words) * s.words + i % s.words;

			many_words(type, m, at, super_word(type, p, g, i), super_word(type, p, g, i + 1));
		}
	for (int j = 0; j < 64 / s.words; j++) {
		const int last = j + 1 == 64 / s.words;
		const int8x16_t a = vld1q_s8(w->s.scale[j]), b = last ? vdupq_n_s8(0) : vld1q_s8(w->s.scale[j + 1]);
		const int8x16_t a0 = vzip1q_s8(a, a), a1 = vzip2q_s8(a, a), b0 = vzip1q_s8(b, b), b1 = vzip2q_s8(b, b);
		const int16x8_t t[4] = {vsubl_s8(vget_low_s8(a0), vget_low_s8(b0)), vsubl_high_s8(a0, b0),
		                        vsubl_s8(vget_low_s8(a1), vget_low_s8(b1)), vsubl_high_s8(a1, b1)};

#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			vst1q_s32(m->scale[j][2 * i], vmovl_s16(vget_low_s16(t[i])));
			vst1q_s32(m->scale[j][2 * i + 1], vmovl_high_s16(t[i]));
		}
	}
	twos_of_floats(m->d[0], w->d);
	if (s.min) {
		twos_of_floats(m->least[0], w->dmin);
		for (int k = 0; k < 8 / s.words; k++)
			many_mins(m->min[k], &w->s.pair[4 * k]);
	}
}

/* A group of nb small blocks. */
INLINE void many_small(int type, struct many *m, const struct block *w, int nb)
{
	const int n_words = type_row(type).words, lines = small_lines(type);
	const x16_line *qs = (const x16_line *)w->p, *qh = qs + nb * lines;
	const uint16_t *d = (const uint16_t *)(w->p + x16_line_bytes(type, nb * n_words / 8));

	for (int j = 0; j < nb; j++) {
#pragma GCC unroll 8
		for (int i = 0; i < n_words; i += 2)
			many_words(type, m, n_words * j + i, small_word(type, qs + j * lines, qh + j, i),
			           small_word(type, qs + j * lines, qh + j, i + 1));
		twos_of_floats(m->d[j], small_d(type, d, j));
		if (type_row(type).min)
			twos_of_floats(m->least[j], floats_f16(d + (nb + j) * QN_PANEL));
	}
}

/* Adds products of n_words words of 8 rows from q on and activations of some pairs from a on; constant but q and a. */
INLINE void many_dots(int n_words, int pairs, int32x4_t dot[4][MANY_TILE], const int8_t *q, const int8_t *a)
{
#pragma GCC unroll 4
	for (int i = 0; i < n_words / 2; i++) {
		int8x16_t w[4];

#pragma GCC unroll 4
		for (int r = 0; r < 4; r++)
			w[r] = vld1q_s8(q + (i * TWOS + r) * 16);
#pragma GCC unroll 4
		for (int p = 0; p < pairs; p++) {
			const int8x16_t x = vld1q_s8(a + p * (int)sizeof(struct pair) + i * 16);

#pragma GCC unroll 4
			for (int r = 0; r < 4; r++)
				dot[r][p] = vmmlaq_s32(dot[r][p], w[r], x);
		}
	}
}

/*
 * Adds a super-block to results y of some pairs of tokens, constant as are n_words, those of a sub-block, and min. By 8
 * rows: their products and sums are 8 registers for each pair. Products add up over all sub-blocks, so that none begins
 * from zero: with D of those up to sub-block j, the sum of scale * product is that of D * (scale less the next one's).
 */
INLINE void many_super_tile(int n_words, int min, int pairs, float (*y)[TWOS][4], const struct many *m,
                            const struct pair *x)
{
	for (int h = 0; h < TWOS; h += 4) {
		int32x4_t sum[4][MANY_TILE], dot[4][MANY_TILE];

#pragma GCC unroll 4
		for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
			for (int p = 0; p < pairs; p++) {
				int32x4_t a = vdupq_n_s32(0);

				sum[r][p] = dot[r][p] = a;
				if (!min)
					continue;

				const float32x4_t d = vmulq_f32(vld1q_f32(m->least[0][h + r]), vld1q_f32(x[p].d[0]));

#pragma GCC unroll 2
				for (int k = 0; k < 8 / n_words; k++)
					a = vmmlaq_s32(a, vld1q_s8(m->min[k][h + r]), vld1q_s8(x[p].sum[k][0]));
				a = vshlq_n_s32(a, 6);
#pragma GCC unroll 2
				for (int k = 0; k < 8 / n_words; k++)
					a = vmmlaq_s32(a, vld1q_s8(m->min[k][h + r]), vld1q_s8(x[p].sum[k][1]));
				vst1q_f32(y[p][h + r], vfmsq_f32(vld1q_f32(y[p][h + r]), d, vcvtq_f32_s32(a)));
			}

		const int8_t *q = m->q[0][h], *a = x->q[0];
		const int32_t *scale = m->scale[0][h];

		for (int j = 0; j < 64 / n_words; j++) {
			many_dots(n_words, pairs, dot, q, a);
#pragma GCC unroll 4
			for (int r = 0; r < 4; r++) {
				const int32x4_t s = vld1q_s32(scale + 4 * r);

#pragma GCC unroll 4
				for (int p = 0; p < pairs; p++)
					sum[r][p] = vmlaq_s32(sum[r][p], dot[r][p], s);
			}
			q += n_words / 2 * sizeof m->q[0];
			a += n_words / 2 * sizeof x->q[0];
			scale += sizeof m->scale[0] / sizeof *scale;
		}
#pragma GCC unroll 4
		for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
			for (int p = 0; p < pairs; p++) {
				const float32x4_t d = vmulq_f32(vld1q_f32(m->d[0][h + r]), vld1q_f32(x[p].d[0]));

				vst1q_f32(y[p][h + r], vfmaq_f32(vld1q_f32(y[p][h + r]), d, vcvtq_f32_s32(sum[r][p])));
			}
	}
}

/*
 * The same for a group of nb small blocks. A scale times a sum is rounded once here, as where the template has the sum
 * as the bits of a float.
 */
INLINE void many_small_tile(int n_words, int min, int pairs, float (*y)[TWOS][4], const struct many *m,
                            const struct pair *x, int nb)
{
	for (int h = 0; h < TWOS; h += 4) {
		float32x4_t sum[4][MANY_TILE];

#pragma GCC unroll 4
		for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
			for (int p = 0; p < pairs; p++)
				sum[r][p] = vld1q_f32(y[p][h + r]);

		const int8_t *q = m->q[0][h], *a = x->q[0];

		for (int j = 0; j < nb; j++) {
			int32x4_t dot[4][MANY_TILE];

#pragma GCC unroll 4
			for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
				for (int p = 0; p < pairs; p++)
					dot[r][p] = vdupq_n_s32(0);
			many_dots(n_words, pairs, dot, q, a);
			q += n_words / 2 * sizeof m->q[0];
			a += n_words / 2 * sizeof x->q[0];
#pragma GCC unroll 4
			for (int r = 0; r < 4; r++) {
				const float32x4_t d = vld1q_f32(m->d[j][h + r]);

#pragma GCC unroll 4
				for (int p = 0; p < pairs; p++) {
					const float32x4_t s = vcvtq_f32_s32(dot[r][p]);
					float32x4_t f = vmulq_f32(d, s);

					if (min)
						f = vfmaq_f32(f, vld1q_f32(m->least[j][h + r]),
						              vld1q_f32(x[p].fsum[j]));
					sum[r][p] = vfmaq_f32(sum[r][p], f, vld1q_f32(x[p].d[j * n_words / 8]));
				}
			}
		}
#pragma GCC unroll 4
		for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
			for (int p = 0; p < pairs; p++)
				vst1q_f32(y[p][h + r], sum[r][p]);
	}
}

/* Tiles have nothing of their types any more but this: a function serves all that are alike. */
#define MANY_TILES(name, tile)                                                                           \
	static __attribute__((noinline)) void many_##name(float (*y)[TWOS][4], const struct many *m,     \
	                                                  const struct pair *x, int pairs, int nb)       \
	{                                                                                                \
		(void)nb;                                                                                \
		for (; pairs >= MANY_TILE; pairs -= MANY_TILE, x += MANY_TILE, y += MANY_TILE)           \
			tile(MANY_TILE);                                                                 \
		if (pairs == 2)                                                                          \
			tile(2);                                                                         \
		else if (pairs == 1)                                                                     \
			tile(1);                                                                         \
	}
#define SUPER_8(n) many_super_tile(8, 0, n, y, m, x)
#define SUPER_8_MIN(n) many_super_tile(8, 1, n, y, m, x)
#define SUPER_4(n) many_super_tile(4, 0, n, y, m, x)
#define SUPER_4_MIN(n) many_super_tile(4, 1, n, y, m, x)
#define SMALL_8(n) many_small_tile(8, 0, n, y, m, x, nb)
#define SMALL_8_MIN(n) many_small_tile(8, 1, n, y, m, x, nb)
#define SMALL_4(n) many_small_tile(4, 0, n, y, m, x, nb)
MANY_TILES(super_8, SUPER_8)
MANY_TILES(super_8_min, SUPER_8_MIN)
MANY_TILES(super_4, SUPER_4)
MANY_TILES(super_4_min, SUPER_4_MIN)
MANY_TILES(small_8, SMALL_8)
MANY_TILES(small_8_min, SMALL_8_MIN)
MANY_TILES(small_4, SMALL_4)

INLINE void many_tiles(int type, int super, float (*y)[TWOS][4], const struct many *m, const struct pair *x, int pairs,
                       int nb)
{
	const int min = type_row(type).min, n_words = type_row(type).words;

	if (!super)
		(n_words == 4 ? many_small_4 : min ? many_small_8_min : many_small_8)(y, m, x, pairs, nb);
	else if (n_words == 8)
		(min ? many_super_8_min : many_super_8)(y, m, x, pairs, nb);
	else
		(min ? many_super_4_min : many_super_4)(y, m, x, pairs, nb);
}

/* out[r][t] = panel r of np times token t of n; type and super constant. */
INLINE void mm_many(int type, int super, int np, float *out, const uint8_t *p0, const uint8_t *p1, const struct act8 *x,
                    int64_t n_in, int64_t n_act, int n)
{
	const int pairs = (n + 1) / 2, n_words = type_row(type).words;
	const int64_t size = (int64_t)qn_panel_bytes(type, n_in);
	float y[2][MANY_PAIRS][TWOS][4];
	struct pair by_two[MANY_PAIRS];
	struct many m;
	struct block w[2]; /* not initialized whole: that is 8 KB */

	for (int r = 0; r < np; r++) {
		memset(y[r], 0, sizeof y[r][0] * (size_t)pairs);
		w[r].p = r ? p1 : p0;
		w[r].end = w[r].p + size;
		w[r].skip = 0;
		if (super && type_row(type).head)
			w[r].d = head_d(type, w[r].p, n_in);
	}
	for (int64_t b = 0, left = n_in / QK; left > 0; b++, left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP, small = nb * 8 / n_words;

		for (int p = 0; p < pairs; p++)
			pair_acts(type, super, &by_two[p], x + 2 * p, x + (2 * p + 1 < n ? 2 * p + 1 : 2 * p));
		for (int r = 0; r < np; r++) {
			if (super) {
				super_begin(type, 1, n, &w[r], b);
				many_super(type, &m, &w[r]);
			} else {
				many_small(type, &m, &w[r], small);
			}
			many_tiles(type, super, y[r], &m, by_two, pairs, small);
			w[r].p += super ? super_step(type, b) : x16_line_bytes(type, nb) + x16_scale_bytes(type, nb);
		}
	}
	for (int r = 0; r < np; r++)
		for (int t = 0; t < n; t++, out += QN_PANEL)
#pragma GCC unroll 4
			for (int i = 0; i < 4; i++) {
				const float32x4_t a = vld1q_f32(y[r][t / 2][2 * i]);
				const float32x4_t c = vld1q_f32(y[r][t / 2][2 * i + 1]);

				vst1q_f32(out + 4 * i, t % 2 ? vuzp2q_f32(a, c) : vuzp1q_f32(a, c));
			}
}

/* The kernels for fewer tokens, by type. */
static mm_fn *many_few[QN_N_TYPES];

#define MANY_KERNEL(name, type, super)                                                                                 \
	static __attribute__((noinline)) void many_##name(int np, float *out, const void *panel, const void *panel2,   \
	                                                  const void *act, int64_t n_in, int64_t n_act, int n)         \
	{                                                                                                              \
		mm_many(type, super, np, out, panel, panel2, act, n_in, n_act, n);                                     \
	}                                                                                                              \
	static void mm_many_##name(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n) \
	{                                                                                                              \
		if (n < MANY_FROM)                                                                                     \
			many_few[type](out, panel, act, n_in, n_act, n);                                               \
		else                                                                                                   \
			many_##name(1, out, panel, NULL, act, n_in, n_act, n);                                         \
	}                                                                                                              \
	static void mm_pair_##name(float *out, const void *panel, const void *panel2, const void *act, int64_t n_in,   \
	                           int64_t n_act, int n)                                                               \
	{                                                                                                              \
		many_##name(2, out, panel, panel2, act, n_in, n_act, n);                                               \
	}
#define MANY_SMALL(name, NAME, ...) MANY_KERNEL(name, QN_##NAME, 0)
#define MANY_SUPER(name, NAME, ...) MANY_KERNEL(name, QN_##NAME, 1)
QN_TYPES(QN_SKIP, MANY_SMALL, MANY_SUPER, MANY_SUPER)

static void many_fill(struct kernels *k)
{
#define MANY_SLOT(name, NAME, ...)                 \
	many_few[QN_##NAME] = k->mm[QN_##NAME];    \
	k->mm[QN_##NAME] = mm_many_##name;         \
	k->mm_pair[QN_##NAME] = mm_pair_##name;    \
	k->mm_tile[QN_##NAME] = MANY_CALL;
	QN_TYPES(QN_SKIP, MANY_SLOT, MANY_SLOT, MANY_SLOT)
#undef MANY_SLOT
}
