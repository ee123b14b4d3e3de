#ifndef QUERN_FAULT_H
#define QUERN_FAULT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Guards of mapped files. A page of one that cannot be read (the file was cut, the disk
 * failed) reads as zeros from then on, like all pages after it, instead of killing the
 * process, and the guard has a fault. Any thread may read.
 */

#define QN_GUARDS 1024

/* Guards the pages of n bytes from p. Returns the guard's number, or -1 where there are QN_GUARDS or no handler. */
int32_t qn_guard(const void *p, size_t n);

/* Whether a page of the guard's range could not be read. */
int32_t qn_guard_faulted(int32_t guard);

/* Ends a guard. Must precede the unmapping of its pages. */
void qn_unguard(int32_t guard);

#endif
