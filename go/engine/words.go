package engine

import (
	"slices"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/draft"
)

// A Vocabulary is how a model's texts are written.
type Vocabulary interface {
	// Text appends what ids say to dst: the beginning of a text, or what continues one.
	Text(dst []byte, ids []int32, begins bool) []byte
	// IDs appends the ids of a text to dst: of one that begins, or of what continues one.
	IDs(dst []int32, text []byte, begins bool) []int32
}

// words is a text in the vocabulary of a draft model, where that is another than the model's. What is new of the text is read
// in the other vocabulary. Its last word is read again with what follows it, since a word's tokens depend on all of it.
type words struct {
	mine, theirs Vocabulary // the model's, and the draft model's
	fixed        bool       // no token is taken back: the draft model's state cannot go back either
	known        int        // tokens of the text that are read
	ids          []int32    // in the other vocabulary
	settled      int        // of these: they stay
	tail         []byte     // what the text says after them
	begun        bool       // there is text before the tail
	unread       int        // bytes at the end of the tail: of a character that is not whole

	piece []byte // scratch
	says  []byte
}

// longestTail is how many bytes may be read again: a text need not have words.
const longestTail = 256

// read reads the text as far as it has grown.
func (w *words) read(text []int32) {
	if w.known > len(text) {
		w.known, w.ids, w.settled, w.tail, w.begun = 0, w.ids[:0], 0, w.tail[:0], false
	}
	if w.known == len(text) {
		return
	}
	if w.begun {
		w.tail = w.mine.Text(w.tail, text[w.known:], false)
	} else { // what begins a text may be written otherwise
		w.tail = w.mine.Text(w.tail[:0], text, true)
	}
	w.known = len(text)
	w.unread = cutOff(w.tail)
	whole := w.tail[:len(w.tail)-w.unread]
	if len(whole) == 0 {
		w.ids = w.ids[:w.settled]
		return
	}
	w.ids = w.theirs.IDs(w.ids[:w.settled], whole, !w.begun)
	w.settle(whole)
}

// settle lets tokens stay: those before the last word.
func (w *words) settle(whole []byte) {
	end, n, at := 0, w.settled, 0 // of what stays
	for i := w.settled; i < len(w.ids); i++ {
		w.piece = w.theirs.Text(w.piece[:0], w.ids[i:i+1], !w.begun && at == 0) // a BOS says nothing
		if at+len(w.piece) > len(whole) || string(whole[at:at+len(w.piece)]) != string(w.piece) {
			end, n = len(whole), len(w.ids) // they do not say the text, so there is no telling where words begin
			break
		}
		if at > 0 && (whole[at] <= ' ' || len(whole)-at > longestTail) {
			end, n = at, i
		}
		at += len(w.piece)
	}
	if w.fixed {
		end, n = len(whole), len(w.ids)
	}
	w.begun = w.begun || end > 0
	w.settled = n
	if rest := w.tail[end:]; cap(w.tail) > 64*longestTail {
		w.tail = slices.Clone(rest) // without the room that a prompt took
	} else {
		w.tail = w.tail[:copy(w.tail, rest)]
	}
}

// cutOff returns how many bytes at the end of a text are the beginning of a character.
func cutOff(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// lastPart is what part of its probability the last token of a guess has: where the draft model would go on, it might be longer.
const lastPart = 0.7

// write returns guesses in the draft model's vocabulary as guesses in the model's, with the probability of each where those
// before it are right.
func (w *words) write(found []draft.Guess, probs []float32) (ids []int32, chances []float32) {
	w.says = w.says[:0]
	ends := make([]int, 0, len(found))
	for _, g := range found {
		from := len(w.says)
		if w.says = w.theirs.Text(w.says, []int32{g.ID}, false); len(w.says) == from {
			break
		}
		ends = append(ends, len(w.says))
	}
	says := w.says[:len(w.says)-cutOff(w.says)]
	if w.unread > 0 { // the model has the beginning of that character
		head := w.tail[len(w.tail)-w.unread:]
		if len(says) < len(head) || string(says[:len(head)]) != string(head) {
			return nil, nil
		}
	}
	skip := w.unread
	ids = w.mine.IDs(nil, says[skip:], false)
	at, of := skip, 0
	for i, id := range ids {
		w.piece = w.mine.Text(w.piece[:0], []int32{id}, false)
		if len(w.piece) == 0 || at+len(w.piece) > len(says) || string(says[at:at+len(w.piece)]) != string(w.piece) {
			ids = ids[:i]
			break
		}
		at += len(w.piece)
		p := float32(1)
		for ; of < len(ends) && (of == 0 || ends[of-1] < at); of++ { // those that begin before its end
			p *= probs[of]
		}
		if at == len(says) {
			p *= lastPart
		}
		chances = append(chances, p)
	}
	return ids, chances
}
