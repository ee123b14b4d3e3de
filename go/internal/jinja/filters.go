package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// filters are jinja2's, without those for HTML. The filters on lists are in
// listfilters.go.
var filters = map[string]builtin{}

func init() {
	add := func(names string, f builtin) {
		for name := range strings.FieldsSeq(names) {
			filters[name] = f
		}
	}
	add("string safe", func(it *interp, v any, a args) any {
		a.bind(it, "string", "")
		t := it.printed(v)
		return valueOf(t.s, t.outside)
	})
	add("upper", textFilter("upper", strings.ToUpper))
	add("lower", textFilter("lower", strings.ToLower))
	add("capitalize", textFilter("capitalize", capitalize))
	add("title", textFilter("title", titleWords))
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")
	add("escape e", func(it *interp, v any, a args) any {
		a.bind(it, "escape", "")
		s := it.text(v)
		it.alloc(len(s))
		it.scan(len(s))
		for _, c := range []byte("&<>'\"") {
			it.alloc(4 * strings.Count(s, string(c)))
		}
		return escape.Replace(s)
	})
	add("trim", func(it *interp, v any, a args) any { return strip(it, it.printed(v), a, "trim", true, true) })
	add("replace", func(it *interp, v any, a args) any {
		p := a.bind(it, "replace", "old new count?")
		count := -1
		if n := p.or(2, nil); n != nil {
			count = integer(n, "count")
		}
		return it.replace(it.printed(v), p.text(0, ""), it.printed(p.or(1, "")), count)
	})
	add("default d", func(it *interp, v any, a args) any {
		p := a.bind(it, "default", "value? boolean?")
		if _, ok := v.(*undefined); ok || p.isTrue(1) && !isTrue(v) {
			return p.or(0, "")
		}
		return v
	})
	add("length count", func(it *interp, v any, a args) any {
		a.bind(it, "length", "")
		return int64(it.length(v))
	})
	add("abs", func(it *interp, v any, a args) any {
		a.bind(it, "abs", "")
		n, ok := number(v)
		if !ok {
			fail("abs wants a number, not %s", typeName(v))
		}
		if i, ok := n.(int64); ok && i >= 0 {
			return i
		} else if ok {
			return integers("-", 0, i)
		}
		return math.Abs(n.(float64))
	})
	add("int", toInteger)
	add("float", func(it *interp, v any, a args) any {
		p := a.bind(it, "float", "default?")
		if n, ok := number(v); ok {
			return toFloat(n)
		}
		if s, ok := v.(string); ok {
			it.alloc(2 * len(s))
			if f, err := parseFloat(s); err == nil {
				return f
			}
		}
		return p.or(0, 0.0)
	})
	add("round", round)
	add("indent", indent)
	add("wordcount", func(it *interp, v any, a args) any {
		a.bind(it, "wordcount", "")
		s := it.text(v)
		it.scan(len(s))
		words, inside := int64(0), false
		for _, r := range s {
			if isWord(r) != inside {
				if inside = !inside; inside {
					words++
				}
			}
		}
		return words
	})
	add("truncate", truncate)
	add("center", func(it *interp, v any, a args) any {
		p := a.bind(it, "center", "width?")
		return it.pad(it.text(v), p.int(0, 80), " ", 0)
	})
	add("format", func(it *interp, v any, a args) any {
		if a.names != nil {
			return it.printf(it.printed(v), a.dict(it))
		}
		return it.printf(it.printed(v), tuple(a.pos...))
	})
	add("attr", func(it *interp, v any, a args) any {
		p := a.bind(it, "attr", "name")
		if m := dictMethods[p.text(0, "")]; m != nil || typeName(v) != "dict" {
			return it.attr(v, p.text(0, ""))
		}
		return missing("dict has no attribute '%s'", p.text(0, "")) // only items of that name
	})
	add("tojson", toJSON)
}

// textFilter makes a filter of a function on text.
func textFilter(name string, f func(string) string) builtin {
	return func(it *interp, v any, a args) any {
		a.bind(it, name, "")
		s := it.text(v)
		it.alloc(2 * len(s)) // there are letters whose other case is longer
		it.scan(len(s))
		return f(s)
	}
}

func capitalize(s string) string {
	first := runes(s, 1)
	return strings.ToUpper(s[:first]) + strings.ToLower(s[first:])
}

// titleWords is the filter title, whose words differ from those of the method.
func titleWords(s string) string {
	first := true
	return strings.Map(func(r rune) rune {
		if first {
			first = false
			r = unicode.ToUpper(r)
		} else {
			r = unicode.ToLower(r)
		}
		if isSpace(r) || strings.ContainsRune("-({[<", r) {
			first = true
		}
		return r
	}, s)
}

func parseFloat(s string) (float64, error) {
	return strconv.ParseFloat(strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", ""), 64)
}

func toInteger(it *interp, v any, a args) any {
	p := a.bind(it, "int", "default? base?")
	switch v := v.(type) {
	case *big.Int:
		return v
	case string:
		it.alloc(3 * len(v))
		text := strings.ReplaceAll(strings.TrimFunc(v, isSpace), "_", "")
		base := p.int(1, 10)
		if prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; prefix != "" {
			text = strings.TrimPrefix(strings.ToLower(text), prefix)
		}
		if i, err := strconv.ParseInt(text, min(max(base, 2), 36), 64); err == nil {
			return i
		}
		if f, err := parseFloat(v); err == nil {
			if i := int64(f); math.Abs(f) < 1<<62 {
				return i
			}
		}
		return p.or(0, int64(0))
	}
	n, ok := number(v)
	if !ok {
		return p.or(0, int64(0))
	}
	if f, ok := n.(float64); ok {
		if !(math.Abs(f) < 1<<62) {
			return p.or(0, int64(0))
		}
		return int64(f)
	}
	return n
}

func round(it *interp, v any, a args) any {
	p := a.bind(it, "round", "precision? method?")
	n, ok := number(v)
	if !ok {
		fail("round wants a number, not %s", typeName(v))
	}
	digits := p.int(0, 0)
	if digits < -300 || digits > 300 {
		fail("round wants a precision of at most 300")
	}
	scale := math.Pow(10, float64(digits))
	switch method := p.text(1, "common"); method {
	case "common":
		if i, ok := n.(int64); ok && digits >= 0 {
			return i
		}
		if digits >= 0 {
			f, _ := strconv.ParseFloat(strconv.FormatFloat(toFloat(n), 'f', digits, 64), 64)
			return f
		}
		f := math.RoundToEven(toFloat(n)*scale) / scale
		if _, ok := n.(int64); ok {
			return int64(f)
		}
		return f
	case "ceil":
		return math.Ceil(toFloat(n)*scale) / scale
	case "floor":
		return math.Floor(toFloat(n)*scale) / scale
	default:
		fail("round knows common, ceil and floor, not %s", method)
		return nil
	}
}

func indent(it *interp, v any, a args) any {
	p := a.bind(it, "indent", "width? first? blank?")
	by, ok := p.or(0, int64(4)).(string)
	if !ok {
		by = it.repeat(" ", int64(p.int(0, 4))).(string)
	}
	s := it.text(v)
	it.alloc(len(s))
	lines := it.splitLines(s + "\n")
	total := 0
	for i, line := range lines {
		if (i > 0 || p.isTrue(1)) && (line != "" || p.isTrue(2) || i == 0) {
			it.alloc(len(by) + len(line))
			lines[i] = by + line
		}
		total += len(lines[i]) + 1
	}
	it.alloc(total)
	return strings.Join(lines, "\n")
}

func truncate(it *interp, v any, a args) any {
	p := a.bind(it, "truncate", "length? killwords? end? leeway?")
	s, end := it.text(v), p.text(2, "...")
	n := p.int(0, 255)
	it.alloc(len(s) + len(end))
	if n < it.length(end) || p.int(3, 5) < 0 {
		fail("truncate wants a length of at least its end, and no negative leeway")
	}
	if it.length(s)-p.int(3, 5) <= n {
		return s
	}
	s = first(s, n-it.length(end))
	if i := strings.LastIndexByte(s, ' '); i >= 0 && !p.isTrue(1) {
		s = s[:i]
	}
	return s + end
}

// replace is Python's str.replace; count is negative for all.
func (it *interp) replace(t Text, old string, to Text, count int) any {
	s := t.s
	it.read(len(s) + len(old) + len(to.s))
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	it.alloc(len(s))
	it.step(n / 4)
	if more := len(to.s) - len(old); more > 0 {
		it.repeatCount(more, n)
	}
	if len(t.outside)+len(to.outside) == 0 {
		return strings.Replace(s, old, to.s, n)
	}
	if old == "" {
		return Outside(strings.Replace(s, old, to.s, n))
	}
	var b builder
	at := 0
	add := func(from, to int) { b.add(it, Text{s[from:to], t.outside.cut(from, to)}) }
	for range n {
		i := at + strings.Index(s[at:], old)
		add(at, i)
		b.add(it, to)
		at = i + len(old)
	}
	add(at, len(s))
	return b.value()
}

// repeatCount counts n times size bytes, without overflow.
func (it *interp) repeatCount(size, n int) {
	if size > 0 && n > it.limits.Bytes/size {
		fail("makes too much text: %w", ErrLimit)
	}
	it.alloc(size * n)
}

// pad fills s to a width: on the right with side < 0, on the left with
// side > 0, on both with 0.
func (it *interp) pad(s string, width int, fill string, side int) string {
	n := width - it.length(s)
	if n <= 0 {
		return s
	}
	left := n // for side > 0
	switch {
	case side < 0:
		left = 0
	case side == 0:
		left = n/2 + n&width&1
	}
	it.alloc(2*len(s) + n*len(fill))
	return it.repeat(fill, int64(left)).(string) + s + it.repeat(fill, int64(n-left)).(string)
}

// lineEnds are the characters that end a line, as Python has it.
const lineEnds = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

// splitLines is Python's str.splitlines.
func (it *interp) splitLines(s string) []string {
	it.scan(len(s))
	n := 1
	for _, r := range s {
		if strings.ContainsRune(lineEnds, r) {
			n++
		}
	}
	it.alloc(2 * listItem * n)
	lines := make([]string, 0, n)
	for s != "" {
		i := strings.IndexAny(s, lineEnds)
		if i < 0 {
			return append(lines, s)
		}
		lines = append(lines, s[:i])
		if s = s[i:]; strings.HasPrefix(s, "\r\n") {
			s = s[1:]
		}
		s = s[runes(s, 1):]
	}
	return lines
}
