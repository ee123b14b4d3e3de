/* codebook.c - the codebooks of the IQ types as bytes, and how their blocks are interleaved. */
#include <assert.h>
#include <string.h>

#include "format/codebook.h"
#include "format/interleave.h"
#include "format/iq_grids.h"
#include "format/types.h"

/* Byte i of an entry: level number x >> bits * i of a table of levels, itself a number with 8 bits for each. */
#define BYTE(x, i, bits, levels) \
	((uint64_t)((levels) >> 8 * ((x) >> (bits) * (i) & ((1 << (bits)) - 1)) & 0xff) << 8 * (i))
#define FOUR(x, bits, levels) \
	(BYTE(x, 0, bits, levels) | BYTE(x, 1, bits, levels) | BYTE(x, 2, bits, levels) | BYTE(x, 3, bits, levels))
#define EIGHT(x, levels) (FOUR(x, 2, levels) | FOUR((x) >> 8, 2, levels) << 32)

#define IQ2(a, b, c, d) EIGHT(0x##a, 0x2b1908), EIGHT(0x##b, 0x2b1908), EIGHT(0x##c, 0x2b1908), EIGHT(0x##d, 0x2b1908),
#define IQ1(a, b, c, d) EIGHT(0x##a, 0x020100), EIGHT(0x##b, 0x020100), EIGHT(0x##c, 0x020100), EIGHT(0x##d, 0x020100),
#define IQ3_LEVELS UINT64_C(0x3e342c241c140c04)
#define IQ3(a, b, c, d) FOUR(0x##a, 3, IQ3_LEVELS), FOUR(0x##b, 3, IQ3_LEVELS), FOUR(0x##c, 3, IQ3_LEVELS), \
	FOUR(0x##d, 3, IQ3_LEVELS),
#define IQ3S_LEVELS UINT64_C(0x0f0d0b0907050301)
#define IQ3S(a, b, c, d) FOUR(0x##a, 3, IQ3S_LEVELS), FOUR(0x##b, 3, IQ3S_LEVELS), FOUR(0x##c, 3, IQ3S_LEVELS), \
	FOUR(0x##d, 3, IQ3S_LEVELS),

const uint64_t qn_iq2_xxs_grid[256] = {IQ2_XXS_GRID(IQ2)};
const uint64_t qn_iq2_xs_grid[512] = {IQ2_XS_GRID(IQ2)};
const uint64_t qn_iq2_s_grid[1024] = {IQ2_S_GRID(IQ2)};
const uint32_t qn_iq3_xxs_grid[256] = {IQ3_XXS_GRID(IQ3)};
const uint32_t qn_iq3_s_grid[512] = {IQ3_S_GRID(IQ3S)};
const uint64_t qn_iq1_grid[2048] = {IQ1_GRID(IQ1)};

/*
 * A block is runs of n units of some bytes; a panel has each unit of all rows together. format/panel.h has the structs.
 */
struct run {
	int bytes, n;
};

static const struct run *runs_of(int type)
{
	static const struct run iq2_xxs[] = {{2, 1}, {4, 16}, {0, 0}}, iq2_xs[] = {{2, 33}, {1, 8}, {0, 0}};
	static const struct run iq2_s[] = {{2, 1}, {1, 80}, {0, 0}}, iq3_xxs[] = {{2, 1}, {1, 64}, {4, 8}, {0, 0}};
	static const struct run iq3_s[] = {{2, 1}, {1, 108}, {0, 0}}, iq1_s[] = {{2, 1}, {1, 32}, {2, 8}, {0, 0}};
	static const struct run iq1_m[] = {{1, 56}, {0, 0}}, tq1_0[] = {{4, 13}, {2, 1}, {0, 0}};
	static const struct run iq2_k[] = {{2, 1}, {2, 1}, {1, 8}, {4, 16}, {0, 0}};
	static const struct run iq3_k[] = {{2, 1}, {2, 1}, {2, 1}, {1, 8}, {4, 24}, {0, 0}};
	static const struct run iq4_k[] = {{2, 1}, {2, 1}, {1, 12}, {4, 32}, {0, 0}};
	static const struct run iq5_k[] = {{2, 1}, {2, 1}, {1, 12}, {4, 40}, {0, 0}};
	static const struct run iq6_k[] = {{2, 1}, {2, 1}, {1, 16}, {4, 48}, {0, 0}};
	static const struct run iq2_ks[] = {{2, 1}, {4, 1}, {4, 16}, {0, 0}},
				iq2_kl[] = {{2, 1}, {4, 1}, {4, 20}, {0, 0}};
	static const struct run iq3_ks[] = {{2, 1}, {4, 1}, {4, 24}, {0, 0}}, iq4_kss[] = {{4, 32}, {0, 0}};
	static const struct run iq4_ks[] = {{1, 8}, {4, 32}, {0, 0}}, iq5_ks[] = {{1, 8}, {4, 40}, {0, 0}};
	static const struct run iq1_kt[] = {{1, 56}, {0, 0}}, iq2_kt[] = {{4, 1}, {2, 32}, {0, 0}};
	static const struct run iq3_kt[] = {{4, 1}, {2, 32}, {4, 8}, {0, 0}}, iq4_kt[] = {{4, 8}, {1, 96}, {0, 0}};

	switch (type) {
#define CODED(name, NAME, ...) case QN_##NAME: return name;
		QN_TYPES(QN_SKIP, QN_SKIP, QN_SKIP, CODED)
#undef CODED
	}
	assert(!"not a type of codes");
	return NULL;
}

/* Units i .. i + n - 1 of a run that starts at byte `at` of each block and at p. n of halves and words may be 1. */
static void units(int bytes, uint8_t *p, const uint8_t *const block[QN_PANEL], int64_t at, int i, int n)
{
	p += QN_PANEL * bytes * i;
	at += bytes * i;
	switch (bytes) {
	case 1:
		byte_lines(p, block, at, n);
		break;
	case 2:
		if (n == 1)
			halves_of((uint16_t *)p, block, at);
		else
			half_lines((uint16_t *)p, block, at, n);
		break;
	default:
		if (n == 1)
			line_of((union line *)p, block, at);
		else
			lines(p, 4 * QN_PANEL, block, at, n);
	}
}

void coded_to_panel(int type, void *panel, const uint8_t *const block[QN_PANEL])
{
	uint8_t *p = panel;
	int64_t at = 0;

	for (const struct run *u = runs_of(type); u->n; at += u->n * u->bytes, p += QN_PANEL * u->bytes * u->n, u++) {
		const int step = u->n == 1 ? 1 : u->bytes == 4 ? 4 : 8;

		units(u->bytes, p, block, at, 0, u->n / step * step);
		if (u->n % step) /* the last ones, of which some once more */
			units(u->bytes, p, block, at, u->n - step, step);
	}
}

void coded_of_panel(int type, void *block, const void *panel, int r)
{
	const uint8_t *p = panel;
	uint8_t *b = block;

	for (const struct run *u = runs_of(type); u->n; u++)
		for (int i = 0; i < u->n; i++, b += u->bytes, p += QN_PANEL * u->bytes)
			memcpy(b, p + r * u->bytes, (size_t)u->bytes);
}
