package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bpe is a byte-level BPE vocabulary: the bytes of a word are merged in the order of the merge list. Tokens
// spell each byte as one printable character (see byteChars).
type bpe struct {
	merges
	nVocab int32
	pre    *preTokenizer
	unk    int32
	index  map[string]int32
	bytes  [256]int32 // the initial symbol of each byte
}

func newBPE(r *reader, t *Tokenizer, index map[string]int32, unk int32, pre *preTokenizer) *bpe {
	s := newSymbols(t, index)
	m := &bpe{nVocab: s.nVocab, pre: pre, unk: unk, index: index}
	for b, char := range byteChars {
		m.bytes[b] = s.of([]byte(string(char)))
	}
	m.merges = readMerges(r, s)
	return m
}

func (m *bpe) perID() int {
	for _, id := range m.bytes {
		if id >= m.nVocab && m.unk == none {
			return 0
		}
	}
	longest := 1
	var text []byte
	for spelled := range m.index {
		text = appendBytesOf(text[:0], spelled)
		longest = max(longest, len(text))
	}
	if m.pre.nfc {
		longest *= composed
	}
	return longest
}

// composed is how many bytes become one at most when characters are composed (Unicode's form C).
const composed = 4

func (m *bpe) encode(dst []int32, text string, s *scratch) []int32 {
	if m.pre.nfc {
		text = norm.NFC.String(text)
	}
	m.pre.split(text, func(word string) bool {
		for len(word) > maxWord {
			if s.over(dst, word) {
				return false
			}
			dst = m.word(dst, word[:maxWord], s)
			word = word[maxWord:]
		}
		var known bool
		if dst, known = s.recall(dst, word); known {
			return true
		}
		if s.over(dst, word) {
			return false
		}
		start := len(dst)
		dst = m.word(dst, word, s)
		s.remember(word, dst[start:])
		return true
	})
	return dst
}

func (m *bpe) word(dst []int32, word string, s *scratch) []int32 {
	if m.pre.wholeWords {
		s.text = s.text[:0]
		for i := range len(word) {
			s.text = utf8.AppendRune(s.text, byteChars[word[i]])
		}
		if id, ok := m.index[string(s.text)]; ok {
			return append(dst, id)
		}
	}
	q := &s.merger
	q.reset(len(word), len(word))
	for i := range len(word) {
		q.symbols[i] = symbol{1, m.bytes[word[i]]}
	}
	q.run(word, m)
	for at := 0; at < len(word); {
		sym := q.symbols[at]
		text := word[at : at+int(sym.size)]
		at += len(text)
		if sym.id < m.nVocab {
			dst = append(dst, sym.id)
			continue
		}
		for _, b := range []byte(text) {
			if id := m.bytes[b]; id < m.nVocab {
				dst = append(dst, id)
			} else if m.unk != none {
				dst = append(dst, m.unk)
			}
		}
	}
	return dst
}

// byteChars maps each byte to its character in byte-level vocabularies: itself if it is printable in Latin-1,
// else the next character from U+0100 on. charBytes is the inverse, -1 for characters that stand for no byte.
var byteChars, charBytes = func() (chars [256]rune, bytes [0x144]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(0x100)
	for b := range chars {
		r := rune(b)
		if r <= ' ' || r >= 0x7f && r <= 0xa0 || r == 0xad {
			r = next
			next++
		}
		chars[b] = r
		bytes[r] = int16(b)
	}
	return chars, bytes
}()

// appendBytesOf appends the bytes that text stands for. Other characters are copied.
func appendBytesOf(dst []byte, text string) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if int(r) < len(charBytes) && charBytes[r] >= 0 {
			dst = append(dst, byte(charBytes[r]))
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}
