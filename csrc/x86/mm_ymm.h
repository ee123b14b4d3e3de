/*
 * mm_ymm.h - the vector operations of mm_x16.h on pairs of ymm registers, but for the products.
 * Included by the sets with 256-bit vectors.
 */
#include "x86/mm_xmm.h"

typedef struct {
	__m256i lo, hi;
} bytes;
typedef bytes ints;
typedef __m256i acts;
typedef struct {
	__m256 lo, hi;
} floats;

static inline bytes bytes_load(const void *p)
{
	return (bytes){_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1)};
}

static inline void bytes_store(void *p, bytes a)
{
	_mm256_storeu_si256(p, a.lo);
	_mm256_storeu_si256((__m256i *)p + 1, a.hi);
}

static inline bytes bytes_and(bytes a, int mask)
{
	const __m256i m = _mm256_set1_epi8((char)mask);

	return (bytes){_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}

static inline bytes bytes_or_and(bytes a, bytes b, int mask)
{
	const bytes c = bytes_and(b, mask);

	return (bytes){_mm256_or_si256(a.lo, c.lo), _mm256_or_si256(a.hi, c.hi)};
}

static inline bytes bytes_shr(bytes a, int n)
{
	return (bytes){_mm256_srli_epi16(a.lo, n), _mm256_srli_epi16(a.hi, n)};
}

static inline bytes bytes_shl(bytes a, int n)
{
	return (bytes){_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)};
}

static inline bytes bytes_iq4(bytes a)
{
	/* qn_iq4_values + 128 */
	const __m256i table = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153, (char)166, (char)181,
	                  (char)197, (char)217, (char)241));

	return (bytes){_mm256_shuffle_epi8(table, a.lo), _mm256_shuffle_epi8(table, a.hi)};
}

static inline acts acts_load(const void *p)
{
	int32_t x;

	__builtin_memcpy(&x, p, sizeof x);
	return _mm256_set1_epi32(x);
}

static inline ints ints_zero(void) { return (ints){_mm256_setzero_si256(), _mm256_setzero_si256()}; }

static inline ints ints_set1(int32_t x) { return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }

static inline ints ints_of8(const int8_t *p)
{
	const rows a = rows_load(p);

	return (ints){_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(a, a))};
}

static inline ints ints_muladd(ints acc, ints a, ints b)
{
	return (ints){_mm256_add_epi32(acc.lo, _mm256_mullo_epi32(a.lo, b.lo)),
	              _mm256_add_epi32(acc.hi, _mm256_mullo_epi32(a.hi, b.hi))};
}

static inline floats floats_set1(float x) { return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline floats floats_of(ints a) { return (floats){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

static inline floats floats_f16(const uint16_t *p)
{
	return (floats){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
	                _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}

static inline floats floats_mul(floats a, floats b)
{
	return (floats){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

static inline floats floats_fma(floats a, floats b, floats c)
{
	return (floats){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline floats floats_fnma(floats a, floats b, floats c)
{
	return (floats){_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

static inline floats floats_load(const float *p) { return (floats){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }

static inline void floats_store(float *p, floats a)
{
	_mm256_storeu_ps(p, a.lo);
	_mm256_storeu_ps(p + 8, a.hi);
}

/* [16][2] int8 as int16. */
static inline ints pairs16(const int8_t a[][2])
{
	return (ints){_mm256_cvtepi8_epi16(rows_load(a)), _mm256_cvtepi8_epi16(rows_load(a + 8))};
}
