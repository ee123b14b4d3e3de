package sample

import "math"

// Chances returns, after Sample chose id among the same logits, the log-probability that
// it had after the whole chain, and the n likeliest of the tokens that were left, best
// first. A token that could not be chosen has -Inf.
func (s *Sampler) Chances(logits []float32, id int32, n int) (own Logprob, top []Logprob) {
	own = Logprob{ID: id, Value: float32(math.Inf(-1))}
	if s.beta == 0 || !s.all && len(s.kept) < 2 {
		own.Value = 0 // certain
		return own, []Logprob{own}[:min(n, 1)]
	}
	s.again(logits) // the choice is not yet accepted
	defer s.restore()
	best, sum, _ := s.sums()
	share := func(t token) float64 { return s.weight(t, best) / sum }
	if s.chain.adaptive {
		total := 0.0
		for _, t := range s.kept {
			total += near(share(t), s.target)
		}
		plain := share
		share = func(t token) float64 { return near(plain(t), s.target) / total }
	}
	value := func(t token) float32 { return float32(log(share(t))) }
	if s.all {
		own.Value = value(token{ID: id, Logit: logits[id]})
		s.pick(s.bound(max(n, 1)), float64(s.top))
	}
	for i, t := range s.kept {
		s.kept[i].Logit = value(t)
		if t.ID == id {
			own.Value = s.kept[i].Logit
		}
	}
	for _, t := range s.likeliest(max(n, 0)) {
		if float64(t.Logit) >= finite {
			top = append(top, Logprob{t.ID, t.Logit})
		}
	}
	return own, top
}
