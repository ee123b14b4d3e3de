// In which order do the BF16 instructions of x86 add?
//
// Claim      Kernels of BF16 on AMX tiles cannot have the bits of other instruction sets.
// Measure    Results of TDPBF16PS and VDPBF16PS, bit by bit, beside candidates in scalar fmaf. Normal numbers only:
//            both flush denormals. For tiles: two chains from 0, one of the 16 even and one of the 16 odd columns of
//            a row, added to each other and then to what was there. For vectors: the odd product first, then the even
//            one.
// Data       Random numbers over 1 to 24 powers of two.
// Threshold  option where no result differs: a numeric form "even and odd sums of 32 columns" is then possible on
//            every set; refuted where one differs.
#include "bench.h"

#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 16, PAIRS = 16, COLS = 2 * PAIRS };

static float wide(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float x;
	memcpy(&x, &u, 4);
	return x;
}

// A BF16 number whose exponent is one of `spread` below 2^16.
static uint16_t number(uint64_t *seed, int spread)
{
	uint64_t r = random64(seed);
	return (uint16_t)((r >> 40 & 1) << 15 | (119 + (r >> 33 & 0xff) % (unsigned)spread) << 7 |
	                  (r >> 50 & 127));
}

static float start(uint64_t *seed)
{
	return (float)((int64_t)(random64(seed) % 2000) - 1000) / 64;
}

static int differs(float a, float b)
{
	return memcmp(&a, &b, 4) != 0;
}

// Results of tiles that are not the two chains', of ROWS * ROWS for each try; -1 where the system gives no tiles.
static long tiles(long tries, uint64_t *seed)
{
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) ||
	    syscall(SYS_arch_prctl, 0x1023, 18)) // AMX-BF16; tile data
		return -1;
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t colsb[16];
		uint8_t rows[16];
	} __attribute__((packed)) config = {.palette = 1};
	for (int i = 0; i < 3; i++) {
		config.colsb[i] = 64;
		config.rows[i] = ROWS;
	}
	__asm__ volatile("ldtilecfg %0" ::"m"(config));
	static uint16_t x[ROWS][COLS], y[PAIRS][COLS]; // y has pairs of rows side by side
	static float was[ROWS][ROWS], is[ROWS][ROWS];
	long bad = 0;
	for (long t = 0; t < tries; t++) {
		for (int i = 0; i < ROWS; i++)
			for (int j = 0; j < COLS; j++) {
				x[i][j] = number(seed, 1 + (int)(t % 24));
				y[i][j] = number(seed, 1 + (int)(t % 24));
				is[i][j / 2] = was[i][j / 2] = start(seed);
			}
		__asm__ volatile("tileloadd (%0,%3,1), %%tmm0\n\ttileloadd (%1,%3,1), "
		                 "%%tmm1\n\ttileloadd (%2,%3,1), %%tmm2\n\t"
		                 "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%0,%3,1)"
		                 :
		                 : "r"(is), "r"(x), "r"(y), "r"((int64_t)64)
		                 : "memory");
		for (int i = 0; i < ROWS; i++)
			for (int j = 0; j < ROWS; j++) {
				float even = 0, odd = 0;
				for (int k = 0; k < PAIRS; k++) {
					even = fmaf(wide(x[i][2 * k]), wide(y[k][2 * j]), even);
					odd = fmaf(wide(x[i][2 * k + 1]), wide(y[k][2 * j + 1]),
					           odd);
				}
				bad += differs(was[i][j] + (even + odd), is[i][j]);
			}
	}
	__asm__ volatile("tilerelease");
	return bad;
}

#ifdef __AVX512BF16__
#include <immintrin.h>

static long vectors(long tries, uint64_t *seed)
{
	long bad = 0;
	for (long t = 0; t < tries; t++) {
		uint16_t x[32], y[32];
		float was[16], is[16];
		for (int i = 0; i < 32; i++) {
			x[i] = number(seed, 1 + (int)(t % 24));
			y[i] = number(seed, 1 + (int)(t % 24));
			was[i / 2] = start(seed);
		}
		_mm512_storeu_ps(is, _mm512_dpbf16_ps(_mm512_loadu_ps(was),
		                                      (__m512bh)_mm512_loadu_si512(x),
		                                      (__m512bh)_mm512_loadu_si512(y)));
		for (int i = 0; i < 16; i++) {
			float odd = fmaf(wide(x[2 * i + 1]), wide(y[2 * i + 1]), was[i]);
			bad += differs(fmaf(wide(x[2 * i]), wide(y[2 * i]), odd), is[i]);
		}
	}
	return bad;
}
#else
static long vectors(long tries, uint64_t *seed)
{
	(void)tries;
	(void)seed;
	return -1;
}
#endif

#else
static long tiles(long tries, uint64_t *seed)
{
	(void)tries;
	(void)seed;
	return -1;
}
#define vectors tiles
enum { ROWS = 16 };
#endif

static void report(const char *key, const char *measure, const char *what, long bad, long of)
{
	char text[200];
	if (bad < 0)
		snprintf(text, sizeof text, "this machine has no %s", what);
	else
		snprintf(text, sizeof text, "%ld of %ld results differ", bad, of);
	finding(key, measure, text, "option where none differs",
	        bad < 0 ? "open"
	        : bad   ? "refuted"
	                : "option");
}

int main(int argc, char **argv)
{
	const long tries = argc > 1 && !strcmp(argv[1], "quick") ? 100 : 4000;
	uint64_t seed = 88172645463325252u;
	printf("{\"lab\":\"amx\",\"findings\":[");
	report("order", "TDPBF16PS, two chains of fma", "AMX", tiles(tries, &seed),
	       tries * ROWS * ROWS);
	printf(",");
	report("vector", "VDPBF16PS, odd then even fma", "AVX-512 BF16", vectors(50 * tries, &seed),
	       50 * tries * 16);
	printf("]}\n");
	return 0;
}
