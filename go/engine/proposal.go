package engine

import (
	"math"

	"github.com/quern-llm/quern/go/draft"
)

// A proposal is what a model guesses of a text, one token after the other.
type proposal struct {
	gen    *Generation
	source draft.Source
	judge  *draft.Judge
	found  []draft.Guess // in this round
	reach  float64       // chance that all of them are right
	lost   bool          // nothing is guessed of it any more
}

// begin begins a round: the judge learns how the text has gone on.
func (p *proposal) begin() {
	p.found, p.reach = p.found[:0], 1
	p.judge.Accept(p.gen.ids)
}

// promise is the least number of accepted tokens that other guesses have to promise for a model not to be asked.
const promise = 2

// promised reports whether a model need not be asked: what is forced comes without, or other guesses promise enough.
func (p *proposal) promised() bool {
	return len(p.gen.draft) > len(p.gen.guesses) || expected(p.gen.guesses) > promise
}

// goesOn reports whether a further token is worth a guess.
func (p *proposal) goesOn() bool {
	g := p.gen
	return !p.lost && len(p.found) < min(g.Draft.Max, g.draftable(draft.MaxGuesses)) && p.reach > 0.1 &&
		p.found[len(p.found)-1].Chance >= float64(g.Draft.MinChance)
}

// add adds a guess, and the probability that the model gives it.
func (p *proposal) add(id int32, probability float32) {
	chance := p.judge.Chance(probability)
	p.judge.Guess(len(p.gen.ids)+len(p.found), id, probability)
	p.found = append(p.found, draft.Guess{ID: id, Chance: chance, Source: p.source})
	p.reach *= chance
}

// propose makes what the model has guessed the guesses of the text, if it promises more than what they were.
func (p *proposal) propose() {
	if len(p.found) >= max(p.gen.Draft.Min, 1) && expected(p.found) > expected(p.gen.guesses) {
		p.gen.guess(p.found)
	}
}

// expected is how many of the guesses will be accepted, on average.
func expected(guesses []draft.Guess) (n float64) {
	reach := 1.0
	for _, g := range guesses {
		reach *= g.Chance
		n += reach
	}
	return n
}

// topToken returns the likeliest token and its probability. Of logits without one, as a model has whose activations overflow,
// it returns false.
func topToken(logits []float32) (id int32, p float32, ok bool) {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	sum := 0.0
	for _, v := range logits {
		if d := v - logits[best]; d > -16 {
			sum += math.Exp(float64(d))
		}
	}
	if !(sum >= 1) { // the likeliest is 1 of it
		return 0, 0, false
	}
	return int32(best), float32(1 / sum), true
}
