/* unix.c - what Linux and macOS have alike: POSIX. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "platform/platform.h"

#define STACK ((size_t)8 << 20) /* macOS's own choice is 512 KB */

int32_t sys_cpus(void)
{
	const long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

int64_t sys_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void *sys_alloc(size_t bytes)
{
	void *p;

	return posix_memalign(&p, 64, bytes) ? NULL : p;
}

void sys_free(void *p)
{
	free(p);
}

static void *thread_main(void *arg)
{
	const struct sys_thread *t = arg;

	t->run(t->arg);
	return NULL;
}

/*
 * Signals are for the program's own threads, which have the stacks that its handlers want. But that of a mapped file's
 * page that cannot be read goes to who reads it, and would end the process if it were blocked.
 */
int sys_thread_start(struct sys_thread *t, void (*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	size_t stack = 0;
	int failed;

	*t = (struct sys_thread){.run = run, .arg = arg};
	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &stack);
	if (stack < STACK)
		pthread_attr_setstacksize(&attr, STACK);
#if defined(__APPLE__)
	/* As work that somebody waits for it goes to the fast cores, where there are two kinds. */
	pthread_attr_set_qos_class_np(&attr, QOS_CLASS_USER_INITIATED, 0);
#endif
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failed = pthread_create(&thread, &attr, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	t->handle = failed ? 0 : (uintptr_t)thread;
	return !failed;
}

void sys_thread_join(struct sys_thread *t)
{
	pthread_join((pthread_t)t->handle, NULL);
}

void sys_mutex_init(struct sys_mutex *m)
{
	pthread_mutex_init(&m->of, NULL);
}

void sys_lock(struct sys_mutex *m)
{
	pthread_mutex_lock(&m->of);
}

void sys_unlock(struct sys_mutex *m)
{
	pthread_mutex_unlock(&m->of);
}

void sys_mutex_free(struct sys_mutex *m)
{
	pthread_mutex_destroy(&m->of);
}

void sys_cond_free(struct sys_cond *c)
{
	pthread_cond_destroy(&c->of);
}

void sys_cond_wake(struct sys_cond *c)
{
	pthread_cond_broadcast(&c->of);
}

#endif
