package kvcache

// A Tree keeps the state of sequences that have ended, by the tokens that lead to
// it, so that a sequence which begins with the same tokens need not compute it
// again. Each node is a block of positions; the path from a root to it is the text
// before it. The tree is one more holder of its units: sequences share them with it,
// and who grows into a shared block gets a copy of his own.
//
// A node has a block of each paged group, but for those with a window, whose blocks
// may be gone; and of recurrent groups, which are known only where a pass ended, the
// states after some of its tokens: snapshots. Find returns a text from which a
// sequence can really go on.
//
// There is a root for each namespace: for whatever else than the tokens decides what
// is computed, such as an adapter, or who may share at all.
//
// Where memory is short, what only the tree holds is given away: see evict.
type Tree struct {
	pool    *Pool
	roots   map[string]*node
	parts   []part // of the layout: the paged ones, then that of the states where there is one
	paged   int
	path    []*node // of the last match
	made    uint64  // holdings so far
	bytes   uint64  // that the tree holds
	idle    uint64  // of which nobody else does
	heap    leaves
	floor   float64 // see holding.rate
	evicted uint64
	tier    Tier // nil: none
}

// A part is groups whose units a node has and loses together.
type part struct {
	kind   kind
	groups []int
	bytes  uint64
	window *Group // of a windowed one
}

type kind int

const (
	whole    kind = iota // every later token sees it: without it a node is of no use
	windowed             // of use only to those that go on soon after it
	state                // of a sequence, after some token of the node
)

type node struct {
	ns       string // of a root
	parent   *node  // nil: a root
	ids      []int32
	pos      int               // of its first token
	children map[int32][]*node // by first token
	held     []*holding        // by paged part; nil: gone
	states   []*holding        // snapshots, in no order
	warm     int               // children whose block of the whole part is in memory
	awaited  bool              // whoever left it here will be back
}

// A holding is the units of one part in a node.
type holding struct {
	node   *node
	part   *part
	units  []int32 // of each of the part's groups
	at     int     // of a snapshot: tokens of the node that it comes after
	passed int     // of a snapshot: later ones of the same text, 2 at most
	busy   int     // units that somebody else holds too
	used   int     // times that it was found
	cost   float64 // of computing it again, in blocks at the beginning of a text
	rate   float64 // the least is given away first
	index  int     // in the heap; -1: it is not there
	born   uint64
	cold   any // not nil: it is not in memory, and the tier knows it by this
}

// NewTree gives the pool a tree. A pool has one at most.
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
		case g.Window > 0:
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

// hasWhole tells whether there are groups without a window, hasStates whether there
// are recurrent ones.
func (t *Tree) hasWhole() bool  { return t.paged > 0 && t.parts[0].kind == whole }
func (t *Tree) hasStates() bool { return len(t.parts) > t.paged }

// Bytes returns how much the tree holds, and how much of that nobody else.
func (t *Tree) Bytes() (all, idle uint64) { return t.bytes, t.idle }

// Evicted returns how many units were given away so far.
func (t *Tree) Evicted() uint64 { return t.evicted }

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

// closest returns the child that shares most of the first ids.
func (n *node) closest(ids []int32) (best *node, most int) {
	for _, c := range n.children[ids[0]] {
		if k := Common(c.ids, ids); k > most {
			best, most = c, k
		}
	}
	return best, most
}

// walk sets path to the nodes that ids lead to, and returns how many tokens of ids
// they have. Only of the last node that may be less than all.
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

// match sets path to the nodes of the longest beginning of ids from which a sequence
// can go on, and returns its length, and that of the longest that was ever seen.
func (t *Tree) match(ns string, ids []int32) (tokens, known int) {
	known = t.walk(ns, ids)
	tokens = t.usable(t.inMemory(known))
	t.path = t.path[:blocksFor(tokens)]
	return tokens, known
}

// inMemory returns how many of the first n tokens of the path have their block of the
// whole part in memory.
func (t *Tree) inMemory(n int) int {
	if t.hasWhole() {
		for _, at := range t.path {
			if !at.held[0].inMemory() {
				return at.pos
			}
		}
	}
	return n
}

// inMemory tells whether there is a holding, and units of it.
func (h *holding) inMemory() bool { return h != nil && h.cold == nil }

// usable returns the last position up to `to`, on the path, from which a sequence can
// go on: with all blocks that the next token sees, and the state.
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

// sees tells whether the path has all windowed blocks that the token at n sees.
func (t *Tree) sees(n int) bool {
	for k := range t.parts[:t.paged] {
		if p := &t.parts[k]; p.kind == windowed {
			for _, at := range t.path[min(p.window.seen(n), blocksFor(n)):blocksFor(n)] {
				if !at.held[k].inMemory() {
					return false
				}
			}
		}
	}
	return true
}

// snapshot returns the last one after at most n tokens of the node.
func (n *node) snapshot(most int) (best *holding) {
	for _, h := range n.states {
		if h.inMemory() && h.at <= most && (best == nil || h.at > best.at) {
			best = h
		}
	}
	return best
}

// Len returns how many of the first ids a sequence would find.
func (t *Tree) Len(ns string, ids []int32) int {
	n, _ := t.match(ns, ids)
	return n
}

// Held returns the same, and how many bytes of it somebody else holds too.
func (t *Tree) Held(ns string, ids []int32) (tokens int, held uint64) {
	tokens, _ = t.match(ns, ids)
	t.taken(tokens, func(h *holding) {
		if h.busy > 0 && h.part.kind != state {
			held += h.part.bytes
		}
	})
	return tokens, held
}

// taken calls f with what a sequence that goes on after n tokens takes of the path.
func (t *Tree) taken(n int, f func(h *holding)) {
	for i, at := range t.path {
		for k, h := range at.held {
			if h.inMemory() && (t.parts[k].kind == whole || i >= t.parts[k].window.seen(n)) {
				f(h)
			}
		}
	}
	if len(t.path) > 0 && t.hasStates() {
		last := t.path[len(t.path)-1]
		f(last.snapshot(n - last.pos))
	}
}

// Find returns a table of the longest beginning of ids from which a sequence can go
// on. It shares the tree's units.
func (t *Tree) Find(ns string, ids []int32) *Table {
	table := t.pool.NewTable()
	t.Leave(ns, ids)
	n, _ := t.match(ns, ids)
	if n == 0 {
		return table
	}
	table.n, table.done = n, n
	for i := range table.units {
		if !t.pool.layout[i].PerSequence {
			table.units[i] = make([]int32, len(t.path), len(t.path)+1)
			for k := range table.units[i] {
				table.units[i][k] = -1
			}
		}
	}
	t.taken(n, func(h *holding) {
		for k, g := range h.part.groups {
			at := 0
			if h.part.kind != state {
				at = h.node.pos / BlockTokens
			}
			t.pool.hold(g, h.units[k])
			table.units[g][at] = h.units[k]
		}
		h.used++
		t.value(h)
	})
	return table
}

// Leave notes that nobody will be back for what was kept as awaited.
func (t *Tree) Leave(ns string, ids []int32) {
	t.walk(ns, ids)
	for _, n := range t.path {
		if n.awaited {
			n.awaited = false
			t.revalue(n)
		}
	}
}

// Cuts returns where passes over ids should end, after the `found` tokens that the
// tree had, so that there are snapshots to keep which are likely to be found: at the
// last block boundary of ids, and where another text was seen to leave theirs.
func (t *Tree) Cuts(ns string, ids []int32, found int) (cuts []int) {
	if !t.hasStates() || len(ids) == 0 {
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
