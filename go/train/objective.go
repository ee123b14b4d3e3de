package train

import (
	"fmt"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// An Objective is what a run makes small, if that is not the loss of the next token. It is a value, whose fields say all about
// it. Texts come in examples: so many of them in succession, which are in one chunk. The loss of a step is the mean of that of
// its examples.
type Objective interface {
	// Each is how many texts an example has.
	Each() int
	// Base reports whether Judge looks at outcomes without the adapter or, where all weights are trained, of those of the beginning.
	Base() bool
	// Check returns an error if it cannot judge the texts, whose outcomes have width numbers; 0: they are losses of tokens.
	Check(texts []model.Text, width int) error
	// Judge judges the outcomes of the texts of a chunk.
	Judge(c Chunk) Verdict
}

// A Chunk is whole examples, and what their texts come to.
type Chunk struct {
	Texts          []model.Text
	Outcomes, Base [][]float64 // see model.Trainer.Outcomes; Base: without the adapter, or at the beginning
}

// A Verdict is sums over the examples of a chunk, and gradients of the loss.
type Verdict struct {
	Loss      float64
	Right     float64 // examples whose better text is preferred, or whose class is found
	Margin    float64 // by how much
	Gradients [][]float64
}

// verdictOf returns a Verdict with room for the gradients of all outcomes.
func verdictOf(c Chunk) Verdict {
	v := Verdict{Gradients: make([][]float64, len(c.Outcomes))}
	for i, x := range c.Outcomes {
		v.Gradients[i] = make([]float64, len(x))
	}
	return v
}

// margin counts an example whose better text is ahead of the worse by z.
func (v *Verdict) margin(z float64) {
	v.Margin += z
	if z > 0 {
		v.Right++
	}
}

// each returns how many texts of a run are an example.
func (c *Config) each() int {
	if c.Objective == nil {
		return 1
	}
	return c.Objective.Each()
}

// checkExamples returns an error if the texts are not examples of the objective which fit into chunks.
func checkExamples(t *model.Trainer, texts []model.Text, o Objective) error {
	each := o.Each()
	if len(texts) == 0 || len(texts)%each != 0 {
		return fmt.Errorf("%d texts are no examples of %d each", len(texts), each)
	}
	for i := 0; i < len(texts); i += each {
		tokens, blocks := 0, 0
		for k, x := range texts[i : i+each] {
			n := len(x.Tokens)
			if n < 1 || n > t.MaxText() {
				return fmt.Errorf("%s has %d tokens, want 1 to %d", nameOf(texts, i+k), n, t.MaxText())
			}
			tokens, blocks = tokens+n, blocks+model.KVBlocks(n)
		}
		if tokens > t.MaxTokens() || blocks > t.MaxBlocks() {
			return fmt.Errorf("%s and the others of its example have %d tokens together, and a chunk has room for %d of as many texts",
				nameOf(texts, i), tokens, t.MaxTokens())
		}
	}
	return o.Check(texts, t.Width())
}

// judge computes the gradient of a chunk with the texts of these numbers.
func (r *Run) judge(numbers []int, stop *kernel.Stop) (v Verdict, err error) {
	texts := r.these(numbers)
	o := r.config.Objective
	if o == nil {
		v.Loss, err = r.trainer.Gradient(texts, stop)
		return v, err
	}
	c := Chunk{Texts: texts}
	if o.Base() {
		if err := r.knowBase(numbers, stop); err != nil {
			return v, err
		}
		for _, i := range numbers {
			c.Base = append(c.Base, r.base[i])
		}
	}
	err = r.trainer.Descend(texts, func(outcomes [][]float64) ([][]float64, error) {
		c.Outcomes = outcomes
		v = o.Judge(c)
		return v.Gradients, nil
	}, stop)
	return v, err
}

// measured returns the Verdict on whole examples, which are that chunk of those that are measured, without gradients.
func (r *Run) measured(chunk int, texts []model.Text, stop *kernel.Stop) (v Verdict, err error) {
	c := Chunk{Texts: texts}
	if r.config.Objective.Base() {
		base := &r.known.chunks[chunk]
		if *base == nil {
			if *base, err = r.baseOf(texts, stop); err != nil {
				return v, err
			}
		}
		c.Base = *base
	}
	if c.Outcomes, err = r.trainer.Outcomes(texts, false, stop); err != nil {
		return v, err
	}
	return r.config.Objective.Judge(c), nil
}

// softplus returns ln(1 + e^x), with the same bits on every CPU.
func softplus(x float64) float64 {
	return max(x, 0) + exactmath.Log1p(exactmath.QuickExp(-abs(x)))
}

// sigmoid returns 1 / (1 + e^-x), the derivative of softplus.
func sigmoid(x float64) float64 {
	e := exactmath.QuickExp(-abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

func abs(x float64) float64 { return max(x, -x) }
