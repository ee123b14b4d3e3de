package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// maxBranches is how many choices a request may have, in all of its questions and with their priors.
const maxBranches = 512

// A decisionQuery is a request to /v1/decisions: which of some texts the model would go on with.
type decisionQuery struct {
	answer.Reads
	ask.Conversation
	prompt       string
	state, input about
	instructions string
	choices      choices
	questions    questions
	labels       string
	prior        *string
	normalize    string
	ends         ask.Option
	calibrated   calibration
}

func newDecisionQuery(m *ask.Model) *decisionQuery {
	return &decisionQuery{Reads: answer.NewReads(m), Conversation: ask.NewConversation(), labels: "texts", normalize: "none"}
}

func (q *decisionQuery) Fields() []field.Field {
	return slices.Concat([]field.Field{
		field.Input("prompt", field.Text(&q.prompt), "The text that a choice goes on from."),
		field.Input("messages", &q.Messages, "In place of prompt: a conversation, which a choice answers."),
		field.Input("choices", &q.choices, "The texts to choose from."),
		field.Input("questions", &q.questions,
			`In place of choices: several questions over one context, such as [{"name": "tone", "prompt": "Is it polite?", "choices": ["yes", "no"]}]. Their prompts follow prompt, or are further messages. With input or state they are of other forms.`),
		field.Input("input", inputParts{&q.input},
			"In place of prompt: what questions are about that are of the form of OpenAI's Decisions API, as is the answer then."),
		field.Input("state", stateText{&q.state},
			"In place of prompt: what questions are about that are of the form of the System One API, as is the answer then."),
		field.Input("calibration", &q.calibrated,
			"Of choices: what /v1/decisions/calibrate has fitted for them. A question may have its own."),
	}, q.typedFields(), q.how())
}

// typedFields are those of questions with types.
func (q *decisionQuery) typedFields() []field.Field {
	return []field.Field{
		field.Input("instructions", textOrJSON{&q.instructions}, "Of questions with types: what is told before all."),
		field.Setting("labels", field.OneOf(&q.labels, "texts", "letters"),
			"What a question of the type choice is answered by: the texts of its options, or a letter for each of up to 26."),
	}
}

// how are the fields that say how choices are compared.
func (q *decisionQuery) how() []field.Field {
	return append([]field.Field{
		field.Input("prior", priorText{&q.prior},
			"A text without content, such as N/A, in place of prompt or of the last message of the user before the questions: "+
				"what choices owe to it is taken off."),
		field.Setting("normalize", field.OneOf(&q.normalize, "none", "tokens", "bytes"),
			"What the logarithm of a choice's probability is divided by: nothing, its tokens or its bytes."),
		field.Setting("ends", &q.ends, "A choice counts as the whole answer, not as the beginning of one. By default it "+
			"does with messages, and does not with prompt."),
		field.Setting("chat_template_kwargs", &q.Kwargs, "Further variables for the chat template, such as enable_thinking."),
		field.Setting("reasoning_effort", field.OneOf(&q.Effort, ask.Efforts...),
			"For the chat template; none also turns reasoning off."),
	}, q.Reads.Fields()...)
}

type (
	decisionAnswer struct {
		ID        string        `json:"id"`
		Object    string        `json:"object"`
		Model     string        `json:"model"`
		Decisions []decision    `json:"decisions"`
		Usage     decisionUsage `json:"usage"`
	}
	decision struct {
		Name    string         `json:"name,omitempty"`
		Choice  string         `json:"choice"`
		Index   int            `json:"index"`
		Choices []choiceResult `json:"choices"`
	}
	choiceResult struct {
		Text        string   `json:"text"`
		Probability float64  `json:"probability"` // among the choices
		Logprob     float64  `json:"logprob"`     // of its tokens
		Prior       *float64 `json:"prior_logprob,omitzero"`
		Tokens      int      `json:"tokens"`
	}
	decisionUsage struct {
		answer.TokenUsage              // tokens that were evaluated
		Details           cachedTokens `json:"prompt_tokens_details"`
		texts             int          // tokens that were evaluated or that the cache had
	}
)

// cachedTokens are those of a prompt that the cache had.
type cachedTokens struct {
	Cached int `json:"cached_tokens"`
}

// finite makes numbers of logarithms that JSON cannot have: those of what cannot come.
func (r *choiceResult) finite() {
	r.Logprob = max(r.Logprob, -math.MaxFloat64)
	if r.Prior != nil {
		prior := max(*r.Prior, -math.MaxFloat64)
		r.Prior = &prior
	}
}

// A question is what is chosen for.
type question struct {
	name, prompt string
	choices      choices
	calibration  calibration
	ends         bool   // a choice is the whole answer
	typed        *typed // what it was made of; nil: it is as it was sent
}

// decide serves POST /v1/decisions.
func (s *API) decide(req *answer.Request) error {
	q := newDecisionQuery(req.Model)
	return s.decided(req, q, q)
}

// decided answers what is read into q by its fields, which some are of.
func (s *API) decided(req *answer.Request, q *decisionQuery, some field.Query) error {
	m := req.Model
	if err := req.Read(some); err != nil {
		return err
	}
	if err := m.Generates(); err != nil {
		return err
	}
	asked, err := q.asked()
	if err != nil {
		return err
	}
	if err := q.readable(m); err != nil {
		return err
	}
	held := req.TokenStore()
	defer held.Release()
	stems, err := q.stems(req.Context(), m, asked, held)
	if err != nil {
		return err
	}
	req.Made()
	used, err := s.evaluate(req, &q.Reads, stems)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(stems, (*reading.Stem).Overflows) {
		return answer.Overflow(engine.ErrOverflow)
	}
	all := make([]decision, len(asked))
	for i, one := range asked {
		var prior *reading.Stem
		if q.prior != nil {
			prior = stems[len(asked)+i]
		}
		all[i] = q.result(one, stems[i], prior)
	}
	switch q.questions.form {
	case systemOne:
		req.Send(named(m.Name, asked, all, used))
	case openAI:
		req.Send(listed(m.Name, asked, all, used))
	default:
		req.Send(decisionAnswer{ID: "dec-" + answer.NewID(), Object: "decision", Model: m.Name, Decisions: all, Usage: used})
	}
	return nil
}

// subject returns which field says what choices are about, and the form of questions that goes with it.
func (q *decisionQuery) subject() (name string, of form, err error) {
	for _, f := range []struct {
		name  string
		form  form
		given bool
	}{
		{"prompt", untyped, q.prompt != ""}, {"messages", untyped, q.Messages != nil},
		{"input", openAI, q.input != nil}, {"state", systemOne, q.state != nil},
	} {
		switch {
		case f.given && name != "":
			return "", 0, reply.Invalid(f.name, "given together with %s, want one of them", name)
		case f.given:
			name, of = f.name, f.form
		}
	}
	if name == "" {
		err = reply.Invalid("prompt", "missing, and so are messages, input and state; want one of them")
	}
	return name, of, err
}

// asked returns the questions.
func (q *decisionQuery) asked() ([]question, error) {
	subject, form, err := q.subject()
	several := q.questions.all != nil
	switch {
	case err != nil:
		return nil, err
	case q.choices == nil && !several && form != untyped:
		return nil, reply.Invalid("questions", "missing, want %s", wantQuestions[form])
	case q.choices == nil && !several:
		return nil, reply.Invalid("choices", "missing, and so is questions; want one of them")
	case q.choices != nil && several:
		return nil, reply.Invalid("questions", "given together with choices, want one of them")
	case q.choices != nil && form != untyped:
		return nil, reply.Invalid("choices", "given together with %s, want questions", subject)
	case several && q.questions.form != form:
		return nil, reply.Invalid("questions", "with %s, want %s", subject, wantQuestions[form])
	case several && q.calibrated.of != nil:
		return nil, reply.Invalid("calibration", "given together with questions, want one in a question")
	}
	all := []question{{choices: q.choices, calibration: q.calibrated}}
	if several {
		all = slices.Clone(q.questions.all)
	}
	for i := range all {
		if one := &all[i]; one.typed != nil {
			asked := one.typed.asked(q.labels == "texts")
			one.prompt, one.choices, one.ends = asked.prompt, asked.choices, asked.ends
			if at := twice(one.choices); at >= 0 {
				return nil, reply.Invalid("questions", "%s: %s is a label and a boolean, want labels letters", q.at(i), one.choices[at])
			}
		} else {
			one.ends = q.Messages != nil
		}
		if q.ends.Given {
			all[i].ends = q.ends.On
		}
	}
	n := 0
	for i, one := range all {
		n += len(one.choices)
		if err := one.calibration.fits(len(one.choices)); err != nil && several {
			return nil, reply.Invalid("questions", "%s: calibration: %v", q.at(i), err)
		} else if err != nil {
			return nil, reply.Invalid("calibration", "%v", err)
		}
	}
	if q.prior != nil {
		n *= 2
	}
	if n > maxBranches {
		return nil, reply.Invalid("choices", "%d in all, a prior counting twice, want at most %d", n, maxBranches)
	}
	return all, nil
}

// at returns which question one is, for errors.
func (q *decisionQuery) at(i int) string {
	if q.questions.form == systemOne {
		return field.Quote(q.questions.all[i].name)
	}
	return fmt.Sprintf("element %d", i)
}

// twice returns where a text is that is there before, -1 where none is.
func twice(all choices) int {
	seen := map[string]bool{}
	return slices.IndexFunc(all, func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}

// stems returns those of the questions, and then of their priors. Their tokens are added to `held`.
func (q *decisionQuery) stems(
	ctx context.Context, m *ask.Model, asked []question, held *answer.TokenStore,
) ([]*reading.Stem, error) {
	contexts := []*string{nil}
	if q.prior != nil {
		contexts = append(contexts, q.prior)
	}
	var all []*reading.Stem
	for _, instead := range contexts {
		for i, one := range asked {
			before, err := q.context(ctx, m, one.prompt, instead)
			if err != nil {
				return nil, err
			}
			st, err := stemOf(ctx, m, before, one.choices, one.ends, held)
			var long *engine.TooLongError
			var api *reply.Error
			switch {
			case errors.As(err, &long):
				return nil, answer.WrapAPI(q.questions.all != nil, i, err)
			case errors.As(err, &api), errors.Is(err, reply.ErrGone):
				return nil, err
			case err != nil && q.questions.all != nil:
				return nil, reply.Invalid("questions", "%s: %v", q.at(i), err)
			case err != nil:
				return nil, reply.Invalid("choices", "%v", err)
			}
			all = append(all, st)
		}
	}
	return all, nil
}

// context returns the text that choices go on from, with `instead` in place of the content.
func (q *decisionQuery) context(
	ctx context.Context, m *ask.Model, prompt string, instead *string,
) (chat.Prompt, error) {
	if of := slices.Concat(q.state, q.input); of != nil { // one of them is nil
		if instead != nil {
			of = about{{Text: *instead}}
		}
		c := q.Conversation
		c.Messages = ask.Messages{of.message(q.instructions, prompt)}
		if _, said := c.Kwargs["enable_thinking"]; c.Effort == "" && !said {
			c.Effort = "none" // the answer begins with a label
		}
		return c.Render(ctx, m)
	}
	if q.Messages == nil {
		if instead != nil {
			return chat.Prompt{Text: *instead + prompt}, nil
		}
		return chat.Prompt{Text: q.prompt + prompt}, nil
	}
	c := q.Conversation
	c.Messages = slices.Clone(c.Messages)
	if instead != nil {
		for i, msg := range slices.Backward(c.Messages) {
			if msg.Role == "user" {
				c.Messages[i].Content = chat.Text(*instead)
				break
			}
		}
	}
	if prompt != "" {
		c.Messages = append(c.Messages, chat.Message{Role: "user", Content: chat.Text(prompt)})
	}
	return c.Render(ctx, m)
}

// stemOf returns the choices behind a text. A text or a choice that held refuses is the last that is encoded.
func stemOf(
	ctx context.Context, m *ask.Model, before chat.Prompt, choices choices, ends bool, held *answer.TokenStore,
) (*reading.Stem, error) {
	media, last := before.Tail()
	head := &reading.Prompt{}
	if media != nil {
		var err error
		if head, err = m.Tokens(ctx, media, "messages", false); err != nil {
			return nil, err
		}
	}
	o := tokenizer.Options{ParseSpecial: true, NoSpecial: media != nil, Literal: last.Literal}
	st, err := reading.NewStem(ctx, m.Tokenizer, head, last.Text, choices, ends, func(text string) ([]int32, error) {
		ids, err := m.Encode(text, o, len(head.IDs))
		if err != nil {
			return nil, err
		}
		return ids, held.Add(slices.Concat(head.IDs, ids))
	})
	if ctx.Err() != nil {
		return nil, reply.ErrGone
	}
	return st, err
}

// evaluate reads the branches, a stage after the other.
func (s *API) evaluate(req *answer.Request, o *answer.Reads, stems []*reading.Stem) (decisionUsage, error) {
	var used decisionUsage
	for i, stage := range reading.Stages(stems) {
		texts := make([]answer.ReadText, len(stage))
		for k, t := range stage {
			texts[k] = answer.ReadText{Ids: t.IDs, Media: t.Media, Reader: t.Reader}
		}
		prompt, cached, err := req.Evaluate(o, texts)
		if err != nil {
			return used, err
		}
		if used.PromptTokens += prompt - cached; i == 0 {
			used.Details.Cached = cached
		}
	}
	used.TotalTokens, used.texts = used.PromptTokens, reading.Tokens(stems)
	return used, nil
}

// scores returns those of the branches of a question.
func (q *decisionQuery) scores(choices choices, st, prior *reading.Stem) []float64 {
	var per func(i, tokens int) float64
	switch q.normalize {
	case "tokens":
		per = func(_, tokens int) float64 { return float64(tokens) }
	case "bytes":
		per = func(i, _ int) float64 { return float64(len(choices[i])) }
	}
	return st.Scores(prior, per)
}

// result compares the branches of a question.
func (q *decisionQuery) result(asked question, st, prior *reading.Stem) decision {
	d := decision{Name: asked.name}
	var base []float64
	if prior != nil {
		base = prior.Scores(nil, nil)
	}
	for i, one := range st.Compare(q.scores(asked.choices, st, prior), asked.calibration.of) {
		r := choiceResult{Text: asked.choices[i], Probability: one.Probability, Logprob: one.Logprob, Tokens: one.Tokens}
		if base != nil {
			r.Prior = &base[i]
		}
		r.finite()
		d.Choices = append(d.Choices, r)
		if r.Probability > d.Choices[d.Index].Probability {
			d.Index = i
		}
	}
	d.Choice = d.Choices[d.Index].Text
	return d
}
