package sched

import "time"

// A check compares the speed of passes with drafts to that of passes without, at one number of streams, and stops drafts
// while they lose. What is expected of drafts is from costs and chances, and either may be wrong for long: where drafts
// always run, the time without them is never seen again, and passes have costs beside their tokens (rows of logits,
// sampling, drafting). The speed itself is what counts and what can be measured, so nothing has to be known of the
// reasons; and its passes without drafts keep the costs true as well.
type check struct {
	plain, drafted pace
	since          int // passes with drafts after the last without
	rest           int // passes without drafts before they are tried again
	lost           int // how often drafts lost, until they won for long
}

// A pace is the average of the latest passes.
type pace struct {
	passes       int
	tokens, took float64
}

const (
	paceMemory  = 16  // passes in an average
	leastPlain  = 4   // passes without drafts before drafts are judged
	leastTries  = 16  // tokens of streams whose passes had drafts before they are judged, and
	leastPasses = 4   // passes
	plainEvery  = 64  // passes with drafts, there is one without
	rested      = 128 // passes without drafts where they have lost once; twice as many each time
	mostRested  = 5   // doublings
	won         = 64  // passes with drafts after which losses are forgotten
	outlier     = 4   // a pass is not taken to be so much slower than the average: something else ran
)

func (p *pace) add(tokens int, took time.Duration) {
	t := float64(took)
	if p.passes > 0 {
		t = min(t, outlier*p.took)
	}
	p.passes++
	share := 1 / float64(min(p.passes, paceMemory))
	p.tokens += share * (float64(tokens) - p.tokens)
	p.took += share * (t - p.took)
}

func (p *pace) rate() float64 { return p.tokens / p.took }

// tried reports whether there were enough passes with drafts, of so many streams, to judge them.
func (c *check) tried(passes, streams int) bool {
	return passes >= max(leastPasses, leastTries/streams)
}

// allows reports whether the next pass of so many streams may have drafts.
func (c *check) allows(streams int) bool {
	switch {
	case c.rest > 0:
		return false
	case c.plain.passes < leastPlain:
		return !c.tried(c.since, streams)
	}
	return c.since < plainEvery
}

// add records a pass of streams alone, and how many tokens they got.
func (c *check) add(drafted bool, streams, tokens int, took time.Duration) {
	if drafted {
		c.drafted.add(tokens, took)
		c.since++
	} else {
		c.plain.add(tokens, took)
		c.rest = max(c.rest-1, 0)
		if c.plain.passes >= leastPlain {
			c.since = 0
		}
	}
	switch {
	case c.rest > 0 || c.plain.passes < leastPlain || !c.tried(c.drafted.passes, streams):
	case c.drafted.rate() < c.plain.rate():
		c.rest = rested << min(c.lost, mostRested)
		c.lost++
		c.drafted = pace{}
	case c.drafted.passes >= won:
		c.lost = 0
	}
}

// check returns the check of so many streams.
func (c *Cost) check(streams int) *check {
	k, _ := place(streams)
	return &c.checks[k]
}

// Drafting reports whether the next pass of so many streams may have drafts: not where they were slower than none, and
// now and then not, to measure that.
func (c *Cost) Drafting(streams int) bool { return c.check(streams).allows(streams) }

// Generated records that a pass of so many streams, and nothing else, gave them so many tokens, in a time that includes
// that of drafting. Drafted are the passes that had drafts, or evaluated tokens again after some were rejected.
func (c *Cost) Generated(drafted bool, streams, tokens int, took time.Duration) {
	if streams > 0 && took > 0 {
		c.check(streams).add(drafted, streams, tokens, took)
	}
}

// A generated is the pass that ran last, if it was of streams alone. Its tokens are known when the next one is planned.
type generated struct {
	streams, tokens int
	ended           int // streams that have not gone on: how many tokens they got is not known
	drafted         bool
	took            time.Duration
}

// Spent records how long drafting took for the next pass. It is part of that pass's time, if it has drafts.
func (s *Scheduler) Spent(drafting time.Duration) { s.spent = drafting }

// ran notes a pass for its check.
func (s *Scheduler) ran(items []Item, took time.Duration) {
	drafting := s.spent
	s.last, s.spent = generated{}, 0
	g := generated{streams: len(items), took: took}
	for _, it := range items {
		j := s.find(it.ID)
		if j == nil || !j.decoding() {
			return
		}
		g.drafted = g.drafted || it.Tokens > 1
	}
	if g.drafted && took > 0 {
		g.took += drafting
	}
	s.last = g
}

// judge gives the last pass to its check.
func (s *Scheduler) judge() {
	if g := s.last; g.ended == 0 {
		s.Cost.Generated(g.drafted, g.streams, g.tokens, g.took)
	}
	s.last = generated{}
}
