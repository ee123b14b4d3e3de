package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var stringMethods, dictMethods, listMethods map[string]builtin

func init() {
	stringMethods = map[string]builtin{
		"upper":      textFilter("upper", strings.ToUpper),
		"lower":      textFilter("lower", strings.ToLower),
		"casefold":   textFilter("casefold", strings.ToLower),
		"capitalize": textFilter("capitalize", capitalize),
		"title":      textFilter("title", titleCase),
		"swapcase":   textFilter("swapcase", swapCase),
		"strip":      func(it *interp, v any, a args) any { return strip(it, it.printed(v), a, "strip", true, true) },
		"lstrip":     func(it *interp, v any, a args) any { return strip(it, it.printed(v), a, "lstrip", true, false) },
		"rstrip":     func(it *interp, v any, a args) any { return strip(it, it.printed(v), a, "rstrip", false, true) },
		"replace":    func(it *interp, v any, a args) any { return filters["replace"](it, v, a) },
		"split":      func(it *interp, v any, a args) any { return it.split(it.printed(v), a, false) },
		"rsplit":     func(it *interp, v any, a args) any { return it.split(Text{s: v.(string)}, a, true) },
		"splitlines": func(it *interp, v any, a args) any {
			a.bind(it, "splitlines", "")
			return it.texts(it.splitLines(v.(string)))
		},
		"partition":  func(it *interp, v any, a args) any { return it.partition(v.(string), a, strings.Index) },
		"rpartition": func(it *interp, v any, a args) any { return it.partition(v.(string), a, strings.LastIndex) },
		"startswith": func(it *interp, v any, a args) any { return it.affix(v.(string), a, strings.HasPrefix) },
		"endswith":   func(it *interp, v any, a args) any { return it.affix(v.(string), a, strings.HasSuffix) },
		"removeprefix": func(it *interp, v any, a args) any {
			prefix := a.bind(it, "removeprefix", "prefix").text(0, "")
			it.read(len(prefix))
			return strings.TrimPrefix(v.(string), prefix)
		},
		"removesuffix": func(it *interp, v any, a args) any {
			suffix := a.bind(it, "removesuffix", "suffix").text(0, "")
			it.read(len(suffix))
			return strings.TrimSuffix(v.(string), suffix)
		},
		"find":  func(it *interp, v any, a args) any { return it.find(v.(string), a, strings.Index) },
		"rfind": func(it *interp, v any, a args) any { return it.find(v.(string), a, strings.LastIndex) },
		"index": func(it *interp, v any, a args) any {
			i := it.find(v.(string), a, strings.Index)
			if i == int64(-1) {
				fail("index: the text has no such part")
			}
			return i
		},
		"count": func(it *interp, v any, a args) any {
			p := a.bind(it, "count", "sub")
			sub := p.text(0, "")
			it.read(len(v.(string)) + len(sub))
			return int64(strings.Count(v.(string), sub))
		},
		"join": func(it *interp, v any, a args) any {
			p := a.bind(it, "join", "items")
			items := it.iterate(p.values[0])
			for _, x := range items {
				if _, ok := textOf(x); !ok {
					fail("join wants texts, not a value of type %s", typeName(x))
				}
			}
			return it.join(items, it.printed(v))
		},
		"format": func(it *interp, v any, a args) any { return it.braces(it.printed(v), a) },
		"ljust":  func(it *interp, v any, a args) any { return it.justify(v.(string), a, -1) },
		"rjust":  func(it *interp, v any, a args) any { return it.justify(v.(string), a, 1) },
		"center": func(it *interp, v any, a args) any { return it.justify(v.(string), a, 0) },
		"zfill": func(it *interp, v any, a args) any {
			s, sign := v.(string), ""
			if s != "" && (s[0] == '-' || s[0] == '+') {
				s, sign = s[1:], s[:1]
			}
			return sign + it.pad(s, a.bind(it, "zfill", "width").int(0, 0)-len(sign), "0", 1)
		},
		"isdigit":   each(unicode.IsDigit),
		"isdecimal": each(unicode.IsDigit),
		"isnumeric": each(unicode.IsNumber),
		"isalpha":   each(unicode.IsLetter),
		"isalnum":   each(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":   each(isSpace),
		"islower":   func(it *interp, v any, a args) any { return tests["lower"](it, v, a) },
		"isupper":   func(it *interp, v any, a args) any { return tests["upper"](it, v, a) },
	}
	dictMethods = map[string]builtin{
		"get": func(it *interp, v any, a args) any {
			p := a.bind(it, "get", "key default?")
			if x, ok := it.get(v.(*Dict), p.values[0]); ok {
				return x
			}
			return p.or(1, nil)
		},
		"items":  func(it *interp, v any, a args) any { return it.pairs(v.(*Dict)) },
		"keys":   func(it *interp, v any, a args) any { return it.list(slices.Clone(v.(*Dict).keys)) },
		"values": func(it *interp, v any, a args) any { return it.list(slices.Clone(v.(*Dict).values)) },
		"copy":   func(it *interp, v any, a args) any { return v }, // dicts are immutable
	}
	for _, name := range strings.Fields("clear pop popitem setdefault update") {
		dictMethods[name] = changes(name)
	}
	listMethods = map[string]builtin{
		"index": func(it *interp, v any, a args) any {
			p := a.bind(it, "index", "value")
			for i, x := range v.(*List).Items {
				if it.equal(x, p.values[0]) {
					return int64(i)
				}
			}
			fail("index: the list has no such item")
			return nil
		},
		"count": func(it *interp, v any, a args) any {
			p := a.bind(it, "count", "value")
			n := int64(0)
			for _, x := range v.(*List).Items {
				if it.equal(x, p.values[0]) {
					n++
				}
			}
			return n
		},
		"copy": func(it *interp, v any, a args) any { return v },
	}
	for _, name := range strings.Fields("append clear extend insert pop remove reverse sort") {
		listMethods[name] = changes(name)
	}
}

// changes is a method that jinja2's immutable sandbox refuses.
func changes(name string) builtin {
	return func(it *interp, v any, a args) any {
		fail("%s would change a %s, which templates cannot", name, typeName(v))
		return nil
	}
}

func each(f func(rune) bool) builtin {
	return func(it *interp, v any, a args) any {
		s := v.(string)
		it.scan(len(s))
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
	}
}

// titleCase is Python's str.title: words are runs of letters.
func titleCase(s string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		inside := unicode.IsLetter(before)
		before = r
		if inside {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

func strip(it *interp, t Text, a args, what string, left, right bool) any {
	p := a.bind(it, what, "chars?")
	s := t.s
	it.scan(len(s))
	f := isSpace
	if chars := p.or(0, nil); chars != nil {
		set := map[rune]bool{}
		for _, r := range it.text(chars) {
			it.step(1)
			set[r] = true
		}
		f = func(r rune) bool { return set[r] }
	}
	if left {
		s = strings.TrimLeftFunc(s, f)
	}
	from := len(t.s) - len(s)
	if right {
		s = strings.TrimRightFunc(s, f)
	}
	return t.part(from, from+len(s))
}

func (it *interp) texts(parts []string) *List {
	items := make([]any, len(parts))
	for i, s := range parts {
		items[i] = s
	}
	return it.list(items)
}

func (it *interp) split(t Text, a args, fromRight bool) any {
	p := a.bind(it, "split", "sep? maxsplit?")
	s := t.s
	most := p.int(1, -1)
	if most < 0 {
		most = len(s)
	}
	it.alloc(len(s))
	if p.or(0, nil) == nil {
		it.scan(len(s))
		it.alloc(2 * listItem * (1 + min(most, spaces(s))))
		l := it.texts(splitSpace(s, most, fromRight))
		if len(t.outside) > 0 {
			return outsideAll(it, l)
		}
		return l
	}
	sep := p.text(0, "")
	if sep == "" {
		fail("split wants a separator that is not empty")
	}
	it.read(len(sep))
	it.alloc(2 * listItem * (1 + min(most, strings.Count(s, sep))))
	if !fromRight {
		return t.pieces(it, strings.SplitN(s, sep, most+1), len(sep))
	}
	var parts []string
	for range most {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return it.texts(parts)
}

// spaces returns how many runs of white space a text has.
func spaces(s string) (n int) {
	inside := false
	for _, r := range s {
		if isSpace(r) != inside {
			if inside = !inside; inside {
				n++
			}
		}
	}
	return n
}

// splitSpace splits at runs of white space.
func splitSpace(s string, most int, fromRight bool) []string {
	var parts []string
	for {
		if fromRight {
			s = strings.TrimRightFunc(s, isSpace)
		} else {
			s = strings.TrimLeftFunc(s, isSpace)
		}
		if s == "" {
			break
		}
		if len(parts) == most {
			parts = append(parts, s)
			break
		}
		if fromRight {
			i := strings.LastIndexFunc(s, isSpace)
			_, n := utf8.DecodeRuneInString(s[max(i, 0):])
			from := (i + n) * min(i+1, 1)
			parts, s = append(parts, s[from:]), s[:max(i, 0)]
		} else {
			i := strings.IndexFunc(s, isSpace)
			if i < 0 {
				i = len(s)
			}
			parts, s = append(parts, s[:i]), s[i:]
		}
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

func (it *interp) partition(s string, a args, find func(s, sep string) int) any {
	sep := a.bind(it, "partition", "sep").text(0, "")
	if sep == "" {
		fail("partition wants a separator that is not empty")
	}
	it.alloc(len(s) + len(sep))
	switch i := find(s, sep); {
	case i >= 0:
		return tuple(s[:i], sep, s[i+len(sep):])
	case find("xx", "x") == 0: // the first
		return tuple(s, "", "")
	}
	return tuple("", "", s)
}

// affix tests for one prefix or suffix, or for any of several.
func (it *interp) affix(s string, a args, has func(s, part string) bool) any {
	p := a.bind(it, "startswith or endswith", "affix")
	of := []any{p.values[0]}
	if l, ok := p.values[0].(*List); ok && l.tuple {
		of = l.Items
	}
	for _, part := range of {
		text, ok := plain(part).(string)
		if !ok {
			fail("startswith and endswith want text, not a value of type %s", typeName(part))
		}
		it.step(1)
		it.read(len(text))
		if has(s, text) {
			return true
		}
	}
	return false
}

func (it *interp) find(s string, a args, find func(s, sub string) int) any {
	p := a.bind(it, "find", "sub start?")
	it.read(len(s))
	start := min(max(p.int(1, 0), 0), it.length(s))
	from, sub := runes(s, start), p.text(0, "")
	it.read(len(s) + len(sub))
	i := find(s[from:], sub)
	if i < 0 {
		return int64(-1)
	}
	return int64(start + utf8.RuneCountInString(s[from:from+i]))
}

func (it *interp) justify(s string, a args, side int) any {
	p := a.bind(it, "ljust, rjust or center", "width fill?")
	fill := p.text(1, " ")
	if utf8.RuneCountInString(fill) != 1 {
		fail("the text to fill with must be one character")
	}
	return it.pad(s, p.int(0, 0), fill, side)
}
