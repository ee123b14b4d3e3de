/* operation.c - the table of operations. */
#include "run/operation.h"

const struct operation *operation_of(int32_t kind)
{
	static const struct operation *const table[] = {
#define ROW(number, name) [number] = &name,
		QN_OPERATIONS(ROW)
#undef ROW
	};

	return kind >= 0 && kind < (int32_t)(sizeof table / sizeof *table) ? table[kind] : NULL;
}
