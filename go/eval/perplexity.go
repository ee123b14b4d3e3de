package eval

import (
	"context"
	"math"
)

// An Estimate is a perplexity with its standard error.
type Estimate struct {
	PPL    float64
	StdErr float64
	Chunks int // evaluated
	Tokens int // scored
}

// Perplexity scores ids the way llama-perplexity does, so that numbers can be
// compared: the text is cut into chunks of c.Ctx tokens that share nothing, and
// the second half of each is predicted from what comes before it in its chunk.
// Tokens after the last whole chunk are left out. Unless it is nil, save is called with the
// logits of each prediction. After each chunk, progress is called with the estimate so far.
func Perplexity(ctx context.Context, m Model, ids []int32, c Chunks, save func(logits []float32) error, progress func(Estimate) error) (Estimate, error) {
	count, err := c.Count(len(ids))
	if err != nil {
		return Estimate{}, err
	}
	var (
		sum moments
		est Estimate
	)
	err = c.each(ctx, m, ids, count, func(logits []float32, id int32) error {
		nll, err := negLogLikelihood(logits, id)
		sum.add(nll)
		if err == nil && save != nil {
			err = save(logits)
		}
		return err
	}, func(chunks int) error {
		est = sum.estimate(chunks)
		return progress(est)
	})
	return est, err
}

// negLogLikelihood returns -log softmax(logits)[id].
func negLogLikelihood(logits []float32, id int32) (float64, error) {
	if err := checkToken(id, len(logits)); err != nil {
		return 0, err
	}
	sum, err := logSum(logits)
	return sum - float64(logits[id]), err
}

// moments accumulates the mean and the variance.
type moments struct {
	n       int
	sum, sq float64
}

func (m *moments) add(x float64) {
	m.n++
	m.sum += x
	m.sq += x * x
}

// mean returns the mean with its standard error.
func (m *moments) mean() (mean, stdErr float64) {
	n := float64(m.n)
	mean = m.sum / n
	return mean, math.Sqrt(max(m.sq/n-mean*mean, 0) / (n - 1))
}

// estimate returns exp(mean). The error of the mean is propagated through the
// exponential to first order.
func (m *moments) estimate(chunks int) Estimate {
	mean, stdErr := m.mean()
	ppl := math.Exp(mean)
	return Estimate{PPL: ppl, StdErr: ppl * stdErr, Chunks: chunks, Tokens: m.n}
}
