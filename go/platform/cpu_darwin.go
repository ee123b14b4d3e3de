package platform

import (
	"errors"
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

// ThisThread returns the calling thread.
func ThisThread() *Thread { return &Thread{} }

// KeepOn would let the thread run on these CPUs only: affinity determines only the speed.
func (t *Thread) KeepOn([]int) {}

// CurrentCPU returns the CPU that the calling thread runs on, which macOS does not tell.
func CurrentCPU() (int, error) { return 0, unsupported("call that tells a thread its CPU") }

// Computer describes the machine.
func Computer() (*Hardware, error) {
	h := &Hardware{Memories: MemoryNow()}
	h.Model, _ = unix.Sysctl("machdep.cpu.brand_string")
	threads, err := unix.SysctlUint32("hw.logicalcpu")
	if err != nil {
		return nil, err
	}
	cores, err := unix.SysctlUint32("hw.physicalcpu")
	if err != nil || cores == 0 || cores > threads || threads > MaxCPU {
		return nil, errors.New("sysctl hw.physicalcpu says nothing of use")
	}
	fast, err := unix.SysctlUint32("hw.perflevel0.physicalcpu") // of Apple's processors; the fastest cores are level 0
	if err != nil {
		fast = cores
	}
	for id := range int(threads) {
		c := CPU{ID: id, Core: id * int(cores) / int(threads), Allowed: true}
		if c.Core < int(fast) {
			c.Class = 1
		}
		h.CPUs = append(h.CPUs, c)
	}
	return h, nil
}

// MemoryNow is what Computer returns, of what changes. What is available is by the kernel's own measure of pressure.
func MemoryNow() (m Memories) {
	m.Total, _ = unix.SysctlUint64("hw.memsize")
	if percent, err := unix.SysctlUint32("kern.memorystatus_level"); err == nil && percent <= 100 {
		m.Available = m.Total / 100 * uint64(percent)
	}
	return m
}

// Root is the tree of files by which the system describes the machine and this process; nil: it answers calls.
func Root() fs.FS { return nil }

// MachineID returns what processes on one machine have in common that see each other's shared memory; "": that is not known.
func MachineID() string { return "" }
