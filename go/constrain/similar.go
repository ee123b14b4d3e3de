package constrain

import "slices"

// Bounds of similar, as shares of the vocabulary: how many tokens the state has at least to which most lead, and how many are walked at most.
const (
	leastAlike  = 1. / 16
	mostDiffers = 1. / 8
)

// similar returns a state with the same mask as s except for tokens that begin with some bytes: trie nodes
// below the root. An example is the start of a name that must not be one of a few, and the middle of other
// names. It returns nil if there is none, or it does not help.
func (a *Automaton) similar(s *state) (like *state, differ []int32) {
	if a.ownRun(s) {
		return nil, nil
	}
	t := a.v.trie()
	children := func(visit func(i int32, b byte, tokens int)) {
		for i := int32(1); i < t.nodes[0].next; i = t.nodes[i].next {
			visit(i, t.nodes[i].byte, int(t.nodes[t.nodes[i].next].from-t.nodes[i].from))
		}
	}
	type loop struct {
		s      *state
		tokens int
	}
	var loops []loop
	children(func(_ int32, b byte, tokens int) {
		to := a.next(s, b)
		if to == stuck || to == forked || a.next(to, b) != to {
			return
		}
		i := slices.IndexFunc(loops, func(l loop) bool { return l.s == to })
		if i < 0 {
			i = len(loops)
			loops = append(loops, loop{s: to})
		}
		loops[i].tokens += tokens
	})
	if len(loops) == 0 {
		return nil, nil
	}
	most := slices.MaxFunc(loops, func(a, b loop) int { return a.tokens - b.tokens })
	if most.s == s || float64(most.tokens) < leastAlike*float64(len(t.ids)) {
		return nil, nil
	}
	a.calls(s)
	a.calls(most.s)
	if s.named || most.s.named {
		return nil, nil
	}
	walked := 0
	children(func(i int32, b byte, tokens int) {
		to := a.next(s, b)
		if to != forked && to == a.next(most.s, b) {
			return
		}
		differ = append(differ, i)
		if to != stuck {
			walked += tokens
		}
	})
	if float64(walked) > mostDiffers*float64(len(t.ids)) {
		return nil, nil
	}
	return most.s, differ
}

// ownRun reports whether a state is in a loop over a run that has a slice.
func (a *Automaton) ownRun(s *state) bool {
	return slices.ContainsFunc(s.runs, func(r reach) bool {
		return r.loop.run.size() > minRun && (int(r.left) >= a.v.longest || r.plain(a, s))
	})
}

// derive initializes the mask of a state with that of a similar one, and walks below the nodes where they
// differ.
func (k *masker) derive(a *Automaton, s *state, like *mask, differ []int32) {
	t := a.v.trie()
	k.begin(a, like.allowed)
	k.prepare(a)
	if s.accepts {
		k.open = append(k.open, 0)
	}
	at := 0
	for _, i := range like.open {
		for at < len(differ) && t.nodes[differ[at]].next <= i {
			at++
		}
		if i > 0 && (at == len(differ) || i < differ[at]) {
			k.open = append(k.open, i)
		}
	}
	for _, i := range differ {
		for _, id := range t.all(i) {
			k.ids.Remove(id)
		}
	}
	for _, i := range differ {
		k.ahead(a, head{s, bottom}, nil, i, t.nodes[i].next)
	}
}
