package tokenizer

import (
	"cmp"
	"errors"
)

// A Writer writes the text of tokens as it comes, until a word that ends it.
type Writer struct {
	text  *Stream
	stops *Stops
	out   func(text string) error
}

// NewWriter returns what writes a stream's text by out, up to the first of the words.
func NewWriter(text *Stream, words []string, out func(text string) error) *Writer {
	return &Writer{text: text, stops: NewStops(words, 0), out: out}
}

// errEnded ends what generates the tokens, at a word.
var errEnded = errors.New("the text has ended")

// Write writes the text of a token as far as it can't be part of a word. It fails where a word has ended the text, which is no
// error to End.
func (w *Writer) Write(id int32) error { return w.add(w.text.Write(id)) }

func (w *Writer) add(text string) error {
	sure, word := w.stops.Write(text)
	err := w.out(sure)
	if err == nil && word != "" {
		err = errEnded
	}
	return err
}

// End writes what was held back, and returns why the text ended, where that is an error.
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
