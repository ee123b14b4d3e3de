package kernel

// #include "quern.h"
import "C"

import "unsafe"

// A Tap is the sums of the squared inputs of a product, by column, for each of its matrices.
type Tap struct {
	Op     int       // of the plan
	Sums   []float64 // [matrix][column], valid until the plan is closed or taps anew
	Counts []int64   // [matrix]: rows that were added

	Products []float32 // of TapProducts: [matrix][spans, SpanFloats of them]; nil: nobody asked

	shared bool // they are another product's
}

// taps is the sums that C adds to, in C memory.
type taps struct {
	c   *C.struct_qn_tap // [n]
	all []Tap
}

func newTaps(ops []C.struct_qn_op) *taps {
	t := &taps{c: (*C.struct_qn_tap)(calloc(len(ops), C.sizeof_struct_qn_tap))}
	for i, op := range ops {
		if op.kind != C.QN_OP_MATMUL {
			continue
		}
		m := operands[C.struct_qn_matmul](&op).mat[0]
		mats, columns := int(m.n_mat), int(m.n_in)
		tap := &unsafe.Slice(t.c, len(ops))[i]
		tap.sums = (*C.double)(calloc(mats*columns, C.sizeof_double))
		tap.counts = (*C.int64_t)(calloc(mats, C.sizeof_int64_t))
		t.all = append(t.all, Tap{Op: i, Sums: unsafe.Slice((*float64)(tap.sums), mats*columns), Counts: unsafe.Slice((*int64)(tap.counts), mats)})
	}
	return t
}

func (t *taps) close() {
	if t == nil {
		return
	}
	for _, tap := range t.all {
		free(unsafe.Pointer(unsafe.SliceData(tap.Sums)))
		free(unsafe.Pointer(unsafe.SliceData(tap.Counts)))
		if tap.Products != nil && !tap.shared {
			free(unsafe.Pointer(unsafe.SliceData(tap.Products)))
		}
	}
	free(unsafe.Pointer(t.c))
}

// Tap starts new sums for all products of the plan, over the runs that follow, or, if on is false, stops
// summing.
func (p *Plan) Tap(on bool) {
	p.mustBeOpen()
	p.taps.close()
	p.taps = nil
	if on {
		p.taps = newTaps(unsafe.Slice(p.c, p.n))
	}
}

// SpanFloats returns the number of products of pairs of n columns within spans.
func SpanFloats(n, span int) int {
	rest := n % span
	return n/span*span*span + rest*rest
}

// TapProducts makes a tapped product also sum the products of pairs of columns within a span: for each matrix
// SpanFloats of them, span by span, each a square matrix with the upper triangle filled; the last span may be
// narrower. It adds to `to`, the sums of another product of this shape, which must stay valid until both
// plans are tapped again, or, if that is nil, to new sums in C memory, valid until Tap. It returns these
// sums, or nil if the operation is not a product, its columns are not a multiple of 32, or there are several
// spans whose width is not a multiple of 256.
func (p *Plan) TapProducts(op, span int, to []float32) []float32 {
	p.mustBeOpen()
	if p.taps == nil || op < 0 || op >= p.n || span < 1 {
		return nil
	}
	for i := range p.taps.all {
		tap := &p.taps.all[i]
		columns := len(tap.Sums) / len(tap.Counts)
		if tap.Op != op || tap.Products != nil {
			continue
		}
		if span = min(span, columns); columns%32 != 0 || span < columns && span%actBlock != 0 {
			return nil
		}
		n := len(tap.Counts) * SpanFloats(columns, span)
		if to != nil && len(to) != n {
			return nil
		}
		if tap.shared = to != nil; !tap.shared {
			to = float32s(n)
		}
		tap.Products = to
		c := &unsafe.Slice(p.taps.c, p.n)[op]
		c.products, c.span, c.isa = (*C.float)(unsafe.SliceData(to)), C.int64_t(span), C.uint32_t(CPU())
		return to
	}
	return nil
}

// Taps returns the sums since Tap.
func (p *Plan) Taps() []Tap {
	p.mustBeOpen()
	if p.taps == nil {
		return nil
	}
	return p.taps.all
}
