// Package quant measures the quality loss from quantization. It works on token ids and
// logits; reading text and running the model are left to the caller.
package quant

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Eval evaluates ids as a new sequence, from position 0. From index `from` on it calls
// visit with the logits that follow ids[i], in ascending order; they are valid during
// the call.
type Eval func(ctx context.Context, ids []int32, from int, visit func(i int, logits []float32) error) error

// Chunks configures how Perplexity splits a text.
type Chunks struct {
	Ctx int // tokens of a chunk, at least MinCtx
	Max int // chunks to take at most; 0 means all
	// BOS replaces the first token of each chunk if AddBOS is set, so that the model
	// never sees a text without it.
	BOS    int32
	AddBOS bool
}

// MinCtx is the smallest chunk with two predictions to score, the minimum for a
// standard error.
const MinCtx = 6

// An Estimate is a perplexity with its standard error.
type Estimate struct {
	PPL    float64
	StdErr float64
	Chunks int // evaluated
	Tokens int // scored
}

// Count returns how many chunks of a text of n tokens are evaluated, or an error if the
// text or the chunk is too short.
func (c Chunks) Count(n int) (int, error) {
	switch {
	case c.Ctx < MinCtx:
		return 0, fmt.Errorf("chunks of %d tokens leave nothing to score; use a context of at least %d", c.Ctx, MinCtx)
	case n/2 < c.Ctx:
		return 0, fmt.Errorf("the text has %d tokens, perplexity with a context of %d needs at least %d; give a longer text or a smaller context",
			n, c.Ctx, 2*c.Ctx)
	}
	if count := n / c.Ctx; c.Max == 0 || count < c.Max {
		return count, nil
	}
	return c.Max, nil
}

// Perplexity scores ids the way llama-perplexity does, so that numbers can be
// compared: the text is cut into chunks of c.Ctx tokens that share nothing, and
// the second half of each is predicted from what comes before it in its chunk.
// Tokens after the last whole chunk are left out. After each chunk, progress
// is called with the estimate so far.
func Perplexity(ctx context.Context, eval Eval, ids []int32, c Chunks, progress func(Estimate) error) (Estimate, error) {
	count, err := c.Count(len(ids))
	if err != nil {
		return Estimate{}, err
	}
	var (
		sum   moments
		est   Estimate
		chunk = make([]int32, c.Ctx)
	)
	for n := range count {
		copy(chunk, ids[n*c.Ctx:])
		if c.AddBOS {
			chunk[0] = c.BOS
		}
		// The last token is only a target.
		err := eval(ctx, chunk[:c.Ctx-1], c.Ctx/2, func(i int, logits []float32) error {
			nll, err := negLogLikelihood(logits, chunk[i+1])
			sum.add(nll)
			return err
		})
		if err != nil {
			return est, fmt.Errorf("chunk %d of %d: %w", n+1, count, err)
		}
		est = sum.estimate(n + 1)
		if err := progress(est); err != nil {
			return est, err
		}
	}
	return est, nil
}

var errLogits = errors.New("the model's logits are not finite")

// negLogLikelihood returns -log softmax(logits)[id]. It sums in float64, in the
// order of the vocabulary.
func negLogLikelihood(logits []float32, id int32) (float64, error) {
	if id < 0 || int(id) >= len(logits) {
		return 0, fmt.Errorf("token %d is outside the vocabulary of %d", id, len(logits))
	}
	most := math.Inf(-1)
	for _, l := range logits {
		most = max(most, float64(l)) // NaN propagates
	}
	if math.IsNaN(most) || math.IsInf(most, 0) {
		return 0, errLogits
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - most)
	}
	return most + math.Log(sum) - float64(logits[id]), nil
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

// estimate returns exp(mean). The error of the mean is propagated through the
// exponential to first order.
func (m *moments) estimate(chunks int) Estimate {
	n := float64(m.n)
	mean := m.sum / n
	variance := max(m.sq/n-mean*mean, 0)
	ppl := math.Exp(mean)
	return Estimate{PPL: ppl, StdErr: ppl * math.Sqrt(variance/(n-1)), Chunks: chunks, Tokens: m.n}
}
