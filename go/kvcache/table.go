package kvcache

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/mem"
)

// A Table lists the units of one sequence.
//
// Grow allocates the positions of a pass; Commit records that the pass was run, Undo that it was not. Each
// pass writes the state of recurrent groups to a new unit, so a failed pass leaves it unchanged. The state
// before the last pass is kept until the next, so that the tokens of the last pass can be rolled back.
type Table struct {
	pool  *Pool
	n     int       // positions
	done  int       // of which are evaluated
	units [][]int32 // by group: blocks by position, -1 behind the window; or the state before the pass and after it
	was   []int32   // by group: the state before the last pass, -1: none
	wasAt int       // position of that state; -1: the unit is only memory to write to
}

// NewTable returns an empty table.
func (p *Pool) NewTable() *Table {
	t := &Table{pool: p, units: make([][]int32, len(p.layout)), was: make([]int32, len(p.layout)), wasAt: -1}
	for i := range p.layout {
		t.was[i] = -1
		if p.layout[i].PerSequence {
			t.units[i] = []int32{-1, -1}
		}
	}
	return t
}

// Len returns the number of positions.
func (t *Table) Len() int { return t.n }

// Units returns the unit numbers of each group. Paged groups: the blocks in order of position, -1 for those
// behind the window. Recurrent groups: the state that a pass reads (-1: zeros), and the one that it writes.
// The slices belong to the table and are valid until it changes.
func (t *Table) Units() [][]int32 { return t.units }

// Blocks returns the numbers of the table's blocks in a group.
func (t *Table) Blocks(group int) []int32 { return t.units[group] }

// Grow appends n positions to be written by the next pass. If there is too little free memory, it evicts from
// the tree. If that is not enough, it returns an error that wraps ErrFull and changes nothing.
func (t *Table) Grow(n int) error {
	if n < 0 || t.n != t.done || n > t.pool.layout.Room(t.n, n) {
		panic("kvcache: negative growth, past where blocks age, or before the last pass has ended")
	}
	if n == 0 {
		return nil
	}
	p, need := t.pool, uint64(0)
	for i := range p.layout {
		need += uint64(t.lacks(i, n)) * uint64(p.layout[i].Bytes)
	}
	if err := t.reserve(n, need); err != nil {
		return err
	}
	for i := range p.layout {
		t.grow(i, n)
	}
	t.n, t.wasAt = t.n+n, -1
	return nil
}

// reserve ensures that `need` bytes are free, for n more positions.
func (t *Table) reserve(n int, need uint64) error {
	p := t.pool
	free := p.Available()
	if need <= free {
		p.reclaim(need)
		free = p.limit - p.used // less, if a block is idle and a fork still holds what follows it
	}
	if need <= free {
		return nil
	}
	return fmt.Errorf("%w: %d more positions need %s, %s of %s are free", ErrFull, n,
		mem.FormatBytes(need), mem.FormatBytes(free), mem.FormatBytes(p.limit))
}

// shared reports whether the last block of a group is partly filled and has other holders, which may read it.
func (t *Table) shared(group int) bool {
	if t.n%BlockTokens == 0 || t.pool.layout[group].AgeFrom > 0 {
		return false
	}
	list := t.units[group]
	return t.pool.groups[group].refs[list[len(list)-1]] > 1
}

// lacks returns how many new units of a group n more positions need.
func (t *Table) lacks(group, n int) int {
	if t.pool.layout[group].PerSequence {
		if id := t.was[group]; id >= 0 && t.pool.groups[group].refs[id] == 1 {
			return 0
		}
		return 1
	}
	if t.pool.layout[group].AgeFrom > 0 {
		return 0
	}
	more := blocksFor(t.n+n) - len(t.units[group])
	if t.shared(group) {
		more++
	}
	return more
}

func (t *Table) grow(group, n int) {
	p, list := t.pool, t.units[group]
	if p.layout[group].PerSequence {
		out := t.was[group]
		t.was[group] = -1
		if out >= 0 && p.groups[group].refs[out] > 1 {
			p.drop(group, out)
			out = -1
		}
		if out < 0 {
			out = p.take(group)
		}
		list[1] = out
		return
	}
	if t.shared(group) {
		last := &list[len(list)-1]
		own := p.take(group)
		p.copyUnit(group, own, *last)
		p.drop(group, *last)
		*last = own
	}
	for len(list) < blocksFor(t.n+n) {
		if p.layout[group].AgeFrom > 0 {
			list = append(list, -1)
		} else {
			list = append(list, p.take(group))
		}
	}
	t.units[group] = list
}

// Commit records that the positions since Grow are evaluated, and releases the blocks
// that are now behind a window.
func (t *Table) Commit() {
	if t.n == t.done {
		return
	}
	for i := range t.pool.layout {
		g, list := &t.pool.layout[i], t.units[i]
		if g.PerSequence {
			t.was[i], list[0], list[1] = list[0], list[1], -1
			continue
		}
		for k := g.first(t.n) - 1; k >= 0 && list[k] >= 0; k-- {
			t.pool.drop(i, list[k])
			list[k] = -1
		}
	}
	t.done, t.wasAt = t.n, t.done
}

// Undo removes the positions since Grow.
func (t *Table) Undo() {
	if t.n == t.done {
		return
	}
	for i := range t.pool.layout {
		if t.pool.layout[i].PerSequence {
			t.was[i], t.units[i][1] = t.units[i][1], -1
		} else {
			t.shorten(i, t.done)
		}
	}
	t.n, t.wasAt = t.done, -1
}

// shorten keeps the blocks of the first n positions of a group.
func (t *Table) shorten(group, n int) {
	list := t.units[group]
	for _, id := range list[blocksFor(n):] {
		if id >= 0 {
			t.pool.drop(group, id)
		}
	}
	t.units[group] = list[:blocksFor(n)]
}

// Truncate keeps the first n positions, or fewer if the sequence cannot continue from there: blocks behind a
// window are gone, and recurrent state is available only at the end and before the last pass. It returns the
// number of positions left.
func (t *Table) Truncate(n int) int {
	if n < 0 || n > t.n || t.n != t.done {
		panic(fmt.Sprintf("kvcache: truncate %d positions to %d", t.n, n))
	}
	if n == t.n {
		return n
	}
	n = t.Back(n)
	for i := range t.pool.layout {
		switch {
		case !t.pool.layout[i].PerSequence:
			t.shorten(i, n)
		case n == 0:
			t.release(i, &t.units[i][0])
			t.release(i, &t.was[i])
		default:
			t.units[i][0], t.was[i] = t.was[i], t.units[i][0]
		}
	}
	t.n, t.done, t.wasAt = n, n, -1
	return n
}

// Settle releases the state before the last pass, when the sequence will not be rolled back to it.
func (t *Table) Settle() {
	for i := range t.pool.layout {
		if t.pool.layout[i].PerSequence {
			t.release(i, &t.was[i])
		}
	}
	t.wasAt = -1
}

// Back returns how many positions Truncate would leave.
func (t *Table) Back(to int) int {
	n := to
	if n == t.n {
		return n
	}
	for i := range t.pool.layout {
		if t.pool.layout[i].PerSequence {
			if n = t.wasAt; n < 0 || n > to {
				return 0
			}
		}
	}
	for i := range t.pool.layout {
		g, list := &t.pool.layout[i], t.units[i]
		if !g.PerSequence && n > 0 && !g.has(list, n) {
			return 0
		}
	}
	return n
}

// has reports whether a list of blocks is sufficient for a sequence of n positions to continue.
func (g *Group) has(list []int32, n int) bool {
	if g.AgeStep == 0 {
		return list[g.seen(n)] >= 0
	}
	for k := range blocksFor(n) {
		if g.sees(k, n) && list[k] < 0 {
			return false
		}
	}
	return true
}

// release drops a unit, if there is one.
func (t *Table) release(group int, id *int32) {
	if *id >= 0 {
		t.pool.drop(group, *id)
	}
	*id = -1
}

// Fork returns a table of the same positions that shares the units of this one.
// Whichever of the two first grows into a shared block copies it.
func (t *Table) Fork() *Table {
	if t.n != t.done {
		panic("kvcache: fork in the middle of a pass")
	}
	return t.Branch()
}

// Branch returns a table that shares the units of this one, with the positions before the pass begun by Grow,
// or all if none was begun. When the branch grows it copies a partly filled last block, although this table
// continues to write to it.
func (t *Table) Branch() *Table {
	f := t.pool.NewTable()
	f.n, f.done = t.done, t.done
	for i, list := range t.units {
		if t.pool.layout[i].PerSequence {
			list = []int32{list[0], -1}
		} else {
			list = list[:blocksFor(t.done)]
		}
		f.units[i] = append([]int32(nil), list...)
		for _, id := range list {
			if id >= 0 {
				t.pool.hold(i, id)
			}
		}
	}
	return f
}

// Free releases all units and leaves the table empty.
func (t *Table) Free() {
	t.Undo()
	for i := range t.pool.layout {
		if t.pool.layout[i].PerSequence {
			t.release(i, &t.units[i][0])
			t.release(i, &t.was[i])
		} else {
			t.shorten(i, 0)
		}
	}
	t.n, t.done, t.wasAt = 0, 0, -1
}

// ErrAged reports that blocks have already changed tiers for the next token.
var ErrAged = errors.New("keys and values have just been stored for the next token; save them after it")

// Parts calls f with the memory of each unit that a sequence needs to continue from here, or of the pieces that a unit
// lies in: for each group in turn, the blocks visible to the next token, or the state. It is the same bytes in any number
// of places.
func (t *Table) Parts(f func(part []byte) error) error {
	return t.EachUnit(func(_ Unit, pieces [][]byte) error {
		for _, piece := range pieces {
			if err := f(piece); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachUnit calls f with each of these units, and its pieces.
func (t *Table) EachUnit(f func(u Unit, pieces [][]byte) error) error {
	for i, list := range t.units {
		g := &t.pool.layout[i]
		if g.PerSequence {
			list = list[:1]
		}
		for k, id := range list {
			if !g.PerSequence && !g.sees(k, t.n) {
				continue
			}
			if id < 0 {
				return ErrAged
			}
			if err := f(Unit{i, id}, t.pool.unit(i, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// NewTableOf returns a table of n positions, with the units that a sequence needs to continue from there. The
// caller fills them. It fails as Grow does.
func (p *Pool) NewTableOf(n int) (*Table, error) {
	t := p.NewTable()
	need := uint64(0)
	for i := range p.layout {
		if g := &p.layout[i]; g.PerSequence {
			need += uint64(min(n, 1)) * uint64(g.Bytes)
		} else {
			for k := range blocksFor(n) {
				if g.sees(k, n) {
					need += uint64(g.Bytes)
				}
			}
		}
	}
	if err := t.reserve(n, need); err != nil || n == 0 {
		return t, err
	}
	for i := range p.layout {
		if g := &p.layout[i]; g.PerSequence {
			t.units[i][0] = p.take(i)
		} else {
			for k := range blocksFor(n) {
				id := int32(-1)
				if g.sees(k, n) {
					id = p.take(i)
				}
				t.units[i] = append(t.units[i], id)
			}
		}
	}
	t.n, t.done = n, n
	return t, nil
}
