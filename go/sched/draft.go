package sched

import (
	"math"
	"slices"
	"time"
)

// A Draft is a token that may follow a text. A list of drafts is a tree: each comes after its parent. The trunk
// is the longest prefix of the list in which each draft follows the one before it.
type Draft struct {
	Chance float64 // that it is right if those before it are; the sum over siblings is at most 1
	After  int     // index of the parent in the list; -1: the known tokens
}

// A Branch is a further sequence of drafts in a pass, beside the trunk. It begins with the same known tokens and
// shares the state before them. A branch without new drafts is a snapshot: the text can continue from its state.
type Branch struct {
	Path []int // the drafts of the sequence, by index
	New  int   // how many of the last of these are in no earlier sequence: only they have rows of logits
}

// Last returns the last draft of the branch, -1 if it has none.
func (b *Branch) Last() int {
	if n := len(b.Path); n > 0 {
		return b.Path[n-1]
	}
	return -1
}

// A tree is the drafts of a text that are in a pass.
type tree struct {
	trunk    int // how many of the first drafts of the list
	branches []Branch
}

// end returns the sequence that draft v would extend: -1 for the trunk, else the index of a branch, or the number
// of branches if a new one is needed.
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

// add adds a draft whose parent is in the tree.
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

// path returns the path to a draft, from the root.
func path(drafts []Draft, v int) (list []int) {
	for ; v >= 0; v = drafts[v].After {
		list = append(list, v)
	}
	slices.Reverse(list)
	return list
}

// A speculation chooses the drafts of the sequences of a pass.
type speculation struct {
	cost      *Cost
	whole     Shape // of the pass without drafts
	streams   Shape // the part of it that belongs to generating sequences
	limit     time.Duration
	replays   bool // see Config: unless a sequence ends with the last accepted draft
	list      []candidate
	room      int                       // maximum tokens of the pass
	longest   int                       // maximum tokens of a sequence in it
	forks     int                       // maximum branches in it
	available int64                     // bytes
	grows     func(i, tokens int) int64 // memory of the sequence of a candidate; nil: none
	copies    int64                     // additional memory of a branch
}

// A candidate is a sequence that may get drafts.
type candidate struct {
	at     int // positions before the pass
	known  int // its tokens in the pass that are not drafts
	drafts []Draft

	tree
	taken int
	of    []chance // indexed by draft
	back  float64  // probability that its next pass evaluates tokens again, without drafts
	again float64  // expected number of these tokens
	best  int      // the next draft to add, -1: none; valid unless stale
	worth float64  // of best: probability of acceptance per token added to the pass
	fork  bool     // best begins a branch
	stale bool
}

// A chance is the state of a draft in the choice.
type chance struct {
	reach   float64 // probability that it and all before it are right, set when it is taken; negative: excluded
	doubted bool    // one of these is not certain
	depth   int     // number of drafts on its path
	elder   int     // the previous draft with the same parent, -1: none
}

const (
	// gain is the minimum predicted speed-up of drafts: costs and chances are estimates.
	gain = 1.03
	// forkGain is the minimum predicted speed-up of branches over trunks alone.
	forkGain = 1.01
	// After so many passes without drafts, drafts are tried even below gain, unless they would lose more than a
	// quarter: otherwise a cost that was once overestimated would never be corrected.
	trial     = 48
	trialGain = 0.75
	// likely is the chance from which a draft is tried while its cost is unknown.
	likely = 0.5
	// unlikely is the chance up to which drafts are ignored.
	unlikely = 0.02
)

// choose returns the drafts of each candidate: the parts of the trunks that maximize the expected tokens per
// second, or trees, if branches are better.
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

// trunk returns the number of drafts in the trunk.
func trunk(drafts []Draft) (n int) {
	for n < len(drafts) && drafts[n].After == n-1 {
		n++
	}
	return n
}

// grow adds drafts greedily in the order of their worth, with at most `forks` branches. It returns the trees at
// the point where the expected tokens per second are highest, and that rate, 0 if no drafts are best. It reports
// whether any drafts were considered. The time is that of a pass of the streams alone, which they need anyway,
// and what the drafts add to this pass, which may have prompts too.
func (s *speculation) grow(forks int) (trees []tree, rate float64, looked bool) {
	most, trust := float64(len(s.list)), s.cost.trust.part() // expected tokens with all drafts
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
	last, tokensThen, left, room := s.whole, tokens, available, forks // at the best point
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
			break // even if all drafts were accepted, so long a pass would not be better
		}
	}
	for i := range s.list {
		s.list[i].begin()
	}
	for _, o := range order[:chosen] {
		s.list[o.candidate].take(o.draft, trust, s.replays)
	}
	if s.replays {
		rate = s.snapshots(last, tokensThen, base, start, rate, left, room, largest)
	}
	trees = make([]tree, len(s.list))
	for i := range s.list {
		trees[i] = s.list[i].tree
	}
	return trees, rate, len(order) > 0
}

// snapshots adds branches that only serve as snapshots, where a rollback would cost more. It is given the shape
// of the pass and its expected tokens, and returns the rate with the snapshots.
func (s *speculation) snapshots(shape Shape, tokens, base, start, rate float64, available int64, room, largest int) float64 {
	for i := range s.list {
		c := &s.list[i]
		for depth := 0; depth < c.trunk && room > 0; depth++ {
			n := c.known + depth
			more, bytes := shape.Add(c.at, n), int64(0)
			if more.Branches++; s.grows != nil {
				bytes = s.grows(i, n) + s.copies
			}
			took := base + s.time(more) - start
			if took > float64(s.limit) || more.Tokens > min(s.room, largest) || bytes > available {
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

// rate returns the expected tokens per time for a pass that takes so long. After a rollback, a sequence has one
// pass without drafts.
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

// time returns the estimated time of a pass, never 0.
func (s *speculation) time(shape Shape) float64 { return max(float64(s.cost.Estimate(shape)), 1) }

// with returns the shape of the pass with one more draft of a candidate, the memory that the draft takes, and
// whether it begins a branch.
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

// begin resets the choice, and finds the depth and the previous sibling of each draft.
func (c *candidate) begin() {
	c.tree, c.taken, c.back, c.again, c.stale = tree{}, 0, 0, 0, true
	if c.of == nil {
		c.of = make([]chance, len(c.drafts))
	}
	last := make([]int, len(c.drafts)+1) // the last child of each node, plus 1; index 0: of the known tokens
	for v, d := range c.drafts {
		c.of[v] = chance{depth: 1, elder: last[d.After+1] - 1}
		if d.After >= 0 {
			c.of[v].depth += c.of[d.After].depth
		}
		last[d.After+1] = v + 1
	}
}

// all returns the expected number of accepted drafts if all of them are in the pass.
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

// reach returns the probability that a draft is accepted whose parent is taken, corrected by the trust once per
// path, and whether any draft on the path is not certain.
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

// take adds a draft to the tree and returns the probability that it is accepted.
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

// look finds the next draft to add: the one with the highest probability per token that it adds. Siblings are
// considered in order.
func (c *candidate) look(trust float64, forks int) {
	c.best, c.worth, c.fork, c.stale = -1, 0, false, false
	for v := range c.drafts {
		if o := &c.of[v]; o.reach != 0 || o.elder >= 0 && c.of[o.elder].reach <= 0 {
			continue
		}
		takes, fork := 1, c.end(c.drafts, v) == len(c.branches)
		if fork {
			takes = c.known + c.of[v].depth
		}
		// Where the parent is not taken, p is 0 or less.
		if p, _ := c.reach(v, trust); p > unlikely && p/float64(takes) > c.worth && (!fork || forks > 0) {
			c.best, c.worth, c.fork = v, p/float64(takes), fork
		}
	}
}

// likeliest returns the candidate whose next draft is worth most, -1 if none has a likely one.
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

// replayed returns the probability that tokens are evaluated again, and their expected number. The state is known
// before the pass and at the end of each sequence. If no sequence ends with the last accepted draft, the known
// tokens and the accepted drafts are evaluated again.
func (c *candidate) replayed() (chance, tokens float64) {
	for v := -1; v < len(c.drafts); v++ {
		stop, depth := 1.0, 0 // probability that v is the last accepted draft
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

// ends reports whether a sequence ends with draft v; -1: with the known tokens.
func (t *tree) ends(v int) bool {
	return v == t.trunk-1 || slices.ContainsFunc(t.branches, func(b Branch) bool { return b.Last() == v })
}

// replay returns the expected time of evaluating tokens again.
func (s *speculation) replay(base float64) float64 {
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

// speculate adds drafts to the first items, which are those of streams.
func (s *Scheduler) speculate(items []Item, whole, streams Shape, available int64) {
	drafts := func(it Item) []Draft {
		if s.cfg.Replays && it.Tokens > 1 {
			return nil // its state must advance: repeated rejections could prevent that for ever
		}
		return s.find(it.ID).drafts
	}
	if !slices.ContainsFunc(items, func(it Item) bool { return len(drafts(it)) > 0 }) || !s.Cost.Drafting(len(items)) {
		return
	}
	list := make([]candidate, len(items))
	for i, it := range items {
		list[i] = candidate{at: s.find(it.ID).at(), known: it.Tokens, drafts: drafts(it)}
	}
	if s.cfg.Alone && s.Cost.gauged() < leastGauged && list[0].drafts[0].Chance >= likely {
		items[0].Draft = max(min(trunk(list[0].drafts), leastGauged-1, s.cfg.Batch-items[0].Tokens), 0)
		items[0].Tokens += items[0].Draft // one pass measures the cost
		return
	}
	// With drafts, passes may exceed the target: up to twice the time of one without, since two tokens may replace one.
	limit := longest
	if !s.cfg.Alone {
		limit = max(time.Duration(planMargin*float64(s.Target())), 2*s.Cost.Estimate(streams))
	}
	spec := speculation{
		cost: &s.Cost, whole: whole, streams: streams, replays: s.cfg.Replays, list: list, limit: limit,
		room: s.cfg.Batch, longest: s.cfg.Batch, forks: s.cfg.Branches, available: available,
		grows:  func(i, tokens int) int64 { return s.grows(s.find(items[i].ID), tokens) },
		copies: int64(s.cfg.Memory.Copy()),
	}
	for i, t := range spec.choose() {
		items[i].Tokens += t.trunk
		items[i].Draft = t.trunk
		items[i].Branches = t.branches
	}
}
