package constrain

import (
	"slices"
	"sync"

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
	sliced int // bytes of slices
	bytes  int // of states, masks and slices
	told   int // of those, when last counted; under the cache's lock
	limit  int // of those; twice as many end the text that needs them
	w      walker
	m      masker
	closure
}

// closure is the working memory of the subset construction.
type closure struct {
	closed, todo []thread
	reaches      []reach
	seen         map[thread]struct{}
	stamps       []uint32
	stamp        uint32
	key          []byte
}

// maxBytes limits the memory that an Automaton caches; beyond it, the cache is cleared.
const maxBytes = 16 << 20

// newAutomaton compiles a grammar.
func newAutomaton(v *Vocabulary, g *grammar.Grammar) (*Automaton, error) {
	p, err := newProgram(g, v.n)
	if err != nil {
		return nil, err
	}
	a := &Automaton{program: p, v: v, limit: maxBytes}
	a.classify()
	a.findLoops()
	a.seen = map[thread]struct{}{}
	a.stamps = make([]uint32, len(p.insts))
	a.w.a = a
	a.reset()
	v.trie() // now rather than when a first text needs it
	if err := a.spell(); err != nil {
		return nil, err
	}
	a.findTurns()
	return a, nil
}

// reset clears the cache, except for slices. Texts keep their current states.
func (a *Automaton) reset() {
	a.starts = make([]*state, len(a.rules))
	a.states = map[string]*state{}
	a.masks = map[uint64]*mask{}
	a.bytes = a.sliced
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
	t := &text{a: a}
	if ends {
		t.ends = a.v.ends
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.heads = []head{{a.start(0), bottom}}
	return t
}

// A text is a Constraint that follows an automaton.
type text struct {
	a     *Automaton
	ends  []int32
	heads []head // of all places in the text, one after another; none after its end
	past  []int  // where those of each place before the current one end
	err   error
}

func (t *text) now() []head {
	if len(t.past) == 0 {
		return t.heads
	}
	return t.heads[t.past[len(t.past)-1]:]
}

func (t *text) Mask(next Set) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	defer t.within()
	if t.err != nil {
		return
	}
	t.a.m.add(t.a, t.now(), next)
	if len(t.ends) > 0 && t.a.w.complete(t.now()) {
		for _, id := range t.ends {
			next.Add(id)
		}
	}
}

func (t *text) Accept(id int32) (took bool) {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	defer t.within()
	if t.err != nil {
		return false
	}
	heads := a.w.accept(t.now(), id)
	if len(heads) == 0 && !(slices.Contains(t.ends, id) && a.w.complete(t.now())) {
		return false
	}
	t.past = append(t.past, len(t.heads))
	t.heads = append(t.heads, heads...)
	if a.bytes > a.limit {
		a.reset()
	}
	return true
}

// tooMuch is the panic of intern when a single step creates too many states.
type tooMuch struct{}

// within recovers from tooMuch and frees the states. The text has then failed.
func (t *text) within() {
	switch r := recover(); r {
	case nil:
	case tooMuch{}:
		t.a.reset()
		t.err = ErrLimit
	default:
		panic(r)
	}
}

// Err returns ErrLimit after a text exceeded the limits.
func (t *text) Err() error { return t.err }

func (t *text) Rollback(n int) {
	if n > 0 {
		t.heads = t.heads[:t.past[len(t.past)-n]]
		t.past = t.past[:len(t.past)-n]
	}
}

func (t *text) Fork() Constraint {
	f := *t
	f.heads, f.past = slices.Clone(t.heads), slices.Clone(t.past)
	return &f
}

// complete reports whether a text may end.
func (w *walker) complete(heads []head) bool {
	deeper := false
	for _, h := range heads {
		if h.s.accepts && h.n.bottom {
			return true
		}
		deeper = deeper || h.s.accepts
	}
	if !deeper {
		return false
	}
	w.reach = w.returns(w.reach[:0], heads)
	return slices.ContainsFunc(w.reach, func(h head) bool { return h.s.accepts && h.n.bottom })
}

// accept returns the heads after a token, valid until the next call.
func (w *walker) accept(heads []head, id int32) []head {
	w.to = w.to[:0]
	w.reach = w.returns(w.reach[:0], heads)
	for _, h := range w.reach {
		w.a.calls(h.s)
		for _, m := range h.s.tokens {
			if w.a.names(m.set, id) {
				w.to = w.move(w.to, 0, h.n, m.move)
			}
		}
	}
	piece := w.a.v.piece(id)
	if len(piece) > 0 && len(piece) < 1<<16 && id >= 0 && int(id) < w.a.v.n && !slices.Contains(w.a.v.ends, id) {
		from := append(w.from[:0], heads...)
		to := w.spare[:0]
		for _, b := range piece {
			to = w.step(to[:0], from, b)
			from, to = to, from
		}
		w.from, w.spare = from, to
		for _, h := range from {
			w.to = w.move(w.to, 0, h.n, move{to: h.s})
		}
	}
	return spelt(w.to)
}

// names reports whether a token is in a set.
func (a *Automaton) names(set, id int32) bool {
	s := &a.tokens[set]
	_, found := slices.BinarySearch(s.ids, id)
	return found != s.not && (!s.not || len(a.v.piece(id)) > 0 && !slices.Contains(a.v.ends, id))
}
