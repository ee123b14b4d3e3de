package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// What vocabularies in SentencePiece's spelling have in common: where texts may be cut, and how
// characters without a token are spelled.

// escapedSpace is SentencePiece's spelling of a space inside tokens.
const escapedSpace = "\u2581"

// crossings is the set of bytes that precede a space inside some token. After any other byte nothing is ever
// merged across the start of a word, so words can be encoded one by one and cached.
type crossings [256]bool

// add adds the text of a token.
func (c *crossings) add(text string) {
	for {
		text = strings.TrimLeft(text, escapedSpace)
		at := strings.Index(text, escapedSpace)
		if at < 0 {
			return
		}
		c[text[at-1]] = true
		text = text[at:]
	}
}

// wordEnd returns the end of the first word of text: before the first space that follows a byte not in c.
func (c *crossings) wordEnd(text string) int {
	limit := len(text)
	if limit > maxWord {
		for limit = maxWord; limit > maxWord-utf8.UTFMax && !utf8.RuneStart(text[limit]); {
			limit--
		}
	}
	for at := 0; ; {
		for strings.HasPrefix(text[at:limit], escapedSpace) {
			at += len(escapedSpace)
		}
		next := strings.Index(text[at:limit], escapedSpace)
		if next < 0 {
			return limit
		}
		if at += next; !c[text[at-1]] {
			return at
		}
	}
}

// encodeWords encodes the words of a text, using the cache.
func encodeWords(dst []int32, text string, s *scratch, c *crossings, encode func([]int32, string, *scratch) []int32) []int32 {
	for len(text) > 0 {
		part := text[:c.partEnd(text)]
		text = text[len(part):]
		part = strings.ReplaceAll(part, " ", escapedSpace)
		for len(part) > 0 {
			word := part[:c.wordEnd(part)]
			part = part[len(word):]
			var known bool
			if dst, known = s.recall(dst, word); known {
				continue
			}
			if s.over(dst, word) {
				return dst
			}
			start := len(dst)
			dst = encode(dst, word, s)
			s.remember(word, dst[start:])
		}
	}
	return dst
}

// partBytes is about the size of the parts of a text whose spaces are escaped at a time.
const partBytes = 64 << 10

// partEnd returns the end of the first part of text: where a word ends, or the text.
func (c *crossings) partEnd(text string) int {
	for at := partBytes; at < len(text); at++ {
		if before := text[at-1]; text[at] == ' ' && before != ' ' && !c[before] && !strings.HasSuffix(text[:at], escapedSpace) {
			return at
		}
	}
	return len(text)
}

// A speller writes the tokens of a word's symbols. A symbol without a token becomes its bytes or, if the
// vocabulary lacks those, the unknown token.
type speller struct {
	nVocab int32      // smaller ids are tokens
	bytes  [256]int32 // tokens of single bytes, or none
	unk    int32
}

func newSpeller(t *Tokenizer, unk int32) speller {
	s := speller{nVocab: int32(len(t.tokens)), unk: unk}
	for i := range s.bytes {
		s.bytes[i] = none
	}
	for i, text := range t.tokens {
		if b, ok := byteToken(text); ok && t.types[i] == Byte {
			s.bytes[b] = int32(i)
		}
	}
	return s
}

// complete reports whether every byte has a token.
func (s *speller) complete() bool { return !slices.Contains(s.bytes[:], none) }

// spell appends the ids of a word whose symbols were merged.
func (s *speller) spell(dst []int32, word string, symbols []symbol) []int32 {
	unknown := false
	for at := 0; at < len(word); {
		sym := symbols[at]
		text := word[at : at+int(sym.size)]
		at += len(text)
		if sym.id != none && sym.id < s.nVocab {
			dst = append(dst, sym.id)
			unknown = false
			continue
		}
		var spelled bool
		if dst, spelled = s.spellBytes(dst, text); spelled {
			unknown = false
			continue
		}
		// Adjacent unknown symbols are one unknown token.
		if s.unk != none && !unknown {
			dst = append(dst, s.unk)
		}
		unknown = true
	}
	return dst
}

// spellBytes appends the bytes of text, if the vocabulary has all of them.
func (s *speller) spellBytes(dst []int32, text string) ([]int32, bool) {
	start := len(dst)
	for i := range len(text) {
		id := s.bytes[text[i]]
		if id == none {
			return dst[:start], false
		}
		dst = append(dst, id)
	}
	return dst, true
}
