package grammar

import (
	"slices"
	"sync"
	"unicode"
)

// Any is every code point that UTF-8 can encode.
var Any = Class{{0, 0xD7FF}, {0xE000, unicode.MaxRune}}

// NewClass returns the code points of ranges in any order.
func NewClass(ranges ...Range) Class {
	slices.SortFunc(ranges, func(a, b Range) int { return int(a.Lo - b.Lo) })
	var c Class
	for _, r := range ranges {
		for _, a := range Any { // without the surrogates
			lo, hi := max(r.Lo, a.Lo), min(r.Hi, a.Hi)
			switch last := len(c) - 1; {
			case lo > hi:
			case last >= 0 && lo <= c[last].Hi+1:
				c[last].Hi = max(c[last].Hi, hi)
			default:
				c = append(c, Range{lo, hi})
			}
		}
	}
	return c
}

// Runes returns the class of the code points of a text.
func Runes(text string) Class {
	var ranges []Range
	for _, r := range text {
		ranges = append(ranges, Range{r, r})
	}
	return NewClass(ranges...)
}

// FromTable returns the class of the code points in a table of package unicode.
func FromTable(t *unicode.RangeTable) Class {
	var ranges []Range
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, Range{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, Range{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return NewClass(ranges...)
}

// Union is the code points of any of the classes.
func Union(classes ...Class) Class { return NewClass(slices.Concat(classes...)...) }

// Negate is all other code points.
func (c Class) Negate() Class {
	var ranges []Range
	next := rune(0)
	for _, r := range c {
		ranges = append(ranges, Range{next, r.Lo - 1}) // none if it begins there
		next = r.Hi + 1
	}
	return NewClass(append(ranges, Range{next, unicode.MaxRune})...)
}

// Without is the code points of c that d does not have.
func (c Class) Without(d Class) Class { return Union(c.Negate(), d).Negate() }

// Has reports whether a code point is in the class.
func (c Class) Has(r rune) bool {
	_, ok := slices.BinarySearchFunc(c, r, func(x Range, r rune) int {
		switch {
		case x.Hi < r:
			return -1
		case x.Lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// FoldCase adds the code points that differ from one of c only in case.
func (c Class) FoldCase() Class {
	ranges := slices.Clone(c)
	fold := func(x rune) {
		for f := unicode.SimpleFold(x); f != x; f = unicode.SimpleFold(f) {
			ranges = append(ranges, Range{f, f})
		}
	}
	for _, r := range c {
		if r.Hi-r.Lo < 256 {
			for x := r.Lo; x <= r.Hi; x++ {
				fold(x)
			}
			continue
		}
		for _, x := range cased() {
			if r.Lo <= x && x <= r.Hi {
				fold(x)
			}
		}
	}
	return NewClass(ranges...)
}

// cased returns the code points that have another case, of which there are few.
var cased = sync.OnceValue(func() (all []rune) {
	for x := range unicode.MaxRune {
		if unicode.SimpleFold(x) != x {
			all = append(all, x)
		}
	}
	return all
})
