package answer

import (
	"math"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// promptProbs is the engine.Reader of the log-probabilities of a prompt's tokens: a row of logits is used when it is
// computed, and of each only the token's own value and the likeliest are kept.
type promptProbs struct {
	Tokens []generate.Token // the prompt's; nothing tells the probability of the first, and of media, whose ids are below 0
	Ranks  []int            // by token, 1 is the likeliest; nil: they are not wanted
	top    int              // alternatives per token
	failed error            // the model's numbers are none
}

func newPromptProbs(prompt []int32, top int, ranked bool) *promptProbs {
	p := &promptProbs{Tokens: make([]generate.Token, len(prompt)), top: top}
	if ranked {
		p.Ranks = make([]int, len(prompt))
	}
	for i, id := range prompt {
		p.Tokens[i].ID = id
	}
	return p
}

// reader returns the engine's Reader; nil: there is nothing to read.
func (p *promptProbs) reader() engine.Reader {
	if len(p.Tokens) < 2 {
		return nil
	}
	return p
}

// Reads implements engine.Reader: a row says what comes after its token.
func (p *promptProbs) Reads() (output string, from, to int) { return nn.Logits, 0, len(p.Tokens) - 1 }

// Read implements engine.Reader.
func (p *promptProbs) Read(i int, row []float32) {
	t := &p.Tokens[i+1]
	if t.ID < 0 { // a medium's, which is none of the vocabulary
		return
	}
	for _, v := range row {
		if !(v <= math.MaxFloat32) { // NaN, or infinitely likely
			p.failed = Overflow(engine.ErrOverflow)
			return
		}
	}
	t.Logprob, t.Top = sample.Logprobs(row, t.ID, p.top)
	if p.Ranks == nil {
		return
	}
	rank, own := 1, row[t.ID]
	for _, v := range row {
		if v > own {
			rank++
		}
	}
	p.Ranks[i+1] = rank
}

// err is why they cannot be sent. It is nil of those that are not wanted.
func (p *promptProbs) err() error {
	if p == nil {
		return nil
	}
	return p.failed
}

// End implements engine.Reader.
func (p *promptProbs) End(func(output string, given []float32) []float32) {}
