package sched

import (
	"math"
	"time"
)

// A check limits the time that drafts may lose, at one number of streams. Whether drafts pay is predicted from
// costs and chances, and either may be wrong for long: if drafts always ran, the time without them would never be
// measured again, and passes have costs beside their tokens (sampling, drafting, other work of the machine). So
// some passes run without drafts, and passes with drafts are compared with them. Drafts take what they lose from
// a balance, and add what they win, up to a limit. The balance grows by a small part of the time that passes.
// When it is used up, there are no drafts until it has grown again. It starts small, so that drafts have to win
// something before they may lose more. Whatever the cause, drafts lose no more than that part of the time and the
// first balance.
type check struct {
	plain   pace
	since   int     // passes with drafts after the last without
	balance float64 // what drafts may still lose, in units of passes without drafts
	debt    float64 // losses above the limit of one pass; subtracted when the balance is used up
	resting bool    // no drafts until the balance is back at its opening value
	lost    int     // how often the balance was used up; reset after a long run of drafts
	running int     // passes with drafts since the balance was last used up
	forked  float64 // what passes with branches have lost, less what they have won since
	bare    int     // passes left without branches
	bared   int     // how often branches were suspended
}

// A pace is the average of recent passes without drafts.
type pace struct {
	passes  int
	streams float64
	took    float64 // ns, without the time for positions and rows of logits
}

const (
	paceMemory = 16   // passes in the average
	leastPlain = 4    // minimum of passes without drafts before drafts are judged
	plainEvery = 64   // passes with drafts per pass without
	outlier    = 2    // times the average: a slower pass counts as this, since something else ran
	stake      = 4    // passes: maximum of the balance
	opening    = 0.5  // passes: the balance at the start, and that at which drafts resume
	mostDebt   = 4    // passes
	allowance  = 0.01 // of a pass: growth of the balance with each pass; halved each time the balance is used up
	mostLost   = 5    // maximum of these halvings
	won        = 256  // passes with drafts after which the halvings are reset
	mostForked = 0.6  // passes: what passes with branches may lose, at most half of it in one pass
	bareFor    = 512  // passes without branches after that; doubled each time
	mostBared  = 4    // maximum of these doublings
)

func (p *pace) add(streams int, took float64) {
	if p.passes > 0 {
		took = min(took, outlier*p.took)
	}
	p.passes++
	share := 1 / float64(min(p.passes, paceMemory))
	p.streams += share * (float64(streams) - p.streams)
	p.took += share * (took - p.took)
}

// allows reports whether the next pass may have drafts. The very first pass may, since nothing is known yet; then
// some passes without drafts are measured.
func (c *check) allows() bool {
	if c.plain.passes < leastPlain {
		return c.plain.passes == 0 && c.since == 0
	}
	return !c.resting && c.since < plainEvery
}

// grow adds the allowance of a pass to the balance, less what the pass lost. The loss of one pass is limited:
// something else may have run.
func (c *check) grow(loss float64, branched bool) {
	most := max(c.balance, opening) / 2      // maximum loss of one pass
	if c.bare = max(c.bare-1, 0); branched { // branches have their own balance: other drafts may do better
		if c.forked = max(c.forked+min(loss, mostForked/2), 0); c.forked >= mostForked {
			c.bare, c.forked = bareFor<<min(c.bared, mostBared), 0
			c.bared++
		}
		loss = min(loss, 0)
	}
	c.debt += max(loss-most, 0)
	loss = min(loss, most)
	c.balance = min(c.balance+math.Ldexp(allowance, -min(c.lost, mostLost))-loss, stake)
	switch {
	case c.balance <= 0 && !c.resting:
		c.resting, c.running = true, 0
		c.balance -= min(c.debt, mostDebt)
		c.lost++
	case c.balance >= opening:
		c.resting, c.debt = false, 0
	}
}

// A trust is the number of accepted drafts relative to the number predicted by their chances, with exponential
// forgetting.
type trust struct{ right, promised float64 }

const (
	trustMemory = 256 // drafts
	trustPrior  = 8   // weight of the prior, in drafts that were as right as predicted
	trustPasses = 512 // passes without drafts in which the past is forgotten
)

func (t *trust) add(right, promised float64) {
	keep := math.Exp(-promised / trustMemory)
	t.right, t.promised = t.right*keep+max(right, 0), t.promised*keep+promised
}

// fade forgets a little in a pass without drafts: otherwise a low trust, which prevents drafts, would stay for
// ever.
func (t *trust) fade() {
	const keep = 1 - 1.0/trustPasses
	t.right, t.promised = t.right*keep, t.promised*keep
}

// part returns the ratio of accepted to predicted drafts, at most 1.
func (t *trust) part() float64 {
	return min((t.right+trustPrior)/(t.promised+trustPrior), 1)
}

// Promise returns, for the drafts of a pass (the first `trunk` ones, and those of branches), how many are
// certain, and how many of the others are expected to be accepted.
func Promise(drafts []Draft, trunk int, branches []Branch) (sure int, promised float64) {
	add := func(reach float64) {
		if reach == 1 {
			sure++
		} else {
			promised += reach
		}
	}
	reach := 1.0
	for _, d := range drafts[:trunk] {
		reach *= d.Chance
		add(reach)
	}
	for _, b := range branches {
		reach = 1
		for i, v := range b.Path {
			if reach *= drafts[v].Chance; i >= len(b.Path)-b.New {
				add(reach)
			}
		}
	}
	return sure, promised
}

// check returns the check for a number of streams.
func (c *Cost) check(streams int) *check {
	k, _ := place(streams)
	return &c.checks[k]
}

// Drafting reports whether the next pass of so many streams may have drafts. It may not while drafts have lost
// too much time, and now and then to measure passes without drafts.
func (c *Cost) Drafting(streams int) bool { return c.check(streams).allows() }

// Resting reports whether the next pass of so many streams has no drafts because drafts have lost too much time.
func (c *Cost) Resting(streams int) bool { return c.check(streams).resting }

// branching reports whether a pass of so many streams may have branches: not before passes without drafts were
// measured, unless passes take no time.
func (c *Cost) branching(streams int) bool {
	k := c.check(streams)
	return k.bare == 0 && (k.plain.passes >= leastPlain || c.First() == 0)
}

// A Pass describes a pass that generated tokens for streams and did nothing else.
type Pass struct {
	Streams  Shape   // one token of each stream, without drafts
	Drafted  bool    // it had drafts, or evaluated tokens again after a rejection
	Sure     int     // drafts that were certain
	Promised float64 // expected number of accepted ones among the others
	Branched bool    // some drafts were in branches
	Tokens   int     // generated by the pass
	Took     time.Duration
	Drafting time.Duration // time of drafting for it, as far as it is saved when drafts are not allowed
}

// Generated records a pass of streams. The value of its drafts is the predicted number of accepted ones,
// corrected by the trust: the number actually accepted among a few drafts is mostly chance.
func (c *Cost) Generated(p Pass) {
	streams := p.Streams.Tokens
	if streams <= 0 || p.Took <= 0 {
		return
	}
	k := c.check(streams)
	took := float64(p.Took)
	if !p.Drafted {
		if k.plain.add(streams, max(took-c.beside(p.Streams), took/4)); k.plain.passes == leastPlain {
			k.balance = opening
		}
		if k.plain.passes >= leastPlain {
			k.since = 0
			k.grow(float64(p.Drafting)/c.plain(k, p.Streams), false)
		}
		c.trust.fade()
		return
	}
	k.since++
	c.trust.add(float64(p.Tokens-streams-p.Sure), p.Promised)
	if k.plain.passes < leastPlain {
		return
	}
	plain := c.plain(k, p.Streams)
	worth := float64(streams+p.Sure) + c.trust.part()*p.Promised
	k.grow((took+float64(p.Drafting))/plain-worth/float64(streams), p.Branched)
	if k.running++; k.running >= won {
		k.lost = 0
	}
}

// plain returns the time that the pass would have taken without drafts, from the passes that had none.
func (c *Cost) plain(k *check, s Shape) float64 {
	took := k.plain.took
	if few, now := c.tokens(int(math.Round(k.plain.streams))), c.tokens(s.Tokens); few > 0 && now > 0 {
		took *= now / few
	}
	return max(took+c.beside(s), 1)
}

// A generated is the last pass, if it was of streams alone. How many tokens it gave is known when the next one is
// planned.
type generated struct {
	Pass
	ended int // streams that have ended: how many tokens they got is not known
}

// Spent records the time of drafting for the next pass, whether or not the pass has drafts; 0 if drafts were not
// allowed.
func (s *Scheduler) Spent(drafting time.Duration) { s.spent = drafting }

// ran remembers a pass for its check.
func (s *Scheduler) ran(items []Item, took time.Duration) {
	g := generated{Pass: Pass{Took: took, Drafting: s.spent}}
	s.last, s.spent = generated{}, 0
	for _, it := range items {
		j := s.find(it.ID)
		if j == nil || !j.decoding() {
			return
		}
		g.Streams = g.Streams.Add(j.at(), 1)
		g.Streams.Rows++
		g.Drafted = g.Drafted || it.Tokens > 1
		g.Branched = g.Branched || len(it.Branches) > 0
		sure, promised := Promise(j.drafts, min(it.Draft, len(j.drafts)), it.Branches)
		g.Sure += sure
		g.Promised += promised
	}
	s.last = g
}

// judge hands the last pass to its check.
func (s *Scheduler) judge() {
	if g := s.last; g.ended == 0 {
		s.Cost.Generated(g.Pass)
	}
	s.last = generated{}
}
