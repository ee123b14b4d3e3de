// Package train trains adapters: it decides which texts are in which step, adds up their slopes, and takes the steps. A Run
// is a state machine without a clock, a file or a goroutine: what it does depends on the texts, the configuration and the
// state that it began with, to the bit. So a run that goes on from a saved state makes the adapter of one that was never
// interrupted, with any number of threads and on any instruction set.
package train

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A Schedule says how the rate changes after the warmup.
type Schedule int

const (
	Cosine   Schedule = iota // along half a cosine, to Least
	Linear                   // along a line, to Least
	Constant                 // not at all
)

// Config says how an adapter is trained. The zero value of each field but Steps and Rate is a choice of its own.
type Config struct {
	Steps    int     // of the optimiser, in all
	Chunks   int     // whose slopes are added up for a step; 0: 1
	Rate     float64 // the largest
	Least    float64 // what is left of it at the end, from 0 to 1
	Warmup   int     // steps in which it rises from 0
	Schedule Schedule
	Beta1    float64 // 0: 0.9
	Beta2    float64 // 0: 0.999
	Eps      float64 // 0: 1e-8
	Decay    float64 // of the numbers, times the rate
	Clip     float64 // slopes of a step are at most so long; 0: any length
	Seed     uint64  // of the order of the texts
}

// withDefaults returns the configuration with what its zeros mean, or an error that names a field.
func (c Config) withDefaults() (Config, error) {
	if c.Chunks == 0 {
		c.Chunks = 1
	}
	for _, d := range []struct {
		p    *float64
		zero float64
	}{{&c.Beta1, 0.9}, {&c.Beta2, 0.999}, {&c.Eps, 1e-8}} {
		if *d.p == 0 {
			*d.p = d.zero
		}
	}
	within := func(x, low, high float64) bool { return x >= low && x <= high } // not NaN
	switch {
	case c.Steps < 1 || c.Chunks < 1:
		return c, fmt.Errorf("%d steps of %d chunks, want 1 at least", c.Steps, c.Chunks)
	case !within(c.Rate, math.SmallestNonzeroFloat64, 10):
		return c, fmt.Errorf("a rate of %v, want a number above 0 and at most 10", c.Rate)
	case !within(c.Least, 0, 1):
		return c, fmt.Errorf("%v of the rate at the end, want a number from 0 to 1", c.Least)
	case c.Warmup < 0 || c.Warmup > c.Steps:
		return c, fmt.Errorf("a warmup of %d steps, want 0 to %d", c.Warmup, c.Steps)
	case !within(c.Beta1, 0, 0.9999) || !within(c.Beta2, 0, 0.99999):
		return c, fmt.Errorf("betas %v and %v, want numbers from 0 to below 1", c.Beta1, c.Beta2)
	case !within(c.Eps, 0, 1) || !within(c.Decay, 0, 1) || !within(c.Clip, 0, math.MaxFloat32):
		return c, fmt.Errorf("eps %v, decay %v, clip %v: want small numbers, not below 0", c.Eps, c.Decay, c.Clip)
	}
	return c, nil
}

// rate returns the rate of step number `step`, of which the first is 1.
func (c *Config) rate(step int) float64 {
	if step <= c.Warmup {
		return c.Rate * float64(step) / float64(c.Warmup)
	}
	done := float64(step-1-c.Warmup) / float64(max(c.Steps-c.Warmup, 1)) // from 0 to below 1
	left := 1.0
	switch c.Schedule {
	case Cosine:
		half := cosine(done)
		left = half * half // (1 + cos(pi x)) / 2
	case Linear:
		left = 1 - done
	}
	return c.Rate * (c.Least + float64((1-c.Least)*left))
}

// cosine returns the cosine of x right angles, x from 0 to 1, with the same bits on every CPU: its series, without fused
// operations.
func cosine(x float64) float64 {
	a := float64(x * (math.Pi / 2))
	z, sum, term := float64(a*a), 1.0, 1.0
	for k := 1; k < 15; k++ {
		term = float64(-term*z) / float64((2*k-1)*(2*k))
		sum += term
	}
	return max(sum, 0)
}

// A Step is what one step did.
type Step struct {
	Number int
	Loss   float64 // the weighted mean of that of its tokens, before it
	Weight float64 // of these
	Length float64 // of the slopes, before they were clipped
	Rate   float64
}

// A Run trains an adapter. It is not safe for concurrent use.
type Run struct {
	Config
	State

	trainer *model.Trainer
	pool    *kernel.Pool
	texts   []model.Text
	maxTok  int
	order   []int // of the texts in this epoch
	ordered int   // the epoch that order is of, plus 1
	memory  *mem.Region
	sums    *tree
}

// A State is what a Run goes on from.
type State struct {
	Taken  int // steps
	Epoch  int // over the texts, from 0 on
	At     int // texts of the epoch that were used
	Beta1T float64
	Beta2T float64 // Beta1 and Beta2 to the power of Taken

	Numbers       []float32 // of the adapter
	Means, Spread []float32 // of the slopes by them, and of their squares
}

// New returns a Run over texts of at most maxTokens tokens each, which the trainer takes in chunks of as many. It takes the
// trainer's adapter as it is.
func New(t *model.Trainer, pool *kernel.Pool, budget *mem.Budget, texts []model.Text, maxTokens int, c Config) (*Run, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	weight := 0.0
	for i, x := range texts {
		if n := len(x.Tokens); n < 2 || n > maxTokens || len(x.Weights) != n {
			return nil, fmt.Errorf("text %d has %d tokens, want 2 to %d", i+1, n, maxTokens)
		}
		for _, w := range x.Weights[1:] {
			if w < 0 || math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
				return nil, fmt.Errorf("text %d has a token of weight %v", i+1, w)
			}
			weight += float64(w)
		}
	}
	if weight == 0 {
		return nil, errors.New("no token of the texts is to be learnt")
	}
	r := &Run{Config: c, trainer: t, pool: pool, texts: texts, maxTok: maxTokens}
	n := len(t.Adapter.Numbers)
	levels := 1
	for 1<<levels <= c.Chunks {
		levels++
	}
	if r.memory, err = budget.Alloc("the optimiser", uint64(4*n*(2+levels))); err != nil {
		return nil, err
	}
	all := mem.Float32s(r.memory.Bytes())[:n*(2+levels)]
	r.State = State{Beta1T: 1, Beta2T: 1, Numbers: t.Adapter.Numbers, Means: all[:n], Spread: all[n : 2*n]}
	r.sums = newTree(all[2*n:], n)
	return r, t.Adapter.Moved(pool)
}

// Close releases the memory of the optimiser. Closing again is a no-op.
func (r *Run) Close() { r.memory.Close() }

// Over reports whether all steps were taken.
func (r *Run) Over() bool { return r.Taken >= r.Steps }

// next returns the texts of the next chunk, and moves on: as many of the epoch's in their order as fit.
func (r *Run) next() (chunk []model.Text) {
	n := 0
	for len(chunk) < r.trainer.MaxTexts() {
		if r.At == len(r.texts) {
			if len(chunk) > 0 {
				break // chunks are of one epoch
			}
			r.Epoch, r.At = r.Epoch+1, 0
		}
		if r.ordered != r.Epoch+1 {
			r.order = rand.New(rand.NewPCG(r.Seed, uint64(r.Epoch))).Perm(len(r.texts))
			r.ordered = r.Epoch + 1
		}
		x := r.texts[r.order[r.At]]
		if n += len(x.Tokens); n > r.maxTok {
			break
		}
		chunk = append(chunk, x)
		r.At++
	}
	return chunk
}

// Next takes a step. Where it fails, as with model.ErrStopped once stop (may be nil) is set, the state is that of before.
func (r *Run) Next(stop *kernel.Stop) (Step, error) {
	if r.Over() {
		return Step{}, errors.New("all steps were taken")
	}
	epoch, at := r.Epoch, r.At
	s, err := r.step(stop)
	if err != nil {
		r.Epoch, r.At = epoch, at
	}
	return s, err
}

func (r *Run) step(stop *kernel.Stop) (Step, error) {
	s := Step{Number: r.Taken + 1, Rate: r.rate(r.Taken + 1)}
	r.sums.reset()
	for chunks := 0; chunks < r.Chunks || s.Weight == 0; chunks++ { // texts without weights bring nothing
		texts := r.next()
		weight := weightOf(texts)
		if weight == 0 {
			continue
		}
		loss, err := r.trainer.Slopes(texts, stop)
		if err != nil {
			return s, err
		}
		s.Loss += loss
		s.Weight += weight
		r.sums.add(r.trainer.Adapter.Slopes)
	}
	slopes := r.sums.total()
	s.Loss /= s.Weight
	s.Length = math.Sqrt(squares(slopes)) / s.Weight
	if math.IsNaN(s.Length) || math.IsInf(s.Length, 0) {
		return s, model.ErrNotFinite
	}
	scale := 1 / s.Weight
	if r.Clip > 0 && s.Length > r.Clip {
		scale *= r.Clip / s.Length
	}
	r.Beta1T, r.Beta2T = r.Beta1T*r.Beta1, r.Beta2T*r.Beta2
	kernel.AdamW{
		Scale: float32(scale), Beta1: float32(r.Beta1), Beta2: float32(r.Beta2),
		Rise1: float32(1 / (1 - r.Beta1T)), Rise2: float32(1 / (1 - r.Beta2T)),
		Rate: float32(s.Rate), Decay: float32(r.Decay), Eps: float32(r.Eps),
	}.Step(r.pool, r.Numbers, r.Means, r.Spread, slopes)
	r.Taken++
	return s, r.trainer.Adapter.Moved(r.pool)
}

// weightOf returns the sum of the weights of texts' tokens that have a loss.
func weightOf(texts []model.Text) (sum float64) {
	for _, x := range texts {
		for _, w := range x.Weights[1:] {
			sum += float64(w)
		}
	}
	return sum
}

// squares returns the sum of the squares, in order.
func squares(x []float32) (sum float64) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return sum
}

// Loss returns the weighted mean of the loss of other texts' tokens, of at most as many tokens each as the Run's.
func (r *Run) Loss(texts []model.Text, stop *kernel.Stop) (float64, error) {
	sum, weight := 0.0, 0.0
	for _, x := range texts { // one by one: their losses depend on no company
		if weightOf([]model.Text{x}) == 0 {
			continue
		}
		loss, err := r.trainer.Loss([]model.Text{x}, stop)
		if err != nil {
			return 0, err
		}
		sum += loss
		weight += weightOf([]model.Text{x})
	}
	if weight == 0 {
		return 0, errors.New("no token of the texts has a weight")
	}
	return sum / weight, nil
}
