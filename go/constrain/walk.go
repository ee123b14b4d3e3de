package constrain

import "slices"

// A walker advances heads, by the steps of an Earley parser whose items are heads: work is at most cubic in the
// length of a text, and linear unless the text is ambiguous. It is used under the automaton's lock.
type walker struct {
	a *Automaton
	meter
	made int   // bytes of nodes
	at   int32 // tokens before the one that is walked

	// Where elements that differ count: the bytes of the text with the next one; and whether it begins such an array.
	begins int32
	began  bool

	// One step: the heads that it leads to, the rules called on the way, and which of those are still to be
	// followed, the callers last.
	to, called   gatherings
	joined       gathering
	todo         []int32
	round        uint64
	seen         headSet // of heads that are being closed
	done         []bool  // whether what each of them returns to is among them
	now          []head  // closed, where a call begins
	heads, spare []head
	text         []byte
}

// gatherings is a list of gatherings whose memory is used again.
type gatherings struct {
	list []gathering
	n    int
}

// of returns the gathering of a state, and whether it has just begun. m is the state's mark for this list.
func (l *gatherings) of(s *state, m *mark, round uint64) (g *gathering, fresh bool) {
	if m.round == round {
		return &l.list[m.at], false
	}
	if l.n == len(l.list) {
		l.list = append(l.list, gathering{})
	}
	*m = mark{round, int32(l.n)}
	l.n++
	g = &l.list[m.at]
	g.begin(s)
	return g, true
}

// maxKept is the number of edges beyond which the memory of a list is not kept.
const maxKept = 1 << 10

// trim gives back the memory of an exceptional step.
func (w *walker) trim() {
	w.to.trim()
	w.called.trim()
	for _, heads := range []*[]head{&w.now, &w.heads, &w.spare} {
		if cap(*heads) > maxKept {
			*heads = nil
		}
	}
}

func (l *gatherings) trim() {
	if len(l.list) > maxKept || slices.ContainsFunc(l.list, func(g gathering) bool { return cap(g.edges) > maxKept }) {
		l.list = nil
	}
}

// close appends to the heads from an index on those to which their rules may return.
func (w *walker) close(heads []head, from int) []head {
	if !slices.ContainsFunc(heads[from:], returns) {
		return heads
	}
	w.seen.clear()
	w.done = w.done[:0]
	for _, h := range heads[from:] {
		w.seen.add(h.hash())
		w.done = append(w.done, false)
	}
	first := len(w.done)
	for i := 0; i < len(w.done); i++ {
		h := heads[from+i]
		if !h.s.accepts || w.done[i] {
			continue
		}
		n := h.n.edges()
		w.spend(n)
		for k := range n {
			e := h.n.edgeAt(k)
			if at, fresh := w.seen.add(e.hash()); fresh {
				heads, w.done = append(heads, e), append(w.done, h.n.closed)
			} else if h.n.closed {
				w.done[at] = true
			}
		}
	}
	if n := heads[from].n; first == 1 && len(w.done) == 1+n.edges() {
		n.closed = true
	}
	return heads
}

// returns reports whether the rule of a head may end here and its return state is known.
func returns(h head) bool { return h.s.accepts && h.n.edge.s != nil }

// step appends to dst the heads after a byte. The heads are closed.
func (w *walker) step(dst []head, heads []head, b byte) []head {
	if len(heads) == 0 {
		return dst
	}
	if len(heads) == 1 { // the most frequent by far
		switch to := w.a.next(heads[0].s, b); {
		case to == stuck:
			w.spend(1)
			return dst
		case to != forked && !to.last:
			w.spend(1)
			return append(dst, head{to, heads[0].n})
		}
	}
	return w.advance(dst, heads, func(h head) { w.follow(h, b) })
}

// follow adds what a byte leads to from a head.
func (w *walker) follow(h head, b byte) {
	w.spend(1)
	switch to := w.a.next(h.s, b); to {
	case stuck:
	case forked:
		f := h.s.forks[w.a.classOf[b]]
		for _, to := range f.to {
			w.arrive(to, h.n)
		}
		for _, e := range f.calls {
			w.call(e, h.n)
		}
	default:
		w.arrive(to, h.n)
	}
}

// name adds what a token leads to from a head, as a token and not by its bytes.
func (w *walker) name(h head, id int32) {
	w.spend(1)
	calls := w.a.calls(h.s)
	for _, t := range h.s.tokens {
		if w.a.names(t.set, id) {
			w.arrive(t.to, h.n)
		}
	}
	for _, e := range calls {
		if e.start.named {
			w.call(e, h.n)
		}
	}
}

// advance appends to dst the heads to which follow leads from heads and from the rules called there.
func (w *walker) advance(dst []head, heads []head, follow func(h head)) []head {
	w.round++
	w.to.n, w.called.n, w.todo = 0, 0, w.todo[:0]
	for _, h := range heads {
		follow(h)
	}
	for len(w.todo) > 0 { // all callers of the last one have been followed
		i := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if n := w.called.list[i].node(w); n != nil {
			follow(head{w.called.list[i].s, n})
		}
	}
	for i := range w.to.n {
		g := &w.to.list[i]
		dst = append(dst, head{g.s, g.node(w)})
	}
	return dst
}

// join adds a head to others.
func (w *walker) join(heads []head, h head) []head {
	i := slices.IndexFunc(heads, func(o head) bool { return o.s == h.s })
	if i < 0 {
		return append(heads, h)
	}
	w.joined.begin(h.s)
	w.joined.union(w, heads[i].n)
	w.joined.union(w, h.n)
	heads[i].n = w.joined.node(w)
	return heads
}

// arrive adds a head to those that the step leads to.
func (w *walker) arrive(s *state, n *node) {
	for s.last && !n.bottom && n.more == nil && n.spelt { // at its end already: its caller goes on
		s, n = n.edge.s, n.edge.n
	}
	g, _ := w.to.of(s, &s.reached, w.round)
	g.union(w, n)
}

// call adds a call to those of its rule.
func (w *walker) call(e entry, n *node) {
	g, fresh := w.called.of(e.start, &e.start.called, w.round)
	switch {
	case e.start.most > 0:
		g.push(w, e.after, n, w.at+min(e.start.most, never-1-w.at), 0)
	case e.start.distinct:
		g.push(w, e.after, n, never, w.begins)
		w.began = true
	case e.after.last: // nothing to return for
		g.union(w, n)
	default:
		g.push(w, e.after, n, never, 0)
	}
	if !fresh {
		return
	}
	at, _ := slices.BinarySearchFunc(w.todo, e.start.rank, func(i, rank int32) int { return int(rank - w.called.list[i].s.rank) })
	w.todo = slices.Insert(w.todo, at, e.start.called.at)
}

// complete reports whether a text may end at closed heads.
func complete(heads []head) bool {
	return slices.ContainsFunc(heads, func(h head) bool { return h.s.accepts && h.n.bottom })
}

// accept returns the heads after a token, valid until the next call. The heads are closed.
func (w *walker) accept(heads []head, id int32) []head {
	return w.orNamed(w.spelled(heads, id), heads, id)
}

// spelled returns the heads after the bytes of a token.
func (w *walker) spelled(heads []head, id int32) []head {
	if w.a.takes(id) {
		from := append(w.heads[:0], heads...)
		to := w.spare[:0]
		for i, b := range w.a.v.piece(id) {
			if i > 0 {
				from = w.close(from, 0)
			}
			to = w.step(to[:0], from, b)
			from, to = to, from
		}
		w.heads, w.spare = from, to
	} else {
		w.heads = w.heads[:0]
	}
	return w.heads
}

// orNamed merges the heads after the bytes of a token with those after it as a token.
func (w *walker) orNamed(bytes, heads []head, id int32) []head {
	if len(w.a.tokens) == 0 {
		return spelt(bytes)
	}
	w.spare = w.advance(w.spare[:0], heads, func(h head) { w.name(h, id) })
	if len(w.spare) > 0 {
		w.round++
		w.to.n = 0
		for _, h := range append(bytes, w.spare...) {
			w.arrive(h.s, h.n)
		}
		w.heads = w.heads[:0]
		for i := range w.to.n {
			w.heads = append(w.heads, head{w.to.list[i].s, w.to.list[i].node(w)})
		}
		bytes = w.heads
	}
	return spelt(bytes)
}

// takes reports whether a token is accepted by its bytes.
func (a *Automaton) takes(id int32) bool {
	if id < 0 || int(id) >= a.v.n || slices.Contains(a.v.ends, id) {
		return false
	}
	n := len(a.v.piece(id))
	return n > 0 && n < 1<<16
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

// names reports whether a token is in a set.
func (a *Automaton) names(set, id int32) bool {
	s := &a.tokens[set]
	_, found := slices.BinarySearch(s.ids, id)
	return found != s.not && (!s.not || len(a.v.piece(id)) > 0 && !slices.Contains(a.v.ends, id))
}
