package constrain

import (
	"math/bits"
	"slices"
	"sync"
)

// A slice partitions a vocabulary by a run: inside a loop over the run's code points, tokens of only these
// code points are known to be allowed, and only the others are walked. It does not depend on the grammar, so
// the strings of all schemas share one.
type slice struct {
	t       *trie
	n       int // tokens of the vocabulary
	cut     cut
	pure    Set // nodes whose texts are of the run
	decided Set // nodes that need no walk: below them all texts are of the run, or go on with what is dead
	tokens  Set // indexes in the trie's ids of those of the run

	mu   sync.Mutex
	sets map[int32]Set // the tokens of at most so many code points
}

// A cut is a run, the maximum number of code points of the tokens that count as part of it, and the bytes
// that cannot follow them.
type cut struct {
	run
	most int32
	dead run // its rest is all bytes beyond ASCII, but those of the run
}

// newSlice visits the trie nodes that are in the run but have descendants that are not.
func newSlice(t *trie, n int, c cut) *slice {
	s := &slice{t: t, n: n, cut: c, pure: NewSet(len(t.nodes)), decided: NewSet(len(t.nodes)), tokens: NewSet(len(t.ids)), sets: map[int32]Set{}}
	s.visit(0, place{})
	return s
}

// A place is a position in a text of a run: the number of code points, and the remaining bytes of the last.
type place struct {
	points int32
	more   int
	lo, hi byte
	value  rune // what there is of it
}

// visit finds the part of the run below a node, and reports whether everything is decided.
func (s *slice) visit(above int32, at place) bool {
	t := s.t
	all := true
	for i := above + 1; i < t.nodes[above].next; i = t.nodes[i].next {
		n := &t.nodes[i]
		to, ok := s.cut.after(at, n.byte)
		if !ok {
			if s.cut.ends(at, n.byte) {
				s.decided.addRange(i, n.next)
			} else {
				all = false
			}
			continue
		}
		if n.below > 0 && s.cut.covers(&t.spans[n.below], to, at.more == 0) {
			s.pure.addRange(i, n.next)
			s.decided.addRange(i, n.next)
			s.tokens.addRange(n.from, t.nodes[n.next].from)
			continue
		}
		s.pure.Add(i)
		s.tokens.addRange(n.from, t.nodes[i+1].from)
		if s.visit(i, to) {
			s.decided.Add(i)
		} else {
			all = false
		}
	}
	return all
}

// has reports whether a byte is in the run.
func (r *run) has(b byte) bool {
	if b >= 0x80 {
		return r.rest
	}
	return r.ascii[b/64]>>(b%64)&1 != 0
}

// after returns the place after a byte.
func (c *cut) after(at place, b byte) (to place, ok bool) {
	switch {
	case at.more > 0:
		to = place{at.points, at.more - 1, 0x80, 0xBF, at.value<<6 | rune(b&0x3F)}
		return to, at.lo <= b && b <= at.hi && c.begins(to)
	case at.points >= c.most:
		return place{}, false
	case b < 0x80:
		return place{points: at.points + 1}, c.has(b)
	}
	to = place{points: at.points + 1}
	to.lo, to.hi, to.more = leads(b)
	to.value = rune(b) & (0x3F >> to.more)
	return to, to.more > 0 && c.begins(to)
}

// begins reports whether a non-ASCII code point of the run matches the bytes at a place inside it.
func (c *cut) begins(at place) bool {
	if c.rest || at.more == 0 {
		return c.rest || c.beyond.some(at.value, at.value)
	}
	rest := 6 * (at.more - 1)
	lo, hi := at.value<<6|rune(at.lo&0x3F), at.value<<6|rune(at.hi&0x3F)
	return c.beyond.some(lo<<rest, hi<<rest|(1<<rest-1))
}

// ends reports whether no text continues with a byte outside the run.
func (c *cut) ends(at place, b byte) bool {
	if at.more > 0 {
		return c.beyond != (beyond{}) && c.dead.rest
	}
	return at.points < c.most && c.dead.has(b)
}

// covers reports whether all texts below a node continue the run from a place, which is in the first byte of
// a code point or after all of it.
func (c *cut) covers(s *span, at place, first bool) bool {
	if s.ascii[0]&^c.ascii[0]|s.ascii[1]&^c.ascii[1] != 0 {
		return false
	}
	if at.more > 0 {
		return first && c.rest && s.lead > 0 && s.lead <= c.most-at.points+1
	}
	return (!s.rest || c.rest && s.whole) && s.longest <= c.most-at.points
}

// maxSets is the maximum number of token sets that a slice caches.
const maxSets = 16

// size returns the maximum memory of a slice.
func (s *slice) size() int {
	return 8*(len(s.pure)+len(s.decided)+len(s.tokens)) + maxSets*(s.n+7)/8
}

// upTo returns the tokens of at most n code points.
func (s *slice) upTo(n int32) Set {
	n = min(n, s.cut.most)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[n] != nil {
		return s.sets[n]
	}
	if len(s.sets) >= maxSets-1 {
		clear(s.sets)
	}
	set := NewSet(s.n)
	if n < longPoints {
		s.add(set, 0, int32(len(s.t.ids)), n)
	} else { // most are: it is faster to look for the others
		copy(set, s.all())
		for _, at := range s.t.long {
			if int32(s.t.points[at]) <= n {
				break
			}
			set.Remove(s.t.ids[at])
		}
	}
	s.sets[n] = set
	return set
}

// all returns the tokens of the run.
func (s *slice) all() Set {
	if s.sets[unbounded] == nil {
		set := slices.Clone(s.t.texts)
		for i, w := range s.tokens {
			for out := ^w; out != 0; out &= out - 1 {
				if at := i*64 + bits.TrailingZeros64(out); at < len(s.t.ids) {
					set.Remove(s.t.ids[at])
				}
			}
		}
		s.sets[unbounded] = set
	}
	return s.sets[unbounded]
}

// add adds the tokens of the run in a range of indexes that have at most n code points.
func (s *slice) add(set Set, from, to, n int32) {
	for i, w := range s.tokens[from/64 : (to+63)/64] {
		for ; w != 0; w &= w - 1 {
			at := (from/64+int32(i))*64 + int32(bits.TrailingZeros64(w))
			if at >= from && at < to && int32(s.t.points[at]) <= n {
				set.Add(s.t.ids[at])
			}
		}
	}
}

// maxSlices is the maximum number of slices that a vocabulary caches.
const maxSlices = 16

// slice returns the slice of a cut.
func (v *Vocabulary) slice(c cut) *slice {
	v.slicing.Lock()
	defer v.slicing.Unlock()
	for i, s := range v.slices {
		if s.cut == c {
			copy(v.slices[1:i+1], v.slices[:i]) // the last used comes first
			v.slices[0] = s
			return s
		}
	}
	s := newSlice(v.trie(), v.n, c)
	v.slices = slices.Insert(v.slices[:min(len(v.slices), maxSlices-1)], 0, s)
	return s
}

// A settlement is a slice all of whose tokens are decided at a state: those of up to some number of code
// points are allowed, the others are not.
type settlement struct {
	slice *slice
	left  int32
}

// settled returns what is settled at a head whose rule does not end there; the zero value is nothing.
func (a *Automaton) settled(s *state) settlement {
	if s.settles {
		return s.settled
	}
	var found settlement
	var best cut
	// around would find a state for each count
	counted := slices.ContainsFunc(s.threads, func(t thread) bool {
		return t.count != 0 && a.loopOf[t.pc] >= 0 && a.loops[a.loopOf[t.pc]].parts != nil
	})
	for i := range s.runs {
		r := &s.runs[i]
		counted = counted || r.loop.counted && (r.loop.run.rest || r.loop.run.beyond != (beyond{}))
		if left := int(r.left); best.less(&r.loop.run) && (left >= a.v.longest || r.plain(a, s)) {
			best = cut{run: r.loop.run, most: unbounded}
			if best.beyond != (beyond{}) && len(s.threads) == r.loop.threads { // and no others
				best.dead = r.loop.dead
			}
			found.left = r.left
		}
	}
	if !best.rest && best.beyond == (beyond{}) && !counted {
		if c := a.around(s); best.less(&c.run) {
			best = c
			found.left = unbounded
		}
	}
	if best.run != (run{}) {
		found.slice = a.slice(best)
	}
	s.settled, s.settles = found, true
	return found
}

// less reports whether another run has more code points, and enough for a slice.
func (r *run) less(than *run) bool {
	return max(r.size(), minRun) < than.size()
}

// size returns the number of ASCII characters of a run; all non-ASCII characters count as 64, a part of them
// as 32.
func (r *run) size() int {
	n := bits.OnesCount64(r.ascii[0]) + bits.OnesCount64(r.ascii[1])
	if r.rest {
		n += 64
	} else if r.beyond != (beyond{}) {
		n += 32
	}
	return n
}

// minRun is the minimum size of a run for a slice: more than the digits, of which there are few tokens.
const minRun = 24

// maxRuns is the maximum number of slices that an automaton uses.
const maxRuns = 12

// slice returns the slice of a cut, or nil if the automaton has the maximum; then all tokens are walked. Its
// slices survive a reset, because states of texts refer to them.
func (a *Automaton) slice(c cut) *slice {
	for _, s := range a.slices {
		if s.cut == c {
			return s
		}
	}
	if len(a.slices) == maxRuns || a.sliced > a.limit/2 {
		return nil
	}
	s := a.v.slice(c)
	a.slices = append(a.slices, s)
	a.sliced += s.size()
	a.bytes += s.size()
	return s
}

// findTurns finds the plain loops.
func (a *Automaton) findTurns() {
	for pc := range a.insts {
		if i := &a.insts[pc]; i.op == opTurn && a.loops[i.arg].run != (run{}) && a.plain(int32(pc)) {
			a.loops[i.arg].turn = int32(pc)
		}
	}
}

// plain reports whether each iteration of a counted loop, whose end is given, takes one code point of its
// run, and what follows the loop begins with none of these: texts of the run then have at most as many code
// points as there are iterations left.
func (a *Automaton) plain(turn int32) bool {
	r := &a.loops[a.insts[turn].arg].run
	for _, pc := range a.first(a.insts[turn].out) {
		if i := &a.insts[pc]; i.op != opByte || r.overlaps(i) && !a.turns(i, turn) {
			return false
		}
	}
	return !slices.ContainsFunc(a.first(a.insts[turn].alt), func(pc int32) bool {
		return a.insts[pc].op != opByte || r.overlaps(&a.insts[pc])
	})
}

// overlaps reports whether an instruction matches the first byte of a code point of the run.
func (r *run) overlaps(i *inst) bool {
	for b := int(i.lo); b <= int(min(i.hi, 0x7F)); b++ {
		if r.ascii[b/64]>>(b%64)&1 != 0 {
			return true
		}
	}
	return (r.rest || r.beyond != (beyond{})) && i.hi >= 0x80
}

// turns reports whether an instruction matches the first byte of a code point and only the rest of that code
// point comes before the end of an iteration.
func (a *Automaton) turns(i *inst, turn int32) bool {
	if i.lo < 0x80 && i.hi >= 0x80 {
		return false
	}
	_, _, more := leads(i.lo)
	for ; more > 0; more-- {
		for i = &a.insts[i.out]; i.op == opSplit && i.out >= 0 && i.alt < 0; {
			i = &a.insts[i.out]
		}
		if i.op != opByte {
			return false
		}
	}
	return i.out == turn
}

// plain reports whether a state is only in a plain loop, as far as its run is concerned: texts of the run
// then have at most as many code points as are left.
func (r *reach) plain(a *Automaton, s *state) bool {
	if r.loop.turn == 0 {
		return false
	}
	a.w.spend(len(s.threads))
	for _, t := range s.threads {
		if i := &a.insts[t.pc]; i.op != opByte || r.loop.run.overlaps(i) &&
			(a.loopOf[t.pc] != a.insts[r.loop.turn].arg || t.count != r.loop.max-r.left || !a.turns(i, r.loop.turn)) {
			return false
		}
	}
	return true
}
