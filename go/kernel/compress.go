package kernel

// #include "quern.h"
import "C"

// Entries are keys that each stand for Every positions, written by a Compress; Every 0 is none.
type Entries struct {
	Every  int // a divisor or a multiple of KVBlock, at least 2
	Group  int // of the batch, where they are
	Offset int // of this layer inside a block of the group, in bytes
}

// EntryBytes returns the bytes of one layer's entries in a block.
func EntryBytes(t KVTypes, headDim, every int) int {
	return int(C.qn_entry_bytes(C.int32_t(t.K), C.int32_t(headDim), C.int32_t(every)))
}

// maxEvery is the maximum number of positions per entry.
const maxEvery = 1024

func (e Entries) fill(b *planBuilder, c *C.struct_qn_entries, h Heads) error {
	if e.Every == 0 {
		return nil
	}
	if e.Every < 2 || e.Every > maxEvery || h.NHeadKV != 1 || !h.InKeys {
		return shapeErr("entries of %d positions of %d heads", e.Every, h.NHeadKV)
	}
	b.use(groupUse{group: e.Group, bytes: e.Offset + EntryBytes(h.KV, h.HeadDim, e.Every)})
	c.every, c.at = C.int32_t(e.Every), place(e.Group, e.Offset)
	return nil
}

// Compress makes keys that stand for several positions (struct qn_compress; DeepSeek-AI 2026, "DeepSeek-V4"). Each token
// gives Parts times Dim numbers and, unless Even, as many weights.
type Compress struct {
	Src     Buf
	Col     [2]int // where in Src x and the weights begin; multiples of Panel
	Even    bool   // there are no weights, and nothing to add to them
	Dim     int    // a multiple of Panel
	Parts   int    // 1 or 2
	Add     []float32
	Norm    []float32
	Eps     float32
	Rope    Rope
	RopeAt  int
	NRot    int
	Table   Buf // from RopeTable
	KV      KVTypes
	Group   int // of the batch, where what tokens give is: it has a window of Window(), at least
	Offset  int // of this layer inside a block of the group, in bytes
	Entries Entries
}

// Window is the number of positions that an entry is computed from.
func (o Compress) Window() int { return o.Parts * o.Entries.Every }

// CompressBytes returns the bytes of the inputs of entries in a block.
func CompressBytes(dim, parts int) int { return KVBlock * 2 * parts * dim * 4 }

func (o Compress) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_COMPRESS
	c := operands[C.struct_qn_compress](op)
	if o.Dim < 1 || o.Parts < 1 || o.Parts > 2 || o.Entries.Every < 2 {
		return shapeErr("entries of %d times %d positions of %d channels", o.Parts, o.Entries.Every, o.Dim)
	}
	width := o.Parts * o.Dim
	b.use(groupUse{group: o.Group, bytes: o.Offset + CompressBytes(o.Dim, o.Parts), window: o.Window()})
	if err := o.Entries.fill(b, &c.entries, Heads{NHeadKV: 1, InKeys: true, HeadDim: o.Dim, KV: o.KV}); err != nil {
		return err
	}
	c.n_part, c.head_dim, c.k_type = C.int32_t(o.Parts), C.int32_t(o.Dim), C.int32_t(o.KV.K)
	c.inputs, c.eps = place(o.Group, o.Offset), C.float(o.Eps)
	if err := b.rotation(&c.rope, o.Rope, o.RopeAt, o.NRot, o.Table); err != nil {
		return err
	}
	for i, col := range o.Col {
		if i > 0 && o.Even {
			c.col[i] = -1
			continue
		}
		c.col[i] = C.int32_t(col)
		if err := b.floats(&c.src, o.Src, TokRows, col+width); err != nil {
			return err
		}
	}
	if !o.Even {
		if err := vector(b, &c.add, o.Add, o.Entries.Every*width); err != nil {
			return err
		}
	}
	return vector(b, &c.norm, o.Norm, o.Dim)
}
