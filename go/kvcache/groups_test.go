package kvcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// A model is a program that keeps what its groups say, without arithmetic: a position
// of a block is a mark of the tokens up to it, and so is a state.
type model struct {
	t     testing.TB
	pool  *Pool
	tree  *Tree
	store *testStore // nil: none
}

// A testStore has copies of pages by their text, and holds those that it is given against
// their tokens.
type testStore struct {
	m     *model
	pages map[pageKey][][]byte
}

type pageKey struct {
	ns           string
	part, tokens int
	hash         uint64
}

func (s *testStore) key(ns string, part int, ids []int32) pageKey {
	return pageKey{ns, part, len(ids), hash(ids)}
}

// store copies the page that would be evicted first, if one is not stored.
func (s *testStore) store(p *Page) {
	s.m.t.Helper()
	var units [][]byte
	for k, g := range s.m.tree.parts[p.Part].groups {
		b := p.Units[k]
		units = append(units, slices.Clone(b))
		if s.m.pool.layout[g].PerSequence {
			if binary.LittleEndian.Uint64(b) != hash(p.Tokens) {
				s.m.t.Fatal("a state of other tokens is stored")
			}
			continue
		}
		for pos := p.From; pos < len(p.Tokens); pos++ {
			if b[pos%BlockTokens] != s.m.kept(g, p.Tokens[:pos+1]) {
				s.m.t.Fatal("a block of other tokens is stored")
			}
		}
	}
	s.pages[s.key(p.Namespace, p.Part, p.Tokens)] = units
}

// fetch makes the tree have what it can of ids, out of the store too.
func (s *testStore) fetch(ns string, ids []int32) (n, found int) {
	t := s.m.t
	t.Helper()
	tree := s.m.tree
	has := func(part, from, to int) bool { return s.pages[s.key(ns, part, ids[:to])] != nil }
	var ends []int
	for at := len(ids); at > 0; at-- {
		if tree.hasStates() && has(tree.paged, 0, at) {
			ends = append(ends, at)
		}
	}
	n, found, bytes := tree.Reach(ns, ids, ends, has)
	if found != tree.Len(ns, ids) || n < found {
		t.Fatalf("%d of %d tokens are in memory, and %d with what is stored", tree.Len(ns, ids), found, n)
	}
	if want, size := s.reach(ns, ids, found, ends, has); n != want || bytes != size {
		t.Fatalf("%d tokens can be had of %d with %d bytes out of the store, want %d with %d; %d are in memory", n, len(ids), bytes, want, size, found)
	}
	if n == found {
		return n, found
	}
	table, missing, err := tree.Fetch(ns, ids[:n])
	if err != nil {
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		return found, found
	}
	for _, p := range missing {
		units := s.pages[s.key(ns, p.Part, p.Tokens)]
		if units == nil {
			t.Fatalf("part %d of %d tokens is missing, and was to be there", p.Part, len(p.Tokens))
		}
		for k, u := range units {
			bytes -= uint64(len(u))
			copy(p.Units[k], u)
		}
	}
	if bytes != 0 && !tree.hasStates() {
		t.Fatalf("%d bytes were announced too many", bytes)
	}
	tree.Keep(ns, table, ids[:n], How{End: true, Awaited: true})
	table.Free()
	if got := tree.Len(ns, ids[:n]); got != n {
		t.Fatalf("%d tokens are found once %d were fetched", got, n)
	}
	if got := tree.Len(ns, ids); got < n && !tree.hasStates() { // a state may be in one of two blocks that begin alike
		t.Fatalf("%d tokens of all are found once %d were fetched", got, n)
	}
	return n, found
}

// reach returns what Reach should: it tries each place that Reach may give, the longest text first.
func (s *testStore) reach(ns string, ids []int32, found int, ends []int, has func(part, from, to int) bool) (n int, bytes uint64) {
	tree := s.m.tree
	there := func(n int, text []int32) (bytes uint64, ok bool) {
		known := tree.walk(ns, text)
		for k, p := range tree.parts {
			for from := 0; from < n; from += BlockTokens {
				i, to := from/BlockTokens, min(from+BlockTokens, n)
				sees, in := true, false
				switch {
				case p.kind == state:
					if sees = to == n; sees && n <= known {
						last := tree.path[i]
						in = slices.ContainsFunc(last.states, func(h *holding) bool { return last.pos+h.at == n })
					}
				case p.kind == windowed && p.window.AgeStep > 0:
					sees = young(p.window, i, n)
				case p.kind == windowed:
					sees = to > n-p.window.Window+1
				}
				if p.kind != state && to <= known {
					in = tree.path[i].held[k] != nil
				}
				switch {
				case !sees || in:
				case p.kind != state && to <= known && len(tree.path[i].ids) > to-from:
					return 0, false // a longer block cannot have only the part that is missing
				case !has(k, from, to):
					return 0, false
				default:
					bytes += p.bytes
				}
			}
		}
		return bytes, true
	}
	if !tree.hasStates() { // block by block, and where the blocks of all positions end
		most, known := len(ids), tree.walk(ns, ids)
		for ; most > 0; most-- {
			ok := true
			for from := 0; from < most && tree.hasWhole(); from += BlockTokens {
				to := min(from+BlockTokens, most)
				ok = ok && (to <= known && tree.path[from/BlockTokens].held[0] != nil || has(0, from, to))
			}
			if ok {
				break
			}
		}
		ends = []int{most}
		for at := (most - 1) / BlockTokens * BlockTokens; at > 0; at -= BlockTokens {
			ends = append(ends, at)
		}
	}
	for _, n := range ends {
		if n > found {
			// Among nodes that begin alike, the one of all tokens may be another than that of the first n: both have to do.
			_, all := there(n, ids)
			if bytes, ok := there(n, ids[:n]); ok && all {
				return n, bytes
			}
		}
	}
	return found, 0
}

func newModel(t testing.TB, units int, groups ...Group) *model {
	l := NewLayout(groups...)
	p, err := NewPool(mem.NewBudget(1<<30, "test"), l, uint64(units)*l.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &model{t: t, pool: p, tree: NewTree(p)}
}

func hash(ids []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * 1099511628211
	}
	return h
}

// kept is what a position of a group has: its mark, and how often its types were changed.
func (m *model) kept(group int, ids []int32) byte {
	n := byte(0)
	for ; m.pool.layout[group].AgeFrom > 0; group-- {
		n++
	}
	return mark(ids) + n
}

// young reports whether block k of a sequence of n positions is of the age of a group.
func young(g *Group, k, n int) bool {
	past := max(n-1, 0)/g.AgeStep*g.AgeStep - k*BlockTokens
	return k == 0 && g.AgeFrom == 0 || k > 0 && (g.AgeTo == 0 || past <= g.AgeTo) && (g.AgeFrom == 0 || past > g.AgeFrom)
}

// age changes the types of what has become too old for them.
func (m *model) age(table *Table) error {
	a, err := table.Age()
	if a == nil {
		return err
	}
	for _, b := range a.Blocks {
		for i := range BlockTokens {
			m.pool.bytesOf(b.To, b.New)[i] = m.pool.bytesOf(b.From, b.Old)[i] + byte(b.To-b.From)
		}
	}
	a.Done()
	return nil
}

// pass does what the kernels do: it reads what the new tokens see, and writes theirs.
func (m *model) pass(table *Table, ids []int32) {
	m.t.Helper()
	from := table.done
	for i, list := range table.Units() {
		g := &m.pool.layout[i]
		if g.PerSequence {
			in, out := list[0], list[1]
			if in < 0 != (from == 0) || out < 0 || in == out {
				m.t.Fatalf("group %s: a pass from %d reads state %d and writes %d", g.Name, from, in, out)
			}
			if in >= 0 && binary.LittleEndian.Uint64(m.pool.bytesOf(i, in)) != hash(ids[:from]) {
				m.t.Fatalf("group %s: the state after %d tokens is another one", g.Name, from)
			}
			if m.pool.groups[i].refs[out] != 1 {
				m.t.Fatalf("group %s: a state that %d hold is written", g.Name, m.pool.groups[i].refs[out])
			}
			binary.LittleEndian.PutUint64(m.pool.bytesOf(i, out), hash(ids))
			continue
		}
		for pos := range ids {
			block := pos / BlockTokens
			if g.AgeStep > 0 && !young(g, block, from+1) {
				if list[block] >= 0 {
					m.t.Fatalf("group %s: block %d after %d is still there", g.Name, block, from)
				}
				continue
			}
			if pos < from && block < g.seen(from) {
				continue
			}
			if list[block] < 0 {
				m.t.Fatalf("group %s: position %d of %d after %d has no block", g.Name, pos, len(ids), from)
			}
			b := m.pool.bytesOf(i, list[block])
			switch {
			case pos >= from:
				if m.pool.groups[i].refs[list[block]] != 1 {
					m.t.Fatalf("group %s: a block that others hold is written", g.Name)
				}
				b[pos%BlockTokens] = mark(ids[:pos+1])
			case (g.Window == 0 || pos > from-g.Window) && b[pos%BlockTokens] != m.kept(i, ids[:pos+1]):
				m.t.Fatalf("group %s: position %d after %d is of another text", g.Name, pos, from)
			}
		}
	}
}

// naive returns the longest beginning of ids from which a sequence can go on, by
// trying each.
func (m *model) naive(ns string, ids []int32) int {
	var path []*node
	known, at := 0, m.tree.roots[ns]
	for at != nil && known < len(ids) {
		next, n := at.closest(ids[known:])
		if n == 0 {
			break
		}
		path, at, known = append(path, next), next, known+n
		if n < BlockTokens {
			break
		}
	}
	for n := known; n > 0; n-- {
		ok := true
		for k, p := range m.tree.parts {
			switch p.kind {
			case whole:
				for pos := range n {
					ok = ok && path[pos/BlockTokens].held[k] != nil
				}
			case windowed:
				if p.window.AgeStep > 0 {
					for pos := range n {
						i := pos / BlockTokens
						there := path[i].held[k] != nil || !young(p.window, i, n)
						for j := k + 1; n%p.window.AgeStep == 0 && !young(p.window, i, n+1) && j < m.tree.paged; j++ { // it has aged already
							g := m.tree.parts[j].window
							there = there || g.AgeStep > 0 && young(g, i, n+1) && path[i].held[j] != nil
						}
						ok = ok && there
					}
					continue
				}
				for pos := max(n-p.window.Window+1, 0); pos < n; pos++ {
					ok = ok && path[pos/BlockTokens].held[k] != nil
				}
			case state:
				last := path[(n-1)/BlockTokens]
				ok = ok && slices.ContainsFunc(last.states, func(h *holding) bool { return last.pos+h.at == n })
			}
		}
		if ok {
			return n
		}
	}
	return 0
}

// back returns how many of a sequence's positions are left when it is cut to `to`, by definition; `before` is where its last
// pass began, -1: it cannot go back there.
func (m *model) back(t *Table, to, before int) int {
	if to == t.n {
		return to
	}
	n := to
	if m.pool.layout.Recurrent() {
		if n = before; n > to {
			return 0
		}
	}
	for i, list := range t.units {
		g := &m.pool.layout[i]
		if g.PerSequence {
			continue
		}
		for pos := range max(n, 0) {
			sees := g.Window == 0 || pos > n-g.Window
			if g.AgeStep > 0 {
				sees = young(g, pos/BlockTokens, n)
			}
			if sees && list[pos/BlockTokens] < 0 {
				return 0
			}
		}
	}
	return max(n, 0)
}

// others returns the bytes of a table's blocks that others hold beside it and the tree.
func (m *model) others(t *Table) (bytes uint64) {
	for _, p := range m.tree.parts[:m.tree.paged] {
		for k := range blocksFor(t.n) {
			if slices.ContainsFunc(p.groups, func(g int) bool { id := t.units[g][k]; return id >= 0 && m.pool.groups[g].refs[id] > 2 }) {
				bytes += p.bytes
			}
		}
	}
	return bytes
}

// holder returns a table that has what a page holds.
func (m *model) holder(p *Page) *Table {
	t := &Table{units: make([][]int32, len(m.pool.layout)), was: slices.Repeat([]int32{-1}, len(m.pool.layout))}
	for k, g := range p.held.part.groups {
		t.units[g] = []int32{p.held.units[k]}
	}
	return t
}

// evictable reports whether a holding can be evicted alone, by definition: nobody else uses it, and nothing that is evicted
// before needs it or goes with it.
func (m *model) evictable(h *holding) bool {
	node := true // it can be evicted as a whole
	for _, list := range h.node.children {
		for _, c := range list {
			node = node && (!m.tree.hasWhole() || c.held[0] == nil)
		}
	}
	for _, o := range h.node.states {
		node = node && o.busy > 0
	}
	switch h.part.kind {
	case whole:
		return h.busy == 0 && node
	case windowed:
		return h.busy == 0 && !(m.tree.hasWhole() && h.node.held[0].busy == 0 && node)
	}
	return h.busy == 0
}

// check holds the books against what tables and the tree really have.
func (m *model) check(step int, tables []*Table) {
	m.t.Helper()
	fail := func(format string, args ...any) {
		m.t.Helper()
		m.t.Fatalf("step %d: %s", step, fmt.Sprintf(format, args...))
	}
	p, tree := m.pool, m.tree
	refs, others := make([][]int32, len(p.layout)), make([][]int32, len(p.layout))
	for i := range p.layout {
		refs[i] = make([]int32, len(p.groups[i].refs))
	}
	for _, t := range tables {
		for i, list := range t.units {
			for _, id := range append(slices.Clone(list), t.was[i]) {
				if id >= 0 {
					refs[i][id]++
				}
			}
		}
	}
	for i := range refs {
		others[i] = slices.Clone(refs[i])
	}
	var bytes, idle uint64
	inHeap := 0
	var walk func(n *node)
	walk = func(n *node) {
		for _, h := range append(slices.Clone(n.held), n.states...) {
			if h == nil {
				continue
			}
			busy := 0
			for k, g := range h.part.groups {
				id := h.units[k]
				refs[g][id]++
				if others[g][id] > 0 {
					busy++
				}
				if p.groups[g].owner[id] != h {
					fail("unit %d of group %d has another owner", id, g)
				}
			}
			bytes += h.part.bytes
			if busy == 0 {
				idle += h.part.bytes
			}
			if h.rate <= 0 && (h.part.kind != whole || !tree.hasStates()) {
				fail("a holding is worth %v", h.rate)
			}
			if h.busy != busy || h.node != n {
				fail("a holding with %d busy units says %d", busy, h.busy)
			}
			if can := m.evictable(h); can != (h.index >= 0) || can && tree.heap[h.index] != h {
				fail("a holding that can go, %v, has place %d", can, h.index)
			} else if can {
				inHeap++
			}
		}
		if n.parent != nil && n.empty() {
			fail("a node of nothing")
		}
		for _, list := range n.children {
			for _, c := range list {
				if len(n.ids) < BlockTokens && n.parent != nil || c.parent != n {
					fail("a child of a block that is not whole")
				}
				walk(c)
			}
		}
	}
	for _, root := range tree.roots {
		if len(root.children) == 0 {
			fail("an empty root")
		}
		walk(root)
	}
	if bytes != tree.bytes || idle != tree.idle || inHeap != len(tree.heap) {
		fail("the tree has %d bytes, %d idle, %d to give away; it says %d, %d and %d", bytes, idle, inHeap, tree.bytes, tree.idle, len(tree.heap))
	}
	for i := range tree.heap {
		if i > 0 && tree.heap.Less(i, (i-1)/2) {
			fail("the heap is in disorder")
		}
	}
	var used, touched uint64
	for i, g := range p.groups {
		if !slices.Equal(refs[i], g.refs) {
			fail("group %d: counts %v, want %v", i, g.refs, refs[i])
		}
		held := 0
		for _, n := range g.refs {
			if n > 0 {
				held++
			}
		}
		for _, id := range slices.Concat(g.free, g.bare) {
			if g.refs[id] != 0 {
				fail("group %d: unit %d is free and held", i, id)
			}
		}
		if held+len(g.free)+len(g.bare) != len(g.refs) {
			fail("group %d: %d held, %d free, %d bare of %d", i, held, len(g.free), len(g.bare), len(g.refs))
		}
		used += uint64(held * g.Bytes)
		touched += uint64((held + len(g.free)) * g.Bytes)
	}
	if used != p.used || touched != p.touched || touched > p.limit {
		fail("%d bytes used, %d touched of %d; the pool says %d and %d", used, touched, p.limit, p.used, p.touched)
	}
}

var layouts = []struct {
	name   string
	groups []Group
}{
	{"all", []Group{{Name: "all", Bytes: 64}}},
	{"window", []Group{{Name: "near", Bytes: 64, Window: 100}}},
	{"all and window", []Group{{Name: "all", Bytes: 4096}, {Name: "near", Bytes: 3 * 4096, Window: 64}}},
	{"all and state", []Group{{Name: "all", Bytes: 4096}, {Name: "state", Bytes: 2 * 4096, PerSequence: true}}},
	{"state", []Group{{Name: "state", Bytes: 64, PerSequence: true}}},
	{"ages", []Group{
		{Name: "young", Bytes: 3 * 4096, AgeTo: 64, AgeStep: 64}, {Name: "older", Bytes: 2 * 4096, AgeFrom: 64, AgeTo: 192, AgeStep: 64},
		{Name: "old", Bytes: 4096, AgeFrom: 192, AgeStep: 64},
	}},
	{"ages that jump", []Group{ // two steps of the second tier are in the first
		{Name: "young", Bytes: 4096, AgeTo: 128, AgeStep: 128}, {Name: "older", Bytes: 4096, AgeFrom: 128, AgeTo: 192, AgeStep: 128},
		{Name: "old", Bytes: 4096, AgeFrom: 192, AgeStep: 128},
	}},
	{"ages and more", []Group{
		{Name: "near", Bytes: 4096, Window: 30}, {Name: "young", Bytes: 2 * 4096, AgeTo: 128, AgeStep: 128},
		{Name: "old", Bytes: 4096, AgeFrom: 128, AgeStep: 128}, {Name: "state", Bytes: 4096, PerSequence: true},
	}},
	{"everything", []Group{
		{Name: "near", Bytes: 4096, Window: 30}, {Name: "state", Bytes: 5 * 4096, PerSequence: true}, {Name: "all", Bytes: 4096},
		{Name: "less near", Bytes: 2 * 4096, Window: 200}, {Name: "more state", Bytes: 4096, PerSequence: true}, {Name: "more", Bytes: 4096},
	}},
}

// Random sequences that begin with each other's tokens grow, fail, are taken back,
// forked, kept, found, forgotten, and take each other's memory. What they read is
// always what their tokens make it, and the books are always right.
func TestGroupsProperty(t *testing.T) {
	for _, l := range layouts {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, store %v", l.name, stored), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, uint64(len(l.name))))
				m := newModel(t, 8+rng.IntN(16), l.groups...)
				if stored {
					m.store = &testStore{m: m, pages: map[pageKey][][]byte{}}
				}
				var lent []*Page // that are being stored
				type live struct {
					table *Table
					ids   []int32
					ns    string
					fork  bool
					pass  int // where the last pass began; -1: it cannot be taken back
				}
				var running []*live
				var tables []*Table
				seen := map[string]int{}
				text := func() (ids []int32) {
					for range rng.IntN(5) { // few different pieces, so that many share them
						ids = append(ids, seqIDs(int32(rng.IntN(3)), 1+rng.IntN(100))...)
					}
					return ids
				}
				steps := 3000
				if stored {
					steps = 1000
				}
				for step := range steps {
					var l *live
					if len(running) > 0 {
						l = running[rng.IntN(len(running))]
					}
					switch r := rng.IntN(20); {
					case r < 4 && len(running) < 6 || l == nil:
						ids, ns := text(), []string{"", "other"}[rng.IntN(8)/7]
						if stored && rng.IntN(2) == 0 {
							if n, found := m.store.fetch(ns, ids); n > found {
								seen["fetched"]++
							}
						}
						want := m.naive(ns, ids)
						got, held := m.tree.Held(ns, ids)
						if got != want || m.tree.Len(ns, ids) != want {
							t.Fatalf("step %d: %d tokens can be found, want %d", step, got, want)
						}
						table := m.tree.Find(ns, ids)
						if all := m.others(table); held != all {
							t.Fatalf("step %d: others hold %d bytes of %d tokens, want %d", step, held, want, all)
						}
						if table.Len() != want {
							t.Fatalf("step %d: a table of %d tokens, want %d", step, table.Len(), want)
						}
						if want > 0 {
							seen["found"]++
						}
						running = append(running, &live{table, ids[:want], ns, false, -1})
					case r < 12:
						more := seqIDs(int32(rng.IntN(3)), 1+rng.IntN(150))
						more = more[:m.pool.layout.Room(l.table.Len(), len(more))]
						before := m.pool.Available()
						err := m.age(l.table)
						if err == nil {
							before = m.pool.Available()
							err = l.table.Grow(len(more))
						}
						if err != nil {
							if !errors.Is(err, ErrFull) || m.pool.Available() < before { // to be able to go back may be lost
								t.Fatalf("step %d: %v; %d bytes were available, now %d", step, err, before, m.pool.Available())
							}
							seen["full"]++
							break
						}
						ids := slices.Concat(l.ids, more)
						other := seqIDs(int32(rng.IntN(3)), 1+rng.IntN(40))
						other = slices.Concat(l.ids, other[:m.pool.layout.Room(len(l.ids), len(other))])
						var branch *Table
						if rng.IntN(3) == 0 {
							if branch = l.table.Branch(); branch.Grow(len(other)-len(l.ids)) != nil {
								branch.Free()
								branch = nil
							}
						}
						m.pass(l.table, ids)
						if branch != nil {
							m.pass(branch, other)
						}
						if rng.IntN(6) == 0 {
							l.pass = -1
							if l.table.Undo(); branch != nil {
								branch.Free()
							}
							break
						}
						l.table.Commit()
						if branch != nil {
							branch.Commit()
							if seen["branched"]++; rng.IntN(2) == 0 {
								l.table, branch, ids = branch, l.table, other
							}
							branch.Free()
						}
						l.ids, l.pass = ids, len(l.ids)
						if rng.IntN(2) == 0 {
							m.tree.Keep(l.ns, l.table, l.ids, How{Whole: true, End: rng.IntN(2) == 0})
						}
					case r < 14:
						n := rng.IntN(l.table.Len() + 1)
						if rng.IntN(2) == 0 {
							n = max(l.table.Len()-rng.IntN(70), 0)
						}
						want := m.back(l.table, n, l.pass)
						if got := l.table.Back(n); got != want {
							t.Fatalf("step %d: %d would be left of %d if cut to %d, want %d", step, got, l.table.Len(), n, want)
						}
						before := l.table.Len()
						got := l.table.Truncate(n)
						if got != want || l.table.Len() != want {
							t.Fatalf("step %d: truncated to %d, asked for %d, want %d", step, got, n, want)
						}
						if got < before {
							l.pass = -1
						}
						if got > 0 && got < len(l.ids) {
							seen["taken back"]++
						}
						l.ids = l.ids[:got]
					case r < 15 && len(running) < 6:
						running = append(running, &live{l.table.Fork(), l.ids, l.ns, true, -1})
					case r < 19:
						if rng.IntN(5) > 0 {
							m.tree.Keep(l.ns, l.table, l.ids, How{End: rng.IntN(4) > 0, Awaited: rng.IntN(6) == 0, Whole: rng.IntN(4) == 0})
						}
						l.table.Free()
						running = slices.DeleteFunc(running, func(o *live) bool { return o == l })
					case r < 20 && rng.IntN(4) == 0:
						m.tree.Forget(l.ns, l.ids[:rng.IntN(len(l.ids)+1)])
					}
					if stored && len(lent) < 2 && rng.IntN(2) == 0 {
						if p := m.tree.Cold(m.pool.limit); p != nil {
							lent = append(lent, p)
							seen["stored"]++
						}
					}
					if len(lent) > 0 && rng.IntN(4) > 0 { // in the meantime anything may have happened
						m.store.store(lent[0])
						m.tree.Release(lent[0])
						m.tree.Stored(lent[0])
						lent = lent[1:]
					}
					tables = tables[:0]
					for _, p := range lent { // as a table that has these units
						tables = append(tables, m.holder(p))
					}
					for _, l := range running {
						tables = append(tables, l.table)
					}
					m.check(step, tables)
					if step%100 == 99 && len(lent) == 0 && !slices.ContainsFunc(running, func(l *live) bool { return l.fork }) { // all that is available can be had
						blank, n := m.pool.NewTable(), 0
						for free := m.pool.Available(); n < m.pool.layout.Room(0, 1<<12) && m.pool.layout.Growth(0, n+BlockTokens) <= free; {
							n += BlockTokens
						}
						if err := blank.Grow(n); err != nil {
							t.Fatalf("step %d: %d positions: %v", step, n, err)
						}
						m.check(step, append(tables, blank))
						blank.Free()
					}
				}
				seen["given away"] = int(m.tree.Evicted())
				for _, p := range lent {
					m.tree.Release(p)
				}
				wanted := []string{"found", "taken back", "given away", "branched"}
				if stored {
					wanted = append(wanted, "stored", "fetched")
				}
				for _, what := range wanted {
					if seen[what] == 0 {
						t.Errorf("never %s: the test does not test that: %v", what, seen)
					}
				}
				t.Log(seen)
				m.tree.Clear()
				for _, l := range running {
					l.table.Free()
				}
				m.check(steps, nil)
				if m.pool.used != 0 {
					t.Errorf("%d bytes are never given back", m.pool.used)
				}
			})
		}
	}
}

// append evaluates more tokens of a text in one pass.
func (m *model) append(table *Table, ids []int32, to int) {
	m.t.Helper()
	if err := table.Grow(to - table.Len()); err != nil {
		m.t.Fatal(err)
	}
	m.pass(table, ids[:to])
	table.Commit()
}

// A sequence holds what is in its window, and a block to be able to go back; while a
// pass runs also what the first of its tokens sees.
func TestWindowsAreFreed(t *testing.T) {
	m := newModel(t, 40, Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 4096, Window: 100})
	ids := seqIDs(1, 1000)
	table := m.pool.NewTable()
	held := func() (n int) {
		for _, id := range table.Blocks(1) {
			if id >= 0 {
				n++
			}
		}
		return n
	}
	for n := 10; n <= 1000; n += 10 {
		m.append(table, ids, n)
		if got := m.pool.layout.Bytes(n); got != m.pool.used || held() > 4 {
			t.Fatalf("%d positions take %d bytes, the layout says %d; %d blocks of the window", n, m.pool.used, got, held())
		}
	}
	if held() != 3 { // from position 837
		t.Errorf("%d blocks of a window of 100 and 64 more at 1000", held())
	}
	if got := table.Truncate(1000 - 64); got != 936 {
		t.Errorf("64 tokens can be taken back, %d were left of 936", got)
	}
	m.append(table, ids, 1000)
	if got := table.Truncate(500); got != 0 || m.pool.used != 0 {
		t.Errorf("what is behind the window is gone, and %d tokens were left in %d bytes", got, m.pool.used)
	}
	one := m.pool.NewTable()
	if err := one.Grow(600); err != nil { // all that a long pass sees is there until it has run
		t.Fatal(err)
	}
	if most := m.pool.layout.Most(600, 600); m.pool.used > most || most > m.pool.used+4096 {
		t.Errorf("a pass of 600 holds %d bytes, at most %d were expected", m.pool.used, most)
	}
	m.pass(one, ids[:600])
	one.Commit()
	if got := m.pool.layout.Bytes(600); m.pool.used != got {
		t.Errorf("after it %d bytes, want %d", m.pool.used, got)
	}
}

// The memory of one group becomes that of another, and never more than the limit
// has pages.
func TestMemoryMovesBetweenGroups(t *testing.T) {
	m := newModel(t, 8, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4 * 4096, PerSequence: true})
	var tables []*Table
	for range 5 { // states: two of four pages each, and a block
		table := m.pool.NewTable()
		if table.Grow(1) == nil {
			m.pass(table, []int32{1})
			table.Commit()
			tables = append(tables, table)
		}
	}
	if len(tables) != 5 {
		t.Fatalf("%d sequences fit", len(tables))
	}
	m.check(0, tables)
	for _, table := range tables[1:] {
		table.Free()
	}
	ids := seqIDs(1, 64*30)
	tables[0].Free()
	long := m.pool.NewTable()
	m.append(long, ids, len(ids))
	m.check(1, []*Table{long})
	if m.pool.groups[0].most < 30 || len(m.pool.groups[1].bare) == 0 {
		t.Errorf("no state gave its pages to blocks")
	}
}

// A recurrent state is kept where a text ends and where passes were cut, and texts go
// on from there.
func TestSnapshots(t *testing.T) {
	m := newModel(t, 60, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4096, PerSequence: true})
	system := seqIDs(1, 150)
	first := slices.Concat(system, seqIDs(2, 100))
	cuts := func(ids []int32, found int, want ...int) {
		t.Helper()
		if got := m.tree.Cuts("", ids, found); !slices.Equal(got, want) {
			t.Errorf("cuts of %d tokens after %d: %v, want %v", len(ids), found, got, want)
		}
	}
	run := func(ids []int32, answer int, want int) []int32 {
		t.Helper()
		table := m.tree.Find("", ids[:len(ids)-1])
		if table.Len() != want {
			t.Errorf("%d tokens of %d found, want %d", table.Len(), len(ids), want)
		}
		for _, at := range append(m.tree.Cuts("", ids, table.Len()), len(ids)) {
			m.append(table, ids, at)
			m.tree.Keep("", table, ids[:at], How{Whole: true, End: true})
		}
		for range answer {
			ids = append(slices.Clone(ids), 7)
			m.append(table, ids, len(ids))
		}
		m.tree.Keep("", table, ids, How{End: true})
		table.Free()
		return ids
	}
	cuts(first, 0, 192)
	text := run(first, 30, 0)
	// The next turn goes on from the end of the answer, one that lost its thoughts from
	// the last block of the prompt, and one that differs earlier from nowhere.
	run(append(slices.Clone(text), 1, 2, 3), 5, 280)
	run(append(slices.Clone(first), 8, 9), 5, 192)
	second := slices.Concat(system, seqIDs(3, 100))
	cuts(second, 0, 128, 192) // where it leaves the others
	run(second, 5, 0)
	run(slices.Concat(system, seqIDs(4, 100)), 5, 128)
	// The same once more evaluates what follows the last block.
	run(first, 5, 192)
	m.check(0, nil)
}

// The pages that eviction takes next are those that are to be stored, from the end of a
// text to its beginning; and what is left in the end is stored from the beginning.
func TestColdBeforeEviction(t *testing.T) {
	m := newModel(t, 8, Group{Name: "all", Bytes: 4096})
	m.store = &testStore{m: m, pages: map[pageKey][][]byte{}}
	ids := seqIDs(1, 6*64)
	table := m.tree.Find("a", ids)
	m.append(table, ids, len(ids))
	m.tree.Keep("a", table, ids, How{})
	table.Free()
	if p := m.tree.Cold(2 * 4096); p != nil {
		t.Fatalf("the page after %d tokens is cold, and two are free", p.From)
	}
	for _, from := range []int{320, 256} {
		p := m.tree.Cold(4 * 4096)
		if p == nil || p.From != from || p.Namespace != "a" {
			t.Fatalf("cold is %+v, want the page after %d tokens", p, from)
		}
		if _, idle := m.tree.Bytes(); idle != 5*4096 {
			t.Fatalf("%d bytes are idle while a page is copied", idle)
		}
		m.store.store(p)
		m.tree.Release(p)
		m.tree.Stored(p)
	}
	if p := m.tree.Cold(4 * 4096); p != nil {
		t.Fatalf("the page after %d tokens is cold as well", p.From)
	}
	for _, want := range [][]int{{0, 64, 128}, {192}, nil} {
		pages := m.tree.Warm(3)
		if _, idle := m.tree.Bytes(); idle != uint64(6-len(pages))*4096 {
			t.Fatalf("%d bytes are idle while %d pages are copied", idle, len(pages))
		}
		var warm []int
		for _, p := range pages {
			m.store.store(p)
			warm = append(warm, p.From)
			m.tree.Release(p)
			m.tree.Stored(p)
		}
		if !slices.Equal(warm, want) {
			t.Fatalf("warm are the pages after %v, want %v", warm, want)
		}
	}
	m.tree.Clear()
	if n, found := m.store.fetch("b", ids); n != 0 || found != 0 {
		t.Fatalf("another namespace has %d tokens", n)
	}
	if n, found := m.store.fetch("a", append(slices.Clone(ids[:300]), 1, 2)); n != 256 || found != 0 {
		t.Fatalf("%d tokens are fetched and %d were there, want 256 and none", n, found)
	}
	if n, found := m.store.fetch("a", ids); n != 384 || found != 256 {
		t.Fatalf("%d tokens are fetched and %d were there, want 384 and 256", n, found)
	}
	m.check(0, nil)
}

// What is evicted first: what no text will go on from, then what costs little for its
// bytes, and what is awaited last.
func TestEvictionOrder(t *testing.T) {
	m := newModel(t, 12, Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 4096, Window: 64})
	kept := func(seed int32, n int, how How) []int32 {
		ids := seqIDs(seed, n)
		table := m.tree.Find("", ids)
		m.append(table, ids, n)
		m.tree.Keep("", table, ids, how)
		table.Free()
		return ids
	}
	long := kept(1, 4*64, How{End: true})
	short := kept(2, 64, How{})
	awaited := kept(3, 64, How{Awaited: true})
	for range 3 {
		m.tree.Find("", long).Free()
	}
	table := m.pool.NewTable()
	for i := range 40 {
		if err := table.Grow(64); err != nil {
			break
		}
		m.pass(table, seqIDs(9, 64*(i+1)))
		table.Commit()
		l, s, a := m.tree.Len("", long), m.tree.Len("", short), m.tree.Len("", awaited)
		if s == 0 && a == 0 && l > 0 || s > 0 && l < 256 {
			t.Errorf("%d blocks taken: %d of the long text, %d of the short one, %d of the awaited one are left", i+1, l, s, a)
		}
	}
	m.check(0, []*Table{table})
	if m.tree.bytes != 0 {
		t.Errorf("%d bytes are left in the tree", m.tree.bytes)
	}
}

// A sequence that is preempted after its blocks have aged for the next token, and before that came, goes on where it was.
func TestAgedAhead(t *testing.T) {
	for _, l := range layouts {
		if !strings.HasPrefix(l.name, "ages") {
			continue
		}
		m := newModel(t, 40, l.groups...)
		ids := seqIDs(1, 450)
		table := m.pool.NewTable()
		for table.Len() < 384 {
			if err := m.age(table); err != nil {
				t.Fatal(err)
			}
			m.append(table, ids, table.Len()+64)
		}
		for range 2 { // and once more with what is in the tree
			if err := m.age(table); err != nil {
				t.Fatal(err)
			}
			m.tree.Keep("", table, ids[:384], How{Awaited: true, End: true})
			table.Free()
			m.check(0, nil)
			if table = m.tree.Find("", ids); table.Len() != 384 {
				t.Fatalf("%s: %d tokens are found of 384", l.name, table.Len())
			}
		}
		if err := table.Parts(func([]byte) error { return nil }); !errors.Is(err, ErrAged) {
			t.Errorf("%s: saved: %v", l.name, err)
		}
		if err := m.age(table); err != nil {
			t.Fatal(err)
		}
		m.append(table, ids, 400)
		m.check(1, []*Table{table})
		table.Free()
	}
}
