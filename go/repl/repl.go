// Package repl talks with a model: it reads messages and commands, and writes
// answers as they are generated.
//
// The conversation lies in one sequence of the engine. What a prompt has in
// common with what is there already is not evaluated again, so that a turn costs
// what is new in it.
//
// Answers, and nothing else, go to one writer, all else to another. What is
// wrong with a message or a command is one line, and the conversation goes on.
package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Config is what a Session talks with, and where.
type Config struct {
	Engine    *engine.Engine
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Settings  Settings
	System    string // what comes before the conversation; "": nothing
	First     string // a message to begin with; "": none

	Input      Input
	Out, Notes io.Writer // for answers, and for all else
	Person     bool      // somebody is there, who sees what goes wrong and goes on
	Screen     bool      // Out is a terminal, which control characters can harm
	Dim        bool      // Notes is one, which shows thoughts in another color
}

// Settings say how tokens are chosen, and can be changed between answers.
type Settings interface {
	Set(name, value string) error
	Each(show func(name, value, usage string))
	Sampling() sample.Params // of the next answer, with its seed
	Predict() int            // most tokens of an answer; -1: until it ends
}

// A Session is a conversation with a model.
type Session struct {
	Config
	conversation
	leftOut int    // messages, the oldest, that the model is not shown any more
	file    string // that the conversation was saved to or loaded from last
	failed  int    // messages and commands
	seq     *engine.Sequence
	used    int          // tokens of the context, after the last answer
	last    engine.Stats // of the last answer
}

// New returns a Session in which nothing was said yet.
func New(c Config) *Session {
	return &Session{Config: c, conversation: conversation{system: c.System}, seq: c.Engine.NewSequence()}
}

// errQuit ends a session.
var errQuit = errors.New("quit")

// Run talks until the input ends, and closes the session. It returns an error for
// input that cannot be read, for output that cannot be written, and, where nobody
// watches, for what failed and for an interrupt.
func (s *Session) Run(ctx context.Context) error {
	defer s.seq.Close()
	if s.First != "" {
		if err := s.say(ctx, s.First); err != nil {
			return err
		}
	}
	hinted := false
	for {
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
}

// outcome is what a session comes to when nothing is left to say.
func (s *Session) outcome() error {
	if s.Person || s.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of what was asked for failed", s.failed)
}

// take does what was typed. It returns an error that ends the session.
func (s *Session) take(ctx context.Context, typed string) error {
	command, body := split(typed)
	body = text(body)
	if command != "" {
		return s.do(command, body)
	}
	if strings.TrimSpace(body) == "" {
		return nil
	}
	return s.say(ctx, body)
}

// note writes a line that is no part of the conversation.
func (s *Session) note(format string, args ...any) {
	fmt.Fprintln(s.Notes, printable(fmt.Sprintf(format, args...)))
}

// fail notes what went wrong.
func (s *Session) fail(err error) {
	s.failed++
	s.note("quern: %v", err)
}
