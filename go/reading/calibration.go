package reading

import (
	"context"
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// A Calibration makes probabilities of the scores of choices that are right as often as they say: scores are divided by a
// temperature (Guo et al. 2017), and each choice has a bias (vector scaling with one scale). Both are of a set of choices and
// a question, and fitted from examples.
type Calibration struct {
	Temperature float64   `json:"temperature"` // above 0; 1 changes nothing
	Bias        []float64 `json:"bias"`        // added to the scores, one for each choice; empty: nothing is
}

// LeastTemperature and MostTemperature bound temperatures.
const (
	LeastTemperature = 1e-3
	MostTemperature  = 1e3
)

// leastChance is what a choice that cannot come counts as where it is right.
const leastChance = 1e-300

// lowest is the least that a score is, below the best: what cannot come has it too, and is a finite number in a fit.
const lowest = -50

// Chances returns the probabilities of choices with these scores. Without a calibration, the zero value for one, they are
// those of the scores. What cannot come has none.
func (c *Calibration) Chances(scores []float64) []float64 {
	p := make([]float64, len(scores))
	c.chances(p, scores)
	return p
}

// chances sets p to what Chances returns. A fit has it done so often that exponentials are the quick ones, which are the same on
// every machine too.
func (c *Calibration) chances(p, scores []float64) {
	best := math.Inf(-1)
	for i, s := range scores {
		if c != nil {
			s /= c.Temperature
			if c.Bias != nil {
				s += c.Bias[i]
			}
		}
		p[i] = s
		best = max(best, s)
	}
	if math.IsInf(best, 0) || math.IsNaN(best) { // none can come
		best = 0
	}
	total := 0.0
	for i, s := range p {
		p[i] = 0
		if s > math.Inf(-1) {
			p[i] = exactmath.QuickExp(max(s-best, -700))
		}
		total += p[i]
	}
	if total > 0 {
		for i := range p {
			p[i] /= total
		}
	}
}

// A Fit says how good probabilities of choices are.
type Fit struct {
	Accuracy float64 `json:"accuracy"` // part of the examples whose likeliest choice is right
	ECE      float64 `json:"ece"`      // expected calibration error: by how much the likeliest choice is right more or less often than its probability says
	NLL      float64 `json:"nll"`      // mean of -log of the probability of what is right
}

// eceBins is into how many parts ECE divides probabilities, as most publications do.
const eceBins = 10

// FitOf measures the probabilities of examples, of which one choice each is right.
func FitOf(chances [][]float64, right []int) Fit {
	var f Fit
	var bins [eceBins]struct{ n, sure, right float64 }
	for i, p := range chances {
		best := 0
		for k := range p {
			if p[k] > p[best] {
				best = k
			}
		}
		b := &bins[min(int(p[best]*eceBins), eceBins-1)]
		b.n++
		b.sure += p[best]
		if best == right[i] {
			b.right++
			f.Accuracy++
		}
		f.NLL -= exactmath.QuickLog(max(p[right[i]], leastChance))
	}
	n := float64(len(chances))
	for _, b := range bins {
		f.ECE += math.Abs(b.right-b.sure) / n
	}
	f.Accuracy /= n
	f.NLL /= n
	return f
}

// folds is how many parts examples are divided into: each is measured with what the others fit.
const folds = 5

// Calibrate fits a calibration to the scores of examples, of which one choice each is right, and measures it: before without
// it, and after with calibrations that were fitted without the examples they are measured on. There are 2 examples at least.
//
// The fit is the most probable one where temperatures are near 1 and biases near 0 (ridge), so that a few examples, or such
// whose answers are all right, say little. Scores are those of Stem.Scores: a number, or -Inf for what cannot come. The only error
// is the cause of the context's end; a fit takes time in proportion to examples times choices.
func Calibrate(
	ctx context.Context, scores [][]float64, right []int,
) (c *Calibration, before, after Fit, err error) {
	plain, held := make([][]float64, len(scores)), make([][]float64, len(scores))
	for fold := range min(folds, len(scores)) {
		var in [][]float64
		var of []int
		for i := range scores {
			if i%folds != fold {
				in, of = append(in, scores[i]), append(of, right[i])
			}
		}
		without := fitted(ctx, in, of)
		for i := fold; i < len(scores); i += folds {
			held[i] = without.Chances(scores[i])
		}
	}
	for i, s := range scores {
		plain[i] = (*Calibration)(nil).Chances(s)
	}
	c = fitted(ctx, scores, right)
	if ctx.Err() != nil {
		return nil, Fit{}, Fit{}, context.Cause(ctx)
	}
	return c, FitOf(plain, right), FitOf(held, right), nil
}

// A fit is the loss of a calibration, which is the logarithm of 1/temperature and then the biases, for examples whose
// scores are finite: none has another lowest point than its least, where the temperature is above 0.
type fit struct {
	ctx    context.Context
	scores [][]float64
	right  []int
	p      []float64 // the chances of an example
}

// fitted returns the calibration with the least loss, or some other one where the context has ended.
func fitted(ctx context.Context, scores [][]float64, right []int) *Calibration {
	f := fit{ctx: ctx, right: right, p: make([]float64, len(scores[0]))}
	for _, s := range scores {
		best := math.Inf(-1)
		for _, v := range s {
			best = max(best, v)
		}
		row := make([]float64, len(s))
		for k, v := range s {
			if row[k] = lowest; best > math.Inf(-1) {
				row[k] = max(v-best, lowest)
			}
		}
		f.scores = append(f.scores, row)
	}
	return f.calibration(f.least(1 + len(scores[0])))
}

func (f *fit) calibration(at []float64) *Calibration {
	t := exactmath.QuickExp(min(max(-at[0], -6.9), 6.9)) // within the bounds of temperatures
	return &Calibration{t, at[1:]}
}

// loss returns the loss and sets its gradient.
func (f *fit) loss(at, gradient []float64) float64 {
	c := f.calibration(at)
	scale, ofScale := 1/c.Temperature, 0.0
	sum := (scale - 1) * (scale - 1) / 2
	for k, b := range c.Bias {
		sum += float64(b * b / 2)
		gradient[1+k] = b
	}
	for i, row := range f.scores {
		p := f.p
		c.chances(p, row)
		sum -= exactmath.QuickLog(max(p[f.right[i]], leastChance))
		for k := range p {
			d := p[k]
			if k == f.right[i] {
				d--
			}
			gradient[1+k] += d
			ofScale += float64(d * row[k])
		}
	}
	gradient[0] = (ofScale + scale - 1) * scale
	return sum
}

// A step is one that was made, and how the gradient changed by it.
type step struct{ by, change []float64 }

// fitSteps is the most steps of a fit, and steps the last of them from which the next is found.
const (
	fitSteps = 200
	steps    = 8
)

// least returns where the loss is least, in n numbers, from all of them 0 (L-BFGS: Liu and Nocedal 1989).
func (f *fit) least(n int) []float64 {
	at, gradient := make([]float64, n), make([]float64, n)
	now := f.loss(at, gradient)
	var past []step
	for range fitSteps {
		way := direction(gradient, past)
		slope := dot(way, gradient)
		if slope >= -1e-12*(1+now) {
			break
		}
		length := 1.0
		if len(past) == 0 {
			length = 1 / (1 + math.Sqrt(-slope))
		}
		next, then, got := make([]float64, n), make([]float64, n), math.Inf(1)
		for ; length > 1e-12 && f.ctx.Err() == nil; length /= 2 {
			for i := range at {
				next[i] = at[i] + float64(length*way[i])
			}
			if got = f.loss(next, then); got <= now+1e-4*length*slope {
				break
			}
		}
		if !(got < now) || f.ctx.Err() != nil {
			break
		}
		s := step{make([]float64, n), make([]float64, n)}
		for i := range at {
			s.by[i], s.change[i] = next[i]-at[i], then[i]-gradient[i]
		}
		if dot(s.by, s.change) > 0 {
			past = append(past, s)
			past = past[max(0, len(past)-steps):]
		}
		at, gradient, now = next, then, got
	}
	return at
}

// direction returns the way down along a gradient, by the curvature that the last steps have met.
func direction(gradient []float64, past []step) []float64 {
	way := make([]float64, len(gradient))
	for i, g := range gradient {
		way[i] = -g
	}
	part := make([]float64, len(past))
	for i := len(past) - 1; i >= 0; i-- {
		part[i] = dot(past[i].by, way) / dot(past[i].by, past[i].change)
		add(way, -part[i], past[i].change)
	}
	if n := len(past); n > 0 {
		scale := dot(past[n-1].by, past[n-1].change) / dot(past[n-1].change, past[n-1].change)
		for i := range way {
			way[i] *= scale
		}
	}
	for i, s := range past {
		add(way, part[i]-dot(s.change, way)/dot(s.by, s.change), s.by)
	}
	return way
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += float64(a[i] * b[i]) // no other number where a machine multiplies and adds at once
	}
	return sum
}

func add(to []float64, times float64, v []float64) {
	for i := range to {
		to[i] += float64(times * v[i])
	}
}
