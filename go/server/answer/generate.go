// Package answer is what all APIs have in common between a request and its answer.
//
// A Request is one, from its arrival to its end: its body, its model, and whose it is. A Prompter, the query of an
// endpoint that generates, makes an ask.Source of it, which a Generation runs: its sequences turn tokens into pieces of
// text, keep them in a mailbox within the memory budget, and so never wait for a client. A Format encodes what comes:
// Blocks tells it where reasoning, text and calls of tools begin and end. What the errors and streams of an API have in
// common is its Dialect. Requests that generate nothing evaluate texts with Evaluate, or get their vectors with Embed.
package answer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Format encodes the answers of an endpoint.
type Format interface {
	// Whole encodes the answers as one JSON value.
	Whole(answers []Answer) any
	// Event adds an event of a sequence to a stream. The end of one that failed goes to Failed instead.
	Event(s *reply.Stream, e Event) error
	// End adds what follows the last event.
	End(s *reply.Stream) error
	// Failed adds an error and what follows it.
	Failed(s *reply.Stream, err *reply.Error) error
}

// A Continuer is a Format of an answer that several generations make.
type Continuer interface {
	// Next is called when a generation has ended, without an error. It returns the one that goes on, nil where the answer is
	// complete. What it does meanwhile it adds to the stream, nil where there is none.
	Next(ctx context.Context, s *reply.Stream) (*Generation, error)
	// Acted reports whether the answer has had effects that the same request would have again. An error then does not take
	// the place of the answer, with a status after which clients send the request again: it goes to Failed, and ends the
	// answer.
	Acted() bool
}

// next returns the generation that goes on with an answer, nil: there is none.
func next(ctx context.Context, f Format, s *reply.Stream) (*Generation, error) {
	if c, ok := f.(Continuer); ok {
		return c.Next(ctx, s)
	}
	return nil, nil
}

// A Prompter is the query of an endpoint that generates text.
type Prompter interface {
	field.Query
	Common() *ask.Options
	// Settle resolves fields that depend on each other, on the model or on the
	// request's header.
	Settle(m *ask.Model, h http.Header) error
	// Source makes the prompts.
	Source(ctx context.Context, m *ask.Model) (ask.Source, error)
	// Format returns the encoder of the answers.
	Format(g *Generation) Format
}

// Generates returns what serves an endpoint that generates text. The ids of its answers begin
// with prefix.
func Generates[Q Prompter](prefix string, defaults func(*ask.Model) Q) func(*Request) error {
	return func(req *Request) error {
		q := defaults(req.Model)
		if err := req.Read(q); err != nil {
			return err
		}
		return req.Generate(q, prefix)
	}
}

// Generate answers a query that was read.
func (req *Request) Generate(q Prompter, prefix string) error {
	g, err := req.Begin(q, prefix)
	if err != nil {
		return err
	}
	return req.Finish(q, g)
}

// Begin starts what a query that was read asks for.
func (req *Request) Begin(q Prompter, prefix string) (*Generation, error) {
	return req.begin(q, prefix, false)
}

// Hold checks a query as Begin does, but starts nothing: something is to be done before the prompt is complete. What it
// returns has no sequences, and Again goes on with it.
func (req *Request) Hold(q Prompter, prefix string) (*Generation, error) {
	return req.begin(q, prefix, true)
}

func (req *Request) begin(q Prompter, prefix string, held bool) (*Generation, error) {
	m := req.Model
	defer req.Made()
	if err := q.Settle(m, req.HTTP.Request.Header); err != nil {
		return nil, err
	}
	o, ctx := q.Common(), req.Context()
	if !o.Until.IsZero() {
		until, cancel := context.WithDeadlineCause(ctx, o.Until, engine.ErrDeadline)
		defer cancel()
		ctx = until
	}
	from, err := q.Source(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := o.Form.Settle(ctx, m, from, !o.IgnoreEOS, req.Caller.Space); err != nil {
		return nil, err
	}
	if req.host.Kept != nil {
		req.Peek("store") // which further passes ask when there is no body
	}
	return req.start(o, prefix+NewID(), from, nil, held, len(req.Body)+ask.KeptTexts(ctx))
}

// Again starts a generation that goes on with the answer of another, with a prompt of its own. Its query is settled. It
// has the same id, what the other used counts as its own, and to close it closes both. It needs nothing of the HTTP
// request, which may have been answered. The prompt is made of so many bytes of text.
func (req *Request) Again(ctx context.Context, g *Generation, q Prompter, text int) (*Generation, error) {
	pass, err := req.AdmitLater(ctx, text)
	if err != nil {
		return nil, err
	}
	defer pass.Release()
	o := q.Common()
	from, err := q.Source(ctx, g.Model)
	if err != nil {
		return nil, err
	}
	if err := o.Form.Settle(ctx, g.Model, from, !o.IgnoreEOS, req.Caller.Space); err != nil {
		return nil, err
	}
	return req.start(o, g.ID, from, g, false, 0) // what is kept of the results is in the ledger of g
}

// Finish answers a request that was started.
func (req *Request) Finish(q Prompter, g *Generation) error {
	last := g
	defer func() {
		req.host.Note(req.HTTP, last.note())
		last.Close()
	}()
	f := q.Format(g)
	ctx := req.Context()
	if _, several := f.(Continuer); several {
		acts, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer req.host.Running.Act(g.ID, req.Caller.Owner, f, func() { cancel(reply.ErrCancelled) })()
		ctx = acts
	}
	if g.Opts.Stream {
		return req.stream(ctx, &last, f)
	}
	var whole any
	for g != nil {
		last = g
		answers, err := last.Collect(req.Context())
		if err == nil {
			whole = f.Whole(answers)
			g, err = next(ctx, f, nil)
		}
		if c, ok := f.(Continuer); ok && err != nil && !errors.Is(err, reply.ErrGone) && c.Acted() {
			g, err = nil, f.Failed(nil, req.told(err))
		}
		if err != nil {
			return err
		}
	}
	req.Send(whole)
	return nil
}

// told returns what the client is told of an error within its answer, and logs it.
func (req *Request) told(err error) *reply.Error {
	req.LogHidden(err)
	e := req.Refusal(err)
	req.noteError(e)
	return e
}

// stream sends what generations yield as it comes, and sets the last. An error before the first event is
// returned, since it can have a status of its own; a later one is sent as the last
// event. What happens between generations ends with ctx.
func (req *Request) stream(ctx context.Context, last **Generation, f Format) error {
	dialect, out := req.Route.Speaks(), reply.NewStream(req.HTTP)
	if dialect.Lines() {
		out = reply.NewLines(req.HTTP)
	}
	var err error
	for g := *last; g != nil && err == nil; {
		*last = g
		if err = req.show(g, f, out); err == nil {
			g, err = next(ctx, f, out)
		}
	}
	switch {
	case err == nil:
		err = f.End(out)
	case errors.Is(err, reply.ErrGone) || !out.Begun():
		return err
	default:
		err = f.Failed(out, req.told(err))
	}
	if err != nil || out.Flush() != nil {
		return reply.ErrGone
	}
	return nil
}

// show sends what a generation yields as it comes.
func (req *Request) show(g *Generation, f Format, out *reply.Stream) error {
	dialect := req.Route.Speaks()
	return g.Each(req.Context(), req.Quiet(g.Opts), func(events []Event) (sent bool, err error) {
		if len(events) == 0 {
			if err := dialect.Ping(out); err != nil {
				return false, err
			}
		}
		for _, e := range events {
			if err := Show(f, out, e); err != nil {
				return false, err
			}
			if out.Full() {
				sent = true
				if err := out.Flush(); err != nil {
					return sent, err
				}
			}
		}
		sent = sent || out.Unsent() // how far a prompt is says nothing to those who did not ask
		return sent, out.Flush()
	})
}

// Show adds an event to a stream.
func Show(f Format, s *reply.Stream, e Event) error {
	if e.failed() {
		if e.Piece.Empty() {
			return nil
		}
		e.End = nil
	}
	return f.Event(s, e)
}

// Quiet is how long a stream may be silent.
func (req *Request) Quiet(o *ask.Options) time.Duration {
	if o.Ping != 0 {
		return time.Duration(o.Ping) * time.Second
	}
	return req.host.Ping
}
