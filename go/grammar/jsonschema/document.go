package jsonschema

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A schema is a part of the document that says what a value may be.
type schema struct {
	id    int
	v     *value // an object, true or false
	base  string // of the references within
	path  string // a JSON pointer from the root, for messages
	scope *scope // through which it is reached
}

// A scope is what the anchors mean that depend on the way on which a schema is reached: those of the first resource on it
// that has one of a name. nil: of none.
type scope struct {
	key   string
	first map[string]*value
}

// A reached is a value and the scope in which it is read.
type reached struct {
	v     *value
	scope *scope
}

// A place is where a schema is written.
type place struct{ base, path string }

// A document is a schema with all that it may refer to.
type document struct {
	schemas   map[reached]*schema
	places    map[*value]place
	resources map[string]*value            // by absolute URI
	anchors   map[string]*value            // by URI#name
	dynamic   map[string]int               // how many $dynamicAnchor there are of a name
	within    map[string]map[string]*value // those of a resource
	scopes    map[string]*scope
	old       bool // draft 7 or before: $ref stands alone
	evaluated bool // some schema is about what others have evaluated
	sorted    bool // by a program: the order of members says nothing
}

// Where schemas are within schemas.
var (
	nested = map[string]bool{
		"not": true, "if": true, "then": true, "else": true, "items": true, "additionalItems": true, "additionalProperties": true, "unevaluatedItems": true,
		"unevaluatedProperties": true, "contains": true, "propertyNames": true, "contentSchema": true,
	}
	nestedLists = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "prefixItems": true, "items": true}
	nestedMaps  = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true, "dependencies": true}
)

func newDocument(root *value) *document {
	d := &document{
		schemas: map[reached]*schema{}, places: map[*value]place{}, resources: map[string]*value{"": root}, anchors: map[string]*value{},
		dynamic: map[string]int{}, within: map[string]map[string]*value{}, scopes: map[string]*scope{}, sorted: sorted(root),
	}
	if s := root.member("$schema"); s != nil {
		for _, old := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
			d.old = d.old || strings.Contains(s.text, old)
		}
	}
	d.survey(root, "", "#")
	return d
}

// survey finds the schemas within v, and the names that they have.
func (d *document) survey(v *value, base, path string) {
	if _, known := d.places[v]; v.kind != '{' || known {
		return
	}
	id := v.member("$id")
	if id == nil {
		id = v.member("id")
	}
	alone := d.old && v.member("$ref") != nil
	if id != nil && id.kind == '"' && !alone {
		if name, ok := strings.CutPrefix(id.text, "#"); ok {
			d.anchors[base+"#"+name] = v
		} else if uri, err := resolve(base, id.text); err == nil {
			base, _, _ = strings.Cut(uri, "#")
			d.resources[base] = v
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if a := v.member(key); a != nil && a.kind == '"' {
			d.anchors[base+"#"+a.text] = v
			if key == "$dynamicAnchor" {
				d.dynamic[a.text]++
				if d.within[base] == nil {
					d.within[base] = map[string]*value{}
				}
				d.within[base][a.text] = v
			}
		}
	}
	for _, key := range []string{"$ref", "$dynamicRef"} {
		if ref := v.member(key); ref != nil && ref.kind == '"' {
			d.load(base, ref.text)
		}
	}
	d.places[v] = place{base, path}
	d.evaluated = d.evaluated || v.member("unevaluatedProperties") != nil || v.member("unevaluatedItems") != nil
	for i, name := range v.names {
		sub, at := v.items[i], path+"/"+escape(name)
		switch {
		case sub.kind == '{' && nested[name]:
			d.survey(sub, base, at)
		case sub.kind == '[' && nestedLists[name]:
			for k, item := range sub.items {
				d.survey(item, base, at+"/"+strconv.Itoa(k))
			}
		case sub.kind == '{' && nestedMaps[name]:
			for k, item := range sub.items {
				d.survey(item, base, at+"/"+escape(sub.names[k]))
			}
		}
	}
}

// load adds the metaschema to which a reference leads, if it does.
func (d *document) load(base, ref string) {
	uri, err := resolve(base, ref)
	uri, _, _ = strings.Cut(uri, "#")
	text, ok := metaschemas[uri]
	if err != nil || !ok || d.resources[uri] != nil {
		return
	}
	if v, err := parse([]byte(text)); err == nil {
		d.survey(v, uri, uri)
		d.resources[uri] = v
	}
}

// schema returns the schema that a value is, where it is reached through a scope. A value that is not among the schemas of
// the document has a base and a path.
func (d *document) schema(v *value, base, path string, from *scope) *schema {
	if p, ok := d.places[v]; ok {
		base, path = p.base, p.path
	}
	key := reached{v, d.enter(from, base)}
	s := d.schemas[key]
	if s == nil {
		s = &schema{len(d.schemas), v, base, path, key.scope}
		d.schemas[key] = s
	}
	return s
}

// enter returns a scope with a resource.
func (d *document) enter(from *scope, base string) *scope {
	first := map[string]*value{}
	key := ""
	if from != nil {
		key = from.key
	}
	for name, v := range d.within[base] {
		if d.dynamic[name] > 1 && (from == nil || from.first[name] == nil) {
			first[name] = v
		}
	}
	if len(first) == 0 {
		return from
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		key += fmt.Sprintf("%q %p ", name, first[name])
	}
	if s := d.scopes[key]; s != nil {
		return s
	}
	if from != nil {
		maps.Copy(first, from.first)
	}
	s := &scope{key, first}
	d.scopes[key] = s
	return s
}

// escape returns a name as a part of a JSON pointer.
func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// resolve returns the URI that a reference means.
func resolve(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	r, err := url.Parse(ref)
	if err != nil {
		return "", err
	}
	return b.ResolveReference(r).String(), nil
}

// target returns the schema that a reference means. One to a dynamic anchor means the first of that name on the way.
func (d *document) target(s *schema, ref string, dynamic bool) (*schema, error) {
	uri, err := resolve(s.base, ref)
	if err != nil {
		return nil, fmt.Errorf("%q is no URI", ref)
	}
	base, fragment, _ := strings.Cut(uri, "#")
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return nil, fmt.Errorf("%q is no URI", ref)
	}
	v := d.anchors[base+"#"+fragment]
	if dynamic && s.scope != nil && d.within[base][fragment] == v && s.scope.first[fragment] != nil {
		v = s.scope.first[fragment]
	}
	if v == nil {
		if v = d.resources[base]; v == nil {
			return nil, fmt.Errorf("%q is not within the schema; want a reference into it", ref)
		}
		if fragment != "" && !strings.HasPrefix(fragment, "/") {
			return nil, fmt.Errorf("the schema has no anchor %q", fragment)
		}
		for _, name := range strings.Split(fragment, "/")[1:] {
			if v = v.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(name)); v == nil {
				return nil, fmt.Errorf("the schema has no %q", ref)
			}
		}
	}
	if v.kind != '{' && v.kind != 't' && v.kind != 'f' {
		return nil, fmt.Errorf("%q is %s, want a schema", ref, v)
	}
	return d.schema(v, base, ref, s.scope), nil
}

// step returns a member or an element, nil if it is missing.
func (v *value) step(name string) *value {
	if v.kind == '[' {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v.items) {
			return v.items[i]
		}
		return nil
	}
	return v.member(name)
}
