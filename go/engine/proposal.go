package engine

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/draft"
)

// A proposal is what a model guesses of a text, one token after the other.
type proposal struct {
	gen    *Generation
	source draft.Source
	judge  *draft.Judge
	found  []draft.Guess // in this round
	rivals []rival       // in this round, where found may be wrong
	reach  float64       // chance that all of found are right
	lost   bool          // nothing is guessed of it any more
}

// begin begins a round: the judge learns how the text has gone on.
func (p *proposal) begin() {
	p.found, p.rivals, p.reach = p.found[:0], p.rivals[:0], 1
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

// take adds what is likeliest by these logits, of which each is that of the token that tokens says. Where none is, nothing is guessed
// of the text any more.
func (p *proposal) take(logits []float32, tokens func(i int32) int32) {
	i, probability, ok := topToken(logits)
	if !ok {
		p.lost = true
		return
	}
	p.add(tokens(i), probability)
	if j, second := p.second(logits, i, probability); j >= 0 {
		p.rival(tokens(j), second)
	}
}

// add adds a guess, and the probability that the model gives it.
func (p *proposal) add(id int32, probability float32) {
	chance := p.judge.Chance(probability)
	p.judge.Guess(len(p.gen.ids)+len(p.found), id, probability)
	p.found = append(p.found, draft.Guess{ID: id, Chance: chance, Source: p.source})
	p.reach *= chance
}

// rivalDepth is how many tokens from the next on a second guess is made at. It takes a sequence of its own in the pass, whose tokens
// are those before it too.
const rivalDepth = 3

// second returns which of these logits is that of a second guess beside the first, and its probability if the first is wrong; -1 where
// none is asked for, so deep in the text.
func (p *proposal) second(logits []float32, first int32, probability float32) (int32, float32) {
	if len(p.found) > rivalDepth || p.gen.Draft.Max < 2 {
		return -1, 0
	}
	return secondToken(logits, first, probability)
}

// rival adds a second guess beside the last, and the probability that the model gives it if that is wrong, where it may be worth that.
func (p *proposal) rival(id int32, probability float32) {
	n := len(p.found) - 1
	chance := (1 - p.found[n].Chance) * p.judge.RivalChance(probability)
	p.judge.Rival(id, probability)
	if chance >= max(leastRival, float64(p.gen.Draft.MinChance)) {
		p.rivals = append(p.rivals, rival{draft.Guess{ID: id, Chance: chance, Source: p.source}, n})
	}
}

// leastRival is how likely a second guess has to be.
const leastRival = 0.05

// A rival is a second guess.
type rival struct {
	draft.Guess
	depth int // guesses before it, none of which is its first
}

// propose makes what the model has guessed the guesses of the text, if it promises more than what they were.
func (p *proposal) propose() {
	if len(p.found) < max(p.gen.Draft.Min, 1) {
		return
	}
	list := slices.Clone(p.found)
	for _, r := range p.rivals {
		r.Back = len(list) - r.depth
		list = append(list, r.Guess)
	}
	list = draft.Best(list, min(p.gen.Draft.Max, draft.MaxGuesses))
	if expected(list) > expected(p.gen.guesses) {
		p.gen.guess(list)
	}
}

// expected is how many of the guesses will be accepted, on average.
func expected(guesses []draft.Guess) (n float64) {
	var reach [2 * draft.MaxGuesses]float64
	for i, g := range guesses {
		reach[i] = g.Chance
		if b := draft.Before(guesses, i); b >= 0 {
			reach[i] *= reach[b]
		}
		n += reach[i]
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

// secondToken returns the likeliest token but for the first, which has a probability, and its own if it is not that one. Where there is none it
// returns -1.
func secondToken(logits []float32, first int32, p float32) (id int32, second float32) {
	id = -1
	for i, v := range logits {
		if int32(i) != first && (id < 0 || v > logits[id]) {
			id = int32(i)
		}
	}
	if id < 0 || p >= 1 {
		return -1, 0
	}
	return id, float32(math.Exp(float64(logits[id]-logits[first]))) * p / (1 - p)
}
