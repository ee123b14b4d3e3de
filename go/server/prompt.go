package server

import (
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/tokenizer"
)

// A prompt is text and token ids in any order.
type prompt []part

// A part is text, or ids where those are not nil.
type part struct {
	text string
	ids  []int32
}

// prompts are what to continue: each is a text of its own.
type prompts []prompt

const wantPrompt = "a string, an array of token ids, both mixed, or an array of these"

func (p *prompts) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		one, err := readPrompt(v)
		*p = prompts{one}
		return err
	}
	// Text alone, and arrays, are prompts of their own; a number makes it one.
	several := true
	count := 0
	err := eachOf(v, func(_ int, v jsontext.Value) error {
		several = several && v.Kind() != '0'
		count++
		return nil
	})
	switch {
	case err != nil:
		return err
	case count == 0:
		return bad("empty, want %s", wantPrompt)
	case !several:
		one, err := readPrompt(v)
		*p = prompts{one}
		return err
	case count > maxSequences:
		return bad("%d prompts, want at most %d", count, maxSequences)
	}
	*p = nil
	return eachOf(v, func(i int, v jsontext.Value) error {
		one, err := readPrompt(v)
		if err != nil {
			return wrap(fmt.Sprintf("element %d", i), err)
		}
		*p = append(*p, one)
		return nil
	})
}

// readPrompt reads one of several prompts.
func readPrompt(v jsontext.Value) (prompt, error) {
	switch v.Kind() {
	case '"':
		return prompt{{text: str(v)}}, nil
	case '{':
		return readPromptObject(v)
	case '[':
		var p prompt
		err := eachOf(v, func(i int, v jsontext.Value) error {
			switch v.Kind() {
			case '"':
				p = append(p, part{text: str(v)})
				return nil
			case '0':
				var id int32
				if err := integer(&id, 0, math.MaxInt32).take(v); err != nil {
					return fmt.Errorf("element %d: %v", i, err)
				}
				if len(p) == 0 || p[len(p)-1].ids == nil {
					p = append(p, part{})
				}
				last := &p[len(p)-1]
				last.ids = append(last.ids, id)
				return nil
			}
			return fmt.Errorf("element %d: %v", i, wrong(v, "a token id or a string"))
		})
		if err == nil && p == nil {
			err = fmt.Errorf("empty, want %s", wantPrompt)
		}
		return p, err
	}
	return nil, wrong(v, wantPrompt)
}

// readPromptObject reads the form that llama-server has for text with media.
func readPromptObject(v jsontext.Value) (prompt, error) {
	m, err := readObject(v)
	if err != nil {
		return nil, err
	}
	if media, ok := m["multimodal_data"]; ok && media.Kind() != 'n' && string(media) != "[]" {
		return nil, unsupported("multimodal_data: the model reads text only, want none")
	}
	s, ok := m["prompt_string"]
	if !ok || s.Kind() != '"' {
		return nil, wrong(v, `an object with "prompt_string"`)
	}
	return prompt{{text: str(s)}}, nil
}

func (p *prompts) value() any { return nil }

func (p *prompts) schema() schema {
	s := schema{"type": "string"}
	id := schema{"type": "integer", "minimum": 0}
	object := schema{"type": "object", "required": []string{"prompt_string"}, "properties": schema{"prompt_string": s}}
	mixed := schema{"type": "array", "minItems": 1, "items": schema{"anyOf": []schema{s, id}}}
	return schema{"description": wantPrompt, "anyOf": []schema{
		s, object, mixed, {"type": "array", "minItems": 1, "items": schema{"anyOf": []schema{s, object, mixed}}},
	}}
}

// encode returns the tokens of a prompt. Only text at the beginning gets BOS.
func (p prompt) encode(m *Model) ([]int32, error) {
	var ids []int32
	for i, part := range p {
		for at, id := range part.ids {
			if int(id) >= m.Tokenizer.Len() {
				return nil, invalid("prompt", "element %d: token %d is not in the vocabulary, want 0 to %d", at, id, m.Tokenizer.Len()-1)
			}
		}
		if part.ids != nil {
			ids = append(ids, part.ids...)
			continue
		}
		ids = append(ids, m.Tokenizer.Encode(part.text, tokenizer.Options{NoSpecial: i > 0, ParseSpecial: true})...)
	}
	return m.begun(ids)
}

// begun makes sure that a prompt has something to go on from.
func (m *Model) begun(ids []int32) ([]int32, error) {
	if ids = m.Tokenizer.Begin(ids); len(ids) == 0 {
		return nil, invalid("prompt", "empty, want some text: this model has no token to begin with")
	}
	return ids, nil
}

// text is the prompt as an answer echoes it.
func (p prompt) String(m *Model) string {
	if i := slices.IndexFunc(p, func(q part) bool { return q.ids != nil }); i < 0 && len(p) == 1 {
		return p[0].text
	}
	out := ""
	for _, part := range p {
		out += part.text + m.Tokenizer.Detokenize(part.ids, false)
	}
	return out
}

// tokenList are the tokens of /detokenize.
type tokenList []int32

func (l *tokenList) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		return wrong(v, "an array of token ids")
	}
	*l = tokenList{}
	return eachOf(v, func(i int, v jsontext.Value) error {
		var id int32
		if err := integer(&id, 0, math.MaxInt32).take(v); err != nil {
			return fmt.Errorf("element %d: %v", i, err)
		}
		*l = append(*l, id)
		return nil
	})
}

func (l *tokenList) value() any { return []int32(*l) }

func (l *tokenList) schema() schema {
	return schema{"type": "array", "items": schema{"type": "integer", "minimum": 0}, "description": "an array of token ids"}
}

// wrap says where in a value an error is, if there is one.
func wrap(where string, err error) error {
	if err == nil {
		return nil
	}
	if api, ok := err.(*apiError); ok {
		api.message = where + ": " + api.message
		return api
	}
	return fmt.Errorf("%s: %w", where, err)
}
