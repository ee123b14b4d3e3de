package grammar

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	digit := Class{{'0', '9'}}
	var g Grammar
	nested := g.Add("nested", nil)
	g.Rules[nested].Expr = Alt{Lit(""), Seq{Lit("("), nested, Lit(")")}}
	for _, c := range []struct {
		e       Expr
		yes, no []string
	}{
		{Lit("ab"), []string{"ab"}, []string{"", "a", "abc"}},
		{Seq{}, []string{""}, []string{"a"}},
		{Alt{}, nil, []string{"", "a"}},
		{Class{}, nil, []string{"", "a"}},
		{Repeat{digit, 2, 3}, []string{"12", "123"}, []string{"1", "1234", "1a"}},
		{Repeat{Lit(""), 5, -1}, []string{""}, []string{"a"}},
		{Repeat{Alt{Lit(""), Lit("a")}, 1000, 1000}, []string{"", "aaa"}, []string{"b"}},
		{Seq{Repeat{digit, 0, -1}, Lit("1")}, []string{"1", "21", "1111"}, []string{"", "12"}},
		{nested, []string{"", "()", "((()))"}, []string{"(", "(()"}},
		{And{Repeat{digit, 0, -1}, Not{Seq{Repeat{digit, 0, -1}, Lit("0")}}}, []string{"", "1", "101"}, []string{"10", "a"}},
		{Seq{Not{Lit("x")}, Lit("y")}, []string{"y", "xxy", "ay"}, []string{"x", "xy"}},
		{Repeat{Any, 2, 2}, []string{"éü"}, []string{"é", "\xff\xff"}},
	} {
		for _, text := range c.yes {
			if !Match(&g, c.e, text, nil) {
				t.Errorf("%#v refuses %q", c.e, text)
			}
		}
		for _, text := range c.no {
			if Match(&g, c.e, text, nil) {
				t.Errorf("%#v accepts %q", c.e, text)
			}
		}
	}
}

// Repetitions within one another do not take exponential time.
func TestNestedRepeats(t *testing.T) {
	var counted, starred Expr = Repeat{Lit("a"), 0, 1}, Lit("a")
	for range 12 {
		counted = Repeat{counted, 1000, 1000}
	}
	for range 40 {
		starred = Repeat{starred, 0, -1}
	}
	if !Match(nil, counted, "", nil) || !Match(nil, counted, "aaa", nil) || Match(nil, counted, "b", nil) {
		t.Error("counted repetitions match wrongly")
	}
	if !Match(nil, starred, "aaa", nil) || Match(nil, starred, "aaab", nil) {
		t.Error("repetitions match wrongly")
	}
}

// A text that takes more steps than there are ends with an error, and takes no more time.
func TestMatchSteps(t *testing.T) {
	var e Expr = Class{{'a', 'z'}}
	for range 6 {
		e = Repeat{e, 1, 100}
	}
	match := func(w *Work) (err error) {
		defer Catch(&err)
		Match(nil, e, strings.Repeat("a", 1000), w)
		return nil
	}
	if err := match(NewWork(t.Context(), 10_000)); !errors.Is(err, ErrLarge) || !Overran(err) {
		t.Errorf("%v", err)
	}
}

func TestClass(t *testing.T) {
	c := NewClass(Range{'x', 'z'}, Range{'a', 'c'}, Range{'b', 'f'}, Range{'g', 'g'}, Range{0xD000, 0xE000})
	for _, x := range []struct {
		c    Class
		in   string
		none string
	}{
		{c, "abcdefgxyz\ue000", "`hw{\ue001"},
		{c.Negate(), "`hw{\ue001\U0010FFFF\x00", "abgxz"},
		{c.Without(Runes("bx")), "acyz", "bx"},
		{Runes("k").FoldCase(), "kK\u212A", "l"},
		{Any, "\x00\U0010FFFF\uD7FF", ""},
	} {
		for _, r := range x.in {
			if !x.c.Has(r) {
				t.Errorf("%x has no %x", x.c, r)
			}
		}
		for _, r := range x.none {
			if x.c.Has(r) {
				t.Errorf("%x has %x", x.c, r)
			}
		}
	}
	if len(Any.Negate()) != 0 {
		t.Errorf("%x beyond all", Any.Negate())
	}
}

// has is what a class of ranges has by definition.
func has(ranges []Range, r rune) bool {
	return (r < 0xD800 || r > 0xDFFF) && slices.ContainsFunc(ranges, func(x Range) bool { return x.Lo <= r && r <= x.Hi })
}

// Classes are sets: of what is in ranges in any order, in none or in both of two. Their ranges are sorted, with something
// between each two.
func TestClassIsSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(from rune) (ranges []Range) {
		for range random.IntN(5) {
			lo := from + rune(random.IntN(30))
			ranges = append(ranges, Range{lo, lo + rune(random.IntN(5)) - 1}) // perhaps of nothing
		}
		return ranges
	}
	for range 2000 {
		from := []rune{0, 'a', 0xD7F0, 0xDFF0, unicode.MaxRune - 40}[random.IntN(5)]
		ranges, others := draw(from), draw(from)
		c, d := NewClass(slices.Clone(ranges)...), NewClass(slices.Clone(others)...)
		for name, x := range map[string]struct {
			got  Class
			want func(rune) bool
		}{
			"class":   {c, func(r rune) bool { return has(ranges, r) }},
			"negate":  {c.Negate(), func(r rune) bool { return has(Any, r) && !has(ranges, r) }},
			"union":   {Union(c, d), func(r rune) bool { return has(ranges, r) || has(others, r) }},
			"without": {c.Without(d), func(r rune) bool { return has(ranges, r) && !has(others, r) }},
		} {
			for r := max(from-2, 0); r <= min(from+40, unicode.MaxRune); r++ {
				if x.got.Has(r) != x.want(r) {
					t.Fatalf("%s of %x and %x is %x: it has %x: %v", name, ranges, others, x.got, r, !x.want(r))
				}
			}
			for i, r := range x.got {
				if r.Lo > r.Hi || i+1 < len(x.got) && x.got[i+1].Lo <= r.Hi+1 {
					t.Fatalf("%s of %x and %x is %x", name, ranges, others, x.got)
				}
			}
		}
	}
}

// A table of package unicode is the same set, also where it has every second code point.
func TestFromTable(t *testing.T) {
	for name, table := range map[string]*unicode.RangeTable{"Lu": unicode.Lu, "Nd": unicode.Nd, "Lo": unicode.Lo, "Ll": unicode.Ll, "Deseret": unicode.Deseret, "space": unicode.White_Space} {
		c := FromTable(table)
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if utf8.ValidRune(r) && c.Has(r) != unicode.Is(table, r) {
				t.Errorf("%s has %x: %v", name, r, c.Has(r))
				break
			}
		}
	}
}

// Folded, a class has what differs in case from what it has: of ranges that are short, and of long ones.
func TestFoldCase(t *testing.T) {
	for _, c := range []Class{{{'a', 'c'}, {'s', 's'}}, {{0x100, 0x1ff}}, {{0x100, 0x200}}, {{'b', 0x17e}, {0x3b1, 0x3b1}}, {{0x10400, 0x10427}}, {{'K', 'K'}, {0x130, 0x3ff}}, {{0x1F80, 0x2126}}} {
		want := map[rune]bool{}
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if c.Has(r) {
				want[r] = true
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					want[f] = true
				}
			}
		}
		got := c.FoldCase()
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if got.Has(r) != want[r] {
				t.Errorf("%x folded has %x: %v", c, r, got.Has(r))
				break
			}
		}
	}
}

// Texts of any length match as a library of regular expressions says.
func TestMatchIsRegular(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var draw func(deep int) (Expr, string)
	draw = func(deep int) (Expr, string) {
		kind := random.IntN(6)
		if deep == 0 {
			kind = random.IntN(2)
		}
		switch kind {
		case 0:
			text := []string{"a", "b", "é", "ab", "aab", ""}[random.IntN(6)]
			return Lit(text), text
		case 1:
			return Class{{'a', 'b'}, {'é', 'é'}}, "[abé]"
		case 2, 3:
			x, p := draw(deep - 1)
			y, q := draw(deep - 1)
			if kind == 2 {
				return Seq{x, y}, "(?:" + p + q + ")"
			}
			return Alt{x, y}, "(?:" + p + "|" + q + ")"
		}
		x, p := draw(deep - 1)
		least := random.IntN(3)
		switch random.IntN(3) {
		case 0:
			return Repeat{x, least, -1}, fmt.Sprintf("(?:%s){%d,}", p, least)
		case 1:
			return Limit{Repeat{x, least, least}, 3}, fmt.Sprintf("(?:%s){%d}", p, least)
		}
		return Repeat{x, least, least + 2}, fmt.Sprintf("(?:%s){%d,%d}", p, least, least+2)
	}
	for range 3000 {
		e, pattern := draw(4)
		re := regexp.MustCompile("^(?:" + pattern + ")$")
		text := strings.Repeat([]string{"a", "ab", "aab", "é", "b"}[random.IntN(5)], random.IntN(4))
		if random.IntN(4) == 0 { // beyond what a word has bits
			text = strings.Repeat("ab", random.IntN(100))
			e, re = Seq{Repeat{e, 0, -1}, e}, regexp.MustCompile("^(?:"+pattern+")+$")
		}
		if got := Match(nil, e, text, nil); got != re.MatchString(text) {
			t.Fatalf("%s: %q: %v", pattern, text, got)
		}
	}
	for n := range 200 { // the only end is the text's
		text := strings.Repeat("a", n)
		if !Match(nil, Seq{Lit(text), Repeat{Lit("b"), 0, -1}}, text, nil) || Match(nil, Lit(text+"a"), text, nil) || n > 0 && Match(nil, Lit(text[1:]), text, nil) {
			t.Errorf("a text of %d bytes", n)
		}
	}
}

// Rules, intersections and complements end where texts of any length do.
func TestMatchOfAnyLength(t *testing.T) {
	var g Grammar
	rule := g.Add("r", Repeat{Lit("a"), 0, -1})
	for n := range 200 {
		text := strings.Repeat("a", n)
		for name, e := range map[string]Expr{"rule": rule, "and": And{rule, Not{Lit("b")}}, "not": Not{Lit(text + "a")}} {
			if !Match(&g, e, text, nil) {
				t.Errorf("%s: a text of %d bytes", name, n)
			}
		}
		if Match(&g, Not{rule}, text, nil) || Match(&g, And{rule, Not{Lit(text)}}, text, nil) {
			t.Errorf("a text of %d bytes that is none", n)
		}
	}
}

// What a rule matches at a place is found once, and whether it refers to itself too, however many rules refer to it.
func TestSharedRules(t *testing.T) {
	g := &Grammar{}
	for i := range 60 {
		g.Add("r", Alt{Seq{Lit("a"), Ref(i + 1)}, Ref(i + 1), Seq{Ref(i + 1), Lit("b")}})
	}
	g.Add("last", Lit("a"))
	if g.Recursive() {
		t.Error("it is recursive")
	}
	var got bool
	err := func() (err error) {
		defer Catch(&err)
		got = Match(g, Ref(0), "aab", NewWork(t.Context(), 1<<20))
		return nil
	}()
	if err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
}

// A text that lacks another has it nowhere.
func TestLacks(t *testing.T) {
	for _, text := range []string{"", "a", "b", "ba", "aab", "ab", "xab", "abx", "xabx", "aéb", "ab\xff"} {
		if got := Match(nil, Lacks("ab"), text, nil); got != !strings.Contains(text, "ab") {
			t.Errorf("%q lacks it: %v", text, got)
		}
	}
}

func TestIncludeRefusesDeepRules(t *testing.T) {
	var e Expr = Lit("a")
	for range MaxNesting {
		e = Repeat{e, 0, 1}
	}
	var g Grammar
	if _, err := g.Include(&Grammar{Rules: []Rule{{"deep", e}}}); err == nil {
		t.Error("a rule beyond the bound is included")
	}
	// One expression less fits, of any kind, and as many side by side.
	for name, nest := range map[string]func(Expr) Expr{
		"repeat": func(e Expr) Expr { return Repeat{e, 0, 1} }, "sequence": func(e Expr) Expr { return Seq{Lit("x"), e, Lit("y")} },
		"not": func(e Expr) Expr { return Not{e} }, "limit": func(e Expr) Expr { return Limit{e, 3} }, "and": func(e Expr) Expr { return And{e} }, "alternatives": func(e Expr) Expr { return Alt{e} },
	} {
		var deep Expr = Lit("a")
		for range MaxNesting - 1 {
			deep = nest(deep)
		}
		h := &Grammar{Rules: []Rule{{"deep", deep}, {"deep", deep}}}
		var g Grammar
		if ref, err := g.Include(h); err != nil || !reflect.DeepEqual(g.Rules[ref:], h.Rules) {
			t.Errorf("%s: %v, or another rule", name, err)
		}
		h.Rules[1].Expr = nest(deep)
		if _, err := g.Include(h); err == nil || err.Error() != "rule \"deep\" of the grammar nests more than 2000 deep" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ref, err := g.Include(&Grammar{Rules: []Rule{{"x", Seq{Lit("a"), Ref(0)}}}}); err != nil || g.Rules[ref].Expr.(Seq)[1] != ref {
		t.Errorf("%v, %v", ref, err)
	}
}

func TestRecursive(t *testing.T) {
	for _, tt := range []struct {
		want  bool
		rules []Expr
	}{
		{false, []Expr{Lit("a")}},
		{true, []Expr{Seq{Lit("a"), Ref(0)}}},
		{false, []Expr{Alt{Ref(1), Ref(2), Ref(1)}, Seq{Ref(2), Ref(3)}, Repeat{Ref(3), 0, -1}, Lit("a")}},
		{true, []Expr{Alt{Ref(1), Ref(2)}, Not{Ref(2)}, And{Ref(3)}, Repeat{Ref(1), 0, 1}}},
		{false, []Expr{Lit("a"), Ref(1)}}, // no text needs it
	} {
		g := &Grammar{}
		for _, e := range tt.rules {
			g.Add("r", e)
		}
		if got := g.Recursive(); got != tt.want {
			t.Errorf("%v: %v", tt.rules, got)
		}
	}
}

// An expression within another is found, moved and replaced wherever it stands.
func TestExpressionsWithin(t *testing.T) {
	a, b := Lit("a"), Lit("b")
	for name, within := range map[string]func(Expr) Expr{
		"first of a sequence":     func(e Expr) Expr { return Seq{e, a} },
		"last of a sequence":      func(e Expr) Expr { return Seq{a, e} },
		"first alternative":       func(e Expr) Expr { return Alt{e, a} },
		"last alternative":        func(e Expr) Expr { return Alt{a, e} },
		"first of an and":         func(e Expr) Expr { return And{e, a} },
		"last of an and":          func(e Expr) Expr { return And{a, e} },
		"not":                     func(e Expr) Expr { return Not{e} },
		"repetition":              func(e Expr) Expr { return Repeat{e, 2, 5} },
		"limit":                   func(e Expr) Expr { return Limit{e, 7} },
		"first part in any order": func(e Expr) Expr { return AnyOrder{Parts: []Expr{e, a}, Must: 1, Listed: true, Between: b} },
		"last part in any order":  func(e Expr) Expr { return AnyOrder{Parts: []Expr{a, e}, Must: 2, Between: b, More: b} },
		"between":                 func(e Expr) Expr { return AnyOrder{Parts: []Expr{a}, Between: e} },
		"more":                    func(e Expr) Expr { return AnyOrder{Parts: []Expr{a}, Between: b, More: e} },
	} {
		own, other := &Grammar{}, &Grammar{}
		own.Add("own", within(Ref(0)))
		other.Add("other", within(Ref(1)))
		other.Add("text", Seq{a, Token{IDs: []int32{1}, Not: true}, Any})
		if !own.Recursive() || other.Recursive() {
			t.Errorf("%s: recursive: %v, and of another rule %v", name, own.Recursive(), other.Recursive())
		}
		var g Grammar
		for range 3 {
			g.Add("before", a)
		}
		ref, err := g.Include(other)
		if err != nil || ref != 3 || !reflect.DeepEqual(g.Rules[3:], []Rule{{"other", within(Ref(4))}, other.Rules[1]}) {
			t.Errorf("%s: it becomes rule %d, %v, %v", name, ref, g.Rules[3:], err)
		}
	}
}

// As many parts as there may be have a bit each in the sets of them, which package constrain keeps in numbers of 32 bits
// above zero: one, two and all of them come in any order, and each once.
func TestMostParts(t *testing.T) {
	if int64(1)<<MaxParts-1 != math.MaxInt32 {
		t.Errorf("%d parts are more or less than there are bits", MaxParts)
	}
	e := AnyOrder{Between: Lit(""), Must: MaxParts}
	text := ""
	for i := range MaxParts {
		text += string(rune('A' + i))
		e.Parts = append(e.Parts, Lit(text[i:]))
	}
	for _, tt := range []struct {
		must int
		text string
		want bool
	}{
		{MaxParts, text, true}, {MaxParts, text[1:] + text[:1], true}, {MaxParts, text[1:], false}, {MaxParts, text[:MaxParts-1], false},
		{MaxParts, text + text[:1], false}, {MaxParts, text + text[MaxParts-1:], false},
		{0, text[MaxParts-1:], true}, {0, text[MaxParts-1:] + text[:1], true}, {0, text[MaxParts-1:] + text[MaxParts-1:], false}, {1, text[1:], false},
	} {
		e.Must = tt.must
		if got := Match(nil, e, tt.text, nil); got != tt.want {
			t.Errorf("%d of them, %q: %v", tt.must, tt.text, got)
		}
	}
}

// What comes again and again ends, though it may be empty: a place that was reached with a set of parts is not followed
// again.
func TestAnyOrderOfNothing(t *testing.T) {
	empty := Repeat{Lit("x"), 0, -1}
	e := AnyOrder{Parts: []Expr{Lit("a")}, Must: 1, More: empty, Between: Alt{Lit(""), Lit(",")}}
	for text, want := range map[string]bool{"": false, "a": true, "xax": true, "x,,a": true, "a,xx,": true, "xx": false, "aa": false} {
		if got := Match(nil, e, text, NewWork(t.Context(), 1<<20)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// AnyOrder has the texts of its definition, written out: sets of parts in any order, with and without others.
func TestAnyOrderByDefinition(t *testing.T) {
	more := Class{{'x', 'y'}}
	for _, e := range []AnyOrder{
		{Parts: []Expr{Lit("a")}, Between: Lit(",")},
		{Parts: []Expr{Lit("a"), Lit("b"), Lit("cc")}, Between: Lit(",")},
		{Parts: []Expr{Lit("a"), Lit("b"), Lit("cc")}, Must: 2, Between: Lit(",")},
		{Parts: []Expr{Lit("a"), Lit("b")}, Must: 2, Between: Lit("")},
		{Parts: []Expr{Lit("a"), Lit("b"), Lit("cc")}, Must: 2, Listed: true, Between: Lit("")},
		{Parts: []Expr{Lit("c"), Lit("b"), Lit("a")}, Must: 3, Listed: true, Between: Lit(""), More: more},
		{Parts: []Expr{Lit("a"), Alt{Lit("a"), Lit("ab")}, Lit("b")}, Must: 1, Between: Lit("")},
		{Parts: []Expr{Lit("a"), Lit("b")}, Must: 1, Between: Lit(","), More: more},
		{Parts: []Expr{Lit("x"), Lit("b")}, Between: Alt{Lit(""), Lit(",")}, More: more},
		{Between: Lit(","), More: more},
	} {
		for i, part := range append(e.With(func(e Expr) Expr { return e }).all(), nil) {
			if all := append(e.all(), nil); !reflect.DeepEqual(part, all[i]) || len(all) < len(e.Parts)+2 {
				t.Errorf("%#v has other parts when they are replaced by themselves", e)
			}
		}
		const longest = 5
		words := func(e Expr) (list []string) { // those of the expressions above
			switch e := e.(type) {
			case Lit:
				return []string{string(e)}
			case Alt:
				for _, e := range e {
					list = append(list, string(e.(Lit)))
				}
			case Class:
				return []string{"x", "y"}
			}
			return list
		}
		want := map[string]bool{}
		var add func(text string, had int)
		add = func(text string, had int) {
			if len(text) > longest {
				return
			}
			if must := 1<<e.Must - 1; had&must == must && text != "" {
				want[text] = true
			}
			between := []string{""}
			if text != "" {
				between = words(e.Between)
			}
			for _, b := range between {
				for i, part := range e.Parts {
					for _, w := range words(part) {
						late := e.Listed && i < e.Must && had&(1<<i-1) != 1<<i-1 // one before it has to come first
						if had>>i&1 == 0 && !late {
							add(text+b+w, had|1<<i)
						}
					}
				}
				if e.More != nil {
					for _, w := range words(e.More) {
						add(text+b+w, had)
					}
				}
			}
		}
		add("", 0)
		if len(want) == 0 {
			t.Errorf("%#v has no texts", e)
		}
		var try func(text string)
		try = func(text string) {
			if Match(&Grammar{}, e, text, nil) != want[text] {
				t.Errorf("%#v: %q matches: %v, want %v", e, text, !want[text], want[text])
			}
			for _, c := range "abcx," {
				if len(text) < longest {
					try(text + string(c))
				}
			}
		}
		try("")
	}
}
