package draft

// A kind is a class of guesses with similar acceptance rates: by the length of the match, and by what other
// places say.
type kind int

// bounds are the minimum lengths of the classes of matches.
var bounds = [...]int{2, 3, 4, 5, 7, 10, 16}

const kinds = kind(len(bounds)) * kind(opinion)

func (m match) kind() kind {
	k := 0
	for k+1 < len(bounds) && m.length >= bounds[k+1] {
		k++
	}
	return kind(k)*kind(opinion) + kind(m.others)
}

// kind returns the kind of a second guess.
func (p place) kind() kind { return match{place: p, others: deny}.kind() }

// prior is the assumed chance of a kind before any guess was scored.
func (k kind) prior() float64 {
	p := [...]float64{0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85}[k/kind(opinion)]
	if others(k%kind(opinion)) == deny {
		p /= 2
	}
	return p
}

// A tally counts guesses, with exponential forgetting.
type tally struct{ right, all float64 }

func (t *tally) add(right bool, forget float64) {
	t.right, t.all = t.right*forget, t.all*forget+1
	if right {
		t.right++
	}
}

// weight is the weight of a prior, in guesses.
const weight = 6

func (t tally) chance(prior float64) float64 { return (t.right + weight*prior) / (t.all + weight) }

// A record counts how often guesses from a source were right, by kind, in all texts.
type record [kinds]tally

func (r *record) add(k kind, right bool) { r[k].add(right, 0.999) }

// chance returns the chance of a kind, given its prior.
func (r *record) chance(k kind, prior float64) float64 { return r[k].chance(prior) }

// A ledger counts how often guesses were right in one text: by kind, and in all relative to what all texts
// predict.
type ledger struct {
	kinds    [kinds]tally
	tally            // of all kinds together
	expected float64 // predicted number of right ones
}

const forgetful = 0.97

func (l *ledger) add(k kind, right bool, expected float64) {
	l.kinds[k].add(right, forgetful)
	l.tally.add(right, forgetful)
	l.expected = l.expected*forgetful + expected
}

// chance returns the chance of a kind; usual is its chance in all texts. The prior is usual, scaled by how often
// guesses in this text were right relative to what all texts predict.
func (l *ledger) chance(k kind, usual float64) float64 {
	const few = 3
	return l.kinds[k].chance(min(usual*(l.right+few)/(l.expected+few), 1))
}
