package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"unicode"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/tokenizer"
)

// say adds a user message and generates the answer, and goes on while the model calls
// tools. If there is no answer, all that was added is removed again. It returns an error
// that ends the session.
func (s *Session) say(ctx context.Context, message string) error {
	content, err := s.content(message)
	if err != nil {
		s.fail(err)
		return nil
	}
	before := len(s.messages)
	s.messages = append(s.messages, chat.Message{Role: "user", Content: content})
	answering, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if q, ok := s.Input.(Quieter); ok {
		defer q.Quiet()()
	}
	for called, more := 0, true; more; called++ {
		var answer chat.Message
		answer, err = s.answer(answering)
		if answer.Content.Text == "" && len(answer.ToolCalls) == 0 && err != nil {
			s.messages = s.messages[:before]
			if answering.Err() != nil {
				s.note("stopped before there was an answer: the message is taken back")
			}
			break
		}
		s.messages = append(s.messages, answer)
		if more = len(answer.ToolCalls) > 0 && err == nil; more && called == maxRounds {
			err = fmt.Errorf("the model called tools %d times and gave no answer; ask it for less", called)
			more = false
		}
		for _, call := range answer.ToolCalls {
			s.messages = append(s.messages, s.call(answering, call, more))
		}
	}
	var out *writeError
	switch {
	case errors.As(err, &out):
		return out.error
	case answering.Err() != nil && (!s.Person || ctx.Err() != nil):
		return answering.Err()
	case answering.Err() == nil && err != nil:
		s.fail(err)
	}
	return nil
}

// A writeError is a failure to write an answer.
type writeError struct{ error }

// answer generates the next assistant message. On failure it returns the part that
// was generated.
func (s *Session) answer(ctx context.Context) (chat.Message, error) {
	m := chat.Message{Role: "assistant"}
	prompt, tokens, err := s.prompt(ctx)
	if err != nil {
		return m, err
	}
	held, err := s.Settings.Constraint(&prompt)
	if err != nil {
		return m, err
	}
	w := s.writer(prompt)
	s.last, err = s.Engine.Generate(ctx, s.seq, generate.Params{
		Prompt: tokens.IDs, MaxTokens: s.Settings.Predict(), Keep: s.Keep, Sampling: s.Settings.Sampling(), Stop: s.Tokenizer.IsEOG, TopLogprobs: -1, Constraint: held, Draft: s.Draft,
	}, w.text.Write, tokens.Media...)
	err = w.end(err)
	s.used = s.seq.Len()
	if s.last.Finish == generate.CtxFull {
		s.note("the answer stops here: the context of %d tokens is full; -c sets its size, --context-shift goes on", s.Engine.Ctx())
	}
	m.Content = chat.Text(w.content.String())
	m.ReasoningContent = w.reasoning.String()
	if err == nil {
		m.ToolCalls = w.calls
	}
	return m, err
}

// prompt returns the rendered conversation and its tokens. Where they leave less
// than a quarter of the context for an answer, the older half of the messages is
// left out for good: dropping only as much as needed would change the beginning of
// the prompt, and so evaluate all of it again, with every turn.
func (s *Session) prompt(ctx context.Context) (prompt chat.Prompt, tokens *reading.Prompt, err error) {
	window := s.Engine.Ctx()
	leftOut := s.leftOut
	for {
		prompt, err = s.Template.Render(chat.Input{Messages: s.withSystem(slices.Concat(s.Examples, s.messages[leftOut:])), Tools: s.specs(), AddGenerationPrompt: true})
		if err != nil {
			return chat.Prompt{}, nil, err
		}
		if tokens, err = s.Projector.Tokens(ctx, s.Tokenizer, 0, prompt.Pieces()); err != nil {
			return chat.Prompt{}, nil, err
		}
		if len(tokens.IDs) == 0 {
			return chat.Prompt{}, nil, errors.New("the chat template makes nothing of the message; --chat-template gives another")
		}
		n := laterHalf(s.messages[leftOut:])
		if len(tokens.IDs) <= window-window/4 || n == 0 {
			break
		}
		leftOut += n
	}
	if ids := tokens.IDs; len(ids) >= window {
		return chat.Prompt{}, nil, fmt.Errorf("the message needs %d tokens and the context has %d; give a shorter one, or a larger -c", len(ids), window)
	}
	if leftOut > s.leftOut {
		s.note("the context of %d tokens is full: the model does not see the oldest %d messages any more; /clear begins anew, -c sets its size", window, leftOut)
		s.leftOut = leftOut
	}
	if tokens.Media != nil { // they were counted
		tokens, err = s.Projector.Tokens(ctx, s.Tokenizer, window, prompt.Pieces())
	}
	return prompt, tokens, err
}

// laterHalf returns the index at which the later half of messages begins, always
// with a user message, or 0 if they cannot be divided.
func laterHalf(messages []chat.Message) int {
	for i := max(len(messages)/2, 1); i < len(messages); i++ {
		if messages[i].Role == "user" {
			return i
		}
	}
	return 0
}

// An answerWriter shows an answer as it comes: the content on Out, the reasoning
// among the notes.
type answerWriter struct {
	s                  *Session
	text               *tokenizer.Writer
	reply              *chat.Reply
	content, reasoning strings.Builder
	calls              []chat.ToolCall
	answers, thoughts  wrapper // of Out and Notes
}

func (s *Session) writer(prompt chat.Prompt) *answerWriter {
	w := &answerWriter{s: s, reply: prompt.Reply(), answers: wrapper{columns: s.OutColumns}, thoughts: wrapper{columns: s.NotesColumns}}
	w.text = tokenizer.NewWriter(s.Tokenizer.NewStream(prompt.Marks()...), s.Stops, func(text string) error { return w.show(w.reply.Write(text)) })
	return w
}

// end writes what was held back, and ends the line. It returns why the answer ended, where that is an error.
func (w *answerWriter) end(why error) error {
	why = w.text.End(why)
	err := w.show(w.reply.Close())
	switch {
	case w.content.Len() == 0 && w.reasoning.Len() > 0:
		fmt.Fprintln(w.s.Notes)
	case w.content.Len() == 0 && len(w.calls) > 0:
	case !strings.HasSuffix(w.content.String(), "\n") && err == nil:
		err = w.out("\n")
	}
	return cmp.Or(why, err)
}

func (w *answerWriter) show(deltas []chat.Delta) error {
	for _, d := range deltas {
		if d.Reasoning != "" {
			w.reasoning.WriteString(d.Reasoning)
			shown := w.thoughts.wrap(Printable(d.Reasoning))
			if w.s.Dim {
				shown = "\x1b[2m" + shown + "\x1b[22m"
			}
			fmt.Fprint(w.s.Notes, shown)
		}
		if c := d.Call; c != nil {
			if c.Index == len(w.calls) {
				w.calls = append(w.calls, chat.ToolCall{ID: c.ID, Type: "function", Function: chat.Function{Name: c.Name}})
			}
			w.calls[c.Index].Function.Arguments += chat.Arguments(c.Arguments)
		}
		if d.Content == "" {
			continue
		}
		if w.content.Len() == 0 && w.reasoning.Len() > 0 {
			fmt.Fprint(w.s.Notes, "\n\n")
		}
		w.content.WriteString(d.Content)
		if err := w.out(d.Content); err != nil {
			return err
		}
	}
	return nil
}

func (w *answerWriter) out(content string) error {
	if w.s.Screen {
		content = w.answers.wrap(Printable(content))
	}
	if _, err := io.WriteString(w.s.Out, content); err != nil {
		return &writeError{err}
	}
	return nil
}

// Printable removes the control characters, which a terminal would obey.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
