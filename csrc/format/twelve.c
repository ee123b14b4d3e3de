/* twelve.c - blocks of BF16 weights in 12 bits (format/twelve.h): their exponents, and where they lie. */
#include "format/twelve.h"

#define EXPONENTS 256

static int exponent_of(uint16_t h) { return h >> 7 & 0xff; }

/* The 16 exponents that most weights have. Returns how many weights have none of them. */
static int choose(uint8_t exponent[16], const uint16_t *lines, int n)
{
	uint16_t count[4][EXPONENTS] = {{0}}; /* of every fourth weight: one count waits for the one before */
	int left = n;

	for (int i = 0; i < n; i += 4)
		for (int k = 0; k < 4; k++)
			count[k][exponent_of(lines[i + k])]++;
	for (int e = 0; e < EXPONENTS; e++)
		count[0][e] = (uint16_t)(count[0][e] + count[1][e] + count[2][e] + count[3][e]);
	for (int k = 0; k < 16; k++) {
		int best = EXPONENTS - 1;

		for (int e = EXPONENTS - 2; e >= 0; e--)
			if (count[0][e] > count[0][best])
				best = e;
		exponent[k] = (uint8_t)best;
		left -= count[0][best];
		count[0][best] = 0;
	}
	return left;
}

/* The 16 exponents up to the largest. Returns how many weights have none of them: mostly next to none. */
static int upper(uint8_t exponent[16], const uint16_t *lines, int n)
{
	uint16_t top = 15 << 7, least, below = 0;

	for (int i = 0; i < n; i++) {
		const uint16_t e = lines[i] & 0x7f80;

		top = e > top ? e : top;
	}
	least = (uint16_t)(top - (15 << 7));
	for (int i = 0; i < n; i++)
		below = (uint16_t)(below + ((lines[i] & 0x7f80) < least));
	for (int k = 0; k < 16; k++)
		exponent[k] = (uint8_t)((top >> 7) - k);
	return below;
}

/* Codes of weights, by exponent; where no code is an exponent's, code 0 and the weight is an escape. */
static void encode(struct twelve_head *h, struct twelve_group *g, const uint16_t *lines, int n_lines)
{
	uint8_t code[EXPONENTS] = {0};
	uint8_t escapes[EXPONENTS];

	memset(escapes, 1, sizeof escapes);
	for (int k = 0; k < 16; k++) {
		code[h->exponent[k]] = (uint8_t)k;
		escapes[h->exponent[k]] = 0;
	}
	for (int l = 0; l < n_lines; l += 4, g++)
		for (int i = 0; i < 32; i++) {
			unsigned word = 0, some = 0;

			for (int k = 0; k < 4; k++) {
				const uint16_t w = lines[32 * (l + k) + i];

				word |= (unsigned)code[exponent_of(w)] << 4 * k;
				some |= escapes[exponent_of(w)];
				g->byte[k / 2][i / 8 * 16 + k % 2 * 8 + i % 8] =
					(uint8_t)((w >> 8 & 0x80) | (w & 0x7f));
			}
			g->code[i] = (uint16_t)word;
			for (int k = 0; some && k < 4; k++) {
				const int at = 32 * (l + k) + i, e = exponent_of(lines[at]);

				if (escapes[e]) {
					h->escape[h->n] = (uint8_t)e;
					h->at[h->n++] = (uint16_t)at;
				}
			}
		}
}

int twelve_encode(uint8_t *block, const uint16_t *lines, int n_lines)
{
	struct twelve_head *h = (struct twelve_head *)block;

	memset(h, 0, sizeof *h);
	if (upper(h->exponent, lines, 32 * n_lines) > TWELVE_ESCAPES &&
	    choose(h->exponent, lines, 32 * n_lines) > TWELVE_ESCAPES)
		return 0;
	encode(h, (struct twelve_group *)(block + sizeof *h), lines, n_lines);
	return 1;
}

size_t qn_twelve_bytes(int64_t n_in)
{
	if (!qn_type_ok(QN_BF16, n_in) || n_in % BF16_RUN)
		return 0;

	const int64_t rest = n_in % QN_ACT_BLOCK;

	return (size_t)(n_in / QN_ACT_BLOCK * twelve_block_bytes(QN_ACT_BLOCK) + (rest ? twelve_block_bytes(rest) : 0));
}
