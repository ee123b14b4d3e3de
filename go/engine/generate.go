package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sched"
)

// Stats are the counts and times of a generation.
type Stats struct {
	PromptTokens int
	CachedTokens int             // of which the sequence already had
	Generated    int             // tokens, without the stop token
	TTFT         time.Duration   // from the call to the first token
	Prefill      time.Duration   // of which evaluation of the prompt
	Decode       time.Duration   // from the first token to the last
	Finish       generate.Finish // empty when it failed
	Shifts       int             // how often the context was shifted
	Passes       int             // that evaluated tokens after the prompt
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

// generation returns a Generation for this model, of a prompt with media whose ids are known.
func (e *Engine) generation(p generate.Params, media []placed) (*generate.Generation, error) {
	vocab := e.model.Config.NVocab
	for _, b := range p.Bias {
		if b.ID < 0 || int(b.ID) >= vocab {
			return nil, fmt.Errorf("%w: a bias is for %d, want 0 to %d", model.ErrToken, b.ID, vocab-1)
		}
	}
	return generate.New(p, generate.Config{Vocab: vocab, Ctx: e.ctx, MaxRows: maxOut, Banned: e.banned, Shift: e.shiftOf(&p, media)})
}

// known returns an error that wraps model.ErrToken for ids outside the vocabulary.
func known(ids []int32, vocab int) error {
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%w: token %d is %d, want 0 to %d", model.ErrToken, i, id, vocab-1)
		}
	}
	return nil
}

// Generate generates with the parameters p. It reuses the prefix of the prompt that s has; afterwards s holds
// the prompt and all tokens but the last sampled one. emit is called with each token except a stop token.
//
// It is a Loop with one request, run by the caller. Nothing was measured for it in advance: it learns what passes
// cost from its own.
func (e *Engine) Generate(ctx context.Context, s *Sequence, p generate.Params, emit func(id int32) error, media ...Medium) (Stats, error) {
	st := Stats{PromptTokens: len(p.Prompt)}
	p, source, err := e.begun(p, nil)
	if err != nil {
		return st, err
	}
	seen, err := e.look(p.Prompt, media)
	if err != nil {
		return st, err
	}
	prompt, held := e.name(p.Prompt, seen)
	p.Prompt = prompt
	defer e.mediaIDs.release(held)
	gen, err := e.generation(p, seen)
	if err != nil {
		return st, err
	}
	if most := gen.Shift.Room(0, e.ctx); len(p.Prompt) > most {
		return st, fmt.Errorf("%w: %d tokens in a context of %d", ErrTooLong, len(p.Prompt), most)
	}
	if e.alone == nil {
		e.alone = newLoop(e, LoopConfig{}, sched.Config{Alone: true, Running: 1, Memory: anyMemory{}})
	}
	l, out := e.alone, &emitter{emit: emit}
	leave := e.device.enter()
	defer leave()
	j := &job{Request: &Request{Params: p, Sink: out, Slot: -1}, gen: gen, source: source, media: seen, namespace: s.space, slot: -1, submitted: time.Now()}
	l.begin(j, s)
	defer context.AfterFunc(ctx, func() { l.end(j, ctx.Err()) })()
	for !out.done {
		if ctx.Err() != nil {
			l.end(j, ctx.Err())
		}
		l.turn()
	}
	l.rest()
	l.given = nil
	st.count(j, out)
	return st, out.err
}

// begin adds the only request of a loop, which extends a sequence of the caller's.
func (l *Loop) begin(j *job, s *Sequence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = s
	l.lastID++
	j.id = l.lastID
	_, _ = l.sched.Add(sched.Request{ID: j.id, Prompt: len(j.Prompt), MaxTokens: math.MaxInt32, Spans: l.e.spansOf(j.media, len(j.Prompt))}, l.now()) // there is no other
	l.take(j)
}

// count sets the counts and times of a request that has ended.
func (st *Stats) count(j *job, out *emitter) {
	u := j.usage
	st.CachedTokens, st.Generated, st.Passes, st.Shifts, st.Drafted = u.CachedTokens, out.emitted, u.Passes, u.Shifts, u.Drafted
	if st.Decode = u.Decode; !j.first.IsZero() {
		st.TTFT = j.first.Sub(j.submitted)
	}
	if !j.prompted.IsZero() {
		st.Prefill = j.prompted.Sub(j.submitted)
	}
	if out.err == nil {
		st.Finish = out.finish
	}
}

// anyMemory says that sequences take no memory, so a request is not planned by it, and fails where there is none.
type anyMemory struct{}

func (anyMemory) Bytes(int) uint64       { return 0 }
func (anyMemory) Growth(_, _ int) uint64 { return 0 }
func (anyMemory) Copy() uint64           { return 0 }

// An emitter is the Sink of Generate.
type emitter struct {
	emit    func(id int32) error
	emitted int
	done    bool
	finish  generate.Finish
	err     error // of emit, or of the request
}

func (o *emitter) Progress(Progress) {}

func (o *emitter) Token(t generate.Token) bool {
	if t.Stop {
		return true
	}
	if o.err = o.emit(t.ID); o.err != nil {
		return false
	}
	o.emitted++
	return true
}

func (o *emitter) Done(r Result) {
	o.done, o.finish = true, r.Finish
	if o.err == nil {
		o.err = r.Err
	}
}
