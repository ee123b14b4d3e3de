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
	hash uint64           // of allowed and open
}

// masker computes masks, under the automaton's lock.
type masker struct {
	seen    headSet  // of masks and nodes
	until   int      // the steps that are left when no more masks are refined
	states  []*state // of the nodes on the path in the trie, where a single state is enough
	one     [1]head
	begins  *state  // the state that begins at the nodes of also
	also    []int32 // those that the walk has not reached yet
	path    []byte
	changed []nodes // that a mask and the one it is derived from do not have in common
	ids     Set     // being computed
	open    []int32
}

// add adds to next the tokens that are allowed at heads. They are the union of the masks of states, or, where those
// take long, what one walk with all heads finds.
func (k *masker) add(a *Automaton, heads []head, next Set) {
	k.seen.clear()
	k.until = a.w.left - maxRefining
	for _, h := range heads {
		// The masks of states do not know how deep a stack is, and each byte may make it deeper.
		deep := int(h.n.depth) > maxDepth-a.v.longest-1
		if deep || !k.collect(a, a.mask(h.s), h.n, next) {
			a.list = a.w.close(append(a.list[:0], heads...), 0)
			k.direct(a, a.config(a.list), next)
			return
		}
	}
}

// maxRefining is the number of steps after which no more masks of states are refined for a text: as many as a
// few walks of the vocabulary. Those that there are by then help the next texts.
const maxRefining = 1 << 20

// collect adds the tokens of a mask above stacks. It returns false if that takes long.
func (k *masker) collect(a *Automaton, m *mask, n *node, next Set) bool {
	a.w.spend(1)
	if _, fresh := k.seen.add(mix(n.hash + mix(m.hash))); !fresh {
		return true
	}
	if len(m.open) == 0 || n.edge.s == nil {
		a.w.spend(1 + len(next)/64)
		next.union(m.allowed)
		return true
	}
	for i := range n.edges() {
		e := n.edgeAt(i)
		if m.by[e.s] == nil && a.w.left < k.until || !k.collect(a, a.under(m, e.s), e.n, next) {
			return false
		}
	}
	return true
}

// direct adds the tokens that are allowed at a config.
func (k *masker) direct(a *Automaton, c *config, next Set) {
	k.begin(a, nil)
	k.prepare(a)
	a.w.round++
	for _, h := range c.heads {
		if h.n.spelt {
			k.names(a, h.s)
		}
	}
	k.below(a, c, nil, 1, a.v.trie().nodes[0].next)
	next.union(k.ids)
}

// mask returns the mask of a state.
func (a *Automaton) mask(s *state) *mask {
	if s.mask == nil {
		if far := a.far(s); far != s {
			s.mask = a.mask(far)
			return s.mask
		}
		k := &a.m
		if like := a.similar(s); like != nil {
			k.derive(a, s, like, a.mask(like))
			s.mask = k.end(a)
			return s.mask
		}
		k.begin(a, nil)
		a.w.round++
		k.names(a, s)
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
		nodes := a.v.trie().nodes
		for open := m.open; len(open) > 0; {
			i, n := open[0], 1
			switch {
			case i == 0:
				k.ids.union(below.allowed)
				k.open = append(k.open, below.open...)
			default:
				for n < len(open) && open[n] < nodes[i].next {
					n++
				}
				k.walk(a, s, i, open[1:n]...)
			}
			open = open[n:]
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
	a.w.spend(len(k.ids)/8 + len(k.open))
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
	a.within()
	m := &mask{allowed: k.ids, open: slices.Clone(k.open), hash: sum}
	a.masks[sum] = m
	a.bytes += 8*len(m.allowed) + 4*len(m.open) + 64
	return m
}

// names adds the tokens that a state and the rules that it calls name.
func (k *masker) names(a *Automaton, s *state) {
	calls := a.calls(s)
	if !s.named || s.asked == a.w.round {
		return
	}
	s.asked = a.w.round
	a.w.spend(1 + len(calls))
	for _, t := range s.tokens {
		if t.to.spelt {
			k.name(a, &a.tokens[t.set])
		}
	}
	for _, e := range calls {
		if e.after.spelt {
			k.names(a, e.start)
		}
	}
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

// walk adds the tokens below a trie node that a state allows, which begins there and at some nodes below it.
func (k *masker) walk(a *Automaton, s *state, from int32, also ...int32) {
	t := a.v.trie()
	k.prepare(a)
	k.begins, k.also = s, also
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
	if len(also) > 0 {
		k.below(a, a.at(h), nil, from+1, t.nodes[from].next)
		return
	}
	k.ahead(a, h, nil, from+1, t.nodes[from].next)
}

// prepare sets up the working memory for a walk.
func (k *masker) prepare(a *Automaton) {
	k.states, k.also = k.states[:0], nil
	if k.path == nil {
		k.path = make([]byte, a.v.longest)
	}
}

// below adds tokens of a range of trie nodes, except those decided by a slice. The first node and its
// siblings are below the node at which the heads are.
func (k *masker) below(a *Automaton, c *config, sl *slice, i, end int32) {
	t := a.v.trie()
	for ; i < end; i = t.nodes[i].next {
		if sl != nil && sl.decided.Has(i) {
			continue
		}
		a.w.spend(1)
		n := &t.nodes[i]
		to := a.after(c, n.byte)
		for len(k.also) > 0 && k.also[0] < i {
			k.also = k.also[1:]
		}
		if len(k.also) > 0 && k.also[0] == i {
			k.also = k.also[1:]
			to = a.with(to, head{k.begins, bottom})
		}
		begins := len(k.also) > 0 && k.also[0] < n.next // below
		if len(to.heads) == 0 && !begins || k.take(a, to.heads, i) || i+1 == n.next {
			continue
		}
		if to.complete {
			k.open = append(k.open, i)
		}
		k.path[n.depth-1] = n.byte
		if len(to.heads) != 1 || begins {
			k.below(a, to, sl, i+1, n.next)
		} else if sl != nil || n.next-i < partNodes || !k.part(a, to.heads[0], i) {
			k.ahead(a, to.heads[0], sl, i+1, n.next)
		}
	}
}

// ahead is below for a single head, as long as its stack does not matter.
func (k *masker) ahead(a *Automaton, h head, sl *slice, i, end int32) {
	if returns(h) {
		k.below(a, a.at(h), sl, i, end)
		return
	}
	if i == end {
		return
	}
	t := a.v.trie()
	held, visited := len(k.states), 0
	k.states = append(k.states, h.s)
	base := int(t.nodes[i].depth) - held // k.states has the state above a node at its depth less this
	for ; i < end; visited++ {
		if sl != nil && sl.decided.Has(i) {
			i = sl.decided.without(i)
			continue
		}
		n := &t.nodes[i]
		from := k.states[int(n.depth)-base]
		to := from.next[a.classOf[n.byte]]
		if to == nil {
			to = a.next(from, n.byte)
		}
		switch {
		case to == stuck:
			i = n.next
			continue
		case to == forked || returns(head{to, h.n}):
			k.below(a, a.at(head{from, h.n}), sl, i, n.next)
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
	a.w.spend(visited)
	k.states = k.states[:held]
}

// take adds the tokens of a node, or also those of its subtree; then it returns true.
func (k *masker) take(a *Automaton, heads []head, i int32) bool {
	t := a.v.trie()
	if n := &t.nodes[i]; n.below > 0 && a.covered(heads, &t.spans[n.below]) {
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

func (a *Automaton) covered(heads []head, s *span) bool {
	for _, h := range heads {
		a.w.spend(len(h.s.runs))
		for i := range h.s.runs {
			if h.s.runs[i].covers(s) {
				return true
			}
		}
	}
	return false
}

// far returns the state with canonical counts, which has the same mask: a count from which no token reaches a
// mark of its loop is replaced by the last one.
func (a *Automaton) far(s *state) *state {
	longest := int32(a.v.longest)
	same := true
	far := func(t thread) thread {
		if n := a.loopOf[t.pc]; n >= 0 && t.count > 0 {
			marks := a.loops[n].marks
			i, _ := slices.BinarySearch(marks, t.count+1)
			switch {
			case marks == nil || i < len(marks) && marks[i]-t.count <= longest:
			case i > 0:
				t.count = marks[i-1]
			default:
				t.count = 0
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
