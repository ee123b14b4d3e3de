// Package machine reads the properties of the machine that determine the number of
// threads and the memory to use: processors and their hyperthreads, NUMA nodes, the affinity mask,
// the CPU quota and memory limits of every control group of this process, and the huge
// page policy.
//
// It reads Linux's /proc and /sys, and asks other systems by package platform, and decides nothing beyond the default number
// of threads and whether they are pinned. Missing or malformed files count as absent, so that it also works in a
// sandbox that hides half of /sys.
package machine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/quern-llm/quern/go/platform"
)

// A CPU is one logical processor, as the kernel numbers them.
type CPU struct {
	ID      int  // the kernel's number
	Core    int  // the same for the hyperthreads of one core; 0, 1, ... over the whole machine
	Package int  // the socket
	Node    int  // the NUMA node
	Allowed bool // whether the affinity mask lets this process run there
	Class   int  // of speed: cores of the largest are the fastest; the same for all where the system does not say

	Kind     string // of an Arm core, as its maker calls it; empty: not known, or not Arm
	Capacity int    // of the core, where the fastest has 1024; 0: the system does not say
}

// A Machine is a snapshot. It does not change afterwards; Again takes another.
type Machine struct {
	Arch  string   // as Go names it: amd64, arm64
	Model string   // of the processor; empty if unknown
	Flags []string // the instruction sets that the kernel lists
	SVE   int      // bits of a vector of Arm's SVE; 0: there is none

	CPUs  []CPU  // online, in order of ID
	Nodes []Node // online, in order of ID; nil if the kernel does not say
	Limits

	Pinning    Pinning // what the user asked for
	NUMA       NUMA    // what the user asked for
	Virtual    int     // nodes to pretend that there are; 0: the real ones
	restricted bool    // by Restrict
	isolated   bool    // by Isolate

	PageSize     int
	HugePageSize uint64 // bytes of a transparent huge page; 0 if there are none
	THP          THP

	root   tree // of files; none where the system answers calls
	unkept bool // threads cannot be kept on CPUs
}

// Limits are what may change while the process runs: a container may be resized.
type Limits struct {
	Quotas []Quota // of CPU time, from the process's own group upwards

	MemTotal     uint64         // bytes; 0 when unknown
	MemAvailable uint64         // bytes available without swapping; 0 if unknown
	MemOwn       uint64         // bytes of this process that only swapping could free
	SwapTotal    uint64         // bytes; 0 when there is none
	MemLimits    []MemLimit     // of control groups, from the process's own group upwards
	SwapLimits   []MemLimit     // the same, of swap
	Short        platform.Short // what the system itself says of how short memory is
}

// THP is the policy for transparent huge pages, in the kernel's words: always,
// madvise, never and, for Defrag, also defer and defer+madvise. Empty is unknown.
type THP struct {
	Enabled string
	Defrag  string
}

// HugePages reports whether memory is asked for on huge pages: the kernel has them, and of a size that a part of a model fills.
func (m *Machine) HugePages() bool {
	return (m.THP.Enabled == "always" || m.THP.Enabled == "madvise") && m.HugePageSize <= platform.MaxHugePage
}

// Read reads the properties of this machine.
func Read() (*Machine, error) {
	h, err := platform.Computer()
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	if h != nil {
		return fromCalls(h), nil
	}
	m, err := ReadFS(os.DirFS("/"), platform.Affinity())
	if err == nil {
		m.SVE = platform.SVEBits()
		m.bind(platform.BoundNodes())
	}
	return m, err
}

// fromCalls is the machine that the system describes by calls.
func fromCalls(h *platform.Hardware) *Machine {
	m := &Machine{Arch: runtime.GOARCH, Model: h.Model, PageSize: os.Getpagesize(), Limits: limitsOf(h.Memories), unkept: !h.Pins}
	cores := map[int]int{}
	for _, c := range h.CPUs {
		core, ok := cores[c.Core]
		if !ok {
			core = len(cores)
			cores[c.Core] = core
		}
		m.CPUs = append(m.CPUs, CPU{ID: c.ID, Core: core, Package: c.Package, Node: c.Node, Allowed: c.Allowed, Class: c.Class})
	}
	return m
}

// ReadFS is Read with root in place of /. allowed is the affinity mask; nil means all
// CPUs.
func ReadFS(root fs.FS, allowed []int) (*Machine, error) {
	t := tree{root}
	m := &Machine{Arch: runtime.GOARCH, PageSize: os.Getpagesize(), root: t}
	info := t.cpuinfo()
	m.Model, m.Flags = info.model, info.flags
	m.Nodes = t.nodeList()
	m.CPUs = t.cpus(info, allowed, m.Nodes)
	m.Model = cmp.Or(m.Model, m.kinds())
	if len(m.CPUs) == 0 {
		return nil, errors.New("machine: neither /proc/cpuinfo nor /sys/devices/system/cpu can be read; mount /proc")
	}
	m.Limits = t.limits()
	const thp = "sys/kernel/mm/transparent_hugepage/"
	m.THP = THP{Enabled: chosen(t.text(thp + "enabled")), Defrag: chosen(t.text(thp + "defrag"))}
	m.HugePageSize, _ = t.uint(thp + "hpage_pmd_size")
	return m, nil
}

// Again returns the machine with its limits as they are now.
func (m *Machine) Again() *Machine {
	now := *m
	if m.root.root == nil {
		now.Limits = limitsOf(platform.MemoryNow())
	} else {
		now.Limits = m.root.limits()
	}
	return &now
}
