/* ints_rvv.h - integers of tmpl/attn_int.h in groups of registers. */
#ifndef QN_RISCV_INTS_RVV_H
#define QN_RISCV_INTS_RVV_H

#include "riscv/lanes_rvv.h"
#include "riscv/quads_rvv.h"

typedef i32 v16i;

INLINE v16i v16i_set1(int32_t x) { return (v16i)x; }
INLINE v16 v16i_float(v16i a) { return __builtin_convertvector(a, v16); }

/* The first and the second of each word, apart. */
typedef struct {
	s16 first, second;
} ints;
typedef struct {
	int16_t of[2];
} pair; /* for all lanes */

INLINE ints ints_load(const int16_t *p)
{
	u32 a;

	memcpy(&a, p, sizeof a);
	return (ints){(s16)__builtin_convertvector(a, u16), (s16)__builtin_convertvector(a >> 16, u16)};
}

INLINE ints ints_widen(const int8_t *p)
{
	s16 a;

	memcpy(&a, p, sizeof a);
	return (ints){(s16)((u16)a << 8) >> 8, a >> 8};
}

INLINE pair pair_of(const void *p)
{
	pair x;

	memcpy(&x, p, sizeof x);
	return x;
}

INLINE v16i ints_dot(v16i sum, ints a, pair b)
{
	sum += __builtin_convertvector(a.first, v16i) * (int32_t)b.of[0];
	return sum + __builtin_convertvector(a.second, v16i) * (int32_t)b.of[1];
}

typedef quads bytes;
typedef quad_acts quad;

#define KEYS_OFFSET 0

INLINE bytes bytes_load(const uint8_t *p)
{
	u32 a;

	memcpy(&a, p, sizeof a);
	return quads_signed(a ^ 0x80808080);
}

INLINE quad quad_of(const void *p) { return quad_acts_load(p); }

/* |key| <= 128 and |query| <= 127. */
INLINE v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	return quads_dot(sum, a, b);
}

INLINE void shorts_store(int16_t *p, v16 a)
{
	const u16 y = __builtin_convertvector((u32)a, u16);

	memcpy(p, &y, sizeof y);
}

#endif
