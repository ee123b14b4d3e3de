/*
 * mm_q.h - the vector operations of mm_x16.h on fours of q registers, but for the products of
 * bytes. Register j has rows 4j .. 4j + 3. Included by the sets with 128-bit vectors.
 */
#include <arm_neon.h>

typedef struct {
	uint8x16_t q[4];
} bytes;
typedef struct {
	int32x4_t q[4];
} ints;
typedef struct {
	float32x4_t q[4];
} floats;

/* f of each register, j its index: arguments are written with a.q[j]. */
#define FOUR(f) {{f(0), f(1), f(2), f(3)}}

static inline bytes bytes_load(const void *p)
{
	const uint8_t *b = p;

	return (bytes){{vld1q_u8(b), vld1q_u8(b + 16), vld1q_u8(b + 32), vld1q_u8(b + 48)}};
}
