/*
 * mm_avx512vnni_ahead.c - mm_avx512vnni.c with weights asked for ahead of use, for Intel's cores.
 *
 * One token from memory, one thread, Granite Rapids, read bandwidth 17.5 GB/s: Q4_K 15.3 -> 16.9 GB/s,
 * Q6_K 13.7 -> 15.5 GB/s. Half the distance does as well, twice is worse than nothing. On Zen 4, whose
 * streams need no help, every distance made it slower.
 */
#include "x86/set.h"

#include "x86/mm_zmm_vnni.h"

#define MM(name) name##_avx512vnni_ahead
#define MM_TILE 8
#define MM_AHEAD 2304

#include "mm_x16.h"

void mm_init_avx512vnni_ahead(struct kernels *k)
{
	mm_fill_avx512vnni_ahead(k);
}
