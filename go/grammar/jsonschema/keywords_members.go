package jsonschema

import (
	"fmt"

	"github.com/quern-llm/quern/go/grammar"
)

// readMembers reads what is said about members by their names, at the first of the
// keywords that say it.
func readMembers(c *compiler, l literal, name string, v *value) ([]*shape, error) {
	s := l.s.v
	for _, n := range s.names {
		if n == "properties" || n == "patternProperties" || n == "additionalProperties" {
			if n != name {
				return silence, nil
			}
			break
		}
	}
	var app objectApp
	if list := s.member("properties"); list != nil && list.kind == '{' {
		app.at = list.at
	}
	for _, key := range []string{"properties", "patternProperties"} {
		list := s.member(key)
		if list == nil {
			continue
		}
		if list.kind != '{' {
			return nil, c.fail(l.s, key, "%s, want an object of schemas", list)
		}
		for i, name := range list.names {
			sub, err := c.sub(l.s, list.items[i], key+"/"+escape(name))
			if err != nil {
				return nil, err
			}
			if key == "properties" {
				app.props = append(app.props, prop{name, literal{s: sub}})
				continue
			}
			e, err := c.pattern(&value{kind: '"', text: name})
			if err != nil {
				return nil, c.fail(l.s, key, "%q: %v", name, err)
			}
			app.patterns = append(app.patterns, pattern{name, e, literal{s: sub}, c.matching})
		}
	}
	if rest := s.member("additionalProperties"); rest != nil {
		sub, err := c.sub(l.s, rest, "additionalProperties")
		if err != nil {
			return nil, err
		}
		app.rest = &literal{s: sub}
	}
	if !l.not {
		return l.one(kObject, func(s *shape) { s.obj.apps = []objectApp{app} }), nil
	}
	var out []*shape
	for _, p := range app.props {
		o := only(kObject)
		o.obj.apps, o.obj.required = []objectApp{{props: []prop{{p.name, literal{p.lit.s, true}}}}}, []string{p.name}
		out = append(out, o)
	}
	for _, p := range app.patterns {
		var err error
		if out, err = c.someMember(out, l.s, "patternProperties", p.expr, p.lit.s); err != nil {
			return nil, err
		}
	}
	if app.rest == nil {
		return out, nil
	}
	return c.someMember(out, l.s, "additionalProperties", app.others(), app.rest.s)
}

// others returns the names that are neither described nor of a pattern, nil: all are others.
func (app *objectApp) others() grammar.Expr {
	var known grammar.Alt
	for _, p := range app.props {
		known = append(known, grammar.Lit(p.name))
	}
	for _, p := range app.patterns {
		known = append(known, p.expr)
	}
	if known == nil {
		return nil
	}
	return grammar.Not{Expr: known}
}

// someMember appends the objects with a member of some names whose value is not what a schema allows.
func (c *compiler) someMember(out []*shape, s *schema, keyword string, names grammar.Expr, sub *schema) ([]*shape, error) {
	not := literal{sub, true}
	void, err := c.empty(set{not}.with())
	if err != nil || void {
		return out, err
	}
	some := someMember{name: names, value: &not, denied: &Error{s.path, keyword, "its negation can't be decided beside what else is said of the members"}}
	if sub.v.kind == 'f' {
		some.value = nil
	}
	o := only(kObject)
	o.obj.some = []someMember{some}
	return append(out, o), nil
}

// absent returns the shape of objects without a member, and where others is true of all
// that is no object.
func absent(name string, others bool) *shape {
	s := top()
	if !others {
		s.kinds = kObject
	}
	s.about = kObject
	s.obj.apps = []objectApp{{props: []prop{{name, literal{s: never}}}, silent: true}}
	return s
}

func readRequired(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	if _, ok := v.bool(); ok {
		return silence, nil // draft 3: it is about the member that the schema is of
	}
	names, err := v.strings()
	if err != nil {
		return nil, err
	}
	if !l.not {
		return l.one(kObject, func(s *shape) { s.obj.merge(&objects{required: names, max: -1}) }), nil
	}
	var out []*shape
	for _, name := range names {
		out = append(out, absent(name, false))
	}
	return out, nil
}

func readNames(c *compiler, l literal, _ string, v *value) ([]*shape, error) {
	sub, err := c.sub(l.s, v, "propertyNames")
	if err != nil {
		return nil, err
	}
	if l.not { // some name is not so
		shapes, err := c.expand(set{{sub, true}}.with())
		if err != nil {
			return nil, err
		}
		names, err := textsOf(shapes)
		if err != nil {
			return []*shape{c.refuse(l.s, kObject, "propertyNames", "its negation can't be decided")}, nil
		}
		if alt, is := names.(grammar.Alt); is && len(alt) == 0 {
			return nil, nil
		}
		return c.someMember(nil, l.s, "propertyNames", names, never)
	}
	return l.one(kObject, func(s *shape) { s.obj.names = set{{s: sub}}.with() }), nil
}

func readMinMembers(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	if err != nil || l.not && n == 0 {
		return nil, err
	}
	return l.one(kObject, func(s *shape) {
		if l.not {
			s.obj.max = n - 1
		} else {
			s.obj.min, s.obj.counts = n, l.s
		}
	}), nil
}

func readMaxMembers(_ *compiler, l literal, _ string, v *value) ([]*shape, error) {
	n, err := v.count()
	return l.one(kObject, func(s *shape) {
		if l.not {
			s.obj.min, s.obj.counts = n+1, l.s
		} else {
			s.obj.max = n
		}
	}), err
}

// readDependent reads what holds where a member is there: other members are, or a schema
// holds.
func readDependent(c *compiler, l literal, name string, v *value) ([]*shape, error) {
	if v.kind != '{' {
		return nil, fmt.Errorf("%s, want an object", v)
	}
	out := []*shape{top()}
	if l.not {
		out = nil
	}
	for i, if_ := range v.names {
		then := v.items[i]
		var held []*shape
		var err error
		if then.kind == '[' {
			held, err = readRequired(c, l, name, then)
		} else {
			var sub *schema
			if sub, err = c.sub(l.s, then, name+"/"+escape(if_)); err == nil {
				held, err = c.shapes(literal{sub, l.not})
			}
		}
		if err != nil {
			return nil, err
		}
		if l.not { // it is there, and what should hold does not
			there := only(kObject)
			there.obj.required = []string{if_}
			for _, h := range held {
				if both := there.and(h); both != nil {
					out = append(out, both)
				}
			}
			continue
		}
		there := top()
		there.about, there.obj.required = kObject, []string{if_}
		if held, err = c.product([]*shape{there}, held, l.s); err != nil {
			return nil, err
		}
		if out, err = c.product(out, append([]*shape{absent(if_, true)}, held...), l.s); err != nil {
			return nil, err
		}
	}
	return out, nil
}
