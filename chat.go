package quern

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sample"
)

// An Event is what is new of an answer. One of Text, Reasoning, Call, Reading and Result is set.
type Event struct {
	Text      string    // that the answer grows by
	Reasoning string    // before the text
	Call      *ToolCall // whole
	Reading   *Reading  // while the prompt is evaluated
	Result    *Result   // of the last event

	// Tokens are those sampled since the last event, where the request asks for log-probabilities.
	Tokens []Token
}

// Reading is how far the prompt of a request is evaluated.
type Reading struct {
	Tokens int // of the prompt
	Cached int // of which were in the cache
	Done   int // of which are evaluated, with the cached ones
}

// A Token is a token of an answer with its log-probability, and those of the likeliest in its place.
type Token struct {
	ID      int32
	Text    string // that the token prints; a character may be several tokens
	Logprob float64
	Top     []Token // the likeliest first
}

// A Finish is the reason why an answer ended.
type Finish string

// The reasons.
const (
	FinishStop    Finish = "stop"       // the model, or a text of Request.Stop, ended it
	FinishLength  Finish = "length"     // MaxTokens
	FinishContext Finish = "context"    // the context is full
	FinishCalls   Finish = "tool_calls" // the model waits for the results of calls
)

// A Result is an answer, or the part of it that there is.
type Result struct {
	Message Message // of the assistant: reasoning, text, calls
	Finish  Finish
	Stop    string // the text of Request.Stop that ended it
	Tokens  []Token
	Usage   Usage
}

// Text returns the text of the answer.
func (r *Result) Text() string { return r.Message.Text() }

// Usage is the tokens and the times of a request.
type Usage struct {
	PromptTokens   int
	CachedTokens   int // of the prompt, found in the cache
	AnswerTokens   int
	DraftedTokens  int // that were guessed, for the model to verify
	AcceptedTokens int // of which were right

	QueueTime  time.Duration // until it ran
	PromptTime time.Duration // from then to the first token
	AnswerTime time.Duration // from the first token to the last
}

// Chat has the model answer. Each time the sequence is ranged over, the request is made anew; it ends when the loop does,
// and its last event has the whole answer. An error is the last value: that of ctx, or one of the kinds of this package.
func (m *Model) Chat(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return m.chat(ctx, r, nil)
}

// chat is Chat that sets text, unless it is nil, to the tokens of the prompt and of the answer when that has ended.
func (m *Model) chat(ctx context.Context, r Request, text *[]int32) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := m.start(ctx, &r)
		if err != nil {
			yield(Event{}, classify(err, ErrInternal))
			return
		}
		defer s.ticket.Cancel()
		for {
			events, err := s.next(ctx)
			for _, e := range events {
				if e.Result != nil && text != nil {
					*text = slices.Concat(s.Prompt, s.ids)
				}
				if !yield(e, nil) || e.Result != nil {
					return
				}
			}
			if err != nil {
				yield(Event{}, classify(err, ErrInternal))
				return
			}
		}
	}
}

// Complete is Chat for callers that want the whole answer. If it fails on the way, the result has what there is.
func (m *Model) Complete(ctx context.Context, r Request) (*Result, error) {
	return collect(m.Chat(ctx, r))
}

// collect returns the result of an answer. Of one that failed it is what was said before.
func collect(events iter.Seq2[Event, error]) (*Result, error) {
	var part answer
	for e, err := range events {
		if err != nil {
			return part.result(), err
		}
		if e.Result != nil {
			return e.Result, nil
		}
		part.add(e)
	}
	return part.result(), nil
}

// start submits a request.
func (m *Model) start(ctx context.Context, r *Request) (*running, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := m.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &running{prepared: p, ready: make(chan struct{}, 1)}
	p.Origin, p.Sink = ctx, s
	s.ticket, err = m.loop.Submit(&p.Request)
	return s, err
}

// A running request is the engine's Sink: tokens become events at once and wait for the caller, so that its time is its
// own. They are at most those of a context.
type running struct {
	*prepared
	ticket *engine.Ticket

	// Of the loop alone.
	made   answer
	ids    []int32   // of the answer
	call   *ToolCall // that is being written
	tokens []Token   // since the last event
	word   string    // of Request.Stop that was found

	mu     sync.Mutex
	events []Event
	failed error // after the events
	ready  chan struct{}
}

// next waits for events. An error follows them.
func (s *running) next(ctx context.Context) ([]Event, error) {
	for {
		s.mu.Lock()
		events, err := s.events, s.failed
		s.events = nil
		s.mu.Unlock()
		if len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ready:
		}
	}
}

// put leaves an event for the caller.
func (s *running) put(e Event, failed error) {
	if e.Reading == nil {
		e.Tokens, s.tokens = s.tokens, nil
		s.made.add(e)
	}
	s.mu.Lock()
	if failed != nil {
		s.failed = failed
	} else {
		s.events = append(s.events, e)
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Progress implements engine.Sink.
func (s *running) Progress(p engine.Progress) {
	s.put(Event{Reading: &Reading{p.Total, p.Cached, p.Done}}, nil)
}

// Token implements engine.Sink.
func (s *running) Token(t generate.Token) bool {
	if t.Stop {
		return false
	}
	s.ids = append(s.ids, t.ID)
	if s.TopLogprobs >= 0 {
		s.tokens = append(s.tokens, s.token(t))
	}
	sure, word := s.stops.Write(s.text.Write(t.ID))
	s.say(sure)
	s.word = word
	return word == ""
}

// token returns a token with its probabilities.
func (s *running) token(t generate.Token) Token {
	one := func(p sample.Logprob) Token {
		return Token{ID: p.ID, Text: string(s.tok.Piece(p.ID, true)), Logprob: float64(p.Value)}
	}
	made := one(t.Logprob)
	for _, top := range t.Top {
		made.Top = append(made.Top, one(top))
	}
	return made
}

// say adds text to the answer.
func (s *running) say(text string) {
	switch {
	case text == "":
	case s.reply == nil:
		s.put(Event{Text: text}, nil)
	default:
		s.settle(s.reply.Write(text))
	}
}

// settle adds what the text says to the answer. A call is one event, once it is whole.
func (s *running) settle(deltas []chat.Delta) {
	for _, d := range deltas {
		if c := d.Call; c != nil {
			if c.ID != "" || s.call == nil {
				s.called()
				s.call = &ToolCall{ID: c.ID, Name: c.Name}
			}
			s.call.Arguments += c.Arguments
			continue
		}
		s.called()
		s.put(Event{Text: d.Content, Reasoning: d.Reasoning}, nil)
	}
}

// called ends the call that is being written.
func (s *running) called() {
	if c := s.call; c != nil {
		s.call = nil
		s.put(Event{Call: c}, nil)
	}
}

// Done implements engine.Sink.
func (s *running) Done(r engine.Result) {
	if r.Err != nil {
		s.put(Event{}, r.Err)
		return
	}
	if s.word == "" {
		sure, word := s.stops.Write(s.text.Flush())
		if s.word = word; word == "" {
			sure += s.stops.Flush()
		}
		s.say(sure)
	}
	if s.reply != nil {
		s.settle(s.reply.Close())
	}
	s.called()
	result := s.made.result()
	result.Tokens = append(result.Tokens, s.tokens...)
	result.Stop = s.word
	result.Usage = usageOf(r.Usage)
	switch {
	case len(result.Message.Calls()) > 0 && r.Finish == generate.Stopped:
		result.Finish = FinishCalls
	case r.Finish == generate.MaxedOut:
		result.Finish = FinishLength
	case r.Finish == generate.CtxFull:
		result.Finish = FinishContext
	default:
		result.Finish = FinishStop
	}
	s.put(Event{Result: result}, nil)
}

func usageOf(u engine.Usage) Usage {
	drafted, accepted := u.Drafted.Total()
	return Usage{
		PromptTokens: u.PromptTokens, CachedTokens: u.CachedTokens, AnswerTokens: u.Generated,
		DraftedTokens: int(drafted), AcceptedTokens: int(accepted), QueueTime: u.Queued, PromptTime: u.Prefill, AnswerTime: u.Decode,
	}
}

// An answer puts events together.
type answer struct {
	parts  []Part
	grows  strings.Builder // the text or the reasoning that is the last part
	thinks bool            // which of them
	tokens []Token
}

func (a *answer) add(e Event) {
	a.tokens = append(a.tokens, e.Tokens...)
	switch text := e.Text + e.Reasoning; {
	case e.Call != nil:
		a.settle()
		a.parts = append(a.parts, Part{Call: e.Call})
	case text != "":
		if thinks := e.Reasoning != ""; thinks != a.thinks {
			a.settle()
			a.thinks = thinks
		}
		a.grows.WriteString(text)
	}
}

// settle ends the last part.
func (a *answer) settle() {
	if text := a.grows.String(); text != "" && a.thinks {
		a.parts = append(a.parts, Part{Reasoning: text})
	} else if text != "" {
		a.parts = append(a.parts, Part{Text: text})
	}
	a.grows.Reset()
}

func (a *answer) result() *Result {
	a.settle()
	return &Result{Message: Message{RoleAssistant, a.parts}, Tokens: a.tokens}
}
