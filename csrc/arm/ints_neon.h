/* ints_neon.h - integers of tmpl/attn_int.h in q registers, all but the products of bytes. */
#ifndef QN_ARM_INTS_NEON_H
#define QN_ARM_INTS_NEON_H

#include <string.h>

#include "arm/lanes_neon.h"

typedef struct {
	int32x4_t q[4];
} v16i;

/* The first and the second of each word, apart: words 0 .. 7, then 8 .. 15. */
typedef struct {
	int16x8_t first[2], second[2];
} ints;
typedef int16x4_t pair; /* in lanes 0 and 1 */

static inline v16i v16i_set1(int32_t x)
{
	const int32x4_t a = vdupq_n_s32(x);

	return (v16i){{a, a, a, a}};
}

static inline v16 v16i_float(v16i a)
{
	return (v16){{vcvtq_f32_s32(a.q[0]), vcvtq_f32_s32(a.q[1]), vcvtq_f32_s32(a.q[2]), vcvtq_f32_s32(a.q[3])}};
}

static inline ints ints_load(const int16_t *p)
{
	const int16x8x2_t a = vld2q_s16(p), b = vld2q_s16(p + 16);

	return (ints){{a.val[0], b.val[0]}, {a.val[1], b.val[1]}};
}

static inline ints ints_widen(const int8_t *p)
{
	const int8x16x2_t a = vld2q_s8(p);

	return (ints){{vmovl_s8(vget_low_s8(a.val[0])), vmovl_high_s8(a.val[0])},
	              {vmovl_s8(vget_low_s8(a.val[1])), vmovl_high_s8(a.val[1])}};
}

static inline pair pair_of(const void *p)
{
	int32_t x;

	memcpy(&x, p, sizeof x);
	return vreinterpret_s16_s32(vdup_n_s32(x));
}

static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	for (int i = 0; i < 2; i++) {
		int32x4_t lo = sum.q[2 * i], hi = sum.q[2 * i + 1];

		lo = vmlal_lane_s16(lo, vget_low_s16(a.first[i]), b, 0);
		hi = vmlal_high_lane_s16(hi, a.first[i], b, 0);
		sum.q[2 * i] = vmlal_lane_s16(lo, vget_low_s16(a.second[i]), b, 1);
		sum.q[2 * i + 1] = vmlal_high_lane_s16(hi, a.second[i], b, 1);
	}
	return sum;
}

typedef struct {
	int8x16_t q[4];
} bytes;
typedef int8x16_t quad;

#define KEYS_OFFSET 0

static inline bytes bytes_load(const uint8_t *p)
{
	bytes a;

	for (int i = 0; i < 4; i++)
		a.q[i] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + 16 * i), vdupq_n_u8(0x80)));
	return a;
}

static inline quad quad_of(const void *p)
{
	int32_t x;

	memcpy(&x, p, sizeof x);
	return vreinterpretq_s8_s32(vdupq_n_s32(x));
}

static inline void shorts_store(int16_t *p, v16 a)
{
	for (int i = 0; i < 4; i++)
		vst1_s16(p + 4 * i, vmovn_s32(vreinterpretq_s32_f32(a.q[i])));
}

#endif
