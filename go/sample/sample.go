package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// ErrNoToken reports logits among which none can be chosen: each is NaN or -Inf.
var ErrNoToken = errors.New("no token can be chosen: every logit is NaN or -Inf, or its token is banned")

// A Sampler chooses the tokens of one sequence. It is not safe for concurrent use.
type Sampler struct {
	params   Params
	chain    chain
	minLog   float64 // of min-p: how far below the largest logit a token may be
	nVocab   int
	rng      rand.PCG
	window   window
	dry      history
	feedback feedback
	target   float64 // of adaptive-p, for the last choice
	mayEnd   bool    // whether nothing rules the token out with which infill ends the text

	edits   []token    // logits changed by penalties and DRY, in order of id
	one     [1]float32 // one of these, see runs
	kept    []token    // the candidates
	beta    float64    // the draw's 1/temperature; 0: the choice was certain
	all     bool       // the draw was among all tokens: kept has none
	bins    []float64  // scratch of topP and reach
	members []int32    // scratch of reach
	chances []float64  // scratch of infill: probabilities of kept
}

// finite is the least logit of a token that can be chosen.
const finite = -math.MaxFloat32

// A token is a candidate.
type token struct {
	id    int32
	logit float32
}

// before tells whether t comes before u: the larger logit, and the lower id
// among equal ones.
func (t token) before(u token) bool {
	return t.logit > u.logit || t.logit == u.logit && t.id < u.id
}

// inOrder is before for sorting.
func inOrder(t, u token) int {
	switch {
	case t.before(u):
		return -1
	case u.before(t):
		return 1
	default:
		return 0
	}
}

// New returns a Sampler over a vocabulary of nVocab tokens. The parameters are
// those that passed Validate.
func New(p Params, nVocab int) *Sampler {
	s := &Sampler{nVocab: nVocab, minLog: exactmath.Log(float64(min(p.MinP, 1)))}
	s.rng.Seed(p.Seed, 0x9e3779b97f4a7c15) // any constant: a PCG is seeded with two words
	s.chain = p.compile()
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

// Bytes returns the maximum memory of a Sampler over nVocab tokens for a text of ctx tokens:
// the candidates, the bins, and what penalties and DRY know of the text.
func Bytes(nVocab, ctx int) int { return 8*nVocab + 64<<10 + 32*ctx }

// Trim releases scratch memory, which is at most as large as the vocabulary. The next
// Sample allocates it again.
func (s *Sampler) Trim() {
	s.kept, s.bins, s.members, s.chances = nil, nil, nil, nil
}

// Sample returns the id of the token chosen by its logits, which it leaves as
// they are. It draws once, and once more for XTC, or not at all where only the
// temperature chooses and is 0: then the largest logit wins, and the lowest id among
// equal ones. A logit of +Inf wins at any temperature. It fails with ErrNoToken, or when
// there are not nVocab logits. The choice is not yet accepted: whatever else a choice
// changes for the next ones, Accept does.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	if len(logits) != s.nVocab {
		return 0, fmt.Errorf("sample: %d logits for a vocabulary of %d", len(logits), s.nVocab)
	}
	s.edit(logits)
	s.beta, s.all, s.feedback.id = 0, false, -1
	if s.chain.greedy {
		best := s.greedy(logits)
		if best.id < 0 {
			return 0, ErrNoToken
		}
		return best.id, nil
	}
	u := s.uniform()
	if !s.chain.quick {
		return s.walk(logits, u)
	}
	s.beta = 1 / float64(s.params.Temp)
	if s.params.filters(len(logits)) {
		s.filter(logits)
		if len(s.kept) == 0 {
			return 0, ErrNoToken
		}
		return s.draw(u), nil
	}
	s.all = true
	return s.drawAll(logits, u)
}

// uniform draws from [0, 1).
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// greedy returns the token with the largest logit; its id is -1 when there is none.
func (s *Sampler) greedy(logits []float32) token {
	best := token{-1, float32(math.Inf(-1))}
	for first, run := range s.runs(logits) {
		for i, v := range run {
			if v > best.logit { // false for NaN
				best = token{first + int32(i), v}
			}
		}
	}
	return best
}

// draw picks among the kept tokens by their probabilities at the temperature.
func (s *Sampler) draw(u float64) int32 {
	best := first(s.kept)
	top, beta, sum := float64(best.logit), s.beta, 0.0
	for _, t := range s.kept {
		sum += weight((float64(t.logit) - top) * beta)
	}
	left := float64(u * sum) // converted, or some machines would fuse it with what follows
	last := best.id
	for _, t := range s.kept {
		if w := weight((float64(t.logit) - top) * beta); w > 0 {
			last = t.id
			if left -= w; left < 0 {
				break
			}
		}
	}
	return last // when rounding left a remainder, the last one that had a chance
}

// drawAll does as draw among all tokens, without keeping a list of them.
func (s *Sampler) drawAll(logits []float32, u float64) (int32, error) {
	best := s.greedy(logits)
	if best.id < 0 {
		return 0, ErrNoToken
	}
	top, beta, sum := float64(best.logit), s.beta, 0.0
	for _, run := range s.runs(logits) {
		so := sum
		for _, v := range run {
			so += weight((float64(v) - top) * beta)
		}
		sum = so
	}
	left := float64(u * sum)
	last := best.id
	for first, run := range s.runs(logits) {
		rest, at := left, -1
		for i, v := range run {
			if w := weight((float64(v) - top) * beta); w > 0 {
				at = i
				if rest -= w; rest < 0 {
					return first + int32(i), nil
				}
			}
		}
		if left = rest; at >= 0 {
			last = first + int32(at)
		}
	}
	return last, nil
}

// first returns the token that comes before the others.
func first(tokens []token) token {
	best := tokens[0]
	for _, t := range tokens[1:] {
		if t.before(best) {
			best = t
		}
	}
	return best
}
