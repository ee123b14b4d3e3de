package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// Stats are the counts and times of a generation.
type Stats struct {
	PromptTokens int
	CachedTokens int           // of which the sequence already had
	Generated    int           // tokens, without the stop token
	TTFT         time.Duration // from the call to the first token
	Prefill      time.Duration // of which evaluation of the prompt
	Decode       time.Duration // from the first token to the last
	Finish       Finish        // empty when it failed
	Shifts       int           // how often the context was shifted
	Passes       int           // that evaluated tokens after the prompt
	Drafted      draft.Counts
}

// PrefillRate returns the prompt tokens evaluated per second, without cached ones.
func (s Stats) PrefillRate() float64 { return rate(s.PromptTokens-s.CachedTokens, s.Prefill) }

// DecodeRate returns the tokens per second after the first token, which is a result of the prefill.
func (s Stats) DecodeRate() float64 { return rate(s.Generated-1, s.Decode) }

// rate returns n per second, or 0 if nothing was measured.
func rate(n int, took time.Duration) float64 {
	if n <= 0 || took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// generation returns a Generation for this model.
func (e *Engine) generation(p Params) (*Generation, error) {
	g, err := NewGeneration(p, e.model.Config.NVocab, e.ctx)
	if err == nil {
		g.banned, g.shift = e.banned, e.shiftingOf(&p)
	}
	return g, err
}

// Generate generates with the parameters p. It reuses the prefix of the prompt that s has; afterwards s holds
// the prompt and all tokens but the last sampled one. emit is called with each token except a stop token.
func (e *Engine) Generate(ctx context.Context, s *Sequence, p Params, emit func(id int32) error) (Stats, error) {
	st := Stats{PromptTokens: len(p.Prompt)}
	p = e.begun(p)
	g, err := e.generation(p)
	if err != nil {
		return st, err
	}
	if most := g.shift.room(0, e.ctx); len(p.Prompt) > most {
		return st, fmt.Errorf("%w: %d tokens in a context of %d", ErrTooLong, len(p.Prompt), most)
	}
	if e.model.Config.OnePass() {
		s.Truncate(0)
		s.source = e.source(p.Prompt)
	}
	st.CachedTokens = s.rewind(p.Prompt[:len(p.Prompt)-1]) // the last is evaluated in any case, for its logits
	g.Resume(st.CachedTokens)
	cuts := cuts(e.tree.Cuts(s.space, p.Prompt, st.CachedTokens))
	if s, ok := g.Constraint.(constrain.Stopper); ok {
		s.StopWhen(func() bool { return ctx.Err() != nil })
	}
	leave := e.device.enter()
	defer leave()
	c, forget := cancelOf(ctx)
	defer forget()
	begun := time.Now()
	var drafting time.Duration // for the next pass
	g.Speculate(e.library, s.space)
	text := e.drafts.text(g, e.library, s.space)
	defer text.close()
	own := e.mtp.text(g, e.library)
	if g.drafter != nil {
		defer func() { e.library.Keep(s.space, g.Known()[len(p.Prompt):]) }()
	}
	for {
		if err := e.device.inTurn(func() error { return s.makeWay(g) }); err != nil {
			return st, err
		}
		room := g.shift.room(s.Len(), cuts.slice(s.Len(), e.kv.Layout().Room(s.Len(), e.batch)))
		start := time.Now()
		n, branches := e.affordable(g, s.Len(), room)
		if len(g.draft) > 0 {
			drafting += time.Since(start)
		}
		e.ids = g.Pending(e.ids[:0], n)
		n = len(e.ids)
		e.item[0] = Item{Seq: s, IDs: e.ids, Rows: g.Rows(n), Branches: g.Split(branches)}
		at := s.Len()
		var step Step
		var masks masks
		if g.Constraint != nil && e.item[0].Rows > 0 {
			masks = compute(func() { g.Prepare(n) })
		}
		var pass sched.Pass
		shape := sched.ShapeOf(at, n)
		shape.Rows = e.item[0].Rows
		err := e.device.inTurn(func() error {
			start := time.Now()
			e.awaited = false
			err := e.pass(c, e.item[:])
			if !masks.ready() { // other models need not wait for them
				e.awaited = true
				e.device.aside(masks.wait)
			}
			if err != nil {
				return err
			}
			g.keepBranches(len(e.item[0].Branches))
			for _, b := range e.item[0].Branches {
				shape = shape.Add(at, len(b.IDs))
				shape.Rows += b.Rows
				shape.Branches++
			}
			pass = g.pass(at, n)
			if st.TTFT == 0 {
				st.Prefill = time.Since(begun)
				if e.kv.Layout().Forgets() {
					s.keepPrompt(s.space, cuts, len(p.Prompt))
				}
			}
			err = e.heads(e.item[:], func(parts []part) (err error) {
				if step, err = g.Advance(n, parts[0].rows); errors.Is(err, constrain.ErrStopped) {
					err = ctx.Err()
				}
				return err
			})
			if e.mtp != nil && err == nil {
				e.mtp.keep(e.item[:], []*Generation{g}, []*mtpText{own})
			}
			if took := time.Since(start); !e.timeless && !e.awaited {
				e.cost.Observe(shape, took)
				if st.TTFT > 0 && step.Finish == "" {
					pass.Took, pass.Tokens, pass.Drafting = took, len(step.Tokens), drafting
					e.cost.Generated(pass)
				}
			}
			return err
		})
		e.item[0].adopt(g.taken)
		s.settle(g)
		st.Drafted = st.Drafted.Plus(step.Drafts)
		if st.TTFT > 0 {
			st.Passes++
		}
		if len(step.Tokens) > 0 {
			if st.Decode = time.Since(begun); st.TTFT == 0 {
				st.TTFT = st.Decode
			}
			st.Decode -= st.TTFT
		}
		for _, t := range step.Tokens {
			if t.Stop {
				break
			}
			if err := emit(t.ID); err != nil {
				return st, err
			}
			st.Generated++
		}
		if err != nil || step.Finish != "" {
			st.Finish, st.Shifts = step.Finish, g.shifts
			return st, err
		}
		if len(step.Tokens) > 0 {
			drafting = e.draftAlone(g, own, text)
		}
	}
}
