package sample

import (
	"slices"
	"strings"
)

// A chain is what the samplers of a request do, in order: first those that change
// single logits, then those that choose among all.
type chain struct {
	edits    string // penalties and DRY
	filters  string // the rest
	greedy   bool   // the largest logit wins, whatever the rest
	mirostat bool
	adaptive bool
}

// compile leaves out the samplers that have no effect.
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
	before, _, cold := strings.Cut(c.filters, "t")
	c.greedy = cold && !c.adaptive && p.Temp <= 0 && p.DynRange <= 0 && strings.Trim(before, "skpm") == "" // which all keep it
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

// walk chooses by the chain, each of whose filters leaves fewer candidates.
func (s *Sampler) walk(u float64) int32 {
	if in := s.params.Infill; in != nil {
		s.mayEnd = float64(s.logits[in.End]) >= finite
	}
	if k := s.params.TopK; len(s.logits) <= small && !(strings.HasPrefix(s.chain.filters, "k") && k <= min(ordered, len(s.logits)-1)) {
		s.list()
	}
	for _, letter := range s.chain.filters {
		s.apply(letter)
	}
	switch {
	case s.chain.mirostat:
		return s.mirostat(u)
	case s.chain.adaptive:
		return s.adaptive(u)
	}
	return s.draw(u)
}

// apply leaves some of the candidates, or changes their logits, by one sampler.
func (s *Sampler) apply(letter rune) {
	if !s.all && len(s.kept) == 1 {
		return // nothing to choose
	}
	switch letter {
	case 'e', 'd':
		s.editKept(byte(letter))
	case 's':
		s.sigma()
	case 'k':
		s.front(s.params.TopK)
	case 'y':
		s.typical()
	case 'p':
		s.nucleus()
	case 'm':
		s.minP()
	case 'x':
		s.xtc()
	case 't':
		s.temperature()
	case 'i':
		s.infill()
	}
}

// editKept applies penalties or DRY to the candidates.
func (s *Sampler) editKept(letter byte) {
	s.cool()
	if letter == 'd' {
		s.repeats()
	}
	for i := range s.kept {
		t := &s.kept[i]
		if letter == 'd' {
			if n, found := s.dry.continues(t.ID); found {
				t.Logit -= s.dry.penalty(&s.params, n)
			}
		} else if j, found := slices.BinarySearchFunc(s.window.counts, t.ID, byID); found {
			t.Logit = s.params.penalized(t.Logit, s.window.counts[j].n)
		}
	}
}
