package train

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/model"
)

// DefaultBeta is the usual Beta of DPO and ORPO.
const DefaultBeta = 0.1

// DPO has the model prefer the first text of each pair to the second, more than it did without the adapter (Rafailov et al.
// 2023, "Direct Preference Optimization"): the loss is that of a classifier of pairs, whose score z is Beta times the
// difference of what the texts' log-probabilities gained. Margins are of z.
type DPO struct {
	Beta      float64 // 0: DefaultBeta
	Smoothing float64 // the share of pairs whose order may be wrong (conservative DPO), below 0.5
	Mean      bool    // log-probabilities are means over the tokens, not sums
}

func (o DPO) beta() float64 { return orDefault(o.Beta, DefaultBeta) }

// Each implements Objective.
func (DPO) Each() int { return 2 }

// Base implements Objective.
func (DPO) Base() bool { return true }

// Check implements Objective.
func (o DPO) Check(texts []model.Text, width int) error {
	if !(o.Smoothing >= 0 && o.Smoothing < 0.5) {
		return fmt.Errorf("label smoothing of %v, want a number from 0 to below 0.5", o.Smoothing)
	}
	return checkPairs(texts, width, o.beta())
}

// Judge implements Objective.
func (o DPO) Judge(c Chunk) Verdict {
	v, beta := verdictOf(c), o.beta()
	for i := 0; i < len(c.Texts); i += 2 {
		gained := func(i int) (gain, by float64) { // and its derivative by the loss of text i
			n := 1.0
			if o.Mean {
				n = weightOf(c.Texts[i : i+1])
			}
			return (c.Base[i][0] - c.Outcomes[i][0]) / n, -1 / n
		}
		better, byBetter := gained(i)
		worse, byWorse := gained(i + 1)
		z := float64(beta * (better - worse))
		v.margin(z)
		v.Loss += float64((1-o.Smoothing)*softplus(-z)) + float64(o.Smoothing*softplus(z))
		dz := float64(beta * (float64(o.Smoothing*sigmoid(z)) - float64((1-o.Smoothing)*sigmoid(-z))))
		v.Gradients[i][0], v.Gradients[i+1][0] = dz*byBetter, -dz*byWorse
	}
	return v
}

// ORPO has the model learn the first text of each pair, and prefer it to the second (Hong et al. 2024, "ORPO"), without looking
// at what it was: the loss is the mean of that of the first text's tokens and, Beta times, that of a classifier of pairs,
// whose score z is the difference of the logarithms of the odds of the two, of their tokens' mean probability (geometric).
// Margins are of z.
type ORPO struct {
	Beta float64 // 0: DefaultBeta
}

func (o ORPO) beta() float64 { return orDefault(o.Beta, DefaultBeta) }

// Each implements Objective.
func (ORPO) Each() int { return 2 }

// Base implements Objective.
func (ORPO) Base() bool { return false }

// Check implements Objective.
func (o ORPO) Check(texts []model.Text, width int) error { return checkPairs(texts, width, o.beta()) }

// Judge implements Objective.
func (o ORPO) Judge(c Chunk) Verdict {
	v, beta := verdictOf(c), o.beta()
	for i := 0; i < len(c.Texts); i += 2 {
		odds := func(i int) (log, loss, by float64) { // of the odds, the mean loss, and the derivative of the first by text i's
			n := weightOf(c.Texts[i : i+1])
			loss = c.Outcomes[i][0] / n
			not := max(1-exactmath.QuickExp(-loss), 1e-12) // what is certain has finite odds
			return -loss - exactmath.QuickLog(not), loss, -1 / float64(not*n)
		}
		better, loss, byBetter := odds(i)
		worse, _, byWorse := odds(i + 1)
		z := better - worse
		v.margin(z)
		v.Loss += loss + float64(beta*softplus(-z))
		dz := -float64(beta * sigmoid(-z))
		v.Gradients[i][0] = 1/weightOf(c.Texts[i:i+1]) + float64(dz*byBetter)
		v.Gradients[i+1][0] = -dz * byWorse
	}
	return v
}

// checkPairs returns an error if these are no pairs of texts with something to prefer in each.
func checkPairs(texts []model.Text, width int, beta float64) error {
	switch {
	case width != 0:
		return errors.New("preferences are of texts that a model writes, and it makes vectors of them")
	case !(beta >= 1e-6 && beta <= 1e3):
		return fmt.Errorf("a beta of %v, want a number from 1e-6 to 1000", beta)
	}
	return checkWeights(texts, true)
}

func orDefault(x, zero float64) float64 {
	if x == 0 {
		return zero
	}
	return x
}
