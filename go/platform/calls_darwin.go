package platform

import (
	"syscall"
	_ "unsafe" // for linkname
)

// Functions of libSystem that x/sys does not have, called as it calls the others: the runtime switches to a stack of the
// system's, and calls the function of that address. The result is -1 where errno says why.

//go:linkname syscall_syscall syscall.syscall
func syscall_syscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)

var proc_pid_rusage_trampoline_addr, pthread_set_qos_class_self_np_trampoline_addr uintptr // calls_darwin.s sets them

//go:cgo_import_dynamic libc_proc_pid_rusage proc_pid_rusage "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_pthread_set_qos_class_self_np pthread_set_qos_class_self_np "/usr/lib/libSystem.B.dylib"
