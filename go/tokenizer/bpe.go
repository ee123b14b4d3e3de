package tokenizer

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bpe is a byte-level vocabulary with merges: a word's bytes are joined in
// the order of the list of merges. Tokens spell each byte as one printable
// character (see byteChars).
type bpe struct {
	nVocab int32
	pre    *preTokenizer
	unk    int32
	index  map[string]int32
	bytes  [256]int32 // the initial symbol of each byte
	merges map[uint64]merge
}

// merge is the symbol that a pair of symbols becomes, and its rank.
type merge struct {
	rank uint32
	id   int32
}

func newBPE(r *reader, t *Tokenizer, index map[string]int32, unk int32, pre *preTokenizer) *bpe {
	m := &bpe{nVocab: int32(len(t.tokens)), pre: pre, unk: unk, index: index}
	// Texts that are not in the vocabulary still take part in merges, under
	// numbers from nVocab on. Those that are left in the end are spelled in
	// bytes.
	extra := map[string]int32{}
	symbol := func(text []byte) int32 {
		if id, ok := index[string(text)]; ok {
			return id
		}
		id, ok := extra[string(text)]
		if !ok {
			id = m.nVocab + int32(len(extra))
			extra[string(text)] = id
		}
		return id
	}
	for b, char := range byteChars {
		m.bytes[b] = symbol([]byte(string(char)))
	}
	list := r.strs("merges")
	m.merges = make(map[uint64]merge, len(list))
	var text []byte
	for rank, pair := range list {
		cut := strings.IndexByte(pair, ' ')
		if cut < 1 || cut == len(pair)-1 {
			r.fail("%smerges[%d] is %q, want two parts with a space between", prefix, rank, pair)
			return m
		}
		text = append(append(text[:0], pair[:cut]...), pair[cut+1:]...)
		key := pairKey(symbol(text[:cut]), symbol(text[cut:]))
		if _, again := m.merges[key]; !again {
			m.merges[key] = merge{uint32(rank), symbol(text)}
		}
	}
	return m
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func (m *bpe) encode(dst []int32, text string, s *scratch) []int32 {
	if m.pre.nfc {
		text = norm.NFC.String(text)
	}
	m.pre.split(text, func(word string) {
		for len(word) > maxWord {
			dst = m.word(dst, word[:maxWord], s)
			word = word[maxWord:]
		}
		var known bool
		if dst, known = s.recall(dst, word); known {
			return
		}
		start := len(dst)
		dst = m.word(dst, word, s)
		s.remember(word, dst[start:])
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
	q.reset()
	for i := range len(word) {
		q.add(i, 1, m.bytes[word[i]])
	}
	q.run(word, m)
	for i := int32(0); i >= 0; i = q.symbols[i].next {
		sym := &q.symbols[i]
		if sym.id < m.nVocab {
			dst = append(dst, sym.id)
			continue
		}
		for _, b := range []byte(word[sym.start : sym.start+sym.size]) {
			if id := m.bytes[b]; id < m.nVocab {
				dst = append(dst, id)
			} else if m.unk != none {
				dst = append(dst, m.unk)
			}
		}
	}
	return dst
}

// pair implements pairing.
func (m *bpe) pair(_ string, left, right *symbol) (uint32, int32, bool) {
	to, ok := m.merges[pairKey(left.id, right.id)]
	return to.rank, to.id, ok
}

// byteChars is the character that byte-level vocabularies spell each byte as:
// itself where Latin-1 has something printable there, and the others, in
// order, as characters from U+0100 on. charBytes is the way back, -1 for
// characters that spell no byte.
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

// appendBytesOf appends the bytes that text spells. Characters that spell no
// byte stand for themselves.
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
