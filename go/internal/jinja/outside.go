package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Text is a text of which parts came from outside of the template: from a conversation. To templates it is a string
// like any other; what they make of it keeps track of which bytes are not their own. Where a part cannot be told from
// the rest, as after upper, all of it counts as from outside.
type Text struct {
	s       string
	outside ranges
}

// ranges are pairs of positions: from and, excluding, to. They ascend, and neither touch nor are empty.
type ranges [][2]int

// add appends a range, which begins at or after the end of the last.
func (r ranges) add(from, to int) ranges {
	if from >= to {
		return r
	}
	if n := len(r); n > 0 && r[n-1][1] >= from {
		r[n-1][1] = max(to, r[n-1][1])
		return r
	}
	return append(r, [2]int{from, to})
}

// cut returns the parts of the ranges between two positions, relative to the first.
func (r ranges) cut(from, to int) ranges {
	first, _ := slices.BinarySearchFunc(r, from, func(one [2]int, at int) int { return one[1] - at })
	var out ranges
	for _, one := range r[first:] {
		if one[0] >= to {
			break
		}
		out = out.add(max(one[0], from)-from, min(one[1], to)-from)
	}
	return out
}

// Outside returns the value of a text that is not the template's own, but for some ranges, in order.
func Outside(s string, own ...[2]int) any {
	var r ranges
	at := 0
	for _, one := range own {
		r = r.add(at, one[0])
		at = one[1]
	}
	return valueOf(s, r.add(at, len(s)))
}

// part returns the bytes of a text between two positions, as a value.
func (t *Text) part(from, to int) any { return valueOf(t.s[from:to], t.outside.cut(from, to)) }

// valueOf returns a text as a value.
func valueOf(s string, outside ranges) any {
	if len(outside) == 0 {
		return s
	}
	return &Text{s, outside}
}

// textOf returns a value as a text, if it is one. A string has nothing from outside.
func textOf(v any) (t Text, ok bool) {
	switch v := v.(type) {
	case string:
		return Text{s: v}, true
	case *Text:
		return *v, true
	}
	return Text{}, false
}

// plain returns a value without where it came from, if it is a text.
func plain(v any) any {
	if t, ok := v.(*Text); ok {
		return t.s
	}
	return v
}

// allPlain returns arguments whose texts are plain, and whether any was not.
func (a args) allPlain() (args, bool) {
	is := func(v any) bool { _, ok := v.(*Text); return ok }
	if !slices.ContainsFunc(a.pos, is) && !slices.ContainsFunc(a.named, is) {
		return a, false
	}
	strip := func(from []any) []any {
		to := slices.Clone(from)
		for i, v := range to {
			to[i] = plain(v)
		}
		return to
	}
	return args{strip(a.pos), a.names, strip(a.named)}, true
}

// exact are the builtins that keep track themselves of what is from outside.
var exact = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq("string safe trim strip lstrip rstrip replace split default d join tojson format first last list " +
		"get items values keys") {
		exact[name] = true
	}
}

// builtinOf returns the builtin of a name, nil where there is none. One that works on strings only is given plain ones,
// and what it makes of a text from outside is from outside.
func builtinOf(list map[string]builtin, name string) builtin {
	f := list[name]
	if f == nil || exact[name] {
		return f
	}
	return func(it *interp, v any, a args) any {
		a, some := a.allPlain()
		if t, ok := v.(*Text); ok {
			v, some = t.s, true
		}
		r := f(it, v, a)
		if some {
			r = outsideAll(it, r)
		}
		return r
	}
}

// outsideAll returns a result whose texts count as from outside.
func outsideAll(it *interp, v any) any {
	switch v := v.(type) {
	case string:
		return Outside(v)
	case *List:
		items := make([]any, len(v.Items))
		for i, x := range v.Items {
			items[i] = x
			if s, ok := x.(string); ok {
				items[i] = Outside(s)
			}
		}
		l := it.list(items)
		l.tuple = v.tuple
		return l
	}
	return v
}

// A builder makes a text of parts.
type builder struct {
	strings.Builder
	outside ranges
}

// add appends a text.
func (b *builder) add(it *interp, t Text) {
	at := b.Len()
	b.WriteString(t.s)
	it.alloc(16 * len(t.outside))
	for _, r := range t.outside {
		b.outside = b.outside.add(at+r[0], at+r[1])
	}
}

// mark makes all from a position on from outside.
func (b *builder) mark(from int) { b.outside = b.outside.add(from, b.Len()) }

func (b *builder) value() any { return valueOf(b.String(), b.outside) }

// printed is how a value is printed: its text, with what of it is from outside.
func (it *interp) printed(v any) Text {
	switch v := v.(type) {
	case *Text:
		return *v
	case *List, *Dict:
		var b builder
		it.repr(&b, v)
		return Text{b.String(), b.outside}
	}
	return Text{s: it.text(v)}
}

// pieces returns a text in parts, which are given by their lengths and those of what is between them.
func (t Text) pieces(it *interp, parts []string, between int) *List {
	items, at := make([]any, len(parts)), 0
	for i, s := range parts {
		items[i] = t.part(at, at+len(s))
		at += len(s) + between
	}
	return it.list(items)
}

// characters returns each character of a text.
func (t *Text) characters() []any {
	items := make([]any, 0, utf8.RuneCountInString(t.s))
	rest := t.outside
	for at, r := range t.s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(t.s[at:])
		}
		for len(rest) > 0 && rest[0][1] <= at {
			rest = rest[1:]
		}
		if s := t.s[at : at+size]; len(rest) > 0 && rest[0][0] < at+size {
			items = append(items, Outside(s))
		} else {
			items = append(items, s)
		}
	}
	return items
}
