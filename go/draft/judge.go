package draft

// A Judge tells how likely the guesses of a model, or of some of its layers, are to be right: by how often those were to
// which it gave the same probability.
type Judge struct {
	all, rivals  *record
	mine, beside ledger
	at           int // of the text: where the last guesses begin
	guesses      []judged
}

// A judged guess, and the second at the same token.
type judged struct {
	id, rival       int32 // rival -1: there is none
	kind, rivalKind kind
}

// Judge returns one for a text, of guesses from a source.
func (l *Library) Judge(s Source) *Judge { return &Judge{all: &l.records[s], rivals: &l.rivals[s]} }

// sureness is the kind of guesses to which a model gives a probability; what is none has the nearest kind.
func sureness(p float32) kind {
	if !(p > 0) {
		return 0
	}
	return min(kind(min(p, 1)*float32(kinds)), kinds-1)
}

func (j *Judge) usual(of *record, k kind) float64 {
	return of.chance(k, (float64(k)+0.5)/float64(kinds))
}

// Chance is that a guess is right to which the model gives a probability.
func (j *Judge) Chance(p float32) float64 {
	k := sureness(p)
	return min(j.mine.chance(k, j.usual(j.all, k)), mostLikely)
}

// RivalChance is that the second guess at a token is right where the first is wrong, to which the model gives a probability then.
func (j *Judge) RivalChance(p float32) float64 {
	k := sureness(p)
	return min(j.beside.chance(k, j.usual(j.rivals, k)), mostLikely)
}

// Expected is the chance of a guess that the model has not made yet: as in all texts, as far as this one has shown
// nothing else. It is never assumed to be so low that no text would have any.
func (j *Judge) Expected() float64 {
	var all tally
	for _, t := range j.all {
		all.right, all.all = all.right+t.right, all.all+t.all
	}
	return j.mine.tally.chance(max(all.chance(0.7), 0.3))
}

// Guess records a guess at the token at a position of the text, and the probability that the model gives it.
func (j *Judge) Guess(at int, id int32, p float32) {
	if at != j.at+len(j.guesses) {
		j.at, j.guesses = at, j.guesses[:0]
	}
	j.guesses = append(j.guesses, judged{id: id, rival: -1, kind: sureness(p)})
}

// Rival records the second guess at the token of the last, and its probability where the first is wrong.
func (j *Judge) Rival(id int32, p float32) {
	if n := len(j.guesses); n > 0 {
		j.guesses[n-1].rival, j.guesses[n-1].rivalKind = id, sureness(p)
	}
}

// Accept compares the last guesses with what the text is now.
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
		break // those after it were guesses at another text
	}
	j.guesses = j.guesses[:0]
}
