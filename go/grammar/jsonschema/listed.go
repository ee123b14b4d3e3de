package jsonschema

import "slices"

// Branches of a oneOf or an anyOf are often values that are listed, or objects that one listed member tells apart. Such are
// told apart and put together by their values, not pair by pair.

// scalarKinds are the kinds of values that can be listed.
const scalarKinds = kNull | kTrue | kFalse | kNumber | kString

// listed reports whether a shape is no more than a list of scalars.
func (a *shape) listed() bool {
	return a.kinds&^scalarKinds == 0 && (a.kinds&kString == 0 || a.str.only) && (a.kinds&kNumber == 0 || a.num.only) && len(a.refused) == 0
}

// values adds the values of a shape that is a list to those of others, each by what tells it from others. It returns how
// many there are.
func (a *shape) values(to map[string]bool) (n int) {
	add := func(key string) { n, to[key] = n+1, true }
	for k := kNull; k <= kFalse; k <<= 1 {
		if a.kinds&k != 0 {
			add(string(rune(k)))
		}
	}
	if a.kinds&kString != 0 {
		for _, s := range a.str.in {
			add(`"` + s)
		}
	}
	if a.kinds&kNumber != 0 {
		for _, v := range a.num.in {
			if r, ok := rational(v); ok {
				add("#" + r.RatString())
			}
		}
	}
	return n
}

// joined returns shapes, of which there are more than some, with the lists of values among them as one, in the place of the
// first.
func (c *compiler) joined(shapes []*shape, some int) []*shape {
	if len(shapes) <= some {
		return shapes
	}
	first := slices.IndexFunc(shapes, (*shape).listed)
	if first < 0 {
		return shapes
	}
	all := *only(0)
	seen := map[string]bool{}
	out := slices.Clone(shapes[:first])
	out = append(out, &all)
	for _, s := range shapes[first:] {
		if !s.listed() {
			out = append(out, s)
			continue
		}
		all.kinds, all.about, all.loose = all.kinds|s.kinds, all.about|s.about, all.loose || s.loose
		for _, text := range s.str.in {
			if key := `"` + text; s.kinds&kString != 0 && !seen[key] {
				seen[key], all.str.only = true, true
				all.str.in = append(all.str.in, text)
			}
		}
		for _, v := range s.num.in {
			r, ok := rational(v)
			if key := "#" + r.RatString(); ok && s.kinds&kNumber != 0 && !seen[key] {
				seen[key], all.num.only = true, true
				all.num.in = append(all.num.in, v)
			}
		}
		c.work.Do(1 + len(s.str.in) + len(s.num.in))
	}
	return out
}

// tells is what tells a schema from others, as far as that is seen at once.
type tells struct {
	values  map[string]bool            // that it has, if they are listed
	members map[string]map[string]bool // the listed values of members that all its values have, which are objects
}

// apart reports whether no value is of both schemas.
func (a *tells) apart(b *tells) bool {
	switch {
	case a.values != nil && b.values != nil:
		return disjoint(a.values, b.values)
	case a.values != nil || b.values != nil:
		return a.members != nil || b.members != nil
	}
	for name, values := range a.members {
		if other := b.members[name]; other != nil && disjoint(values, other) {
			return true
		}
	}
	return false
}

// allApart reports whether schemas are lists of values of which none has two.
func allApart(all []tells) bool {
	seen := map[string]bool{}
	n := 0
	for _, t := range all {
		if t.values == nil {
			return false
		}
		for key := range t.values {
			seen[key] = true
		}
		if n += len(t.values); n != len(seen) {
			return false
		}
	}
	return true
}

func disjoint(a, b map[string]bool) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for key := range a {
		if b[key] {
			return false
		}
	}
	return true
}

// tells returns what tells a schema from others.
func (c *compiler) tells(s *schema) (t tells, err error) {
	shapes, err := c.shapes(literal{s: s})
	if err != nil {
		return t, err
	}
	if t.values = c.listedValues(shapes); t.values != nil || len(shapes) != 1 || shapes[0].kinds != kObject {
		return t, nil
	}
	t.members = map[string]map[string]bool{}
	o := &shapes[0].obj
	for _, name := range o.required {
		of, err := c.expand(o.of(name))
		if err != nil {
			return tells{}, nil // it is reported where the member is written
		}
		if values := c.listedValues(of); values != nil {
			t.members[name] = values
		}
	}
	return t, nil
}

// listedValues returns the values of shapes, nil where not all are listed.
func (c *compiler) listedValues(shapes []*shape) map[string]bool {
	values := map[string]bool{}
	for _, s := range shapes {
		if !s.listed() {
			return nil
		}
		c.work.Do(1 + s.values(values))
	}
	return values
}
