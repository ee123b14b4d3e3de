package engine

import (
	"slices"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// Speculate lets g draft tokens as its Params say, with the library's texts of a namespace.
func (g *Generation) Speculate(from *draft.Library, namespace string) {
	if g.Draft.Sources != 0 && g.Draft.Max > 0 && g.MaxTokens != 0 {
		g.drafter = from.New(g.Draft, namespace)
	}
}

// Guess adds the Drafter's guesses to the forced drafts. If drafts are not allowed, the Drafter only learns the
// text.
func (g *Generation) Guess(may bool) {
	if g.drafter == nil {
		return
	}
	if g.drafter.Accept(g.ids); may {
		g.guess(g.drafter.Draft(g.guesses[:0], g.ids, g.draft))
	}
}

// guess sets the guesses after the forced drafts, without those that the text's limits or the constraint exclude.
func (g *Generation) guess(list []draft.Guess) {
	forced := g.forced()
	depth := make([]int, len(list))
	begun := g.draftable(forced+len(list)) - forced // maximum depth
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
	// Drop what the constraint forbids, and duplicates.
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

// set sets the guesses after the forced drafts.
func (g *Generation) set(forced int, list []draft.Guess) {
	g.draft, g.guesses, g.prepared = g.draft[:forced], append(g.guesses[:0], list...), 0
	for _, guess := range list {
		g.draft = append(g.draft, guess.ID)
	}
}

// Drafts returns the drafts for a Scheduler, at most one less than there are rows of logits. The slice is valid
// until the next call.
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

// Split sets the branches of drafts in the next pass, beside the trunk, and returns them. Each begins with all
// known tokens.
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

// keepBranches limits the branches in the pass to the first n, and returns them.
func (g *Generation) keepBranches(n int) []sched.Branch {
	g.split = g.split[:n]
	return g.split
}

// verified returns the estimated time of a pass of streams, and a function for the additional time of so many
// drafts.
func verified(c *sched.Cost, streams sched.Shape) (plain time.Duration, verify func(drafts int) time.Duration) {
	plain = c.Estimate(streams)
	return plain, func(n int) time.Duration {
		more := streams.Add(0, n)
		more.Rows += n
		return c.Estimate(more) - plain
	}
}

// Exchange replaces the loop's cost model, with all that it has learned, and returns the previous one, so that
// separate measurements on one loop do not influence each other.
func (l *Loop) Exchange(cost sched.Cost) (was sched.Cost, err error) {
	err = l.Between(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		was, l.sched.Cost = l.sched.Cost, cost
		return nil
	})
	return was, err
}

// draft drafts the continuation of the requests of the last pass that go on.
func (l *Loop) draft() {
	fresh, texts, own, may := l.fresh[:0], l.texts[:0], l.own[:0], false
	for _, j := range l.batch {
		if j.fresh && j.late == nil && l.isLive(j) {
			fresh = append(fresh, j)
			may = may || j.gen.drafter != nil || len(j.gen.draft) > 0
		}
		j.fresh = false
	}
	if l.fresh = fresh; !may {
		l.offered, l.spent = false, 0
		return
	}
	start, asked := time.Now(), false
	may = l.sched.Cost.Drafting(len(fresh))
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

// draftByModel runs the model's own draft layers, and then, for texts where these promise little, the draft
// model. An accepted token is worth its share of the time of a pass of all streams.
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

// propose gives requests the guesses of a model, if these promise more than those that they have.
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

// keepNext updates the state of the model's own draft layers after a pass.
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
