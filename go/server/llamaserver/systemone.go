package llamaserver

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A systemOneQuery is a request to /v1/systemone: of /v1/decisions, with a state.
type systemOneQuery struct{ *decisionQuery }

func newSystemOneQuery(m *ask.Model) *systemOneQuery { return &systemOneQuery{newDecisionQuery(m)} }

func (q *systemOneQuery) Fields() []field.Field {
	return append(append([]field.Field{
		field.Required("state", stateText{&q.state}, "What the questions are about: a text, or JSON that is read as its text."),
		field.Required("questions", namedQuestions{&q.questions},
			`By their names, each with a type: noul (whether something holds), choice (which label of criteria) or score (which level of criteria, from 0).`),
	}, q.typedFields()...), q.how()...)
}

// systemOne serves POST /v1/systemone.
func (s *API) systemOne(req *answer.Request) error {
	q := newSystemOneQuery(req.Model)
	return s.decided(req, q.decisionQuery, q)
}

// readable refuses typed questions to a model that is made for them: what it would answer is not what its file is for.
func (q *decisionQuery) readable(m *ask.Model) error {
	if q.questions.form == untyped || m.Metadata == nil {
		return nil
	}
	if kind, ok := m.Metadata.Value(m.Info.Arch + ".decision.type"); ok {
		return reply.Unsupported("this model has a head for decisions (%v) that is not read here; ask a model that generates text",
			kind)
	}
	return nil
}

// What the System One API answers.
type (
	namedAnswers struct {
		Model   string                 `json:"model"`
		Answers map[string]namedAnswer `json:"answers"`
		Usage   namedUsage             `json:"usage"`
	}
	namedAnswer struct {
		Type          string                    `json:"type"`
		Noul          *float64                  `json:"noul,omitzero"`   // how probable it is that it holds
		Choice        *string                   `json:"choice,omitzero"` // the label that is most probable
		Score         *float64                  `json:"score,omitzero"`  // the mean of the levels, from 0
		Legend        map[string]jsontext.Value `json:"legend,omitzero"` // the levels by their numbers
		Probabilities map[string]float64        `json:"probabilities,omitzero"`
		Confidence    *float64                  `json:"confidence,omitzero"`
	}
	namedUsage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"` // nothing is generated
	}
)

// What OpenAI's Decisions API answers.
type (
	listedAnswers struct {
		Model   string         `json:"model"`
		Answers []listedAnswer `json:"answers"`
		Usage   listedUsage    `json:"usage"`
	}
	listedAnswer struct {
		Type          string              `json:"type"`
		Name          jsontext.Value      `json:"name"`
		Probability   *float64            `json:"probability,omitzero"`
		Choice        jsontext.Value      `json:"choice,omitzero"`
		Score         *float64            `json:"score,omitzero"`
		Probabilities []listedProbability `json:"probabilities,omitzero"`
		Confidence    *float64            `json:"confidence,omitzero"`
	}
	listedProbability struct {
		Value       any     `json:"value"`
		Label       *string `json:"label,omitzero"` // of a level
		Probability float64 `json:"probability"`
	}
	listedUsage struct {
		Input        int `json:"input_tokens"`
		InputDetails struct {
			Cached  int `json:"cached_tokens"`
			Written int `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		Output        int `json:"output_tokens"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int `json:"total_tokens"`
	}
)

// decisionSchema describes the answers of /v1/decisions: one for each form of questions.
var decisionSchema = field.Schema{"anyOf": []field.Schema{
	field.SchemaOf(decisionAnswer{}), field.SchemaOf(listedAnswers{}), field.SchemaOf(namedAnswers{}),
}}

// named answers typed questions as the System One API does.
func named(model string, asked []question, all []decision, used decisionUsage) namedAnswers {
	a := namedAnswers{Model: model, Answers: map[string]namedAnswer{}, Usage: namedUsage{Input: used.texts}}
	for i, d := range all {
		t := asked[i].typed
		one := namedAnswer{Type: t.kind}
		if t.holds() {
			one.Noul = &d.Choices[0].Probability
			a.Answers[asked[i].name] = one
			continue
		}
		one.Probabilities = map[string]float64{}
		label := func(k int) string { return t.options[k].label }
		if t.kind == "score" {
			label = strconv.Itoa
			one.Score = d.mean()
			one.Legend = map[string]jsontext.Value{}
			for k, o := range t.options {
				one.Legend[label(k)] = o.value
			}
		} else {
			one.Choice = &t.options[d.Index].label
		}
		for k, c := range d.Choices {
			one.Probabilities[label(k)] = c.Probability
		}
		one.Confidence = d.confidence()
		a.Answers[asked[i].name] = one
	}
	return a
}

// listed answers typed questions as OpenAI does.
func listed(model string, asked []question, all []decision, used decisionUsage) listedAnswers {
	a := listedAnswers{Model: model}
	for i, d := range all {
		t := asked[i].typed
		one := listedAnswer{Type: t.kind, Name: t.name}
		if t.holds() {
			one.Probability = &d.Choices[0].Probability
			a.Answers = append(a.Answers, one)
			continue
		}
		for k, c := range d.Choices {
			p := listedProbability{Value: t.options[k].value, Probability: c.Probability}
			if t.kind == "score" {
				p.Value, p.Label = k, &t.options[k].label
			}
			one.Probabilities = append(one.Probabilities, p)
		}
		if one.Confidence = d.confidence(); t.kind == "score" {
			one.Score = d.mean()
		} else {
			one.Choice = t.options[d.Index].value
		}
		a.Answers = append(a.Answers, one)
	}
	a.Usage.Input, a.Usage.InputDetails.Cached = used.texts, max(used.texts-used.PromptTokens, 0)
	a.Usage.Total = a.Usage.Input
	return a
}

// mean is the expected index of the choice.
func (d *decision) mean() *float64 {
	sum := 0.0
	for i, c := range d.Choices {
		sum += float64(i) * c.Probability
	}
	return &sum
}

// confidence says how far the most probable choice is from where all are alike: 1 where it is certain, 0 where they are.
func (d *decision) confidence() *float64 {
	n := float64(len(d.Choices))
	c := min(max((n*d.Choices[d.Index].Probability-1)/(n-1), 0), 1)
	return &c
}
