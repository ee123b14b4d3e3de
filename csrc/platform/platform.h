/*
 * platform.h - what the library asks of the operating system. Each system has a file, which is empty on others, and
 * what Linux and macOS have alike is in unix.c. No other file includes a system's headers, or asks which it is.
 */
#ifndef QN_PLATFORM_H
#define QN_PLATFORM_H

#include <stdint.h>
#include <stddef.h>

/* ------------------------------------------------------------------ time and memory */

/*
 * Nanoseconds by a clock that never goes back. On Linux 20 to 30 ns through the vDSO, of operations that take 10 us and
 * more. A CPU's own counter is cheaper and would need its rate measured, and trust that it is the same on all CPUs.
 */
int64_t sys_ns(void);

/* Memory that begins at a multiple of 64, for bytes that are such a multiple; or NULL. */
void *sys_alloc(size_t bytes);
void sys_free(void *p);

/* ------------------------------------------------------------------ threads */

/* Stays where it is until the thread is joined. */
struct sys_thread {
	void (*run)(void *);
	void *arg;
	uintptr_t handle;
};

/* Starts a thread that runs run(arg); whether it could. */
int sys_thread_start(struct sys_thread *t, void (*run)(void *), void *arg);

/* Waits for its end. */
void sys_thread_join(struct sys_thread *t);

/*
 * Keeps it on n CPUs, by the system's numbers (Windows: 64 of each processor group, and a thread is in one group, that
 * of its first CPU). CPUs that are not ours to use leave the thread where it was, which is only slower; and so does a
 * system without such a call, macOS.
 */
void sys_thread_keep(struct sys_thread *t, const int32_t *cpus, int32_t n);

/* CPUs that the system runs on, whether or not the caller may; at least 1. */
int32_t sys_cpus(void);

/* Sleeps while *word is `old`; it may return sooner. */
void sys_sleep(const _Atomic uint32_t *word, uint32_t old);

/* Of the threads that sleep until *word is no longer `old`, wakes n, or more of them: all, if there are fewer. */
void sys_wake(const _Atomic uint32_t *word, uint32_t old, int n);

/* ------------------------------------------------------------------ locks */

#if defined(_WIN32) /* an SRWLOCK, a CONDITION_VARIABLE: their header defines `near` and `small` */
struct sys_mutex {
	void *of;
};
struct sys_cond {
	void *of;
};
#define SYS_UNLOCKED {0}
#else
#include <pthread.h>
struct sys_mutex {
	pthread_mutex_t of;
};
struct sys_cond {
	pthread_cond_t of;
};
#define SYS_UNLOCKED {PTHREAD_MUTEX_INITIALIZER}
#endif

void sys_lock(struct sys_mutex *m);
void sys_unlock(struct sys_mutex *m);
void sys_mutex_init(struct sys_mutex *m);
void sys_mutex_free(struct sys_mutex *m);

void sys_cond_init(struct sys_cond *c);
void sys_cond_free(struct sys_cond *c);

/* Unlocks, waits to be woken, locks. Whether that was before `until` by sys_ns(); 0 is no limit. */
int sys_cond_wait(struct sys_cond *c, struct sys_mutex *m, int64_t until);

/* Wakes all that wait. */
void sys_cond_wake(struct sys_cond *c);

/* ------------------------------------------------------------------ the CPU */

/* x86: whether the system keeps AVX-512's registers, though XCR0 says so only once they were used. */
int sys_avx512(void);

/* x86: asks for AMX's tile registers, which CPU and system have; whether it grants them to the process. */
int sys_amx(void);

/* Arm: the sets that the CPU has, of QN_NEON .. */
uint32_t sys_arm_isa(void);

/* RISC-V: bits of a vector register of V 1.0; 0 where the CPU or the system has none. */
int sys_riscv_vector_bits(void);

#endif
