package jsonschema

import (
	"fmt"
	"math/big"
	"slices"
	"sort"

	"github.com/quern-llm/quern/go/grammar"
)

func readConst(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	return c.enum(l, []*value{v}, "const")
}

func readEnum(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	if v.kind != '[' {
		return nil, fmt.Errorf("%s, want an array of values", v)
	}
	return c.enum(l, v.items, "enum")
}

// enum returns the shapes of some values: one of all scalars, and one for each array or
// object.
func (c *compiler) enum(l literal, values []*value, keyword string) ([]*shape, error) {
	var k kinds
	var strings []string
	var numbers, nested []*value
	seen := map[string]bool{}
	for _, v := range values {
		switch v.kind {
		case 'n':
			k |= kNull
		case 't':
			k |= kTrue
		case 'f':
			k |= kFalse
		case '"':
			if !seen[v.text] {
				seen[v.text] = true
				strings = append(strings, v.text)
			}
		case '0':
			r, ok := rational(v)
			if !ok {
				return nil, fmt.Errorf("%s has more than %d digits", v, longest)
			}
			if r.IsInt() { // 1.0 is written 1
				v = &value{kind: '0', text: r.Num().String()}
			}
			numbers = append(numbers, v)
		default:
			nested = append(nested, v)
		}
	}
	if l.not {
		return c.others(l.s, k, strings, numbers, nested, keyword), nil
	}
	var out []*shape
	s := only(k)
	s.about = kAll
	if len(strings) > 0 {
		s.kinds |= kString
		s.str.in, s.str.only = strings, true
	}
	if len(numbers) > 0 {
		s.kinds |= kNumber
		s.num.in, s.num.only = numbers, true
	}
	if s.kinds != 0 {
		out = append(out, s)
	}
	for _, v := range nested {
		if len(out) == maxShapes {
			return nil, fmt.Errorf("more than %d arrays and objects", maxShapes)
		}
		out = append(out, c.exactly(v))
	}
	return out, nil
}

// exactly returns the shape of an array or an object.
func (c *compiler) exactly(v *value) *shape {
	no := literal{s: never}
	if v.kind == '[' {
		s := only(kArray)
		app := arrayApp{rest: &no}
		for _, item := range v.items {
			app.prefix = append(app.prefix, literal{s: c.constant(item)})
		}
		s.arr = arrays{apps: []arrayApp{app}, min: len(v.items), max: len(v.items)}
		return s
	}
	s := only(kObject)
	app := objectApp{rest: &no}
	for i, name := range v.names {
		app.props = append(app.props, prop{name, literal{s: c.constant(v.items[i])}})
	}
	s.obj.apps, s.obj.required = []objectApp{app}, v.names
	return s
}

// constant returns the schema of a value.
func (c *compiler) constant(v *value) *schema {
	if s := c.constants[v]; s != nil {
		return s
	}
	s := c.doc.schema(&value{kind: '{', names: []string{"const"}, items: []*value{v}}, "", "#", nil)
	c.constants[v] = s
	return s
}

// others returns the shapes of what is not among some values.
func (c *compiler) others(s *schema, k kinds, strings []string, in, nested []*value, keyword string) []*shape {
	rest := only(kAll &^ (k | kNumber))
	if len(strings) > 0 {
		lits := make(grammar.Alt, len(strings))
		for i, text := range strings {
			lits[i] = grammar.Lit(text)
		}
		rest.str.exprs, rest.str.work = []grammar.Expr{grammar.Not{Expr: lits}}, c.matching
	}
	for _, v := range nested {
		one := kObject
		if v.kind == '[' {
			one = kArray
		}
		if rest.refused == nil {
			rest.refused = map[kinds]*Error{}
		}
		rest.refused[one] = &Error{s.path, keyword, "the negation of an array or an object can't be decided"}
	}
	out := []*shape{rest}
	at := make([]*big.Rat, len(in))
	for i, v := range in {
		at[i], _ = rational(v)
	}
	sort.Slice(at, func(i, k int) bool { return at[i].Cmp(at[k]) < 0 })
	at = slices.CompactFunc(at, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 })
	for i := range len(at) + 1 { // between one and the next
		n := only(kNumber)
		if i > 0 {
			n.num.lo = &bound{at[i-1], true}
		}
		if i < len(at) {
			n.num.hi = &bound{at[i], true}
		}
		out = append(out, n)
	}
	return out
}

// equal reports whether two values are the same.
func equal(a, b *value) bool {
	if a.kind != b.kind || len(a.items) != len(b.items) {
		return false
	}
	switch a.kind {
	case '0':
		x, ok := rational(a)
		y, ok2 := rational(b)
		return ok && ok2 && x.Cmp(y) == 0
	case '[':
		return slices.EqualFunc(a.items, b.items, equal)
	case '{':
		for i, name := range a.names {
			if other := b.member(name); other == nil || !equal(a.items[i], other) {
				return false
			}
		}
		return true
	}
	return a.text == b.text
}

func readItems(c *compiler, l literal, name string, v *value) ([]*shape, error) {
	s := l.s.v
	first := s.member("prefixItems")
	if first != nil && name == "items" {
		return silence, nil // said with prefixItems
	}
	var app arrayApp
	rest, at := s.member("items"), "items"
	if rest != nil && rest.kind == '[' {
		first, rest, at = rest, s.member("additionalItems"), "additionalItems"
	}
	if first != nil && first.kind != '[' { // some write prefixItems for items
		first, rest, at = nil, first, "prefixItems"
	}
	if first != nil {
		subs, err := c.subs(l.s, first, name)
		if err != nil {
			return nil, err
		}
		for _, sub := range subs {
			app.prefix = append(app.prefix, literal{s: sub})
		}
	}
	if rest != nil {
		sub, err := c.sub(l.s, rest, at)
		if err != nil {
			return nil, err
		}
		app.rest = &literal{s: sub}
	}
	if !l.not {
		return l.one(kArray, func(s *shape) { s.arr.apps = []arrayApp{app} }), nil
	}
	var out []*shape
	for i, p := range app.prefix { // one of the elements is not so
		a := only(kArray)
		no := arrayApp{prefix: slices.Repeat([]literal{{s: always}}, i+1)}
		no.prefix[i] = literal{p.s, true}
		a.arr.apps, a.arr.min = []arrayApp{no}, i+1
		out = append(out, a)
	}
	switch {
	case app.rest == nil:
	case len(app.prefix) == 0:
		a := only(kArray)
		a.arr.contains = []contains{{lit: literal{app.rest.s, true}, min: 1, max: -1}}
		out = append(out, a)
	case app.rest.s.v.kind == 'f':
		a := only(kArray)
		a.arr.min = len(app.prefix) + 1
		out = append(out, a)
	default:
		out = append(out, c.refuse(l.s, kArray, at, "its negation can't be decided"))
	}
	return out, nil
}

func readMinItems(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	if err != nil || l.not && n == 0 {
		return nil, err
	}
	return l.one(kArray, func(s *shape) {
		if l.not {
			s.arr.max = n - 1
		} else {
			s.arr.min = n
		}
	}), nil
}

func readMaxItems(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	return l.one(kArray, func(s *shape) {
		if l.not {
			s.arr.min = n + 1
		} else {
			s.arr.max = n
		}
	}), err
}

func readContains(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	sub, err := c.sub(l.s, v, "contains")
	if err != nil {
		return nil, err
	}
	has := contains{lit: literal{s: sub}, min: 1, max: -1}
	if m := l.s.v.member("minContains"); m != nil {
		if has.min, err = m.count(); err != nil {
			return nil, c.fail(l.s, "minContains", "%v", err)
		}
	}
	if m := l.s.v.member("maxContains"); m != nil {
		if has.max, err = m.count(); err != nil {
			return nil, c.fail(l.s, "maxContains", "%v", err)
		}
	}
	if !l.not {
		return l.one(kArray, func(s *shape) { s.arr.contains = []contains{has} }), nil
	}
	var out []*shape
	if has.min == 1 {
		a := only(kArray)
		a.arr.apps = []arrayApp{{rest: &literal{sub, true}}}
		out = append(out, a)
	} else if has.min > 1 {
		a := only(kArray)
		a.arr.contains = []contains{{lit: has.lit, max: has.min - 1}}
		out = append(out, a)
	}
	if has.max >= 0 {
		a := only(kArray)
		a.arr.contains = []contains{{lit: has.lit, min: has.max + 1, max: -1}}
		out = append(out, a)
	}
	return out, nil
}

func readUnique(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	is, ok := v.bool()
	switch {
	case !ok:
		return nil, fmt.Errorf("%s, want true or false", v)
	case !is:
		return silence, nil
	case l.not:
		return []*shape{c.refuse(l.s, kArray, "uniqueItems", "its negation can't be decided")}, nil
	}
	return l.one(kArray, func(s *shape) { s.arr.unique = l.s }), nil
}
