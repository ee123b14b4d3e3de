package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// A Batch is the tokens of one forward pass, of any mix of sequences and
// positions. It lives in C memory and is filled anew for each pass: Reset, then
// AddSeq for each sequence, followed by Add for each of its tokens.
type Batch struct {
	c *C.struct_qn_batch

	tok, pos, seq, table, out []int32 // in C memory, as long as they may get

	cols   int // of a row of table
	held   int // KV blocks of the sequence added last
	kv     []byte
	blocks int
}

// NewBatch makes room for maxTok tokens of maxSeq sequences, whose KV tables
// have up to maxBlocks blocks, and for maxOut rows of logits.
func NewBatch(maxTok, maxSeq, maxBlocks, maxOut int) (*Batch, error) {
	const most = 1 << 24
	for _, n := range []int{maxTok, maxSeq, maxBlocks, maxOut} {
		if n < 1 || n > most {
			return nil, shapeErr("batches of %d tokens, %d sequences of %d KV blocks, %d rows of logits", maxTok, maxSeq, maxBlocks, maxOut)
		}
	}
	if maxSeq > math.MaxInt32/maxBlocks {
		return nil, shapeErr("batches of %d sequences of %d KV blocks", maxSeq, maxBlocks)
	}
	b := &Batch{
		c:   (*C.struct_qn_batch)(calloc(1, C.sizeof_struct_qn_batch)),
		tok: int32s(maxTok), pos: int32s(maxTok), seq: int32s(maxTok),
		table: int32s(maxSeq * maxBlocks), out: int32s(maxOut), cols: maxBlocks,
	}
	ptr := func(v []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(v))) }
	b.c.tok, b.c.pos, b.c.seq, b.c.kv_table, b.c.out = ptr(b.tok), ptr(b.pos), ptr(b.seq), ptr(b.table), ptr(b.out)
	b.c.kv_cols = C.int32_t(maxBlocks)
	return b, nil
}

// SetKV gives the batch the pool of KV blocks of blockBytes each. The memory is
// outside the Go heap, and stays the caller's.
func (b *Batch) SetKV(kv []byte, blockBytes int) {
	if blockBytes < 1 || len(kv)%blockBytes != 0 || !aligned(kv) {
		panic(fmt.Sprintf("kernel: KV blocks of %d in %d bytes", blockBytes, len(kv)))
	}
	b.c.kv = unsafe.Pointer(unsafe.SliceData(kv))
	b.c.kv_block_bytes = C.int64_t(blockBytes)
	b.kv, b.blocks = kv, len(kv)/blockBytes
}

// Reset empties the batch.
func (b *Batch) Reset() { b.c.n_tok, b.c.n_seq, b.c.n_out = 0, 0, 0 }

// AddSeq begins a sequence whose positions lie in these KV blocks. The tokens
// added next are of it. It panics when the batch has no room for it, or when a
// block is not one of the pool's.
func (b *Batch) AddSeq(blocks []int32) {
	row := int(b.c.n_seq)
	if (row+1)*b.cols > len(b.table) || len(blocks) > b.cols {
		panic("kernel: too many sequences or KV blocks for the batch")
	}
	for _, id := range blocks {
		if id < 0 || int(id) >= b.blocks {
			panic(fmt.Sprintf("kernel: KV block %d of %d", id, b.blocks))
		}
	}
	// What the row holds past the blocks is of an earlier pass. Rows are long where
	// the context is, so it stays: Add refuses positions that would reach it.
	b.held = copy(b.table[row*b.cols:], blocks)
	b.c.n_seq++
}

// Add appends a token of the sequence added last. Its positions ascend by one.
// It panics when the batch is full, and on a position without a KV block.
func (b *Batch) Add(tok, pos int32) {
	i, row := int(b.c.n_tok), int32(b.c.n_seq)-1
	switch {
	case row < 0 || i >= len(b.tok) || tok < 0:
		panic("kernel: token without a sequence, or too many for the batch")
	case pos < 0 || int(pos)/KVBlock >= b.held:
		panic(fmt.Sprintf("kernel: position %d has no KV block", pos))
	case i > 0 && b.seq[i-1] == row && b.pos[i-1]+1 != pos:
		panic(fmt.Sprintf("kernel: position %d after %d", pos, b.pos[i-1]))
	}
	b.tok[i], b.pos[i], b.seq[i] = tok, pos, row
	b.c.n_tok++
}

// SetOut asks for the logits of these tokens, given by ascending index. It
// panics on indices out of order or range, and when they are too many.
func (b *Batch) SetOut(rows []int32) {
	if len(rows) > len(b.out) {
		panic(fmt.Sprintf("kernel: %d rows of logits, room for %d", len(rows), len(b.out)))
	}
	last := int32(-1)
	for i, r := range rows {
		if r <= last || r >= int32(b.c.n_tok) {
			panic(fmt.Sprintf("kernel: logits of token %d after %d, of %d", r, last, b.c.n_tok))
		}
		b.out[i], last = r, r
	}
	b.c.n_out = C.int32_t(len(rows))
}

// Tokens returns the ids of the tokens in the batch. They are the batch's
// memory, valid until it is reset.
func (b *Batch) Tokens() []int32 { return b.tok[:b.nTok()] }

// MaxTokens returns how many tokens the batch has room for.
func (b *Batch) MaxTokens() int { return len(b.tok) }

// MaxOut returns how many rows of logits the batch has room for.
func (b *Batch) MaxOut() int { return len(b.out) }

// Close frees the batch, not the KV blocks. Closing again does nothing.
func (b *Batch) Close() {
	if b.c == nil {
		return
	}
	for _, v := range [][]int32{b.tok, b.pos, b.seq, b.table, b.out} {
		free(unsafe.Pointer(unsafe.SliceData(v)))
	}
	free(unsafe.Pointer(b.c))
	*b = Batch{}
}

func (b *Batch) nTok() int { return int(b.c.n_tok) }
func (b *Batch) nOut() int { return int(b.c.n_out) }
