// Does a decoder keep up with memory?
//
// Claim      Lossless entropy coding of codes makes generation faster, since fewer bytes are read.
// Measure    One thread. Codes of four bits with the frequencies of rounded normal numbers, in rANS of 128
//            interleaved states whose tables are in registers (AVX-512 VBMI): codes a second, beside the codes that
//            memory gives in 4.5 bits.
// Data       Random numbers; the fastest of many short runs, since other programs may be running.
// Threshold  adopted where it decodes as fast as memory gives codes, refuted below half of that.
#include "bench.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512VBMI__) && defined(__AVX512VBMI2__) && defined(__AVX512BW__)
#include <immintrin.h>

enum { STATES = 128, LEVELS = 16, SCALE = 256, LOW = 1 << 16 };

struct frequencies {
	uint32_t count[LEVELS], from[LEVELS]; // of SCALE
	uint8_t level[SCALE];
};

// Those of a normal number rounded to 16 levels whose outermost is at 1.8 deviations.
static void fill(struct frequencies *f)
{
	double p[LEVELS], sum = 0;
	uint32_t total = 0;
	for (int i = 0; i < LEVELS; i++) {
		double z = (i - 7.5) / 4.2;
		sum += p[i] = exp(-z * z / 2);
	}
	for (int i = 0; i < LEVELS; i++) {
		f->count[i] = (uint32_t)(p[i] / sum * SCALE + 0.5);
		total += f->count[i] += !f->count[i];
	}
	f->count[7] += SCALE - total;
	for (int i = 0, at = 0; i < LEVELS; i++) {
		f->from[i] = (uint32_t)at;
		memset(f->level + at, i, f->count[i]);
		at += (int)f->count[i];
	}
}

// Writes words backwards before end, leaves the states that decoding begins with, and returns where the words begin.
static uint16_t *encode(const struct frequencies *f, const uint8_t *codes, size_t n,
                        uint32_t *states, uint16_t *end)
{
	for (int i = 0; i < STATES; i++)
		states[i] = LOW;
	for (size_t i = n; i-- > 0;) {
		uint32_t *x = &states[i % STATES], count = f->count[codes[i]];
		if (*x >= (uint64_t)(LOW / SCALE * count) << 16) {
			*--end = (uint16_t)*x;
			*x >>= 16;
		}
		*x = *x / count * SCALE + *x % count + f->from[codes[i]];
	}
	return end;
}

// Decodes n codes, a multiple of STATES; returns the least seconds that a part of `part` codes took.
static double decode(const struct frequencies *f, const uint16_t *in, const uint32_t *states,
                     uint8_t *out, size_t n, size_t part)
{
	const __m512i counts = _mm512_loadu_si512(f->count), froms = _mm512_loadu_si512(f->from);
	const __m512i t0 = _mm512_loadu_si512(f->level), t1 = _mm512_loadu_si512(f->level + 64);
	const __m512i t2 = _mm512_loadu_si512(f->level + 128),
		      t3 = _mm512_loadu_si512(f->level + 192);
	__m512i x[STATES / 16];
	double best = INFINITY;
	for (int v = 0; v < STATES / 16; v++)
		x[v] = _mm512_loadu_si512(states + 16 * v);
	for (size_t i = 0; i < n;) {
		double start = seconds();
		for (size_t stop = i + part; i < stop; i += STATES) {
#pragma GCC unroll 8
			for (int v = 0; v < STATES / 16; v++) {
				__m512i slot = _mm512_and_si512(x[v], _mm512_set1_epi32(SCALE - 1));
				__m512i low = _mm512_permutex2var_epi8(t0, slot, t1),
					high = _mm512_permutex2var_epi8(t2, slot, t3);
				__m512i level =
					_mm512_mask_mov_epi8(low, _mm512_movepi8_mask(slot), high);
				level = _mm512_and_si512(level, _mm512_set1_epi32(LEVELS - 1));
				__m512i count = _mm512_permutexvar_epi32(level, counts),
					from = _mm512_permutexvar_epi32(level, froms);
				__m512i y = _mm512_mullo_epi32(count, _mm512_srli_epi32(x[v], 8));
				y = _mm512_add_epi32(y, _mm512_sub_epi32(slot, from));
				__mmask16 empty =
					_mm512_cmplt_epu32_mask(y, _mm512_set1_epi32(LOW));
				__m256i words = _mm256_maskz_expand_epi16(
					empty, _mm256_loadu_si256((const void *)in));
				in += __builtin_popcount(empty);
				x[v] = _mm512_mask_or_epi32(y, empty, _mm512_slli_epi32(y, 16),
				                            _mm512_cvtepu16_epi32(words));
				_mm_storeu_si128((void *)(out + i + 16 * v),
				                 _mm512_cvtepi32_epi8(level));
			}
		}
		best = least(best, seconds() - start);
	}
	return best;
}

// Bytes a second of four streams.
static double reading(const uint8_t *p, size_t bytes)
{
	const size_t part = 4 << 20, quarter = bytes / 4;
	double best = INFINITY;
	volatile int sink = 0;
	for (size_t at = 0; at + part <= quarter; at += part) {
		double start = seconds();
		__m512i s = _mm512_setzero_si512();
		for (size_t i = at; i < at + part; i += 64)
			for (int k = 0; k < 4; k++)
				s = _mm512_add_epi32(
					s, _mm512_load_si512(p + (size_t)k * quarter + i));
		sink += _mm512_reduce_add_epi32(s);
		best = least(best, seconds() - start);
	}
	return 4.0 * part / best;
}

int main(int argc, char **argv)
{
	const int quick = argc > 1 && !strcmp(argv[1], "quick");
	uint64_t seed = 88172645463325252u;
	char text[200];
	struct frequencies f;
	const size_t n = (size_t)(quick ? 4 : 32) << 20, part = (size_t)STATES << 9,
		     buffer = (size_t)(quick ? 64 : 256) << 20;
	uint8_t *codes = lines(n), *back = lines(n), *memory = lines(buffer);
	uint16_t *words = lines(2 * n + 64);
	uint32_t states[STATES];
	fill(&f);
	for (size_t i = 0; i < n; i++)
		codes[i] = f.level[random64(&seed) >> 20 & (SCALE - 1)];
	const uint16_t *in = encode(&f, codes, n, states, words + n);
	const double coded = 16.0 * (double)(words + n - in) / (double)n;
	const double rate = (double)part / decode(&f, in, states, back, n, part);
	if (memcmp(codes, back, n)) {
		fprintf(stderr, "other codes were decoded\n");
		return 1;
	}
	memset(memory, 1, buffer);
	const double bytes = reading(memory, buffer), given = bytes * 8 / 4.5;
	printf("{\"lab\":\"rans\",\"head\":[\"one thread\",\"G codes/s\"],\"rows\":[[\"rANS, %.3f "
	       "bits a code\",\"%.2f\"],",
	       coded, rate * 1e-9);
	printf("[\"memory, %.1f GB/s, in 4.5 bits\",\"%.1f\"]],\"findings\":[", bytes * 1e-9,
	       given * 1e-9);
	snprintf(text, sizeof text,
	         "%.1f G codes a second, where memory gives %.0f: %.0f times too slow", rate * 1e-9,
	         given * 1e-9, given / rate);
	finding("rans", "rANS of 4-bit codes, one thread", text, "adopt at the speed of memory",
	        rate >= given      ? "adopted"
	        : rate < given / 2 ? "refuted"
	                           : "open");
	printf("]}\n");
	return 0;
}

#else

int main(void)
{
	printf("{\"lab\":\"rans\",\"findings\":[");
	finding("rans", "rANS of 4-bit codes",
	        "this machine has no AVX-512 VBMI2, for which the decoder is written",
	        "adopt at the speed of memory", "open");
	printf("]}\n");
	return 0;
}

#endif
