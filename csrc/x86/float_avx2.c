/* float_avx2.c - the float kernels, two ymm registers per vector. Flags: AVX2, FMA, F16C. */
#include "x86/set.h"

#define VEC(name) name##_avx2
#include "vec_tmpl.h"

#include "x86/v16_ymm.h"

#include "v16.h"

#define DELTA_PANELS 1
#include "v16_delta.h"

#define ATTN_VECS 1
#include "v16_attn.h"

#include "x86/ints_ymm.h"

static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	return (v16i){_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, b)),
	              _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, b))};
}

/* Bytes as words of 16 bits: 0 and 2, then 1 and 3. */
typedef struct {
	ints even, odd;
} bytes;
typedef struct {
	pair even, odd;
} quad;

#define KEYS_OFFSET 1

static inline bytes bytes_load(const uint8_t *p)
{
	const ints a = ints_load((const int16_t *)p);
	const __m256i mask = _mm256_set1_epi16(0xff);

	return (bytes){{_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)},
	               {_mm256_srli_epi16(a.lo, 8), _mm256_srli_epi16(a.hi, 8)}};
}

static inline quad quad_of(const void *p)
{
	const __m256i a = pair_of(p);

	return (quad){_mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8), _mm256_srai_epi16(a, 8)};
}

static inline v16i bytes_dot(v16i sum, bytes a, quad b)
{
	return ints_dot(ints_dot(sum, a.even, b.even), a.odd, b.odd);
}

#include "v16_attn_int.h"

void float_init_avx2(struct kernels *k)
{
	vec_fill_avx2(k);
	v16_fill_avx2(k);
	delta_fill_avx2(k);
	attn_fill_avx2(k);
	attn_int_fill_avx2(k);
}
