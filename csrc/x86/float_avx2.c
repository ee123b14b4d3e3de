/* float_avx2.c - the float kernels, two ymm registers per vector. Flags: AVX2, FMA, F16C. */
#define FLAGS_AVX2
#define FLAGS_VECTORS
#include "flags.h"

#include "x86/set.h"

#define VEC(name) name##_avx2
#include "x86/lanes_ymm.h"
#include "tmpl/sums.h"
#include "tmpl/elementwise.h"
#include "tmpl/derivatives.h"
#include "tmpl/kv.h"

/* 12 registers of sums, 2 of weights and one for activations. */
#define MM_FLOAT_TOKENS 3
#include "tmpl/matmul_float.h"
#include "x86/twelve_ymm.h"
#include "tmpl/matmul_bf16.h"
#include "tmpl/product.h"

#define DELTA_PANELS 1
#include "tmpl/delta.h"

#define SCAN_PANELS 1
#include "tmpl/scan.h"

#include "tmpl/logits.h"

#define ATTN_VECS 1
#include "tmpl/attn_float.h"

#include "x86/ints_ymm.h"

/* In memory: with 12 sums, 2 vectors of keys and 2 for products no register is left. */
typedef const uint8_t *pair;
typedef int32_t __attribute__((may_alias)) word;

static inline pair pair_of(const void *p) { return p; }

/* As text, so that a product is added before the next one is made: GCC makes all of them first, and spills. */
static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	__m256i x, y;

	__asm__("vpbroadcastd %6, %2\n\t"
	        "vpmaddwd %2, %4, %3\n\tvpaddd %3, %0, %0\n\t"
	        "vpmaddwd %2, %5, %2\n\tvpaddd %2, %1, %1"
	        : "+x"(sum.lo), "+x"(sum.hi), "=&x"(x), "=&x"(y)
	        : "x"(a.lo), "x"(a.hi), "m"(*(const word *)b));
	return sum;
}

/* Half a vector of keys, as words of 16 bits: bytes 0 and 2 of each four, then 1 and 3. */
typedef struct {
	__m256i even, odd;
} bytes;
typedef const uint8_t *quad;

#define KEYS_OFFSET 1
#define KEYS_PARTS 2
#define QUAD_BYTES 8

static inline bytes bytes_load(const uint8_t *p)
{
	const __m256i a = _mm256_loadu_si256((const void *)p);

	return (bytes){_mm256_and_si256(a, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(a, 8)};
}

static inline quad quad_of(const void *p) { return p; }

/* 16 bytes: four quads, each in the order of the keys' words. */
static inline void quads_store(uint8_t *y, const uint8_t *x)
{
	const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x));

	_mm256_storeu_si256((void *)y, _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(a, 0xd8), 0xd8));
}

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	__m256i *half = part ? &sum.hi : &sum.lo, x;

	__asm__("vpbroadcastd %4, %1\n\tvpmaddwd %1, %2, %1\n\tvpaddd %1, %0, %0\n\t"
	        "vpbroadcastd %5, %1\n\tvpmaddwd %1, %3, %1\n\tvpaddd %1, %0, %0"
	        : "+x"(*half), "=&x"(x)
	        : "x"(a.even), "x"(a.odd), "m"(*(const word *)b), "m"(*(const word *)(b + 4)));
	return sum;
}

#include "tmpl/attn_int.h"

void float_init_avx2(struct kernels *k)
{
	vec_fill_avx2(k);
	derivatives_fill_avx2(k);
	kv_fill_avx2(k);
	v16_fill_avx2(k);
	bf16_fill_avx2(k);
	product_fill_avx2(k);
	delta_fill_avx2(k);
	scan_fill_avx2(k);
	logits_fill_avx2(k);
	attn_fill_avx2(k);
	attn_int_fill_avx2(k);
}

#include "flags_end.h"
