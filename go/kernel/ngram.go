package kernel

// #include "quern.h"
import "C"

import (
	"math"
	"unsafe"
)

// NGram looks up rows of Table, which is in Rows, by hashes of the last tokens of a sequence. With the token's id x[0],
// that before it x[1] and so on, hash i is of the first m = 2 + i / (hashes / (tokens - 1)) of as many as there are
// Factors:
//
//	(Factors[0] x[0] ^ ... ^ Factors[m-1] x[m-1]) mod Sizes[i] + First[i]
//
// and Dst has its row behind those of the hashes before it. From the first Stop among the tokens before, and before the
// sequence began, all tokens are Stop.
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

func (o NGram) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_NGRAM
	tokens, hashes := len(o.Factors), len(o.Sizes)
	if tokens < 2 || tokens > MaxNGram || hashes < 1 || hashes > math.MaxInt16 || len(o.First) != hashes || hashes%(tokens-1) != 0 {
		return shapeErr("%d and %d hashes of %d tokens", hashes, len(o.First), tokens)
	}
	if o.Table.Layout != Rows || o.Table.N != 1 {
		return shapeErr("embedding table of layout %d", o.Table.Layout)
	}
	if err := b.matrix(&c.mat[0], o.Table); err != nil {
		return err
	}
	all := (*C.uint64_t)(calloc(tokens+2*hashes, 8))
	b.owned = append(b.owned, unsafe.Pointer(all))
	list := unsafe.Slice((*uint64)(unsafe.Pointer(all)), tokens+2*hashes)
	copy(list, o.Factors)
	copy(list[tokens:], o.Sizes)
	copy(list[tokens+hashes:], o.First)
	c.n_mat, c.hash, c.n_tap, c.n_seg, c.stop = 1, all, C.int32_t(tokens), C.int32_t(hashes), C.int32_t(o.Stop)
	b.use(groupUse{group: o.Group, bytes: o.Offset + NGramBytes(tokens), perSequence: true})
	c.group, c.kv_offset = C.int32_t(o.Group), C.int64_t(o.Offset)
	return b.floats(&c.dst, o.Dst, TokRows, hashes*o.Table.In)
}
