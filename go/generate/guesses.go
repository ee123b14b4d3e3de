package generate

import (
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// Speculate lets g draft tokens as its Params say, with the library's texts of a namespace.
func (g *Generation) Speculate(from *draft.Library, namespace string) {
	if g.Draft.Sources != 0 && g.Draft.Max > 0 && g.MaxTokens != 0 {
		g.drafter = from.New(g.Draft, namespace)
	}
}

// Speculates reports whether the text has a Drafter.
func (g *Generation) Speculates() bool { return g.drafter != nil }

// DraftsFrom reports whether a model that is such a source of drafts drafts for the text: a recording is instead of all
// other guesses.
func (g *Generation) DraftsFrom(s draft.Source) bool {
	return g.Speculates() && g.Draft.Record == nil && g.Draft.Sources.Has(s)
}

// Guesses returns the guesses after the forced drafts. The slice belongs to the Generation.
func (g *Generation) Guesses() []draft.Guess { return g.guesses }

// Guess adds the Drafter's guesses to the forced drafts. If drafts are not allowed, the Drafter only learns the
// text.
func (g *Generation) Guess(may bool) {
	if g.drafter == nil {
		return
	}
	if g.drafter.Accept(g.ids); may {
		g.SetGuesses(g.drafter.Draft(g.guesses[:0], g.ids, g.draft))
	}
}

// SetGuesses sets the guesses after the forced drafts, without those that the text's limits or the constraint exclude.
func (g *Generation) SetGuesses(list []draft.Guess) {
	forced := g.Forced()
	depth := make([]int, len(list))
	begun := g.Draftable(forced+len(list)) - forced // maximum depth
	list = draft.Ordered(list)
	list = draft.Keep(list, func(i int) bool {
		id, b := list[i].ID, draft.Before(list, i)
		if depth[i] = 1; b >= 0 {
			depth[i] += depth[b]
			if g.Stop != nil && g.Stop(list[b].ID) {
				return false // nothing comes after it
			}
		}
		return depth[i] <= begun && id >= 0 && int(id) < g.Vocab
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
		if i := v - g.Forced(); i >= 0 {
			d.Chance = g.guesses[i].Chance
		}
		g.nodes = append(g.nodes, d)
	}
	return g.nodes[:min(len(g.nodes), rows-1)]
}

// A Branch is the tokens of a branch in a pass. There are rows of logits after each of the last Rows of them.
type Branch struct {
	IDs  []int32
	Rows int
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

// KeepBranches limits the branches in the pass to the first n, and returns them.
func (g *Generation) KeepBranches(n int) []sched.Branch {
	g.split = g.split[:n]
	return g.split
}
