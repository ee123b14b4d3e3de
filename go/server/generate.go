package server

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

// A format encodes the answers of an endpoint.
type format interface {
	// whole encodes the answers as one JSON value.
	whole(answers []answer) any
	// event adds an event of a sequence to a stream. The end of one that failed goes to failed instead.
	event(s *reply.Stream, e event) error
	// end adds what follows the last event.
	end(s *reply.Stream) error
	// failed adds an error and what follows it.
	failed(s *reply.Stream, err *reply.Error) error
}

// A prompter is the query of an endpoint that generates text.
type prompter interface {
	field.Query
	Common() *ask.Options
	// settle resolves fields that depend on each other, on the model or on the
	// request's header.
	Settle(m *ask.Model, h http.Header) error
	// source makes the prompts.
	Source(ctx context.Context, m *ask.Model) (ask.Source, error)
	// format returns the encoder of the answers.
	format(g *generation, e envelope) format
}

// generate serves an endpoint that generates text. The ids of its answers begin
// with prefix.
func generate[Q prompter](s *Server, prefix string, defaults func(*ask.Model) Q) func(*Request) error {
	return func(req *Request) error {
		q := defaults(req.Model)
		if err := req.Read(q); err != nil {
			return err
		}
		return s.generate(req, q, prefix)
	}
}

// generate answers a query that was read.
func (s *Server) generate(req *Request, q prompter, prefix string) error {
	g, err := s.begin(req, q, prefix)
	if err != nil {
		return err
	}
	return s.finish(req, q, g)
}

// begin starts what a query that was read asks for.
func (s *Server) begin(req *Request, q prompter, prefix string) (*generation, error) {
	m := req.Model
	defer req.made()
	if err := q.Settle(m, req.HTTP.Request.Header); err != nil {
		return nil, err
	}
	from, err := q.Source(req.Context(), m)
	if err != nil {
		return nil, err
	}
	o := q.Common()
	if err := o.Form.Settle(m, from, !o.IgnoreEOS, req.Caller.Space); err != nil {
		return nil, err
	}
	return s.start(req, o, prefix, from)
}

// finish answers a request that was started.
func (s *Server) finish(req *Request, q prompter, g *generation) error {
	defer g.close()
	defer func() { s.c.Note(req.HTTP, g.note()) }()
	f := q.format(g, s.envelope(g))
	if g.opts.Stream {
		return s.stream(req, g, f)
	}
	answers, err := g.collect(req.Context())
	if err != nil {
		return err
	}
	req.Send(f.whole(answers))
	return nil
}

// stream sends what a generation yields as it comes. An error before the first event is
// returned, since it can have a status of its own; a later one is sent as the last
// event.
func (s *Server) stream(req *Request, g *generation, f format) error {
	dialect, out := req.route.speaks(), reply.NewStream(req.HTTP)
	if dialect.Lines() {
		out = reply.NewLines(req.HTTP)
	}
	quiet := s.quiet(g.opts)
	err := g.each(req.Context(), quiet, func(events []event) (sent bool, err error) {
		if len(events) == 0 {
			if err := dialect.Ping(out); err != nil {
				return false, err
			}
		}
		for _, e := range events {
			if err := show(f, out, e); err != nil {
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
	switch {
	case err == nil:
		err = f.end(out)
	case errors.Is(err, reply.ErrGone) || !out.Begun():
		return err
	default:
		s.logHidden(req, err)
		e := req.toAPI(err)
		s.noteError(req, e)
		err = f.failed(out, e)
	}
	if err != nil || out.Flush() != nil {
		return reply.ErrGone
	}
	return nil
}

// show adds an event to a stream.
func show(f format, s *reply.Stream, e event) error {
	if e.failed() {
		if e.piece.empty() {
			return nil
		}
		e.end = nil
	}
	return f.event(s, e)
}

// quiet is how long a stream may be silent.
func (s *Server) quiet(o *ask.Options) time.Duration {
	if o.Ping != 0 {
		return time.Duration(o.Ping) * time.Second
	}
	return s.c.Ping
}

// usage is the token counts of a request, in OpenAI's format.
type usage struct {
	PromptTokens     int               `json:"prompt_tokens"`
	CompletionTokens int               `json:"completion_tokens"`
	TotalTokens      int               `json:"total_tokens"`
	Details          usageDetails      `json:"prompt_tokens_details"`
	Completion       completionDetails `json:"completion_tokens_details"`
}

// completionDetails counts the tokens of reasoning, with the marks around it.
type completionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// add counts a sequence, which has ended. The prompt of several answers counts once.
func (u *usage) add(g *generation, seq *sequence, e engine.Usage) {
	if seq.index%g.opts.N == 0 {
		u.PromptTokens += e.PromptTokens
		u.Details.CachedTokens += e.CachedTokens
	}
	u.CompletionTokens += e.Generated
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}

// timings are in llama-server's format.
type timings struct {
	CacheN             int     `json:"cache_n"`
	PromptN            int     `json:"prompt_n"`
	PromptMS           float64 `json:"prompt_ms"`
	PromptPerTokenMS   float64 `json:"prompt_per_token_ms"`
	PromptPerSecond    float64 `json:"prompt_per_second"`
	PredictedN         int     `json:"predicted_n"`
	PredictedMS        float64 `json:"predicted_ms"`
	PredictedPerToken  float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	DraftN             uint64  `json:"draft_n,omitzero"` // draft tokens that were verified
	DraftAccepted      *uint64 `json:"draft_n_accepted,omitzero"`
}

func timingsOf(u engine.Usage) *timings {
	t := &timings{CacheN: u.CachedTokens, PromptN: u.PromptTokens - u.CachedTokens, PredictedN: u.Generated}
	t.PromptMS, t.PromptPerTokenMS, t.PromptPerSecond = speed(u.Prefill, t.PromptN)
	// The first token comes from evaluating the prompt: decoding made the others.
	t.PredictedMS, t.PredictedPerToken, t.PredictedPerSecond = speed(u.Decode, max(u.Generated-1, 0))
	if guessed, right := u.Drafted.Total(); guessed > 0 {
		t.DraftN, t.DraftAccepted = guessed, &right
	}
	return t
}

// timings are those of the sequence so far.
func (e *event) timings() *timings {
	if e.progress == nil {
		return timingsOf(e.usage)
	}
	u := e.usage
	u.PromptTokens, u.Prefill = e.progress.Done, e.progress.took
	return timingsOf(u)
}

// speed returns how long n items took, the time of each, and the rate per second; 0
// where nothing was measured.
func speed(took time.Duration, n int) (ms, each, perSecond float64) {
	ms = float64(took) / float64(time.Millisecond)
	if n > 0 && took > 0 {
		each, perSecond = ms/float64(n), float64(n)/took.Seconds()
	}
	return ms, each, perSecond
}

// promptProgress is how far a prompt is evaluated.
type promptProgress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`
}

func (p *progress) json() *promptProgress {
	return &promptProgress{p.Total, p.Cached, p.Done, p.took.Milliseconds()}
}

// finishReason is OpenAI's finish_reason.
func (e *ending) finishReason() string {
	if e.stop == stopLimit {
		return "length"
	}
	return "stop"
}
