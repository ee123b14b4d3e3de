/* darwin.c - macOS's own: sleeping on a word, clocks of conditions, and what it says of the CPU. */
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#include <sys/sysctl.h>
#include <time.h>

#include "platform/platform.h"
#include "quern.h"

/* In no header, and in every macOS from 10.12 on; os_sync_wait_on_address() of macOS 14.4 is the same call. */
int __ulock_wait(uint32_t op, void *at, uint64_t value, uint32_t timeout_us);
int __ulock_wake(uint32_t op, void *at, uint64_t value);

#define UL_COMPARE_AND_WAIT 1
#define ULF_WAKE_ALL 0x100
#define ULF_NO_ERRNO 0x1000000

void sys_thread_keep(struct sys_thread *t, const int32_t *cpus, int32_t n)
{
	(void)t, (void)cpus, (void)n;
}

void sys_sleep(const _Atomic uint32_t *word, uint32_t old)
{
	__ulock_wait(UL_COMPARE_AND_WAIT | ULF_NO_ERRNO, (void *)word, old, 0);
}

/* All that sleep on it: one that was woken might be one that waits for the next value. */
void sys_wake(const _Atomic uint32_t *word, uint32_t old, int n)
{
	(void)old, (void)n;
	__ulock_wake(UL_COMPARE_AND_WAIT | ULF_WAKE_ALL | ULF_NO_ERRNO, (void *)word, 0);
}

void sys_cond_init(struct sys_cond *c)
{
	pthread_cond_init(&c->of, NULL);
}

/* Its conditions know no monotonic clock, but times from now. */
int sys_cond_wait(struct sys_cond *c, struct sys_mutex *m, int64_t until)
{
	const int64_t left = until - sys_ns();
	const struct timespec in = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

	if (!until)
		return pthread_cond_wait(&c->of, &m->of) == 0;
	return left > 0 && pthread_cond_timedwait_relative_np(&c->of, &m->of, &in) == 0;
}

static int has(const char *feature)
{
	int value = 0;
	size_t n = sizeof value;

	return !sysctlbyname(feature, &value, &n, NULL, 0) && value;
}

#if defined(__x86_64__)

/* A thread has these registers from its first instruction that uses them. */
int sys_avx512(void)
{
	return has("hw.optional.avx512f");
}

/* No Mac with an Intel CPU has AMX. */
int sys_amx(void)
{
	return 0;
}

#elif defined(__aarch64__)

uint32_t sys_arm_isa(void)
{
	uint32_t isa = QN_NEON;

	if (!has("hw.optional.arm.FEAT_DotProd"))
		return isa;
	isa |= QN_DOTPROD;
	if (has("hw.optional.arm.FEAT_I8MM"))
		isa |= QN_I8MM;
	return isa;
}

#endif
#endif
