package pdf

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A cmap says how codes are cut out of strings, and which characters or glyphs they are.
type cmap struct {
	spaces []space         // none: codes have two bytes
	chars  map[code]string // of bfchar
	spans  ranges[[]rune]  // of bfrange: characters of the first code, of which the last counts up
	cids   map[code]uint32 // of cidchar
	ranges ranges[uint32]  // of cidrange: the glyph of the first code
	down   bool            // it writes from the top
}

// A code is one of a number of bytes.
type code struct {
	n    uint8
	bits uint32
}

type space struct{ low, high code }

// key orders codes: those of fewer bytes are first.
func (c code) key() int { return int(c.n)<<32 | int(c.bits) }

// Limits of what a few bytes of a cmap make.
const (
	maxChars   = 1 << 17 // codes, and as many ranges of glyphs
	maxSpaces  = 256
	maxSpans   = 1 << 14
	maxUnits   = 64 // characters of a code
	maxCodeLen = 4
)

// mapped reads a cmap, which is a program in PostScript of a few forms.
func (f *file) mapped(data []byte) *cmap {
	m := &cmap{chars: map[code]string{}, cids: map[code]uint32{}}
	l := lexer{data: data}
	var operands []any
	for steps := 1; ; steps++ {
		v := l.next()
		if v == (done{}) || steps%tickEvery == 0 && f.tick() != nil {
			m.spans, m.ranges = m.spans.apart(), m.ranges.apart()
			return m
		}
		k, ok := v.(keyword)
		if !ok {
			if len(operands) < 1<<12 {
				operands = append(operands, v)
			}
			continue
		}
		l.cost = 0
		switch k {
		case "endcodespacerange":
			for ; len(operands) >= 2 && len(m.spaces) < maxSpaces; operands = operands[2:] {
				low, ok := codeOf(operands[0])
				high, fine := codeOf(operands[1])
				if ok && fine && low.n == high.n {
					m.spaces = append(m.spaces, space{low, high})
				}
			}
		case "endbfchar":
			for ; len(operands) >= 2; operands = operands[2:] {
				if c, ok := codeOf(operands[0]); ok {
					m.put(c, charsOf(operands[1]))
				}
			}
		case "endbfrange":
			for ; len(operands) >= 3; operands = operands[3:] {
				m.putRange(operands[0], operands[1], operands[2])
			}
		case "endcidchar":
			for ; len(operands) >= 2 && len(m.cids) < maxChars; operands = operands[2:] {
				c, ok := codeOf(operands[0])
				if cid, fine := index(operands[1]); ok && fine {
					m.cids[c] = uint32(cid)
				}
			}
		case "endcidrange":
			for ; len(operands) >= 3 && len(m.ranges) < maxChars; operands = operands[3:] {
				low, ok := codeOf(operands[0])
				high, fine := codeOf(operands[1])
				if cid, whole := index(operands[2]); ok && fine && whole && low.n == high.n {
					m.ranges = append(m.ranges, span[uint32]{low.key(), high.key(), uint32(cid), 0})
				}
			}
		case "def":
			if n := len(operands); n >= 2 && operands[n-2] == name("WMode") {
				m.down = operands[n-1] == 1.0
			}
		}
		operands = operands[:0]
	}
}

func (m *cmap) put(c code, chars string) {
	if chars = clean(chars); chars != "" && len(chars) <= maxUnits*utf8.UTFMax && len(m.chars) < maxChars {
		m.chars[c] = chars
	}
}

func (m *cmap) putRange(low, high, to any) {
	from, ok := codeOf(low)
	last, fine := codeOf(high)
	if !ok || !fine || from.n != last.n || last.bits < from.bits {
		return
	}
	n := last.bits - from.bits
	if list, ok := to.(array); ok {
		for i, one := range list {
			if uint32(i) <= n {
				m.put(code{from.n, from.bits + uint32(i)}, charsOf(one))
			}
		}
		return
	}
	first := []rune(charsOf(to))
	if len(first) > 0 && len(first) <= maxUnits && len(m.spans) < maxSpans {
		m.spans = append(m.spans, span[[]rune]{from.key(), last.key(), first, 0})
	}
}

// text returns the characters of a code.
func (m *cmap) text(c code) string {
	if s, ok := m.chars[c]; ok {
		return s
	}
	if first, after, ok := m.spans.at(c.key()); ok {
		chars := slices.Clone(first)
		chars[len(chars)-1] += rune(after)
		return clean(string(chars))
	}
	return ""
}

func codeOf(v any) (code, bool) {
	t, ok := v.(text)
	if !ok || len(t) == 0 || len(t) > maxCodeLen {
		return code{}, false
	}
	return codeIn(string(t)), true
}

func codeIn(s string) code {
	c := code{n: uint8(len(s))}
	for i := range len(s) {
		c.bits = c.bits<<8 | uint32(s[i])
	}
	return c
}

// charsOf returns the characters of a string in UTF-16.
func charsOf(v any) string {
	t, ok := v.(text)
	if !ok {
		return ""
	}
	if len(t) == 1 {
		return string(rune(t[0]))
	}
	return fromUTF16(string(t))
}

func fromUTF16(s string) string {
	units := make([]uint16, len(s)/2)
	for i := range units {
		units[i] = uint16(s[2*i])<<8 | uint16(s[2*i+1])
	}
	return string(utf16.Decode(units))
}

// clean is a text without what says nothing: controls, and characters that are none. Ligatures are their letters.
func clean(s string) string {
	plain := true
	for _, r := range s {
		plain = plain && r >= ' ' && r < 0x7f
	}
	if plain {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t', r == '\n', r == '\r', r == 0xa0:
			b.WriteByte(' ')
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0xad, r >= 0xfff0 && r <= 0xffff, r == 0xfeff:
		case r >= 0xfb00 && r <= 0xfb06:
			b.WriteString([]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}[r-0xfb00])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cut returns the first code of a string.
func (m *cmap) cut(s string) code {
	for n := 1; n <= maxCodeLen && n <= len(s) && len(m.spaces) > 0; n++ {
		c := codeIn(s[:n])
		for _, sp := range m.spaces {
			if int(sp.low.n) == n && within(c.bits, sp.low.bits, sp.high.bits, n) {
				return c
			}
		}
	}
	n := 2
	if len(m.spaces) > 0 {
		n = int(m.spaces[0].low.n)
	}
	return codeIn(s[:min(n, len(s))])
}

// within reports whether each byte of a code is within its range.
func within(c, low, high uint32, n int) bool {
	for range n {
		if c&0xff < low&0xff || c&0xff > high&0xff {
			return false
		}
		c, low, high = c>>8, low>>8, high>>8
	}
	return true
}

// cid returns the number of a glyph.
func (m *cmap) cid(c code) uint32 {
	if cid, ok := m.cids[c]; ok {
		return cid
	}
	if first, after, ok := m.ranges.at(c.key()); ok {
		return first + uint32(after)
	}
	return c.bits
}
