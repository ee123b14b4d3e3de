package model

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Shared holds packed matrices that several models have in common once: of a file loaded twice, or of a model
// and its derivatives. It is safe for concurrent use.
//
// Equality is tested in two steps. Before memory is allocated, samples of the rows are hashed. A matrix with
// the same samples as a shared one is then packed into scratch memory and compared in full.
type Shared struct {
	mu    sync.Mutex
	seed  maphash.Seed
	parts map[outline][]*part
}

// NewShared returns an empty Shared.
func NewShared() *Shared { return &Shared{seed: maphash.MakeSeed(), parts: map[outline][]*part{}} }

// An outline identifies candidates: equal matrices have equal outlines.
type outline struct {
	kind       kernel.Type
	layout     kernel.Layout
	in, out, n int
	samples    uint64 // their hash
}

// A part is a packed matrix.
type part struct {
	kernel.Matrix
	like  outline
	at    int // in each place of the pack
	pack  *pack
	users int // other models
}

// A pack is the packed matrices of a model, or one of them, in one region: a part of each in each place, which lie one after the other.
type pack struct {
	region   *mem.Region
	places   int
	stride   int // bytes of a place
	reserved *mem.Reservation
	parts    []*part // that others may use
	left     bool    // the model is closed: only what others use stays
}

// newPack allocates a pack of n bytes in each of the places on these nodes; none: in one place.
func newPack(budget *mem.Budget, n uint64, nodes []int) (p *pack, err error) {
	p = &pack{places: max(len(nodes), 1), stride: int(n)}
	n *= uint64(p.places)
	if p.reserved, err = budget.Reserve("packed weights", n); err != nil {
		return nil, err
	}
	if p.region, err = mem.Alloc(n, "packed weights"); err != nil {
		p.reserved.Release()
		return nil, err
	}
	for k, node := range nodes {
		// Where it is forbidden, pages are where they are written first, and packing has threads of the place do that.
		_ = p.region.Place(k*p.stride, p.stride, node)
	}
	return p, nil
}

// put gives a matrix its memory, from byte `at` of each place on.
func (p *pack) put(m *matrix, at int) {
	if m.pack, m.at = p, at; p.places > 1 {
		m.Places, m.Stride = p.places, p.stride
	}
	n := m.Span()
	m.Data = p.region.Bytes()[at : at+n : at+n]
}

const (
	// leastShared is the minimum size in bytes of a shared matrix.
	leastShared = 16 << 10
	samples     = 8 // rows of each tensor, of which so many bytes are hashed
	sampleBytes = 1 << 10
)

// sharable reports whether a matrix may be shared: packed from unmodified rows of the file.
func (x *matrix) sharable() bool {
	return x.anonymous() && x.divided == nil && x.remade == nil && x.panels == nil && together(x.parts[0]) == 1 && x.Bytes() >= leastShared
}

// outline computes the outline of a matrix from the file.
func (s *Shared) outline(x *matrix) outline {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, t := range x.parts {
		hashSamples(&h, x, t, 0, t.Data)
	}
	return x.outline(&h)
}

// hashSamples hashes the samples of a tensor within rows, which start at number `first`.
func hashSamples(h *maphash.Hash, x *matrix, t *gguf.Tensor, first int, rows []byte) {
	size := kernel.RowBytes(x.Type, x.In)
	all, last := len(t.Data)/size, -1
	for i := range samples {
		if row := all * i / samples; row != last && row >= first && (row-first)*size < len(rows) {
			at := (row - first) * size
			h.Write(rows[at : at+min(size, sampleBytes)])
			last = row
		}
	}
}

// outline returns the outline of a matrix whose samples were hashed.
func (x *matrix) outline(h *maphash.Hash) outline {
	return outline{x.Type, x.Layout, x.In, x.Out, x.N, h.Sum64()}
}

// empty reports whether there are no shared matrices.
func (s *Shared) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parts) == 0
}

// has returns how many bytes of the matrices seem to be present.
func (s *Shared) has(mats []*matrix) uint64 {
	if s.empty() {
		return 0
	}
	n := uint64(0)
	for _, x := range mats {
		if x.sharable() {
			like := s.outline(x)
			s.mu.Lock()
			if s.seek(like) != nil {
				n += uint64(x.Bytes())
			}
			s.mu.Unlock()
		}
	}
	return n
}

// take returns a part with the matrix's outline, nil if there is none. It stays until it is dropped.
func (s *Shared) take(x *matrix) *part {
	if !x.sharable() || s.empty() {
		return nil
	}
	like := s.outline(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.seek(like)
	if found != nil {
		found.users++
	}
	return found
}

// seek returns a part with an outline, or the same matrix in 16 bits, which may be what did not fit 12; nil if there is none.
// The caller holds the lock.
func (s *Shared) seek(like outline) *part {
	for _, l := range []kernel.Layout{like.layout, kernel.X16} {
		if like.layout = l; len(s.parts[like]) > 0 {
			return s.parts[like][0]
		}
	}
	return nil
}

// drop ends the use of a part.
func (s *Shared) drop(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	if p.pack.left {
		s.trim(p.pack)
	}
}

// offer makes a packed matrix, whose samples were hashed, available to other models.
func (s *Shared) offer(x *matrix, h *maphash.Hash) {
	one := &part{Matrix: x.Matrix, like: x.outline(h), at: x.at, pack: x.pack}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[one.like] = append(s.parts[one.like], one)
	x.pack.parts = append(x.pack.parts, one)
}

// leave releases the parts of a pack that no other model uses; all without a Shared.
func (s *Shared) leave(p *pack) {
	if s == nil {
		p.region.Close()
		p.reserved.Release()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.left = true
	s.trim(p)
}

// trim releases the unused parts of a pack whose model is closed. The caller holds the lock.
func (s *Shared) trim(p *pack) {
	p.parts = slices.DeleteFunc(p.parts, func(o *part) bool {
		if o.users > 0 {
			return false
		}
		rest := slices.DeleteFunc(s.parts[o.like], func(q *part) bool { return q == o })
		if s.parts[o.like] = rest; len(rest) == 0 {
			delete(s.parts, o.like)
		}
		return true
	})
	if len(p.parts) == 0 {
		p.region.Close()
		p.reserved.Release()
		return
	}
	// The bytes between used parts are released; a page shared with a used part is kept.
	kept := uint64(0)
	for k := range p.places {
		end := k * p.stride
		for _, o := range p.parts { // in the order in which they lie
			at, n := k*p.stride+o.at, o.PartBytes(p.places)
			_ = p.region.Discard(end, at-end) // a failure costs memory, not correctness
			end = at + n
			kept += uint64(n)
		}
		_ = p.region.Discard(end, (k+1)*p.stride-end)
	}
	_ = p.reserved.Resize(kept) // shrinking cannot fail
}

// same reports whether a packed chunk equals the part's bytes there.
func (p *part) same(at int, packed []byte) bool {
	for piece := range p.Pieces(at, len(packed)) {
		if !bytes.Equal(piece, packed[:len(piece)]) {
			return false
		}
		packed = packed[len(piece):]
	}
	return true
}
