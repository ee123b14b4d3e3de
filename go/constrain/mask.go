package constrain

import (
	"slices"
	"unicode/utf8"
)

// A mask is the tokens that a state allows, as far as they do not depend on its stack, or depend only on the
// states on top of it.
type mask struct {
	allowed Set
	// Trie nodes at which the known rules have ended, so that the tokens below depend on the state returned
	// to; 0 is the root.
	open []int32
	by   map[*state]*mask // with one more state known
}

// masker computes masks, under the automaton's lock.
type masker struct {
	seen   []visit
	stack  []head   // of the nodes on the path in the trie
	states []*state // of those where a single state is enough
	one    [1]head
	path   []byte
	ids    Set // being computed
	open   []int32
}

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
		if like, differ := a.similar(s); like != nil {
			k.derive(a, s, a.mask(like), differ)
			s.mask = k.end(a)
			return s.mask
		}
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

// under refines a mask with one more state of the stack.
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

// end returns the computed mask, or an equal cached one.
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

// walk adds the tokens below a trie node that a state allows.
func (k *masker) walk(a *Automaton, s *state, from int32) {
	t := a.v.trie()
	defer k.prepare(a)()
	if s.accepts {
		k.open = append(k.open, from)
	}
	h := head{s, bottom}
	if from == 0 {
		if p := a.settled(s); p.slice != nil {
			k.ids.union(p.slice.upTo(p.left))
			k.ahead(a, h, p.slice, 1, t.nodes[0].next)
			return
		}
	}
	k.ahead(a, h, nil, from+1, t.nodes[from].next)
}

// prepare sets up the working memory for a walk; the caller calls the returned function after it.
func (k *masker) prepare(a *Automaton) func() {
	w := &a.w
	w.scratch, w.used = true, 0
	k.stack, k.states = k.stack[:0], k.states[:0]
	if k.path == nil {
		k.path = make([]byte, a.v.longest)
	}
	return func() { w.scratch = false }
}

// below adds tokens of a range of trie nodes, except those decided by a slice. The first node and its
// siblings are below the node at which the heads are.
func (k *masker) below(a *Automaton, heads []head, sl *slice, i, end int32) {
	t, w := a.v.trie(), &a.w
	used, held := w.used, len(k.stack)
	for ; i < end; i = t.nodes[i].next {
		if sl != nil && sl.decided.Has(i) {
			continue
		}
		n := &t.nodes[i]
		w.used = used
		k.stack = w.step(k.stack[:held], heads, n.byte)
		here := k.stack[held:]
		if len(here) == 0 || k.take(a, here, i) || i+1 == n.next {
			continue
		}
		if w.complete(here) {
			k.open = append(k.open, i)
		}
		k.path[n.depth-1] = n.byte
		if len(here) > 1 || returns(here[0]) {
			k.below(a, here, sl, i+1, n.next)
		} else if sl != nil || n.next-i < partNodes || !k.part(a, here[0], i) {
			k.ahead(a, here[0], sl, i+1, n.next)
		}
	}
	w.used, k.stack = used, k.stack[:held]
}

// returns reports whether the rule of a head may end here and its return state is known.
func returns(h head) bool { return h.s.accepts && h.n.edge.s != nil }

// ahead is below for a single head, as long as its stack does not matter.
func (k *masker) ahead(a *Automaton, h head, sl *slice, i, end int32) {
	if returns(h) {
		k.stack = append(k.stack, h)
		k.below(a, k.stack[len(k.stack)-1:], sl, i, end)
		k.stack = k.stack[:len(k.stack)-1]
		return
	}
	if i == end {
		return
	}
	t := a.v.trie()
	held := len(k.states)
	k.states = append(k.states, h.s)
	base := int(t.nodes[i].depth) - held // k.states has the state above a node at its depth less this
	for i < end {
		if sl != nil && sl.decided.Has(i) {
			i = sl.decided.without(i)
			continue
		}
		n := &t.nodes[i]
		from := k.states[int(n.depth)-base]
		to := from.next[a.classOf[n.byte]]
		if to == nil {
			a.computeStep(from, n.byte)
			to = from.next[a.classOf[n.byte]]
		}
		switch {
		case to == stuck:
			i = n.next
			continue
		case to == forked || returns(head{to, h.n}):
			k.stack = append(k.stack, head{from, h.n})
			k.below(a, k.stack[len(k.stack)-1:], sl, i, n.next)
			k.stack = k.stack[:len(k.stack)-1]
			i = n.next
			continue
		case len(to.runs) > 0:
			k.one[0] = head{to, h.n}
			if k.take(a, k.one[:], i) {
				i = n.next
				continue
			}
		case to.spelt && h.n.spelt:
			for _, id := range t.own(i) {
				k.ids.Add(id)
			}
		}
		if i+1 == n.next {
			i = n.next
			continue
		}
		if to.accepts {
			k.open = append(k.open, i)
		}
		k.path[n.depth-1] = n.byte
		if sl == nil && n.next-i >= partNodes && k.part(a, head{to, h.n}, i) {
			i = n.next
			continue
		}
		k.states = append(k.states[:int(n.depth)-base+1], to)
		i++
	}
	k.states = k.states[:held]
}

// take adds the tokens of a node, or also those of its subtree; then it returns true.
func (k *masker) take(a *Automaton, heads []head, i int32) bool {
	t := a.v.trie()
	if n := &t.nodes[i]; n.below > 0 && covered(heads, &t.spans[n.below]) {
		if set := t.sets[n.below]; set != nil {
			k.ids.union(set)
		} else {
			k.ids.addAll(t.all(i))
		}
		return true
	}
	if own := t.own(i); len(own) > 0 && slices.ContainsFunc(heads, func(h head) bool { return h.s.spelt && h.n.spelt }) {
		k.ids.addAll(own)
	}
	return false
}

// partNodes is the minimum number of nodes for which a part of a slice is used.
const partNodes = 512

// part adds the tokens below a node by a slice, if there is one for the state there.
func (k *masker) part(a *Automaton, h head, i int32) bool {
	p := a.settled(h.s)
	sl := p.slice
	if sl == nil || !h.n.spelt || !sl.pure.Has(i) {
		return false
	}
	n := &a.v.trie().nodes[i]
	before := int32(utf8.RuneCount(k.path[:n.depth]))
	sl.add(k.ids, a.v.trie().nodes[i+1].from, a.v.trie().nodes[n.next].from, min(p.left, unbounded-before)+before)
	k.ahead(a, h, sl, i+1, n.next)
	return true
}

func covered(heads []head, s *span) bool {
	for _, h := range heads {
		for i := range h.s.runs {
			if h.s.runs[i].covers(s) {
				return true
			}
		}
	}
	return false
}

// far returns the state with canonical counts, which has the same mask: a count from which no token reaches a
// bound of its loop is replaced.
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
