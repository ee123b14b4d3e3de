package sample

import (
	"math"
	"slices"
	"strings"
)

// A chain is what the samplers of a request do, in order: first those that change
// single logits, then those that choose among all.
type chain struct {
	edits    string // penalties and DRY
	filters  string // the rest; on the quick path those with an effect are kpmt, in this order
	quick    bool   // no list of all candidates is needed
	greedy   bool   // the largest logit wins, whatever the rest
	mirostat bool
	adaptive bool
}

// compile leaves out the samplers that have no effect, and makes the parameters of those
// that are not in the chain neutral, for the quick path.
func (p *Params) compile() chain {
	if p.Mirostat != 0 {
		p.DynRange = 0
		return chain{filters: "t", mirostat: true}
	}
	all := p.Chain
	if all == "" {
		all = DefaultChain
	}
	c := chain{adaptive: p.AdaptiveTarget > 0 && p.Chain == "" || p.AdaptiveTarget >= 0 && strings.Contains(all, "a")}
	for _, letter := range all {
		if !p.matters(letter) {
			continue
		}
		if c.filters == "" && (letter == 'e' || letter == 'd') {
			c.edits += string(letter)
		} else {
			c.filters += string(letter)
		}
	}
	if !strings.Contains(c.filters, "t") {
		p.Temp = 1
	}
	before, _, cold := strings.Cut(c.filters, "t")
	c.greedy = cold && !c.adaptive && p.Temp <= 0 && p.DynRange <= 0 && strings.Trim(before, "skpm") == "" // which all keep it
	c.quick = !c.adaptive && p.MinKeep <= 1 && p.DynRange <= 0 && inOneOrder(c.filters, "kpmt")
	if c.quick {
		if !strings.Contains(c.filters, "k") {
			p.TopK = 0
		}
		if !strings.Contains(c.filters, "p") {
			p.TopP = 1
		}
		if !strings.Contains(c.filters, "m") {
			p.MinP = 0
		}
	}
	return c
}

// has tells whether a sampler is in the chain and has an effect.
func (c *chain) has(letter rune) bool {
	return strings.ContainsRune(c.edits, letter) || strings.ContainsRune(c.filters, letter)
}

// matters tells whether a sampler has any effect.
func (p *Params) matters(letter rune) bool {
	switch letter {
	case 'e':
		return p.RepeatLastN != 0 && (p.RepeatPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0)
	case 'd':
		return p.DryMultiplier != 0 && p.DryBase >= 1 && p.DryLastN != 0
	case 's':
		return p.TopNSigma > 0
	case 'k':
		return p.TopK > 0
	case 'y':
		return p.TypicalP < 1
	case 'p':
		return p.TopP < 1
	case 'm':
		return p.MinP > 0
	case 'x':
		return p.XTCProbability > 0 && p.XTCThreshold <= 0.5
	case 't':
		return p.Temp != 1 || p.DynRange > 0
	case 'i':
		return p.Infill != nil
	}
	return false // adaptive-p is no filter
}

// inOneOrder tells whether s is order with letters left out.
func inOneOrder(s, order string) bool {
	for _, letter := range s {
		_, after, found := strings.Cut(order, string(letter))
		if !found {
			return false
		}
		order = after
	}
	return true
}

// walk chooses by the chain, with a list of candidates that each filter shortens.
func (s *Sampler) walk(logits []float32, u float64) (int32, error) {
	s.kept = s.kept[:0]
	top := s.greedy(logits)
	if top.id < 0 {
		return 0, ErrNoToken
	}
	if in := s.params.Infill; in != nil {
		s.mayEnd = int(in.End) < len(logits) && float64(logits[in.End]) >= finite
	}
	rest := s.chain.filters
	switch {
	case top.logit > math.MaxFloat32:
		s.kept = append(s.kept, token{top.id, 0}) // certain
		return top.id, nil
	case rest != "" && rest[0] == 's':
		s.atLeast(logits, s.deviation(logits, float64(top.logit)))
		rest = rest[1:]
	case rest != "" && rest[0] == 'k' && s.params.limitsK(len(logits)):
		s.topK(logits)
		rest = rest[1:]
	default:
		s.atLeast(logits, finite)
	}
	for _, letter := range rest {
		s.apply(letter)
	}
	s.beta = 1
	switch {
	case s.chain.mirostat:
		return s.mirostat(u), nil
	case s.chain.adaptive:
		return s.adaptive(u), nil
	}
	return s.draw(u), nil
}

// apply shortens the list of candidates, or changes their logits, by one sampler. The
// list never becomes empty.
func (s *Sampler) apply(letter rune) {
	p := &s.params
	if len(s.kept) == 1 {
		return // nothing to choose
	}
	switch letter {
	case 'e', 'd':
		s.editKept(byte(letter))
	case 's':
		s.sigmaKept()
	case 'k':
		s.front(p.TopK)
	case 'y':
		s.typical()
	case 'p':
		s.nucleus()
	case 'm':
		s.minPKept()
	case 'x':
		s.xtc()
	case 't':
		s.temperature()
	case 'i':
		s.infill()
	}
}

// edit computes the logits that penalties and DRY change before anything else.
func (s *Sampler) edit(logits []float32) {
	s.edits = s.edits[:0]
	for i := range len(s.chain.edits) {
		if s.chain.edits[i] == 'e' {
			s.penalize(logits)
		} else {
			s.dryPenalize(logits)
		}
	}
}

// edited returns the place of a token in s.edits, where it is put with the logit that it
// had if it is not there.
func (s *Sampler) edited(id int32, logits []float32) *token {
	i, found := slices.BinarySearchFunc(s.edits, id, func(t token, id int32) int { return int(t.id) - int(id) })
	if !found {
		s.edits = slices.Insert(s.edits, i, token{id, logits[id]})
	}
	return &s.edits[i]
}

// editKept applies penalties or DRY to the candidates.
func (s *Sampler) editKept(letter byte) {
	if letter == 'd' {
		s.repeats()
	}
	for i := range s.kept {
		t := &s.kept[i]
		times := s.window.counts
		if letter == 'd' {
			times = s.dry.longest
		}
		j, found := slices.BinarySearchFunc(times, t.id, byID)
		switch {
		case found && letter == 'e':
			t.logit = s.params.penalized(t.logit, times[j].n)
		case found:
			t.logit -= s.dry.penalty(&s.params, times[j].n)
		}
	}
}
