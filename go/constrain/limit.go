package constrain

// A rule may have a limit of tokens. The node below the state to which a call of it returns says by which token that has
// to be: a copy of the node at the call, with another hash. After each token, stacks with a call whose tokens are spent
// are dropped; where its rule may end, its caller goes on. Within a token nothing depends on limits, and so masks do not.

// marked returns a node with the stacks of n, for a call that returns before so many tokens, or of an array that begins at
// a place and whose elements differ.
func (w *walker) marked(n *node, until, from int32) *node {
	if n.until == until && n.from == from {
		return n
	}
	m := *n
	m.until, m.from, m.closed = until, from, false
	for _, limit := range []int32{n.until, until} { // the hash without the one and with the other
		if limit != never {
			m.hash ^= mix(uint64(limit) * 0x9e3779b97f4a7c15)
		}
	}
	for _, place := range []int32{n.from, from} {
		if place != 0 {
			m.hash ^= mix(uint64(place) * 0xd6e8feb86659fd93)
		}
	}
	w.made += nodeBytes
	return &m
}

// inLimits returns the heads after a token without those whose limits are exceeded.
func (w *walker) inLimits(heads []head) []head {
	now, within := w.at+1, int32(never)
	for _, h := range heads {
		within = min(within, h.n.within)
	}
	if within > now {
		return heads
	}
	closed := w.close(append([]head{}, heads...), 0)
	known, kept := map[*node]*node{}, closed[:0]
	for _, h := range closed {
		if n := w.inLimit(h.n, now, known); n != nil {
			kept = append(kept, head{h.s, n})
		}
	}
	return kept
}

// inLimit returns a node without the stacks that have a call which should have returned by now; nil if none is left.
func (w *walker) inLimit(n *node, now int32, known map[*node]*node) *node {
	return w.dropping(n, known, func(n *node) bool { return n.within <= now }, func(below *node) bool { return below.until <= now })
}

// dropping returns a node without the stacks that have a node which is to be dropped; nil if none is left. Only in a node
// where some may be are they looked for.
func (w *walker) dropping(n *node, known map[*node]*node, may, drop func(*node) bool) *node {
	if !may(n) {
		return n
	}
	kept, ok := known[n]
	if ok {
		return kept
	}
	var g gathering
	g.begin(nil)
	if n.bottom {
		g.union(w, bottom)
		g.open(w)
	}
	for i := range n.edges() {
		e := n.edgeAt(i)
		w.spend(1)
		if drop(e.n) {
			continue
		}
		if below := w.dropping(e.n, known, may, drop); below != nil {
			g.push(w, e.s, below, e.n.until, e.n.from)
		}
	}
	kept = g.node(w)
	known[n] = kept
	return kept
}
