package train

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/model"
)

// Contrast has the vector of each example's first text, such as a question, be nearer to that of its second, the answer, than
// to all other candidates: to the example's further texts, which do not answer it, and to all but the first ones of the other
// examples in the chunk (in-batch negatives; InfoNCE, van den Oord et al. 2018; Henderson et al. 2017). The loss is the
// cross-entropy of the cosines, divided by the temperature. A candidate with the same tokens as the answer is no negative, nor
// is one of another example with the same first text, which may answer it too.
// Margins are of the answer's cosine and the greatest other one.
type Contrast struct {
	Texts       int     // of an example; 0: 2
	Temperature float64 // 0: 0.05
}

// Each implements Objective.
func (o Contrast) Each() int { return max(o.Texts, 2) }

// Base implements Objective.
func (Contrast) Base() bool { return false }

// Check implements Objective.
func (o Contrast) Check(texts []model.Text, width int) error {
	if o.Texts != 0 && (o.Texts < 2 || o.Texts > maxEach) {
		return fmt.Errorf("examples of %d texts, want 2 to %d", o.Texts, maxEach)
	}
	if t := o.temperature(); !(t >= 1e-3 && t <= 1e3) {
		return fmt.Errorf("a temperature of %v, want a number from 0.001 to 1000", t)
	}
	return checkVectors(texts, width, 0)
}

// maxEach is the most texts of an example.
const maxEach = 1 << 10

func (o Contrast) temperature() float64 { return orDefault(o.Temperature, 0.05) }

// Judge implements Objective.
func (o Contrast) Judge(c Chunk) Verdict {
	v, each, temperature := verdictOf(c), o.Each(), o.temperature()
	all := unitsOf(c.Outcomes)
	for q := 0; q < len(all); q += each {
		answer := q + 1
		var others []int // candidates, the answer first
		var scores []float64
		for i := range all {
			same := i != answer && slices.Equal(c.Texts[i].Tokens, c.Texts[answer].Tokens)
			asked := i - i%each // the candidate's own query
			if i == asked || same || asked != q && slices.Equal(c.Texts[asked].Tokens, c.Texts[q].Tokens) {
				continue
			}
			others, scores = append(others, i), append(scores, dot(all[q].x, all[i].x))
		}
		at, second := slices.Index(others, answer), math.Inf(-1)
		for k, s := range scores {
			if k != at {
				second = max(second, s)
			}
		}
		if len(scores) > 1 {
			v.margin(scores[at] - second)
		} else {
			v.Right++ // there is nothing else
		}
		for k := range scores {
			scores[k] /= temperature
		}
		loss, shares := crossEntropy(scores, at)
		v.Loss += loss
		for k, i := range others {
			by := shares[k] / temperature
			add(all[q].d, by, all[i].x)
			add(all[i].d, by, all[q].x)
		}
	}
	backToLengths(all, v.Gradients)
	return v
}

// Triplet has the first text of each three be nearer to the second than to the third, by a margin: the loss is what is missing,
// of cosines (Schroff et al. 2015). Margins are of these.
type Triplet struct {
	Margin float64 // 0: 0.2
}

// Each implements Objective.
func (Triplet) Each() int { return 3 }

// Base implements Objective.
func (Triplet) Base() bool { return false }

// Check implements Objective.
func (o Triplet) Check(texts []model.Text, width int) error {
	if m := o.most(); !(m > 0 && m <= 2) {
		return fmt.Errorf("a margin of %v, want a number from 0 to 2", m)
	}
	return checkVectors(texts, width, 0)
}

func (o Triplet) most() float64 { return orDefault(o.Margin, 0.2) }

// Judge implements Objective.
func (o Triplet) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	all := unitsOf(c.Outcomes)
	for i := 0; i < len(all); i += 3 {
		z := dot(all[i].x, all[i+1].x) - dot(all[i].x, all[i+2].x)
		v.margin(z)
		if missing := o.most() - z; missing > 0 {
			v.Loss += missing
			apart(all[i:i+3], -1)
		}
	}
	backToLengths(all, v.Gradients)
	return v
}

// MarginMSE has cosines differ by as much as a teacher's scores do: of the first text of each three to the second, less that
// to the third (Hofstätter et al. 2020). The first text's label is the teacher's difference. The loss is the square of what
// it is missed by. Margins are of the model's.
type MarginMSE struct{}

// Each implements Objective.
func (MarginMSE) Each() int { return 3 }

// Base implements Objective.
func (MarginMSE) Base() bool { return false }

// Check implements Objective.
func (MarginMSE) Check(texts []model.Text, width int) error { return checkLabelled(texts, width, 3) }

// Judge implements Objective.
func (MarginMSE) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	all := unitsOf(c.Outcomes)
	for i := 0; i < len(all); i += 3 {
		z := dot(all[i].x, all[i+1].x) - dot(all[i].x, all[i+2].x)
		v.margin(z)
		missed := z - float64(c.Texts[i].Labels[0])
		v.Loss += float64(missed * missed)
		apart(all[i:i+3], 2*missed)
	}
	backToLengths(all, v.Gradients)
	return v
}

// Similarity has the cosine of each two texts be a number: the first text's label, such as a teacher's. The loss is the square
// of what it is missed by. Margins are of that, below 0.
type Similarity struct{}

// Each implements Objective.
func (Similarity) Each() int { return 2 }

// Base implements Objective.
func (Similarity) Base() bool { return false }

// Check implements Objective.
func (Similarity) Check(texts []model.Text, width int) error { return checkLabelled(texts, width, 2) }

// Judge implements Objective.
func (Similarity) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	all := unitsOf(c.Outcomes)
	for i := 0; i < len(all); i += 2 {
		missed := dot(all[i].x, all[i+1].x) - float64(c.Texts[i].Labels[0])
		v.Margin -= abs(missed)
		v.Loss += float64(missed * missed)
		add(all[i].d, 2*missed, all[i+1].x)
		add(all[i+1].d, 2*missed, all[i].x)
	}
	backToLengths(all, v.Gradients)
	return v
}

// Imitate has vectors point where a teacher's do, which are the texts' labels, as wide as the model's. The loss is 1 less their
// cosine, which margins are of.
type Imitate struct{}

// Each implements Objective.
func (Imitate) Each() int { return 1 }

// Base implements Objective.
func (Imitate) Base() bool { return false }

// Check implements Objective.
func (Imitate) Check(texts []model.Text, width int) error { return checkVectors(texts, width, width) }

// Judge implements Objective.
func (Imitate) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	all := unitsOf(c.Outcomes)
	for i, x := range all {
		label := make([]float64, len(x.x))
		for j, y := range c.Texts[i].Labels {
			label[j] = float64(y)
		}
		teacher := unitsOf([][]float64{label})[0].x
		cosine := dot(x.x, teacher)
		v.margin(cosine)
		v.Loss += 1 - cosine
		add(x.d, -1, teacher)
	}
	backToLengths(all, v.Gradients)
	return v
}

// A unit is a vector of length 1, what it was divided by, and the gradient with respect to it.
type unit struct {
	x, d   []float64
	length float64
}

func unitsOf(vectors [][]float64) []unit {
	all := make([]unit, len(vectors))
	for i, v := range vectors {
		u := unit{x: make([]float64, len(v)), d: make([]float64, len(v)), length: max(math.Sqrt(dot(v, v)), 1e-12)}
		for j, x := range v {
			u.x[j] = x / u.length
		}
		all[i] = u
	}
	return all
}

// backToLengths sets gradients with respect to the vectors that the units were made of: of what is not along them.
func backToLengths(all []unit, gradients [][]float64) {
	for i, u := range all {
		along := dot(u.d, u.x)
		for j, d := range u.d {
			gradients[i][j] = (d - float64(along*u.x[j])) / u.length
		}
	}
}

// apart adds gradients of what is `by` times the cosine of the first two less that of the first and third.
func apart(three []unit, by float64) {
	add(three[0].d, by, three[1].x)
	add(three[0].d, -by, three[2].x)
	add(three[1].d, by, three[0].x)
	add(three[2].d, -by, three[0].x)
}

// crossEntropy returns the loss of the score that is to be the greatest, and its gradient with respect to each.
func crossEntropy(scores []float64, at int) (loss float64, gradient []float64) {
	wanted := make([]float64, len(scores))
	wanted[at] = 1
	return divergence(scores, wanted)
}

// divergence returns the cross-entropy of wanted shares, which are 1 together, and those that scores say, and its gradient with
// respect to each.
func divergence(scores, wanted []float64) (loss float64, gradient []float64) {
	top, sum := slices.Max(scores), 0.0
	gradient = make([]float64, len(scores))
	for i, s := range scores {
		gradient[i] = exactmath.QuickExp(s - top)
		sum += gradient[i]
	}
	log := top + exactmath.QuickLog(sum)
	for i, s := range scores {
		loss += float64(wanted[i] * (log - s))
		gradient[i] = gradient[i]/sum - wanted[i]
	}
	return loss, gradient
}

// dot returns a product of vectors, in order.
func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// add adds by times x to y.
func add(y []float64, by float64, x []float64) {
	for i, v := range x {
		y[i] += float64(by * v)
	}
}

// checkVectors returns an error if texts come to no vectors, or have another number of labels each, where it is not 0.
func checkVectors(texts []model.Text, width, labels int) error {
	if width == 0 {
		return errors.New("the objective compares vectors or scores, and texts come to losses of their tokens")
	}
	for i, x := range texts {
		if labels > 0 && len(x.Labels) != labels {
			return fmt.Errorf("%s has %d labels, want %d", nameOf(texts, i), len(x.Labels), labels)
		}
		if slices.ContainsFunc(x.Labels, func(v float32) bool { return !(v >= -maxLabel && v <= maxLabel) }) {
			return fmt.Errorf("%s has a label beyond +-%g, or none that is a number", nameOf(texts, i), float64(maxLabel))
		}
	}
	return nil
}

const maxLabel = 1e6

// checkLabelled returns an error if texts come to no vectors, or the first of each few has not one label.
func checkLabelled(texts []model.Text, width, each int) error {
	for i := 0; i < len(texts); i += each {
		if n := len(texts[i].Labels); n != 1 {
			return fmt.Errorf("%s has %d labels, want 1", nameOf(texts, i), n)
		}
	}
	return checkVectors(texts, width, 0)
}
