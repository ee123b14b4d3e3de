/* lanes_neon.h - the vector of tmpl/matmul_float.h, in four q registers. */
#ifndef QN_ARM_LANES_NEON_H
#define QN_ARM_LANES_NEON_H

#include <arm_neon.h>

#include "math/fp16.h"
#include "math/exp.h"

typedef struct {
	float32x4_t q[4]; /* lanes 0 .. 3, 4 .. 7, 8 .. 11, 12 .. 15 */
} v16;

static inline v16 v16_set1(float x)
{
	const float32x4_t a = vdupq_n_f32(x);

	return (v16){{a, a, a, a}};
}

static inline v16 v16_zero(void) { return v16_set1(0); }

static inline v16 v16_load(const float *p)
{
	return (v16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}

static inline void v16_store(float *p, v16 a)
{
	vst1q_f32(p, a.q[0]);
	vst1q_f32(p + 4, a.q[1]);
	vst1q_f32(p + 8, a.q[2]);
	vst1q_f32(p + 12, a.q[3]);
}

static inline v16 v16_load_f16(const uint16_t *p)
{
	const float16x8_t a = vreinterpretq_f16_u16(vld1q_u16(p)), b = vreinterpretq_f16_u16(vld1q_u16(p + 8));

	return (v16){{vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a),
	              vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)}};
}

static inline v16 v16_load_bf16(const uint16_t *p)
{
	const uint16x8_t a = vld1q_u16(p), b = vld1q_u16(p + 8);

	return (v16){{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(a), 16)),
	              vreinterpretq_f32_u32(vshll_high_n_u16(a, 16)),
	              vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(b), 16)),
	              vreinterpretq_f32_u32(vshll_high_n_u16(b, 16))}};
}

/* The low halves of 16 words, and the high ones, as BF16. */
static inline float32x4_t low4(const uint16_t *p)
{
	return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(vld1q_u16(p)), 16));
}

static inline float32x4_t high4(const uint16_t *p)
{
	return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(vld1q_u16(p)), vdupq_n_u32(0xffff0000)));
}

static inline v16 v16_load_low(const uint16_t *p) { return (v16){{low4(p), low4(p + 8), low4(p + 16), low4(p + 24)}}; }

static inline v16 v16_load_high(const uint16_t *p)
{
	return (v16){{high4(p), high4(p + 8), high4(p + 16), high4(p + 24)}};
}

/* Compared and selected, for fmax and fmaxnm do other things with NaN: b where a is not greater. */
static inline float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

#define LANEWISE(name, op)                                                                        \
	static inline v16 name(v16 a, v16 b)                                                          \
	{                                                                                             \
		return (v16){{op(a.q[0], b.q[0]), op(a.q[1], b.q[1]), op(a.q[2], b.q[2]), op(a.q[3], b.q[3])}}; \
	}
LANEWISE(v16_add, vaddq_f32)
LANEWISE(v16_sub, vsubq_f32)
LANEWISE(v16_mul, vmulq_f32)
LANEWISE(v16_div, vdivq_f32)
LANEWISE(v16_max, max4)
#undef LANEWISE

static inline v16 v16_fma(v16 a, v16 b, v16 c)
{
	return (v16){{vfmaq_f32(c.q[0], a.q[0], b.q[0]), vfmaq_f32(c.q[1], a.q[1], b.q[1]),
	              vfmaq_f32(c.q[2], a.q[2], b.q[2]), vfmaq_f32(c.q[3], a.q[3], b.q[3])}};
}

static inline float v16_sum(v16 a)
{
	const float32x4_t s4 = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));

	return vpadds_f32(vadd_f32(vget_low_f32(s4), vget_high_f32(s4)));
}

static inline float v16_maxall(v16 a)
{
	const float32x4_t m4 = max4(max4(a.q[0], a.q[2]), max4(a.q[1], a.q[3]));
	const float32x4_t m2 = max4(m4, vextq_f32(m4, m4, 2));

	return vgetq_lane_f32(max4(m2, vextq_f32(m2, m2, 1)), 0);
}

static inline void v16_sum4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_sum(a[i]);
}

static inline void v16_max4(float y[4], const v16 a[4])
{
	for (int i = 0; i < 4; i++)
		y[i] = v16_maxall(a[i]);
}

/* All ones in the lanes below n. */
static inline uint32x4_t below(int n)
{
	static const int32_t lane[4] = {0, 1, 2, 3};

	return vcltq_s32(vld1q_s32(lane), vdupq_n_s32(n));
}

static inline v16 v16_within_or(v16 a, int from, int lim, float x)
{
	v16 y;

	for (int i = 0; i < 4; i++)
		y.q[i] = vbslq_f32(vbicq_u32(below(lim - 4 * i), below(from - 4 * i)), a.q[i], vdupq_n_f32(x));
	return y;
}

static inline v16 v16_iota(void)
{
	static const float lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

	return v16_load(lane);
}

static inline float32x4_t copysign4(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vdupq_n_u32(0x80000000), b, a);
}

static inline v16 v16_copysign(v16 a, v16 b)
{
	return (v16){{copysign4(a.q[0], b.q[0]), copysign4(a.q[1], b.q[1]), copysign4(a.q[2], b.q[2]),
	              copysign4(a.q[3], b.q[3])}};
}

static inline uint32x4_t within4(float32x4_t x, float32x4_t from, float32x4_t to)
{
	return vandq_u32(vcgeq_f32(x, from), vcleq_f32(x, to));
}

/* The lanes within from .. to, as bits. */
static inline uint32_t v16_within(v16 x, v16 from, v16 to)
{
	static const uint32_t bit[4] = {1, 2, 4, 8};
	uint32_t y = 0;

	for (int i = 0; i < 4; i++)
		y |= vaddvq_u32(vandq_u32(vld1q_u32(bit), within4(x.q[i], from.q[i], to.q[i]))) << 4 * i;
	return y;
}

/* a in the lanes where x is within from .. to, else 0. */
static inline v16 v16_where(v16 a, v16 x, v16 from, v16 to)
{
	for (int i = 0; i < 4; i++)
		a.q[i] = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a.q[i]),
		                                         within4(x.q[i], from.q[i], to.q[i])));
	return a;
}

static inline float32x4_t exp2_4(float32x4_t x)
{
#define SET(c) vdupq_n_f32(c)
	const float32x4_t v = max4(SET(QEXP2_MIN), x), t = vaddq_f32(v, SET(QEXP_MAGIC));
	const float32x4_t r = vsubq_f32(v, vsubq_f32(t, SET(QEXP_MAGIC)));
	const uint32x4_t e = vsubq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(bits_of_f32(QEXP_MAGIC) - 127));
	float32x4_t p = SET(QEXP2_C6);

	p = vfmaq_f32(SET(QEXP2_C5), p, r);
	p = vfmaq_f32(SET(QEXP2_C4), p, r);
	p = vfmaq_f32(SET(QEXP2_C3), p, r);
	p = vfmaq_f32(SET(QEXP2_C2), p, r);
	p = vfmaq_f32(SET(QEXP2_C1), p, r);
	p = vfmaq_f32(SET(1), p, r);
	p = vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(e, 23)));
	/* the lanes that are not below QEXP2_MIN, NaN among them */
	return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), vcltq_f32(x, SET(QEXP2_MIN))));
#undef SET
}

static inline v16 v16_exp2(v16 a)
{
	return (v16){{exp2_4(a.q[0]), exp2_4(a.q[1]), exp2_4(a.q[2]), exp2_4(a.q[3])}};
}

#endif
