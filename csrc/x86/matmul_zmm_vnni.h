/*
 * matmul_zmm_vnni.h - the products of tmpl/matmul_int.h on zmm registers with VNNI: one vpdpbusd per word and token.
 */
#include "x86/matmul_zmm.h"

#define MM_DOT8_OFFSET 1

static inline ints ints_dot(ints acc, bytes w, acts x) { return _mm512_dpbusd_epi32(acc, w, x); }
static inline ints ints_dot8(ints acc, bytes w, acts x) { return _mm512_dpbusd_epi32(acc, w, x); }

static inline ints ints_pair(ints acc, const int8_t a[][2], acts x)
{
	return _mm512_dpwssd_epi32(acc, pairs16(a), x);
}
