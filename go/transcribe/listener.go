package transcribe

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Listener is an open model that transcribes: one of speech, or one that chats and hears.
type Listener struct {
	Config     *model.Config
	Vocabulary *Vocabulary // of a model of speech; nil: it chats, and has what follows
	Tokenizer  *tokenizer.Tokenizer
	Template   *chat.Template
	Projector  *reading.Projector
	Ctx        int // tokens of a sequence

	Budget  *mem.Budget    // nil: memory is not counted
	Request engine.Request // whose flow, priority, deadline and origin all requests have
	Submit  func(*engine.Request) (Ticket, error)
}

// Can returns ErrModel unless the model transcribes.
func (l *Listener) Can() error {
	if l.Vocabulary == nil && !l.Projector.Takes(chat.Sound) {
		return ErrModel
	}
	return nil
}

// Writes returns an error if the format needs times, and the model tells none.
func (l *Listener) Writes(format string) error {
	if l.Vocabulary == nil && (format == "srt" || format == "vtt") {
		return fmt.Errorf("%s needs the times of what is said, which this model does not tell; want text, json or verbose_json, or a model such as "+
			"Whisper", format)
	}
	return nil
}

// Times returns an error if the model does not tell the times of words.
func (l *Listener) Times() error {
	if l.Vocabulary == nil {
		return errors.New("this model tells no times")
	}
	if len(l.Config.Aligned) == 0 {
		return ErrWords
	}
	return nil
}

// Transcribe writes down what is said in samples, Rate of them a second.
func (l *Listener) Transcribe(ctx context.Context, samples []float32, o Options) (*Result, error) {
	if l.Vocabulary == nil {
		return l.chat(ctx, samples, o)
	}
	e, err := NewEngine(l.Config, l.Budget, l.Submit)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	e.Request = l.Request
	return Transcribe(ctx, e, l.Vocabulary, samples, o)
}

// An OptionError reports an option that the model does not know: "language", "translate" or "prompt".
type OptionError struct{ Option, why string }

func (e *OptionError) Error() string { return e.why }
