package tokenizer

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unigram is a SentencePiece vocabulary whose scores are log-probabilities (Kudo 2018): a text is encoded by
// the tokens with the largest sum, found by the Viterbi algorithm.
type unigram struct {
	prefixes // of normal tokens
	scores   []float64
	unk      int32
	unkScore float64
	chars    *charsMap
	crossings

	merge  bool // a run of spaces is one, and at the ends of a text none
	last   bool // but for one at its end
	prefix bool // the first word has a space before it too
	nfc    bool // characters are composed first

	fallback *speller // of what has no token, in bytes; nil: it is unknown
}

// unkPenalty is how much lower than the worst token an unknown character scores.
const unkPenalty = 10

func newUnigram(r *reader, t *Tokenizer, index map[string]int32, unk int32) *unigram {
	m := &unigram{unk: unk, chars: newCharsMap(r)}
	m.merge, _ = r.flag("remove_extra_whitespaces", false)
	m.prefix, _ = r.flag("add_space_prefix", true)
	m.last, m.nfc = r.own("keep_last_space"), r.own("nfc")
	if r.own("byte_fallback") {
		spell := newSpeller(t, unk)
		m.fallback = &spell
	}
	scores := r.scores("scores", len(t.tokens))
	if r.err != nil {
		return m
	}
	if only := r.answersOnly(len(t.tokens)); only != nil {
		maps.DeleteFunc(index, func(_ string, id int32) bool { return only[id] })
	}
	m.prefixes = newPrefixes(r, index)
	worst := 0.0
	for i, id := range m.ids {
		m.add(m.texts[i])
		m.scores = append(m.scores, float64(scores[id]))
		worst = min(worst, m.scores[i])
		if math.IsInf(m.scores[i], 0) {
			r.fail("%sscores[%d] is infinite", prefix, id)
		}
	}
	m.unkScore = worst - unkPenalty
	return m
}

func (m *unigram) encode(dst []int32, text string, s *scratch) []int32 {
	if m.nfc {
		text = norm.NFC.String(text)
	}
	text = m.chars.normalize(text)
	if m.merge {
		text = m.single(text)
	}
	return encodeWords(dst, text, s, &m.crossings, m.word)
}

func (m *unigram) perID() int { return 0 } // what the map of characters removes, and runs of spaces, have no ids

// single makes one space of each run of spaces, and none at the ends of a text, except the one that words begin with, and the
// last where it is kept.
func (m *unigram) single(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 1)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' }) {
		if m.prefix || b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	if m.last && strings.HasSuffix(text, " ") {
		b.WriteByte(' ')
	}
	return b.String()
}

// A step is the best encoding of the beginning of a word: its last token, the start of that token, and its
// score.
type step struct {
	id    int32
	from  int32
	score float64
}

func (m *unigram) word(dst []int32, word string, s *scratch) []int32 {
	best := slices.Grow(s.steps[:0], len(word)+1)[:len(word)+1]
	best[0] = step{}
	for i := range len(word) {
		best[i+1] = step{score: math.Inf(-1)}
	}
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		score, whole := best[at].score, false
		reach := func(end int, id int32, by float64) {
			if sum := score + by; sum > best[end].score {
				best[end] = step{id, int32(at), sum}
			}
		}
		m.each(word[at:], func(i, n int) {
			reach(at+n, m.ids[i], m.scores[i])
			whole = whole || n == size
		})
		if !whole {
			reach(at+size, m.unk, m.unkScore)
		}
		at += size
	}
	start := len(dst)
	for end := len(word); end > 0; end = int(best[end].from) {
		id, from := best[end].id, int(best[end].from)
		if id == m.unk && m.fallback != nil {
			at, spelled := len(dst), false
			if dst, spelled = m.fallback.spellBytes(dst, word[from:end]); spelled {
				slices.Reverse(dst[at:])
				continue
			}
		}
		// Adjacent unknown characters are one unknown token.
		if id != m.unk || len(dst) == start || dst[len(dst)-1] != id {
			dst = append(dst, id)
		}
	}
	slices.Reverse(dst[start:])
	if m.unk == none {
		dst = append(dst[:start], slices.DeleteFunc(dst[start:], func(id int32) bool { return id == none })...)
	}
	s.steps = best
	return dst
}
