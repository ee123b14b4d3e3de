/* windows.c - Windows 10 and later. */
#if defined(_WIN32)
#define _WIN32_WINNT 0x0a00
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <math.h>
#include <string.h>

#include "platform/platform.h"
#include "quern.h"

#include <windows.h> /* last: it has macros of short names */

#if !defined(__clang__)
#error "GCC does not align the stack for AVX's registers on Windows (its bug 54412): compile with Clang, such as Zig's"
#endif

#define STACK ((SIZE_T)8 << 20) /* as on other systems: 1 MB is Windows' own choice */
#define GROUP_CPUS 64

int32_t sys_cpus(void)
{
	const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);

	return n < 1 ? 1 : (int32_t)n;
}

int64_t sys_ns(void)
{
	LARGE_INTEGER rate, now;

	QueryPerformanceFrequency(&rate);
	QueryPerformanceCounter(&now);
	return now.QuadPart / rate.QuadPart * 1000000000 + now.QuadPart % rate.QuadPart * 1000000000 / rate.QuadPart;
}

void *sys_alloc(size_t bytes)
{
	return _aligned_malloc(bytes, 64);
}

void sys_free(void *p)
{
	_aligned_free(p);
}

static DWORD WINAPI thread_main(void *arg)
{
	const struct sys_thread *t = arg;

	t->run(t->arg);
	return 0;
}

int sys_thread_start(struct sys_thread *t, void (*run)(void *), void *arg)
{
	*t = (struct sys_thread){.run = run, .arg = arg};
	t->handle = (uintptr_t)CreateThread(NULL, STACK, thread_main, t, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
	return t->handle != 0;
}

void sys_thread_join(struct sys_thread *t)
{
	WaitForSingleObject((HANDLE)t->handle, INFINITE);
	CloseHandle((HANDLE)t->handle);
}

void sys_thread_keep(struct sys_thread *t, const int32_t *cpus, int32_t n)
{
	GROUP_AFFINITY to = {0};

	for (int i = 0; i < n; i++) {
		if (cpus[i] < 0 || cpus[i] / GROUP_CPUS > UINT16_MAX)
			continue;
		if (!to.Mask)
			to.Group = (WORD)(cpus[i] / GROUP_CPUS);
		if (cpus[i] / GROUP_CPUS == to.Group)
			to.Mask |= (KAFFINITY)1 << cpus[i] % GROUP_CPUS;
	}
	if (to.Mask)
		SetThreadGroupAffinity((HANDLE)t->handle, &to, NULL);
}

void sys_sleep(const _Atomic uint32_t *word, uint32_t old)
{
	WaitOnAddress((volatile void *)word, &old, sizeof old, INFINITE);
}

/* All that sleep on it: one that was woken might be one that waits for the next value. */
void sys_wake(const _Atomic uint32_t *word, uint32_t old, int n)
{
	(void)old, (void)n;
	WakeByAddressAll((void *)word);
}

void sys_mutex_init(struct sys_mutex *m)
{
	InitializeSRWLock((SRWLOCK *)&m->of);
}

void sys_lock(struct sys_mutex *m)
{
	AcquireSRWLockExclusive((SRWLOCK *)&m->of);
}

void sys_unlock(struct sys_mutex *m)
{
	ReleaseSRWLockExclusive((SRWLOCK *)&m->of);
}

void sys_mutex_free(struct sys_mutex *m)
{
	(void)m;
}

void sys_cond_init(struct sys_cond *c)
{
	InitializeConditionVariable((CONDITION_VARIABLE *)&c->of);
}

void sys_cond_free(struct sys_cond *c)
{
	(void)c;
}

void sys_cond_wake(struct sys_cond *c)
{
	WakeAllConditionVariable((CONDITION_VARIABLE *)&c->of);
}

int sys_cond_wait(struct sys_cond *c, struct sys_mutex *m, int64_t until)
{
	const int64_t left = until - sys_ns(), ms = (left + 999999) / 1000000;

	if (until && left <= 0)
		return 0;
	/* Longer than 50 days is for ever. */
	return SleepConditionVariableSRW((CONDITION_VARIABLE *)&c->of, (SRWLOCK *)&m->of,
	                                 !until || ms >= INFINITE ? INFINITE : (DWORD)ms, 0) != 0;
}

#if defined(__x86_64__)
int sys_avx512(void)
{
	return 0;
}

/* Windows 11 would give them to a process that asks, but nobody has run the kernels there. */
int sys_amx(void)
{
	return 0;
}

/*
 * fmaf() of MinGW's C library is a program where processors have an instruction: 25 ns, of which the scalar kernels'
 * products are chains. This one takes the instruction where there is one, as glibc's and macOS's do.
 */
__attribute__((target("fma"))) static float fused(float a, float b, float c)
{
	return __builtin_fmaf(a, b, c);
}

/*
 * In double, which holds the product. A sum that is not exact is rounded to odd, so that the rounding to float sees on
 * which side of a half it lies (Boldo, Melquiond: Emulation of a FMA and correctly rounded sums, 2008).
 */
static float by_double(float a, float b, float c)
{
	const double p = (double)a * b, s = p + c, c_of = s - p;
	const double rest = (p - (s - c_of)) + (c - c_of);
	int64_t bits;

	memcpy(&bits, &s, sizeof bits);
	if (rest == 0 || rest != rest || bits & 1) /* exact, or infinite, or odd */
		return (float)s;
	bits += (rest > 0) == (s > 0) ? 1 : -1;

	double odd;

	memcpy(&odd, &bits, sizeof odd);
	return (float)odd;
}

float fmaf(float a, float b, float c)
{
	static _Atomic int how; /* 1: the instruction; 2: none */

	if (!how)
		how = qn_cpu_isa() & QN_AVX2 ? 1 : 2;
	return how == 1 ? fused(a, b, c) : by_double(a, b, c);
}

#elif defined(__aarch64__)

/* Of IsProcessorFeaturePresent, which denies what a Windows does not know yet. Older headers lack the second name. */
#define DOTPROD 43
#define I8MM 66

uint32_t sys_arm_isa(void)
{
	uint32_t isa = QN_NEON; /* part of every Windows on Arm */

	if (!IsProcessorFeaturePresent(DOTPROD))
		return isa;
	isa |= QN_DOTPROD;
	if (IsProcessorFeaturePresent(I8MM))
		isa |= QN_I8MM;
	return isa;
}
#endif

#endif
