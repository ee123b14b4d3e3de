package chat

import (
	"encoding/json"
	"strconv"
	"strings"
)

// params is the form of calls whose arguments are written one by one between marks: text as
// it is, and all else as JSON. What an argument is, the schema of the tool says.
type params struct {
	before, between, after string // around the name, and after the call; without between a mark or white space ends the name
	key, colon, open, stop string // around an argument's name and value
	index                  string // between the name and the number of the call, where calls have one
	typed                  string // between an argument's name and true, where it is text, or false
	types                  bool   // its type comes there
	lines                  bool   // values have lines of their own
	cdata                  bool   // or are within CDATA
}

// The marks around values in XML that are no markup.
const cdataOpen, cdataShut = "<![CDATA[", "]]>"

func (f params) marks() []string {
	marks := []string{f.before, f.between, f.after, f.key, f.colon, f.open, f.stop}
	if f.cdata {
		marks = append(marks, cdataOpen, cdataShut)
	}
	return marks
}

// said returns what an argument may say of itself that is text, or is not.
func (f params) said(text bool) []string {
	switch {
	case f.types && text:
		return []string{"string"}
	case f.types:
		return []string{"number", "boolean", "null", "object", "array"}
	}
	return []string{strconv.FormatBool(text)}
}

func (f params) parse(p *caller, then cont) cont {
	then = p.finishing(then)
	return p.mark(f.before, func() step {
		c := &paramsCall{params: f, p: p, then: then}
		var name []byte
		take := func(text []byte) bool {
			name = append(name, text...)
			return len(name) <= maxName
		}
		if f.between != "" {
			return until(f.between, take, func() step {
				text := string(name)
				if f.index != "" {
					text, _, _ = strings.Cut(text, f.index)
				}
				if !p.name(strings.TrimSpace(text), "") {
					return nil
				}
				return c.next()
			})
		}
		var s step
		s = func(b byte) step {
			if b == '<' || isSpace(b) {
				if !p.name(string(name), "") {
					return nil
				}
				p.raw = append(p.raw, b)
				return c.next()(b)
			}
			if !take([]byte{b}) {
				return nil
			}
			return s
		}
		return space(s)
	})
}

// A paramsCall is a call while it is parsed.
type paramsCall struct {
	params
	p     *caller
	then  cont
	some  bool // there was an argument
	key   []byte
	value []byte // of an argument that is not known to be text
	text  bool   // it is
	begun bool   // of a text: there was something
	tail  bool   // of a text: a line break that may be the last
	kinds []string
}

// next follows the name and each argument.
func (c *paramsCall) next() step {
	return c.p.either(branch{c.params.key, c.argument}, branch{c.after, func() step {
		if c.some {
			c.p.argue('}')
		}
		return c.then()
	}})
}

// argument takes an argument.
func (c *paramsCall) argument() step {
	c.key, c.value = nil, nil
	take := func(text []byte) bool {
		c.key = append(c.key, text...)
		return len(c.key) <= 2*maxName
	}
	return until(c.colon, take, c.p.mark(c.open, func() step {
		name := strings.TrimSpace(string(c.key))
		c.kinds = nil
		if t := c.p.tool(c.p.called); t != nil {
			c.kinds = argumentKinds(t.Parameters)(name)
		}
		if c.typed != "" {
			var text string
			if name, text, _ = strings.Cut(name, c.typed); text == c.said(true)[0] {
				c.kinds = []string{"string"}
			} else {
				c.kinds = nil
			}
		}
		c.text, c.begun, c.tail = len(c.kinds) == 1 && c.kinds[0] == "string", false, false
		c.p.argue([]byte(map[bool]string{false: "{", true: ", "}[c.some])...)
		c.some = true
		c.p.argue('"')
		c.p.argue(quoted([]byte(name))...)
		c.p.argue([]byte(`": `)...)
		if c.text {
			c.p.argue('"')
		}
		value := until(c.stop, c.add, c.ended)
		if c.cdata {
			return begins(cdataOpen, until(cdataShut, c.add, c.p.mark(c.stop, c.ended)), value)
		}
		return value
	}))
}

// add takes part of a value.
func (c *paramsCall) add(part []byte) bool {
	for _, b := range part {
		switch {
		case !c.text:
			c.value = append(c.value, b)
		case c.lines && !c.begun && b == '\n':
		default:
			if c.tail {
				c.p.argue(quoted([]byte{'\n'})...)
			}
			if c.tail = c.lines && b == '\n'; !c.tail {
				c.p.argue(quoted([]byte{b})...)
			}
		}
		c.begun = true
	}
	return true
}

// ended follows a value.
func (c *paramsCall) ended() step {
	if c.text {
		c.p.argue('"')
		return c.next()
	}
	text := string(c.value)
	if c.lines {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
	}
	c.p.argue([]byte(argumentJSON(text, c.kinds))...)
	return c.next()
}

// argumentJSON returns the JSON of a value that is one of some kinds; nil: of any.
func argumentJSON(text string, kinds []string) string {
	v, ok := scalarJSON(strings.TrimSpace(text))
	if ok {
		switch kind := kindOf(v); {
		case kinds == nil && kind != "string":
			return v
		case kind == "string" && kinds == nil:
			return v
		}
		for _, k := range kinds {
			if kind := kindOf(v); k == kind || k == "number" && kind == "integer" {
				return v
			}
		}
	}
	return `"` + string(quoted([]byte(text))) + `"`
}

// kindOf is JSON Schema's name for the type of a value.
func kindOf(v string) string {
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if strings.ContainsAny(v, ".eE") {
		return "number"
	}
	return "integer"
}

// argumentKinds returns the types that a schema of arguments gives each of them, by name, nil where
// it doesn't say.
func argumentKinds(schema json.RawMessage) func(name string) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return func(string) []string { return nil }
	}
	return func(name string) []string {
		sub, ok := s.Properties[name]
		if !ok {
			sub = s.Additional
		}
		return schemaKinds(schema, sub)
	}
}

// schemaKinds returns the types that a schema within root allows, or nil for any.
func schemaKinds(root, schema json.RawMessage) []string {
	r := kindsReader{root: root, refs: map[string][]string{}}
	return r.kinds(schema, 0)
}

// maxKindSteps bounds the schemas in which kinds are looked for: more allow any.
const maxKindSteps = 1000

// A kindsReader finds the types that schemas within root allow.
type kindsReader struct {
	root  json.RawMessage
	refs  map[string][]string // of the references that were followed
	steps int
}

func (r *kindsReader) kinds(schema json.RawMessage, depth int) (kinds []string) {
	var s struct {
		Type         json.RawMessage   `json:"type"`
		Enum         []json.RawMessage `json:"enum"`
		Const        json.RawMessage   `json:"const"`
		AnyOf, OneOf []json.RawMessage
		Ref          string `json:"$ref"`
	}
	if r.steps++; r.steps > maxKindSteps || depth > 8 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var one string
	switch {
	case json.Unmarshal(s.Type, &one) == nil && one != "":
		return []string{one}
	case json.Unmarshal(s.Type, &kinds) == nil && kinds != nil:
		return kinds
	case s.Const != nil:
		return []string{kindOf(string(s.Const))}
	case s.Enum != nil:
		for _, v := range s.Enum {
			kinds = append(kinds, kindOf(string(v)))
		}
		return compact(kinds)
	case s.Ref != "":
		kinds, ok := r.refs[s.Ref]
		if !ok {
			kinds = r.kinds(resolve(r.root, s.Ref), depth+1)
			r.refs[s.Ref] = kinds
		}
		return kinds
	}
	for _, part := range append(s.AnyOf, s.OneOf...) {
		some := r.kinds(part, depth+1)
		if some == nil {
			return nil
		}
		kinds = append(kinds, some...)
	}
	return compact(kinds)
}

// compact removes what is there twice.
func compact(kinds []string) (out []string) {
	seen := map[string]bool{}
	for _, k := range kinds {
		if !seen[k] {
			out = append(out, k)
		}
		seen[k] = true
	}
	return out
}

// resolve follows a reference within a schema, or returns nil.
func resolve(root json.RawMessage, ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	for _, name := range strings.Split(path, "/") {
		var members map[string]json.RawMessage
		if !ok || json.Unmarshal(root, &members) != nil {
			return nil
		}
		root = members[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return root
}
