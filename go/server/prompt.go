package server

import (
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A prompt is a sequence of texts and token ids.
type prompt []part

// A part is text, or ids where those are not nil.
type part struct {
	text string
	ids  []int32
}

// prompts are separate inputs: each has answers of its own.
type prompts []prompt

const wantPrompt = "a string, an array of token ids, both mixed, or an array of these"

func (p *prompts) take(r *reader) (err error) {
	*p, err = readPrompts(r, maxSequences)
	return err
}

// readPrompts reads one prompt or as many as `most`.
func readPrompts(r *reader, most int) (all []prompt, err error) {
	if r.kind() != '[' {
		one, err := readPrompt(r)
		return []prompt{one}, err
	}
	// An array of strings and arrays holds several prompts; a number makes it a single
	// one.
	var joined prompt
	number, nested := false, false
	err = r.elements(wantPrompt, func(i int) error {
		var one prompt
		var err error
		switch r.kind() {
		case '0':
			number = true
			err = joined.element(r)
		case '"':
			err = joined.element(r)
			one = joined[len(joined)-1:]
		default:
			nested = true
			one, err = readPrompt(r)
		}
		switch {
		case err != nil:
			return wrap(fmt.Sprintf("element %d", i), err)
		case number && nested:
			return fmt.Errorf("token ids beside prompts, want %s", wantPrompt)
		case !number:
			all = append(all, one)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case number:
		return []prompt{joined}, nil
	case len(all) == 0:
		return nil, reply.Bad("empty, want %s", wantPrompt)
	case len(all) > most:
		return nil, reply.Bad("%d prompts, want at most %d", len(all), most)
	}
	return all, nil
}

// readPrompt reads one element of an array of prompts.
func readPrompt(r *reader) (p prompt, err error) {
	switch r.kind() {
	case '"':
		return p, p.element(r)
	case '{':
		return readPromptObject(r)
	}
	err = r.elements(wantPrompt, func(i int) error {
		return wrap(fmt.Sprintf("element %d", i), p.element(r))
	})
	if err == nil && p == nil {
		err = fmt.Errorf("empty, want %s", wantPrompt)
	}
	return p, err
}

// element reads a string or a token id.
func (p *prompt) element(r *reader) error {
	if r.kind() == '"' {
		s, err := r.text(wantPrompt)
		*p = append(*p, part{text: s})
		return err
	}
	if r.kind() != '0' {
		return r.wrong("a token id or a string")
	}
	var id int32
	if err := integer(&id, 0, math.MaxInt32).take(r); err != nil {
		return err
	}
	if len(*p) == 0 || (*p)[len(*p)-1].ids == nil {
		*p = append(*p, part{})
	}
	last := &(*p)[len(*p)-1]
	last.ids = append(last.ids, id)
	return nil
}

// readPromptObject reads llama-server's format for text with media.
func readPromptObject(r *reader) (prompt, error) {
	const want = `an object with "prompt_string"`
	var p prompt
	err := r.members(want, func(name string) error {
		switch name {
		case "prompt_string":
			s, err := r.text("a string")
			p = prompt{{text: s}}
			return wrap(name, err)
		case "multimodal_data":
			v, err := r.raw()
			if err == nil && v.Kind() != 'n' && string(v) != "[]" {
				err = reply.Bad("multimodal_data: the model reads text only, want none")
			}
			return err
		}
		_, err := r.raw()
		return err
	})
	if err == nil && p == nil {
		err = fmt.Errorf("an object without prompt_string, want %s", want)
	}
	return p, err
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
func (p prompt) encode(m *Model) ([]int32, error) { return p.encodeAs(m, "prompt") }

// encodeAs is encode for the field of that name.
func (p prompt) encodeAs(m *Model, name string) ([]int32, error) {
	var ids []int32
	for i, part := range p {
		for at, id := range part.ids {
			if int(id) >= m.Tokenizer.Len() {
				return nil, reply.Invalid(name, "element %d: token %d is not in the vocabulary, want 0 to %d", at, id, m.Tokenizer.Len()-1)
			}
		}
		if part.ids != nil {
			ids = append(ids, part.ids...)
			continue
		}
		ids = append(ids, m.Tokenizer.Encode(part.text, tokenizer.Options{NoSpecial: i > 0, ParseSpecial: true})...)
	}
	return m.begunAs(ids, name)
}

// begun applies Tokenizer.Begin to ids. It is an error if there are none then: a model needs
// a token to continue.
func (m *Model) begun(ids []int32) ([]int32, error) { return m.begunAs(ids, "prompt") }

// begunAs is begun for the field of that name.
func (m *Model) begunAs(ids []int32, name string) ([]int32, error) {
	if ids = m.Tokenizer.Begin(ids); len(ids) == 0 {
		return nil, reply.Invalid(name, "empty, want some text: this model has no token to begin with")
	}
	return ids, nil
}

// size is what a prompt holds: token ids, and the bytes of its texts.
func (p prompt) size() (n struct{ ids, bytes int }) {
	for _, part := range p {
		n.ids += len(part.ids)
		n.bytes += len(part.text)
	}
	return n
}

// String is the prompt as an answer echoes it: the client's own text, if it is text.
func (p prompt) String(m *Model) string {
	out := ""
	for _, part := range p {
		out += part.text + m.Tokenizer.Detokenize(part.ids, false)
	}
	return out
}

// spell returns the text of tokens as llama-server echoes it: including special tokens,
// and the space that a vocabulary prepends.
func (m *Model) spell(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(m.Tokenizer.Piece(id, true))
	}
	return b.String()
}

// tokenList is the tokens field of /detokenize.
type tokenList []int32

func (l *tokenList) take(r *reader) error {
	*l = tokenList{}
	return r.elements("an array of token ids", func(i int) error {
		var id int32
		err := integer(&id, 0, math.MaxInt32).take(r)
		*l = append(*l, id)
		return wrap(fmt.Sprintf("element %d", i), err)
	})
}

func (l *tokenList) value() any { return []int32(*l) }

func (l *tokenList) schema() schema {
	return schema{"type": "array", "items": schema{"type": "integer", "minimum": 0}, "description": "an array of token ids"}
}
