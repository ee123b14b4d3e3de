/* types.c - sizes of the weight types, rows and panels. */
#include "blocks.h"
#include "kernels.h"
#include "quern.h"

/* Weights of a block and bytes it takes; 0 for types that the kernels do not know. */
static const struct {
	int16_t elems, bytes;
} types[QN_N_TYPES] = {
	[QN_F32] = {1, 4},
	[QN_F16] = {1, 2},
	[QN_BF16] = {1, 2},
	[QN_Q4_0] = {QK, sizeof(struct q4_0)},
	[QN_Q4_1] = {QK, sizeof(struct q4_1)},
	[QN_Q5_0] = {QK, sizeof(struct q5_0)},
	[QN_Q5_1] = {QK, sizeof(struct q5_1)},
	[QN_Q8_0] = {QK, sizeof(struct q8_0)},
	[QN_IQ4_NL] = {QK, sizeof(struct iq4_nl)},
	[QN_Q2_K] = {QK_K, sizeof(struct q2k)},
	[QN_Q3_K] = {QK_K, sizeof(struct q3k)},
	[QN_Q4_K] = {QK_K, sizeof(struct q4k)},
	[QN_Q5_K] = {QK_K, sizeof(struct q5k)},
	[QN_Q6_K] = {QK_K, sizeof(struct q6k)},
	[QN_IQ4_XS] = {QK_K, sizeof(struct iq4_xs)},
	[QN_MXFP4] = {QK, sizeof(struct mxfp4)},
	[QN_IQ2_XXS] = {QK_K, sizeof(struct iq2_xxs)},
	[QN_IQ2_XS] = {QK_K, sizeof(struct iq2_xs)},
	[QN_IQ2_S] = {QK_K, sizeof(struct iq2_s)},
	[QN_IQ3_XXS] = {QK_K, sizeof(struct iq3_xxs)},
	[QN_IQ3_S] = {QK_K, sizeof(struct iq3_s)},
	[QN_IQ1_S] = {QK_K, sizeof(struct iq1_s)},
	[QN_IQ1_M] = {QK_K, sizeof(struct iq1_m)},
	[QN_TQ1_0] = {QK_K, sizeof(struct tq1_0)},
	[QN_TQ2_0] = {QK_K, sizeof(struct tq2_0)},
};

/* Rows longer than this are refused: the largest models have 2^17, and sums must fit. */
#define ROW_MAX (1 << 24)

static int known(int32_t type)
{
	return type >= 0 && type < QN_N_TYPES && types[type].elems;
}

int qn_type_ok(int32_t type, int64_t n_in)
{
	return known(type) && n_in > 0 && n_in <= ROW_MAX && n_in % types[type].elems == 0;
}

enum qn_act qn_type_act(int32_t type)
{
	switch (known(type) ? types[type].elems : 0) { /* scales as the weights have them: one to a block */
	case QK:
		return QN_ACT_Q8_32;
	case QK_K:
		return QN_ACT_Q8_256;
	default:
		return QN_ACT_F32;
	}
}

size_t qn_row_bytes(int32_t type, int64_t n_in)
{
	if (!qn_type_ok(type, n_in))
		return 0;
	return (size_t)(n_in / types[type].elems * types[type].bytes);
}

size_t qn_panel_bytes(int32_t type, int64_t n_in)
{
	/* The same bytes, rounded up so that every panel starts a cache line. */
	return (QN_PANEL * qn_row_bytes(type, n_in) + 63) / 64 * 64;
}

size_t qn_act_bytes(enum qn_act kind, int64_t n, int64_t width)
{
	return (size_t)(n * ((width + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK) * act_bytes(kind));
}
