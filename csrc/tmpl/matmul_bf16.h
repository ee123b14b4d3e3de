/*
 * matmul_bf16.h - products with BF16 weights by fma, over vectors of 16 lanes. Not compiled as it stands: a set
 * includes it once, after tmpl/matmul_float.h and with what that needs, and with twelve_lines(): weights in 12 bits
 * become the lines of a block, which stay in the first-level cache.
 *
 * A line of a panel has two columns, the even one in the low halves of its words. The sums of even columns and of odd
 * ones begin anew after BF16_RUN of them: scalar/matmul.c says why, and what is added when.
 */

/* Column i, of its parity c, from lines or from floats. */
INLINE v16 bf16_weights(int wide, const void *w, int i, int c)
{
	if (wide)
		return v16_load((const float *)w + (i + c) * QN_PANEL);
	return c ? v16_load_high((const uint16_t *)w + i * QN_PANEL) : v16_load_low((const uint16_t *)w + i * QN_PANEL);
}

/*
 * Adds n columns times nt tokens to y; wide, nt are constant. x: a token's columns, and zeros up to an even number.
 * asks: see ask_weights().
 */
INLINE void bf16_columns(int wide, int nt, float (*y)[QN_PANEL], const void *w, float (*x)[QN_ACT_BLOCK], int n,
                         int asks)
{
	for (int k = 0; k < n; k += BF16_RUN) {
		const int end = n - k < BF16_RUN ? n : k + BF16_RUN;
		v16 sum[MM_FLOAT_TOKENS][2];

#pragma GCC unroll 12
		for (int t = 0; t < nt; t++)
			sum[t][0] = sum[t][1] = v16_zero();
		for (int i = k; i < end; i += 2) {
			if (!wide)
				ask_weights((const uint8_t *)w + i * QN_PANEL * 2, 64, asks);
#pragma GCC unroll 2
			for (int c = 0; c < 2; c++) {
				const v16 v = bf16_weights(wide, w, i, c);

#pragma GCC unroll 12
				for (int t = 0; t < nt; t++)
					sum[t][c] = v16_fma(v, v16_set1(x[t][i + c]), sum[t][c]);
			}
		}
#pragma GCC unroll 12
		for (int t = 0; t < nt; t++)
			v16_store(y[t], v16_add(v16_load(y[t]), v16_add(sum[t][0], sum[t][1])));
	}
}

/* The same of nt tokens, at most MM_FLOAT_TOKENS, whose activations become floats first. */
INLINE void bf16_tile(int wide, float (*y)[QN_PANEL], const void *w, const struct actb *x, int n, int nt, int asks)
{
	_Alignas(64) float xf[MM_FLOAT_TOKENS][QN_ACT_BLOCK];

	for (int t = 0; t < nt; t++)
		for (int i = 0; i < n; i += QN_PANEL)
			v16_store(xf[t] + i, v16_load_bf16(x[t].x + i));
	switch (nt) {
#define TOKENS(nt)                                               \
	case nt:                                                 \
		if (nt <= MM_FLOAT_TOKENS)                       \
			bf16_columns(wide, nt, y, w, xf, n, asks); \
		break;
		TOKENS(1) TOKENS(2) TOKENS(3) TOKENS(4) TOKENS(5) TOKENS(6)
		TOKENS(7) TOKENS(8) TOKENS(9) TOKENS(10) TOKENS(11) TOKENS(12)
#undef TOKENS
	}
}

static void VEC(bf16_tile_wide)(float (*y)[QN_PANEL], const void *w, const struct actb *x, int n, int nt)
{
	bf16_tile(1, y, w, x, n, nt, 0);
}

static void VEC(bf16_tile_lines)(float (*y)[QN_PANEL], const void *w, const struct actb *x, int n, int nt, int asks)
{
	bf16_tile(0, y, w, x, n, nt, asks);
}

/* twelve: whether the panel is one of QN_X12; constant. */
INLINE void bf16_panel(int twelve, float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	_Alignas(64) float wide[QN_ACT_BLOCK * QN_PANEL];
	_Alignas(64) uint16_t decoded[TWELVE_HALVES];
	const int asks = twelve ? 0 : n;
	const struct actb *x = act;
	float (*y)[QN_PANEL] = (void *)out;

	memset(y, 0, sizeof *y * (size_t)n);
	for (int64_t k = 0; k < n_in; k += QN_ACT_BLOCK, x += n_act) {
		const int cols = n_in - k < QN_ACT_BLOCK ? (int)(n_in - k) : QN_ACT_BLOCK;
		const uint16_t *lines = (const uint16_t *)panel + k * QN_PANEL;
		const int once = n > 2 * MM_FLOAT_TOKENS; /* converted once, in the first-level cache */

		if (twelve) {
			twelve_lines(decoded, twelve_block(panel, k), cols, n);
			lines = decoded;
		}
		if (once)
			for (int i = 0; i < cols; i += 2) {
				ask_weights((const uint8_t *)(lines + i * QN_PANEL), 64, asks);
				for (int c = 0; c < 2; c++)
					v16_store(wide + (i + c) * QN_PANEL, bf16_weights(0, lines, i, c));
			}
		for (int t = 0, at; t < n; t += at) {
			at = next_tokens(MM_FLOAT_TOKENS, n - t);
			if (once)
				VEC(bf16_tile_wide)(y + t, wide, x + t, cols, at);
			else
				VEC(bf16_tile_lines)(y + t, lines, x + t, cols, at, t ? 0 : asks);
		}
	}
}

static void VEC(mm_bf16)(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	bf16_panel(0, out, panel, act, n_in, n_act, n);
}

static void VEC(mm_twelve)(float *out, const void *panel, const void *act, int64_t n_in, int64_t n_act, int n)
{
	bf16_panel(1, out, panel, act, n_in, n_act, n);
}

static void VEC(bf16_fill)(struct kernels *k)
{
	k->mm[QN_BF16] = VEC(mm_bf16);
	k->mm[QN_MM_TWELVE] = VEC(mm_twelve);
	k->mm_tile[QN_BF16] = k->mm_tile[QN_MM_TWELVE] = MM_FLOAT_TILE;
}
