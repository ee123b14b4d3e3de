package machine

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/platform"
)

// A Pinning says when threads are pinned, each to a CPU of its own.
type Pinning int

const (
	// PinWhole pins them if there is one for each core that they may use. If they are fewer, other
	// processes would choose the same CPUs and leave the rest idle; the kernel places threads by load.
	PinWhole  Pinning = iota
	PinAlways         // if there is a CPU for each
	PinNever
)

// A Placement is where threads run.
type Placement struct {
	CPUs   []int   // of each thread, the first for the caller's; nil: not pinned
	Among  []int   // CPUs that threads without one of their own stay on; nil: all that the process may use
	Places []Place // that the threads are in, in order, each on a NUMA node; nil: one
	Why    string  // the reason for pinning or not, and for one place where more were asked for
}

// String says where threads run, and why.
func (p Placement) String() string {
	where := "any"
	switch {
	case p.CPUs != nil:
		where = "pinned to " + Ranges(p.CPUs)
	case p.Among != nil:
		where = "any of " + Ranges(p.Among)
	}
	if p.Places != nil {
		where += fmt.Sprintf(" on %d NUMA nodes", len(p.Places))
	}
	return where + ": " + p.Why
}

// Of returns the CPUs that thread i stays on, and its place; no CPUs: all that the process may use.
func (p Placement) Of(i int) (cpus []int, place int) {
	at := i
	for at >= 0 && place < len(p.Places)-1 && at >= p.Places[place].Threads {
		at -= p.Places[place].Threads
		place++
	}
	switch {
	case p.CPUs != nil:
		return p.CPUs[i : i+1], place
	case p.Places != nil:
		return p.Places[place].CPUs, place
	}
	return p.Among, 0
}

// Nodes returns the NUMA node of each place's memory; nil for one place.
func (p Placement) Nodes() []int {
	var nodes []int
	for _, at := range p.Places {
		nodes = append(nodes, at.Node)
	}
	return nodes
}

// Ranges formats ascending numbers as 0-3,8.
func Ranges(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(ids[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Home returns the CPUs of the caller's thread; nil: all that the process may use.
func (p Placement) Home() []int {
	cpus, _ := p.Of(0)
	return cpus
}

// Place decides where n threads run, by m.Pinning and m.NUMA. CPUs that were named by Restrict are for these threads
// alone, so threads are pinned to them.
func (m *Machine) Place(n int) Placement {
	p := Placement{Places: m.places(n)}
	cpus := m.WorkerCPUs(n)
	if p.Places != nil && cpus != nil {
		cpus = m.pickIn(p.Places)
	}
	switch cores := m.Fastest(); {
	case m.unkept:
		p.Why = platform.Name + " keeps no thread on a CPU"
	case cpus == nil:
		p.Why = "more threads than CPUs that they may use"
	case m.Pinning == PinNever, m.Pinning == PinAlways:
		p.Why = "as requested"
	case m.restricted:
		p.Why = "to the requested CPUs"
	case n < cores:
		p.Why = fmt.Sprintf("fewer threads than the %d cores, which other processes may use", cores)
	case cores < m.Cores() && n <= cores:
		p.Why = "one on each of the fast cores"
	default:
		p.Why = "one on each core"
	}
	if nodes := len(m.domains()); p.Places == nil && nodes > n && (m.NUMA == NUMADistribute || m.NUMA == NUMANumactl) {
		p.Why += fmt.Sprintf("; fewer threads than the %d NUMA nodes, so they are not spread over these", nodes)
	}
	if nodes := len(m.domains()); nodes > MaxPlaces && m.NUMA != NUMAOff && m.NUMA != NUMAIsolate {
		p.Why += fmt.Sprintf("; this machine has %d NUMA nodes, and threads are spread over %d at most: give --numa off, or the "+
			"CPUs of some of them", nodes, MaxPlaces)
	}
	if cpus != nil && m.Pinning != PinNever && (m.Pinning == PinAlways || m.restricted || n >= m.Fastest()) {
		p.CPUs = cpus
	} else if m.restricted || m.isolated {
		for _, c := range m.CPUs {
			if c.Allowed {
				p.Among = append(p.Among, c.ID)
			}
		}
	}
	return p
}
