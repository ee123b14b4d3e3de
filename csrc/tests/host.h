/* host.h - what the checks ask of the operating system, beside what the library asks (platform.h). */
#ifndef QN_TESTS_HOST_H
#define QN_TESTS_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "platform/platform.h"

size_t host_page(void);
int host_cpus(void);
double host_cpu_seconds(void); /* of this process, all threads together */
void host_nap(int64_t ns);

/* Zeros for bytes that are whole pages, small ones, with `locked` bytes after them that nobody may touch. */
uint8_t *host_map(size_t bytes, size_t locked);
void host_unmap(uint8_t *p, size_t bytes, size_t locked);

/* Page faults of this thread, each of one small page; -1 where the system does not say. */
int64_t host_faults(void);

#define HOST_CPUS 1024

/* CPUs that this thread may use, as bits; 0 where the system has no such thing. */
int host_affinity(uint64_t may[HOST_CPUS / 64]);

/* Has the system wake who slept last first, from now on or no longer; 0 where sys_wake() wakes all. */
int host_wake_last(int on);

/* Calls crashed() when the process would die of a fault, and late() `seconds` after each host_alarm(). */
void host_watch(void (*crashed)(void), void (*late)(void));
void host_alarm(int seconds);

/* Writes to the standard output and ends, in a signal handler. */
void host_say(const char *text, size_t n);
_Noreturn void host_end(int status);

#endif
