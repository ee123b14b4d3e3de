package server

// maxStops is the maximum number of stop words of a request.
const maxStops = 64

// stopWords are the strings at which an answer ends.
type stopWords []string

const wantStop = "a string or an array of at most 64"

func (s *stopWords) take(r *reader) error {
	*s = nil
	add := func(int) error {
		word, err := r.text(wantStop)
		if word != "" { // an empty word would match everywhere
			*s = append(*s, word)
		}
		return err
	}
	if r.kind() != '[' {
		return add(0)
	}
	err := r.elements(wantStop, add)
	if err == nil && len(*s) > maxStops {
		err = bad("%d strings, want at most %d", len(*s), maxStops)
	}
	return err
}

func (s *stopWords) value() any { return append([]string{}, *s...) }

func (s *stopWords) schema() schema {
	one := schema{"type": "string"}
	return schema{"description": wantStop, "anyOf": []schema{one, {"type": "array", "items": one, "maxItems": maxStops}}}
}

// A stopper finds stop words in streamed text. Text that may be the beginning of one is
// held back. The result does not depend on how the text is split into pieces: the match
// that ends first wins, and of those the longest.
type stopper struct {
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

func newStopper(words []string) *stopper {
	s := &stopper{column: -1}
	for _, text := range words {
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

// next takes a byte and reports whether it completes the word.
func (w *stopWord) next(c byte) bool {
	for w.len > 0 && w.text[w.len] != c {
		w.len = w.fail[w.len]
	}
	if w.text[w.len] == c {
		w.len++
	}
	return w.len == len(w.text)
}

// write takes a piece and returns the text that cannot be part of a stop word, and the
// stop word that ends the text, if there is one. After that, write must not be called
// again.
func (s *stopper) write(piece string) (out, word string) {
	switch {
	case s.shallow:
		return "", ""
	case len(s.words) == 0 && s.indent == 0:
		return piece, ""
	}
	for i := range len(piece) {
		if s.shallow = s.outdents(piece[i]); s.shallow {
			return s.flush(), ""
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

// outdents takes a byte and reports whether it begins the text of a line with too little before it. An
// empty line has nothing before it.
func (s *stopper) outdents(c byte) bool {
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

// flush returns what was held back, at the end of the text.
func (s *stopper) flush() string {
	out := string(s.held)
	s.held = nil
	return out
}
