package kvcache

import "fmt"

// A Table is the blocks of one sequence, in order of position.
type Table struct {
	pool   *Pool
	blocks []int32
	n      int // positions
}

// NewTable returns an empty table.
func (p *Pool) NewTable() *Table { return &Table{pool: p} }

// Len returns the number of positions.
func (t *Table) Len() int { return t.n }

// Blocks returns the numbers of the table's blocks. They are the table's, valid
// until it changes.
func (t *Table) Blocks() []int32 { return t.blocks }

// Grow appends n positions, ready to be written. Where no block is free, it takes
// some from the pool's tree. When there are too few it returns an error that
// wraps ErrFull and changes nothing.
func (t *Table) Grow(n int) error {
	if n < 0 {
		panic("kvcache: negative growth")
	}
	if n == 0 {
		return nil
	}
	p := t.pool
	more := blocksFor(t.n+n) - len(t.blocks)
	// The last block has room, but others may still read what is in it.
	copied := t.n%BlockTokens != 0 && p.refs[t.blocks[len(t.blocks)-1]] > 1
	need := more
	if copied {
		need++
	}
	if need > p.Available() {
		return fmt.Errorf("%w: %d more positions need %d blocks of %d, %d of %d are free",
			ErrFull, n, need, BlockTokens, p.Available(), len(p.refs))
	}
	if need > len(p.free) {
		p.tree.evict(need - len(p.free))
	}
	if copied {
		last := &t.blocks[len(t.blocks)-1]
		own := p.take()
		copy(p.Block(own), p.Block(*last))
		p.drop(*last)
		*last = own
	}
	for range more {
		t.blocks = append(t.blocks, p.take())
	}
	t.n += n
	return nil
}

// Truncate keeps the first n positions.
func (t *Table) Truncate(n int) {
	if n < 0 || n > t.n {
		panic(fmt.Sprintf("kvcache: truncate %d positions to %d", t.n, n))
	}
	keep := blocksFor(n)
	for _, id := range t.blocks[keep:] {
		t.pool.drop(id)
	}
	t.blocks, t.n = t.blocks[:keep], n
}

// Fork returns a table of the same positions that shares the blocks of this
// one. Whichever of the two first grows into a shared block gets its own copy.
func (t *Table) Fork() *Table {
	for _, id := range t.blocks {
		t.pool.hold(id)
	}
	return &Table{pool: t.pool, blocks: append([]int32(nil), t.blocks...), n: t.n}
}

// Free gives all blocks back and leaves the table empty.
func (t *Table) Free() { t.Truncate(0) }

func blocksFor(positions int) int { return (positions + BlockTokens - 1) / BlockTokens }
