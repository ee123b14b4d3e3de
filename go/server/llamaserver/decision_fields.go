package llamaserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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

// begin reports whether one is the beginning of another.
func (l choices) begin() bool {
	sorted := slices.Sorted(slices.Values(l)) // where a beginning is next to what begins with it
	for i := range len(sorted) - 1 {
		if strings.HasPrefix(sorted[i+1], sorted[i]) {
			return true
		}
	}
	return false
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

// A form is whose questions those of a request are.
type form int

const (
	untyped   form = iota // ours
	systemOne             // of the System One API
	openAI                // of OpenAI's Decisions API
)

// wantQuestions are questions of each form.
var wantQuestions = [...]string{
	untyped:   `an array of objects such as {"prompt": "Is it polite?", "choices": ["yes", "no"]}`,
	systemOne: `an object such as {"polite": {"type": "noul", "instructions": "Is it polite?"}}`,
	openAI:    `an array of objects such as {"type": "predicate", "name": "polite", "instructions": "Is it polite?"}`,
}

// questions are those of a request. They are of one form.
type questions struct {
	all  []question
	form form
}

func (l *questions) Take(r *field.Reader) error {
	*l = questions{}
	n := 0
	add := func(one question, of form, where string, err error) error {
		if n += max(len(one.choices), one.typed.size()); err == nil && n > maxBranches {
			err = fmt.Errorf("choices: more than %d in all, want at most so many", maxBranches)
		}
		if err == nil && len(l.all) > 0 && of != l.form {
			err = errors.New("has a type and others have none, or the other way round")
		}
		l.form, l.all = of, append(l.all, one)
		return field.Within(where, err)
	}
	var err error
	if r.Kind() == '{' {
		err = r.Members(wantQuestions[systemOne], func(name string) error {
			one, err := readTyped(r, false)
			if one.name = name; name == "" {
				err = errors.New("the name is empty, want one")
			}
			return add(one, systemOne, field.Quote(name), err)
		})
	} else {
		err = r.Elements(wantQuestions[untyped], func(i int) error {
			v, err := r.Raw()
			if err != nil {
				return err
			}
			of, read := untyped, readQuestion
			if has, _ := field.Peek(v, "type"); !missing(has["type"]) {
				of, read = openAI, func(r *field.Reader) (question, error) { return readTyped(r, true) }
			}
			one, err := read(field.NewReader(v))
			return add(one, of, fmt.Sprintf("element %d", i), err)
		})
	}
	if err == nil && len(l.all) == 0 {
		err = fmt.Errorf("empty, want %s", wantQuestions[l.form])
	}
	return err
}

// readQuestion reads one of ours.
func readQuestion(r *field.Reader) (one question, err error) {
	err = r.Members(wantQuestions[untyped], func(name string) error {
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
	return one, err
}

func (l *questions) Value() any { return nil }

func (l *questions) Schema() field.Schema {
	return field.Schema{"description": wantQuestions[untyped], "anyOf": []field.Schema{schemaOf(untyped), schemaOf(openAI), schemaOf(systemOne)}}
}

// namedQuestions are questions of the System One API.
type namedQuestions struct{ *questions }

func (l namedQuestions) Schema() field.Schema { return schemaOf(systemOne) }

// schemaOf describes questions of a form.
func schemaOf(f form) field.Schema {
	s, text := field.Schema{"type": []string{"string", "null"}}, field.Schema{"type": "string"}
	calibration := new(calibration).Schema()
	object := func(required []string, has field.Schema) field.Schema {
		return field.Schema{"type": "object", "required": required, "properties": has}
	}
	options := func(label string, of any, most int) field.Schema {
		return field.Schema{"type": "array", "minItems": leastOfBoth, "maxItems": most,
			"items": object([]string{label}, field.Schema{label: field.Schema{"type": of}, "description": text})}
	}
	any := field.Schema{"type": []string{"string", "object", "array", "null"}}
	switch f {
	case systemOne:
		return field.Schema{"type": "object", "minProperties": 1, "description": wantQuestions[f],
			"additionalProperties": object([]string{"type"}, field.Schema{
				"type": field.Schema{"enum": strings.Split(kinds(false), ", ")}, "instructions": any, "calibration": calibration,
				"criteria": field.Schema{"type": []string{"object", "array", "null"}, "minProperties": 0, "maxProperties": mostOptions, "maxItems": mostLevels},
			})}
	case openAI:
		return field.Schema{"type": "array", "minItems": 1, "description": wantQuestions[f],
			"items": object([]string{"type", "instructions"}, field.Schema{
				"type": field.Schema{"enum": strings.Split(kinds(true), ", ")}, "name": s, "instructions": text, "calibration": calibration,
				"choices": options("value", []string{"string", "boolean"}, mostOptions), "levels": options("label", "string", mostLevels),
			})}
	}
	return field.Schema{"type": "array", "minItems": 1, "description": wantQuestions[f], "items": object([]string{"choices"}, field.Schema{
		"name": s, "prompt": s, "choices": new(choices).Schema(), "calibration": calibration,
	})}
}
