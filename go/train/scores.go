package train

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/model"
)

// Classes has a classifier find the classes of texts. Labels are the share of each class, such as 1 and zeros, or what a teacher
// says. The loss is their cross-entropy with the softmax of the scores or, where a text may be of several classes and where
// there is one score, that of each class by itself with the sigmoid. It is right where the greatest score is that of the
// greatest label, or all scores are on their label's side; margins are not counted.
type Classes struct {
	Several bool // a text may be of several
}

// Each implements Objective.
func (Classes) Each() int { return 1 }

// Base implements Objective.
func (Classes) Base() bool { return false }

// Check implements Objective.
func (o Classes) Check(texts []model.Text, width int) error {
	if err := checkVectors(texts, width, width); err != nil {
		return err
	}
	for i, x := range texts {
		sum := 0.0
		for _, v := range x.Labels {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("%s has a label of %v, want a share from 0 to 1", nameOf(texts, i), v)
			}
			sum += float64(v)
		}
		if !o.apart(width) && !(sum >= 0.999 && sum <= 1.001) {
			return fmt.Errorf("%s has labels whose sum is %v, want 1: it is of one class", nameOf(texts, i), sum)
		}
	}
	return nil
}

// apart reports whether each of so many scores is judged by itself.
func (o Classes) apart(width int) bool { return o.Several || width == 1 }

// Judge implements Objective.
func (o Classes) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	for i, scores := range c.Outcomes {
		labels := make([]float64, len(scores))
		for j, x := range c.Texts[i].Labels {
			labels[j] = float64(x)
		}
		right := o.apart(len(scores)) || first(scores) == first(labels)
		if !o.apart(len(scores)) {
			var loss float64
			loss, v.Gradients[i] = divergence(scores, labels)
			v.Loss += loss
		} else {
			for j, s := range scores {
				v.Loss += softplus(s) - float64(labels[j]*s)
				v.Gradients[i][j] = sigmoid(s) - labels[j]
				right = right && (s > 0) == (labels[j] > 0.5)
			}
		}
		if right {
			v.Right++
		}
	}
	return v
}

// first returns the number of the greatest, the first of equal ones.
func first(x []float64) int { return slices.Index(x, slices.Max(x)) }

// Ranking has a reranker score the first text of each example, which is a query with the document that answers it, above the
// others, which are the same query with others: the loss is the cross-entropy of the scores (as Gao et al. 2021, "Rethink
// training of BERT rerankers"). Of a classifier of two classes, yes and no, the score is the first less the second. Margins
// are of the first text's score and the greatest other one.
type Ranking struct {
	Texts int // of an example
}

// Each implements Objective.
func (o Ranking) Each() int { return max(o.Texts, 1) }

// Base implements Objective.
func (Ranking) Base() bool { return false }

// Check implements Objective.
func (o Ranking) Check(texts []model.Text, width int) error {
	switch {
	case o.Texts < 2 || o.Texts > maxEach:
		return fmt.Errorf("examples of %d texts, want 2 to %d", o.Texts, maxEach)
	case width > 2:
		return fmt.Errorf("%d scores of a text, and a ranking is by one, or by those of yes and no", width)
	}
	return checkVectors(texts, width, 0)
}

// Judge implements Objective.
func (o Ranking) Judge(c Chunk) Verdict {
	v := verdictOf(c)
	for from := 0; from < len(c.Outcomes); from += o.Texts {
		scores := make([]float64, o.Texts)
		for k, x := range c.Outcomes[from : from+o.Texts] {
			if scores[k] = x[0]; len(x) == 2 {
				scores[k] -= x[1]
			}
		}
		v.margin(scores[0] - slices.Max(scores[1:]))
		loss, gradient := crossEntropy(scores, 0)
		v.Loss += loss
		for k, d := range gradient {
			if v.Gradients[from+k][0] = d; len(v.Gradients[from+k]) == 2 {
				v.Gradients[from+k][1] = -d
			}
		}
	}
	return v
}
