package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// seqIDs returns n tokens that begin with those of other texts of the same seed.
func seqIDs(seed int32, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = seed + int32(i)*7
	}
	return ids
}

// fill writes what the kernels would: a function of the tokens up to a position.
func fill(t *Table, ids []int32, from int) {
	for pos := from; pos < len(ids); pos++ {
		t.pool.bytesOf(0, t.units[0][pos/BlockTokens])[pos%BlockTokens] = mark(ids[:pos+1])
	}
}

func mark(ids []int32) byte {
	h := uint32(1)
	for _, id := range ids {
		h = h*16777619 ^ uint32(id)
	}
	return byte(h ^ h>>8 ^ h>>16)
}

// right tells whether every position of the table has what its tokens make it.
func right(t *Table, ids []int32) bool {
	for pos := range ids {
		if t.pool.bytesOf(0, t.units[0][pos/BlockTokens])[pos%BlockTokens] != mark(ids[:pos+1]) {
			return false
		}
	}
	return true
}

// blocks is how many blocks a tree of one group has, and how many of them nobody else.
func blocks(t *Tree) (all, idle int) {
	size := uint64(t.pool.layout[0].Bytes)
	return int(t.bytes / size), int(t.idle / size)
}

func available(p *Pool) int { return int(p.Available()) / p.layout[0].Bytes }

func keep(t *testing.T, tree *Tree, ids []int32) {
	t.Helper()
	table := tree.Find("", ids)
	from := table.Len()
	if err := table.Grow(len(ids) - from); err != nil {
		t.Fatal(err)
	}
	table.Commit()
	fill(table, ids, from)
	tree.Keep("", table, ids, How{})
	table.Free()
}

func TestTreeFindsPrefixes(t *testing.T) {
	p := newPool(t, 20)
	tree := NewTree(p)
	whole := seqIDs(5, 200)
	keep(t, tree, whole)
	if all, idle := blocks(tree); all != 4 || idle != 4 || available(p) != 20 || freeBlocks(p) != 16 {
		t.Fatalf("%d blocks, %d idle, %d available", all, idle, available(p))
	}
	other := slices.Clone(whole)
	other[100] = -1 // edited in the second block
	for _, tt := range []struct {
		name string
		ids  []int32
		want int
	}{
		{"all", whole, 200}, {"less", whole[:130], 130}, {"a block", whole[:64], 64}, {"one", whole[:1], 1},
		{"more", append(slices.Clone(whole), 1, 2, 3), 200}, {"edited", other, 100}, {"none", seqIDs(6, 10), 0}, {"empty", nil, 0},
	} {
		if got := tree.Len("", tt.ids); got != tt.want {
			t.Errorf("%s: %d tokens found, want %d", tt.name, got, tt.want)
		}
		table := tree.Find("", tt.ids)
		if table.Len() != tt.want || len(table.Blocks(0)) != blocksFor(tt.want) || !right(table, tt.ids[:tt.want]) {
			t.Errorf("%s: a table of %d positions in %d blocks, want %d", tt.name, table.Len(), len(table.Blocks(0)), tt.want)
		}
		table.Free()
	}

	// A turn more: what was there stays, the last block is taken over by the longer one.
	longer := append(slices.Clone(whole), seqIDs(9, 30)...)
	keep(t, tree, longer)
	if all, _ := blocks(tree); all != 4 || tree.Len("", longer) != 230 {
		t.Errorf("after another turn: %d blocks, %d tokens", all, tree.Len("", longer))
	}
	// An edit shares the blocks before it.
	keep(t, tree, other)
	if all, _ := blocks(tree); all != 4+3 || tree.Len("", other) != 200 || tree.Len("", longer) != 230 {
		t.Errorf("after an edit: %d blocks, %d and %d tokens", all, tree.Len("", other), tree.Len("", longer))
	}
	tree.Forget("", other)
	if tree.Len("", other) != 100 || tree.Len("", longer) != 230 {
		t.Errorf("after forgetting the edit: %d and %d tokens", tree.Len("", other), tree.Len("", longer))
	}
	tree.Clear()
	if all, idle := blocks(tree); all != 0 || idle != 0 || freeBlocks(p) != 20 {
		t.Errorf("cleared: %d blocks, %d idle, %d free", all, idle, freeBlocks(p))
	}
}

// Two that compute the same text at a time end up with one copy.
func TestTreeSharesWhatWasComputedTwice(t *testing.T) {
	p := newPool(t, 10)
	tree := NewTree(p)
	ids := seqIDs(3, 2*BlockTokens)
	a, b := p.NewTable(), p.NewTable()
	for _, table := range []*Table{a, b} {
		if err := table.Grow(len(ids)); err != nil {
			t.Fatal(err)
		}
		table.Commit()
		fill(table, ids, 0)
		tree.Keep("", table, ids, How{Whole: true})
	}
	if freeBlocks(p) != 8 || !slices.Equal(a.Blocks(0), b.Blocks(0)) {
		t.Errorf("%d of 10 blocks are free, tables %v and %v", freeBlocks(p), a.Blocks(0), b.Blocks(0))
	}
}

func TestTreeGivesAwayTheLeastValuable(t *testing.T) {
	p := newPool(t, 6)
	tree := NewTree(p)
	old, popular, awaited := seqIDs(1, 64), seqIDs(2, 64), seqIDs(3, 64)
	keep(t, tree, old)
	keep(t, tree, popular)
	for range 5 {
		tree.Find("", popular).Free()
	}
	table := p.NewTable()
	if err := table.Grow(64); err != nil {
		t.Fatal(err)
	}
	table.Commit()
	fill(table, awaited, 0)
	tree.Keep("", table, awaited, How{Awaited: true})
	table.Free()
	for i, want := range []struct{ gone, there [][]int32 }{
		{nil, [][]int32{old, popular, awaited}},
		{[][]int32{old}, [][]int32{popular, awaited}},
		{[][]int32{old, popular}, [][]int32{awaited}},
		{[][]int32{old, popular, awaited}, nil},
	} {
		table := p.NewTable()
		if err := table.Grow(64 * (3 + i)); err != nil {
			t.Fatal(err)
		}
		for _, ids := range want.gone {
			if tree.Len("", ids) != 0 {
				t.Errorf("%d blocks taken: text %d is still there", 3+i, ids[0])
			}
		}
		for _, ids := range want.there {
			if tree.Len("", ids) != 64 {
				t.Errorf("%d blocks taken: text %d is gone", 3+i, ids[0])
			}
		}
		table.Free()
	}
	if tree.Evicted() != 3 {
		t.Errorf("%d blocks given away, want 3", tree.Evicted())
	}
}

// Random sequences that begin with each other's tokens, grow, end and are
// forgotten: what a table holds is always what its tokens make it, and no block
// is lost.
func TestTreeProperty(t *testing.T) {
	const most = 40
	rng := rand.New(rand.NewPCG(1, 2))
	p := newPool(t, most)
	tree := NewTree(p)
	type live struct {
		table *Table
		ids   []int32
	}
	var running []live
	for step := range 20_000 {
		switch r := rng.IntN(10); {
		case r < 3 && len(running) < 8:
			var ids []int32
			for range rng.IntN(5) { // few different pieces, so that many share them
				ids = append(ids, seqIDs(int32(rng.IntN(3)), 1+rng.IntN(100))...)
			}
			table := tree.Find("", ids)
			running = append(running, live{table, ids[:table.Len()]})
		case r < 7 && len(running) > 0:
			l := &running[rng.IntN(len(running))]
			more := seqIDs(int32(rng.IntN(3)), 1+rng.IntN(80))
			from := l.table.Len()
			before := available(p)
			if err := l.table.Grow(len(more)); err != nil {
				if available(p) != before {
					t.Fatalf("step %d: a refused growth changed what is available", step)
				}
				continue
			}
			l.ids = append(slices.Clone(l.ids), more...)
			l.table.Commit()
			fill(l.table, l.ids, from)
			if rng.IntN(2) == 0 {
				tree.Keep("", l.table, l.ids, How{Whole: true, Awaited: rng.IntN(4) == 0})
			}
		case r < 9 && len(running) > 0:
			i := rng.IntN(len(running))
			l := running[i]
			if !right(l.table, l.ids) {
				t.Fatalf("step %d: a table of %d positions does not hold what was written", step, l.table.Len())
			}
			if rng.IntN(4) > 0 {
				tree.Keep("", l.table, l.ids, How{})
			}
			l.table.Free()
			running = slices.Delete(running, i, i+1)
		case len(running) > 0:
			tree.Forget("", running[rng.IntN(len(running))].ids)
		}
		held := map[int32]bool{}
		for _, l := range running {
			for _, b := range l.table.Blocks(0) {
				held[b] = true
			}
		}
		all, idle := blocks(tree)
		if freeBlocks(p)+idle+len(held) != most || all < idle {
			t.Fatalf("step %d: %d free, %d idle and %d held of %d", step, freeBlocks(p), idle, len(held), most)
		}
	}
	if tree.Evicted() == 0 {
		t.Error("nothing was ever given away: the test does not test that")
	}
}
