package constrain

import (
	"errors"
	"slices"
)

// maxSpelling limits the work of spell.
const maxSpelling = 50_000_000

// spell finds the instructions from which no token sequence completes a text of the rule, so that no token
// leading there is allowed. If every byte of the grammar is a token, there are none. Otherwise it works rule
// by rule and iteration by iteration of counted loops: a text that can only be completed by a token across
// the end of a called rule or an iteration counts as one that cannot.
func (a *Automaton) spell() error {
	var has [256]bool
	for _, i := range a.insts {
		if i.op == opByte && !i.dead {
			for b := int(i.lo); b <= int(i.hi); b++ {
				has[b] = true
			}
		}
	}
	var bytes []byte
	for b, is := range has {
		if is {
			bytes = append(bytes, byte(b))
		}
	}
	if a.v.spells(string(bytes)) {
		return nil
	}
	for i := range a.loops {
		a.loops[i].run = run{}
	}
	s := &speller{a: a, t: a.v.trie(), seen: make([]int32, len(a.insts))}
	for pc := range a.insts {
		a.insts[pc].unspelt = true
	}
	for changed := true; changed; {
		changed = false
		for pc := range a.insts {
			a.work.Do(1)
			if i := &a.insts[pc]; i.unspelt && !i.dead && s.spelt(int32(pc)) {
				i.unspelt, changed = false, true
			}
			if s.work > maxSpelling {
				return errors.New("the grammar is too large for a model whose tokens do not spell each byte")
			}
		}
	}
	if a.insts[a.rules[0].start].unspelt {
		return errors.New("the model has no tokens to spell a text of the grammar")
	}
	return nil
}

type speller struct {
	a     *Automaton
	t     *trie
	seen  []int32
	round int32
	work  int
}

// spelt reports whether tokens are known to complete a text from an instruction.
func (s *speller) spelt(pc int32) bool {
	known := func(pc int32) bool { return pc >= 0 && !s.a.insts[pc].unspelt }
	switch i := &s.a.insts[pc]; i.op {
	case opMatch:
		return true
	case opByte:
		return s.below(0, []int32{pc})
	case opCall:
		return known(i.out) && (known(s.a.rules[i.arg].start) || i.ends(s.a.program))
	case opToken:
		return known(i.out)
	case opTurn:
		return known(i.alt) && known(i.out)
	default:
		return known(i.out) || known(i.alt)
	}
}

// below reports whether a token below a trie node leads from instructions to one from which tokens complete a
// text.
func (s *speller) below(node int32, from []int32) bool {
	for c := node + 1; c < s.t.nodes[node].next; c = s.t.nodes[c].next {
		b := s.t.nodes[c].byte
		var to []int32
		s.round++
		for _, pc := range from {
			if i := &s.a.insts[pc]; i.op == opByte && i.lo <= b && b <= i.hi {
				to = s.follow(to, i.out)
			}
		}
		s.work += len(from) + len(to)
		s.a.work.Do(len(from) + len(to))
		switch {
		case len(to) == 0 || s.work > maxSpelling:
		case len(s.t.own(c)) > 0 && slices.ContainsFunc(to, func(pc int32) bool { return !s.a.insts[pc].unspelt }), s.below(c, to):
			return true
		}
	}
	return false
}

// follow appends the instructions reached from pc without a byte, up to the end of an iteration.
func (s *speller) follow(to []int32, pc int32) []int32 {
	for todo := []int32{pc}; len(todo) > 0; {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if pc < 0 || s.seen[pc] == s.round || s.a.insts[pc].dead {
			continue
		}
		s.seen[pc] = s.round
		switch i := &s.a.insts[pc]; i.op {
		case opSplit:
			todo = append(todo, i.alt, i.out)
		case opHead:
			todo = append(todo, i.out)
		default:
			if to = append(to, pc); i.op == opCall && i.ends(s.a.program) {
				todo = append(todo, i.out)
			}
		}
	}
	return to
}
