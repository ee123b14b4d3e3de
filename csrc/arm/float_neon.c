/* float_neon.c - the float kernels, four q registers per vector. Flags: none, NEON is the baseline. */
#include <arm_neon.h>

#include "arm/set.h"

#define VEC(name) name##_neon
#include "vec_tmpl.h"

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

/* Compared and selected, for fmax and fmaxnm do other things with NaN: b where a is not greater. */
static inline float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
/* And b where a is not less. */
static inline float32x4_t min4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }

#define LANEWISE(name, op)                                                                        \
	static inline v16 name(v16 a, v16 b)                                                          \
	{                                                                                             \
		return (v16){{op(a.q[0], b.q[0]), op(a.q[1], b.q[1]), op(a.q[2], b.q[2]), op(a.q[3], b.q[3])}}; \
	}
LANEWISE(v16_add, vaddq_f32)
LANEWISE(v16_sub, vsubq_f32)
LANEWISE(v16_mul, vmulq_f32)
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

/* All ones in the lanes below n. */
static inline uint32x4_t below(int n)
{
	static const int32_t lane[4] = {0, 1, 2, 3};

	return vcltq_s32(vld1q_s32(lane), vdupq_n_s32(n));
}

static inline v16 v16_first_or(v16 a, int n, float x)
{
	const float32x4_t b = vdupq_n_f32(x);

	return (v16){{vbslq_f32(below(n), a.q[0], b), vbslq_f32(below(n - 4), a.q[1], b),
	              vbslq_f32(below(n - 8), a.q[2], b), vbslq_f32(below(n - 12), a.q[3], b)}};
}

static inline v16 v16_first(v16 a, int n) { return v16_first_or(a, n, 0); }

static inline float32x4_t exp4(float32x4_t x)
{
#define SET(c) vdupq_n_f32(c)
	const float32x4_t v = max4(min4(x, SET(QEXP_MAX)), SET(QEXP_MIN));
	const float32x4_t t = vfmaq_f32(SET(QEXP_MAGIC), v, SET(QEXP_LOG2E));
	const float32x4_t n = vsubq_f32(t, SET(QEXP_MAGIC));
	const float32x4_t r = vfmsq_f32(vfmsq_f32(v, n, SET(QEXP_LN2_HI)), n, SET(QEXP_LN2_LO));
	const uint32x4_t e = vsubq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(bits_of_f32(QEXP_MAGIC) - 127));
	float32x4_t p = SET(QEXP_C7);

	p = vfmaq_f32(SET(QEXP_C6), p, r);
	p = vfmaq_f32(SET(QEXP_C5), p, r);
	p = vfmaq_f32(SET(QEXP_C4), p, r);
	p = vfmaq_f32(SET(QEXP_C3), p, r);
	p = vfmaq_f32(SET(QEXP_C2), p, r);
	p = vfmaq_f32(SET(1), p, r);
	p = vfmaq_f32(SET(1), p, r);
	p = vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(e, 23)));
	/* the lanes that are not below QEXP_MIN, NaN among them */
	return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), vcltq_f32(x, SET(QEXP_MIN))));
#undef SET
}

static inline v16 v16_exp(v16 a) { return (v16){{exp4(a.q[0]), exp4(a.q[1]), exp4(a.q[2]), exp4(a.q[3])}}; }

#include "v16.h"

void float_init_neon(struct kernels *k)
{
	vec_fill_neon(k);
	v16_fill_neon(k);
	/*
	 * Two tokens: 16 sums and two vectors of weights are what 32 registers hold. More spill: by GCC
	 * 12, F16 takes 8.6 instructions a column and token with 2 tokens, 9.3 with 4, 11.2 with 8.
	 */
	k->mm_tile[QN_F32] = k->mm_tile[QN_F16] = k->mm_tile[QN_BF16] = 2;
}
