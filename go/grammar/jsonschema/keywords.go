package jsonschema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
)

// keyword returns the shapes of what a keyword says, or of what it denies. nil and no
// error is a keyword that says nothing here.
func (c *compiler) keyword(l literal, name string, v *value) ([]*shape, error) {
	read, ok := keywords[name]
	if !ok {
		return nil, nil // annotations, and what the specification leaves to others
	}
	out, err := read(c, l, name, v)
	if err != nil {
		if _, ok := err.(*Error); !ok {
			err = c.fail(l.s, name, "%v", err)
		}
		return nil, err
	}
	if out == nil && !l.not {
		out = []*shape{} // nothing is allowed, which is not the same
	}
	if len(out) == 1 && out[0] == nil {
		return nil, nil
	}
	return out, nil
}

// silence is what keywords return that say nothing.
var silence = []*shape{nil}

type reader func(c *compiler, l literal, name string, v *value) ([]*shape, error)

var keywords map[string]reader

func init() {
	keywords = map[string]reader{
		"$ref": readRef, "$dynamicRef": readRef, "$recursiveRef": readRef,
		"allOf": readAllOf, "anyOf": readAnyOf, "oneOf": readOneOf, "not": readNot, "if": readIf,
		"type": readType, "enum": readEnum, "const": readConst,
		"minimum": readBound, "maximum": readBound, "exclusiveMinimum": readBound, "exclusiveMaximum": readBound, "multipleOf": readMultiple,
		"minLength": readMinLength, "maxLength": readMaxLength, "pattern": readPattern, "format": readFormat,
		"items": readItems, "prefixItems": readItems, "minItems": readMinItems, "maxItems": readMaxItems, "contains": readContains, "uniqueItems": readUnique,
		"properties": readMembers, "patternProperties": readMembers, "additionalProperties": readMembers, "required": readRequired, "propertyNames": readNames,
		"minProperties": readMinMembers, "maxProperties": readMaxMembers,
		"dependentRequired": readDependent, "dependentSchemas": readDependent, "dependencies": readDependent,
	}
}

func readRef(c *compiler, l literal, name string, v *value) ([]*shape, error) {
	if v.kind != '"' {
		return nil, fmt.Errorf("%s, want a string", v)
	}
	to, err := c.doc.target(l.s, v.text, name == "$dynamicRef")
	if err != nil {
		return nil, err
	}
	if name == "$recursiveRef" && to.v.member("$recursiveAnchor") != nil {
		return nil, fmt.Errorf("%q depends on where it is reached from, which can't be decided; want $dynamicRef", v.text)
	}
	return c.shapes(literal{to, l.not})
}

// all returns the shapes of values in each schema, or in none if they are denied.
func (c *compiler) all(subs []*schema, not bool) ([]*shape, error) {
	out := []*shape{top()}
	for _, sub := range subs {
		more, err := c.shapes(literal{sub, not})
		if err != nil {
			return nil, err
		}
		if out, err = c.product(out, more, sub); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// some returns the shapes of values in any of the schemas.
func (c *compiler) some(subs []*schema, not bool) ([]*shape, error) {
	var out []*shape
	for _, sub := range subs {
		more, err := c.shapes(literal{sub, not})
		if err != nil {
			return nil, err
		}
		if out = c.joined(append(out, more...), 2*maxShapes); len(out) > 2*maxShapes {
			break
		}
	}
	if out = c.joined(out, 1); len(out) > maxShapes {
		return nil, c.fail(subs[0], "", "more than %d alternatives together", maxShapes)
	}
	return out, nil
}

func readAllOf(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	subs, err := c.subs(l.s, v, "allOf")
	if err != nil {
		return nil, err
	}
	if l.not {
		return c.some(subs, true)
	}
	return c.all(subs, false)
}

func readAnyOf(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	subs, err := c.subs(l.s, v, "anyOf")
	if err != nil {
		return nil, err
	}
	if l.not {
		return c.all(subs, true)
	}
	if c.doc.evaluated {
		return c.together(subs)
	}
	return c.some(subs, false)
}

// maxTogether is of how many branches of an anyOf it is seen which hold together. Of more, one has evaluated what there is.
const maxTogether = 4

// together returns the shapes of values in any of the schemas, apart by which of them hold: each has evaluated what it
// describes. Where it can't be decided that the others don't hold, they may.
func (c *compiler) together(subs []*schema) ([]*shape, error) {
	if len(subs) > maxTogether {
		out, err := c.some(subs, false)
		return unsure(out), err
	}
	var out []*shape
	for chosen := 1; chosen < 1<<len(subs); chosen++ {
		var hold, fail []*schema
		for i, sub := range subs {
			if chosen>>i&1 != 0 {
				hold = append(hold, sub)
			} else {
				fail = append(fail, sub)
			}
		}
		shapes, err := c.all(hold, false)
		if err != nil {
			return nil, err
		}
		not, err := c.all(fail, true)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(not, func(s *shape) bool { return len(s.refused) > 0 || len(s.obj.some) > 0 }) {
			shapes = unsure(shapes)
		} else if shapes, err = c.product(shapes, not, hold[0]); err != nil {
			return nil, err
		}
		if out = append(out, shapes...); len(out) > maxShapes {
			return nil, fmt.Errorf("more than %d alternatives together", maxShapes)
		}
	}
	return out, nil
}

// unsure returns shapes whose values may have been evaluated by more than they tell.
func unsure(shapes []*shape) []*shape {
	out := make([]*shape, len(shapes))
	for i, s := range shapes {
		loose := *s
		loose.loose = true
		out[i] = &loose
	}
	return out
}

// readOneOf takes branches that exclude each other as they are. Of others, each is taken
// without those that it overlaps.
func readOneOf(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	subs, err := c.subs(l.s, v, "oneOf")
	if err != nil {
		return nil, err
	}
	var out []*shape
	if l.not {
		if out, err = c.all(subs, true); err != nil {
			return nil, err
		}
	}
	beside := c.beside(l.s)
	told := make([]tells, len(subs))
	for i, sub := range subs {
		if told[i], err = c.tells(sub); err != nil {
			return nil, err
		}
	}
	listed := allApart(told)
	for i, sub := range subs {
		mine := []set{{{s: sub}}}
		for k, other := range subs {
			if listed {
				break
			}
			if k == i {
				continue
			}
			if c.work.Do(1); told[i].apart(&told[k]) {
				continue
			}
			apart, err := c.empty(beside.with(literal{s: sub}, literal{s: other}))
			if err != nil {
				return nil, err
			}
			switch {
			case l.not && k > i && !apart: // in two of them
				mine = append(mine, set{{s: sub}, {s: other}}.with())
			case !l.not && !apart:
				mine[0] = mine[0].with(literal{other, true})
			}
		}
		if l.not {
			mine = mine[1:]
		}
		for _, s := range mine {
			more, err := c.expand(s)
			if err != nil {
				return nil, err
			}
			if out = c.joined(append(out, more...), 2*maxShapes); len(out) > 2*maxShapes {
				return nil, fmt.Errorf("more than %d alternatives together", maxShapes)
			}
		}
	}
	if out = c.joined(out, 1); len(out) > maxShapes {
		return nil, fmt.Errorf("more than %d alternatives together", maxShapes)
	}
	return out, nil
}

// beside returns what a schema says of its own, without what it refers to and without other schemas of the same value:
// branches may exclude each other because of that, as those that tell of a member that is required beside them.
func (c *compiler) beside(s *schema) set {
	if own := c.own[s]; own != nil {
		return set{{s: own}}.with()
	}
	v := &value{kind: '{'}
	for i, name := range s.v.names {
		switch name {
		case "type", "required", "properties", "patternProperties", "additionalProperties", "enum", "const":
			v.names, v.items = append(v.names, name), append(v.items, s.v.items[i])
		}
	}
	own := always
	if len(v.names) > 0 {
		own = c.doc.schema(v, s.base, s.path, s.scope)
	}
	c.own[s] = own
	return set{{s: own}}.with()
}

func readNot(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	sub, err := c.sub(l.s, v, "not")
	if err != nil {
		return nil, err
	}
	return c.shapes(literal{sub, !l.not})
}

func readIf(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	cond, err := c.sub(l.s, v, "if")
	if err != nil {
		return nil, err
	}
	var out []*shape
	for _, name := range []string{"then", "else"} {
		with := set{{cond, name == "else"}}
		if branch := l.s.v.member(name); branch != nil {
			sub, err := c.sub(l.s, branch, name)
			if err != nil {
				return nil, err
			}
			with = with.with(literal{sub, l.not})
		} else if l.not {
			continue
		}
		more, err := c.expand(with)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

var kindsByType = map[string]kinds{
	"null": kNull, "boolean": kTrue | kFalse, "number": kNumber, "integer": kNumber, "string": kString, "array": kArray, "object": kObject,
}

func readType(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	names := []string{v.text}
	if v.kind == '[' {
		var err error
		if names, err = v.strings(); err != nil {
			return nil, err
		}
	} else if v.kind != '"' {
		return nil, fmt.Errorf("%s, want the name of a type", v)
	}
	var k kinds
	integer, number := false, false
	for _, name := range names {
		one, ok := kindsByType[name]
		if !ok {
			return nil, fmt.Errorf("%.40q is no type, want one of null, boolean, integer, number, string, array, object", name)
		}
		k |= one
		integer, number = integer || name == "integer", number || name == "number"
	}
	s := only(k)
	s.about = kAll
	s.num.integer = integer && !number
	if !l.not {
		return []*shape{s}, nil
	}
	var out []*shape
	if rest := kAll &^ k; rest != 0 {
		out = append(out, only(rest))
	}
	if s.num.integer {
		f := only(kNumber)
		f.num.fraction = true
		out = append(out, f)
	}
	return out, nil
}

// one returns the shape of a kind about which something is said. The others are allowed,
// unless the saying is denied.
func (l literal) one(k kinds, say func(s *shape)) []*shape {
	s := top()
	if l.not {
		s.kinds = k
	}
	s.about = k
	say(s)
	if s.kinds&k == 0 {
		return nil
	}
	return []*shape{s}
}

func readBound(c *compiler, l literal, name string, v *value) ([]*shape, error) {
	if _, ok := v.bool(); ok && strings.HasPrefix(name, "exclusive") {
		return silence, nil // draft 4: it is about minimum or maximum
	}
	r, ok := rational(v)
	if !ok {
		return nil, fmt.Errorf("%s, want a number of at most %d digits", v, longest)
	}
	open := strings.HasPrefix(name, "exclusive")
	if old := l.s.v.member("exclusive" + strings.ToUpper(name[:1]) + name[1:]); old != nil && old.kind == 't' {
		open = true
	}
	lower := strings.HasSuffix(name, "inimum")
	return l.one(kNumber, func(s *shape) {
		if lower != l.not {
			s.num.lo = &bound{r, open != l.not}
		} else {
			s.num.hi = &bound{r, open != l.not}
		}
	}), nil
}

func readMultiple(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	r, ok := rational(v)
	if !ok || r.Sign() <= 0 {
		return nil, fmt.Errorf("%s, want a number above 0", v)
	}
	if !l.not {
		return l.one(kNumber, func(s *shape) { s.num.multiple = r }), nil
	}
	if r.Cmp(big.NewRat(1, 1)) == 0 {
		return l.one(kNumber, func(s *shape) { s.num.fraction = true }), nil
	}
	return []*shape{c.refuse(l.s, kNumber, "multipleOf", "its negation can't be decided")}, nil
}

func readMinLength(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	if err != nil || l.not && n == 0 {
		return nil, err
	}
	return l.one(kString, func(s *shape) {
		if l.not {
			s.str.max = n - 1
		} else {
			s.str.min = n
		}
	}), nil
}

func readMaxLength(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	return l.one(kString, func(s *shape) {
		if l.not {
			s.str.min = n + 1
		} else {
			s.str.max = n
		}
	}), err
}

func (c *compiler) strings(l literal, e grammar.Expr) []*shape {
	if l.not {
		e = grammar.Not{Expr: e}
	}
	return l.one(kString, func(s *shape) { s.str.exprs, s.str.work = []grammar.Expr{e}, c.matching })
}

func readPattern(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	e, err := c.pattern(v)
	if err != nil {
		return nil, err
	}
	return c.strings(l, e), nil
}

func (c *compiler) pattern(v *value) (grammar.Expr, error) {
	if v.kind != '"' {
		return nil, fmt.Errorf("%s, want a regular expression", v)
	}
	return regex.Search(v.text)
}

func readFormat(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	if v.kind != '"' {
		return nil, fmt.Errorf("%s, want a string", v)
	}
	e, err := format(v.text)
	switch {
	case err != nil:
		return nil, err
	case e == nil && l.not:
		return nil, nil // what any string has can't be denied
	case e == nil:
		return silence, nil
	case l.not:
		return []*shape{c.refuse(l.s, kString, "format", "its negation can't be decided")}, nil
	}
	return c.strings(l, e), nil
}
