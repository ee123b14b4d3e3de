package kernel

/*
#include "quern.h"
#cgo noescape qn_adamw
#cgo nocallback qn_adamw
*/
import "C"

import (
	"cmp"
	"math"
	"unsafe"
)

// Columns are columns of a buffer from number Col on, a multiple of Panel.
type Columns struct {
	Buf Buf
	Col int
}

func (o Columns) fill(b *planBuilder, c *C.struct_qn_cols, rows RowSet, n int) error {
	return b.cols(c, o.Buf, rows, o.Col, n)
}

// Targets are what a Loss wants after each token of a batch, and how much it matters. They are in C memory.
type Targets struct {
	IDs     []int32
	Weights []float32
}

// NewTargets returns targets of batches of n tokens.
func NewTargets(n int) *Targets { return &Targets{int32s(n), float32s(n)} }

// Close frees the targets. No plan may use them. Closing again is a no-op.
func (t *Targets) Close() {
	free(unsafe.Pointer(unsafe.SliceData(t.IDs)))
	free(unsafe.Pointer(unsafe.SliceData(t.Weights)))
	*t = Targets{}
}

// Loss is the cross-entropy of Logits, of Cols columns, whose gradient replaces them; column 0 of Dst is the loss of a row
// (struct qn_loss). Targets are below Cols.
type Loss struct {
	Dst, Logits Buf
	Cols        int
	Softcap     float32
	Targets     *Targets
}

func (o Loss) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_LOSS, C.QN_ROWS_OUT
	c := operands[C.struct_qn_loss](op)
	c.target = ptr(o.Targets.IDs)
	c.weight = (*C.float)(unsafe.SliceData(o.Targets.Weights))
	c.n_col, c.softcap = C.int32_t(o.Cols), C.float(o.Softcap)
	if err := b.floats(&c.logits, o.Logits, OutRows, o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, OutRows, 1)
}

// Scatter is Dst[out[i]] += Src[i], Cols columns: the reverse of Gather.
type Scatter struct {
	Dst, Src Buf
	Cols     int
}

func (o Scatter) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_SCATTER
	c := operands[C.struct_qn_scatter](op)
	c.n_col = C.int32_t(o.Cols)
	if err := b.floats(&c.src, o.Src, OutRows, o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Cols)
}

// BackX is Dst = Scale * the transpose of Matrix times Act, of ActBF16, or that added (struct qn_back_x). The matrix is in
// Rows, with PairRows one of each expert.
type BackX struct {
	Dst    Columns
	Act    Buf
	Rows   RowSet
	Matrix Matrix
	Add    bool
	Scale  float32 // 0: 1
	Route  Buf     // with PairRows
}

func (o BackX) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_X, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_x](op)
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	if o.Matrix.Layout != Rows || o.Matrix.N != b.experts(op, o.Rows) {
		return shapeErr("gradients through %d matrices of layout %d", o.Matrix.N, o.Matrix.Layout)
	}
	if err := b.matrix(&c.mat, o.Matrix); err != nil {
		return err
	}
	c.add, c.scale = flag(o.Add), C.float(cmp.Or(o.Scale, 1))
	if err := b.one(&c.act, ActBF16, o.Act, o.Rows); err != nil {
		return err
	}
	return o.Dst.fill(b, &c.dst, o.Rows, Pad(o.Matrix.In))
}

// BackLow is the reverse of the term Scale * B (A x) of all rows (struct qn_back_low): it writes DA and DB, and adds to Dst.
// A and DA are [Rank][In], B and DB [Out][Rank], with PairRows those of each expert one after the other, all outside the Go
// heap.
type BackLow struct {
	Dst, Src      Columns
	Act           Buf // x, of ActF32
	Low           Buf // 2 Rank columns
	Rows          RowSet
	A, B, DA, DB  []float32
	In, Out, Rank int
	Scale         float32
	Route         Buf // with PairRows
}

func (o BackLow) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_LOW, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_low](op)
	if o.Rank < 1 || o.Rank > MaxRank {
		return shapeErr("a rank of %d", o.Rank)
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	each := b.experts(op, o.Rows) * o.Rank
	c.n_in, c.n_out, c.rank, c.scale = C.int32_t(o.In), C.int32_t(o.Out), C.int32_t(o.Rank), C.float(o.Scale)
	for _, v := range []struct {
		c **C.float
		v []float32
		n int
	}{{&c.a, o.A, each * o.In}, {&c.b, o.B, each * o.Out}, {&c.d_a, o.DA, each * o.In}, {&c.d_b, o.DB, each * o.Out}} {
		if err := vector(b, v.c, v.v, v.n); err != nil {
			return err
		}
	}
	if err := b.one(&c.act, ActF32, o.Act, o.Rows); err != nil {
		return err
	}
	if err := b.floats(&c.low, o.Low, o.Rows, 2*o.Rank); err != nil {
		return err
	}
	if err := o.Src.fill(b, &c.src, o.Rows, o.Out); err != nil {
		return err
	}
	return o.Dst.fill(b, &c.dst, o.Rows, o.In)
}

// BackNorm is the reverse of Scale * (norm(X) * Weight + a bias), of Segs segments of Cols columns: Dst is gradients of X,
// or they are added (struct qn_back_norm).
type BackNorm struct {
	Dst, X, DY Columns
	Rows       RowSet
	Cols, Segs int
	Kind       NormKind
	Weight     []float32 // as of NormRows
	SegWeights bool
	Eps        float32
	Scale      float32
	Add        bool
}

func (o BackNorm) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_NORM, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_norm](op)
	if o.Cols < 1 || o.Segs < 1 {
		return shapeErr("norm of %d segments of %d columns", o.Segs, o.Cols)
	}
	c.n_col, c.n_seg, c.seg_weights = C.int32_t(o.Cols), C.int32_t(o.Segs), flag(o.SegWeights)
	c.add, c.scale = flag(o.Add), C.float(o.Scale)
	n := o.Cols
	if o.SegWeights {
		n *= o.Segs
	}
	if err := o.Kind.fill(b, &c.norm, o.Weight, nil, n, o.Eps); err != nil {
		return err
	}
	for _, at := range []struct {
		c  *C.struct_qn_cols
		of Columns
	}{{&c.x, o.X}, {&c.dy, o.DY}, {&c.dst, o.Dst}} {
		if err := at.of.fill(b, at.c, o.Rows, o.Cols*o.Segs); err != nil {
			return err
		}
	}
	return nil
}

// BackGate is the reverse of Fn(G) * U, of Cols columns: gradients of G and of U, which may replace DY. Where U.Buf is NoBuf
// it is that of Fn(G). ByRow and Segs are as in Gate (struct qn_back_gate).
type BackGate struct {
	DG, DU, G, U, DY Columns
	Rows             RowSet
	Cols             int
	ByRow            bool
	Segs             int
	Fn               Fn
	Route            Buf // with PairRows
}

func (o BackGate) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_GATE, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_gate](op)
	c.n_col, c.fn, c.by_row, c.n_seg = C.int32_t(o.Cols), C.int32_t(o.Fn), flag(o.ByRow || o.Segs > 0), C.int32_t(o.Segs)
	c.u.buf = C.int32_t(none)
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	if o.Cols < 1 || o.Segs < 0 || o.Segs > math.MaxInt32/o.Cols {
		return shapeErr("the reverse of gates of %d segments of %d columns", o.Segs, o.Cols)
	}
	n, ofG := o.Cols, o.Cols
	if o.ByRow || o.Segs > 0 {
		ofG = max(o.Segs, 1)
		n *= ofG
	}
	type columns struct {
		c  *C.struct_qn_cols
		of Columns
		n  int
	}
	list := []columns{{&c.g, o.G, ofG}, {&c.dy, o.DY, n}, {&c.dg, o.DG, ofG}}
	if o.U.Buf != NoBuf {
		list = append(list, columns{&c.u, o.U, n}, columns{&c.du, o.DU, n})
	}
	for _, at := range list {
		if err := at.of.fill(b, at.c, o.Rows, at.n); err != nil {
			return err
		}
	}
	return nil
}

// BackStoreKV is the reverse of a StoreKV, whose QKV has gradients here: of what it left, and then of what it found. Was has
// what it found, where there are norms, else it is NoBuf.
type BackStoreKV struct {
	StoreKV
	Was Buf
}

func (o BackStoreKV) fill(b *planBuilder, op *C.struct_qn_op) error {
	uses := len(b.uses)
	if err := o.StoreKV.fill(b, op); err != nil {
		return err
	}
	b.uses = b.uses[:uses] // it touches no blocks
	qkv := *operands[C.struct_qn_qkv](op)
	op.kind = C.QN_OP_BACK_QKV
	c := operands[C.struct_qn_back_qkv](op)
	c.qkv, c.was = qkv, C.int32_t(none)
	if o.Was == NoBuf {
		return nil
	}
	return b.floats(&c.was, o.Was, TokRows, max(o.Col[0]+o.NHead*o.HeadDim, o.Col[1]+o.NHeadKV*o.HeadDim))
}

// BackAttend is the reverse of an Attend, whose QKV has queries, keys and values as a StoreKV left them: of all tokens that
// a token sees, which are in the batch. Gradients of them go to the same columns of DQKV (struct qn_back_attend).
type BackAttend struct {
	Attend
	DQKV  Buf
	DY    Buf
	Stats Buf // 2 NHead columns
}

func (o BackAttend) fill(b *planBuilder, op *C.struct_qn_op) error {
	uses := len(b.uses)
	if err := o.Attend.fill(b, op); err != nil {
		return err
	}
	b.uses = b.uses[:uses] // it touches no blocks
	attend := *operands[C.struct_qn_attend](op)
	op.kind = C.QN_OP_BACK_ATTEND
	c := operands[C.struct_qn_back_attend](op)
	*c = C.struct_qn_back_attend{attend: attend, y: attend.dst}
	for i, n := range [3]int{o.NHead * o.HeadDim, o.NHeadKV * o.HeadDim, o.NHeadKV * o.valueDim()} {
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.x, o.QKV, TokRows, o.Col[i]+n); err != nil {
			return err
		}
		if err := b.floats(&c.dst, o.DQKV, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	if err := b.floats(&c.dy, o.DY, TokRows, o.NHead*o.valueDim()); err != nil {
		return err
	}
	return b.floats(&c.stats, o.Stats, TokRows, 2*o.NHead)
}

// AdamW is the constants of a step of AdamW: struct qn_adamw.
type AdamW struct {
	Scale                    float32 // of the gradient
	Beta1, Beta2             float32
	Correction1, Correction2 float32 // bias corrections: 1 / (1 - Beta^step)
	Rate, Decay              float32
	Eps                      float32
}

// Step moves the numbers x by the gradient d, whose first and second moments are m and v. All are as long, and outside
// the Go heap.
func (s AdamW) Step(pool *Pool, x, m, v, d []float32) {
	pool.mustBeOpen()
	if len(m) != len(x) || len(v) != len(x) || len(d) != len(x) || len(x) == 0 {
		panic("kernel: a step of numbers with other numbers of gradients or moments")
	}
	c := (*C.struct_qn_adamw)(calloc(1, C.sizeof_struct_qn_adamw))
	defer free(unsafe.Pointer(c))
	*c = C.struct_qn_adamw{
		x: (*C.float)(unsafe.SliceData(x)), m: (*C.float)(unsafe.SliceData(m)), v: (*C.float)(unsafe.SliceData(v)),
		d: (*C.float)(unsafe.SliceData(d)), n: C.int64_t(len(x)), scale: C.float(s.Scale), beta1: C.float(s.Beta1),
		beta2: C.float(s.Beta2), correction1: C.float(s.Correction1), correction2: C.float(s.Correction2), rate: C.float(s.Rate),
		decay: C.float(s.Decay), eps: C.float(s.Eps),
	}
	C.qn_adamw(pool.c, c)
}
