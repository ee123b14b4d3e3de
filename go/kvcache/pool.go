package kvcache

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/mem"
)

// ErrFull reports that the pool has too little free memory.
var ErrFull = errors.New("KV cache is full")

// A Pool is the memory of all sequences of one model: one budget in bytes for the units of all groups.
type Pool struct {
	layout  Layout
	most    uint64 // bytes that it was created with
	limit   uint64 // bytes that it may use now
	used    uint64 // bytes of the units that have references
	touched uint64 // bytes of the units that have pages
	groups  []units
	taken   *mem.Reservation
	tree    *Tree    // evicts units when none is free; nil: none
	parked  []*Table // of sequences that wait, to be emptied when the tree has nothing left
	twin    Twin
}

// A Unit is one of the pool's, by its number in its group.
type Unit struct {
	Group  int
	Number int32
}

// A Twin keeps something elsewhere by the numbers of units, which is copied where they are, and of no use any more where
// their pages are released.
type Twin interface {
	Copied(group int, to, from int32)
	Discarded(group int, unit int32)
}

// SetTwin has a Twin be told from now on.
func (p *Pool) SetTwin(t Twin) { p.twin = t }

// units is the units of a group.
type units struct {
	*Group
	region *mem.Region
	refs   []int32    // of each unit ever allocated: the number of tables that hold it, plus the tree
	owner  []*holding // of each: the tree's holding of it, if any
	most   int
	free   []int32 // backed by pages; used as a stack
	bare   []int32 // whose pages were released
	div    *divided
}

// NewPool creates a pool of so many bytes, reserved from the budget. Physical memory is allocated when units
// are first written.
func NewPool(budget *mem.Budget, layout Layout, bytes uint64) (*Pool, error) {
	p := &Pool{layout: layout, most: bytes, limit: bytes}
	for i := range layout {
		g := units{Group: &layout[i]}
		if g.Bytes < 1 || bytes < uint64(g.Bytes) || bytes > math.MaxInt {
			return nil, fmt.Errorf("KV cache of %d bytes for units of %d bytes, want one at least and what an address space holds", bytes, g.Bytes)
		}
		n := bytes / uint64(g.Bytes)
		if n > math.MaxInt32 { // their numbers are 32-bit
			if len(layout) == 1 {
				return nil, fmt.Errorf("KV cache of %d blocks of %d positions, want at most %d; use a shorter context or fewer sequences", n, BlockTokens, math.MaxInt32)
			}
			n = math.MaxInt32
		}
		g.most = int(n)
		p.groups = append(p.groups, g)
	}
	var err error
	if p.taken, err = budget.Reserve("keys and values", bytes); err != nil {
		return nil, err
	}
	for i := range p.groups {
		g := &p.groups[i]
		if g.region, err = mem.Alloc(uint64(g.most)*uint64(g.Bytes), "keys and values"); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// Layout returns the groups.
func (p *Pool) Layout() Layout { return p.layout }

// Limit returns the bytes that the pool may use at present.
func (p *Pool) Limit() uint64 { return p.limit }

// Used returns the bytes that tables and the tree hold.
func (p *Pool) Used() uint64 { return p.used }

// Reserved returns the bytes that the pool has reserved. It is safe for concurrent use.
func (p *Pool) Reserved() uint64 { return p.taken.Bytes() }

// Most returns the bytes that the pool was created with.
func (p *Pool) Most() uint64 { return p.most }

// Resize sets the limit and the reservation of the pool to n bytes: at most its initial size, and at least
// what tables hold. Units that only the tree holds are evicted as needed, and the pages of free units are
// returned to the kernel. Growing fails if the budget has too little.
func (p *Pool) Resize(n uint64) error {
	n = min(n, p.most)
	if n < p.limit {
		p.reclaim(p.limit - n)
	}
	n = max(n, p.used)
	if err := p.taken.Resize(n); err != nil {
		return err
	}
	p.limit = n
	if p.touched > n {
		p.strip(p.touched - n)
	}
	return nil
}

// Blocks returns how many blocks fit in the pool, for texts of so many positions.
func (p *Pool) Blocks(positions int) int {
	return int(p.limit / (max(p.layout.Bytes(positions)/uint64(max(blocksFor(positions), 1)), 1)))
}

// Available returns how many bytes tables can allocate: free bytes, and those held only by the tree or by
// parked tables.
func (p *Pool) Available() uint64 {
	free := p.limit - p.used + p.spare()
	if p.tree != nil {
		free += p.tree.idle
	}
	return free
}

// Close releases the memory. Closing again is a no-op.
func (p *Pool) Close() error {
	var errs []error
	for _, g := range p.groups {
		if g.region != nil {
			errs = append(errs, g.region.Close())
		}
	}
	p.taken.Release()
	return errors.Join(errs...)
}

// take allocates a unit of a group, with one reference. The caller has ensured that
// there is memory for it.
func (p *Pool) take(group int) int32 {
	g := &p.groups[group]
	size := uint64(g.Bytes)
	id := int32(len(g.refs))
	if n := len(g.free); n > 0 {
		id, g.free = g.free[n-1], g.free[:n-1]
	} else {
		if p.touched+size > p.limit {
			p.strip(p.touched + size - p.limit)
		}
		p.touched += size
		if n := len(g.bare); n > 0 {
			id, g.bare = g.bare[n-1], g.bare[:n-1]
		} else {
			g.refs, g.owner = append(g.refs, 0), append(g.owner, nil)
		}
	}
	p.used += size
	g.refs[id] = 1
	return id
}

// strip returns pages of free units to the kernel: at least n bytes, which must exist.
func (p *Pool) strip(n uint64) {
	for i := range p.groups {
		g := &p.groups[i]
		for len(g.free) > 0 {
			id := g.free[len(g.free)-1]
			for k := range g.places() {
				if err := g.region.Discard(g.span(id, k)); err != nil {
					panic(fmt.Sprintf("kvcache: %v", err)) // cannot fail on our own mapping
				}
			}
			if p.twin != nil {
				p.twin.Discarded(i, id)
			}
			g.free, g.bare = g.free[:len(g.free)-1], append(g.bare, id)
			p.touched -= uint64(g.Bytes)
			if uint64(g.Bytes) >= n {
				return
			}
			n -= uint64(g.Bytes)
		}
	}
}

// hold adds a reference to a unit that has one.
func (p *Pool) hold(group int, id int32) {
	g := &p.groups[group]
	g.refs[id]++
	if g.refs[id] == 2 && g.owner[id] != nil {
		p.tree.engage(g.owner[id], 1)
	}
}

// drop releases one reference to a unit.
func (p *Pool) drop(group int, id int32) {
	g := &p.groups[group]
	g.refs[id]--
	switch {
	case g.refs[id] == 0:
		p.used -= uint64(g.Bytes)
		g.free = append(g.free, id)
	case g.refs[id] == 1 && g.owner[id] != nil:
		p.tree.engage(g.owner[id], -1)
	}
}
