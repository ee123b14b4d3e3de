package sched

import (
	"math"
	"time"
)

// A check bounds what drafts may lose, at one number of streams. What is expected of them is from costs and chances, and
// either may be wrong for long: where drafts always run, the time without them is never seen again, and passes have
// costs beside their tokens (sampling, drafting, what else the machine does). So some passes are without drafts, and those with drafts are held
// against them: of a balance, which grows by a small part of the time that passes, they take what they lose, and add what
// they win, up to a limit. Where it is used up there are no drafts until it has grown again. It begins small, so that drafts have
// to win something before they may lose more. So whatever the cause, no more is lost than that part of the time, and the first balance.
type check struct {
	plain   pace
	since   int     // passes with drafts after the last without
	balance float64 // what drafts may still lose, in passes without drafts
	debt    float64 // what they lost beyond what one pass may take from it: it is taken where they lose on
	resting bool    // until the balance is what it was at first
	lost    int     // how often it was used up, until drafts went on for long
	running int     // passes with drafts since then
	forked  float64 // what passes with branches have lost, and not won since
	bare    int     // passes without branches that are still to come
	bared   int     // how often there were to be some
}

// A pace is the average of the latest passes without drafts.
type pace struct {
	passes  int
	streams float64
	took    float64 // ns, without what positions and rows of logits take
}

const (
	paceMemory = 16   // passes in an average
	leastPlain = 4    // passes without drafts before drafts are judged
	plainEvery = 64   // passes with drafts, there is one without
	outlier    = 2    // a pass is not taken to be so much slower than the average: something else ran
	stake      = 4    // passes: the largest balance
	opening    = 0.5  // passes: the first balance, and that after drafts rested
	mostDebt   = 4    // passes
	allowance  = 0.01 // of a pass: what the balance grows by with each; half as much after each loss
	mostLost   = 5    // halvings
	won        = 256  // passes with drafts after which losses are forgotten
	mostForked = 0.6  // passes: what those with branches may lose, no more than half of it with one
	bareFor    = 512  // passes without branches after that, each time twice as many
	mostBared  = 4    // times that it doubles
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

// allows reports whether the next pass may have drafts. The first may, of which nothing is known; then some without are
// measured.
func (c *check) allows() bool {
	if c.plain.passes < leastPlain {
		return c.plain.passes == 0 && c.since == 0
	}
	return !c.resting && c.since < plainEvery
}

// grow adds what a pass allows drafts to lose, less what it lost. One pass alone does not tell: something else may have run.
func (c *check) grow(loss float64, branched bool) {
	most := max(c.balance, opening) / 2      // of one pass
	if c.bare = max(c.bare-1, 0); branched { // what follows one another may be another matter: these have a balance of their own
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

// A trust is how many drafts were accepted beside how many should have been, by their chances. The latest count most.
type trust struct{ right, promised float64 }

const (
	trustMemory = 256 // drafts
	trustPrior  = 8   // drafts that are assumed to have kept their promise
	trustPasses = 512 // passes without drafts after which what was is forgotten
)

func (t *trust) add(right, promised float64) {
	keep := math.Exp(-promised / trustMemory)
	t.right, t.promised = t.right*keep+max(right, 0), t.promised*keep+promised
}

// fade forgets a little: where nothing is drafted for want of trust, nothing would ever restore it.
func (t *trust) fade() {
	const keep = 1 - 1.0/trustPasses
	t.right, t.promised = t.right*keep, t.promised*keep
}

// part is what part of the promised drafts are accepted; no more than all.
func (t *trust) part() float64 {
	return min((t.right+trustPrior)/(t.promised+trustPrior), 1)
}

// Promise returns how many drafts are sure, of those in a pass, the first `trunk` and some in branches, and how many of the others should be
// accepted.
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

// check returns the check of so many streams.
func (c *Cost) check(streams int) *check {
	k, _ := place(streams)
	return &c.checks[k]
}

// Drafting reports whether the next pass of so many streams may have drafts: not where they have lost too much time, and
// now and then not, to measure passes without.
func (c *Cost) Drafting(streams int) bool { return c.check(streams).allows() }

// Resting reports whether the next pass of so many streams has no drafts since they have lost too much time.
func (c *Cost) Resting(streams int) bool { return c.check(streams).resting }

// branching reports whether drafts may have branches then: not before passes without drafts were measured, unless none takes any time.
func (c *Cost) branching(streams int) bool {
	k := c.check(streams)
	return k.bare == 0 && (k.plain.passes >= leastPlain || c.First() == 0)
}

// A Pass is one that gave tokens to streams, and had nothing else to do.
type Pass struct {
	Streams  Shape   // a token of each stream, without drafts
	Drafted  bool    // it had drafts, or evaluated tokens again after some were rejected
	Sure     int     // drafts of which there was no doubt
	Promised float64 // of its other drafts, how many should be accepted
	Branched bool    // some of them were in branches
	Tokens   int     // that the streams got
	Took     time.Duration
	Drafting time.Duration // that drafting for it took, as far as it is left out where there may be no drafts
}

// Generated records a pass of streams. What its drafts were worth is what they promised, as far as promises were kept so far: what
// was accepted of a few drafts is mostly chance.
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

// plain is the time in which a pass would have run without drafts, by those that did.
func (c *Cost) plain(k *check, s Shape) float64 {
	took := k.plain.took
	if few, now := c.tokens(int(math.Round(k.plain.streams))), c.tokens(s.Tokens); few > 0 && now > 0 {
		took *= now / few
	}
	return max(took+c.beside(s), 1)
}

// A generated is the pass that ran last, if it was of streams alone. Its tokens are known when the next one is planned.
type generated struct {
	Pass
	ended int // streams that have not gone on: how many tokens they got is not known
}

// Spent records how long drafting took for the next pass, whether or not that has drafts: nothing where there may be none.
func (s *Scheduler) Spent(drafting time.Duration) { s.spent = drafting }

// ran notes a pass for its check.
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

// judge gives the last pass to its check.
func (s *Scheduler) judge() {
	if g := s.last; g.ended == 0 {
		s.Cost.Generated(g.Pass)
	}
	s.last = generated{}
}
