package kernel

// #include "quern.h"
import "C"

import (
	"math"
	"unsafe"
)

// NGram looks up rows of Table, which is in Rows, by hashes of the last tokens of a sequence (struct qn_ngram): of as many
// tokens as there are Factors.
type NGram struct {
	Dst          Buf
	Table        Matrix
	Factors      []uint64
	Sizes, First []uint64 // of each hash: how many rows there are, and which comes first
	Stop         int32
	Group        int // of the batch, where the last tokens are
	Offset       int // of this layer inside the state, in bytes
}

// MaxNGram is the most tokens that an NGram may hash.
const MaxNGram = 16

// NGramBytes returns the bytes of the state of an NGram of n tokens.
func NGramBytes(n int) int { return AlignUp((n - 1) * 4) }

func (o NGram) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_NGRAM
	c := operands[C.struct_qn_ngram](op)
	tokens, hashes := len(o.Factors), len(o.Sizes)
	if tokens < 2 || tokens > MaxNGram || hashes < 1 || hashes > math.MaxInt16 || len(o.First) != hashes || hashes%(tokens-1) != 0 {
		return shapeErr("%d and %d hashes of %d tokens", hashes, len(o.First), tokens)
	}
	if o.Table.Layout != Rows || o.Table.N != 1 {
		return shapeErr("embedding table of layout %d", o.Table.Layout)
	}
	if err := b.matrix(&c.table, o.Table); err != nil {
		return err
	}
	all := (*C.uint64_t)(calloc(tokens+2*hashes, 8))
	b.owned = append(b.owned, unsafe.Pointer(all))
	list := unsafe.Slice((*uint64)(unsafe.Pointer(all)), tokens+2*hashes)
	copy(list, o.Factors)
	copy(list[tokens:], o.Sizes)
	copy(list[tokens+hashes:], o.First)
	c.hash, c.n_token, c.n_hash, c.stop = all, C.int32_t(tokens), C.int32_t(hashes), C.int32_t(o.Stop)
	b.use(groupUse{group: o.Group, bytes: o.Offset + NGramBytes(tokens), perSequence: true})
	c.state = place(o.Group, o.Offset)
	return b.floats(&c.dst, o.Dst, TokRows, hashes*o.Table.In)
}
