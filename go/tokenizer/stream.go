package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// A Stream converts tokens to text as they are generated. Characters whose bytes are spread over several
// tokens are held back until they are complete. Control tokens are omitted, except those to keep. All spaces
// are kept, because a stream is a continuation.
//
// A Stream is for one sequence and one goroutine.
type Stream struct {
	t    *Tokenizer
	kept []int32 // control tokens that are printed
	held []byte  // the beginning of a character
}

// NewStream returns a new Stream. Control tokens whose texts are among keep are printed.
func (t *Tokenizer) NewStream(keep ...string) *Stream {
	s := &Stream{t: t}
	for _, text := range keep {
		if id, ok := t.controls.ids[text]; ok {
			s.kept = append(s.kept, id)
		}
	}
	return s
}

// Write adds a token and returns the characters that it completes, possibly none. Each byte that cannot be
// part of a character becomes U+FFFD.
func (s *Stream) Write(id int32) string {
	s.held = append(s.held, s.t.Piece(id, slices.Contains(s.kept, id))...)
	return s.take(false)
}

// Flush returns the bytes held back, each as U+FFFD.
func (s *Stream) Flush() string { return s.take(true) }

// take removes and returns the complete characters, or everything if all is set.
func (s *Stream) take(all bool) string {
	var out []byte
	rest := s.held
	for len(rest) > 0 && (all || utf8.FullRune(rest)) {
		r, size := utf8.DecodeRune(rest)
		out = utf8.AppendRune(out, r)
		rest = rest[size:]
	}
	s.held = append(s.held[:0], rest...)
	return string(out)
}
