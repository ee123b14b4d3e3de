package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// A generation is a running request: its sequences and their events.
type generation struct {
	request  *Request
	id       string
	created  int64
	model    *ask.Model
	name     string // of the model, or of the adapter that the request named
	opts     *ask.Options
	prompts  [][]int32 // tokens, one for each group of opts.n sequences
	keeps    bool      // a stream whose text is kept until its end
	echo     []string  // text to begin the answers to each prompt with
	seqs     []*sequence
	tickets  []ask.Ticket
	box      *mailbox
	ledger   *ledger
	registry *registry
	enough   atomic.Bool  // the reasoning is to end
	used     usage        // by the sequences that have ended
	tally    tally        // of the same
	reads    func(event)  // told how far prompts are
	first    engine.Usage // of the first sequence, once it has ended
}

// start reserves memory for a request and submits its sequences: all of them, or none.
func (s *Server) start(req *Request, o *ask.Options, prefix string, src ask.Source) (*generation, error) {
	m := req.Model
	if m.VectorsOnly != "" {
		return nil, reply.Unsupported("%s; use /v1/embeddings or /v1/rerank", m.VectorsOnly)
	}
	if n := len(src.Prompts) * o.N; n > ask.MaxSequences {
		return nil, reply.Invalid("n", "%d answers to each of %d prompts, want %d in all at most", o.N, len(src.Prompts), ask.MaxSequences)
	}
	ledger, err := newLedger(m, o, src.Prompts, len(req.body))
	if err != nil {
		return nil, err
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
	g := &generation{
		request: req, name: m.Name,
		id: prefix + newID(), created: time.Now().Unix(), model: m, opts: o,
		prompts: src.Prompts, echo: src.Echo, box: newMailbox(), ledger: ledger,
	}
	if a := req.Adapter; a != nil {
		g.name = a.Name
	}
	budgeted := src.Budget.Of(m, src.Chat)
	for _, prompt := range src.Prompts {
		for i := range o.N {
			seq := &sequence{
				index: len(g.seqs), box: g.box, ledger: ledger, maxTime: o.MaxTime,
				write: newWriter(o, m, src.Chat),
			}
			r := o.Request(m, prompt, i)
			if o.PromptProbs {
				seq.promptProbs = newPromptProbs(prompt, o.Probs)
				r.Reader = seq.promptProbs.reader()
			}
			r.Adapters = adapters
			if budgeted != nil {
				budgeted.Now = &g.enough
				r.Constraint = constrain.Bound(r.Constraint, *budgeted)
			}
			r.Namespace, r.Owner = caller.Space, caller.Owner
			r.Flow, r.Weight, r.Priority, r.Origin, r.Sink = caller.Flow, caller.Weight, priority, req.Context(), seq
			ticket, err := m.Engine.Submit(r)
			if err != nil {
				g.cancel()
				g.close()
				return nil, err
			}
			g.seqs = append(g.seqs, seq)
			g.tickets = append(g.tickets, ticket)
		}
	}
	g.registry, g.reads = s.running, s.tellProgress(req, g)
	g.registry.add(g)
	req.HTTP.Header("X-Completion-Id", g.id)
	return g, nil
}

// newID returns an unguessable id: knowing it is enough to cancel the request.
func newID() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (g *generation) cancel() {
	for _, t := range g.tickets {
		t.Cancel()
	}
}

// close releases all that is kept. Later events of sequences that have not ended are
// dropped.
func (g *generation) close() {
	g.ledger.close()
	g.box.close()
}

// each calls f with events as they come, until all sequences have ended, and with none
// after each period in which f has sent nothing. If ctx ends first, or f fails, the sequences are cancelled.
func (g *generation) each(ctx context.Context, quiet time.Duration, f func([]event) (sent bool, err error)) error {
	defer g.registry.remove(g)
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	var silence <-chan time.Time
	if quiet > 0 {
		silence = timer.C
	}
	for left := len(g.seqs); left > 0; {
		var events []event
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
		sent, gone := f(events)
		if gone == nil {
			g.count(events)
		}
		var failed error
		for _, e := range events {
			if e.progress != nil {
				g.reads(e)
			}
			if e.end == nil {
				continue
			}
			left--
			g.ended(e)
			if failed == nil {
				failed = e.end.err
			}
		}
		switch {
		case gone != nil:
			g.abandon(left)
			return reply.ErrGone
		case failed != nil: // an error of one sequence ends all
			g.cancel()
			return failed
		}
		if quiet > 0 && (sent || len(events) == 0) {
			timer.Reset(quiet)
		}
	}
	return nil
}

// ended counts what a sequence did whose last event this is.
func (g *generation) ended(e event) {
	g.registry.ended(g, e)
	g.used.add(g, e.seq, e.usage)
	g.used.Completion.ReasoningTokens += e.end.thought
	g.tally.add(e.usage, e.end)
	if e.seq.index == 0 {
		g.first = e.usage
	}
}

// count releases the memory of processed events: their pieces are sent, or part of an
// answer.
func (g *generation) count(events []event) {
	n := 0
	for _, e := range events {
		n += e.frame
		if g.opts.Stream && !g.keeps {
			n += e.content
		}
	}
	g.ledger.drop(n)
}

// An answer is the complete output of a sequence.
type answer struct {
	seq    *sequence
	cut    blocks
	blocks blockList
	tokens []engine.Token
	usage  engine.Usage
	ending
}

// add adds what an event of its sequence has.
func (a *answer) add(e event) {
	a.seq = e.seq
	_ = a.cut.write(nil, &e.piece, &a.blocks) // keeping them never fails
	a.tokens = append(a.tokens, e.piece.tokens...)
	a.usage = e.usage
	if e.end != nil {
		a.ending = *e.end
	}
}

// collect waits for the sequences to end.
func (g *generation) collect(ctx context.Context) ([]answer, error) {
	answers := make([]answer, len(g.seqs))
	err := g.each(ctx, 0, func(events []event) (bool, error) {
		for _, e := range events {
			answers[e.seq.index].add(e)
		}
		return false, nil
	})
	return answers, err
}
