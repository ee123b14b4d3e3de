package tokenizer

import (
	"cmp"
	"errors"
)

// A Writer writes the text of tokens as they are generated, up to a stop word.
type Writer struct {
	text  *Stream
	stops *Stops
	out   func(text string) error
}

// NewWriter returns a Writer that passes a stream's text to out, up to the first of the words.
func NewWriter(text *Stream, words []string, out func(text string) error) *Writer {
	return &Writer{text: text, stops: NewStops(words, 0), out: out}
}

// errEnded stops the generation at a stop word.
var errEnded = errors.New("the text has ended")

// Write writes the text of a token as far as it cannot be part of a stop word. It fails if a stop word has
// ended the text; End does not report that as an error.
func (w *Writer) Write(id int32) error { return w.add(w.text.Write(id)) }

func (w *Writer) add(text string) error {
	sure, word := w.stops.Write(text)
	err := w.out(sure)
	if err == nil && word != "" {
		err = errEnded
	}
	return err
}

// End writes the text held back, and returns the reason for the end if it is an error.
func (w *Writer) End(why error) error {
	if !errors.Is(why, errEnded) {
		rest := w.add(w.text.Flush())
		if rest == nil {
			rest = w.out(w.stops.Flush())
		}
		why = cmp.Or(why, rest)
	}
	if errors.Is(why, errEnded) {
		return nil
	}
	return why
}
