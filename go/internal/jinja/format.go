package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	verb  = regexp.MustCompile(`^%(?:\((\w+)\))?([-+ #0]*)(\d*)(?:\.(\d*))?([a-zA-Z%]|$)`)
	field = regexp.MustCompile(`\{\{|\}\}|\{(\w*)\}|[{}]`)
)

// printf is Python's format % v.
func (it *interp) printf(format string, v any) string {
	values, dict := []any{v}, (*Dict)(nil)
	switch v := v.(type) {
	case *List:
		if v.tuple {
			values = v.Items
		}
	case *Dict:
		dict = v
	}
	it.step(len(format)) // regular expressions are slow
	used := 0
	var b strings.Builder
	add := func(s string) {
		it.alloc(len(s))
		b.WriteString(s)
	}
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		add(format[:i])
		m := verb.FindStringSubmatch(format[i:])
		if m == nil || m[5] == "" {
			fail("format %q is incomplete", format[i:min(i+10, len(format))])
		}
		format = format[i+len(m[0]):]
		if m[5] == "%" {
			add("%")
			continue
		}
		var value any
		switch {
		case m[1] != "" && dict != nil:
			value, _ = it.get(dict, m[1])
		case used < len(values):
			value = values[used]
			used++
		default:
			fail("not enough values for the format")
		}
		add(it.verb(m, value))
	}
	if used < len(values) && dict == nil {
		fail("%d values are left over after the format", len(values)-used)
	}
	add(format)
	return b.String()
}

// verb formats one value; m is the match of verb.
func (it *interp) verb(m []string, v any) string {
	width, _ := strconv.Atoi(m[3])
	digits, err := strconv.Atoi(m[4])
	if err != nil {
		digits = -1
	}
	if len(m[3]) > 9 || digits > 300 {
		fail("format %s is too wide: %w", m[0], ErrLimit)
	}
	it.alloc(width)
	var s string
	switch c := m[5][0]; c {
	case 's', 'r':
		s = it.text(v)
		if c == 'r' {
			var b strings.Builder
			it.repr(&b, v)
			s = b.String()
		}
		if digits >= 0 {
			s = cut(s, 0, min(digits, it.length(s)))
		}
		if strings.Contains(m[2], "-") {
			return it.pad(s, width, " ", -1)
		}
		return it.pad(s, width, " ", 1)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		n, ok := number(v)
		if !ok {
			fail("format %s wants a number, not %s", m[0], typeName(v))
		}
		i, ok := n.(int64)
		if !ok {
			i = int64(n.(float64))
		}
		return fmt.Sprintf("%"+m[2]+m[3]+strings.Map(func(r rune) rune {
			if r == 'i' || r == 'u' {
				return 'd'
			}
			return r
		}, m[5]), i)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		n, ok := number(v)
		if !ok {
			fail("format %s wants a number, not %s", m[0], typeName(v))
		}
		if digits < 0 {
			digits = 6
		}
		return fmt.Sprintf("%"+m[2]+m[3]+"."+strconv.Itoa(digits)+m[5], toFloat(n))
	}
	fail("unknown format %s", m[0])
	return ""
}

// braces is str.format, with fields that are empty, numbers or names.
func (it *interp) braces(format string, a args) string {
	used := 0
	named := a.dict(it)
	it.alloc(len(format))
	it.step(len(format)) // regular expressions are slow
	return field.ReplaceAllStringFunc(format, func(f string) string {
		switch f {
		case "{{", "}}":
			return f[:1]
		case "{", "}":
			fail("str.format takes {}, {0} and {name}, and braces twice for themselves")
		}
		key := f[1 : len(f)-1]
		if v, ok := it.get(named, key); ok {
			s := it.text(v)
			it.alloc(len(s))
			return s
		}
		at := used
		if key != "" {
			n, err := strconv.Atoi(key)
			if err != nil {
				fail("str.format has no value for {%s}", key)
			}
			at = n
		}
		used++
		if at >= len(a.pos) {
			fail("str.format has no value for %s", f)
		}
		s := it.text(a.pos[at])
		it.alloc(len(s))
		return s
	})
}
