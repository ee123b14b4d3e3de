package constrain

import (
	"slices"
)

// Bounds of around: the states that it visits, how far from the first, how often it begins anew.
const (
	maxAround = 96
	maxFar    = 16
	maxTries  = 64
)

// surroundings is the set of states reached from a state by texts of a run.
type surroundings struct {
	a     *Automaton
	run   run
	found []near
	cut   bool // there are more, maxFar away
	dead  run  // what none of them goes on with; nothing, if the rule may end
}

var everything = run{ascii: [2]uint64{1<<64 - 1, 1<<64 - 1}, rest: true}

// A near is a state and the path to it.
type near struct {
	s    *state
	from int  // index in found
	by   run  // the code points that lead here from there
	far  int8 // code points
}

// around returns a cut whose texts are all prefixes of texts of the rule from a state. It looks for a large
// one by removing, step by step, transitions to states from which few characters continue, and characters
// that few states accept.
func (a *Automaton) around(s *state) cut {
	r := everything
	for range maxTries {
		n := surroundings{a: a, run: r, found: []near{{s: s}}, dead: everything}
		without := n.visit()
		if without == (run{}) {
			c := cut{run: r, most: unbounded, dead: n.dead}
			if n.cut {
				c.most = maxFar
			}
			return c
		}
		r.ascii[0] &^= without.ascii[0]
		r.ascii[1] &^= without.ascii[1]
		r.rest = r.rest && !without.rest
		if r.size() < minRun {
			break
		}
	}
	return cut{}
}

// visit finds the states, and returns the characters to remove: none, if all texts of the run continue.
func (n *surroundings) visit() run {
	a := n.a
	for k := 0; k < len(n.found); k++ {
		here := n.found[k]
		if here.far == maxFar {
			n.cut = true
			continue
		}
		if here.s.accepts {
			n.dead = run{}
		}
		for b := 0x80; b < 0x100 && n.dead.rest; b++ {
			n.dead.rest = !n.run.rest && (b > 0x80 && a.classOf[b] == a.classOf[b-1] || a.next(here.s, byte(b)) == stuck)
		}
		var missing run
		for b := 0; b < 0x80; {
			lo := b
			for b < 0x80 && a.classOf[b] == a.classOf[lo] {
				b++
			}
			var by run
			by.add(rune(lo), rune(b-1))
			if a.next(here.s, byte(lo)) != stuck {
				n.dead.ascii[0] &^= by.ascii[0]
				n.dead.ascii[1] &^= by.ascii[1]
			}
			by.ascii[0] &= n.run.ascii[0]
			by.ascii[1] &= n.run.ascii[1]
			if by == (run{}) {
				continue
			}
			to := a.only(here.s, byte(lo))
			if to == nil || !to.spelt {
				missing.ascii[0] |= by.ascii[0]
				missing.ascii[1] |= by.ascii[1]
			} else if !n.add(to, k, by) {
				return by
			}
		}
		if n.run.rest {
			for b := 0xC2; b <= 0xF4; b++ {
				lo, hi, more := leads(byte(b))
				if wasLo, wasHi, was := leads(byte(b - 1)); a.classOf[b] == a.classOf[b-1] && lo == wasLo && hi == wasHi && more == was {
					continue
				}
				to := a.only(here.s, byte(b))
				if to == nil || !n.beyond(to, lo, hi, more, k) {
					missing.rest = true
					break
				}
			}
		}
		if missing == (run{}) {
			continue
		}
		if k == 0 || missing.size() <= here.by.size() {
			return missing
		}
		return here.by
	}
	return run{}
}

// beyond adds the states after `more` continuation bytes of a character, the first of which is from lo to hi.
func (n *surroundings) beyond(from *state, lo, hi byte, more, k int) bool {
	for b := lo; b <= hi; b++ {
		if b > lo && n.a.classOf[b] == n.a.classOf[b-1] {
			continue
		}
		to := n.a.only(from, b)
		switch {
		case to == nil || !to.spelt:
			return false
		case more > 1:
			if !n.beyond(to, 0x80, 0xBF, more-1, k) {
				return false
			}
		case !n.add(to, k, run{rest: true}):
			return false
		}
	}
	return true
}

// add adds a state; it returns false if there are too many.
func (n *surroundings) add(s *state, from int, by run) bool {
	if i := slices.IndexFunc(n.found, func(m near) bool { return m.s == s }); i >= 0 {
		if i > 0 && n.found[i].from == from {
			f := &n.found[i].by
			f.ascii[0] |= by.ascii[0]
			f.ascii[1] |= by.ascii[1]
			f.rest = f.rest || by.rest
		}
		return true
	}
	if len(n.found) == maxAround {
		return false
	}
	n.found = append(n.found, near{s: s, from: from, by: by, far: n.found[from].far + 1})
	return true
}
