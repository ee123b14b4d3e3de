package reading

import (
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
			p[i] = exactmath.Pow(math.E, max(s-best, -700))
		}
		total += p[i]
	}
	if total > 0 {
		for i := range p {
			p[i] /= total
		}
	}
	return p
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
		f.NLL -= exactmath.Log(max(p[right[i]], leastChance))
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
// whose answers are all right, say little.
func Calibrate(scores [][]float64, right []int) (c *Calibration, before, after Fit) {
	plain, held := make([][]float64, len(scores)), make([][]float64, len(scores))
	for fold := range min(folds, len(scores)) {
		var in [][]float64
		var of []int
		for i := range scores {
			if i%folds != fold {
				in, of = append(in, scores[i]), append(of, right[i])
			}
		}
		without := fitted(in, of)
		for i := fold; i < len(scores); i += folds {
			held[i] = without.Chances(scores[i])
		}
	}
	for i, s := range scores {
		plain[i] = (*Calibration)(nil).Chances(s)
	}
	return fitted(scores, right), FitOf(plain, right), FitOf(held, right)
}

// fitted returns the calibration with the least loss, which is convex in 1/temperature and the biases: by steps against its
// gradient, each as long as the loss gets less by it.
func fitted(scores [][]float64, right []int) *Calibration {
	choices := len(scores[0])
	finite, spread := make([][]float64, len(scores)), 0.0
	for i, s := range scores {
		best, row := math.Inf(-1), make([]float64, choices)
		for _, v := range s {
			best = max(best, v)
		}
		for k, v := range s {
			if row[k] = lowest; best > math.Inf(-1) {
				row[k] = max(v-best, lowest)
			}
			spread += row[k] * row[k]
		}
		finite[i] = row
	}
	n := float64(len(scores))
	spread = spread/float64(choices) + 1 // the curvature along the scale is no more than about this
	loss := func(scale float64, bias []float64, gradient []float64) float64 {
		sum := (scale - 1) * (scale - 1) / 2
		clear(gradient)
		gradient[choices] = scale - 1
		for k, b := range bias {
			sum += b * b / 2
			gradient[k] = b
		}
		c := Calibration{1 / scale, bias}
		for i, row := range finite {
			p := c.Chances(row)
			sum -= exactmath.Log(max(p[right[i]], leastChance))
			for k := range p {
				d := p[k]
				if k == right[i] {
					d--
				}
				gradient[k] += d
				gradient[choices] += d * row[k]
			}
		}
		return sum
	}
	scale, bias, step := 1.0, make([]float64, choices), 1.0
	gradient, trial, next := make([]float64, choices+1), make([]float64, choices), make([]float64, choices+1)
	now := loss(scale, bias, gradient)
	for range 2000 {
		gain := 0.0 // that the gradient promises
		for k := range bias {
			d := gradient[k] / (n/2 + 1)
			trial[k] = bias[k] - step*d
			gain += gradient[k] * (bias[k] - trial[k])
		}
		to := min(max(scale-step*gradient[choices]/spread, 1/MostTemperature), 1/LeastTemperature)
		gain += gradient[choices] * (scale - to)
		if gain <= 1e-10*(1+now) {
			break
		}
		if got := loss(to, trial, next); got <= now-gain/4 {
			now, scale, step = got, to, min(step*2, 1e3)
			bias, trial = trial, bias
			gradient, next = next, gradient
		} else if step /= 2; step < 1e-12 {
			break
		}
	}
	return &Calibration{1 / scale, bias}
}
