/*
 * matmul_zmm.h - the vector operations of tmpl/matmul_int.h on zmm registers, but for the products. Included by
 * the sets with 512-bit vectors.
 */
#include "x86/matmul_xmm.h"

typedef __m512i bytes;
typedef __m512i ints;
typedef __m512i acts;
typedef __m512 floats;

static inline bytes bytes_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void bytes_store(void *p, bytes a) { _mm512_storeu_si512(p, a); }
static inline bytes bytes_and(bytes a, int mask) { return _mm512_and_si512(a, _mm512_set1_epi8((char)mask)); }

/* a | (b & mask): 0xf8 */
static inline bytes bytes_or_and(bytes a, bytes b, int mask)
{
	return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8((char)mask), 0xf8);
}

static inline bytes bytes_shr(bytes a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
static inline bytes bytes_shl(bytes a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }

static inline bytes bytes_iq4(bytes a)
{
	/* qn_iq4_values + 128 */
	const __m128i table = _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153, (char)166,
	                                    (char)181, (char)197, (char)217, (char)241);

	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), a);
}

static inline bytes bytes_mxfp4(bytes a)
{
	/* qn_mxfp4_values + 12 */
	const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);

	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), a);
}

static inline bytes bytes_signed(bytes a, const uint8_t *s)
{
	const __m512i base = _mm512_set1_epi8(64);
	uint64_t minus;

	__builtin_memcpy(&minus, s, sizeof minus);
	return _mm512_mask_sub_epi8(_mm512_add_epi8(base, a), minus, base, a);
}

static inline bytes bytes_shifted(bytes a, const uint8_t *s)
{
	const __m512i base = _mm512_set1_epi8(57);
	uint64_t minus;

	__builtin_memcpy(&minus, s, sizeof minus);
	return _mm512_add_epi8(_mm512_slli_epi16(a, 3), _mm512_mask_sub_epi8(base, minus, base, _mm512_set1_epi8(2)));
}

static inline void bytes_unzip(void *p, bytes a, bytes b)
{
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);

	_mm512_storeu_si512(p, _mm512_permutex2var_epi32(a, even, b));
	_mm512_storeu_si512((__m512i *)p + 1,
	                    _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b));
}

/* Entries of one of n tables of 16: bytes that are not its numbers get bit 7, and so 0. */
static inline bytes lookup16(bytes a, const uint8_t *t, int i, int n)
{
	const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)t + i));

	if (n > 1)
		a = _mm512_adds_epu8(_mm512_sub_epi8(a, _mm512_set1_epi8((char)(16 * i))), _mm512_set1_epi8(0x70));
	return _mm512_shuffle_epi8(table, a);
}

static inline bytes bytes_lookup(bytes a, const uint8_t *t, int n)
{
	bytes y = lookup16(a, t, 0, n);

#pragma GCC unroll 4
	for (int i = 1; i < n; i++)
		y = _mm512_or_si512(y, lookup16(a, t, i, n));
	return y;
}

static inline bytes bytes_add(bytes a, bytes b) { return _mm512_add_epi8(a, b); }

static inline bytes bytes_signed128(bytes a, bytes s)
{
	const __m512i offset = _mm512_set1_epi8((char)0x80);
	const __m512i size = _mm512_abs_epi8(_mm512_xor_si512(a, offset));

	return _mm512_mask_sub_epi8(_mm512_add_epi8(offset, size), _mm512_movepi8_mask(s), offset, size);
}

static inline bytes bytes_widen(const uint16_t *p, int n)
{
	return _mm512_add_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), _mm512_set1_epi32(n));
}

static inline bytes bytes_mul32(bytes a, uint32_t m) { return _mm512_mullo_epi32(a, _mm512_set1_epi32((int)m)); }

/* Sums of two bytes, then of four, which lie by operand, and go to their rows at last. */
static inline bytes bytes_sums(bytes a, bytes b, bytes c, bytes d, int n)
{
	const __m512i one = _mm512_set1_epi8(1);
	const __m512i by_row = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m512i ab = _mm512_packus_epi16(_mm512_maddubs_epi16(a, one), _mm512_maddubs_epi16(b, one));
	const __m512i cd = _mm512_packus_epi16(_mm512_maddubs_epi16(c, one), _mm512_maddubs_epi16(d, one));
	const __m512i all = _mm512_packus_epi16(_mm512_maddubs_epi16(ab, one), _mm512_maddubs_epi16(cd, one));

	return _mm512_add_epi8(_mm512_shuffle_epi8(all, by_row), _mm512_set1_epi8((char)n));
}

/* Of lines of four bytes of each of 16 rows: see scales_q45(). */
#define ROWS_IN_FOURS 1

static inline bytes rows_even(bytes a, bytes b) { return _mm512_shuffle_i32x4(a, b, 0x88); }
static inline bytes rows_odd(bytes a, bytes b) { return _mm512_shuffle_i32x4(a, b, 0xdd); }

/* The first 16 bytes of a, of b, the second of a, of b and so on. */
static inline void rows_store_zip16(void *p, bytes a, bytes b)
{
	const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);

	bytes_store(p, _mm512_permutex2var_epi64(a, first, b));
	bytes_store((__m512i *)p + 1,
	            _mm512_permutex2var_epi64(a, _mm512_add_epi64(first, _mm512_set1_epi64(4)), b));
}

/* The first byte of a, of b, the second of a, of b and so on. */
static inline void rows_store_zip(void *p, bytes a, bytes b)
{
	rows_store_zip16(p, _mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
}

static inline acts acts_load(const void *p)
{
	int32_t x;

	__builtin_memcpy(&x, p, sizeof x);
	return _mm512_set1_epi32(x);
}

static inline ints ints_zero(void) { return _mm512_setzero_si512(); }
static inline ints ints_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline ints ints_of8(const int8_t *p) { return _mm512_cvtepi8_epi32(rows_load(p)); }

static inline ints ints_add(ints a, ints b) { return _mm512_add_epi32(a, b); }
static inline ints ints_sra(ints a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
static inline ints ints_muladd(ints acc, ints a, ints b) { return _mm512_add_epi32(acc, _mm512_mullo_epi32(a, b)); }
static inline floats floats_set1(float x) { return _mm512_set1_ps(x); }
static inline floats floats_e8m0(const uint8_t *p)
{
	const __m512i e = _mm512_slli_epi32(_mm512_cvtepu8_epi32(rows_load(p)), 23);

	/* as f32_of_e8m0_half() */
	return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_max_epi32(e, _mm512_set1_epi32(0x00400000))),
	                     _mm512_set1_ps(0.5f));
}

/* As f32_of_ue4m3_half(). */
static inline floats floats_ue4m3(const uint8_t *p)
{
	return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(rows_load(p)), 7)),
	                     _mm512_set1_ps(128));
}

static inline floats floats_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
static inline floats floats_of(ints a) { return _mm512_cvtepi32_ps(a); }
static inline floats floats_bits(ints a) { return _mm512_castsi512_ps(a); }
static inline floats floats_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
static inline floats floats_fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats floats_fnma(floats a, floats b, floats c) { return _mm512_fnmadd_ps(a, b, c); }
static inline floats floats_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void floats_store(float *p, floats a) { _mm512_storeu_ps(p, a); }

/* [16][2] int8 as int16. */
static inline __m512i pairs16(const int8_t a[][2]) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)a)); }
