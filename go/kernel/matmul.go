package kernel

// #include "quern.h"
import "C"

import "cmp"

// Epilogue is the operation on the products of a Matmul after biases are added.
type Epilogue int32

const (
	Store Epilogue = C.QN_EPI_STORE // Dst = Scale * product
	Add   Epilogue = C.QN_EPI_ADD   // Dst += Scale * product
	GLU   Epilogue = C.QN_EPI_GLU   // Dst = Fn(first product) * second product
	Apply Epilogue = C.QN_EPI_FN    // Dst = Fn(product)
)

// A Part is one of the matrices of a Matmul.
type Part struct {
	Matrix
	Bias []float32 // of whole panels, for each of N matrices, or nil
	Col  int       // of Dst, where its product begins; a multiple of Panel
}

// MaxParts is the maximum number of matrices in a Matmul.
const MaxParts = 3

// Matmul multiplies up to MaxParts matrices with the same activations (struct qn_matmul).
type Matmul struct {
	Dst      Buf
	Act      Act
	Rows     RowSet
	Route    Buf // with PairRows
	Parts    []Part
	Epilogue Epilogue
	Fn       Fn      // of GLU and Apply
	Scale    float32 // of Store and Add; 0: 1
	Softcap  float32 // with Store: Dst = cap(Scale * product), where cap(y) is Softcap * tanh(y / Softcap); with GLU: Dst is times cap(first product); 0: it is not
	Limit    float32 // of Store: results are within it on both sides; of GLU: the first product is at most Limit, the second within it, or with Softcap the second alone, by tanh; 0: none
	LimitFn  bool    // of GLU: Fn of the first product is at most Limit, not the product
	Heads    Spread
	Delta    Buf   // of Adapts, see Deltas
	Deltas   []int // columns of Delta from which on rows are added to the products of each part, before biases; -1 where none are; nil: of no part
	Gains    []int // columns of Delta from which on there is the share of each part's product that is added to it, before that; 0 where there is none; nil: of no part
}

func (o Matmul) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_MATMUL, C.int32_t(o.Rows)
	c := operands[C.struct_qn_matmul](op)
	c.epilogue, c.fn = C.int32_t(o.Epilogue), C.int32_t(o.Fn)
	c.scale, c.softcap, c.limit = C.float(cmp.Or(o.Scale, 1)), C.float(o.Softcap), C.float(o.Limit)
	c.limit_fn = flag(o.LimitFn)
	if n := len(o.Parts); n < 1 || n > len(c.mat) || o.Epilogue == GLU && n != 2 {
		return shapeErr("matmul of %d matrices", n)
	}
	c.n_mat = C.int32_t(len(o.Parts))
	for i, p := range o.Parts {
		if p.Col < 0 || p.Col%Panel != 0 {
			return shapeErr("matmul into column %d", p.Col)
		}
		if err := b.matrix(&c.mat[i], p.Matrix); err != nil {
			return err
		}
		if err := optional(b, &c.bias[i], p.Bias, p.N*Pad(p.Out)); err != nil {
			return err
		}
		c.col[i] = C.int32_t(p.Col)
		each := p.Out
		if o.Heads.N > 0 && o.Rows != HeadRows {
			each /= o.Heads.N
		}
		n, err := o.Heads.fill(op, p.Col, each)
		if err != nil {
			return err
		}
		if err := b.floats(&c.dst, o.Dst, o.Rows.floats(), n); err != nil {
			return err
		}
		if i < len(o.Deltas) && o.Deltas[i] >= 0 {
			if o.Rows == HeadRows {
				return shapeErr("matmul of heads with adapters")
			}
			c.adapted |= 1 << i
			c.delta_col[i] = C.int32_t(o.Deltas[i])
			if err := b.floats(&c.delta, o.Delta, o.Rows, o.Deltas[i]+p.Out); err != nil {
				return err
			}
			if i < len(o.Gains) && o.Gains[i] != 0 {
				if c.gain_col[i] = C.int32_t(o.Gains[i]); o.Gains[i] < 0 || o.Gains[i]%Panel != 0 {
					return shapeErr("matmul with gains in column %d", o.Gains[i])
				}
				if err := b.floats(&c.delta, o.Delta, o.Rows, o.Gains[i]+p.Out); err != nil {
					return err
				}
			}
		}
		used, ok := o.Act[p.Type.Act()]
		if !ok || !b.has(used) || Pad(p.In) > Pad(b.specs[used].Width) {
			return shapeErr("matmul with %d columns of %v from buffers %v", p.In, p.Type, o.Act)
		}
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	if err := o.Heads.of(b, o.Act, o.Rows); err != nil {
		return err
	}
	return b.act(&c.act, o.Act, o.Rows)
}
