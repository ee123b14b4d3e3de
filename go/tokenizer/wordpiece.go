package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece is the vocabulary of BERT (Devlin et al. 2018): each word or punctuation mark is encoded by the
// longest tokens from left to right. In a file the first token of a word begins with an escaped space; in the
// original, all others begin with ##.
type wordPiece struct {
	index     map[string]int32
	unk       int32
	longest   int  // bytes of the longest token
	lower     bool // letters lose their case
	noAccents bool // and their marks
}

// maxWordPiece is the maximum number of characters of a word; longer words are unknown, as in the original.
// It limits the time per word.
const maxWordPiece = 100

func newWordPiece(r *reader, index map[string]int32, unk int32) *wordPiece {
	m := &wordPiece{index: index, unk: unk}
	m.lower, _ = r.flag("normalizer.lowercase", true)
	m.noAccents, _ = r.flag("normalizer.strip_accents", m.lower)
	for text := range index {
		m.longest = max(m.longest, len(text))
	}
	return m
}

func (m *wordPiece) perID() int { return 0 }

func (m *wordPiece) encode(dst []int32, text string, s *scratch) []int32 {
	if m.noAccents {
		text = norm.NFD.String(text)
	}
	word := append(s.text[:0], escapedSpace...)
	chars := 0
	end := func() {
		if chars > 0 && !s.over(dst, "") {
			dst = m.word(dst, word, chars, s)
		}
		word, chars = word[:len(escapedSpace)], 0
	}
	for _, r := range text {
		switch {
		case s.least > 0:
			return dst
		case dropped(r) || m.noAccents && unicode.Is(unicode.Mn, r):
			continue
		case unicode.IsSpace(r):
			end()
			continue
		}
		alone := unicode.IsPunct(r) || asciiSign(r) || ideograph(r)
		if alone {
			end()
		}
		if m.lower {
			r = unicode.ToLower(r)
		}
		word = utf8.AppendRune(word, r)
		chars++
		if alone {
			end()
		}
	}
	end()
	s.text = word
	return dst
}

// word appends the tokens of a word, which begins with an escaped space, or the unknown token.
func (m *wordPiece) word(dst []int32, word []byte, chars int, s *scratch) []int32 {
	if known, ok := s.recall(dst, string(word)); ok {
		return known
	}
	start, least := len(dst), len(escapedSpace)
	for at := 0; at < len(word); least = 0 {
		end := min(len(word), at+m.longest)
		id, ok := int32(none), false
		for ; end > at+least && chars <= maxWordPiece; end-- {
			if id, ok = m.index[string(word[at:end])]; ok {
				break
			}
		}
		if !ok {
			dst = dst[:start]
			if m.unk != none {
				dst = append(dst, m.unk)
			}
			break
		}
		dst = append(dst, id)
		at = end
	}
	s.remember(string(word), dst[start:])
	return dst
}

// dropped reports whether a character is removed without separating words: control and format characters, and
// the replacement for bytes that are not UTF-8.
func dropped(r rune) bool {
	return r == 0 || r == utf8.RuneError || unicode.Is(unicode.C, r) && r != '\t' && r != '\n' && r != '\r'
}

// asciiSign reports whether r is an ASCII character other than a letter, a digit or a space.
func asciiSign(r rune) bool {
	return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
}

// ideograph reports whether r is in a block of Chinese characters, each of which is a word. The last but one
// block begins 256 characters later than in BERT's list, as in the first widely used tokenizer.
func ideograph(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3400 <= r && r <= 0x4dbf || 0x20000 <= r && r <= 0x2a6df ||
		0x2a700 <= r && r <= 0x2b73f || 0x2b740 <= r && r <= 0x2b81f || 0x2b920 <= r && r <= 0x2ceaf ||
		0xf900 <= r && r <= 0xfaff || 0x2f800 <= r && r <= 0x2fa1f
}
