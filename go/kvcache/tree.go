package kvcache

import (
	"container/heap"
	"math"
)

// A Tree keeps the blocks of sequences that have ended, by the tokens that lead
// to them, so that a sequence which begins with the same tokens need not compute
// them again. Each node is a block; the path from the root to it is the text
// before it. The tree is one more holder of its blocks: sequences share them with
// it, and who grows into a shared block gets a copy of his own.
//
// A tree is for keys and values that depend on the tokens alone: of one model,
// one set of adapters, one type of keys and values.
//
// When the pool has no free block, those that only the tree holds are given away,
// the least valuable first: by what it costs to compute a block again, times how
// likely it is to be asked for.
type Tree struct {
	pool    *Pool
	root    node
	nodes   map[int32]*node // by block
	idle    int             // of the blocks, held by nobody else
	clock   int64           // lookups so far
	evicted uint64
}

type node struct {
	parent   *node
	ids      []int32 // of the block's positions: BlockTokens, or fewer in a leaf
	block    int32
	pos      int               // of its first token
	children map[int32][]*node // by first token
	used     int64             // times that it was found
	last     int64             // when: clock
	awaited  bool              // whoever left it here will be back
}

// NewTree gives the pool a tree. A pool has one at most.
func NewTree(p *Pool) *Tree {
	if p.tree != nil {
		panic("kvcache: a pool with two trees")
	}
	p.tree = &Tree{pool: p, nodes: map[int32]*node{}}
	return p.tree
}

// Blocks returns how many blocks the tree holds, and how many of them nobody else.
func (t *Tree) Blocks() (all, idle int) { return len(t.nodes), t.idle }

// Evicted returns how many blocks were given away so far.
func (t *Tree) Evicted() uint64 { return t.evicted }

func (t *Tree) has(block int32) bool { return t.nodes[block] != nil }

// Len returns how many of the first ids are in the tree.
func (t *Tree) Len(ids []int32) int {
	n := 0
	t.walk(ids, func(_ *node, common int) { n += common })
	return n
}

// Held returns the same, and how many of the blocks somebody else holds too.
func (t *Tree) Held(ids []int32) (tokens, held int) {
	t.walk(ids, func(n *node, common int) {
		tokens += common
		if t.pool.refs[n.block] > 1 {
			held++
		}
	})
	return tokens, held
}

// Find returns a table of the longest beginning of ids that is in the tree. It
// shares the tree's blocks.
func (t *Tree) Find(ids []int32) *Table {
	t.clock++
	table := t.pool.NewTable()
	t.walk(ids, func(n *node, common int) {
		n.used, n.last, n.awaited = n.used+1, t.clock, false
		t.pool.hold(n.block)
		table.blocks = append(table.blocks, n.block)
		table.n += common
	})
	return table
}

// walk visits the nodes that ids lead to, with how many tokens of each are theirs.
// Only of the last one that may be less than all.
func (t *Tree) walk(ids []int32, visit func(n *node, common int)) {
	at := &t.root
	for len(ids) > 0 {
		next, common := at.closest(ids)
		if common == 0 {
			return
		}
		visit(next, common)
		if common < BlockTokens {
			return
		}
		at, ids = next, ids[common:]
	}
}

// closest returns the child that shares most of the first ids.
func (n *node) closest(ids []int32) (best *node, most int) {
	for _, c := range n.children[ids[0]] {
		if k := Common(c.ids, ids); k > most {
			best, most = c, k
		}
	}
	return best, most
}

// Common returns how many tokens a and b both begin with.
func Common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Keep puts a table's blocks into the tree: ids are its tokens, one for each
// position. Where the tree has a block of the same tokens, the table takes that
// for its own. Of a table that will grow only whole blocks should be kept, or
// it will have to copy its last. Awaited blocks are given away last, until they
// are found.
func (t *Tree) Keep(table *Table, ids []int32, whole, awaited bool) {
	if len(ids) != table.n {
		panic("kvcache: a table and its tokens differ in length")
	}
	at := &t.root
	for i, block := range table.blocks {
		part := ids[i*BlockTokens : min((i+1)*BlockTokens, len(ids))]
		if whole && len(part) < BlockTokens {
			return
		}
		child, common := at.closest(part)
		switch {
		case common == len(part): // the tree has it, in a block of the same bits
			t.pool.hold(child.block)
			t.pool.drop(block)
			table.blocks[i] = child.block
		case child != nil && common == len(child.ids): // the tree has its beginning
			t.replace(child, part, block)
		default:
			child = t.add(at, part, block, i*BlockTokens)
		}
		child.last, child.awaited = t.clock, child.awaited || awaited
		at = child
	}
}

func (t *Tree) add(parent *node, ids []int32, block int32, pos int) *node {
	n := &node{parent: parent, ids: append([]int32(nil), ids...), block: block, pos: pos}
	if parent.children == nil {
		parent.children = map[int32][]*node{}
	}
	parent.children[ids[0]] = append(parent.children[ids[0]], n)
	t.hold(n)
	return n
}

// replace lets a leaf hold a block with more of the same tokens.
func (t *Tree) replace(n *node, ids []int32, block int32) {
	t.release(n)
	n.ids, n.block = append([]int32(nil), ids...), block
	t.hold(n)
}

func (t *Tree) hold(n *node) {
	t.pool.hold(n.block)
	t.nodes[n.block] = n // only now: the count of idle blocks begins with two holders
}

func (t *Tree) release(n *node) {
	if t.pool.refs[n.block] == 1 {
		t.idle--
	}
	delete(t.nodes, n.block)
	t.pool.drop(n.block)
}

// Forget takes what follows from ids out of the tree, and of ids what leads to
// nothing else. Sequences that share blocks keep them.
func (t *Tree) Forget(ids []int32) {
	at := &t.root
	t.walk(ids, func(n *node, _ int) { at = n })
	if at == &t.root {
		return
	}
	t.cut(at)
	for p := at.parent; p != &t.root && len(p.children) == 0; p = p.parent {
		at = p
		t.cut(at)
	}
}

// Clear empties the tree.
func (t *Tree) Clear() {
	for _, list := range t.root.children {
		for _, n := range list {
			t.releaseAll(n)
		}
	}
	t.root.children = nil
}

func (t *Tree) releaseAll(n *node) {
	t.release(n)
	for _, list := range n.children {
		for _, c := range list {
			t.releaseAll(c)
		}
	}
}

// cut takes a node and all below it out of the tree.
func (t *Tree) cut(n *node) {
	t.releaseAll(n)
	list := n.parent.children[n.ids[0]]
	for i, c := range list {
		if c == n {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(n.parent.children, n.ids[0])
	} else {
		n.parent.children[n.ids[0]] = list
	}
}

// evict frees n blocks. The caller knows that so many are idle. A block is given
// away after all that follow it: alone they are of no use.
func (t *Tree) evict(n int) {
	q := &leaves{clock: t.clock}
	for _, c := range t.nodes {
		if t.spare(c) {
			q.list = append(q.list, c)
		}
	}
	heap.Init(q)
	for ; n > 0; n-- {
		leaf := heap.Pop(q).(*node)
		t.cut(leaf)
		t.evicted++
		if p := leaf.parent; p != &t.root && t.spare(p) {
			heap.Push(q, p)
		}
	}
}

// spare tells whether n is a leaf that nobody else holds.
func (t *Tree) spare(n *node) bool { return len(n.children) == 0 && t.pool.refs[n.block] == 1 }

// value is what it costs to compute a node's block again, in blocks at the
// beginning of a text, times its chance to be asked for at the next lookup.
//
// A token costs its weights and, for each position before it, some attention: at
// 8192 positions about as much as its weights. A block that was found k times is
// taken to be found again at a rate that falls with the lookups since the last.
func (n *node) value(clock int64) float64 {
	if n.awaited {
		return math.Inf(1)
	}
	cost := float64(len(n.ids)) / BlockTokens * (1 + float64(n.pos)/8192)
	return cost * float64(1+n.used) / float64(1+clock-n.last)
}

// leaves is a heap of nodes, the least valuable on top.
type leaves struct {
	clock int64
	list  []*node
}

func (q *leaves) Len() int { return len(q.list) }
func (q *leaves) Less(i, j int) bool {
	a, b := q.list[i].value(q.clock), q.list[j].value(q.clock)
	if a != b {
		return a < b
	}
	return q.list[i].block < q.list[j].block // any, but always the same
}
func (q *leaves) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *leaves) Push(x any)    { q.list = append(q.list, x.(*node)) }
func (q *leaves) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}
