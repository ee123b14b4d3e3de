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
func (it *interp) printf(t Text, v any) any {
	format := t.s
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
	var b builder
	add := func(s string, outside bool) {
		it.alloc(len(s))
		at := b.Len()
		if b.WriteString(s); outside {
			b.mark(at)
		}
	}
	own := len(t.outside) > 0 // a format that is not the template's own counts as a whole
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		add(format[:i], own)
		m := verb.FindStringSubmatch(format[i:])
		if m == nil || m[5] == "" {
			fail("format %q is incomplete", format[i:min(i+10, len(format))])
		}
		format = format[i+len(m[0]):]
		if m[5] == "%" {
			add("%", own)
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
		add(it.verb(m, value), len(it.printed(value).outside) > 0)
	}
	if used < len(values) && dict == nil {
		fail("%d values are left over after the format", len(values)-used)
	}
	add(format, own)
	return b.value()
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
			var b builder
			it.repr(&b, v)
			s = b.String()
		}
		if digits >= 0 {
			s = first(s, min(digits, it.length(s)))
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
func (it *interp) braces(format Text, a args) any {
	used := 0
	named := a.dict(it)
	it.alloc(len(format.s))
	it.step(len(format.s)) // regular expressions are slow
	var b builder
	at := 0
	for _, m := range field.FindAllStringIndex(format.s, -1) {
		b.add(it, Text{format.s[at:m[0]], format.outside.cut(at, m[0])})
		at = m[1]
		b.add(it, it.brace(format.s[m[0]:m[1]], named, a, &used))
	}
	b.add(it, Text{format.s[at:], format.outside.cut(at, len(format.s))})
	return b.value()
}

// brace is what a field of str.format becomes.
func (it *interp) brace(f string, named *Dict, a args, used *int) Text {
	value := func(v any) Text {
		t := it.printed(v)
		it.alloc(len(t.s))
		return t
	}
	switch f {
	case "{{", "}}":
		return Text{s: f[:1]}
	case "{", "}":
		fail("str.format takes {}, {0} and {name}, and braces twice for themselves")
	}
	key := f[1 : len(f)-1]
	if v, ok := it.get(named, key); ok {
		return value(v)
	}
	at := *used
	if key != "" {
		n, err := strconv.Atoi(key)
		if err != nil {
			fail("str.format has no value for {%s}", key)
		}
		at = n
	}
	*used++
	if at >= len(a.pos) {
		fail("str.format has no value for %s", f)
	}
	return value(a.pos[at])
}
