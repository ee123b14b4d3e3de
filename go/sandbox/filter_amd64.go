//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// refusedHere are refused calls that newer architectures have under newer names only.
var refusedHere = []int{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_MODIFY_LDT, unix.SYS_IOPL, unix.SYS_IOPERM}
