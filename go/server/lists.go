package server

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// maxStops bounds the texts that a generation looks out for.
const maxStops = 64

// stopWords are the texts at which an answer ends.
type stopWords []string

const wantStop = "a string or an array of at most 64"

func (s *stopWords) take(v jsontext.Value) error {
	*s = nil
	add := func(_ int, v jsontext.Value) error {
		if v.Kind() != '"' {
			return wrong(v, wantStop)
		}
		if word := str(v); word != "" { // which is everywhere, and meant as nothing
			*s = append(*s, word)
		}
		return nil
	}
	switch v.Kind() {
	case '"':
		return add(0, v)
	case '[':
		if err := eachOf(v, add); err != nil {
			return err
		}
		if len(*s) > maxStops {
			return bad("%d strings, want at most %d", len(*s), maxStops)
		}
		return nil
	}
	return wrong(v, wantStop)
}

func (s *stopWords) value() any { return append([]string{}, *s...) }

func (s *stopWords) schema() schema {
	one := schema{"type": "string"}
	return schema{"description": wantStop, "anyOf": []schema{one, {"type": "array", "items": one, "maxItems": maxStops}}}
}

// A bias is for a token, or for all tokens that spell a text.
type bias struct {
	id    int32
	text  string
	value float32
}

// biases come as [[token, bias], ...] or {"token": bias, ...}.
type biases []bias

const wantBias = `an object such as {"15043": 1.5} or an array such as [[15043, 1.5], [" text", false]]`

func (b *biases) take(v jsontext.Value) error {
	*b = nil
	switch v.Kind() {
	case '[':
		return eachOf(v, func(_ int, v jsontext.Value) error { return b.pair(v) })
	case '{':
		m, err := readObject(v)
		if err != nil {
			return err
		}
		for name, value := range m {
			one := bias{text: name, id: -1}
			if id, err := strconv.ParseInt(name, 10, 32); err == nil {
				one = bias{id: int32(id)}
			}
			if one.value, err = amount(value); err != nil {
				return err
			}
			*b = append(*b, one)
		}
		return nil
	}
	return wrong(v, wantBias)
}

// pair takes [token, bias].
func (b *biases) pair(v jsontext.Value) error {
	var parts []jsontext.Value
	if v.Kind() == '[' {
		_ = eachOf(v, func(_ int, v jsontext.Value) error { parts = append(parts, v.Clone()); return nil })
	}
	if len(parts) != 2 {
		return wrong(v, wantBias)
	}
	one := bias{id: -1}
	if parts[0].Kind() == '"' {
		one.text = str(parts[0])
	} else if err := integer(&one.id, 0, math.MaxInt32).take(parts[0]); err != nil {
		return err
	}
	var err error
	one.value, err = amount(parts[1])
	*b = append(*b, one)
	return err
}

// amount reads a bias. false bans a token.
func amount(v jsontext.Value) (float32, error) {
	if v.Kind() == 'f' {
		return float32(math.Inf(-1)), nil
	}
	var f float32
	err := float(&f, -1e6, 1e6).take(v)
	return f, err
}

func (b *biases) value() any {
	shown := []any{}
	for _, one := range *b {
		var token, value any = one.id, one.value
		if one.id < 0 {
			token = one.text
		}
		if math.IsInf(float64(one.value), -1) {
			value = false
		}
		shown = append(shown, []any{token, value})
	}
	return shown
}

func (b *biases) schema() schema {
	value := schema{"anyOf": []schema{{"type": "number"}, {"const": false}}}
	return schema{"description": wantBias, "anyOf": []schema{
		{"type": "object", "additionalProperties": value},
		{"type": "array", "items": schema{"type": "array", "minItems": 2, "maxItems": 2}},
	}}
}

// of returns the biases of tokens, in order of id: the order in which they were
// given does not matter, and those of one token add up.
func (b biases) of(m *Model, ignoreEOS bool) []sample.Bias {
	sum := map[int32]float32{}
	for _, one := range b {
		ids := []int32{one.id}
		if one.id < 0 {
			ids = m.Tokenizer.Encode(one.text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		}
		for _, id := range ids {
			sum[id] += one.value
		}
	}
	if ignoreEOS {
		for _, id := range m.Tokenizer.EOG() {
			sum[id] = float32(math.Inf(-1))
		}
	}
	var out []sample.Bias
	for id, value := range sum {
		out = append(out, sample.Bias{ID: id, Value: value})
	}
	slices.SortFunc(out, func(a, b sample.Bias) int { return int(a.ID) - int(b.ID) })
	return out
}

// known refuses ids that are not in the vocabulary.
func (b biases) known(m *Model) error {
	for _, one := range b {
		if int(one.id) >= m.Tokenizer.Len() {
			return invalid("logit_bias", "token %d is not in the vocabulary, want 0 to %d", one.id, m.Tokenizer.Len()-1)
		}
	}
	return nil
}

// samplerList says which samplers are used. nil is all.
type samplerList []string

// ours are the samplers there are, in their fixed order; the letters are
// llama.cpp's short names. Those that are not built do nothing at the values
// that their fields can have.
var ours = []struct {
	name, letter string
	built        bool
}{
	{"penalties", "e", true}, {"dry", "d", false}, {"top_n_sigma", "s", false}, {"top_k", "k", true},
	{"typ_p", "y", false}, {"top_p", "p", true}, {"min_p", "m", true}, {"xtc", "x", false},
	{"temperature", "t", true}, {"infill", "i", false},
}

const wantSamplers = "an array of names among penalties, top_k, top_p, min_p, temperature, in this order, or their letters such as kpmt"

func (l *samplerList) take(v jsontext.Value) error {
	names := []string{}
	switch v.Kind() {
	case '"':
		for _, letter := range str(v) {
			names = append(names, string(letter))
		}
	case '[':
		err := eachOf(v, func(_ int, v jsontext.Value) error {
			if v.Kind() != '"' {
				return wrong(v, wantSamplers)
			}
			names = append(names, str(v))
			return nil
		})
		if err != nil {
			return err
		}
	default:
		return wrong(v, wantSamplers)
	}
	*l = samplerList{}
	last := -1
	for _, name := range names {
		at := -1
		for i, s := range ours {
			if name == s.name || name == s.letter || name == "typical_p" && s.letter == "y" {
				at = i
			}
		}
		if at < 0 {
			return bad("%s is no sampler, want %s", quote(name), wantSamplers)
		}
		if !ours[at].built {
			continue
		}
		if at <= last {
			return bad("%s comes after %s, want %s", quote(name), ours[last].name, wantSamplers)
		}
		last = at
		*l = append(*l, ours[at].name)
	}
	return nil
}

func (l *samplerList) value() any {
	shown := []string{}
	for _, s := range ours {
		if s.built && (*l == nil || slices.Contains(*l, s.name)) {
			shown = append(shown, s.name)
		}
	}
	return shown
}

func (l *samplerList) schema() schema {
	return schema{"description": wantSamplers, "anyOf": []schema{{"type": "string"}, {"type": "array", "items": schema{"type": "string"}}}}
}

// apply makes the samplers that were left out neutral.
func (l samplerList) apply(p *sample.Params) {
	if l == nil {
		return
	}
	off := map[string]func(){
		"penalties":   func() { p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty = 1, 0, 0 },
		"top_k":       func() { p.TopK = 0 },
		"top_p":       func() { p.TopP = 1 },
		"min_p":       func() { p.MinP = 0 },
		"temperature": func() { p.Temp = 1 },
	}
	for name, do := range off {
		if !slices.Contains(l, name) {
			do()
		}
	}
}

// streamOptions are those of OpenAI.
type streamOptions struct{ given, usage bool }

func (s *streamOptions) take(v jsontext.Value) error {
	m, err := readObject(v)
	if err != nil {
		return err
	}
	s.given = true
	if usage, ok := m["include_usage"]; ok && usage.Kind() != 'n' {
		if err := (boolean{&s.usage}).take(usage); err != nil {
			return bad("include_usage: %v", err)
		}
	}
	return nil
}

func (s *streamOptions) value() any { return map[string]any{"include_usage": s.usage} }

func (s *streamOptions) schema() schema {
	return schema{"type": "object", "properties": schema{"include_usage": schema{"type": []string{"boolean", "null"}}}}
}

// fieldList are the fields of an answer that are wanted. nil is all.
type fieldList []string

func (l *fieldList) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		return wrong(v, "an array of strings")
	}
	*l = fieldList{}
	return eachOf(v, func(_ int, v jsontext.Value) error {
		if v.Kind() != '"' {
			return wrong(v, "an array of strings")
		}
		*l = append(*l, str(v))
		return nil
	})
}

func (l *fieldList) value() any { return []string(*l) }

func (l *fieldList) schema() schema {
	return schema{"type": "array", "items": schema{"type": "string"}}
}

// pick returns the fields of an answer that are wanted. a/b is b inside of a.
func (l fieldList) pick(answer map[string]any) map[string]any {
	if len(l) == 0 {
		return answer
	}
	out := map[string]any{}
	for _, path := range l {
		var v any = answer
		ok := true
		for _, name := range strings.Split(path, "/") {
			inside, _ := v.(map[string]any)
			if v, ok = inside[name]; !ok {
				break
			}
		}
		if ok {
			out[path] = v
		}
	}
	return out
}

// optional is a count that is off unless given, positive one that 0 turns off.
// Off is -1.
type (
	optional struct {
		p    *int
		most float64
	}
	positive struct {
		p    *int
		most float64
	}
)

func (o optional) take(v jsontext.Value) error { return integer(o.p, 0, o.most).take(v) }
func (o optional) value() any                  { return max(*o.p, 0) }
func (o optional) schema() schema              { return integer(o.p, 0, o.most).schema() }

func (o positive) take(v jsontext.Value) error {
	err := integer(o.p, 0, o.most).take(v)
	if *o.p == 0 {
		*o.p = -1
	}
	return err
}

func (o positive) value() any     { return max(*o.p, 0) }
func (o positive) schema() schema { return integer(o.p, 0, o.most).schema() }
