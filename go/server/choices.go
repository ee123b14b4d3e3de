package server

import (
	"fmt"

	"github.com/quern-llm/quern/go/constrain"
)

// structured is the object in which vLLM's clients send constraints on the output.
type structured struct{ choice *texts }

func (s structured) take(r *reader) error {
	return r.members("an object", func(name string) error {
		switch {
		case r.kind() == 'n':
			_, err := r.raw()
			return err
		case name != "choice":
			return fmt.Errorf("%s is not supported yet, want choice", quote(name))
		}
		return wrap(name, s.choice.take(r))
	})
}

func (s structured) value() any { return map[string]any{"choice": s.choice.value()} }

func (s structured) schema() schema {
	return schema{"type": "object", "properties": schema{"choice": s.choice.schema()}}
}

// constraint returns the constraint that limits an answer to one of the choices, nil
// where there are none.
func constraint(m *Model, choices texts, ends bool) (constrain.Constraint, error) {
	if choices == nil {
		return nil, nil
	}
	held, err := constrain.Choice(m.vocabulary(), choices, ends)
	if err != nil {
		return nil, invalid("guided_choice", "%v", err)
	}
	return held, nil
}
