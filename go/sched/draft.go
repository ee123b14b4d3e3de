package sched

import (
	"math"
	"time"
)

// A speculation is the drafts that sequences may have in a pass.
type speculation struct {
	cost    *Cost
	whole   Shape // of the pass without drafts
	streams Shape // of it, the part of the sequences that generate
	limit   time.Duration
	replays bool // accepted drafts before a rejected one are evaluated again
	list    []candidate
	fits    func(i int, next Shape) bool // whether there is memory for one more draft of a candidate
}

// A candidate is a sequence that may have drafts.
type candidate struct {
	at      int       // positions before the next draft
	known   int       // tokens of it in the pass that are no drafts
	chances []float64 // of its drafts, that they are right where those before them are
	taken   int
	doubted bool    // one of the taken is not sure
	reach   float64 // that all taken ones are right
	right   float64 // expected number of them that are accepted
}

const (
	// gain is what drafts must promise: costs and chances are estimates.
	gain = 1.03
	// Drafts that promise less are tried nevertheless, once in so many passes, unless they would lose more than a
	// quarter: otherwise a cost that was overestimated once would never be corrected.
	trial     = 128
	trialGain = 0.75
	// likely drafts are tried where nothing is known of their cost yet.
	likely = 0.5
	// unlikely drafts are not looked at.
	unlikely = 0.02
)

// choose returns the candidates that have one more draft each, in order: the likeliest first, and as many as give the
// most expected tokens per second. The tokens of the streams would take their time in a pass without prompts anyway; to
// that comes what the drafts add to this pass.
func (s *speculation) choose() []int {
	tokens := 0.0
	for i := range s.list {
		s.list[i].reach = 1
		tokens++
	}
	base, start := s.time(s.streams), s.time(s.whole)
	least := gain
	if s.cost.untried >= trial {
		least = trialGain
	}
	best, chosen := tokens/base*least, 0
	var order []int
	for next := s.whole; ; {
		i := s.likeliest()
		if i < 0 {
			break
		}
		c := &s.list[i]
		more := next.extend(c.at, 1)
		more.Rows++
		if !s.fits(i, more) {
			c.chances = c.chances[:c.taken]
			continue
		}
		took := base + s.time(more) - start
		if took > float64(s.limit) {
			break
		}
		next = more
		c.reach *= s.chance(c)
		c.doubted = c.doubted || c.chances[c.taken] < 1
		c.right += c.reach
		c.taken++
		c.at++
		tokens += c.reach
		order = append(order, i)
		if rate := tokens / (took + s.replay(base)); rate > best {
			best, chosen = rate, len(order)
		}
	}
	if s.cost.untried++; chosen > 0 || len(order) == 0 {
		s.cost.untried = 0
	}
	return order[:chosen]
}

// time is the estimate for a pass, and never 0.
func (s *speculation) time(shape Shape) float64 { return max(float64(s.cost.Estimate(shape)), 1) }

// chance is that the next draft of a candidate is right where those before it are: what is claimed, as far as claims have
// turned out to be true.
func (s *speculation) chance(c *candidate) float64 {
	p := c.chances[c.taken]
	if p < 1 && !c.doubted {
		p *= s.cost.trust.part()
	}
	return p
}

// likeliest returns the candidate whose next draft is most likely to be accepted, -1 where none is likely.
func (s *speculation) likeliest() int {
	best, chance := -1, unlikely
	for i, c := range s.list {
		if c.taken < len(c.chances) {
			if p := c.reach * s.chance(&c); p > chance || best >= 0 && p == chance && c.taken < s.list[best].taken {
				best, chance = i, p
			}
		}
	}
	return best
}

// replay is the expected time to evaluate tokens again: where a draft is rejected the state is that before the pass, so
// its known tokens come again too.
func (s *speculation) replay(base float64) float64 {
	if !s.replays {
		return 0
	}
	tokens := 0.0
	for _, c := range s.list {
		tokens += c.right - float64(c.taken)*c.reach // those accepted, where not all are
		tokens += (1 - c.reach) * float64(c.known)
	}
	whole, part := math.Modf(tokens)
	again := s.streams
	again.Tokens += int(whole)
	took := s.time(again)
	again.Tokens++
	return took + part*(s.time(again)-took) - base
}

// speculate adds drafts to the first items, those of streams.
func (s *Scheduler) speculate(items []Item, whole, streams Shape, available int64, limit time.Duration) {
	any := false
	list := make([]candidate, len(items))
	for i, it := range items {
		j := s.find(it.ID)
		list[i] = candidate{at: j.at() + it.Tokens, known: it.Tokens}
		if s.cfg.Replays && it.Tokens > 1 {
			continue // one rejection after another would never let its state advance
		}
		list[i].chances = j.drafts
		any = any || len(j.drafts) > 0
	}
	if !any || !s.Cost.Drafting(len(items)) {
		return
	}
	spec := speculation{
		cost: &s.Cost, whole: whole, streams: streams, replays: s.cfg.Replays, list: list,
		// Passes of streams may get longer than others by as much as lets two tokens come in place of one.
		limit: max(limit, 2*s.Cost.Estimate(streams)),
	}
	spec.fits = func(i int, next Shape) bool {
		n := items[i].Tokens + list[i].taken
		bytes := s.grows(s.find(items[i].ID), n+1) - s.grows(s.find(items[i].ID), n)
		if next.Tokens > s.cfg.Batch || bytes > available {
			return false
		}
		available -= bytes
		return true
	}
	for _, i := range spec.choose() {
		items[i].Tokens++
		items[i].Draft++
	}
}

// Drafts returns how many drafts with these chances a sequence of `at` positions is given in a pass of its own
// in which `known` of its tokens are evaluated anyway, and no more than `room` of all.
func (c *Cost) Drafts(at, known, room int, chances []float64, replays bool) int {
	shape := ShapeOf(at, known)
	shape.Rows = 1
	spec := speculation{
		cost: c, whole: shape, streams: shape, limit: longest, replays: replays,
		list: []candidate{{at: at + known, known: known, chances: chances}},
		fits: func(_ int, next Shape) bool { return next.Tokens <= room },
	}
	if !c.Drafting(1) || replays && known > 1 {
		return 0
	}
	if c.gauged() < leastGauged && len(chances) > 0 && chances[0] >= likely {
		return max(min(len(chances), leastGauged-1, room-known), 0) // one try tells
	}
	return len(spec.choose())
}
