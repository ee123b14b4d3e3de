#include "fault.h"

/*
 * Windows lets nobody cut a file that is mapped, and no handler could put other pages in place of its own. So there are
 * no guards: a disk that fails ends the process.
 */
int32_t qn_guard(const void *p, size_t n)
{
	(void)p, (void)n;
	return -1;
}

int32_t qn_guard_faulted(int32_t guard)
{
	(void)guard;
	return 0;
}

void qn_unguard(int32_t guard)
{
	(void)guard;
}
