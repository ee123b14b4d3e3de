package engine

import (
	"errors"
	"math"
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
			y = log1p(y)
		}
		scores[i] = float32(y)
	}
	return scores
}

// log1p is the logarithm of 1 + x of a positive x, with the same bits on all CPUs: a compiler may not fuse what is
// converted, and math's has its own instructions on some.
func log1p(x float64) float64 {
	y := 1 + x
	if y == 1 || x-x != 0 { // NaN, or infinite
		return x
	}
	fraction, exponent := math.Frexp(y)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = 2*fraction, exponent-1
	}
	s := (fraction - 1) / (fraction + 1) // the logarithm of the fraction is 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172
	square, sum := float64(s*s), 0.0
	for odd := 21.0; odd >= 1; odd -= 2 {
		sum = float64(sum*square) + 1/odd
	}
	log := float64(float64(exponent)*math.Ln2) + float64(float64(2*s)*sum)
	return float64(log*x) / (y - 1) // what was lost by adding 1
}
