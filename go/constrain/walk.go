package constrain

// A walker advances heads. It is used under the automaton's lock.
type walker struct {
	a       *Automaton
	scratch bool   // nodes need not outlive what is computed
	slab    []node // for those
	used    int

	reach, to, from, spare []head
	text                   []byte
}

func (w *walker) node() *node {
	if !w.scratch || w.used == slabNodes {
		return new(node)
	}
	if w.slab == nil {
		w.slab = make([]node, slabNodes)
	}
	w.used++
	return &w.slab[w.used-1]
}

const slabNodes = 1 << 10

// returns appends to dst the heads and those to which their rules may return.
func (w *walker) returns(dst []head, heads []head) []head {
	from := len(dst)
	dst = append(dst, heads...)
	for i := from; i < len(dst); i++ {
		h := dst[i]
		if !h.s.accepts {
			continue
		}
		h.n.edges(func(e head) {
			for _, known := range dst[from:] {
				if known.s == e.s && (known.n == e.n || known.n.hash == e.n.hash) {
					return
				}
			}
			if len(dst)-from < maxHeads {
				dst = append(dst, e)
			}
		})
	}
	return dst
}

// step appends to dst the heads after a byte.
func (w *walker) step(dst []head, heads []head, b byte) []head {
	from := len(dst)
	if len(heads) == 0 {
		return dst
	}
	if h := heads[0]; len(heads) == 1 && (!h.s.accepts || h.n.edge.s == nil) { // the most frequent by far
		m := w.a.step(h.s, b)
		if len(m) == 0 {
			return dst
		}
		if len(m) == 1 && m[0].push == nil && !m[0].to.last {
			return append(dst, head{m[0].to, h.n})
		}
	}
	all := heads
	for _, h := range heads {
		if h.s.accepts && h.n.edge.s != nil {
			w.reach = w.returns(w.reach[:0], heads)
			all = w.reach
			break
		}
	}
	for _, h := range all {
		for _, m := range w.a.step(h.s, b) {
			dst = w.move(dst, from, h.n, m)
		}
	}
	return dst
}

// move appends the head after a transition from the stacks n.
func (w *walker) move(dst []head, from int, n *node, m move) []head {
	for _, s := range m.push {
		if n = w.push(s, n); n == nil {
			return dst
		}
	}
	if m.to.last && !n.bottom && n.more == nil && n.spelt { // at its end already: its caller goes on
		return w.move(dst, from, n.edge.n, move{to: n.edge.s})
	}
	for i := from; i < len(dst); i++ {
		if dst[i].s == m.to {
			dst[i].n = w.union(dst[i].n, n)
			return dst
		}
	}
	if len(dst)-from >= maxHeads {
		return dst
	}
	return append(dst, head{m.to, n})
}

// spelt drops the heads whose texts no token sequence completes.
func spelt(heads []head) []head {
	kept := heads[:0]
	for _, h := range heads {
		if h.s.spelt && h.n.spelt {
			kept = append(kept, h)
		}
	}
	return kept
}
