package kernel

// #include "quern.h"
import "C"

import "math"

// Sparse is Dst = max(Dst - (mean + Cutoff * deviation), 0) of the first Cols columns, with the
// mean and the standard deviation of a sample of these.
type Sparse struct {
	Dst    Buf
	Cols   int
	Cutoff float32
}

func (o Sparse) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_SPARSE
	c := operands[C.struct_qn_sparse](op)
	c.n_col, c.cutoff = C.int32_t(o.Cols), C.float(o.Cutoff)
	return b.cols(&c.dst, o.Dst, TokRows, 0, o.Cols)
}

// Match gives Cols columns of Dst from DstCol the length of the first Cols of Src.
type Match struct {
	Dst, Src Buf
	DstCol   int // a multiple of Panel
	Cols     int
}

func (o Match) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MATCH
	c := operands[C.struct_qn_match](op)
	c.n_col = C.int32_t(o.Cols)
	if err := b.cols(&c.src, o.Src, TokRows, 0, o.Cols); err != nil {
		return err
	}
	return b.cols(&c.dst, o.Dst, TokRows, o.DstCol, o.Cols)
}

// Mix adds to each of the Segs segments of Dst, of Cols columns, the sum of the SrcSegs segments of
// Src times the row of Weights for it: Segs rows of SrcSegs numbers for each token, from WeightCol on. Dst may be Src.
// With Store the segments become those sums.
type Mix struct {
	Dst, Src, Weights Buf
	WeightCol         int // a multiple of Panel
	Cols              int
	Segs, SrcSegs     int
	Store             bool
}

func (o Mix) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MIX
	c := operands[C.struct_qn_mix](op)
	c.n_col, c.n_seg, c.n_src, c.add = C.int32_t(o.Cols), C.int32_t(o.Segs), C.int32_t(o.SrcSegs), flag(!o.Store)
	if err := b.cols(&c.src, o.Src, TokRows, 0, o.SrcSegs*o.Cols); err != nil {
		return err
	}
	if err := b.cols(&c.weight, o.Weights, TokRows, o.WeightCol, o.Segs*o.SrcSegs); err != nil {
		return err
	}
	return b.cols(&c.dst, o.Dst, TokRows, 0, o.Segs*o.Cols)
}

// MixByScores is Dst = the sum of the Segs segments of Src, of Cols columns, 16 at most, each times its share, by its
// score with Weight (struct qn_mix).
type MixByScores struct {
	Dst, Src   Buf
	Cols, Segs int
	Weight     []float32
	Eps        float32
}

func (o MixByScores) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MIX
	c := operands[C.struct_qn_mix](op)
	c.n_col, c.n_seg, c.n_src, c.eps = C.int32_t(o.Cols), 1, C.int32_t(o.Segs), C.float(o.Eps)
	if err := b.cols(&c.src, o.Src, TokRows, 0, o.Segs*o.Cols); err != nil {
		return err
	}
	if err := vector(b, &c.score, o.Weight, o.Cols); err != nil {
		return err
	}
	return b.cols(&c.dst, o.Dst, TokRows, 0, o.Cols)
}

// Blend moves Cols columns of Dst from DstCol towards those of Src, by Fn of those of By from ByCol:
// Dst = Dst + Fn(By) * (Src - Dst).
type Blend struct {
	Dst, Src, By Buf
	// Where they begin; multiples of Panel.
	DstCol, SrcCol, ByCol int
	Cols                  int
	Fn                    Fn
}

func (o Blend) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_BLEND
	c := operands[C.struct_qn_blend](op)
	c.n_col, c.fn = C.int32_t(o.Cols), C.int32_t(o.Fn)
	if err := b.cols(&c.src, o.Src, TokRows, o.SrcCol, o.Cols); err != nil {
		return err
	}
	if err := b.cols(&c.by, o.By, TokRows, o.ByCol, o.Cols); err != nil {
		return err
	}
	return b.cols(&c.dst, o.Dst, TokRows, o.DstCol, o.Cols)
}

// ConnectCols are the columns where a Connect has the weights of the streams in what a half reads, of what
// it made in each stream, and of the streams in each other.
var ConnectCols = [3]int{0, Panel, 2 * Panel}

// Connect computes from numbers in Src what the streams of a residual are mixed by, as weights of a Mix (struct
// qn_connect; Xie et al. 2025, "mHC").
type Connect struct {
	Dst, Src    Buf
	SrcCol      int // a multiple of Panel
	Streams     int
	Rounds      int
	Scale, Bias []float32
	Eps         float32
}

// ConnectInputs returns how many numbers of each token a Connect takes.
func ConnectInputs(streams, rounds int) int {
	if rounds == 0 {
		return streams
	}
	return streams * (2 + streams)
}

// ConnectWidth returns how many columns its result has.
func ConnectWidth(streams int) int { return ConnectCols[2] + streams*streams }

func (o Connect) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_CONNECT
	c := operands[C.struct_qn_connect](op)
	if o.Streams < 1 || o.Streams > Panel || o.Rounds < 0 || o.Rounds > math.MaxInt32 {
		return shapeErr("%d streams connected in %d rounds", o.Streams, o.Rounds)
	}
	c.n_stream, c.rounds, c.eps = C.int32_t(o.Streams), C.int32_t(o.Rounds), C.float(o.Eps)
	n, scales := ConnectInputs(o.Streams, o.Rounds), 1
	if o.Rounds > 0 {
		scales = 3
	}
	if err := b.cols(&c.src, o.Src, TokRows, o.SrcCol, n); err != nil {
		return err
	}
	if err := vector(b, &c.bias, o.Bias, n); err != nil {
		return err
	}
	if err := vector(b, &c.scale, o.Scale, scales); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, ConnectWidth(o.Streams))
}

// Agree has in column i of Dst how far segment i of Src, of Segs of Cols columns, agrees with that of With (struct
// qn_align). Segs is at most Panel.
type Agree struct {
	Dst, Src, With Buf
	Cols, Segs     int
	Scale          float32
}

func (o Agree) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_ALIGN
	c := operands[C.struct_qn_align](op)
	if o.Cols < 1 || o.Segs < 1 || o.Segs > Panel {
		return shapeErr("%d segments of %d columns aligned", o.Segs, o.Cols)
	}
	c.n_col, c.n_seg, c.scale = C.int32_t(o.Cols), C.int32_t(o.Segs), C.float(o.Scale)
	if err := b.cols(&c.src, o.Src, TokRows, 0, o.Segs*o.Cols); err != nil {
		return err
	}
	if err := b.cols(&c.with, o.With, TokRows, 0, o.Segs*o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Segs)
}
