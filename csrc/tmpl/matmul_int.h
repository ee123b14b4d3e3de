/*
 * matmul_int.h - products of packed quantized panels and 8-bit activations: one text for all sets. Not
 * compiled as it stands: a set defines MM(name), the operations of tmpl/vectors.h and what stands below, and
 * includes this.
 * scalar/matmul.c says what is computed.
 *
 * Lanes are rows. For each word of a panel (4 weights of each of 16 rows) and each token, the word
 * meets the token's 4 activations, broadcast: no shuffles, no horizontal sums. A block of 256 columns
 * is unpacked once for all tokens of a call, which meet it in tiles of as many as registers hold; it
 * stays in the first-level cache for that long, as the tokens' activations of that block do. Two
 * panels at once, where there are registers for them, share each broadcast.
 *
 * A matrix instruction multiplies 8 weights of 2 rows by 8 activations of 2 tokens. A set that has it takes words and
 * tokens by twos; products come apart into those of each token when a sub-block is done. The last of an odd number of
 * tokens is multiplied twice.
 *
 *	MM_TOKENS              tokens of a tile: their sums and products stay in registers
 *	MM_PAIR_TOKENS         the same for two panels at once, 0 where a set does not do that
 *	MM_BY                  2 in a set with matrix instructions, which takes many otherwise; else not defined
 *	MM_READY_FROM          tokens of one panel from which to unpack a block pays; not defined: it never does
 *	MM_KEEP                1 in a set of one panel whose first tile can keep words; not defined: 0
 *	MM_SUMS_AWAY           1 in a set without registers for the sums of more than two tokens
 *	MM_FEW                 1 or 2: tokens for which a panel's results stay in registers; not defined: none
 *	MM_NARROW              1 in a set whose products add up in 16 bits, else not defined
 *	MM_FOUR                words up to which there is an ints_dot_small() of fewer instructions; not defined: 0
 *	MM_WHOLE(x)            a float that is a whole number, as int32; not defined: a cast
 *	MM_TWOS                1 in a set that scales sums of sub-blocks by twos, see twos_fit(); else not defined
 *
 * What follows is 16 rows of one word and one token, and defined here, but where MM_BY is 2 or MM_NARROW is 1:
 *
 *	words   MM_BY words: words_of(a, b) words_load(p) words_store(p, a)
 *	dots    products of MM_BY tokens: dots_set1(s, t) from a start for each, dots_of(a, k) those of token k.
 *	        ints_dot() and ints_dot8() are of dots, words and acts
 *	acts_of(p, q)          acts for them: 4 * MM_BY int8 of each of the tokens
 *	mults   scales of 16 rows as ints_scaled(sum, dots, mults) wants them: mults_of(p) from 16 int8, mults_one()
 *
 * Without 32-bit products of bytes, vpmaddubsw gives two 16-bit sums of two products for each row. Adding these up in
 * 16 bits, over as many words as cannot overflow, and only then widening them, by vpmaddwd with the scale as its other
 * factor, costs 2 instructions a word instead of 3, and no multiplication by scales. Starts do not fit 16 bits:
 * offsets are then taken off as minimums are. Words of 8 bits are magnitudes there, whose signs activations take:
 *
 *	bytes_less128(a)       a - 128, signed; bytes_abs(a)
 *	ints_dot8(acc, w, s, x)    acc + w . x where s is positive, - w . x where it is negative; w at most 128
 */
#include <string.h>

#include "tmpl/unpack.h"

#ifndef MM_BY
#define MM_BY 1
#ifndef MM_NARROW
typedef bytes words;
typedef ints dots;

INLINE words words_of(bytes a, bytes b) { return (void)b, a; }
INLINE words words_load(const void *p) { return bytes_load(p); }
INLINE void words_store(void *p, words a) { bytes_store(p, a); }
#else
/* Words of 8 bits are magnitudes, and bytes with their signs. */
typedef struct {
	bytes w, sign;
} words;

INLINE words words_of(bytes a, bytes b) { return (void)b, (words){a, a}; }
#endif

INLINE dots dots_set1(int32_t s, int32_t t) { return (void)t, ints_set1(s); }
INLINE ints dots_of(dots a, int k) { return (void)k, a; }
INLINE acts acts_of(const int8_t *p, const int8_t *q) { return (void)q, acts_load(p); }
#endif

#ifdef MM_NARROW
typedef ints mults;
#else
#define MM_NARROW 0
typedef ints mults;

INLINE mults mults_of(const int8_t *p) { return ints_of8(p); }
INLINE mults mults_one(void) { return ints_set1(1); }
INLINE ints ints_scaled(ints sum, ints dot, mults m) { return ints_muladd(sum, dot, m); }
#endif

/* Keeps x, a sum, in memory: left alone, compilers keep products there. */
#define KEPT(x) __asm__("" : "+m"(x))
#ifndef MM_SUMS_AWAY
#define MM_SUMS_AWAY 0
#endif

/* Under the sanitizers: the same text for fewer numbers of tokens. All of them take minutes to compile. */
#if defined(QN_FEW_TILES) && MM_BY == 1
#if MM_TOKENS > 3
#undef MM_TOKENS
#define MM_TOKENS 3
#endif
#if MM_PAIR_TOKENS > 4
#undef MM_PAIR_TOKENS
#define MM_PAIR_TOKENS 4
#endif
#endif

#ifndef MM_FEW
#define MM_FEW 0
#endif

#ifndef MM_TWOS
#define MM_TWOS 0
#endif

#ifndef MM_FOUR
#define MM_FOUR 0
#define ints_dot_small ints_dot
#endif

#ifndef MM_WHOLE
#define MM_WHOLE(x) (int32_t)(x)
#endif

#define MM_CALL 48 /* tokens of a call: their activations of a block are 15 KB */
#define MM_READY_MIN 24 /* the same of two panels as MM_READY_FROM; at least (MM_PAIR_TOKENS - 1)^2 - 1 */
#ifndef MM_READY_FROM
#define MM_READY_FROM (MM_CALL + 1)
#endif
#ifndef MM_KEEP
#define MM_KEEP 0
#endif
#define MM_TOKENS_MAX (MM_TOKENS > MM_PAIR_TOKENS ? MM_TOKENS : MM_PAIR_TOKENS)
#define MM_DOTS_MAX ((MM_TOKENS_MAX + MM_BY - 1) / MM_BY)

/* One block of 256 columns of one panel, as all tokens of a call need it, and which weights follow. */
struct block {
	struct decoded u; /* words unpacked, where more than one tile wants them or they were codes */
#if MM_NARROW
	x16_line sign[64]; /* of words of 8 bits in u */
#endif
	const uint8_t *p;
	const uint8_t *end; /* of the panel; the thread's next one is `skip` bytes beyond */
	int64_t skip;
	struct scales s;
#if MM_TWOS
	_Alignas(64) int16_t two[8][QN_PANEL][2]; /* scales of sub-blocks by twos, the second one's first */
#endif
	floats d, dmin;
};

/* Words from number `at` on, unpacked: put into the block and taken out of it. */
INLINE void words_keep(int type, struct block *w, int at, words a)
{
#if MM_NARROW
	bytes_store(w->u.word[at], a.w);
	if (has_8_bits(type))
		bytes_store(w->sign[at], a.sign);
#else
	(void)type;
	words_store(w->u.word[at], a);
#endif
}

INLINE words words_kept(int type, const struct block *w, int at)
{
#if MM_NARROW
	const bytes a = bytes_load(w->u.word[at]);

	return (words){a, has_8_bits(type) ? bytes_load(w->sign[at]) : a};
#else
	(void)type;
	return words_load(w->u.word[at]);
#endif
}

/* Tokens, at most, for which memory is the limit: a weight of 8 bits takes as long as two of 4. */
INLINE int few_of(int type)
{
	return type_row(type).bits == 8 ? 2 * AHEAD_FEW : AHEAD_FEW;
}

/*
 * Whether nt tokens meet all small blocks of a group before their scales, which lie behind them: read in this order
 * memory is one stream, that a CPU's own prefetch can follow. Measured with AVX2, and with AVX-512 VNNI, where it is
 * worth it for bytes.
 */
INLINE int scales_late(int type, int np, int nt)
{
	return np == 1 && nt <= AHEAD_SHORT && (MM_NARROW ? !MM_PAIR_TOKENS : MM_FEW && type_row(type).bits == 8);
}

/*
 * Tokens that mm_few() takes of a type. Products that add up in 16 bits are of Q4_K only, of all super-blocks: chains
 * of more than two sub-blocks in a part spill with AVX2, and sums of larger words are wanted before a sub-block ends.
 * The eight chains of Q2_K, which has minimums, spill with two tokens.
 */
INLINE int few_tokens(int type)
{
	const struct type_row s = type_row(type);
	const int narrow = MM_NARROW && s.parts && s.most != 15, chains = s.min && s.subs == 8;

	return is_coded(type) || chains || narrow ? 0 : MM_FEW;
}

/*
 * Whether a call's tokens of a type take few instructions for each line: few tokens of super-blocks without bits kept
 * apart from the rest, and of whole bytes where one instruction multiplies them; one token of small blocks with late
 * scales and no fifth bits, which lie behind them as well; all of mm_few(), which reads memory in its order.
 */
INLINE int has_short_loop(int type, int tokens)
{
	if (tokens <= few_tokens(type))
		return 1;
	if (tokens == 1 && type_row(type).parts == 0 && type_row(type).bits != 5 && scales_late(type, 1, 1))
		return 1;
	return tokens <= AHEAD_SHORT && (type_row(type).quick || (type_row(type).bits == 8 && !MM_NARROW));
}

/*
 * Asks for weights to come while bytes at .. at + n of a block of np panels are used by the first nt of a call's
 * tokens.
 */
INLINE void ask_ahead(int type, int np, int nt, int tokens, const struct block *w, int at, int n)
{
	const int few = few_of(type);

	if (np == 1 && nt <= few && tokens <= few && qn_ahead_lanes) {
		ask_in_lanes(w->p + at, n);
		return;
	}

	const int32_t ahead = np == 2 ? qn_ahead_pair : has_short_loop(type, tokens) ? qn_ahead_short : qn_ahead;
	const uint8_t *const p = w->p + at + ahead, *from = p;

	if (!ahead)
		return;
#pragma GCC unroll 32
	for (int i = 0; i < n; i += 64) {
		if (np == 2 && i % 256 == 0) /* by four lines: each of its own costs more */
			from = p + i >= w->end ? p + w->skip : p;
		__builtin_prefetch(from + i);
	}
}

/*
 * Tokens of a call from which their activations of a long row no longer stay in the second-level cache. Only sets that
 * take two panels at once ask for them: with fewer registers the loops of AVX-VNNI spill more.
 */
#define MM_ACTS_FROM 24

/*
 * Asks for part i of `of` of the activations of a tile of nt tokens: those that are multiplied next, or NULL. A tile
 * reads a line or two of each of its tokens at a time, which no CPU's own prefetch takes for a stream.
 */
INLINE void ask_acts(int type, const struct act8 *next, int nt, int i, int of)
{
	const int lines = (nt * (int)(sizeof *next / 64) + of - 1) / of;

	if (!MM_PAIR_TOKENS || is_coded(type))
		return;
	__asm__ volatile("" : "+r"(next)); /* or there are two loops of each, one that asks and one that does not */
	if (next)
#pragma GCC unroll 32
		for (int k = 0; k < lines; k++)
			__builtin_prefetch((const uint8_t *)next + (i * lines + k) * 64);
}

/* The offset of a type's weights, that is taken off by the caller of ints_dot(); 0 where it has none. */
INLINE int offset_of(int type)
{
	return has_8_bits(type) && !MM_DOT8_OFFSET ? 0 : type_row(type).offset;
}

/*
 * Products of small blocks start from a number that makes their sum S, of less than 2^22, the bits of the float
 * SUM_UNIT + S. A half d times SUM_UNIT is exact, and so fma(d, SUM_UNIT + S, -(d * SUM_UNIT)) is d * S rounded
 * once, without a conversion. Powers of two as scales may overflow there.
 */
#define SUM_UNIT 0x1.8p23f
#define SUM_BITS 0x4b400000

INLINE int sums_as_floats(int type)
{
	return type_row(type).parts == 0 && type != QN_MXFP4;
}

INLINE int32_t sum_start(int type)
{
	return sums_as_floats(type) ? SUM_BITS : 0;
}

/* What each sub-block's product starts from: minus the offset times the sum of its activations. */
INLINE void starts_of(int type, int super, int32_t start[16], const struct act8 *x)
{
	if (!super && type_row(type).words == 4)
		for (int i = 0; i < 16; i++)
			start[i] = sum_start(type) - offset_of(type) * x->half_sum[i];
	else if (!super)
		for (int i = 0; i < 8; i++)
			start[i] = sum_start(type) - offset_of(type) * MM_WHOLE(x->fsum32[i]);
	else if (type_row(type).words == 8)
		for (int i = 0; i < 8; i++)
			start[i] = -offset_of(type) * x->sum32[i];
	else
		for (int i = 0; i < 16; i++)
			start[i] = -offset_of(type) * x->sum16[i];
}

/* The other token of a vector with token t of nt; t itself where it is the last one, or alone in vectors of one. */
INLINE int beside(int t, int nt)
{
	return t + MM_BY <= nt ? t + MM_BY - 1 : t;
}

/* Whether a type's offset is taken off the sums of super-blocks: that of products that start from nothing. */
INLINE int offset_apart(int type)
{
	return MM_NARROW && offset_of(type);
}

/* The words whose products dots can add up: without bound, but in 16 bits, where a product of two is 2 * 127 words. */
INLINE int run_of(int type)
{
	const int most = has_8_bits(type) ? 128 : type_row(type).most;

	return !MM_NARROW ? 8 : 32767 / (2 * 127 * most) > 8 ? 8 : 32767 / (2 * 127 * most);
}

/*
 * Chains of products of a token's sub-block: with few tokens one would be waited for, and registers are left. Of two
 * panels and four tokens eight are barely enough; two of four products each cost more than they gain, and MXFP4's
 * table and scales take their registers.
 */
INLINE int chains_of(int type, int np, int nt)
{
	const int pays = type_row(type).words == 8 && type != QN_MXFP4;
	const int most = np == 2 ? (pays ? 4 : 0) : MM_PAIR_TOKENS ? 2 : 1;

	return MM_BY == 1 && !MM_NARROW && nt <= most ? 2 : 1;
}

#define CALM 1023 /* of a struct act8: its largest sum of 16 magnitudes, at most */

/*
 * Whether the sum of each sub-block, its offset taken off, fits 16 bits: 2 always, 1 with calm activations, as nearly
 * all are, 0 where nothing is known.
 *
 * Then the sums a and b of two sub-blocks fit one int32. Of products the chain of b goes on from a << 16. Adding 2^15
 * leaves a above, and below b + 2^15, whose highest bit, inverted, makes it b as 16 bits: one product of two 16-bit
 * numbers scales both. What multiplies by scales one by one takes twice as many instructions of those that CPUs have
 * the fewest units for.
 */
INLINE int twos_fit(int type)
{
	const struct type_row s = type_row(type);
	const int most = (s.offset ? s.offset : s.most) * s.words / 4; /* that each magnitude counts, and s.words */

	if (!MM_TWOS || !s.parts || s.subs % 2)
		return 0;
	return most * 16 * 127 <= 32767 ? 2 : most * CALM <= 32767 ? 1 : 0;
}

/* Whether n tokens of np panels make up for the scales by twos: with few, chains of two sub-blocks are too long. */
INLINE int twos_pay(int type, int np, int n)
{
	return np == 2 && twos_fit(type) && (type_row(type).words == 4 || n > 2 * MM_PAIR_TOKENS - 4);
}

/* Whether all of nt tokens' activations are calm enough. */
INLINE int twos_of(int type, const struct act8 *x, int nt)
{
	int most = 0;

	if (twos_fit(type) == 2)
		return 1;
	for (int t = 0; t < nt; t++)
		most = x[t].most16 > most ? x[t].most16 : most;
	return most <= CALM;
}

/*
 * Whether a tile of nt tokens, scaled by twos, has sums of its own for both sub-blocks: few leave registers over. Then
 * no chain waits for another, and halves of the two sums are all that has to be put together.
 */
INLINE int twos_apart(int nt)
{
	return nt <= MM_PAIR_TOKENS - 2;
}

/* What is added to the sums of two sub-blocks: their starts, one above the other, and 2^15. */
INLINE void twos_start(int type, int32_t start[16], const struct act8 *x)
{
	const int parts = type_row(type).parts, subs = type_row(type).subs;
	const int16_t *sum = type_row(type).words == 8 ? x->sum32 : x->sum16;

#pragma GCC unroll 8
	for (int i = 0; i < parts * subs / 2; i++) {
		const int g = 2 * i / subs, j = 2 * i % subs;
		const uint32_t a = (uint32_t)sum[sub_of(type, g, j)], b = (uint32_t)sum[sub_of(type, g, j + 1)];

		start[i] = (int32_t)(0x8000 - (uint32_t)type_row(type).offset * ((a << 16) + b));
	}
}

/* Scales by twos. */
INLINE void twos_scales(int type, struct block *w)
{
#if MM_TWOS
	const int parts = type_row(type).parts, subs = type_row(type).subs;

#pragma GCC unroll 8
	for (int i = 0; i < parts * subs / 2; i++) {
		const int g = 2 * i / subs, j = 2 * i % subs;

		rows_zip16(w->two[i], rows_load(w->s.scale[sub_of(type, g, j + 1)]),
		           rows_load(w->s.scale[sub_of(type, g, j)]));
	}
#else
	(void)type, (void)w;
#endif
}

/* sum with those of two sub-blocks, a and b, number i of w's, scaled. */
INLINE ints twos_both(ints sum, ints a, ints b, const struct block *w, int i)
{
#if MM_TWOS
	return ints_both(sum, a, b, w->two[i]);
#else
	return (void)a, (void)b, (void)w, (void)i, sum;
#endif
}

/* sum with two sub-blocks' sums in a, number i of w's, scaled. */
INLINE ints twos_scaled(int type, ints sum, ints a, const struct block *w, const int32_t start[16], int i)
{
#if MM_TWOS
	return ints_twos(sum, a, type_row(type).offset ? acts_load(&start[i]) : ints_set1(0x8000), w->two[i]);
#else
	return (void)type, (void)a, (void)w, (void)start, (void)i, sum;
#endif
}

/* What products i of token t of nt, and of the one beside it, start from. */
INLINE dots dots_start(int type, const int32_t (*start)[16], int t, int nt, int i)
{
	if (MM_NARROW)
		return dots_set1(0, 0);
	if (!offset_of(type))
		return dots_set1(sum_start(type), sum_start(type));
	return dots_set1(start[t][i], start[beside(t, nt)][i]);
}

INLINE dots dots_up(dots a)
{
#if MM_TWOS
	return ints_up(a);
#else
	return a;
#endif
}

INLINE dots dots_add(int type, dots acc, words w, acts x)
{
#if MM_NARROW
	return has_8_bits(type) ? ints_dot8(acc, w.w, w.sign, x) : ints_dot(acc, w.w, x);
#else
	if (has_8_bits(type))
		return ints_dot8(acc, w, x);
	return type_row(type).most <= MM_FOUR ? ints_dot_small(acc, w, x) : ints_dot(acc, w, x);
#endif
}

/* Words that begin with a, and b where there are two, of a type. */
INLINE words words_from(int type, bytes a, bytes b)
{
#if MM_NARROW
	if (has_8_bits(type)) {
		const bytes sign = bytes_less128(a);

		return (words){bytes_abs(sign), sign};
	}
#else
	(void)type;
#endif
	return words_of(a, b);
}

/*
 * What a tile does with words: takes them out of their lines; keeps them in the block, too, for the tiles after it; or
 * takes them from there.
 */
enum how { FROM_LINES, KEEP, FROM_KEPT };

/* Words i .. of part g of a super-block; `at` is the first one's place in the whole. */
INLINE words super_words(int type, enum how how, struct block *w, int g, int i, int at)
{
	const void *p = is_coded(type) ? (const void *)&w->u : w->p;

	if (how == FROM_KEPT)
		return words_kept(type, w, at);

	const words a = words_from(type, super_word(type, p, g, i), super_word(type, p, g, i + MM_BY - 1));

	if (how == KEEP)
		words_keep(type, w, at, a);
	return a;
}

/* Words i .. of block j of a group of nb, of 32 weights or of 16. */
INLINE words small_words(int type, enum how how, struct block *w, int nb, int j, int i)
{
	const int lines = small_lines(type);
	const x16_line *qs = (const x16_line *)w->p + j * lines, *qh = (const x16_line *)w->p + nb * lines + j;

	if (how == FROM_KEPT)
		return words_kept(type, w, type_row(type).words * j + i);

	const words a = words_from(type, small_word(type, qs, qh, i), small_word(type, qs, qh, i + MM_BY - 1));

	if (how == KEEP)
		words_keep(type, w, type_row(type).words * j + i, a);
	return a;
}

/*
 * Adds a block of np panels to the results of nt tokens; type, np, nt and how constant. out: rows of
 * np panels, `stride` floats apart. start: of each token. asks: the tokens of the call in
 * its first tile, which asks for the weights to come; else 0. next: see ask_acts(). twos, constant: whether sub-blocks
 * are scaled by twos.
 */
INLINE void super_tile(int type, int np, int nt, enum how how, int twos, float *out, int64_t stride, struct block *w,
                       const struct act8 *x, const int32_t (*start)[16], int asks, const struct act8 *next)
{
	const int parts = type_row(type).parts, subs = type_row(type).subs, n_words = type_row(type).words;
	const int has_min = type_row(type).min, run = run_of(type), step = MM_NARROW && run == 2 ? 2 : MM_BY;
	const int apart = twos && twos_apart(nt), chains = twos ? 1 : chains_of(type, np, nt);
	/* Few tokens leave registers over; products of shorter runs need few, and sums are needed often. */
	const int scarce = MM_SUMS_AWAY && nt > (run > 2 && subs < 8 ? 1 : 2), away = scarce && run > 2;
	const int part_bytes = super_step(type, 0) / parts;
	const int n_min = has_min || offset_apart(type) ? parts * subs / 2 : 0;
	const int at_once = has_min && away ? nt : 1; /* tokens that share pairs of minimums, where sums leave room */
	ints sum[2][MM_TOKENS_MAX];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t0 = 0; t0 < nt; t0 += at_once) {
			ints min[MM_TOKENS_MAX];

#pragma GCC unroll 8
			for (int i = 0; i < n_min; i++)
#pragma GCC unroll 16
				for (int t = t0; t < t0 + at_once; t++)
					min[t] = ints_pair(i ? min[t] : ints_zero(), w[r].s.pair[i],
					                   acts_load(n_words == 8 ? &x[t].sum32[2 * i]
					                                          : &x[t].sum16[2 * i]));
#pragma GCC unroll 16
			for (int t = t0; t < t0 + at_once; t++) {
				float *y = out + r * stride + t * QN_PANEL;

				sum[r][t] = ints_zero();
				if (has_min)
					floats_store(y, floats_fnma(floats_mul(w[r].dmin, floats_set1(x[t].d)),
					                            floats_of(min[t]), floats_load(y)));
				else if (n_min)
					sum[r][t] = ints_muladd(sum[r][t], min[t], ints_set1(-offset_of(type)));
				if (away)
					KEPT(sum[r][t]);
			}
		}
	for (int g = 0; g < parts; g++) {
		ask_acts(type, next, nt, g, parts);
		if (asks)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				ask_ahead(type, np, nt, asks, &w[r], g * part_bytes, part_bytes);

		dots dot[2][2][MM_DOTS_MAX]; /* of each panel, of each chain */

#pragma GCC unroll 8
		for (int j = 0; j < subs; j++) {
			const int sub = sub_of(type, g, j);
			const int8_t *xs = x[0].qs + sub * n_words * 4;

			if (scarce) /* lines that sub-blocks share are loaded again, not kept */
				__asm__ volatile("" : : : "memory");
#pragma GCC unroll 8
			for (int i = 0; i < n_words; i += step) {
				words a[2][2];

#pragma GCC unroll 2
				for (int r = 0; r < np; r++)
#pragma GCC unroll 2
					for (int k = 0; k < step; k += MM_BY)
						a[r][k / MM_BY] = super_words(
							type, how, &w[r], g, j * n_words + i + k,
							sub * n_words + i + k);
#pragma GCC unroll 16
				for (int t = 0; t < nt; t += MM_BY) {
					const int at = t / MM_BY;

					/* Panels one by one: GCC unrolls a loop so late that AVX-VNNI spills. */
					if (i % run == 0) {
						const dots zero = dots_set1(0, 0);
						const dots from = twos && !apart
						                          ? zero
						                          : dots_start(type, start, t, nt, sub);
						const int up = twos && !apart && j % 2, c = apart && j % 2;

						dot[0][c][at] = up ? dots_up(dot[0][0][at]) : from;
						dot[1][c][at] = up ? dots_up(dot[1][0][at]) : from;
						if (chains == 2)
							dot[0][1][at] = dot[1][1][at] = zero;
					}
#pragma GCC unroll 2
					for (int k = 0; k < step; k += MM_BY) {
						const int8_t *xt = xs + t * (int)sizeof *x + (i + k) * 4;
						const acts xk = acts_of(xt, xt + (beside(t, nt) - t) * (int)sizeof *x);

						const int c = apart ? j % 2 : i % chains;
						dots *const d0 = &dot[0][c][at];
						dots *const d1 = &dot[1][c][at];

						*d0 = dots_add(type, *d0, a[0][k / MM_BY], xk);
						if (np == 2)
							*d1 = dots_add(type, *d1, a[1][k / MM_BY], xk);
					}
				}
				if (((i + step) % run && i + step < n_words) || (twos && j % 2 == 0))
					continue;
#pragma GCC unroll 2
				for (int r = 0; r < np && twos; r++)
#pragma GCC unroll 16
					for (int t = 0; t < nt; t++) {
						const ints dt = dots_of(dot[r][0][t], 0);
						const int at = (g * subs + j) / 2;

						if (apart)
							sum[r][t] = twos_both(sum[r][t], dt, dots_of(dot[r][1][t], 0),
							                      &w[r], at);
						else
							sum[r][t] = twos_scaled(type, sum[r][t], dt, &w[r], start[t],
							                        at);
					}
				if (twos)
					continue;
#pragma GCC unroll 2
				for (int r = 0; r < np; r++) {
					const mults scale = mults_of(w[r].s.scale[sub]);

#pragma GCC unroll 16
					for (int t = 0; t < nt; t++) {
						ints dt = dots_of(dot[r][0][t / MM_BY], t % MM_BY);

						if (chains == 2)
							dt = ints_add(dt, dots_of(dot[r][1][t], 0));
						sum[r][t] = ints_scaled(sum[r][t], dt, scale);
						if (away)
							KEPT(sum[r][t]);
					}
				}
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

/* y with the product dt of block j of a group of nb, and a token, scaled. */
INLINE floats small_add(int type, floats y, ints dt, const struct block *w, const struct act8 *x, int nb, int j)
{
	const int n_words = type_row(type).words;
	const uint16_t *d = (const uint16_t *)(w->p + x16_line_bytes(type, nb * n_words / 8));
	const floats dj = small_d(type, d, j), unit = floats_mul(dj, floats_set1(-SUM_UNIT));
	floats f = sums_as_floats(type) ? floats_fma(dj, floats_bits(dt), unit) : floats_mul(dj, floats_of(dt));

	if (type_row(type).min)
		f = floats_fma(floats_f16(d + (nb + j) * QN_PANEL), floats_set1(x->fsum32[j]), f);
	return floats_fma(f, floats_set1(x->d32[j * n_words / 8]), y);
}

/* The same for a group of nb blocks of 32 weights, or of 16. */
INLINE void small_tile(int type, int np, int nt, enum how how, float *out, int64_t stride, struct block *w,
                       const struct act8 *x, const int32_t (*start)[16], int asks, const struct act8 *next, int nb)
{
	const int run = run_of(type), chains = chains_of(type, np, nt);
	const int lines = small_lines(type), n_words = type_row(type).words;
	const int late = scales_late(type, np, nt);
	ints kept[64 / 4][AHEAD_SHORT];
	floats y[2][MM_TOKENS_MAX];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			y[r][t] = floats_load(out + r * stride + t * QN_PANEL);
	for (int j = 0; j < nb; j++) {
		ask_acts(type, next, nt, j, 64 / n_words);

		dots dot[2][2][MM_DOTS_MAX]; /* of each panel, of each chain */
		ints sum[2][MM_TOKENS_MAX];

		if (asks)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				ask_ahead(type, np, nt, asks, &w[r], j * lines * 64, lines * 64);
#pragma GCC unroll 8
		for (int i = 0; i < n_words; i += MM_BY) {
			const words a = small_words(type, how, &w[0], nb, j, i);
			const words b = np == 1 ? a : small_words(type, how, &w[1], nb, j, i);
			const int at = (j * n_words + i) * 4;

#pragma GCC unroll 16
			for (int t = 0; t < nt; t += MM_BY) {
				const acts xt = acts_of(x[t].qs + at, x[beside(t, nt)].qs + at);
				const int k = t / MM_BY;

#pragma GCC unroll 2
				for (int r = 0; r < np; r++) {
					dots *d = &dot[r][i % chains][k];

					if (i % run == 0) {
						dot[r][0][k] = dots_start(type, start, t, nt, j);
						dot[r][1][k] = dots_set1(0, 0);
					}
					*d = dots_add(type, *d, r ? b : a, xt);
				}
			}
			if (!MM_NARROW || ((i + 1) % run && i < n_words - 1))
				continue;
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
#pragma GCC unroll 16
				for (int t = 0; t < nt; t++) {
					if (i < run)
						sum[r][t] = ints_set1(offset_of(type) ? start[t][j] : sum_start(type));
					sum[r][t] = ints_scaled(sum[r][t], dots_of(dot[r][0][t], 0), mults_one());
				}
		}
#pragma GCC unroll 2
		for (int r = 0; r < np; r++)
#pragma GCC unroll 16
			for (int t = 0; t < nt; t++) {
				ints dt = MM_NARROW ? sum[r][t] : dots_of(dot[r][0][t / MM_BY], t % MM_BY);

				if (chains == 2)
					dt = ints_add(dt, dots_of(dot[r][1][t], 0));
				if (late)
					kept[j][t] = dt;
				else
					y[r][t] = small_add(type, y[r][t], dt, &w[r], &x[t], nb, j);
			}
	}
	for (int j = 0; late && j < nb; j++)
#pragma GCC unroll 4
		for (int t = 0; t < nt; t++)
			y[0][t] = small_add(type, y[0][t], kept[j][t], &w[0], &x[t], nb, j);
#pragma GCC unroll 2
	for (int r = 0; r < np; r++)
#pragma GCC unroll 16
		for (int t = 0; t < nt; t++)
			floats_store(out + r * stride + t * QN_PANEL, y[r][t]);
}

/*
 * Whether the first tile of a call keeps the words that it takes out of their lines, and unpack() is not needed. Worth
 * it from the second tile on, but for types of which four words share a line.
 */
INLINE int keeps(int type)
{
	return MM_KEEP && type_row(type).subs < 8;
}

/* Whether words are so much work to take out of their lines, for n tokens, that one time for all tiles is better. */
INLINE int unpack_pays(int type, int np, int n)
{
	if (MM_BY == 2 || is_coded(type) || (type_row(type).bits == 8 && !MM_NARROW)) /* they lie as is wanted */
		return 0;
	if (np == 1)
		return n >= (keeps(type) ? MM_TOKENS + 1 : MM_READY_FROM);
	return n >= MM_READY_MIN && (MM_NARROW ? type_row(type).parts > 0 : type_row(type).once);
}

/* Takes the words of a block out of its lines, once for all tiles of a call. */
INLINE void unpack(int type, int super, struct block *w, int nb)
{
	const struct type_row s = type_row(type);

	for (int g = 0; super && g < s.parts; g++)
#pragma GCC unroll 32
		for (int i = 0; i < s.subs * s.words; i += MM_BY) {
			const int at = sub_of(type, g, i / s.words) * s.words + i % s.words;

			super_words(type, KEEP, w, g, i, at);
		}
	for (int j = 0; !super && j < nb; j++)
#pragma GCC unroll 8
		for (int i = 0; i < s.words; i += MM_BY)
			small_words(type, KEEP, w, nb, j, i);
}

/* The smallest and largest tile of a call: fewer cases to compile. */
INLINE int tile_most(int np)
{
	return np == 1 ? MM_TOKENS : MM_PAIR_TOKENS;
}

INLINE int tile_least(int np, int ready)
{
	return MM_BY == 2 ? 2 : ready ? tile_most(np) - 1 : np == 1 ? 1 : QN_PAIR_MIN / 2;
}

/* The same of one panel of a type that mm_few() takes MM_FEW tokens of. */
INLINE int few_least(int most)
{
	return MM_FEW + 1 < (most + 1) / 2 ? MM_FEW + 1 : (most + 1) / 2;
}

/*
 * A tile of decoded words has nothing of their codes any more: one function serves all types whose sub-blocks and
 * offsets are alike, named by one of them. In each type's kernel it would be most of the code of a set.
 */
#define MM_CODED_TILE(nt)                                                                      \
	case nt:                                                                               \
		if (nt >= tile_least(np, how == FROM_KEPT) && nt <= tile_most(np))             \
			super_tile(type, np, nt, how, 0, out, stride, w, x, start, 0, NULL);   \
		break;
#define MM_CODED_TILES(name, type_, np_, how_)                                                                  \
	static __attribute__((noinline)) void MM(name)(int nt, float *out, int64_t stride, struct block *w,     \
	                                               const struct act8 *x, const int32_t (*start)[16])       \
	{                                                                                                       \
		enum { type = type_, np = np_ };                                                                \
		const enum how how = how_;                                                                      \
                                                                                                                \
		switch (nt) {                                                                                   \
			MM_CODED_TILE(1) MM_CODED_TILE(2) MM_CODED_TILE(3) MM_CODED_TILE(4)                     \
			MM_CODED_TILE(5) MM_CODED_TILE(6) MM_CODED_TILE(7) MM_CODED_TILE(8)                     \
		}                                                                                               \
	}
#define MM_CODED(name, np, how)                                                                                   \
	MM_CODED_TILES(tile_iq2_xxs_##name, QN_IQ2_XXS, np, how)                                                  \
	MM_CODED_TILES(tile_iq2_xs_##name, QN_IQ2_XS, np, how)                                                    \
	MM_CODED_TILES(tile_iq4_ks_##name, QN_IQ4_KS, np, how)                                                    \
	MM_CODED_TILES(tile_iq4_k_##name, QN_IQ4_K, np, how)                                                      \
	INLINE void coded_tile_##name(int type, int nt, float *out, int64_t stride, struct block *w,              \
	                             const struct act8 *x, const int32_t (*start)[16])                            \
	{                                                                                                         \
		if (type_row(type).words == 8)                                                                    \
			(type_row(type).offset == 64 ? MM(tile_iq2_xxs_##name) : MM(tile_iq4_ks_##name))(         \
				nt, out, stride, w, x, start);                                                    \
		else                                                                                              \
			(type_row(type).offset == 64 ? MM(tile_iq2_xs_##name) : MM(tile_iq4_k_##name))(           \
				nt, out, stride, w, x, start);                                                    \
	}
MM_CODED(one, 1, FROM_LINES)
#if MM_PAIR_TOKENS
MM_CODED(two, 2, FROM_LINES)
#else
#define coded_tile_two coded_tile_one
#endif

#define MM_TILE_HOW(np, nt, how, least)                                                                          \
	do {                                                                                                     \
		if (nt < (least) || nt > most)                                                                   \
			break;                                                                                   \
		if (super && twos)                                                                               \
			super_tile(type, np, nt, how, 1, y, stride, w, x + t, start + t, t ? 0 : n, next);       \
		else if (super)                                                                                  \
			super_tile(type, np, nt, how, 0, y, stride, w, x + t, start + t, t ? 0 : n, next);       \
		else                                                                                             \
			small_tile(type, np, nt, how, y, stride, w, x + t, start + t, t ? 0 : n, next, small);   \
	} while (0)
#define MM_TILE(np, nt)                                                                                          \
	case nt:                                                                                                 \
		if (!ready)                                                                                      \
			MM_TILE_HOW(np, nt, FROM_LINES, least);                                                  \
		else if (keeps(type) && t == 0)                                                                  \
			MM_TILE_HOW(np, nt, KEEP, most - 1);                                                     \
		else                                                                                             \
			MM_TILE_HOW(np, nt, FROM_KEPT, keeps(type) ? (most + 1) / 2 : least);                    \
		break;

/* Ready for super-block b at w->p, of np panels that meet n tokens: its words where they are coded, its scales. */
INLINE void super_begin(int type, int np, int n, struct block *w, int64_t b)
{
	if (is_coded(type)) {
		decode(type, &w->u, w->p);
		ask_ahead(type, np, n, n, w, 0, super_bytes(type));
		scales_of(&w->s, type, &w->u);
		if (!type_row(type).head)
			w->d = floats_load(w->u.d);
	} else {
		scales_of(&w->s, type, w->p);
		w->d = floats_f16(super_d(type, w->p, b));
	}
	if (twos_pay(type, np, n))
		twos_scales(type, w);
	if (type_row(type).min)
		w->dmin = floats_f16(super_d(type, w->p, b) + QN_PANEL);
	else if (offset_apart(type))
		pair_scales(&w->s);
}

/*
 * out[r][t] = panel r times token t: n tokens, np panels; type, super, np and ready constant. Tiles
 * are nearly equal.
 */
INLINE void mm_panels(int type, int super, int np, int ready, float *out, const uint8_t *p0, const uint8_t *p1,
                      const struct act8 *x, int64_t n_in, int64_t n_act, int n)
{
	const int most = tile_most(np), tiles = (n + most - 1) / most;
	const int least = np == 1 && !ready && few_tokens(type) ? few_least(most) : tile_least(np, ready);
	const int units = (n + MM_BY - 1) / MM_BY; /* of tokens */
	const int64_t stride = (int64_t)n * QN_PANEL;
	const int64_t size = (int64_t)qn_panel_bytes(type, n_in);
	/* Of two neighbours neither is followed by the other. */
	const int64_t skip = np == 2 && p1 == p0 + size ? size : 0;
	struct block w[2]; /* not initialized whole: that is 8 KB */
	const int by_two = twos_pay(type, np, n), starts = offset_of(type) && !(super && offset_apart(type));
	_Alignas(64) int32_t start[MM_CALL][16];

#pragma GCC unroll 2
	for (int r = 0; r < np; r++) {
		w[r].p = r ? p1 : p0;
		w[r].end = w[r].p + size;
		if (super && type_row(type).head)
			w[r].d = head_d(type, w[r].p, n_in);
		w[r].skip = skip;
	}
	memset(out, 0, sizeof *out * (size_t)(np * stride));
	for (int64_t b = 0, left = n_in / QK; left > 0; b++, left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP, small = nb * 8 / type_row(type).words;
		int longer = units % tiles;

		if (super)
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				super_begin(type, np, n, &w[r], b);
		if (ready && !keeps(type))
#pragma GCC unroll 2
			for (int r = 0; r < np; r++)
				unpack(type, super, &w[r], small);
		for (int t = 0; t < n && starts && !by_two; t++)
			starts_of(type, super, start[t], x + t);
		for (int t = 0, nt; t < n; t += nt) {
			float *y = out + t * QN_PANEL;
			const struct act8 *next = NULL;
			int from = left > X16_GROUP ? MM_ACTS_FROM : MM_CALL + 1; /* the last block is not followed */

			nt = (units / tiles + (longer-- > 0)) * MM_BY;
			if (MM_BY == 2 && nt > n - t)
				nt = n - t;

			const int twos = by_two && twos_of(type, x + t, nt);

			for (int k = t; k < t + nt && starts && by_two; k++) {
				if (twos && !twos_apart(nt))
					twos_start(type, start[k], x + k);
				else
					starts_of(type, super, start[k], x + k);
			}
			if (is_coded(type)) {
				if (np == 2)
					coded_tile_two(type, nt, y, stride, w, x + t, start + t);
				else
					coded_tile_one(type, nt, y, stride, w, x + t, start + t);
				continue;
			}
			__asm__ volatile("" : "+r"(from));
			if (n >= from)
				next = t + nt < n ? x + t + nt : x + n_act;
			switch (nt) {
				MM_TILE(np, 1) MM_TILE(np, 2) MM_TILE(np, 3) MM_TILE(np, 4)
				MM_TILE(np, 5) MM_TILE(np, 6) MM_TILE(np, 7) MM_TILE(np, 8)
			}
		}
#pragma GCC unroll 2
		for (int r = 0; r < np; r++)
			w[r].p += super ? super_step(type, b)
			                : x16_line_bytes(type, nb) + x16_scale_bytes(type, nb);
	}
}

#if MM_FEW
/*
 * Whether high nibbles are multiplied where they lie, 16 times as large, and their sums are shifted instead of their
 * lines. Words are 240 at most then.
 */
INLINE int high_in_place(int type)
{
	/* By name: with a column of types.h here, Clang 14 spills in the loops of Q3_K. */
	return MM_DOT8_OFFSET && !MM_NARROW && (type == QN_Q4_K || type == QN_Q4_0 || type == QN_Q4_1);
}

INLINE words high_word(const x16_line *l)
{
	const bytes a = bytes_and(bytes_load(l), 0xf0);

	return words_of(a, a);
}

INLINE dots high_dots(dots a, int high)
{
#if MM_NARROW
	return (void)high, a;
#else
	return high ? ints_sra(a, 4) : a;
#endif
}

/* A sum and unscaled products. */
INLINE ints dots_sum(ints sum, dots a)
{
	return MM_NARROW ? ints_scaled(sum, a, mults_one()) : ints_add(sum, dots_of(a, 0));
}

/*
 * Adds a super-block to y, the results of nt tokens, constant, which stay in registers from a panel's first block to
 * its last. Words that share a line are taken one after the other, each for a chain of products of its own: compilers
 * load the line once then.
 */
INLINE void super_few(int type, int nt, floats *y, struct block *w, const struct act8 *x,
                      const int32_t (*start)[16])
{
	const int parts = type_row(type).parts, subs = type_row(type).subs, n_words = type_row(type).words;
	const int has_min = type_row(type).min, part_bytes = super_step(type, 0) / parts;
	const int split = subs == 1 ? 2 : 1, chains = subs * split; /* of a sub-block, of a part */
	const int each = n_words / split;                           /* words of a chain */
	/* Of two tokens with AVX2 registers hold the products of one chain. */
	const int away = MM_SUMS_AWAY && nt > 1, in_turn = !away;
	ints sum[MM_FEW];

#pragma GCC unroll 4
	for (int t = 0; t < nt; t++) {
		sum[t] = ints_zero();
		if (has_min || offset_apart(type)) {
			ints min = ints_zero();

#pragma GCC unroll 8
			for (int i = 0; i < parts * subs / 2; i++)
				min = ints_pair(min, w->s.pair[i],
				                acts_load(n_words == 8 ? &x[t].sum32[2 * i] : &x[t].sum16[2 * i]));
			if (has_min)
				y[t] = floats_fnma(floats_mul(w->dmin, floats_set1(x[t].d)), floats_of(min), y[t]);
			else
				sum[t] = ints_muladd(sum[t], min, ints_set1(-offset_of(type)));
		}
		if (away) {
			KEPT(y[t]);
			KEPT(sum[t]);
		}
	}
	for (int g = 0; g < parts; g++) {
		dots dot[8][MM_FEW];

		ask_ahead(type, 1, nt, nt, w, g * part_bytes, part_bytes);
#pragma GCC unroll 32
		for (int k = 0; k < each * chains; k++) {
			const int i = in_turn ? k / chains : k % each, c = in_turn ? k % chains : k / each;
			const int sub = sub_of(type, g, c / split);
			const int high = high_in_place(type) && c;
			const words a = high ? high_word(&((const struct x16_q4k *)w->p)->qs[n_words * g + i])
			                     : super_words(type, FROM_LINES, w, g, c * each + i, 0);

#pragma GCC unroll 4
			for (int t = 0; t < nt; t++) {
				const int8_t *xt = x[t].qs + (sub * n_words + c % split * each + i) * 4;

				if (i == 0)
					dot[c][t] = c % split ? dots_set1(0, 0) : dots_start(type, start, t, nt, sub);
				dot[c][t] = dots_add(type, dot[c][t], a, acts_of(xt, xt));
				if (i + 1 < each)
					continue;
				sum[t] = ints_scaled(sum[t], dots_of(high_dots(dot[c][t], high), 0),
				                     mults_of(w->s.scale[sub]));
				if (away)
					KEPT(sum[t]);
			}
		}
	}
#pragma GCC unroll 4
	for (int t = 0; t < nt; t++)
		y[t] = floats_fma(floats_mul(w->d, floats_set1(x[t].d)), floats_of(sum[t]), y[t]);
}

/* Words i .. of a block whose lines are qs, of Q5_0 or Q5_1, without their fifth bits. */
INLINE words nibbles_of(int type, const x16_line *qs, int i)
{
	const bytes a = field(&qs[i % 4], 4 * (i / 4), 4);

	return words_from(type, a, a);
}

/* Adds products of the fifth bits of block j, which are those of l, to its sums of nt tokens. */
INLINE void add_fifths(int type, int nt, ints *sum, const x16_line *l, const struct act8 *x, int j)
{
	dots dot[2][MM_FEW];

#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		const bytes a = bytes_and(moved(l, i, 4), 16);

#pragma GCC unroll 4
		for (int t = 0; t < nt; t++) {
			const int8_t *xt = x[t].qs + (j * 8 + i) * 4;

			if (i < 2)
				dot[i][t] = dots_set1(0, 0);
			dot[i % 2][t] = dots_add(type, dot[i % 2][t], words_from(type, a, a), acts_of(xt, xt));
		}
	}
#pragma GCC unroll 4
	for (int t = 0; t < nt; t++)
		sum[t] = dots_sum(dots_sum(sum[t], dot[0][t]), dot[1][t]);
}

/*
 * The same for a group of nb small blocks. Fifth bits and scales lie behind the lines of the group and are used after
 * these: memory is one stream then, that a CPU's own prefetch can follow.
 */
INLINE void small_few(int type, int nt, floats *y, struct block *w, const struct act8 *x,
                      const int32_t (*start)[16], int nb)
{
	const int run = run_of(type), lines = small_lines(type), n_words = type_row(type).words, each = n_words / 2;
	const int fifths = type_row(type).bits == 5;
	ints kept[64 / 4][MM_FEW];

	for (int j = 0; j < nb; j++) {
		dots dot[2][MM_FEW];
		ints sum[MM_FEW];

		ask_ahead(type, 1, nt, nt, w, j * lines * 64, lines * 64);
#pragma GCC unroll 4
		for (int i = 0; i < each; i++)
#pragma GCC unroll 2
			for (int c = 0; c < 2; c++) {
				const int at = type_row(type).bits == 8 ? 2 * i + c : c * each + i;
				const int high = high_in_place(type) && c;
				const x16_line *qs = (const x16_line *)w->p + j * lines;
				const words a = high ? high_word(&qs[i]) : fifths ? nibbles_of(type, qs, at)
				                                                  : small_words(type, FROM_LINES, w, nb,
				                                                                j, at);

#pragma GCC unroll 4
				for (int t = 0; t < nt; t++) {
					const int8_t *xt = x[t].qs + (j * n_words + at) * 4;

					if (i == 0 && c == 0 && MM_NARROW)
						sum[t] = ints_set1(offset_of(type) ? start[t][j] : sum_start(type));
					if (i % run == 0)
						dot[c][t] = i || c ? dots_set1(0, 0)
						                   : dots_start(type, start, t, nt, j);
					dot[c][t] = dots_add(type, dot[c][t], a, acts_of(xt, xt));
					if (MM_NARROW && ((i + 1) % run == 0 || i + 1 == each))
						sum[t] = dots_sum(sum[t], dot[c][t]);
				}
			}
#pragma GCC unroll 4
		for (int t = 0; t < nt; t++)
			kept[j][t] = MM_NARROW ? sum[t]
			                       : dots_sum(dots_of(dot[0][t], 0),
			                                  high_dots(dot[1][t], high_in_place(type)));
	}
	for (int j = 0; j < nb; j++) {
		if (fifths)
			add_fifths(type, nt, kept[j], (const x16_line *)w->p + nb * lines + j, x, j);
#pragma GCC unroll 4
		for (int t = 0; t < nt; t++)
			y[t] = small_add(type, y[t], kept[j][t], w, &x[t], nb, j);
	}
}

/* out[t] = a panel times token t of nt; type, super and nt constant. */
INLINE void mm_few(int type, int super, int nt, float *out, const uint8_t *p, const struct act8 *x, int64_t n_in,
                   int64_t n_act)
{
	_Alignas(64) int32_t start[MM_FEW][16];
	struct block w;
	floats y[MM_FEW];

	w.p = p;
#pragma GCC unroll 4
	for (int t = 0; t < nt; t++)
		y[t] = floats_set1(0);
	for (int64_t b = 0, left = n_in / QK; left > 0; b++, left -= X16_GROUP, x += n_act) {
		const int nb = left < X16_GROUP ? (int)left : X16_GROUP;

		if (super)
			super_begin(type, 1, nt, &w, b);
		if (offset_of(type) && !(super && offset_apart(type)))
#pragma GCC unroll 4
			for (int t = 0; t < nt; t++)
				starts_of(type, super, start[t], x + t);
		if (super)
			super_few(type, nt, y, &w, x, start);
		else
			small_few(type, nt, y, &w, x, start, nb * 8 / type_row(type).words);
		w.p += super ? super_step(type, b) : x16_line_bytes(type, nb) + x16_scale_bytes(type, nb);
	}
#pragma GCC unroll 4
	for (int t = 0; t < nt; t++)
		floats_store(out + t * QN_PANEL, y[t]);
}

#else
#define mm_few(...) ((void)0)
#endif

/* The kernels for one token where MM_BY is 2, by type: those of the set before. */
static mm_fn *MM(one)[QN_N_TYPES];

#define MM_KERNEL(name, type, super) \
	static void MM(mm_##name)(float *out, const void *panel, const void *act, int64_t n_in, \
	                          int64_t n_act, int n) \
	{ \
		if (MM_BY == 2 && n == 1) \
			MM(one)[type](out, panel, act, n_in, n_act, n); \
		else if (n == 1 && few_tokens(type) >= 1) \
			mm_few(type, super, 1, out, panel, act, n_in, n_act); \
		else if (n == 2 && few_tokens(type) >= 2) \
			mm_few(type, super, 2, out, panel, act, n_in, n_act); \
		else if (unpack_pays(type, 1, n)) \
			mm_panels(type, super, 1, 1, out, panel, NULL, act, n_in, n_act, n); \
		else \
			mm_panels(type, super, 1, 0, out, panel, NULL, act, n_in, n_act, n); \
	}
#define MM_SMALL(name, NAME, ...) MM_KERNEL(name, QN_##NAME, 0)
#define MM_SUPER(name, NAME, ...) MM_KERNEL(name, QN_##NAME, 1)
QN_TYPES(QN_SKIP, MM_SMALL, MM_SUPER, MM_SUPER)

#if MM_PAIR_TOKENS
#define MM_PAIR(name, type, super) \
	static void MM(mm_pair_##name)(float *out, const void *panel, const void *panel2, const void *act, \
	                               int64_t n_in, int64_t n_act, int n) \
	{ \
		if (unpack_pays(type, 2, n)) \
			mm_panels(type, super, 2, 1, out, panel, panel2, act, n_in, n_act, n); \
		else \
			mm_panels(type, super, 2, 0, out, panel, panel2, act, n_in, n_act, n); \
	}
#define MM_SMALL_PAIR(name, NAME, ...) MM_PAIR(name, QN_##NAME, 0)
#define MM_SUPER_PAIR(name, NAME, ...) MM_PAIR(name, QN_##NAME, 1)
QN_TYPES(QN_SKIP, MM_SMALL_PAIR, MM_SUPER_PAIR, MM_SUPER_PAIR)
#endif

static void MM(mm_fill)(struct kernels *k)
{
#define MM_SLOT(name, NAME, ...)              \
	MM(one)[QN_##NAME] = k->mm[QN_##NAME]; \
	k->mm[QN_##NAME] = MM(mm_##name);     \
	k->mm_tile[QN_##NAME] = MM_CALL;
	QN_TYPES(QN_SKIP, MM_SLOT, MM_SLOT, MM_SLOT)
#undef MM_SLOT
#if MM_PAIR_TOKENS
#define MM_SLOT(name, NAME, ...) k->mm_pair[QN_##NAME] = MM(mm_pair_##name);
	QN_TYPES(QN_SKIP, MM_SLOT, MM_SLOT, MM_SLOT)
#undef MM_SLOT
#endif
}
