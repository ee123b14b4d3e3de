/*
 * matmul_ymm.h - the vector operations of tmpl/matmul_int.h on pairs of ymm registers, but for the products.
 * Included by the sets with 256-bit vectors.
 */
#include "x86/matmul_xmm.h"

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

static inline bytes bytes_mxfp4(bytes a)
{
	/* qn_mxfp4_values + 12 */
	const __m256i table = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));

	return (bytes){_mm256_shuffle_epi8(table, a.lo), _mm256_shuffle_epi8(table, a.hi)};
}

/* Entries of one of n tables of 16: bytes that are not its numbers get bit 7, and so 0. */
static inline __m256i lookup16(__m256i a, const uint8_t *t, int i, int n)
{
	const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t + i));

	if (n > 1)
		a = _mm256_adds_epu8(_mm256_sub_epi8(a, _mm256_set1_epi8((char)(16 * i))), _mm256_set1_epi8(0x70));
	return _mm256_shuffle_epi8(table, a);
}

static inline bytes bytes_lookup(bytes a, const uint8_t *t, int n)
{
	bytes y = {lookup16(a.lo, t, 0, n), lookup16(a.hi, t, 0, n)};

#pragma GCC unroll 4
	for (int i = 1; i < n; i++) {
		y.lo = _mm256_or_si256(y.lo, lookup16(a.lo, t, i, n));
		y.hi = _mm256_or_si256(y.hi, lookup16(a.hi, t, i, n));
	}
	return y;
}

static inline bytes bytes_add(bytes a, bytes b)
{
	return (bytes){_mm256_add_epi8(a.lo, b.lo), _mm256_add_epi8(a.hi, b.hi)};
}

static inline __m256i signed128(__m256i a, __m256i s)
{
	const __m256i offset = _mm256_set1_epi8((char)0x80);
	const __m256i size = _mm256_abs_epi8(_mm256_xor_si256(a, offset));

	return _mm256_xor_si256(_mm256_sign_epi8(size, _mm256_or_si256(s, _mm256_set1_epi8(1))), offset);
}

static inline bytes bytes_signed128(bytes a, bytes s) { return (bytes){signed128(a.lo, s.lo), signed128(a.hi, s.hi)}; }

static inline bytes bytes_widen(const uint16_t *p, int n)
{
	const __m256i a = _mm256_set1_epi32(n), lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));

	return (bytes){_mm256_add_epi32(lo, a),
	               _mm256_add_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + 8))), a)};
}

static inline bytes bytes_mul32(bytes a, uint32_t m)
{
	const __m256i b = _mm256_set1_epi32((int)m);

	return (bytes){_mm256_mullo_epi32(a.lo, b), _mm256_mullo_epi32(a.hi, b)};
}

/* Sums of two bytes, then of four, which lie by operand, and go to their rows at last. */
static inline __m256i sums(__m256i a, __m256i b, __m256i c, __m256i d, int n)
{
	const __m256i one = _mm256_set1_epi8(1);
	const __m256i by_row = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m256i ab = _mm256_packus_epi16(_mm256_maddubs_epi16(a, one), _mm256_maddubs_epi16(b, one));
	const __m256i cd = _mm256_packus_epi16(_mm256_maddubs_epi16(c, one), _mm256_maddubs_epi16(d, one));
	const __m256i all = _mm256_packus_epi16(_mm256_maddubs_epi16(ab, one), _mm256_maddubs_epi16(cd, one));

	return _mm256_add_epi8(_mm256_shuffle_epi8(all, by_row), _mm256_set1_epi8((char)n));
}

static inline bytes bytes_sums(bytes a, bytes b, bytes c, bytes d, int n)
{
	return (bytes){sums(a.lo, b.lo, c.lo, d.lo, n), sums(a.hi, b.hi, c.hi, d.hi, n)};
}

static inline acts acts_load(const void *p)
{
	int32_t x;

	__builtin_memcpy(&x, p, sizeof x);
	return _mm256_set1_epi32(x);
}

/* The bits of 4 bytes, each as a byte of zeros or ones. */
static inline __m256i spread_bits(const uint8_t *s)
{
	const __m256i at = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2,
	                                    3, 3, 3, 3, 3, 3, 3, 3);
	const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);

	return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(acts_load(s), at), bit), bit);
}

static inline __m256i signed4(__m256i a, __m256i minus)
{
	return _mm256_add_epi8(_mm256_set1_epi8(64), _mm256_sub_epi8(_mm256_xor_si256(a, minus), minus));
}

static inline bytes bytes_signed(bytes a, const uint8_t *s)
{
	return (bytes){signed4(a.lo, spread_bits(s)), signed4(a.hi, spread_bits(s + 4))};
}

static inline __m256i shifted4(__m256i a, __m256i minus)
{
	return _mm256_add_epi8(_mm256_add_epi8(_mm256_slli_epi16(a, 3), _mm256_set1_epi8(57)),
	                       _mm256_add_epi8(minus, minus));
}

static inline bytes bytes_shifted(bytes a, const uint8_t *s)
{
	return (bytes){shifted4(a.lo, spread_bits(s)), shifted4(a.hi, spread_bits(s + 4))};
}

/* The even or odd 32-bit words of a and b; the shuffle leaves the middle quarters swapped. */
#define UNZIP(a, b, which) \
	_mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), \
	                                                               _mm256_castsi256_ps(b), which)), 0xd8)

static inline void bytes_unzip(void *p, bytes a, bytes b)
{
	__m256i *y = p;

	_mm256_storeu_si256(y, UNZIP(a.lo, a.hi, 0x88));
	_mm256_storeu_si256(y + 1, UNZIP(b.lo, b.hi, 0x88));
	_mm256_storeu_si256(y + 2, UNZIP(a.lo, a.hi, 0xdd));
	_mm256_storeu_si256(y + 3, UNZIP(b.lo, b.hi, 0xdd));
}

static inline ints ints_zero(void) { return (ints){_mm256_setzero_si256(), _mm256_setzero_si256()}; }

static inline ints ints_set1(int32_t x) { return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }

static inline ints ints_of8(const int8_t *p)
{
	const rows a = rows_load(p);

	return (ints){_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(a, a))};
}

static inline ints ints_add(ints a, ints b)
{
	return (ints){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}

static inline ints ints_sra(ints a, int n)
{
	return (ints){_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}

static inline ints ints_muladd(ints acc, ints a, ints b)
{
	return (ints){_mm256_add_epi32(acc.lo, _mm256_mullo_epi32(a.lo, b.lo)),
	              _mm256_add_epi32(acc.hi, _mm256_mullo_epi32(a.hi, b.hi))};
}

static inline floats floats_set1(float x) { return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline floats floats_of(ints a) { return (floats){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
static inline floats floats_bits(ints a) { return (floats){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }

/* As f32_of_e8m0_half(). */
static inline __m256 e8m0(__m128i e)
{
	const __m256i u = _mm256_slli_epi32(_mm256_cvtepu8_epi32(e), 23);

	return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_max_epi32(u, _mm256_set1_epi32(0x00400000))),
	                     _mm256_set1_ps(0.5f));
}

static inline floats floats_e8m0(const uint8_t *p)
{
	const rows e = rows_load(p);

	return (floats){e8m0(e), e8m0(_mm_unpackhi_epi64(e, e))};
}

/* As f32_of_ue4m3_half(). */
static inline floats floats_ue4m3(const uint8_t *p)
{
	const __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(rows_load(p)), 7);
	const __m256 unit = _mm256_set1_ps(128);

	return (floats){_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), unit),
	                _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), unit)};
}

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
