package engine

import (
	"slices"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// drafts are tokens that may follow those of a text: a tree in a list, in which each comes behind the one that it follows. The first of
// them, as far as each follows the one before it, are the trunk.
type drafts struct {
	draft   []int32
	guesses []draft.Guess  // the last of draft; those before are forced, and follow one another
	split   []sched.Branch // those that are in the pass beside the trunk
}

// forced returns how many drafts there is no choice about.
func (d *drafts) forced() int { return len(d.draft) - len(d.guesses) }

// before returns the draft that draft v follows, -1 where that is the text.
func (d *drafts) before(v int) int {
	n := d.forced()
	if v < n {
		return v - 1
	}
	return n + draft.Before(d.guesses, v-n)
}

// source returns where a draft comes from.
func (d *drafts) source(v int) draft.Source {
	if n := d.forced(); v >= n {
		return d.guesses[v-n].Source
	}
	return draft.Forced
}

// trunk returns how many drafts the trunk has.
func (d *drafts) trunk() int {
	if i := slices.IndexFunc(d.guesses, func(g draft.Guess) bool { return g.Back > 0 }); i >= 0 {
		return d.forced() + i
	}
	return len(d.draft)
}

// evaluated appends the drafts of a pass to dst in the order of their rows of logits, of which the first is that of the text, -1: so many of the trunk,
// then what each branch adds.
func (d *drafts) evaluated(dst []int, trunk int) []int {
	for v := -1; v < trunk; v++ {
		dst = append(dst, v)
	}
	for _, b := range d.split {
		dst = append(dst, b.Path[len(b.Path)-b.New:]...)
	}
	return dst
}

// follows returns the place of a token behind a draft among those evaluated, 0 where it is not there.
func (d *drafts) follows(evaluated []int, after int, id int32) int {
	for k, v := range evaluated {
		if k > 0 && d.draft[v] == id && d.before(v) == after {
			return k
		}
	}
	return 0
}

// sequence returns which sequence of a pass with so many drafts of the trunk has a draft, best as its last: 0 or a branch, which count from 1.
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

// cutBranches cuts branches to so many drafts from the known tokens on.
func cutBranches(list []sched.Branch, depth int) []sched.Branch {
	kept := list[:0]
	for _, b := range list {
		if over := max(len(b.Path)-max(depth, 0), 0); over < max(b.New, 1) {
			kept = append(kept, sched.Branch{Path: b.Path[:len(b.Path)-over], New: b.New - over})
		}
	}
	return kept
}

// A descent is a constraint that goes through drafts.
type descent struct {
	g    *Generation
	path []int // those that it has accepted
	want []int // scratch
}

func (d *descent) begin(g *Generation) { d.g, d.path = g, d.path[:0] }

// to has the constraint accept the drafts up to v, -1 for none, and no others. It reports whether it allows them.
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

// end leaves the constraint where it was.
func (d *descent) end() { d.to(-1) }
