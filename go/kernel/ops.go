package kernel

// #include "quern.h"
import "C"

import (
	"cmp"
	"math"
	"unsafe"
)

// An Op is one operation of a plan: one of the structs of this package. include/quern_ops.h defines what each computes,
// in the struct that it fills; comments here say what differs.
type Op interface {
	// fill describes the operation to C, or returns an error.
	fill(b *planBuilder, op *C.struct_qn_op) error
}

// Act maps kinds of activations to the buffers that an operation writes or a matmul reads. See Type.Act.
type Act map[BufKind]Buf

// Embed is Dst[t] = Scale * row tok[t] of Table, which is in Rows.
type Embed struct {
	Dst   Buf
	Table Matrix
	By    Index
	Add   bool // Dst += it
	Scale float32
}

// An Index is how a token selects the row to look up.
type Index int32

const (
	ByToken    Index = C.QN_INDEX_TOK
	ByPosition Index = C.QN_INDEX_POS
	First      Index = C.QN_INDEX_FIRST // the same row for all
	ByAnswer   Index = C.QN_INDEX_OWN   // by the position behind the source of the sequence
	ByText     Index = C.QN_INDEX_TEXT  // the first row, or in the second text of a pair the second: see Batch.Second
)

func (o Embed) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_EMBED
	c := operands[C.struct_qn_embed](op)
	if o.Table.Layout != Rows || o.Table.N != 1 {
		return shapeErr("embedding table of layout %d", o.Table.Layout)
	}
	if err := b.matrix(&c.table, o.Table); err != nil {
		return err
	}
	c.index, c.add, c.scale = C.int32_t(o.By), flag(o.Add), C.float(o.Scale)
	switch o.By {
	case ByPosition:
		b.positions = min(cmp.Or(b.positions, o.Table.Out), o.Table.Out)
	case ByAnswer:
		b.answers, b.sided = min(cmp.Or(b.answers, o.Table.Out), o.Table.Out), true
	case ByText:
		if o.Table.Out < 2 {
			return shapeErr("a table of %d rows, want one for each text of a pair", o.Table.Out)
		}
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Table.In)
}

// Input is Cols columns of Dst[t] = those from From on of the row that token t brings (Batch.Bring), or these added. A token
// that brings none keeps Dst, or with Clear gets zeros.
type Input struct {
	Dst    Buf
	DstCol int // a multiple of Panel
	From   int
	Cols   int
	Add    bool
	Clear  bool
}

func (o Input) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_INPUT
	c := operands[C.struct_qn_input](op)
	if o.From < 0 || o.Cols < 1 || o.From+o.Cols > math.MaxInt32 {
		return shapeErr("columns %d to %d of rows that tokens bring", o.From, o.From+o.Cols)
	}
	c.from, c.n_col, c.add, c.clear = C.int32_t(o.From), C.int32_t(o.Cols), flag(o.Add), flag(o.Clear)
	c.dst.col = C.int32_t(o.DstCol)
	b.brings = max(b.brings, o.From+o.Cols)
	return b.floats(&c.dst.buf, o.Dst, TokRows, o.DstCol+o.Cols)
}

// RopeTable is Dst[t][i] = cos, sin of (pos[t] + Shift) * Freqs[i], times Scale. Freqs, of which a plan has a copy, has
// one element for each pair of rotated dimensions.
type RopeTable struct {
	Dst   Buf
	NRot  int
	Freqs []float64
	Scale float32
	Shift int
	Axes  []int32 // of each frequency: which of a token's places stands for its position (Batch.Place); nil: the position
}

// Axes is how many places a token has.
const Axes = C.QN_AXES

func (o RopeTable) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_ROPE_TABLE
	c := operands[C.struct_qn_rope_table](op)
	c.n_rot, c.shift, c.scale = C.int32_t(o.NRot), C.int32_t(o.Shift), C.float(o.Scale)
	switch n := o.NRot / 2; {
	case o.Freqs == nil:
		b.unbound = true
		c.freq = (*C.double)(unbound())
	case len(o.Freqs) < n || n < 1:
		return shapeErr("%d frequencies, want %d", len(o.Freqs), n)
	default:
		freqs := calloc(len(o.Freqs), 8)
		b.owned = append(b.owned, freqs)
		copy(unsafe.Slice((*float64)(freqs), len(o.Freqs)), o.Freqs)
		c.freq = (*C.double)(freqs)
	}
	if o.Axes != nil {
		if len(o.Axes) < o.NRot/2 {
			return shapeErr("axes of %d frequencies, of %d", len(o.Axes), o.NRot/2)
		}
		axes := calloc(len(o.Axes), 4)
		b.owned = append(b.owned, axes)
		copy(unsafe.Slice((*int32)(axes), len(o.Axes)), o.Axes)
		c.axis = (*C.int32_t)(axes)
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.NRot)
}

// Gather is Dst[i] = Src[out[i]]: the rows whose logits are requested. With N above 1 it is as many rows from out[i] on, Cols
// columns of each side by side, or with Mean their mean. They are of one sequence: see Batch.SetOut.
type Gather struct {
	Dst, Src Buf
	N, Cols  int // Cols: a multiple of Panel
	Mean     bool
}

func (o Gather) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_GATHER
	c := operands[C.struct_qn_gather](op)
	if err := b.floats(&c.src, o.Src, TokRows, 1); err != nil {
		return err
	}
	width := b.specs[o.Src].Width
	if o.N > 1 {
		if o.Cols < 1 || o.Cols > width || o.N > math.MaxInt16 {
			return shapeErr("%d rows of %d columns as one, of a buffer of %d", o.N, o.Cols, width)
		}
		c.n_row, c.n_col, c.mean = C.int32_t(o.N), C.int32_t(o.Cols), flag(o.Mean)
		b.rows = max(b.rows, o.N)
		if width = o.Cols; !o.Mean {
			width *= o.N
		}
	}
	return b.floats(&c.dst, o.Dst, OutRows, width)
}

// NormKind is a way to normalize a row.
type NormKind int32

const (
	RMS       NormKind = C.QN_NORM_RMS   // x / rms(x)
	LayerNorm NormKind = C.QN_NORM_LAYER // (x - mean(x)) / its standard deviation
	NoNorm    NormKind = C.QN_NORM_NONE  // x
)

// Norm is Act = norm(Src) * Weight + Bias, over Cols columns from SrcCol.
type Norm struct {
	Act    Act
	Src    Buf
	SrcCol int // a multiple of Panel
	Rows   RowSet
	Cols   int
	Kind   NormKind
	Weight []float32 // nil: ones
	Bias   []float32 // nil: zeros
	Eps    float32
}

func (o Norm) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_NORM, C.int32_t(o.Rows)
	c := operands[C.struct_qn_to_act](op)
	c.n_col = C.int32_t(o.Cols)
	if err := b.cols(&c.src, o.Src, o.Rows, o.SrcCol, o.Cols); err != nil {
		return err
	}
	if err := o.Kind.fill(b, &c.norm, o.Weight, o.Bias, o.Cols, o.Eps); err != nil {
		return err
	}
	return b.act(&c.act, o.Act, o.Rows)
}

// fill sets a norm with weights and biases of n columns.
func (k NormKind) fill(b *planBuilder, c *C.struct_qn_norm, weight, bias []float32, n int, eps float32) error {
	c.kind, c.eps = C.int32_t(k), C.float(eps)
	if err := optional(b, &c.weight, weight, n); err != nil {
		return err
	}
	return optional(b, &c.bias, bias, n)
}

// NormRows is Dst = Scale * (norm(Src) * Weight + Bias) as floats, or that added
// to Dst, of Segs segments of Cols columns from SrcCol and DstCol. Dst may be Src.
type NormRows struct {
	Dst, Src       Buf
	DstCol, SrcCol int // multiples of Panel
	Rows           RowSet
	Cols, Segs     int
	Kind           NormKind
	Weight, Bias   []float32 // of a segment, or of all with SegWeights; nil: ones, zeros
	SegWeights     bool
	Eps            float32
	Scale          float32
	Epilogue       Epilogue // Store or Add
	Low, High      float32  // limits of what is stored; equal: there are none
	Route          Buf      // with PairRows
}

func (o NormRows) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_NORM_ROWS, C.int32_t(o.Rows)
	c := operands[C.struct_qn_norm_rows](op)
	if o.Cols < 1 || o.Segs < 1 || o.SrcCol < 0 || o.DstCol < 0 {
		return shapeErr("norm of %d segments of %d columns", o.Segs, o.Cols)
	}
	if o.Epilogue != Store && o.Epilogue != Add {
		return shapeErr("norm with epilogue %d", o.Epilogue)
	}
	c.n_col, c.n_seg, c.seg_weights = C.int32_t(o.Cols), C.int32_t(o.Segs), flag(o.SegWeights)
	c.add, c.scale = flag(o.Epilogue == Add), C.float(o.Scale)
	c.low, c.high = C.float(o.Low), C.float(o.High)
	n := o.Cols
	if o.SegWeights {
		n *= o.Segs
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	if err := b.cols(&c.src, o.Src, o.Rows, o.SrcCol, o.Cols*o.Segs); err != nil {
		return err
	}
	if err := b.cols(&c.dst, o.Dst, o.Rows, o.DstCol, o.Cols*o.Segs); err != nil {
		return err
	}
	return o.Kind.fill(b, &c.norm, o.Weight, o.Bias, n, o.Eps)
}

// ToAct is Act = Cols columns of Src from SrcCol, or with HeadRows as many of each head.
type ToAct struct {
	Act    Act
	Src    Buf
	SrcCol int // a multiple of Panel
	Rows   RowSet
	Cols   int
	Block  int    // of ActBlock columns in Act: the first that is written
	Route  Buf    // with PairRows
	Heads  Spread // with HeadRows
}

// A Spread is the layout of heads in rows of tokens: N heads, Step columns apart, a multiple of Panel. The
// zero value is no heads.
type Spread struct{ N, Step int }

// fill sets the heads of an operation, with n columns each from col on, and returns the total columns. The
// activations of HeadRows must have the same number of heads.
func (s Spread) fill(c *C.struct_qn_op, col, n int) (int, error) {
	if s.N == 0 {
		return col + n, nil
	}
	if s.N < 0 || s.Step < n || s.Step%Panel != 0 || s.Step > math.MaxInt32/s.N || col < 0 {
		return 0, shapeErr("%d heads of %d columns, %d apart", s.N, n, s.Step)
	}
	c.heads.n, c.heads.step = C.int32_t(s.N), C.int32_t(s.Step)
	return col + (s.N-1)*s.Step + n, nil
}

// of checks that activations of heads match s.
func (s Spread) of(b *planBuilder, a Act, rows RowSet) error {
	for _, buf := range a {
		if rows == HeadRows && b.has(buf) && b.specs[buf].NHead != s.N {
			return shapeErr("activations of %d heads, want %d", b.specs[buf].NHead, s.N)
		}
	}
	return nil
}

func (o ToAct) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_ACT, C.int32_t(o.Rows)
	c := operands[C.struct_qn_to_act](op)
	n, err := o.Heads.fill(op, o.SrcCol, o.Cols)
	if err != nil {
		return err
	}
	if o.Block < 0 || o.Block > math.MaxInt32/actBlock {
		return shapeErr("activations from block %d on", o.Block)
	}
	c.n_col, c.block = C.int32_t(o.Cols), C.int32_t(o.Block)
	if err := b.cols(&c.src, o.Src, o.Rows.floats(), o.SrcCol, n-o.SrcCol); err != nil {
		return err
	}
	if err := o.Heads.of(b, o.Act, o.Rows); err != nil {
		return err
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	return b.act(&c.act, o.Act, o.Rows)
}

// A Fn is a function of one number.
type Fn int32

const (
	NoFn    Fn = C.QN_FN_NONE // x itself: for Gate and Blend
	SiLU    Fn = C.QN_FN_SILU
	Sigmoid Fn = C.QN_FN_SIGMOID
	GELU    Fn = C.QN_FN_GELU     // the form with tanh
	GELUErf Fn = C.QN_FN_GELU_ERF // the form with erf

	GELUQuick Fn = C.QN_FN_GELU_QUICK // x sigmoid(1.702 x)
	ReLU      Fn = C.QN_FN_RELU       // max(x, 0)
	ReLU2     Fn = C.QN_FN_RELU2      // max(x, 0) squared
	// SwiGLUClamp is x * sigmoid(1.702 x) of x at most 7; what it multiplies counts as 1 + u,
	// of u within 7.
	SwiGLUClamp Fn = C.QN_FN_SWIGLU_CLAMP
	Softplus    Fn = C.QN_FN_SOFTPLUS // ln(1 + e^x)
)

// Gate is Dst = Fn(Src) * Dst, Cols columns from SrcCol and DstCol. With ByRow Src has
// a single column for all of them, with Segs one for each of so many segments of Cols columns.
type Gate struct {
	Dst, Src       Buf
	DstCol, SrcCol int // multiples of Panel
	Rows           RowSet
	Cols           int
	Segs           int // 0: there are none
	Fn             Fn
	ByRow          bool
	Route          Buf // with PairRows
}

func (o Gate) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_GATE, C.int32_t(o.Rows)
	c := operands[C.struct_qn_gate](op)
	if o.Segs < 0 || o.Segs > 0 && (o.Cols < 1 || o.Cols > math.MaxInt32/o.Segs) {
		return shapeErr("gates of %d segments of %d columns", o.Segs, o.Cols)
	}
	c.n_col, c.n_seg, c.fn = C.int32_t(o.Cols), C.int32_t(o.Segs), C.int32_t(o.Fn)
	c.by_row = flag(o.ByRow || o.Segs > 0)
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	src, dst := o.Cols, o.Cols
	switch {
	case o.Segs > 0:
		src, dst = o.Segs, o.Segs*o.Cols
	case o.ByRow:
		src = 1
	}
	if err := b.cols(&c.src, o.Src, o.Rows, o.SrcCol, src); err != nil {
		return err
	}
	return b.cols(&c.dst, o.Dst, o.Rows, o.DstCol, dst)
}

// XIELU is Dst = xielu(Dst), Cols columns (struct qn_xielu).
type XIELU struct {
	Dst  Buf
	Rows RowSet
	Cols int
	XIELUParams
}

// XIELUParams are the constants of an XIELU. Eps is at most 0.
type XIELUParams struct{ AlphaP, AlphaN, Beta, Eps float32 }

func (o XIELU) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_XIELU, C.int32_t(o.Rows)
	c := operands[C.struct_qn_xielu](op)
	c.n_col = C.int32_t(o.Cols)
	c.param = [4]C.float{C.float(o.AlphaP), C.float(o.AlphaN), C.float(o.Beta), C.float(o.Eps)}
	return b.cols(&c.dst, o.Dst, o.Rows, 0, o.Cols)
}
