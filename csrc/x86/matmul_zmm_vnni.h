/*
 * matmul_zmm_vnni.h - the products of tmpl/matmul_int.h on zmm registers with VNNI: one vpdpbusd per word and token.
 */
#include "x86/matmul_zmm.h"

#define MM_DOT8_OFFSET 1
#define MM_TWOS 1

static inline ints ints_dot(ints acc, bytes w, acts x) { return _mm512_dpbusd_epi32(acc, w, x); }
static inline ints ints_dot8(ints acc, bytes w, acts x) { return _mm512_dpbusd_epi32(acc, w, x); }

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	return _mm512_dpwssd_epi32(acc, pairs16(a), x);
}

static inline ints ints_up(ints a) { return _mm512_slli_epi32(a, 16); }

static inline ints ints_twos(ints acc, ints a, ints b, const int16_t s[][2])
{
	const ints two = _mm512_xor_si512(_mm512_add_epi32(a, b), _mm512_set1_epi32(0x8000));

	return _mm512_dpwssd_epi32(acc, two, bytes_load(s));
}

static inline ints ints_both(ints acc, ints a, ints b, const int16_t s[][2])
{
	const ints two = _mm512_mask_mov_epi16(b, 0xaaaaaaaa, ints_up(a));

	return _mm512_dpwssd_epi32(acc, two, bytes_load(s));
}

/* In registers: CPUs do not forward two stores to one load. */
static inline void rows_zip16(int16_t p[][2], rows a, rows b)
{
	bytes_store(p, _mm512_cvtepi8_epi16(_mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b))));
}
