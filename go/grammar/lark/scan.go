package lark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	end     kind = iota
	newline      // one or more
	name         // also with ? and ! before
	str          // text is what it says, flags follow
	pat          // of a regular expression
	tok          // <name>
	number
	keyword // %import
	value   // JSON, after %json
	mark    // one of : | ( ) [ ] { } , * + ? ~ & .. . -> @ -
)

type lexeme struct {
	kind        kind
	text, flags string
	line        int
}

// scan cuts a grammar into lexemes.
func scan(text string) ([]lexeme, error) {
	s := &scanner{text: text, line: 1}
	for s.at < len(text) {
		if err := s.one(); err != nil {
			return nil, fmt.Errorf("%w, at line %d of the grammar", err, s.line)
		}
	}
	s.add(newline, "", "")
	return append(s.out, lexeme{kind: end, line: s.line}), nil
}

type scanner struct {
	text string
	at   int
	line int
	out  []lexeme
}

func (s *scanner) add(k kind, text, flags string) {
	s.out = append(s.out, lexeme{k, text, flags, s.line})
}

// while skips characters of a set, and returns them.
func (s *scanner) while(is func(c byte) bool) string {
	from := s.at
	for s.at < len(s.text) && is(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
func word(c byte) bool   { return letter(c) || digit(c) || c == '-' }
func small(c byte) bool  { return c >= 'a' && c <= 'z' }

func (s *scanner) one() error {
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case c == '\n':
		if len(s.out) > 0 && s.out[len(s.out)-1].kind != newline {
			s.add(newline, "", "")
		}
		s.line++
		s.at++
	case c == ' ' || c == '\t' || c == '\r':
		s.at++
	case c == '#' || strings.HasPrefix(rest, "//"):
		s.while(func(c byte) bool { return c != '\n' })
	case c == '"':
		return s.str()
	case c == '/':
		return s.pattern()
	case c == '<':
		i := strings.IndexAny(rest, ">\n")
		if i < 0 || rest[i] != '>' {
			return errors.New("> is missing")
		}
		s.add(tok, rest[:i+1], "")
		s.at += i + 1
	case c == '%':
		s.at++
		k := s.while(small)
		s.add(keyword, k, "")
		if k == "json" || k == "regex" {
			return s.json(k)
		}
	case letter(c):
		s.add(name, s.while(word), "")
	case (c == '?' || c == '!') && len(rest) > 1 && letter(rest[1]) && s.begins():
		s.at++ // about trees
	case digit(c), c == '-' && len(rest) > 1 && digit(rest[1]):
		s.at++
		s.while(digit)
		s.add(number, rest[:len(rest)-len(s.text[s.at:])], "")
	default:
		for _, m := range []string{"->", "..", ":", "|", "(", ")", "[", "]", "{", "}", ",", "*", "+", "?", "~", "&", ".", "@", "="} {
			if strings.HasPrefix(rest, m) {
				s.add(mark, m, "")
				s.at += len(m)
				return nil
			}
		}
		r, _ := utf8.DecodeRuneInString(rest)
		return fmt.Errorf("%q is not part of Lark's notation", r)
	}
	return nil
}

// begins reports whether a statement begins here.
func (s *scanner) begins() bool {
	return len(s.out) == 0 || s.out[len(s.out)-1].kind == newline
}

func (s *scanner) str() error {
	from := s.at
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\n' {
			break
		}
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return errors.New(`" is missing`)
	}
	s.at++
	raw := s.text[from:s.at]
	var out string
	if err := json.Unmarshal([]byte(escapes(raw)), &out); err != nil || !utf8.ValidString(raw) {
		return fmt.Errorf("%.40s is no string", raw)
	}
	s.add(str, out, s.while(small))
	return nil
}

// escapes writes escapes that JSON does not have as it has them.
func escapes(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == '\t':
			b.WriteString(`\t`)
		case raw[i] != '\\' || i+1 == len(raw):
			b.WriteByte(raw[i])
		case raw[i+1] == 'x' && i+4 <= len(raw):
			b.WriteString(`\u00`)
			i++
		case raw[i+1] == '\'':
			i++
			b.WriteByte('\'')
		default:
			b.WriteString(raw[i : i+2])
			i++
		}
	}
	return b.String()
}

func (s *scanner) pattern() error {
	from := s.at + 1
	for s.at++; s.at < len(s.text) && s.text[s.at] != '/'; s.at++ {
		if s.text[s.at] == '\n' {
			break
		}
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	if s.at >= len(s.text) || s.text[s.at] != '/' {
		return errors.New("/ is missing")
	}
	raw := s.text[from:s.at]
	s.at++
	s.add(pat, raw, s.while(small))
	return nil
}

// json takes the JSON after %json and %regex.
func (s *scanner) json(after string) error {
	d := json.NewDecoder(strings.NewReader(s.text[s.at:]))
	var v json.RawMessage
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends in the middle")
		}
		return fmt.Errorf("%%%s: %w", after, err)
	}
	s.add(value, string(v), "")
	n := int(d.InputOffset())
	s.line += strings.Count(s.text[s.at:s.at+n], "\n")
	s.at += n
	return nil
}
