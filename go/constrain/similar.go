package constrain

import "slices"

// Bounds of similar, as shares of the vocabulary: how many tokens the state has at least to which most lead, and how many may
// begin with two bytes by which states differ.
const (
	leastAlike  = 1. / 16
	mostDiffers = 1. / 2
)

// similar returns a state with the same mask as s except for tokens that begin with some texts. An example is the start of a
// name that must not be one of a few, and the middle of other names. It returns nil if there is none, or it does not help.
func (a *Automaton) similar(s *state) *state {
	if a.ownRun(s) {
		return nil
	}
	t := a.v.trie()
	type lead struct {
		to     *state
		by     byte
		tokens int
	}
	var leads []lead
	for i := int32(1); i < t.nodes[0].next; i = t.nodes[i].next {
		by, to := t.nodes[i].byte, a.next(s, t.nodes[i].byte)
		if to == stuck || to == forked {
			continue
		}
		k := slices.IndexFunc(leads, func(l lead) bool { return l.to == to })
		if k < 0 {
			k = len(leads)
			leads = append(leads, lead{to: to, by: by})
		}
		leads[k].tokens += int(t.nodes[t.nodes[i].next].from - t.nodes[i].from)
	}
	var most lead // of those that stay where they are
	for _, l := range leads {
		if l.tokens > most.tokens && float64(l.tokens) >= leastAlike*float64(len(t.ids)) && a.next(l.to, l.by) == l.to {
			most = l
		}
	}
	if most.to == nil || most.to == s {
		return nil
	}
	a.calls(s)
	a.calls(most.to)
	if s.named || most.to.named {
		return nil
	}
	if float64(a.unlike(s, most.to, 0, 2)) > mostDiffers*float64(len(t.ids)) {
		return nil
	}
	return most.to
}

// unlike returns the number of tokens below a trie node that begin with so many bytes by which two states differ, or fewer
// where it is not known how.
func (a *Automaton) unlike(s, other *state, above int32, bytes int) (tokens int) {
	t := a.v.trie()
	for i := above + 1; i < t.nodes[above].next; i = t.nodes[i].next {
		switch to, was := a.next(s, t.nodes[i].byte), a.next(other, t.nodes[i].byte); {
		case to == stuck || to == was && to != forked:
		case to == forked || was == stuck || was == forked || bytes == 1:
			tokens += int(t.nodes[t.nodes[i].next].from - t.nodes[i].from)
		default:
			tokens += a.unlike(to, was, i, bytes-1)
		}
	}
	return tokens
}

// ownRun reports whether a state is in a loop over a run that has a slice.
func (a *Automaton) ownRun(s *state) bool {
	return slices.ContainsFunc(s.runs, func(r reach) bool {
		return r.loop.run.size() > minRun && (int(r.left) >= a.v.longest || r.plain(a, s))
	})
}

// derive initializes the mask of a state with that of a similar one, and visits the nodes at which they differ.
func (k *masker) derive(a *Automaton, s, other *state, like *mask) {
	k.begin(a, like.allowed)
	k.prepare(a)
	if s.accepts {
		k.open = append(k.open, 0)
	}
	k.changed = k.changed[:0]
	k.differ(a, s, other, 0)
	at := 0
	for _, i := range like.open {
		for at < len(k.changed) && k.changed[at].to <= i {
			at++
		}
		if i > 0 && (at == len(k.changed) || i < k.changed[at].from) {
			k.open = append(k.open, i)
		}
	}
}

// differ has the tokens below a node that a state allows in place of those of another, whose tokens the mask has.
func (k *masker) differ(a *Automaton, s, other *state, above int32) {
	t := a.v.trie()
	for i := above + 1; i < t.nodes[above].next; i = t.nodes[i].next {
		a.w.spend(1)
		n := &t.nodes[i]
		to, was := a.next(s, n.byte), a.next(other, n.byte)
		if to == was && to != forked {
			continue
		}
		k.path[n.depth-1] = n.byte
		if to == stuck || to == forked || was == stuck || was == forked {
			k.changed = append(k.changed, nodes{i, n.next})
			for _, id := range t.all(i) {
				k.ids.Remove(id)
			}
			if to != stuck {
				k.ahead(a, head{s, bottom}, nil, i, n.next)
			}
			continue
		}
		k.changed = append(k.changed, nodes{i, i + 1})
		for _, id := range t.own(i) {
			k.ids.Remove(id)
			if to.spelt {
				k.ids.Add(id)
			}
		}
		if i+1 < n.next {
			if to.accepts {
				k.open = append(k.open, i)
			}
			k.differ(a, to, was, i)
		}
	}
}

// nodes are trie nodes from one to below another.
type nodes struct{ from, to int32 }
