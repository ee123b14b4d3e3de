package constrain

import "slices"

// A mask is the tokens that a state allows, as far as it is known without its stack,
// or with the states that are on top of it.
type mask struct {
	allowed Set
	// Nodes of the trie at which the rules that are known have ended, so that the tokens
	// below depend on what they return to; 0 is the root.
	open []int32
	by   map[*state]*mask // with one more state known
}

// masker computes masks, under the automaton's lock.
type masker struct {
	seen  []visit
	stack []head // of the nodes on the path in the trie
	ends  []level
	ids   Set // being computed
	open  []int32
}

// A level is how many heads and nodes there are on the path to a depth in the trie.
type level struct{ heads, nodes int }

type visit struct {
	m *mask
	n *node
}

// add adds to next the tokens that are allowed at heads.
func (k *masker) add(a *Automaton, heads []head, next Set) {
	k.seen = k.seen[:0]
	for _, h := range heads {
		k.collect(a, a.mask(h.s), h.n, next)
	}
}

func (k *masker) collect(a *Automaton, m *mask, n *node, next Set) {
	for _, v := range k.seen {
		if v.m == m && v.n.hash == n.hash {
			return
		}
	}
	k.seen = append(k.seen, visit{m, n})
	if len(m.open) == 0 || n.edge.s == nil {
		next.union(m.allowed)
		return
	}
	n.edges(func(e head) { k.collect(a, a.under(m, e.s), e.n, next) })
}

// mask returns the mask of a state.
func (a *Automaton) mask(s *state) *mask {
	if s.mask == nil {
		if far := a.far(s); far != s {
			s.mask = a.mask(far)
			return s.mask
		}
		k := &a.m
		k.begin(a, nil)
		a.calls(s)
		for _, t := range s.tokens {
			if t.to.spelt && !slices.ContainsFunc(t.push, func(s *state) bool { return !s.spelt }) {
				k.name(a, &a.tokens[t.set])
			}
		}
		k.walk(a, s, 0)
		s.mask = k.end(a)
	}
	return s.mask
}

// under returns a mask with one more state on the stack known.
func (a *Automaton) under(m *mask, s *state) *mask {
	if m.by[s] == nil {
		below := (*mask)(nil)
		if m.open[0] == 0 {
			below = a.mask(s)
		}
		k := &a.m
		k.begin(a, m.allowed)
		for _, i := range m.open {
			if i > 0 {
				k.walk(a, s, i)
				continue
			}
			k.ids.union(below.allowed)
			k.open = append(k.open, below.open...)
		}
		if m.by == nil {
			m.by = map[*state]*mask{}
		}
		m.by[s] = k.end(a)
		a.bytes += 64
	}
	return m.by[s]
}

func (k *masker) begin(a *Automaton, allowed Set) {
	k.ids = NewSet(a.v.n)
	copy(k.ids, allowed)
	k.open = k.open[:0]
}

// end returns the mask that was computed, or one that is the same.
func (k *masker) end(a *Automaton) *mask {
	slices.Sort(k.open)
	k.open = slices.Compact(k.open)
	sum := bottom.hash
	for _, w := range k.ids {
		sum = mix(sum ^ w)
	}
	for _, i := range k.open {
		sum = mix(sum ^ uint64(i))
	}
	if m := a.masks[sum]; m != nil && slices.Equal(m.allowed, k.ids) && slices.Equal(m.open, k.open) {
		return m
	}
	m := &mask{allowed: k.ids, open: slices.Clone(k.open)}
	a.masks[sum] = m
	a.bytes += 8*len(m.allowed) + 4*len(m.open) + 64
	return m
}

// name adds the tokens of a set.
func (k *masker) name(a *Automaton, s *tokenSet) {
	if !s.not {
		k.ids.addAll(s.ids)
		return
	}
	at := 0
	for id := range int32(a.v.n) {
		for at < len(s.ids) && s.ids[at] < id {
			at++
		}
		if (at == len(s.ids) || s.ids[at] != id) && len(a.v.piece(id)) > 0 && !slices.Contains(a.v.ends, id) {
			k.ids.Add(id)
		}
	}
}

// walk adds the tokens below a node of the trie that a state allows.
func (k *masker) walk(a *Automaton, s *state, from int32) {
	t, w := a.v.trie(), &a.w
	w.scratch = true
	defer func() { w.scratch = false }()
	k.stack = append(k.stack[:0], head{s, bottom})
	k.ends = append(k.ends[:0], level{1, 0})
	base := t.nodes[from].depth
	if s.accepts {
		k.open = append(k.open, from)
	}
	for i, end := from+1, t.nodes[from].next; i < end; {
		n := &t.nodes[i]
		d := int(n.depth - base)
		above := k.ends[d-1].heads
		parent := k.stack[:above]
		if d > 1 {
			parent = parent[k.ends[d-2].heads:]
		}
		w.used = k.ends[d-1].nodes
		k.stack = w.step(k.stack[:above], parent, n.byte)
		here := k.stack[above:]
		if len(here) == 0 {
			i = n.next
			continue
		}
		if n.below > 0 && k.covered(here, &t.spans[n.below]) {
			if set := t.spans[n.below].tokens; set != nil {
				k.ids.union(set)
			} else {
				k.ids.addAll(t.all(i))
			}
			i = n.next
			continue
		}
		if own := t.own(i); len(own) > 0 && slices.ContainsFunc(here, func(h head) bool { return h.s.spelt && h.n.spelt }) {
			k.ids.addAll(own)
		}
		i++
		if n.next == i {
			continue
		}
		if w.complete(here) {
			k.open = append(k.open, i-1)
		}
		k.ends = append(k.ends[:d], level{len(k.stack), w.used})
	}
}

func (k *masker) covered(heads []head, s *span) bool {
	for _, h := range heads {
		for i := range h.s.runs {
			if h.s.runs[i].covers(s) {
				return true
			}
		}
	}
	return false
}

// far returns the state that allows the same tokens with counts that no token can bring to
// a bound of their loops, where s has such.
func (a *Automaton) far(s *state) *state {
	longest := int32(a.v.longest)
	same := true
	far := func(t thread) thread {
		if n := a.loopOf[t.pc]; n >= 0 && t.count > 0 {
			switch l := &a.loops[n]; {
			case t.count < l.min-longest:
				t.count = 0
			case t.count >= l.min && l.max-t.count > longest:
				t.count = l.min
			}
		}
		return t
	}
	for _, t := range s.threads {
		same = same && far(t) == t
	}
	if same {
		return s
	}
	a.newClosure()
	for _, t := range s.threads {
		a.closed = append(a.closed, far(t))
	}
	for _, r := range s.runs {
		if r.left > longest {
			r.left = longest // at least
		}
		a.reaches = append(a.reaches, r)
	}
	slices.SortFunc(a.closed, compareThreads)
	a.closed = slices.Compact(a.closed)
	return a.intern()
}
