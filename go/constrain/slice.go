package constrain

import (
	"math/bits"
	"slices"
	"sort"
	"sync"
)

// A slice divides a vocabulary by a run: where a loop of its code points goes on, the tokens
// that have no others are known, and only the others are looked for. It depends on no
// grammar, so that the strings of all schemas share one.
type slice struct {
	t       *trie
	n       int      // tokens of the vocabulary
	points  []uint16 // of each of the trie's ids: how many code points; 0: it has others
	longest int32
	pure    Set     // nodes whose texts have no others
	rest    []int32 // nodes of tokens that have others, and those above them
	next    []int32 // of each: the index in rest of the first that is not below

	mu   sync.Mutex
	sets map[int32]Set // the tokens of at most so many code points
}

// newSlice visits each node of the trie.
func newSlice(t *trie, n int, r run) *slice {
	s := &slice{t: t, n: n, points: make([]uint16, len(t.ids)), pure: NewSet(len(t.nodes)), sets: map[int32]Set{}}
	above := NewSet(len(t.nodes)) // pure nodes above others
	// A place is in a text of the run: its code points, and what is yet to come of the last.
	type place struct {
		node   int32
		points uint16
		more   int
		lo, hi byte
	}
	path := []place{{}}
	for i := int32(1); i < int32(len(t.nodes)-1); {
		node := &t.nodes[i]
		at := path[node.depth-1]
		path = path[:node.depth]
		to := place{node: i, points: at.points, lo: 0x80, hi: 0xBF}
		ok := true
		switch b := node.byte; {
		case at.more > 0:
			ok = at.lo <= b && b <= at.hi
			to.more = at.more - 1
		case b < 0x80:
			ok = r.ascii[b/64]>>(b%64)&1 != 0
			to.points++
		default:
			to.lo, to.hi, to.more = leads(b)
			ok = r.rest && to.more > 0
			to.points++
		}
		if !ok {
			for k := len(path) - 1; k > 0 && !above.Has(path[k].node); k-- {
				above.Add(path[k].node)
			}
			i = node.next
			continue
		}
		s.pure.Add(i)
		for k := node.from; k < t.nodes[i+1].from; k++ {
			s.points[k] = to.points
			s.longest = max(s.longest, int32(to.points))
		}
		path = append(path, to)
		i++
	}
	for i := int32(1); i < int32(len(t.nodes)-1); i++ {
		if !s.pure.Has(i) || above.Has(i) {
			s.rest = append(s.rest, i)
		}
	}
	s.rest = slices.Clip(s.rest)
	s.next = make([]int32, len(s.rest))
	for k := range s.rest {
		s.next[k] = int32(s.index(t.nodes[s.rest[k]].next, k))
	}
	return s
}

// index returns the index in rest, from one on, of the first node that is not before i.
func (s *slice) index(i int32, from int) int {
	return from + sort.Search(len(s.rest)-from, func(k int) bool { return s.rest[from+k] >= i })
}

// maxSets is how many sets of tokens a slice keeps.
const maxSets = 16

// size returns how many bytes a slice takes at most.
func (s *slice) size() int {
	return 2*len(s.points) + 8*len(s.pure) + 4*len(s.rest) + 4*len(s.next) + maxSets*(s.n+7)/8
}

// upTo returns the tokens of at most n code points.
func (s *slice) upTo(n int32) Set {
	n = min(n, s.longest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[n] == nil {
		if len(s.sets) == maxSets {
			clear(s.sets)
		}
		set := NewSet(s.n)
		for k, points := range s.points {
			if points > 0 && int32(points) <= n {
				set.Add(s.t.ids[k])
			}
		}
		s.sets[n] = set
	}
	return s.sets[n]
}

// maxSlices is how many slices a vocabulary keeps.
const maxSlices = 16

// slice returns the slice of a run.
func (v *Vocabulary) slice(r run) *slice {
	v.slicing.Lock()
	defer v.slicing.Unlock()
	for i, s := range v.slices {
		if s.run == r {
			copy(v.slices[1:i+1], v.slices[:i]) // the last used comes first
			v.slices[0] = s
			return s.slice
		}
	}
	s := newSlice(v.trie(), v.n, r)
	v.slices = slices.Insert(v.slices[:min(len(v.slices), maxSlices-1)], 0, sliceOf{r, s})
	return s
}

type sliceOf struct {
	run
	*slice
}

// A settlement is the slice of which all tokens are decided at a state: those of up to some
// code points are allowed, the others are not.
type settlement struct {
	slice *slice
	left  int32
}

// settled returns what is settled at a head at which its rule does not end; the zero value: nothing.
func (a *Automaton) settled(s *state) settlement {
	if s.settles {
		return s.settled
	}
	s.settles = true
	if r := a.back(s); r.rest {
		s.settled = settlement{a.slice(r), unbounded}
		return s.settled
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.loop.run.rest && (int(r.left) >= a.v.longest || r.plain(a, s)) {
			s.settled = settlement{a.slice(r.loop.run), r.left}
			break
		}
	}
	return s.settled
}

// maxRuns is how many slices an automaton uses, maxMissing how many characters of ASCII are missing at
// most in the run of one: where more are, most tokens are walked anyway.
const (
	maxRuns    = 6
	maxMissing = 64
)

// slice returns the slice of a run, nil where the automaton has as many as it may: then all tokens
// are walked. Those that it has it keeps: states of texts have them beyond a reset.
func (a *Automaton) slice(r run) *slice {
	for _, s := range a.slices {
		if s.run == r {
			return s.slice
		}
	}
	if len(a.slices) == maxRuns || a.sliced > a.limit/2 || 128-bits.OnesCount64(r.ascii[0])-bits.OnesCount64(r.ascii[1]) > maxMissing {
		return nil
	}
	s := a.v.slice(r)
	a.slices = append(a.slices, sliceOf{r, s})
	a.sliced += s.size()
	a.bytes += s.size()
	return s
}

// back returns the code points that lead from a state to itself; rest is all beyond ASCII.
func (a *Automaton) back(s *state) (r run) {
	for b := range byte(0x80) {
		if a.only(s, b) == s {
			r.add(rune(b), rune(b))
		}
	}
	r.rest = true
	for b := 0xC2; b <= 0xF4 && r.rest; b++ {
		lo, hi, more := leads(byte(b))
		if wasLo, wasHi, was := leads(byte(b - 1)); a.classOf[b] != a.classOf[b-1] || lo != wasLo || hi != wasHi || more != was {
			to := a.only(s, byte(b))
			r.rest = to != nil && a.backAfter(s, to, lo, hi, more)
		}
	}
	return r
}

// backAfter tells whether all continuations of a code point, of n bytes, the first of them from lo to hi,
// lead from one state to another.
func (a *Automaton) backAfter(s, from *state, lo, hi byte, n int) bool {
	for b := lo; b <= hi; b++ {
		if b > lo && a.classOf[b] == a.classOf[b-1] {
			continue
		}
		to := a.only(from, b)
		if to == nil || n == 1 && to != s || n > 1 && !a.backAfter(s, to, 0x80, 0xBF, n-1) {
			return false
		}
	}
	return true
}

// findTurns finds the plain loops, where runs of other than ASCII are.
func (a *Automaton) findTurns() {
	for pc := range a.insts {
		if i := &a.insts[pc]; i.op == opTurn && a.loops[i.arg].run.rest && a.plain(int32(pc)) {
			a.loops[i.arg].turn = int32(pc)
		}
	}
}

// plain tells whether the turns of a counted loop, whose end is given, take one code point if that is
// of its run, and what follows the loop begins with none of these: texts of the run have no more
// code points than the loop has turns left.
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

// overlaps tells whether an instruction takes a first byte of the run's code points.
func (r *run) overlaps(i *inst) bool {
	for b := int(i.lo); b <= int(min(i.hi, 0x7F)); b++ {
		if r.ascii[b/64]>>(b%64)&1 != 0 {
			return true
		}
	}
	return r.rest && i.hi >= 0x80
}

// turns tells whether an instruction takes the first byte of a code point and nothing but
// the rest of it comes before the end of a turn.
func (a *Automaton) turns(i *inst, turn int32) bool {
	if i.lo < 0x80 && i.hi >= 0x80 {
		return false
	}
	_, _, more := leads(i.lo)
	for ; more > 0; more-- {
		if i = &a.insts[i.out]; i.op != opByte {
			return false
		}
	}
	return i.out == turn
}

// plain tells whether a state is in a plain loop alone, as far as its run goes: then texts of the
// run have no more code points than are left.
func (r *reach) plain(a *Automaton, s *state) bool {
	if r.loop.turn == 0 {
		return false
	}
	for _, t := range s.threads {
		if i := &a.insts[t.pc]; i.op != opByte || r.loop.run.overlaps(i) &&
			(a.loopOf[t.pc] != a.insts[r.loop.turn].arg || t.count != r.loop.max-r.left || !a.turns(i, r.loop.turn)) {
			return false
		}
	}
	return true
}
