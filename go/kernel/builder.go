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
	answers   int // of those behind a source
	brings    int // columns of rows that tokens bring
	rows      int // that are gathered as one
	unbound   bool
	sided     bool             // sequences of the batch have a source
	sliced    bool             // buffers have rows of a slice of the batch
	owned     []unsafe.Pointer // C memory that is the plan's
	blocks    []Blocks         // that blocks of queries see
}

// A groupUse is what an operation requires of a group of the batch.
type groupUse struct {
	group       int
	bytes       int  // of a unit, as far as the operation reaches into it
	window      int  // positions that it looks at; 0: all
	perSequence bool // it replaces the state of the sequence
	heads       int  // of keys and values, which are all that it reaches; 0: it reaches something else
}

func (b *planBuilder) use(u groupUse) { b.uses = append(b.uses, u) }

func (b *planBuilder) has(buf Buf) bool {
	if buf < 0 || int(buf) >= len(b.specs) {
		return false
	}
	b.sliced = b.sliced || !b.specs[buf].Whole
	return true
}

func (b *planBuilder) matrix(c *C.struct_qn_mat, m Matrix) error {
	if err := m.check(); err != nil {
		return err
	}
	b.unbound = b.unbound || m.Data == nil
	*c = m.c()
	return nil
}

// vector sets *c to v, which must have at least n elements.
func vector(b *planBuilder, c **C.float, v []float32, n int) error {
	if v == nil {
		b.unbound = true
		*c = (*C.float)(unbound())
		return nil
	}
	if len(v) < n || n < 1 {
		return shapeErr("vector of %d, want %d", len(v), n)
	}
	*c = (*C.float)(unsafe.SliceData(v))
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
	for k := range c {
		c[k] = C.int32_t(none)
	}
	for kind, buf := range a {
		if kind < ActF32 || kind > ActBF16 {
			return shapeErr("activations of kind %d", kind)
		}
		if !b.has(buf) {
			return shapeErr("buffer %d for activations", buf)
		}
		if err := b.one(&c[kind.act(b.specs[buf].Fine)], kind, buf, rows); err != nil {
			return err
		}
	}
	return nil
}

// one sets *c to buf, which must hold activations of the kind.
func (b *planBuilder) one(c *C.int32_t, kind BufKind, buf Buf, rows RowSet) error {
	if !b.has(buf) || b.specs[buf].Kind != kind || b.specs[buf].Rows != rows {
		return shapeErr("buffer %d for activations", buf)
	}
	*c = C.int32_t(buf)
	return nil
}

// cols is floats for n columns from col on.
func (b *planBuilder) cols(c *C.struct_qn_cols, buf Buf, rows RowSet, col, n int) error {
	c.col = C.int32_t(col)
	return b.floats(&c.buf, buf, rows, col+n)
}

// route sets the routing of an operation, and its numbers of experts.
func (b *planBuilder) route(c *C.struct_qn_op, buf Buf) error {
	if !b.has(buf) || b.specs[buf].Kind != Route {
		return shapeErr("buffer %d for a routing", buf)
	}
	s := b.specs[buf]
	c.routing = C.struct_qn_routing{buf: C.int32_t(buf), n_expert: C.int32_t(s.NExpert), n_used: C.int32_t(s.NUsed)}
	return nil
}

// pairs sets the routing of an operation whose rows are pairs.
func (b *planBuilder) pairs(c *C.struct_qn_op, rows RowSet, buf Buf) error {
	if rows != PairRows {
		return nil
	}
	return b.route(c, buf)
}

// place returns a location in the units of a group.
func place(group, offset int) C.struct_qn_place {
	return C.struct_qn_place{offset: C.int64_t(offset), group: C.int32_t(group)}
}

// operands returns the member of an operation's union that its kind has.
func operands[T any](c *C.struct_qn_op) *T { return (*T)(unsafe.Pointer(&c.anon0)) }

// flag returns 1 for true.
func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
