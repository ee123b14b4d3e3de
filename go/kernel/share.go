package kernel

/*
#include "quern.h"

static int32_t qn_share_room(int32_t ranks) { return QN_SHARE_ROOM(ranks); }
*/
import "C"

import (
	"math"
	"unsafe"
)

// Share gives every rank what each has computed of some rows (struct qn_share). Of rows of floats that is columns, of
// activations blocks of ActBlock columns.
type Share struct {
	Ranks *Ranks
	Rows  RowSet
	Route Buf // with PairRows
	Parts []SharePart
	Stage Buf // of floats of Rows, StageWidth wide
	To    int // the rank that receives; Everyone: all
	Step  int // a number that tells exchanges apart, the same on all ranks
}

// Everyone is the Share.To of all ranks.
const Everyone = -1

// MaxShareParts is the maximum number of parts of a Share.
const MaxShareParts = C.QN_SHARE_PARTS

// A SharePart is one of the buffers of a Share.
type SharePart struct {
	Dst  Buf
	Kind BufKind // of Dst: Floats or activations
	Fine bool    // so is Dst
	Cut  []int   // rank r has columns, or blocks, Cut[r] to Cut[r+1], in multiples of Panel
	Own  int     // where those of this rank begin
}

// bytes returns how much of a row rank r has.
func (p SharePart) bytes(r int) int {
	n := p.Cut[r+1] - p.Cut[r]
	if p.Kind == Floats {
		return n * 4
	}
	return n * int(C.qn_act_bytes(C.enum_qn_act(p.Kind.act(p.Fine)), 1, actBlock))
}

// StageWidth returns the columns that Stage has at least.
func (o Share) StageWidth() int {
	n := int(C.qn_share_room(C.int32_t(len(o.Parts[0].Cut) - 1)))
	for _, p := range o.Parts {
		for r := range len(p.Cut) - 1 {
			n += p.bytes(r) / 4
		}
	}
	return Pad(n)
}

// Sent returns the bytes that rank r sends for each row.
func (o Share) Sent(r int) (n int) {
	for _, p := range o.Parts {
		n += p.bytes(r)
	}
	return n
}

func (o Share) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_SHARE, C.int32_t(o.Rows)
	c := operands[C.struct_qn_share](op)
	if o.Ranks == nil || o.Ranks.c == nil || len(o.Parts) < 1 || len(o.Parts) > MaxShareParts {
		return shapeErr("%d parts that ranks share", len(o.Parts))
	}
	c.ranks, c.n_part, c.to, c.step = o.Ranks.c, C.int32_t(len(o.Parts)), C.int32_t(o.To), C.int32_t(o.Step)
	for i, p := range o.Parts {
		if len(p.Cut) != o.Ranks.Count()+1 || p.Cut[len(p.Cut)-1] > math.MaxInt32/actBlock {
			return shapeErr("what %d ranks share, cut at %d", o.Ranks.Count(), p.Cut)
		}
		cut := calloc(len(p.Cut), 4)
		b.owned = append(b.owned, cut)
		for r, at := range p.Cut {
			unsafe.Slice((*C.int32_t)(cut), len(p.Cut))[r] = C.int32_t(at)
		}
		c.part[i].cut, c.part[i].own, c.part[i].act = (*C.int32_t)(cut), C.int32_t(p.Own), -1
		var err error
		if p.Kind == Floats {
			err = b.floats(&c.part[i].dst, p.Dst, o.Rows, p.Cut[len(p.Cut)-1])
		} else {
			c.part[i].act = C.int32_t(p.Kind.act(p.Fine))
			if err = b.one(&c.part[i].dst, p.Kind, p.Dst, o.Rows); err == nil && b.specs[p.Dst].Fine != p.Fine {
				err = shapeErr("buffer %d of activations, of which ranks share other bits", p.Dst)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	return b.floats(&c.stage, o.Stage, o.Rows, o.StageWidth())
}
