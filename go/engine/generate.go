package engine

import (
	"context"
	"errors"
	"time"

	"github.com/quern-llm/quern/go/sample"
)

// Finish says why a generation ended.
type Finish string

const (
	Stopped  Finish = "stop"    // at a token that stops
	MaxedOut Finish = "length"  // at as many tokens as were asked for
	CtxFull  Finish = "context" // at the end of the context
)

// Stats are the counts and times of a generation.
type Stats struct {
	PromptTokens int
	Generated    int           // tokens, without the one that stopped
	TTFT         time.Duration // from the call to the first token
	Prefill      time.Duration // of which evaluating the prompt
	Decode       time.Duration // from the first token to the last
	Finish       Finish        // empty when it failed
}

// PrefillRate returns the tokens of the prompt per second.
func (s Stats) PrefillRate() float64 { return rate(s.PromptTokens, s.Prefill) }

// DecodeRate returns the tokens per second after the first, which comes out of
// the prefill.
func (s Stats) DecodeRate() float64 { return rate(s.Generated-1, s.Decode) }

// rate returns n per second of took, 0 where nothing was measured.
func rate(n int, took time.Duration) float64 {
	if n <= 0 || took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// Generate appends prompt to s and then samples tokens: at most limit of them, or
// without limit when that is below 0, until stop, which may be nil, holds for
// one. Each is given to emit, but for the one that stopped. The sampler accepts
// the prompt and what it chose. Afterwards s holds the prompt and all tokens but
// the last sampled.
func (e *Engine) Generate(ctx context.Context, s *Sequence, prompt []int32, smp *sample.Sampler, limit int,
	stop func(id int32) bool, emit func(id int32) error) (Stats, error) {
	st := Stats{PromptTokens: len(prompt)}
	if len(prompt) == 0 {
		return st, errors.New("the prompt is empty, want one token at least")
	}
	if err := e.fits(s, len(prompt)); err != nil {
		return st, err
	}
	leave := e.enter()
	defer leave()
	cancel := ctx.Err
	for _, id := range prompt {
		smp.Accept(id)
	}
	begun := time.Now()
	last := prompt // the tokens of the pass
	for at := 0; at < len(prompt); at += len(last) {
		last = prompt[at:min(at+e.batch, len(prompt))]
		if err := e.forward(cancel, s, last); err != nil {
			return st, err
		}
	}
	st.Prefill = time.Since(begun)
	if limit == 0 {
		st.Finish = MaxedOut
		return st, nil
	}
	first := begun
	var next [1]int32
	for {
		e.runner.Head(append(e.rows[:0], int32(len(last)-1)))
		id, err := smp.Sample(e.runner.Logits(0))
		if err != nil {
			return st, err
		}
		smp.Accept(id)
		now := time.Now()
		if st.TTFT == 0 {
			st.TTFT, first = now.Sub(begun), now
		}
		st.Decode = now.Sub(first)
		if stop != nil && stop(id) {
			st.Finish = Stopped
			return st, nil
		}
		if err := emit(id); err != nil {
			return st, err
		}
		st.Generated++
		switch {
		case st.Generated == limit:
			st.Finish = MaxedOut
			return st, nil
		case s.Len() == e.ctx:
			st.Finish = CtxFull
			return st, nil
		}
		next[0] = id
		last = next[:]
		if err := e.forward(cancel, s, last); err != nil {
			return st, err
		}
	}
}
