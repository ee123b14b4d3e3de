package kvcache

import (
	"math"
	"slices"
	"testing"
)

// each calls f with each holding of a tree.
func each(t *Tree, f func(h *holding)) {
	var visit func(n *node)
	visit = func(n *node) {
		for _, h := range slices.Concat(n.held, n.states) {
			if h != nil {
				f(h)
			}
		}
		for _, list := range n.children {
			for _, c := range list {
				visit(c)
			}
		}
	}
	for _, root := range t.roots {
		visit(root)
	}
}

// A snapshot costs what a sequence computes from the one before it, and those that later ones of its text have passed, one or
// more, are worth less.
func TestSnapshotsOfAText(t *testing.T) {
	m := newModel(t, 100, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4096, PerSequence: true})
	ids := seqIDs(1, 700)
	table := m.pool.NewTable()
	var ends []int
	for _, n := range []int{10, 20, 64, 65, 128, 200, 450, 451, 700} {
		m.append(table, ids, n)
		m.tree.Keep("", table, ids[:n], How{End: true})
		ends = append(ends, n)
		found := 0
		each(m.tree, func(h *holding) {
			if h.part.kind != state {
				return
			}
			found++
			at := h.node.pos + h.at
			i := slices.Index(ends, at)
			if i < 0 {
				t.Fatalf("after %d tokens: a snapshot at %d", n, at)
			}
			before := 0
			if i > 0 {
				before = ends[i-1]
			}
			if want := cost(before, at); math.Abs(h.cost-want) > 1e-9 || h.passed != min(2, len(ends)-1-i) {
				t.Errorf("after %d tokens: the snapshot at %d costs %v and was passed %d times, want %v and %d", n, at, h.cost, h.passed, want, min(2, len(ends)-1-i))
			}
		})
		if found != len(ends) {
			t.Fatalf("after %d tokens: %d snapshots of %d", n, found, len(ends))
		}
	}
	table.Free()
	for range 3 {
		m.tree.Find("", ids).Free()
	}
	again := m.pool.NewTable() // the same text, computed by another: the snapshot of the tree stays, with its hits
	m.append(again, ids, 700)
	m.tree.Keep("", again, ids, How{End: true})
	again.Free()
	each(m.tree, func(h *holding) {
		if h.part.kind == state && h.node.pos+h.at == 700 && h.used != 3 {
			t.Errorf("the last snapshot has %d hits of 3", h.used)
		}
	})
	m.check(0, nil)
}

// A snapshot that is kept after a later one of its block costs what is before it.
func TestSnapshotsOutOfOrder(t *testing.T) {
	m := newModel(t, 20, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4096, PerSequence: true})
	ids := seqIDs(1, 60)
	for _, n := range []int{60, 20, 40} {
		table := m.pool.NewTable()
		m.append(table, ids[:n], n)
		m.tree.Keep("", table, ids[:n], How{End: true})
		table.Free()
	}
	want := map[int]float64{60: cost(0, 60), 20: cost(0, 20), 40: cost(20, 40)}
	each(m.tree, func(h *holding) {
		if h.part.kind == state {
			if h.cost != want[h.at] {
				t.Errorf("the snapshot at %d costs %v, want %v", h.at, h.cost, want[h.at])
			}
			delete(want, h.at)
		}
	})
	if len(want) > 0 {
		t.Errorf("there are no snapshots at %v", want)
	}
}

// What is worth most is known at any time: each value is the one that would be set now, while nothing was evicted.
func TestValuesAreCurrent(t *testing.T) {
	for _, l := range layouts {
		m := newModel(t, 100, l.groups...)
		for _, ids := range [][]int32{seqIDs(1, 100), seqIDs(1, 300), slices.Concat(seqIDs(1, 128), seqIDs(2, 100)), seqIDs(1, 64), seqIDs(1, 301)} {
			m.text(ids, How{End: true})
			each(m.tree, func(h *holding) {
				was := h.rate
				if m.tree.value(h); h.rate != was {
					t.Errorf("%s: after %d tokens, part %d at %d is worth %v, and was %v", l.name, len(ids), h.part.kind, h.node.pos, h.rate, was)
				}
			})
		}
	}
}

// A snapshot is that of the table's last token only, and not one of a table that is kept in part.
func TestNoSnapshotOfAPart(t *testing.T) {
	m := newModel(t, 20, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4096, PerSequence: true})
	ids := seqIDs(1, 100)
	table := m.pool.NewTable()
	m.append(table, ids, 100)
	m.tree.Keep("", table, ids, How{End: true, Whole: true})
	if n := m.tree.Len("", ids); n != 0 {
		t.Errorf("a text goes on after %d tokens, where no pass ended", n)
	}
	m.tree.Keep("", table, ids, How{})
	if n := m.tree.Len("", ids); n != 0 {
		t.Errorf("a text goes on after %d tokens, which are no end", n)
	}
	m.tree.Keep("", table, ids, How{End: true})
	if n := m.tree.Len("", ids); n != 100 {
		t.Errorf("a text goes on after %d tokens of 100", n)
	}
	table.Free()
}

// A block of a window, or of the youngest tier, costs what a sequence has to compute for its place; others cost what they have.
func TestCostsOfBlocks(t *testing.T) {
	for _, l := range []Layout{
		{{Bytes: 4096}, {Bytes: 4096, Window: 100}},
		{{Bytes: 4096, AgeTo: 128, AgeStep: 64}, {Bytes: 4096, AgeFrom: 128, AgeStep: 64}},
	} {
		m := newModel(t, 60, l...)
		m.text(seqIDs(1, 600), How{End: true})
		seen := map[kind]int{}
		each(m.tree, func(h *holding) {
			end := h.node.pos + len(h.node.ids)
			want := cost(h.node.pos, end)
			switch w := h.part.window; {
			case w == nil || w.AgeFrom > 0:
			case w.Window > 0:
				want = cost(max(end-100, 0), end)
			default:
				want = cost(max(end-192, 0), end)
			}
			if seen[h.part.kind]++; math.Abs(h.cost-want) > 1e-9 {
				t.Errorf("the block up to %d of part %+v costs %v, want %v", end, *h.part, h.cost, want)
			}
		})
		if seen[windowed] < 3 {
			t.Errorf("%d blocks", seen[windowed])
		}
	}
}

// The windows that a text's next token sees are hit where the text ends, and no others.
func TestEndsHitWindows(t *testing.T) {
	m := newModel(t, 60, Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 4096, Window: 100})
	ids := seqIDs(1, 500)
	table := m.pool.NewTable()
	m.append(table, ids, 500) // in one pass
	m.tree.Keep("", table, ids, How{End: true})
	table.Free()
	each(m.tree, func(h *holding) {
		want := 0
		if h.part.kind == windowed && h.node.pos+BlockTokens > 500-100+1 {
			want = 1
		}
		if h.used != want {
			t.Errorf("part %d at %d has %d hits, want %d", h.part.kind, h.node.pos, h.used, want)
		}
	})
}

// Of equal texts the oldest is evicted first; one that was found, or is awaited, later; and one that was awaited and then
// found or left, as any other.
func TestWhoIsEvicted(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(tree *Tree, a, b []int32)
		b    bool // b is evicted first, which is younger
	}{
		{"equal", func(*Tree, []int32, []int32) {}, false},
		{"found", func(tree *Tree, a, _ []int32) { tree.Find("", a).Free() }, true},
		{"both found", func(tree *Tree, a, b []int32) { tree.Find("", a).Free(); tree.Find("", b).Free() }, false},
		{"asked for", func(tree *Tree, a, _ []int32) { tree.Len("", a); tree.Held("", a) }, false},
		{"awaited", func(tree *Tree, a, _ []int32) { await(tree, a) }, true},
		{"awaited and left", func(tree *Tree, a, _ []int32) { await(tree, a); tree.Leave("", a) }, false},
		{"awaited, left, the other found", func(tree *Tree, a, b []int32) { await(tree, a); tree.Leave("", a); tree.Find("", b).Free() }, false},
		{"awaited and found, the other found twice", func(tree *Tree, a, b []int32) {
			await(tree, a)
			tree.Find("", a).Free()
			tree.Find("", b).Free()
			tree.Find("", b).Free()
		}, false},
	} {
		p := newPool(t, 4)
		tree := NewTree(p)
		a, b := seqIDs(1, BlockTokens), seqIDs(2, BlockTokens)
		keep(t, tree, a)
		keep(t, tree, b)
		c.do(tree, a, b)
		table := p.NewTable()
		must(t, table.Grow(3*BlockTokens))
		if goneA, goneB := tree.Len("", a) == 0, tree.Len("", b) == 0; goneA == c.b || goneB != c.b || tree.Evicted() != 1 {
			t.Errorf("%s: the first is gone: %v, the second: %v, %d are evicted", c.name, goneA, goneB, tree.Evicted())
		}
		table.Free()
	}
}

// await keeps what the tree has of a text for a sequence that will go on.
func await(tree *Tree, ids []int32) {
	tree.walk("", ids)
	for _, n := range tree.path {
		n.awaited = true
		tree.revalue(n)
	}
}

// What is forgotten is a text with all that follows it, and what leads to no other text.
func TestForget(t *testing.T) {
	first := seqIDs(1, 4*BlockTokens)
	second := slices.Concat(first[:2*BlockTokens], seqIDs(2, BlockTokens))
	for _, c := range []struct {
		name        string
		ids         []int32
		left, other int
	}{
		{"all", first, 128, 192}, {"the middle of what is common", first[:BlockTokens], 0, 0}, {"what is common", second[:2*BlockTokens], 0, 0},
		{"a part of the last block", first[:200], 128, 192}, {"another text", seqIDs(9, 100), 256, 192}, {"nothing", nil, 256, 192}, {"the other", second, 256, 128},
	} {
		p := newPool(t, 20)
		tree := NewTree(p)
		keep(t, tree, first)
		keep(t, tree, second)
		tree.Forget("", c.ids)
		if a, b := tree.Len("", first), tree.Len("", second); a != c.left || b != c.other {
			t.Errorf("%s is forgotten: %d tokens of the first text are left and %d of the second, want %d and %d", c.name, a, b, c.left, c.other)
		}
		all, idle := blocks(tree)
		if want := blocksFor(c.left) + max(blocksFor(c.other)-2, 0); all != want && c.left+c.other > 0 || all != idle || p.used != uint64(all*64) {
			t.Errorf("%s is forgotten: %d blocks, %d idle", c.name, all, idle)
		}
	}
}

// Passes are cut where another text left this one, and at the last block that leaves a token to evaluate.
func TestCuts(t *testing.T) {
	m := newModel(t, 60, Group{Name: "all", Bytes: 4096}, Group{Name: "state", Bytes: 4096, PerSequence: true})
	ids := seqIDs(1, 200)
	m.text(ids, How{End: true})
	other := func(common, n int) []int32 { return append(slices.Clone(ids[:common]), seqIDs(5, n-common)...) }
	for _, c := range []struct {
		ids   []int32
		found int
		want  []int
	}{
		{nil, 0, nil}, {seqIDs(5, 1), 0, nil}, {seqIDs(5, 64), 0, nil}, {seqIDs(5, 65), 0, []int{64}}, {seqIDs(5, 128), 0, []int{64}}, {seqIDs(5, 129), 0, []int{128}},
		{other(100, 300), 0, []int{64, 256}}, {other(130, 150), 0, []int{128}}, {other(128, 300), 0, []int{128, 256}}, {other(127, 300), 0, []int{64, 256}},
		{other(100, 300), 64, []int{256}}, {other(100, 300), 63, []int{64, 256}}, {other(100, 300), 256, nil}, {other(100, 101), 0, []int{64}},
	} {
		if got := m.tree.Cuts("", c.ids, c.found); !slices.Equal(got, c.want) {
			t.Errorf("%d tokens after %d: %v, want %v", len(c.ids), c.found, got, c.want)
		}
	}
	none := newModel(t, 60, Group{Name: "all", Bytes: 4096})
	if got := none.tree.Cuts("", ids, 0); got != nil {
		t.Errorf("without states: %v", got)
	}
}

// How many tokens are common.
func TestCommon(t *testing.T) {
	a := []int32{1, 2, 3}
	for _, c := range []struct {
		b    []int32
		want int
	}{{nil, 0}, {[]int32{2}, 0}, {[]int32{1}, 1}, {[]int32{1, 3}, 1}, {a, 3}, {[]int32{1, 2, 3, 4}, 3}, {[]int32{1, 2, 4, 4}, 2}} {
		if x, y := Common(a, c.b), Common(c.b, a); x != c.want || y != c.want {
			t.Errorf("%v and %v have %d and %d in common, want %d", a, c.b, x, y, c.want)
		}
	}
}
