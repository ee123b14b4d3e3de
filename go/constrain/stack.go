package constrain

import "math/rand/v2"

// A head is a position in a grammar: a state of the current rule, and the set of stacks of return states. An
// ambiguous text has several heads.
type head struct {
	s *state
	n *node
}

// A node is a set of stacks, immutable and shared (a graph-structured stack): each edge is a state on top of
// the stacks below it. A bottom node also has the empty stack.
type node struct {
	edge   head   // the first
	more   []head // others
	bottom bool
	spelt  bool // tokens spell a rest of the text for one of the stacks
	depth  int32
	hash   uint64
}

var bottom = &node{bottom: true, spelt: true, hash: rand.Uint64()}

// maxDepth limits the stack of a text: deeper nesting is not allowed.
const maxDepth = 10_000

// maxEdges bounds the stacks in a set, and maxHeads those above them: of a text that is
// more ambiguous some readings are dropped.
const (
	maxEdges = 1 << 12
	maxHeads = 1 << 10
)

func (n *node) edges(visit func(head)) {
	if n.edge.s != nil {
		visit(n.edge)
	}
	for _, e := range n.more {
		visit(e)
	}
}

func mix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return h
}

// push returns the stacks of n with s on top; nil if they are too deep, or no token sequence could complete
// them.
func (w *walker) push(s *state, n *node) *node {
	if n.depth >= maxDepth {
		return nil
	}
	if !n.spelt {
		return nil
	}
	p := w.node()
	*p = node{edge: head{s, n}, spelt: s.spelt, depth: n.depth + 1, hash: edgeHash(head{s, n})}
	return p
}

func edgeHash(e head) uint64 { return mix(e.n.hash + mix(e.s.id*0x9e3779b97f4a7c15)) }

// union returns the union of two sets of stacks.
func (w *walker) union(n, m *node) *node {
	if n == m || n.hash == m.hash && n.depth == m.depth {
		return n
	}
	p := w.node()
	*p = *n
	p.more = append([]head(nil), n.more...)
	p.bottom = n.bottom || m.bottom
	p.spelt = n.spelt || m.spelt
	p.depth = max(n.depth, m.depth)
	m.edges(func(e head) {
		h := edgeHash(e)
		known := false
		n.edges(func(f head) { known = known || f.s == e.s && (f.n == e.n || edgeHash(f) == h) })
		switch {
		case known:
		case p.edge.s == nil:
			p.edge = e
			p.hash += h
		case len(p.more) >= maxEdges:
		default:
			p.more = append(p.more, e)
			p.hash += h
		}
	})
	if m.bottom && !n.bottom {
		p.hash += bottom.hash
	}
	if p.hash == n.hash {
		return n
	}
	return p
}
