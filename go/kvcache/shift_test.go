package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

func pool(t *testing.T, l Layout, bytes uint64) *Pool {
	t.Helper()
	p, err := NewPool(mem.NewBudget(bytes, "test"), l, bytes)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// number writes to each position of a group what text it is of, and which of it.
func number(p *Pool, t *Table, group, from int, text byte) {
	for pos := from; pos < t.Len(); pos++ {
		if id := t.Blocks(group)[pos/BlockTokens]; id >= 0 {
			copy(p.bytesOf(group, id)[pos%BlockTokens*4:], []byte{text, byte(pos >> 8), byte(pos), 1})
		}
	}
}

// move does what a Shift says, position by position.
func move(p *Pool, s *Shift, end int) {
	for g := range s.To {
		for pos := s.At; pos < end; pos++ {
			to, from := s.To[g][pos/BlockTokens], s.From[g][(pos+s.By)/BlockTokens]
			if to >= 0 && from >= 0 {
				copy(p.bytesOf(g, to)[pos%BlockTokens*4:][:4], p.bytesOf(g, from)[(pos+s.By)%BlockTokens*4:])
			}
		}
	}
}

// What is behind the positions that a sequence loses is moved, and nothing else changes: neither what others share
// with it, nor how much is free in the end.
func TestShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for i := range 300 {
		layout := NewLayout(Group{Name: "all", Bytes: 4096}, Group{Name: "window", Bytes: 4096, Window: 40 + rng.IntN(100)})
		p := pool(t, layout, 64*4096)
		n := 200 + rng.IntN(400)
		a := p.NewTable()
		for a.Len() < n {
			from := a.Len()
			must(t, a.Grow(min(1+rng.IntN(150), n-from)))
			for g := range layout {
				number(p, a, g, from, 'a')
			}
			a.Commit()
		}
		var other *Table
		if rng.IntN(2) == 0 {
			other = a.Fork()
		}
		most := layout.Shiftable(n)
		if most < 0 {
			continue
		}
		keep := rng.IntN(min(most, n-4) + 1)
		by := (n - keep) / 2
		used, own := p.used, [2]int{}
		s, err := a.Shift(keep, by)
		must(t, err)
		for g := range layout {
			for b, id := range s.To[g] {
				has := false // a position that has contents
				for pos := b * BlockTokens; pos < min((b+1)*BlockTokens, n-by); pos++ {
					if pos >= keep {
						has = has || s.From[g][(pos+by)/BlockTokens] >= 0
					} else {
						has = has || s.From[g][b] >= 0
					}
				}
				if has != (id >= 0) || b < keep/BlockTokens && id != s.From[g][b] {
					t.Fatalf("%d of %d from %d on, group %d: block %d is %d, and was %v", by, n, keep, g, b, id, s.From[g])
				}
				if id >= 0 && !slices.Contains(s.From[g], id) {
					own[g]++
				}
			}
		}
		if got := int(p.used-used) / 4096; got != own[0]+own[1] || other == nil && own[0] > 0 {
			t.Fatalf("%d of %d from %d on: %d new blocks were taken, and %v are new", by, n, keep, got, own)
		}
		move(p, s, n-by)
		s.Done()
		what := fmt.Sprintf("%d: %d of %d from %d on, window %d", i, by, n, keep, layout[1].Window)
		if a.Len() != n-by {
			t.Fatalf("%s: %d are left", what, a.Len())
		}
		for g := range layout {
			for pos := layout[g].seen(a.Len()) * BlockTokens; pos < a.Len(); pos++ {
				if layout[g].Window > 0 && pos <= a.Len()-layout[g].Window {
					continue
				}
				was := pos
				if pos >= keep {
					was += by
				}
				if got := p.bytesOf(g, a.Blocks(g)[pos/BlockTokens])[pos%BlockTokens*4:][:4]; got[0] != 'a' || int(got[1])<<8+int(got[2]) != was {
					t.Fatalf("%s: group %d: position %d has %v, want %d", what, g, pos, got, was)
				}
			}
		}
		if other != nil {
			for pos := range n {
				if got := p.bytesOf(0, other.Blocks(0)[pos/BlockTokens])[pos%BlockTokens*4:][:4]; int(got[1])<<8+int(got[2]) != pos {
					t.Fatalf("%s: position %d of the other has %v", what, pos, got)
				}
			}
			other.Free()
		}
		must(t, a.Grow(10))
		a.Commit()
		a.Free()
		if p.Available() != p.Limit() {
			t.Fatalf("%s: %d bytes are still held", what, p.Limit()-p.Available())
		}
	}
}

// A sequence that has its blocks for itself needs no memory to be shifted; one that shares them does, and where there
// is none nothing changes.
func TestShiftNeedsNoMemory(t *testing.T) {
	p := pool(t, NewLayout(Group{Name: "all", Bytes: 4096}), 4*4096)
	a := p.NewTable()
	must(t, a.Grow(4*BlockTokens))
	a.Commit()
	other := a.Fork()
	if _, err := a.Shift(10, 100); !errors.Is(err, ErrFull) || a.Len() != 4*BlockTokens {
		t.Errorf("%v, %d positions", err, a.Len())
	}
	other.Free()
	s, err := a.Shift(10, 100)
	must(t, err)
	if p.used != 4*4096 {
		t.Errorf("%d bytes are held in between", p.used)
	}
	s.Done()
	if a.Len() != 156 || p.used != 3*4096 {
		t.Errorf("%d positions in %d bytes", a.Len(), p.used)
	}
	for _, c := range [][3]int{{0, 1, 155}, {100, 55, 100}, {0, 100, 0}} { // from the first position on, and up to the last
		s, err := a.Shift(c[0], c[1])
		must(t, err)
		s.Done()
		if a.Len() != c[2] {
			t.Errorf("%d positions are left without %d from %d on, want %d", a.Len(), c[1], c[0], c[2])
		}
	}
}

// Parked tables make way for others when the tree has nothing to give, the last first.
func TestPark(t *testing.T) {
	p := pool(t, NewLayout(Group{Name: "all", Bytes: 4096}), 4*4096)
	NewTree(p)
	var tables []*Table
	for range 3 {
		a := p.NewTable()
		must(t, a.Grow(BlockTokens))
		a.Commit()
		p.Park(a)
		tables = append(tables, a)
	}
	if p.Available() != p.Limit() {
		t.Errorf("%d of %d bytes can be had", p.Available(), p.Limit())
	}
	b := p.NewTable()
	must(t, b.Grow(2*BlockTokens))
	b.Commit()
	if !p.Unpark(tables[0]) || !p.Unpark(tables[1]) || p.Unpark(tables[2]) || tables[2].Len() != 0 {
		t.Error("not the last of them made way")
	}
	if err := b.Grow(BlockTokens); !errors.Is(err, ErrFull) {
		t.Errorf("what is not parked was taken: %v", err)
	}
}
