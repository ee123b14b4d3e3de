package server

// maxStops bounds the texts that a generation looks out for.
const maxStops = 64

// stopWords are the texts at which an answer ends.
type stopWords []string

const wantStop = "a string or an array of at most 64"

func (s *stopWords) take(r *reader) error {
	*s = nil
	add := func(int) error {
		word, err := r.text(wantStop)
		if word != "" { // which is everywhere, and meant as nothing
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

// A stopper looks for stop words in a text that comes in pieces. Text that may
// be the beginning of one is held back. Where the pieces were cut makes no
// difference: the word that ends first wins, of those the longest.
type stopper struct {
	words []stopWord
	held  []byte
}

// A stopWord is matched a byte at a time, as Knuth, Morris and Pratt do: the
// time does not depend on what it looks like.
type stopWord struct {
	text string
	fail []int // by length of the match: the next shorter one that may go on
	len  int   // of the match so far
}

func newStopper(words []string) *stopper {
	s := &stopper{}
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

// next takes a byte and reports whether the word ends with it.
func (w *stopWord) next(c byte) bool {
	for w.len > 0 && w.text[w.len] != c {
		w.len = w.fail[w.len]
	}
	if w.text[w.len] == c {
		w.len++
	}
	return w.len == len(w.text)
}

// write takes a piece and returns the text that is certain to be no part of a
// stop word, and the word that ends the text, if one does. Nothing may be
// written after that.
func (s *stopper) write(piece string) (out, word string) {
	if len(s.words) == 0 {
		return piece, ""
	}
	for i := range len(piece) {
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

// flush returns what was held back, when the text has ended.
func (s *stopper) flush() string {
	out := string(s.held)
	s.held = nil
	return out
}
