/* attn_avxvnni.c - attention over integers, a dot product per instruction. Flags: AVX2, AVX-VNNI. */
#include "x86/ints_ymm.h"
#include "x86/set.h"

#define VEC(name) name##_avxvnni
#define ATTN_VECS 1

typedef ints bytes;
typedef pair quad;

#define KEYS_OFFSET 1

static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	return (v16i){_mm256_dpwssd_avx_epi32(sum.lo, a.lo, b), _mm256_dpwssd_avx_epi32(sum.hi, a.hi, b)};
}

static inline bytes bytes_load(const uint8_t *p) { return ints_load((const int16_t *)p); }
static inline quad quad_of(const int8_t *p) { return pair_of((const int16_t *)p); }

static inline v16i bytes_dot(v16i sum, bytes a, quad b)
{
	return (v16i){_mm256_dpbusd_avx_epi32(sum.lo, a.lo, b), _mm256_dpbusd_avx_epi32(sum.hi, a.hi, b)};
}

#include "v16_attn_int.h"

void attn_init_avxvnni(struct kernels *k)
{
	attn_int_fill_avxvnni(k);
}
