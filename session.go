package quern

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/engine"
)

// A Session is a conversation with a model. What was said stays evaluated as long as the model's cache has room, so that a
// turn costs its own tokens. Its methods are safe for concurrent use; turns follow one another.
//
// A turn that fails, or that the caller leaves before its end, is no part of the session.
type Session struct {
	m *Model
	r Request // its options; Messages are those of the session

	turn chan struct{} // has an element while there is one

	mu       sync.Mutex
	messages []Message
	tokens   []int32 // of the last prompt with its answer: what the cache may have
	closed   bool
}

// NewSession returns a session that begins with the Messages of r, such as a System message. The other fields of r are the
// options of each turn.
func (m *Model) NewSession(r Request) (*Session, error) {
	if r.Prompt != "" {
		return nil, invalid("a session has Messages, and no Prompt")
	}
	s := &Session{m: m, r: r, turn: make(chan struct{}, 1), messages: slices.Clone(r.Messages)}
	s.r.Messages = nil
	return s, nil
}

// Chat has the model answer messages, which follow those of the session. Tools of the session that have a Call are called,
// as [Model.Run] does; the calls of others end the turn, and the next one begins with [ResultOf] each.
func (s *Session) Chat(ctx context.Context, messages ...Message) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if ctx == nil {
			yield(Event{}, errNilContext)
			return
		}
		select {
		case s.turn <- struct{}{}:
			defer s.turned()
		case <-ctx.Done():
			yield(Event{}, context.Cause(ctx))
			return
		}
		s.mu.Lock()
		r := s.r
		r.Messages = slices.Concat(s.messages, messages)
		closed := s.closed
		s.mu.Unlock()
		if closed {
			yield(Event{}, errSessionClosed)
			return
		}
		var tokens []int32
		ask := func(ctx context.Context, r Request) iter.Seq2[Event, error] { return s.m.chat(ctx, r, &tokens) }
		added := slices.Clone(messages)
		events, runs := ask(ctx, r), len(r.Tools) > 0 && !slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Call == nil })
		if runs {
			events = run(ctx, r, ask, func(result ...Message) { added = append(added, result...) })
		}
		for e, err := range events {
			if done := e.Result; done != nil {
				added = append(added, done.Message)
				if !runs || done.Finish != FinishCalls {
					s.keep(added, tokens) // before the caller, who may leave now
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// turned ends a turn.
func (s *Session) turned() { <-s.turn }

// keep adds a turn.
func (s *Session) keep(added []Message, tokens []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages, s.tokens = append(s.messages, added...), tokens
}

var errSessionClosed = &failure{ErrClosed, errors.New("the session is closed")}

// Complete is Chat for callers that want the whole answer.
func (s *Session) Complete(ctx context.Context, messages ...Message) (*Result, error) {
	return collect(s.Chat(ctx, messages...))
}

// Messages returns what was said so far.
func (s *Session) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Fork returns a session that begins as this one, whose turns are its own. What both have is in memory once.
func (s *Session) Fork() (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errSessionClosed
	}
	return &Session{
		m: s.m, r: s.r, turn: make(chan struct{}, 1), messages: slices.Clip(slices.Clone(s.messages)), tokens: s.tokens,
	}, nil
}

// Close ends the session: further turns are [ErrClosed].
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// A saved session is:
//
//	"quernSE1"   8 bytes
//	length       uint32, little-endian, of
//	messages     JSON
//	state        of the text in the model, as slot files have it (go/engine); nothing where the cache has none
const sessionMagic = "quernSE1"

// maxSession limits the JSON of a saved session.
const maxSession = 1 << 30

// Save writes what was said, in the clear, and what the model has evaluated of it: so [Model.RestoreSession] goes on
// without evaluating it again. It waits for a turn that is under way.
func (s *Session) Save(w io.Writer) error {
	s.turn <- struct{}{}
	defer s.turned()
	s.mu.Lock()
	messages, tokens, closed := s.messages, s.tokens, s.closed
	s.mu.Unlock()
	if closed {
		return errSessionClosed
	}
	leave, err := s.m.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	b, err := json.Marshal(messages)
	if err != nil {
		return &failure{ErrInternal, err}
	}
	if len(b) > maxSession {
		return invalid(fmt.Sprintf("the messages have %d bytes, want at most %d", len(b), maxSession))
	}
	head := binary.LittleEndian.AppendUint32([]byte(sessionMagic), uint32(len(b)))
	if _, err := w.Write(append(head, b...)); err != nil {
		return err
	}
	if len(tokens) == 0 {
		return nil
	}
	_, err = s.m.loop.SaveText(tokens, s.m.open.Adapters, "", w)
	if errors.Is(err, engine.ErrSlotEmpty) {
		return nil
	}
	if errors.Is(err, engine.ErrClosing) {
		return errClosed
	}
	return err
}

// RestoreSession reads a session that [Session.Save] wrote. The fields of r are the options of each turn; its Messages have
// to be empty. A session of another model is restored too: its messages are evaluated at the next turn. A damaged one is
// [ErrFile].
func (m *Model) RestoreSession(r io.Reader, options Request) (*Session, error) {
	if len(options.Messages) > 0 {
		return nil, invalid("the options of a restored session have Messages; it has its own")
	}
	s, err := m.NewSession(options)
	if err != nil {
		return nil, err
	}
	leave, err := m.enter(context.Background())
	if err != nil {
		return nil, err
	}
	defer leave()
	in := bufio.NewReader(r)
	head := make([]byte, len(sessionMagic)+4)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:len(sessionMagic)]) != sessionMagic {
		return nil, &failure{ErrFile, fmt.Errorf("not a saved session: it does not begin with %q", sessionMagic)}
	}
	n := binary.LittleEndian.Uint32(head[len(sessionMagic):])
	if n > maxSession {
		return nil, &failure{ErrFile, fmt.Errorf("the saved session has %d bytes of messages, want at most %d", n, maxSession)}
	}
	b, err := io.ReadAll(io.LimitReader(in, int64(n))) // as it comes: what a file says is not allocated before
	if err == nil && len(b) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = json.Unmarshal(b, &s.messages)
	}
	if err != nil {
		return nil, &failure{ErrFile, fmt.Errorf("the saved session is damaged: %w", err)}
	}
	if _, err := in.Peek(1); err == nil {
		_, err = m.loop.RestoreText("", in)
		if errors.Is(err, engine.ErrSlotFile) && !errors.Is(err, engine.ErrSlotModel) {
			return nil, &failure{ErrFile, fmt.Errorf("the saved session: %w", err)}
		}
	}
	return s, nil
}
