package constrain

import (
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// class emits the UTF-8 encodings of code points. Ranges with the same continuation bytes share instructions.
func (c *compiler) class(ranges grammar.Class, next int32) int32 {
	type part struct {
		lo, hi byte
		next   int32
	}
	known := map[part]int32{}
	tail := func(lo, hi byte, next int32) int32 {
		p := part{lo, hi, next}
		if _, ok := known[p]; !ok {
			known[p] = c.bytes(lo, hi, next)
		}
		return known[p]
	}
	start := int32(-1)
	for i, r := range ranges {
		if r.Lo > r.Hi || r.Lo < 0 || r.Hi > utf8.MaxRune || i > 0 && r.Lo <= ranges[i-1].Hi {
			refuse("the grammar has a class whose ranges are not in order: U+%04X to U+%04X", r.Lo, r.Hi)
		}
		splitUTF8(r.Lo, r.Hi, func(lo, hi []byte) {
			at := next
			for k := len(lo) - 1; k > 0; k-- {
				at = tail(lo[k], hi[k], at)
			}
			at = c.bytes(lo[0], hi[0], at)
			if start < 0 {
				start = at
			} else {
				start = c.split(at, start)
			}
		})
	}
	if start < 0 {
		return c.none()
	}
	return start
}

// splitUTF8 splits a range of code points into ranges whose encodings are the product of one range per byte.
func splitUTF8(lo, hi rune, visit func(lo, hi []byte)) {
	if lo < 0xD800 && hi > 0xDFFF {
		splitUTF8(lo, 0xD7FF, visit)
		splitUTF8(0xE000, hi, visit)
		return
	}
	if lo >= 0xD800 && lo <= 0xDFFF {
		lo = 0xE000
	}
	if hi >= 0xD800 && hi <= 0xDFFF {
		hi = 0xD7FF
	}
	if lo > hi {
		return
	}
	for _, last := range []rune{0x7F, 0x7FF, 0xFFFF} { // the last of each length
		if lo <= last && hi > last {
			splitUTF8(lo, last, visit)
			splitUTF8(last+1, hi, visit)
			return
		}
	}
	if lo < 0x80 {
		visit([]byte{byte(lo)}, []byte{byte(hi)})
		return
	}
	for bits := 6; bits <= 18; bits += 6 { // whole blocks of continuation bytes
		m := rune(1)<<bits - 1
		if lo&^m == hi&^m {
			break
		}
		if lo&m != 0 {
			splitUTF8(lo, lo|m, visit)
			splitUTF8((lo|m)+1, hi, visit)
			return
		}
		if hi&m != m {
			splitUTF8(lo, hi&^m-1, visit)
			splitUTF8(hi&^m, hi, visit)
			return
		}
	}
	visit(utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi))
}
