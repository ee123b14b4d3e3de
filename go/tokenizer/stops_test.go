package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestStops(t *testing.T) {
	for _, c := range []struct {
		words           []string
		text, out, word string
	}{
		{nil, "abc", "abc", ""},
		{[]string{"bc"}, "abcd", "a", "bc"},
		{[]string{"bd"}, "abcd", "abcd", ""},
		{[]string{"aab"}, "aaab", "a", "aab"},
		{[]string{"abcd", "bc"}, "abcd", "a", "bc"},
		{[]string{"c", "bc"}, "abcd", "a", "bc"},
		{[]string{"abab"}, "abaabab", "aba", "abab"},
		{[]string{"x\n\n"}, "x\nx\n", "x\nx\n", ""},
		{[]string{"\u00e9"}, "caf\u00e9!", "caf", "\u00e9"},
	} {
		for range 20 { // wherever the text is cut
			s := NewStops(c.words, 0)
			out, word := "", ""
			for rest := c.text; rest != "" && word == ""; {
				n := 1 + rand.IntN(len(rest))
				var sure string
				sure, word = s.Write(rest[:n])
				out += sure
				rest = rest[n:]
			}
			if word == "" {
				out += s.Flush()
			}
			if out != c.out || word != c.word {
				t.Fatalf("%q in %q: got %q and %q, want %q and %q", c.words, c.text, out, word, c.out, c.word)
			}
		}
	}
}

// The text that comes out does not depend on where tokens cut it: what a stop
// word ends is what a search of the whole finds.
func FuzzStops(f *testing.F) {
	f.Add("abcabd", "abd", 2)
	f.Add("aaaa", "aab", 1)
	f.Fuzz(func(t *testing.T, text, word string, step int) {
		if word == "" || step < 1 {
			return
		}
		s := NewStops([]string{word}, 0)
		out, found := "", ""
		for rest := text; rest != "" && found == ""; {
			n := min(step, len(rest))
			var sure string
			sure, found = s.Write(rest[:n])
			out, rest = out+sure, rest[n:]
		}
		if found == "" {
			out += s.Flush()
		}
		want, _, cut := strings.Cut(text, word)
		if out != want || cut != (found != "") {
			t.Fatalf("%q until %q: got %q, want %q", text, word, out, want)
		}
	})
}
