package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What macOS's answers mean. There are no calls here, so that every system tests it.

// A sysctl returns the number that macOS has under a name.
type sysctl func(name string) (uint64, error)

// macNumber reads a number of sysctl's, of 32 or 64 bits.
func macNumber(b []byte) (uint64, error) {
	switch len(b) {
	case 4:
		return uint64(binary.LittleEndian.Uint32(b)), nil
	case 8:
		return binary.LittleEndian.Uint64(b), nil
	}
	return 0, fmt.Errorf("sysctl has a number of %d bytes, want 4 or 8", len(b))
}

// macCPUs returns the CPUs, those of the fastest cores first. A processor has levels of speed, of which 0 is the fastest; where
// macOS names none, all cores are alike. Apple: "Determining system capabilities".
func macCPUs(read sysctl) ([]CPU, error) {
	levels := []string{"hw."}
	if n, err := read("hw.nperflevels"); err == nil && 1 < n && n <= 16 {
		levels = nil
		for i := range n {
			levels = append(levels, fmt.Sprintf("hw.perflevel%d.", i))
		}
	}
	var cpus []CPU
	cores := 0
	for i, level := range levels {
		threads, err := read(level + "logicalcpu")
		if err != nil {
			return nil, err
		}
		own, err := read(level + "physicalcpu")
		if err != nil {
			return nil, err
		}
		if own > threads || threads > MaxCPU || own == 0 && threads > 0 {
			return nil, fmt.Errorf("sysctl has %d cores with %d threads as %sphysicalcpu", own, threads, level)
		}
		for t := range threads {
			core := cores + int(t*own/threads)
			cpus = append(cpus, CPU{ID: len(cpus), Core: core, Class: len(levels) - 1 - i, Allowed: true})
		}
		cores += int(own)
	}
	if len(cpus) == 0 {
		return nil, errors.New("sysctl has no CPUs")
	}
	return cpus, nil
}

// macMemory returns what sysctl says of memory. What is available is by the kernel's own measure of pressure, in percent.
func macMemory(read sysctl) (m Memories) {
	m.Total, _ = read("hw.memsize")
	if percent, err := read("kern.memorystatus_level"); err == nil && percent <= 100 {
		m.Available = m.Total / 100 * percent
	}
	switch level, _ := read("kern.memorystatus_vm_pressure_level"); level { // as DISPATCH_MEMORYPRESSURE_NORMAL is 1
	case 2:
		m.Short = ShortWarning
	case 4:
		m.Short = ShortCritical
	}
	return m
}

// A macUsage is struct rusage_info_v0 of macOS's sys/resource.h.
type macUsage struct {
	UUID                                      [16]byte
	User, System, IdleWakeups, Wakeups, Paged uint64
	Wired                                     uint64
	Resident                                  uint64 // pages of files included
	Footprint                                 uint64 // what the process alone has, compressed pages included
	Started, Ended                            uint64
}
