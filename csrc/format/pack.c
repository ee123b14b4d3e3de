/*
 * pack.c - GGUF rows into panels of 16 (format/panel.h). Every function takes one block of each of the 16
 * rows; a row that does not exist is a block of zeros.
 *
 * Nibbles and bit pairs that GGUF already pairs up in a byte stay paired: most of the work is to
 * move 32-bit words (format/interleave.h). Runs at load, and for weights that are used where they lie in the file.
 */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "format/blocks.h"
#include "format/codebook.h"
#include "format/interleave.h"
#include "format/pack.h"
#include "format/panel.h"
#include "format/twelve.h"
#include "kernels.h"
#include "math/fp16.h"

/* Bytes of a row that a function looks at, at most: 8 blocks of Q8_0. */
#define PART_BYTES (X16_GROUP * 34)

/* The 16 rows being packed: row r's block i is at base + r * stride + i * bytes. */
struct rows {
	const uint8_t *base;
	int64_t stride;
	int n;
};

static const _Alignas(4) uint8_t zeros[PART_BYTES];

static const void *block(const struct rows *s, int r, int64_t i, size_t bytes)
{
	return r < s->n ? s->base + r * s->stride + i * (int64_t)bytes : zeros;
}

/* Block i of each row. */
static void blocks(const uint8_t *b[QN_PANEL], const struct rows *s, int64_t i, size_t bytes)
{
	for (int r = 0; r < QN_PANEL; r++)
		b[r] = block(s, r, i, bytes);
}

/* 1 where all 16 halves are finite. An exponent of ones, and its lowest bit once more, carry into the sign. */
static int all_finite(const uint16_t h[QN_PANEL])
{
	halves8 v[2];
	longs2 carry;

	memcpy(v, h, sizeof v);
	carry = (longs2)((((v[0] & 0x7c00) + 0x0400) | ((v[1] & 0x7c00) + 0x0400)) & 0x8000);
	return !(carry[0] | carry[1]);
}

/* The d of super-block i, that is apart from p, of `bytes`: the half at byte `at` of each row. */
static int pack_d(void *p, size_t bytes, int64_t i, const uint8_t *const b[QN_PANEL], int64_t at)
{
	uint16_t *d = (uint16_t *)((uint8_t *)p + x16_d_at((int64_t)bytes, i));

	halves_of(d, b, at);
	return all_finite(d);
}

/*
 * The first 16 bytes of blocks of Q4_K or Q5_K: d, dmin, and 8 scales and minimums of 6 bits. Of each
 * word of scales, 4 sub-blocks at a time: those of 0..3 have theirs in a byte each; those of 4..7 have
 * the low bits in the nibbles of the last word, just as sl wants them, and the high ones above those
 * of 0..3.
 */
static void pack_scales(uint8_t sl[8][QN_PANEL], uint8_t sh[4][QN_PANEL], uint16_t d[QN_PANEL],
                        uint16_t dmin[QN_PANEL], const uint8_t *const b[QN_PANEL])
{
	union line w[4], low, high[2];

	lines(w, sizeof *w, b, 0, 4);
	line_half(d, &w[0], 0);
	line_half(dmin, &w[0], 1);
	for (int q = 0; q < QN_PANEL / 4; q++) {
		const words4 sc = w[1].v[q], mn = w[2].v[q];

		low.v[q] = (sc & 0x0f0f0f0f) | (mn & 0x0f0f0f0f) << 4;
		high[0].v[q] = (sc >> 4 & 0x03030303) | (mn >> 4 & 0x03030303) << 2;
		high[1].v[q] = (sc >> 6 & 0x03030303) | (mn >> 6 & 0x03030303) << 2;
		for (int k = 0; k < 2; k++) /* two sub-blocks to a byte, in bytes 0 and 2 */
			high[k].v[q] |= high[k].v[q] >> 4;
	}
	for (int j = 0; j < 4; j++) {
		line_byte(sl[j], &low, j);
		line_byte(sl[4 + j], &w[3], j);
		line_byte(sh[j], &high[j / 2], j % 2 * 2);
	}
}

static int pack_q4k(struct x16_q4k *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];

	blocks(b, s, i, sizeof(struct q4k));
	pack_scales(p->sl, p->sh, p->d, p->dmin, b);
	lines(p->qs, sizeof *p->qs, b, offsetof(struct q4k, qs), 32);
	return all_finite(p->d) & all_finite(p->dmin);
}

static int pack_q5k(struct x16_q5k *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	union line fifth[8];

	blocks(b, s, i, sizeof(struct q5k));
	pack_scales(p->sl, p->sh, p->d, p->dmin, b);
	lines(fifth, sizeof *fifth, b, offsetof(struct q5k, qh), 8);
	lines_transpose_bits(fifth);
	for (int j = 0; j < 8; j++)
		memcpy(p->part[j / 2].qh[j % 2], &fifth[j], sizeof *fifth);
	for (int k = 0; k < 4; k++)
		lines(p->part[k].qs, sizeof *p->part[k].qs, b, offsetof(struct q5k, qs) + 32 * (size_t)k, 8);
	return all_finite(p->d) & all_finite(p->dmin);
}

/*
 * Lines of a sub-block of Q6_K: its words have their low bits in nibble `part` / 2 of lo and the high ones in bits
 * 2 part of hi.
 */
static void pack_six(x16_line to[3], const union line lo[4], const union line hi[4], int part)
{
	for (int q = 0; q < QN_PANEL / 4; q++) {
		words4 w[4];

		for (int k = 0; k < 4; k++)
			w[k] = (lo[k].v[q] >> part / 2 * 4 & 0x0f0f0f0f) | (hi[k].v[q] >> 2 * part & 0x03030303) << 4;
		for (int k = 0; k < 3; k++) {
			const words4 line = w[k] | (w[3] >> 2 * k & 0x03030303) << 6;

			memcpy(to[k][4 * q], &line, sizeof line);
		}
	}
}

static int pack_q6k(struct x16_q6k *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	union line lo[32], hi[16], w[4];

	blocks(b, s, i, sizeof(struct q6k));
	lines(lo, sizeof *lo, b, 0, 32);
	lines(hi, sizeof *hi, b, offsetof(struct q6k, qh), 16);
	for (int j = 0; j < 16; j++)
		pack_six(p->sub[j], &lo[j / 8 * 16 + j % 4 * 4], &hi[j / 8 * 8 + j % 2 * 4], j / 2 % 4);
	lines(w, sizeof *w, b, offsetof(struct q6k, scales), 4);
	for (int j = 0; j < 16; j++)
		line_byte((uint8_t *)p->sc[j], &w[j / 4], j % 4);
	return pack_d(p, sizeof *p, i, b, offsetof(struct q6k, d));
}

static int pack_q2k(struct x16_q2k *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	union line w[4];

	blocks(b, s, i, sizeof(struct q2k));
	lines(w, sizeof *w, b, 0, 4);
	for (int j = 0; j < 16; j++)
		line_byte(p->sl[j], &w[j / 4], j % 4);
	lines(p->qs, sizeof *p->qs, b, offsetof(struct q2k, qs), 16);
	line_of(&w[0], b, offsetof(struct q2k, d));
	line_half(p->d, &w[0], 0);
	line_half(p->dmin, &w[0], 1);
	return all_finite(p->d) & all_finite(p->dmin);
}

/* The scales' nibbles and bit pairs are those of sl and sh as they are. */
static int pack_q3k(struct x16_q3k *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	union line third[8], w;

	blocks(b, s, i, sizeof(struct q3k));
	lines(third, sizeof *third, b, 0, 8);
	lines_transpose_bits(third);
	for (int k = 0; k < 2; k++) {
		memcpy(p->half[k].qh, &third[4 * k], sizeof p->half[k].qh);
		lines(p->half[k].qs, sizeof *p->half[k].qs, b, offsetof(struct q3k, qs) + 32 * (size_t)k, 8);
	}
	for (int k = 0; k < 3; k++) {
		line_of(&w, b, (int64_t)offsetof(struct q3k, scales) + 4 * k);
		for (int j = 0; j < 4; j++)
			line_byte(k < 2 ? p->sl[4 * k + j] : p->sh[j], &w, j);
	}
	return pack_d(p, sizeof *p, i, b, offsetof(struct q3k, d));
}

/* So are these. */
static int pack_iq4_xs(struct x16_iq4_xs *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	union line w;

	blocks(b, s, i, sizeof(struct iq4_xs));
	line_of(&w, b, 0); /* d, scales_h */
	line_half(p->d, &w, 0);
	line_byte(p->sh[0], &w, 2);
	line_byte(p->sh[1], &w, 3);
	line_of(&w, b, offsetof(struct iq4_xs, scales_l));
	for (int j = 0; j < 4; j++)
		line_byte(p->sl[j], &w, j);
	lines(p->qs, sizeof *p->qs, b, offsetof(struct iq4_xs, qs), 32);
	return all_finite(p->d);
}

static int pack_tq2_0(struct x16_tq2_0 *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];

	blocks(b, s, i, sizeof(struct tq2_0));
	lines(p->qs, sizeof *p->qs, b, 0, 16);
	return pack_d(p, sizeof *p, i, b, offsetof(struct tq2_0, d));
}

/* Super-block i of the types of format/codebook.h. */
static int pack_coded(int type, uint8_t *p, const struct rows *s, int64_t i)
{
	const uint8_t *b[QN_PANEL];
	uint16_t d[QN_PANEL];

	blocks(b, s, i, (size_t)block_bytes(type));
	coded_to_panel(type, p, b);
	if (type_row(type).head)
		return 1;
	halves_of(d, b, type == QN_TQ1_0 ? offsetof(struct tq1_0, d) : 0);
	for (int r = 0; type == QN_IQ1_M && r < QN_PANEL; r++)
		d[r] = iq1m_d(b[r] + offsetof(struct iq1_m, scales));
	return all_finite(d);
}

/* The scales that rows begin with, which lie before s->base. */
static int pack_heads(int type, uint8_t *p, const struct rows *s)
{
	const int head = type_row(type).head;
	int ok = 1;

	for (int r = 0; r < QN_PANEL; r++, p += head) {
		memcpy(p, r < s->n ? s->base - head + r * s->stride : zeros, (size_t)head);
		ok &= isfinite(coded_head(type, p)) != 0;
	}
	return ok;
}

/* Where the parts of a small block lie: bytes from its start, -1 for none. m is right behind d. */
struct small {
	int bytes, m, qh, qs, n_qs;
};

/* Scales, minimums, fifth bits, quants: each where the one before ends. */
static struct small small_of(int type)
{
	const struct type_row t = type_row(type);
	const int qh = t.scale * (1 + t.min) * t.elems / t.run, qs = qh + (t.bits == 5 ? QK / 8 : 0);
	const int n_qs = t.elems * (t.bits == 5 ? 4 : t.bits) / 8;

	return (struct small){qs + n_qs, t.min ? t.scale : -1, t.bits == 5 ? qh : -1, qs, n_qs};
}

#define SMALL(name, NAME, elems, run, bits, offset, most, min, scale) \
	_Static_assert(sizeof(struct name) == scale * (1 + min) * elems / run + elems * bits / 8, \
	               "as small_of() has it");
QN_TYPES(QN_SKIP, SMALL, QN_SKIP, QN_SKIP)
#undef SMALL

/* Scales of one byte: those of a block, from byte `at` of each row. */
static int pack_bytes(int type, uint8_t e[][QN_PANEL], const uint8_t *const b[QN_PANEL], int64_t at)
{
	union line w;
	int ok = 1;

	if (type == QN_NVFP4) { /* so that 0..127 are the numbers that they look like */
		line_of(&w, b, at);
		for (int s = 0; s < 4; s++) {
			line_byte(e[s], &w, s);
			for (int r = 0; r < QN_PANEL; r++)
				e[s][r] = e[s][r] == 0x7f ? 0 : e[s][r] & 0x7f;
		}
		return 1;
	}
	for (int r = 0; r < QN_PANEL; r++) {
		e[0][r] = b[r][at];
		ok &= e[0][r] < 253; /* from 2^125 on the largest value, 12, is too much for a float */
	}
	return ok;
}

/* A group of n times 32 weights, from number i of each row on. */
static int pack_group(int type, uint8_t *p, const struct rows *s, int64_t i, int n)
{
	const struct small f = small_of(type);
	const struct type_row t = type_row(type);
	const int per = t.elems / QK, n_blocks = n / per;
	union line *qs = (union line *)p;
	union line *qh = qs + n_blocks * f.n_qs / 4;
	uint8_t *scales = p + x16_line_bytes(type, n);
	uint16_t(*d)[QN_PANEL] = (uint16_t(*)[QN_PANEL])scales;
	uint16_t(*m)[QN_PANEL] = d + n;
	/* A row of zeros has d = 0, which also silences Q8_0's offset. */
	const uint32_t flip = type == QN_Q8_0 ? 0x80808080 : 0;
	const uint8_t *b[QN_PANEL];
	int ok = 1;

	blocks(b, s, i / per, (size_t)f.bytes);
	lines_apart(qs, sizeof *qs, b, f.qs, f.n_qs / 4, f.bytes, n_blocks, flip);
	for (int l = 0; t.bits <= 2 && l < n_blocks * f.n_qs / 4; l++)
		line_spread(&qs[l], t.bits);
	for (int j = 0; j < n_blocks; j++) {
		const int64_t at = (int64_t)j * f.bytes;
		union line w;

		if (f.qh >= 0) {
			line_of(&w, b, at + f.qh);
			line_spread(&w, 1);
			memcpy(&qh[j], &w, sizeof w);
		}
		if (t.scale == 1) {
			ok &= pack_bytes(type, (uint8_t(*)[QN_PANEL])scales + j * t.elems / t.run, b, at);
			continue;
		}
		if (f.m < 0) {
			halves_of(d[j], b, at);
		} else {
			line_of(&w, b, at);
			line_half(d[j], &w, 0);
			line_half(m[j], &w, 1);
			ok &= all_finite(m[j]);
		}
		ok &= all_finite(d[j]);
	}
	return ok;
}

/* n columns from column k on, at most FLOAT_COLS. */
#define FLOAT_COLS 64

static int pack_f32(uint32_t *p, const struct rows *s, int64_t k, int n)
{
	const uint8_t *b[QN_PANEL];
	int bad = 0;

	for (int r = 0; r < QN_PANEL; r++)
		b[r] = r < s->n ? s->base + r * s->stride + 4 * k : zeros;
	lines(p, 4 * QN_PANEL, b, 0, n & ~3);
	for (int c = n & ~3; c < n; c++)
		line_of((union line *)(p + c * QN_PANEL), b, 4 * c);
	for (int c = 0; c < n * QN_PANEL; c++)
		bad |= (p[c] & 0x7f800000) == 0x7f800000;
	return !bad;
}

static int pack_f16(uint16_t *p, const struct rows *s, int64_t k, int n)
{
	const uint8_t *b[QN_PANEL];
	uint16_t carry = 0;

	for (int r = 0; r < QN_PANEL; r++)
		b[r] = r < s->n ? s->base + r * s->stride + 2 * k : zeros;
	half_lines(p, b, 0, n & ~7);
	for (int c = n & ~7; c < n; c++)
		for (int r = 0; r < QN_PANEL; r++)
			memcpy(&p[c * QN_PANEL + r], b[r] + 2 * c, 2);
	for (int c = 0; c < n * QN_PANEL; c++)
		carry |= (uint16_t)((p[c] & 0x7c00) + 0x0400); /* as in all_finite() */
	return !(carry & 0x8000);
}

/* Words of two columns; the last one of an odd number is paired with zeros. */
static int pack_bf16(uint32_t *p, const struct rows *s, int64_t k, int n)
{
	const int words = n / 2;
	const uint8_t *b[QN_PANEL];
	uint16_t *h = (uint16_t *)p, last, carry = 0;

	for (int r = 0; r < QN_PANEL; r++)
		b[r] = r < s->n ? s->base + r * s->stride + 2 * k : zeros;
	lines(p, 4 * QN_PANEL, b, 0, words & ~3);
	for (int c = words & ~3; c < words; c++)
		line_of((union line *)(p + c * QN_PANEL), b, 4 * c);
	for (int r = 0; n % 2 && r < QN_PANEL; r++) {
		memcpy(&last, b[r] + 4 * words, 2);
		p[words * QN_PANEL + r] = last;
	}
	for (int c = 0; c < (n + 1) / 2 * 2 * QN_PANEL; c++) {
		carry |= (uint16_t)((h[c] & 0x7f80) + 0x0080);
		h[c] = bf16_factor(h[c]);
	}
	return !(carry & 0x8000);
}

/* The most bytes that one of the functions above writes: 8 blocks of Q8_0. */
#define PIECE_BYTES (QN_PANEL * PART_BYTES)

/*
 * The panel being written, piece by piece: in place, or, if nobody will read it soon, in a buffer that
 * is then copied past the caches. That saves reading from memory what is overwritten.
 */
struct panel {
	uint8_t *to;
	int away;
	_Alignas(64) uint8_t piece[PIECE_BYTES];
};

static void *piece(struct panel *p)
{
	return p->away ? p->piece : p->to;
}

static void piece_done(struct panel *p, size_t bytes)
{
	assert(bytes <= PIECE_BYTES);
	if (p->away)
		copy_away(p->to, p->piece, bytes);
	p->to += bytes;
}

/*
 * Asks for n bytes of each row, AHEAD after byte `at`: where rows end, those of the next panel, which
 * is mostly the next to be packed. The hardware sees no stream in 16 that share pages.
 */
#define AHEAD 1024

static void ask_rows(const struct rows *s, int64_t at, int64_t n)
{
	const int64_t from = at + AHEAD < s->stride ? at + AHEAD : at + AHEAD + (QN_PANEL - 1) * s->stride;

	for (int r = 0; r < s->n; r++)
		for (int64_t k = 0; k < n; k += 64)
			__builtin_prefetch(s->base + r * s->stride + from + k);
}

/* bytes: of a column; two: 1 where columns lie in pairs. */
#define FLOATS(bytes, two, call) \
	for (int64_t k = 0; k < n_in; k += FLOAT_COLS) { \
		const int n = (int)(n_in - k < FLOAT_COLS ? n_in - k : FLOAT_COLS); \
\
		ask_rows(&s, k * (bytes), n * (bytes)); \
		ok &= call; \
		piece_done(&p, (bytes) * QN_PANEL * (size_t)((two) ? (n + 1) / 2 * 2 : n)); \
	} \
	break

static int pack(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in, int away)
{
	const int head = type_row(type).head;
	const struct rows s = {(const uint8_t *)rows + head, (int64_t)qn_row_bytes(type, n_in), n_rows};
	const int64_t bytes = n_in >= QK_K ? s.stride / (n_in / QK_K) : 0;
	struct panel p;
	int ok = 1;

	if (!qn_type_ok(type, n_in) || n_rows < 1 || n_rows > QN_PANEL)
		return QN_EINVAL;
	p.to = panel;
	p.away = away;
	switch (type) {
	case QN_F32: FLOATS(4, 0, pack_f32(piece(&p), &s, k, n));
	case QN_F16: FLOATS(2, 0, pack_f16(piece(&p), &s, k, n));
	case QN_BF16: FLOATS(2, 1, pack_bf16(piece(&p), &s, k, n));
#define SMALL(name, NAME, ...) case QN_##NAME:
	QN_TYPES(QN_SKIP, SMALL, QN_SKIP, QN_SKIP)
#undef SMALL
		for (int64_t i = 0; i < n_in / QK; i += X16_GROUP) {
			const int n = (int)(n_in / QK - i < X16_GROUP ? n_in / QK - i : X16_GROUP);
			const int per = type_row(type).elems / QK, size = small_of(type).bytes;

			ask_rows(&s, i / per * size, n / per * size);
			ok &= pack_group(type, piece(&p), &s, i, n);
			piece_done(&p, (size_t)(n / per * QN_PANEL * size));
		}
		break;
#define SUPER(name, NAME, ...)                                \
	case QN_##NAME:                                       \
		for (int64_t i = 0; i < n_in / QK_K; i++) {   \
			ask_rows(&s, i * bytes, bytes);       \
			ok &= pack_##name((void *)((uint8_t *)piece(&p) + x16_before(type, i)), &s, i); \
			piece_done(&p, QN_PANEL * (size_t)bytes); \
		}                                             \
		break;
#define CODED(name, NAME, ...)                                \
	case QN_##NAME:                                       \
		for (int64_t i = 0; i < n_in / QK_K; i++) {   \
			ask_rows(&s, i * bytes, bytes);       \
			ok &= pack_coded(type, piece(&p), &s, i); \
			piece_done(&p, sizeof(struct x16_##name)); \
		}                                             \
		break;
	QN_TYPES(QN_SKIP, QN_SKIP, SUPER, CODED)
#undef SUPER
#undef CODED
	}
	if (head) {
		ok &= pack_heads(type, piece(&p), &s);
		piece_done(&p, (size_t)(QN_PANEL * head));
	}
	if (away)
		copied_away();
	return ok ? QN_OK : QN_ENOTFINITE;
}

int qn_pack(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in)
{
	return pack(type, panel, rows, n_rows, n_in, 0);
}

int pack_away(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in)
{
	return pack(type, panel, rows, n_rows, n_in, 1);
}

static int pack_twelve(void *panel, const void *rows, int32_t n_rows, int64_t n_in, int away)
{
	const struct rows s = {rows, (int64_t)qn_row_bytes(QN_BF16, n_in), n_rows};
	_Alignas(64) uint16_t lines[TWELVE_HALVES];
	_Alignas(64) uint8_t block[sizeof(struct twelve_head) + TWELVE_LINES / 4 * sizeof(struct twelve_group)];
	uint8_t *to = panel;
	int finite = 1, fits = 1;

	if (!qn_twelve_bytes(n_in) || n_rows < 1 || n_rows > QN_PANEL)
		return QN_EINVAL;
	for (int64_t k = 0; k < n_in && fits; k += QN_ACT_BLOCK) {
		const int cols = (int)(n_in - k < QN_ACT_BLOCK ? n_in - k : QN_ACT_BLOCK);
		const size_t bytes = (size_t)twelve_block_bytes(cols);

		for (int i = 0; i < cols; i += FLOAT_COLS) {
			const int n = cols - i < FLOAT_COLS ? cols - i : FLOAT_COLS;

			ask_rows(&s, (k + i) * 2, n * 2);
			finite &= pack_bf16((uint32_t *)(lines + i * QN_PANEL), &s, k + i, n);
		}
		fits = twelve_encode(away ? block : to, lines, cols / 2);
		if (away && fits)
			copy_away(to, block, bytes);
		to += bytes;
	}
	if (away)
		copied_away();
	return !finite ? QN_ENOTFINITE : fits ? QN_OK : QN_EWIDE;
}

int qn_pack_twelve(void *panel, const void *rows, int32_t n_rows, int64_t n_in)
{
	return pack_twelve(panel, rows, n_rows, n_in, 0);
}

int pack_twelve_away(void *panel, const void *rows, int32_t n_rows, int64_t n_in)
{
	return pack_twelve(panel, rows, n_rows, n_in, 1);
}
