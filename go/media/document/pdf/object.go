package pdf

import (
	"bytes"
	"strconv"
	"strings"
)

// Objects are Go's own: nil, bool, float64, text, name, array, dict, *stream, ref, and in content also keyword.
type (
	text    string // bytes of a string, in whatever encoding
	name    string
	array   []any
	dict    map[name]any
	keyword string
	ref     struct{ num, gen int }
)

// A stream is a dictionary and bytes as they are in the file.
type stream struct {
	dict
	raw []byte
	of  ref // its object, for which it is encrypted
}

// Limits of what is made of a few bytes.
const (
	maxDepth = 64       // arrays and dictionaries within each other
	maxCost  = 32 << 20 // of an object, or of all that stands before an operator
	freeCost = 1 << 20  // of objects that are read and left, which are not counted
	perNode  = 64       // bytes of memory that a value takes, about
	perDict  = 300      // those of a dictionary beside
)

// A lexer reads objects.
type lexer struct {
	data  []byte
	at    int
	cost  int // bytes of memory, about, of what was made since it was last 0
	depth int
}

// done is the object behind the last.
type done struct{}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

// skip goes past blanks and comments.
func (l *lexer) skip() {
	for l.at < len(l.data) {
		switch c := l.data[l.at]; {
		case isSpace(c):
			l.at++
		case c == '%':
			for l.at < len(l.data) && l.data[l.at] != '\n' && l.data[l.at] != '\r' {
				l.at++
			}
		default:
			return
		}
	}
}

// begins reports whether s is next, and goes past it.
func (l *lexer) begins(s string) bool {
	if !bytes.HasPrefix(l.data[l.at:], []byte(s)) {
		return false
	}
	l.at += len(s)
	return true
}

// next returns the next object, a keyword, or done{}. Two numbers and R are a ref.
func (l *lexer) next() any {
	l.skip()
	if l.at >= len(l.data) {
		return done{}
	}
	if l.cost += perNode; l.cost > maxCost {
		l.at = len(l.data)
		return done{}
	}
	switch c := l.data[l.at]; {
	case c == '/':
		l.at++
		return l.name()
	case c == '(':
		l.at++
		return l.literal()
	case l.begins("<<"):
		return l.dict()
	case c == '<':
		l.at++
		return l.hex()
	case c == '[':
		l.at++
		return l.array()
	case c >= '0' && c <= '9', c == '+', c == '-', c == '.':
		return l.number()
	case isDelimiter(c):
		if l.at++; c == '>' && l.begins(">") {
			return keyword(">>")
		}
		return keyword([]byte{c})
	}
	switch w := l.word(); w {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	default:
		return keyword(w)
	}
}

// word returns the bytes up to a blank or a delimiter.
func (l *lexer) word() string {
	from := l.at
	for l.at < len(l.data) && !isSpace(l.data[l.at]) && !isDelimiter(l.data[l.at]) {
		l.at++
	}
	return string(l.data[from:l.at])
}

func (l *lexer) number() any {
	w := l.word()
	n, ok := numberOf(w)
	if !ok {
		return keyword(w)
	}
	if num, whole := index(n); whole && num > 0 { // is it a reference?
		back := l.at
		if l.skip(); l.at < len(l.data) && l.data[l.at] >= '0' && l.data[l.at] <= '9' {
			gen, err := strconv.ParseUint(l.word(), 10, 16)
			if l.skip(); err == nil && l.at < len(l.data) && l.data[l.at] == 'R' && (l.at+1 == len(l.data) || isSpace(l.data[l.at+1]) || isDelimiter(l.data[l.at+1])) {
				l.at++
				return ref{num, int(gen)}
			}
		}
		l.at = back
	}
	return n
}

// numberOf reads a number, as forgiving as readers are.
func numberOf(w string) (float64, bool) {
	if n, err := strconv.ParseFloat(w, 64); err == nil {
		return n, n-n == 0 && len(w) < 40
	}
	for i := 1; i < len(w); i++ { // such as 1-2 and --1, which some write
		if w[i] == '-' || w[i] == '+' {
			n, err := strconv.ParseFloat(w[:i], 64)
			return n, err == nil || w[0] == '-' || w[0] == '+'
		}
	}
	return 0, w == "-" || w == "." || w == "+"
}

// index is a number that may be one of an object, or of bytes.
func index(v any) (int, bool) {
	n, ok := v.(float64)
	if !ok || n < 0 || n >= 1<<31 || n != float64(int(n)) {
		return 0, false
	}
	return int(n), true
}

func (l *lexer) name() name {
	w := l.word()
	l.cost += len(w)
	if !strings.Contains(w, "#") {
		return name(w)
	}
	out := make([]byte, 0, len(w))
	for i := 0; i < len(w); i++ {
		if w[i] == '#' && i+2 < len(w) {
			high, ok := digitOf(w[i+1])
			low, fine := digitOf(w[i+2])
			if ok && fine {
				out = append(out, high<<4|low)
				i += 2
				continue
			}
		}
		out = append(out, w[i])
	}
	return name(out)
}

func (l *lexer) literal() text {
	var out []byte
	for open := 1; l.at < len(l.data); {
		c := l.data[l.at]
		l.at++
		switch c {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				l.cost += len(out)
				return text(out)
			}
		case '\\':
			if l.at < len(l.data) {
				out = l.escaped(out)
			}
			continue
		case '\r':
			l.begins("\n")
			c = '\n'
		}
		out = append(out, c)
	}
	l.cost += len(out)
	return text(out)
}

// escaped adds what stands behind a backslash.
func (l *lexer) escaped(out []byte) []byte {
	c := l.data[l.at]
	l.at++
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case '\n':
		return out
	case '\r':
		l.begins("\n")
		return out
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := int(c - '0')
		for range 2 {
			if l.at < len(l.data) && l.data[l.at] >= '0' && l.data[l.at] <= '7' {
				n = n<<3 + int(l.data[l.at]-'0')
				l.at++
			}
		}
		c = byte(n)
	}
	return append(out, c)
}

// digitOf returns a hexadecimal digit.
func digitOf(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func (l *lexer) hex() text {
	var out []byte
	half := false
	for l.at < len(l.data) {
		c := l.data[l.at]
		l.at++
		if c == '>' {
			break
		}
		d, ok := digitOf(c)
		switch {
		case !ok:
		case half:
			out[len(out)-1] |= d
			half = false
		default:
			out = append(out, d<<4)
			half = true
		}
	}
	l.cost += len(out)
	return text(out)
}

func (l *lexer) array() array {
	all := array{}
	if l.depth++; l.depth > maxDepth {
		l.at = len(l.data)
	}
	for {
		v := l.next()
		if v == (done{}) || v == keyword("]") || l.stray(v) {
			break
		}
		all = append(all, v)
	}
	l.depth--
	return all
}

// stray reports whether a keyword ends an object that was not closed, and goes back before it.
func (l *lexer) stray(v any) bool {
	k, ok := v.(keyword)
	if ok && (k == "endobj" || k == "stream" || k == "endstream") {
		l.at -= len(k)
		return true
	}
	return false
}

func (l *lexer) dict() dict {
	all := dict{}
	l.cost += perDict
	if l.depth++; l.depth > maxDepth {
		l.at = len(l.data)
	}
	for {
		k := l.next()
		if k == (done{}) || k == keyword(">>") || l.stray(k) {
			break
		}
		key, ok := k.(name)
		if !ok {
			continue
		}
		v := l.next()
		if v == (done{}) || v == keyword(">>") || l.stray(v) {
			break
		}
		all[key] = v
	}
	l.depth--
	return all
}

// weight is the cost of a value.
func weight(v any) int {
	n := perNode
	switch v := v.(type) {
	case array:
		for _, one := range v {
			n += weight(one)
		}
	case dict:
		n += perDict
		for key, one := range v {
			n += perNode + len(key) + weight(one)
		}
	case text:
		n += len(v)
	case name:
		n += len(v)
	}
	return n
}
