/*
 * mm_x16.h - products of packed quantized panels and 8-bit activations: one text for all sets. Not
 * compiled as it stands: a set defines MM(name) and the vector operations below, and includes this.
 * scalar/mm.c says what is computed.
 *
 * Lanes are rows. For each word of a panel (4 weights of each of 16 rows) and each token, the word
 * meets the token's 4 activations, broadcast: no shuffles, no horizontal sums. A block of 256 columns
 * is unpacked once for all tokens of a call, which meet it in tiles of as many as registers hold; it
 * stays in the first-level cache for that long, as the tokens' activations of that block do. Two
 * panels at once, where there are registers for them, share each broadcast.
 *
 *	MM_TOKENS              tokens of a tile: their sums and products stay in registers
 *	MM_PAIR_TOKENS         the same for two panels at once, 0 where a set does not do that
 *
 *	bytes   64 weights: a line, or a word taken out of one
 *	acts    4 activations of a token, for all rows
 *	ints    16 int32
 *	floats  16 floats
 *
 *	bytes_load(p) bytes_store(p, a) bytes_and(a, mask) bytes_or_and(a, b, mask) bytes_shr(a, n) bytes_shl(a, n)
 *	    shifts may move bits across the bytes of a 16-bit pair: a mask follows
 *	bytes_iq4(a)           table value + 128 of each nibble; bytes_mxfp4(a): table value + 12
 *	bytes_signed(a, s)     64 + a, or 64 - a where bit i % 8 of s[i / 8] is set; a at most 64
 *	bytes_shifted(a, s)    57 + 8 a, or 55 + 8 a where the bit is set; a at most 2
 *	bytes_unzip(p, a, b)   stores two lines: the even 32-bit words of a and b, then the odd ones
 *	rows    16 bytes, one of each row
 *	rows_load(p) rows_store(p, a) rows_and(a, mask) rows_or(a, b) rows_sub(a, n)
 *	rows_shr(a, n, mask) rows_shl(a, n, mask)    shifted, then masked
 *	rows_zip(p, a, b)      stores a and b interleaved
 *	rows_unzip4(p, a)      stores the first bytes of 16 times 4, then the second, third, fourth
 *	acts_load(p)           4 int8, or 2 int16
 *
 *	ints_zero() ints_set1(x) ints_of8(p)    the last from 16 int8
 *	ints_dot(acc, w, x)    acc + w . x, 4 by 4; w unsigned below 128, x int8
 *	ints_dot8(acc, w, x)   the same for w up to 255 that stands for w - 128. MM_DOT8_OFFSET is 1
 *	                       where it leaves the offset to the caller
 *	ints_pair(acc, a, x)   acc + a . x, 2 by 2; a the address of [16][2] int8, x int16
 *	ints_muladd(acc, a, b) acc + a * b
 *	floats_set1(x) floats_f16(p) floats_of(ints) floats_mul(a, b)
 *	floats_e8m0(p)         2^(e - 128) of 16 bytes
 *	floats_fma(a, b, c) floats_fnma(a, b, c) floats_load(p) floats_store(p, a)
 */
#include <string.h>

#include "x16_words.h"

#define MM_CALL 48 /* tokens of a call: their activations of a block are 15 KB */
#define MM_READY_MIN 24 /* tokens from which to unpack a block pays; at least (MM_PAIR_TOKENS - 1)^2 - 1 */
#define MM_TOKENS_MAX (MM_TOKENS > MM_PAIR_TOKENS ? MM_TOKENS : MM_PAIR_TOKENS)

/* One block of 256 columns of one panel, as all tokens of a call need it, and which weights follow. */
struct block {
	struct decoded u; /* words unpacked, where more than one tile wants them or they were codes */
	const uint8_t *p;
	const uint8_t *end; /* of the panel; the thread's next one is `skip` bytes beyond */
	int64_t skip;
	struct scales s;
	floats d, dmin;
};

/* Asks for the weights that follow bytes at .. at + n of a block by as much as this CPU likes. */
INLINE void ask_ahead(const struct block *w, int at, int n)
{
	const uint8_t *p = w->p + at + qn_ahead;

	if (!qn_ahead)
		return;
	if (p >= w->end)
		p += w->skip;
#pragma GCC unroll 32
	for (int i = 0; i < n; i += 64)
		__builtin_prefetch(p + i);
}

/* The offset of a type's weights, that is taken off by the caller of ints_dot(); 0 where it has none. */
INLINE int offset_of(int type)
{
	switch (type) {
	case QN_Q6_K: return 32;
	case QN_Q3_K: return 4;
	case QN_Q4_0: return 8;
	case QN_Q5_0: return 16;
	case QN_MXFP4: return 12;
	case QN_TQ2_0: return 1;
	case QN_Q8_0: case QN_IQ4_NL: case QN_IQ4_XS: return MM_DOT8_OFFSET ? 128 : 0;
	default: return is_coded(type) ? 64 : 0;
	}
}

/* What each sub-block's product starts from: minus the offset times the sum of its activations. */
INLINE void starts_of(int type, int super, int32_t start[16], const struct act8 *x)
{
	if (!super)
		for (int i = 0; i < 8; i++)
			start[i] = -offset_of(type) * (int32_t)x->fsum32[i];
	else if (parts_of(type).words == 8)
		for (int i = 0; i < 8; i++)
			start[i] = -offset_of(type) * x->sum32[i];
	else
		for (int i = 0; i < 16; i++)
			start[i] = -offset_of(type) * x->sum16[i];
}

/*
 * Adds a block of np panels to the results of nt tokens; type, np, nt and ready constant. out: rows of
 * np panels, `stride` floats apart. ready: words are in w.u. start: of each token. The first tile of a
 * call asks for the weights to come.
 */
INLINE void super_tile(int type, int np, int nt, int ready, float *out, int64_t stride, const struct block *w,
                       const struct act8 *x, const int32_t (*start)[16], int first)
{
	const int parts = parts_of(type).parts, subs = parts_of(type).subs, words = parts_of(type).words;
	const int has_min = type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K;
	const int part_bytes = super_bytes(type) / parts;
	ints sum[2][MM_TOKENS_MAX];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++) {
			float *y = out + r * stride + t * QN_PANEL;

			sum[r][t] = ints_zero();
			if (has_min) {
				ints min = ints_zero();

#pragma GCC unroll 8
				for (int i = 0; i < parts * subs / 2; i++)
					min = ints_pair(min, w[r].s.pair[i],
					                acts_load(words == 8 ? &x[t].sum32[2 * i]
					                                     : &x[t].sum16[2 * i]));
				floats_store(y, floats_fnma(floats_mul(w[r].dmin, floats_set1(x[t].d)),
				                            floats_of(min), floats_load(y)));
			}
		}
	for (int g = 0; g < parts; g++) {
		if (first)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				ask_ahead(&w[r], g * part_bytes, part_bytes);
#pragma GCC unroll 8
		for (int j = 0; j < subs; j++) {
			const int sub = sub_of(type, g, j);
			const int8_t *xs = x[0].qs + sub * words * 4;
			ints dot[2][MM_TOKENS_MAX];

#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
#pragma GCC unroll 16
				for (int t = 0; t < nt; t++)
					dot[r][t] = offset_of(type) ? ints_set1(start[t][sub]) : ints_zero();
#pragma GCC unroll 8
			for (int i = 0; i < words; i++) {
				const int at = sub * words + i, part = j * words + i;
				const bytes a = ready ? bytes_load(w[0].u.word[at]) : super_word(type, w[0].p, g, part);
				const bytes b = np == 1 ? a
				                : ready ? bytes_load(w[1].u.word[at])
				                        : super_word(type, w[1].p, g, part);

#pragma GCC unroll 16
				for (int t = 0; t < nt; t++) {
					const acts xt = acts_load(xs + t * (int)sizeof *x + i * 4);

					dot[0][t] = type == QN_IQ4_XS ? ints_dot8(dot[0][t], a, xt)
					                              : ints_dot(dot[0][t], a, xt);
					if (np == 2)
						dot[1][t] = type == QN_IQ4_XS ? ints_dot8(dot[1][t], b, xt)
						                              : ints_dot(dot[1][t], b, xt);
				}
			}
#pragma GCC unroll 2
			for (int r = 0; r < np; r++) {
				const ints scale = ints_of8(w[r].s.scale[sub]);

#pragma GCC unroll 16
				for (int t = 0; t < nt; t++)
					sum[r][t] = ints_muladd(sum[r][t], dot[r][t], scale);
			}
		}
	}
#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++) {
			float *y = out + r * stride + t * QN_PANEL;

			floats_store(y, floats_fma(floats_mul(w[r].d, floats_set1(x[t].d)), floats_of(sum[r][t]),
			                           floats_load(y)));
		}
}

/* The same for a group of nb blocks of 32 weights. */
INLINE void small_tile(int type, int np, int nt, float *out, int64_t stride, const struct block *w,
                       const struct act8 *x, const int32_t (*start)[16], int first, int nb)
{
	const int eight = type == QN_Q8_0 || type == QN_IQ4_NL; /* bits, offset 128 */
	const int has_m = type == QN_Q4_1 || type == QN_Q5_1;
	const int lines = type == QN_Q8_0 ? 8 : 4;
	floats y[2][MM_TOKENS_MAX];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			y[r][t] = floats_load(out + r * stride + t * QN_PANEL);
	for (int j = 0; j < nb; j++) {
		ints dot[2][MM_TOKENS_MAX];

		if (first)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				ask_ahead(&w[r], j * lines * 64, lines * 64);
#pragma GCC unroll 2
		for (int r = 0; r < np; r++)
#pragma GCC unroll 16
			for (int t = 0; t < nt; t++)
				dot[r][t] = offset_of(type) ? ints_set1(start[t][j]) : ints_zero();
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			const x16_line *qa = (const x16_line *)w[0].p, *qb = (const x16_line *)w[np - 1].p;
			const bytes a = small_word(type, qa + j * lines, qa + nb * lines + j, i);
			const bytes b = np == 1 ? a : small_word(type, qb + j * lines, qb + nb * lines + j, i);

#pragma GCC unroll 16
			for (int t = 0; t < nt; t++) {
				const acts xt = acts_load(x[t].qs + j * QK + i * 4);

				dot[0][t] = eight ? ints_dot8(dot[0][t], a, xt) : ints_dot(dot[0][t], a, xt);
				if (np == 2)
					dot[1][t] = eight ? ints_dot8(dot[1][t], b, xt) : ints_dot(dot[1][t], b, xt);
			}
		}
#pragma GCC unroll 2
		for (int r = 0; r < np; r++) {
			const uint16_t *d = (const uint16_t *)(w[r].p + x16_line_bytes(type, nb));
			const floats dj = small_d(type, d, j);

#pragma GCC unroll 16
			for (int t = 0; t < nt; t++) {
				floats f = floats_mul(dj, floats_of(dot[r][t]));

				if (has_m)
					f = floats_fma(floats_f16(d + (nb + j) * QN_PANEL),
					               floats_set1(x[t].fsum32[j]), f);
				y[r][t] = floats_fma(f, floats_set1(x[t].d32[j]), y[r][t]);
			}
		}
	}
#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			floats_store(out + r * stride + t * QN_PANEL, y[r][t]);
}

/* Whether words are so much work to take out of their lines that one time for all tiles is better. */
INLINE int unpack_pays(int type)
{
	return type == QN_Q6_K || type == QN_Q3_K || type == QN_IQ4_XS;
}

/* Takes the words of a block out of its lines, once for all tiles of a call. */
INLINE void unpack(int type, struct block *w)
{
	const struct parts s = parts_of(type);

	for (int g = 0; g < s.parts; g++)
#pragma GCC unroll 32
		for (int i = 0; i < s.subs * s.words; i++)
			bytes_store(w->u.word[sub_of(type, g, i / s.words) * s.words + i % s.words],
			            super_word(type, w->p, g, i));
}

#define MM_TILE(np, nt)                                                                                       \
	case nt:                                                                                              \
		if (nt < least || nt > most)                                                                  \
			break;                                                                                \
		if (super)                                                                                    \
			super_tile(type, np, nt, ready, y, stride, w, x + t, start + t, t == 0);              \
		else                                                                                          \
			small_tile(type, np, nt, y, stride, w, x + t, start + t, t == 0, nb);                 \
		break;

/*
 * out[r][t] = panel r times token t: n tokens, np panels; type, super and np constant. A tile has
 * nt tokens or one more, so that all are nearly equal.
 */
INLINE void mm_panels(int type, int super, int np, int ready, float *out, const uint8_t *p0, const uint8_t *p1,
                      const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int most = np == 1 ? MM_TOKENS : MM_PAIR_TOKENS, tiles = (n + most - 1) / most;
	/* The smallest tile there is for these n: fewer cases to compile. */
	const int least = np == 1 ? 1 : ready && !is_coded(type) ? most - 1 : QN_PAIR_MIN / 2;
	const int64_t stride = (int64_t)n * QN_PANEL;
	const int64_t size = (int64_t)qn_panel_bytes(type, n_in);
	/* Of two neighbours neither is followed by the other. */
	const int64_t skip = np == 2 && p1 == p0 + size ? size : 0;
	struct block w[2]; /* not initialized whole: that is 8 KB */
	_Alignas(64) int32_t start[MM_CALL][16];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++) {
		w[r].p = r ? p1 : p0;
		w[r].end = w[r].p + size;
		w[r].skip = skip;
	}
	memset(out, 0, sizeof *out * (size_t)(np * stride));
	for (int64_t left = n_in / QK; left > 0; left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP;
		int longer = n % tiles;

		if (super)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++) {
				if (is_coded(type)) {
					decode(type, &w[r].u, w[r].p);
					scales_of(&w[r].s, type, &w[r].u);
					w[r].d = floats_load(w[r].u.d);
					continue;
				}
				scales_of(&w[r].s, type, w[r].p);
				w[r].d = floats_f16(super_d(type, w[r].p));
				if (type == QN_Q4_K || type == QN_Q5_K || type == QN_Q2_K)
					w[r].dmin = floats_f16(super_d(type, w[r].p) + QN_PANEL);
			}
		if (ready && !is_coded(type))
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				unpack(type, &w[r]);
		if (offset_of(type))
			for (int t = 0; t < n; t++)
				starts_of(type, super, start[t], x + t);
		for (int t = 0, nt; t < n; t += nt) {
			float *y = out + t * QN_PANEL;

			nt = n / tiles + (longer-- > 0);
			switch (nt) {
				MM_TILE(np, 1) MM_TILE(np, 2) MM_TILE(np, 3) MM_TILE(np, 4)
				MM_TILE(np, 5) MM_TILE(np, 6) MM_TILE(np, 7) MM_TILE(np, 8)
			}
		}
#pragma GCC unroll 2
		for (int r = 0; r < np; r++)
			w[r].p += super ? super_bytes(type)
			                : x16_line_bytes(type, nb) + x16_scale_bytes(type, nb);
	}
}

#define MM_SUPER(family) MM_SUPER_##family
#define MM_SUPER_super 1
#define MM_SUPER_small 0

#define MM_TYPE(name, type, family) \
	static void MM(mm_##name)(float *out, const void *panel, const void *act, int64_t n_in, \
	                          int64_t n_act, int n) \
	{ \
		mm_panels(type, MM_SUPER(family), 1, 0, out, panel, NULL, act, n_in, n_act, n); \
	}

QN_Q8_TYPES(MM_TYPE)

/* Codes are decoded for every number of tokens. */
#define MM_CODED(name, type, run) \
	static void MM(mm_##name)(float *out, const void *panel, const void *act, int64_t n_in, \
	                          int64_t n_act, int n) \
	{ \
		mm_panels(type, 1, 1, 1, out, panel, NULL, act, n_in, n_act, n); \
	}

QN_CODED_TYPES(MM_CODED)

#if MM_PAIR_TOKENS
#define MM_PAIR(name, type, family) \
	static void MM(mm_pair_##name)(float *out, const void *panel, const void *panel2, const void *act, \
	                               int64_t n_in, int64_t n_act, int n) \
	{ \
		if (n < MM_READY_MIN || !unpack_pays(type)) \
			mm_panels(type, MM_SUPER(family), 2, 0, out, panel, panel2, act, n_in, n_act, n); \
		else \
			mm_panels(type, MM_SUPER(family), 2, 1, out, panel, panel2, act, n_in, n_act, n); \
	}

QN_Q8_TYPES(MM_PAIR)

#define MM_CODED_PAIR(name, type, run) \
	static void MM(mm_pair_##name)(float *out, const void *panel, const void *panel2, const void *act, \
	                               int64_t n_in, int64_t n_act, int n) \
	{ \
		mm_panels(type, 1, 2, 1, out, panel, panel2, act, n_in, n_act, n); \
	}

QN_CODED_TYPES(MM_CODED_PAIR)
#endif

static void MM(mm_fill)(struct kernels *k)
{
#define MM_SLOT(name, t, family) \
	k->mm[t] = MM(mm_##name); \
	k->mm_tile[t] = MM_CALL;
	QN_Q8_TYPES(MM_SLOT)
	QN_CODED_TYPES(MM_SLOT)
#undef MM_SLOT
#if MM_PAIR_TOKENS
#define MM_SLOT(name, t, family) k->mm_pair[t] = MM(mm_pair_##name);
	QN_Q8_TYPES(MM_SLOT)
	QN_CODED_TYPES(MM_SLOT)
#undef MM_SLOT
#endif
}
