package constrain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// The ranges of a class are code points in order, and do not overlap.
func TestClassesAreInOrder(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	for _, r := range []struct {
		class grammar.Class
		ok    bool
	}{
		{grammar.Class{{Lo: 'a', Hi: 'a'}}, true}, {grammar.Class{{Lo: 0, Hi: utf8.MaxRune}}, true},
		{grammar.Class{{Lo: 'a', Hi: 'b'}, {Lo: 'c', Hi: 'd'}}, true}, {grammar.Class{{Lo: 'b', Hi: 'a'}}, false},
		{grammar.Class{{Lo: -1, Hi: 'a'}}, false}, {grammar.Class{{Lo: 'a', Hi: utf8.MaxRune + 1}}, false},
		{grammar.Class{{Lo: 'a', Hi: 'c'}, {Lo: 'c', Hi: 'd'}}, false}, {grammar.Class{{Lo: 'c', Hi: 'd'}, {Lo: 'a', Hi: 'b'}}, false},
	} {
		_, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: r.class}}})
		if (err == nil) != r.ok || err != nil && !strings.Contains(err.Error(), "ranges are not in order") {
			t.Errorf("%v: %v", r.class, err)
		}
	}
}

// The ranges of bytes into which code points are split have the encodings of exactly these code points, each once: of
// surrogates, which UTF-8 does not have, none.
func TestSplitUTF8(t *testing.T) {
	edges := []rune{
		0, 1, 'a', 0x7E, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0x7FE, 0x7FF, 0x800, 0x801, 0xABC, 0xFFF, 0x1000, 0xD7FE, 0xD7FF, 0xD800, 0xD801,
		0xDBFF, 0xDFFE, 0xDFFF, 0xE000, 0xE001, 0xFFFE, 0xFFFF, 0x10000, 0x10001, 0x12345, 0x3FFFF, 0x40000, 0x10FFFE, 0x10FFFF,
	}
	for i, lo := range edges {
		for _, hi := range edges[i:] {
			var ranges [][2][]byte
			total := 0
			splitUTF8(lo, hi, func(l, h []byte) {
				n := 1
				for k := range l {
					n *= int(h[k]) - int(l[k]) + 1
				}
				total += n
				ranges = append(ranges, [2][]byte{append([]byte(nil), l...), append([]byte(nil), h...)})
			})
			want := int(hi-lo) + 1 - max(int(min(hi, 0xDFFF)-max(lo, 0xD800))+1, 0)
			if total != want {
				t.Fatalf("%U to %U: %d encodings, want %d: %x", lo, hi, total, want, ranges)
			}
			for _, r := range edges {
				if !utf8.ValidRune(r) {
					continue
				}
				var b [4]byte
				enc := b[:utf8.EncodeRune(b[:], r)]
				n := 0
				for _, rg := range ranges {
					if inRange(enc, rg[0], rg[1]) {
						n++
					}
				}
				if in := r >= lo && r <= hi; n > 1 || (n == 1) != in {
					t.Fatalf("%U to %U: %U is in %d ranges of bytes: %x", lo, hi, r, n, ranges)
				}
			}
		}
	}
}

func inRange(b, lo, hi []byte) bool {
	if len(b) != len(lo) {
		return false
	}
	for i := range b {
		if b[i] < lo[i] || b[i] > hi[i] {
			return false
		}
	}
	return true
}
