package engine

import (
	"slices"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// Speculate lets g draft tokens as its Params say, from what the library has for a namespace.
func (g *Generation) Speculate(from *draft.Library, namespace string) {
	if g.Draft.Sources != 0 && g.Draft.Max > 0 && g.MaxTokens != 0 {
		g.drafter = from.New(g.Draft, namespace)
	}
}

// Guess adds the Drafter's guesses to the drafts that are forced. Where there may be none, the Drafter only learns what the text is now.
func (g *Generation) Guess(may bool) {
	if g.drafter == nil {
		return
	}
	if g.drafter.Accept(g.ids); may {
		g.guess(g.drafter.Draft(g.guesses[:0], g.ids, g.draft))
	}
}

// guess makes these the guesses after the drafts that are forced, as far as the text may go on and the constraint allows them.
func (g *Generation) guess(list []draft.Guess) {
	forced := g.forced()
	depth := make([]int, len(list))
	begun := g.draftable(forced+len(list)) - forced // how many may follow one another
	list = draft.Ordered(list)
	list = draft.Keep(list, func(i int) bool {
		id, b := list[i].ID, draft.Before(list, i)
		if depth[i] = 1; b >= 0 {
			depth[i] += depth[b]
			if g.Stop != nil && g.Stop(list[b].ID) {
				return false // nothing comes after it
			}
		}
		return depth[i] <= begun && id >= 0 && int(id) < g.nVocab
	})
	g.set(forced, list)
	if len(list) == 0 || g.Constraint == nil && g.trunk() == len(g.draft) {
		return
	}
	// What the constraint forbids, and what is there already.
	g.descent.begin(g)
	kept := make([]bool, len(list))
	for i := range list {
		v := forced + i
		kept[i] = g.Constraint == nil || g.descent.to(v)
		for w := forced; w < v && kept[i]; w++ {
			kept[i] = g.draft[w] != g.draft[v] || g.before(w) != g.before(v)
		}
	}
	if g.Constraint != nil {
		g.descent.end()
	}
	g.set(forced, draft.Keep(list, func(i int) bool { return kept[i] }))
}

// set sets the drafts after those that are forced.
func (g *Generation) set(forced int, list []draft.Guess) {
	g.draft, g.guesses, g.prepared = g.draft[:forced], append(g.guesses[:0], list...), 0
	for _, guess := range list {
		g.draft = append(g.draft, guess.ID)
	}
}

// Drafts returns the drafts for a Scheduler, no more than have rows of logits. The slice is valid until the next call.
func (g *Generation) Drafts(rows int) []sched.Draft {
	g.nodes = g.nodes[:0]
	for v := range g.draft {
		d := sched.Draft{Chance: 1, After: g.before(v)}
		if i := v - g.forced(); i >= 0 {
			d.Chance = g.guesses[i].Chance
		}
		g.nodes = append(g.nodes, d)
	}
	return g.nodes[:min(len(g.nodes), rows-1)]
}

// Split has branches of drafts in the next pass, beside those of the trunk, and returns them. They begin with all known tokens.
func (g *Generation) Split(branches []sched.Branch) (list []Branch) {
	if len(g.split)+len(branches) > 0 {
		g.prepared = 0
	}
	g.split, g.taken = branches, 0
	for _, b := range branches {
		ids := append([]int32(nil), g.ids[g.done:]...)
		for _, v := range b.Path {
			ids = append(ids, g.draft[v])
		}
		list = append(list, Branch{IDs: ids, Rows: b.New})
	}
	return list
}

// keepBranches says that only the first n branches are in the pass, and returns them.
func (g *Generation) keepBranches(n int) []sched.Branch {
	g.split = g.split[:n]
	return g.split
}

// pass returns what is known of a pass of the next n tokens, at a position, before it runs: if it generates.
func (g *Generation) pass(at, n int) sched.Pass {
	p := sched.Pass{Streams: sched.ShapeOf(at, 1), Drafted: n > 1, Branched: len(g.split) > 0}
	p.Streams.Rows = 1
	drafted := max(n-(len(g.ids)-g.done), 0)
	p.Sure, p.Promised = sched.Promise(g.Drafts(len(g.draft)+1), drafted, g.split)
	return p
}

// draftAlone drafts for a text that is generated alone, and returns how long that took, as far as it would not be done without drafts.
func (e *Engine) draftAlone(g *Generation, own *mtpText, t *modelText) time.Duration {
	may, start := e.cost.Drafting(1), time.Now()
	if g.Guess(may); !may {
		return 0
	}
	if own == nil && t == nil {
		return time.Since(start)
	}
	one := sched.ShapeOf(g.Positions(), 1)
	one.Rows = 1
	plain, verify := verified(&e.cost, one)
	if own != nil {
		e.mtp.draft([]*mtpText{own}, plain, verify, func(f func()) { f() })
		own.propose()
	}
	if t != nil {
		e.drafts.draft([]*modelText{t}, plain, verify)
		t.propose()
	}
	return time.Since(start)
}

// verified returns what a pass of streams takes, and a function that says what it takes longer for so many drafts.
func verified(c *sched.Cost, streams sched.Shape) (plain time.Duration, verify func(drafts int) time.Duration) {
	plain = c.Estimate(streams)
	return plain, func(n int) time.Duration {
		more := streams.Add(0, n)
		more.Rows += n
		return c.Estimate(more) - plain
	}
}

// affordable returns how many of the next tokens of a text alone, of which `room` fit, are evaluated: those that are
// known, and as many drafts as make it faster; and branches of drafts.
func (e *Engine) affordable(g *Generation, at, room int) (int, []sched.Branch) {
	known := len(g.ids) - g.done
	if known >= room || len(g.draft) == 0 {
		return min(known, room), nil
	}
	n, branches := e.cost.Drafts(at, known, g.Drafts(len(e.logits)), sched.Limits{
		Tokens: e.batch, Sequence: room, Branches: maxBranches, Replays: e.kv.Layout().Recurrent(),
	})
	return known + n, branches
}

// Exchange gives the loop another model of what passes and drafts cost, and returns the one that it had, with what it has learned: so
// what is measured on one loop does not learn from what is measured beside it.
func (l *Loop) Exchange(cost sched.Cost) (was sched.Cost, err error) {
	err = l.Between(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		was, l.sched.Cost = l.sched.Cost, cost
		return nil
	})
	return was, err
}

// draft drafts what follows the tokens of a pass, for those requests that go on.
func (l *Loop) draft() {
	start := time.Now()
	fresh, texts, own := l.fresh[:0], l.texts[:0], l.own[:0]
	for _, j := range l.batch {
		if j.fresh && l.isLive(j) {
			fresh = append(fresh, j)
		}
		j.fresh = false
	}
	may, asked := l.sched.Cost.Drafting(len(fresh)), false
	fresh = slices.DeleteFunc(fresh, func(j *job) bool {
		asked = asked || j.gen.drafter != nil
		err := l.guard(j, func() { j.gen.Guess(may) })
		if err != nil {
			l.end(j, err)
		}
		return err != nil
	})
	for _, j := range fresh {
		if j.text != nil {
			texts = append(texts, j.text)
		}
		if j.own != nil {
			own = append(own, j.own)
		}
	}
	if len(texts)+len(own) > 0 && may {
		l.draftByModel(own, texts, fresh)
	}
	l.mu.Lock()
	l.offered = false
	for _, j := range fresh {
		if drafts := j.gen.Drafts(len(l.e.logits)); len(drafts) > 0 {
			l.sched.Drafted(j.id, drafts)
			l.offered = true
		}
	}
	if asked && l.sched.Cost.Resting(len(fresh)) {
		l.counts.Rested++
	}
	spent := time.Since(start)
	l.counts.Drafting += spent
	if l.spent = 0; may {
		l.spent = spent
	}
	l.sched.Spent(l.spent)
	l.seeDrafts()
	l.mu.Unlock()
	l.fresh, l.texts, l.own = fresh, texts, own
}

// draftByModel has the model's own layer guess, and then, where that promises little, the draft model. A token that is accepted
// is worth its share of a pass of all streams.
func (l *Loop) draftByModel(own []*mtpText, texts []*modelText, fresh []*job) {
	var streams sched.Shape
	for _, j := range fresh {
		streams = streams.Add(j.gen.Positions(), 1)
	}
	streams.Rows = len(fresh)
	plain, verify := verified(&l.sched.Cost, streams)
	worth := plain / time.Duration(len(fresh))
	if len(own) > 0 {
		l.e.mtp.draft(own, worth, verify, func(f func()) {
			l.mu.Lock()
			defer l.mu.Unlock()
			f()
		})
		l.propose(fresh, func(j *job) *proposal {
			if j.own == nil {
				return nil
			}
			return &j.own.proposal
		})
	}
	if len(texts) > 0 {
		l.e.drafts.draft(texts, worth, verify)
		l.propose(fresh, func(j *job) *proposal {
			if j.text == nil {
				return nil
			}
			return &j.text.proposal
		})
	}
}

// propose has requests take what was guessed for them, if that promises more than what they have.
func (l *Loop) propose(fresh []*job, of func(j *job) *proposal) {
	for _, j := range fresh {
		p := of(j)
		if p == nil {
			continue
		}
		if err := l.guard(j, p.propose); err != nil {
			l.end(j, err)
		}
	}
}

// keepNext has the model's own layer that drafts keep what it needs of the pass.
func (l *Loop) keepNext() {
	if l.e.mtp == nil {
		return
	}
	l.gens, l.keepers = l.gens[:0], l.keepers[:0]
	for _, j := range l.batch {
		l.gens, l.keepers = append(l.gens, j.gen), append(l.keepers, j.own)
	}
	l.e.mtp.keep(l.items, l.gens, l.keepers)
}
