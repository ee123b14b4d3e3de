package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"
)

// plamo2 is the vocabulary of PLaMo 2: like Unigram it chooses the tokens with the largest sum of scores, but
// it does not split words, scores are integers, and text without a token becomes bytes.
type plamo2 struct {
	prefixes         // of normal tokens
	scores   []int64 // of these
	speller
}

const (
	plamo2Unit    = 1e4         // of scores, by which they are rounded
	plamo2Unknown = -1000 * 1e4 // scores a character that is bytes
)

func newPLaMo2(r *reader, t *Tokenizer, index map[string]int32, unk int32) *plamo2 {
	m := &plamo2{speller: newSpeller(t, unk)}
	scores := r.scores("scores", len(t.tokens))
	if r.err != nil {
		return m
	}
	m.prefixes = newPrefixes(r, index)
	for _, id := range m.ids {
		score := math.Round(float64(scores[id]) * plamo2Unit)
		if math.Abs(score) > -2*plamo2Unknown {
			r.fail("%sscores[%d] is %g, want -2000 to 2000", prefix, id, scores[id])
		}
		m.scores = append(m.scores, int64(score))
	}
	return m
}

func (m *plamo2) perID() int {
	if !m.complete() {
		return 0
	}
	return m.prefixes.longest() + len(byteOrderMark)
}

// byteOrderMark has no token at the beginning of a plain text.
const byteOrderMark = "\ufeff"

// encode finds the best encoding of the text after each position, from the end to the start. Among equal ones
// it chooses the longest token.
func (m *plamo2) encode(dst []int32, text string, s *scratch) []int32 {
	text = strings.TrimPrefix(text, byteOrderMark)
	if s.over(dst, text) {
		return dst
	}
	type way struct {
		score int64
		id    int32 // none: bytes
		size  int32
	}
	best := make([]way, len(text)+1)
	for at := len(text); at > 0; {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
		w := way{plamo2Unknown + best[at+size].score, none, int32(size)}
		m.each(text[at:], func(i, n int) {
			if score := m.scores[i] + best[at+n].score; score >= w.score {
				w = way{score, m.ids[i], int32(n)}
			}
		})
		best[at] = w
	}
	for at := 0; at < len(text); {
		w := best[at]
		var spelled bool
		if w.id != none {
			dst = append(dst, w.id)
		} else if dst, spelled = m.spellBytes(dst, text[at:at+int(w.size)]); !spelled && m.unk != none {
			dst = append(dst, m.unk)
		}
		at += int(w.size)
	}
	return dst
}
