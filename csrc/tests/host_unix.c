/* host_unix.c - what Linux and macOS have alike. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#define _DARWIN_C_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

size_t host_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int host_cpus(void)
{
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

double host_cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void host_nap(int64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

uint8_t *host_map(size_t bytes, size_t locked)
{
	uint8_t *p = mmap(NULL, bytes + locked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || (locked && mprotect(p + bytes, locked, PROT_NONE)))
		return NULL;
#if defined(MADV_NOHUGEPAGE)
	madvise(p, bytes, MADV_NOHUGEPAGE);
#endif
	return p;
}

void host_unmap(uint8_t *p, size_t bytes, size_t locked)
{
	munmap(p, bytes + locked);
}

static void (*on_crash)(void), (*on_late)(void);

static void handle(int sig)
{
	(sig == SIGALRM ? on_late : on_crash)();
}

void host_watch(void (*crashed)(void), void (*late)(void))
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGALRM};

	on_crash = crashed;
	on_late = late;
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		signal(signals[i], handle);
}

void host_alarm(int seconds)
{
	alarm((unsigned)seconds);
}

void host_say(const char *text, size_t n)
{
	if (write(1, text, n) < 0)
		_exit(2);
}

void host_end(int status)
{
	_exit(status);
}

#endif
