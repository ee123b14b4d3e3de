package tokenizer

// Stops finds stop words in a text that arrives in pieces. Text that may be the beginning of a stop word is
// held back. The result does not depend on the pieces: the match that ends first wins, then the longest.
type Stops struct {
	words []stopWord
	held  []byte

	indent  int  // the least indentation of lines but the first; 0: any
	column  int  // how much of that the line has so far; -1: it has text
	shallow bool // a line had less, and ended the text
}

// A stopWord is matched a byte at a time with the Knuth-Morris-Pratt algorithm: in
// linear time for every word and text.
type stopWord struct {
	text string
	fail []int // by match length: the next shorter match that may continue
	len  int   // of the current match
}

// NewStops returns a matcher for these words; empty ones are ignored. If indent is above 0, the text also
// ends at the first line after the first that has text, or its end, behind fewer spaces and tabs than that.
func NewStops(words []string, indent int) *Stops {
	s := &Stops{column: -1, indent: indent}
	for _, text := range words {
		if text == "" {
			continue
		}
		fail := make([]int, len(text)+1)
		for i, k := 1, 0; i < len(text); i++ {
			for k > 0 && text[i] != text[k] {
				k = fail[k]
			}
			if text[i] == text[k] {
				k++
			}
			fail[i+1] = k
		}
		s.words = append(s.words, stopWord{text: text, fail: fail})
	}
	return s
}

// next processes a byte and reports whether it completes the word.
func (w *stopWord) next(c byte) bool {
	for w.len > 0 && w.text[w.len] != c {
		w.len = w.fail[w.len]
	}
	if w.text[w.len] == c {
		w.len++
	}
	return w.len == len(w.text)
}

// Write processes a piece. It returns the text that cannot be part of a stop word, and the stop word that
// ends the text, if any. After that, Write must not be called again.
func (s *Stops) Write(piece string) (out, word string) {
	switch {
	case s.shallow:
		return "", ""
	case len(s.words) == 0 && s.indent == 0:
		return piece, ""
	}
	for i := range len(piece) {
		if s.shallow = s.outdents(piece[i]); s.shallow {
			return s.Flush(), ""
		}
		s.held = append(s.held, piece[i])
		for j := range s.words {
			if w := &s.words[j]; w.next(piece[i]) && len(w.text) > len(word) {
				word = w.text
			}
		}
		if word != "" {
			return string(s.held[:len(s.held)-len(word)]), word
		}
	}
	longest := 0
	for i := range s.words {
		longest = max(longest, s.words[i].len)
	}
	sure := len(s.held) - longest
	out = string(s.held[:sure])
	s.held = append(s.held[:0], s.held[sure:]...)
	return out, ""
}

// outdents processes a byte and reports whether it begins the text of a line with too little indentation, or ends such
// a line.
func (s *Stops) outdents(c byte) bool {
	if s.indent == 0 {
		return false
	}
	shallow := s.column >= 0 && s.column < s.indent
	switch {
	case (c == ' ' || c == '\t') && s.column >= 0:
		s.column++
		return false
	case c == '\n':
		s.column = 0
	default:
		s.column = -1
	}
	return shallow
}

// Shallow reports whether a line with too little indentation has ended the text.
func (s *Stops) Shallow() bool { return s.shallow }

// Flush returns the text held back, at the end of the text.
func (s *Stops) Flush() string {
	out := string(s.held)
	s.held = nil
	return out
}
