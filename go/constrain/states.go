package constrain

import (
	"encoding/binary"
	"slices"
)

// A thread is a position in the program: an instruction and, in a counted loop, the number of finished
// iterations.
type thread struct{ pc, count int32 }

// A state is a set of threads of one rule: a state of the lazy subset construction. Its results are added
// under the automaton's lock.
type state struct {
	id      uint64
	threads []thread
	accepts bool            // the rule may end
	last    bool            // and nothing else
	spelt   bool            // tokens spell the rest of a text of the rule
	next    []*state        // by class of bytes, where there is one move that pushes nothing; nil: not computed
	alone   [1]move         // the move to this state
	forks   map[byte][]move // others, by class
	begins  []entry         // calls
	tokens  []tokenMove
	listed  bool // begins and tokens are computed
	runs    []reach
	forced  int16 // the only byte that may come next in the rule, or one of these three
	mask    *mask
	settles bool // settled is computed
	settled settlement
}

const (
	unknownByte = -1 - iota
	noByte
	manyBytes // or tokens
)

// A move is a transition to a state. The return states of called rules are pushed, the last one on top.
type move struct {
	to   *state
	push []*state
}

// An entry is a call of a rule and its continuation.
type entry struct {
	start, after *state
}

type tokenMove struct {
	set int32
	move
}

// A reach is a loop and how many code points of its run may follow at least.
type reach struct {
	loop *loop
	left int32
}

const unbounded = 1<<31 - 1

// Values of state.next in place of a state: no transition, and transitions listed in forks.
var stuck, forked = new(state), new(state)

// maxMoves limits the transitions of a grammar for one byte; further ones are dropped.
const maxMoves = 1 << 12

func (a *Automaton) start(rule int32) *state {
	if a.starts[rule] == nil {
		a.newClosure()
		a.follow(thread{a.rules[rule].start, 0})
		if rule != 0 { // calls are never of the empty text: what calls one goes on without it
			a.closed = slices.DeleteFunc(a.closed, func(t thread) bool { return a.insts[t.pc].op == opMatch })
		}
		a.starts[rule] = a.intern()
	}
	return a.starts[rule]
}

func (a *Automaton) newClosure() {
	a.closed = a.closed[:0]
	a.reaches = a.reaches[:0]
	clear(a.seen)
	if a.stamp++; a.stamp == 0 {
		clear(a.stamps)
		a.stamp = 1
	}
}

// follow adds the threads reached from t without a byte to closed.
func (a *Automaton) follow(t thread) {
	a.todo = append(a.todo[:0], t)
	for len(a.todo) > 0 {
		t := a.todo[len(a.todo)-1]
		a.todo = a.todo[:len(a.todo)-1]
		if t.pc < 0 || a.insts[t.pc].dead {
			continue
		}
		if t.count == 0 {
			if a.stamps[t.pc] == a.stamp {
				continue
			}
			a.stamps[t.pc] = a.stamp
		} else {
			if _, ok := a.seen[t]; ok {
				continue
			}
			a.seen[t] = struct{}{}
		}
		i := &a.insts[t.pc]
		switch i.op {
		case opSplit:
			a.todo = append(a.todo, thread{i.alt, t.count}, thread{i.out, t.count})
		case opHead:
			if l := &a.loops[i.arg]; l.run != (run{}) {
				left := int32(unbounded)
				if l.counted && l.max >= 0 {
					left = l.max - t.count
				}
				a.reaches = append(a.reaches, reach{l, left})
			}
			a.todo = append(a.todo, thread{i.out, t.count})
		case opTurn:
			l := &a.loops[i.arg]
			n := t.count + 1
			if n >= l.min {
				a.todo = append(a.todo, thread{i.alt, 0})
			}
			if l.max < 0 {
				a.todo = append(a.todo, thread{i.out, min(n, l.min)})
			} else if n < l.max {
				a.todo = append(a.todo, thread{i.out, n})
			}
		default:
			a.closed = append(a.closed, t)
			if i.op == opCall && i.ends(a.program) {
				a.todo = append(a.todo, thread{i.out, t.count})
			}
		}
	}
}

func compareThreads(x, y thread) int {
	if x.pc != y.pc {
		return int(x.pc) - int(y.pc)
	}
	return int(x.count) - int(y.count)
}

// intern returns the state of the threads in closed; nil if there are none.
func (a *Automaton) intern() *state {
	if len(a.closed) == 0 {
		return nil
	}
	slices.SortFunc(a.closed, compareThreads)
	a.key = a.key[:0]
	for _, t := range a.closed {
		a.key = binary.LittleEndian.AppendUint32(a.key, uint32(t.pc))
		a.key = binary.LittleEndian.AppendUint32(a.key, uint32(t.count))
	}
	if s := a.states[string(a.key)]; s != nil {
		return s
	}
	if a.bytes > 2*a.limit {
		panic(tooMuch{})
	}
	a.made++
	s := &state{id: a.made, threads: slices.Clone(a.closed), runs: slices.Clone(a.reaches), next: make([]*state, a.classes), forced: unknownByte}
	s.alone[0].to = s
	for _, t := range s.threads {
		i := &a.insts[t.pc]
		if i.op == opMatch {
			s.accepts, s.last = true, len(s.threads) == 1
		}
		s.spelt = s.spelt || !i.unspelt
	}
	a.states[string(a.key)] = s
	a.bytes += 3*len(a.key) + 16*len(s.runs) + 8*a.classes + 384
	return s
}

// step returns the transitions of a state by a byte, without ends of its rule.
func (a *Automaton) step(s *state, b byte) []move {
	c := a.classOf[b]
	if s.next[c] == nil {
		a.computeStep(s, b)
	}
	switch to := s.next[c]; to {
	case stuck:
		return nil
	case forked:
		return s.forks[c]
	default:
		return to.alone[:]
	}
}

// only returns the next state by a byte if there is exactly one and nothing is pushed.
func (a *Automaton) only(s *state, b byte) *state {
	if m := a.step(s, b); len(m) == 1 && m[0].push == nil {
		return m[0].to
	}
	return nil
}

func (a *Automaton) computeStep(s *state, b byte) {
	c := a.classOf[b]
	a.newClosure()
	for _, t := range s.threads {
		if i := &a.insts[t.pc]; i.op == opByte && i.lo <= b && b <= i.hi {
			a.follow(thread{i.out, t.count})
		}
	}
	to := a.intern()
	calls := a.calls(s)
	if len(calls) == 0 {
		if s.next[c] = to; to == nil {
			s.next[c] = stuck
		}
		return
	}
	var m []move
	if to != nil {
		m = append(m, move{to: to})
	}
	for _, e := range calls {
		for _, in := range a.step(e.start, b) {
			m = append(m, in.under(e.after))
		}
	}
	m = m[:min(len(m), maxMoves)]
	switch {
	case len(m) == 0:
		s.next[c] = stuck
	case len(m) == 1 && m[0].push == nil:
		s.next[c] = m[0].to
	default:
		if s.forks == nil {
			s.forks = map[byte][]move{}
		}
		s.forks[c] = m
		s.next[c] = forked
		a.bytes += 64 + len(m)*32
	}
}

// under returns a move inside a call that returns to a state.
func (m move) under(after *state) move {
	if after.last { // nothing to return for
		return m
	}
	return move{m.to, append([]*state{after}, m.push...)}
}

// calls returns the calls of a state, and finds its tokens.
func (a *Automaton) calls(s *state) []entry {
	if s.listed {
		return s.begins
	}
	s.listed = true
	for n, t := range s.threads {
		i := &a.insts[t.pc]
		if i.op != opCall && i.op != opToken || slices.ContainsFunc(s.threads[:n], func(u thread) bool {
			return a.insts[u.pc].op == i.op && a.insts[u.pc].arg == i.arg
		}) {
			continue
		}
		a.newClosure()
		for _, u := range s.threads[n:] {
			if j := &a.insts[u.pc]; j.op == i.op && j.arg == i.arg {
				a.follow(thread{j.out, u.count})
			}
		}
		to := a.intern()
		switch {
		case to == nil:
		case i.op == opToken:
			s.tokens = append(s.tokens, tokenMove{i.arg, move{to: to}})
		default:
			if start := a.start(i.arg); start != nil {
				s.begins = append(s.begins, entry{start, to})
			}
		}
	}
	for _, e := range s.begins {
		a.calls(e.start)
		for _, t := range e.start.tokens {
			s.tokens = append(s.tokens, tokenMove{t.set, t.under(e.after)})
		}
	}
	s.tokens = s.tokens[:min(len(s.tokens), maxMoves)]
	return s.begins
}
