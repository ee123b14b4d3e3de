package constrain

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of what is counted: the states of a product that are not too many to be written out, and the steps of finding
// what lengths the rests of texts have.
const (
	maxWritten = 2000
	maxLengths = 1 << 22
)

// lengths returns an intersection as the texts of so many units, such as characters, that are also texts of rest; ok is
// false if none of its parts is of that kind. It takes the part with the largest bound.
func lengths(e grammar.And) (of grammar.Repeat, rest grammar.And, ok bool) {
	var parts []grammar.Expr
	for _, part := range e {
		if inner, is := part.(grammar.And); is {
			if of, rest, is := lengths(inner); is {
				parts = append(append(parts, of), rest...)
				continue
			}
		}
		parts = append(parts, part)
	}
	at := -1
	for i, part := range parts {
		if r, is := part.(grammar.Repeat); is && max(r.Min, r.Max) > max(of.Min, of.Max, 1) && wellFormed(r) && unit(r.Expr) {
			at, of = i, r
		}
	}
	if at < 0 || len(parts) == 1 {
		return of, nil, false
	}
	return of, slices.Delete(parts, at, at+1), true
}

// wellFormed reports whether a repetition has bounds that repeat takes.
func wellFormed(e grammar.Repeat) bool {
	return e.Min >= 0 && e.Max >= -1 && (e.Max < 0 || e.Max >= e.Min) && max(e.Min, e.Max) <= maxTurns
}

// unit reports whether an expression is of one character, or of one that is written as several.
func unit(e grammar.Expr) bool {
	switch e := e.(type) {
	case grammar.Class:
		return len(e) > 0
	case grammar.Alt:
		return len(e) > 0 && !slices.ContainsFunc(e, func(part grammar.Expr) bool { return !unit(part) })
	case grammar.Seq:
		return len(e) > 0 && !slices.ContainsFunc(e, func(part grammar.Expr) bool {
			lit, is := part.(grammar.Lit)
			return !(is && utf8.ValidString(string(lit))) && !unit(part)
		})
	}
	return false
}

// A counting is a dfa of texts of which the units are counted while a text is written: its states are those of a product
// without the number of units.
type counting struct {
	*dfa
	between  []bool // states between two units
	min, max int    // units; max -1: any number
	// Of each state, the counts with which some text goes on to its end: those from one to the other, if that is not below.
	from, to []int32
}

// counted emits an intersection whose units are counted while a text is written; false: it has no such part, or is
// better written out.
func (c *compiler) counted(e grammar.And, next int32) (int32, bool) {
	of, rest, ok := lengths(e)
	if !ok || c.flat {
		return 0, false
	}
	var whole grammar.Expr = rest
	if len(rest) == 1 {
		whole = rest[0]
	}
	texts, units := c.minimal(whole), c.minimal(of.Expr)
	if len(texts.accepts)*max(of.Min, of.Max) <= maxWritten {
		return 0, false
	}
	if c.counting {
		return c.call(c.anonymous(e), next, false), true
	}
	n, ok := c.count(texts, units, of)
	if !ok {
		return 0, false
	}
	return c.embedCounted(n, next), true
}

// count returns the product of texts with texts of units; false if it is no easier to count than to write out.
func (c *compiler) count(texts, units *dfa, of grammar.Repeat) (n *counting, ok bool) {
	for n, ends := range units.accepts {
		if ends && (n == 0 || slices.ContainsFunc(units.row(int32(n)), func(to int32) bool { return to >= 0 })) {
			return nil, false // where a unit ends depends on what follows
		}
	}
	again := &dfa{units.alphabet, slices.Clone(units.next), make([]bool, len(units.accepts))}
	again.accepts[0] = true
	for i, to := range again.next {
		if to >= 0 && units.accepts[to] {
			again.next[i] = 0
		}
	}
	d, states := pairs(texts, again, false, c.work)
	n = &counting{dfa: d, between: make([]bool, len(states)), min: of.Min, max: of.Max}
	for i, p := range states {
		n.between[i] = p.b == 0
	}
	n.from, n.to, ok = n.measure(c.work, func(_, _ int) bool { return true })
	if ok && c.v.single(0, 0xFF) <= 0xFF { // what bytes that are tokens spell has to have the same bounds
		from, to, spelt := n.measure(c.work, func(lo, hi int) bool { return c.v.single(lo, hi) > 0 })
		ok = spelt && slices.Equal(from, n.from) && slices.Equal(to, n.to)
	}
	return n, ok
}

// measure finds the counts with which texts of some bytes go on from each state to their ends. It returns false where those
// of a state are not all between two, or if that takes long.
func (n *counting) measure(work *grammar.Work, may func(lo, hi int) bool) (from, to []int32, ok bool) {
	states := len(n.accepts)
	before := make([][]int32, states)
	for from := range states {
		work.Do(len(n.dfa.first))
		last := int32(-1)
		for k, to := range n.row(int32(from)) {
			if to >= 0 && to != last && may(int(n.first[k]), n.last(k)) {
				before[to] = append(before[to], int32(from))
				last = to
			}
		}
	}
	least, most := make([]int, states), make([]int, states) // units of the shortest and the longest rest, of at least one
	gap := 0
	var ends, now []int32 // states with a rest of as many units: those between two, and all
	has := make([]int, states)
	for i, is := range n.accepts {
		if is {
			ends = append(ends, int32(i))
		}
	}
	longest := n.max
	if longest < 0 {
		longest = n.min + states // who has a longer one has one of that
	}
	steps, all := 0, 0
	for length := 1; length <= longest && len(ends) > 0; length++ {
		was := len(now)
		same := true
		now = now[:0]
		add := func(to int32) {
			for _, from := range before[to] {
				if steps++; has[from] == length {
					continue
				}
				has[from] = length
				now = append(now, from)
				switch {
				case least[from] == 0:
					least[from], same = length, false
				case most[from] != length-1:
					gap, same = max(gap, length-most[from]), false
				}
				most[from] = length
			}
		}
		for _, to := range ends {
			add(to)
		}
		ends = ends[:0]
		for i := 0; i < len(now); i++ {
			if n.between[now[i]] {
				ends = append(ends, now[i])
			} else {
				add(now[i])
			}
		}
		if same && len(now) == was { // and so for all that follow
			for _, i := range now {
				most[i] = math.MaxInt32
			}
			break
		}
		work.Do(1 + steps)
		if all += steps; all > maxLengths {
			return nil, nil, false
		}
		steps = 0
	}
	if n.max >= 0 && gap > n.max-n.min+1 {
		return nil, nil, false
	}
	from, to = make([]int32, states), make([]int32, states)
	for i := range states {
		switch from[i] = int32(max(n.min-most[i], 0)); {
		case least[i] == 0:
			to[i] = -1
		case n.max < 0:
			to[i] = unbounded
		default:
			to[i] = int32(n.max - least[i])
		}
	}
	return from, to, true
}

// goes reports whether some text goes on from a state.
func (n *counting) goes(state int32) bool { return n.from[state] <= n.to[state] }

// embedCounted emits the network of a counting: each state between two units is the head of a loop, whose turns are the units
// that end there.
func (c *compiler) embedCounted(n *counting, next int32) int32 {
	heads := make([]int32, len(n.accepts)) // of each state, what goes on from it; -1: nothing
	turns := make([]int32, len(n.accepts)) // what comes where it is reached; -1: no text has it
	var marks []int32
	mark := func(at int32) {
		if at > 0 && at < unbounded {
			marks = append(marks, at)
		}
	}
	mark(int32(n.min))
	mark(int32(max(n.max, 0)))
	narrows := n.narrows()
	loops := len(c.loops)
	flows := flows{dfa: n.dfa, known: map[midway]led{}}
	for i := range heads {
		i := int32(i)
		heads[i], turns[i] = -1, -1
		goes, ends := n.goes(i), n.accepts[i]
		if goes {
			mark(n.from[i])
			mark(min(n.to[i], unbounded-1) + 1)
			heads[i] = c.none()
		}
		l := loop{min: int32(n.min), max: n.to[i], counted: true, from: n.from[i], to: n.to[i]}
		switch {
		case n.max < 0:
			l.max = -1
		case ends:
			l.max = int32(n.max)
		}
		switch {
		case n.between[i] && (goes || ends):
			if goes {
				c.work.Do(64)
				l.run, l.dead = flows.loop(i)
				c.insts[heads[i]].op, c.insts[heads[i]].arg = opHead, int32(len(c.loops))
			}
			after := int32(-1)
			if ends {
				after = next
			}
			turns[i] = c.add(inst{op: opTurn, arg: int32(len(c.loops)), out: heads[i], alt: after})
			c.loops = append(c.loops, l)
		case goes && narrows[i]:
			turns[i] = c.add(inst{op: opWithin, arg: int32(len(c.loops)), out: heads[i], alt: -1})
			c.loops = append(c.loops, l)
		case goes:
			turns[i] = heads[i]
		}
	}
	slices.Sort(marks)
	marks = slices.Clip(slices.Compact(marks))
	for i := range c.loops[loops:] {
		c.loops[loops+i].marks = marks
	}
	for i := range heads {
		if heads[i] < 0 {
			continue
		}
		threads := 0
		n.each(int32(i), func(lo, hi byte, to int32) {
			if turns[to] < 0 {
				return
			}
			threads++
			c.follow(heads[i], c.bytes(lo, hi, turns[to]))
		})
		if n.between[i] && !n.accepts[i] {
			c.loops[c.insts[heads[i]].arg].threads = threads
		}
	}
	switch ends := n.accepts[0] && n.min == 0; {
	case heads[0] >= 0 && n.from[0] == 0 && ends:
		return c.split(heads[0], next)
	case heads[0] >= 0 && n.from[0] == 0:
		return heads[0]
	case ends:
		return next
	}
	return c.none()
}

// narrows returns the states within a unit that a text may reach with a count with which none goes on from there.
func (n *counting) narrows() []bool {
	is := make([]bool, len(n.accepts))
	for from := range n.accepts {
		n.each(int32(from), func(_, _ byte, to int32) {
			if !n.between[to] && (n.from[from] < n.from[to] || n.to[from] > n.to[to]) {
				is[to] = true
			}
		})
	}
	return is
}
