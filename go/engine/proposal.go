package engine

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
)

// A proposal is the guesses of a model at the continuation of a text, one token at a time.
type proposal struct {
	gen    *generate.Generation
	source draft.Source
	judge  *draft.Judge
	found  []draft.Guess // in this round
	rivals []rival       // second guesses of this round, in case found is wrong
	reach  float64       // probability that all of found are right
	lost   bool          // the text gets no more guesses
}

// begin begins a round. The judge compares its guesses with how the text has continued.
func (p *proposal) begin() {
	p.found, p.rivals, p.reach = p.found[:0], p.rivals[:0], 1
	p.judge.Accept(p.gen.Known())
}

// enoughAccepted is the expected number of accepted tokens of other guesses above which the model is not run.
const enoughAccepted = 2

// promised reports whether the model need not run: drafts are forced, or other guesses promise enough.
func (p *proposal) promised() bool {
	return p.gen.Forced() > 0 || expected(p.gen.Guesses()) > enoughAccepted
}

// goesOn reports whether a further token is worth guessing.
func (p *proposal) goesOn() bool {
	g := p.gen
	return !p.lost && len(p.found) < min(g.Draft.Max, g.Draftable(draft.MaxGuesses)) && p.reach > 0.1 &&
		p.found[len(p.found)-1].Chance >= float64(g.Draft.MinChance)
}

// take adds the likeliest token of these logits as a guess, and perhaps a second guess. tokens maps indices of
// logits to token ids. If no token is likeliest, the text gets no more guesses.
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

// add adds a guess, given its probability under the model.
func (p *proposal) add(id int32, probability float32) {
	chance := p.judge.Chance(probability)
	p.judge.Guess(len(p.gen.Known())+len(p.found), id, probability)
	p.found = append(p.found, draft.Guess{ID: id, Chance: chance, Source: p.source})
	p.reach *= chance
}

// rivalDepth is how many of the next tokens have a second guess. It is a branch in the pass, a sequence of its
// own that includes the tokens before it.
const rivalDepth = 3

// second returns the index of the second guess among these logits, and its probability if the first guess is
// wrong; -1 if none is wanted at this depth.
func (p *proposal) second(logits []float32, first int32, probability float32) (int32, float32) {
	if len(p.found) > rivalDepth || p.gen.Draft.Max < 2 {
		return -1, 0
	}
	return secondToken(logits, first, probability)
}

// rival adds a second guess beside the last guess, given its probability if that is wrong, unless its chance is
// too low.
func (p *proposal) rival(id int32, probability float32) {
	n := len(p.found) - 1
	chance := (1 - p.found[n].Chance) * p.judge.RivalChance(probability)
	p.judge.Rival(id, probability)
	if chance >= max(leastRival, float64(p.gen.Draft.MinChance)) {
		p.rivals = append(p.rivals, rival{draft.Guess{ID: id, Chance: chance, Source: p.source}, n})
	}
}

// leastRival is the minimum chance of a second guess.
const leastRival = 0.05

// A rival is a second guess.
type rival struct {
	draft.Guess
	depth int // how many guesses are before it; the first guess at its token is not one of them
}

// propose makes these guesses those of the text if they promise more accepted tokens than the ones it has.
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
	if expected(list) > expected(p.gen.Guesses()) {
		p.gen.SetGuesses(list)
	}
}

// expected returns the expected number of accepted guesses.
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

// topToken returns the likeliest token and its probability. It returns false if there is none, for example
// because the activations of the model overflowed.
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
	if !(sum >= 1) { // the likeliest token contributes 1
		return 0, 0, false
	}
	return int32(best), float32(1 / sum), true
}

// secondToken returns the likeliest token except first, which has probability p, and its probability if the token
// is not first; -1 if there is none.
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
