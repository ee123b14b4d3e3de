/*
 * sme.c - products of Q8_0 and Q4_K panels by Arm's matrix extension (SME, SME2): a study, no part of the library.
 *
 * 16 rows times 16 tokens at a streaming length of 512 bits, where a line of a panel is an operand of smopa as it lies.
 * Every kernel's results are compared with those of the library's scalar kernels, bit for bit. What was learned is in
 * docs/kernels.md, and sme.py counts instructions. To compile and run it, with a Clang that knows arm_sme.h and a QEMU
 * that has SME2 (11.1; the smopa of 7.2 is wrong), in this folder:
 *
 *	zig cc -target aarch64-linux-musl -mcpu=generic+sme2+bf16 -std=c11 -O2 -I../../csrc -I../../include \
 *		-include ../../csrc/base.h sme.c ../../csrc/scalar/matmul.c ../../csrc/scalar/codebook.c \
 *		../../csrc/format/codebook.c ../../csrc/format/types.c ../../csrc/format/twelve.c -o sme
 *	qemu-aarch64 -cpu max,sme512=on,sme_fa64=off ./sme         compares all kernels
 *	qemu-aarch64 -cpu max,sme512=on,sme_fa64=off ./sme NAME    one kernel, 256 columns and 16 tokens, for sme.py
 *
 * sme_fa64=off: no instructions in streaming mode but those that every CPU has there.
 *
 * QEMU 10.0 has SME but not SME2. For it, -mcpu=generic+sme+bf16 -DWITHOUT_SME2 compiles the same kernels with each
 * instruction of SME2 replaced by what it does, in instructions of SME. With NAME, what the CPU does not know is
 * skipped and nothing is compared: the instructions that run, which is what sme.py wants, are the same.
 *
 * The kernels:
 *
 *	q8_0_sme     a product for each 32 columns; of its tile one slice after the other is converted and scaled
 *	q8_0_sme2    four slices at once, and results in the tiles, where fmla adds four vectors
 *	q8_0_za      the same, scaled in the tiles too: no product of vectors is left
 *	q4_k_sme     as q8_0_sme, with integer scales
 *	q4_k_sme2    as q8_0_za: sums of scaled products are floats in the tiles, and exact
 *	q4_k_planes  scale * q, of 10 bits, as two planes of bytes over all 256 columns, as with AMX
 *	q4_k_16      scale * q as 16 bits, by the smopa of two columns that SME2 has
 */
#define _GNU_SOURCE
#include <arm_sme.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "format/panel.h"
#include "kernels.h"
#include "scalar/set.h"

#define STREAMING __arm_streaming __arm_inout("za")
#define INSIDE static inline __attribute__((always_inline))

enum {
	T = 16, /* tokens of a tile, and rows */
	WORDS = QN_ACT_BLOCK / 4,
	MOST_TOKENS = 3 * T,
};

/* 256 activations of 16 tokens as operands: arranged once for all panels that they meet. */
struct acts {
	int8_t q[WORDS][T][4];
	int16_t half[WORDS][2][T][2]; /* even columns of a word, then odd ones: as widening multiplies leave weights */
	int16_t sum[8][T][2];   /* of 32, and 0: what takes off an offset */
	int16_t pair[4][T][2];  /* sums of two sub-blocks: what minimums meet */
	int8_t plane[2][2][T][4]; /* those of four, as 64 * [0] + [1] */
	float d[8][T];          /* of each 32, or in d[0] */
	float wide[8][T][T];    /* the same, each in all lanes; slices i, i + 4, i + 8, i + 12 are neighbours */
};

/* 256 columns of a panel, prepared once for all tokens of a call. A kernel uses some of it. */
struct weights {
	const uint8_t *lines;   /* the panel's, where they are operands as they lie */
	int8_t q[WORDS][T][4];
	int16_t scaled[WORDS][2][T][2]; /* scale * q, columns as in acts.half */
	uint8_t lo[WORDS][T][4], hi[WORDS][T][4];
	float scale[8][T];
	int32_t whole[8][T];    /* scales as integers */
	int16_t min[4][T][2];   /* minimums of two sub-blocks */
	uint8_t min4[2][T][4];  /* of four */
	float d[8][T], dmin[T];
};

typedef void prepare_fn(struct weights *w, const void *panel) STREAMING;
typedef void tile_fn(float *y, const struct weights *w, const struct acts *x) STREAMING;

/* Bits of a mask for svzero_mask_za(): tile k of 32 bits is tiles k and k + 4 of 64. */
#define TILE(k) (0x11u << (k))

#define EACH(DO) \
	DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

/* ---- Four vectors at once: SME2. ---- */

/*
 * Array vectors of tile k are k, k + 4 .. of all 64, and a group of four is i, i + 16, i + 32, i + 48. So group 4i + k
 * is slices i, i + 4, i + 8 and i + 12 of tile k, and the same slices of another tile are a group as well. i and k are
 * constant.
 */
#ifndef WITHOUT_SME2
#define LOAD4(type, short) \
	INSIDE sv##type##x4_t load4_##short(const type##_t *p) STREAMING { return svld1_##short##_x4(svptrue_c8(), p); }
LOAD4(uint8, u8)
LOAD4(int8, s8)
LOAD4(int16, s16)

INSIDE svfloat32x4_t load4_f32(const float *p) STREAMING { return svld1_f32_x4(svptrue_c32(), p); }

INSIDE svint32x4_t read4(uint32_t k, uint32_t i) STREAMING { return svread_za32_s32_vg1x4(4 * i + k); }

INSIDE svfloat32x4_t read4_f32(uint32_t k, uint32_t i) STREAMING { return svread_za32_f32_vg1x4(4 * i + k); }

INSIDE svfloat32x4_t floats4(svint32x4_t a) STREAMING { return svcvt_f32_s32_x4(a); }

INSIDE svint32x4_t times256(svint32x4_t a) STREAMING { return svrshl_single_s32_x4(a, svdup_n_s32(8)); }

INSIDE void add4(uint32_t k, uint32_t i, svint32x4_t a) STREAMING { svadd_za32_s32_vg1x4(4 * i + k, a); }

INSIDE void add4_f32(uint32_t k, uint32_t i, svfloat32x4_t a) STREAMING { svadd_za32_f32_vg1x4(4 * i + k, a); }

/* Adds a * b, or takes it off. */
INSIDE void mla4_by(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32_t b) STREAMING
{
	svmla_single_za32_f32_vg1x4(4 * i + k, a, b);
}

INSIDE void mla4(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32x4_t b) STREAMING
{
	svmla_za32_f32_vg1x4(4 * i + k, a, b);
}

INSIDE void mls4(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32x4_t b) STREAMING
{
	svmls_za32_f32_vg1x4(4 * i + k, a, b);
}

/* Products of two columns of 16 bits; tile constant. */
#define SMOPA16(tile, a, b) svmopa_za32_s16_m(tile, svptrue_b16(), svptrue_b16(), a, b)
#else
#define FOUR(DO) DO(0), DO(1), DO(2), DO(3)
#define LOAD4(type, short)                                                                                \
	INSIDE sv##type##x4_t load4_##short(const type##_t *p) STREAMING                                      \
	{                                                                                                 \
		const int n = 64 / (int)sizeof *p;                                                        \
                                                                                                          \
		return svcreate4_##short(svld1_##short(svptrue_b8(), p), svld1_##short(svptrue_b8(), p + n), \
		                         svld1_##short(svptrue_b8(), p + 2 * n),                          \
		                         svld1_##short(svptrue_b8(), p + 3 * n));                         \
	}
LOAD4(uint8, u8)
LOAD4(int8, s8)
LOAD4(int16, s16)
LOAD4(float32, f32)

/* The instructions have their tile in them. */
#define OF_TILE(k, DO) ((k) == 0 ? DO(0) : (k) == 1 ? DO(1) : (k) == 2 ? DO(2) : DO(3))

INSIDE svint32_t read1(uint32_t k, uint32_t i) STREAMING
{
#define DO(t) svread_hor_za32_s32_m(svundef_s32(), svptrue_b32(), t, i)
	return OF_TILE(k, DO);
#undef DO
}

INSIDE void write1(uint32_t k, uint32_t i, svint32_t a) STREAMING
{
#define DO(t) svwrite_hor_za32_s32_m(t, i, svptrue_b32(), a)
	OF_TILE(k, DO);
#undef DO
}

INSIDE svfloat32_t read1_f32(uint32_t k, uint32_t i) STREAMING { return svreinterpret_f32_s32(read1(k, i)); }

INSIDE void write1_f32(uint32_t k, uint32_t i, svfloat32_t a) STREAMING { write1(k, i, svreinterpret_s32_f32(a)); }

#define READ(j) read1(k, i + 4 * (j))
INSIDE svint32x4_t read4(uint32_t k, uint32_t i) STREAMING { return svcreate4_s32(FOUR(READ)); }

#define READ_F32(j) read1_f32(k, i + 4 * (j))
INSIDE svfloat32x4_t read4_f32(uint32_t k, uint32_t i) STREAMING { return svcreate4_f32(FOUR(READ_F32)); }

#define CONVERT(j) svcvt_f32_s32_x(svptrue_b32(), svget4_s32(a, j))
INSIDE svfloat32x4_t floats4(svint32x4_t a) STREAMING { return svcreate4_f32(FOUR(CONVERT)); }

#define SHIFT(j) svlsl_n_s32_x(svptrue_b32(), svget4_s32(a, j), 8)
INSIDE svint32x4_t times256(svint32x4_t a) STREAMING { return svcreate4_s32(FOUR(SHIFT)); }

#define ADD(j) write1(k, i + 4 * (j), svadd_s32_x(svptrue_b32(), READ(j), svget4_s32(a, j)))
INSIDE void add4(uint32_t k, uint32_t i, svint32x4_t a) STREAMING { FOUR(ADD); }
#undef ADD

#define ADD(j) write1_f32(k, i + 4 * (j), svadd_f32_x(svptrue_b32(), READ_F32(j), svget4_f32(a, j)))
INSIDE void add4_f32(uint32_t k, uint32_t i, svfloat32x4_t a) STREAMING { FOUR(ADD); }
#undef ADD

#define MULTIPLY(op, j, b) write1_f32(k, i + 4 * (j), sv##op##_f32_x(svptrue_b32(), READ_F32(j), svget4_f32(a, j), b))
#define ADD(j) MULTIPLY(mla, j, b)
INSIDE void mla4_by(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32_t b) STREAMING { FOUR(ADD); }
#undef ADD

#define ADD(j) MULTIPLY(mla, j, svget4_f32(b, j))
INSIDE void mla4(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32x4_t b) STREAMING { FOUR(ADD); }
#undef ADD

#define ADD(j) MULTIPLY(mls, j, svget4_f32(b, j))
INSIDE void mls4(uint32_t k, uint32_t i, svfloat32x4_t a, svfloat32x4_t b) STREAMING { FOUR(ADD); }
#undef ADD

static __attribute__((noinline)) void smopa16(uint32_t tile, svint16_t a, svint16_t b) STREAMING
{
	int16_t x[T][2], w[T][2];

	svst1_s16(svptrue_b16(), x[0], a);
	svst1_s16(svptrue_b16(), w[0], b);
	for (uint32_t i = 0; i < T; i++) {
		int32_t sum[T];

		svst1_s32(svptrue_b32(), sum, read1(tile, i));
		for (int r = 0; r < T; r++)
			sum[r] += x[i][0] * w[r][0] + x[i][1] * w[r][1];
		write1(tile, i, svld1_s32(svptrue_b32(), sum));
	}
}
#define SMOPA16(tile, a, b) smopa16(tile, a, b)
#endif

INSIDE svfloat32_t floats_of_halves(const uint16_t *h) STREAMING
{
	const svbool_t all = svptrue_b32();

	return svcvt_f32_f16_x(all, svreinterpret_f16_u32(svld1uh_u32(all, h)));
}

/* ---- Q8_0. ---- */

/* Scales as floats. */
INSIDE void q8_0_scales(struct weights *w, const uint8_t *panel) STREAMING
{
	const uint16_t *d = (const uint16_t *)(panel + x16_line_bytes(QN_Q8_0, 8));

	w->lines = panel;
	for (int j = 0; j < 8; j++)
		svst1_f32(svptrue_b32(), w->d[j], floats_of_halves(d + T * j));
}

static void q8_0_sme2_prepare(struct weights *w, const void *panel) STREAMING { q8_0_scales(w, panel); }

static void q8_0_za_prepare(struct weights *w, const void *panel) STREAMING { q8_0_scales(w, panel); }

/* Without a smopa of 16 bits to take off the offset, weights become signed. */
static void q8_0_sme_prepare(struct weights *w, const void *panel) STREAMING
{
	const svbool_t all = svptrue_b8();

	q8_0_scales(w, panel);
	for (int i = 0; i < WORDS; i++)
		svst1_u8(all, (uint8_t *)w->q[i], sveor_n_u8_x(all, svld1_u8(all, w->lines + 64 * i), 128));
}

/* Adds products of eight words; slices are tokens, lanes are rows. */
INSIDE void dots(const int8_t *x, const int8_t *w) STREAMING
{
	const svbool_t all = svptrue_b8();

#pragma clang loop unroll(full)
	for (int i = 0; i < 8; i++)
		svmopa_za32_s8_m(0, all, all, svld1_s8(all, x + 64 * i), svld1_s8(all, w + 64 * i));
}

static void q8_0_sme_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32();

#define LOAD(t) svfloat32_t y##t = svld1_f32(all, y + (t) * T);
	EACH(LOAD)
	for (int j = 0; j < 8; j++) {
		const svfloat32_t d = svld1_f32(all, w->d[j]);
		const svfloat32_t dx0 = svld1rq_f32(all, x->d[j]), dx1 = svld1rq_f32(all, x->d[j] + 4);
		const svfloat32_t dx2 = svld1rq_f32(all, x->d[j] + 8), dx3 = svld1rq_f32(all, x->d[j] + 12);

		svzero_mask_za(TILE(0));
		dots(x->q[8 * j][0], w->q[8 * j][0]);
#define QUAD(t) ((t) < 4 ? dx0 : (t) < 8 ? dx1 : (t) < 12 ? dx2 : dx3)
#define ADD(t)                                                                                     \
	{                                                                                          \
		const svint32_t s = svread_hor_za32_s32_m(svundef_s32(), all, 0, t);               \
		y##t = svmla_lane_f32(y##t, svmul_f32_x(all, svcvt_f32_s32_x(all, s), d), QUAD(t), (t) % 4); \
	}
		EACH(ADD)
#undef ADD
	}
#define STORE(t) svst1_f32(all, y + (t) * T, y##t);
	EACH(STORE)
}

/* Four slices, by four rows' scales: element `lane`, constant, of each quad. */
INSIDE svfloat32x4_t scaled4(svint32x4_t s, int lane, svfloat32_t d0, svfloat32_t d1, svfloat32_t d2, svfloat32_t d3)
	STREAMING
{
	const svfloat32x4_t f = floats4(s);

#define BY(k) \
	(lane == 0 ? svmul_lane_f32(svget4_f32(f, k), d##k, 0) : lane == 1 ? svmul_lane_f32(svget4_f32(f, k), d##k, 1) \
	 : lane == 2 ? svmul_lane_f32(svget4_f32(f, k), d##k, 2) : svmul_lane_f32(svget4_f32(f, k), d##k, 3))
	return svcreate4_f32(BY(0), BY(1), BY(2), BY(3));
#undef BY
}

/*
 * Slices are rows here: four of them times four scales are products by element, and the tokens' scales, in lanes, are
 * the same for all. Two sub-blocks at once, in tiles 0 and 2, since a smopa waits for the one before it in its tile.
 */
static void q8_0_sme2_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32(), bytes = svptrue_b8();
	const svint16_t offset = svreinterpret_s16_s32(svdup_n_s32(0xff80)); /* -128 and 0 */

	for (int t = 0; t < T; t++)
		svld1_ver_za32(1, (uint32_t)t, all, y + t * T);
	for (uint32_t j = 0; j < 8; j += 2) {
		svzero_mask_za(TILE(0) | TILE(2));
		SMOPA16(0, offset, svld1_s16(bytes, x->sum[j][0]));
		SMOPA16(2, offset, svld1_s16(bytes, x->sum[j + 1][0]));
#pragma clang loop unroll(full)
		for (int i = 0; i < 8; i += 4) {
			const uint8_t *p = w->lines + 64 * (8 * j + i);
			const svuint8x4_t a = load4_u8(p), b = load4_u8(p + 8 * 64);
			const svint8x4_t c = load4_s8(x->q[8 * j + i][0]);
			const svint8x4_t e = load4_s8(x->q[8 * j + 8 + i][0]);

#define DOT(k)                                                                                    \
	svusmopa_za32_u8_m(0, bytes, bytes, svget4_u8(a, k), svget4_s8(c, k));                    \
	svusmopa_za32_u8_m(2, bytes, bytes, svget4_u8(b, k), svget4_s8(e, k));
			DOT(0) DOT(1) DOT(2) DOT(3)
#undef DOT
		}
#pragma clang loop unroll(full)
		for (uint32_t k = 0; k < 2; k++) {
			const float *p = w->d[j + k];
			const svfloat32_t d0 = svld1rq_f32(all, p), d1 = svld1rq_f32(all, p + 4);
			const svfloat32_t d2 = svld1rq_f32(all, p + 8), d3 = svld1rq_f32(all, p + 12);
			const svfloat32_t dx = svld1_f32(all, x->d[j + k]);

#define GROUP(i) mla4_by(1, i, scaled4(read4(2 * k, i), i, d0, d1, d2, d3), dx);
			GROUP(0) GROUP(1) GROUP(2) GROUP(3)
#undef GROUP
		}
	}
	for (int t = 0; t < T; t++)
		svst1_ver_za32(1, (uint32_t)t, all, y + t * T);
}

/*
 * Scales are fmla in the tiles too: f = 0 + d * sum, rounded once, as d * sum is, but for a product of -0, which makes
 * a difference only to a result that is -0. Slices are tokens: their scales are vectors in groups, which wait in
 * memory.
 */
static void q8_0_za_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32(), bytes = svptrue_b8();
	const svint16_t offset = svreinterpret_s16_s32(svdup_n_s32(0xff80));

	for (int t = 0; t < T; t++)
		svld1_hor_za32(1, (uint32_t)t, all, y + t * T);
	for (uint32_t j = 0; j < 8; j += 2) {
		svzero_mask_za(TILE(0) | TILE(2) | TILE(3));
		SMOPA16(0, svld1_s16(bytes, x->sum[j][0]), offset);
		SMOPA16(2, svld1_s16(bytes, x->sum[j + 1][0]), offset);
#pragma clang loop unroll(full)
		for (int i = 0; i < 8; i += 4) {
			const uint8_t *p = w->lines + 64 * (8 * j + i);
			const svuint8x4_t a = load4_u8(p), b = load4_u8(p + 8 * 64);
			const svint8x4_t c = load4_s8(x->q[8 * j + i][0]);
			const svint8x4_t e = load4_s8(x->q[8 * j + 8 + i][0]);

#define DOT(k)                                                                                    \
	svsumopa_za32_s8_m(0, bytes, bytes, svget4_s8(c, k), svget4_u8(a, k));                    \
	svsumopa_za32_s8_m(2, bytes, bytes, svget4_s8(e, k), svget4_u8(b, k));
			DOT(0) DOT(1) DOT(2) DOT(3)
#undef DOT
		}
#pragma clang loop unroll(full)
		for (uint32_t k = 0; k < 2; k++) {
			const svfloat32_t d = svld1_f32(all, w->d[j + k]);

			if (k)
				svzero_mask_za(TILE(3));
#pragma clang loop unroll(full)
			for (uint32_t i = 0; i < 4; i++)
				mla4_by(3, i, floats4(read4(2 * k, i)), d);
#pragma clang loop unroll(full)
			for (uint32_t i = 0; i < 4; i++)
				mla4(1, i, read4_f32(3, i), load4_f32(x->wide[j + k][4 * i]));
		}
	}
	for (int t = 0; t < T; t++)
		svst1_hor_za32(1, (uint32_t)t, all, y + t * T);
}

/* ---- Q4_K. ---- */

/* How a kernel wants scales. */
enum scale_form { WHOLE, FLOATS, BYTES };

/* Scales and minimums. As BYTES scales are four of a row in a word, in w->whole. */
INSIDE void q4_k_scales(enum scale_form form, struct weights *w, const struct x16_q4k *p) STREAMING
{
	const svbool_t all = svptrue_b32();
	svuint32_t two = svdup_n_u32(0), four = two;

	svst1_f32(all, w->d[0], floats_of_halves(p->d));
	svst1_f32(all, w->dmin, floats_of_halves(p->dmin));
#pragma clang loop unroll(full)
	for (int j = 0; j < 8; j++) {
		const svuint32_t lo = svld1ub_u32(all, p->sl[j]), both = svld1ub_u32(all, p->sh[j / 2]);
		const svuint32_t hi = j % 2 ? svlsr_n_u32_x(all, both, 4) : both;
		svuint32_t scale = svlsl_n_u32_x(all, svand_n_u32_x(all, hi, 3), 4);
		svuint32_t min = svlsl_n_u32_x(all, svand_n_u32_x(all, hi, 12), 2);

		scale = svorr_u32_x(all, scale, svand_n_u32_x(all, lo, 15));
		min = svorr_u32_x(all, min, svlsr_n_u32_x(all, lo, 4));
		if (form == FLOATS)
			svst1_f32(all, w->scale[j], svcvt_f32_u32_x(all, scale));
		else if (form == WHOLE)
			svst1_s32(all, w->whole[j], svreinterpret_s32_u32(scale));
		else
			svst1_s32(all, w->whole[j], svreinterpret_s32_u32(svmul_n_u32_x(all, scale, 0x01010101)));
		if (form == WHOLE) {
			four = j % 4 ? svorr_u32_x(all, four, svlsl_n_u32_x(all, min, (unsigned)(8 * (j % 4)))) : min;
			if (j % 4 == 3)
				svst1_u32(all, (uint32_t *)w->min4[j / 4][0], four);
		} else {
			two = j % 2 ? svorr_u32_x(all, two, svlsl_n_u32_x(all, min, 16)) : min;
			if (j % 2)
				svst1_u32(all, (uint32_t *)w->min[j / 2][0], two);
		}
	}
}

/* Nibbles as bytes. */
INSIDE void q4_k_nibbles(struct weights *w, const struct x16_q4k *p) STREAMING
{
	const svbool_t all = svptrue_b8();

	for (int part = 0; part < 4; part++)
#pragma clang loop unroll(full)
		for (int g = 0; g < 8; g++) {
			const svuint8_t line = svld1_u8(all, p->qs[8 * part + g][0]);

			svst1_u8(all, (uint8_t *)w->q[16 * part + g], svand_n_u8_x(all, line, 15));
			svst1_u8(all, (uint8_t *)w->q[16 * part + 8 + g], svlsr_n_u8_x(all, line, 4));
		}
}

static void q4_k_sme_prepare(struct weights *w, const void *panel) STREAMING
{
	q4_k_scales(WHOLE, w, panel);
	q4_k_nibbles(w, panel);
}

static void q4_k_sme2_prepare(struct weights *w, const void *panel) STREAMING
{
	q4_k_scales(FLOATS, w, panel);
	q4_k_nibbles(w, panel);
}

/* Word i of 256 columns, scaled: as 16 bits, or as planes. */
INSIDE void q4_k_scaled(int planes, struct weights *w, int i, svuint8_t q, svuint8_t scale) STREAMING
{
	const svbool_t all = svptrue_b8();
	const svuint16_t even = svmullb_u16(q, scale), odd = svmullt_u16(q, scale);

	if (planes) {
		const svuint8_t e = svreinterpret_u8_u16(even), o = svreinterpret_u8_u16(odd);

		svst1_u8(all, w->lo[i][0], svtrn1_u8(e, o));
		svst1_u8(all, w->hi[i][0], svtrn2_u8(e, o));
	} else {
		svst1_u16(all, (uint16_t *)w->scaled[i][0], even);
		svst1_u16(all, (uint16_t *)w->scaled[i][1], odd);
	}
}

INSIDE void q4_k_scale_all(int planes, struct weights *w, const struct x16_q4k *p) STREAMING
{
	const svbool_t all = svptrue_b8();

	q4_k_scales(BYTES, w, p);
	for (int part = 0; part < 4; part++) {
		const svuint8_t lo = svld1_u8(all, (const uint8_t *)w->whole[2 * part]);
		const svuint8_t hi = svld1_u8(all, (const uint8_t *)w->whole[2 * part + 1]);

#pragma clang loop unroll(full)
		for (int g = 0; g < 8; g++) {
			const svuint8_t line = svld1_u8(all, p->qs[8 * part + g][0]);

			q4_k_scaled(planes, w, 16 * part + g, svand_n_u8_x(all, line, 15), lo);
			q4_k_scaled(planes, w, 16 * part + 8 + g, svlsr_n_u8_x(all, line, 4), hi);
		}
	}
}

static void q4_k_planes_prepare(struct weights *w, const void *panel) STREAMING { q4_k_scale_all(1, w, panel); }

static void q4_k_16_prepare(struct weights *w, const void *panel) STREAMING { q4_k_scale_all(0, w, panel); }

/* Minimums meet sums in two planes, since SME has no smopa of 16 bits into 32. */
static void q4_k_sme_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32(), bytes = svptrue_b8();

#define ZERO(t) svint32_t s##t = svdup_n_s32(0);
	EACH(ZERO)
	for (int j = 0; j < 8; j++) {
		const svint32_t scale = svld1_s32(all, w->whole[j]);

		svzero_mask_za(TILE(0));
		dots(x->q[8 * j][0], w->q[8 * j][0]);
#define ADD(t) s##t = svmla_s32_x(all, s##t, svread_hor_za32_s32_m(svundef_s32(), all, 0, t), scale);
		EACH(ADD)
#undef ADD
	}
	svzero_mask_za(TILE(1) | TILE(2));
#pragma clang loop unroll(full)
	for (int k = 0; k < 2; k++) {
		const svuint8_t min = svld1_u8(bytes, w->min4[k][0]);

		svsumopa_za32_s8_m(1, bytes, bytes, svld1_s8(bytes, x->plane[k][0][0]), min);
		svsumopa_za32_s8_m(2, bytes, bytes, svld1_s8(bytes, x->plane[k][1][0]), min);
	}

	const svfloat32_t d = svld1_f32(all, w->d[0]), dmin = svld1_f32(all, w->dmin);
	const svfloat32_t dx0 = svld1rq_f32(all, x->d[0]), dx1 = svld1rq_f32(all, x->d[0] + 4);
	const svfloat32_t dx2 = svld1rq_f32(all, x->d[0] + 8), dx3 = svld1rq_f32(all, x->d[0] + 12);

#define FINISH(t)                                                                                                 \
	{                                                                                                         \
		const svint32_t h = svread_hor_za32_s32_m(svundef_s32(), all, 1, t);                              \
		const svint32_t l = svread_hor_za32_s32_m(svundef_s32(), all, 2, t);                              \
		const svfloat32_t m = svcvt_f32_s32_x(all, svadd_s32_x(all, svlsl_n_s32_x(all, h, 6), l));        \
		svfloat32_t a = svld1_f32(all, y + (t) * T);                                                      \
                                                                                                                  \
		a = svmls_f32_x(all, a, m, svmul_lane_f32(dmin, QUAD(t), (t) % 4));                               \
		a = svmla_f32_x(all, a, svcvt_f32_s32_x(all, s##t), svmul_lane_f32(d, QUAD(t), (t) % 4));         \
		svst1_f32(all, y + (t) * T, a);                                                                   \
	}
	EACH(FINISH)
}

/*
 * Adds a super-block whose sums are tile 0, of floats or integers; slices are tokens. An fmopa from zero makes the
 * products d * dx of all rows and tokens, each rounded once.
 */
INSIDE void q4_k_finish(int floats, float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32();
	const svfloat32_t dx = svld1_f32(all, x->d[0]);

	for (int t = 0; t < T; t++)
		svld1_hor_za32(1, (uint32_t)t, all, y + t * T);
	svzero_mask_za(TILE(2) | TILE(3));
#pragma clang loop unroll(full)
	for (int k = 0; k < 4; k++)
		SMOPA16(2, svld1_s16(svptrue_b16(), x->pair[k][0]), svld1_s16(svptrue_b16(), w->min[k][0]));
	svmopa_za32_f32_m(3, all, all, dx, svld1_f32(all, w->dmin));
#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < 4; i++)
		mls4(1, i, floats4(read4(2, i)), read4_f32(3, i));
	svzero_mask_za(TILE(3));
	svmopa_za32_f32_m(3, all, all, dx, svld1_f32(all, w->d[0]));
#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < 4; i++)
		mla4(1, i, floats ? read4_f32(0, i) : floats4(read4(0, i)), read4_f32(3, i));
	for (int t = 0; t < T; t++)
		svst1_hor_za32(1, (uint32_t)t, all, y + t * T);
}

/*
 * Scaled products add up as floats, in tiles 0 and 1, and exactly: those of four sub-blocks are at most
 * 4 * 63 * 32 * 15 * 127 = 15.4e6, less than 2^24. Those of eight are not. The sum of both tiles is rounded once, as
 * the integer is.
 */
static void q4_k_sme2_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t all = svptrue_b32(), bytes = svptrue_b8();

	svzero_mask_za(TILE(0) | TILE(1));
#pragma clang loop unroll(full)
	for (uint32_t half = 0; half < 2; half++)
		for (uint32_t j = 4 * half; j < 4 * half + 4; j += 2) {
			svzero_mask_za(TILE(2) | TILE(3));
#pragma clang loop unroll(full)
			for (uint32_t i = 0; i < 8; i += 4) {
				const svint8x4_t a = load4_s8(x->q[8 * j + i][0]);
				const svint8x4_t b = load4_s8(w->q[8 * j + i][0]);
				const svint8x4_t c = load4_s8(x->q[8 * j + 8 + i][0]);
				const svint8x4_t e = load4_s8(w->q[8 * j + 8 + i][0]);

#define DOT(k)                                                                                    \
	svmopa_za32_s8_m(2, bytes, bytes, svget4_s8(a, k), svget4_s8(b, k));                      \
	svmopa_za32_s8_m(3, bytes, bytes, svget4_s8(c, k), svget4_s8(e, k));
				DOT(0) DOT(1) DOT(2) DOT(3)
#undef DOT
			}
#pragma clang loop unroll(full)
			for (uint32_t k = 0; k < 2; k++) {
				const svfloat32_t scale = svld1_f32(all, w->scale[j + k]);

#pragma clang loop unroll(full)
				for (uint32_t i = 0; i < 4; i++)
					mla4_by(half, i, floats4(read4(2 + k, i)), scale);
			}
		}
#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < 4; i++)
		add4_f32(0, i, read4_f32(1, i));
	q4_k_finish(1, y, w, x);
}

/* Low planes in tile 0, high ones in tile 1: sum = 256 * [1] + [0]. */
static void q4_k_planes_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	const svbool_t bytes = svptrue_b8();

	svzero_mask_za(TILE(0) | TILE(1));
#pragma clang loop unroll_count(2)
	for (int i = 0; i < WORDS; i += 4) {
		const svint8x4_t a = load4_s8(x->q[i][0]);
		const svuint8x4_t lo = load4_u8(w->lo[i][0]), hi = load4_u8(w->hi[i][0]);

#define DOT(k)                                                                                    \
	svsumopa_za32_s8_m(0, bytes, bytes, svget4_s8(a, k), svget4_u8(lo, k));                   \
	svsumopa_za32_s8_m(1, bytes, bytes, svget4_s8(a, k), svget4_u8(hi, k));
		DOT(0) DOT(1) DOT(2) DOT(3)
#undef DOT
	}
#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < 4; i++)
		add4(0, i, times256(read4(1, i)));
	q4_k_finish(0, y, w, x);
}

/* Even columns in tile 0, odd ones in tile 1: a smopa waits for the one before it in its tile. */
static void q4_k_16_tile(float *y, const struct weights *w, const struct acts *x) STREAMING
{
	svzero_mask_za(TILE(0) | TILE(1));
#pragma clang loop unroll_count(4)
	for (int i = 0; i < WORDS; i += 2) {
		const svint16x4_t a = load4_s16(x->half[i][0][0]);
		const svint16x4_t b = load4_s16(w->scaled[i][0][0]);

#define DOT(k) SMOPA16((k) % 2, svget4_s16(a, k), svget4_s16(b, k));
		DOT(0) DOT(1) DOT(2) DOT(3)
#undef DOT
	}
#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < 4; i++)
		add4(0, i, read4(1, i));
	q4_k_finish(0, y, w, x);
}

/* ---- What calls them, and compares. ---- */

static const struct kernel {
	const char *name;
	int type;
	prepare_fn *prepare;
	tile_fn *tile;
} kernels[] = {
#define KERNEL(name, type) {#name, type, name##_prepare, name##_tile}
	KERNEL(q8_0_sme, QN_Q8_0),   KERNEL(q8_0_sme2, QN_Q8_0),   KERNEL(q8_0_za, QN_Q8_0), KERNEL(q4_k_sme, QN_Q4_K),
	KERNEL(q4_k_sme2, QN_Q4_K), KERNEL(q4_k_planes, QN_Q4_K), KERNEL(q4_k_16, QN_Q4_K),
};

struct job {
	const struct kernel *k;
	const uint8_t *panel;
	const struct acts *acts; /* [blocks][tiles] */
	float *y;                /* [tiles][16][16] */
	struct weights *w;
	int blocks, tiles, block_bytes;
};

static void run(const struct job *j) STREAMING
{
	for (int b = 0; b < j->blocks; b++) {
		j->k->prepare(j->w, j->panel + b * j->block_bytes);
		for (int t = 0; t < j->tiles; t++)
			j->k->tile(j->y + t * T * T, j->w, &j->acts[b * j->tiles + t]);
	}
}

/*
 * Runs a job in streaming mode. The compiler can enter it by itself, but with calls to a run-time library that not all
 * compilers bring. Streaming mode begins and ends with vectors of zeros, those that a callee has to keep included.
 */
static void in_streaming(const struct job *j)
{
	register const struct job *arg __asm__("x0") = j;

	__asm__ volatile("smstart\n\tblr %1\n\tsmstop"
	                 : "+r"(arg)
	                 : "r"(run)
	                 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
	                   "x15", "x16", "x17", "x18", "x30", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6",
	                   "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
	                   "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		exit(3);
	return p;
}

static uint32_t drawn(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(state >> 33);
}

/* A half between 2^-10 and 2^-3, of either sign. */
static uint16_t small_half(void)
{
	return (uint16_t)(drawn() % 2 << 15 | (5 + drawn() % 7) << 10 | drawn() % 1024);
}

/* A panel of random blocks, or of large weights and scales, of which some are odd and some even. */
static void fill_panel(int type, uint8_t *p, int blocks, int bytes, int largest)
{
	for (int b = 0; b < blocks; b++, p += bytes) {
		struct x16_q4k *k = (struct x16_q4k *)p;
		uint16_t *d = type == QN_Q4_K ? k->d : (uint16_t *)(p + x16_line_bytes(type, 8));

		for (int i = 0; i < bytes; i++)
			p[i] = (uint8_t)(largest ? 255 - drawn() % 4 / 3 : drawn());
		for (int i = 0; i < (type == QN_Q4_K ? 2 : 8) * T; i++)
			d[i] = small_half();
	}
}

static void fill_acts(int type, struct act8 *x, int n, int largest)
{
	for (; n--; x++) {
		int sum16[16] = {0};

		memset(x, 0, sizeof *x);
		for (int k = 0; k < QN_ACT_BLOCK; k++) {
			/* signs of one kind, or by sub-block, so that sums of few sub-blocks are large */
			const int sign = n % 3 == 0 || (n % 3 == 2 && k / 32 % 2) ? 1 : -1;

			const int q = (int)(largest ? 127 - drawn() % 2 : drawn() % 255);

			x->qs[k] = (int8_t)(largest ? q * sign : q - 127);
			sum16[k / 16] += x->qs[k];
		}
		if (type == QN_Q4_K) {
			for (int i = 0; i < 16; i++) {
				x->sum16[i] = (int16_t)sum16[i];
				x->sum32[i / 2] = (int16_t)(x->sum32[i / 2] + sum16[i]);
			}
			x->d = (float)(1 + drawn() % 1000) * 0x1.234p-12f;
		} else {
			for (int i = 0; i < 8; i++)
				x->d32[i] = (float)(1 + drawn() % 1000) * 0x1.234p-12f;
		}
	}
}

/* Arranges 16 tokens. */
static void arrange(int type, struct acts *a, const struct act8 *x)
{
	memset(a, 0, sizeof *a);
	for (int t = 0; t < T; t++)
		for (int k = 0; k < QN_ACT_BLOCK; k++) {
			const int8_t q = x[t].qs[k];

			a->q[k / 4][t][k % 4] = q;
			a->half[k / 4][k % 2][t][k % 4 / 2] = q;
			a->sum[k / 32][t][0] = (int16_t)(a->sum[k / 32][t][0] + q);
		}
	for (int t = 0; t < T; t++)
		for (int j = 0; j < 8; j++) {
			const int sum = a->sum[j][t][0], hi = (sum + 32) >> 6;

			a->pair[j / 2][t][j % 2] = (int16_t)sum;
			a->plane[j / 4][0][t][j % 4] = (int8_t)hi;
			a->plane[j / 4][1][t][j % 4] = (int8_t)(sum - 64 * hi);
			a->d[j][t] = type == QN_Q4_K ? x[t].d : x[t].d32[j];
			for (int i = 0; i < T; i++)
				a->wide[j][t % 4 * 4 + t / 4][i] = a->d[j][t];
		}
}

/* How many results of a kernel are not those of the scalar one. */
static int wrong(const struct kernel *k, int blocks, int tiles, int largest)
{
	static struct weights w;
	static struct kernels scalar;
	static float want[MOST_TOKENS * T], y[MOST_TOKENS * T];
	const int n = tiles * T, bytes = k->type == QN_Q4_K ? (int)sizeof(struct x16_q4k) : 8 * T * 34;
	uint8_t *panel = get((size_t)(blocks * bytes));
	struct act8 *x = get(sizeof *x * (size_t)(blocks * n));
	struct acts *a = get(sizeof *a * (size_t)(blocks * tiles));
	const struct job job = {k, panel, a, y, &w, blocks, tiles, bytes};
	int bad = 0;

	mm_init_scalar(&scalar);
	fill_panel(k->type, panel, blocks, bytes, largest);
	fill_acts(k->type, x, blocks * n, largest);
	for (int i = 0; i < blocks * tiles; i++)
		arrange(k->type, &a[i], &x[i * T]);
	memset(y, 0, sizeof y);
	in_streaming(&job);
	scalar.mm[k->type](want, panel, x, blocks * QN_ACT_BLOCK, n, n);
	for (int i = 0; i < n * T; i++)
		bad += memcmp(&want[i], &y[i], sizeof *y) != 0;
	free(panel);
	free(x);
	free(a);
	return bad;
}

static void skip(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	((ucontext_t *)context)->uc_mcontext.pc += 4;
}

int main(int argc, char **argv)
{
	int failed = 0, ran = 0;
	const struct sigaction on_unknown = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};

	if (argc > 1)
		sigaction(SIGILL, &on_unknown, NULL);

	if (svcntsb() != 64) {
		fprintf(stderr, "sme: a streaming length of %d bits; 512 are wanted\n", 8 * (int)svcntsb());
		return 2;
	}
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		const struct kernel *k = &kernels[i];

		if (argc > 1 && strcmp(argv[1], k->name))
			continue;
		ran++;
		if (argc > 1) {
			wrong(k, 1, 1, 0);
			continue;
		}
		for (int round = 0; round < 40; round++) {
			const int blocks = 1 + round % 4, tiles = 1 + round % 3;
			const int bad = wrong(k, blocks, tiles, round % 5 == 4);

			failed += bad != 0;
			if (bad)
				printf("%s: %d columns, %d tokens: %d of %d results differ\n", k->name,
				       blocks * QN_ACT_BLOCK, tiles * T, bad, tiles * T * T);
		}
	}
	if (!ran) {
		fprintf(stderr, "sme: no kernel %s\n", argv[1]);
		return 2;
	}
	if (argc > 1)
		return 0;
	printf("%d kernels, %s\n", ran, failed ? "not all equal" : "all bits equal to the scalar kernels");
	return failed != 0;
}
