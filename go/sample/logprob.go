package sample

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
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
	s := Sampler{nVocab: len(logits), logits: logits, peaks: kernel.Peaks(nil, logits), all: true, from: finite, last: math.MaxInt32, beta: 1}
	s.top = largest(s.peaks)
	certain, norm := s.top > math.MaxFloat32, 0.0
	value := func(v float32) float32 {
		p := float64(v) - norm
		if certain || !(p <= 0) { // NaN, or rounding of a certain one
			if v == s.top {
				return 0
			}
			return float32(math.Inf(-1))
		}
		return float32(p)
	}
	if certain || s.top < finite {
		if certain && n > 0 {
			top = []Logprob{{s.best().ID, 0}}
		}
		return Logprob{id, value(logits[id])}, top
	}
	if len(logits) <= small {
		s.list()
	}
	_, sum, _ := s.sums()
	norm = float64(s.top) + exactmath.Log(sum)
	if n > 0 {
		likeliest := s.likeliest(n)
		top = make([]Logprob, len(likeliest))
		for i, t := range likeliest {
			top[i] = Logprob{t.ID, value(t.Logit)}
		}
	}
	return Logprob{id, value(logits[id])}, top
}
