package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/quern-llm/quern/go/grammar"
)

// The classes of ECMA-262.
var (
	digitClass = grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'})
	wordClass  = grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: '_', Hi: '_'}, grammar.Range{Lo: 'a', Hi: 'z'})
	spaceClass = grammar.Union(grammar.Runes("\t\n\v\f\r\u00a0\u2028\u2029\ufeff"), grammar.FromTable(unicode.Zs))
	lineEnds   = grammar.Runes("\n\r\u2028\u2029")
)

// posix are the classes that are written [:name:].
var posix = map[string]string{
	"alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f", "digit": "09", "graph": "!~",
	"lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf",
}

// class reads what follows a bracket.
func (p *parser) class() (grammar.Class, error) {
	var ranges []grammar.Range
	not := p.take("^")
	for !p.take("]") {
		if p.take("[:") {
			name, err := p.until(":]")
			pairs, ok := posix[name]
			if err == nil && !ok {
				err = fmt.Errorf("[:%s:] is no class", clip(name))
			}
			if err != nil {
				return nil, err
			}
			for i := 0; i < len(pairs); i += 2 {
				ranges = append(ranges, grammar.Range{Lo: rune(pairs[i]), Hi: rune(pairs[i+1])})
			}
			continue
		}
		lo, err := p.member()
		if err != nil {
			return nil, err
		}
		rest := p.text[p.at:]
		if !strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "-]") {
			ranges = append(ranges, lo...)
			continue
		}
		p.at++
		hi, err := p.member()
		switch {
		case err != nil:
			return nil, err
		case !single(lo) || !single(hi): // as in [\w-.]
			ranges = append(append(append(ranges, lo...), hi...), grammar.Range{Lo: '-', Hi: '-'})
			continue
		case lo[0].Lo > hi[0].Lo:
			return nil, fmt.Errorf("the range %c-%c is out of order", lo[0].Lo, hi[0].Lo)
		}
		ranges = append(ranges, grammar.Range{Lo: lo[0].Lo, Hi: hi[0].Lo})
	}
	c := grammar.NewClass(ranges...)
	if p.flags&FoldCase != 0 {
		c = c.FoldCase()
	}
	if not {
		c = c.Negate()
	}
	return c, nil
}

func single(c grammar.Class) bool { return len(c) == 1 && c[0].Lo == c[0].Hi }

// member reads a character or an escape within brackets.
func (p *parser) member() (grammar.Class, error) {
	r := p.next()
	switch {
	case r < 0:
		return nil, errors.New("] is missing")
	case r != '\\':
		return grammar.Class{{Lo: r, Hi: r}}, nil
	case p.take("b"):
		return grammar.Runes("\b"), nil
	}
	return p.escaped(p.next())
}

// escape reads what follows a backslash, outside of brackets.
func (p *parser) escape() (*node, error) {
	switch r := p.next(); {
	case r == 'b' || r == 'B':
		return &node{op: opBoundary, not: r == 'B', looks: looksBack | looksWord | looksAhead}, nil
	case r == 'A':
		return &node{op: opBegin, looks: looksBack}, nil
	case r == 'z':
		return &node{op: opEnd, looks: looksAhead}, nil
	case r >= '1' && r <= '9', r == 'k':
		return nil, unsupported(fmt.Sprintf("the back reference \\%c", r))
	default:
		c, err := p.escaped(r)
		return p.one(c), err
	}
}

var controls = map[rune]string{'t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r"}

// escaped returns the class of an escape that begins with r.
func (p *parser) escaped(r rune) (grammar.Class, error) {
	if text, ok := controls[r]; ok {
		return grammar.Runes(text), nil
	}
	switch r {
	case -1:
		return nil, errors.New("\\ at the end")
	case 'd':
		return digitClass, nil
	case 'D':
		return digitClass.Negate(), nil
	case 'w':
		return wordClass, nil
	case 'W':
		return wordClass.Negate(), nil
	case 's':
		return spaceClass, nil
	case 'S':
		return spaceClass.Negate(), nil
	case '0':
		if n := p.next(); n >= '0' && n <= '9' {
			return nil, unsupported("an octal escape")
		} else if n >= 0 {
			p.at -= len(string(n))
		}
		return grammar.Runes("\x00"), nil
	case 'c':
		l := p.next() | 0x20
		if l < 'a' || l > 'z' {
			return nil, errors.New("\\c wants a letter")
		}
		return grammar.Class{{Lo: l & 31, Hi: l & 31}}, nil
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'p', 'P':
		return p.property(r == 'P')
	}
	if r < 0x80 && wordClass.Has(r) {
		return nil, fmt.Errorf("\\%c is no escape", r)
	}
	return grammar.Class{{Lo: r, Hi: r}}, nil
}

// hex reads the digits of \x41, \u0041, \x{41} or \u{41}.
func (p *parser) hex(digits int) (grammar.Class, error) {
	code := func() (rune, error) {
		text := p.text[p.at:min(p.at+digits, len(p.text))]
		n, err := strconv.ParseUint(text, 16, 32)
		if err != nil || len(text) < digits {
			return 0, fmt.Errorf("%q is no code of %d hexadecimal digits", clip(text), digits)
		}
		p.at += digits
		return rune(n), nil
	}
	if p.take("{") {
		text, err := p.until("}")
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(text, 16, 32)
		if err != nil || n > unicode.MaxRune || utf16.IsSurrogate(rune(n)) {
			return nil, fmt.Errorf("%q is no code point", clip(text))
		}
		return grammar.Class{{Lo: rune(n), Hi: rune(n)}}, nil
	}
	r, err := code()
	if err == nil && utf16.IsSurrogate(r) {
		if !p.take(`\u`) {
			return nil, errors.New("a surrogate without its other half")
		}
		var low rune
		if low, err = code(); err == nil {
			if r = utf16.DecodeRune(r, low); r == unicode.ReplacementChar {
				err = errors.New("a surrogate without its other half")
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return grammar.Class{{Lo: r, Hi: r}}, nil
}

// categories are the long names of Unicode's general categories.
var categories = map[string]string{
	"Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Titlecase_Letter": "Lt", "Cased_Letter": "LC", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
	"Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
	"Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe",
	"Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
	"Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
	"Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Private_Use": "Co",
	"Alphabetic": "Alphabetic", "Lowercase": "Lowercase", "Uppercase": "Uppercase",
}

// property reads the name of \p{Name}, \p{Script=Name} or \pL.
func (p *parser) property(not bool) (grammar.Class, error) {
	var name string
	var err error
	if p.take("{") {
		if name, err = p.until("}"); err != nil {
			return nil, err
		}
	} else if r := p.next(); r > 0 {
		name = string(r)
	}
	if strings.HasPrefix(name, "^") {
		name, not = name[1:], !not
	}
	c, ok := property(name)
	if !ok {
		return nil, fmt.Errorf("\\p{%s} is no property that is known", clip(name))
	}
	if not {
		c = c.Negate()
	}
	return c, nil
}

func property(name string) (grammar.Class, bool) {
	key, value, keyed := strings.Cut(name, "=")
	if keyed {
		name = value
	}
	if !keyed || key == "gc" || key == "General_Category" {
		if short, ok := categories[name]; ok {
			name = short
		}
		switch name {
		case "Any":
			return grammar.Any, true
		case "ASCII":
			return grammar.NewClass(grammar.Range{Lo: 0, Hi: 0x7f}), true
		case "LC":
			return grammar.Union(grammar.FromTable(unicode.Lu), grammar.FromTable(unicode.Ll), grammar.FromTable(unicode.Lt)), true
		case "Alphabetic":
			return grammar.Union(grammar.FromTable(unicode.L), grammar.FromTable(unicode.Nl), grammar.FromTable(unicode.Other_Alphabetic)), true
		case "Lowercase":
			return grammar.Union(grammar.FromTable(unicode.Ll), grammar.FromTable(unicode.Other_Lowercase)), true
		case "Uppercase":
			return grammar.Union(grammar.FromTable(unicode.Lu), grammar.FromTable(unicode.Other_Uppercase)), true
		}
		if t, ok := unicode.Categories[name]; ok && name != "Cs" {
			return grammar.FromTable(t), true
		}
	}
	if keyed && key != "Script" && key != "sc" && key != "Script_Extensions" && key != "scx" {
		return nil, false
	}
	if t, ok := unicode.Scripts[name]; ok {
		return grammar.FromTable(t), true
	}
	if t, ok := unicode.Properties[name]; ok && !keyed {
		return grammar.FromTable(t), true
	}
	return nil, false
}
