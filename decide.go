package quern

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/tokenizer"
)

// MaxAnswers is how many answers [Model.Decide] chooses from at most.
const MaxAnswers = 512

// A Likelihood is how likely an answer is.
type Likelihood struct {
	Index       int     // among the answers
	Answer      string  // itself
	Probability float64 // among the answers: their sum is 1, unless none can come
	Logprob     float64 // the logarithm of the probability of its tokens among all that the model could say
}

// Decide returns how likely the model is to give each of some answers, the likeliest first. Nothing is generated: what the
// answers follow is evaluated once, and then each answer beside the others. To the Messages of r an answer is the whole
// answer; a Prompt is continued by one, and may go on behind it. The options of r that make an answer have no effect.
//
// A long answer is less likely than a short one that says the same: answers to compare are best of one length.
func (m *Model) Decide(ctx context.Context, r Request, answers ...string) ([]Likelihood, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	all, err := m.decide(ctx, &r, answers)
	return all, classify(err, ErrInternal)
}

func (m *Model) decide(ctx context.Context, r *Request, answers []string) ([]Likelihood, error) {
	if len(answers) < 2 || len(answers) > MaxAnswers {
		return nil, invalid(fmt.Sprintf("%d answers to choose from, want 2 to %d", len(answers), MaxAnswers))
	}
	for i, a := range answers {
		switch {
		case a == "":
			return nil, invalid(fmt.Sprintf("answer %d is empty", i))
		case slices.Contains(answers[:i], a):
			return nil, invalid(fmt.Sprintf("the answer %.80q is there twice", a))
		}
	}
	before, text, options, err := m.asks(ctx, r)
	if err != nil {
		return nil, err
	}
	encode := func(text string) ([]int32, error) {
		ids, err := m.reads(text, options, len(before.IDs))
		if n := m.open.Engine.Ctx(); err == nil && n < len(before.IDs)+len(ids) {
			err = &engine.TooLongError{Prompt: len(before.IDs) + len(ids), Ctx: n}
		}
		return ids, err
	}
	stem, err := reading.NewStem(ctx, m.tok, before, text, answers, r.Prompt == "", encode)
	if err != nil {
		return nil, classify(err, ErrInvalid)
	}
	for _, stage := range reading.Stages([]*reading.Stem{stem}) {
		err := m.evaluate(ctx, len(stage), func(i int) (*engine.Request, error) {
			return &engine.Request{
				Params: generate.Params{Prompt: stage[i].IDs}, Media: stage[i].Media, Reader: stage[i].Reader, Priority: r.Priority,
			}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if stem.Overflows() {
		return nil, engine.ErrOverflow
	}
	all := make([]Likelihood, len(answers))
	for i, one := range stem.Compare(stem.Scores(nil, nil), nil) {
		all[i] = Likelihood{i, answers[i], one.Probability, one.Logprob}
	}
	slices.SortStableFunc(all, func(a, b Likelihood) int { return cmp.Compare(b.Probability, a.Probability) })
	return all, nil
}

// asks returns the text that answers follow, how its tokens are made, and what is before it up to the last picture or sound.
func (m *Model) asks(ctx context.Context, r *Request) (*reading.Prompt, string, tokenizer.Options, error) {
	before, options := &reading.Prompt{}, tokenizer.Options{ParseSpecial: true}
	if m.open.Head.Config.BothWays {
		return nil, "", options, unsupported(fmt.Sprintf("%s %v", m.open.Head.Config.Arch, engine.ErrBothWays))
	}
	if err := r.given(); err != nil || r.Prompt != "" {
		return before, r.Prompt, options, err
	}
	prompt, err := m.render(ctx, r)
	if err != nil {
		return nil, "", options, err
	}
	media, last := prompt.Tail()
	if media != nil {
		options.NoSpecial = true
		before, err = m.open.Projector.Tokens(ctx, m.tok, m.open.Engine.Ctx(), media)
	}
	options.Literal = last.Literal
	return before, last.Text, options, err
}
