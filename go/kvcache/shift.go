package kvcache

import (
	"fmt"
	"slices"
)

// A Shift removes positions from the middle of a sequence and moves the later ones down. Until Done, the old
// and the new blocks are both held.
type Shift struct {
	At, By   int       // positions from At on take what is By further on
	To, From [][]int32 // blocks by group and position, as those of a table
	table    *Table
	left     [][]int32 // of From: those that are no longer used
}

// Shift removes n positions from `at` on. The caller moves the keys and values of later positions as the
// Shift says; the table must not be used before Done. Shared blocks are not written but replaced by new ones,
// with the kept positions of a partly kept block copied. It fails as Grow does, without changes. It panics if
// there is recurrent state, which cannot forget positions.
func (t *Table) Shift(at, n int) (*Shift, error) {
	if t.n != t.done || at < 0 || n < 1 || at+n > t.n || t.pool.layout.Recurrent() {
		panic(fmt.Sprintf("kvcache: %d positions from %d on of %d, or recurrent state", n, at, t.n))
	}
	p, need := t.pool, uint64(0)
	for i := range p.layout {
		t.moved(i, at, n, func(_, from int) {
			if from < 0 || p.groups[i].refs[from] > 1 {
				need += uint64(p.layout[i].Bytes)
			}
		})
	}
	if err := t.reserve(0, need); err != nil {
		return nil, err
	}
	s := &Shift{At: at, By: n, table: t}
	for i, list := range t.units {
		to := append(list[:0:0], list[:blocksFor(t.n-n)]...)
		for k := at / BlockTokens; k < len(to); k++ {
			to[k] = -1
		}
		t.moved(i, at, n, func(block, from int) {
			if from >= 0 && p.groups[i].refs[from] == 1 {
				to[block] = int32(from)
				return
			}
			to[block] = p.take(i)
			if from >= 0 && block == at/BlockTokens && at%BlockTokens > 0 {
				p.copyUnit(i, to[block], int32(from))
			}
		})
		left := slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return id < 0 || slices.Contains(to, id) })
		s.To, s.From, s.left = append(s.To, to), append(s.From, list), append(s.left, left)
	}
	return s, nil
}

// moved calls f for each block of a group that Shift(at, n) writes, with the unit in which its contents
// begin, or -1 for contents behind a window. That unit may become the block's own: what is overwritten there
// was read before.
func (t *Table) moved(group, at, n int, f func(block, from int)) {
	list := t.units[group]
	for b := at / BlockTokens; b < blocksFor(t.n-n); b++ {
		first, last := (b*BlockTokens+n)/BlockTokens, (min((b+1)*BlockTokens+n, t.n)-1)/BlockTokens
		from := list[first]
		if b*BlockTokens < at {
			from = list[b] // the beginning stays
		}
		if from >= 0 || list[first] >= 0 || list[last] >= 0 {
			f(b, int(from))
		}
	}
}

// Done records that keys and values were moved, and frees the old blocks.
func (s *Shift) Done() {
	t := s.table
	for i, left := range s.left {
		for _, id := range left {
			t.pool.drop(i, id)
		}
		t.units[i] = s.To[i]
	}
	t.n -= s.By
	t.done, t.wasAt = t.n, -1
}

// Recurrent reports whether a group is replaced by each pass.
func (l Layout) Recurrent() bool {
	return slices.ContainsFunc(l, func(g Group) bool { return g.PerSequence })
}

// Shiftable returns how many positions at most can be kept at the beginning of a sequence of n when half of
// the rest is discarded, such that no window reaches a discarded position; negative if none can. Recurrent
// state depends on all positions.
func (l Layout) Shiftable(n int) int {
	if l.Recurrent() {
		return -1
	}
	most := n
	for i := range l {
		if g := &l[i]; g.first(n) > 0 {
			most = min(most, n-2*g.Window+1)
		}
	}
	return most
}

// Park allows the pool to empty the table of a waiting sequence when memory is short and the tree has nothing
// to evict. Tables parked last are emptied first.
func (p *Pool) Park(t *Table) { p.parked = append(p.parked, t) }

// Unpark takes a table back, and reports whether it still has its positions.
func (p *Pool) Unpark(t *Table) bool {
	i := slices.Index(p.parked, t)
	if i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
	}
	return i >= 0
}

// spare returns the bytes that emptying the parked tables would free.
func (p *Pool) spare() (bytes uint64) {
	for _, t := range p.parked {
		for i, list := range t.units {
			for _, id := range list {
				if g := &p.groups[i]; id >= 0 && (g.refs[id] == 1 || g.refs[id] == 2 && g.owner[id] != nil) {
					bytes += uint64(g.Bytes)
				}
			}
		}
	}
	return bytes
}

// reclaim evicts from the tree, then empties parked tables, until `need` bytes are free or nothing is left.
func (p *Pool) reclaim(need uint64) {
	for {
		if p.tree != nil {
			p.tree.evict(need)
		}
		last := len(p.parked) - 1
		if p.limit-p.used >= need || last < 0 {
			return
		}
		t := p.parked[last]
		p.parked = p.parked[:last]
		t.Free()
	}
}
