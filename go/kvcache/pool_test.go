package kvcache

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// A pool is resized within what it was created with and what its tables hold: free memory goes first, then what the tree
// alone holds, then parked tables; what is given up goes back to the budget and to the kernel.
func TestResize(t *testing.T) {
	const unit = 4096
	budget := mem.NewBudget(20*unit, "test")
	p, err := NewPool(budget, NewLayout(Group{Bytes: unit}), 10*unit)
	must(t, err)
	defer p.Close()
	tree := NewTree(p)
	keep(t, tree, seqIDs(1, 2*BlockTokens))
	parked, table := p.NewTable(), p.NewTable()
	grow(t, parked, 2*BlockTokens)
	p.Park(parked)
	grow(t, table, 3*BlockTokens)
	for _, c := range []struct{ to, limit, used, touched, tree, parked int }{
		{11, 10, 7, 7, 2, 128}, {10, 10, 7, 7, 2, 128}, {8, 8, 7, 7, 2, 128}, {7, 7, 7, 7, 2, 128}, {6, 6, 6, 6, 1, 128}, {5, 5, 5, 5, 0, 128},
		{4, 4, 3, 4, 0, 0}, {2, 3, 3, 3, 0, 0}, {0, 3, 3, 3, 0, 0}, {9, 9, 3, 3, 0, 0},
	} {
		if err := p.Resize(uint64(c.to) * unit); err != nil {
			t.Fatal(err)
		}
		held, _ := tree.Bytes()
		got := []uint64{p.Limit(), p.Reserved(), budget.Used(), p.Used(), p.touched, held}
		want := []int{c.limit, c.limit, c.limit, c.used, c.touched, c.tree}
		for i := range want {
			if got[i] != uint64(want[i]*unit) {
				t.Errorf("to %d units: limit, reserved, of the budget, used, touched and in the tree are %d, want units %v", c.to, got, want)
				break
			}
		}
		if p.Most() != 10*unit || parked.Len() != c.parked || table.Len() != 3*BlockTokens {
			t.Errorf("to %d units: %d positions are parked, %d in use, want %d and 192", c.to, parked.Len(), table.Len(), c.parked)
		}
	}
	other, err := budget.Reserve("test", 11*unit)
	must(t, err)
	var limit *mem.LimitError
	if err := p.Resize(10 * unit); !errors.As(err, &limit) || p.Limit() != 9*unit || p.Reserved() != 9*unit {
		t.Errorf("a pool grew beyond the budget: %v, %d bytes", err, p.Limit())
	}
	other.Release()
	must(t, p.Close())
	if budget.Used() != 0 {
		t.Errorf("a closed pool holds %d bytes of the budget", budget.Used())
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// The pages of a unit that was given up are the kernel's: it begins with zeros. Those that are free keep them.
func TestStrip(t *testing.T) {
	p := pool(t, NewLayout(Group{Bytes: 4096}, Group{Bytes: 8192, Window: 1000}), 10*4096)
	a := p.NewTable()
	grow(t, a, 3*BlockTokens) // three units of one page, and of two pages
	for g := range p.layout {
		for _, id := range a.Blocks(g) {
			if id >= 0 {
				clear(p.bytesOf(g, id))
				p.bytesOf(g, id)[0] = 7
			}
		}
	}
	a.Free()
	if p.touched != 9*4096 || p.used != 0 {
		t.Fatalf("%d bytes are touched, %d used", p.touched, p.used)
	}
	for _, c := range []struct{ limit, one, two int }{{9, 3, 3}, {8, 2, 3}, {7, 1, 3}, {5, 0, 2}, {4, 0, 2}, {3, 0, 1}, {1, 0, 0}} {
		must(t, p.Resize(uint64(c.limit)*4096))
		kept := [2]int{}
		for g := range p.groups {
			kept[g] = len(p.groups[g].free)
			for _, id := range p.groups[g].free {
				if p.bytesOf(g, id)[0] != 7 {
					t.Errorf("limit %d: a free unit lost its pages", c.limit)
				}
			}
			for _, id := range p.groups[g].bare {
				if p.bytesOf(g, id)[0] != 0 {
					t.Errorf("limit %d: a unit without pages has contents", c.limit)
				}
			}
			if got := len(p.groups[g].free) + len(p.groups[g].bare); got != 3 {
				t.Errorf("limit %d: %d units of group %d", c.limit, got, g)
			}
		}
		if kept != [2]int{c.one, c.two} || p.touched != uint64(c.one+2*c.two)*4096 {
			t.Errorf("limit %d: %v units have pages, %d bytes, want %d and %d", c.limit, kept, p.touched, c.one, c.two)
		}
	}
}

// A unit of a group that has none takes the pages of as many free ones of another group as it needs, and of none while there
// are untouched ones.
func TestStripOnlyWhatIsNeeded(t *testing.T) {
	p := pool(t, NewLayout(Group{Bytes: 4096}, Group{Bytes: 8192, PerSequence: true}), 8*4096)
	a := p.NewTable()
	grow(t, a, 4*BlockTokens)
	a.Free()
	for i, c := range []struct{ free, bare, touched int }{{4, 0, 6}, {4, 0, 8}, {2, 2, 8}, {0, 4, 8}} {
		if p.take(1); len(p.groups[0].free) != c.free || len(p.groups[0].bare) != c.bare || p.touched != uint64(c.touched*4096) {
			t.Errorf("state %d: %d units have pages, %d have not, %d bytes are touched, want %+v", i, len(p.groups[0].free), len(p.groups[0].bare), p.touched, c)
		}
	}
}

// How many bytes tables can have: what nobody holds, what the tree alone holds, and what parked tables alone hold or share
// with the tree.
func TestAvailable(t *testing.T) {
	const unit = 4096
	p := pool(t, NewLayout(Group{Bytes: unit}, Group{Bytes: unit, PerSequence: true}), 20*unit)
	want := func(what string, units int) {
		t.Helper()
		if got := p.Available(); got != uint64(units*unit) {
			t.Errorf("%s: %d bytes are available, want %d units", what, got, units)
		}
	}
	a := p.NewTable()
	grow(t, a, 2*BlockTokens)
	want("two blocks and a state are held", 17)
	b := a.Fork()
	p.Park(a)
	want("parked, but another holds the same", 17)
	b.Free()
	want("parked alone", 20)
	if !p.Unpark(a) {
		t.Error("it was not parked")
	}
	want("taken back", 17)
	tree := NewTree(p)
	tree.Keep("", a, seqIDs(1, 2*BlockTokens), How{End: true})
	want("held by the tree as well", 17)
	p.Park(a)
	want("parked, and held by the tree", 20)
	c := a.Fork()
	want("and by another", 17)
	p.Unpark(a)
	a.Free()
	c.Free()
	want("held by the tree alone", 20)
	if all, idle := tree.Bytes(); all != 3*unit || idle != 3*unit {
		t.Errorf("the tree has %d bytes, %d for itself", all, idle)
	}
}

// How many blocks of texts of some length fit.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		layout                 Layout
		bytes, positions, want int
	}{
		{Layout{{Bytes: 100}}, 1000, 1, 10}, {Layout{{Bytes: 100}}, 1000, 640, 10}, {Layout{{Bytes: 100}}, 1099, 64, 10}, {Layout{{Bytes: 100}}, 1000, 0, 1000},
		{Layout{{Bytes: 100}, {Bytes: 200}}, 3000, 640, 10},
		{Layout{{Bytes: 100}, {Bytes: 500, PerSequence: true}}, 3000, 64, 2}, // 1100 bytes for one block
		{Layout{{Bytes: 100}, {Bytes: 500, PerSequence: true}}, 3000, 640, 15},
		{Layout{{Bytes: 1, PerSequence: true}}, 10, 6400, 10}, // less than a byte for a block
	} {
		p := pool(t, c.layout, uint64(c.bytes))
		if got := p.Blocks(c.positions); got != c.want {
			t.Errorf("%+v: %d blocks of texts of %d positions fit in %d bytes, want %d", c.layout, got, c.positions, c.bytes, c.want)
		}
	}
}

// A pool of one unit can be made, and one of more units than have numbers where there are several groups.
func TestPoolBounds(t *testing.T) {
	p := pool(t, NewLayout(Group{Bytes: 64}), 64)
	table := p.NewTable()
	grow(t, table, BlockTokens)
	if err := table.Grow(1); !errors.Is(err, ErrFull) {
		t.Errorf("a second block was taken of one: %v", err)
	}
	if _, err := NewPool(mem.NewBudget(1000, "test"), NewLayout(Group{Bytes: 64}), 63); err == nil || !strings.Contains(err.Error(), "units of 64 bytes") {
		t.Errorf("a pool of less than a unit: %v", err)
	}
	everything := mem.NewBudget(math.MaxUint64, "test")
	if _, err := NewPool(everything, NewLayout(Group{Bytes: 1 << 62}), math.MaxInt+1); err == nil || !strings.Contains(err.Error(), "address space") {
		t.Errorf("a pool beyond an address space: %v", err)
	}
	const most = math.MaxInt32
	for _, c := range []struct{ units, want int }{{1000, 1000}, {most, most}, {most + 1, most}} {
		p, err := NewPool(everything, NewLayout(Group{Bytes: 4096}, Group{Bytes: 8192}), uint64(c.units)*4096)
		if err != nil {
			t.Skipf("no address space for %d units: %v", c.units, err)
		}
		if p.groups[0].most != c.want || p.groups[1].most != c.units/2 || len(p.Units(0).Memory) != c.want*4096 {
			t.Errorf("%d units of one page and %d of two, want %d and %d", p.groups[0].most, p.groups[1].most, c.want, c.units/2)
		}
		must(t, p.Close())
	}
}

// A sequence takes what it needs and no more: where that is all there is, it grows, pass after pass, and its end can be taken
// back; to grow by nothing takes nothing.
func TestExactFit(t *testing.T) {
	const unit = 4096
	p := pool(t, NewLayout(Group{Bytes: unit}, Group{Bytes: unit, PerSequence: true}), 3*unit)
	a := p.NewTable()
	for n := 1; n <= 3; n++ { // a block, and two states by turns
		grow(t, a, 1)
		if want := uint64(min(n+1, 3)) * unit; p.used != want {
			t.Errorf("%d positions take %d bytes, want %d", n, p.used, want)
		}
	}
	a.Commit() // no pass has run
	if a.Back(2) != 2 || a.Back(1) != 0 || a.Truncate(2) != 2 || a.Len() != 2 || p.used != 3*unit {
		t.Errorf("%d positions are left of 3 without the last, in %d bytes", a.Len(), p.used)
	}
	grow(t, a, 1)
	if a.Settle(); a.Back(2) != 0 || p.used != 2*unit {
		t.Errorf("the last pass is settled: %d positions would be left, %d bytes are held", a.Back(2), p.used)
	}
	grow(t, a, 1)
	if err := a.Grow(BlockTokens); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "64 more positions need") {
		t.Errorf("a second block in memory for one: %v", err)
	}
	if a.Truncate(0) != 0 || p.used != 0 {
		t.Errorf("%d bytes are held by nothing", p.used)
	}
	q := pool(t, NewLayout(Group{Bytes: unit}), 3*unit)
	b := q.NewTable()
	grow(t, b, 70)
	c := b.Fork()
	if must(t, c.Grow(0)); q.used != 2*unit {
		t.Errorf("growth by nothing took %d bytes", q.used-2*unit)
	}
	grow(t, c, 1)
	if q.used != 3*unit {
		t.Errorf("a shared block was not copied: %d bytes", q.used)
	}
}

// Blocks that become too old need memory for their copies: where there is none, nothing changes, and where none is too old
// nothing is to be done.
func TestAgingNeedsMemory(t *testing.T) {
	l := []Group{{Bytes: 4096, AgeTo: 64, AgeStep: 64}, {Bytes: 4096, AgeFrom: 64, AgeStep: 64}}
	m := newModel(t, 2, l...) // four units
	ids := seqIDs(1, 1000)
	table := m.pool.NewTable()
	for table.Len() < 192 {
		a, err := table.Age()
		if must(t, err); (a != nil) != (table.Len() == 192) {
			t.Errorf("at %d: %+v", table.Len(), a)
		}
		m.append(table, ids, table.Len()+32)
	}
	other := m.pool.NewTable()
	grow(t, other, 1)
	if a, err := table.Age(); !errors.Is(err, ErrFull) || a != nil || m.pool.used != 4*4096 || !strings.Contains(err.Error(), "0 more positions need") {
		t.Errorf("a block ages without memory for it: %v", err)
	}
	m.check(0, []*Table{table, other})
	other.Free()
	must(t, m.age(table))
	m.append(table, ids, 193)
	m.check(1, []*Table{table})
}

// A pool has one tree.
func TestOneTree(t *testing.T) {
	p := newPool(t, 1)
	NewTree(p)
	refused(t, "a second tree", func() { NewTree(p) })
}

// refused fails the test if f does not panic.
func refused(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() == nil {
			t.Errorf("%s: not refused", what)
		}
	}()
	f()
}

// What a caller may not do: a pass in a pass, positions that are not there, a table in a tree with other tokens.
func TestMisuse(t *testing.T) {
	l := Layout{{Bytes: 4096, AgeTo: 64, AgeStep: 64}, {Bytes: 4096, AgeFrom: 64, AgeStep: 64}}
	p := pool(t, l, 10*4096)
	tree := NewTree(p)
	table := p.NewTable()
	refused(t, "growth by -1", func() { _ = table.Grow(-1) })
	refused(t, "growth past where blocks age", func() { _ = table.Grow(65) })
	must(t, table.Grow(0))
	must(t, table.Grow(64))
	refused(t, "growth in a pass", func() { _ = table.Grow(0) })
	refused(t, "a fork in a pass", func() { table.Fork() })
	refused(t, "truncating in a pass", func() { table.Truncate(64) })
	refused(t, "keeping in a pass", func() { tree.Keep("", table, seqIDs(1, 64), How{}) })
	table.Commit()
	refused(t, "truncating to -1", func() { table.Truncate(-1) })
	refused(t, "truncating to 65 of 64", func() { table.Truncate(65) })
	refused(t, "keeping 63 tokens of 64", func() { tree.Keep("", table, seqIDs(1, 63), How{}) })
	refused(t, "keeping 65 tokens of 64", func() { tree.Keep("", table, seqIDs(1, 65), How{}) })
	if table.Len() != 64 || table.Truncate(64) != 64 {
		t.Errorf("%d positions", table.Len())
	}
	one := pool(t, NewLayout(Group{Bytes: 64}), 640)
	open := one.NewTable()
	must(t, open.Grow(10))
	refused(t, "a shift in a pass", func() { _, _ = open.Shift(0, 5) })
	state := pool(t, NewLayout(Group{Bytes: 64, PerSequence: true}), 640)
	own := state.NewTable()
	grow(t, own, 10)
	refused(t, "a shift of a state", func() { _, _ = own.Shift(0, 5) })
}

// A table of a saved sequence has the units that one has which was computed, and goes on like it.
func TestNewTableOf(t *testing.T) {
	for _, l := range layouts {
		m := newModel(t, 60, l.groups...)
		ids := seqIDs(1, 700)
		table := m.pool.NewTable()
		if none, err := m.pool.NewTableOf(0); err != nil || none.Len() != 0 || m.pool.Used() != 0 {
			t.Errorf("%s: a table of nothing takes %d bytes: %v", l.name, m.pool.Used(), err)
		}
		for _, n := range []int{1, 63, 64, 65, 100, 128, 129, 256, 300, 448, 500, 640} {
			for table.Len() < n {
				must(t, m.age(table))
				m.append(table, ids, table.Len()+m.pool.layout.Room(table.Len(), n-table.Len()))
			}
			var saved [][]byte
			must(t, table.Parts(func(b []byte) error { saved = append(saved, slices.Clone(b)); return nil }))
			used, size := m.pool.Used(), uint64(0)
			other, err := m.pool.NewTableOf(n)
			must(t, err)
			for _, b := range saved {
				size += uint64(len(b))
			}
			if got := m.pool.Used() - used; got != size || other.Len() != n {
				t.Fatalf("%s: a table of %d positions takes %d bytes, want %d", l.name, other.Len(), got, size)
			}
			must(t, other.Parts(func(b []byte) error { copy(b, saved[0]); saved = saved[1:]; return nil }))
			must(t, m.age(other))
			m.append(other, ids, n+m.pool.layout.Room(n, 30))
			m.check(n, []*Table{table, other})
			failed := errors.New("no")
			if err := other.Parts(func([]byte) error { return failed }); err != failed {
				t.Errorf("%s: an error of the caller is %v", l.name, err)
			}
			other.Free()
		}
		table.Free()
		m.check(0, nil)
		small := newModel(t, 1, l.groups...)
		if _, err := small.pool.NewTableOf(1000); l.name == "state" && err != nil || l.name != "state" && !errors.Is(err, ErrFull) || err != nil && small.pool.Used() != 0 {
			t.Errorf("%s: 1000 positions in memory for a block of each: %v, %d bytes are taken", l.name, err, small.pool.Used())
		}
	}
}
