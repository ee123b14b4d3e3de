/* cpu.c - what this x86 CPU and its OS support, and the choice of kernels. */
#include <cpuid.h>

#include "kernels.h"
#include "platform/platform.h"
#include "quern.h"
#include "x86/set.h"

#define XCR0_YMM (3 << 1)                 /* SSE and AVX state */
#define XCR0_ZMM (XCR0_YMM | 7 << 5)      /* opmask and both halves of zmm */
#define XCR0_AMX (3u << 17)               /* tile configuration and data */

static uint64_t xgetbv(void)
{
	uint32_t lo, hi;

	__asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

static int has(uint32_t reg, int bit)
{
	return reg >> bit & 1;
}

uint32_t qn_cpu_isa(void)
{
	uint32_t a, b, c, d, a7, b7, c7, d7, a71 = 0, unused, isa = 0;
	uint64_t xcr0;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, 27)) /* OSXSAVE */
		return 0;
	xcr0 = xgetbv();
	if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
		return 0;
	__get_cpuid_count(7, 1, &a71, &unused, &unused, &unused);

	/* AVX, FMA, F16C, AVX2 */
	if ((xcr0 & XCR0_YMM) != XCR0_YMM || !has(c, 28) || !has(c, 12) || !has(c, 29) || !has(b7, 5))
		return 0;
	isa |= QN_AVX2;
	if (has(a71, 4))
		isa |= QN_AVXVNNI;
	/* F, DQ, BW, VL */
	if (((xcr0 & XCR0_ZMM) != XCR0_ZMM && !sys_avx512()) || !has(b7, 16) || !has(b7, 17) || !has(b7, 30) ||
	    !has(b7, 31))
		return isa;
	isa |= QN_AVX512;
	if (!has(c7, 11))
		return isa;
	isa |= QN_AVX512VNNI;
	if (!has(a71, 5))
		return isa;
	isa |= QN_AVX512BF16;
	/* BF16, TILE, INT8 */
	if (has(d7, 22) && has(d7, 24) && has(d7, 25) && (xcr0 & XCR0_AMX) == XCR0_AMX && sys_amx())
		isa |= QN_AMX;
	return isa;
}

/*
 * What each vendor's cores want, measured (docs/kernels.md). Intel's prefetch follows many streams, but each
 * only within its page: one stream alone reaches two thirds of the memory's speed. AMD's up to Zen 4 keeps up with
 * short loops, which any distance makes slower, and with no others; from Zen 5 on it falls far short of the memory
 * in all.
 */
static void set_ahead(void)
{
	uint32_t max, vendor, a, b, c, d;

	qn_ahead = qn_ahead_short = qn_ahead_pair = qn_ahead_lanes = 0;
	if (!__get_cpuid(0, &max, &vendor, &c, &d) || !__get_cpuid(1, &a, &b, &c, &d))
		return;

	const uint32_t family = (a >> 8 & 15) + (a >> 20 & 255);

	if (vendor == signature_INTEL_ebx) {
		qn_ahead = qn_ahead_short = qn_ahead_pair = 2304;
		qn_ahead_lanes = 1;
	} else if (vendor == signature_AMD_ebx && family >= 0x1a) {
		qn_ahead = qn_ahead_short = 9216;
		qn_ahead_pair = 4608;
	} else if (vendor == signature_AMD_ebx) {
		qn_ahead = qn_ahead_pair = 4608;
	}
}

/* From the oldest set to the newest: the last assignment wins, an empty slot keeps the older one. */
void kernels_init_x86(struct kernels *k, uint32_t isa)
{
	set_ahead();
	if (isa & QN_AVX2) {
		float_init_avx2(k);
		mm_init_avx2(k);
	}
	if (isa & QN_AVXVNNI) {
		mm_init_avxvnni(k);
		attn_init_avxvnni(k);
	}
	if (isa & QN_AVX512) {
		float_init_avx512(k);
		mm_init_avx512(k);
	}
	if (isa & QN_AVX512VNNI) {
		mm_init_avx512vnni(k);
		attn_init_avx512vnni(k);
	}
	if (isa & QN_AVX512BF16)
		mm_init_avx512bf16(k);
	if (isa & QN_AMX)
		mm_init_amx(k);
}
