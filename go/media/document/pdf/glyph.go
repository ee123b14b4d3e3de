package pdf

import (
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// encodingOf returns a named encoding, or another where the name is none.
func encodingOf(n name, otherwise func(byte) string) func(byte) string {
	switch n {
	case "WinAnsiEncoding":
		return byCharmap(charmap.Windows1252)
	case "MacRomanEncoding":
		return byCharmap(charmap.Macintosh)
	case "StandardEncoding":
		return standard
	}
	return otherwise
}

func byCharmap(m *charmap.Charmap) func(byte) string {
	return func(c byte) string { return clean(string(m.DecodeByte(c))) }
}

// upper is what standard has above ASCII.
var upper = func() map[byte]string {
	all := map[byte]string{'\'': "’", '`': "‘"}
	for from, list := range map[byte]string{
		0xa1: "¡¢£⁄¥ƒ§¤'“«‹›", 0xb1: "–†‡·", 0xb6: "¶•‚„”»…‰", 0xbf: "¿", 0xc1: "`´ˆ˜¯˘˙¨", 0xca: "˚¸", 0xcd: "˝˛ˇ—",
		0xe1: "Æ", 0xe3: "ª", 0xe8: "ŁØŒº", 0xf1: "æ", 0xf5: "ı", 0xf8: "łøœß",
	} {
		for _, r := range list {
			all[from] = string(r)
			from++
		}
	}
	all[0xae], all[0xaf] = "fi", "fl"
	return all
}()

// standard is Adobe's encoding of fonts that name none.
func standard(c byte) string {
	if s, ok := upper[c]; ok {
		return s
	}
	if c >= ' ' && c < 0x7f {
		return string(rune(c))
	}
	return ""
}

// symbols is the encoding of the font Symbol: Greek in the places of Latin letters.
func symbols(c byte) string {
	const (
		greek = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"
		small = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
		above = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…" // from 0xa1
	)
	at := func(list string, i byte) string { return string([]rune(list)[i]) }
	switch {
	case c >= 'A' && c <= 'Z':
		return at(greek, c-'A')
	case c >= 'a' && c <= 'z':
		return at(small, c-'a')
	case c >= 0xa1 && c <= 0xbc:
		return at(above, c-0xa1)
	case c == 0xd7:
		return "⋅"
	case c == '-':
		return "−"
	}
	return standard(c)
}

// glyphs are the characters of names that are no letter, nor one with an accent.
var glyphs = func() map[string]string {
	all := map[string]string{}
	fields := strings.Fields(`space 0020 exclam ! quotedbl " numbersign # dollar $ percent % ampersand & quotesingle ' parenleft ( parenright )
		asterisk * plus + comma , hyphen - period . slash / zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 colon :
		semicolon ; less < equal = greater > question ? at @ bracketleft [ backslash \ bracketright ] asciicircum ^ underscore _ grave ` + "`" + `
		braceleft { bar | braceright } asciitilde ~ quoteright ’ quoteleft ‘ quotedblleft “ quotedblright ” quotesinglbase ‚ quotedblbase „
		guillemotleft « guillemotright » guilsinglleft ‹ guilsinglright › endash – emdash — bullet • ellipsis … dagger † daggerdbl ‡
		exclamdown ¡ questiondown ¿ cent ¢ sterling £ yen ¥ Euro € euro € currency ¤ florin ƒ section § paragraph ¶ copyright © registered ®
		trademark ™ degree ° plusminus ± multiply × divide ÷ minus − fraction ⁄ perthousand ‰ onehalf ½ onequarter ¼ threequarters ¾
		onesuperior ¹ twosuperior ² threesuperior ³ ordfeminine ª ordmasculine º logicalnot ¬ brokenbar ¦ mu µ periodcentered · middot ·
		acute ´ circumflex ˆ tilde ˜ macron ¯ breve ˘ dotaccent ˙ dieresis ¨ ring ˚ cedilla ¸ hungarumlaut ˝ ogonek ˛ caron ˇ
		AE Æ ae æ OE Œ oe œ Oslash Ø oslash ø Lslash Ł lslash ł Eth Ð eth ð Thorn Þ thorn þ germandbls ß dotlessi ı dotlessj ȷ Dcroat Đ
		dcroat đ Hbar Ħ hbar ħ Tbar Ŧ tbar ŧ kgreenlandic ĸ Eng Ŋ eng ŋ longs ſ ff ff fi fi fl fl ffi ffi ffl ffl f_i fi f_l fl f_f ff
		f_f_i ffi f_f_l ffl nbspace 0020 nonbreakingspace 0020 sfthyphen - softhyphen - hyphenminus - visiblespace 0020
		Alpha Α Beta Β Gamma Γ Delta Δ Epsilon Ε Zeta Ζ Eta Η Theta Θ Iota Ι Kappa Κ Lambda Λ Mu Μ Nu Ν Xi Ξ Omicron Ο Pi Π Rho Ρ Sigma Σ
		Tau Τ Upsilon Υ Phi Φ Chi Χ Psi Ψ Omega Ω alpha α beta β gamma γ delta δ epsilon ε epsilon1 ε zeta ζ eta η theta θ theta1 ϑ iota ι
		kappa κ lambda λ nu ν xi ξ omicron ο pi π pi1 ϖ rho ρ rho1 ϱ sigma σ sigma1 ς tau τ upsilon υ phi φ phi1 ϕ chi χ psi ψ omega ω
		infinity ∞ partialdiff ∂ integral ∫ summation ∑ product ∏ radical √ approxequal ≈ notequal ≠ lessequal ≤ greaterequal ≥ element ∈
		arrowleft ← arrowup ↑ arrowright → arrowdown ↓ arrowboth ↔ lozenge ◊ similar ∼ equivalence ≡ proportional ∝ emptyset ∅ universal ∀
		existential ∃ intersection ∩ union ∪ logicaland ∧ logicalor ∨ prime ′ minute ′ second ″ nabla ∇ gradient ∇ asteriskmath ∗ dotmath ⋅
		circleplus ⊕ circlemultiply ⊗ propersubset ⊂ propersuperset ⊃ angleleft ⟨ angleright ⟩ checkmark ✓ square □ filledbox ■ circle ○`)
	for i := 0; i+1 < len(fields); i += 2 {
		all[fields[i]] = fields[i+1]
		if fields[i+1] == "0020" {
			all[fields[i]] = " "
		}
	}
	return all
}()

// accents are how the names of letters with them end.
var accents = map[string]string{
	"grave": "\u0300", "acute": "\u0301", "circumflex": "\u0302", "tilde": "\u0303", "macron": "\u0304", "breve": "\u0306",
	"dotaccent": "\u0307", "dot": "\u0307", "dieresis": "\u0308", "ring": "\u030a", "hungarumlaut": "\u030b", "caron": "\u030c",
	"cedilla": "\u0327", "commaaccent": "\u0327", "ogonek": "\u0328", "tonos": "\u0301", "dieresistonos": "\u0308\u0301",
}

// glyph returns the characters of a glyph by its name; empty: they are not known.
func glyph(n string) string {
	n, _, _ = strings.Cut(n, ".") // such as a.sc
	if s, ok := glyphs[n]; ok {
		return s
	}
	if len(n) == 1 {
		return n
	}
	for _, head := range []string{"uni", "u"} {
		if digits, ok := strings.CutPrefix(n, head); ok && len(digits) >= 4 && len(digits) <= 6 {
			if r, err := strconv.ParseUint(digits, 16, 21); err == nil {
				return string(rune(r))
			}
		}
	}
	if s := cyrillic(n); s != "" {
		return s
	}
	for end, mark := range accents {
		if base, ok := strings.CutSuffix(n, end); ok && base != "" {
			if len(base) > 1 {
				base = glyphs[base]
			}
			if base != "" {
				return norm.NFC.String(base + mark)
			}
		}
	}
	return ""
}

// cyrillic returns the letter of one of Adobe's numbers.
func cyrillic(n string) string {
	digits, ok := strings.CutPrefix(n, "afii")
	k, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return ""
	}
	for _, r := range []struct{ from, to, first int }{
		{10017, 10022, 0x410}, {10023, 10023, 0x401}, {10024, 10049, 0x416}, {10050, 10050, 0x490}, {10051, 10061, 0x402}, {10062, 10062, 0x40e},
		{10065, 10070, 0x430}, {10071, 10071, 0x451}, {10072, 10097, 0x436}, {10098, 10098, 0x491}, {10099, 10109, 0x452}, {10110, 10110, 0x45e},
		{10145, 10145, 0x40f}, {10193, 10193, 0x45f}, {61352, 61352, 0x2116},
	} {
		if k >= r.from && k <= r.to {
			return string(rune(r.first + k - r.from))
		}
	}
	return ""
}

// The widths of ASCII, from the blank on, in thousandths of an em.
var (
	helvetica = [95]uint16{278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556,
		278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667,
		944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
		278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584}
	times = [95]uint16{250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500,
		278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611, 556, 722, 722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722,
		944, 722, 722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500, 278, 778, 500, 500, 500, 500, 333, 389,
		278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541}
)

// standardWidth is that of a character of the fonts that come without widths. Bold ones are taken for plain ones.
func standardWidth(base string, c byte) float64 {
	widths := &helvetica
	switch {
	case strings.HasPrefix(base, "Courier"):
		return 0.6
	case strings.HasPrefix(base, "Times"):
		widths = &times
	}
	if c < ' ' || c > '~' {
		return 0.55
	}
	return float64(widths[c-' ']) / 1000
}
