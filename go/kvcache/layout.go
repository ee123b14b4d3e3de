// Package kvcache manages the state of sequences: a paged KV cache, recurrent state, and a prefix cache.
//
// A model's Layout lists the groups of such state. Most groups are paged: a block holds BlockTokens
// consecutive positions for all layers of the group. A sequence has a Table of block numbers, which attention
// follows, so its blocks need not be contiguous. If a group has a sliding window, blocks behind it are
// released as the sequence grows. Recurrent state is one unit per sequence, replaced by each pass.
//
// Units are reference-counted: sequences with a common prefix share its blocks, and only the sole owner of a
// unit writes to it (copy-on-write). The layout inside a unit is defined by the kernels.
//
// A Pool, its tables and its tree are not safe for concurrent use.
package kvcache

import (
	"math/bits"
	"slices"

	"github.com/quern-llm/quern/go/platform"
)

// BlockTokens is the number of positions in a block.
const BlockTokens = 64

// rollbackRoom is the number of positions beyond its window that a sequence keeps, so that rejected drafts can be
// rolled back.
const rollbackRoom = BlockTokens

// A Group is one kind of state that every sequence has.
type Group struct {
	Name        string // for messages, metrics and slot files
	Bytes       int    // of a block; of the whole state of a sequence where PerSequence
	Window      int    // positions that a token sees, its own included; 0: all
	PerSequence bool   // recurrent: replaced by each pass

	// For tiers: the group holds the blocks whose age was at least AgeFrom and below AgeTo positions (0:
	// unlimited) when the length of the sequence was last a multiple of AgeStep. The first block counts as
	// young. The groups of all tiers are adjacent in the layout. AgeStep 0: the group holds all blocks.
	AgeFrom, AgeTo, AgeStep int
}

// A Layout is the groups of a model. It determines the memory of a sequence.
type Layout []Group

// page is the size of the pages that the system gives and takes.
var page = platform.PageSize

// NewLayout returns the layout of these groups. If there are several, their units are rounded up to whole
// pages, so that memory freed by one group can be used by another.
func NewLayout(groups ...Group) Layout {
	l := append(Layout(nil), groups...)
	for i := range l {
		if len(l) > 1 {
			l[i].Bytes = (l[i].Bytes + page - 1) / page * page
		}
	}
	return l
}

// blocksFor returns the number of blocks for so many positions.
func blocksFor(positions int) int { return (positions + BlockTokens - 1) / BlockTokens }

// seen returns the first block visible to the token at position n.
func (g *Group) seen(n int) int {
	if g.Window == 0 {
		return 0
	}
	return max(n-g.Window+1, 0) / BlockTokens
}

// first returns the first block that a sequence of n positions holds.
func (g *Group) first(n int) int { return g.seen(max(n-rollbackRoom, 0)) }

// aged returns the blocks of a sequence of n positions that are in the group by age: a range, and whether the
// first block is, as in the youngest tier. The borders are those of the pass of the last token.
func (g *Group) aged(n int) (from, to int, first bool) {
	base := max(n-1, 0) / g.AgeStep * g.AgeStep
	from, to = 1, blocksFor(n)
	if g.AgeTo > 0 {
		from = max(base-g.AgeTo, 0) / BlockTokens
	}
	if g.AgeFrom > 0 {
		to = max(base-g.AgeFrom, 0) / BlockTokens
	}
	from = max(from, 1)
	return from, max(from, to), g.AgeFrom == 0
}

// sees reports whether a sequence of n positions needs a block of the group to continue.
func (g *Group) sees(block, n int) bool {
	if g.AgeStep == 0 {
		return block >= g.seen(n)
	}
	from, to, first := g.aged(n)
	return block >= from && block < to || first && block == 0
}

// units returns how many units of the group a sequence of n positions holds.
func (g *Group) units(n int) int {
	switch {
	case n == 0:
		return 0
	case g.PerSequence:
		return 2 // a pass reads one and writes the other
	case g.AgeStep > 0:
		from, to, first := g.aged(n)
		if first {
			to++
		}
		return to - from
	}
	return blocksFor(n) - g.first(n)
}

// ages returns how many blocks enter the group, of those that have aged, when a sequence of n positions grows.
func (g *Group) ages(n int) int {
	_, was, _ := g.aged(n)
	_, to, _ := g.aged(n + 1)
	return to - was
}

// Room returns how many of n positions can be evaluated in one pass of a sequence at position `at`: blocks
// change tiers only between passes.
func (l Layout) Room(at, n int) int {
	for i := range l {
		if step := l[i].AgeStep; step > 0 {
			n = min(n, step-at%step)
		}
	}
	return n
}

// Bytes returns the memory of a sequence of so many positions between passes.
func (l Layout) Bytes(positions int) uint64 {
	return l.sum(func(g *Group) int { return g.units(positions) })
}

// Growth returns the additional memory of a sequence for a pass over the positions `from` to `to`. Blocks
// that fall behind a window are released only after the pass.
func (l Layout) Growth(from, to int) uint64 {
	return l.sum(func(g *Group) int {
		switch {
		case g.PerSequence:
			return g.units(to) - g.units(from)
		case g.AgeFrom > 0:
			return g.ages(from)
		}
		return blocksFor(to) - blocksFor(from)
	})
}

// Copy returns the additional memory of a sequence if the units that it writes next are shared.
func (l Layout) Copy() uint64 { return l.sum(func(*Group) int { return 1 }) }

// Most returns the maximum memory of a sequence that grows to so many positions in passes of `slice`
// positions.
func (l Layout) Most(positions, slice int) uint64 {
	return l.sum(func(g *Group) int {
		n := g.units(positions)
		switch step := g.AgeStep / BlockTokens; {
		case g.AgeFrom > 0:
			n += step // those that enter it, while others have not left
		case step > 0:
			n = min(blocksFor(positions), g.AgeTo/BlockTokens+step+1)
		}
		if g.Window > 0 && !g.PerSequence {
			n = max(n, min(blocksFor(positions), blocksFor(g.Window+rollbackRoom+min(slice, positions))+1))
		}
		return n
	})
}

// Forgets reports whether a sequence cannot continue from every position: there are windows or recurrent
// state.
func (l Layout) Forgets() bool {
	return slices.ContainsFunc(l, func(g Group) bool { return g.Window > 0 || g.PerSequence || g.AgeStep > 0 })
}

// End returns the memory that the tree needs, besides the blocks of the whole text, to let texts continue
// from one end: windows and recurrent state.
func (l Layout) End() uint64 {
	return l.sum(func(g *Group) int {
		switch {
		case g.PerSequence:
			return 1
		case g.Window > 0:
			return blocksFor(g.Window) + 1
		case g.AgeStep > 0 && g.AgeTo > 0:
			return blocksFor(g.AgeTo-g.AgeFrom+g.AgeStep) + 1
		}
		return 0
	})
}

// Alone returns the memory of a sequence that shares nothing with other sequences. If the layout forgets, the
// sequence shares its last block with the tree when it is truncated.
func (l Layout) Alone(positions, slice int) uint64 {
	n := l.Most(positions, slice)
	if l.Forgets() {
		n += l.Copy()
	}
	return n
}

// sum adds up the bytes of units(g) units of each group. It saturates at a value beyond any memory that
// leaves room for further additions.
func (l Layout) sum(units func(g *Group) int) uint64 {
	const most = 1 << 62
	total := uint64(0)
	for i := range l {
		hi, n := bits.Mul64(uint64(units(&l[i])), uint64(l[i].Bytes))
		if hi > 0 || n > most {
			return most
		}
		total = min(total+n, most)
	}
	return total
}
