package platform

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const threadClock = unix.CLOCK_THREAD_CPUTIME_ID

// MaxCPU bounds the numbers of CPUs. Linux supports at most 8192.
const MaxCPU = 1 << 16

// Affinity returns the CPUs that the process's first thread may use; nil: all, or the system does not say.
func Affinity() []int {
	set := unix.NewCPUSet(MaxCPU)
	if err := unix.SchedGetaffinityDynamic(os.Getpid(), set); err != nil {
		return nil
	}
	var ids []int
	for id := range MaxCPU {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// A Thread is a thread of the operating system whose affinity may be changed from any other.
type Thread struct {
	id  int
	own unix.CPUSetDynamic // its affinity before; nil: unknown, and left alone
}

// ThisThread returns the calling thread. The caller's goroutine is locked to it for as long as it is used.
func ThisThread() *Thread {
	t := &Thread{unix.Gettid(), unix.NewCPUSet(MaxCPU)}
	if unix.SchedGetaffinityDynamic(t.id, t.own) != nil {
		t.own = nil
	}
	return t
}

// KeepOn lets the thread run on these CPUs only; none: where it ran before. Failure is ignored: affinity
// determines only the speed.
func (t *Thread) KeepOn(cpus []int) {
	if t.own == nil {
		return
	}
	set := t.own
	if len(cpus) > 0 {
		set = unix.NewCPUSet(MaxCPU)
		for _, id := range cpus {
			set.Set(id)
		}
	}
	_ = unix.SchedSetaffinityDynamic(t.id, set)
}

// CurrentCPU returns the CPU that the calling thread runs on.
func CurrentCPU() (int, error) {
	var cpu, node uint32
	if _, _, errno := unix.Syscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return 0, fmt.Errorf("the kernel does not say which CPU this process runs on: %w", errno)
	}
	return int(cpu), nil
}

// SVEBits returns the bits of a vector of Arm's SVE; 0: there is none.
func SVEBits() int {
	n, err := unix.PrctlRetInt(unix.PR_SVE_GET_VL, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return 8 * (n & unix.PR_SVE_VL_LEN_MASK)
}

// Computer describes the machine; nil: the system tells of it in files of /proc and /sys.
func Computer() (*Hardware, error) { return nil, nil }

// MemoryNow is what Computer returns, of what changes.
func MemoryNow() Memories { return Memories{} }

// Root is the tree of files by which the system describes the machine and this process; nil: it answers calls.
func Root() fs.FS { return os.DirFS("/") }

// MachineID returns what processes on one machine have in common that see each other's shared memory; "": that is not known.
func MachineID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	var memory unix.Stat_t
	if err := unix.Stat("/dev/shm", &memory); err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", strings.TrimSpace(string(boot)), memory.Dev)
}
