package engine

import (
	"slices"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/draft"
)

// A Vocabulary converts between a model's tokens and text.
type Vocabulary interface {
	// Text appends the text of ids to dst. begins: they are the beginning of a text, not a continuation.
	Text(dst []byte, ids []int32, begins bool) []byte
	// IDs appends the ids of a text to dst. begins: it is the beginning of a text, not a continuation.
	IDs(dst []int32, text []byte, begins bool) []int32
}

// words is a text in the vocabulary of a draft model, where that differs from the model's. New text is converted
// incrementally. The last word is converted again with what follows it, since its tokens depend on all of it.
type words struct {
	mine, theirs Vocabulary // the model's, and the draft model's
	fixed        bool       // no token is converted again, since the draft model's state cannot be rolled back
	known        int        // how many tokens of the text are converted
	ids          []int32    // the text in the draft model's vocabulary
	settled      int        // how many of ids are final
	tail         []byte     // the text after these
	begun        bool       // there is text before tail
	unread       int        // bytes at the end of tail that are an incomplete character

	piece []byte // scratch
	says  []byte
}

// longestTail is the maximum number of bytes that are converted again: a text need not have words.
const longestTail = 256

// read converts what is new of the text.
func (w *words) read(text []int32) {
	if w.known > len(text) {
		w.known, w.ids, w.settled, w.tail, w.begun = 0, w.ids[:0], 0, w.tail[:0], false
	}
	if w.known == len(text) {
		return
	}
	if w.begun {
		w.tail = w.mine.Text(w.tail, text[w.known:], false)
	} else { // the beginning of a text may be tokenized differently
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

// settle makes the tokens before the last word final.
func (w *words) settle(whole []byte) {
	end, n, at := 0, w.settled, 0 // end, n: bytes and tokens that become final; at: position in whole
	for i := w.settled; i < len(w.ids); i++ {
		w.piece = w.theirs.Text(w.piece[:0], w.ids[i:i+1], !w.begun && at == 0) // a BOS has no text
		if at+len(w.piece) > len(whole) || string(whole[at:at+len(w.piece)]) != string(w.piece) {
			end, n = len(whole), len(w.ids) // the tokens' texts differ from the text, so the beginnings of words are unknown
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
		w.tail = slices.Clone(rest) // release the memory that a prompt took
	} else {
		w.tail = w.tail[:copy(w.tail, rest)]
	}
}

// cutOff returns how many bytes at the end of a text are an incomplete character.
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

// lastPart is a factor on the probability of the last token of a draft: with more text after it, it might be a
// longer one.
const lastPart = 0.7

// write converts guesses from the draft model's vocabulary to the model's. It returns the probability of each if
// those before it are right.
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
	if w.unread > 0 { // the text already has the beginning of that character
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
		for ; of < len(ends) && (of == 0 || ends[of-1] < at); of++ { // guesses that begin before the end of this token
			p *= probs[of]
		}
		if at == len(says) {
			p *= lastPart
		}
		chances = append(chances, p)
	}
	return ids, chances
}
