// Package repl is the interactive chat: it reads messages and commands, and writes
// answers as they are generated.
//
// The conversation is one sequence of the engine. The prefix that a prompt shares
// with the sequence is not evaluated again, so that a turn costs its new tokens.
//
// Answers, and nothing else, go to one writer, everything else to another. An error
// in a message or a command is reported in one line, and the conversation goes on.
package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Config is the model of a Session, and its input and output.
type Config struct {
	Engine    *engine.Engine
	Draft     draft.Options    // what is guessed of answers
	Sequence  *engine.Sequence // of the engine, empty, with its adapters; nil: a new one
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Projector *reading.Projector // what the model sees and hears with; nil: text only
	Media     []chat.Part        // that the next message begins with
	Settings  Settings
	System    string         // the system message; "": none
	Examples  []chat.Message // turns before the conversation, which are no part of it
	First     string         // the first message; "": none
	Once      bool           // the session ends after the first answer
	Keep      int            // first tokens of a prompt that stay where an answer shifts the context; -1: all
	Stops     []string       // texts at which answers end
	Tools     Tools          // that the model may call; nil: none

	Input      Input
	Out, Notes io.Writer // for answers, and for all else
	Person     bool      // interactive: errors do not change the result of Run
	Screen     bool      // Out is a terminal: control characters are removed
	Dim        bool      // Notes is a terminal: the reasoning is dimmed
	// The columns of the terminals that Out and Notes are, whose lines are broken between words; nil: lines stay as they are.
	OutColumns, NotesColumns func() int
}

// Settings are the sampling settings, which can be changed between answers.
type Settings interface {
	Set(name, value string) error
	// Each calls show for each setting; those that most people change are common.
	Each(show func(name, value, usage string, common bool))
	Sampling() sample.Params // of the next answer, with its seed
	Predict() int            // maximum number of tokens of an answer; -1: no limit
	// Constraint returns what the answer to a prompt is held to; nil: nothing.
	Constraint(*chat.Prompt) (constrain.Constraint, error)
}

// A Session is a conversation with a model.
type Session struct {
	Config
	conversation
	allowed map[string]bool // tools that are called without a question
	leftOut int             // oldest messages that are no longer part of the prompt
	file    string          // that the conversation was last saved to or loaded from
	failed  int             // number of messages and commands that failed
	seq     *engine.Sequence
	used    int          // tokens of the context, after the last answer
	last    engine.Stats // of the last answer
}

// New returns a Session with an empty conversation.
func New(c Config) *Session {
	if c.Sequence == nil {
		c.Sequence = c.Engine.NewSequence()
	}
	return &Session{Config: c, conversation: conversation{system: c.System}, seq: c.Sequence}
}

// errQuit ends a session.
var errQuit = errors.New("quit")

// Run answers until the input ends, and closes the session. It returns an error for
// input that cannot be read, for output that cannot be written, and, unless the
// session is interactive, for failed messages and for an interrupt.
func (s *Session) Run(ctx context.Context) error {
	defer s.seq.Close()
	if s.First != "" {
		if err := s.say(ctx, s.First); err != nil {
			return err
		}
	}
	hinted := false
	for !s.Once || len(s.messages) == 0 && s.failed == 0 {
		typed, err := s.Input.Read()
		switch {
		case errors.Is(err, ErrInterrupted) && !hinted:
			s.note("Ctrl-C again, Ctrl-D or /quit leaves")
			hinted = true
			continue
		case errors.Is(err, io.EOF), errors.Is(err, ErrInterrupted):
			return s.outcome()
		case err != nil:
			return err
		}
		hinted = false
		switch err := s.take(ctx, typed); {
		case errors.Is(err, errQuit):
			return s.outcome()
		case err != nil:
			return err
		}
	}
	return s.outcome()
}

// outcome returns the error of a session whose input has ended.
func (s *Session) outcome() error {
	if s.Person || s.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of what was asked for failed", s.failed)
}

// take carries out one input. It returns an error that ends the session.
func (s *Session) take(ctx context.Context, typed string) error {
	command, body := split(typed)
	body = text(body)
	if command != "" && !s.isFile(typed) {
		return s.do(command, body)
	}
	if command != "" {
		body = text(typed)
	}
	if strings.TrimSpace(body) == "" && len(s.Media) == 0 {
		return nil
	}
	return s.say(ctx, body)
}

// note writes a line to Notes.
func (s *Session) note(format string, args ...any) { s.noteIndented(0, format, args...) }

// noteIndented writes a line to Notes. Where it is broken, it goes on after so many blanks.
func (s *Session) noteIndented(indent int, format string, args ...any) {
	w := wrapper{columns: s.NotesColumns, indent: indent}
	fmt.Fprintln(s.Notes, w.wrap(Printable(fmt.Sprintf(format, args...))))
}

// fail reports an error.
func (s *Session) fail(err error) {
	s.failed++
	s.note("quern: %v", err)
}
