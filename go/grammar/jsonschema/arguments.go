package jsonschema

import (
	"errors"
	"maps"

	"github.com/quern-llm/quern/go/grammar"
)

// An Object is the members of the objects that a schema allows, in order, for those who write each of them apart.
type Object struct {
	Members []Member
	Others  *Member // what members of other names are; nil: there are none
}

// A Member is one of an object's.
type Member struct {
	Name     string
	Required bool

	c *compiler
	s set
}

// Arguments returns the objects that a schema allows, as alternatives. What it says about
// the number of members and about other names is refused.
func Arguments(g *grammar.Grammar, text []byte, opts Options) (out []Object, err error) {
	defer grammar.Catch(&err)
	c, err := newCompiler(g, text, opts)
	if err != nil {
		return nil, err
	}
	c.begun = true
	shapes, err := c.expand(set{{s: c.root}}.with())
	if err != nil {
		return nil, err
	}
	for _, x := range shapes {
		if !opts.Exact {
			x = x.meant(true)
		}
		if x.kinds&kObject == 0 {
			continue
		}
		if err := x.refused[kObject]; err != nil {
			return nil, err
		}
		o, ok, err := c.arguments(x.obj)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, o)
		}
	}
	if out == nil {
		return nil, errors.New("the schema allows no object")
	}
	return out, nil
}

// arguments returns the members of objects, false if there are no such objects.
func (c *compiler) arguments(o objects) (out Object, ok bool, err error) {
	if o.min > len(o.required) || o.max >= 0 || len(o.names) > 0 {
		return out, false, c.fail(c.root, "", "minProperties, maxProperties and propertyNames can't be decided where each member is written apart")
	}
	if len(o.some) > 0 {
		return out, false, o.some[0].denied
	}
	closed := !c.opts.Exact && o.closed()
	must := map[string]bool{}
	for _, name := range o.required {
		must[name] = true
	}
	names, _ := o.namesOf(closed)
	for _, name := range names {
		c.work.Do(8 + len(o.apps))
		s := o.of(name)
		void, err := c.empty(s)
		switch {
		case err != nil:
			return out, false, err
		case void && must[name]:
			return out, false, nil
		case !void:
			out.Members = append(out.Members, Member{Name: name, Required: must[name], c: c, s: s})
		}
	}
	if closed {
		return out, true, nil
	}
	var rest set
	for _, app := range o.apps {
		if len(app.patterns) > 0 {
			return out, false, c.fail(app.patterns[0].lit.s, "", "patternProperties can't be decided where each member is written apart")
		}
		if app.rest != nil {
			rest = append(rest, *app.rest)
		}
	}
	rest = rest.with()
	void, err := c.empty(rest)
	if err == nil && !void {
		out.Others = &Member{c: c, s: rest}
	}
	return out, true, err
}

// Value returns the texts of the member's values.
func (m *Member) Value() (grammar.Expr, error) {
	n := len(m.c.g.Rules)
	e, err := m.value()
	if err != nil { // what was begun has no texts, and what was made meanwhile may refer to it
		for i := range m.c.g.Rules[n:] {
			if r := &m.c.g.Rules[n+i]; r.Expr == nil {
				r.Expr = grammar.Alt{}
			}
		}
		made := func(_ string, r grammar.Ref) bool { return int(r) >= n }
		maps.DeleteFunc(m.c.rules, made)
		maps.DeleteFunc(m.c.common, made)
	}
	return e, err
}

func (m *Member) value() (e grammar.Expr, err error) {
	defer grammar.Catch(&err)
	return m.c.value(m.s)
}

// Text returns what the member's values say, where all of them are strings; nil: anything.
func (m *Member) Text() (e grammar.Expr, err error) {
	defer grammar.Catch(&err)
	shapes, err := m.c.expand(m.s)
	if err != nil {
		return nil, err
	}
	return textsOf(shapes)
}
