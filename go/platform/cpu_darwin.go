package platform

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

const threadClock = 16 // CLOCK_THREAD_CPUTIME_ID

// MaxCPU bounds the numbers of CPUs.
const MaxCPU = 1 << 16

// Affinity returns the CPUs that the process's first thread may use; nil: all, or the system does not say.
func Affinity() []int { return nil }

// A Thread is a thread of the operating system. macOS keeps none on a CPU.
type Thread struct{}

// ThisThread returns the calling thread. From now on macOS takes its work for what somebody waits for, and so prefers the fast
// cores for it; the threads of the C library have the same class.
func ThisThread() *Thread {
	const userInitiated = 0x19 // of sys/qos.h; failure costs only speed
	_, _, _ = syscall_syscall(pthread_set_qos_class_self_np_trampoline_addr, userInitiated, 0, 0)
	return &Thread{}
}

// KeepOn would let the thread run on these CPUs only: affinity determines only the speed.
func (t *Thread) KeepOn([]int) {}

// CurrentCPU returns the CPU that the calling thread runs on, which macOS does not tell.
func CurrentCPU() (int, error) { return 0, unsupported("call that tells a thread its CPU") }

// system is the sysctl of this machine.
func system(name string) (uint64, error) {
	b, err := unix.SysctlRaw(name)
	if err != nil {
		return 0, fmt.Errorf("sysctl %s: %w", name, err)
	}
	return macNumber(b)
}

// Computer describes the machine.
func Computer() (h *Hardware, err error) {
	h = &Hardware{Memories: MemoryNow()}
	h.Model, _ = unix.Sysctl("machdep.cpu.brand_string")
	h.CPUs, err = macCPUs(system)
	return h, err
}

// SVEBits returns the bits of a vector of Arm's SVE; 0: there is none, or the system does not say.
func SVEBits() int { return 0 }

// MemoryNow is what Computer returns, of what changes.
func MemoryNow() Memories {
	m := macMemory(system)
	m.Own = Memory().Anonymous
	return m
}

// Root is the tree of files by which the system describes the machine and this process; nil: it answers calls.
func Root() fs.FS { return nil }

// MachineID returns what processes on one machine have in common that see each other's shared memory; "": that is not known.
func MachineID() string { return "" }
