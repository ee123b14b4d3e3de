/*
 * mm_avx512vnni_ahead.c - mm_avx512vnni.c with weights asked for ahead of use, for Intel's cores.
 *
 * One token from memory, one thread, Granite Rapids, read bandwidth 17.3 GB/s: Q4_K 13.5 -> 16.2 GB/s,
 * Q6_K 7.8 -> 12.9 GB/s. Distances of 2 to 16 KB differ little. On Zen 4, whose streams need no help,
 * every distance made it slower.
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
