package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

var (
	procThreadTimes                  = kernel32.NewProc("GetThreadTimes")
	procPerformanceCounter           = kernel32.NewProc("QueryPerformanceCounter")
	procPerformanceFrequency         = kernel32.NewProc("QueryPerformanceFrequency")
	procProcessors                   = kernel32.NewProc("GetLogicalProcessorInformationEx")
	procCurrentProcessor             = kernel32.NewProc("GetCurrentProcessorNumberEx")
	procSetGroupAffinity             = kernel32.NewProc("SetThreadGroupAffinity")
	procGetGroupAffinity             = kernel32.NewProc("GetThreadGroupAffinity")
	procProcessAffinity              = kernel32.NewProc("GetProcessAffinityMask")
	procProcessGroups                = kernel32.NewProc("GetProcessGroupAffinity")
	procMemoryStatus                 = kernel32.NewProc("GlobalMemoryStatusEx")
	currentThread            uintptr = ^uintptr(1) // the pseudo handle -2
)

// MaxCPU bounds the numbers of CPUs.
const MaxCPU = 1 << 16

// groupCPUs is how many CPUs a processor group has at most, whose CPUs are numbered from a multiple of it.
const groupCPUs = 64

// ThreadTime returns the CPU time of the calling thread, which Windows counts in ticks of some milliseconds.
func ThreadTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	ok, _, err := procThreadTimes.Call(currentThread, uintptr(unsafe.Pointer(&created)), uintptr(unsafe.Pointer(&ended)),
		uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user)))
	if ok == 0 {
		panic(err) // cannot fail with these arguments
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}

// Clock returns a time by which short work is measured: it goes on steadily, from any point. Go's clock has the resolution of
// Windows' ticks, half a millisecond to 16, which is longer than a pass of a small model.
func Clock() time.Duration {
	var n int64
	procPerformanceCounter.Call(uintptr(unsafe.Pointer(&n))) // cannot fail since Windows XP
	hz := countsPerSecond()
	return time.Duration(n/hz)*time.Second + time.Duration(n%hz*int64(time.Second)/hz)
}

var countsPerSecond = sync.OnceValue(func() (n int64) {
	procPerformanceFrequency.Call(uintptr(unsafe.Pointer(&n)))
	return max(n, 1)
})

// A groupAffinity is CPUs of a processor group.
type groupAffinity struct {
	mask  uintptr
	group uint16
	_     [3]uint16
}

func (g groupAffinity) ids() (ids []int) {
	for m := uint64(g.mask); m != 0; m &= m - 1 {
		ids = append(ids, int(g.group)*groupCPUs+bits.TrailingZeros64(m))
	}
	return ids
}

// Affinity returns the CPUs that the process may use; nil: all, or the system does not say. A process of one group has a mask.
func Affinity() []int {
	groups := make([]uint16, 64)
	n := uint16(len(groups))
	ok, _, _ := procProcessGroups.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&groups[0])))
	if ok == 0 || n != 1 {
		return nil
	}
	var own, all uintptr
	ok, _, _ = procProcessAffinity.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&own)), uintptr(unsafe.Pointer(&all)))
	if ok == 0 || own == 0 || own == all {
		return nil // since Windows 11 a process is of all groups, unless it has a mask
	}
	return groupAffinity{mask: own, group: groups[0]}.ids()
}

// A Thread is a thread of the operating system whose affinity may be changed from any other.
type Thread struct {
	h   windows.Handle
	own groupAffinity // before; no CPUs: unknown, and left alone
}

// ThisThread returns the calling thread. The caller's goroutine is locked to it for as long as it is used.
func ThisThread() *Thread {
	t := &Thread{}
	const wanted = windows.THREAD_SET_INFORMATION | windows.THREAD_QUERY_INFORMATION
	var err error
	if t.h, err = windows.OpenThread(wanted, false, windows.GetCurrentThreadId()); err != nil {
		return t
	}
	if ok, _, _ := procGetGroupAffinity.Call(uintptr(t.h), uintptr(unsafe.Pointer(&t.own))); ok == 0 {
		t.own = groupAffinity{}
	}
	return t
}

// KeepOn lets the thread run on these CPUs only, of those in the first one's group; none: where it ran before. Failure is
// ignored: affinity determines only the speed.
func (t *Thread) KeepOn(cpus []int) {
	if t.own.mask == 0 {
		return
	}
	to := t.own
	if len(cpus) > 0 {
		to = groupAffinity{group: uint16(cpus[0] / groupCPUs)}
		for _, id := range cpus {
			if id/groupCPUs == int(to.group) {
				to.mask |= 1 << (id % groupCPUs)
			}
		}
	}
	_, _, _ = procSetGroupAffinity.Call(uintptr(t.h), uintptr(unsafe.Pointer(&to)), 0)
}

// CurrentCPU returns the CPU that the calling thread runs on.
func CurrentCPU() (int, error) {
	var n struct {
		group       uint16
		number, pad uint8
	}
	if err := procCurrentProcessor.Find(); err != nil {
		return 0, fmt.Errorf("the system does not say which CPU this process runs on: %w", err)
	}
	_, _, _ = procCurrentProcessor.Call(uintptr(unsafe.Pointer(&n)))
	return int(n.group)*groupCPUs + int(n.number), nil
}

// What GetLogicalProcessorInformationEx tells of.
const (
	relationCore    = 0
	relationNode    = 1
	relationPackage = 3
	relationAll     = 0xffff
)

// Computer describes the machine.
func Computer() (*Hardware, error) {
	h := &Hardware{Pins: true, Memories: MemoryNow()}
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`, registry.QUERY_VALUE); err == nil {
		name, _, _ := k.GetStringValue("ProcessorNameString")
		h.Model = strings.TrimSpace(name)
		k.Close()
	}
	var n uint32
	_, _, err := procProcessors.Call(relationAll, 0, uintptr(unsafe.Pointer(&n)))
	if n == 0 || n > 1<<24 {
		return nil, fmt.Errorf("the processors are not listed: %w", err)
	}
	b := make([]byte, n)
	if ok, _, err := procProcessors.Call(relationAll, uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n))); ok == 0 {
		return nil, fmt.Errorf("the processors are not listed: %w", err)
	}
	if h.CPUs = processors(b[:n], Affinity()); len(h.CPUs) == 0 {
		return nil, errors.New("the list of processors has none")
	}
	return h, nil
}

// processors reads the answer of GetLogicalProcessorInformationEx: records of a relationship, their size, and what it says.
func processors(b []byte, allowed []int) []CPU {
	cpus := map[int]*CPU{}
	of := func(id int) *CPU {
		if cpus[id] == nil {
			cpus[id] = &CPU{ID: id, Core: -1, Allowed: allowed == nil || slices.Contains(allowed, id)}
		}
		return cpus[id]
	}
	cores, packages := 0, 0
	for len(b) >= 8 {
		kind, size := word32(b), int(word32(b[4:]))
		if size < 8 || size > len(b) {
			break
		}
		r := b[8:size]
		b = b[size:]
		switch {
		case (kind == relationCore || kind == relationPackage) && len(r) >= 24: // flags, class, 20 bytes, groups
			for i := range int(word16(r[22:])) {
				for _, id := range masked(r, 24+16*i) {
					if c := of(id); kind == relationCore {
						c.Core, c.Class = cores, int(r[1])
					} else {
						c.Package = packages
					}
				}
			}
			if kind == relationCore {
				cores++
			} else {
				packages++
			}
		case kind == relationNode && len(r) >= 24: // number, 18 bytes, groups
			for i := range max(int(word16(r[22:])), 1) { // 0 before Windows 11, for one
				for _, id := range masked(r, 24+16*i) {
					of(id).Node = int(word32(r))
				}
			}
		}
	}
	var list []CPU
	for _, c := range cpus {
		if c.Core >= 0 {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b CPU) int { return a.ID - b.ID })
	return list
}

// masked returns the CPUs of a GROUP_AFFINITY at an offset of a record.
func masked(r []byte, at int) []int {
	if at+16 > len(r) {
		return nil
	}
	mask := uint64(word32(r[at:])) | uint64(word32(r[at+4:]))<<32
	return groupAffinity{mask: uintptr(mask), group: word16(r[at+8:])}.ids()
}

func word16(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }
func word32(b []byte) uint32 { return uint32(word16(b)) | uint32(word16(b[2:]))<<16 }

// SVEBits returns the bits of a vector of Arm's SVE; 0: there is none, or the system does not say.
func SVEBits() int { return 0 }

// MemoryNow is what Computer returns, of what changes. Limits are those of the job object that the process is in: containers
// and services have one.
func MemoryNow() (m Memories) {
	var s struct {
		size, load                          uint32
		total, available, allPages, pages   uint64
		allAddresses, addresses, extensions uint64
	}
	s.size = uint32(unsafe.Sizeof(s))
	if ok, _, _ := procMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok != 0 {
		// Windows promises no more than memory and page file together.
		m.Total, m.Available, m.Swap = s.total, min(s.available, s.pages), s.allPages-min(s.allPages, s.total)
	}
	m.Own = Memory().Anonymous
	var job windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	err := windows.QueryInformationJobObject(0, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&job)), uint32(unsafe.Sizeof(job)), nil)
	if err == nil {
		flags := job.BasicLimitInformation.LimitFlags
		if flags&windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY != 0 {
			m.Limits = append(m.Limits, MemoryLimit{Bytes: uint64(job.ProcessMemoryLimit), Used: m.Own, Kind: "job object, of the process"})
		}
		if flags&windows.JOB_OBJECT_LIMIT_JOB_MEMORY != 0 {
			m.Limits = append(m.Limits, MemoryLimit{Bytes: uint64(job.JobMemoryLimit), Kind: "job object"})
		}
	}
	// The rate is of all CPUs, in hundredths of a percent.
	var rate struct{ flags, value uint32 }
	const rateControl, enabled, hard = 15, 1, 4
	err = windows.QueryInformationJobObject(0, rateControl, uintptr(unsafe.Pointer(&rate)), uint32(unsafe.Sizeof(rate)), nil)
	if err == nil && rate.flags&(enabled|hard) == enabled|hard {
		const allGroups = 0xffff
		m.CPUs = float64(windows.GetActiveProcessorCount(allGroups)) * float64(rate.value) / 10000
	}
	return m
}

// Root is the tree of files by which the system describes the machine and this process; nil: it answers calls.
func Root() fs.FS { return nil }

// MachineID returns what processes on one machine have in common that see each other's shared memory; "": that is not known.
func MachineID() string { return "" }
