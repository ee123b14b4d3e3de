/*
 * interleave.h - what packing does most: words of 16 rows into lines, whose lane r is row r's word.
 *
 * Written with the compiler's vectors of 16 bytes, which every CPU of ours has. More would not help:
 * packing reads 16 rows and writes one panel, and waits for memory.
 */
#ifndef QN_FORMAT_INTERLEAVE_H
#define QN_FORMAT_INTERLEAVE_H

#include <stdint.h>
#include <string.h>

#include "format/panel.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));

#if defined(__clang__)
#define SHUFFLE4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define SHUFFLE16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE4(a, b, ...) __builtin_shuffle(a, b, (words4){__VA_ARGS__})
#define SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (halves8){__VA_ARGS__})
#define SHUFFLE16(a, b, ...) __builtin_shuffle(a, b, (bytes16){__VA_ARGS__})
#endif

/* A line, to compute with. */
union line {
	words4 v[QN_PANEL / 4];
	uint32_t w[QN_PANEL];
};

/*
 * Words w .. w + n - 1 from byte `at` of each row, n a multiple of 4, as n lines of which each is
 * `step` bytes after the one before; then as many from `apart` bytes further, in all `times` times.
 * flip is xored to every word.
 */
static inline void lines_apart(void *to, int64_t step, const uint8_t *const row[QN_PANEL], int64_t at, int n,
                               int64_t apart, int times, uint32_t flip)
{
	const words4 mask = {flip, flip, flip, flip};

	/* Four rows to their ends first: 16 that lie powers of two apart would push each other out of the cache. */
	for (int r = 0; r < QN_PANEL; r += 4) {
		const uint8_t *r0 = row[r] + at, *r1 = row[r + 1] + at, *r2 = row[r + 2] + at, *r3 = row[r + 3] + at;
		uint8_t *line = (uint8_t *)to + 4 * r;

		for (int t = 0; t < times; t++, r0 += apart, r1 += apart, r2 += apart, r3 += apart)
			for (int w = 0; w < n; w += 4, line += 4 * step) {
				words4 a, b, c, d, ab, cd;

				memcpy(&a, r0 + 4 * w, 16);
				memcpy(&b, r1 + 4 * w, 16);
				memcpy(&c, r2 + 4 * w, 16);
				memcpy(&d, r3 + 4 * w, 16);
				ab = SHUFFLE4(a, b, 0, 4, 1, 5) ^ mask; /* a0 b0 a1 b1 */
				cd = SHUFFLE4(c, d, 0, 4, 1, 5) ^ mask;
				a = SHUFFLE4(a, b, 2, 6, 3, 7) ^ mask;
				c = SHUFFLE4(c, d, 2, 6, 3, 7) ^ mask;
				b = SHUFFLE4(ab, cd, 0, 1, 4, 5);
				memcpy(line, &b, 16);
				b = SHUFFLE4(ab, cd, 2, 3, 6, 7);
				memcpy(line + step, &b, 16);
				b = SHUFFLE4(a, c, 0, 1, 4, 5);
				memcpy(line + 2 * step, &b, 16);
				b = SHUFFLE4(a, c, 2, 3, 6, 7);
				memcpy(line + 3 * step, &b, 16);
			}
	}
}

static inline void lines(void *to, int64_t step, const uint8_t *const row[QN_PANEL], int64_t at, int n)
{
	lines_apart(to, step, row, at, n, 0, 1, 0);
}

/* The word at byte `at` of each row. In vectors: what is stored in pieces is slow to load as a whole. */
static inline void line_of(union line *l, const uint8_t *const row[QN_PANEL], int64_t at)
{
	for (int q = 0; q < QN_PANEL / 4; q++) {
		uint32_t w[4];

		for (int i = 0; i < 4; i++)
			memcpy(&w[i], row[4 * q + i] + at, 4);
		l->v[q] = (words4){w[0], w[1], w[2], w[3]};
	}
}

/* The half at byte `at` of each row. */
static inline void halves_of(uint16_t to[QN_PANEL], const uint8_t *const row[QN_PANEL], int64_t at)
{
	for (int r = 0; r < QN_PANEL; r += 8) {
		uint16_t h[8];
		halves8 v;

		for (int i = 0; i < 8; i++)
			memcpy(&h[i], row[r + i] + at, 2);
		v = (halves8){h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]};
		memcpy(to + r, &v, 16);
	}
}

/* Every second byte of a and b, or half. */
static inline bytes16 even_bytes(words4 a, words4 b)
{
	return SHUFFLE16((bytes16)a, (bytes16)b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

static inline halves8 even_halves(words4 a, words4 b)
{
	return SHUFFLE8((halves8)a, (halves8)b, 0, 2, 4, 6, 8, 10, 12, 14);
}

/* Byte j of each word, as [row] bytes. */
static inline void line_byte(uint8_t to[QN_PANEL], const union line *l, int j)
{
	const bytes16 low = even_bytes(l->v[0] >> 8 * j, l->v[1] >> 8 * j);
	const bytes16 high = even_bytes(l->v[2] >> 8 * j, l->v[3] >> 8 * j), v = even_bytes((words4)low, (words4)high);

	memcpy(to, &v, sizeof v);
}

/* The low half of each word, or the high one. */
static inline void line_half(uint16_t to[QN_PANEL], const union line *l, int high)
{
	for (int q = 0; q < QN_PANEL / 4; q += 2) {
		const halves8 v = even_halves(l->v[q] >> 16 * high, l->v[q + 1] >> 16 * high);

		memcpy(to + 4 * q, &v, sizeof v);
	}
}

/* Halves k .. k + n - 1 from byte `at` of each row, n a multiple of 8, as [n][row] halves. */
static inline void half_lines(uint16_t *to, const uint8_t *const row[QN_PANEL], int64_t at, int n)
{
	for (int r = 0; r < QN_PANEL; r += 8)
		for (int k = 0; k < n; k += 8) {
			halves8 a[8], b[8];

			for (int i = 0; i < 8; i++)
				memcpy(&a[i], row[r + i] + at + 2 * k, 16);
			for (int s = 0; s < 3; s++) { /* each time, rows that lie four apart come together */
				for (int i = 0; i < 4; i++) {
					b[2 * i] = SHUFFLE8(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
					b[2 * i + 1] = SHUFFLE8(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
				}
				memcpy(a, b, sizeof a);
			}
			for (int i = 0; i < 8; i++)
				memcpy(to + (k + i) * QN_PANEL + r, &a[i], 16);
		}
}

/* Bytes k .. k + n - 1 from byte `at` of each row, n a multiple of 8, as [n][row] bytes. */
static inline void byte_lines(uint8_t *to, const uint8_t *const row[QN_PANEL], int64_t at, int n)
{
	for (int k = 0; k < n; k += 8) {
		bytes16 a[8], b[8];

		for (int i = 0; i < 8; i++) {
			uint64_t low, high;

			memcpy(&low, row[i] + at + k, 8);
			memcpy(&high, row[i + 8] + at + k, 8);
			a[i] = SHUFFLE16((bytes16)(longs2){low}, (bytes16)(longs2){high}, 0, 16, 1, 17, 2, 18, 3, 19,
			                 4, 20, 5, 21, 6, 22, 7, 23);
		}
		for (int s = 0; s < 3; s++) { /* as in half_lines */
			for (int i = 0; i < 4; i++) {
				b[2 * i] = SHUFFLE16(a[i], a[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
				                     7, 23);
				b[2 * i + 1] = SHUFFLE16(a[i], a[i + 4], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
				                         14, 30, 15, 31);
			}
			memcpy(a, b, sizeof a);
		}
		memcpy(to + k * QN_PANEL, a, sizeof a);
	}
}

/* Exchanges the bits of a under mask with those of b under mask << d. */
static inline void exchange_bits(words4 *a, words4 *b, int d, uint32_t mask)
{
	const words4 t = (*b >> d ^ *a) & mask;

	*a ^= t;
	*b ^= t << d;
}

/* Bit j of byte t of word g becomes bit g of byte t of word j, for 8 words of each row. */
static inline void lines_transpose_bits(union line l[8])
{
	for (int q = 0; q < QN_PANEL / 4; q++) {
		words4 w[8];

		for (int g = 0; g < 8; g++)
			w[g] = l[g].v[q];
		for (int g = 0; g < 4; g++) /* exchanges bit 2 of g with bit 2 of j */
			exchange_bits(&w[g + 4], &w[g], 4, 0x0f0f0f0f);
		for (int g = 0; g < 8; g += g % 2 ? 3 : 1)
			exchange_bits(&w[g + 2], &w[g], 2, 0x33333333);
		for (int g = 0; g < 8; g += 2)
			exchange_bits(&w[g + 1], &w[g], 1, 0x55555555);
		for (int g = 0; g < 8; g++)
			l[g].v[q] = w[g];
	}
}

/*
 * Fields of `bits` bits, 1 or 2: field 4g + t of each word becomes field g of byte t: exchanges the bits of their
 * numbers, two by two.
 */
static inline void line_spread(union line *l, int bits)
{
	static const struct {
		int d;
		uint32_t mask;
	} steps[] = {{3, 0x0a0a0a0a}, {6, 0x00cc00cc}, {12, 0x0000f0f0}, {8, 0x0000ff00}};
	const int first = bits == 1 ? 0 : 1, last = bits == 1 ? 3 : 2;

	for (int q = 0; q < QN_PANEL / 4; q++) {
		words4 w = l->v[q];

		for (int s = first; s <= last; s++) {
			const words4 t = (w >> steps[s].d ^ w) & steps[s].mask;

			w ^= t ^ t << steps[s].d;
		}
		l->v[q] = w;
	}
}

/* Copies n bytes, a multiple of 16, from and to multiples of 16, past the caches where that can be said. */
static inline void copy_away(void *to, const void *from, size_t n)
{
#if defined(__x86_64__)
	__m128i *t = to;
	const __m128i *f = from;

	for (size_t i = 0; i < n / 16; i++)
		_mm_stream_si128(t + i, _mm_load_si128(f + i));
#else
	memcpy(to, from, n);
#endif
}

/* Before other threads read what was copied away. */
static inline void copied_away(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

#endif
