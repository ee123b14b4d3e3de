package jsonschema

import (
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// maxPatterns bounds patternProperties: names are told apart by which of them they match.
const maxPatterns = 6

// members makes the rules of an object's members: in any order, or in that of the schema where they are counted.
type members struct {
	c      *compiler
	list   []member
	listed bool           // all have to come, and in the order of the schema, which is its author's
	lead   int            // members before the first that must be
	extra  []grammar.Expr // members of other names
	some   []grammar.Expr // of which one has to be, if there are any
	differ bool           // that names differ is seen while they are written
	min    int
	max    int
	cap    int // members are counted up to this
	states map[[2]int]grammar.Ref
}

type member struct {
	name     string
	expr     grammar.Expr
	required bool
}

// object returns the texts of the objects.
func (c *compiler) object(o objects) (grammar.Expr, error) {
	if len(o.some) == 0 {
		return c.members(o, nil)
	}
	if len(o.some) > 1 {
		return nil, o.some[0].denied
	}
	some := o.some[0]
	o.some = nil
	// It is one of those that have a name here, or another.
	out := grammar.Alt{}
	names, _ := o.namesOf(!c.opts.Exact && o.closed())
	for _, name := range names {
		if some.name != nil && !grammar.Match(nil, some.name, name, c.matching) {
			continue
		}
		with := objects{required: []string{name}, max: -1}
		if some.value != nil {
			with.apps = []objectApp{{props: []prop{{name, *some.value}}, silent: true}}
		}
		one := o
		one.merge(&with)
		e, err := c.members(one, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	e, err := c.members(o, &some)
	if err != nil {
		return nil, err
	}
	return append(out, e), nil
}

// members returns the texts of the objects of which some member is of other names, if that is not nil.
func (c *compiler) members(o objects, some *someMember) (grammar.Expr, error) {
	m := &members{c: c, min: o.min, max: o.max, cap: max(1, o.min), states: map[[2]int]grammar.Ref{}}
	if o.max >= 0 {
		m.cap = max(o.max, 1)
	}
	language, err := c.nameLanguage(o.names)
	if err != nil {
		return nil, err
	}
	closed := !c.opts.Exact && o.closed()
	names, all := o.namesOf(closed)
	must := map[string]bool{}
	for _, name := range o.required {
		must[name] = true
	}
	for _, name := range names {
		c.work.Do(8 + len(o.apps))
		s := o.of(name)
		void, err := c.empty(s)
		if err != nil {
			return nil, err
		}
		if void || language != nil && !grammar.Match(nil, language, name, c.matching) {
			if must[name] {
				return grammar.Alt{}, nil
			}
			continue
		}
		v, err := c.value(s)
		if err != nil {
			return nil, err
		}
		m.list = append(m.list, member{name, grammar.Seq{c.name(grammar.Lit(name)), c.colon(), v}, must[name]})
	}
	// Who has properties in one order and required in another thinks of none.
	m.listed = !c.opts.Exact && !c.doc.sorted &&
		slices.EqualFunc(m.list, o.required, func(at member, name string) bool { return at.name == name })
	for m.lead < len(m.list) && !m.list[m.lead].required {
		m.lead++
	}
	if m.extra, m.some, err = c.extras(o, closed, all, language, some); err != nil {
		return nil, err
	}
	if some != nil && len(m.some) == 0 {
		return grammar.Alt{}, nil
	}
	if m.differ = len(m.extra) > 0 && o.min > len(m.list)+1; m.differ && c.opts.Notation != nil {
		return nil, c.fail(o.counts, "minProperties", "%d can't be decided in this notation where only %d members have names: others may have the same one", o.min, len(m.list))
	}
	inner, ok := m.unordered()
	if !ok {
		if some != nil {
			return nil, some.denied
		}
		inner, err = m.state(0, 0)
	}
	if m.differ {
		return grammar.Distinct{Elements: grammar.Seq{c.space(), inner}, Names: true}, err
	}
	return grammar.Seq{grammar.Lit("{"), c.space(), inner, grammar.Lit("}")}, err
}

// closed reports whether an object has no other members than those described: some are,
// and no schema says what others are.
func (o *objects) closed() bool {
	is := false
	for _, app := range o.apps {
		if app.rest != nil {
			return false
		}
		is = is || !app.silent && len(app.props)+len(app.patterns) > 0
	}
	return is
}

// namesOf returns the names of members in order, and all names that schemas mention.
func (o *objects) namesOf(closed bool) (names, all []string) {
	seen := map[string]bool{}
	for _, silent := range []bool{false, true} {
		for _, app := range o.apps {
			for _, p := range app.props {
				if app.silent != silent || seen[p.name] {
					continue
				}
				seen[p.name] = true
				all = append(all, p.name)
				if !silent || !closed {
					names = append(names, p.name)
				}
			}
		}
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	for _, name := range o.required {
		if !named[name] {
			named[name] = true
			names = append(names, name)
		}
		if !seen[name] {
			all = append(all, name)
		}
	}
	return names, all
}

// nameLanguage returns what names may say; nil is anything.
func (c *compiler) nameLanguage(s set) (grammar.Expr, error) {
	if len(s) == 0 {
		return nil, nil
	}
	shapes, err := c.expand(s)
	if err != nil {
		return nil, err
	}
	return textsOf(shapes)
}

// textsOf returns what the strings among shapes may say; nil is anything.
func textsOf(shapes []*shape) (grammar.Expr, error) {
	out := grammar.Alt{}
	for _, x := range shapes {
		if x.kinds&kString == 0 {
			continue
		}
		if err := x.refused[kString]; err != nil {
			return nil, err
		}
		if x.str.free() {
			return nil, nil
		}
		out = append(out, x.str.language())
	}
	return out, nil
}

// extras returns the members of names that no schema mentions, by the patterns that the
// names match. Where one has to be of a kind, those that are come apart. The others have no name of that kind then, since
// one of them might have the same and another value.
func (c *compiler) extras(o objects, closed bool, all []string, language grammar.Expr, one *someMember) (out, some []grammar.Expr, err error) {
	var patterns []pattern
	for _, app := range o.apps {
		for _, p := range app.patterns {
			if !slices.ContainsFunc(patterns, func(q pattern) bool { return q.source == p.source }) {
				patterns = append(patterns, p)
			}
		}
	}
	if len(patterns) > maxPatterns {
		return nil, nil, c.fail(patterns[0].lit.s, "", "more than %d patterns for the names of one object", maxPatterns)
	}
	for subset := range 1 << len(patterns) {
		c.work.Do(len(all) + len(patterns)*len(o.apps))
		if closed && subset == 0 {
			continue
		}
		matched := func(source string) bool {
			i := slices.IndexFunc(patterns, func(q pattern) bool { return q.source == source })
			return subset>>i&1 != 0
		}
		var s set
		for _, app := range o.apps {
			n := len(s)
			for _, p := range app.patterns {
				if matched(p.source) {
					s = append(s, p.lit)
				}
			}
			if len(s) == n && app.rest != nil {
				s = append(s, *app.rest)
			}
		}
		s = s.with()
		var key []grammar.Expr
		if language != nil {
			key = append(key, language)
		}
		for i, p := range patterns {
			if subset>>i&1 != 0 {
				key = append(key, p.expr)
			} else {
				key = append(key, grammar.Not{Expr: p.expr})
			}
		}
		if len(all) > 0 {
			lits := make(grammar.Alt, len(all))
			for i, name := range all {
				lits[i] = grammar.Lit(name)
			}
			key = append(key, grammar.Not{Expr: lits})
		}
		if one != nil {
			name, with := slices.Clone(key), s
			if one.name != nil {
				name = append(name, one.name)
			}
			if one.value != nil {
				with = s.with(*one.value)
			}
			if some, err = c.extra(some, name, with); err != nil {
				return nil, nil, err
			}
			switch {
			case one.value == nil: // several may come
			case one.name == nil:
				continue
			default:
				key = append(key, grammar.Not{Expr: one.name})
			}
		}
		if out, err = c.extra(out, key, s); err != nil {
			return nil, nil, err
		}
	}
	return out, some, nil
}

// extra appends the members of some names with the values of a set, if there are any.
func (c *compiler) extra(out, names []grammar.Expr, s set) ([]grammar.Expr, error) {
	void, err := c.empty(s)
	if err != nil || void {
		return out, err
	}
	v, err := c.value(s)
	if err != nil {
		return nil, err
	}
	var says grammar.Expr
	if len(names) > 0 {
		says = and(names)
	}
	return append(out, grammar.Seq{c.name(says), c.colon(), v}), nil
}

// unordered returns the members, in any order unless they are listed, where the number of members need not be counted. Those
// that are too many for that may come more than once, as members of other names may.
func (m *members) unordered() (grammar.Expr, bool) {
	e := grammar.AnyOrder{Between: m.c.comma(true)}
	for _, at := range m.list {
		if at.required {
			e.Parts = append(e.Parts, at.expr)
		}
	}
	e.Listed = m.listed && len(m.some) == 0
	if len(m.some) > 0 {
		e.Parts = append(e.Parts, grammar.Alt(m.some))
	}
	e.Must = len(e.Parts)
	if len(e.Parts) == 0 && len(m.list) == 0 || e.Must > grammar.MaxParts || m.max >= 0 || m.min > max(e.Must, 1) {
		return nil, false
	}
	more := grammar.Alt(m.extra)
	for _, at := range m.list {
		switch {
		case at.required:
		case len(e.Parts) < grammar.MaxParts:
			e.Parts = append(e.Parts, at.expr)
		default:
			more = append(more, at.expr)
		}
	}
	if len(more) > 0 {
		e.More = m.c.g.Add("member", more)
	}
	all := grammar.Seq{e, m.c.space()}
	if m.min == 0 && e.Must == 0 {
		return optional(all), true
	}
	return all, true
}

// state returns the members from the i-th on, where n were written before.
func (m *members) state(i, n int) (grammar.Expr, error) {
	key := [2]int{i, n}
	if r, ok := m.states[key]; ok {
		return r, nil
	}
	if len(m.states) > maxStates {
		return nil, m.c.fail(always, "", "the members of an object take more than %d states", maxStates)
	}
	r := m.c.g.Add("members", nil)
	m.states[key] = r
	var seq grammar.Seq
	for ; i < len(m.list); i++ {
		m.c.work.Do(1)
		at := m.list[i]
		next := min(n+1, m.cap)
		full := m.max >= 0 && n >= m.max
		one := grammar.Seq{m.c.comma(n > 0), at.expr}
		switch {
		case at.required && full:
			m.c.g.Rules[r].Expr = grammar.Alt{}
			return r, nil
		case at.required:
			seq, n = append(seq, one...), next
			continue
		case full:
			continue
		case n == m.cap && m.max < 0 && i > m.lead:
			seq = append(seq, optional(one))
			continue
		}
		with, err := m.state(i+1, next)
		if err != nil {
			return nil, err
		}
		without, err := m.state(i+1, n)
		if err != nil {
			return nil, err
		}
		m.c.g.Rules[r].Expr = append(seq, grammar.Alt{append(one, with), without})
		return r, nil
	}
	m.c.g.Rules[r].Expr = append(seq, m.end(n))
	return r, nil
}

// end returns the members of other names, where n were written before. Since two of them
// may have the same name, they count as one where members must be, unless it is seen that names differ.
func (m *members) end(n int) grammar.Expr {
	out := grammar.Alt{}
	space := m.c.space()
	if n >= m.min {
		if n == 0 {
			space = grammar.Lit("")
		}
		out = append(out, space)
	}
	least := 0 // after the first
	if m.differ {
		least = max(m.min-n-1, 0)
	}
	if len(m.extra) == 0 || n+1+least < m.min || m.max >= 0 && n+least >= m.max {
		return out
	}
	one := m.extra[0]
	if len(m.extra) > 1 {
		one = m.c.g.Add("member", grammar.Alt(m.extra))
	}
	more := -1
	if m.max >= 0 {
		more = m.max - n - 1
	}
	rest := grammar.Repeat{Expr: grammar.Seq{m.c.comma(true), one}, Min: least, Max: more}
	return append(out, grammar.Seq{m.c.comma(n > 0), one, rest, m.c.space()})
}
