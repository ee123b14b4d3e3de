package constrain

import (
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"
)

// A head is a position in a grammar: a state of the current rule, and the set of stacks of return states. An
// ambiguous text has several heads.
type head struct {
	s *state
	n *node
}

// A node is a set of stacks, immutable and shared (a graph-structured stack): each edge is a state on top of
// the stacks below it. A bottom node also has the empty stack. A rule that is called at a place in the text has
// one node, however many calls there are. Nodes with the same stacks have the same hash.
type node struct {
	edge   head   // the first
	more   []head // others
	bottom bool
	spelt  bool // tokens spell a rest of the text for one of the stacks
	arrays bool // in one of the stacks is an array whose elements differ
	closed bool // known under the automaton's lock: what its edges return to are edges too
	depth  int32
	within int32 // tokens until the first of the stacks is of no more use
	until  int32 // tokens until what is called with this below it has to end, where it is an edge's; never otherwise
	from   int32 // bytes of the text up to the first of the array that is called with this below it, where its elements differ; 0 otherwise
	hash   uint64
}

// never is no number of tokens.
const never = math.MaxInt32

var bottom = &node{bottom: true, spelt: true, within: never, until: never, hash: rand.Uint64()}

// maxDepth limits the stack of a text: deeper nesting is not allowed.
const maxDepth = 10_000

const (
	nodeBytes = int(unsafe.Sizeof(node{}))
	edgeBytes = int(unsafe.Sizeof(head{}))
)

// edges returns the number of edges, and edgeAt one of them.
func (n *node) edges() int {
	if n.edge.s == nil {
		return 0
	}
	return 1 + len(n.more)
}

func (n *node) edgeAt(i int) head {
	if i == 0 {
		return n.edge
	}
	return n.more[i-1]
}

func mix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return h
}

func (e head) hash() uint64 { return mix(e.n.hash + mix(e.s.id*0x9e3779b97f4a7c15)) }

// A headSet numbers heads by hash, in the order in which they are added. Few are searched one by one.
type headSet struct {
	hashes []uint64         // of the first few
	known  map[uint64]int32 // all; of more than few
}

const few = 8

func (s *headSet) clear() {
	s.hashes = s.hashes[:0]
	if len(s.known) > maxKept { // clearing takes as long as it was large
		s.known = nil
	}
	clear(s.known)
}

// add returns the number of a hash, and whether it is new.
func (s *headSet) add(h uint64) (n int, fresh bool) {
	if len(s.hashes) < few {
		if i := slices.Index(s.hashes, h); i >= 0 {
			return i, false
		}
		s.hashes = append(s.hashes, h)
		return len(s.hashes) - 1, true
	}
	if len(s.known) == 0 {
		if s.known == nil {
			s.known = map[uint64]int32{}
		}
		for i, h := range s.hashes {
			s.known[h] = int32(i)
		}
	}
	if i, ok := s.known[h]; ok {
		return int(i), false
	}
	n = len(s.known)
	s.known[h] = int32(n)
	return n, true
}

// A gathering collects the stacks of a head that is reached in several ways.
type gathering struct {
	s     *state
	first *node // the first set of stacks; nil: none
	only  bool  // there are no others
	stacks
}

// stacks is a set of stacks that grows.
type stacks struct {
	edges  []head
	known  headSet // of edges
	bottom bool
	spelt  bool
	arrays bool
	depth  int32
	within int32
	hash   uint64
}

func (g *gathering) begin(s *state) {
	g.s, g.first, g.only = s, nil, false
	g.edges, g.bottom, g.spelt, g.arrays, g.depth, g.within, g.hash = g.edges[:0], false, false, false, 0, never, 0
	g.known.clear()
}

// union adds the stacks of a node.
func (g *gathering) union(w *walker, n *node) {
	switch {
	case g.first == nil && len(g.edges) == 0:
		g.first, g.only = n, true
		return
	case g.first != nil && g.first.hash == n.hash:
		return
	}
	g.open(w)
	g.addAll(w, n)
}

// open lists the stacks of the first node, so that others can be added.
func (g *gathering) open(w *walker) {
	if g.only {
		g.only = false
		g.addAll(w, g.first)
	}
}

func (g *gathering) addAll(w *walker, n *node) {
	for i := range n.edges() {
		g.add(w, n.edgeAt(i))
	}
	if n.bottom && !g.bottom {
		g.bottom = true
		g.hash += bottom.hash
	}
	g.spelt = g.spelt || n.spelt
	g.depth = max(g.depth, n.depth)
}

func (g *gathering) add(w *walker, e head) {
	w.spend(1)
	h := e.hash()
	if _, fresh := g.known.add(h); fresh {
		g.edges = append(g.edges, e)
		g.hash += h
		g.within = min(g.within, e.n.within, e.n.until)
		g.arrays = g.arrays || e.n.from != 0 || e.n.arrays
	}
}

// push adds the stacks of n with a state on top, to which what is called returns before so many tokens, or with an array
// that began at a place, unless they are too deep, or no token sequence could complete them.
func (g *gathering) push(w *walker, s *state, n *node, until, from int32) {
	if n.depth >= maxDepth || !n.spelt {
		return
	}
	n = w.marked(n, until, from)
	g.open(w)
	g.add(w, head{s, n})
	g.spelt = g.spelt || s.spelt
	g.depth = max(g.depth, n.depth+1)
}

// node returns the stacks; nil if there are none.
func (g *gathering) node(w *walker) *node {
	switch {
	case g.first != nil && (g.only || g.hash == g.first.hash):
		return g.first
	case len(g.edges) == 0 && g.bottom:
		return bottom
	case len(g.edges) == 0:
		return nil
	}
	p := &node{edge: g.edges[0], bottom: g.bottom, spelt: g.spelt, arrays: g.arrays, depth: g.depth, within: g.within, until: never, hash: g.hash}
	if len(g.edges) > 1 {
		p.more = slices.Clone(g.edges[1:])
	}
	w.made += nodeBytes + edgeBytes*cap(p.more)
	return p
}
