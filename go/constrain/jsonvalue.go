package constrain

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A jsonValue is a value of JSON in a form in which equal ones are written alike, but for the order of members.
type jsonValue struct {
	text  string   // of a string: what it says after a quote; of a number: its digits and exponent; null, true, false, [ or {
	names []string // of an object
	items []*jsonValue
}

// maxJSON limits how deep values nest that are compared.
const maxJSON = 1000

// parseJSON returns the value of a text with white space around it; nil if it is none.
func parseJSON(text []byte) *jsonValue {
	p := jsonParser{text: text}
	v := p.value(0)
	if p.space(); p.at != len(text) {
		return nil
	}
	return v
}

type jsonParser struct {
	text []byte
	at   int
}

func (p *jsonParser) space() {
	for p.at < len(p.text) && isSpace(p.text[p.at]) {
		p.at++
	}
}

// take reports whether a byte comes next, after white space, and goes on after it.
func (p *jsonParser) take(b byte) bool {
	p.space()
	if p.at == len(p.text) || p.text[p.at] != b {
		return false
	}
	p.at++
	return true
}

func (p *jsonParser) value(depth int) *jsonValue {
	if depth > maxJSON {
		return nil
	}
	switch {
	case p.take('"'):
		s, ok := p.string()
		if !ok {
			return nil
		}
		return &jsonValue{text: `"` + s}
	case p.take('['):
		v := &jsonValue{text: "["}
		for !p.take(']') {
			if len(v.items) > 0 && !p.take(',') {
				return nil
			}
			item := p.value(depth + 1)
			if item == nil {
				return nil
			}
			v.items = append(v.items, item)
		}
		return v
	case p.take('{'):
		v := &jsonValue{text: "{"}
		for !p.take('}') {
			if len(v.items) > 0 && !p.take(',') || !p.take('"') {
				return nil
			}
			name, ok := p.string()
			if !ok || !p.take(':') {
				return nil
			}
			item := p.value(depth + 1)
			if item == nil {
				return nil
			}
			v.names, v.items = append(v.names, name), append(v.items, item)
		}
		return v
	}
	from := p.at
	for p.at < len(p.text) && inWord(p.text[p.at]) {
		p.at++
	}
	switch word := string(p.text[from:p.at]); word {
	case "null", "true", "false":
		return &jsonValue{text: word}
	default:
		if n := normalNumber(word); n != "" {
			return &jsonValue{text: n}
		}
	}
	return nil
}

// string reads a string after its first quote.
func (p *jsonParser) string() (string, bool) {
	from := p.at
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			return unquoted(string(p.text[from : p.at-1])), true
		}
	}
	return "", false
}

// unquoted returns what a string says that is written so between its quotes.
func unquoted(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		n := escapeLength(text[i:])
		if n == 0 {
			n = len(text) - i
		}
		out.WriteString(unescaped(text[i : i+n]))
		i += n
	}
	return out.String()
}

// escapeLength returns the bytes of the first character of a string; 0 if more have to come. A surrogate counts with the
// one after it.
func escapeLength(text string) int {
	switch {
	case text == "" || text[0] == '\\' && len(text) == 1:
		return 0
	case text[0] != '\\':
		return 1
	case text[1] != 'u':
		return 2
	case len(text) < 6:
		return 0
	}
	if r, err := strconv.ParseUint(text[2:6], 16, 16); err != nil || r < 0xD800 || r > 0xDBFF {
		return 6
	}
	if rest := `\u`; len(text) < 8 && strings.HasPrefix(rest, text[6:]) || strings.HasPrefix(text[6:], rest) && len(text) < 12 {
		return 0
	} else if !strings.HasPrefix(text[6:], rest) {
		return 6
	}
	return 12
}

// unescaped returns what a character of a string says.
func unescaped(text string) string {
	switch {
	case len(text) < 2 || text[0] != '\\':
		return text
	case text[1] != 'u':
		if i := strings.IndexByte("bfnrt", text[1]); i >= 0 {
			return "\b\f\n\r\t"[i : i+1]
		}
		return text[1:]
	}
	var units []uint16
	for i := 2; i+4 <= len(text); i += 6 {
		r, err := strconv.ParseUint(text[i:i+4], 16, 16)
		if err != nil {
			return text
		}
		units = append(units, uint16(r))
	}
	return string(utf16.Decode(units))
}

// normalNumber returns a number so that equal ones are the same; "" if it is none.
func normalNumber(text string) string {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(text), "e")
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, part, _ := strings.Cut(digits, ".")
	digits = whole + part
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return ""
	}
	power := int64(0)
	if scaled {
		var err error
		if power, err = strconv.ParseInt(exponent, 10, 64); power == 0 && err != nil {
			return ""
		}
		power = min(max(power, -1<<60), 1<<60) // those that are larger count as the same
	}
	power -= int64(len(part))
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	short := strings.TrimRight(digits, "0")
	power += int64(len(digits) - len(short))
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + short + "e" + strconv.FormatInt(power, 10)
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// inWord reports whether a byte may be in a number or in null, true and false.
func inWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || bytes.IndexByte([]byte("+-.E"), b) >= 0
}

// A cursor follows a text as long as it may be another way to write a value. It is immutable.
type cursor struct {
	v    *jsonValue
	up   *cursor // in the value around it; nil: there is none
	in   where
	at   int     // bytes of a string or a word, or the item that is or was last in the text
	text string  // of a number, a name or a character that has begun
	had  []int32 // members that have come
}

type where uint8

const (
	toBegin where = iota // before the first byte of the value
	amid                 // a string or a word
	opened               // after [ or {
	named                // before a name
	inName
	colon    // before it
	item     // within the item, which has a cursor of its own
	itemDone // before what follows an item
	ended
)

// after returns the cursor after a byte, and whether the text may still be the value.
func (c cursor) after(b byte) (cursor, bool) {
	switch c.in {
	case toBegin:
		return c.begin(b)
	case amid:
		switch {
		case c.v.text[0] == '"':
			return c.inString(b)
		case inWord(b):
			c.text += string([]byte{b})
			return c, c.isNumber() || strings.HasPrefix(c.v.text, c.text)
		case !c.said():
			return c, false
		}
		return c.end().after(b)
	case inName:
		if b == '"' && !halfEscaped(c.text) {
			return c.name()
		}
		c.text += string([]byte{b})
		return c, c.mayName()
	}
	if isSpace(b) {
		return c, true
	}
	object := c.v.text == "{"
	switch {
	case c.in == opened && (b == ']' && !object || b == '}' && object):
		return c.end(), len(c.v.items) == 0
	case (c.in == opened || c.in == named) && object && b == '"':
		c.in, c.text = inName, ""
		return c, true
	case c.in == opened && !object && len(c.v.items) > 0:
		return c.child(0).after(b)
	case c.in == colon && b == ':':
		return c.child(c.at), true
	case c.in == itemDone && object && b == ',' && len(c.had) < len(c.v.items):
		c.in = named
		return c, true
	case c.in == itemDone && object && b == '}':
		return c.end(), len(c.had) == len(c.v.items)
	case c.in == itemDone && !object && b == ',' && c.at+1 < len(c.v.items):
		return c.child(c.at + 1), true
	case c.in == itemDone && !object && b == ']':
		return c.end(), c.at+1 == len(c.v.items)
	}
	return c, false
}

func (c cursor) begin(b byte) (cursor, bool) {
	switch first := c.v.text[0]; {
	case isSpace(b):
		return c, true
	case first == '[' || first == '{':
		c.in = opened
		return c, b == first
	case first == '"':
		c.in = amid
		c.at = 1
		return c, b == first
	}
	c.in, c.text = amid, string([]byte{b})
	if c.isNumber() {
		return c, b == '-' && (c.v.text[0] == '-' || c.v.text == "0") || b >= '0' && b <= '9' && c.v.text[0] != '-'
	}
	return c, b == c.v.text[0]
}

// isNumber reports whether the value is a number: what may follow decides which one is written.
func (c cursor) isNumber() bool {
	b := c.v.text[0]
	return b == '-' || b >= '0' && b <= '9'
}

// said reports whether the number or the word that is written is the value.
func (c cursor) said() bool {
	return c.v.text == c.text || c.isNumber() && normalNumber(c.text) == c.v.text
}

// halfEscaped reports whether a text within quotes ends in a backslash that something has to follow.
func halfEscaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

func (c cursor) inString(b byte) (cursor, bool) {
	if c.text == "" && b == '"' {
		return c.end(), c.at == len(c.v.text)
	}
	c.text += string([]byte{b})
	if escapeLength(c.text) == 0 {
		return c, true
	}
	says := unescaped(c.text)
	if !strings.HasPrefix(c.v.text[c.at:], says) {
		return c, false
	}
	c.at += len(says)
	c.text = ""
	return c, true
}

// mayName reports whether a name that has begun may be that of a member which has not come. With an escape it is compared
// at its end.
func (c *cursor) mayName() bool {
	if strings.Contains(c.text, `\`) {
		return true
	}
	for i, n := range c.v.names {
		if strings.HasPrefix(n, c.text) && !slices.Contains(c.had, int32(i)) {
			return true
		}
	}
	return false
}

// name returns the cursor after a name.
func (c cursor) name() (cursor, bool) {
	name := unquoted(c.text)
	for i, n := range c.v.names {
		if n != name {
			continue
		}
		for _, k := range c.had {
			if k == int32(i) {
				return c, false
			}
		}
		c.in, c.at, c.text = colon, i, ""
		c.had = append(c.had[:len(c.had):len(c.had)], int32(i))
		return c, true
	}
	return c, false
}

func (c cursor) child(i int) cursor {
	c.in, c.at = item, i
	return cursor{v: c.v.items[i], up: &c}
}

// end returns the cursor after the value.
func (c cursor) end() cursor {
	if c.up == nil {
		c.in, c.text = ended, ""
		return c
	}
	up := *c.up
	up.in = itemDone
	return up
}

// whole reports whether the text is the value, if it ends here.
func (c cursor) whole() bool {
	return c.in == ended || c.up == nil && c.in == amid && c.v.text[0] != '"' && c.said()
}
