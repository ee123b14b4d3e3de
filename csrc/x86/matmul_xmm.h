/*
 * matmul_xmm.h - the operations of tmpl/matmul_int.h on one byte per row. Included by all x86 sets, so it needs
 * no more than SSE4.1; their flags make it VEX code.
 */
#include <immintrin.h>
#include <stdint.h>

typedef __m128i rows;

static inline rows rows_load(const void *p) { return _mm_loadu_si128(p); }
static inline void rows_store(void *p, rows a) { _mm_storeu_si128(p, a); }
static inline rows rows_and(rows a, int mask) { return _mm_and_si128(a, _mm_set1_epi8((char)mask)); }
static inline rows rows_or(rows a, rows b) { return _mm_or_si128(a, b); }
static inline rows rows_sub(rows a, int n) { return _mm_sub_epi8(a, _mm_set1_epi8((char)n)); }
static inline rows rows_shr(rows a, int n, int mask) { return rows_and(_mm_srli_epi16(a, n), mask); }
static inline rows rows_shl(rows a, int n, int mask) { return rows_and(_mm_slli_epi16(a, n), mask); }

static inline void rows_zip(int8_t p[][2], rows a, rows b)
{
	rows_store(p, _mm_unpacklo_epi8(a, b));
	rows_store(p + 8, _mm_unpackhi_epi8(a, b));
}

/* 4 rows at a time, then a transposition of 4 by 4 words. */
static inline void rows_unzip4(void *p, const void *a)
{
	const __m128i by_byte = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	const __m128i *x = a;
	__m128i *y = p;
	const __m128i x0 = _mm_shuffle_epi8(_mm_loadu_si128(x), by_byte);
	const __m128i x1 = _mm_shuffle_epi8(_mm_loadu_si128(x + 1), by_byte);
	const __m128i x2 = _mm_shuffle_epi8(_mm_loadu_si128(x + 2), by_byte);
	const __m128i x3 = _mm_shuffle_epi8(_mm_loadu_si128(x + 3), by_byte);
	const __m128i lo0 = _mm_unpacklo_epi32(x0, x1), lo1 = _mm_unpacklo_epi32(x2, x3);
	const __m128i hi0 = _mm_unpackhi_epi32(x0, x1), hi1 = _mm_unpackhi_epi32(x2, x3);

	_mm_storeu_si128(y, _mm_unpacklo_epi64(lo0, lo1));
	_mm_storeu_si128(y + 1, _mm_unpackhi_epi64(lo0, lo1));
	_mm_storeu_si128(y + 2, _mm_unpacklo_epi64(hi0, hi1));
	_mm_storeu_si128(y + 3, _mm_unpackhi_epi64(hi0, hi1));
}
