package constrain

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// What a run has beyond ASCII is all of it, none, or some ranges.
func TestBeyond(t *testing.T) {
	all := grammar.Class{{Lo: 0x80, Hi: 0xD7FF}, {Lo: 0xE000, Hi: utf8.MaxRune}}
	var many grammar.Class
	for i := range rune(maxBeyond + 1) {
		many = append(many, grammar.Range{Lo: 0x1000 + 2*i, Hi: 0x1000 + 2*i})
	}
	for name, c := range map[string]struct {
		class grammar.Class
		rest  bool
		part  grammar.Class
	}{
		"nothing": {nil, false, nil}, "ASCII": {grammar.Class{{Lo: 0, Hi: 0x7F}}, false, nil}, "all": {grammar.Any, true, nil}, "all beyond": {all, true, nil},
		"with surrogates": {grammar.Class{{Lo: 'a', Hi: utf8.MaxRune}}, true, nil}, "all but the last": {grammar.Class{{Lo: 0, Hi: utf8.MaxRune - 1}}, false, grammar.Class{{Lo: 0x80, Hi: utf8.MaxRune - 1}}},
		"all but the first": {grammar.Class{{Lo: 0x81, Hi: utf8.MaxRune}}, false, grammar.Class{{Lo: 0x81, Hi: utf8.MaxRune}}},
		"across ASCII":      {grammar.Class{{Lo: 'z', Hi: 0x90}, {Lo: 0x100, Hi: 0x100}}, false, grammar.Class{{Lo: 0x80, Hi: 0x90}, {Lo: 0x100, Hi: 0x100}}},
		"one":               {grammar.Class{{Lo: 0x80, Hi: 0x80}}, false, grammar.Class{{Lo: 0x80, Hi: 0x80}}},
		"up to surrogates":  {grammar.Class{{Lo: 0x80, Hi: 0xD7FF}, {Lo: 0xE001, Hi: utf8.MaxRune}}, false, grammar.Class{{Lo: 0x80, Hi: 0xD7FF}, {Lo: 0xE001, Hi: utf8.MaxRune}}},
		"many ranges":       {many[1:], false, many[1:]}, "too many": {many, false, nil},
	} {
		var r run
		r.addBeyond(c.class)
		if r.rest != c.rest || !slices.Equal(r.beyond.class(), c.part) {
			t.Errorf("%s: all %v, %x, want %v, %x", name, r.rest, r.beyond.class(), c.rest, c.part)
		}
		for _, x := range [][2]rune{{0x80, 0x80}, {0x81, 0x81}, {0x90, 0xFF}, {0x91, 0xFF}, {0xFF, 0x100}, {0x100, 0x101}, {0x101, 0x200}, {0xD7FF, 0xE000}, {utf8.MaxRune, utf8.MaxRune}, {0x1002, 0x1002}, {0x1003, 0x1003}} {
			want := slices.ContainsFunc(c.part, func(r grammar.Range) bool { return r.Lo <= x[1] && x[0] <= r.Hi })
			if got := r.beyond.some(x[0], x[1]); got != want {
				t.Errorf("%s has some of %x: %v", name, x, got)
			}
		}
	}
}

// From each state of a finite automaton code points lead where their bytes do.
func TestFlows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	edges := []rune{0, 'a', 0x7F, 0x80, 0xFF, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, utf8.MaxRune}
	for range 150 {
		var e grammar.Alt
		for range 1 + random.IntN(3) {
			var ranges []grammar.Range
			for range 1 + random.IntN(3) {
				lo := edges[random.IntN(len(edges))]
				ranges = append(ranges, grammar.Range{Lo: lo, Hi: lo + rune(random.IntN(0x300))})
			}
			part := grammar.Seq{grammar.Repeat{Expr: grammar.NewClass(ranges...), Max: -1}, grammar.Lit("x")}
			if random.IntN(3) == 0 {
				part = grammar.Seq{grammar.Repeat{Expr: grammar.NewClass(ranges...).Negate(), Max: -1}, grammar.Lit("y")}
			}
			e = append(e, part)
		}
		d := determined(t, e)
		f := &flows{dfa: d, known: map[midway]led{}}
		at := func(n int32, r rune) int32 {
			var b [4]byte
			for _, c := range b[:utf8.EncodeRune(b[:], r)] {
				if n = d.row(n)[d.classOf[c]]; n < 0 {
					return n
				}
			}
			return n
		}
		for n := range int32(len(d.accepts)) {
			turns, dead := f.loop(n)
			all := f.from(n)
			for _, r := range edges {
				for r, last := max(r-2, 0), min(r+2, utf8.MaxRune); r <= last; r++ {
					if !utf8.ValidRune(r) {
						continue
					}
					to := at(n, r)
					if r < 0x80 {
						if turns.has(byte(r)) != (to == n) || dead.has(byte(r)) != (to < 0) {
							t.Fatalf("%#v: %x leads from %d to %d", e, r, n, to)
						}
						continue
					}
					led := int32(-1)
					for _, x := range all.flows {
						if x.lo <= r && r <= x.hi {
							led = x.to
						}
					}
					if in := turns.rest || turns.beyond.some(r, r); !all.stray && (led != to || in != (to == n) || dead.rest && to >= 0 && to != n) {
						t.Fatalf("%#v: %x leads from %d to %d, got %d, turns %v, dead %v", e, r, n, to, led, in, dead.rest)
					}
				}
			}
		}
	}
}

// determined returns the finite automaton of an expression, with as few states as can be.
func determined(t *testing.T, e grammar.Expr) *dfa {
	t.Helper()
	c := &compiler{g: &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: e}}}, v: NewVocabulary(0, nil, nil), runs: map[int]run{}, emits: new(int)}
	d := c.deterministic(e)
	d.trim()
	return d.minimal(nil)
}
