// Package fake starts whole servers for tests: on an engine that answers with a script, where a test is about the
// server alone, and on the real engine with the demo model or one that says known texts. Only tests import it.
package fake

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
)

// An Engine answers each request with a script.
type Engine struct {
	Tok   *tokenizer.Tokenizer
	Reply string
	Delay time.Duration // before each token
	Parts int           // of a prompt, with the delay between them
	Err   error         // of Submit
	Ends  error         // of requests, after their script
	Quiet bool          // it takes everything and generates nothing

	Overflows bool    // all numbers that Readers read are NaN
	RuledOut  []int32 // tokens that cannot come, of those that Readers read; all others are as likely
	// Vector returns what Readers of vectors and of tokens' scores get for a token of a request; nil: {3, 4} for each.
	Vector func(r *engine.Request, token int) []float32

	Requests []*engine.Request // a test may set it to nil between its own

	mu      sync.Mutex
	running int
	nextID  uint64
}

type ticket struct {
	id   uint64
	stop context.CancelFunc
}

func (t *ticket) ID() uint64 { return t.id }
func (t *ticket) Cancel()    { t.stop() }

func (f *Engine) Submit(r *engine.Request) (ask.Ticket, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	if f.Quiet && r.Reader == nil {
		go r.Sink.Done(engine.Result{Finish: generate.MaxedOut, Usage: engine.Usage{PromptTokens: len(r.Prompt)}})
		return &ticket{1, func() {}}, nil
	}
	if len(r.Prompt) >= 512 {
		return nil, &engine.TooLongError{Prompt: len(r.Prompt), Ctx: 512}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID++
	f.running++
	f.Requests = append(f.Requests, r)
	ctx, stop := context.WithCancel(context.Background())
	go f.run(ctx, r)
	return &ticket{f.nextID, stop}, nil
}

func (f *Engine) Embedding(tokens int, pooling nn.Pooling) (*engine.Embedding, error) {
	return engine.NewEmbedding(tokens, pooling), nil
}

func (f *Engine) run(ctx context.Context, r *engine.Request) {
	u := engine.Usage{
		PromptTokens: len(r.Prompt), CachedTokens: min(4, len(r.Prompt)-1), Prefill: time.Millisecond, Slot: 1,
	}
	r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: u.CachedTokens})
	for range f.Parts {
		select {
		case <-ctx.Done():
		case <-time.After(f.Delay):
		}
		r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: u.CachedTokens})
	}
	r.Sink.Progress(engine.Progress{Total: len(r.Prompt), Cached: u.CachedTokens, Done: len(r.Prompt)})
	if r.Reader != nil {
		output, from, to := r.Reader.Reads()
		row := map[string][]float32{nn.Vectors: {3, 4}, nn.Logits: make([]float32, f.Tok.Len())}[output]
		if f.Overflows {
			for i := range row {
				row[i] = float32(math.NaN())
			}
		}
		if output == nn.Logits {
			for _, id := range f.RuledOut {
				row[id] = float32(math.Inf(-1))
			}
		}
		for i := from; i < to; i++ {
			if f.Vector != nil && output != nn.Logits {
				row = f.Vector(r, i)
			}
			r.Reader.Read(i, row)
		}
		r.Reader.End(nil)
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
		r.Sink.Done(engine.Result{Finish: generate.MaxedOut, Usage: u})
		return
	}
	script := append(f.Tok.Encode(f.Reply, tokenizer.Options{NoSpecial: true, ParseSpecial: true}), 2)
	banned := len(r.Bias) > 0 && r.Bias[0].ID == 2
	result := engine.Result{Finish: generate.Stopped}
	for i := 0; ; i++ {
		if r.MaxTokens >= 0 && u.Generated >= r.MaxTokens {
			result.Finish = generate.MaxedOut
			break
		}
		if u.Generated+len(r.Prompt) >= 512 {
			result.Finish = generate.CtxFull
			break
		}
		if f.Delay > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(f.Delay):
			}
		}
		if ctx.Err() != nil {
			result = engine.Result{Err: context.Canceled}
			break
		}
		id := script[i%len(script)]
		if id == 2 && f.Ends != nil {
			result = engine.Result{Err: f.Ends}
			break
		}
		if id == 2 && banned {
			continue
		}
		t := generate.Token{ID: id, Stop: r.Stop != nil && r.Stop(id)}
		if r.TopLogprobs >= 0 {
			t.Logprob = sample.Logprob{ID: id, Value: -0.5}
			for k := range r.TopLogprobs {
				t.Top = append(t.Top, sample.Logprob{ID: id + int32(k), Value: -0.5 - float32(k)})
			}
		}
		u.Generated++
		u.Decode += time.Millisecond
		if !r.Sink.Token(t) {
			break
		}
	}
	result.Usage = u
	f.mu.Lock()
	f.running--
	f.mu.Unlock()
	r.Sink.Done(result)
}

// Active returns how many requests run.
func (f *Engine) Active() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Submitted returns how many requests there were.
func (f *Engine) Submitted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.Requests)
}

// Last returns the request that came last.
func (f *Engine) Last() *engine.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Requests[len(f.Requests)-1]
}

// LastPrompt is the text of the prompt that the engine got last.
func (f *Engine) LastPrompt() string {
	var b strings.Builder
	for _, id := range f.Last().Prompt {
		b.Write(f.Tok.Piece(id, true))
	}
	return b.String()
}

func (f *Engine) Status() engine.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	slots := make([]engine.SlotStatus, 4)
	for i := range min(f.running, 4) {
		slots[i] = engine.SlotStatus{
			Busy: true, Request: uint64(i + 1), Prompt: 8, Evaluated: 8, Generated: 3, MaxTokens: 100,
		}
	}
	return engine.Status{Slots: slots}
}

func (f *Engine) SaveSlot(slot int, _ string, w io.Writer) (engine.SlotFile, error) {
	n, err := io.WriteString(w, "slot\n")
	return engine.SlotFile{Tokens: 3, Bytes: int64(n)}, err
}

func (f *Engine) RestoreSlot(slot int, _ string, r io.Reader) (engine.SlotFile, error) {
	b, err := io.ReadAll(r)
	switch {
	case err != nil:
	case string(b) == "large\n":
		err = fmt.Errorf("%w: 9 more positions need 208 kB", kvcache.ErrFull)
	case string(b) != "slot\n":
		err = engine.ErrSlotFile
	}
	return engine.SlotFile{Tokens: 3, Bytes: int64(len(b))}, err
}

func (f *Engine) EraseSlot(slot int, _ string) (int, error) {
	if slot == 3 {
		return 0, engine.ErrSlotEmpty
	}
	return 3, nil
}

func (f *Engine) OpenAdapter(string) (*engine.Adapter, error) { return nil, engine.ErrAdapters }

func (f *Engine) DropAdapter(context.Context, *engine.Adapter) error { return nil }
