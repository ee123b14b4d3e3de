package kvcache

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// bytesOf returns the memory of a unit that lies in one place.
func (p *Pool) bytesOf(group int, id int32) []byte { return p.unit(group, id)[0] }

func newPool(t *testing.T, blocks int) *Pool {
	t.Helper()
	p, err := NewPool(mem.NewBudget(1<<20, "test"), NewLayout(Group{Bytes: 64}), uint64(64*blocks))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func grow(t *testing.T, tab *Table, n int) {
	t.Helper()
	if err := tab.Grow(n); err != nil {
		t.Fatal(err)
	}
	tab.Commit()
}

// freeBlocks is how many blocks of a pool of one group nobody holds.
func freeBlocks(p *Pool) int { return int(p.limit-p.used) / p.layout[0].Bytes }

func TestGrowAndTruncate(t *testing.T) {
	p := newPool(t, 4)
	tab := p.NewTable()
	for _, tt := range []struct{ n, blocks int }{{1, 1}, {63, 1}, {64, 1}, {65, 2}, {128, 2}, {129, 3}, {256, 4}} {
		grow(t, tab, tt.n-tab.Len())
		if got := len(tab.Blocks(0)); got != tt.blocks || freeBlocks(p) != 4-tt.blocks {
			t.Errorf("%d positions: %d blocks, %d free, want %d and %d", tt.n, got, freeBlocks(p), tt.blocks, 4-tt.blocks)
		}
	}
	err := tab.Grow(1)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "0 B of 256 B are free") {
		t.Errorf("error = %v, want ErrFull with numbers", err)
	}
	if tab.Len() != 256 {
		t.Errorf("a refused Grow left %d positions, want 256", tab.Len())
	}
	tab.Truncate(64)
	if len(tab.Blocks(0)) != 1 || freeBlocks(p) != 3 {
		t.Errorf("64 positions: %d blocks, %d free, want 1 and 3", len(tab.Blocks(0)), freeBlocks(p))
	}
	tab.Free()
	tab.Free()
	if freeBlocks(p) != 4 {
		t.Errorf("%d free after Free, want 4", freeBlocks(p))
	}
}

func TestForkCopiesOnWrite(t *testing.T) {
	p := newPool(t, 4)
	a := p.NewTable()
	grow(t, a, 70)
	for i, id := range a.Blocks(0) {
		for j := range p.bytesOf(0, id) {
			p.bytesOf(0, id)[j] = byte(10 + i)
		}
	}
	b := a.Fork()
	if !slices.Equal(a.Blocks(0), b.Blocks(0)) || freeBlocks(p) != 2 {
		t.Fatalf("fork has %v, want %v, with 2 free, not %d", b.Blocks(0), a.Blocks(0), freeBlocks(p))
	}
	grow(t, b, 1)
	if a.Blocks(0)[0] != b.Blocks(0)[0] {
		t.Error("the whole block is no longer shared")
	}
	if a.Blocks(0)[1] == b.Blocks(0)[1] {
		t.Fatal("two tables may write the open block")
	}
	if got := p.bytesOf(0, b.Blocks(0)[1])[5]; got != 11 {
		t.Errorf("copied block has %d, want 11", got)
	}
	before := a.Blocks(0)[1]
	grow(t, a, 1)
	if a.Blocks(0)[1] != before {
		t.Error("the sole owner of a block copied it")
	}
	// A whole block, cut open again, is still shared.
	a.Truncate(10)
	grow(t, a, 1)
	if a.Blocks(0)[0] == b.Blocks(0)[0] {
		t.Error("a shared block was opened for writing")
	}
	a.Free()
	b.Free()
	if freeBlocks(p) != 4 {
		t.Errorf("%d free at the end, want 4", freeBlocks(p))
	}
}

// Whatever is done, each block is counted once for each table that holds it,
// and the block a table writes next is its own.
func TestCountsHold(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	p := newPool(t, 12)
	tables := []*Table{p.NewTable()}
	for step := range 5000 {
		tab := tables[r.IntN(len(tables))]
		switch r.IntN(4) {
		case 0, 1:
			n := 1 + r.IntN(100)
			err := tab.Grow(n)
			tab.Commit()
			if err == nil && p.groups[0].refs[tab.units[0][(tab.n-1)/BlockTokens]] != 1 {
				t.Fatalf("step %d: the open block has %d owners", step, p.groups[0].refs[tab.units[0][(tab.n-1)/BlockTokens]])
			}
		case 2:
			tab.Truncate(r.IntN(tab.Len() + 1))
		case 3:
			if len(tables) < 5 {
				tables = append(tables, tab.Fork())
			} else {
				tables[4].Free()
				tables = tables[:4]
			}
		}
		refs := make([]int32, len(p.groups[0].refs))
		for _, tab := range tables {
			if len(tab.units[0]) != blocksFor(tab.n) {
				t.Fatalf("step %d: %d blocks for %d positions", step, len(tab.units[0]), tab.n)
			}
			for _, id := range tab.units[0] {
				refs[id]++
			}
		}
		for _, id := range p.groups[0].free {
			if refs[id] != 0 {
				t.Fatalf("step %d: block %d is free and held", step, id)
			}
		}
		if !slices.Equal(refs, p.groups[0].refs) {
			t.Fatalf("step %d: counts %v, want %v", step, p.groups[0].refs, refs)
		}
	}
}

func TestRefusals(t *testing.T) {
	budget := mem.NewBudget(1000, "test")
	var limit *mem.LimitError
	if _, err := NewPool(budget, NewLayout(Group{Bytes: 500}), 1500); !errors.As(err, &limit) {
		t.Errorf("error = %v, want a LimitError", err)
	}
	for _, tt := range []struct{ bytes, blocks int }{{0, 1}, {1, 0}, {1 << 62, 4}} {
		if _, err := NewPool(budget, NewLayout(Group{Bytes: tt.bytes}), uint64(tt.bytes)*uint64(tt.blocks)); err == nil {
			t.Errorf("a pool of %d blocks of %d bytes was made", tt.blocks, tt.bytes)
		}
	}
	if _, err := NewPool(mem.NewBudget(math.MaxUint64, "test"), NewLayout(Group{Bytes: 1}), math.MaxInt32+1); err == nil || !strings.Contains(err.Error(), "2147483648 blocks") || !strings.Contains(err.Error(), "at most 2147483647") {
		t.Errorf("error = %v, want one that says how many blocks there may be", err)
	}
	if budget.Used() != 0 {
		t.Errorf("refusals left %d bytes taken", budget.Used())
	}
	if _, err := ParseType("q4"); err == nil {
		t.Error("KV type q4 was accepted")
	}
	if got, err := ParseType("F32"); got != F32 || err != nil {
		t.Errorf("ParseType = %v, %v", got, err)
	}
}

// What a layout takes, in units, at the bounds where one more or less matters.
func TestLayoutCounts(t *testing.T) {
	window := Layout{{Bytes: 1, Window: 2 * BlockTokens}}
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"first block that the last position of a window sees", uint64(window[0].seen(2*BlockTokens - 1)), 0},
		{"the same one block on", uint64(window[0].seen(3*BlockTokens - 1)), 1},
		{"the same one position less", uint64(window[0].seen(3*BlockTokens - 2)), 0},
		{"end of a window", window.End(), 3},
		{"end of states", Layout{{Bytes: 1, PerSequence: true}}.End(), 1},
		{"end of tiers", Layout{{Bytes: 1, AgeTo: 128, AgeStep: 64}, {Bytes: 1, AgeFrom: 128, AgeStep: 64}}.End(), 4},
		{"end of a middle tier", Layout{{Bytes: 1, AgeFrom: 128, AgeTo: 256, AgeStep: 64}}.End(), 4},
		{"end of all positions", Layout{{Bytes: 1}}.End(), 0},
		{"most of all positions", Layout{{Bytes: 1}}.Most(1000, 64), 16},
		{"most of a window in long passes", Layout{{Bytes: 1, Window: 100}}.Most(1000, 64), 5},
		{"most of a window in passes of a token", Layout{{Bytes: 1, Window: 64}}.Most(1000, 1), 4},
		{"most of a window in a pass that is shorter than a slice", Layout{{Bytes: 1, Window: 64}}.Most(65, 1000), 2},
		{"most of a window that is longer than the text", Layout{{Bytes: 1, Window: 1000}}.Most(100, 64), 2},
		{"most of state", Layout{{Bytes: 1, PerSequence: true}}.Most(1000, 64), 2},
		{"most of an old tier", Layout{{Bytes: 1, AgeFrom: 128, AgeStep: 64}}.Most(1000, 64), 13},
		{"most of an old tier of long steps", Layout{{Bytes: 1, AgeFrom: 128, AgeStep: 128}}.Most(1000, 64), 12 - 1 + 2},
		{"most of a short text in a young tier", Layout{{Bytes: 1, AgeTo: 128, AgeStep: 64}}.Most(100, 64), 2},
		{"most of a window of one position", Layout{{Bytes: 1, Window: 1}}.Most(1000, 64), 4},
		{"most of a young tier in long passes", Layout{{Bytes: 1, AgeTo: 128, AgeStep: 64}}.Most(1000, 1000), 4},
		{"end of a window of one position", Layout{{Bytes: 1, Window: 1}}.End(), 2},
		{"most of a young tier", Layout{{Bytes: 1, AgeTo: 128, AgeStep: 64}}.Most(1000, 64), 4},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	for _, g := range []Group{{Bytes: 1, Window: 1}, {Bytes: 1, PerSequence: true}, {Bytes: 1, AgeStep: 64}} {
		if !(Layout{{Bytes: 1}, g}).Forgets() {
			t.Errorf("%+v forgets nothing", g)
		}
	}
	if (Layout{{Bytes: 1}}).Forgets() {
		t.Error("a group of all positions forgets")
	}
	for _, s := range []string{"1x:i16,*:q4_0", "0:i16,*:q4_0", "268435520:i16,*:q4_0", "96:i16,*:q4_0"} {
		if tiers, err := ParseTiers(s); err == nil {
			t.Errorf("%q is taken, as %v", s, tiers)
		}
	}
	if tiers, err := ParseTiers("268435456:i16,*:q4_0"); err != nil {
		t.Errorf("%v, %v", tiers, err)
	}
}

// A shift of nothing, of what is not there, or before a pass is done is a fault of the caller.
func TestShiftsRefused(t *testing.T) {
	p := newPool(t, 4)
	table := p.NewTable()
	grow(t, table, 100)
	for _, c := range [][2]int{{-1, 10}, {0, 0}, {91, 10}, {100, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d positions from %d on of 100 were removed", c[1], c[0])
				}
			}()
			table.Shift(c[0], c[1])
		}()
	}
}
