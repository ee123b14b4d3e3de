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

// A line with too little indentation ends the text before its first character, wherever the text is cut, and nothing
// comes after it.
func TestOutdented(t *testing.T) {
	for text, want := range map[string]string{
		"a\n  b\n c\n": "a\n  b\n ", "a\n\t b\n": "a\n\t b\n", "a\n\n  b": "a\n", "a\nb": "a\n", " a\n   b": " a\n   b",
	} {
		for step := 1; step <= len(text); step++ {
			s := NewStops(nil, 2)
			out := ""
			for rest := text; rest != ""; {
				n := min(step, len(rest))
				sure, _ := s.Write(rest[:n])
				out, rest = out+sure, rest[n:]
			}
			if out += s.Flush(); out != want || s.Shallow() != (want != text) {
				t.Errorf("%q by %d: %q, shallow %v, want %q", text, step, out, s.Shallow(), want)
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
