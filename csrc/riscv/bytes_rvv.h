/* bytes_rvv.h - the vector operations of tmpl/matmul_int.h, in groups of registers. */
#include "riscv/gather_rvv.h"
#include "riscv/lanes_rvv.h"
#include "riscv/quads_rvv.h"

typedef b16 rows;
typedef b64 bytes;
typedef quad_acts acts;
typedef i32 ints;
typedef v16 floats;

INLINE bytes bytes_load(const void *p)
{
	bytes a;

	memcpy(&a, p, sizeof a);
	return a;
}

INLINE void bytes_store(void *p, bytes a) { memcpy(p, &a, sizeof a); }
INLINE bytes bytes_and(bytes a, int mask) { return a & (uint8_t)mask; }
INLINE bytes bytes_or_and(bytes a, bytes b, int mask) { return a | (b & (uint8_t)mask); }
INLINE bytes bytes_shr(bytes a, int n) { return a >> (uint8_t)n; }
INLINE bytes bytes_shl(bytes a, int n) { return a << (uint8_t)n; }
INLINE bytes bytes_set1(int x) { return (bytes)(uint8_t)x; }
INLINE bytes bytes_add(bytes a, bytes b) { return a + b; }

/* 16 n bytes of a table, and zeros. */
INLINE bytes table_of(const uint8_t *t, int n)
{
	bytes y = bytes_set1(0);

	memcpy(&y, t, 16 * (size_t)n);
	return y;
}

INLINE bytes bytes_iq4(bytes a)
{
	/* qn_iq4_values + 128 */
	static const uint8_t table[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

	return b64_gather(table_of(table, 1), a);
}

INLINE bytes bytes_mxfp4(bytes a)
{
	/* qn_mxfp4_values + 12 */
	static const uint8_t table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

	return b64_gather(table_of(table, 1), a);
}

INLINE bytes bytes_lookup(bytes a, const uint8_t *t, int n)
{
	return a < 64 ? b64_gather(table_of(t, n), a) : bytes_set1(0);
}

INLINE bytes bytes_signed128(bytes a, bytes s)
{
	const bytes size = a > 128 ? a - 128 : 128 - a;

	return s > 127 ? 128 - size : 128 + size;
}

INLINE bytes bytes_widen(const uint16_t *p, int n)
{
	return (bytes)(__builtin_convertvector(u16_load(p), u32) + (uint32_t)n);
}

INLINE bytes bytes_mul32(bytes a, uint32_t m) { return (bytes)((u32)a * m); }

/* Sums of the four bytes of each word, at most 255. */
INLINE u32 sums4(bytes a)
{
	const u32 two = ((u32)a & 0xff00ff) + (((u32)a >> 8) & 0xff00ff);

	return (two + (two >> 16)) & 0xff;
}

INLINE bytes bytes_sums(bytes a, bytes b, bytes c, bytes d, int n)
{
	return (bytes)(sums4(a) | sums4(b) << 8 | sums4(c) << 16 | sums4(d) << 24) + (uint8_t)n;
}

/* The bits of 8 bytes, each as a byte of 0 or 1. */
INLINE bytes spread_bits(const uint8_t *s)
{
	typedef _Bool bits __attribute__((ext_vector_type(64)));
	bits b;

	memcpy(&b, s, 8);
	return __builtin_convertvector(b, bytes);
}

INLINE bytes bytes_signed(bytes a, const uint8_t *s)
{
	const bytes minus = -spread_bits(s);

	return (a ^ minus) - minus + 64;
}

INLINE bytes bytes_shifted(bytes a, const uint8_t *s) { return 8 * a + 57 - 2 * spread_bits(s); }

INLINE void bytes_unzip(void *p, bytes a, bytes b)
{
	const u32 x = (u32)a, y = (u32)b;
	const u32 even = __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	const u32 odd = __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);

	bytes_store(p, (bytes)even);
	bytes_store((uint8_t *)p + 64, (bytes)odd);
}

INLINE rows rows_load(const void *p)
{
	rows a;

	memcpy(&a, p, sizeof a);
	return a;
}

INLINE void rows_store(void *p, rows a) { memcpy(p, &a, sizeof a); }
INLINE rows rows_and(rows a, int mask) { return a & (uint8_t)mask; }
INLINE rows rows_or(rows a, rows b) { return a | b; }
INLINE rows rows_sub(rows a, int n) { return a - (uint8_t)n; }
INLINE rows rows_shl(rows a, int n, int mask) { return (a << (uint8_t)n) & (uint8_t)mask; }
INLINE rows rows_shr(rows a, int n, int mask) { return (a >> (uint8_t)n) & (uint8_t)mask; }

INLINE void rows_zip(int8_t p[][2], rows a, rows b)
{
	const u16 y = __builtin_convertvector(a, u16) | __builtin_convertvector(b, u16) << 8;

	memcpy(p, &y, sizeof y);
}

INLINE void rows_unzip4(void *p, const void *a)
{
	u32 x;

	memcpy(&x, a, sizeof x);
	for (int i = 0; i < 4; i++)
		rows_store((uint8_t *)p + 16 * i, __builtin_convertvector(x >> (uint32_t)(8 * i), rows));
}

INLINE acts acts_load(const void *p) { return quad_acts_load(p); }

INLINE ints ints_set1(int32_t x) { return (ints)x; }
INLINE ints ints_zero(void) { return ints_set1(0); }

INLINE ints ints_of8(const int8_t *p)
{
	typedef int8_t s8 __attribute__((ext_vector_type(16)));
	s8 a;

	memcpy(&a, p, sizeof a);
	return __builtin_convertvector(a, ints);
}

INLINE ints ints_add(ints a, ints b) { return a + b; }
INLINE ints ints_muladd(ints acc, ints a, ints b) { return acc + a * b; }
INLINE ints ints_dot(ints acc, bytes w, acts x) { return quads_dot(acc, quads_unsigned((u32)w), x); }
INLINE ints ints_dot_small(ints acc, bytes w, acts x) { return quads_dot_small(acc, quads_unsigned((u32)w), x); }

/* w - 128, for the top bit is worth 128 before and -128 after. */
INLINE ints ints_dot8(ints acc, bytes w, acts x) { return quads_dot(acc, quads_signed((u32)(w ^ 0x80)), x); }

INLINE ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	int16_t y[2];
	s16 both;

	memcpy(y, &x, sizeof y);
	memcpy(&both, a, sizeof both);
	acc += __builtin_convertvector((s16)((u16)both << 8) >> 8, ints) * (int32_t)y[0];
	return acc + __builtin_convertvector(both >> 8, ints) * (int32_t)y[1];
}

INLINE floats floats_set1(float x) { return (floats)x; }
INLINE floats floats_f16(const uint16_t *p) { return v16_load_f16(p); }
INLINE floats floats_of(ints a) { return __builtin_convertvector(a, floats); }
INLINE floats floats_bits(ints a) { return (floats)a; }
INLINE floats floats_mul(floats a, floats b) { return a * b; }

/* As f32_of_e8m0_half(). */
INLINE floats floats_e8m0(const uint8_t *p)
{
	const u32 e = __builtin_convertvector(rows_load(p), u32) << 23;

	return (floats)(e > 0x00400000 ? e : (u32)0x00400000) * 0.5f;
}

/* As f32_of_ue4m3_half(). */
INLINE floats floats_ue4m3(const uint8_t *p)
{
	return v16_of_f16(__builtin_convertvector(rows_load(p), u16) << 7) * 128;
}

INLINE floats floats_fma(floats a, floats b, floats c) { return __builtin_elementwise_fma(a, b, c); }
INLINE floats floats_fnma(floats a, floats b, floats c) { return __builtin_elementwise_fma(-a, b, c); }
INLINE floats floats_load(const float *p) { return v16_load(p); }
INLINE void floats_store(float *p, floats a) { v16_store(p, a); }
