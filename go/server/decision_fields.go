package server

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/sample"
)

// A branch is a choice behind its stem: tokens, and the Reader of their log-probabilities.
type branch struct {
	ids   []int32
	from  int // the first that is not of the stem
	stops []int32
	sum   float64
}

// Reads implements engine.Reader: a row says what comes after its token.
func (b *branch) Reads() (output string, from, to int) {
	to = len(b.ids) - 1
	if b.stops != nil {
		to++
	}
	return arch.Logits, b.from - 1, to
}

// Read implements engine.Reader.
func (b *branch) Read(i int, row []float32) {
	logprob := func(id int32) float64 {
		own, _ := sample.Logprobs(row, id, 0)
		return float64(own.Value)
	}
	if i+1 < len(b.ids) {
		b.sum += logprob(b.ids[i+1])
		return
	}
	p := 0.0
	for _, id := range b.stops {
		if l := logprob(id); l > -700 {
			p += exactmath.Pow(math.E, l)
		}
	}
	if p == 0 {
		b.sum = math.Inf(-1)
		return
	}
	b.sum += exactmath.Log(p)
}

// End implements engine.Reader.
func (b *branch) End(func(output string, given []float32) []float32) {}

// checkChoices refuses choices that cannot be told apart.
func checkChoices(choices texts) error {
	if len(choices) < 2 {
		return fmt.Errorf("%d, want at least 2", len(choices))
	}
	for i, c := range choices {
		if c == "" {
			return fmt.Errorf("element %d: empty, want a text", i)
		}
		if slices.Contains(choices[:i], c) {
			return fmt.Errorf("element %d: %s is there twice", i, quote(c))
		}
	}
	return nil
}

// priorText is a text that may be empty.
type priorText struct{ p **string }

func (t priorText) take(r *reader) error {
	s, err := r.text("a string")
	*t.p = &s
	return err
}

func (t priorText) value() any     { return nil }
func (t priorText) schema() schema { return schema{"type": "string"} }

// questions are those of a request.
type questions []question

const wantQuestions = `an array of objects such as {"prompt": "Is it polite?", "choices": ["yes", "no"]}`

func (l *questions) take(r *reader) error {
	*l = questions{}
	err := r.elements(wantQuestions, func(i int) error {
		var one question
		err := r.members(wantQuestions, func(name string) error {
			var err error
			switch name {
			case "name":
				err = optional(r, &one.name)
			case "prompt":
				err = optional(r, &one.prompt)
			case "choices":
				if err = one.choices.take(r); err == nil {
					err = checkChoices(one.choices)
				}
			default:
				_, err = r.raw()
			}
			return wrap(name, err)
		})
		if err == nil && one.choices == nil {
			err = errors.New("choices: missing, want an array of strings")
		}
		*l = append(*l, one)
		return wrap(fmt.Sprintf("element %d", i), err)
	})
	if err == nil && len(*l) == 0 {
		err = fmt.Errorf("empty, want %s", wantQuestions)
	}
	return err
}

func (l *questions) value() any { return nil }

func (l *questions) schema() schema {
	s := schema{"type": []string{"string", "null"}}
	return schema{"type": "array", "minItems": 1, "description": wantQuestions, "items": schema{
		"type": "object", "required": []string{"choices"}, "properties": schema{
			"name": s, "prompt": s, "choices": schema{"type": "array", "minItems": 2, "items": schema{"type": "string"}},
		},
	}}
}
