package engine

import (
	"errors"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// Sparse vectors have a number for each token of the vocabulary, most of which are 0 (SPLADE, Formal et al. 2021).

// ErrNotSparse reports a model whose vectors are not sparse.
var ErrNotSparse = errors.New("the model makes no sparse vectors: its file has no pooling of scores of the vocabulary's tokens")

// A Term is a number of a sparse vector that is not 0.
type Term struct {
	Index int     `json:"index"` // the token's id
	Value float32 `json:"value"`
}

// Terms returns the numbers of a vector that are not 0.
func Terms(v []float32) []Term {
	all := []Term{}
	for i, x := range v {
		if x != 0 {
			all = append(all, Term{i, x})
		}
	}
	return all
}

// terms replaces scores by the logarithms of 1 and what of them is positive, so many times, and returns them.
func terms(scores []float32, logs int) []float32 {
	for i, x := range scores {
		if x <= 0 {
			scores[i] = 0
			continue
		}
		y := float64(x)
		for range logs {
			y = exactmath.Log1p(y)
		}
		scores[i] = float32(y)
	}
	return scores
}
