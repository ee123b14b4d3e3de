/*
 * mm_xmm.h - the operations of mm_x16.h on one byte per row. Included by all x86 sets, so it needs
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
