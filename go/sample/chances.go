package sample

import (
	"math"
	"slices"
)

// Chances returns, after Sample chose id among the same logits, the log-probability that
// it had after the whole chain, and the n likeliest of the tokens that were left, best
// first. A token that could not be chosen has -Inf.
func (s *Sampler) Chances(logits []float32, id int32, n int) (own Logprob, top []Logprob) {
	own = Logprob{ID: id, Value: float32(math.Inf(-1))}
	if s.all {
		s.kept = s.kept[:0]
		s.atLeast(logits, finite)
	}
	if s.beta == 0 || len(s.kept) < 2 {
		own.Value = 0 // certain
		return own, []Logprob{own}[:min(n, 1)]
	}
	best, sum, total := float64(first(s.kept).logit), 0.0, 0.0
	for _, t := range s.kept {
		sum += weight((float64(t.logit) - best) * s.beta)
	}
	share := func(t token) float64 {
		p := weight((float64(t.logit)-best)*s.beta) / sum
		if s.chain.adaptive {
			return near(p, s.target)
		}
		return p
	}
	for _, t := range s.kept {
		total += share(t)
	}
	for i, t := range s.kept {
		s.kept[i].logit = float32(log(share(t) / total))
		if t.id == id {
			own.Value = s.kept[i].logit
		}
	}
	likeliest := heap(s.kept, max(n, 0))
	slices.SortFunc(likeliest, inOrder)
	for _, t := range likeliest {
		if float64(t.logit) >= finite {
			top = append(top, Logprob{t.id, t.logit})
		}
	}
	return own, top
}
