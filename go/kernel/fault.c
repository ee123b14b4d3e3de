//go:build !windows

#define _GNU_SOURCE
#define _DARWIN_C_SOURCE
#include "fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
	_Atomic uintptr_t from; /* 0: free */
	_Atomic uintptr_t to;
	_Atomic int32_t faulted;
};

static struct guard guards[QN_GUARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of those who add and remove */
static struct sigaction before;
static uintptr_t page;

/* Runs on the thread that read the page. Calls nothing but mmap, which is a system call. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
	const uintptr_t at = (uintptr_t)info->si_addr & ~(page - 1);
	const int was = errno;

	for (int i = 0; i < QN_GUARDS && at && info->si_code > 0; i++) { /* else it was sent, and reads nothing */
		struct guard *g = &guards[i];
		const uintptr_t from = atomic_load(&g->from), to = atomic_load(&g->to);
		if (!from || at < from || at >= to)
			continue;
		if (atomic_load(&g->from) != from) /* another's by now, and `to` with it */
			continue;
		if (mmap((void *)at, to - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
			 -1, 0) == MAP_FAILED)
			break;
		atomic_store(&g->faulted, 1);
		errno = was;
		return;
	}
	/* Not ours: what was there before, Go's runtime, decides. */
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(sig, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(sig);
	} else {
		signal(sig, SIG_DFL); /* the read is repeated, and ends the process */
	}
	errno = was;
}

/* Installs the handler once. SIGBUS of Go code goes through it as well. */
static int install(void)
{
	static int installed;
	struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (installed)
		return 1;
	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigfillset(&act.sa_mask);
	installed = sigaction(SIGBUS, NULL, &before) == 0 && sigaction(SIGBUS, &act, NULL) == 0;
	return installed;
}

int32_t qn_guard(const void *p, size_t n)
{
	int32_t found = -1;

	pthread_mutex_lock(&lock);
	for (int32_t i = 0; install() && i < QN_GUARDS && found < 0; i++) {
		struct guard *g = &guards[i];
		if (atomic_load(&g->from))
			continue;
		atomic_store(&g->faulted, 0);
		atomic_store(&g->to, ((uintptr_t)p + n + page - 1) & ~(page - 1));
		atomic_store(&g->from, (uintptr_t)p & ~(page - 1));
		found = i;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

int32_t qn_guard_faulted(int32_t guard)
{
	return atomic_load(&guards[guard].faulted);
}

void qn_unguard(int32_t guard)
{
	pthread_mutex_lock(&lock);
	atomic_store(&guards[guard].from, 0);
	pthread_mutex_unlock(&lock);
}
