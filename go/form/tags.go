package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/grammar/lark"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Bounds of structural tags.
const (
	maxTagFormats = 1 << 14
	maxTagDepth   = 64
	maxTagRepeat  = 1 << 16
)

// A tagReader reads a structural tag, as XGrammar and vLLM have them: a tree of formats, each of which is a part of the
// text. {"structures": ..., "triggers": ...} is their older form.
type tagReader struct {
	g       *grammar.Grammar
	tok     *tokenizer.Tokenizer
	opts    jsonschema.Options
	formats int
}

// A tagFormat has the members of all types of formats.
type tagFormat struct {
	Type       *string             `json:"type"`
	Value      *string             `json:"value"`
	Schema     json.RawMessage     `json:"json_schema"`
	Style      string              `json:"style"`
	AnyOrder   bool                `json:"any_order"`
	Grammar    *string             `json:"grammar"`
	Pattern    *string             `json:"pattern"`
	Excludes   []string            `json:"excludes"`
	Excluded   []string            `json:"excluded_strs"` // an older name
	MaxTokens  *int                `json:"max_tokens"`
	MaxChars   *int                `json:"max_chars"`
	Elements   []json.RawMessage   `json:"elements"`
	Content    json.RawMessage     `json:"content"`
	Min        *int                `json:"min"`
	Max        *int                `json:"max"`
	Begin      json.RawMessage     `json:"begin"`
	End        json.RawMessage     `json:"end"`
	Triggers   []string            `json:"triggers"`
	Tags       []json.RawMessage   `json:"tags"`
	AtLeastOne bool                `json:"at_least_one"`
	StopFirst  bool                `json:"stop_after_first"`
	Separator  *string             `json:"separator"`
	Rules      [][]json.RawMessage `json:"rules"`
	Loop       *bool               `json:"loop"`
	Token      json.RawMessage     `json:"token"`
	NotTokens  []json.RawMessage   `json:"exclude_tokens"`
	TokensFrom []json.RawMessage   `json:"trigger_tokens"`
}

// A tagEnd is what ends the text that a format is in: the innermost tag's end. Free text is without it.
type tagEnd struct {
	texts  []string
	tokens []int32
}

// tags adds a structural tag to g, and returns its texts.
func tags(g *grammar.Grammar, tok *tokenizer.Tokenizer, text string, opts jsonschema.Options) (grammar.Expr, error) {
	r := &tagReader{g: g, tok: tok, opts: opts}
	var top struct {
		Format     json.RawMessage   `json:"format"`
		Structures []json.RawMessage `json:"structures"`
		Triggers   []string          `json:"triggers"`
	}
	if err := readJSON([]byte(text), &top); err != nil {
		return nil, err
	}
	if isNull(top.Format) {
		if len(top.Structures) == 0 || len(top.Triggers) == 0 {
			return nil, errors.New("without a format, want one, or structures and triggers")
		}
		var all []tag
		for i, raw := range top.Structures {
			t, err := r.structure(raw)
			if err != nil {
				return nil, fmt.Errorf("structures: element %d: %w", i, err)
			}
			all = append(all, t)
		}
		return r.triggered(&tagFormat{Triggers: top.Triggers}, all, "structures", tagEnd{})
	}
	e, err := r.format(top.Format, tagEnd{}, 0)
	if err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	return e, nil
}

// structure reads one of the older form.
func (r *tagReader) structure(raw json.RawMessage) (t tag, err error) {
	if r.formats++; r.formats > maxTagFormats {
		return t, fmt.Errorf("more than %d structures", maxTagFormats)
	}
	var s struct {
		Begin, End string
		Schema     json.RawMessage
	}
	if err := readJSON(raw, &s); err != nil {
		return t, err
	}
	if isNull(s.Schema) {
		return t, errors.New("schema: missing, want a JSON schema")
	}
	content, err := r.schema(s.Schema)
	return tag{begin: s.Begin, expr: grammar.Seq{r.text(s.Begin), content, r.text(s.End)}}, at("schema", err)
}

// readJSON reads a value, and says what is wrong with it in terms of JSON.
func readJSON(raw []byte, to any) error {
	err := json.Unmarshal(raw, to)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field != "" {
			return fmt.Errorf("%s: a JSON %s is not what it takes", wrong.Field, wrong.Value)
		}
		return fmt.Errorf("a JSON %s, want an object", wrong.Value)
	}
	return err
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}

// at puts a place before an error.
func at(place string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", place, err)
}

// format reads a format, within what end ends.
func (r *tagReader) format(raw json.RawMessage, end tagEnd, depth int) (grammar.Expr, error) {
	if r.formats++; r.formats > maxTagFormats || depth > maxTagDepth {
		return nil, fmt.Errorf("more than %d formats, or %d within each other", maxTagFormats, maxTagDepth)
	}
	if isNull(raw) {
		return nil, errors.New("missing, want an object with a type")
	}
	var f tagFormat
	if err := readJSON(raw, &f); err != nil {
		return nil, err
	}
	if f.Type == nil {
		return nil, errors.New("type: missing, want the type of a format, such as json_schema or triggered_tags")
	}
	read, ok := tagFormats[*f.Type]
	if !ok {
		return nil, fmt.Errorf("type: the string %.40q is no format that is supported, want one such as json_schema, tag or triggered_tags", *f.Type)
	}
	return read(r, &f, end, depth)
}

// tagFormats are the formats by their types. It is filled when the program starts: formats are within formats.
var tagFormats map[string]func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error)

func init() {
	type reader = func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error)
	repeated := func(least, most int) reader {
		return func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
			e, err := r.format(f.Content, end, depth+1)
			return grammar.Repeat{Expr: e, Min: least, Max: most}, at("content", err)
		}
	}
	elements := func(r *tagReader, f *tagFormat, end tagEnd, depth int) ([]grammar.Expr, error) {
		if len(f.Elements) == 0 {
			return nil, errors.New("elements: missing or empty, want formats")
		}
		var all []grammar.Expr
		for i, raw := range f.Elements {
			e, err := r.format(raw, end, depth+1)
			if err != nil {
				return nil, fmt.Errorf("elements: element %d: %w", i, err)
			}
			all = append(all, e)
		}
		return all, nil
	}
	tagFormats = map[string]reader{
		"const_string": func(r *tagReader, f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) {
			if f.Value == nil {
				return nil, errors.New("value: missing, want a text")
			}
			return r.text(*f.Value), nil
		},
		"json_schema": func(r *tagReader, f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) { return r.styled(f, f.Style) },
		"qwen_xml_parameter": func(r *tagReader, f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) {
			return r.styled(f, "qwen_xml")
		},
		"grammar": (*tagReader).grammar,
		"regex": func(_ *tagReader, f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) {
			if f.Pattern == nil {
				return nil, errors.New("pattern: missing, want a regular expression")
			}
			e, err := regex.Full(*f.Pattern, regex.DotAll)
			return e, at("pattern", err)
		},
		"any_text": (*tagReader).anyText,
		"sequence": func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
			all, err := elements(r, f, end, depth)
			return grammar.Seq(all), err
		},
		"or": func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
			all, err := elements(r, f, end, depth)
			return grammar.Alt(all), err
		},
		"optional": repeated(0, 1),
		"plus":     repeated(1, -1),
		"star":     repeated(0, -1),
		"repeat": func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
			if f.Min == nil || f.Max == nil || *f.Min < 0 || *f.Min > maxTagRepeat || *f.Max > maxTagRepeat || *f.Max != -1 && *f.Max < *f.Min {
				return nil, fmt.Errorf("want min and max from 0 to %d, min the smaller, or a max of -1", maxTagRepeat)
			}
			return repeated(*f.Min, *f.Max)(r, f, end, depth)
		},
		"tag": func(r *tagReader, f *tagFormat, _ tagEnd, depth int) (grammar.Expr, error) {
			t, err := r.tag(f, depth)
			return t.expr, err
		},
		"triggered_tags": func(r *tagReader, f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
			all, err := r.tags(f, depth)
			if err != nil {
				return nil, err
			}
			return r.triggered(f, all, "tags", end)
		},
		"tags_with_separator": (*tagReader).separated,
		"dispatch":            (*tagReader).dispatch,
		"token": func(r *tagReader, f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) {
			id, err := r.token(f.Token)
			return grammar.Token{IDs: []int32{id}}, at("token", err)
		},
		"exclude_token": func(r *tagReader, f *tagFormat, end tagEnd, _ int) (grammar.Expr, error) {
			return r.otherToken(f, end)
		},
		"any_tokens": func(r *tagReader, f *tagFormat, end tagEnd, _ int) (grammar.Expr, error) {
			most := -1
			if f.MaxTokens != nil {
				if most = *f.MaxTokens; most < 0 || most > maxTagRepeat {
					return nil, fmt.Errorf("max_tokens: %d, want 0 to %d", most, maxTagRepeat)
				}
			}
			e, err := r.otherToken(f, end)
			return grammar.Repeat{Expr: e, Max: most}, err
		},
		"token_triggered_tags": (*tagReader).tokenTriggered,
		"token_dispatch":       (*tagReader).tokenDispatch,
	}
}

func (r *tagReader) schema(raw json.RawMessage) (grammar.Expr, error) {
	return jsonschema.Add(r.g, raw, r.opts)
}

// styled reads a schema whose documents are JSON, or written as calls of a family of models are.
func (r *tagReader) styled(f *tagFormat, style string) (grammar.Expr, error) {
	schema := f.Schema
	switch {
	case f.AnyOrder:
		return nil, errors.New("any_order: true is not supported: members come in the order of properties")
	case isNull(schema):
		schema = json.RawMessage("true")
	}
	if style == "" || style == "json" {
		e, err := r.schema(schema)
		return e, at("json_schema", err)
	}
	e, ok, err := chat.Parameters(r.g, style, schema, control(r.tok))
	if !ok {
		return nil, fmt.Errorf("style: the string %.40q is no style that is supported, want json, qwen_xml, minimax_xml, deepseek_xml or glm_xml", style)
	}
	return e, at("json_schema", err)
}

func (r *tagReader) grammar(f *tagFormat, _ tagEnd, _ int) (grammar.Expr, error) {
	if f.Grammar == nil {
		return nil, errors.New("grammar: missing, want one in GBNF or Lark")
	}
	parse := lark.Parse
	if strings.Contains(*f.Grammar, "::=") {
		parse = gbnf.Parse
	}
	h, err := parse(*f.Grammar, named(r.tok), r.g.Work)
	if err != nil {
		return nil, at("grammar", err)
	}
	e, err := r.g.Include(h)
	return e, at("grammar", err)
}

// text returns a text, in which control tokens may be in the place of their names.
func (r *tagReader) text(text string) grammar.Expr {
	var seq grammar.Seq
	for _, id := range r.tok.Encode(text, tokenizer.Options{NoSpecial: true, ParseSpecial: true}) {
		name := r.tok.Token(id)
		if name == "" || len(r.tok.Piece(id, false)) > 0 {
			continue
		}
		if before, after, ok := strings.Cut(text, name); ok {
			seq = append(seq, grammar.Lit(before), grammar.Alt{grammar.Lit(name), grammar.Token{IDs: []int32{id}}})
			text = after
		}
	}
	return append(seq, grammar.Lit(text))
}

// free returns any text without some.
func free(without ...[]string) grammar.Expr {
	var all grammar.And
	for _, list := range without {
		for _, text := range list {
			if text != "" {
				all = append(all, grammar.Lacks(text))
			}
		}
	}
	if all == nil {
		return grammar.Repeat{Expr: grammar.Any, Max: -1}
	}
	return all
}

func (r *tagReader) anyText(f *tagFormat, end tagEnd, _ int) (grammar.Expr, error) {
	if f.MaxTokens != nil {
		return nil, errors.New("max_tokens: not supported for text, want max_chars, or any_tokens")
	}
	e := free(f.Excludes, f.Excluded, end.texts)
	if f.MaxChars == nil {
		return e, nil
	}
	if *f.MaxChars < 0 || *f.MaxChars > maxTagRepeat {
		return nil, fmt.Errorf("max_chars: %d, want 0 to %d", *f.MaxChars, maxTagRepeat)
	}
	short := grammar.Repeat{Expr: grammar.Any, Max: *f.MaxChars}
	if all, ok := e.(grammar.And); ok {
		return append(all, short), nil
	}
	return short, nil
}

// A tag is begin, content and end.
type tag struct {
	begin string // where it is a text
	token int32  // else
	named bool   // it is a token
	expr  grammar.Expr
}

// tag reads one.
func (r *tagReader) tag(f *tagFormat, depth int) (t tag, err error) {
	begin, err := r.mark(f.Begin)
	if err == nil && len(begin.texts)+len(begin.tokens) != 1 {
		err = errors.New("want a text or a token")
	}
	if err != nil {
		return t, at("begin", err)
	}
	end, err := r.mark(f.End)
	if err != nil {
		return t, at("end", err)
	}
	content, err := r.format(f.Content, end, depth+1)
	if err != nil {
		return t, at("content", err)
	}
	if t.named = len(begin.tokens) == 1; t.named {
		t.token = begin.tokens[0]
	} else {
		t.begin = begin.texts[0]
	}
	t.expr = grammar.Seq{r.either(begin), content, r.either(end)}
	return t, nil
}

// either returns one of some marks.
func (r *tagReader) either(marks tagEnd) grammar.Expr {
	var alt grammar.Alt
	for _, text := range marks.texts {
		alt = append(alt, r.text(text))
	}
	for _, id := range marks.tokens {
		alt = append(alt, grammar.Token{IDs: []int32{id}})
	}
	return alt
}

// mark reads what a tag begins or ends with: a text, texts of which it is one, or a token.
func (r *tagReader) mark(raw json.RawMessage) (m tagEnd, err error) {
	const want = "missing, want a text or a token"
	if isNull(raw) {
		return m, errors.New(want)
	}
	switch raw[0] {
	case '"':
		m.texts = []string{""}
		err = readJSON(raw, &m.texts[0])
	case '[':
		if err = readJSON(raw, &m.texts); err == nil && len(m.texts) == 0 {
			err = errors.New(want)
		}
	default:
		var f struct {
			Type  string
			Token json.RawMessage
		}
		if err = readJSON(raw, &f); err != nil {
			return m, err
		}
		if f.Type != "token" {
			return m, fmt.Errorf("type: the string %.40q, want token", f.Type)
		}
		id, err := r.token(f.Token)
		return tagEnd{tokens: []int32{id}}, at("token", err)
	}
	return m, err
}

// tags reads those of a format.
func (r *tagReader) tags(f *tagFormat, depth int) (all []tag, err error) {
	if len(f.Tags) == 0 {
		return nil, errors.New("tags: missing or empty, want tags")
	}
	for i, raw := range f.Tags {
		var one tagFormat
		err := readJSON(raw, &one)
		var t tag
		switch {
		case err != nil:
		case one.Type != nil && *one.Type != "tag":
			err = fmt.Errorf("type: the string %.40q, want tag", *one.Type)
		default:
			t, err = r.tag(&one, depth+1)
		}
		if err != nil {
			return nil, fmt.Errorf("tags: element %d: %w", i, err)
		}
		all = append(all, t)
	}
	return all, nil
}

func oneOf(all []tag) (alt grammar.Alt) {
	for _, t := range all {
		alt = append(alt, t.expr)
	}
	return alt
}

// mixed returns free text with tags in it, as the flags of a format say.
func mixed(f *tagFormat, free, one grammar.Expr) grammar.Expr {
	switch {
	case f.AtLeastOne && f.StopFirst:
		return one
	case f.StopFirst:
		return grammar.Seq{free, grammar.Repeat{Expr: one, Max: 1}}
	}
	more := grammar.Repeat{Expr: grammar.Seq{one, free}, Max: -1}
	if f.AtLeastOne {
		return grammar.Seq{one, free, more}
	}
	return grammar.Seq{free, more}
}

// triggered returns free text in which what begins with a trigger is a tag.
func (r *tagReader) triggered(f *tagFormat, all []tag, field string, end tagEnd) (grammar.Expr, error) {
	if len(f.Triggers) == 0 {
		return nil, errors.New("triggers: missing or empty, want texts")
	}
	for i, t := range all {
		ok := false
		for _, trigger := range f.Triggers {
			if trigger == "" {
				return nil, errors.New("triggers: an empty text")
			}
			ok = ok || !t.named && strings.HasPrefix(t.begin, trigger)
		}
		if !ok {
			return nil, fmt.Errorf("%s: element %d: begins with no trigger", field, i)
		}
	}
	return mixed(f, free(f.Triggers, f.Excludes, end.texts), oneOf(all)), nil
}

func (r *tagReader) separated(f *tagFormat, _ tagEnd, depth int) (grammar.Expr, error) {
	if f.Separator == nil {
		return nil, errors.New("separator: missing, want a text")
	}
	all, err := r.tags(f, depth)
	if err != nil {
		return nil, err
	}
	e := grammar.Expr(oneOf(all))
	if !f.StopFirst {
		e = r.g.Add("tags", e) // what is within is written once, however deep tags nest
		e = grammar.Seq{e, grammar.Repeat{Expr: grammar.Seq{r.text(*f.Separator), e}, Max: -1}}
	}
	if !f.AtLeastOne {
		e = grammar.Repeat{Expr: e, Max: 1}
	}
	return e, nil
}

// rules reads those of a dispatch: what its pattern is, and what comes after it.
func (r *tagReader) rules(f *tagFormat, end tagEnd, depth int, pattern func(raw json.RawMessage) (grammar.Expr, error)) (grammar.Alt, error) {
	if len(f.Rules) == 0 {
		return nil, errors.New("rules: missing or empty, want pairs of a pattern and a format")
	}
	var alt grammar.Alt
	for i, rule := range f.Rules {
		var e, then grammar.Expr
		err := errors.New("want a pattern and a format")
		if len(rule) == 2 {
			if e, err = pattern(rule[0]); err == nil {
				then, err = r.format(rule[1], end, depth+1)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("rules: element %d: %w", i, err)
		}
		alt = append(alt, grammar.Seq{e, then})
	}
	return alt, nil
}

func (r *tagReader) dispatch(f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
	var patterns []string
	alt, err := r.rules(f, end, depth, func(raw json.RawMessage) (grammar.Expr, error) {
		text := ""
		if err := readJSON(raw, &text); err != nil || text == "" {
			return nil, errors.New("the pattern is no text, or empty")
		}
		patterns = append(patterns, text)
		return r.text(text), nil
	})
	f.StopFirst = f.Loop != nil && !*f.Loop
	return mixed(f, free(patterns, f.Excludes, end.texts), alt), err
}

// token returns the token of an id or a name.
func (r *tagReader) token(raw json.RawMessage) (int32, error) {
	const want = "want the id or the name of a token"
	if isNull(raw) {
		return 0, errors.New("missing, " + want)
	}
	name := ""
	if json.Unmarshal(raw, &name) == nil {
		id, ok := named(r.tok)(name)
		if !ok {
			return 0, fmt.Errorf("%.40q is no token of the model", name)
		}
		return id, nil
	}
	var id int
	if json.Unmarshal(raw, &id) != nil || id < 0 || id >= r.tok.Len() {
		return 0, fmt.Errorf("%.40s, %s of the model's %d", raw, want, r.tok.Len())
	}
	return int32(id), nil
}

// tokens returns those of a list.
func (r *tagReader) tokens(list []json.RawMessage) (ids []int32, err error) {
	for i, raw := range list {
		id, err := r.token(raw)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// otherToken returns any token but those that a format excludes, that end a tag around it, or the text.
func (r *tagReader) otherToken(f *tagFormat, end tagEnd, also ...int32) (grammar.Expr, error) {
	ids, err := r.tokens(f.NotTokens)
	if err != nil {
		return nil, at("exclude_tokens", err)
	}
	ids = append(append(append(ids, end.tokens...), also...), r.tok.EOG()...)
	return grammar.Token{IDs: ids, Not: true}, nil
}

func (r *tagReader) tokenTriggered(f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
	triggers, err := r.tokens(f.TokensFrom)
	if err == nil && len(triggers) == 0 {
		err = errors.New("missing or empty, want tokens")
	}
	if err != nil {
		return nil, at("trigger_tokens", err)
	}
	all, err := r.tags(f, depth)
	if err != nil {
		return nil, err
	}
	for i, t := range all {
		ok := false
		for _, id := range triggers {
			ok = ok || t.named && t.token == id
		}
		if !ok {
			return nil, fmt.Errorf("tags: element %d: begins with no trigger", i)
		}
	}
	other, err := r.otherToken(f, end, triggers...)
	return mixed(f, grammar.Repeat{Expr: other, Max: -1}, oneOf(all)), err
}

func (r *tagReader) tokenDispatch(f *tagFormat, end tagEnd, depth int) (grammar.Expr, error) {
	var patterns []int32
	alt, err := r.rules(f, end, depth, func(raw json.RawMessage) (grammar.Expr, error) {
		id, err := r.token(raw)
		patterns = append(patterns, id)
		return grammar.Token{IDs: []int32{id}}, err
	})
	if err != nil {
		return nil, err
	}
	f.StopFirst = f.Loop != nil && !*f.Loop
	other, err := r.otherToken(f, end, patterns...)
	return mixed(f, grammar.Repeat{Expr: other, Max: -1}, alt), err
}
