/* host_windows.c - Windows. */
#if defined(_WIN32)
#define _WIN32_WINNT 0x0a00
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <string.h>

#include "host.h"

size_t host_page(void)
{
	SYSTEM_INFO info;

	GetSystemInfo(&info);
	return info.dwPageSize;
}

int host_cpus(void)
{
	return (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}

static double seconds_of(FILETIME t)
{
	return (double)((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime) * 1e-7;
}

double host_cpu_seconds(void)
{
	FILETIME made, ended, system, user;

	GetProcessTimes(GetCurrentProcess(), &made, &ended, &system, &user);
	return seconds_of(system) + seconds_of(user);
}

/* In milliseconds, or it would be none. */
void host_nap(int64_t ns)
{
	Sleep((DWORD)((ns + 999999) / 1000000));
}

uint8_t *host_map(size_t bytes, size_t locked)
{
	uint8_t *p = VirtualAlloc(NULL, bytes + locked, MEM_RESERVE, PAGE_NOACCESS);

	return p && (!bytes || VirtualAlloc(p, bytes, MEM_COMMIT, PAGE_READWRITE)) ? p : NULL;
}

void host_unmap(uint8_t *p, size_t bytes, size_t locked)
{
	(void)bytes, (void)locked;
	VirtualFree(p, 0, MEM_RELEASE);
}

int64_t host_faults(void)
{
	return -1;
}

int host_affinity(uint64_t may[HOST_CPUS / 64])
{
	GROUP_AFFINITY set;

	memset(may, 0, HOST_CPUS / 8);
	if (!GetThreadGroupAffinity(GetCurrentThread(), &set) || set.Group >= HOST_CPUS / 64)
		return 0;
	may[set.Group] = set.Mask;
	return 1;
}

int host_wake_last(int on)
{
	(void)on;
	return 0;
}

static void (*on_crash)(void), (*on_late)(void);
static HANDLE timer;

static LONG CALLBACK handle(EXCEPTION_POINTERS *what)
{
	switch (what->ExceptionRecord->ExceptionCode) {
	case EXCEPTION_ACCESS_VIOLATION:
	case EXCEPTION_DATATYPE_MISALIGNMENT:
	case EXCEPTION_ILLEGAL_INSTRUCTION:
	case EXCEPTION_INT_DIVIDE_BY_ZERO:
	case EXCEPTION_IN_PAGE_ERROR:
	case EXCEPTION_PRIV_INSTRUCTION:
	case EXCEPTION_STACK_OVERFLOW:
		on_crash();
	}
	return EXCEPTION_CONTINUE_SEARCH;
}

static void CALLBACK ring(void *arg, BOOLEAN fired)
{
	(void)arg, (void)fired;
	on_late();
}

void host_watch(void (*crashed)(void), void (*late)(void))
{
	on_crash = crashed;
	on_late = late;
	AddVectoredExceptionHandler(1, handle);
}

void host_alarm(int seconds)
{
	if (timer)
		DeleteTimerQueueTimer(NULL, timer, NULL);
	CreateTimerQueueTimer(&timer, NULL, ring, NULL, (DWORD)seconds * 1000, 0, WT_EXECUTEONLYONCE);
}

void host_say(const char *text, size_t n)
{
	DWORD written;

	WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), text, (DWORD)n, &written, NULL);
}

void host_end(int status)
{
	TerminateProcess(GetCurrentProcess(), (UINT)status);
	for (;;)
		;
}

#endif
