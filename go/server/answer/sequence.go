package answer

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// Stop reasons, in llama-server's terms.
const (
	StopNone   = "none"
	StopEOS    = "eos"
	StopByWord = "word"
	StopLimit  = "limit"
)

// A Sequence is one of the outputs of a request. It is the engine's Sink: it converts
// tokens to text at once and leaves events in the request's mailbox. That takes
// microseconds, however slow the client is.
type Sequence struct {
	Index  int // among those of the request
	box    *mailbox
	ledger *ledger
	write  writer

	hasLine atomic.Bool // there was a line break
	maxTime time.Duration
	// PromptProbs are those of the prompt's tokens, complete when the first token comes; nil: they are not wanted.
	PromptProbs *promptProbs

	begun, first time.Time // when evaluation began, and when the first token came
	usage        engine.Usage
	stop, word   string
	failed       error // why the sequence stopped itself

	keeps bool    // see Kept
	ids   []int32 // of the answer, where it is kept

	spent int // tokens that the caller's quota has counted
}

// An Event is an update of a sequence.
type Event struct {
	Seq      *Sequence
	Progress *progress
	Piece    Piece
	Usage    engine.Usage // so far; with times only if they are wanted
	End      *Ending      // of the last event

	frame, content int // bytes counted for the event, and for its piece
}

// failed reports whether the sequence ended with an error.
func (e *Event) failed() bool { return e.End != nil && e.End.err != nil }

// progress is how far a prompt is evaluated, and when that began.
type progress struct {
	engine.Progress
	took time.Duration
}

// An Ending is how a sequence ended.
type Ending struct {
	err        error
	Stop, Word string
	truncated  bool // the context is full, or was and has lost older tokens
	Calls      bool // the answer has calls of tools
	Thought    int  // tokens of its reasoning
}

func (s *Sequence) Progress(p engine.Progress) {
	now := time.Now()
	if s.begun.IsZero() {
		s.begun = now
	}
	s.usage.PromptTokens, s.usage.CachedTokens, s.usage.Slot = p.Total, p.Cached, p.Slot
	s.put(Event{Seq: s, Progress: &progress{p, now.Sub(s.begun)}, Usage: s.usage})
}

// put leaves an event in the mailbox, unless there is no memory for it. Its tokens are
// counted already.
func (s *Sequence) put(e Event) bool {
	text, tokens := e.Piece.price()
	if !s.ledger.Hold(eventBytes + text) {
		return false
	}
	e.frame, e.content = eventBytes, text+tokens
	s.box.put(e)
	return true
}

func (s *Sequence) Token(t generate.Token) bool {
	if s.PromptProbs.err() != nil { // Done tells
		return false
	}
	now := time.Now()
	if s.first.IsZero() {
		s.first = now
		s.usage.Prefill = now.Sub(s.begun)
	}
	s.usage.Decode = now.Sub(s.first)
	s.usage.Generated++
	if s.keeps { // with the end, which may be one of several
		s.ids = append(s.ids, t.ID)
	}
	if t.Stop {
		s.stop = StopEOS
		if s.PromptProbs != nil { // clients that count tokens count this one
			s.write.waiting = append(s.write.waiting, waiting{t, s.write.written})
		}
		return false
	}
	if !s.ledger.Hold(tokenPrice(&t)) || s.keeps && !s.ledger.Hold(keptBytes) {
		s.failed = ErrAnswers
		return false
	}
	p, word := s.write.write(t)
	s.hasLine.Store(s.write.line)
	if !p.Empty() && !s.put(Event{Seq: s, Piece: p, Usage: s.usage}) {
		s.failed = ErrAnswers
		return false
	}
	switch {
	case word != "":
		s.stop, s.word = StopByWord, word
		return false
	case s.write.stops.Shallow(), s.maxTime > 0 && s.write.line && s.usage.Decode > s.maxTime:
		s.stop = StopLimit
		return false
	}
	return true
}

// errNoText is returned for an answer that could not be completed; the log has the
// reason.
var errNoText = errors.New("the end of the answer could not be made")

func (s *Sequence) Done(r engine.Result) {
	e := Event{Seq: s, Usage: r.Usage, End: &Ending{err: cmp.Or(r.Err, errNoText)}}
	defer func() { s.last(e) }() // always: the request waits for it
	last, word := s.write.end(s.word)
	s.hasLine.Store(s.write.line)
	if word != s.word {
		s.stop, s.word = StopByWord, word
	}
	if s.stop == "" {
		s.stop = StopLimit
	}
	e.Piece = last
	*e.End = Ending{err: cmp.Or(r.Err, s.failed, s.PromptProbs.err()), Stop: s.stop, Word: s.word,
		truncated: r.Finish == generate.CtxFull || r.Shifts > 0, Calls: s.write.calls, Thought: s.write.thought}
}

// last leaves the last event in the mailbox, even if there is no memory for it.
func (s *Sequence) last(e Event) {
	if !s.put(e) {
		_, e.content = e.Piece.price()
		s.box.put(e)
	}
}

// A mailbox queues events until they are fetched, or until it is closed.
type mailbox struct {
	mu     sync.Mutex
	closed bool
	events []Event
	ready  chan struct{} // signalled when there may be events
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (b *mailbox) put(e Event) {
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

func (b *mailbox) fetch() []Event {
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
