package tokenizer

import (
	"math"
	"unicode/utf8"
)

// spm is a SentencePiece vocabulary with scores: neighbors are merged if the vocabulary has their text,
// highest score first.
type spm struct {
	index   map[string]int32
	ranks   []uint32 // by id: ascending where scores descend
	longest int      // bytes of the longest text in index
	crossings
	speller
}

func newSPM(r *reader, t *Tokenizer, index map[string]int32, unk int32) *spm {
	m := &spm{index: index, speller: newSpeller(t, unk)}
	scores := r.scores("scores", len(t.tokens))
	m.ranks = make([]uint32, len(scores))
	for i, s := range scores {
		m.ranks[i] = rankOf(s)
	}
	for text := range index {
		m.longest = max(m.longest, len(text))
		m.add(text)
	}
	return m
}

// rankOf maps scores to integers in reverse order. Floats compare like their bits once negative ones are
// complemented; negative zero is first made zero, because they are equal.
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
	return encodeWords(dst, text, s, &m.crossings, m.word)
}

func (m *spm) word(dst []int32, word string, s *scratch) []int32 {
	q := &s.merger
	q.reset(len(word), utf8.RuneCountInString(word))
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		id, ok := m.index[word[at:at+size]]
		if !ok {
			id = none
		}
		q.set(at, size, id)
		at += size
	}
	q.run(word, m)
	return m.spell(dst, word, q.symbols)
}

// perID: where a byte has no token, any text is one unknown token.
func (m *spm) perID() int {
	if !m.complete() {
		return 0
	}
	return max(m.longest, 1)
}

// pair implements pairing.
func (m *spm) pair(text string, _, _ int32) (uint32, int32, bool) {
	if len(text) > m.longest {
		return 0, 0, false
	}
	id, ok := m.index[text]
	if !ok {
		return 0, 0, false
	}
	return m.ranks[id], id, true
}
