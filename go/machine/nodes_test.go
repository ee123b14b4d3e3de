package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// node is the files of a node.
func node(id int, cpus, memory, distance string) string {
	of := fmt.Sprintf("sys/devices/system/node/node%d/", id)
	meminfo := fmt.Sprintf(`Node %d MemTotal:       %s kB\nNode %d MemFree: 1 kB`, id, memory, id)
	return fmt.Sprintf("%scpulist: %s\n%smeminfo: %s\n%sdistance: %s\n", of, cpus, of, meminfo, of, distance)
}

// plain is n CPUs that are cores of their own.
func plain(n int) string {
	var b strings.Builder
	for id := range n {
		fmt.Fprintf(&b, `processor: %d\n`, id)
	}
	return "proc/cpuinfo: " + b.String() + "\n"
}

// sane checks that a placement of n threads can be used as it is.
func sane(t *testing.T, m *Machine, n int) {
	t.Helper()
	p := m.Place(n)
	if p.CPUs != nil && len(p.CPUs) != n {
		t.Errorf("%d threads: %d CPUs", n, len(p.CPUs))
	}
	all := 0
	for k, at := range p.Places {
		if at.Threads < 1 || len(at.CPUs) == 0 {
			t.Errorf("%d threads: place %d is %+v", n, k, at)
		}
		for i := all; i < all+at.Threads; i++ {
			cpus, place := p.Of(i)
			if place != k || len(cpus) == 0 {
				t.Errorf("%d threads: number %d is in place %d on %v, want %d", n, i, place, cpus, k)
			}
			for _, id := range cpus {
				if !slices.Contains(at.CPUs, id) {
					t.Errorf("%d threads: number %d runs on CPU %d, which is not in place %d", n, i, id, k)
				}
			}
		}
		if n <= len(m.WorkerCPUs(n)) && at.Threads > len(at.CPUs) {
			t.Errorf("%d threads: %d in place %d of %d CPUs", n, at.Threads, k, len(at.CPUs))
		}
		all += at.Threads
	}
	if p.Places != nil && m.Virtual == 0 && m.WorkerCPUs(n) != nil && m.pickIn(p.Places) == nil {
		t.Errorf("%d threads: places without a CPU for each", n)
	}
	if p.Places != nil && (all != n || len(p.Places) < 2 || len(p.Places) > MaxPlaces) {
		t.Errorf("%d threads: %d in %d places", n, all, len(p.Places))
	}
}

var (
	twoSockets = files(smt(4), "sys/devices/system/node/online: 0-1",
		node(0, "0-1,4-5", "1000", "10 21"), node(1, "2-3,6-7", "2000", "21 10"))
	// Nodes 0, 1, 4, 5, 8, 9, 12 and 14: 4 has no memory, 8, 9 and 14 no CPUs; 9 is nearest to 4 but empty.
	eightNodes = files(plain(12), "sys/devices/system/node/online: 0-1,4-5,8-9,12,14",
		node(0, "0-1", "1000", "10 12 20 20 14 14 20 20"), node(1, "2-4", "1000", "12 10 20 20 14 14 20 20"),
		node(4, "5-7", "0", "20 20 10 15 30 11 12 40"), node(5, "8", "1000", "20 20 15 10 30 30 20 20"),
		node(8, "", "8000", "14 14 30 30 10 20 20 20"), node(9, "", "0", "14 14 11 30 20 10 20 20"),
		node(12, "9-11", "1000", "20 20 12 20 20 20 10 20"), node(14, "", "500", "20 20 40 20 20 20 20 10"))
)

// Node 0 has two cores of two hyperthreads, node 1 four cores of one.
var unlike = files(plain(8), "sys/devices/system/cpu/online: 0-7", "sys/devices/system/node/online: 0-1",
	"sys/devices/system/cpu/cpu0/topology/thread_siblings_list: 0-1\nsys/devices/system/cpu/cpu1/topology/thread_siblings_list: 0-1",
	"sys/devices/system/cpu/cpu2/topology/thread_siblings_list: 2-3\nsys/devices/system/cpu/cpu3/topology/thread_siblings_list: 2-3",
	node(0, "0-3", "1000", "10 21"), node(1, "4-7", "2000", "21 10"))

// A machine of more nodes than there are places, and of more cores than a pool has threads: it is said, and the limits are
// kept.
func TestHugeMachine(t *testing.T) {
	const nodes, each = MaxPlaces + 1, 32
	parts := []string{plain(nodes * each), fmt.Sprintf("sys/devices/system/node/online: 0-%d", nodes-1)}
	for k := range nodes {
		parts = append(parts, node(k, fmt.Sprintf("%d-%d", k*each, (k+1)*each-1), "1000", strings.Repeat("10 ", nodes)))
	}
	m, err := ReadFS(files(parts...), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := m.Threads()
	if n != MaxThreads || len(m.Nodes) != nodes || len(m.CPUs) != nodes*each {
		t.Errorf("%d threads on %d CPUs of %d nodes", n, len(m.CPUs), len(m.Nodes))
	}
	for _, numa := range []NUMA{NUMAAuto, NUMADistribute} {
		m.NUMA = numa
		sane(t, m, n)
		if p := m.Place(n); p.Places != nil || !strings.Contains(p.Why, "65 NUMA nodes") || !strings.Contains(p.Why, "64 at most") {
			t.Errorf("%v: %s, in %d places", numa, p.Why, len(p.Places))
		}
	}
	m.NUMA = NUMAOff
	if p := m.Place(n); strings.Contains(p.Why, "NUMA") {
		t.Errorf("off: %s", p.Why)
	}
	some := m.CPUs[1500:]
	var ids []int
	for _, c := range some {
		ids = append(ids, c.ID)
	}
	if err := m.Restrict(ids); err != nil {
		t.Fatal(err)
	}
	m.NUMA = NUMAAuto
	sane(t, m, len(ids))
	if p := m.Place(len(ids)); len(p.Places) != 19 || len(p.CPUs) != len(ids) || p.CPUs[len(ids)-1] != nodes*each-1 {
		t.Errorf("CPUs 1500 and on: %d places, %d CPUs", len(p.Places), len(p.CPUs))
	}
}

func TestNodes(t *testing.T) {
	m, err := ReadFS(eightNodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Nodes) != 8 {
		t.Fatalf("%d nodes", len(m.Nodes))
	}
	n := m.Nodes[2]
	if n.ID != 4 || n.Memory != 0 || !n.Usable || !slices.Equal(n.CPUs, []int{5, 6, 7}) || !slices.Equal(n.Distance, []int{20, 20, 10, 15, 30, 11, 12, 40}) {
		t.Errorf("the third node is %+v", n)
	}
	if n := m.Nodes[4]; n.ID != 8 || n.Memory != 8000<<10 || len(n.CPUs) != 0 {
		t.Errorf("the fifth node is %+v", n)
	}
}

// Of malformed files the node is there without what they would say; of more nodes than Linux has, none is.
func TestBadNodes(t *testing.T) {
	m, err := ReadFS(files(plain(2), "sys/devices/system/node/online: 0-1",
		node(0, "0-", "-5", "10 x"), node(1, "1", "99999999999999999999", "10")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range m.Nodes {
		if n.ID != i || n.Memory != 0 || n.Distance != nil {
			t.Errorf("node %+v", n)
		}
	}
	if len(m.Nodes) != 2 || m.CPUs[1].Node != 1 {
		t.Errorf("%d nodes, CPU 1 in node %d", len(m.Nodes), m.CPUs[1].Node)
	}
	if m, err = ReadFS(files(plain(1), "sys/devices/system/node/online: 0-60000"), nil); err != nil || m.Nodes != nil {
		t.Errorf("%d nodes, %v", len(m.Nodes), err)
	}
}

func TestPlaceOnNodes(t *testing.T) {
	cpuset := "proc/self/status: " + `Name: x\nMems_allowed:` + "\t3" + `\nMems_allowed_list:` + "\t1" + `\nx: 0-9`
	with := func(base fstest.MapFS, line string) fstest.MapFS {
		all := fstest.MapFS{}
		for _, of := range []fstest.MapFS{base, files(line)} {
			for name, f := range of {
				all[name] = f
			}
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		root    fstest.MapFS
		allowed []int
		set     func(m *Machine)
		n       int
		want    string // threads of each place, its memory's node and CPUs; empty: one place
		pinned  []int
	}{
		{"a thread on each core", twoSockets, nil, nil, 4, "2 at 0 0-1,4-5; 2 at 1 2-3,6-7", []int{0, 1, 2, 3}},
		{"half of the cores", twoSockets, nil, nil, 2, "1 at 0 0-1,4-5; 1 at 1 2-3,6-7", nil},
		{"fewer", twoSockets, nil, nil, 1, "", nil},
		{"hyperthreads", twoSockets, nil, nil, 6, "3 at 0 0-1,4-5; 3 at 1 2-3,6-7", []int{0, 1, 4, 2, 3, 6}},
		{"more threads than CPUs", twoSockets, nil, nil, 10, "5 at 0 0-1,4-5; 5 at 1 2-3,6-7", nil},
		{"off", twoSockets, nil, func(m *Machine) { m.NUMA = NUMAOff }, 4, "", []int{0, 1, 2, 3}},
		{"one node in the mask", twoSockets, []int{2, 3}, nil, 2, "", []int{2, 3}},
		{"the mask cuts a node", twoSockets, []int{0, 2, 3}, nil, 3, "1 at 0 0; 2 at 1 2-3", []int{0, 2, 3}},
		{"a cpuset without memory of node 0", with(twoSockets, cpuset), nil, nil, 4, "2 at 1 0-1,4-5; 2 at 1 2-3,6-7", []int{0, 1, 2, 3}},
		{"numactl --membind=1", twoSockets, nil, func(m *Machine) { m.bind([]int{1}) }, 4, "2 at 1 0-1,4-5; 2 at 1 2-3,6-7", []int{0, 1, 2, 3}},
		{"isolated", twoSockets, nil, func(m *Machine) { _ = m.isolate(6) }, 2, "", []int{2, 3}},
		{"eight nodes", eightNodes, nil, nil, 12, "2 at 0 0-1; 3 at 1 2-4; 3 at 12 5-7; 1 at 5 8; 3 at 12 9-11",
			[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"eight nodes, a thread on each that has CPUs", eightNodes, nil, func(m *Machine) { m.NUMA = NUMADistribute }, 5,
			"1 at 0 0-1; 1 at 1 2-4; 1 at 12 5-7; 1 at 5 8; 1 at 12 9-11", nil},
		{"fewer threads than nodes", eightNodes, nil, func(m *Machine) { m.NUMA = NUMADistribute }, 4, "", nil},
		{"nodes with and without hyperthreads", unlike, nil, nil, 6, "2 at 0 0-3; 4 at 1 4-7", []int{0, 2, 4, 5, 6, 7}},
		{"nodes with and without hyperthreads, all CPUs", unlike, nil, nil, 8, "4 at 0 0-3; 4 at 1 4-7", []int{0, 2, 1, 3, 4, 5, 6, 7}},
		{"nodes with and without hyperthreads, more threads", unlike, nil, nil, 9, "3 at 0 0-3; 6 at 1 4-7", nil},
		{"no files", files(plain(4)), nil, nil, 4, "", []int{0, 1, 2, 3}},
		{"virtual", files(plain(4)), nil, func(m *Machine) { m.Virtual = 2 }, 4, "2 at -1 0-1; 2 at -1 2-3", []int{0, 1, 2, 3}},
		{"virtual, few threads", twoSockets, nil, func(m *Machine) { m.Virtual = 3 }, 3, "1 at 0 0,4; 1 at 0 1,5; 1 at 1 2-3,6-7", nil},
		{"virtual, more than cores", files(plain(2)), nil, func(m *Machine) { m.Virtual = 3 }, 7, "2 at -1 0-1; 2 at -1 0-1; 3 at -1 0-1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(tt.root, tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if tt.set != nil {
				tt.set(m)
			}
			p := m.Place(tt.n)
			var parts []string
			for _, at := range p.Places {
				parts = append(parts, fmt.Sprintf("%d at %d %s", at.Threads, at.Node, Ranges(at.CPUs)))
			}
			if got := strings.Join(parts, "; "); got != tt.want {
				t.Errorf("places %q, want %q", got, tt.want)
			}
			if !slices.Equal(p.CPUs, tt.pinned) {
				t.Errorf("pinned to %v, want %v", p.CPUs, tt.pinned)
			}
			for n := 1; n < 20; n++ {
				sane(t, m, n)
			}
		})
	}
}

// Who asks for nodes and gives fewer threads is told.
func TestFewerThreadsThanNodes(t *testing.T) {
	m, err := ReadFS(eightNodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		numa NUMA
		n    int
		told bool
	}{{NUMADistribute, 4, true}, {NUMANumactl, 1, true}, {NUMADistribute, 5, false}, {NUMAAuto, 4, false}, {NUMAOff, 4, false}} {
		m.NUMA = tt.numa
		if p := m.Place(tt.n); strings.Contains(p.Why, "than the 5 NUMA nodes") != tt.told {
			t.Errorf("%v with %d threads: %v", tt.numa, tt.n, p)
		}
	}
}

func TestIsolate(t *testing.T) {
	m, err := ReadFS(twoSockets, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.isolate(7); err != nil { // not one of the mask
		t.Fatal(err)
	}
	if p := m.Place(1); p.CPUs != nil || !slices.Equal(p.Among, []int{0, 1}) || m.Threads() != 2 {
		t.Errorf("%v, %d threads", p, m.Threads())
	}
	here, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := here.Isolate(); err != nil || here.Cores() < 1 {
		t.Errorf("%d cores: %v", here.Cores(), err)
	}
}

func TestParseNUMA(t *testing.T) {
	for i, name := range NUMANames() {
		if n, err := ParseNUMA(name); err != nil || n != NUMA(i) || n.String() != name {
			t.Errorf("%q is %v: %v", name, n, err)
		}
	}
	if _, err := ParseNUMA("mirror"); err == nil {
		t.Error("mirror is taken")
	}
}
