package machine

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/platform"
)

// A Node is a NUMA node: CPUs, memory, or both.
type Node struct {
	ID       int    // the kernel's number; there may be gaps
	CPUs     []int  // that are online, whether this process may use them or not
	Memory   uint64 // bytes; 0 for a node without
	Usable   bool   // whether this process may have memory there
	Distance []int  // to each of Machine.Nodes, in their order, in units of which 10 is a node's own; nil if unknown
}

// NUMA says how threads and weights are spread over nodes. Its words are llama-server's.
type NUMA int

const (
	NUMAAuto       NUMA = iota // over all nodes, if at least half of the cores have a thread
	NUMAOff                    // as the kernel does
	NUMADistribute             // over all nodes, if there is a thread for each
	NUMAIsolate                // on the node that the process runs on
	NUMANumactl                // over the nodes that numactl or a cpuset leaves: as distribute
)

var numaWords = []string{"auto", "off", "distribute", "isolate", "numactl"}

// NUMANames returns the words of all.
func NUMANames() []string { return slices.Clone(numaWords) }

// String returns the word of a NUMA.
func (n NUMA) String() string { return numaWords[n] }

// ParseNUMA returns the NUMA with that name.
func ParseNUMA(s string) (NUMA, error) {
	if i := slices.Index(numaWords, s); i >= 0 {
		return NUMA(i), nil
	}
	return 0, fmt.Errorf("want one of %s", strings.Join(numaWords, ", "))
}

// MaxPlaces is the maximum number of places of a Placement, as kernel.Pool has it.
const MaxPlaces = 64

// A Place is threads that run on one node.
type Place struct {
	Node    int   // where their memory is; -1 if unknown
	Threads int   // at least one
	CPUs    []int // of the node, that they may use
}

// nodeList returns the NUMA nodes. Those whose files cannot be read are left out.
func (t tree) nodeList() []Node {
	const dir = "sys/devices/system/node"
	ids := t.list(dir + "/online")
	if len(ids) > platform.MaxNodes {
		return nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	usable := t.list("proc/self/status:Mems_allowed_list")
	var nodes []Node
	for _, id := range ids {
		of := fmt.Sprintf("%s/node%d/", dir, id)
		n := Node{
			ID: id, CPUs: t.list(of + "cpulist"), Memory: memTotal(t.text(of + "meminfo")),
			Usable: usable == nil || slices.Contains(usable, id),
		}
		for word := range strings.FieldsSeq(t.text(of + "distance")) {
			d, err := strconv.Atoi(word)
			if err != nil || d < 1 {
				n.Distance = nil
				break
			}
			n.Distance = append(n.Distance, d)
		}
		if len(n.Distance) != len(ids) { // it lists those of online nodes
			n.Distance = nil
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// memTotal reads "Node 0 MemTotal: 32768 kB" of a node's meminfo.
func memTotal(text string) uint64 {
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, "MemTotal:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil && kb < 1<<54 {
				return kb << 10
			}
		}
	}
	return 0
}

// bind makes only these nodes usable for memory; nil changes nothing.
func (m *Machine) bind(nodes []int) {
	for i := range m.Nodes {
		m.Nodes[i].Usable = m.Nodes[i].Usable && (nodes == nil || slices.Contains(nodes, m.Nodes[i].ID))
	}
}

// Isolate removes the CPUs of all nodes but the one that the caller runs on from the allowed ones.
func (m *Machine) Isolate() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, err := platform.CurrentCPU()
	if err != nil {
		return err
	}
	return m.isolate(cpu)
}

func (m *Machine) isolate(cpu int) error {
	i := slices.IndexFunc(m.CPUs, func(c CPU) bool { return c.ID == cpu && c.Allowed })
	if i < 0 { // it may have been restricted to others
		i = slices.IndexFunc(m.CPUs, func(c CPU) bool { return c.Allowed })
	}
	if i < 0 {
		return errors.New("this process may use no CPU")
	}
	node := m.CPUs[i].Node
	for k := range m.CPUs {
		m.CPUs[k].Allowed = m.CPUs[k].Allowed && m.CPUs[k].Node == node
	}
	m.isolated = true
	return nil
}

// A domain is what may become a Place.
type domain struct {
	node int
	cpus []CPU // that are allowed
}

func (d domain) cores() int {
	seen := map[int]bool{}
	for _, c := range d.cpus {
		seen[c.Core] = true
	}
	return len(seen)
}

func (d domain) ids() []int {
	var ids []int
	for _, c := range d.cpus {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

// domains returns the nodes that have allowed CPUs, or the virtual ones.
func (m *Machine) domains() []domain {
	var allowed []CPU
	for _, c := range m.CPUs {
		if c.Allowed {
			allowed = append(allowed, c)
		}
	}
	if m.Virtual > 0 {
		return m.virtual(allowed)
	}
	slices.SortStableFunc(allowed, func(a, b CPU) int { return cmp.Compare(a.Node, b.Node) })
	var list []domain
	for _, c := range allowed {
		if n := len(list); n == 0 || list[n-1].cpus[0].Node != c.Node {
			list = append(list, domain{node: m.memoryOf(c.Node)})
		}
		list[len(list)-1].cpus = append(list[len(list)-1].cpus, c)
	}
	return list
}

// virtual divides the cores into m.Virtual nodes, or gives each node all of them if they are fewer.
func (m *Machine) virtual(allowed []CPU) []domain {
	var cores []int
	for _, c := range allowed {
		if !slices.Contains(cores, c.Core) {
			cores = append(cores, c.Core)
		}
	}
	list := make([]domain, m.Virtual)
	for i := range list {
		list[i].cpus = allowed
		if len(cores) >= m.Virtual {
			own := cores[len(cores)*i/m.Virtual : len(cores)*(i+1)/m.Virtual]
			list[i].cpus = nil
			for _, c := range allowed {
				if slices.Contains(own, c.Core) {
					list[i].cpus = append(list[i].cpus, c)
				}
			}
		}
		list[i].node = -1
		if len(list[i].cpus) > 0 {
			list[i].node = m.memoryOf(list[i].cpus[0].Node)
		}
	}
	return list
}

// memoryOf returns the nearest node to a node that has memory for this process, which may be the node itself; -1 if
// none is known.
func (m *Machine) memoryOf(node int) int {
	best, least := -1, 0
	from := slices.IndexFunc(m.Nodes, func(n Node) bool { return n.ID == node })
	for i, n := range m.Nodes {
		if n.Memory == 0 || !n.Usable {
			continue
		}
		if n.ID == node {
			return node
		}
		d := 20 // what the kernel assumes
		if from >= 0 && m.Nodes[from].Distance != nil {
			d = m.Nodes[from].Distance[i]
		}
		if best < 0 || d < least {
			best, least = n.ID, d
		}
	}
	return best
}

// places spreads n threads over the nodes, in proportion to their cores; nil: there is one place.
func (m *Machine) places(n int) []Place {
	list := m.domains()
	cores := 0
	for _, d := range list {
		cores += d.cores()
	}
	switch {
	case len(list) < 2 || len(list) > MaxPlaces || n < len(list):
		return nil
	case m.NUMA == NUMAOff || m.NUMA == NUMAIsolate:
		return nil
	case m.NUMA == NUMAAuto && m.Virtual == 0 && 2*n < cores:
		return nil
	}
	places := make([]Place, len(list))
	before := 0
	for i, d := range list {
		at := before * n / cores
		before += d.cores()
		places[i] = Place{Node: d.node, Threads: before*n/cores - at, CPUs: d.ids()}
	}
	for i := range places { // one core in a node beside a node with many
		if places[i].Threads == 0 {
			most := slices.MaxFunc(places, func(a, b Place) int { return cmp.Compare(a.Threads, b.Threads) })
			k := slices.IndexFunc(places, func(p Place) bool { return p.Threads == most.Threads })
			places[k].Threads--
			places[i].Threads++
		}
	}
	m.fit(places, n)
	return places
}

// fit leaves no place with more threads than CPUs while there is a CPU for each of n threads: cores of one node may
// have more hyperthreads than those of another.
func (m *Machine) fit(places []Place, n int) {
	allowed := 0
	for _, c := range m.CPUs {
		if c.Allowed {
			allowed++
		}
	}
	if n > allowed {
		return
	}
	rest := 0
	for i := range places {
		over := max(places[i].Threads-len(places[i].CPUs), 0)
		places[i].Threads -= over
		rest += over
	}
	free := func(p Place) int { return len(p.CPUs) - p.Threads }
	for ; rest > 0; rest-- {
		most := 0
		for i := range places {
			if free(places[i]) > free(places[most]) {
				most = i
			}
		}
		places[most].Threads++
	}
}
