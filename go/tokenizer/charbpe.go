package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// charBPE is a BPE vocabulary in SentencePiece's spelling (Gemma 4): the characters of a text are merged in
// the order of the merge list, also across words.
type charBPE struct {
	chars map[rune]int32 // the initial symbol of each character that has one
	merges
	longest int // bytes of the longest text that they make
	crossings
	speller
}

func newCharBPE(r *reader, t *Tokenizer, index map[string]int32, unk int32) *charBPE {
	s := newSymbols(t, index)
	m := &charBPE{chars: map[rune]int32{}, merges: readMerges(r, s), speller: newSpeller(t, unk)}
	for _, texts := range []map[string]int32{s.index, s.extra} {
		for text, id := range texts {
			if char, size := utf8.DecodeRuneInString(text); size == len(text) && size > 0 && !invalid(char, size) {
				m.chars[char] = id
			}
			m.longest = max(m.longest, len(text))
			m.add(text)
		}
	}
	return m
}

// invalid reports whether a result of DecodeRune is a byte that is not UTF-8.
func invalid(char rune, size int) bool { return char == utf8.RuneError && size == 1 }

func (m *charBPE) encode(dst []int32, text string, s *scratch) []int32 {
	return encodeWords(dst, text, s, &m.crossings, m.word)
}

// perID: where a byte has no token, any text is one unknown token.
func (m *charBPE) perID() int {
	if !m.complete() {
		return 0
	}
	return max(m.longest, 1)
}

func (m *charBPE) word(dst []int32, word string, s *scratch) []int32 {
	q := &s.merger
	q.reset(len(word), utf8.RuneCountInString(word))
	for at := 0; at < len(word); {
		char, size := utf8.DecodeRuneInString(word[at:])
		id, ok := m.chars[char]
		if !ok || invalid(char, size) {
			id = none // in no merge
		}
		q.set(at, size, id)
		at += size
	}
	q.run(word, m)
	return m.spell(dst, word, q.symbols)
}

// lonelyBPE is a charBPE whose words are separated by white space, which is discarded.
type lonelyBPE struct {
	*charBPE
	lower bool // letters lose their case
}

func newLonelyBPE(r *reader, t *Tokenizer, index map[string]int32, unk int32) *lonelyBPE {
	lower, _ := r.flag("normalizer.lowercase", false)
	return &lonelyBPE{newCharBPE(r, t, index, unk), lower}
}

func (m *lonelyBPE) perID() int { return 0 }

func (m *lonelyBPE) encode(dst []int32, text string, s *scratch) []int32 {
	if m.lower {
		text = strings.ToLower(text)
	}
	for word := range strings.FieldsFuncSeq(text, unicode.IsSpace) {
		if s.over(dst, word) {
			break
		}
		dst = m.word(dst, word, s)
	}
	return dst
}
