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

// A Row is the logits of a token, whose probabilities several are asked for.
type Row struct {
	s       Sampler
	certain bool    // a logit is above all finite ones
	norm    float64 // the logarithm of the sum of exp(logit), where that counts
}

// RowOf returns the row of logits, which may not change while it is used.
func RowOf(logits []float32) Row {
	s := Sampler{nVocab: len(logits), logits: logits, peaks: kernel.Peaks(nil, logits), all: true, from: finite, last: math.MaxInt32, beta: 1}
	s.top = largest(s.peaks)
	r := Row{s: s, certain: s.top > math.MaxFloat32}
	if r.certain || s.top < finite {
		return r
	}
	if len(logits) <= small {
		r.s.list()
	}
	_, sum, _ := r.s.sums()
	r.norm = float64(s.top) + exactmath.Log(sum)
	return r
}

// Logprob returns the log-probability of a token; -Inf: it cannot come.
func (r *Row) Logprob(id int32) float32 { return r.value(r.s.logits[id]) }

func (r *Row) value(logit float32) float32 {
	p := float64(logit) - r.norm
	if r.certain || !(p <= 0) { // NaN, or rounding of a certain one
		if logit == r.s.top {
			return 0
		}
		return float32(math.Inf(-1))
	}
	return float32(p)
}

// Top returns the n likeliest tokens, best first.
func (r *Row) Top(n int) []Logprob {
	switch {
	case n <= 0 || r.s.top < finite:
		return nil
	case r.certain:
		return []Logprob{{r.s.best().ID, 0}}
	}
	likeliest := r.s.likeliest(n)
	top := make([]Logprob, len(likeliest))
	for i, t := range likeliest {
		top[i] = Logprob{t.ID, r.value(t.Logit)}
	}
	return top
}

// Logprobs returns the log-probability of token id, and the n likeliest tokens,
// best first. A token that cannot come has -Inf.
func Logprobs(logits []float32, id int32, n int) (own Logprob, top []Logprob) {
	r := RowOf(logits)
	return Logprob{id, r.Logprob(id)}, r.Top(n)
}
