package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// holds returns which blocks of a group a sequence of n positions holds, by definition, position by position.
func holds(g *Group, n int) (blocks int) {
	for k := range blocksFor(n) {
		there := false
		for pos := k * BlockTokens; pos < min((k+1)*BlockTokens, n); pos++ {
			switch {
			case g.AgeStep > 0:
				there = there || young(g, k, n)
			case g.Window > 0: // what the token at the last position but 64 saw
				there = there || pos > n-rollbackRoom-g.Window
			default:
				there = true
			}
		}
		if there {
			blocks++
		}
	}
	return blocks
}

var oneGroup = []Layout{
	{{Bytes: 3}}, {{Bytes: 3, Window: 1}}, {{Bytes: 3, Window: 2}}, {{Bytes: 3, Window: 63}}, {{Bytes: 3, Window: 64}}, {{Bytes: 3, Window: 65}},
	{{Bytes: 3, Window: 200}}, {{Bytes: 3, Window: 5000}}, {{Bytes: 3, AgeTo: 64, AgeStep: 64}}, {{Bytes: 3, AgeTo: 128, AgeStep: 128}},
	{{Bytes: 3, AgeFrom: 64, AgeStep: 64}}, {{Bytes: 3, AgeFrom: 64, AgeTo: 192, AgeStep: 64}}, {{Bytes: 3, AgeFrom: 128, AgeTo: 512, AgeStep: 128}},
	{{Bytes: 3, AgeFrom: 512, AgeStep: 128}},
}

// A layout says what its groups take by definition: between passes, and what a pass adds.
func TestLayoutByDefinition(t *testing.T) {
	for _, l := range oneGroup {
		g := &l[0]
		for n := range 1200 {
			if got, want := l.Bytes(n), uint64(3*holds(g, n)); got != want {
				t.Fatalf("%+v: %d positions take %d bytes, want %d", *g, n, got, want)
			}
			for _, more := range []int{1, 2, 63, 64, 65, 300} {
				if more = l.Room(n, more); more < 1 {
					t.Fatalf("%+v: no room after %d positions", *g, n)
				}
				want := blocksFor(n+more) - blocksFor(n)
				if g.AgeFrom > 0 { // blocks enter it before the pass only
					want = 0
					for k := range blocksFor(n) {
						if young(g, k, n+1) && !young(g, k, n) {
							want++
						}
					}
				}
				if got := l.Growth(n, n+more); got != uint64(3*want) {
					t.Fatalf("%+v: a pass from %d to %d takes %d bytes more, want %d", *g, n, n+more, got, 3*want)
				}
			}
		}
	}
	state := Layout{{Bytes: 3, PerSequence: true}}
	if a, b, c := state.Growth(0, 1), state.Growth(1, 500), state.Bytes(1); a != 6 || b != 0 || c != 6 || state.Bytes(0) != 0 {
		t.Errorf("the first pass takes %d bytes for the state, others %d, which is then %d", a, b, c)
	}
}

// A pass ends where blocks change tiers, and nowhere else.
func TestRoom(t *testing.T) {
	l := Layout{{Bytes: 1, AgeTo: 128, AgeStep: 128}, {Bytes: 1, AgeFrom: 128, AgeStep: 128}, {Bytes: 1}}
	for _, c := range []struct{ at, n, want int }{
		{0, 1000, 128}, {0, 127, 127}, {127, 1000, 1}, {128, 1000, 128}, {128, 0, 0}, {129, 127, 127}, {129, 128, 127},
	} {
		if got := l.Room(c.at, c.n); got != c.want {
			t.Errorf("%d of %d positions after %d, want %d", got, c.n, c.at, c.want)
		}
	}
	if got := (Layout{{Bytes: 1}}).Room(5, 1000); got != 1000 {
		t.Errorf("without tiers, %d of 1000 positions", got)
	}
}

// While it grows, a sequence never takes more than the layout says.
func TestMostIsEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		step := BlockTokens * (1 + rng.IntN(3))
		middle := step * (2 + rng.IntN(3))
		for _, groups := range [][]Group{
			{{Bytes: 64}}, {{Bytes: 64, Window: 1 + rng.IntN(300)}}, {{Bytes: 64, PerSequence: true}},
			{{Bytes: 4096, AgeTo: step, AgeStep: step}, {Bytes: 4096, AgeFrom: step, AgeTo: middle, AgeStep: step}, {Bytes: 4096, AgeFrom: middle, AgeStep: step}},
		} {
			slice, positions := 1+rng.IntN(400), 1+rng.IntN(1500)
			m := newModel(t, 200, groups...)
			l := m.pool.Layout()
			table, most := m.pool.NewTable(), uint64(0)
			ids := seqIDs(1, positions)
			for table.Len() < positions {
				a, err := table.Age()
				must(t, err)
				most = max(most, m.pool.Used())
				if a != nil {
					a.Done()
				}
				n := l.Room(table.Len(), min(slice, positions-table.Len()))
				must(t, table.Grow(n))
				most = max(most, m.pool.Used())
				table.Commit()
			}
			if want := l.Most(positions, slice); most > want {
				t.Errorf("%d, %+v: %d positions in passes of %d took %d bytes at most, the layout says %d", i, groups, len(ids), slice, most, want)
			}
			want := l.Most(positions, slice)
			if l.Forgets() {
				want += l.Copy()
			}
			if got := l.Alone(positions, slice); got != want {
				t.Errorf("%+v: alone %d bytes, want %d", groups, got, want)
			}
		}
	}
}

// The tests of this package are about units of one page of 4 KiB and some, whatever the system's pages are.
func init() { page = 4096 }

// Units of several groups are whole pages; of one group they are as they are.
func TestUnitsArePages(t *testing.T) {
	defer func(was int) { page = was }(page)
	for _, page = range []int{4 << 10, 16 << 10, 64 << 10} {
		for _, c := range []struct{ bytes, want int }{{1, page}, {page - 1, page}, {page, page}, {page + 1, 2 * page}} {
			l := NewLayout(Group{Bytes: c.bytes}, Group{Bytes: 4096})
			if l[0].Bytes != c.want || l.Copy() != uint64(c.want+page) {
				t.Errorf("a unit of %d bytes beside others takes %d, want %d", c.bytes, l[0].Bytes, c.want)
			}
		}
	}
	if l := NewLayout(Group{Bytes: 100}); l[0].Bytes != 100 {
		t.Errorf("a unit of 100 bytes alone takes %d", l[0].Bytes)
	}
}

// Sums beyond any memory stay there.
func TestSumsDoNotOverflow(t *testing.T) {
	const most = 1 << 62
	for _, c := range []struct {
		layout Layout
		blocks int
		want   uint64
	}{
		{Layout{{Bytes: 1 << 40}}, 1 << 21, 1 << 61},
		{Layout{{Bytes: 1 << 40}, {Bytes: 1 << 40}}, 1 << 21, most},
		{Layout{{Bytes: 1 << 40}, {Bytes: 1 << 40}, {Bytes: 1 << 40}}, 1 << 21, most},
		{Layout{{Bytes: 1 << 40}}, 1 << 22, most},
		{Layout{{Bytes: 1 << 40}}, 1 << 23, most},
		{Layout{{Bytes: 1 << 40}}, 1 << 24, most},
		{Layout{{Bytes: 1 << 50}}, 1 << 20, most}, // more than 64 bits
		{Layout{{Bytes: 1}, {Bytes: 1 << 50}}, 1 << 20, most},
	} {
		if got := c.layout.Bytes(c.blocks * BlockTokens); got != c.want {
			t.Errorf("%d groups of %d blocks of %d bytes take %d, want %d", len(c.layout), c.blocks, c.layout[0].Bytes, got, c.want)
		}
	}
}

// How much of the beginning can be kept, so that half of the rest can go: no window reaches what is gone.
func TestShiftable(t *testing.T) {
	for window := 1; window < 400; window += 7 {
		l := Layout{{Bytes: 1}, {Bytes: 1, Window: window}}
		for n := 1; n < 1500; n += 13 {
			most := l.Shiftable(n)
			if holds(&l[1], n) == blocksFor(n) { // nothing is gone
				if most != n {
					t.Fatalf("window %d: %d of %d positions can be kept", window, most, n)
				}
				continue
			}
			fits := func(keep int) bool { return keep+(n-keep)/2 <= n-window+1 }
			if most > n || most >= 0 && !fits(most) || fits(most+3) {
				t.Fatalf("window %d: %d of %d positions can be kept", window, most, n)
			}
		}
	}
	for _, c := range []struct {
		layout  Layout
		n, want int
	}{
		{Layout{{Bytes: 1, Window: 100}}, 1000, 801}, {Layout{{Bytes: 1, Window: 100}, {Bytes: 1, Window: 200}}, 1000, 601},
		{Layout{{Bytes: 1, Window: 200}, {Bytes: 1, Window: 100}}, 1000, 601}, {Layout{{Bytes: 1}}, 1000, 1000},
		{Layout{{Bytes: 1}, {Bytes: 1, PerSequence: true}}, 1000, -1},
	} {
		if got := c.layout.Shiftable(c.n); got != c.want {
			t.Errorf("%+v: %d of %d positions can be kept, want %d", c.layout, got, c.n, c.want)
		}
	}
}

// Tiers are parsed as they are printed; whatever is wrong is refused.
func TestTiers(t *testing.T) {
	for _, s := range []string{"64:i16,*:q4_0", "256:i16,1024:q8_0,*:q4_0", "64:i16,128:f16/q8_0,192:q8_0,*:q4_0/f32", "64:bf16/i16,128:f32,*:f16"} {
		tiers, err := ParseTiers(s)
		if err != nil || tiers.String() != s {
			t.Errorf("%q is %v, %v", s, tiers, err)
		}
	}
	for _, s := range []string{
		"", "*:i16", "64:i16,128:i16,192:i16,256:i16,*:q4_0", "64,*:q4_0", "64:i16,*", "64:i16,128:q4_0", "*:i16,*:q4_0", "64:i16,64:q8_0,*:q4_0",
		"128:i16,64:q8_0,*:q4_0", "64:i17,*:q4_0", "64:i16/i17,*:q4_0", "64:i16,*:q5", "64:,*:q4_0", "-64:i16,*:q4_0",
	} {
		if tiers, err := ParseTiers(s); err == nil {
			t.Errorf("%q is taken, as %v", s, tiers)
		}
	}
	got, err := ParseTiers("64:i16,*:q4_0/q8_0")
	if want := (Tiers{{64, Both(I16)}, {0, Types{Q4, Q8}}}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || got[1] != want[1] {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}
