package sample

import "math"

// A feedback is the state of the samplers that steer by what was chosen before. Accept
// changes it.
type feedback struct {
	id       int32   // the token chosen last, -1: none that counts
	observed float64 // its surprise in bits for Mirostat, its probability for adaptive-p

	mu          float64 // Mirostat: the largest surprise
	sum, weight float64 // adaptive-p: of the probabilities of what was chosen, decaying
}

func newFeedback(p *Params) feedback {
	f := feedback{id: -1, mu: 2 * float64(p.MirostatTau)}
	// As if the target had always been met.
	f.weight = 1 / (1 - float64(p.AdaptiveDecay))
	f.sum = float64(float64(p.AdaptiveTarget) * f.weight)
	return f
}

func (f *feedback) accept(id int32, p *Params, c *chain) {
	if f.id != id {
		return
	}
	f.id = -1
	switch {
	case c.mirostat:
		f.mu -= float64(float64(p.MirostatEta) * (f.observed - float64(p.MirostatTau)))
	case c.adaptive:
		f.sum = f.observed + float64(float64(p.AdaptiveDecay)*f.sum)
		f.weight = 1 + float64(float64(p.AdaptiveDecay)*f.weight)
	}
}

// mirostat draws among the candidates whose surprise is within bounds (version 2), or
// among as many as Zipf's law, fitted to the likeliest, says have it (version 1).
func (s *Sampler) mirostat(u float64) int32 {
	if s.params.Mirostat == 1 {
		s.zipf()
	} else {
		top, sum, _ := s.sums()
		s.keep(min(top, top+(log(sum)-float64(s.feedback.mu*math.Ln2))/s.beta), top)
	}
	id := s.draw(u)
	top, sum, _ := s.sums()
	d := (float64(s.logits[id]) - top) * s.beta
	s.feedback.id, s.feedback.observed = id, (log(sum)-d)/math.Ln2
	return id
}

// fitted is how many of the likeliest candidates Zipf's law is fitted to.
const fitted = 100

// zipf keeps the candidates that Mirostat 1 does.
func (s *Sampler) zipf() {
	n, all := s.count(), s.all
	if n < 2 {
		return
	}
	k := s.within(s.likeliest(fitted), n)
	if s.all = all; k < n {
		s.front(k)
	}
}

// within returns how many of n candidates Mirostat 1 keeps, by the likeliest of them.
func (s *Sampler) within(likeliest []token, n int) int {
	products, squares := 0.0, 0.0
	for i := range len(likeliest) - 1 {
		t := log(float64(i+2) / float64(i+1))
		b := float64((float64(likeliest[i].Logit) - float64(likeliest[i+1].Logit)) * s.beta)
		products += float64(t * b)
		squares += float64(t * t)
	}
	exponent := products / squares
	// The weights 1/rank^exponent of all tokens add up to about (1 - n^-e)/e.
	e := exponent - 1
	total := log(float64(s.nVocab))
	if e != 0 {
		total = (1 - power(float64(s.nVocab), -e)) / e
	}
	k := power(power(2, s.feedback.mu)/total, 1/exponent)
	switch {
	case !(k >= 1):
		return 1
	case k >= float64(n):
		return n
	}
	return int(k)
}

// The curve of adaptive-p: logits are highest at the target, fall as a square near it
// and linearly far from it.
const (
	adaptiveWidth = 0.3
	adaptiveSlope = 10
)

// near is the weight of a candidate of probability p.
func near(p, target float64) float64 {
	d := math.Abs(p-target) / adaptiveWidth
	return weight(-adaptiveSlope * float64(d*d) / (1 + d))
}

// adaptive draws a token whose probability is near a target, which is moved against the
// mean of what was chosen.
func (s *Sampler) adaptive(u float64) int32 {
	f := &s.feedback
	goal := float64(s.params.AdaptiveTarget)
	s.target = min(max(2*goal-f.sum/f.weight, 0), 1)
	s.list()
	top, sum, _ := s.sums()
	total := 0.0
	for _, t := range s.kept {
		total += near(s.weight(t, top)/sum, s.target)
	}
	left := float64(u * total)
	for _, t := range s.kept {
		p := s.weight(t, top) / sum
		f.id, f.observed = t.ID, p
		if left -= near(p, s.target); left < 0 {
			break
		}
	}
	return f.id
}
