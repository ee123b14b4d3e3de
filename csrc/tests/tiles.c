/*
 * tiles.c - the products of x86/matmul_amx.c with tile registers in plain C, so that CPUs without AMX check them. What
 * the instructions do is from Intel's manual, in the order of its pseudocode.
 */
#include "check.h"

#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "math/fp16.h"

static struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t colsb[16];
	uint8_t rows[16];
} config;

static union {
	uint8_t bytes[16][64];
	int32_t ints[16][16];
	float floats[16][16];
	uint16_t halves[16][32];
} tile[8];

static void tile_config(const void *from)
{
	memcpy(&config, from, sizeof config);
	memset(tile, 0, sizeof tile);
}

static void tile_load(int t, const void *from, int64_t stride)
{
	memset(&tile[t], 0, sizeof tile[t]);
	for (int r = 0; r < config.rows[t]; r++)
		memcpy(tile[t].bytes[r], (const uint8_t *)from + r * stride, config.colsb[t]);
}

static void tile_store(int t, void *to)
{
	for (int r = 0; r < config.rows[t]; r++)
		memcpy((uint8_t *)to + r * 64, tile[t].bytes[r], config.colsb[t]);
}

/* c += a . b of bytes, four to a sum; a is signed. */
static void tile_dot_bytes(int c, int a, int b, int b_signed)
{
	for (int m = 0; m < config.rows[c]; m++)
		for (int k = 0; k < config.colsb[a] / 4; k++)
			for (int n = 0; n < config.colsb[c] / 4; n++)
				for (int i = 4 * k, j = 4 * n; i < 4 * k + 4; i++, j++) {
					const uint8_t w = tile[b].bytes[k][j];

					tile[c].ints[m][n] += (int8_t)tile[a].bytes[m][i] * (b_signed ? (int8_t)w : w);
				}
}

static void tile_dot_bf16(int c, int a, int b)
{
	for (int m = 0; m < config.rows[c]; m++) {
		float sum[32] = {0};

		for (int k = 0; k < config.colsb[a] / 4; k++)
			for (int n = 0; n < config.colsb[c] / 2; n++)
				sum[n] = fmaf(f32_of_bf16(tile[a].halves[m][2 * k + n % 2]),
				              f32_of_bf16(tile[b].halves[k][n]), sum[n]);
		for (int n = 0; n < config.colsb[c] / 4; n++)
			tile[c].floats[m][n] += sum[2 * n] + sum[2 * n + 1];
	}
}

#define TILE_CONFIG(t) tile_config(&(t))
#define TILE_RELEASE() memset(&config, 0, sizeof config)
#define TILE_LOAD(t, p, stride) tile_load(t, p, (int64_t)(stride))
#define TILE_STORE(t, p) tile_store(t, p)
#define TILE_ZERO(t) memset(&tile[t], 0, sizeof tile[t])
#define TILE_DOT_U8(c, a, b) tile_dot_bytes(c, a, b, 0)
#define TILE_DOT_S8(c, a, b) tile_dot_bytes(c, a, b, 1)
#define TILE_DOT_BF16(c, a, b) tile_dot_bf16(c, a, b)

#define mm_init_amx check_init_tiles
#include "x86/matmul_amx.c"
#endif
