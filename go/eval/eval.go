// Package eval measures how well a model predicts a text, how often it finds the right
// answer, and how far two models differ. It works on token ids and logits; reading files
// and running models are left to the caller.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// A Model begins an empty text.
type Model func() Text

// A Text is the tokens that a model has read so far.
type Text interface {
	// Eval appends ids. From index `from` of them on it calls visit with the logits that
	// follow ids[i], in ascending order; they are valid during the call. Visit may be nil
	// where from is len(ids).
	Eval(ctx context.Context, ids []int32, from int, visit func(i int, logits []float32) error) error
	// Fork returns another text of the same tokens.
	Fork() Text
	Close()
}

// Chunks configures how a text is cut.
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

// First is the first token of a chunk after which predictions are scored.
func (c Chunks) First() int { return c.Ctx / 2 }

// Scored is how many predictions of a chunk are scored: the last token is only a target.
func (c Chunks) Scored() int { return c.Ctx - 1 - c.First() }

// chunk returns the tokens of chunk n of ids, in memory of its own.
func (c Chunks) chunk(ids []int32, n int) []int32 {
	chunk := append([]int32(nil), ids[n*c.Ctx:(n+1)*c.Ctx]...)
	if c.AddBOS {
		chunk[0] = c.BOS
	}
	return chunk
}

// each evaluates the first count chunks of ids, calls visit with the logits of every
// scored prediction and the token that follows, and then done with the chunks so far.
func (c Chunks) each(ctx context.Context, m Model, ids []int32, count int, visit func(logits []float32, id int32) error, done func(chunks int) error) error {
	for n := range count {
		chunk := c.chunk(ids, n)
		text := m()
		err := text.Eval(ctx, chunk[:c.Ctx-1], c.First(), func(i int, logits []float32) error {
			return visit(logits, chunk[i+1])
		})
		text.Close()
		if err != nil {
			return fmt.Errorf("chunk %d of %d: %w", n+1, count, err)
		}
		if err := done(n + 1); err != nil {
			return err
		}
	}
	return nil
}

var errLogits = errors.New("the model's logits are not finite")

// logSum returns the logarithm of the sum of exp(logits), which turns them into
// log-probabilities. It sums in float64, in the order of the vocabulary.
func logSum(logits []float32) (float64, error) {
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
	return most + math.Log(sum), nil
}

// checkToken returns an error for a token without a logit.
func checkToken(id int32, nVocab int) error {
	if id < 0 || int(id) >= nVocab {
		return fmt.Errorf("token %d is outside the vocabulary of %d", id, nVocab)
	}
	return nil
}
