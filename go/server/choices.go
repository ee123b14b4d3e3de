package server

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/constrain"
)

// choices are the texts of which an answer is to be one; nil is any text.
type choices []string

const wantChoices = "an array of strings"

func (c *choices) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		return wrong(v, wantChoices)
	}
	*c = choices{}
	return eachOf(v, func(_ int, v jsontext.Value) error {
		if v.Kind() != '"' {
			return wrong(v, wantChoices)
		}
		*c = append(*c, str(v))
		return nil
	})
}

func (c *choices) value() any { return append([]string{}, *c...) }

func (c *choices) schema() schema {
	return schema{
		"type": "array", "items": schema{"type": "string", "minLength": 1}, "minItems": 1, "maxItems": constrain.MaxChoices,
	}
}

// structured is the object in which vLLM's clients say what an answer is held to.
type structured struct{ choice *choices }

func (s structured) take(v jsontext.Value) error {
	m, err := readObject(v)
	if err != nil {
		return err
	}
	for name, value := range m {
		switch {
		case value.Kind() == 'n':
		case name != "choice":
			return bad("%s is not supported yet, want choice", quote(name))
		default:
			if err := s.choice.take(value); err != nil {
				return bad("choice: %v", err)
			}
		}
	}
	return nil
}

func (s structured) value() any { return map[string]any{"choice": s.choice.value()} }

func (s structured) schema() schema {
	return schema{"type": "object", "properties": schema{"choice": s.choice.schema()}}
}

// constraint returns what the answer is held to, nil where it is free. Each
// sequence needs a fork of its own.
func (c choices) constraint(m *Model, ignoreEOS bool) (constrain.Constraint, error) {
	if c == nil {
		return nil, nil
	}
	held, err := constrain.Choice(m.vocabulary(), c, !ignoreEOS)
	if err != nil {
		return nil, invalid("guided_choice", "%v", err)
	}
	return held, nil
}
