package answer

import (
	"slices"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Piece is what one or more tokens add to an answer. Tokens come with the text that
// completes them: those of a partial character, or of a possible stop word, with the
// piece that resolves it.
type Piece struct {
	deltas []chat.Delta
	Tokens []generate.Token
	said   [][]generate.Token // where they are wanted: the tokens of each delta that is content
}

func (p *Piece) Empty() bool { return len(p.deltas) == 0 }

// saidBy returns the tokens of a delta that is content, where they are wanted.
func (p *Piece) saidBy(i int) []generate.Token {
	if i < len(p.said) {
		return p.said[i]
	}
	return nil
}

// Content is what the piece adds to the text of an answer.
func (p *Piece) Content() string {
	text := ""
	for _, d := range p.deltas {
		text += d.Content
	}
	return text
}

// A writer turns the tokens of a sequence into pieces of its answer.
type writer struct {
	text    *tokenizer.Stream
	stops   *tokenizer.Stops
	reply   *chat.Reply // of a chat: nil: all text is content
	whole   *chat.Reply // the same with its reasoning as content, where the content is wanted so
	calls   bool        // there was a call of a tool
	thought int         // tokens of the reasoning
	line    bool        // there was a line break
	written int         // bytes of text
	sure    int         // of which cannot be part of a stop word
	waiting []waiting   // tokens whose text is not complete
	sorted  bool        // the tokens of content are wanted apart from those of thoughts and calls
	unsaid  []spoken    // sorted: tokens of text that is held back, and may be content
	out     Piece       // complete, but not returned yet
}

type waiting struct {
	token generate.Token
	at    int // where its text begins
}

// spoken is a token with how many bytes of text it has.
type spoken struct {
	token generate.Token
	bytes int
}

// newWriter returns the writer of an answer. For a chat, prompt is the prompt that the
// model replies to, and nil otherwise.
func newWriter(o *ask.Options, m *ask.Model, prompt *chat.Prompt) writer {
	w := writer{stops: tokenizer.NewStops(o.Stop, o.Indent), sorted: o.Sorted}
	if prompt == nil {
		w.text = m.Tokenizer.NewStream(o.Form.Lazy.Marks(m)...)
		return w
	}
	w.text = m.Tokenizer.NewStream(slices.Concat(prompt.Marks(), o.Form.Lazy.Marks(m))...)
	switch w.reply = prompt.Reply(); o.Thinking {
	case "none":
		w.reply.KeepReasoning()
	case "deepseek-legacy":
		w.whole = prompt.Reply()
		w.whole.KeepReasoning()
	}
	return w
}

// Write takes a token and returns the piece that it completes, which may be empty, and
// the stop word, if it completes one: then no more tokens follow.
func (w *writer) write(t generate.Token) (p Piece, word string) {
	w.waiting = append(w.waiting, waiting{t, w.written})
	thinks := w.thinks()
	word = w.add(w.text.Write(t.ID))
	if thinks || w.thinks() {
		w.thought++
	}
	if w.out.Empty() && word == "" {
		return Piece{}, word
	}
	return w.take(), word
}

// thinks reports whether the text ends within the reasoning.
func (w *writer) thinks() bool { return w.reply != nil && w.reply.Thinking() }

// add takes text, and returns the stop word that it completes.
func (w *writer) add(text string) (word string) {
	w.written += len(text)
	var sure string
	sure, word = w.stops.Write(text)
	w.settle(sure)
	return word
}

// settle moves text that cannot be part of a stop word, and its tokens, to the next
// piece.
func (w *writer) settle(sure string) {
	from := w.sure
	w.sure += len(sure)
	n := 0
	for n < len(w.waiting) && w.waiting[n].at < w.sure {
		w.out.Tokens = append(w.out.Tokens, w.waiting[n].token)
		n++
	}
	settled := w.waiting[:n]
	w.waiting = w.waiting[n:]
	if !w.sorted {
		w.put(sure)
		return
	}
	for i, t := range settled { // what comes before belongs to tokens that are settled
		w.put(sure[:max(t.at-from, 0)])
		sure, from = sure[max(t.at-from, 0):], max(t.at, from)
		to := w.sure
		if i+1 < n {
			to = settled[i+1].at
		}
		w.unsaid = append(w.unsaid, spoken{t.token, to - from})
		w.put(sure[:to-from])
		sure, from = sure[to-from:], to
	}
	w.put(sure)
}

// said returns the tokens of content that is settled now: the last ones that have as much text. Those before them have
// text that was dropped.
func (w *writer) said(content string) (tokens []generate.Token) {
	n, left := len(w.unsaid), len(content)
	for n > 0 && (left > 0 || w.unsaid[n-1].bytes == 0) {
		n--
		left -= w.unsaid[n].bytes
	}
	for _, t := range w.unsaid[n:] {
		tokens = append(tokens, t.token)
	}
	w.unsaid = nil
	return tokens
}

func (w *writer) put(text string) {
	if text == "" {
		return
	}
	for i := range len(text) {
		w.line = w.line || text[i] == '\n'
	}
	if w.reply == nil {
		w.out.deltas = append(w.out.deltas, chat.Delta{Content: text})
		return
	}
	thinks := w.thinks()
	w.parsed(w.reply.Write(text))
	if w.whole != nil {
		w.all(w.whole.Write(text))
	}
	if thinks || w.thinks() || w.reply.Calling() {
		w.unsaid = nil
	}
}

// parsed adds deltas of the reply to the next piece.
func (w *writer) parsed(deltas []chat.Delta) {
	for _, d := range deltas {
		w.calls = w.calls || d.Call != nil
		if w.whole == nil || d.Content == "" {
			w.out.deltas = append(w.out.deltas, d)
			if w.sorted {
				var tokens []generate.Token
				if d.Content != "" {
					tokens = w.said(d.Content)
				}
				w.out.said = append(w.out.said, tokens)
			}
		}
	}
}

// all adds the content of all text to the next piece.
func (w *writer) all(deltas []chat.Delta) {
	for _, d := range deltas {
		if d.Content != "" {
			w.out.deltas = append(w.out.deltas, d)
		}
	}
}

// End returns the last piece. If no stop word ended the text, held-back text is added,
// unless it now completes a stop word; a partial character that a stop word cut off is
// dropped.
func (w *writer) end(word string) (Piece, string) {
	if word == "" {
		if word = w.add(w.text.Flush()); word == "" {
			w.settle(w.stops.Flush())
			for _, t := range w.waiting { // they print nothing
				w.out.Tokens = append(w.out.Tokens, t.token)
			}
		}
	}
	if w.reply != nil {
		w.parsed(w.reply.Close())
	}
	if w.whole != nil {
		w.all(w.whole.Close())
	}
	return w.take(), word
}

func (w *writer) take() Piece {
	p := w.out
	w.out = Piece{}
	return p
}
