package chat

import (
	"encoding/json"
	"fmt"
)

// maxDepth is how deep values may be nested.
const maxDepth = 200

// value takes a JSON value, which it gives to sink as it comes. Control characters within
// strings, which JSON does not allow and models write, are escaped. Words and numbers end
// before a byte that cannot be part of them: then gets it.
func value(sink func(text ...byte), then cont) step {
	v := &jsonValue{sink: sink, then: then}
	return space(v.begin)
}

type jsonValue struct {
	sink  func(text ...byte)
	then  cont
	stack []byte // '{' and '['
	key   bool   // the string is a key
	word  []byte
}

func (v *jsonValue) begin(c byte) step {
	switch {
	case c == '"':
		v.sink(c)
		return v.text
	case c == '{' && len(v.stack) < maxDepth:
		v.stack = append(v.stack, c)
		v.sink(c)
		return v.spaced(v.firstKey)
	case c == '[' && len(v.stack) < maxDepth:
		v.stack = append(v.stack, c)
		v.sink(c)
		return v.spaced(v.firstElement)
	case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		v.word = append(v.word[:0], c)
		return v.scalar
	}
	return nil
}

// spaced passes white space on.
func (v *jsonValue) spaced(then step) step {
	var s step
	s = func(c byte) step {
		if isSpace(c) {
			v.sink(c)
			return s
		}
		return then(c)
	}
	return s
}

func (v *jsonValue) firstKey(c byte) step {
	if c == '}' {
		return v.close(c)
	}
	return v.nextKey(c)
}

func (v *jsonValue) nextKey(c byte) step {
	if c != '"' {
		return nil
	}
	v.key = true
	v.sink(c)
	return v.text
}

func (v *jsonValue) firstElement(c byte) step {
	if c == ']' {
		return v.close(c)
	}
	return v.begin(c)
}

// text takes a string.
func (v *jsonValue) text(c byte) step {
	switch {
	case c == '"':
		v.sink(c)
		if !v.key {
			return v.ended()
		}
		v.key = false
		return v.spaced(v.colon)
	case c == '\\':
		return escape(v.sink, v.text)
	}
	v.sink(escaped(c)...)
	return v.text
}

// escape takes what follows a backslash in a string. One that escapes nothing stands for
// itself.
func escape(sink func(text ...byte), then step) step {
	return func(c byte) step {
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			sink('\\', c)
		case 'u':
			var digits []byte
			var s step
			s = func(c byte) step {
				digits = append(digits, c)
				switch {
				case !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'):
					return nil
				case len(digits) < 4:
					return s
				}
				sink(append([]byte(`\u`), digits...)...)
				return then
			}
			return s
		case '\'':
			sink(c)
		default:
			sink('\\', '\\')
			sink(escaped(c)...)
		}
		return then
	}
}

// escaped returns a byte as it is written in a string, apart from quotes and backslashes.
func escaped(c byte) []byte {
	switch {
	case c == '\n':
		return []byte(`\n`)
	case c == '\t':
		return []byte(`\t`)
	case c == '\r':
		return []byte(`\r`)
	case c < ' ':
		return fmt.Appendf(nil, `\u%04x`, c)
	}
	return []byte{c}
}

func (v *jsonValue) colon(c byte) step {
	if c != ':' {
		return nil
	}
	v.sink(c)
	return v.spaced(v.begin)
}

func (v *jsonValue) comma(c byte) step {
	inside := v.stack[len(v.stack)-1]
	switch {
	case c == ',' && inside == '{':
		v.sink(c)
		return v.spaced(v.nextKey)
	case c == ',':
		v.sink(c)
		return v.spaced(v.begin)
	case c == inside+2: // '}' for '{' and ']' for '['
		return v.close(c)
	}
	return nil
}

func (v *jsonValue) close(c byte) step {
	v.sink(c)
	v.stack = v.stack[:len(v.stack)-1]
	return v.ended()
}

// ended follows a value.
func (v *jsonValue) ended() step {
	if len(v.stack) == 0 {
		return v.then()
	}
	return v.spaced(v.comma)
}

// scalar takes a number or a word: those of Python are understood.
func (v *jsonValue) scalar(c byte) step {
	if c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		if v.word = append(v.word, c); len(v.word) > 64 {
			return nil
		}
		return v.scalar
	}
	text, ok := scalarJSON(string(v.word))
	if !ok {
		return nil
	}
	v.sink([]byte(text)...)
	after := v.ended()
	if after == nil {
		return nil
	}
	return after(c)
}

// scalarJSON returns a number or a word as JSON has it.
func scalarJSON(word string) (string, bool) {
	switch word {
	case "True":
		return "true", true
	case "False":
		return "false", true
	case "None":
		return "null", true
	}
	return word, json.Valid([]byte(word))
}

// quoted returns bytes as part of a JSON string.
func quoted(text []byte) (out []byte) {
	for _, c := range text {
		if c == '"' || c == '\\' {
			out = append(out, '\\', c)
			continue
		}
		out = append(out, escaped(c)...)
	}
	return out
}

// A jsonText decodes a JSON string whose text comes in pieces.
type jsonText struct{ raw []byte }

func (t *jsonText) write(text ...byte) { t.raw = append(t.raw, text...) }

func (t *jsonText) String() string {
	var s string
	if json.Unmarshal(t.raw, &s) != nil {
		return string(t.raw) // a number
	}
	return s
}
