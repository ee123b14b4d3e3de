package kernel

// #include "quern.h"
import "C"

import "unsafe"

// planBuilder checks the operands of operations, and records whether all of them are allocated.
type planBuilder struct {
	specs []BufSpec
	uses  []groupUse
	// The maximum number of positions of the batch, if they are looked up; 0: unlimited.
	positions int
	unbound   bool
	sided     bool             // sequences of the batch have a source
	owned     []unsafe.Pointer // C memory that is the plan's
}

// A groupUse is what an operation requires of a group of the batch.
type groupUse struct {
	group       int
	bytes       int  // of a unit, as far as the operation reaches into it
	window      int  // positions that it looks at; 0: all
	perSequence bool // it replaces the state of the sequence
}

func (b *planBuilder) use(u groupUse) { b.uses = append(b.uses, u) }

func (b *planBuilder) has(buf Buf) bool { return buf >= 0 && int(buf) < len(b.specs) }

func (b *planBuilder) matrix(c *C.struct_qn_mat, m Matrix) error {
	if err := m.check(); err != nil {
		return err
	}
	b.unbound = b.unbound || m.Data == nil
	*c = m.c()
	return nil
}

// vector sets *c to v, which must have at least n elements.
func vector[F C.float | C.double, T float32 | float64](b *planBuilder, c **F, v []T, n int) error {
	if v == nil {
		b.unbound = true
		*c = (*F)(unbound())
		return nil
	}
	if len(v) < n || n < 1 {
		return shapeErr("vector of %d, want %d", len(v), n)
	}
	*c = (*F)(unsafe.Pointer(unsafe.SliceData(v)))
	return nil
}

// optional is vector for an optional operand: nil leaves *c unchanged.
func optional(b *planBuilder, c **C.float, v []float32, n int) error {
	if v == nil {
		return nil
	}
	return vector(b, c, v, n)
}

// floats sets *c to buf, which must hold floats for these rows in at least n columns.
func (b *planBuilder) floats(c *C.int32_t, buf Buf, rows RowSet, n int) error {
	if !b.has(buf) {
		return shapeErr("buffer %d of %d", buf, len(b.specs))
	}
	if s := b.specs[buf]; s.Kind != Floats || s.Rows != rows || s.Width < n {
		return shapeErr("buffer %d is %+v, want rows %d of at least %d floats", buf, s, rows, n)
	}
	*c = C.int32_t(buf)
	return nil
}

// act sets the activations of an operation over these rows.
func (b *planBuilder) act(c *[C.QN_N_ACT]C.int32_t, a Act, rows RowSet) error {
	if len(a) == 0 {
		return shapeErr("no activations")
	}
	for kind, buf := range a {
		if kind < ActF32 || kind > ActQ8x32Sum16 || !b.has(buf) || b.specs[buf].Kind != kind || b.specs[buf].Rows != rows {
			return shapeErr("buffer %d for activations", buf)
		}
		c[kind.act()] = C.int32_t(buf)
	}
	return nil
}

// route sets the routing of an operation, and its numbers of experts.
func (b *planBuilder) route(c *C.struct_qn_op, field *C.int32_t, buf Buf) error {
	if !b.has(buf) || b.specs[buf].Kind != Route {
		return shapeErr("buffer %d for a routing", buf)
	}
	*field = C.int32_t(buf)
	c.n_expert, c.n_used = C.int32_t(b.specs[buf].NExpert), C.int32_t(b.specs[buf].NUsed)
	return nil
}
