package sample

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// A Bias is added to the logit of a token. -Inf bans it.
type Bias struct {
	ID    int32
	Value float32
}

// A Logprob is a token and the natural logarithm of its probability, before
// penalties, filters and temperature.
type Logprob struct {
	ID    int32
	Value float32
}

// Logprobs returns the log-probability of token id, and the n likeliest tokens,
// best first. A token that cannot come has -Inf.
func Logprobs(logits []float32, id int32, n int) (own Logprob, top []Logprob) {
	n = min(n, len(logits))
	best := float32(math.Inf(-1))
	for _, v := range logits {
		if v > best { // false for NaN
			best = v
		}
	}
	sum := 0.0
	for _, v := range logits {
		sum += weight(float64(v) - float64(best)) // 0 for NaN
	}
	norm := float64(best) + exactmath.Log(sum)
	value := func(v float32) float32 {
		p := float64(v) - norm
		if !(p <= 0) { // NaN, or rounding of a certain one
			if v == best {
				return 0
			}
			return float32(math.Inf(-1))
		}
		return float32(p)
	}
	if n > 0 {
		s := Sampler{params: Params{TopK: n}}
		if n < len(logits) {
			s.topK(logits)
		} else {
			for i, v := range logits {
				if v > float32(math.Inf(-1)) { // as topK has it
					s.kept = append(s.kept, token{int32(i), v})
				}
			}
		}
		slices.SortFunc(s.kept, inOrder)
		top = make([]Logprob, len(s.kept))
		for i, t := range s.kept {
			top[i] = Logprob{t.id, value(t.logit)}
		}
	}
	return Logprob{id, value(logits[id])}, top
}
