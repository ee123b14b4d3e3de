// Package kvcache hands out the blocks that hold keys and values.
//
// A block holds the keys and values of BlockTokens consecutive positions, for
// all layers, in one region outside the Go heap. A sequence has a Table of
// block numbers; attention follows the table, so a sequence need not be
// contiguous. Blocks are counted: sequences that begin with the same tokens
// share the blocks of that prefix, and a block is written only by its sole
// owner. What lies inside a block is the kernels' business.
//
// A Pool and its tables are not safe for use by several goroutines.
package kvcache

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/mem"
)

// BlockTokens is the number of positions in a block.
const BlockTokens = 64

// Type is a type in which keys or values are kept.
type Type int

const (
	I16 Type = iota // integers of 16 bits, with a scale for each position of a head: the default
	F16
	F32
	BF16
	Q8 // as I16, in 8 bits
	Q4 // in 4
)

// Types is the types of keys and of values.
type Types struct{ K, V Type }

// Both is keys and values of one type.
func Both(t Type) Types { return Types{t, t} }

// String returns the name of the type, or of both as in "q8_0/f16" where values have another.
func (t Types) String() string {
	if t.K == t.V {
		return t.K.String()
	}
	return t.K.String() + "/" + t.V.String()
}

var typeNames = [...]string{I16: "i16", F16: "f16", F32: "f32", BF16: "bf16", Q8: "q8_0", Q4: "q4_0"}

// TypeNames returns the names of all types, the default first.
func TypeNames() []string { return typeNames[:] }

// ParseType returns the type of that name, in any case.
func ParseType(s string) (Type, error) {
	for i, name := range typeNames {
		if strings.EqualFold(s, name) {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("unknown KV type %q, want one of %s", s, strings.Join(typeNames[:], " "))
}

// String returns the name of the type.
func (t Type) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", int(t))
}

// Bits returns the bits that an element takes; a head's scales come on top.
func (t Type) Bits() int {
	switch t {
	case F32:
		return 32
	case Q8:
		return 8
	case Q4:
		return 4
	}
	return 16
}

// ErrFull reports that the pool has too few free blocks.
var ErrFull = errors.New("KV cache is full")

// A Pool is the blocks of one model.
type Pool struct {
	region     *mem.Region
	blockBytes int
	refs       []int32 // of each block: tables that hold it, and the tree
	free       []int32 // numbers of the blocks with no refs; the last is handed out next
	tree       *Tree   // whose blocks are taken when none is free; nil: none
}

// NewPool makes a pool of blocks of blockBytes each, taken from the budget. The
// memory is touched only as blocks are first written.
func NewPool(budget *mem.Budget, blockBytes, blocks int) (*Pool, error) {
	if blocks > math.MaxInt32 { // their numbers are 32-bit
		return nil, fmt.Errorf("KV cache of %d blocks of %d positions, want at most %d; use a shorter context or fewer sequences", blocks, BlockTokens, math.MaxInt32)
	}
	if blockBytes < 1 || blocks < 1 || blocks > math.MaxInt/blockBytes {
		return nil, fmt.Errorf("KV cache of %d blocks of %d bytes is more than an address space holds", blocks, blockBytes)
	}
	r, err := budget.Alloc("keys and values", uint64(blockBytes)*uint64(blocks))
	if err != nil {
		return nil, err
	}
	p := &Pool{region: r, blockBytes: blockBytes, refs: make([]int32, blocks), free: make([]int32, blocks)}
	for i := range p.free {
		p.free[i] = int32(blocks - 1 - i) // the lowest first
	}
	return p, nil
}

// Bytes returns the memory of all blocks, one after the other.
func (p *Pool) Bytes() []byte { return p.region.Bytes() }

// BlockBytes returns the size of a block.
func (p *Pool) BlockBytes() int { return p.blockBytes }

// Blocks returns the number of blocks.
func (p *Pool) Blocks() int { return len(p.refs) }

// FreeBlocks returns how many blocks nobody holds.
func (p *Pool) FreeBlocks() int { return len(p.free) }

// Available returns how many blocks a table can get: those that are free, and
// those that only the tree holds.
func (p *Pool) Available() int {
	if p.tree == nil {
		return len(p.free)
	}
	return len(p.free) + p.tree.idle
}

// Close gives the memory back. Closing again does nothing.
func (p *Pool) Close() error { return p.region.Close() }

// take returns a free block, with one reference. The caller knows there is one.
func (p *Pool) take() int32 {
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[id] = 1
	return id
}

// hold adds a reference to a block that has one.
func (p *Pool) hold(id int32) {
	if p.tree != nil && p.refs[id] == 1 && p.tree.has(id) {
		p.tree.idle--
	}
	p.refs[id]++
}

// drop gives up one reference to a block.
func (p *Pool) drop(id int32) {
	p.refs[id]--
	switch {
	case p.refs[id] == 0:
		p.free = append(p.free, id)
	case p.refs[id] == 1 && p.tree != nil && p.tree.has(id):
		p.tree.idle++
	}
}

// Block returns the memory of a block.
func (p *Pool) Block(id int32) []byte {
	return p.Bytes()[int(id)*p.blockBytes:][:p.blockBytes]
}
