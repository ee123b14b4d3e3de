package server

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/engine"
)

// Stop reasons, in llama-server's terms.
const (
	stopNone   = "none"
	stopEOS    = "eos"
	stopByWord = "word"
	stopLimit  = "limit"
)

// A sequence is one of the outputs of a request. It is the engine's Sink: it converts
// tokens to text at once and leaves events in the request's mailbox. That takes
// microseconds, however slow the client is.
type sequence struct {
	index  int // among those of the request
	box    *mailbox
	ledger *ledger
	write  writer

	hasLine atomic.Bool // there was a line break
	maxTime time.Duration
	// promptProbs are those of the prompt's tokens, complete when the first token comes; nil: they are not wanted.
	promptProbs *promptProbs

	begun, first time.Time // when evaluation began, and when the first token came
	usage        engine.Usage
	stop, word   string
	failed       error // why the sequence stopped itself
}

// An event is an update of a sequence.
type event struct {
	seq      *sequence
	progress *progress
	piece    piece
	usage    engine.Usage // so far; with times only if they are wanted
	end      *ending      // of the last event

	frame, content int // bytes counted for the event, and for its piece
}

// failed reports whether the sequence ended with an error.
func (e *event) failed() bool { return e.end != nil && e.end.err != nil }

// progress is how far a prompt is evaluated, and when that began.
type progress struct {
	engine.Progress
	took time.Duration
}

// An ending is how a sequence ended.
type ending struct {
	err        error
	stop, word string
	truncated  bool // the context is full, or was and has lost older tokens
	calls      bool // the answer has calls of tools
	thought    int  // tokens of its reasoning
}

func (s *sequence) Progress(p engine.Progress) {
	now := time.Now()
	if s.begun.IsZero() {
		s.begun = now
	}
	s.usage.PromptTokens, s.usage.CachedTokens, s.usage.Slot = p.Total, p.Cached, p.Slot
	s.put(event{seq: s, progress: &progress{p, now.Sub(s.begun)}, usage: s.usage})
}

// put leaves an event in the mailbox, unless there is no memory for it. Its tokens are
// counted already.
func (s *sequence) put(e event) bool {
	text, tokens := e.piece.price()
	if !s.ledger.hold(eventBytes + text) {
		return false
	}
	e.frame, e.content = eventBytes, text+tokens
	s.box.put(e)
	return true
}

func (s *sequence) Token(t engine.Token) bool {
	now := time.Now()
	if s.first.IsZero() {
		s.first = now
		s.usage.Prefill = now.Sub(s.begun)
	}
	s.usage.Decode = now.Sub(s.first)
	s.usage.Generated++
	if t.Stop {
		s.stop = stopEOS
		if s.promptProbs != nil { // clients that count tokens count this one
			s.write.waiting = append(s.write.waiting, waiting{t, s.write.written})
		}
		return false
	}
	if !s.ledger.hold(tokenPrice(&t)) {
		s.failed = errAnswers
		return false
	}
	p, word := s.write.write(t)
	s.hasLine.Store(s.write.line)
	if !p.empty() && !s.put(event{seq: s, piece: p, usage: s.usage}) {
		s.failed = errAnswers
		return false
	}
	switch {
	case word != "":
		s.stop, s.word = stopByWord, word
		return false
	case s.write.stops.Shallow(), s.maxTime > 0 && s.write.line && s.usage.Decode > s.maxTime:
		s.stop = stopLimit
		return false
	}
	return true
}

// errNoText is returned for an answer that could not be completed; the log has the
// reason.
var errNoText = errors.New("the end of the answer could not be made")

func (s *sequence) Done(r engine.Result) {
	e := event{seq: s, usage: r.Usage, end: &ending{err: cmp.Or(r.Err, errNoText)}}
	defer func() { s.last(e) }() // always: the request waits for it
	last, word := s.write.end(s.word)
	s.hasLine.Store(s.write.line)
	if word != s.word {
		s.stop, s.word = stopByWord, word
	}
	if s.stop == "" {
		s.stop = stopLimit
	}
	e.piece = last
	*e.end = ending{err: cmp.Or(r.Err, s.failed), stop: s.stop, word: s.word, truncated: r.Finish == engine.CtxFull || r.Shifts > 0, calls: s.write.calls, thought: s.write.thought}
}

// last leaves the last event in the mailbox, even if there is no memory for it.
func (s *sequence) last(e event) {
	if !s.put(e) {
		_, e.content = e.piece.price()
		s.box.put(e)
	}
}

// A mailbox queues events until they are fetched, or until it is closed.
type mailbox struct {
	mu     sync.Mutex
	closed bool
	events []event
	ready  chan struct{} // signalled when there may be events
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (b *mailbox) put(e event) {
	b.mu.Lock()
	if !b.closed {
		b.events = append(b.events, e)
	}
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *mailbox) fetch() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// close drops all events, including later ones.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.events = true, nil
}
