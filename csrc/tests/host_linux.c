/* host_linux.c - affinity, page faults of a thread, and a kernel that wakes who slept last. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

int64_t host_faults(void)
{
	struct rusage use;

	getrusage(RUSAGE_THREAD, &use);
	return use.ru_minflt;
}

int host_affinity(uint64_t may[HOST_CPUS / 64])
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof set, &set);
	memset(may, 0, HOST_CPUS / 8);
	for (int i = 0; i < HOST_CPUS && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			may[i / 64] |= UINT64_C(1) << i % 64;
	return 1;
}

static struct sleeper {
	const uint32_t *word;
	uint32_t kinds;
	int woken;
	struct sleeper *before;
} *sleepers;
static pthread_mutex_t sleepers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleepers_woken = PTHREAD_COND_INITIALIZER;
static _Atomic int last_first;

static long futex_last_first(const uint32_t *word, int op, uint32_t n, uint32_t kinds)
{
	long woken = 0;

	pthread_mutex_lock(&sleepers_lock);
	if (op == FUTEX_WAIT_BITSET) {
		struct sleeper me = {.word = word, .kinds = kinds, .before = sleepers};

		if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == n) {
			sleepers = &me;
			while (!me.woken)
				pthread_cond_wait(&sleepers_woken, &sleepers_lock);
		}
	} else {
		for (struct sleeper **at = &sleepers; *at && woken < n;) {
			struct sleeper *s = *at;

			if (s->word == word && s->kinds & kinds) {
				*at = s->before;
				s->woken = 1;
				woken++;
			} else {
				at = &s->before;
			}
		}
		pthread_cond_broadcast(&sleepers_woken);
	}
	pthread_mutex_unlock(&sleepers_lock);
	return woken;
}

/* The linker has the library call this one. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number != SYS_futex || !last_first)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	const int op = (int)a[1] & FUTEX_CMD_MASK, some = op == FUTEX_WAIT_BITSET || op == FUTEX_WAKE_BITSET;

	return futex_last_first((const uint32_t *)a[0], op == FUTEX_WAIT ? FUTEX_WAIT_BITSET : op, (uint32_t)a[2],
	                        some ? (uint32_t)a[5] : ~0u);
}

int host_wake_last(int on)
{
	last_first = on;
	return 1;
}

#endif
