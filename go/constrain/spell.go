package constrain

import (
	"errors"
	"slices"
	"unicode/utf8"
)

// maxSpelling limits the work of spell.
const maxSpelling = 50_000_000

// spell finds the instructions from which no token sequence completes a text of the rule, so that no token
// leading there is allowed. If every byte of the grammar is a token, there are none. Otherwise it works rule
// by rule and iteration by iteration of counted loops: a text that can only be completed by a token across
// the end of a called rule or an iteration counts as one that cannot. A byte that is in no token is one that
// no text has.
func (a *Automaton) spell() error {
	s := &speller{a: a, t: a.v.trie()}
	if !slices.ContainsFunc(a.insts, func(i inst) bool { return i.op == opByte && !i.dead && s.single(&i) <= int(i.hi)-int(i.lo) }) {
		return nil
	}
	s.seen = make([]int32, len(a.insts))
	s.stuck = make([]bool, len(a.loops))
	s.from, s.before = a.before()
	for again := true; again; {
		if err := s.find(); err != nil {
			return err
		}
		again = s.halt()
	}
	if a.insts[a.rules[0].start].unspelt {
		return errors.New("the model has no tokens to spell a text of the grammar")
	}
	for pc, i := range a.insts {
		if i.op == opHead && !s.free(int32(pc)) {
			a.loops[i.arg].run = run{}
		}
	}
	return nil
}

type speller struct {
	a            *Automaton
	t            *trie
	stuck        []bool  // counted loops that need another turn, of which no tokens are known to spell one
	from, before []int32 // what may be spelt because an instruction is
	seen         []int32
	round        int32
	work         int
}

// single returns how many bytes of an instruction are tokens.
func (s *speller) single(i *inst) int { return s.a.v.single(int(i.lo), int(i.hi)) }

// find marks what is spelt, where a counted loop that is not stuck has further turns: first what single bytes spell, which is
// mostly all, then what longer tokens do.
func (s *speller) find() error {
	insts := s.a.insts
	var todo []int32
	mark := func(pc int32) {
		insts[pc].unspelt = false
		todo = append(todo, pc)
	}
	for pc := range insts {
		insts[pc].unspelt = true
		if insts[pc].op == opMatch {
			mark(int32(pc))
		}
	}
	for more := true; more; {
		for len(todo) > 0 {
			pc := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			before := s.before[s.from[pc]:s.from[pc+1]]
			s.a.work.Do(1 + len(before))
			for _, b := range before {
				if i := &insts[b]; i.unspelt && !i.dead && s.spelt(i) {
					mark(b)
				}
			}
		}
		more = false
		for pc := range insts {
			if i := &insts[pc]; i.unspelt && !i.dead && i.op == opByte && s.below(0, []int32{int32(pc)}) {
				mark(int32(pc))
				more = true
			}
			if s.work > maxSpelling {
				return errors.New("the grammar is too large for a model whose tokens do not spell each byte")
			}
		}
	}
	return nil
}

// spelt reports whether tokens complete a text from an instruction, by what is known of those after it.
func (s *speller) spelt(i *inst) bool {
	known := func(pc int32) bool { return pc >= 0 && !s.a.insts[pc].unspelt }
	switch i.op {
	case opByte:
		return known(i.out) && s.single(i) > 0
	case opTurn:
		return (known(i.alt) || known(i.out)) && !s.stuck[i.arg]
	default:
		return s.a.finishes(i, known)
	}
}

// halt finds the loops of which another turn is needed that is not spelt, and reports whether there are more than before.
func (s *speller) halt() (more bool) {
	for _, i := range s.a.insts {
		if i.op == opHead && !i.dead && i.unspelt && s.a.loops[i.arg].counted && s.a.loops[i.arg].min > 1 && !s.stuck[i.arg] {
			s.stuck[i.arg], more = true, true
		}
	}
	return more
}

// free reports whether a text goes on by tokens after any token of the code points of a loop's run.
func (s *speller) free(head int32) bool {
	a := s.a
	if a.insts[head].unspelt || s.t.whole {
		return !a.insts[head].unspelt
	}
	// Tokens may end inside a code point.
	at := slices.DeleteFunc(a.first(head), func(pc int32) bool { return a.insts[pc].op != opByte || a.insts[pc].hi < 0x80 })
	for range utf8.UTFMax - 1 {
		var to []int32
		for _, pc := range at {
			to = append(to, a.first(a.insts[pc].out)...)
		}
		slices.Sort(to)
		at = slices.DeleteFunc(slices.Compact(to), func(pc int32) bool {
			i := &a.insts[pc]
			return i.op != opByte || i.lo < 0x80 || i.lo > 0xBF
		})
		if slices.ContainsFunc(at, func(pc int32) bool { return a.insts[pc].unspelt }) {
			return false
		}
	}
	return true
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
		case opHead, opPick, opWithin:
			todo = append(todo, i.out)
		default:
			if to = append(to, pc); i.op == opCall && i.ends(s.a.program) {
				todo = append(todo, i.out)
			}
		}
	}
	return to
}
