package tokenizer

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// A charsMap is the normalization table of a SentencePiece model: strings and their replacements. The strings
// are in a double array (Yata 2008), as SentencePiece writes it: the child of a unit for a byte is at unit ^
// offset ^ byte, labelled with that byte. At the end of a string, the child for 0 has the position of its
// replacement.
type charsMap struct {
	units []uint32
	to    string // replacements, each ended by a zero
}

// The fields of a unit.
const (
	unitValue  = 1<<31 - 1    // of one that ends a string
	unitLabel  = 1<<31 | 0xff // a byte; such a unit has none
	unitEnds   = 1 << 8       // a string ends here
	unitFar    = 1 << 9       // the offset counts in 256
	unitOffset = 10           // the lowest bit of the offset
)

// A text that is normalized is at most maxReplacement times as long, and takes maxReplaced steps for each of its bytes:
// strings of Unicode's own normalization have less than 60 bytes.
const (
	maxReplacement = 128
	maxReplaced    = 256 // of a string; longer ones are never found
)

// newCharsMap reads the table of a file; without one, texts are not changed.
func newCharsMap(r *reader) *charsMap {
	const key = "precompiled_charsmap"
	var blob []byte
	switch v, _ := r.value(key, false); v := v.(type) {
	case nil:
	case []uint8:
		blob = v
	case []int8:
		blob = convert[int8, uint8](v)
	default:
		r.wrongType(key, v, "an array of bytes")
	}
	if len(blob) == 0 {
		return &charsMap{}
	}
	n := uint64(0)
	if len(blob) >= 4 {
		n = uint64(binary.LittleEndian.Uint32(blob))
	}
	if len(blob) < 4 || n%4 != 0 || n > uint64(len(blob)-4) || n == 0 {
		r.fail("%s%s has %d bytes, of which %d are to be strings; want 4 more than those, which are a multiple of 4", prefix, key, len(blob), n)
		return &charsMap{}
	}
	to := string(blob[4+n:])
	to = to[:strings.LastIndexByte(to, 0)+1] // what nothing ends is no replacement
	for one := range strings.SplitSeq(to, "\x00") {
		if len(one) > maxReplacement {
			r.fail("%s%s has a replacement of %d bytes, want at most %d", prefix, key, len(one), maxReplacement)
			return &charsMap{}
		}
	}
	c := &charsMap{units: make([]uint32, n/4), to: to}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	return c
}

// normalize replaces the longest matching strings, from left to right. Each byte that is not UTF-8 becomes
// U+FFFD.
func (c *charsMap) normalize(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		n, to := c.longest(text)
		if n == 0 {
			var r rune
			r, n = utf8.DecodeRuneInString(text)
			b.WriteRune(r)
		} else {
			b.WriteString(to)
		}
		text = text[n:]
	}
	return b.String()
}

// longest returns the length of the longest string of the table that text begins with, and its replacement; 0
// if there is none.
func (c *charsMap) longest(text string) (n int, to string) {
	if len(c.units) == 0 {
		return 0, ""
	}
	at := unitNext(c.units[0])
	for i := range min(len(text), maxReplaced) {
		at ^= uint32(text[i])
		if int(at) >= len(c.units) || text[i] == 0 || c.units[at]&unitLabel != uint32(text[i]) {
			break
		}
		unit := c.units[at]
		at ^= unitNext(unit)
		if unit&unitEnds == 0 {
			continue
		}
		if int(at) >= len(c.units) {
			break
		}
		if from := int(c.units[at] & unitValue); from < len(c.to) {
			if end := strings.IndexByte(c.to[from:], 0); end >= 0 {
				n, to = i+1, c.to[from:from+end]
			}
		}
	}
	return n, to
}

// unitNext returns the offset of a unit.
func unitNext(unit uint32) uint32 {
	if unit&unitFar != 0 {
		return unit >> unitOffset << 8
	}
	return unit >> unitOffset
}
