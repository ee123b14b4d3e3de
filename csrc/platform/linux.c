/* linux.c - Linux's own: futexes, affinity, clocks of conditions, and what it says of the CPU. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#endif
#if defined(__aarch64__) || defined(__riscv)
#include <sys/auxv.h>
#endif

#include "platform/platform.h"
#include "quern.h"

/* CPUs that Linux may be built for are fewer; cpu_set_t has 1024. */
#define CPUS_MAX (1 << 16)

void sys_thread_keep(struct sys_thread *t, const int32_t *cpus, int32_t n)
{
	unsigned long set[CPUS_MAX / 8 / sizeof(unsigned long)] = {0};
	const int each = 8 * (int)sizeof set[0];

	for (int i = 0; i < n; i++)
		if (cpus[i] >= 0 && cpus[i] < CPUS_MAX)
			set[cpus[i] / each] |= 1ul << cpus[i] % each;
	if (n)
		pthread_setaffinity_np((pthread_t)t->handle, sizeof set, (const cpu_set_t *)set);
}

/*
 * Who sleeps until a word is no longer `old`, by a bit. Threads that have left a gate may sleep there again before the
 * last of those that slept with them is woken, but all have left it when it opens for them: so there are two kinds at
 * most, and neither is woken in the other's place.
 */
static uint32_t kind(uint32_t old)
{
	return 1u << old % 2;
}

void sys_sleep(const _Atomic uint32_t *word, uint32_t old)
{
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, old, NULL, NULL, kind(old));
}

void sys_wake(const _Atomic uint32_t *word, uint32_t old, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, kind(old));
}

void sys_cond_init(struct sys_cond *c)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&c->of, &clock);
	pthread_condattr_destroy(&clock);
}

int sys_cond_wait(struct sys_cond *c, struct sys_mutex *m, int64_t until)
{
	const struct timespec end = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

	if (!until)
		return pthread_cond_wait(&c->of, &m->of) == 0;
	return pthread_cond_timedwait(&c->of, &m->of, &end) == 0;
}

#if defined(__x86_64__)

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

int sys_avx512(void)
{
	return 0;
}

int sys_amx(void)
{
	return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

#elif defined(__aarch64__)

uint32_t sys_arm_isa(void)
{
	uint32_t isa = QN_NEON; /* part of every AArch64 Linux */

	if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP))
		return isa;
	isa |= QN_DOTPROD;
	if (getauxval(AT_HWCAP2) & HWCAP2_I8MM)
		isa |= QN_I8MM;
	return isa;
}

#elif defined(__riscv)

#define HWCAP_V (1ul << ('V' - 'A'))

/*
 * Some vendors' systems say V of CPUs with the draft 0.7.1. A type with agnostic tails and masks is none there, and
 * leaves a negative number.
 */
int sys_riscv_vector_bits(void)
{
	long type, bytes;

	if (!(getauxval(AT_HWCAP) & HWCAP_V))
		return 0;
	__asm__ volatile(".option push\n\t.option arch, +v\n\t"
	                 "vsetvli zero, zero, e8, m1, ta, ma\n\tcsrr %0, vtype\n\t.option pop"
	                 : "=r"(type)
	                 :
	                 : "memory");
	if (type < 0)
		return 0;
	__asm__ volatile("csrr %0, 0xc22" : "=r"(bytes)); /* vlenb */
	return (int)(8 * bytes);
}

#endif
#endif
