package openai

import (
	stdjson "encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// customInput returns the input of a custom tool. Arguments that are no object of one
// are the input as they are.
func customInput(arguments string) string {
	var t customText
	input := t.Write(arguments)
	return input + t.End()
}

// A customText is the input of a custom tool, read from arguments as they come.
type customText struct {
	stage inputStage
	held  strings.Builder // what is not read yet
}

type inputStage int

const (
	inputBegins inputStage = iota // before the text
	inputGoesOn
	inputEnded
	inputOther // the arguments are not as most models write them: they are read at the end
)

// Write takes more of the arguments, and returns what they add to the input.
func (t *customText) Write(arguments string) string {
	if t.stage == inputEnded {
		return ""
	}
	t.held.WriteString(arguments)
	if t.stage == inputOther {
		return ""
	}
	rest := t.held.String()
	if t.stage == inputBegins {
		n, ok := inputOpening(rest)
		if !ok {
			t.stage = inputOther
		}
		if n == 0 {
			return ""
		}
		t.stage, rest = inputGoesOn, rest[n:]
	}
	var input strings.Builder
	for rest != "" && t.stage == inputGoesOn {
		n := strings.IndexAny(rest, `"\`)
		if n < 0 {
			n = len(rest)
		}
		input.WriteString(rest[:n])
		switch rest = rest[n:]; {
		case rest == "":
		case rest[0] == '"':
			t.stage = inputEnded
		default:
			text, n := unescape(rest)
			if n == 0 {
				t.keep(rest)
				return input.String()
			}
			input.WriteString(text)
			rest = rest[n:]
		}
	}
	t.keep("")
	return input.String()
}

func (t *customText) keep(rest string) {
	t.held.Reset()
	t.held.WriteString(rest)
}

// End returns what the end of the arguments adds.
func (t *customText) End() string {
	held := t.held.String()
	t.held.Reset()
	if t.stage != inputOther {
		return held
	}
	var v struct{ Input *string }
	if stdjson.Unmarshal([]byte(held), &v) != nil || v.Input == nil {
		return held
	}
	return *v.Input
}

// inputOpening returns how long the part of arguments is that comes before the input. It is 0 where
// not all of that is there, and ok is false where something else is.
func inputOpening(s string) (n int, ok bool) {
	rest := s
	for _, want := range []string{"{", `"input"`, ":", `"`} {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if len(rest) < len(want) {
			return 0, strings.HasPrefix(want, rest)
		}
		if !strings.HasPrefix(rest, want) {
			return 0, false
		}
		rest = rest[len(want):]
	}
	return len(s) - len(rest), true
}

// unescape returns the text of the escape sequence with which s begins, and its length: 0 where s ends
// within it. One that JSON does not have is its own text.
func unescape(s string) (text string, n int) {
	const letters, controls = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if len(s) < 2 {
		return "", 0
	}
	if i := strings.IndexByte(letters, s[1]); i >= 0 {
		return controls[i : i+1], 2
	}
	first, n, whole := unit(s)
	switch {
	case !whole:
		return "", 0
	case n == 0:
		return s[:2], 2
	case utf16.IsSurrogate(first):
		second, m, whole := unit(s[n:])
		if !whole {
			return "", 0
		}
		if r := utf16.DecodeRune(first, second); m > 0 && r != utf8.RuneError {
			return string(r), n + m
		}
		return string(utf8.RuneError), n
	}
	return string(first), n
}

// unit reads \uXXXX. It returns n of 0 where s begins with something else, and is not whole where s
// is the beginning of one.
func unit(s string) (r rune, n int, whole bool) {
	for i := range 6 {
		if i == len(s) {
			return 0, 0, false
		}
		switch c := s[i]; {
		case i == 0 && c == '\\', i == 1 && c == 'u':
		case i > 1 && c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case i > 1 && c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, 0, true
		}
	}
	return r, 6, true
}
