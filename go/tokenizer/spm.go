package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"
)

// escapedSpace is how SentencePiece spells a space inside tokens.
const escapedSpace = "\u2581"

// spm is a SentencePiece vocabulary with scores: neighbours are joined if the
// vocabulary has their text, the highest score first. A character that no
// token spells becomes its bytes, or where the vocabulary lacks those, the
// unknown token.
type spm struct {
	index   map[string]int32
	ranks   []uint32   // by id: ascending where scores descend
	bytes   [256]int32 // tokens of single bytes, or none
	unk     int32
	longest int // bytes of the longest text in index

	// crosses says that some token has a space after something else. Where
	// none has, nothing is ever joined across the start of a word, so that
	// words can be encoded one by one, and remembered.
	crosses bool
}

func newSPM(r *reader, t *Tokenizer, index map[string]int32, unk int32) *spm {
	m := &spm{index: index, unk: unk}
	scores := r.scores("scores", len(t.tokens))
	m.ranks = make([]uint32, len(scores))
	for i, s := range scores {
		m.ranks[i] = rankOf(s)
	}
	for text := range index {
		m.longest = max(m.longest, len(text))
		m.crosses = m.crosses || strings.Contains(strings.TrimLeft(text, escapedSpace), escapedSpace)
	}
	for i := range m.bytes {
		m.bytes[i] = none
	}
	for i, text := range t.tokens {
		if b, ok := byteToken(text); ok && t.types[i] == Byte {
			m.bytes[b] = int32(i)
		}
	}
	return m
}

// rankOf maps scores to integers of the opposite order. Floats compare as
// their bits do, once the negative ones are turned around; negative zero is
// made zero first, for they are equal.
func rankOf(score float32) uint32 {
	bits := math.Float32bits(score)
	if score == 0 {
		bits = 0
	}
	if bits&(1<<31) != 0 {
		return bits
	}
	return ^bits &^ (1 << 31)
}

func (m *spm) encode(dst []int32, text string, s *scratch) []int32 {
	return eachWord(dst, strings.ReplaceAll(text, " ", escapedSpace), m.crosses, s, m.word)
}

// eachWord appends the ids of a text with escaped spaces, word by word where no token crosses from one
// to the next.
func eachWord(dst []int32, text string, crosses bool, s *scratch, encode func([]int32, string, *scratch) []int32) []int32 {
	for len(text) > 0 {
		word := text[:wordEnd(text, crosses)]
		text = text[len(word):]
		var known bool
		if dst, known = s.recall(dst, word); known {
			continue
		}
		start := len(dst)
		dst = encode(dst, word, s)
		s.remember(word, dst[start:])
	}
	return dst
}

// wordEnd returns where the first word of text ends: before the first space
// that follows something else.
func wordEnd(text string, crosses bool) int {
	limit := len(text)
	if limit > maxWord {
		for limit = maxWord; limit > maxWord-utf8.UTFMax && !utf8.RuneStart(text[limit]); {
			limit--
		}
	}
	if crosses {
		return limit
	}
	spaces := 0
	for strings.HasPrefix(text[spaces:], escapedSpace) {
		spaces += len(escapedSpace)
	}
	if spaces < limit {
		if next := strings.Index(text[spaces:limit], escapedSpace); next > 0 {
			return spaces + next
		}
	}
	return limit
}

func (m *spm) word(dst []int32, word string, s *scratch) []int32 {
	q := &s.merger
	q.reset()
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		id, ok := m.index[word[at:at+size]]
		if !ok {
			id = none
		}
		q.add(at, size, id)
		at += size
	}
	q.run(word, m)

	unknown := false
	for i := int32(0); i >= 0; i = q.symbols[i].next {
		sym := &q.symbols[i]
		if sym.id != none {
			dst = append(dst, sym.id)
			unknown = false
			continue
		}
		var spelled bool
		if dst, spelled = m.spellBytes(dst, word[sym.start:sym.start+sym.size]); spelled {
			unknown = false
			continue
		}
		// Neighbours that are unknown are one unknown.
		if m.unk != none && !unknown {
			dst = append(dst, m.unk)
		}
		unknown = true
	}
	return dst
}

// spellBytes appends the bytes of text, if the vocabulary has all of them.
func (m *spm) spellBytes(dst []int32, text string) ([]int32, bool) {
	start := len(dst)
	for i := range len(text) {
		id := m.bytes[text[i]]
		if id == none {
			return dst[:start], false
		}
		dst = append(dst, id)
	}
	return dst, true
}

// pair implements pairing.
func (m *spm) pair(word string, left, right *symbol) (uint32, int32, bool) {
	size := left.size + right.size
	if int(size) > m.longest {
		return 0, 0, false
	}
	id, ok := m.index[word[left.start:left.start+size]]
	if !ok {
		return 0, 0, false
	}
	return m.ranks[id], id, true
}
