package generate

import (
	"slices"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// drafts are tokens that may follow those of a text: a tree as a list, in which each comes after its parent. The
// trunk is the longest prefix of the list in which each draft follows the one before it.
type drafts struct {
	draft   []int32
	guesses []draft.Guess  // of the last drafts; those before are forced, each following the one before it
	split   []sched.Branch // branches that are in the pass beside the trunk
}

// Forced returns how many drafts are forced: the constraint allows no other token.
func (d *drafts) Forced() int { return len(d.draft) - len(d.guesses) }

// before returns the parent of draft v, -1 if it follows the text directly.
func (d *drafts) before(v int) int {
	n := d.Forced()
	if v < n {
		return v - 1
	}
	return n + draft.Before(d.guesses, v-n)
}

// source returns the source of a draft.
func (d *drafts) source(v int) draft.Source {
	if n := d.Forced(); v >= n {
		return d.guesses[v-n].Source
	}
	return draft.Forced
}

// trunk returns the number of drafts in the trunk.
func (d *drafts) trunk() int {
	if i := slices.IndexFunc(d.guesses, func(g draft.Guess) bool { return g.Back > 0 }); i >= 0 {
		return d.Forced() + i
	}
	return len(d.draft)
}

// evaluated appends the drafts of a pass to dst in the order of their rows of logits: -1 for the row of the text,
// `trunk` drafts of the trunk, then the new ones of each branch.
func (d *drafts) evaluated(dst []int, trunk int) []int {
	for v := -1; v < trunk; v++ {
		dst = append(dst, v)
	}
	for _, b := range d.split {
		dst = append(dst, b.Path[len(b.Path)-b.New:]...)
	}
	return dst
}

// follows returns the index in evaluated of the draft that has token id and parent `after`, 0 if there is none.
func (d *drafts) follows(evaluated []int, after int, id int32) int {
	for k, v := range evaluated {
		if k > 0 && d.draft[v] == id && d.before(v) == after {
			return k
		}
	}
	return 0
}

// sequence returns a sequence of the pass that contains draft v, if possible one that ends with it: 0 for the
// item's own, with `trunk` drafts, or a branch, counted from 1.
func (d *drafts) sequence(v, trunk int) int {
	if v == trunk-1 {
		return 0
	}
	found := 0
	for i, b := range d.split {
		if b.Last() == v {
			return i + 1
		}
		if found == 0 && v >= trunk && slices.Contains(b.Path, v) {
			found = i + 1
		}
	}
	return found
}

// CutBranches truncates branches to so many drafts.
func CutBranches(list []sched.Branch, depth int) []sched.Branch {
	kept := list[:0]
	for _, b := range list {
		if over := max(len(b.Path)-max(depth, 0), 0); over < max(b.New, 1) {
			kept = append(kept, sched.Branch{Path: b.Path[:len(b.Path)-over], New: b.New - over})
		}
	}
	return kept
}

// A descent moves a constraint through a tree of drafts.
type descent struct {
	g    *Generation
	path []int // drafts that it has accepted
	want []int // scratch
}

func (d *descent) begin(g *Generation) { d.g, d.path = g, d.path[:0] }

// to moves the constraint to just after draft v, -1: to the end of the text, by rollback and acceptance. It
// reports whether the constraint allows the drafts on that path.
func (d *descent) to(v int) bool {
	d.want = d.want[:0]
	for ; v >= 0; v = d.g.before(v) {
		d.want = append(d.want, v)
	}
	slices.Reverse(d.want)
	n := 0
	for n < min(len(d.path), len(d.want)) && d.path[n] == d.want[n] {
		n++
	}
	if back := len(d.path) - n; back > 0 {
		d.g.Constraint.Rollback(back)
	}
	d.path = d.path[:n]
	for _, w := range d.want[n:] {
		if !d.g.Constraint.Accept(d.g.draft[w]) {
			return false
		}
		d.path = append(d.path, w)
	}
	return true
}

// end rolls the constraint back to the end of the text.
func (d *descent) end() { d.to(-1) }
