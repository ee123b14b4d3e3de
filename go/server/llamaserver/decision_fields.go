package llamaserver

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/server/field"
)

// choices are texts that can be told apart.
type choices []string

const wantChoices = "an array of strings"

func (l *choices) Take(r *field.Reader) error {
	*l = choices{}
	seen := map[string]bool{}
	err := r.Elements(wantChoices, func(i int) error {
		if i == maxBranches {
			return fmt.Errorf("more than %d, want at most so many", maxBranches)
		}
		s, err := r.Text(wantChoices)
		switch {
		case err != nil:
			return err
		case s == "":
			return fmt.Errorf("element %d: empty, want a text", i)
		case seen[s]:
			return fmt.Errorf("element %d: %s is there twice", i, field.Quote(s))
		}
		seen[s] = true
		*l = append(*l, s)
		return nil
	})
	if err == nil && len(*l) < 2 {
		err = fmt.Errorf("%d, want at least 2", len(*l))
	}
	return err
}

func (l *choices) Value() any { return nil }

func (l *choices) Schema() field.Schema {
	return field.Schema{"type": "array", "minItems": 2, "maxItems": maxBranches, "uniqueItems": true,
		"items": field.Schema{"type": "string", "minLength": 1}}
}

// priorText is a text that may be empty.
type priorText struct{ p **string }

func (t priorText) Take(r *field.Reader) error {
	s, err := r.Text("a string")
	*t.p = &s
	return err
}

func (t priorText) Value() any           { return nil }
func (t priorText) Schema() field.Schema { return field.Schema{"type": "string"} }

// questions are those of a request.
type questions []question

const wantQuestions = `an array of objects such as {"prompt": "Is it polite?", "choices": ["yes", "no"]}`

func (l *questions) Take(r *field.Reader) error {
	*l = questions{}
	n := 0
	err := r.Elements(wantQuestions, func(i int) error {
		var one question
		err := r.Members(wantQuestions, func(name string) error {
			var err error
			switch name {
			case "name":
				err = r.Optional(&one.name)
			case "prompt":
				err = r.Optional(&one.prompt)
			case "choices":
				err = one.choices.Take(r)
			case "calibration":
				err = one.calibration.Take(r)
			default:
				_, err = r.Raw()
			}
			return field.Within(name, err)
		})
		if err == nil && one.choices == nil {
			err = errors.New("choices: missing, want " + wantChoices)
		}
		if n += len(one.choices); err == nil && n > maxBranches {
			err = fmt.Errorf("choices: more than %d in all, want at most so many", maxBranches)
		}
		*l = append(*l, one)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
	if err == nil && len(*l) == 0 {
		err = fmt.Errorf("empty, want %s", wantQuestions)
	}
	return err
}

func (l *questions) Value() any { return nil }

func (l *questions) Schema() field.Schema {
	s := field.Schema{"type": []string{"string", "null"}}
	return field.Schema{"type": "array", "minItems": 1, "description": wantQuestions, "items": field.Schema{
		"type": "object", "required": []string{"choices"}, "properties": field.Schema{
			"name": s, "prompt": s, "choices": new(choices).Schema(), "calibration": new(calibration).Schema(),
		},
	}}
}
