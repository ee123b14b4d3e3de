package constrain

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// The tokens of a slice are, by definition, those whose code points are of the run, at most so many of them, the last of
// which may be cut.
func TestSlicesByDefinition(t *testing.T) {
	parts := []string{"a", "b", "z", "\"", "é", "è", "日", "本", "😀", "\xC3", "\xE6\x97", "\xA9", "\xF0\x9F\x98", "\xED\xA0\x80"}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var words []string
		for range 1 + rng.IntN(60) {
			n, some := 1+rng.IntN(6), parts[:1+rng.IntN(len(parts))]
			var b strings.Builder
			for range n {
				b.WriteString(some[rng.IntN(len(some))])
			}
			words = append(words, b.String())
		}
		v := NewVocabulary(len(words), func(id int32) []byte { return []byte(words[id]) }, nil)
		of := run{rest: rng.IntN(3) > 0}
		for _, b := range []byte("abz\"")[rng.IntN(4):] {
			of.ascii[b/64] |= 1 << (b % 64)
		}
		most := int32(1 + rng.IntN(7))
		inRun := func(text string) bool {
			points := int32(0)
			for len(text) > 0 {
				points++
				if !utf8.FullRuneInString(text) {
					return of.rest && points <= most
				}
				r, size := utf8.DecodeRuneInString(text)
				if r == utf8.RuneError && size < 2 || r < 0x80 && !of.has(byte(r)) || r >= 0x80 && !of.rest {
					return false
				}
				text = text[size:]
			}
			return points <= most
		}
		tr := v.trie()
		s := newSlice(tr, len(words), cut{run: of, most: most})
		for i, id := range tr.ids {
			if got, want := s.tokens.Has(int32(i)), inRun(words[id]); got != want {
				t.Fatalf("%+v, %d code points at most: %q is in the slice: %v, want %v, of %q", of, most, words[id], got, want, words)
			}
		}
	}
}
