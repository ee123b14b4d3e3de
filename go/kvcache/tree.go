package kvcache

import (
	"slices"
	"sort"
)

// A Tree is a prefix cache: it keeps the state of finished sequences, indexed by their tokens, so that a
// sequence with the same prefix need not recompute it. A node is a block of positions; the path from a root
// to it is the text before it. The tree holds references to its units. Sequences share them, and one that
// grows into a shared block copies it.
//
// A node has one block of each paged group; those of groups with a window may have been released. It also has
// snapshots: the states of recurrent groups after some of its tokens, which are available only where a pass
// ended. Find returns only prefixes from which a sequence can continue.
//
// Each namespace has a root. A namespace stands for everything besides the tokens that determines the state,
// such as adapters, or for who may share it.
//
// When memory is short, units that only the tree holds are evicted: see evict.
type Tree struct {
	pool    *Pool
	roots   map[string]*node
	parts   []part // of the layout: the paged ones, then that of the states where there is one
	paged   int
	path    []*node // of the last match
	made    uint64  // holdings created so far
	bytes   uint64  // held by the tree
	idle    uint64  // of which held by the tree alone
	heap    leaves
	floor   float64 // see holding.rate
	evicted uint64
}

// A part is a set of groups whose units a node gains and loses together.
type part struct {
	kind   kind
	groups []int
	bytes  uint64
	window *Group // of one that is not whole: which blocks a sequence sees
}

type kind int

const (
	whole    kind = iota // visible to every later token: a node is useless without it
	windowed             // useful only to sequences that continue soon after it, or, of blocks that have aged, late enough
	state                // of a sequence, after some token of the node
)

type node struct {
	ns       string // set in roots
	parent   *node  // nil: a root
	ids      []int32
	pos      int                // of its first token
	children map[int32]siblings // by first token
	held     []*holding         // by paged part; nil: gone
	states   []*holding         // snapshots, in no order
	warm     int                // children that have their block of the whole part
	awaited  bool               // evicted last: the sequence that left it will be resumed
}

// A holding is the units of one part in a node.
type holding struct {
	node   *node
	part   *part
	units  []int32 // of each of the part's groups
	at     int     // of a snapshot: number of the node's tokens before it
	passed int     // of a snapshot: later ones of the same text, at most 2
	busy   int     // units that have other holders
	used   int     // number of hits
	cost   float64 // of recomputing it, in units of a block at the beginning of a text
	rate   float64 // eviction priority: the lowest is evicted first
	index  int     // in the heap; -1: not in it
	born   uint64
	stored bool // a store behind the tree has it
}

// NewTree creates the pool's tree. A pool has at most one.
func NewTree(p *Pool) *Tree {
	if p.tree != nil {
		panic("kvcache: a pool with two trees")
	}
	t := &Tree{pool: p, roots: map[string]*node{}}
	var all, states part
	states.kind = state
	for i := range p.layout {
		g := &p.layout[i]
		switch {
		case g.PerSequence:
			states.groups = append(states.groups, i)
			states.bytes += uint64(g.Bytes)
		case g.Window > 0 || g.AgeStep > 0:
			t.parts = append(t.parts, part{windowed, []int{i}, uint64(g.Bytes), g})
		default:
			all.groups = append(all.groups, i)
			all.bytes += uint64(g.Bytes)
		}
	}
	if len(all.groups) > 0 {
		t.parts = append([]part{all}, t.parts...)
	}
	t.paged = len(t.parts)
	if len(states.groups) > 0 {
		t.parts = append(t.parts, states)
	}
	p.tree = t
	return t
}

// hasWhole reports whether there are groups without a window, hasStates whether there are
// recurrent ones.
func (t *Tree) hasWhole() bool  { return t.paged > 0 && t.parts[0].kind == whole }
func (t *Tree) hasStates() bool { return len(t.parts) > t.paged }

// Bytes returns the bytes that the tree holds, and how many of them have no other holder.
func (t *Tree) Bytes() (all, idle uint64) { return t.bytes, t.idle }

// Evicted returns how many units were evicted so far.
func (t *Tree) Evicted() uint64 { return t.evicted }

// Common returns the length of the common prefix of a and b.
func Common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Texts calls f with the tokens of each node.
func (t *Tree) Texts(f func(ids []int32)) {
	var visit func(n *node)
	visit = func(n *node) {
		f(n.ids)
		for _, all := range n.children {
			for _, c := range all {
				visit(c)
			}
		}
	}
	for _, root := range t.roots {
		visit(root)
	}
}

// siblings are nodes with the same parent, in the order of their tokens, which differ.
type siblings []*node

// place returns where a node with these tokens is, or belongs.
func (s siblings) place(ids []int32) int {
	return sort.Search(len(s), func(i int) bool { return slices.Compare(s[i].ids, ids) >= 0 })
}

func (s siblings) with(n *node) siblings { return slices.Insert(s, s.place(n.ids), n) }

func (s siblings) without(n *node) siblings {
	i := s.place(n.ids)
	return slices.Delete(s, i, i+1)
}

// closest returns the child with the longest common prefix with ids; of several the one with these tokens and no
// others, if it is among them.
func (n *node) closest(ids []int32) (best *node, most int) {
	all := n.children[ids[0]]
	at := all.place(ids)
	for _, c := range all[max(at-1, 0):min(at+1, len(all))] { // in order of tokens, none has more in common than those beside
		most = max(most, Common(c.ids, ids))
	}
	if most == 0 {
		return nil, 0
	}
	return all[all.place(ids[:most])], most
}

// extend gives a child more tokens.
func (n *node) extend(child *node, ids []int32) {
	all := n.children[ids[0]].without(child)
	child.ids = append([]int32(nil), ids...)
	n.children[ids[0]] = all.with(child)
}

// walk sets path to the nodes that match ids, and returns how many tokens of ids they
// have. Only the last node may match in part.
func (t *Tree) walk(ns string, ids []int32) (tokens int) {
	t.path = t.path[:0]
	for at := t.roots[ns]; at != nil && len(ids) > 0; {
		next, common := at.closest(ids)
		if common == 0 {
			break
		}
		t.path = append(t.path, next)
		tokens += common
		if common < BlockTokens {
			break
		}
		at, ids = next, ids[common:]
	}
	return tokens
}

// match sets path to the nodes of the longest prefix of ids from which a sequence can
// continue, and returns its length, and that of the longest prefix in the tree.
func (t *Tree) match(ns string, ids []int32) (tokens, known int) {
	known = t.walk(ns, ids)
	tokens = t.usable(known)
	t.path = t.path[:blocksFor(tokens)]
	return tokens, known
}

// usable returns the last position up to `to`, on the path, from which a sequence can
// continue: where all blocks visible to the next token exist, and the state.
func (t *Tree) usable(to int) int {
	for to > 0 {
		last := t.path[(to-1)/BlockTokens]
		n := to
		if t.hasStates() {
			h := last.snapshot(to - last.pos)
			if h == nil {
				to = last.pos
				continue
			}
			n = last.pos + h.at
		}
		if t.sees(n) {
			return n
		}
		// A smaller n in the same block sees as many blocks or more.
		to = last.pos
	}
	return 0
}

// sees reports whether the path has all windowed blocks visible to the token at n.
func (t *Tree) sees(n int) bool {
	for k := range t.parts[:t.paged] {
		if p := &t.parts[k]; p.kind == windowed {
			for i, at := range t.path[:blocksFor(n)] {
				if p.window.sees(i, n) && at.held[k] == nil && t.aged(i, k, n) == nil {
					return false
				}
			}
		}
	}
	return true
}

// aged returns block i of the path, which part k has at n, in the older tier that it is in when a sequence of n
// positions grows (a sequence preempted in between has left it so); nil if it stays in part k, or is gone.
func (t *Tree) aged(i, k, n int) *holding {
	for j := k + 1; j < t.paged && t.parts[j].window.AgeFrom > 0; j++ {
		if t.parts[j].window.sees(i, n+1) {
			return t.path[i].held[j]
		}
	}
	return nil
}

// snapshot returns the last one after at most n tokens of the node.
func (n *node) snapshot(most int) (best *holding) {
	for _, h := range n.states {
		if h.at <= most && (best == nil || h.at > best.at) {
			best = h
		}
	}
	return best
}

// Len returns the length of the prefix of ids that Find would return.
func (t *Tree) Len(ns string, ids []int32) int {
	n, _ := t.match(ns, ids)
	return n
}

// Held returns the same as Len, and how many bytes of that prefix have other holders.
func (t *Tree) Held(ns string, ids []int32) (tokens int, held uint64) {
	tokens, _ = t.match(ns, ids)
	t.taken(tokens, func(h *holding) {
		if h.busy > 0 && h.part.kind != state {
			held += h.part.bytes
		}
	})
	return tokens, held
}

// taken calls f with the holdings of the path that a sequence continuing after n tokens
// uses.
func (t *Tree) taken(n int, f func(h *holding)) {
	for i, at := range t.path {
		for k, h := range at.held {
			if t.parts[k].kind != whole && !t.parts[k].window.sees(i, n) {
				continue
			}
			if h == nil && t.parts[k].kind != whole {
				h = t.aged(i, k, n)
			}
			if h != nil {
				f(h)
			}
		}
	}
	if len(t.path) > 0 && t.hasStates() {
		last := t.path[len(t.path)-1]
		f(last.snapshot(n - last.pos))
	}
}

// Find returns a table of the longest prefix of ids from which a sequence can continue.
// It shares the tree's units.
func (t *Tree) Find(ns string, ids []int32) *Table {
	table := t.pool.NewTable()
	t.Leave(ns, ids)
	n, _ := t.match(ns, ids)
	table.n, table.done = n, n
	for i := range table.units {
		if !t.pool.layout[i].PerSequence {
			table.units[i] = slices.Repeat([]int32{-1}, len(t.path))
		}
	}
	t.taken(n, func(h *holding) {
		at := 0
		if h.part.kind != state {
			at = h.node.pos / BlockTokens
		}
		t.attach(table, h, at)
		h.used++
		t.value(h)
	})
	return table
}

// Leave records that a preempted sequence, which was kept as awaited, will not resume.
func (t *Tree) Leave(ns string, ids []int32) {
	t.walk(ns, ids)
	for _, n := range t.path {
		if n.awaited {
			n.awaited = false
			t.revalue(n)
		}
	}
}

// Cuts returns the positions at which passes over ids should end, after the `found` tokens that the tree had,
// so that snapshots are taken where they are likely to be reused: at the last block boundary of ids, and
// where another text diverged from them.
func (t *Tree) Cuts(ns string, ids []int32, found int) (cuts []int) {
	if !t.hasStates() {
		return nil
	}
	known := t.walk(ns, ids)
	for _, at := range []int{known, len(ids) - 1} {
		at -= at % BlockTokens
		if at > found && (len(cuts) == 0 || at > cuts[len(cuts)-1]) {
			cuts = append(cuts, at)
		}
	}
	return cuts
}
