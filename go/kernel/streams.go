package kernel

// #include "quern.h"
import "C"

// Sparse is Dst = max(Dst - (mean + Cutoff * deviation), 0) of the first Cols columns, with the
// mean and the standard deviation of a sample of these.
type Sparse struct {
	Dst    Buf
	Cols   int
	Cutoff float32
}

func (o Sparse) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_SPARSE
	c.n_col, c.cutoff = C.int32_t(o.Cols), C.float(o.Cutoff)
	return b.floats(&c.dst, o.Dst, TokRows, o.Cols)
}

// Match gives Cols columns of Dst from DstCol the length of the first Cols of Src.
type Match struct {
	Dst, Src Buf
	DstCol   int // a multiple of Panel
	Cols     int
}

func (o Match) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MATCH
	c.n_col, c.col[1] = C.int32_t(o.Cols), C.int32_t(o.DstCol)
	if err := b.floats(&c.src, o.Src, TokRows, o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.DstCol+o.Cols)
}

// Mix adds to each of the Segs segments of Dst, of Cols columns, the sum of the SrcSegs segments of
// Src times the row of Weights for it: Segs rows of SrcSegs numbers for each token. Dst may be Src.
type Mix struct {
	Dst, Src, Weights Buf
	Cols              int
	Segs, SrcSegs     int
}

func (o Mix) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MIX
	c.n_col, c.n_seg, c.n_src = C.int32_t(o.Cols), C.int32_t(o.Segs), C.int32_t(o.SrcSegs)
	if err := b.floats(&c.src, o.Src, TokRows, o.SrcSegs*o.Cols); err != nil {
		return err
	}
	if err := b.floats(&c.aux, o.Weights, TokRows, o.Segs*o.SrcSegs); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Segs*o.Cols)
}

// Blend moves Cols columns of Dst from DstCol towards those of Src, by Fn of those of By from ByCol:
// Dst = Dst + Fn(By) * (Src - Dst).
type Blend struct {
	Dst, Src, By  Buf
	DstCol, ByCol int // multiples of Panel
	Cols          int
	Fn            Fn
}

func (o Blend) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_BLEND
	c.n_col, c.fn = C.int32_t(o.Cols), C.int32_t(o.Fn)
	c.col[1], c.col[2] = C.int32_t(o.DstCol), C.int32_t(o.ByCol)
	if err := b.floats(&c.src, o.Src, TokRows, o.Cols); err != nil {
		return err
	}
	if err := b.floats(&c.aux, o.By, TokRows, o.ByCol+o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.DstCol+o.Cols)
}
