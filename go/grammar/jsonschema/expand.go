package jsonschema

import (
	"fmt"
	"slices"
)

// expand returns the shapes of the values that a set allows.
func (c *compiler) expand(s set) ([]*shape, error) {
	shapes := []*shape{top()}
	for _, l := range s {
		more, err := c.shapes(l)
		if err != nil {
			return nil, err
		}
		if shapes, err = c.product(shapes, more, l.s); err != nil {
			return nil, err
		}
	}
	return shapes, nil
}

// product returns what is in one of a and in one of b.
func (c *compiler) product(a, b []*shape, s *schema) ([]*shape, error) {
	var out []*shape
	for _, x := range a {
		for _, y := range b {
			c.work.Do(x.size() + y.size())
			if c.steps++; c.steps > maxSteps {
				return nil, c.fail(s, "", "the schema is too large")
			}
			if both := x.and(y); both != nil {
				out = append(out, both)
			}
		}
		if len(out) > maxShapes {
			return nil, c.fail(s, "", "more than %d alternatives together", maxShapes)
		}
	}
	return out, nil
}

// shapes returns the shapes of one schema.
func (c *compiler) shapes(l literal) ([]*shape, error) {
	if out, ok := c.known[l]; ok {
		return out, nil
	}
	if c.within[l] {
		return nil, c.fail(l.s, "$ref", "the schema refers to itself without end")
	}
	c.within[l] = true
	defer delete(c.within, l)
	if c.depth++; c.depth > maxNesting {
		return nil, c.fail(l.s, "", "schemas nest more than %d deep", maxNesting)
	}
	defer func() { c.depth-- }()
	out, err := c.read(l)
	if err == nil {
		c.known[l] = out
	}
	return out, err
}

func (c *compiler) read(l literal) ([]*shape, error) {
	v := l.s.v
	if is, ok := v.bool(); ok {
		if is == l.not {
			return nil, nil
		}
		return []*shape{top()}, nil
	}
	if v.kind != '{' {
		return nil, c.fail(l.s, "", "%s, want a schema: an object, true or false", v)
	}
	if ref := v.member("$ref"); ref != nil && c.doc.old {
		shapes, err := c.keyword(l, "$ref", ref)
		if err != nil || !c.typed(l.s) || l.not {
			return shapes, err
		}
		types, err := c.keyword(l, "type", v.member("type"))
		if err != nil {
			return nil, err
		}
		both, err := c.product(shapes, types, l.s)
		if len(both) > 0 || err != nil {
			return both, err
		}
		return shapes, nil
	}
	shapes := []*shape{top()}
	if l.not {
		shapes = nil
	}
	var last []string // they are about what the others evaluate
	for i, name := range v.names {
		if name == "unevaluatedProperties" || name == "unevaluatedItems" {
			last = append(last, name)
			continue
		}
		more, err := c.keyword(l, name, v.items[i])
		if err != nil {
			return nil, err
		}
		switch {
		case l.not:
			shapes = append(shapes, more...)
		case more != nil:
			if shapes, err = c.product(shapes, more, l.s); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range last {
		sub, err := c.sub(l.s, v.member(name), name)
		if err != nil {
			return nil, err
		}
		if l.not {
			more, err := c.denied(l.s, name, sub)
			if err != nil {
				return nil, err
			}
			shapes = append(shapes, more...)
			continue
		}
		shapes = slices.Clone(shapes)
		for i, s := range shapes {
			shapes[i] = c.unevaluated(s, name, literal{s: sub})
		}
	}
	if l.not {
		for i, s := range shapes {
			shapes[i] = s.silent()
		}
	}
	return shapes, nil
}

// denied returns the shapes of values of a schema but for one of its keywords, about what the others have not evaluated.
func (c *compiler) denied(s *schema, name string, sub *schema) ([]*shape, error) {
	if name == "unevaluatedItems" {
		return []*shape{c.refuse(s, kArray, name, "its negation can't be decided")}, nil
	}
	rest := &value{kind: '{'}
	for i, n := range s.v.names {
		if n != name {
			rest.names, rest.items = append(rest.names, n), append(rest.items, s.v.items[i])
		}
	}
	held, err := c.shapes(literal{s: c.doc.schema(rest, s.base, s.path, s.scope)})
	if err != nil {
		return nil, err
	}
	var out []*shape
	for _, x := range held {
		app := x.obj.others(literal{s: sub})
		if app == nil || x.kinds&kObject == 0 {
			continue
		}
		if x.loose {
			out = append(out, c.refuse(s, kObject, name, "its negation can't be decided"))
			continue
		}
		some, err := c.someMember(nil, s, name, app.others(), sub)
		if err != nil {
			return nil, err
		}
		for _, y := range some {
			if both := x.and(y); both != nil {
				out = append(out, both)
			}
		}
	}
	return out, nil
}

// typed reports whether a schema has a type beside a reference that stands alone to the letter. Its author means both.
func (c *compiler) typed(s *schema) bool { return !c.opts.Exact && s.v.member("type") != nil }

// unevaluated adds what holds of the members or elements of which nothing was said. Of elements that an array has to
// contain it is said that they are so.
func (c *compiler) unevaluated(s *shape, name string, rest literal) *shape {
	out := *s
	if name == "unevaluatedItems" {
		some := &value{kind: '['}
		for _, has := range s.arr.contains {
			if !has.silent && !has.lit.not {
				some.items = append(some.items, has.lit.s.v)
			}
		}
		if len(some.items) > 0 {
			some.items = append(some.items, rest.s.v)
			either := &value{kind: '{', names: []string{"anyOf"}, items: []*value{some}}
			rest.s = c.doc.schema(either, rest.s.base, rest.s.path, rest.s.scope)
		}
		app := arrayApp{rest: &rest}
		for _, a := range s.arr.apps {
			if a.silent {
				continue
			}
			if a.rest != nil {
				return s // all are evaluated
			}
			for len(app.prefix) < len(a.prefix) {
				app.prefix = append(app.prefix, literal{s: always})
			}
		}
		out.arr.apps = append(slices.Clone(s.arr.apps), app)
		out.about |= kArray
		return &out
	}
	app := s.obj.others(rest)
	if app == nil {
		return s
	}
	out.obj.apps = append(slices.Clone(s.obj.apps), *app)
	out.about |= kObject
	return &out
}

// others returns what holds of the members that nothing has evaluated; nil: all are evaluated.
func (o *objects) others(rest literal) *objectApp {
	app := &objectApp{rest: &rest}
	for _, a := range o.apps {
		if a.silent {
			continue
		}
		if a.rest != nil {
			return nil
		}
		for _, p := range a.props {
			app.props = append(app.props, prop{p.name, literal{s: always}})
		}
		for _, p := range a.patterns {
			p.lit = literal{s: always}
			app.patterns = append(app.patterns, p)
		}
	}
	return app
}

// silent returns the shape of a negation: what it says evaluates nothing.
func (a *shape) silent() *shape {
	out := *a
	out.arr.apps, out.obj.apps, out.arr.contains = slices.Clone(a.arr.apps), slices.Clone(a.obj.apps), slices.Clone(a.arr.contains)
	for i := range out.arr.contains {
		out.arr.contains[i].silent = true
	}
	for i := range out.arr.apps {
		out.arr.apps[i].silent = true
	}
	for i := range out.obj.apps {
		out.obj.apps[i].silent = true
	}
	return &out
}

// always is the schema that allows all.
var always = &schema{id: -1, v: &value{kind: 't'}, path: "#"}

// never is the schema that allows nothing.
var never = &schema{id: -2, v: &value{kind: 'f'}, path: "#"}

// sub returns the schema in a member of s.
func (c *compiler) sub(s *schema, v *value, at string) (*schema, error) {
	if v.kind != '{' && v.kind != 't' && v.kind != 'f' {
		return nil, c.fail(s, at, "%s, want a schema: an object, true or false", v)
	}
	return c.doc.schema(v, s.base, s.path+"/"+at, s.scope), nil
}

// subs returns the schemas in an array.
func (c *compiler) subs(s *schema, v *value, at string) ([]*schema, error) {
	if v.kind != '[' {
		return nil, c.fail(s, at, "%s, want an array of schemas", v)
	}
	out := make([]*schema, len(v.items))
	for i, item := range v.items {
		sub, err := c.sub(s, item, fmt.Sprintf("%s/%d", at, i))
		if err != nil {
			return nil, err
		}
		out[i] = sub
	}
	return out, nil
}

// refuse is a shape of values that can't be decided.
func (c *compiler) refuse(s *schema, k kinds, keyword, reason string) *shape {
	out := only(k)
	out.refused = map[kinds]*Error{}
	for one := kinds(1); one < kAll; one <<= 1 {
		if k&one != 0 {
			out.refused[one] = &Error{s.path, keyword, reason}
		}
	}
	return out
}

// empty reports whether a set allows nothing, as far as that is seen without following
// schemas that refer to themselves.
func (c *compiler) empty(s set) (bool, error) {
	return c.hollow(s, map[string]bool{}, 0)
}

func (c *compiler) hollow(s set, within map[string]bool, depth int) (bool, error) {
	key := s.key()
	if len(s) == 0 {
		return false, nil
	}
	if is, ok := c.barren[key]; ok {
		return is, nil
	}
	if within[key] || depth > 8 {
		c.cuts++
		return false, nil
	}
	cuts := c.cuts
	within[key] = true
	defer delete(within, key)
	shapes, err := c.expand(s)
	if err != nil {
		return false, err
	}
	is := true
	for _, x := range shapes {
		if x.kinds&^(kArray|kObject) != 0 {
			is = false
			break
		}
		void := true
		if x.kinds&kObject != 0 {
			if void, err = c.without(x, within, depth); err != nil {
				return false, err
			}
		}
		if x.kinds&kArray != 0 {
			v, err := c.bare(x, within, depth)
			if err != nil {
				return false, err
			}
			void = void && v
		}
		if !void {
			is = false
			break
		}
	}
	if depth == 0 || is || c.cuts == cuts {
		c.barren[key] = is
	}
	return is, nil
}

// without reports whether a required member can't be.
func (c *compiler) without(x *shape, within map[string]bool, depth int) (bool, error) {
	for _, name := range x.obj.required {
		void, err := c.hollow(x.obj.of(name), within, depth+1)
		if err != nil || void {
			return void, err
		}
	}
	return false, nil
}

// bare reports whether an element that must be can't be.
func (c *compiler) bare(x *shape, within map[string]bool, depth int) (bool, error) {
	for i := range min(x.arr.min, x.arr.prefix()+1) {
		void, err := c.hollow(x.arr.at(i), within, depth+1)
		if err != nil || void {
			return void, err
		}
	}
	for _, has := range x.arr.contains {
		if has.min == 0 {
			continue
		}
		void := true
		for i := range x.arr.prefix() + 1 {
			if x.arr.max >= 0 && i >= x.arr.max {
				break
			}
			v, err := c.hollow(x.arr.at(i).with(has.lit), within, depth+1)
			if err != nil {
				return false, err
			}
			void = void && v
		}
		if void {
			return true, nil
		}
	}
	return false, nil
}
