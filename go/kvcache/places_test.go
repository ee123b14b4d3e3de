package kvcache

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

// placedPool returns a pool of two groups of n units each: one of two layers, of 384 and 768 bytes, whose heads are in two
// places, and a whole one.
func placedPool(t *testing.T, n uint64, places int) *Pool {
	t.Helper()
	l := NewLayout(Group{Name: "heads", Bytes: 384 + 768}, Group{Name: "whole", Bytes: 100})
	p, err := NewPool(mem.NewBudget(1<<30, "test"), l, n*(l.Bytes(BlockTokens)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if places > 1 {
		if err := p.Place(slices.Repeat([]int{-1}, places), [][]int{{384, 768}, nil}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// write writes a unit as it is in one place.
func write(p *Pool, group int, id int32, b []byte) {
	for _, piece := range p.unit(group, id) {
		b = b[copy(piece, b):]
	}
}

// A unit that lies in two places has each layer's first half of heads in one and the rest in the other, and to others it is
// the bytes that it would be in one.
func TestUnitInPlaces(t *testing.T) {
	p := placedPool(t, 8, 2)
	a := p.NewTable()
	if err := a.Grow(BlockTokens + 1); err != nil {
		t.Fatal(err)
	}
	a.Commit()
	unit := make([]byte, p.layout[0].Bytes)
	for i := range 384 + 768 {
		unit[i] = byte(1 + i/192)
	}
	for _, id := range a.Blocks(0) {
		write(p, 0, id, unit)
	}
	u := p.Units(0)
	if u.Bytes != 2*os.Getpagesize() || u.Places != 2 || u.Stride%mem.HugePage != 0 || p.Count(0) < 8 {
		t.Fatalf("units of %d bytes in %d places, every %d, %d of them", u.Bytes, u.Places, u.Stride, p.Count(0))
	}
	id := int(a.Blocks(0)[1])
	for k, want := range [][]byte{{1, 3, 4}, {2, 5, 6}} {
		part := u.Memory[k*u.Stride+id*u.Bytes/2:][:u.Bytes/2]
		for i, w := range want {
			if got := part[i*192:][:192]; bytes.Count(got, []byte{w}) != 192 {
				t.Errorf("place %d, run %d: %d, want %d", k, i, got[0], w)
			}
		}
	}
	// Copied whole when it is shared, and all pages are given back.
	b := a.Fork()
	if err := b.Grow(1); err != nil {
		t.Fatal(err)
	}
	b.Commit()
	if own := b.Blocks(0)[1]; own == int32(id) || !bytes.Equal(slices.Concat(p.unit(0, own)...), unit) {
		t.Errorf("the copy, unit %d, is another one", own)
	}
	var parts []byte
	if err := a.Parts(func(part []byte) error { parts = append(parts, part...); return nil }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts[:len(unit)], unit) || len(parts) != 2*(p.layout[0].Bytes+p.layout[1].Bytes) {
		t.Errorf("%d bytes of parts", len(parts))
	}
}

// Parts of units begin on pages of their own, so that all of a unit is given back, whatever its bytes are.
func TestGiveBackPlaces(t *testing.T) {
	for _, part := range []int{4096, 576, 6016} {
		unit := uint64(2 * part)
		p, err := NewPool(mem.NewBudget(1<<30, "test"), NewLayout(Group{Bytes: int(unit)}), 8*unit)
		must(t, err)
		defer p.Close()
		must(t, p.Place([]int{-1, -1}, [][]int{{int(unit)}}))
		a := p.NewTable()
		grow(t, a, 8*BlockTokens)
		for id := range int32(8) {
			for k := range 2 {
				copy(p.groups[0].part(id, k), bytes.Repeat([]byte{1}, part))
			}
		}
		a.Truncate(3 * BlockTokens)
		must(t, p.Resize(4*unit))
		var whole int
		for id := range int32(8) {
			for k := range 2 {
				switch ones := bytes.Count(p.groups[0].part(id, k), []byte{1}); ones {
				case part:
					whole++
				case 0:
				default:
					t.Errorf("parts of %d bytes: %d of unit %d stay in place %d", part, ones, id, k)
				}
			}
		}
		if whole != 2*4 || p.touched != 4*unit {
			t.Errorf("parts of %d bytes: %d stay, and %d bytes count, want 8 and %d", part, whole, p.touched, 4*unit)
		}
	}
}

// A group is not divided where its parts, in whole pages, would take much more than the pool counts.
func TestPartsTooSmall(t *testing.T) {
	for bytes, want := range map[uint64]int{256 << 10: 2, 64 << 20: 1, 1 << 30: 1} {
		p, err := NewPool(mem.NewBudget(1<<31, "test"), NewLayout(Group{Bytes: 1152}), bytes)
		must(t, err)
		defer p.Close()
		must(t, p.Place([]int{-1, -1}, [][]int{{1152}}))
		if got := max(p.Units(0).Places, 1); got != want {
			t.Errorf("%d bytes of small units are in %d places, want %d", bytes, got, want)
		}
	}
}

// What a pool in one place has saved, one in two places has after it was restored, and the other way round.
func TestPartsInAnyPlaces(t *testing.T) {
	var saved [3][]byte
	for places := 1; places <= 2; places++ {
		p := placedPool(t, 8, places)
		a, err := p.NewTableOf(2*BlockTokens - 5)
		if err != nil {
			t.Fatal(err)
		}
		for g := range p.layout {
			for i, id := range a.Blocks(g) {
				b := make([]byte, p.layout[g].Bytes)
				for k := range min(len(b), 1152) {
					b[k] = byte(k/7 + i + g)
				}
				write(p, g, id, b)
			}
		}
		err = a.Parts(func(part []byte) error { saved[places] = append(saved[places], part...); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(saved[1], saved[2]) {
		t.Error("parts in two places are other bytes than in one")
	}
}
