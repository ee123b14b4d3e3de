package kernel

// #include "quern.h"
import "C"

import "unsafe"

// A Tap is what a product multiplied by: sums of the squares of its inputs, column by column, for each of its matrices.
type Tap struct {
	Op     int       // of the plan
	Sums   []float64 // [matrix][column], valid until the plan is closed or taps anew
	Counts []int64   // [matrix]: rows that were added
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
		mats, columns := int(op.mat[0].n_mat), int(op.mat[0].n_in)
		tap := &unsafe.Slice(t.c, len(ops))[i]
		tap.sums = (*C.double)(calloc(mats*columns, C.sizeof_double))
		tap.counts = (*C.int64_t)(calloc(mats, C.sizeof_int64_t))
		t.all = append(t.all, Tap{i, unsafe.Slice((*float64)(tap.sums), mats*columns), unsafe.Slice((*int64)(tap.counts), mats)})
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
	}
	free(unsafe.Pointer(t.c))
}

// Tap starts new sums for all products of the plan, to which the runs that follow add, or, if on is false, ends them.
func (p *Plan) Tap(on bool) {
	p.mustBeOpen()
	p.taps.close()
	p.taps = nil
	if on {
		p.taps = newTaps(unsafe.Slice(p.c, p.n))
	}
}

// Taps returns the sums since Tap.
func (p *Plan) Taps() []Tap {
	p.mustBeOpen()
	if p.taps == nil {
		return nil
	}
	return p.taps.all
}
