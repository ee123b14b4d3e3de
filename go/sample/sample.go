package sample

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// ErrNoToken reports logits among which none can be chosen: each is NaN or -Inf.
var ErrNoToken = errors.New("no token can be chosen: every logit is NaN or -Inf, or its token is banned")

// A Sampler chooses the tokens of one sequence. It is not safe for concurrent use.
type Sampler struct {
	params   Params
	chain    chain
	minLog   float64 // of min-p: how far below the largest logit a token may be
	nVocab   int
	rng      twister
	removes  twister // draws for XTC, apart from the choice of tokens
	window   window
	dry      history
	feedback feedback
	target   float64 // of adaptive-p, for the last choice
	mayEnd   bool    // whether nothing rules the token out with which infill ends the text

	edits  []edit    // what penalties and DRY did to the logits
	logits []float32 // all of them, while a token is chosen
	peaks  []float32 // of the logits: see kernel.Peaks
	top    float32   // the largest
	all    bool      // all with a logit of at least `from` are candidates; else the tokens of kept are
	from   float32   // finite or larger
	last   int32     // the largest id of the candidates with that logit
	kept   []token
	beta   float64 // weights are e to the logit times this, which the temperature divides; 0: the choice was certain

	masses  []kernel.Mass // scratch of weigh
	bins    []float64     // scratch of reach and cut
	members []int32       // scratch of reach
	chances []float64     // scratch of infill: probabilities of kept
}

// finite is the least logit of a token that can be chosen.
const finite = -math.MaxFloat32

// A token is a candidate.
type token = kernel.Token

// before tells whether t comes before u: the larger logit, and the lower id
// among equal ones.
func before(t, u token) bool {
	return t.Logit > u.Logit || t.Logit == u.Logit && t.ID < u.ID
}

// inOrder is before for sorting.
func inOrder(t, u token) int {
	switch {
	case before(t, u):
		return -1
	case before(u, t):
		return 1
	default:
		return 0
	}
}

// New returns a Sampler over a vocabulary of nVocab tokens. The parameters are
// those that passed Validate.
func New(p Params, nVocab int) *Sampler {
	s := &Sampler{nVocab: nVocab, minLog: logOf(min(p.MinP, 1))}
	s.rng.seed(p.Seed)
	if s.chain = p.compile(); s.chain.has('x') {
		s.removes.seed(p.Seed)
	}
	if s.chain.has('e') {
		s.window.limit = p.RepeatLastN
	}
	if s.chain.has('d') {
		s.dry = newHistory(&p)
	}
	s.feedback = newFeedback(&p)
	s.params = p
	return s
}

// logOf returns an exact logarithm, which takes microseconds: it keeps the last, as most requests have the same min-p.
func logOf(p float32) float64 {
	if l := lastLog.Load(); l != nil && l.of == p {
		return l.log
	}
	l := &logarithm{p, exactmath.Log(float64(p))}
	lastLog.Store(l)
	return l.log
}

type logarithm struct {
	of  float32
	log float64
}

var lastLog atomic.Pointer[logarithm]

// Accept records a token of the prompt or of the output, on which later choices may
// depend. An id outside the vocabulary is ignored.
func (s *Sampler) Accept(id int32) {
	if id < 0 || int(id) >= s.nVocab {
		return
	}
	s.window.push(id)
	s.dry.push(id)
	s.feedback.accept(id, &s.params, &s.chain)
}

// Bytes returns the maximum memory of a Sampler over nVocab tokens beside what it knows of a text: the candidates, what
// is known of the logits block by block, and the bins.
func Bytes(nVocab int) int { return 12*nVocab + nVocab/8 + 128<<10 }

// TextBytes returns the maximum memory that a Sampler with these parameters over nVocab tokens takes for what penalties
// and DRY know of a text of n tokens.
func (p *Params) TextBytes(nVocab, n int) (bytes int) {
	within := func(limit int) int {
		if limit < 0 {
			return n
		}
		return min(limit, n)
	}
	c, edits := p.compile(), 0
	if c.has('e') {
		last := within(p.RepeatLastN)
		bytes += mem.Appended(4*last) + mem.Appended(8*min(last, nVocab)) // window: last, counts
		edits += min(last, nVocab)
	}
	if c.has('d') {
		last := within(p.DryLastN)
		bytes += 2*mem.Appended(4*last) + mem.Appended(4*last)              // history: tokens, same
		bytes += mem.Appended(8*min(last, nVocab)) + mem.Appended(4*nVocab) // longest, place
		edits += min(last, nVocab)
	}
	return bytes + mem.Appended(8*edits)
}

// Trim releases scratch memory, which is at most as large as the vocabulary. The next
// Sample allocates it again.
func (s *Sampler) Trim() {
	s.kept, s.peaks, s.masses, s.bins, s.members, s.chances = nil, nil, nil, nil, nil, nil
	s.dry.same, s.dry.longest, s.dry.place = nil, nil, nil
}

// Likeliest returns the id of the largest logit, the lowest of equal ones. There is at least one logit.
func Likeliest(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Sample returns the id of the token chosen by its logits, which it leaves as
// they are, though it changes them meanwhile. It draws once, and for XTC apart from that, or not at all where only the
// temperature chooses and is 0: then the largest logit wins, and the lowest id among
// equal ones. A logit of +Inf wins at any temperature. It fails with ErrNoToken, or when
// there are not nVocab logits. The choice is not yet accepted: whatever else a choice
// changes for the next ones, Accept does.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	if len(logits) != s.nVocab {
		return 0, fmt.Errorf("sample: %d logits for a vocabulary of %d", len(logits), s.nVocab)
	}
	s.edit(logits)
	defer s.restore()
	s.peaks = kernel.Peaks(s.peaks, logits)
	s.top = largest(s.peaks)
	s.feedback.id, s.kept, s.beta = -1, s.kept[:0], 1
	s.all, s.from, s.last = true, finite, math.MaxInt32
	if s.top < finite {
		return 0, ErrNoToken
	}
	if s.chain.greedy {
		s.beta = 0
		return s.best().ID, nil
	}
	u := s.rng.uniform()
	if s.top > math.MaxFloat32 { // its distance from itself is NaN
		s.beta = 0
		return s.best().ID, nil
	}
	return s.walk(u), nil
}

// draw picks among the candidates by their weights.
func (s *Sampler) draw(u float64) int32 {
	top, sum, _ := s.sums()
	last, from, end := int32(-1), 0, len(s.kept)
	left := float64(u * sum) // converted, or some machines would fuse it with what follows
	if s.many() {
		var block int
		block, left = s.blockOf(left)
		from, end = block*kernel.LogitsBlock, min((block+1)*kernel.LogitsBlock, s.candidates())
	}
	for i := from; i < end; i++ {
		t := s.candidate(i)
		if w := s.weight(t, top); w > 0 {
			last = t.ID
			if left -= w; left < 0 {
				break
			}
		}
	}
	if last < 0 {
		return s.best().ID // all weights of a block are negligible
	}
	return last // when rounding left a remainder, the last one that had a chance
}

// blockOf returns the block of candidates in which the weights reach left, and what is left of it there.
func (s *Sampler) blockOf(left float64) (int, float64) {
	last := 0
	for i, m := range s.masses {
		sum := float64(m.Sum)
		if left < sum {
			return i, left
		}
		if sum > 0 {
			last = i
		}
		left -= sum
	}
	return last, math.Inf(1) // rounding left a remainder
}

// largest returns the largest of the peaks, -Inf if there is none.
func largest(peaks []float32) float32 {
	top := float32(math.Inf(-1))
	for _, peak := range peaks {
		top = max(top, peak)
	}
	return top
}

// first returns the token that comes before the others.
func first(tokens []token) token {
	best := tokens[0]
	for _, t := range tokens[1:] {
		if before(t, best) {
			best = t
		}
	}
	return best
}
