package constrain

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/grammar"
)

// An Automaton is a grammar compiled for a vocabulary: a pushdown automaton. Its states and the token mask of
// each are computed lazily and cached for all texts. It is safe for concurrent use.
type Automaton struct {
	*program
	v       *Vocabulary
	classes int
	classOf [256]byte
	loopOf  []int32 // the counted loop around each instruction; -1: none

	mu     sync.Mutex // for what is below
	starts []*state
	states map[string]*state
	masks  map[uint64]*mask
	made   uint64
	slices []*slice
	sliced int     // bytes of slices
	bytes  int     // of states, masks and slices
	told   int     // of those, when last counted; under the cache's lock
	limit  int     // of those; twice as many end the text that needs them
	ranks  []int32 // of rules: those that one may begin with have higher ones
	w      walker
	m      masker
	configs
	closure
}

// closure is the working memory of the subset construction.
type closure struct {
	closed, todo []thread
	reaches      []reach
	stamps       []uint32            // of instructions that are there with the count 0
	counts       []counted           // and with another one
	seen         map[thread]struct{} // and with more
	stamp        uint32
	key          []byte
}

// maxBytes limits the memory that an Automaton caches; beyond it, the cache is cleared.
const maxBytes = 16 << 20

// newAutomaton compiles a grammar.
func newAutomaton(v *Vocabulary, namespace string, g *grammar.Grammar) (a *Automaton, err error) {
	defer func() {
		if r := refused(recover()); r != nil {
			a, err = nil, r
		}
	}()
	defer grammar.Catch(&err)
	p, err := newProgram(namespace, g, v)
	if err != nil {
		return nil, err
	}
	a = &Automaton{program: p, v: v, limit: maxBytes, ranks: p.rank()}
	a.classify()
	a.findLoops()
	a.seen = map[thread]struct{}{}
	a.stamps, a.counts = make([]uint32, len(p.insts)), make([]counted, len(p.insts))
	a.w.a = a
	a.w.meter = newMeter(maxMask, nil)
	a.reset()
	v.trie() // now rather than when a first text needs it
	if err := a.spell(); err != nil {
		return nil, err
	}
	a.findParts()
	a.findTurns()
	a.work = nil
	return a, nil
}

// reset clears the cache, except for slices. Texts keep their current states.
func (a *Automaton) reset() {
	a.starts = make([]*state, len(a.rules))
	a.states = map[string]*state{}
	a.masks = map[uint64]*mask{}
	a.bytes = a.sliced
	a.configs = configs{}
}

// classify finds the classes of bytes that no instruction distinguishes.
func (a *Automaton) classify() {
	var edge [257]bool
	for _, i := range a.insts {
		if i.op == opByte && !i.dead {
			edge[i.lo], edge[int(i.hi)+1] = true, true
		}
	}
	for b := range 256 {
		if b > 0 && edge[b] {
			a.classes++
		}
		a.classOf[b] = byte(a.classes)
	}
	a.classes++
}

// findParts finds what can come in unordered loops: what has texts that tokens spell.
func (a *Automaton) findParts() {
	for _, i := range a.insts {
		switch {
		case i.op != opPick || i.dead || i.unspelt:
		case i.lo == noPart:
			a.loops[i.arg].parts.more = true
		default:
			a.loops[i.arg].parts.left |= 1 << i.lo
		}
	}
}

func (a *Automaton) findLoops() {
	a.loopOf = slices.Repeat([]int32{-1}, len(a.insts))
	for pc, i := range a.insts {
		if i.op != opHead || !a.loops[i.arg].counted {
			continue
		}
		todo := []int32{int32(pc)}
		for len(todo) > 0 {
			pc := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if pc < 0 || a.loopOf[pc] >= 0 {
				continue
			}
			a.loopOf[pc] = i.arg
			if a.insts[pc].op != opTurn {
				todo = append(todo, a.insts[pc].out, a.insts[pc].alt)
			}
		}
	}
}

// New returns a Constraint at the beginning of a text. Where a text may end, an end token is allowed, besides
// any continuation. Without `ends`, or if the vocabulary has no end token, the text is complete when it
// cannot continue.
func (a *Automaton) New(ends bool) Constraint {
	t := &text{a: a, masks: forMasks, tokens: forTokens}
	t.count(0)
	if ends {
		t.ends = a.v.ends
	}
	heads := t.begin(&t.masks, maxMask)
	defer t.end()
	t.heads = append(heads, head{a.start(0), bottom})
	return t
}

// A text is a Constraint that follows an automaton.
type text struct {
	a     *Automaton
	ends  []int32
	heads []head   // of all places in the text, one after another; none after its end
	said  []byte   // the text, if elements of arrays have to differ
	past  []moment // before the current one

	arrays []arrayText // around the place, whose elements differ
	stale  bool        // arrays have to be made anew
	stop   func() bool
	blind  bool // there are no more forecasts: they take too long
	tally  *tally
	err    error

	masks, tokens allowance
	of            *allowance // of the current call
}

// A moment is a position in a text that can be returned to.
type moment struct {
	end   int // of its heads
	bytes int // of the stacks made until then

	said   int // bytes of the text
	arrays []arrayText
}

// A tally is the bytes of a text's stacks, which the vocabulary counts while the text exists. It does not lead to the
// vocabulary, from which texts may be reached: what the cleanup of a text holds is held as long as the text.
type tally struct {
	all   *atomic.Int64
	bytes int
}

func (y *tally) set(bytes int) {
	y.all.Add(int64(bytes - y.bytes))
	y.bytes = bytes
}

// count begins the tally of a new text.
func (t *text) count(bytes int) {
	t.tally = &tally{all: t.a.v.stacks}
	t.tally.set(bytes)
	runtime.AddCleanup(t, func(y *tally) { y.set(0) }, t.tally)
}

func (t *text) now() []head {
	if len(t.past) == 0 {
		return t.heads
	}
	return t.heads[t.past[len(t.past)-1].end:]
}

// begin locks the automaton for a call of at most so many steps of an allowance, which ends with t.end, deferred. It
// returns the heads at which the text is.
func (t *text) begin(of *allowance, steps int) []head {
	t.a.mu.Lock()
	t.a.w.meter, t.a.w.made, t.a.w.at = newMeter(min(steps, of.left), t.stop), 0, int32(len(t.past))
	of.left -= t.a.w.left // what is left of it is returned
	t.of = of
	return t.now()
}

// closed returns heads and those to which their rules may return.
func (t *text) closed(heads []head) []head {
	w := &t.a.w
	w.now = w.close(append(w.now[:0], heads...), 0)
	return w.now
}

// end ends a call. If it has exceeded a limit, the text has failed.
func (t *text) end() {
	a := t.a
	defer a.mu.Unlock()
	switch r := recover().(type) {
	case nil:
	case exceeded:
		t.err = r.error
		if a.bytes > a.limit {
			a.reset()
		}
	default:
		panic(r)
	}
	t.of.left = min(t.of.left+max(a.w.left, 0), t.of.most)
	a.w.stop = nil // the automaton outlives who waits for the text
	a.w.trim()
}

func (t *text) Mask(next Set) {
	heads := t.begin(&t.masks, maxMask)
	defer func() {
		if t.err != nil {
			clear(next)
		}
	}()
	defer t.end()
	if t.err != nil {
		return
	}
	t.a.m.add(t.a, heads, next)
	if t.a.distinct {
		t.renew()
		t.differ(heads, next)
	}
	if len(t.ends) > 0 && complete(t.closed(heads)) {
		for _, id := range t.ends {
			next.Add(id)
		}
	}
}

func (t *text) Accept(id int32) (took bool) {
	heads := t.begin(&t.tokens, maxAccept)
	defer t.end()
	if t.err != nil {
		return false
	}
	a := t.a
	heads = t.closed(heads)
	var to []head
	arrays := t.arrays
	if a.distinct {
		t.renew()
		at := t.spell(heads, id)
		to, arrays = a.w.orNamed(at.heads, heads, id), at.arrays
	} else {
		to = a.w.accept(heads, id)
	}
	if len(to) == 0 && !(slices.Contains(t.ends, id) && complete(heads)) {
		return false
	}
	to = a.w.inLimits(to)
	bytes := t.tally.bytes + a.w.made
	if bytes > maxGraph {
		panic(exceeded{ErrLimit})
	}
	t.past = append(t.past, moment{len(t.heads), t.tally.bytes, len(t.said), pared(t.arrays)})
	if a.distinct && a.takes(id) {
		t.said, t.arrays = append(t.said, a.v.piece(id)...), arrays
	}
	t.heads = append(t.heads, to...)
	t.tally.set(bytes)
	t.masks.left += t.masks.more
	t.tokens.left += t.tokens.more
	if a.bytes > a.limit {
		a.reset()
	}
	return true
}

// Err returns ErrLimit after the text exceeded the limits, and ErrStopped after it was stopped.
func (t *text) Err() error { return t.err }

// StopWhen implements Stopper.
func (t *text) StopWhen(gone func() bool) { t.stop = gone }

func (t *text) Rollback(n int) {
	if n > 0 {
		to := t.past[len(t.past)-n]
		t.heads, t.past = t.heads[:to.end], t.past[:len(t.past)-n]
		t.said, t.arrays, t.stale = t.said[:to.said], to.arrays, true
		t.tally.set(to.bytes)
	}
}

// Fork counts the stacks that both texts have for each, since either may outlive the other.
func (t *text) Fork() Constraint {
	f := *t
	f.heads, f.past, f.said, f.stop = slices.Clone(t.heads), slices.Clone(t.past), slices.Clone(t.said), nil
	f.count(t.tally.bytes)
	return &f
}
