package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// anyObject is the schema of arguments of which nothing is said.
const anyObject = `{"type":"object"}`

// arguments returns the JSON of a tool's arguments. A schema that cannot be a grammar is an error
// where it has to be kept to, and otherwise any object does.
func (l *language) arguments(t *Tool) (grammar.Expr, error) {
	schema := t.Parameters
	if schema == nil {
		schema = json.RawMessage(anyObject)
	}
	e, err := l.json(schema)
	if err != nil && !t.Strict {
		e, err = l.json([]byte(anyObject))
	}
	return e, err
}

// json returns the JSON that a schema allows. On failure nothing is added to the grammar.
func (l *language) json(schema []byte) (grammar.Expr, error) {
	n := len(l.g.Rules)
	e, err := jsonschema.Add(l.g, schema, jsonschema.Options{})
	if err != nil {
		l.g.Rules = l.g.Rules[:n]
	}
	return e, err
}

// quote returns the JSON of a text as a literal.
func quote(s string) grammar.Lit {
	b, _ := json.Marshal(s)
	return grammar.Lit(b)
}

func (f object) expr(l *language, t *Tool) (grammar.Expr, error) {
	args, err := l.arguments(t)
	if err != nil {
		return nil, err
	}
	key := func(name string) grammar.Expr {
		return grammar.Seq{quote(name), l.space(), grammar.Lit(":"), l.space()}
	}
	comma := grammar.Seq{l.space(), grammar.Lit(","), l.space()}
	seq := grammar.Seq{grammar.Lit("{"), l.space()}
	if f.id != "" && f.id != "id" { // Cohere's ids count
		seq = append(seq, key(f.id), grammar.Lit(`"`), grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}), Min: 1, Max: 4}, grammar.Lit(`"`), comma)
	}
	seq = append(seq, key(f.name), quote(t.Name), comma, key(f.args), args)
	if f.id == "id" { // Mistral's follow
		letter := grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: 'a', Hi: 'z'})
		id := grammar.Seq{comma, key(f.id), grammar.Lit(`"`), grammar.Repeat{Expr: letter, Min: 9, Max: 9}, grammar.Lit(`"`)}
		seq = append(seq, grammar.Repeat{Expr: id, Max: 1})
	}
	return append(seq, l.space(), grammar.Lit("}")), nil
}

func (f named) expr(l *language, t *Tool) (grammar.Expr, error) {
	args, err := l.arguments(t)
	if err != nil {
		return nil, err
	}
	name := grammar.Seq{grammar.Lit(t.Name)}
	if f.trim != nil { // an id with the name in it
		digits := grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}), Min: 1, Max: 4}
		name = grammar.Seq{grammar.Lit("functions." + t.Name + ":"), digits}
	}
	if f.id != "" {
		letters := grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: 'a', Hi: 'z'}), Min: 9, Max: 9}
		name = append(name, grammar.Repeat{Expr: grammar.Seq{l.text(f.id), letters}, Max: 1})
	}
	return grammar.Seq{l.text(f.before), name, l.text(f.between), l.space(), args, l.fence(f.after)}, nil
}

// A property is an argument by its schema, in the order of that.
type property struct {
	name     string
	schema   json.RawMessage // on its own: what it refers to is within
	required bool
}

// maxProperties bounds the bytes of all properties, each with the definitions that it may refer to.
const maxProperties = 1 << 22

// properties returns the properties of a schema of an object, and whether others may be there too.
func properties(schema json.RawMessage) (all []property, open bool, err error) {
	var s struct {
		Properties  json.RawMessage            `json:"properties"`
		Required    []string                   `json:"required"`
		Additional  json.RawMessage            `json:"additionalProperties"`
		Definitions map[string]json.RawMessage `json:"definitions"`
		Defs        map[string]json.RawMessage `json:"$defs"`
	}
	if schema == nil {
		return nil, true, nil
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, false, err
	}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	open = s.Additional != nil && string(s.Additional) != "false" || s.Properties == nil && s.Additional == nil
	if s.Properties == nil {
		return nil, open, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false, errors.New("properties is no object")
	}
	kept := 0
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, false, err
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, false, err
		}
		name, _ := t.(string)
		one = within(one, s.Definitions, s.Defs)
		if kept += len(one); kept > maxProperties {
			return nil, false, fmt.Errorf("the properties with their definitions have more than %d bytes", maxProperties)
		}
		all = append(all, property{name, one, required[name]})
		delete(required, name)
	}
	if len(required) > 0 {
		return nil, false, errors.New("a property that is required is not among properties")
	}
	return all, open, nil
}

// within returns a schema with the definitions that it may refer to.
func within(schema json.RawMessage, definitions, defs map[string]json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if definitions == nil && defs == nil || json.Unmarshal(schema, &members) != nil || members == nil {
		return schema
	}
	if definitions != nil && members["definitions"] == nil {
		members["definitions"], _ = json.Marshal(definitions)
	}
	if defs != nil && members["$defs"] == nil {
		members["$defs"], _ = json.Marshal(defs)
	}
	out, _ := json.Marshal(members)
	return out
}

// enum returns the values to which a schema limits a text, or nil.
func enum(schema json.RawMessage) (texts []string) {
	var s struct {
		Enum  []any `json:"enum"`
		Const any   `json:"const"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if s.Const != nil {
		s.Enum = []any{s.Const}
	}
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// members returns the arguments of a call, one after another: part writes each, and between comes
// between them. Those that are not required may be left out.
func (l *language) members(t *Tool, between grammar.Expr, part func(p property) (grammar.Expr, error), other grammar.Expr) (grammar.Expr, error) {
	all, open, err := properties(t.Parameters)
	if err != nil {
		if t.Strict {
			return nil, err
		}
		all, open = nil, true
	}
	// From the last to the first: what may follow where one came before, and where none did.
	after := grammar.Expr(grammar.Lit(""))
	begin := after
	if open {
		more := grammar.Repeat{Expr: grammar.Seq{between, other}, Max: -1}
		after, begin = more, grammar.Alt{grammar.Lit(""), grammar.Seq{other, more}}
	}
	for i := len(all) - 1; i >= 0; i-- {
		e, err := part(all[i])
		if err != nil {
			return nil, err
		}
		with, first := grammar.Expr(grammar.Seq{between, e, after}), grammar.Expr(grammar.Seq{e, after})
		if !all[i].required {
			with, first = grammar.Alt{after, with}, grammar.Alt{begin, first}
		}
		after, begin = l.g.Add("arguments", with), l.g.Add("arguments", first)
	}
	return begin, nil
}

func (f params) expr(l *language, t *Tool) (grammar.Expr, error) {
	line := grammar.Repeat{Expr: grammar.Lit("\n")}
	if f.lines {
		line.Max = 1
	}
	argument := func(name grammar.Expr, kind string, value grammar.Expr) grammar.Expr {
		seq := grammar.Seq{l.text(f.key), name}
		if f.typed != "" {
			seq = append(seq, grammar.Lit(f.typed+kind))
		}
		return append(seq, l.text(f.colon), l.fence(f.open), line, value, line, l.text(f.stop))
	}
	part := func(p property) (grammar.Expr, error) {
		kinds := schemaKinds(p.schema, p.schema)
		text := len(kinds) == 1 && kinds[0] == "string"
		if text || kinds == nil {
			value := l.free(f.stop)
			if some := enum(p.schema); text && some != nil {
				alt := grammar.Alt{}
				for _, v := range some {
					alt = append(alt, grammar.Lit(v))
				}
				value = alt
			}
			return argument(grammar.Lit(p.name), "true", value), nil
		}
		value, err := l.json(p.schema)
		if err != nil {
			if t.Strict {
				return nil, err
			}
			value = l.free(f.stop)
		}
		for i, kind := range []string{"boolean", "boolean", "null"} { // as Python writes them
			if slices.Contains(kinds, kind) {
				value = grammar.Alt{value, grammar.Lit([]string{"True", "False", "None"}[i])}
			}
		}
		return argument(grammar.Lit(p.name), "false", value), nil
	}
	word := grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: '_', Hi: '_'}, grammar.Range{Lo: '-', Hi: '-'})
	other := argument(grammar.Repeat{Expr: word, Min: 1, Max: 64}, "true", l.free(f.stop))
	args, err := l.members(t, l.space(), part, other)
	if err != nil {
		return nil, err
	}
	return grammar.Seq{l.text(f.before), grammar.Lit(t.Name), l.text(f.between), l.space(), args, l.space(), l.text(f.after)}, nil
}

func (f braces) expr(l *language, t *Tool) (grammar.Expr, error) {
	text := grammar.Seq{l.text(f.quote), l.free(f.quote), l.text(f.quote)}
	v := l.values(text, "true", "false", "null", func(value grammar.Expr) grammar.Expr {
		word := grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: '_', Hi: '_'}, grammar.Range{Lo: '-', Hi: '-'})
		return grammar.Seq{grammar.Alt{grammar.Repeat{Expr: word, Min: 1, Max: 64}, text}, grammar.Lit(":"), value}
	})
	v.quote = func(s string) grammar.Expr {
		return grammar.Seq{l.text(f.quote), grammar.Lit(s), l.text(f.quote)}
	}
	return l.literal(t, v, ":", ",", grammar.Seq{l.text(f.before), grammar.Lit(t.Name + "{")}, "}")
}

func (python) expr(l *language, t *Tool) (grammar.Expr, error) {
	text, err := l.json([]byte(`{"type":"string"}`))
	if err != nil {
		return nil, err
	}
	own := grammar.Class(grammar.Any).Without(grammar.Runes("'\\\n"))
	text = grammar.Alt{text, grammar.Seq{grammar.Lit("'"), grammar.Repeat{Expr: grammar.Alt{own, grammar.Seq{grammar.Lit(`\`), grammar.Runes(`nrt\'"`)}}, Max: -1}, grammar.Lit("'")}}
	v := l.values(text, "True", "False", "None", func(value grammar.Expr) grammar.Expr {
		return grammar.Seq{text, grammar.Lit(": "), value}
	})
	v.quote = func(s string) grammar.Expr { return quote(s) }
	return l.literal(t, v, "=", ", ", grammar.Lit(t.Name+"("), ")")
}

// notation is how values are written that are not JSON.
type notation struct {
	kinds map[string]grammar.Expr // by JSON Schema's types
	any   grammar.Expr
	quote func(s string) grammar.Expr
}

// values returns the notation in which texts and words are written so, and members by member.
func (l *language) values(text grammar.Expr, yes, no, null grammar.Lit, member func(value grammar.Expr) grammar.Expr) *notation {
	digit := grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'})
	integer := grammar.Seq{grammar.Repeat{Expr: grammar.Lit("-"), Max: 1}, grammar.Alt{grammar.Lit("0"), grammar.Seq{
		grammar.NewClass(grammar.Range{Lo: '1', Hi: '9'}), grammar.Repeat{Expr: digit, Max: 15}}}}
	number := grammar.Seq{integer, grammar.Repeat{Expr: grammar.Seq{grammar.Lit("."), grammar.Repeat{Expr: digit, Min: 1, Max: 15}}, Max: 1}}
	n := &notation{kinds: map[string]grammar.Expr{
		"string": text, "integer": integer, "number": number, "boolean": grammar.Alt{yes, no}, "null": null,
	}}
	value := l.g.Add("value", nil)
	n.any = value
	list := func(open, shut grammar.Lit, e grammar.Expr) grammar.Expr {
		some := grammar.Seq{e, grammar.Repeat{Expr: grammar.Seq{grammar.Lit(","), l.space(), e}, Max: -1}}
		return grammar.Seq{open, grammar.Repeat{Expr: some, Max: 1}, shut}
	}
	n.kinds["array"] = list("[", "]", value)
	n.kinds["object"] = list("{", "}", member(value))
	alt := grammar.Alt{}
	for _, kind := range []string{"string", "number", "boolean", "null", "array", "object"} {
		alt = append(alt, n.kinds[kind])
	}
	l.g.Rules[value].Expr = alt
	return n
}

// literal returns a call whose arguments are values in a notation. What is within objects and arrays is
// free, so that a strict schema can have none.
func (l *language) literal(t *Tool, v *notation, colon, comma grammar.Lit, open grammar.Expr, shut grammar.Lit) (grammar.Expr, error) {
	part := func(p property) (grammar.Expr, error) {
		alt := grammar.Alt{}
		some := enum(p.schema)
		for _, s := range some {
			alt = append(alt, v.quote(s))
		}
		for _, kind := range schemaKinds(p.schema, p.schema) {
			e, ok := v.kinds[kind]
			if kind == "string" && some != nil || !ok {
				continue
			}
			alt = append(alt, e)
		}
		value := grammar.Expr(alt)
		if len(alt) == 0 {
			value = v.any
		}
		return grammar.Seq{grammar.Lit(p.name), colon, value}, nil
	}
	word := grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: '_', Hi: '_'})
	other := grammar.Seq{grammar.Repeat{Expr: word, Min: 1, Max: 64}, colon, v.any}
	args, err := l.members(t, comma, part, other)
	if err != nil {
		return nil, err
	}
	return grammar.Seq{open, args, shut}, nil
}
