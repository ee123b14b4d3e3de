package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Pieces are what the ranks of a group have for each other outside of plans: a piece of each, of which all get all.
type Pieces struct {
	g    *Ranks
	most int
	room unsafe.Pointer
	at   *[MaxRanks]*C.uint8_t
	size *[MaxRanks]C.size_t
}

const pieceLine = 64 // of the alignment of pieces

// piecesStride returns the bytes of a piece of most bytes with its head.
func piecesStride(most int) int { return C.QN_RANKS_HEAD + (most+pieceLine-1)/pieceLine*pieceLine }

// PiecesBytes returns the memory of pieces of at most so many bytes, of n ranks.
func PiecesBytes(n, most int) int {
	return n*piecesStride(most) + pieceLine + MaxRanks*int(unsafe.Sizeof(uintptr(0))+C.sizeof_size_t)
}

// NewPieces returns room for a piece of each rank, of most bytes at most. The caller closes it.
func NewPieces(g *Ranks, most int) *Pieces {
	n, stride := g.Count(), piecesStride(most)
	p := &Pieces{
		g: g, most: most, room: calloc(n*stride+pieceLine, 1),
		at:   (*[MaxRanks]*C.uint8_t)(calloc(MaxRanks, int(unsafe.Sizeof(uintptr(0))))),
		size: (*[MaxRanks]C.size_t)(calloc(MaxRanks, C.sizeof_size_t)),
	}
	skip := (pieceLine - int(uintptr(p.room)%pieceLine)) % pieceLine
	for r := range n {
		p.at[r] = (*C.uint8_t)(unsafe.Add(p.room, skip+r*stride))
	}
	return p
}

// Most returns the bytes of the largest piece that there is room for.
func (p *Pieces) Most() int { return p.most }

// Of returns the room of a rank's piece. This rank writes its own before an exchange, and finds the others' after it.
func (p *Pieces) Of(rank int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p.at[rank]), C.QN_RANKS_HEAD)), p.most)
}

// Exchange sends the first bytes of this rank's piece to all others, and receives theirs: sizes has how many of each. All ranks
// call it with the same sizes and step, a number that says what for, or it fails. An error is that of all exchanges after it.
func (p *Pieces) Exchange(sizes []int, step uint32) error {
	if len(sizes) != p.g.Count() {
		return fmt.Errorf("%d pieces of %d ranks", len(sizes), p.g.Count())
	}
	for r, n := range sizes {
		if n < 0 || n > p.most {
			return fmt.Errorf("a piece of %d bytes, want 0 to %d", n, p.most)
		}
		p.size[r] = C.size_t(n)
	}
	return ranksStatus(C.qn_ranks_exchange(p.g.c, &p.at[0], &p.size[0], C.int32_t(Everyone), C.uint32_t(step)))
}

// Close releases the memory. Closing again is a no-op.
func (p *Pieces) Close() {
	if p.room == nil {
		return
	}
	free(p.room)
	free(unsafe.Pointer(p.at))
	free(unsafe.Pointer(p.size))
	p.room, p.at, p.size = nil, nil, nil
}
