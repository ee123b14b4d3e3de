// Package agent calls tools of the server for an answer: those of MCP servers, and those of the web.
//
// The model writes calls; a Loop makes them between the generations of the answer, one after another and within limits, cuts
// what they say to what the context has room for, and has the model go on. How a request offers tools, how an answer shows
// calls, and what a conversation has of them is each API's own: its Answer makes a Call of what the model has written, is told
// what came of it, and returns the query of the next generation.
package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// An Answer is an answer of an API whose calls a Loop makes. Streams are nil where the answer is sent whole.
type Answer interface {
	// Making is told that a call is made now.
	Making(s *reply.Stream, c *Call) error
	// Made is told what came of a call.
	Made(s *reply.Stream, c *Call) error
	// Place puts what the model is to be told of a call into what Following makes its prompt of.
	Place(c *Call) error
	// Following returns the query of the next generation, which goes on after the answer so far and may have so many tokens,
	// -1: any number. first: the calls before it were those that the request began with.
	Following(tokens int, first bool) (Query, error)
	// Complete ends the answer.
	Complete(s *reply.Stream) error
}

// A Query is one whose prompt is a conversation.
type Query interface {
	answer.Prompter
	Length() int    // of the texts that the prompt is made of, about, in bytes
	CountsPrompts() // the prompt is only counted
}

// A Loop is what the generations of an answer have in common, and what is done between them.
type Loop struct {
	Limits Limits
	Most   int              // calls of the answer, within those of the limits
	Pauses bool             // what is called after that ends the answer, and is not made; otherwise it fails
	Uses   func(*Tool) bool // is told of each call, and reports whether the tool may be called; nil: it may
	Tokens int              // that the answer may have, -1: any number
	Log    zerolog.Logger
	Pages  Pages // that the model has been shown

	HandsOver bool // the client is to answer: a function that it calls, or a call that needs its approval
	Limited   bool // a limit of tokens has cut the answer off
	Paused    bool // there are calls that were not made, for which the client may ask again

	of      Answer
	mu      sync.Mutex         // of changes of g, which others may cancel
	g       *answer.Generation // the last
	pending []*Call            // that it has written
	grown   int                // bytes of results since it
	calls   int                // that were made
	used    int                // tokens of the answer
}

// Begin has a loop go on with the answer of a generation. keeps: what that has written is needed until the end.
func (l *Loop) Begin(g *answer.Generation, of Answer, keeps bool) {
	l.g, l.of = g, of
	g.Keeps = keeps
}

// Generation is the last of the answer.
func (l *Loop) Generation() *answer.Generation { return l.g }

// Cancel ends what the model does. It may be called by others.
func (l *Loop) Cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.g.Cancel()
}

// Written takes a call that is to be made.
func (l *Loop) Written(c *Call) { l.pending = append(l.pending, c) }

// Ended takes how a generation has ended, and the tokens that it has written.
func (l *Loop) Ended(end *answer.Ending, tokens int) {
	l.Limited = end.Stop == answer.StopLimit
	l.used += tokens
}

// GoesOn reports whether there are calls to make.
func (l *Loop) GoesOn() bool { return len(l.pending) > 0 }

// Drop forgets the calls that are to be made.
func (l *Loop) Drop() { l.pending = nil }

// Spent reports whether the answer has had its calls.
func (l *Loop) Spent() bool { return l.calls >= l.Most }

// Acted reports whether a call was made.
func (l *Loop) Acted() bool { return l.calls > 0 }

// Next makes the calls that are to be made, and starts the generation that goes on. There is none if the client is to answer
// first, or the answer is complete. first: the calls are those that the request began with.
func (l *Loop) Next(ctx context.Context, s *reply.Stream, first bool) (*answer.Generation, error) {
	if until := l.g.Opts.Until; !until.IsZero() {
		limited, cancel := context.WithDeadlineCause(ctx, until, engine.ErrDeadline)
		defer cancel()
		ctx = limited
	}
	if !l.GoesOn() {
		return nil, nil
	}
	barred := !first && l.Spent() // the model was offered none, and calls some: it must not go on so
	pending := l.pending
	l.pending = nil
	for i, c := range pending {
		if l.Paused = l.Pauses && l.Spent() && !l.HandsOver; l.Paused {
			break
		}
		if err := l.of.Making(s, c); err != nil {
			return nil, err
		}
		err := l.waits(ctx, s, func() error {
			err := l.make(ctx, c)
			if err == nil {
				l.fit(ctx, c, len(pending)-i, first)
			}
			return err
		})
		if errors.Is(err, reply.ErrCancelled) {
			return nil, cmp.Or(l.unanswered(s, pending[i:]), err)
		}
		if err == nil {
			err = l.of.Made(s, c)
		}
		if err != nil {
			return nil, err
		}
	}
	left := l.left()
	l.Limited = l.Limited || left == 0 && !l.HandsOver
	if l.HandsOver || l.Limited || l.Paused || barred {
		return nil, l.of.Complete(s)
	}
	if late(ctx) {
		return nil, engine.ErrDeadline
	}
	q, err := l.of.Following(left, first)
	if err != nil {
		return nil, err
	}
	g, err := l.g.Request.Again(ctx, l.g, q, q.Length())
	if err != nil {
		return nil, err
	}
	g.Keeps = true
	l.mu.Lock()
	l.g, l.grown = g, 0
	l.mu.Unlock()
	if ctx.Err() != nil && !late(ctx) { // meanwhile
		g.Cancel()
	}
	return g, nil
}

// unanswered ends calls of an answer that was cancelled: the first, which was being made, and those after it.
func (l *Loop) unanswered(s *reply.Stream, calls []*Call) error {
	why := "the response was cancelled before it answered"
	for _, c := range calls {
		c.fail(Lost, why)
		if err := l.of.Made(s, c); err != nil {
			return err
		}
		why = "not called: the response was cancelled"
	}
	return nil
}

// left is how many tokens the model may still generate, -1: any number.
func (l *Loop) left() int {
	if l.Tokens < 0 {
		return -1
	}
	return max(l.Tokens-l.used, 0)
}

// waits runs a call, and keeps a stream alive meanwhile.
func (l *Loop) waits(ctx context.Context, s *reply.Stream, unsafe func() error) error {
	run := func() error { return panics.Catch(unsafe) } // it is not always on a goroutine that others guard
	if s == nil {
		return run()
	}
	if s.Flush() != nil { // what the client waits for
		return reply.ErrGone
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	var silence <-chan time.Time
	if quiet := l.g.Request.Quiet(l.g.Opts); quiet > 0 {
		timer := time.NewTicker(quiet)
		defer timer.Stop()
		silence = timer.C
	}
	var gone error
	for {
		select {
		case err := <-ended:
			if gone != nil {
				err = gone
			}
			if ctx.Err() != nil && !late(ctx) {
				err = ask.Ended(ctx)
			}
			return err
		case <-silence:
			if gone == nil && (l.g.Request.Route.Speaks().Ping(s) != nil || s.Flush() != nil) {
				gone = reply.ErrGone // the context ends with the connection, and the call with that
			}
		}
	}
}
