package model

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/synth"
)

// pagesOn returns how many of the whole pages of b are on each NUMA node; -1: not there.
func pagesOn(t *testing.T, b []byte) map[int]int {
	t.Helper()
	page := uintptr(os.Getpagesize())
	from := (uintptr(unsafe.Pointer(&b[0])) + page - 1) / page * page
	end := (uintptr(unsafe.Pointer(&b[0])) + uintptr(len(b))) / page * page
	if from >= end {
		return nil
	}
	at, status := make([]uintptr, (end-from)/page), make([]int32, (end-from)/page)
	for i := range at {
		at[i] = from + uintptr(i)*page
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(at)), uintptr(unsafe.Pointer(&at[0])), 0, uintptr(unsafe.Pointer(&status[0])), 0)
	if errno != 0 {
		t.Fatalf("the kernel does not tell where pages are: %v", errno)
	}
	on := map[int]int{}
	for _, s := range status {
		on[max(int(s), -1)]++
	}
	return on
}

// keysOnNodes evaluates a text, and looks where the keys and values of each node's heads are then.
func keysOnNodes(t *testing.T, m *Model, pool *kernel.Pool, nodes []int) {
	t.Helper()
	const n = 300
	s := newStepperOn(t, m, n, pool, nodes)
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*7919%(m.Config.NVocab-1) + 1)
	}
	s.fill(t, ids)
	for g := range m.Layout {
		u := s.kv.Units(g)
		if u.Places != len(nodes) {
			t.Errorf("keys and values of group %d are in %d places", g, u.Places)
			continue
		}
		for k, node := range nodes {
			on := pagesOn(t, u.Memory[k*u.Stride:][:u.Bytes/u.Places*(n/kernel.KVBlock)])
			if len(on) != 1 || on[node] == 0 {
				t.Errorf("keys and values of heads of node %d: %v pages by node", node, on)
			}
			fmt.Printf("keys and values of %d positions, heads of place %d: %v pages by node\n", n, k, on)
		}
	}
}

// streamedOnNodes evaluates a text with a model whose layers are streamed and stay in memory, and looks where the parts of
// their matrices are then.
func streamedOnNodes(t *testing.T, pool *kernel.Pool, nodes []int) {
	t.Helper()
	f, err := OpenFile(synthetic(t, "llama-3.2-1b/1:Q8_0", func(s *synth.Shape) { s.NVocab = 512 }))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "a test"), Residency: Streamed, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	newStepperOn(t, m, 64, pool, nodes).fill(t, []int32{5, 300, 17, 220, 9, 41, 3})
	whole := make([]int, len(nodes)) // pages on whole huge pages of each part
	for x := range m.stream.begin {
		n, size := kernel.Pad(x.Out)/kernel.Panel, kernel.PanelBytes(x.Type, x.In)
		for k, node := range nodes {
			part := x.Data[n*k/len(nodes)*size : n*(k+1)/len(nodes)*size]
			skip := int(-uintptr(unsafe.Pointer(&part[0])) % mem.HugePage)
			if skip+mem.HugePage > len(part) {
				continue
			}
			part = part[skip:][:(len(part)-skip)/mem.HugePage*mem.HugePage]
			for on, pages := range pagesOn(t, part) {
				if on != node {
					t.Errorf("streamed %s: %d pages of part %d are on node %d, want %d", x.Name, pages, k, on, node)
				}
				whole[k] += pages
			}
		}
	}
	if slices.Contains(whole, 0) {
		t.Errorf("streamed weights: %d pages of each part were looked at", whole)
	}
	fmt.Printf("streamed: %d pages of each part are where they should be\n", whole)
}

// On a machine of several nodes every panel lies on the node of its place, from a plain file and from a packed one, streamed
// ones too, and keys and values lie on the nodes of their heads; state lies on all nodes. make test-vm runs it on one.
func TestOnNodes(t *testing.T) {
	m, err := machine.Read()
	if err != nil {
		t.Fatal(err)
	}
	m.NUMA = machine.NUMADistribute
	place := m.Place(m.Threads())
	if len(place.Places) < 2 {
		if os.Getenv("QUERN_TEST_NODES") != "" {
			t.Fatalf("%d nodes, %d threads: %+v", len(m.Nodes), m.Threads(), place)
		}
		t.Skip("this machine has one NUMA node; make test-vm tests it on two")
	}
	if err := mem.MayPlace(place.Nodes()); err != nil {
		t.Fatal(err)
	}
	at := make([]kernel.Thread, m.Threads())
	for i := range at {
		at[i].CPUs, at[i].Place = place.Of(i)
	}
	pool, err := kernel.NewPool(len(at), at)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	plain := demoFile(t, nil)
	name := filepath.Join(t.TempDir(), "packed.gguf")
	var packed bytes.Buffer
	if _, err := Pack(&packed, plain, Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "a test")}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ids := []int32{5, 300, 17, 220, 9, 41, 3}
	one, err := loadFile(t, demoFile(t, nil), Packed, kvF32)
	if err != nil {
		t.Fatal(err)
	}
	want := logits(t, one, ids)
	forbidden := make([]int, len(place.Places)) // nothing is asked of the kernel, as where it would refuse
	for k := range forbidden {
		forbidden[k] = -1
	}
	for what, of := range map[string]struct {
		f     *File
		nodes []int
	}{"plain": {plain, place.Nodes()}, "packed": {file, place.Nodes()}, "plain, not to be placed": {plain, forbidden}} {
		s, err := NewSurvey(of.f, kvF32, 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "a test"), Residency: Packed, Nodes: of.nodes})
		if err != nil {
			t.Fatal(err)
		}
		pages := 0
		for _, m := range x.weights.mats {
			if !m.anonymous() {
				continue
			}
			for k, p := range place.Places {
				for node, n := range pagesOn(t, m.Data[k*m.Stride:][:m.PartBytes(m.Places)]) {
					if node < 0 { // beside the last panel, where another part has one more
						continue
					}
					if node != p.Node {
						t.Errorf("%s file: %d pages of part %d of %s are on node %d, want %d", what, n, k, m.Name, node, p.Node)
					}
					pages += n
				}
			}
		}
		if pages == 0 {
			t.Errorf("%s file: no pages", what)
		}
		for i, row := range logits(t, x, ids) {
			for j := range row {
				if math.Float32bits(row[j]) != math.Float32bits(want[i][j]) {
					t.Fatalf("%s file: logit %d of token %d differs", what, j, i)
				}
			}
		}
		fmt.Printf("%s file: %d pages of %d parts are where they should be\n", what, pages, len(place.Places))
		if of.nodes[0] >= 0 {
			keysOnNodes(t, x, pool, of.nodes)
		}
		x.Close()
	}

	streamedOnNodes(t, pool, place.Nodes())

	// Keys and values of one head in each place, and state that is whole.
	const unit, units = 64 << 10, 256
	layout := kvcache.NewLayout(kvcache.Group{Bytes: unit}, kvcache.Group{Bytes: unit, PerSequence: true})
	kv, err := kvcache.NewPool(mem.NewBudget(1<<28, "a test"), layout, 2*unit*units)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if err := kv.Place(place.Nodes(), [][]int{{unit / 2, unit / 2}, nil}); err != nil {
		t.Fatal(err)
	}
	for group := range layout {
		memory := kv.Units(group).Memory
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
	}
	for k, p := range place.Places {
		u := kv.Units(0)
		on := pagesOn(t, u.Memory[k*u.Stride:][:u.Stride])
		if len(on) != 1 || on[p.Node] == 0 {
			t.Errorf("keys and values of the heads of node %d: %v pages by node", p.Node, on)
		}
		fmt.Printf("keys and values of place %d: %v pages by node\n", k, on)
	}
	memory := kv.Units(1).Memory
	on := pagesOn(t, memory)
	for _, p := range place.Places {
		if share := on[p.Node] * len(place.Places); share*4 < 3*len(memory)/os.Getpagesize() {
			t.Errorf("node %d has %d pages of state of %d", p.Node, on[p.Node], len(memory)/os.Getpagesize())
		}
	}
	fmt.Printf("state: %v pages by node\n", on)
}
