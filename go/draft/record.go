package draft

// A kind is what guesses have in common that tells how likely they are: how much of the
// text was found, and what other places say.
type kind int

// bounds are the lengths from which matches are of the next kind.
var bounds = [...]int{2, 3, 4, 5, 7, 10, 16}

const kinds = kind(len(bounds)) * kind(opinion)

func (m match) kind() kind {
	k := 0
	for k+1 < len(bounds) && m.length >= bounds[k+1] {
		k++
	}
	return kind(k)*kind(opinion) + kind(m.others)
}

// kind of what follows elsewhere.
func (p place) kind() kind { return match{place: p, others: deny}.kind() }

// prior is how likely a guess of a kind is before any was scored.
func (k kind) prior() float64 {
	p := [...]float64{0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85}[k/kind(opinion)]
	if others(k%kind(opinion)) == deny {
		p /= 2
	}
	return p
}

// A tally counts guesses, the latest most.
type tally struct{ right, all float64 }

func (t *tally) add(right bool, forget float64) {
	t.right, t.all = t.right*forget, t.all*forget+1
	if right {
		t.right++
	}
}

// weight of a prior, in guesses.
const weight = 6

func (t tally) chance(prior float64) float64 { return (t.right + weight*prior) / (t.all + weight) }

// A record is how often guesses from a source were right, in all texts.
type record [kinds]tally

func (r *record) add(k kind, right bool) { r[k].add(right, 0.999) }

// chance of a kind that has this one before any was scored.
func (r *record) chance(k kind, prior float64) float64 { return r[k].chance(prior) }

// A ledger is how often guesses were right in one text, by their kind, and
// how often they were in all beside how often they should have been.
type ledger struct {
	kinds    [kinds]tally
	tally            // of all kinds
	expected float64 // how many should have been right
}

const forgetful = 0.97

func (l *ledger) add(k kind, right bool, expected float64) {
	l.kinds[k].add(right, forgetful)
	l.tally.add(right, forgetful)
	l.expected = l.expected*forgetful + expected
}

// chance of a kind that has this one in all texts.
func (l *ledger) chance(k kind, usual float64) float64 {
	const few = 3
	return l.kinds[k].chance(min(usual*(l.right+few)/(l.expected+few), 1))
}
