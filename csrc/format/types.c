/* types.c - names and sizes of the weight types, of their rows and panels. */
#include "format/blocks.h"
#include "kernels.h"
#include "quern.h"

/* Weights of a block and bytes it takes, and GGUF's name; 0 and NULL for types that the kernels do not know. */
static const struct {
	int16_t elems, bytes, head; /* head: bytes before the blocks of a row */
	const char *name;
} types[QN_N_TYPES] = {
#define FLOAT(name, NAME, element) [QN_##NAME] = {1, sizeof(element), 0, #NAME},
#define SMALL(name, NAME, elems, ...) [QN_##NAME] = {elems, sizeof(struct name), 0, #NAME},
#define SUPER(name, NAME, ...) [QN_##NAME] = {QK_K, sizeof(struct name), 0, #NAME},
#define CODED(name, NAME, run, offset, head) [QN_##NAME] = {QK_K, sizeof(struct name), head, #NAME},
	QN_TYPES(FLOAT, SMALL, SUPER, CODED)
};

/* Rows longer than this are refused: the largest models have 2^17, and sums must fit. */
#define ROW_MAX (1 << 24)

static int known(int32_t type)
{
	return type >= 0 && type < QN_N_TYPES && types[type].elems;
}

int32_t qn_type_at(int32_t i)
{
	static const int32_t all[] = {
#define ROW(name, NAME, ...) QN_##NAME,
		QN_TYPES(ROW, ROW, ROW, ROW)
	};

	return i >= 0 && i < (int32_t)(sizeof all / sizeof *all) ? all[i] : -1;
}

const char *qn_type_name(int32_t type)
{
	return known(type) ? types[type].name : NULL;
}

int qn_type_ok(int32_t type, int64_t n_in)
{
	return known(type) && n_in > 0 && n_in <= ROW_MAX && n_in % types[type].elems == 0;
}

enum qn_act qn_type_act(int32_t type)
{
	if (type == QN_BF16)
		return QN_ACT_BF16;
	if (!known(type) || types[type].elems == 1)
		return QN_ACT_F32;
	if (types[type].elems == QK_K) /* scales as the weights have them: one to a super-block */
		return QN_ACT_Q8_256;
	return type_row(type).run < QK ? QN_ACT_Q8_32_16 : QN_ACT_Q8_32;
}

size_t qn_row_bytes(int32_t type, int64_t n_in)
{
	if (!qn_type_ok(type, n_in))
		return 0;
	return (size_t)(types[type].head + n_in / types[type].elems * types[type].bytes);
}

int64_t block_bytes(int32_t type)
{
	return types[type].bytes;
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
