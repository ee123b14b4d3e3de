package draft

// A Judge estimates how likely guesses of a model or of its layers are right: by the acceptance rate of guesses
// with a similar probability under that model.
type Judge struct {
	all, rivals  *record
	mine, beside ledger
	at           int // position of the first of the guesses
	guesses      []judged
}

// judged is a guess, and the second guess at the same token.
type judged struct {
	id, rival       int32 // rival -1: none
	kind, rivalKind kind
}

// Judge returns a Judge for a text, of guesses from a source.
func (l *Library) Judge(s Source) *Judge { return &Judge{all: &l.records[s], rivals: &l.rivals[s]} }

// sureness maps the model's probability of a guess to a kind. Values that are no probabilities map to the nearest
// kind.
func sureness(p float32) kind {
	if !(p > 0) {
		return 0
	}
	return min(kind(min(p, 1)*float32(kinds)), kinds-1)
}

func (j *Judge) usual(of *record, k kind) float64 {
	return of.chance(k, (float64(k)+0.5)/float64(kinds))
}

// Chance returns the chance that a guess is right to which the model gives probability p.
func (j *Judge) Chance(p float32) float64 {
	k := sureness(p)
	return min(j.mine.chance(k, j.usual(j.all, k)), mostLikely)
}

// RivalChance returns the chance that the second guess at a token is right if the first is wrong. p is its
// probability under the model in that case.
func (j *Judge) RivalChance(p float32) float64 {
	k := sureness(p)
	return min(j.beside.chance(k, j.usual(j.rivals, k)), mostLikely)
}

// Expected returns the chance of a guess that has not been made yet: the rate in this text, with that in all
// texts as the prior. The prior is at least 0.3, so that drafting is tried on every new text.
func (j *Judge) Expected() float64 {
	var all tally
	for _, t := range j.all {
		all.right, all.all = all.right+t.right, all.all+t.all
	}
	return j.mine.tally.chance(max(all.chance(0.7), 0.3))
}

// Guess records a guess at a position of the text, and its probability under the model.
func (j *Judge) Guess(at int, id int32, p float32) {
	if at != j.at+len(j.guesses) {
		j.at, j.guesses = at, j.guesses[:0]
	}
	j.guesses = append(j.guesses, judged{id: id, rival: -1, kind: sureness(p)})
}

// Rival records the second guess at the position of the last one, and its probability if the first is wrong.
func (j *Judge) Rival(id int32, p float32) {
	if n := len(j.guesses); n > 0 {
		j.guesses[n-1].rival, j.guesses[n-1].rivalKind = id, sureness(p)
	}
}

// Accept compares the last guesses with the text as it is now.
func (j *Judge) Accept(text []int32) {
	for i, g := range j.guesses {
		if j.at+i >= len(text) {
			break
		}
		k, right := g.kind, text[j.at+i] == g.id
		j.mine.add(k, right, j.usual(j.all, k))
		j.all.add(k, right)
		if right {
			continue
		}
		if k = g.rivalKind; g.rival >= 0 {
			right = text[j.at+i] == g.rival
			j.beside.add(k, right, j.usual(j.rivals, k))
			j.rivals.add(k, right)
		}
		break // the guesses after a wrong one continue another text
	}
	j.guesses = j.guesses[:0]
}
