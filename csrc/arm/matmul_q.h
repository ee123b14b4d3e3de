/*
 * matmul_q.h - the vector operations of tmpl/matmul_int.h on fours of q registers, but for the products of
 * bytes. Register j has rows 4j .. 4j + 3. Included by the sets with 128-bit vectors.
 */
#include <arm_neon.h>

typedef uint8x16_t rows;
typedef int8x16_t acts;
typedef struct {
	uint8x16_t q[4];
} bytes;
typedef struct {
	int32x4_t q[4];
} ints;
typedef struct {
	float32x4_t q[4];
} floats;

/* The function f of each register and of one operand for all. */
#define EACH1(f, a, b) {{f(a.q[0], b), f(a.q[1], b), f(a.q[2], b), f(a.q[3], b)}}
#define EACH2(f, a, b) {{f(a.q[0], b.q[0]), f(a.q[1], b.q[1]), f(a.q[2], b.q[2]), f(a.q[3], b.q[3])}}
#define EACH3(f, a, b, c) \
	{{f(a.q[0], b.q[0], c.q[0]), f(a.q[1], b.q[1], c.q[1]), f(a.q[2], b.q[2], c.q[2]), f(a.q[3], b.q[3], c.q[3])}}

static inline bytes bytes_load(const void *p)
{
	const uint8_t *b = p;

	return (bytes){{vld1q_u8(b), vld1q_u8(b + 16), vld1q_u8(b + 32), vld1q_u8(b + 48)}};
}

static inline void bytes_store(void *p, bytes a)
{
	uint8_t *b = p;

	vst1q_u8(b, a.q[0]);
	vst1q_u8(b + 16, a.q[1]);
	vst1q_u8(b + 32, a.q[2]);
	vst1q_u8(b + 48, a.q[3]);
}

static inline bytes bytes_and(bytes a, int mask) { return (bytes)EACH1(vandq_u8, a, vdupq_n_u8((uint8_t)mask)); }

static inline bytes bytes_or_and(bytes a, bytes b, int mask)
{
	b = bytes_and(b, mask);
	return (bytes)EACH2(vorrq_u8, a, b);
}

/* By register, where a negative count goes right: the forms with the count inside want a literal. */
static inline bytes bytes_shl(bytes a, int n) { return (bytes)EACH1(vshlq_u8, a, vdupq_n_s8((int8_t)n)); }
static inline bytes bytes_shr(bytes a, int n) { return bytes_shl(a, -n); }

static inline uint8x16_t lookup(uint8x16_t a, uint8x16_t table) { return vqtbl1q_u8(table, a); }

static inline bytes bytes_iq4(bytes a)
{
	/* qn_iq4_values + 128 */
	static const uint8_t table[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

	return (bytes)EACH1(lookup, a, vld1q_u8(table));
}

static inline bytes bytes_mxfp4(bytes a)
{
	/* qn_mxfp4_values + 12 */
	static const uint8_t table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

	return (bytes)EACH1(lookup, a, vld1q_u8(table));
}

static inline uint8x16_t lookup_in(uint8x16_t a, const uint8_t *t, int n)
{
	if (n == 1)
		return vqtbl1q_u8(vld1q_u8(t), a);
	if (n == 2)
		return vqtbl2q_u8((uint8x16x2_t){{vld1q_u8(t), vld1q_u8(t + 16)}}, a);
	return vqtbl4q_u8((uint8x16x4_t){{vld1q_u8(t), vld1q_u8(t + 16), vld1q_u8(t + 32), vld1q_u8(t + 48)}}, a);
}

static inline bytes bytes_lookup(bytes a, const uint8_t *t, int n)
{
	return (bytes){{lookup_in(a.q[0], t, n), lookup_in(a.q[1], t, n), lookup_in(a.q[2], t, n),
	                lookup_in(a.q[3], t, n)}};
}

static inline bytes bytes_set1(int x)
{
	const uint8x16_t a = vdupq_n_u8((uint8_t)x);

	return (bytes){{a, a, a, a}};
}

static inline bytes bytes_add(bytes a, bytes b) { return (bytes)EACH2(vaddq_u8, a, b); }

static inline uint8x16_t signed128(uint8x16_t a, uint8x16_t s)
{
	const uint8x16_t offset = vdupq_n_u8(128), size = vabdq_u8(a, offset);

	return vbslq_u8(vcltzq_s8(vreinterpretq_s8_u8(s)), vsubq_u8(offset, size), vaddq_u8(offset, size));
}

static inline bytes bytes_signed128(bytes a, bytes s) { return (bytes)EACH2(signed128, a, s); }

static inline bytes bytes_widen(const uint16_t *p, int n)
{
	const uint32x4_t a = vdupq_n_u32((uint32_t)n);
	bytes y;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		y.q[j] = vreinterpretq_u8_u32(vaddw_u16(a, vld1_u16(p + 4 * j)));
	return y;
}

static inline uint8x16_t mul32(uint8x16_t a, uint32_t m)
{
	return vreinterpretq_u8_u32(vmulq_n_u32(vreinterpretq_u32_u8(a), m));
}

static inline bytes bytes_mul32(bytes a, uint32_t m) { return (bytes)EACH1(mul32, a, m); }

/* Sums of two bytes, then of four, which lie by operand, and go to their rows at last. */
static inline bytes bytes_sums(bytes a, bytes b, bytes c, bytes d, int n)
{
	static const uint8_t by_row[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
	bytes y;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		const uint8x16_t ab = vpaddq_u8(a.q[j], b.q[j]), cd = vpaddq_u8(c.q[j], d.q[j]);

		y.q[j] = vaddq_u8(lookup(vld1q_u8(by_row), vpaddq_u8(ab, cd)), vdupq_n_u8((uint8_t)n));
	}
	return y;
}

/* The bits of 2 bytes, each as a byte of zeros or ones. */
static inline uint8x16_t spread_bits(const uint8_t *s)
{
	const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));

	return vtstq_u8(vcombine_u8(vdup_n_u8(s[0]), vdup_n_u8(s[1])), bit);
}

static inline uint8x16_t signed2(uint8x16_t a, const uint8_t *s)
{
	const uint8x16_t minus = spread_bits(s);

	return vaddq_u8(vdupq_n_u8(64), vsubq_u8(veorq_u8(a, minus), minus));
}

static inline bytes bytes_signed(bytes a, const uint8_t *s)
{
	return (bytes){{signed2(a.q[0], s), signed2(a.q[1], s + 2), signed2(a.q[2], s + 4), signed2(a.q[3], s + 6)}};
}

static inline uint8x16_t shifted2(uint8x16_t a, const uint8_t *s)
{
	const uint8x16_t minus = spread_bits(s);

	return vaddq_u8(vaddq_u8(vshlq_n_u8(a, 3), vdupq_n_u8(57)), vaddq_u8(minus, minus));
}

static inline bytes bytes_shifted(bytes a, const uint8_t *s)
{
	return (bytes){
		{shifted2(a.q[0], s), shifted2(a.q[1], s + 2), shifted2(a.q[2], s + 4), shifted2(a.q[3], s + 6)}};
}

static inline void bytes_unzip(void *p, bytes a, bytes b)
{
#define UNZIP(f, a, b) vreinterpretq_u8_u32(f(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
	uint8_t *y = p;

	vst1q_u8(y, UNZIP(vuzp1q_u32, a.q[0], a.q[1]));
	vst1q_u8(y + 16, UNZIP(vuzp1q_u32, a.q[2], a.q[3]));
	vst1q_u8(y + 32, UNZIP(vuzp1q_u32, b.q[0], b.q[1]));
	vst1q_u8(y + 48, UNZIP(vuzp1q_u32, b.q[2], b.q[3]));
	vst1q_u8(y + 64, UNZIP(vuzp2q_u32, a.q[0], a.q[1]));
	vst1q_u8(y + 80, UNZIP(vuzp2q_u32, a.q[2], a.q[3]));
	vst1q_u8(y + 96, UNZIP(vuzp2q_u32, b.q[0], b.q[1]));
	vst1q_u8(y + 112, UNZIP(vuzp2q_u32, b.q[2], b.q[3]));
#undef UNZIP
}

static inline rows rows_load(const void *p) { return vld1q_u8(p); }
static inline void rows_store(void *p, rows a) { vst1q_u8(p, a); }
static inline rows rows_and(rows a, int mask) { return vandq_u8(a, vdupq_n_u8((uint8_t)mask)); }
static inline rows rows_or(rows a, rows b) { return vorrq_u8(a, b); }
static inline rows rows_sub(rows a, int n) { return vsubq_u8(a, vdupq_n_u8((uint8_t)n)); }
static inline rows rows_shl(rows a, int n, int mask) { return rows_and(vshlq_u8(a, vdupq_n_s8((int8_t)n)), mask); }
static inline rows rows_shr(rows a, int n, int mask) { return rows_shl(a, -n, mask); }

static inline void rows_zip(int8_t p[][2], rows a, rows b)
{
	rows_store(p, vzip1q_u8(a, b));
	rows_store(p + 8, vzip2q_u8(a, b));
}

static inline void rows_unzip4(void *p, const void *a)
{
	const uint8x16x4_t x = vld4q_u8(a);
	uint8_t *y = p;

	vst1q_u8(y, x.val[0]);
	vst1q_u8(y + 16, x.val[1]);
	vst1q_u8(y + 32, x.val[2]);
	vst1q_u8(y + 48, x.val[3]);
}

static inline acts acts_load(const void *p)
{
	int32_t x;

	__builtin_memcpy(&x, p, sizeof x);
	return vreinterpretq_s8_s32(vdupq_n_s32(x));
}

static inline ints ints_set1(int32_t x)
{
	const int32x4_t a = vdupq_n_s32(x);

	return (ints){{a, a, a, a}};
}

static inline ints ints_zero(void) { return ints_set1(0); }

static inline ints ints_of8(const int8_t *p)
{
	const int8x16_t a = vld1q_s8(p);
	const int16x8_t lo = vmovl_s8(vget_low_s8(a)), hi = vmovl_high_s8(a);

	return (ints){{vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo), vmovl_s16(vget_low_s16(hi)),
	               vmovl_high_s16(hi)}};
}

static inline ints ints_add(ints a, ints b) { return (ints)EACH2(vaddq_s32, a, b); }
static inline ints ints_muladd(ints acc, ints a, ints b) { return (ints)EACH3(vmlaq_s32, acc, a, b); }

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	const int8x16x2_t b = vld2q_s8(a[0]);
	const int16x8_t lo0 = vmovl_s8(vget_low_s8(b.val[0])), hi0 = vmovl_high_s8(b.val[0]);
	const int16x8_t lo1 = vmovl_s8(vget_low_s8(b.val[1])), hi1 = vmovl_high_s8(b.val[1]);
	const int16x8_t y = vreinterpretq_s16_s8(x);

	acc.q[0] = vmlal_laneq_s16(acc.q[0], vget_low_s16(lo0), y, 0);
	acc.q[1] = vmlal_high_laneq_s16(acc.q[1], lo0, y, 0);
	acc.q[2] = vmlal_laneq_s16(acc.q[2], vget_low_s16(hi0), y, 0);
	acc.q[3] = vmlal_high_laneq_s16(acc.q[3], hi0, y, 0);
	acc.q[0] = vmlal_laneq_s16(acc.q[0], vget_low_s16(lo1), y, 1);
	acc.q[1] = vmlal_high_laneq_s16(acc.q[1], lo1, y, 1);
	acc.q[2] = vmlal_laneq_s16(acc.q[2], vget_low_s16(hi1), y, 1);
	acc.q[3] = vmlal_high_laneq_s16(acc.q[3], hi1, y, 1);
	return acc;
}

static inline floats floats_set1(float x)
{
	const float32x4_t a = vdupq_n_f32(x);

	return (floats){{a, a, a, a}};
}

/* As f32_of_e8m0_half(). */
static inline float32x4_t e8m0(uint16x4_t e)
{
	const uint32x4_t u = vmaxq_u32(vshlq_n_u32(vmovl_u16(e), 23), vdupq_n_u32(0x00400000));

	return vmulq_n_f32(vreinterpretq_f32_u32(u), 0.5f);
}

static inline floats floats_e8m0(const uint8_t *p)
{
	const uint8x16_t a = vld1q_u8(p);
	const uint16x8_t lo = vmovl_u8(vget_low_u8(a)), hi = vmovl_high_u8(a);

	return (floats){{e8m0(vget_low_u16(lo)), e8m0(vget_high_u16(lo)), e8m0(vget_low_u16(hi)),
	                 e8m0(vget_high_u16(hi))}};
}

static inline floats floats_f16(const uint16_t *p)
{
	const float16x8_t a = vreinterpretq_f16_u16(vld1q_u16(p)), b = vreinterpretq_f16_u16(vld1q_u16(p + 8));

	return (floats){{vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a),
	                 vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)}};
}

/* As f32_of_ue4m3_half(). */
static inline floats floats_ue4m3(const uint8_t *p)
{
	const uint8x16_t a = vld1q_u8(p);
	const float16x8_t lo = vreinterpretq_f16_u16(vshll_n_u8(vget_low_u8(a), 7));
	const float16x8_t hi = vreinterpretq_f16_u16(vshll_n_u8(vget_high_u8(a), 7));

	return (floats){{vmulq_n_f32(vcvt_f32_f16(vget_low_f16(lo)), 128), vmulq_n_f32(vcvt_high_f32_f16(lo), 128),
	                 vmulq_n_f32(vcvt_f32_f16(vget_low_f16(hi)), 128), vmulq_n_f32(vcvt_high_f32_f16(hi), 128)}};
}

static inline floats floats_of(ints a)
{
	return (floats){{vcvtq_f32_s32(a.q[0]), vcvtq_f32_s32(a.q[1]), vcvtq_f32_s32(a.q[2]), vcvtq_f32_s32(a.q[3])}};
}

static inline floats floats_bits(ints a)
{
	return (floats){{vreinterpretq_f32_s32(a.q[0]), vreinterpretq_f32_s32(a.q[1]), vreinterpretq_f32_s32(a.q[2]),
	                 vreinterpretq_f32_s32(a.q[3])}};
}

static inline floats floats_mul(floats a, floats b) { return (floats)EACH2(vmulq_f32, a, b); }
static inline floats floats_fma(floats a, floats b, floats c) { return (floats)EACH3(vfmaq_f32, c, a, b); }
static inline floats floats_fnma(floats a, floats b, floats c) { return (floats)EACH3(vfmsq_f32, c, a, b); }

static inline floats floats_load(const float *p)
{
	return (floats){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}

static inline void floats_store(float *p, floats a)
{
	vst1q_f32(p, a.q[0]);
	vst1q_f32(p + 4, a.q[1]);
	vst1q_f32(p + 8, a.q[2]);
	vst1q_f32(p + 12, a.q[3]);
}

/* Makes ints_dot() or ints_dot8() of dot(acc, w, x), which does 4 rows. */
#define INTS_DOT(name, dot)                                                  \
	static inline ints name(ints acc, bytes w, acts x)                       \
	{                                                                        \
		return (ints){{dot(acc.q[0], w.q[0], x), dot(acc.q[1], w.q[1], x),   \
		               dot(acc.q[2], w.q[2], x), dot(acc.q[3], w.q[3], x)}}; \
	}
