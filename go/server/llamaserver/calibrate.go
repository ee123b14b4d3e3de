package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// calibration is what probabilities of choices are made with. The zero value has none.
type calibration struct{ of *reading.Calibration }

const wantCalibration = `an object such as {"temperature": 1.5, "bias": [0.2, -0.2]}`

func (c *calibration) Take(r *field.Reader) error {
	if r.Kind() == 'n' {
		return r.Decode(&c.of)
	}
	c.of = &reading.Calibration{Temperature: 1}
	return r.Members(wantCalibration, func(name string) (err error) {
		switch name {
		case "temperature":
			err = r.Decode(&c.of.Temperature)
		case "bias":
			err = r.Decode(&c.of.Bias)
		default: // a typo would leave the probabilities as they are
			err = fmt.Errorf("%s is not known, want temperature or bias", field.Quote(name))
		}
		return field.Within(name, err)
	})
}

func (c *calibration) Value() any { return nil }

func (c *calibration) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{
		"temperature": field.Schema{"type": "number", "minimum": reading.LeastTemperature, "maximum": reading.MostTemperature},
		"bias":        field.Schema{"type": []string{"array", "null"}, "items": field.Schema{"type": "number"}, "maxItems": maxBranches},
	}}
}

// fits returns an error for what is not of so many choices.
func (c *calibration) fits(choices int) error {
	if c.of == nil {
		return nil
	}
	switch t, bias := c.of.Temperature, c.of.Bias; {
	case !(t >= reading.LeastTemperature && t <= reading.MostTemperature):
		return fmt.Errorf("temperature: %g, want %g to %g", t, reading.LeastTemperature, reading.MostTemperature)
	case len(bias) == 0:
		c.of.Bias = nil
	case len(bias) != choices:
		return fmt.Errorf("bias: %d numbers for %d choices, want one for each", len(bias), choices)
	case slices.ContainsFunc(bias, func(b float64) bool { return !(b >= -1e6 && b <= 1e6) }):
		return errors.New("bias: want numbers from -1000000 to 1000000")
	}
	return nil
}

// An example is a text or a conversation with the choice that is right for it.
type example struct {
	prompt   string
	messages ask.Messages
	label    string
}

// Examples of a request.
const (
	leastExamples = 2
	maxExamples   = 1000

	maxScores = 20_000 // of all choices of all examples, which the time of a fit is in proportion to
)

type examples []example

const wantExamples = `an array of objects such as {"prompt": "The sky is", "label": " blue"}`

func (l *examples) Take(r *field.Reader) error {
	*l = examples{}
	err := r.Elements(wantExamples, func(i int) error {
		if i == maxExamples {
			return fmt.Errorf("more than %d, want at most so many", maxExamples)
		}
		var one example
		err := r.Members(wantExamples, func(name string) (err error) {
			switch name {
			case "prompt":
				err = r.Optional(&one.prompt)
			case "messages":
				err = one.messages.Take(r)
			case "label":
				one.label, err = r.Text("a string")
			default:
				_, err = r.Raw()
			}
			return field.Within(name, err)
		})
		if err == nil && (one.prompt == "") == (one.messages == nil) {
			err = errors.New("want either a prompt or messages")
		}
		*l = append(*l, one)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
	if err == nil && len(*l) < leastExamples {
		err = fmt.Errorf("%d, want at least %d", len(*l), leastExamples)
	}
	return err
}

func (l *examples) Value() any { return nil }

func (l *examples) Schema() field.Schema {
	s := field.Schema{"type": "string"}
	return field.Schema{"type": "array", "minItems": leastExamples, "maxItems": maxExamples, "description": wantExamples,
		"items": field.Schema{"type": "object", "required": []string{"label"}, "properties": field.Schema{
			"prompt": s, "messages": new(ask.Messages).Schema(), "label": s,
		}}}
}

// A calibrateQuery is a request to /v1/decisions/calibrate.
type calibrateQuery struct {
	*decisionQuery
	examples examples
}

func newCalibrateQuery(m *ask.Model) *calibrateQuery {
	return &calibrateQuery{decisionQuery: newDecisionQuery(m)}
}

func (q *calibrateQuery) Fields() []field.Field {
	return append([]field.Field{
		field.Required("choices", &q.choices, "The texts to choose from."),
		field.Required("examples", &q.examples,
			"Texts or conversations, each with its label: the choice that is right. All are of the kind that will be asked."),
	}, q.how()...)
}

// A calibrateAnswer has the calibration, for the field of that name of /v1/decisions, and what it is worth.
type calibrateAnswer struct {
	Object      string              `json:"object"`
	Model       string              `json:"model"`
	Calibration reading.Calibration `json:"calibration"`
	Examples    int                 `json:"examples"`
	Before      reading.Fit         `json:"before"`
	After       reading.Fit         `json:"after"` // of examples that were left out of the fit
	Usage       decisionUsage       `json:"usage"`
}

// calibrate serves POST /v1/decisions/calibrate.
func (s *API) calibrate(req *answer.Request) error {
	m := req.Model
	q := newCalibrateQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := m.Generates(); err != nil {
		return err
	}
	if n := len(q.examples) * len(q.choices); n > maxScores {
		return reply.Invalid("examples", "%d, times %d choices are %d, want at most %d", len(q.examples), len(q.choices), n, maxScores)
	}
	right := make([]int, len(q.examples))
	for i, x := range q.examples {
		if right[i] = slices.Index(q.choices, x.label); right[i] < 0 {
			return reply.Invalid("examples", "element %d: the label %s is none of the choices", i, field.Quote(x.label))
		}
	}
	a := calibrateAnswer{Object: "decision.calibration", Model: m.Name, Examples: len(q.examples)}
	all := make([][]float64, len(q.examples))
	for i, x := range q.examples {
		scores, used, err := s.scoresOfExample(req, q, x)
		var long *engine.TooLongError
		switch {
		case errors.As(err, &long):
			return answer.WrapAPI(true, i, err)
		case err != nil:
			return err
		}
		all[i] = scores
		a.Usage.PromptTokens += used.PromptTokens
		a.Usage.Details.Cached += used.Details.Cached
	}
	a.Usage.TotalTokens = a.Usage.PromptTokens
	ctx := req.Context()
	if !q.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Until, engine.ErrDeadline)
		defer cancel()
	}
	c, before, after, err := reading.Calibrate(ctx, all, right)
	switch {
	case errors.Is(err, engine.ErrDeadline):
		return err
	case err != nil:
		return reply.ErrGone
	}
	a.Calibration, a.Before, a.After = *c, before, after
	req.Send(a)
	return nil
}

// scoresOfExample evaluates the choices of an example.
func (s *API) scoresOfExample(req *answer.Request, q *calibrateQuery, x example) ([]float64, decisionUsage, error) {
	one := *q.decisionQuery
	one.prompt, one.Messages = x.prompt, x.messages
	asked, err := one.asked()
	if err != nil {
		return nil, decisionUsage{}, err
	}
	held := req.TokenStore()
	defer held.Release()
	stems, err := one.stems(req.Context(), req.Model, asked, held)
	if err != nil {
		return nil, decisionUsage{}, err
	}
	used, err := s.evaluate(req, &q.Reads, stems) // those of all examples, which have one deadline
	if err != nil {
		return nil, used, err
	}
	if slices.ContainsFunc(stems, (*reading.Stem).Overflows) {
		return nil, used, answer.Overflow(engine.ErrOverflow)
	}
	var prior *reading.Stem
	if one.prior != nil {
		prior = stems[1]
	}
	return one.scores(q.choices, stems[0], prior), used, nil
}
