package generate

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sample"
)

// A Proposal is the guesses of a model at the continuation of a text, one token at a time. They are the text's own
// guesses after Propose, if they promise more.
type Proposal struct {
	Gen   *Generation  // of the text
	Judge *draft.Judge // of the model's guesses at it
	Lost  bool         // the text gets no more guesses

	from        int // tokens of the text before those that the model is given: up to the last medium, which it cannot see
	source      draft.Source
	translation *Translation  // the text in the model's vocabulary, as the guesses are until Translate; nil: it is the text's
	found       []draft.Guess // in this round
	probs       []float32     // with a translation: the model's probability of each of found
	rivals      []rival       // second guesses of this round, in case found is wrong
	reach       float64       // probability that all of found are right
}

// NewProposal returns the proposal of a model that is a source of drafts. t is nil unless it has another vocabulary.
func NewProposal(g *Generation, source draft.Source, lib *draft.Library, t *Translation) Proposal {
	from := len(g.Prompt)
	for from > 0 && g.Prompt[from-1] >= 0 {
		from--
	}
	return Proposal{Gen: g, Judge: lib.Judge(source), from: from, source: source, translation: t}
}

// Begin begins a round. The judge compares its guesses with how the text has continued.
func (p *Proposal) Begin() {
	p.Drop()
	p.Judge.Accept(p.Gen.Known())
}

// Drop drops the guesses of this round.
func (p *Proposal) Drop() {
	p.found, p.probs, p.rivals, p.reach = p.found[:0], p.probs[:0], p.rivals[:0], 1
}

// Found returns the guesses of this round, of which each follows the one before it.
func (p *Proposal) Found() []draft.Guess { return p.found }

// Known returns the text behind media in the model's vocabulary.
func (p *Proposal) Known() []int32 {
	if p.translation != nil {
		return p.translation.ids
	}
	return p.Gen.Known()[p.from:]
}

// Translates reports whether the model has another vocabulary.
func (p *Proposal) Translates() bool { return p.translation != nil }

// Read converts what is new of the text to the model's vocabulary. A text that does not fit in a context of the model
// is lost.
func (p *Proposal) Read(ctx int) {
	if p.translation == nil {
		return
	}
	const longest = 4 // tokens of the text per token of the draft model; texts of more contexts are not converted
	if text := p.Gen.Known()[p.from:]; len(text) < longest*ctx {
		p.translation.read(text)
		if len(p.translation.ids)+draft.MaxGuesses < ctx {
			return
		}
	}
	p.Lost = true
	p.translation.reset()
}

// enoughAccepted is the expected number of accepted tokens of other guesses above which the model is not run.
const enoughAccepted = 2

// Promised reports whether the model need not run: drafts are forced, or other guesses promise enough.
func (p *Proposal) Promised() bool {
	return p.Gen.Forced() > 0 || expected(p.Gen.Guesses()) > enoughAccepted
}

// GoesOn reports whether a further token is worth guessing.
func (p *Proposal) GoesOn() bool {
	g := p.Gen
	return !p.Lost && len(p.found) < min(g.Draft.Max, g.Draftable(draft.MaxGuesses)) && p.reach > 0.1 &&
		p.found[len(p.found)-1].Chance >= float64(g.Draft.MinChance)
}

// Gain returns how many more accepted tokens are expected of one more guess.
func (p *Proposal) Gain() float64 { return p.reach * p.Judge.Expected() }

// Take adds the likeliest token of these logits as a guess, and perhaps a second guess. tokens maps indices of
// logits to token ids. If no token is likeliest, the text gets no more guesses.
func (p *Proposal) Take(logits []float32, tokens func(i int32) int32) {
	i, probability, ok := topToken(logits)
	switch {
	case !ok:
		p.Lost = true
	case p.translation != nil: // second guesses are not converted
		p.append(tokens(i), probability)
		p.probs = append(p.probs, probability)
	default:
		p.add(tokens(i), probability)
		if j, second := p.second(logits, i, probability); j >= 0 {
			p.rival(tokens(j), second)
		}
	}
}

// Translate converts the guesses to the text's vocabulary.
func (p *Proposal) Translate() {
	if p.translation == nil || len(p.found) == 0 {
		return
	}
	ids, probs := p.translation.write(p.found, p.probs)
	p.found, p.reach = p.found[:0], 1
	for i, id := range ids {
		if id < 0 || int(id) >= p.Gen.Vocab || len(p.found) == min(p.Gen.Draft.Max, draft.MaxGuesses) {
			break
		}
		if p.add(id, probs[i]); p.found[i].Chance < float64(p.Gen.Draft.MinChance) {
			break
		}
	}
}

// add adds a guess, given its probability under the model, to be judged.
func (p *Proposal) add(id int32, probability float32) {
	p.append(id, probability)
	p.Judge.Guess(len(p.Gen.Known())+len(p.found)-1, id, probability)
}

// append adds a guess, given its probability under the model.
func (p *Proposal) append(id int32, probability float32) {
	chance := p.Judge.Chance(probability)
	p.found = append(p.found, draft.Guess{ID: id, Chance: chance, Source: p.source})
	p.reach *= chance
}

// rivalDepth is how many of the next tokens have a second guess. It is a branch in the pass, a sequence of its
// own that includes the tokens before it.
const rivalDepth = 3

// second returns the index of the second guess among these logits, and its probability if the first guess is
// wrong; -1 if none is wanted at this depth.
func (p *Proposal) second(logits []float32, first int32, probability float32) (int32, float32) {
	if len(p.found) > rivalDepth || p.Gen.Draft.Max < 2 {
		return -1, 0
	}
	return secondToken(logits, first, probability)
}

// rival adds a second guess beside the last guess, given its probability if that is wrong, unless its chance is
// too low.
func (p *Proposal) rival(id int32, probability float32) {
	n := len(p.found) - 1
	chance := (1 - p.found[n].Chance) * p.Judge.RivalChance(probability)
	p.Judge.Rival(id, probability)
	if chance >= max(leastRival, float64(p.Gen.Draft.MinChance)) {
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

// Propose makes these guesses those of the text if they promise more accepted tokens than the ones it has.
func (p *Proposal) Propose() {
	if len(p.found) < max(p.Gen.Draft.Min, 1) {
		return
	}
	list := slices.Clone(p.found)
	for _, r := range p.rivals {
		r.Back = len(list) - r.depth
		list = append(list, r.Guess)
	}
	list = draft.Best(list, min(p.Gen.Draft.Max, draft.MaxGuesses))
	if expected(list) > expected(p.Gen.Guesses()) {
		p.Gen.SetGuesses(list)
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
	best := sample.Likeliest(logits)
	sum := 0.0
	for _, v := range logits {
		if d := v - logits[best]; d > -16 {
			sum += math.Exp(float64(d))
		}
	}
	if !(sum >= 1) { // the likeliest token contributes 1
		return 0, 0, false
	}
	return best, float32(1 / sum), true
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
