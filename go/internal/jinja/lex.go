package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind byte

const (
	tEOF kind = iota
	tData
	tVarBegin
	tVarEnd
	tBlockBegin
	tBlockEnd
	tName
	tString
	tNumber
	tOp
)

type token struct {
	kind kind
	text string // of a string the decoded one
	num  any    // of a number
	line int
}

// what returns the token's name in error messages.
func (t token) what() string {
	switch t.kind {
	case tEOF:
		return "end of template"
	case tVarEnd, tBlockEnd:
		return "end of tag"
	case tVarBegin, tBlockBegin, tData:
		return "begin of tag"
	case tString:
		return "string"
	}
	return "'" + t.text + "'"
}

type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
}

var (
	rawBegin = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(-%\}\s*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(\+%\}|-%\}\s*|%\}\n?)`)
)

// lex splits a template into tokens. Line ends become "\n", and one at the end of
// the template is removed.
func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1}
	for l.pos < len(l.src) {
		l.text()
	}
	l.add(token{kind: tEOF})
	return l.tokens
}

func (l *lexer) add(t token) {
	t.line = l.line
	l.tokens = append(l.tokens, t)
}

func (l *lexer) fail(format string, args ...any) {
	defer func() {
		e := recover().(*Error)
		e.Line = l.line
		panic(e)
	}()
	fail(format, args...)
}

// skip advances to a later position.
func (l *lexer) skip(to int) {
	l.line += strings.Count(l.src[l.pos:to], "\n")
	l.pos = to
}

// text takes the text up to the next tag, and the tag.
func (l *lexer) text() {
	rest := l.src[l.pos:]
	i := 0
	for {
		j := strings.IndexByte(rest[i:], '{')
		if j < 0 || i+j+1 == len(rest) {
			l.data(rest, 0, false)
			l.skip(len(l.src))
			return
		}
		i += j
		if c := rest[i+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		i++
	}
	sign := byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') {
		sign = rest[i+2]
	}
	begin := l.pos + i
	l.data(rest[:i], sign, rest[i+1] != '{')
	if m := rawBegin.FindString(rest[i:]); m != "" {
		l.skip(begin + len(m))
		l.raw()
		return
	}
	l.skip(begin + 2)
	if sign != 0 {
		l.skip(l.pos + 1)
	}
	switch rest[i+1] {
	case '#':
		l.comment()
	case '{':
		l.add(token{kind: tVarBegin})
		l.tag(tVarEnd, "}}")
	case '%':
		l.add(token{kind: tBlockBegin})
		l.tag(tBlockEnd, "%}")
	}
}

// data adds text before a tag, less the white space that the tag takes: all
// with a minus, and the indentation of a tag of statements or a comment.
func (l *lexer) data(s string, sign byte, indentation bool) {
	if sign == '-' {
		s = strings.TrimRightFunc(s, isSpace)
	} else if sign != '+' && indentation {
		begin := strings.LastIndexByte(s, '\n') + 1
		lineStarts := begin > 0 || l.pos == 0 || l.src[l.pos-1] == '\n'
		if lineStarts && strings.TrimFunc(s[begin:], isSpace) == "" {
			s = s[:begin]
		}
	}
	if s != "" {
		l.add(token{kind: tData, text: s})
	}
}

func (l *lexer) raw() {
	m := rawEnd.FindStringSubmatchIndex(l.src[l.pos:])
	if m == nil {
		l.fail("raw block without endraw")
	}
	sign := byte(0)
	if m[2] < m[3] {
		sign = l.src[l.pos+m[2]]
	}
	l.data(l.src[l.pos:l.pos+m[0]], sign, true)
	l.skip(l.pos + m[1])
}

func (l *lexer) comment() {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		l.fail("comment without an end")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.pos+end-1]
	}
	l.skip(l.pos + end + 2)
	l.trim(sign, true)
}

// trim skips the white space that the end of a tag removes after it.
func (l *lexer) trim(sign byte, newline bool) {
	rest := l.src[l.pos:]
	switch {
	case sign == '-':
		l.skip(l.pos + len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	case sign != '+' && newline && strings.HasPrefix(rest, "\n"):
		l.skip(l.pos + 1)
	}
}

// tag takes the tokens inside a tag, up to its end, which counts only outside
// of brackets.
func (l *lexer) tag(end kind, mark string) {
	var open []byte
	for {
		rest := l.src[l.pos:]
		l.skip(l.pos + len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
		rest = l.src[l.pos:]
		if rest == "" {
			l.fail("tag without an end")
		}
		c := rest[0]
		if len(open) == 0 {
			sign := byte(0)
			if c == '-' || c == '+' && end == tBlockEnd {
				sign = c
			}
			if after := rest[min(int(sign), 1):]; strings.HasPrefix(after, mark) {
				l.add(token{kind: end})
				l.skip(l.pos + len(rest) - len(after) + len(mark))
				l.trim(sign, end == tBlockEnd)
				return
			}
		}
		switch r, _ := utf8.DecodeRuneInString(rest); {
		case c >= '0' && c <= '9':
			l.number(rest)
		case c == '_' || unicode.IsLetter(r):
			n := len(rest) - len(strings.TrimLeftFunc(rest, isWord))
			l.add(token{kind: tName, text: rest[:n]})
			l.skip(l.pos + n)
		case c == '\'' || c == '"':
			l.str(rest)
		default:
			op := operator(rest)
			switch op {
			case "":
				l.fail("unexpected character %q", r)
			case "(", "[", "{":
				open = append(open, op[0]+1+min(op[0]-'(', 1)) // the closing one, in ASCII
			case ")", "]", "}":
				if len(open) == 0 || open[len(open)-1] != op[0] {
					l.fail("unexpected '%s'", op)
				}
				open = open[:len(open)-1]
			}
			l.add(token{kind: tOp, text: op})
			l.skip(l.pos + len(op))
		}
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// isSpace reports white space as Python defines it.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func operator(s string) string {
	if len(s) > 1 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

var (
	floatForm = regexp.MustCompile(`^[0-9](_?[0-9])*(\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?|[eE][-+]?[0-9](_?[0-9])*)`)
	intForm   = regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|[0-9](_?[0-9])*)`)
)

func (l *lexer) number(rest string) {
	text, num := "", any(nil)
	if l.src[l.pos-1] != '.' { // x.0.1 has two integers
		text = floatForm.FindString(rest)
	}
	if text != "" {
		f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		if err != nil {
			l.fail("number %s is out of range", text)
		}
		num = f
	} else {
		text = intForm.FindString(rest)
		digits, base := strings.ReplaceAll(text, "_", ""), 0
		if strings.Trim(digits, "0123456789") == "" {
			base = 10 // or a leading zero would mean octal
		}
		i, err := strconv.ParseInt(digits, base, 64)
		if err != nil {
			l.fail("number %s is out of range", text)
		}
		num = i
	}
	l.add(token{kind: tNumber, text: text, num: num})
	l.skip(l.pos + len(text))
}

// str takes a string, with Python's escapes.
func (l *lexer) str(rest string) {
	end := 1
	for end < len(rest) && rest[end] != rest[0] {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		l.fail("string without an end")
	}
	body := rest[1:end]
	if strings.IndexByte(body, '\\') >= 0 {
		body = l.unescape(body)
	}
	l.add(token{kind: tString, text: body})
	l.skip(l.pos + end + 1)
}

func (l *lexer) unescape(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' || len(s) == 1 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		c := s[1]
		if i := strings.IndexByte("\n\\'\"abfnrtv", c); i >= 0 {
			b.WriteString([]string{"", "\\", "'", "\"", "\a", "\b", "\f", "\n", "\r", "\t", "\v"}[i])
			s = s[2:]
			continue
		}
		digits, base, skip := 0, 16, 2
		switch c {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		case '0', '1', '2', '3', '4', '5', '6', '7':
			digits, base, skip = 1, 8, 1
			for digits < 3 && skip+digits < len(s) && s[skip+digits] >= '0' && s[skip+digits] <= '7' {
				digits++
			}
		default: // stays as it is
			b.WriteString(s[:1])
			s = s[1:]
			continue
		}
		if len(s) < skip+digits {
			l.fail("escape %q in a string is cut short", s)
		}
		n, err := strconv.ParseUint(s[skip:skip+digits], base, 32)
		if err != nil || n > unicode.MaxRune {
			l.fail("escape %q in a string is no character", s[:skip+digits])
		}
		b.WriteRune(rune(n))
		s = s[skip+digits:]
	}
	return b.String()
}
