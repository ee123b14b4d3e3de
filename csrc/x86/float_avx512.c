/* float_avx512.c - the float kernels, one zmm register per vector. Flags: F BW DQ VL, FMA. */
#define FLAGS_AVX512
#define FLAGS_VECTORS
#include "flags.h"

#include "x86/set.h"

#define VEC(name) name##_avx512
#include "x86/lanes_zmm.h"
#include "tmpl/sums.h"
#include "tmpl/elementwise.h"
#include "tmpl/derivatives.h"
#include "tmpl/kv.h"

#include "x86/quantize_zmm.h"

#define MM_FLOAT_TOKENS 12
#define MM_FLOAT_PAIRS 1
#define MM_FLOAT_PART 64
#include "tmpl/matmul_float.h"
#include "x86/twelve_zmm.h"
#include "tmpl/matmul_bf16.h"
#include "tmpl/product.h"

#define DELTA_PANELS 2
#include "tmpl/delta.h"

#define SCAN_PANELS 2
#include "tmpl/scan.h"

#include "tmpl/logits.h"

#define ATTN_VECS 4
#include "tmpl/attn_float.h"

#include "x86/ints_zmm.h"

static inline v16i ints_dot(v16i sum, ints a, pair b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }

/* Bytes as words of 16 bits: 0 and 2, then 1 and 3. */
typedef struct {
	__m512i even, odd;
} bytes;
typedef bytes quad;

#define KEYS_OFFSET 1
#define QUAD_BYTES 8

static inline bytes bytes_load(const uint8_t *p)
{
	const __m512i a = _mm512_loadu_si512(p);

	return (bytes){_mm512_and_si512(a, _mm512_set1_epi16(0xff)), _mm512_srli_epi16(a, 8)};
}

static inline quad quad_of(const void *p) { return (quad){pair_of(p), pair_of((const uint8_t *)p + 4)}; }

/* 16 bytes: four quads, each in the order of the keys' words. */
static inline void quads_store(uint8_t *y, const uint8_t *x)
{
	const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x));

	_mm256_storeu_si256((void *)y, _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(a, 0xd8), 0xd8));
}

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	return ints_dot(ints_dot(sum, a.even, b.even), a.odd, b.odd);
}

#include "tmpl/attn_int.h"

void float_init_avx512(struct kernels *k)
{
	vec_fill_avx512(k);
	derivatives_fill_avx512(k);
	kv_fill_avx512(k);
	k->quantize = quantize_256_avx512;
	v16_fill_avx512(k);
	bf16_fill_avx512(k);
	product_fill_avx512(k);
	delta_fill_avx512(k);
	scan_fill_avx512(k);
	logits_fill_avx512(k);
	attn_fill_avx512(k);
	attn_int_fill_avx512(k);
}

#include "flags_end.h"
