//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are system calls that no enclosed program makes: each fails as if the user might not. Landlock does not know them,
// or knows them only partly.
var refused = append(refusedHere,
	// the network
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	// other processes: their memory, their files, their limits, their time
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	unix.SYS_SETPRIORITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM,
	unix.SYS_SCHED_SETATTR, unix.SYS_IOPRIO_SET,
	// memory, queues and keys that processes of a user share: whoever knows or finds a number needs no call that gets it
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY,
	unix.SYS_MQ_GETSETATTR, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// a process that leaves its group would outlive its call
	unix.SYS_SETSID, unix.SYS_SETPGID,
	// what files have beside their content, by their names or when they are open to be read
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_TRUNCATE,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT,
	// the system, and ways around a filter
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SWAPON,
	unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_VHANGUP, unix.SYS_PERSONALITY,
)

// namespaces are the flags of clone that make new ones, in which a process would be root.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// Requests of ioctl that change what files have beside their content, and one that types into a terminal.
const (
	setFlags  = 0x40086602 // FS_IOC_SETFLAGS
	setXattrs = 0x401c5820 // FS_IOC_FSSETXATTR
)

// Where the filter finds the parts of a call (struct seccomp_data).
const (
	callNumber = 0
	callArch   = 4
	callArgs   = 16 // of 8 bytes, the low half first
)

func arg(n int) uint32 { return callArgs + 8*uint32(n) }

// Instructions of the filter.
func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// jump goes on after as many instructions as yes or no has.
func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func and(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
}

func answer(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

var (
	pass = answer(unix.SECCOMP_RET_ALLOW)
	deny = answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	// The C library asks for clone, whose flags can be seen, where it is told that there is no clone3.
	missing = answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	end     = answer(unix.SECCOMP_RET_KILL_PROCESS)
)

// filter returns the program that decides about each system call; noTimes: the times of no file may be set.
func filter(noTimes bool) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	p := []unix.SockFilter{load(callArch), jump(unix.BPF_JEQ, arch, 1, 0), end, load(callNumber),
		// x32: the same calls by other numbers
		jump(unix.BPF_JGE, 0x40000000, 0, 1), end}
	on := func(call int, then ...unix.SockFilter) {
		p = append(p, jump(unix.BPF_JEQ, uint32(call), 0, uint8(len(then))))
		p = append(p, then...)
	}
	for _, call := range refused {
		on(call, deny)
	}
	// A pair of streams reaches nothing else. One of datagrams can be sent and connected to any socket that has a path.
	on(unix.SYS_SOCKETPAIR, load(arg(0)), jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 3), load(arg(1)), and(0xf),
		jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0), deny, pass)
	on(unix.SYS_CLONE3, missing)
	on(unix.SYS_CLONE, load(arg(0)), jump(unix.BPF_JSET, namespaces, 0, 1), deny, pass)
	// limits of itself only
	on(unix.SYS_PRLIMIT64, load(arg(0)), jump(unix.BPF_JEQ, 0, 1, 0), deny, pass)
	on(unix.SYS_IOCTL, load(arg(1)), jump(unix.BPF_JEQ, setFlags, 2, 0), jump(unix.BPF_JEQ, setXattrs, 1, 0),
		jump(unix.BPF_JEQ, unix.TIOCSTI, 0, 1), deny, pass)
	if noTimes {
		on(unix.SYS_UTIMENSAT, deny)
	} else { // of files that are open, not of what a name is of
		on(unix.SYS_UTIMENSAT, load(arg(1)), jump(unix.BPF_JEQ, 0, 0, 2), load(arg(1)+4), jump(unix.BPF_JEQ, 0, 1, 0), deny, pass)
	}
	return append(p, pass)
}

// restrictCalls has this thread's system calls pass the filter.
func restrictCalls(noTimes bool) error {
	p := filter(noTimes)
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
