package constrain

import (
	"cmp"
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
	accepts bool           // the rule may end
	last    bool           // and nothing else
	spelt   bool           // tokens spell the rest of a text of the rule
	next    []*state       // by class of bytes; nil: not computed
	forks   map[byte]*fork // by class
	begins  []entry        // calls
	tokens  []tokenMove
	listed  bool // begins, tokens and named are computed
	named   bool // a token by its id may come next, also in a rule that is called
	runs    []reach
	forced  int16 // the only byte that may come next in the rule, or one of these three
	mask    *mask
	settles bool // settled is computed
	settled settlement

	rank            int32 // of the rule, where the state is its start
	most            int32 // tokens that it may take; 0: any number
	distinct        bool  // it is an array whose elements differ
	reached, called mark  // in the walker's lists
	asked           uint64
}

// A mark is the place of a state in a list of a step.
type mark struct {
	round uint64
	at    int32
}

const (
	unknownByte = -1 - iota
	noByte
	manyBytes // or tokens
)

// A fork is several transitions by a byte, or one that calls: to states of the rule, or of rules that are called
// last, and the calls whose rules go on with the byte.
type fork struct {
	to    []*state
	calls []entry
}

// An entry is a call of a rule and its continuation.
type entry struct {
	start, after *state
}

// A tokenMove is a transition by a token of a set.
type tokenMove struct {
	set int32
	to  *state
}

// A reach is a loop and how many code points of its run may follow at least.
type reach struct {
	loop *loop
	left int32
}

const unbounded = 1<<31 - 1

// Values of state.next in place of a state: no transition, and transitions listed in forks.
var stuck, forked = new(state), new(state)

func (a *Automaton) start(rule int32) *state {
	if a.starts[rule] == nil {
		a.newClosure()
		a.follow(thread{a.rules[rule].start, 0})
		if rule != 0 { // calls are never of the empty text: what calls one goes on without it
			a.closed = slices.DeleteFunc(a.closed, func(t thread) bool { return a.insts[t.pc].op == opMatch })
		}
		if a.starts[rule] = a.intern(); a.starts[rule] != nil {
			s, r := a.starts[rule], &a.rules[rule]
			s.rank, s.most, s.distinct = a.ranks[rule], r.most, r.distinct
		}
	}
	return a.starts[rule]
}

func (a *Automaton) newClosure() {
	a.closed = a.closed[:0]
	a.reaches = a.reaches[:0]
	clear(a.seen)
	if a.stamp++; a.stamp == 0 {
		clear(a.stamps)
		clear(a.counts)
		a.stamp = 1
	}
}

// A counted is the first count with which an instruction is in a closure.
type counted struct {
	stamp uint32
	count int32
}

// fresh reports whether a thread is not in the closure yet, and adds it.
func (a *Automaton) fresh(t thread) bool {
	if t.count == 0 {
		is := a.stamps[t.pc] != a.stamp
		a.stamps[t.pc] = a.stamp
		return is
	}
	if c := &a.counts[t.pc]; c.stamp != a.stamp {
		*c = counted{a.stamp, t.count}
		return true
	} else if c.count == t.count {
		return false
	}
	if _, ok := a.seen[t]; ok {
		return false
	}
	a.seen[t] = struct{}{}
	return true
}

// follow adds the threads reached from t without a byte to closed.
func (a *Automaton) follow(t thread) {
	a.todo = append(a.todo[:0], t)
	steps := 0
	for ; len(a.todo) > 0; steps++ {
		t := a.todo[len(a.todo)-1]
		a.todo = a.todo[:len(a.todo)-1]
		if t.pc < 0 || a.insts[t.pc].dead || !a.fresh(t) {
			continue
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
		case opPick:
			if a.loops[i.arg].parts.open(i.lo, t.count) {
				a.todo = append(a.todo, thread{i.out, t.count})
			}
		case opTurn:
			l := &a.loops[i.arg]
			if l.parts != nil {
				a.todo = l.parts.turn(a.todo, i, t.count)
				continue
			}
			n := t.count + 1
			if n >= l.min {
				a.todo = append(a.todo, thread{i.alt, 0})
			}
			switch {
			case n < l.from || n > l.to:
			case l.max < 0:
				a.todo = append(a.todo, thread{i.out, min(n, l.min)})
			default:
				a.todo = append(a.todo, thread{i.out, n})
			}
		case opWithin:
			if l := &a.loops[i.arg]; l.from <= t.count && t.count <= l.to {
				a.todo = append(a.todo, thread{i.out, t.count})
			}
		default:
			a.closed = append(a.closed, t)
			if i.op == opCall && i.ends(a.program) {
				a.todo = append(a.todo, thread{i.out, t.count})
			}
		}
	}
	a.w.spend(steps)
}

// open reports whether a part may come where a set of parts has come.
func (p *parts) open(part byte, had int32) bool {
	before := p.must & (1<<part - 1)
	return had>>part&1 == 0 && (!p.listed || p.must>>part&1 == 0 || had&before == before)
}

// turn appends what follows a turn, before which a set of parts had come.
func (p *parts) turn(todo []thread, i *inst, had int32) []thread {
	if i.lo != noPart {
		had |= 1 << i.lo
	}
	if had&p.must == p.must {
		todo = append(todo, thread{i.alt, 0})
	}
	if p.more || p.left&^had != 0 {
		todo = append(todo, thread{i.out, had})
	}
	return todo
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
	a.within()
	a.made++
	s := &state{id: a.made, threads: slices.Clone(a.closed), runs: slices.Clone(a.reaches), next: make([]*state, a.classes), forced: unknownByte}
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

// within panics with exceeded if a single call makes too many states or masks.
func (a *Automaton) within() {
	if a.bytes > 2*a.limit {
		panic(exceeded{ErrLimit})
	}
}

// next returns the state after a byte, or stuck, or forked.
func (a *Automaton) next(s *state, b byte) *state {
	c := a.classOf[b]
	if s.next[c] == nil {
		a.computeNext(s, b)
	}
	return s.next[c]
}

// only returns the next state by a byte if there is exactly one and nothing is called.
func (a *Automaton) only(s *state, b byte) *state {
	if to := a.next(s, b); to != stuck && to != forked {
		return to
	}
	return nil
}

func (a *Automaton) computeNext(s *state, b byte) {
	c := a.classOf[b]
	a.w.spend(len(s.threads))
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
	var f forking
	if to != nil {
		f.lead(to)
	}
	for _, e := range calls {
		in := a.next(e.start, b)
		switch {
		case in == stuck:
		case !e.after.last || e.start.most > 0 || e.start.distinct:
			f.call(e)
		case in != forked: // there is nothing to return for
			f.lead(in)
		default:
			inner := e.start.forks[c]
			a.w.spend(len(inner.to) + len(inner.calls))
			for _, to := range inner.to {
				f.lead(to)
			}
			for _, e := range inner.calls {
				f.call(e)
			}
		}
	}
	switch {
	case len(f.to)+len(f.calls) == 0:
		s.next[c] = stuck
	case len(f.to) == 1 && len(f.calls) == 0:
		s.next[c] = f.to[0]
	default:
		if s.forks == nil {
			s.forks = map[byte]*fork{}
		}
		s.forks[c] = &f.fork
		s.next[c] = forked
		a.bytes += 128 + 8*len(f.to) + 16*len(f.calls)
	}
}

// A forking is a fork that is being computed.
type forking struct {
	fork
	known map[entry]struct{} // of many
}

func (f *forking) lead(to *state) {
	if f.fresh(entry{after: to}, func() bool { return slices.Contains(f.to, to) }) {
		f.to = append(f.to, to)
	}
}

func (f *forking) call(e entry) {
	if f.fresh(e, func() bool { return slices.Contains(f.calls, e) }) {
		f.calls = append(f.calls, e)
	}
}

// fresh reports whether a transition is not there yet; for a transition to a state, e has no start.
func (f *forking) fresh(e entry, find func() bool) bool {
	if len(f.to)+len(f.calls) < few {
		return !find()
	}
	if f.known == nil {
		f.known = map[entry]struct{}{}
		for _, to := range f.to {
			f.known[entry{after: to}] = struct{}{}
		}
		for _, e := range f.calls {
			f.known[e] = struct{}{}
		}
	}
	_, ok := f.known[e]
	f.known[e] = struct{}{}
	return !ok
}

// calls returns the calls of a state, and finds its tokens.
func (a *Automaton) calls(s *state) []entry {
	if s.listed {
		return s.begins
	}
	var leads []thread // by a call or a token
	for _, t := range s.threads {
		if i := &a.insts[t.pc]; i.op == opCall || i.op == opToken {
			leads = append(leads, t)
		}
	}
	if len(leads) == 0 {
		s.listed = true
		return nil
	}
	var begins []entry
	var tokens []tokenMove
	of := func(t thread) *inst { return &a.insts[t.pc] }
	slices.SortStableFunc(leads, func(x, y thread) int {
		return cmp.Or(cmp.Compare(of(x).op, of(y).op), cmp.Compare(of(x).arg, of(y).arg))
	})
	for n := 0; n < len(leads); {
		i := of(leads[n])
		a.newClosure()
		for ; n < len(leads) && of(leads[n]).op == i.op && of(leads[n]).arg == i.arg; n++ {
			a.follow(thread{of(leads[n]).out, leads[n].count})
		}
		to := a.intern()
		switch {
		case to == nil:
		case i.op == opToken:
			tokens = append(tokens, tokenMove{i.arg, to})
		default:
			if start := a.start(i.arg); start != nil {
				begins = append(begins, entry{start, to})
			}
		}
	}
	named := len(tokens) > 0
	if len(a.program.tokens) > 0 {
		for _, e := range begins {
			a.calls(e.start)
			named = named || e.start.named
		}
	}
	a.bytes += 16 * (len(begins) + len(tokens))
	s.begins, s.tokens, s.named, s.listed = begins, tokens, named, true
	return s.begins
}
