package lang

import (
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// A Held is a type whose blocks have the numbers of a view: exactly, or as near as F16 would have them.
type Held struct {
	Type  gguf.Type
	Exact bool
	Bytes func(dst []byte, at uint64) error // reads the blocks from that of element number `at` on, which begins a block

	// What their products are multiplied by: one factor for all, or one for each index of the first of three dimensions. The
	// file has them in a tensor beside the matrix. nil: none.
	Scales []float32
}

// Factors returns the scales of n matrices, and whether there is one for each.
func (h Held) Factors(n uint64) ([]float32, bool) {
	if len(h.Scales) == 1 {
		return slices.Repeat(h.Scales, int(n)), true
	}
	return h.Scales, uint64(len(h.Scales)) == n
}

// block returns the elements and the bytes of a block.
func (h Held) block() (elems, size uint64) {
	return uint64(h.Type.BlockElems()), uint64(h.Type.BlockBytes())
}

// HeldAs returns the blocks of a type, and whether they are there.
func (v View) HeldAs(t gguf.Type) (Held, bool) {
	i := slices.IndexFunc(v.Held, func(h Held) bool { return h.Type == t })
	if i < 0 {
		return Held{}, false
	}
	return v.Held[i], true
}

// heldStrided returns the blocks of a strided view: those of v, if all that it takes are whole blocks. Elements are read in
// runs of that many neighbours, place returns the first of each, and dims are those whose neighbours are other runs.
func (v View) heldStrided(from uint64, dims []Dim, run uint64, place func(uint64) uint64) (all []Held) {
	for _, h := range v.Held {
		elems, size := h.block()
		broken := slices.ContainsFunc(dims, func(d Dim) bool { return d.Stride%elems != 0 && d.N > 1 })
		if broken || from%elems != 0 || run%elems != 0 || len(h.Scales) > 1 {
			continue
		}
		read := h.Bytes
		h.Bytes = func(dst []byte, at uint64) error {
			for len(dst) > 0 {
				n := min(uint64(len(dst)), (run-at%run)/elems*size)
				if err := read(dst[:n], place(at/run)+at%run); err != nil {
					return err
				}
				dst, at = dst[n:], at+n/size*elems
			}
			return nil
		}
		all = append(all, h)
	}
	return all
}

// heldJoined returns the blocks of views one after the other: those of types that all have. ends has the elements up to the
// end of each.
func heldJoined(parts []View, ends []uint64) (all []Held) {
	for _, h := range parts[0].Held {
		elems, size := h.block()
		reads := make([]func([]byte, uint64) error, len(parts))
		whole, first := true, h
		h.Scales = nil
		for i, p := range parts {
			own, ok := p.HeldAs(h.Type)
			whole = whole && ok && p.Elems()%elems == 0 && (own.Scales == nil) == (first.Scales == nil)
			h.Exact = h.Exact && own.Exact
			reads[i] = own.Bytes
			if own.Scales == nil {
				continue
			}
			if len(p.Shape) > 2 { // several matrices
				more, ok := own.Factors(p.Shape[0])
				h.Scales, whole = append(h.Scales, more...), whole && ok
			} else { // the rows of one
				h.Scales, whole = first.Scales, whole && slices.Equal(own.Scales, first.Scales)
			}
		}
		if !whole {
			continue
		}
		h.Bytes = func(dst []byte, at uint64) error {
			for len(dst) > 0 {
				i, found := slices.BinarySearch(ends, at)
				if found {
					i++
				}
				n := min(uint64(len(dst)), (ends[i]-at)/elems*size)
				if err := reads[i](dst[:n], at-(ends[i]-parts[i].Elems())); err != nil {
					return err
				}
				dst, at = dst[n:], at+n/size*elems
			}
			return nil
		}
		all = append(all, h)
	}
	return all
}
