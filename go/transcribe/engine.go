package transcribe

import (
	"context"
	"math"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/media/prepare"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// An Engine is a Model that runs in an engine's loop. It is for one transcription at a time.
type Engine struct {
	Request engine.Request // whose flow, priority, deadline and origin all requests have
	submit  func(*engine.Request) (Ticket, error)
	config  *model.Config
	bands   int
	answer  int // positions
	region  *mem.Region
	mel     []float32   // frames, the first and the last silent
	frames  [][]float32 // rows of tokens, which overlap
}

// A Ticket is a handle of a request; engine.Ticket is one.
type Ticket interface{ Cancel() }

// NewEngine returns a Model whose requests submit takes. Its memory is reserved from the budget, unless that is nil.
func NewEngine(c *model.Config, b *mem.Budget, submit func(*engine.Request) (Ticket, error)) (*Engine, error) {
	bands, tokens := c.Sound.Bands, c.NSide
	if bands == 0 {
		return nil, ErrModel
	}
	e := &Engine{submit: submit, config: c, bands: bands, answer: c.NAnswer}
	n := (2*tokens + 2) * bands
	if b == nil {
		b = mem.NewBudget(uint64(4*n), "a window of sound")
	}
	var err error
	if e.region, err = b.Alloc("sound", uint64(4*n)); err != nil {
		return nil, err
	}
	e.mel = mem.Float32s(e.region.Bytes())[:n]
	for t := range tokens {
		e.frames = append(e.frames, e.mel[2*t*bands:][:c.Sound.Columns()])
	}
	return e, nil
}

// Close releases the memory.
func (e *Engine) Close() { e.region.Close() }

// Sizes are those of the model.
func (e *Engine) Sizes() (window, positions int) { return 100 / Step * len(e.frames), e.answer }

// Hear computes the spectrum of a window.
func (e *Engine) Hear(samples []float32) {
	copy(e.mel[e.bands:], prepare.LogMel(samples, e.bands, 2*len(e.frames), false))
}

// Say is one request of the loop.
func (e *Engine) Say(ctx context.Context, a Ask) (Said, error) {
	r := e.Request
	s := &saying{done: make(chan error, 1), at: len(e.frames) + a.At}
	r.Frames, r.Sink, r.Slot = e.frames, s, -1
	r.Params = generate.Params{
		Prompt: a.Head, MaxTokens: a.Most, Sampling: sample.Defaults(), TopLogprobs: 0,
		Rule: a.Rule, Stop: func(id int32) bool { return id == a.End },
	}
	p := &r.Params.Sampling
	p.TopK, p.TopP, p.MinP, p.Temp = 0, 1, 0, a.Temperature
	if a.First {
		r.Reader = s
	}
	return s.wait(ctx, e.submit, &r)
}

// wait submits a request, and returns what it says once that is done.
func (s *saying) wait(ctx context.Context, submit func(*engine.Request) (Ticket, error), r *engine.Request) (Said, error) {
	ticket, err := submit(r)
	if err != nil {
		return Said{}, err
	}
	select {
	case err = <-s.done:
	case <-ctx.Done():
		ticket.Cancel()
		<-s.done // the sound is read until then
		err = context.Cause(ctx)
	}
	return s.said, err
}

// saying is the Sink of a request, and its Reader.
type saying struct {
	at   int
	said Said
	done chan error
}

func (s *saying) Progress(engine.Progress) {}

func (s *saying) Token(t generate.Token) bool {
	s.said.Logprob += float64(t.Logprob.Value)
	if !t.Stop {
		s.said.Tokens = append(s.said.Tokens, t.ID)
	}
	return true
}

func (s *saying) Done(r engine.Result) { s.done <- r.Err }

func (s *saying) Reads() (output string, from, to int) { return nn.Logits, s.at, s.at + 1 }

func (s *saying) Read(_ int, row []float32) { s.said.First = append(s.said.First, row...) }

func (s *saying) End(func(output string, given []float32) []float32) {}

// probability returns that of a token, by logits.
func probability(logits []float32, id int32) float64 {
	own, _ := sample.Logprobs(logits, id, 0)
	return math.Exp(float64(own.Value))
}
