package sched

import (
	"math"
	"slices"
	"time"
)

// A Draft is a token that may follow a text. Drafts are a list in which each comes behind the one that it follows: a tree. Those
// with nothing between them and the one that they follow, from the first on, are its trunk.
type Draft struct {
	Chance float64 // that it is right where those before it are; of all that follow the same one these add up to 1 at most
	After  int     // the draft that it follows, by its place in the list; -1: the known tokens
}

// A Branch is drafts that are in a pass beside the trunk. It is a sequence of its own, which begins with the same known tokens and
// shares what is before them. One without new drafts is there for its state, from which the text can go on.
type Branch struct {
	Path []int // the drafts of the sequence, by their places in the list
	New  int   // the last of these, that are in no sequence before it: only they have rows of logits
}

// Last returns the draft with which the branch ends, -1 where it has none.
func (b *Branch) Last() int {
	if n := len(b.Path); n > 0 {
		return b.Path[n-1]
	}
	return -1
}

// A tree is the drafts of a sequence that are in a pass.
type tree struct {
	trunk    int // the first so many of the list
	branches []Branch
}

// end returns the sequence that ends where a draft goes on: -1 for the trunk, else a branch; as many as there are where none does.
func (t *tree) end(drafts []Draft, v int) int {
	if v == t.trunk && drafts[v].After == v-1 {
		return -1
	}
	for i, b := range t.branches {
		if b.New > 0 && drafts[v].After == b.Last() {
			return i
		}
	}
	return len(t.branches)
}

// add adds a draft, of which the one that it follows is there.
func (t *tree) add(drafts []Draft, v int) {
	switch i := t.end(drafts, v); {
	case i < 0:
		t.trunk++
	case i < len(t.branches):
		b := &t.branches[i]
		b.Path, b.New = append(b.Path, v), b.New+1
	default:
		t.branches = append(t.branches, Branch{path(drafts, v), 1})
	}
}

// path returns a draft and those before it, the first one first.
func path(drafts []Draft, v int) (list []int) {
	for ; v >= 0; v = drafts[v].After {
		list = append(list, v)
	}
	slices.Reverse(list)
	return list
}

// A speculation is the drafts that sequences may have in a pass.
type speculation struct {
	cost      *Cost
	whole     Shape // of the pass without drafts
	streams   Shape // of it, the part of the sequences that generate
	limit     time.Duration
	replays   bool // where no sequence ends with the last accepted draft, it and those before it are evaluated again
	list      []candidate
	room      int                       // tokens of the pass
	longest   int                       // tokens of a sequence in it
	forks     int                       // branches in it
	available int64                     // bytes
	grows     func(i, tokens int) int64 // what the sequence of a candidate takes of that; nil: nothing
	copies    int64                     // what a branch takes beside
}

// A candidate is a sequence that may have drafts.
type candidate struct {
	at     int // positions before the pass
	known  int // tokens of it in the pass that are no drafts
	drafts []Draft

	tree
	taken int
	of    []chance // by draft
	back  float64  // chance that its next pass evaluates tokens again, and has no drafts
	again float64  // how many these are, on average
	best  int      // the next draft, -1: none; where it is not stale
	worth float64  // of that: the chance that it is accepted, for each token that it takes
	fork  bool     // and whether it is a branch
	stale bool
}

// A chance is what is known of a draft.
type chance struct {
	reach   float64 // that it and all before it are right, once it is taken; negative: it is not to be
	doubted bool    // one of these is not sure
	depth   int     // how many these are
	elder   int     // the draft before it in the list that follows the same one, -1: none
}

const (
	// gain is what drafts must promise: costs and chances are estimates.
	gain = 1.03
	// forkGain is what branches must promise beside the trunks alone.
	forkGain = 1.01
	// Drafts that promise less are tried nevertheless, once in so many passes, unless they would lose more than a
	// quarter: otherwise a cost that was overestimated once would never be corrected.
	trial     = 128
	trialGain = 0.75
	// likely drafts are tried where nothing is known of their cost yet.
	likely = 0.5
	// unlikely drafts are not looked at.
	unlikely = 0.02
)

// choose returns the drafts that each candidate has: those of the trunks that give the most expected tokens per second, unless
// branches give more.
func (s *speculation) choose() []tree {
	trees, rate, looked := s.grow(0)
	if s.forks > 0 && s.cost.branching(len(s.list)) && (s.replays || slices.ContainsFunc(s.list, func(c candidate) bool { return trunk(c.drafts) < len(c.drafts) })) {
		if forked, r, l := s.grow(s.forks); l && r > rate*forkGain {
			trees, rate = forked, r
		}
	}
	if s.cost.untried++; rate > 0 || !looked {
		s.cost.untried = 0
	}
	return trees
}

// trunk returns how many drafts the trunk has.
func trunk(drafts []Draft) (n int) {
	for n < len(drafts) && drafts[n].After == n-1 {
		n++
	}
	return n
}

// grow adds drafts in the order of what they are worth, with so many branches at most, and returns those up to where the expected tokens per
// second are the most, with that rate: 0 where there are none. It reports whether any were looked at. The tokens of the streams
// would take their time in a pass without prompts anyway; to that comes what the drafts add to this pass.
func (s *speculation) grow(forks int) (trees []tree, rate float64, looked bool) {
	most, trust := float64(len(s.list)), s.cost.trust.part() // tokens that are expected of all drafts
	for i := range s.list {
		s.list[i].begin()
		most += s.list[i].all(trust)
	}
	base, start := s.time(s.streams), s.time(s.whole)
	least := gain
	if s.cost.untried >= trial {
		least = trialGain
	}
	type choice struct{ candidate, draft int }
	var order []choice
	largest := s.whole.Tokens - s.streams.Tokens + s.cost.largest(s.streams.Tokens)
	chosen, plain := 0, float64(len(s.list))/base
	tokens, best, available := float64(len(s.list)), plain*least, s.available
	last, tokensThen, left, room := s.whole, tokens, available, forks // of the best
	for next := s.whole; ; {
		i := s.likeliest(forks)
		if i < 0 {
			break
		}
		c := &s.list[i]
		v := c.best
		more, bytes, fork := s.with(next, i, v)
		took := base + s.time(more) - start
		if took > float64(s.limit) || more.Tokens > min(s.room, largest) || c.known+c.of[v].depth > s.longest || bytes > available {
			c.of[v].reach, c.stale = -1, true
			continue
		}
		if fork {
			forks--
		}
		next, available = more, available-bytes
		tokens += c.take(v, trust, s.replays)
		order = append(order, choice{i, v})
		if r := s.rate(tokens, took, base); r > best {
			best, rate, chosen = r, r, len(order)
			last, tokensThen, left, room = next, tokens, available, forks
		} else if most/took <= best && (!s.replays || plain <= best) {
			break // so long a pass is not worth it, whatever else is in it
		}
	}
	for i := range s.list {
		s.list[i].begin()
	}
	for _, o := range order[:chosen] {
		s.list[o.candidate].take(o.draft, trust, s.replays)
	}
	if s.replays && chosen > 0 {
		rate = s.snapshots(last, tokensThen, base, start, rate, left, room)
	}
	trees = make([]tree, len(s.list))
	for i := range s.list {
		trees[i] = s.list[i].tree
	}
	return trees, rate, len(order) > 0
}

// snapshots adds branches for their states alone, where going back costs more, to a pass of a shape that gives so many tokens, and returns
// the rate with them.
func (s *speculation) snapshots(shape Shape, tokens, base, start, rate float64, available int64, room int) float64 {
	for i := range s.list {
		c := &s.list[i]
		for depth := 0; depth < c.trunk && room > 0; depth++ {
			if c.ends(depth - 1) {
				continue
			}
			n := c.known + depth
			more, bytes := shape.Add(c.at, n), int64(0)
			if more.Branches++; s.grows != nil {
				bytes = s.grows(i, n) + s.copies
			}
			took := base + s.time(more) - start
			if took > float64(s.limit) || more.Tokens > s.room || bytes > available {
				break
			}
			was := *c
			c.branches = append(slices.Clip(c.branches), Branch{Path: path(c.drafts, depth-1)})
			c.back, c.again = c.replayed()
			r := s.rate(tokens, took, base)
			if r <= rate*forkGain {
				*c = was
				break
			}
			rate, shape, available = r, more, available-bytes
			room--
		}
	}
	return rate
}

// rate is that of tokens per time where a pass takes so long. A sequence that goes back has a pass without drafts then.
func (s *speculation) rate(tokens, took, base float64) float64 {
	if !s.replays {
		return tokens / took
	}
	back := 0.0
	for i := range s.list {
		back += s.list[i].back
	}
	return (tokens + back) / (took + back/float64(len(s.list))*base + s.replay(base))
}

// time is the estimate for a pass, and never 0.
func (s *speculation) time(shape Shape) float64 { return max(float64(s.cost.Estimate(shape)), 1) }

// with returns the shape of a pass with one more draft of a candidate, the memory that this takes, and whether it is a branch.
func (s *speculation) with(next Shape, i, v int) (more Shape, bytes int64, fork bool) {
	c := &s.list[i]
	n := c.known + c.of[v].depth
	if fork = c.end(c.drafts, v) == len(c.branches); fork {
		more = next.Add(c.at, n)
		more.Branches++
	} else {
		more = next.extend(c.at+n-1, 1)
	}
	more.Rows++
	if s.grows != nil {
		if bytes = s.grows(i, n); fork {
			bytes += s.copies
		} else {
			bytes -= s.grows(i, n-1)
		}
	}
	return more, bytes, fork
}

// begin looks at the drafts.
func (c *candidate) begin() {
	c.tree, c.taken, c.back, c.again, c.stale = tree{}, 0, 0, 0, true
	if c.of == nil {
		c.of = make([]chance, len(c.drafts))
	}
	last := make([]int, len(c.drafts)+1) // that follow each, from the known tokens on
	for v, d := range c.drafts {
		c.of[v] = chance{depth: 1, elder: last[d.After+1] - 1}
		if d.After >= 0 {
			c.of[v].depth += c.of[d.After].depth
		}
		last[d.After+1] = v + 1
	}
}

// all is how many of the drafts should be accepted if all of them are in the pass.
func (c *candidate) all(trust float64) (n float64) {
	for v := range c.drafts {
		o := &c.of[v]
		o.reach, o.doubted = c.reach(v, trust)
		n += o.reach
	}
	for v := range c.drafts {
		c.of[v].reach, c.of[v].doubted = 0, false
	}
	return n
}

// reach is that a draft is accepted, of which the one that it follows is taken, as far as claims have turned out to be true.
func (c *candidate) reach(v int, trust float64) (reach float64, doubted bool) {
	reach = 1
	if after := c.drafts[v].After; after >= 0 {
		reach, doubted = c.of[after].reach, c.of[after].doubted
	}
	p := c.drafts[v].Chance
	if p < 1 && !doubted {
		p *= trust
	}
	return reach * p, doubted || c.drafts[v].Chance < 1
}

// take takes a draft and returns the chance that it is accepted.
func (c *candidate) take(v int, trust float64, replays bool) float64 {
	c.add(c.drafts, v)
	c.taken++
	c.stale = true
	o := &c.of[v]
	o.reach, o.doubted = c.reach(v, trust)
	if replays {
		c.back, c.again = c.replayed()
	}
	return o.reach
}

// look finds the next draft: the likeliest for each token that it takes. One that follows the same as another comes after that.
func (c *candidate) look(trust float64, forks int) {
	c.best, c.worth, c.fork, c.stale = -1, 0, false, false
	for v := range c.drafts {
		if o := &c.of[v]; o.reach != 0 || o.elder >= 0 && c.of[o.elder].reach <= 0 || c.drafts[v].After >= 0 && c.of[c.drafts[v].After].reach <= 0 {
			continue
		}
		takes, fork := 1, c.end(c.drafts, v) == len(c.branches)
		if fork {
			takes = c.known + c.of[v].depth
		}
		if p, _ := c.reach(v, trust); p > unlikely && p/float64(takes) > c.worth && (!fork || forks > 0) {
			c.best, c.worth, c.fork = v, p/float64(takes), fork
		}
	}
}

// likeliest returns the candidate whose next draft is worth most, -1 where none is likely.
func (s *speculation) likeliest(forks int) int {
	best, trust := -1, s.cost.trust.part()
	for i := range s.list {
		c := &s.list[i]
		if c.stale || c.fork && forks == 0 {
			c.look(trust, forks)
		}
		if c.best >= 0 && (best < 0 || c.worth > s.list[best].worth || c.worth == s.list[best].worth && c.taken < s.list[best].taken) {
			best = i
		}
	}
	return best
}

// replayed is how likely tokens are evaluated again, and how many, on average: the state is known before the pass and where a sequence ends, so
// where none ends with the last accepted draft, its known tokens come again, and the accepted drafts.
func (c *candidate) replayed() (chance, tokens float64) {
	for v := -1; v < len(c.drafts); v++ {
		stop, depth := 1.0, 0 // that v is the last
		if v >= 0 {
			stop, depth = c.of[v].reach, c.of[v].depth
		}
		if stop <= 0 || c.ends(v) {
			continue
		}
		for w := v + 1; w < len(c.drafts); w++ {
			if c.drafts[w].After == v && c.of[w].reach > 0 {
				stop -= c.of[w].reach
			}
		}
		chance += max(stop, 0)
		tokens += max(stop, 0) * float64(c.known+depth)
	}
	return chance, tokens
}

// ends reports whether a sequence ends with a draft, or, -1, with the known tokens.
func (t *tree) ends(v int) bool {
	return v == t.trunk-1 || slices.ContainsFunc(t.branches, func(b Branch) bool { return b.Last() == v })
}

// replay is the expected time to evaluate tokens again.
func (s *speculation) replay(base float64) float64 {
	if !s.replays {
		return 0
	}
	tokens := 0.0
	for i := range s.list {
		tokens += s.list[i].again
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
		list[i] = candidate{at: j.at(), known: it.Tokens}
		if s.cfg.Replays && it.Tokens > 1 {
			continue // one rejection after another would never let its state advance
		}
		list[i].drafts = j.drafts
		any = any || len(j.drafts) > 0
	}
	if !any || !s.Cost.Drafting(len(items)) {
		return
	}
	spec := speculation{
		cost: &s.Cost, whole: whole, streams: streams, replays: s.cfg.Replays, list: list,
		// Passes of streams may get longer than others by as much as lets two tokens come in place of one.
		limit: max(limit, 2*s.Cost.Estimate(streams)),
		room:  s.cfg.Batch, longest: s.cfg.Batch, forks: s.cfg.Branches, available: available,
		grows:  func(i, tokens int) int64 { return s.grows(s.find(items[i].ID), tokens) },
		copies: int64(s.cfg.Memory.Copy()),
	}
	for i, t := range spec.choose() {
		items[i].Tokens += t.trunk
		items[i].Draft = t.trunk
		items[i].Branches = t.branches
	}
}

// Limits are those of a pass of one text.
type Limits struct {
	Tokens   int  // of the pass
	Sequence int  // tokens of a sequence in it
	Branches int  // sequences beside the first
	Replays  bool // as Config has it
}

// Drafts returns how many drafts of the trunk a sequence of `at` positions is given in a pass of its own in which `known` of its tokens are
// evaluated anyway, and which branches.
func (c *Cost) Drafts(at, known int, drafts []Draft, l Limits) (int, []Branch) {
	shape := ShapeOf(at, known)
	shape.Rows = 1
	spec := speculation{
		cost: c, whole: shape, streams: shape, limit: longest, replays: l.Replays,
		list: []candidate{{at: at, known: known, drafts: drafts}},
		room: l.Tokens, longest: l.Sequence, forks: l.Branches,
	}
	if !c.Drafting(1) || l.Replays && known > 1 {
		return 0, nil
	}
	if c.gauged() < leastGauged && len(drafts) > 0 && drafts[0].Chance >= likely {
		return max(min(trunk(drafts), leastGauged-1, l.Sequence-known, l.Tokens-known), 0), nil // one try tells
	}
	t := spec.choose()[0]
	return t.trunk, t.branches
}
