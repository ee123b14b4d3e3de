package kernel

/*
#include "quern.h"
*/
import "C"

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A Plan is a checked list of operations in C memory. It is not safe for concurrent use.
type Plan struct {
	c       *C.struct_qn_op // [n], in C memory
	n       int
	kinds   []string // of the operations
	ticks   *ticks   // of profiled runs, else nil
	taps    *taps    // of runs whose products are tapped, else nil
	specs   []BufSpec
	scratch int        // bytes for each thread
	unbound bool       // some matrix or vector is not allocated
	uses    []groupUse // of the batch's groups
	sided   bool       // sequences of the batch have a source
	sliced  bool       // it uses buffers that have rows of a slice of the batch

	positions int // positions of the batch are below it; 0: any
	answers   int // and so are those behind a source
	brings    int // columns that rows have which tokens bring
	rows      int // from each whose output is requested, which are in the batch
	owned     []unsafe.Pointer
	blocks    []Blocks // that blocks of queries see
}

// NewPlan checks operations over buffers of these specs. Matrices and vectors that are nil are not allocated
// yet: such a plan can be sized, but not run. The caller closes the plan, and owns the memory of its matrices
// and vectors.
func NewPlan(specs []BufSpec, ops ...Op) (*Plan, error) {
	for i, s := range specs {
		if err := s.check(i); err != nil {
			return nil, err
		}
	}
	p := &Plan{n: len(ops), specs: specs}
	p.c = (*C.struct_qn_op)(calloc(len(ops), C.sizeof_struct_qn_op))
	bufs := unboundBufs(specs)
	defer free(unsafe.Pointer(bufs))
	b := planBuilder{specs: specs}
	for i, op := range ops {
		c := &unsafe.Slice(p.c, p.n)[i]
		p.kinds = append(p.kinds, kindOf(op))
		err := op.fill(&b, c)
		p.owned = b.owned
		if err == nil {
			if rc := C.qn_plan_check(c, 1, bufs, C.int32_t(len(specs))); rc != C.QN_OK {
				err = status(rc, describe(op))
			}
		}
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("operation %d, %T: %w", i, op, err)
		}
	}
	// Checked again as a whole, for consistency between operations.
	if err := status(C.qn_plan_check(p.c, C.int32_t(p.n), bufs, C.int32_t(len(specs))), "plan"); err != nil {
		p.Close()
		return nil, err
	}
	p.unbound, p.uses, p.sided, p.sliced = b.unbound, b.uses, b.sided, b.sliced
	p.positions, p.answers, p.brings, p.rows, p.blocks = b.positions, b.answers, b.brings, b.rows, b.blocks
	p.scratch = int(C.qn_plan_scratch(p.c, C.int32_t(p.n), 0))
	return p, nil
}

// describe returns the sizes of an operation by their names, for the error when C refuses it. Zeros and buffers are left
// out, and of vectors the length is shown.
func describe(op Op) string {
	return strings.Join(append(sizes(nil, "", reflect.ValueOf(op)), "or its buffers"), ", ")
}

// sizes appends what v says under a name.
func sizes(list []string, name string, v reflect.Value) []string {
	_, isBuf := reflect.TypeAssert[Buf](v)
	if isBuf || v.IsZero() {
		return list
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Anonymous:
				list = sizes(list, name, v.Field(i))
			case f.IsExported():
				list = sizes(list, strings.TrimPrefix(name+"."+f.Name, "."), v.Field(i))
			}
		}
	case reflect.Array, reflect.Slice:
		if of := v.Type().Elem().Kind(); v.Kind() == reflect.Slice && of != reflect.Struct {
			return append(list, fmt.Sprintf("%s of %d", name, v.Len()))
		}
		for i := range v.Len() {
			list = sizes(list, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Map: // the buffers of activations
	case reflect.Pointer: // ranks
	default:
		list = append(list, fmt.Sprintf("%s %v", name, v))
	}
	return list
}

// Brings returns how many columns the rows that tokens bring have at least: see Batch.Bring.
func (p *Plan) Brings() int { return p.brings }

// Scratch returns the bytes of scratch per thread to run the plan over at most maxTok tokens.
func (p *Plan) Scratch(maxTok int) int {
	p.mustBeOpen()
	return int(C.qn_plan_scratch(p.c, C.int32_t(p.n), C.int32_t(maxTok)))
}

// Close frees the plan. Closing again is a no-op.
func (p *Plan) Close() {
	for _, m := range p.owned {
		free(m)
	}
	free(unsafe.Pointer(p.c))
	p.ticks.close()
	p.taps.close()
	p.c, p.ticks, p.taps, p.owned = nil, nil, nil, nil
}

func (p *Plan) mustBeOpen() {
	if p.c == nil {
		panic("kernel: plan is closed")
	}
}

// Run executes the plan over the batch, in one call that does not allocate. scratch must be outside the Go
// heap and have AlignUp(p.Scratch(n)) bytes per thread of the pool. Run panics on errors that only a bug can
// cause.
func (p *Plan) Run(pool *Pool, bufs *Buffers, b *Batch, scratch []byte) {
	p.ready(pool, bufs, b, scratch)
	var c C.struct_qn_plan
	p.lay(&c)
	run(pool, &c, 1, bufs, b, scratch, nil)
	p.count()
}

// ready panics unless the plan can be run.
func (p *Plan) ready(pool *Pool, bufs *Buffers, b *Batch, scratch []byte) {
	p.mustBeOpen()
	pool.mustBeOpen()
	most := bufs.room.Tok
	if !p.sliced {
		most = max(most, bufs.room.Whole)
	}
	switch {
	case p.unbound:
		panic("kernel: plan has matrices or vectors without memory")
	case bufs.c == nil || !slices.Equal(bufs.specs, p.specs):
		panic("kernel: buffers are closed, or not those of the plan")
	case b.c == nil || b.nTok() < 1 || b.nTok() > most || b.nOut() > bufs.room.Out:
		panic("kernel: batch is closed, empty, or larger than the buffers")
	case bufs.room.Whole > 0 && (bufs.from != b.from || b.n > max(bufs.room.Tok, bufs.room.Whole)):
		panic(fmt.Sprintf("kernel: buffers look at token %d, the batch of %d tokens at %d", bufs.from, b.n, b.from))
	}
	for _, u := range p.uses {
		b.mustServe(u)
	}
	if most := slices.Max(b.pos[b.from:][:b.nTok()]); p.positions > 0 && int(most) >= p.positions {
		panic(fmt.Sprintf("kernel: position %d, the plan has a table of %d", most, p.positions))
	}
	if p.sided {
		b.mustHaveSources()
	}
	b.mustBring(p.brings)
	if p.rows > 1 {
		b.mustHaveRows(p.rows)
	}
	if p.answers > 0 {
		b.mustAnswerWithin(p.answers)
	}
	for _, o := range p.blocks {
		b.mustHaveBlocks(o)
	}
	if !aligned(scratch) || len(scratch) < pool.Threads()*AlignUp(p.scratch) {
		panic("kernel: scratch is too small or not aligned")
	}
	if p.ticks != nil && p.ticks.threads != pool.Threads() {
		panic(fmt.Sprintf("kernel: a profile of %d threads, a pool of %d", p.ticks.threads, pool.Threads()))
	}
}

// lay sets c to the plan.
func (p *Plan) lay(c *C.struct_qn_plan) {
	c.ops, c.n_ops, c.ticks, c.taps = p.c, C.int32_t(p.n), nil, nil
	if p.ticks != nil {
		c.ticks = p.ticks.c
	}
	if p.taps != nil {
		c.taps = p.taps.c
	}
}

// count counts a run of the plan in the profile, if there is one.
func (p *Plan) count() {
	if p.ticks != nil {
		p.ticks.runs++
	}
}
