package pdf

import (
	"strings"

	"golang.org/x/text/encoding/charmap"
)

// A font says what the codes of strings are, and how wide.
type font struct {
	wide   bool            // codes have several bytes, as codes says
	codes  *cmap           // of a wide font
	chars  *cmap           // characters of codes; nil: it does not say
	utf16  bool            // codes of a wide font are UTF-16
	table  [256]string     // characters of a font that is not wide
	widths map[int]float64 // of codes or of glyphs, in ems
	spans  ranges[float64] // widths of those that are not in it
	width  float64         // of those that have none
	down   bool            // it writes from the top
}

// fontOf returns the font of a dictionary.
func (f *file) fontOf(v any) *font {
	r, isRef := v.(ref)
	if isRef && f.fonts[r.num] != nil {
		return f.fonts[r.num]
	}
	d := f.dict(v)
	t := &font{widths: map[int]float64{}, width: 0.5}
	if s, ok := f.get(d["ToUnicode"]).(*stream); ok {
		if data, err := f.decode(s); err == nil && len(data) > 0 {
			t.chars = f.mapped(data)
		}
	}
	if f.get(d["Subtype"]) == name("Type0") {
		f.wideFont(t, d)
	} else {
		f.simpleFont(t, d)
	}
	if !isRef { // of each use of it one is made
		_ = f.charge(t.size())
	} else if f.charge(perFont+t.size()) == nil {
		f.fonts[r.num] = t
	}
	return t
}

// perFont is about what is kept of a small font.
const perFont = 8 << 10

// size is about what is kept of a font beside.
func (t *font) size() int {
	n := 48*max(0, len(t.widths)-256) + 32*len(t.spans)
	for _, m := range []*cmap{t.chars, t.codes} {
		if m != nil {
			n += 80*(len(m.chars)+len(m.cids)) + 64*(len(m.spans)+len(m.ranges))
		}
	}
	return n
}

// Limits of a font.
const (
	maxWidths      = 1 << 16
	maxDifferences = 1 << 10 // of 256 codes, each with its number and its name
)

func (f *file) wideFont(t *font, d dict) {
	t.wide, t.codes, t.width = true, &cmap{}, 1
	switch e := f.get(d["Encoding"]).(type) {
	case name:
		t.down = strings.HasSuffix(string(e), "-V")
		t.utf16 = strings.Contains(string(e), "UCS2") || strings.Contains(string(e), "UTF16")
	case *stream:
		if data, err := f.decode(e); err == nil {
			t.codes = f.mapped(data)
			t.down = t.codes.down
		}
	}
	below := f.array(d["DescendantFonts"])
	if len(below) == 0 {
		return
	}
	cid := f.dict(below[0])
	t.width = f.number(cid["DW"], 1000) / 1000
	defer func() { t.spans = t.spans.apart() }()
	list := f.array(cid["W"])
	for left := maxWidths; len(list) >= 2 && left > 0 && f.tick() == nil; left-- {
		first, _ := index(f.get(list[0]))
		if each, ok := f.get(list[1]).(array); ok {
			each = each[:min(len(each), left)]
			for i, w := range each {
				t.widths[first+i] = f.number(w, 1000) / 1000
			}
			list, left = list[2:], left-len(each)
			continue
		}
		if len(list) < 3 {
			return
		}
		last, _ := index(f.get(list[1]))
		t.spans = append(t.spans, span[float64]{first, last, f.number(list[2], 1000) / 1000, 0})
		list = list[3:]
	}
}

// widthOf returns how wide a code or a glyph is.
func (t *font) widthOf(at int) float64 {
	if w, ok := t.widths[at]; ok {
		return w
	}
	if w, _, ok := t.spans.at(at); ok {
		return w
	}
	return t.width
}

func (f *file) simpleFont(t *font, d dict) {
	base, _ := f.get(d["BaseFont"]).(name)
	about := f.dict(d["FontDescriptor"])
	flags, _ := index(f.get(about["Flags"]))
	if _, after, ok := strings.Cut(string(base), "+"); ok {
		base = name(after)
	}
	encoding := standard
	switch {
	case base == "Symbol":
		encoding = symbols
	case base == "ZapfDingbats":
		encoding = func(byte) string { return "•" }
	case f.get(d["Subtype"]) == name("TrueType") && flags&4 == 0:
		encoding = byCharmap(charmap.Windows1252)
	}
	var differences array
	switch e := f.get(d["Encoding"]).(type) {
	case name:
		encoding = encodingOf(e, encoding)
	case dict:
		if b, ok := f.get(e["BaseEncoding"]).(name); ok {
			encoding = encodingOf(b, encoding)
		}
		differences = f.array(e["Differences"])
		differences = differences[:min(len(differences), maxDifferences)]
	}
	for c := range 256 {
		t.table[c] = encoding(byte(c))
	}
	at := 0
	for _, v := range differences {
		switch v := f.get(v).(type) {
		case float64:
			at = int(max(-1, min(v, 256)))
		case name:
			if at >= 0 && at < 256 {
				t.table[at] = clean(glyph(string(v)))
			}
			at++
		}
	}
	f.simpleWidths(t, d, about, string(base))
}

func (f *file) simpleWidths(t *font, d, about dict, base string) {
	scale := 0.001
	if m := f.array(d["FontMatrix"]); f.get(d["Subtype"]) == name("Type3") && len(m) == 6 {
		scale = f.number(m[0], scale)
	}
	list, ok := f.get(d["Widths"]).(array)
	if !ok { // one of the fourteen that all readers have
		for c := range 256 {
			t.widths[c] = standardWidth(base, byte(c))
		}
		return
	}
	t.width = f.number(about["MissingWidth"], 0) * scale
	first, _ := index(f.get(d["FirstChar"]))
	for i, w := range list[:min(len(list), max(0, 256-first))] {
		t.widths[first+i] = f.number(w, 0) * scale
	}
}

// A shown glyph is one that a string has.
type shown struct {
	chars string  // empty: it is not known which
	width float64 // in ems
	space bool    // spacing of words applies to it
}

// each calls put for each glyph of a string.
func (t *font) each(s string, put func(shown) error) error {
	for s != "" {
		c := code{1, uint32(s[0])}
		if t.wide {
			c = t.codes.cut(s)
		}
		one := shown{space: c.n == 1 && c.bits == ' '}
		at := int(c.bits)
		if t.wide {
			at = int(t.codes.cid(c))
		}
		one.width = t.widthOf(at)
		if t.chars != nil {
			one.chars = t.chars.text(c)
		}
		switch {
		case one.chars != "":
		case !t.wide:
			one.chars = t.table[c.bits]
		case t.utf16:
			one.chars = clean(fromUTF16(s[:c.n]))
		}
		s = s[c.n:]
		if err := put(one); err != nil {
			return err
		}
	}
	return nil
}
