package server

import (
	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A piece is what some tokens add to an answer. Tokens come with the text that
// ends them: those of half a character, or of what may become a stop word, with
// the piece that settles it.
type piece struct {
	content, thoughts string
	tokens            []engine.Token
}

func (p *piece) empty() bool { return p.content == "" && p.thoughts == "" }

// A writer turns the tokens of a sequence into pieces of its answer.
type writer struct {
	text    *tokenizer.Stream
	stops   *stopper
	split   *chat.Splitter // nil: thoughts are part of the answer
	both    bool           // thoughts are part of the answer too
	line    bool           // there was a line break
	written int            // bytes of text
	sure    int            // of which are no stop word
	waiting []waiting      // tokens whose text is not out
	out     piece          // that is, but not returned yet
}

type waiting struct {
	token engine.Token
	at    int // where its text begins
}

// write takes a token and returns the piece that it completes, which may be
// empty, and the stop word, if it completes one: then it was the last.
func (w *writer) write(t engine.Token) (p piece, word string) {
	w.waiting = append(w.waiting, waiting{t, w.written})
	word = w.add(w.text.Write(t.ID))
	if w.out.empty() && word == "" {
		return piece{}, word
	}
	return w.take(), word
}

// add takes text, and returns the stop word that it completes.
func (w *writer) add(text string) (word string) {
	w.written += len(text)
	var sure string
	sure, word = w.stops.write(text)
	w.settle(sure)
	return word
}

// settle moves text that is no stop word, and its tokens, to the next piece.
func (w *writer) settle(sure string) {
	w.sure += len(sure)
	n := 0
	for n < len(w.waiting) && w.waiting[n].at < w.sure {
		w.out.tokens = append(w.out.tokens, w.waiting[n].token)
		n++
	}
	w.waiting = w.waiting[n:]
	w.put(sure)
}

func (w *writer) put(text string) {
	if text == "" {
		return
	}
	for i := range len(text) {
		w.line = w.line || text[i] == '\n'
	}
	content, thoughts := text, ""
	if w.split != nil {
		content, thoughts = w.split.Write(text)
	}
	if w.both {
		content = text
	}
	w.out.content += content
	w.out.thoughts += thoughts
}

// end returns the last piece. Where no stop word ended the text, what was held
// back is part of it after all, unless that ends with one; half a character that
// a stop word cut off is not.
func (w *writer) end(word string) (piece, string) {
	if word == "" {
		if word = w.add(w.text.Flush()); word == "" {
			w.settle(w.stops.flush())
			for _, t := range w.waiting { // which print nothing
				w.out.tokens = append(w.out.tokens, t.token)
			}
		}
	}
	if w.split != nil {
		content, thoughts := w.split.Flush()
		if !w.both {
			w.out.content += content
		}
		w.out.thoughts += thoughts
	}
	return w.take(), word
}

func (w *writer) take() piece {
	p := w.out
	w.out = piece{}
	return p
}
