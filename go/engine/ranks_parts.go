package engine

import (
	mathbits "math/bits"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sched"
)

// Ranks that have layers each compute one after the other what a pass of generating texts wants, and R - 1 of R wait. So such a
// pass goes through them in parts, which are on several ranks at once: G parts take G + R - 1 times what a rank needs for one,
// the whole R times what it needs for all. That is less where a pass takes longer with more tokens, as those of prompts and of
// many texts do; while the weights are read for a few tokens, parts would read them again. Prompts' passes before the last want
// nothing, and follow each other without parts.

// stages says in how many parts a pass is computed: in as many as should make it the fastest, by what this rank needs for its layers,
// or in one, whichever was faster lately.
type stages struct {
	group  *kernel.Ranks
	widest float64    // the part of the layers of the rank that has most
	cost   sched.Cost // of this rank's layers, by the tokens of a part
	races  [16]race   // by the logarithm of the tokens of a pass

	running *race // that the last pass is of; nil: of none
	divided bool  // it was in parts
	tokens  int
}

// A race is between passes as a whole and in parts.
type race struct {
	each  [2]float64 // ns of a token, of passes as a whole and in parts; 0: there was none
	since [2]int     // passes since then
}

// again is after how many passes the slower way is tried again.
const again = 64

// divide reports which way is taken.
func (r *race) divide() bool {
	for way, ns := range r.each {
		if ns == 0 || r.since[way] >= again {
			return way == 1
		}
	}
	return r.each[1] < r.each[0]
}

// ran records a pass.
func (r *race) ran(divided bool, each float64) {
	way := 0
	if divided {
		way = 1
	}
	if was := r.each[way]; was > 0 && r.since[way] < again {
		each = was + (min(each, 2*was)-was)/4 // other work on the machine can make one pass slow
	}
	r.each[way], r.since[way] = each, 0
	r.since[1-way]++
}

// mostParts is the maximum number of parts of a pass for each rank: with more, little is won.
const mostParts = 4

// worthParts is how much faster a pass in parts must be, at least: what is predicted is not exact, and parts are sent one by one.
const worthParts = 1.1

// count returns in how many parts n tokens are computed.
func (s *stages) count(n int) (parts int) {
	took := func(parts int) float64 {
		part := s.cost.Estimate(sched.Shape{Tokens: (n + parts - 1) / parts, Rows: 1})
		return float64(part) * (1 + float64(parts-1)*s.widest)
	}
	parts = 1
	best := took(1) / worthParts
	for k := 2; k <= min(mostParts*s.group.Count(), n); k++ {
		if t := took(k); t < best {
			parts, best = k, t
		}
	}
	return parts
}

// cut returns where so many parts of the items' tokens end, or a few less. Where a sequence has recurrent state, or is one pass,
// it is in one part.
func (e *Engine) cut(items []Item, parts int) (ends []int) {
	all := len(e.runner.Batch().Tokens())
	if !e.kv.Layout().Recurrent() && !e.model.Config.OnePass() {
		for k := range parts {
			ends = append(ends, (k+1)*all/parts)
		}
		return ends
	}
	at := 0
	add := func(n int) {
		if at += n; n > 0 && at*parts >= (len(ends)+1)*all {
			ends = append(ends, at)
		}
	}
	for _, it := range items {
		add(len(it.IDs))
		for _, b := range it.Branches {
			add(len(b.IDs))
		}
	}
	return ends
}

// forward runs the batch, which has these items, in parts if that is faster.
func (e *Engine) forward(items []Item, stop *kernel.Stop, between func()) error {
	s := e.stages
	if s == nil {
		return e.runner.Forward(stop, between)
	}
	if took := e.runner.Took(); s.running != nil && took > 0 {
		s.running.ran(s.divided, float64(took)/float64(s.tokens))
	}
	n, parts := len(e.runner.Batch().Tokens()), 1
	s.running, s.divided, s.tokens = nil, false, n
	if e.awaits(items) {
		if ends := e.cut(items, s.count(n)); len(ends) > 1 {
			r := &s.races[min(mathbits.Len(uint(n)), len(s.races)-1)]
			if s.divided = e.timeless || r.divide(); s.divided {
				parts = len(ends)
				e.runner.Divide(ends)
			}
			s.running = r
		}
	}
	before := s.group.Load(0).Computed
	if err := e.runner.Forward(stop, between); err != nil {
		s.running = nil
		return err
	}
	if !e.timeless {
		took := (s.group.Load(0).Computed - before) / time.Duration(parts)
		s.cost.Observe(sched.Shape{Tokens: (n + parts - 1) / parts, Rows: 1}, took)
	}
	return nil
}

// awaits reports whether something is computed of what a pass makes, before the next.
func (e *Engine) awaits(items []Item) bool {
	for _, it := range items {
		if it.Rows > 0 {
			return true
		}
		for _, b := range it.Branches {
			if b.Rows > 0 {
				return true
			}
		}
	}
	return !e.model.Has(nn.Logits)
}
