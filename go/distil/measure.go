package distil

import (
	"context"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
)

// Drafts is how many tokens are drafted at a time where acceptance is counted.
const Drafts = 4

// An Acceptance is what becomes of a draft model's likeliest tokens, Drafts at a time and fewer at the end of an answer.
type Acceptance struct {
	Drafted, Right int
	Passes         int // of the model, each of which verifies drafts and has one token of its own
}

// Share returns the share of the drafts that are accepted.
func (a Acceptance) Share() float64 { return float64(a.Right) / float64(max(a.Drafted, 1)) }

// Length returns how many drafts a pass accepts.
func (a Acceptance) Length() float64 { return float64(a.Right) / float64(max(a.Passes, 1)) }

// Accepted counts how many drafts a model's answers accept: a draft is accepted if it is the answer's token, and all before it
// were. Up to there the draft model has seen the answer itself, so that one pass over a text has what it would draft anywhere.
// texts are prompts and answers; answers have weights.
func Accepted(ctx context.Context, drafts *engine.Engine, texts []model.Text) (a Acceptance, err error) {
	for _, x := range texts {
		begin := answerOf(x)
		if len(x.Tokens)-begin < 2 {
			continue // the pass over the prompt has all of it
		}
		right := make([]bool, 0, len(x.Tokens)-begin-1) // of the answer's tokens but the first, which comes with the prompt
		seq := drafts.NewSequence()
		err := drafts.Eval(ctx, seq, x.Tokens[:len(x.Tokens)-1], begin, func(i int, logits []float32) error {
			right = append(right, sample.Likeliest(logits) == x.Tokens[i+1])
			return nil
		})
		seq.Close()
		if err != nil {
			return a, err
		}
		a.count(right)
	}
	return a, nil
}

// count adds an answer of whose tokens the draft model guesses some.
func (a *Acceptance) count(right []bool) {
	for at := 0; at < len(right); {
		most := min(Drafts, len(right)-at-1) // the last token comes with the pass
		n := 0
		for n < most && right[at+n] {
			n++
		}
		a.Drafted, a.Right, a.Passes = a.Drafted+most, a.Right+n, a.Passes+1
		at += n + 1
	}
}

// InSteps is Accepted for a head that guesses all drafts after a token in so many steps: guessed returns for each step which
// tokens of a text it guesses, given that those before them were right.
func InSteps(texts []model.Text, guessed func(model.Text) ([][]bool, error)) (a Acceptance, err error) {
	for _, x := range texts {
		begin := answerOf(x)
		if len(x.Tokens)-begin < 2 {
			continue
		}
		steps, err := guessed(x)
		if err != nil {
			return a, err
		}
		for at := begin + 1; at < len(x.Tokens); {
			most := min(Drafts, len(steps), len(x.Tokens)-at-1) // the last token comes with the pass
			n := 0
			for n < most && steps[n][at+n] {
				n++
			}
			a.Drafted, a.Right, a.Passes = a.Drafted+most, a.Right+n, a.Passes+1
			at += n + 1
		}
	}
	return a, nil
}

// answerOf returns where the answer of a text begins.
func answerOf(x model.Text) int {
	for i, w := range x.Weights {
		if i > 0 && w != 0 {
			return i
		}
	}
	return len(x.Tokens)
}

// A Speed is how long a model takes for answers by itself and with drafts, of which it decides when to use them.
type Speed struct {
	Alone, Drafted time.Duration
	Guessed, Right uint64 // drafts that were verified, and accepted
}

// Up returns how many times as fast answers are with drafts; 0 if nothing was measured.
func (s Speed) Up() float64 {
	if s.Drafted <= 0 {
		return 0
	}
	return float64(s.Alone) / float64(s.Drafted)
}

// Measure has the model write answers to the prompts of texts, as many tokens as the texts' answers have, in turn by itself and
// with drafts of a source that it was opened with. What passes cost is learnt by the way, so the first texts are not counted if
// there are more.
func (q *Question) Measure(ctx context.Context, eng *engine.Engine, source draft.Source, texts []model.Text) (s Speed, err error) {
	const learning = 2
	for i, x := range texts {
		begin := answerOf(x)
		p := q.params(i, x.Tokens[:begin])
		p.MaxTokens = len(x.Tokens) - begin
		for _, sources := range []draft.Set{0, draft.Set(1 << source)} {
			p.Draft = draft.Defaults
			p.Draft.Sources = sources
			st, err := generated(ctx, eng, p)
			if err != nil {
				return s, err
			}
			if i < learning && len(texts) > learning {
				continue
			}
			if sources == 0 {
				s.Alone += st.Decode
				continue
			}
			guessed, right := st.Drafted.Total()
			s.Drafted, s.Guessed, s.Right = s.Drafted+st.Decode, s.Guessed+guessed, s.Right+right
		}
	}
	return s, nil
}

func generated(ctx context.Context, eng *engine.Engine, p generate.Params) (engine.Stats, error) {
	seq := eng.NewSequence()
	defer seq.Close()
	return eng.Generate(ctx, seq, p, func(int32) error { return nil })
}
