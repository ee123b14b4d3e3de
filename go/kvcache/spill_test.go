package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// text evaluates a text and keeps it in the tree.
func (m *model) text(ids []int32, how How) {
	m.t.Helper()
	table := m.tree.Find("", ids)
	for table.Len() < len(ids) {
		must(m.t, m.age(table))
		m.append(table, ids, table.Len()+m.pool.layout.Room(table.Len(), len(ids)-table.Len()))
	}
	m.tree.Keep("", table, ids, how)
	table.Free()
}

// cold returns the pages that would be stored for so much room, and takes back that they are.
func (m *model) cold(room uint64) (pages []*Page, bytes uint64) {
	for {
		p := m.tree.Cold(room)
		if p == nil {
			break
		}
		m.tree.Release(p)
		m.tree.Stored(p)
		pages, bytes = append(pages, p), bytes+p.held.part.bytes
	}
	for _, p := range pages {
		p.held.stored = false
	}
	return pages, bytes
}

// warm returns up to `most` of the pages that are only in memory.
func (m *model) warm(most int) []*Page {
	pages := m.tree.Warm(most)
	for _, p := range pages {
		m.tree.Release(p)
	}
	return pages
}

// Just as many pages are stored ahead as are evicted for the room that is needed, those of a text from its end, and no node
// before what follows it.
func TestColdIsWhatIsEvicted(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, l := range layouts {
		m := newModel(t, 200, l.groups...)
		for range 6 {
			var ids []int32
			for range 1 + rng.IntN(4) {
				ids = append(ids, seqIDs(int32(rng.IntN(2)), BlockTokens*(1+rng.IntN(2))-rng.IntN(2)*rng.IntN(30))...)
			}
			m.text(ids, How{End: true})
		}
		free := m.pool.Limit() - m.pool.Used()
		all, idle := m.tree.Bytes()
		if idle != all {
			t.Fatalf("%s: %d of %d bytes are idle", l.name, idle, all)
		}
		for need := uint64(0); need <= all; need += all/97 + 1 {
			pages, bytes := m.cold(free + need)
			last := uint64(0) // what is evicted with the last of them
			if n := len(pages); n > 0 {
				last = pages[n-1].held.node.bytes() + m.pool.layout.Copy()
			}
			if bytes < need || need > 0 && bytes >= need+last || need == 0 && len(pages) > 0 {
				t.Fatalf("%s: for %d bytes, pages of %d are stored: %d", l.name, need, bytes, len(pages))
			}
			gone := map[*node]bool{}
			for _, p := range pages {
				for _, list := range p.held.node.children {
					for _, c := range list {
						if p.held.part.kind == whole && !gone[c] {
							t.Fatalf("%s: a block is stored before what follows it", l.name)
						}
					}
				}
				if p.held.part.kind == whole {
					gone[p.held.node] = true
				}
			}
		}
		if pages, _ := m.cold(free); len(pages) > 0 {
			t.Errorf("%s: %d pages are stored for memory that is free", l.name, len(pages))
		}
		if m.tree.hasWhole() && !m.tree.hasStates() {
			if pages, bytes := m.cold(free + 2*all); bytes != all {
				t.Errorf("%s: %d pages of %d bytes are stored for more than all, %d", l.name, len(pages), bytes, all)
			}
		}
		m.check(0, nil)
	}
}

// A block of which two texts go on is stored when both have been, and not while a sequence uses it.
func TestColdForks(t *testing.T) {
	m := newModel(t, 20, Group{Name: "all", Bytes: 4096})
	first := seqIDs(1, 3*BlockTokens)
	second := slices.Concat(first[:BlockTokens], seqIDs(2, BlockTokens))
	m.text(first, How{})
	m.text(second, How{})
	name := func(p *Page) string {
		return fmt.Sprint(p.From, " ", p.Tokens[len(p.Tokens)-1] == second[len(second)-1])
	}
	want := []string{"128 false", "64 false", "64 true", "0 false"}
	for room := range 5 {
		pages, _ := m.cold(m.pool.Limit() - m.pool.Used() + uint64(room)*4096)
		var got []string
		for _, p := range pages {
			got = append(got, name(p))
		}
		if slices.Sort(got); len(got) != room || room == 4 && !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%d pages: %v", room, got)
		}
		if room == 4 && name(pages[3]) != "0 false" {
			t.Errorf("the common block is not the last: %v", got)
		}
	}
	table := m.tree.Find("", second)
	if pages, _ := m.cold(m.pool.Limit()); len(pages) != 2 {
		t.Errorf("%d pages are stored while a sequence uses two of four", len(pages))
	}
	table.Free()
}

// A page that is being stored is not offered again, and neither what is stored; one byte more than is free is enough.
func TestColdOffersOnce(t *testing.T) {
	m := newModel(t, 20, Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 4096, Window: 64})
	m.text(seqIDs(1, BlockTokens), How{End: true})
	if p := m.tree.Cold(m.pool.Limit() - m.pool.Used()); p != nil {
		t.Error("a page is offered where all fits")
	}
	if p := m.tree.Cold(m.pool.Limit() - m.pool.Used() + 1); p == nil {
		t.Error("no page is offered for a byte more than is free")
	} else {
		m.tree.Release(p)
	}
	a := m.tree.Cold(m.pool.Limit())
	m.tree.Stored(a)
	b := m.tree.Cold(m.pool.Limit())
	m.tree.Release(a)
	if a == nil || b != nil && b.held == a.held {
		t.Errorf("%+v is offered, then %+v", a, b)
	}
	for p := b; p != nil; p = m.tree.Cold(m.pool.Limit()) {
		m.tree.Stored(p)
		m.tree.Release(p)
	}
	each(m.tree, func(h *holding) {
		if !h.stored {
			t.Errorf("part %d is never stored", h.part.kind)
		}
	})
}

// What is stored when a program ends: each page once, the most valuable text first and each from its beginning, as many at
// a time as are asked for.
func TestWarm(t *testing.T) {
	for _, groups := range [][]Group{{{Name: "all", Bytes: 4096}}, {{Name: "all", Bytes: 4096}, {Name: "near", Bytes: 4096, Window: 64}, {Name: "state", Bytes: 4096, PerSequence: true}}} {
		m := newModel(t, 60, groups...)
		seldom, often := seqIDs(1, 3*BlockTokens), slices.Concat(seqIDs(1, BlockTokens), seqIDs(2, 2*BlockTokens))
		m.text(seldom, How{End: true})
		m.text(often, How{End: true})
		for range 4 {
			m.tree.Find("", often).Free()
		}
		order := m.warm(1000)
		seen := map[*holding]bool{}
		end := map[int32]int{}
		for i, p := range order {
			if seen[p.held] {
				t.Errorf("part %d of %d tokens comes again", p.Part, len(p.Tokens))
			}
			if parent := p.held.node.parent; parent.parent != nil && !slices.ContainsFunc(order[:i], func(o *Page) bool { return o.held.node == parent }) {
				t.Errorf("part %d of %d tokens comes before the beginning of its text", p.Part, len(p.Tokens))
			}
			seen[p.held] = true
			end[p.Tokens[len(p.Tokens)-1]] = i
		}
		all, _ := m.tree.Bytes()
		if len(order) != int(all/4096) {
			t.Errorf("%d pages of %d bytes", len(order), all)
		}
		if end[often[len(often)-1]] > end[seldom[len(seldom)-1]] {
			t.Error("the text that was found more often comes last")
		}
		for stop := 1; stop <= len(order); stop++ {
			pages := m.warm(stop)
			for i, p := range pages {
				if p.held != order[i].held {
					t.Errorf("page %d is another one", i)
				}
			}
			if len(pages) != stop {
				t.Errorf("%d pages of at most %d", len(pages), stop)
			}
		}
		m.tree.Stored(order[1])
		for _, p := range m.warm(1000) {
			if p.held == order[1].held {
				t.Error("a page that is stored comes again")
			}
		}
	}
}

// Of many texts the most valuable come first.
func TestWarmByValue(t *testing.T) {
	m := newModel(t, 60, Group{Name: "all", Bytes: 4096})
	hits := []int{3, 0, 7, 5, 1, 11, 4, 9, 2, 6, 10, 8, 14, 12, 13}
	for i, n := range hits {
		ids := seqIDs(int32(i), BlockTokens)
		m.text(ids, How{})
		for range n {
			m.tree.Find("", ids).Free()
		}
	}
	want := len(hits) - 1
	for _, p := range m.warm(1000) {
		if got := hits[p.Tokens[0]]; got != want {
			t.Errorf("a text with %d hits comes where that with %d should", got, want)
		}
		want--
	}
	if want != -1 {
		t.Errorf("%d texts are left", want+1)
	}
}

// What a text needs is in memory at each of its ends, and Fetch finds it there; what is stored of a part of a block counts, and
// the block before it.
func TestReachAndFetchAtEnds(t *testing.T) {
	groups := []Group{{Name: "all", Bytes: 4096}, {Name: "near", Bytes: 4096, Window: 64}, {Name: "state", Bytes: 4096, PerSequence: true}}
	m := newModel(t, 60, groups...)
	ids := seqIDs(1, 200)
	table := m.pool.NewTable()
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 200} {
		m.append(table, ids, n)
		m.tree.Keep("", table, ids[:n], How{End: true})
	}
	table.Free()
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 200} {
		got, missing, err := m.tree.Fetch("", ids[:n])
		if err != nil || len(missing) != 0 || got.Len() != n {
			t.Fatalf("%d tokens of memory: %d pages are missing, %v", n, len(missing), err)
		}
		m.append(got, slices.Concat(ids[:n], seqIDs(7, 1)), n+1) // reads what it has
		m.check(n, []*Table{got})
		got.Free()
	}
	for _, c := range []struct {
		window int
		stored []int
		ask    int
		want   int
	}{
		{0, []int{63}, 70, 63}, {0, []int{63}, 63, 63}, {0, []int{1}, 64, 1}, {0, []int{64, 127}, 200, 127}, {0, []int{64}, 65, 64}, {0, []int{127}, 200, 0},
		{64, []int{64}, 65, 64}, {64, []int{64, 65}, 65, 65}, {64, []int{128}, 128, 128}, {64, []int{129}, 129, 0}, {64, []int{64, 128}, 130, 128}, {64, []int{64, 128}, 191, 128},
	} {
		s := newModel(t, 20, Group{Name: "one", Bytes: 64, Window: c.window})
		n, found, _ := s.tree.Reach("", ids[:c.ask], nil, func(part, from, to int) bool { return slices.Contains(c.stored, to) })
		if n != c.want || found != 0 {
			t.Errorf("window %d: %v are stored: %d of %d tokens can be had, want %d", c.window, c.stored, n, c.ask, c.want)
		}
	}
}

// Reach looks at 64 places from the end: blocks, or stored states that lie in the text.
func TestReachTries(t *testing.T) {
	const blocks = 100
	ids := seqIDs(1, blocks*BlockTokens)
	near := newModel(t, 10, Group{Name: "near", Bytes: 64, Window: 64})
	state := newModel(t, 10, Group{Name: "state", Bytes: 64, PerSequence: true})
	for _, c := range []struct{ have, want int }{{blocks - 63, blocks - 63}, {blocks - 64, 0}, {blocks, blocks}} {
		has := func(part, from, to int) bool { return to <= c.have*BlockTokens }
		if n, found, bytes := near.tree.Reach("", ids, nil, has); n != c.want*BlockTokens || found != 0 || bytes != uint64(min(c.want, 1))*64 {
			t.Errorf("%d blocks are stored: %d tokens can be had with %d bytes, %d are found", c.have, n, bytes, found)
		}
		var ends []int
		for i := blocks + 50; i > 0; i-- { // those beyond the text are no tries
			ends = append(ends, i*BlockTokens)
		}
		if n, _, bytes := state.tree.Reach("", ids, ends, has); n != c.want*BlockTokens || bytes != uint64(min(c.want, 1))*64 {
			t.Errorf("states up to block %d are stored: %d tokens can be had with %d bytes", c.have, n, bytes)
		}
	}
}

// A page that is missing in memory for n tokens, and what cannot be fetched: a part of a longer block, or more than there is
// memory for.
func TestFetchRefuses(t *testing.T) {
	m := newModel(t, 4, Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 4096, Window: 64})
	ids := seqIDs(1, 4*BlockTokens)
	m.text(ids[:BlockTokens], How{})
	n := m.tree.roots[""].children[ids[0]][0]
	m.tree.release(n.held[1])
	n.held[1] = nil
	m.tree.review(n)
	m.check(0, nil)
	if _, _, err := m.tree.Fetch("", ids[:BlockTokens-1]); err != errNoPlace {
		t.Errorf("a part of a longer block: %v", err)
	}
	table, missing, err := m.tree.Fetch("", ids[:BlockTokens])
	if err != nil || len(missing) != 1 || missing[0].Part != 1 || missing[0].From != 0 || len(missing[0].Units) != 1 || !slices.Equal(missing[0].Tokens, ids[:BlockTokens]) {
		t.Fatalf("%+v are missing: %v", missing, err)
	}
	if table.Len() != BlockTokens {
		t.Errorf("%d positions", table.Len())
	}
	m.check(1, []*Table{table})
	table.Free()
	m.text(seqIDs(2, 2*BlockTokens), How{})
	n = m.tree.roots[""].children[2][0].children[seqIDs(2, BlockTokens+1)[BlockTokens]][0]
	m.tree.release(n.held[1])
	n.held[1] = nil
	m.tree.review(n)
	if _, _, err := m.tree.Fetch("", seqIDs(2, 100)); err != errNoPlace {
		t.Errorf("a part of a longer second block: %v", err)
	}
	exact := newModel(t, 4, Group{Name: "all", Bytes: 4096})
	exact.text(ids[:BlockTokens], How{})
	full, missing, err := exact.tree.Fetch("", ids)
	if err != nil || len(missing) != 3 {
		t.Fatalf("three blocks in memory for them: %d are missing, %v", len(missing), err)
	}
	full.Free()
	less := newModel(t, 3, Group{Name: "all", Bytes: 4096})
	less.text(ids[:BlockTokens], How{})
	if _, _, err := less.tree.Fetch("", ids); !errors.Is(err, ErrFull) || less.pool.used != 4096 {
		t.Errorf("three blocks in memory for two: %v, %d bytes are held", err, less.pool.used)
	}
	less.check(3, nil)
	big := newModel(t, 2, Group{Name: "all", Bytes: 4096})
	used := big.pool.Used()
	if _, _, err := big.tree.Fetch("", ids); err == nil || big.pool.Used() != used {
		t.Errorf("four blocks in memory for two: %v", err)
	}
	big.check(2, nil)
}

// The largest page, and the part of states.
func TestPageBytes(t *testing.T) {
	for _, c := range []struct {
		groups []Group
		bytes  uint64
		part   int
		states bool
	}{
		{[]Group{{Bytes: 4096}}, 4096, 1, false},
		{[]Group{{Bytes: 4096}, {Bytes: 8192}}, 12288, 1, false}, // of one part
		{[]Group{{Bytes: 4096}, {Bytes: 8192, Window: 1}, {Bytes: 4096, PerSequence: true}}, 8192, 2, true},
		{[]Group{{Bytes: 4096, PerSequence: true}, {Bytes: 4096, PerSequence: true}}, 8192, 0, true},
	} {
		m := newModel(t, 2, c.groups...)
		if part, ok := m.tree.States(); m.tree.PageBytes() != c.bytes || part != c.part || ok != c.states {
			t.Errorf("%+v: pages of %d bytes at most, states are part %d: %v", c.groups, m.tree.PageBytes(), part, ok)
		}
	}
}
