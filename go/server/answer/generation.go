package answer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Generation is a running request: its sequences and their events.
type Generation struct {
	Request  *Request
	ID       string
	Created  int64
	Model    *ask.Model
	Name     string // of the model, or of the adapter that the request named
	Opts     *ask.Options
	Prompts  [][]int32 // tokens, one for each group of opts.n sequences
	Keeps    bool      // a stream whose text is kept until its end
	Echo     []string  // text to begin the answers to each prompt with
	Seqs     []*Sequence
	tickets  []ask.Ticket
	box      *mailbox
	Ledger   *ledger
	registry *Running
	Enough   atomic.Bool  // the reasoning is to end
	Used     Used         // by the sequences that have ended
	tally    tally        // of the same
	reads    func(Event)  // told how far prompts are
	First    engine.Usage // of the first sequence, once it has ended
	origin   context.Context
	before   *Generation // whose answer this one goes on with; nil: none
}

// start reserves memory for a request and submits its sequences: all of them, or none. A request that is held has none.
// What is kept of it besides has so many bytes.
func (req *Request) start(o *ask.Options, id string, src ask.Source, before *Generation, held bool, body int) (*Generation, error) {
	m := req.Model
	if err := m.Generates(); err != nil {
		return nil, err
	}
	if n := len(src.Prompts) * o.N; n > ask.MaxSequences {
		return nil, reply.Invalid("n", "%d answers to each of %d prompts, want %d in all at most", o.N, len(src.Prompts),
			ask.MaxSequences)
	}
	ledger, err := newLedger(m, o, src.Prompts, body)
	if err != nil {
		return nil, err
	}
	if req.ByName && o.LoRA != nil { // else it would ask the model without what the name adds, or with other adapters
		ledger.close()
		return nil, &reply.Error{Status: http.StatusForbidden, Param: "lora", Message: "lora: this API key or token may ask the " +
			"model by the name " + req.Name + " alone, which says what adapters it has; leave the field out"}
	}
	adapters, err := m.Applied(req.Adapter, o.LoRA)
	if err != nil {
		ledger.close()
		return nil, err
	}
	caller := &req.Caller
	priority, err := caller.priority(o.Priority)
	if err != nil {
		ledger.close()
		return nil, err
	}
	tokens := 0
	for _, prompt := range src.Prompts {
		tokens += len(prompt)
	}
	var origin context.Context
	if before == nil {
		origin = req.Context()
		err = req.Input(tokens, true)
	} else {
		origin = before.origin
		err = req.Run.Input(tokens, true)
	}
	if err != nil {
		ledger.close()
		return nil, err
	}
	g := &Generation{
		Request: req, Name: m.Name,
		ID: id, Created: time.Now().Unix(), before: before, origin: origin, Model: m, Opts: o,
		Prompts: src.Prompts, Echo: src.Echo, box: newMailbox(), Ledger: ledger,
		Used: Used{Pictures: src.Pictures, Sounds: src.Sounds},
	}
	if a := req.Adapter; a != nil {
		g.Name = a.Name
	}
	if before != nil {
		g.tally = before.tally
		g.Used.Prompt, g.Used.Cached = before.Used.Prompt, before.Used.Cached
		g.Used.Generated, g.Used.Thought = before.Used.Generated, before.Used.Thought
		g.Used.Pictures += before.Used.Pictures
		g.Used.Sounds += before.Used.Sounds
	}
	if held {
		req.Run.Return(tokens)
		src.Prompts, g.Prompts, g.Used = nil, nil, Used{}
	}
	budgeted := src.Budget.Of(m, src.Chat)
	for k, prompt := range src.Prompts {
		for i := range o.N {
			seq := &Sequence{
				Index: len(g.Seqs), box: g.box, ledger: ledger, maxTime: o.MaxTime,
				write: newWriter(o, m, src.Chat),
			}
			r := o.Request(m, prompt, i)
			r.Media = src.Media[k]
			if o.PromptProbs >= 0 {
				seq.PromptProbs = newPromptProbs(prompt, o.PromptProbs, o.PromptRanks)
				r.Reader = seq.PromptProbs.reader()
			}
			r.Adapters = adapters
			if budgeted != nil {
				budgeted.Now = &g.Enough
				r.Constraint = constrain.Bound(r.Constraint, *budgeted)
			}
			seq.keeps = req.keeps(r)
			r.Namespace, r.Owner = caller.Space, caller.Owner
			r.Flow, r.Weight, r.Priority, r.Origin, r.Sink = caller.Flow, caller.Weight, priority, origin, seq
			ticket, err := m.Engine.Submit(r)
			if err != nil {
				g.Cancel()
				g.Close()
				req.Run.Return(tokens)
				return nil, err
			}
			g.Seqs = append(g.Seqs, seq)
			g.tickets = append(g.tickets, ticket)
		}
	}
	req.kept.accept()
	g.registry, g.reads = req.host.Running, req.tellProgress(g)
	g.registry.add(g)
	if before == nil {
		req.HTTP.Header("X-Completion-Id", g.ID)
	}
	return g, nil
}

// Used counts the tokens of a request. The prompt of several answers counts once.
type Used struct {
	Prompt, Cached, Generated, Thought int
	Pictures, Sounds                   int // tokens of these in the prompts
}

// add counts a sequence that has ended. first: it is the first answer to its prompt.
func (u *Used) add(first bool, e engine.Usage, thought int) {
	if first {
		u.Prompt += e.PromptTokens
		u.Cached += e.CachedTokens
	}
	u.Generated += e.Generated
	u.Thought += thought
}

// NewID returns an unguessable id: knowing it is enough to cancel the request.
func NewID() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (g *Generation) Cancel() {
	for _, t := range g.tickets {
		t.Cancel()
	}
}

// Close releases all that is kept. Later events of sequences that have not ended are
// dropped.
func (g *Generation) Close() {
	for ; g != nil; g = g.before {
		g.Ledger.close()
		g.box.close()
	}
}

// Each calls f with events as they come, until all sequences have ended, and with none
// after each period in which f has sent nothing. If ctx ends first, or f fails, the sequences are cancelled.
func (g *Generation) Each(ctx context.Context, quiet time.Duration, f func([]Event) (sent bool, err error)) error {
	defer g.registry.remove(g)
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	var silence <-chan time.Time
	if quiet > 0 {
		silence = timer.C
	}
	for left := len(g.Seqs); left > 0; {
		var events []Event
		select {
		case <-ctx.Done():
			g.abandon(left)
			return reply.ErrGone
		case <-silence:
		case <-g.box.ready:
			if events = g.box.fetch(); len(events) == 0 {
				continue
			}
		}
		g.spend(events)
		sent, gone := f(events)
		if gone == nil {
			g.count(events)
		}
		var failed error
		for _, e := range events {
			if e.Progress != nil {
				g.reads(e)
			}
			if e.End == nil {
				continue
			}
			left--
			g.ended(e)
			if failed == nil {
				failed = e.End.err
			}
		}
		switch {
		case gone != nil:
			g.abandon(left)
			return reply.ErrGone
		case failed != nil: // an error of one sequence ends all
			g.abandon(left)
			return failed
		}
		if quiet > 0 && (sent || len(events) == 0) {
			timer.Reset(quiet)
		}
	}
	return nil
}

// spend counts the tokens that were generated until these events. What the caller's quota has not is a debt, and ends
// nothing.
func (g *Generation) spend(events []Event) {
	n := 0
	for _, e := range events {
		if new := e.Usage.Generated - e.Seq.spent; new > 0 {
			e.Seq.spent, n = e.Usage.Generated, n+new
		}
	}
	g.Request.Run.Output(n)
}

// ended counts what a sequence did whose last event this is.
func (g *Generation) ended(e Event) {
	g.registry.ended(g, e)
	g.keep(e.Seq, e.End)
	g.Used.add(e.Seq.Index%g.Opts.N == 0, e.Usage, e.End.Thought)
	g.tally.add(e.Usage, e.End)
	if e.Seq.Index%g.Opts.N == 0 {
		g.Request.Run.Cached(e.Usage.CachedTokens)
	}
	if e.Seq.Index == 0 {
		g.First = e.Usage
	}
}

// count releases the memory of processed events: their pieces are sent, or part of an
// answer.
func (g *Generation) count(events []Event) {
	n := 0
	for _, e := range events {
		n += e.frame
		if g.Opts.Stream && !g.Keeps {
			n += e.content
		}
	}
	g.Ledger.drop(n)
}

// An Answer is the complete output of a sequence.
type Answer struct {
	Seq    *Sequence
	cut    Blocks
	Blocks blockList
	Tokens []generate.Token
	Usage  engine.Usage
	Ending
}

// Add adds what an event of its sequence has.
func (a *Answer) Add(e Event) {
	a.Seq = e.Seq
	_ = a.cut.Write(nil, &e.Piece, &a.Blocks) // keeping them never fails
	a.Tokens = append(a.Tokens, e.Piece.Tokens...)
	a.Usage = e.Usage
	if e.End != nil {
		a.Ending = *e.End
	}
}

// Collect waits for the sequences to end.
func (g *Generation) Collect(ctx context.Context) ([]Answer, error) {
	answers := make([]Answer, len(g.Seqs))
	err := g.Each(ctx, 0, func(events []Event) (bool, error) {
		for _, e := range events {
			answers[e.Seq.Index].Add(e)
		}
		return false, nil
	})
	return answers, err
}
