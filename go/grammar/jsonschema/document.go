package jsonschema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A schema is a part of the document that says what a value may be.
type schema struct {
	id   int
	v    *value // an object, true or false
	base string // of the references within
	path string // a JSON pointer from the root, for messages
}

// A document is a schema with all that it may refer to.
type document struct {
	schemas   map[*value]*schema
	resources map[string]*value // by absolute URI
	anchors   map[string]*value // by URI#name
	dynamic   map[string]int    // how many $dynamicAnchor there are of a name
	old       bool              // draft 7 or before: $ref stands alone
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
	d := &document{schemas: map[*value]*schema{}, resources: map[string]*value{"": root}, anchors: map[string]*value{}, dynamic: map[string]int{}}
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
	if v.kind != '{' || d.schemas[v] != nil {
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
			}
		}
	}
	d.schema(v, base, path)
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

// schema returns the schema that a value is.
func (d *document) schema(v *value, base, path string) *schema {
	s := d.schemas[v]
	if s == nil {
		s = &schema{len(d.schemas), v, base, path}
		d.schemas[v] = s
	}
	return s
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
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

// target returns the schema that a reference means.
func (d *document) target(s *schema, ref string) (*schema, error) {
	uri, err := resolve(s.base, ref)
	if err != nil {
		return nil, fmt.Errorf("%q is no URI", ref)
	}
	base, fragment, _ := strings.Cut(uri, "#")
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return nil, fmt.Errorf("%q is no URI", ref)
	}
	v := d.anchors[base+"#"+fragment]
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
	return d.schema(v, base, ref), nil
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
