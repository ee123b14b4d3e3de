package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The closest child is one with the longest common prefix, whatever was added, extended and removed before.
func TestClosestSibling(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() []int32 {
		ids := make([]int32, 1+rng.IntN(6))
		for i := range ids {
			ids[i] = int32(rng.IntN(3))
		}
		return ids
	}
	n := &node{children: map[int32]siblings{}}
	var all []*node
	for step := range 20_000 {
		ids := text()
		most, whole := 0, false
		for _, c := range all {
			if k := Common(c.ids, ids); k > most {
				most = k
			}
		}
		for _, c := range all {
			whole = whole || Common(c.ids, ids) == most && len(c.ids) == most
		}
		child, common := n.closest(ids)
		if common != most || (child == nil) != (most == 0) || child != nil && (Common(child.ids, ids) != most || whole && len(child.ids) != most) {
			t.Fatalf("step %d: closest to %v is %+v with %d tokens in common, want %d", step, ids, child, common, most)
		}
		switch {
		case common == len(ids):
		case child != nil && common == len(child.ids):
			n.extend(child, ids)
		default:
			c := &node{ids: ids}
			n.children[ids[0]] = n.children[ids[0]].with(c)
			all = append(all, c)
		}
		for len(all) > rng.IntN(200) {
			i := rng.IntN(len(all))
			c := all[i]
			n.children[c.ids[0]] = n.children[c.ids[0]].without(c)
			all = slices.Delete(all, i, i+1)
		}
	}
}

// wideTree returns a tree of so many texts of a block each, all of which begin with the same token.
func wideTree(t testing.TB, texts int) (tree *Tree, last []int32) {
	t.Helper()
	m := newModel(t, texts, Group{Name: "all", Bytes: 64})
	ids := seqIDs(1, BlockTokens)
	for i := range texts {
		ids[1], ids[2] = int32(i/1000), int32(i%1000)
		table := m.tree.Find("", ids)
		if err := table.Grow(len(ids) - table.Len()); err != nil {
			t.Fatal(err)
		}
		table.Commit()
		m.tree.Keep("", table, ids, How{})
		table.Free()
	}
	return m.tree, ids
}

// Looking for the next page to store takes no memory for pages that are not looked at.
func TestColdIsCheap(t *testing.T) {
	tree, _ := wideTree(t, 5000)
	all, _ := tree.Bytes()
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			tree.Release(tree.Cold(all / 8))
		}
	})
	if r.AllocedBytesPerOp() > 4000 {
		t.Errorf("%d bytes are allocated for a page", r.AllocedBytesPerOp())
	}
}

func BenchmarkFindAmongSiblings(b *testing.B) {
	tree, ids := wideTree(b, 100_000)
	ids[10]++
	for b.Loop() {
		tree.Len("", ids)
	}
}

func BenchmarkCold(b *testing.B) {
	tree, _ := wideTree(b, 100_000)
	for b.Loop() {
		tree.Release(tree.Cold(64))
	}
}
