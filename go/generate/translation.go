package generate

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

// A Translation is a text in the vocabulary of a draft model, where that differs from the model's. New text is
// converted incrementally. The last word is converted again with what follows it, since its tokens depend on all of it.
type Translation struct {
	mine, theirs Vocabulary // the model's, and the draft model's
	fixed        bool       // no token is converted again
	known        int        // how many tokens of the text are converted
	ids          []int32    // the text in the draft model's vocabulary
	settled      int        // how many of ids are final
	tail         []byte     // the text after these
	begun        bool       // there is text before tail
	unread       int        // bytes at the end of tail that are an incomplete character

	piece []byte // scratch
	says  []byte
}

// NewTranslation returns the translation of a text. fixed: no token is converted again, for a draft model whose state
// cannot be rolled back.
func NewTranslation(mine, theirs Vocabulary, fixed bool) *Translation {
	return &Translation{mine: mine, theirs: theirs, fixed: fixed}
}

// reset makes it the translation of an empty text, and releases its memory.
func (t *Translation) reset() { *t = Translation{mine: t.mine, theirs: t.theirs, fixed: t.fixed} }

// longestTail is the maximum number of bytes that are converted again: a text need not have words.
const longestTail = 256

// read converts what is new of the text.
func (t *Translation) read(text []int32) {
	if t.known > len(text) {
		t.reset()
	}
	if t.known == len(text) {
		return
	}
	if t.begun {
		t.tail = t.mine.Text(t.tail, text[t.known:], false)
	} else { // the beginning of a text may be tokenized differently
		t.tail = t.mine.Text(t.tail[:0], text, true)
	}
	t.known = len(text)
	t.unread = cutOff(t.tail)
	whole := t.tail[:len(t.tail)-t.unread]
	if len(whole) == 0 {
		t.ids = t.ids[:t.settled]
		return
	}
	t.ids = t.theirs.IDs(t.ids[:t.settled], whole, !t.begun)
	t.settle(whole)
}

// settle makes the tokens before the last word final.
func (t *Translation) settle(whole []byte) {
	end, n, at := 0, t.settled, 0 // end, n: bytes and tokens that become final; at: position in whole
	for i := t.settled; i < len(t.ids); i++ {
		t.piece = t.theirs.Text(t.piece[:0], t.ids[i:i+1], !t.begun && at == 0) // a BOS has no text
		if at+len(t.piece) > len(whole) || string(whole[at:at+len(t.piece)]) != string(t.piece) {
			end, n = len(whole), len(t.ids) // the tokens' texts differ from the text, so the beginnings of words are unknown
			break
		}
		if at > 0 && (whole[at] <= ' ' || len(whole)-at > longestTail) {
			end, n = at, i
		}
		at += len(t.piece)
	}
	if t.fixed {
		end, n = len(whole), len(t.ids)
	}
	t.begun = t.begun || end > 0
	t.settled = n
	if rest := t.tail[end:]; cap(t.tail) > 64*longestTail {
		t.tail = slices.Clone(rest) // release the memory that a prompt took
	} else {
		t.tail = t.tail[:copy(t.tail, rest)]
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
func (t *Translation) write(found []draft.Guess, probs []float32) (ids []int32, chances []float32) {
	t.says = t.says[:0]
	ends := make([]int, 0, len(found))
	for _, g := range found {
		from := len(t.says)
		if t.says = t.theirs.Text(t.says, []int32{g.ID}, false); len(t.says) == from {
			break
		}
		ends = append(ends, len(t.says))
	}
	says := t.says[:len(t.says)-cutOff(t.says)]
	if t.unread > 0 { // the text already has the beginning of that character
		head := t.tail[len(t.tail)-t.unread:]
		if len(says) < len(head) || string(says[:len(head)]) != string(head) {
			return nil, nil
		}
	}
	skip := t.unread
	ids = t.mine.IDs(nil, says[skip:], false)
	at, of := skip, 0
	for i, id := range ids {
		t.piece = t.mine.Text(t.piece[:0], []int32{id}, false)
		if len(t.piece) == 0 || at+len(t.piece) > len(says) || string(says[at:at+len(t.piece)]) != string(t.piece) {
			ids = ids[:i]
			break
		}
		at += len(t.piece)
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
