package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// cpuinfo is the content of /proc/cpuinfo.
type cpuinfo struct {
	model string
	flags []string
	cores map[int]coreKey // by processor
	parts map[int]part    // of Arm, by processor
}

// A coreKey identifies a core by the numbers of its socket and core.
type coreKey struct {
	pkg, die, core int
}

func (t tree) cpuinfo() cpuinfo {
	info := cpuinfo{cores: map[int]coreKey{}, parts: map[int]part{}}
	id := -1
	for line := range strings.Lines(t.text("proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		number, err := strconv.Atoi(value)
		isNumber := err == nil && number >= 0
		switch strings.TrimSpace(key) {
		case "processor":
			id = -1
			if isNumber && number < maxCPU {
				id = number
				// Without a "core id", as on Arm, each processor is its own core.
				info.cores[id] = coreKey{core: id}
			}
		case "physical id":
			if c, ok := info.cores[id]; ok && isNumber {
				c.pkg = number
				info.cores[id] = c
			}
		case "core id":
			if c, ok := info.cores[id]; ok && isNumber {
				c.core = number
				info.cores[id] = c
			}
		case "model name", "uarch": // the latter of RISC-V
			info.model = cmp.Or(info.model, value)
		case "flags", "Features", "isa": // x86, Arm, RISC-V
			if info.flags == nil {
				info.flags = strings.Fields(value)
			}
		case "CPU implementer", "CPU part":
			n, err := strconv.ParseUint(value, 0, 16)
			if _, ok := info.cores[id]; !ok || err != nil {
				continue
			}
			p := info.parts[id]
			if strings.HasPrefix(line, "CPU part") {
				p.number = int(n)
			} else {
				p.implementer = int(n)
			}
			info.parts[id] = p
		}
	}
	return info
}

// cpus lists the processors. The affinity mask is trusted even if it contains a CPU
// that the files do not: containers may see renumbered files, but the mask comes from
// the kernel.
func (t tree) cpus(info cpuinfo, allowed []int, nodes []Node) []CPU {
	const dir = "sys/devices/system/cpu"
	ids := t.list(dir + "/online")
	if ids == nil {
		for id := range info.cores {
			ids = append(ids, id)
		}
	}
	ids = append(ids, allowed...)
	slices.Sort(ids)
	ids = slices.Compact(ids)

	nodeOf := map[int]int{}
	for _, n := range nodes {
		for _, id := range n.CPUs {
			nodeOf[id] = n.ID
		}
	}
	cores := map[any]int{} // number of a core by its lowest sibling, or by coreKey
	var cpus []CPU
	for _, id := range ids {
		topology := fmt.Sprintf("%s/cpu%d/topology/", dir, id)
		known, ok := info.cores[id]
		if !ok {
			known = coreKey{core: id}
		}
		at := coreKey{
			pkg:  t.int(topology+"physical_package_id", known.pkg),
			die:  t.int(topology+"die_id", 0),
			core: t.int(topology+"core_id", known.core),
		}
		var key any = at
		if siblings := t.list(topology + "thread_siblings_list"); slices.Contains(siblings, id) {
			key = slices.Min(siblings)
		}
		core, ok := cores[key]
		if !ok {
			core = len(cores)
			cores[key] = core
		}
		cpus = append(cpus, CPU{
			ID: id, Core: core, Package: at.pkg, Node: nodeOf[id],
			Allowed: allowed == nil || slices.Contains(allowed, id),
		})
	}
	t.classify(cpus, info.parts)
	return cpus
}

// Cores returns how many physical cores the affinity mask reaches. The
// hyperthreads of a core count as one.
func (m *Machine) Cores() int {
	seen := map[int]bool{}
	for _, c := range m.CPUs {
		if c.Allowed {
			seen[c.Core] = true
		}
	}
	return len(seen)
}

// Fastest returns how many physical cores of the fastest class the affinity mask reaches.
func (m *Machine) Fastest() int {
	best, seen := math.MinInt, map[int]bool{}
	for _, c := range m.CPUs {
		if c.Allowed && c.Class > best {
			best, seen = c.Class, map[int]bool{}
		}
		if c.Allowed && c.Class == best {
			seen[c.Core] = true
		}
	}
	return len(seen)
}

// Threads returns the default number of workers: one for each physical core within the
// affinity mask, without the slower ones of a processor that has two kinds, limited to the whole CPUs of the quota. The quota is rounded down
// because workers meet at barriers: if one is throttled, all wait.
func (m *Machine) Threads() int {
	n := m.Fastest()
	if q, ok := m.Quota(); ok && q.CPUs < float64(n) {
		n = int(math.Floor(q.CPUs))
	}
	return min(max(n, 1), MaxThreads)
}

// MaxThreads is the maximum number of threads, as kernel.Pool has it.
const MaxThreads = 1024

// WorkerCPUs returns the CPUs to pin n workers to, one each: one hyperthread of every
// core before the second of any, the fastest cores first, filling one NUMA node after the other. It returns nil
// if the affinity mask has fewer than n, or the system keeps no thread on a CPU: then do not pin.
func (m *Machine) WorkerCPUs(n int) []int {
	if m.unkept {
		return nil
	}
	return pick(slices.DeleteFunc(slices.Clone(m.CPUs), func(c CPU) bool { return !c.Allowed }), n)
}

func pick(cpus []CPU, n int) []int {
	type place struct{ thread, slow, node, weak, id int }
	threads := map[int]int{} // seen so far, by core
	var places []place
	for _, c := range cpus {
		places = append(places, place{threads[c.Core], -c.Class, c.Node, -c.Capacity, c.ID})
		threads[c.Core]++
	}
	if n <= 0 || n > len(places) {
		return nil
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.slow, b.slow), cmp.Compare(a.node, b.node),
			cmp.Compare(a.weak, b.weak), cmp.Compare(a.id, b.id))
	})
	ids := make([]int, n)
	for i := range ids {
		ids[i] = places[i].id
	}
	return ids
}

// pickIn is WorkerCPUs for threads in places.
func (m *Machine) pickIn(places []Place) []int {
	var ids []int
	for _, p := range places {
		cpus := pick(slices.DeleteFunc(slices.Clone(m.CPUs), func(c CPU) bool { return !slices.Contains(p.CPUs, c.ID) }), p.Threads)
		if cpus == nil || slices.ContainsFunc(cpus, func(id int) bool { return slices.Contains(ids, id) }) {
			return nil // too few, or virtual nodes on the same CPUs
		}
		ids = append(ids, cpus...)
	}
	return ids
}
