package eval

import (
	"errors"
	"math"
	"slices"
)

// A Divergence compares the predictions of a model with those of a base. Add fills it.
type Divergence struct {
	nll, base moments // of the tokens that follow
	both      float64 // sum of the products of the two
	ratio     moments // nll - base
	kld       moments
	diff      moments // of the probability of the token that follows
	square    moments // of diff * diff
	same      int     // predictions whose likeliest token is the base's

	klds, diffs []float64 // of each prediction; sorted by Summary
}

// A Mean is a mean with its standard error.
type Mean struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

func (m *moments) result() Mean {
	v, e := m.mean()
	return Mean{v, e}
}

// Quantiles are the fractions of which a Summary has values.
var Quantiles = []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}

// A Summary is what a Divergence comes to. Divergences are Kullback-Leibler's from the base, in
// nats; Diff is the change of the probability of the token that follows.
type Summary struct {
	Tokens    int       `json:"tokens"`
	PPL       Mean      `json:"ppl"`
	BasePPL   Mean      `json:"ppl_base"`
	Corr      float64   `json:"correlation"` // of the logarithms of the two
	LogRatio  Mean      `json:"ln_ppl_ratio"`
	Ratio     Mean      `json:"ppl_ratio"`
	PPLDiff   Mean      `json:"ppl_difference"`
	KLD       Mean      `json:"kld"`
	KLDs      []float64 `json:"kld_quantiles"` // at Quantiles
	Diff      Mean      `json:"dp"`
	Diffs     []float64 `json:"dp_quantiles"`
	DiffRMS   Mean      `json:"dp_rms"`
	SameToken Mean      `json:"same_top"`
}

var errImpossible = errors.New("the model holds a token impossible that the base does not, so they diverge without bound")

// Exact counts every token of the base's distribution, however unlikely.
var Exact = math.Inf(-1)

// Add adds a prediction: the base's logits less shift are its log-probabilities, of which
// those above least count; id is the token that follows.
func (d *Divergence) Add(base []float32, shift, least float64, logits []float32, id int32) error {
	p, err := compared(base, shift, least, logits, id)
	if err == nil {
		d.add(p)
	}
	return err
}

// AddLogits is Add where all logits of the base are known: every token of its distribution counts.
func (d *Divergence) AddLogits(base, logits []float32, id int32) error {
	shift, err := logSum(base)
	if err != nil {
		return err
	}
	return d.Add(base, shift, Exact, logits, id)
}

// A prediction is what Add computes from two rows of logits.
type prediction struct {
	nll, base float64
	kld, diff float64
	same      bool
}

// compared may run in parallel.
func compared(base []float32, shift, least float64, logits []float32, id int32) (prediction, error) {
	if err := checkToken(id, min(len(logits), len(base))); err != nil {
		return prediction{}, err
	}
	sum, err := logSum(logits)
	if err != nil {
		return prediction{}, err
	}
	kld, top, topBase := 0.0, 0, 0
	for i, b := range base {
		if logits[i] > logits[top] {
			top = i
		}
		if b > base[topBase] {
			topBase = i
		}
		if l := float64(b) - shift; l > least {
			kld += math.Exp(l) * (l - (float64(logits[i]) - sum))
		}
	}
	p := prediction{nll: sum - float64(logits[id]), base: shift - float64(base[id]), kld: kld, same: top == topBase}
	p.diff = math.Exp(-p.nll) - math.Exp(-p.base)
	if math.IsNaN(kld) || math.IsInf(kld, 0) || math.IsInf(p.nll, 0) || math.IsInf(p.base, 0) {
		return p, errImpossible
	}
	return p, nil
}

func (d *Divergence) add(p prediction) {
	d.nll.add(p.nll)
	d.base.add(p.base)
	d.both += p.nll * p.base
	d.ratio.add(p.nll - p.base)
	d.kld.add(p.kld)
	d.diff.add(p.diff)
	d.square.add(p.diff * p.diff)
	if p.same {
		d.same++
	}
	d.klds, d.diffs = append(d.klds, p.kld), append(d.diffs, p.diff)
}

// Summary returns the statistics of at least two predictions. Errors of functions of
// means are propagated to first order.
func (d *Divergence) Summary() Summary {
	n := float64(d.nll.n)
	s := Summary{Tokens: d.nll.n, KLD: d.kld.result(), Diff: d.diff.result(), LogRatio: d.ratio.result()}
	through := func(m Mean) Mean { // exp
		v := math.Exp(m.Value)
		return Mean{v, v * m.StdErr}
	}
	nll, base := d.nll.result(), d.base.result()
	s.PPL, s.BasePPL, s.Ratio = through(nll), through(base), through(s.LogRatio)
	covariance := (d.both/n - nll.Value*base.Value) / (n - 1)
	if s.Corr = 1; nll.StdErr > 0 && base.StdErr > 0 {
		s.Corr = covariance / (nll.StdErr * base.StdErr)
	}
	e, f := s.PPL.StdErr, s.BasePPL.StdErr
	s.PPLDiff = Mean{s.PPL.Value - s.BasePPL.Value, math.Sqrt(max(e*e+f*f-2*s.PPL.Value*s.BasePPL.Value*covariance, 0))}
	square := d.square.result()
	if s.DiffRMS.Value = math.Sqrt(square.Value); square.Value > 0 {
		s.DiffRMS.StdErr = square.StdErr / (2 * s.DiffRMS.Value)
	}
	share := float64(d.same) / n
	s.SameToken = Mean{share, math.Sqrt(share * (1 - share) / (n - 1))}
	slices.Sort(d.klds)
	slices.Sort(d.diffs)
	for _, q := range Quantiles {
		s.KLDs = append(s.KLDs, quantile(d.klds, q))
		s.Diffs = append(s.Diffs, quantile(d.diffs, q))
	}
	return s
}

// quantile interpolates between the two nearest of sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	next := min(i+1, len(sorted)-1)
	return sorted[i] + (at-float64(i))*(sorted[next]-sorted[i])
}

// At returns the value at a fraction that Quantiles lists.
func At(values []float64, q float64) float64 { return values[slices.Index(Quantiles, q)] }
