/* host_darwin.c - what macOS lacks. */
#if defined(__APPLE__)
#include "host.h"

int64_t host_faults(void)
{
	return -1;
}

int host_affinity(uint64_t may[HOST_CPUS / 64])
{
	(void)may;
	return 0;
}

int host_wake_last(int on)
{
	(void)on;
	return 0;
}

#endif
