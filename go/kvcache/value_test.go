package kvcache

import (
	"math"
	"testing"
)

// What a holding is worth: more with each hit, as much more as it costs to compute again, less where it takes more bytes; and
// all of it above what was evicted last, so that what is not used ages.
func TestValues(t *testing.T) {
	all, near, own := Group{Name: "all", Bytes: 4096}, Group{Name: "near", Bytes: 1024, Window: 64}, Group{Name: "state", Bytes: 8192, PerSequence: true}
	for _, groups := range [][]Group{{all}, {near}, {own}, {all, near}, {all, own}, {all, near, own}} {
		m := newModel(t, 40, groups...)
		tree, ids := m.tree, seqIDs(1, 3*BlockTokens)
		for _, n := range []int{BlockTokens, 2 * BlockTokens, 3 * BlockTokens} {
			table := tree.Find("", ids[:n])
			m.append(table, ids[:n], n)
			tree.Keep("", table, ids[:n], How{End: true})
			table.Free()
		}
		looked := 0
		var visit func(n *node)
		visit = func(n *node) {
			for _, list := range [2][]*holding{n.held, n.states} {
				for _, h := range list {
					if h == nil {
						continue
					}
					looked++
					checkValue(t, tree, h)
				}
			}
			for _, s := range n.children {
				for _, c := range s {
					visit(c)
				}
			}
		}
		visit(tree.roots[""])
		if looked < 2 {
			t.Errorf("%v: %d holdings", groups, looked)
		}
	}
}

func checkValue(t *testing.T, tree *Tree, h *holding) {
	t.Helper()
	was, floor, parts := *h, tree.floor, tree.parts[0].bytes
	defer func() { *h, tree.floor = was, floor }()
	h.index = -1 // only its value is looked at
	worth := func(change func()) float64 {
		*h, tree.floor = was, floor
		h.index, h.used, h.cost, h.passed = -1, 0, 1, 2
		change()
		tree.value(h)
		return h.rate - tree.floor
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	n := h.node
	bytes := h.part.bytes
	if h.part.kind == whole || h.part.kind == state && len(n.children) == 0 {
		bytes = n.bytes()
		if h.part.kind == state {
			bytes += h.part.bytes
		}
	}
	hits := 1.0 // that are supposed of one without
	switch {
	case h.part.kind == whole && tree.hasStates():
		hits = 0
	case h.part.kind == windowed && len(n.children) > 0:
		hits = worth(func() {}) * float64(bytes) / float64(parts)
		if hits <= 0 || hits > 0.5 {
			t.Errorf("a window in the middle of texts counts %v hits", hits)
		}
	}
	for used := range 4 {
		want := (hits + float64(used)) * float64(parts) / float64(bytes)
		if h.part.kind == whole && tree.hasStates() {
			want = 0
		}
		if got := worth(func() { h.used = used }); !near(got, want) {
			t.Errorf("part %d of %d bytes with %d hits is worth %v, want %v", h.part.kind, bytes, used, got, want)
		}
		if got := worth(func() { h.used, h.cost = used, 3 }); !near(got, 3*want) {
			t.Errorf("part %d of three times the cost is worth %v, want %v", h.part.kind, got, 3*want)
		}
		if got := worth(func() { h.used, tree.floor = used, floor+7 }); math.Abs(got-want) > 1e-6 {
			t.Errorf("part %d is worth %v above what was evicted last, want %v", h.part.kind, got, want)
		}
	}
	if h.part.kind == state { // the only snapshots of a text save all of it
		for passed, want := range []float64{cost(0, n.pos+h.at), cost(0, n.pos+h.at), 1} {
			if got := worth(func() { h.passed = passed }); !near(got, want*float64(parts)/float64(bytes)) {
				t.Errorf("a snapshot that %d passed is worth %v, want %v", passed, got, want*float64(parts)/float64(bytes))
			}
		}
	}
	n.awaited = true
	if got := worth(func() {}); got < 1e8 {
		t.Errorf("part %d of an awaited text is worth %v", h.part.kind, got)
	}
	n.awaited = false
}

// Attention makes a token dearer the deeper it is: at 8,192 positions twice as dear as at the beginning.
func TestCosts(t *testing.T) {
	const far = 8192
	if got := cost(0, BlockTokens); got < 1 || got > 1.01 {
		t.Errorf("the first block costs %v", got)
	}
	if got := cost(far-BlockTokens/2, far+BlockTokens/2); math.Abs(got-2) > 1e-9 {
		t.Errorf("a block at %d costs %v, want twice the first", far, got)
	}
	for _, cut := range []int{1, 64, 1000, 5000} { // parts add up
		if a, b := cost(0, cut)+cost(cut, far), cost(0, far); math.Abs(a-b) > 1e-9 {
			t.Errorf("in two parts at %d: %v, at once %v", cut, a, b)
		}
	}
}
