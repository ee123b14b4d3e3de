package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// anyObject is the schema of arguments of which nothing is said.
const anyObject = `{"type":"object"}`

// arguments returns the JSON of a tool's arguments. A schema that cannot be a grammar is an error
// where it has to be kept to, and otherwise any object does.
func (l *language) arguments(t *Tool) (grammar.Expr, error) {
	if t.input != nil {
		text, err := l.encoded(t)
		colon := grammar.Seq{l.space(), grammar.Lit(":"), l.space()}
		return grammar.Seq{grammar.Lit("{"), l.space(), grammar.Lit(`"input"`), colon, grammar.Lit(`"`), text, grammar.Lit(`"`), l.space(), grammar.Lit("}")}, err
	}
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
	if f.name == "" {
		return append(seq, key(t.Name), args, l.space(), grammar.Lit("}")), nil
	}
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
	if f.idFirst != "" {
		letter := grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'a', Hi: 'z'})
		name = grammar.Seq{grammar.Repeat{Expr: letter, Min: 10, Max: 10}, l.text(f.idFirst), name}
	}
	if f.id != "" {
		letters := grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: 'a', Hi: 'z'}), Min: 9, Max: 9}
		name = append(name, grammar.Repeat{Expr: grammar.Seq{l.text(f.id), letters}, Max: 1})
	}
	return grammar.Seq{l.text(f.before), name, l.text(f.between), l.space(), args, l.fence(f.after)}, nil
}

// textLimit bounds the regular expressions of texts that are written as they are: the mark that
// ends such a text is excluded by an automaton of both.
const textLimit = 2000

// argumentText returns the texts that an argument may be, as it is written before a mark and without
// others, which begin as that does.
func (l *language) argumentText(m *jsonschema.Member, stops ...string) (grammar.Expr, error) {
	free := l.free(stops...)
	says, err := m.Text()
	switch alt, _ := says.(grammar.Alt); {
	case err != nil || says == nil:
		return free, err
	case !slices.ContainsFunc(alt, func(e grammar.Expr) bool { return !lacks(e, rune(stops[0][0]), false) }):
		return says, nil
	case extent(says) > textLimit:
		return free, fmt.Errorf("the argument %s: its pattern or maxLength takes more than %d characters, which can't be decided in calls of this form", m.Name, textLimit)
	}
	return grammar.And{says, free}, nil
}

// lacks tells whether no text of an expression has a character, as far as its parts tell. refs tells whether the
// rules that it refers to lack it.
func lacks(e grammar.Expr, r rune, refs bool) bool {
	any := func(parts []grammar.Expr) bool {
		return !slices.ContainsFunc(parts, func(e grammar.Expr) bool { return !lacks(e, r, refs) })
	}
	switch e := e.(type) {
	case grammar.Lit:
		return !strings.ContainsRune(string(e), r)
	case grammar.Class:
		return !e.Has(r)
	case grammar.Seq:
		return any(e)
	case grammar.Alt:
		return any(e)
	case grammar.And:
		return slices.ContainsFunc(e, func(e grammar.Expr) bool { return lacks(e, r, refs) })
	case grammar.Repeat:
		return lacks(e.Expr, r, refs)
	case grammar.Limit:
		return lacks(e.Expr, r, refs)
	case grammar.Ref:
		return refs
	}
	return false
}

// input returns what a tool's input may be, as it is written before a mark.
func (l *language) input(t *Tool, mark string) (grammar.Expr, error) {
	text, err := l.g.Include(t.input)
	_, control := l.control(mark)
	if err != nil || control || strings.ContainsFunc(mark, func(r rune) bool {
		return !slices.ContainsFunc(t.input.Rules, func(rule grammar.Rule) bool { return !lacks(rule.Expr, r, true) })
	}) {
		return text, err
	}
	if t.input.Recursive() {
		return nil, errors.New("its grammar refers to itself, which cannot be held in calls of this model's form")
	}
	return grammar.And{text, l.free(mark)}, nil
}

// encoded returns what a tool's input may be, as it is written within the quotes of JSON.
func (l *language) encoded(t *Tool) (grammar.Expr, error) {
	g, err := jsonschema.Encoded(t.input)
	if err != nil {
		return nil, err
	}
	return l.g.Include(g)
}

// extent estimates how many characters the parts of a regular expression take, written out.
func extent(e grammar.Expr) int {
	sum := func(parts []grammar.Expr) (n int) {
		for _, part := range parts {
			n = min(n+extent(part), 1<<20)
		}
		return n
	}
	switch e := e.(type) {
	case grammar.Lit:
		return len(e)
	case grammar.Seq:
		return sum(e)
	case grammar.Alt:
		return sum(e)
	case grammar.And:
		return sum(e)
	case grammar.Not:
		return extent(e.Expr)
	case grammar.Limit:
		return extent(e.Expr)
	case grammar.Repeat:
		return min(extent(e.Expr)*max(e.Min, e.Max, 1), 1<<20)
	}
	return 1
}

// members returns the arguments of a call, one after another, in the order of the schema: part writes each, other
// those of other names, and between comes between them. Those that are not required may be left out.
func (l *language) members(t *Tool, opts jsonschema.Options, between grammar.Expr, part, other func(m *jsonschema.Member) (grammar.Expr, error)) (grammar.Expr, error) {
	schema := t.Parameters
	if schema == nil {
		schema = json.RawMessage(anyObject)
	}
	n := len(l.g.Rules)
	objects, err := jsonschema.Arguments(l.g, schema, opts)
	if err != nil {
		l.g.Rules = l.g.Rules[:n]
		if !t.Strict {
			objects, err = jsonschema.Arguments(l.g, []byte(anyObject), opts)
		}
		if err != nil {
			return nil, err
		}
	}
	var out grammar.Alt
	for _, o := range objects {
		e, err := l.object(o, between, part, other)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// object returns the arguments of one alternative.
func (l *language) object(o jsonschema.Object, between grammar.Expr, part, other func(m *jsonschema.Member) (grammar.Expr, error)) (grammar.Expr, error) {
	// From the last to the first: what may follow where one came before, and where none did.
	after := grammar.Expr(grammar.Lit(""))
	begin := after
	if o.Others != nil {
		e, err := other(o.Others)
		if err != nil {
			return nil, err
		}
		more := grammar.Repeat{Expr: grammar.Seq{between, e}, Max: -1}
		after, begin = more, grammar.Alt{grammar.Lit(""), grammar.Seq{e, more}}
	}
	for i := len(o.Members) - 1; i >= 0; i-- {
		e, err := part(&o.Members[i])
		if err != nil {
			return nil, err
		}
		with, first := grammar.Expr(grammar.Seq{between, e, after}), grammar.Expr(grammar.Seq{e, after})
		if !o.Members[i].Required {
			with, first = grammar.Alt{after, with}, grammar.Alt{begin, first}
		}
		after, begin = l.g.Add("arguments", with), l.g.Add("arguments", first)
	}
	return begin, nil
}

// word is the names of arguments that no schema has.
var word = grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}, grammar.Range{Lo: 'A', Hi: 'Z'}, grammar.Range{Lo: '0', Hi: '9'}, grammar.Range{Lo: '_', Hi: '_'}, grammar.Range{Lo: '-', Hi: '-'}), Min: 1, Max: 64}

// paramStyles are the ways to write parameters that Parameters knows, by their names in structural tags.
var paramStyles = map[string]string{"qwen_xml": "Qwen3-Coder", "minimax_xml": "MiniMax", "deepseek_xml": "DeepSeek V3.2", "glm_xml": "GLM"}

// Parameters adds to g the members of an object of a schema, as models of a family write the arguments of calls.
// It returns false where it does not know the style.
func Parameters(g *grammar.Grammar, style string, schema json.RawMessage, control func(mark string) (int32, bool)) (e grammar.Expr, known bool, err error) {
	for i := range syntaxes {
		if f, ok := syntaxes[i].syntax.form.(params); ok && syntaxes[i].name == paramStyles[style] {
			l := &language{g: g, control: control, marks: f.marks()}
			e, err = f.arguments(l, &Tool{Parameters: schema, Strict: true})
			return e, true, err
		}
	}
	return nil, false, nil
}

func (f params) expr(l *language, t *Tool) (grammar.Expr, error) {
	args, err := f.arguments(l, t)
	if err != nil {
		return nil, err
	}
	name := grammar.Seq{grammar.Lit(t.Name)}
	if f.index != "" {
		name = append(name, grammar.Lit(f.index), grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: '0', Hi: '9'}), Min: 1, Max: 4})
	}
	return grammar.Seq{l.text(f.before), name, l.text(f.between), l.space(), args, l.space(), l.text(f.after)}, nil
}

// arguments returns those of a call.
func (f params) arguments(l *language, t *Tool) (grammar.Expr, error) {
	line := grammar.Repeat{Expr: grammar.Lit("\n")}
	if f.lines {
		line.Max = 1
	}
	argument := func(name grammar.Expr, text bool, value grammar.Expr) grammar.Expr {
		seq := grammar.Seq{l.text(f.key), name}
		if f.typed != "" {
			var said grammar.Alt
			for _, s := range f.said(text) {
				said = append(said, grammar.Lit(f.typed+s))
			}
			seq = append(seq, said)
		}
		return append(seq, l.text(f.colon), l.fence(f.open), line, value, line, l.text(f.stop))
	}
	if t.input != nil {
		if f.cdata {
			text, err := l.input(t, cdataShut)
			return argument(grammar.Lit("input"), true, grammar.Seq{l.text(cdataOpen), text, l.text(cdataShut)}), err
		}
		text, err := l.input(t, f.stop)
		return argument(grammar.Lit("input"), true, text), err
	}
	kindsOf := argumentKinds(t.Parameters)
	value := func(m *jsonschema.Member, name grammar.Expr, kinds []string) (grammar.Expr, error) {
		text := len(kinds) == 1 && kinds[0] == "string"
		if !text && kinds != nil {
			e, err := m.Value()
			if err == nil {
				for i, kind := range []string{"boolean", "boolean", "null"} { // as Python writes them
					if slices.Contains(kinds, kind) {
						e = grammar.Alt{e, grammar.Lit([]string{"True", "False", "None"}[i])}
					}
				}
				return argument(name, false, e), nil
			}
			if t.Strict {
				return nil, err
			}
		}
		e, err := f.text(l, func(stops ...string) (grammar.Expr, error) {
			if text {
				if says, err := l.argumentText(m, stops...); err == nil || t.Strict {
					return says, err
				}
			}
			return l.free(stops...), nil
		})
		return argument(name, true, e), err
	}
	part := func(m *jsonschema.Member) (grammar.Expr, error) {
		return value(m, grammar.Lit(m.Name), kindsOf(m.Name))
	}
	other := func(m *jsonschema.Member) (grammar.Expr, error) { return value(m, word, kindsOf("")) }
	return l.members(t, jsonschema.Options{}, l.space(), part, other)
}

// text returns texts before a mark, as they are or within CDATA.
func (f params) text(l *language, before func(marks ...string) (grammar.Expr, error)) (grammar.Expr, error) {
	if !f.cdata {
		return before(f.stop)
	}
	own, err := before(f.stop, cdataOpen)
	if err != nil {
		return nil, err
	}
	within, err := before(cdataShut)
	return grammar.Alt{own, grammar.Seq{l.text(cdataOpen), within, l.text(cdataShut)}}, err
}

func (f braces) expr(l *language, t *Tool) (grammar.Expr, error) {
	text := func(says grammar.Expr) grammar.Expr {
		e := l.free(f.quote)
		if _, control := l.control(f.quote); says != nil {
			if e = says; !control && !lacks(says, rune(f.quote[0]), false) {
				e = grammar.And{says, l.free(f.quote)}
			}
		}
		return grammar.Seq{l.text(f.quote), e, l.text(f.quote)}
	}
	n := &jsonschema.Notation{
		True: "true", False: "false", Null: "null", Text: text, Colon: grammar.Lit(":"), Comma: grammar.Seq{grammar.Lit(","), l.space()},
		Name: func(says grammar.Expr) grammar.Expr {
			if says == nil {
				return grammar.Alt{word, text(nil)}
			}
			if lit, ok := says.(grammar.Lit); ok {
				return lit
			}
			return grammar.Alt{grammar.And{says, word}, text(says)}
		},
	}
	open := grammar.Seq{l.text(f.before), grammar.Lit(t.Name + "{")}
	if t.input != nil {
		says, err := l.input(t, f.quote)
		return grammar.Seq{open, grammar.Lit("input:"), l.text(f.quote), says, l.text(f.quote), grammar.Lit("}")}, err
	}
	return l.literal(t, n, grammar.Lit(":"), grammar.Lit(","), open, "}")
}

func (python) expr(l *language, t *Tool) (grammar.Expr, error) {
	if t.input != nil {
		text, err := l.encoded(t)
		return grammar.Seq{grammar.Lit(t.Name + `(input="`), text, grammar.Lit(`")`)}, err
	}
	n := &jsonschema.Notation{True: "True", False: "False", Null: "None", Colon: grammar.Lit(": "), Comma: grammar.Seq{grammar.Lit(","), l.space()}, Text: pythonText, Name: pythonText}
	return l.literal(t, n, grammar.Lit("="), grammar.Lit(", "), grammar.Lit(t.Name+"("), ")")
}

// pythonText returns strings by what they say: as in JSON, or in single quotes where they may be anything.
func pythonText(says grammar.Expr) grammar.Expr {
	text := jsonschema.Quoted(says)
	if says != nil {
		return text
	}
	own := grammar.Any.Without(grammar.Runes("'\\\n"))
	char := grammar.Alt{own, grammar.Seq{grammar.Lit(`\`), grammar.Runes(`nrt\'"`)}}
	return grammar.Alt{text, grammar.Seq{grammar.Lit("'"), grammar.Repeat{Expr: char, Max: -1}, grammar.Lit("'")}}
}

// literal returns a call whose arguments are values in a notation.
func (l *language) literal(t *Tool, n *jsonschema.Notation, colon, comma, open grammar.Expr, shut grammar.Lit) (grammar.Expr, error) {
	value := func(name grammar.Expr, m *jsonschema.Member) (grammar.Expr, error) {
		e, err := m.Value()
		if err != nil && !t.Strict {
			e, err = l.any(n)
		}
		return grammar.Seq{name, colon, e}, err
	}
	args, err := l.members(t, jsonschema.Options{Notation: n}, comma,
		func(m *jsonschema.Member) (grammar.Expr, error) { return value(grammar.Lit(m.Name), m) },
		func(m *jsonschema.Member) (grammar.Expr, error) { return value(word, m) })
	if err != nil {
		return nil, err
	}
	return grammar.Seq{open, args, shut}, nil
}

// any returns all values in a notation.
func (l *language) any(n *jsonschema.Notation) (grammar.Expr, error) {
	return jsonschema.Add(l.g, []byte("true"), jsonschema.Options{Notation: n, Exact: true})
}
