package kernel

// #include "quern.h"
import "C"

import (
	"cmp"
	"math"
	"slices"
	"unsafe"
)

// Rope is the pairing of the dimensions that are rotated together.
type Rope int32

const (
	RopeNone Rope = C.QN_ROPE_NONE
	RopeNorm Rope = C.QN_ROPE_NORM // 2i and 2i+1
	RopeNeox Rope = C.QN_ROPE_NEOX // i and i + n_rot/2
)

// KVType is a type in which keys or values are stored.
type KVType int32

const (
	KVF16  KVType = C.QN_KV_F16
	KVF32  KVType = C.QN_KV_F32
	KVBF16 KVType = C.QN_KV_BF16
	KVI16  KVType = C.QN_KV_I16
	KVQ8   KVType = C.QN_KV_Q8
	KVQ4   KVType = C.QN_KV_Q4
)

// Integer reports whether the type is an integer with one scale for the channels of a head.
func (t KVType) Integer() bool { return t == KVI16 || t == KVQ8 || t == KVQ4 }

// KVTypes are the types of keys and of values.
type KVTypes struct{ K, V KVType }

// KVBytes returns the bytes of one layer's keys and values in a KV block. valueDim is 0 if values are
// channels of keys.
func KVBytes(t KVTypes, nHeadKV, headDim, valueDim int) int {
	return int(C.qn_kv_bytes(C.int32_t(t.K), C.int32_t(t.V), C.int32_t(nHeadKV), C.int32_t(headDim), C.int32_t(valueDim)))
}

// Heads is the shape of an attention, and the location of its queries, keys and values.
type Heads struct {
	NHead, NHeadKV int
	HeadDim        int  // of a query and a key
	ValueDim       int  // of a value; 0: HeadDim
	InKeys         bool // values are the first ValueDim channels of keys: there are no others
	KV             KVTypes
	Group          int    // of the batch, where keys and values are
	KVOffset       int    // of this layer inside a block of the group, in bytes
	QKV            Buf    // queries, keys and values of each token
	Col            [3]int // where in QKV each of them begins
	Tiers          []Tier // where blocks are that the group has no more
}

// A Tier is the location and the types of a layer's keys and values in blocks of another group.
type Tier struct {
	KV              KVTypes
	Group, KVOffset int
}

// in returns the shape in a tier.
func (h Heads) in(t Tier) Heads {
	h.KV, h.Group, h.KVOffset, h.Tiers = t.KV, t.Group, t.KVOffset, nil
	return h
}

// tiers sets the tiers of an attention.
func (h Heads) tiers(b *planBuilder, c *C.struct_qn_attend, window int) error {
	if len(h.Tiers) > len(c.tier) {
		return shapeErr("attention over blocks of %d groups", 1+len(h.Tiers))
	}
	c.n_tier = C.int32_t(len(h.Tiers))
	for i, t := range h.Tiers {
		b.use(groupUse{group: t.Group, bytes: h.in(t).reach(), window: window, heads: h.NHeadKV})
		c.tier[i] = C.struct_qn_tier{kv: place(t.Group, t.KVOffset), k_type: C.int32_t(t.KV.K), v_type: C.int32_t(t.KV.V)}
	}
	return nil
}

func (h Heads) valueDim() int { return cmp.Or(h.ValueDim, h.HeadDim) }

func (h Heads) fill(c *C.struct_qn_heads) error {
	if h.NHead < 1 || h.NHeadKV < 1 || h.HeadDim < 1 || h.ValueDim < 0 || h.NHead%h.NHeadKV != 0 {
		return shapeErr("attention of %d heads of %d over %d", h.NHead, h.HeadDim, h.NHeadKV)
	}
	*c = C.struct_qn_heads{
		kv:     place(h.Group, h.KVOffset),
		n_head: C.int32_t(h.NHead), n_head_kv: C.int32_t(h.NHeadKV),
		head_dim: C.int32_t(h.HeadDim), v_dim: C.int32_t(h.valueDim()), v_in_k: flag(h.InKeys),
		k_type: C.int32_t(h.KV.K), v_type: C.int32_t(h.KV.V),
	}
	return nil
}

// queries sets where the queries are.
func (h Heads) queries(b *planBuilder, c *C.struct_qn_cols) error {
	return b.cols(c, h.QKV, TokRows, h.Col[0], h.NHead*h.HeadDim)
}

// reach returns how far into a block the layer's keys and values extend.
func (h Heads) reach() int {
	kept := h.valueDim()
	if h.InKeys {
		kept = 0
	}
	return h.KVOffset + KVBytes(h.KV, h.NHeadKV, h.HeadDim, kept)
}

// StoreKV normalizes each head of the queries and keys, rotates them, scales the queries, and writes keys and values to
// the blocks of the group (struct qn_qkv).
type StoreKV struct {
	Heads
	Rope             Rope
	RopeAt, NRot     int
	Table            Buf // from RopeTable
	QNorm, KNorm     []float32
	RopeFirst        bool // the norms come after the rotation
	Eps              float32
	Scale            float32
	Temperature      Temperature
	QMul, KMul, VMul []float32 // of each kv head
	QueriesOnly      bool      // there are no keys and values: those that Attend reads are of another layer
}

// A Temperature scales queries by 1 + Scale * ln(floor((position + Offset) / Span) + 1), if Scale is not 0.
// If Beyond is not 0, queries at positions beyond it are scaled by ln(position) / ln(Beyond), and so is the
// soft cap of scores: see Attend.Beyond.
type Temperature struct {
	Scale        float32
	Span, Offset int
	Beyond       int
}

func (o StoreKV) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_QKV
	c := operands[C.struct_qn_qkv](op)
	if err := o.Heads.fill(&c.heads); err != nil {
		return err
	}
	for i, n := range [3]int{o.NHead * o.HeadDim, o.NHeadKV * o.HeadDim, o.NHeadKV * o.valueDim()} {
		if i == 2 && o.InKeys {
			break
		}
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.src, o.QKV, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	if c.q_only = flag(o.QueriesOnly); !o.QueriesOnly {
		b.use(groupUse{group: o.Group, bytes: o.reach(), window: 1, heads: o.NHeadKV})
	}
	if err := b.rotation(&c.rope, o.Rope, o.RopeAt, o.NRot, o.Table); err != nil {
		return err
	}
	c.rope_first, c.eps, c.scale = flag(o.RopeFirst), C.float(o.Eps), C.float(o.Scale)
	if t := o.Temperature; t.Scale != 0 {
		if t.Span < 1 || t.Span > math.MaxInt32 || t.Offset < 0 || t.Offset > math.MaxInt32 {
			return shapeErr("temperature of queries over %d positions from %d", t.Span, t.Offset)
		}
		c.temp, c.temp_span, c.temp_offset = C.float(t.Scale), C.int32_t(t.Span), C.int32_t(t.Offset)
	}
	if err := beyond(&c.temp_log, o.Temperature.Beyond); err != nil {
		return err
	}
	for _, v := range []struct {
		c **C.float
		v []float32
		n int
	}{
		{&c.q_norm, o.QNorm, o.HeadDim}, {&c.k_norm, o.KNorm, o.HeadDim},
		{&c.q_mul, o.QMul, o.NHeadKV * o.HeadDim}, {&c.k_mul, o.KMul, o.NHeadKV * o.HeadDim},
		{&c.v_mul, o.VMul, o.NHeadKV * o.valueDim()},
	} {
		if err := optional(b, v.c, v.v, v.n); err != nil {
			return err
		}
	}
	return nil
}

// rotation sets the rotation of n dimensions from number at on.
func (b *planBuilder) rotation(c *C.struct_qn_rotation, kind Rope, at, n int, table Buf) error {
	*c = C.struct_qn_rotation{kind: C.int32_t(kind), table: C.int32_t(none), at: C.int32_t(at), n: C.int32_t(n)}
	if kind == RopeNone {
		return nil
	}
	return b.floats(&c.table, table, TokRows, n)
}

// beyond sets the position from which scores grow.
func beyond(c *C.int32_t, n int) error {
	if n < 0 || n == 1 || n > math.MaxInt32 {
		return shapeErr("scores that grow beyond position %d", n)
	}
	*c = C.int32_t(n)
	return nil
}

// Attend computes Dst[t], the attention of token t's queries over the blocks of its sequence (struct qn_attend).
type Attend struct {
	Heads
	Dst      Buf
	Window   int       // positions that a token sees, with its own; 0: all
	Chunked  bool      // of them only those since the last multiple of Window
	Ahead    int       // positions after its own that a token sees, as far as its sequence goes in the batch
	Side     Side      // of a sequence with a source
	Sight    Sight     // of the span that a token is in (Batch.Span)
	Softcap  float32   // scores s become Softcap * tanh(s / Softcap); 0: they do not
	Beyond   int       // Softcap grows with positions beyond it as queries do, see Temperature; 0: it does not
	Bias     Bias      // what is added to scores, by distance
	Relative Relative  // what is added to scores instead, by distance and by what is there
	Sinks    []float32 // of each head: a score that takes part in the softmax and has no value
	Mul      []float32 // of each kv head: channels of the result are multiplied by it
	Best     int       // tokens with more positions, or entries, see the best of them that a Select chose; 0: all
	Chosen   Buf       // with Best
	Each     int       // with Best: positions that a number chosen stands for, and those behind the last whole Each are seen; 0: it is a position
	Near     int       // with Each: a multiple of it, the last so many positions that are seen, up to the end of the token's Each; 0: see there
	Apart    bool      // with Each: each kv head sees numbers of its own, Best of them after those of the one before
	Entries  Entries   // seen beside the positions in the window
	Blocks   Blocks    // which blocks of keys blocks of queries of a prompt see
}

// Blocks says that blocks of queries of a prompt see some of the blocks of keys, which a ChooseBlocks of the same attention
// has chosen before (struct qn_blocks). The zero value: they see all.
type Blocks struct {
	Mask  Buf     // Columns of each token
	Words int     // of 32 blocks, of a head; 0: all are seen
	From  int     // blocks of queries begin there or behind it: a multiple of KVBlock
	Part  float32 // of the weight that the chosen blocks have by an estimate; 1: all are chosen
}

// Columns returns how many columns Mask has for so many heads.
func (o Blocks) Columns(heads int) int { return (heads*o.Words + KVBlock - 1) / KVBlock }

// fill sets which blocks are seen.
func (o Blocks) fill(b *planBuilder, c *C.struct_qn_blocks, heads int) error {
	if o.Words == 0 {
		return nil
	}
	if o.Words < 0 || o.Words > C.QN_BLOCKS_WORDS_MAX || o.From < 0 || o.From > math.MaxInt32 {
		return shapeErr("%d words of blocks of keys, from position %d on", o.Words, o.From)
	}
	*c = C.struct_qn_blocks{words: C.int32_t(o.Words), from: C.int32_t(o.From), part: C.float(o.Part)}
	if !slices.Contains(b.blocks, o) { // layers have the same
		b.blocks = append(b.blocks, o)
	}
	return b.floats(&c.mask, o.Mask, TokRows, o.Columns(heads))
}

// ChooseBlocks chooses the blocks of keys that an Attend sees (struct qn_blocks), which follows with the same operands.
type ChooseBlocks struct{ Attend }

func (o ChooseBlocks) fill(b *planBuilder, op *C.struct_qn_op) error {
	err := o.Attend.fill(b, op)
	op.kind = C.QN_OP_BLOCKS
	return err
}

// Side is the positions that tokens may attend to in a sequence with a source. See Batch.Source.
type Side int

const (
	AnySide    Side = C.QN_SIDE_ANY
	OwnSide    Side = C.QN_SIDE_OWN    // those after the source
	SourceSide Side = C.QN_SIDE_SOURCE // all of the source, and no others
)

// Sight is what the span of a token is to its attention.
type Sight int

const (
	NoSight  Sight = C.QN_SIGHT_NONE
	AllSpan  Sight = C.QN_SIGHT_SPAN // it is seen whole, also what comes after the token
	OnlySpan Sight = C.QN_SIGHT_ONLY // it is seen, and nothing else
)

// A Bias is added to attention scores, by the distance of the key. The zero value is none.
type Bias struct {
	Span int       // keys further away count as at this distance
	By   []float32 // [heads][BiasWidth(Span)]
}

// BiasWidth is the number of values of a Bias per head: the one for keys i positions after the token's own
// (before it if i is negative) is at BiasAt(Span, i).
func BiasWidth(span int) int { return 2 * (span + KVBlock) }

// BiasAt returns the index of the value for keys i positions after the token's own. All values before the one
// for -span are equal to it, and all values after the one for span to that.
func BiasAt(span, i int) int { return span + KVBlock - 1 + i }

// A Relative is added to attention scores: of a query and a key at the distance d, that of the query less that of the key,
// column At[Span + d] of the head in ByQuery's row of the query, and in ByKey's row of the key (struct qn_relative). Pairs
// further apart than Span count as at that distance. The zero value is none.
type Relative struct {
	ByQuery, ByKey Buf     // [heads][Step] columns, or NoBuf
	N, Step        int     // columns of a head, and how far heads are apart: a multiple of Panel
	At             []int32 // [2 Span + 1]
}

// fill sets what is added to the scores of this number of heads.
func (o Relative) fill(b *planBuilder, c *C.struct_qn_relative, heads int) error {
	if o.At == nil {
		return nil
	}
	if len(o.At)%2 == 0 || len(o.At) > math.MaxInt32 || o.N < 1 || o.Step < o.N || o.Step > math.MaxInt32/heads {
		return shapeErr("attention by pairs of %d distances, of %d columns every %d", len(o.At), o.N, o.Step)
	}
	at := calloc(len(o.At), 4)
	b.owned = append(b.owned, at)
	copy(unsafe.Slice((*int32)(at), len(o.At)), o.At)
	*c = C.struct_qn_relative{
		at: (*C.int32_t)(at), by_query: C.int32_t(none), by_key: C.int32_t(none), n: C.int32_t(o.N),
		step: C.int32_t(o.Step), span: C.int32_t(len(o.At) / 2),
	}
	for _, side := range []struct {
		c   *C.int32_t
		buf Buf
	}{{&c.by_query, o.ByQuery}, {&c.by_key, o.ByKey}} {
		if side.buf == NoBuf {
			continue
		}
		if err := b.floats(side.c, side.buf, TokRows, (heads-1)*o.Step+o.N); err != nil {
			return err
		}
	}
	return nil
}

func (o Attend) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_ATTEND
	c := operands[C.struct_qn_attend](op)
	if o.Ahead < 0 || o.Ahead > math.MaxInt32 || o.Bias.Span < 0 || o.Bias.Span > math.MaxInt32 {
		return shapeErr("attention to %d positions ahead, with biases to a distance of %d", o.Ahead, o.Bias.Span)
	}
	if o.Window < 0 || o.Window > math.MaxInt32 || !(o.Softcap >= 0) {
		return shapeErr("attention with window %d and softcap %v", o.Window, o.Softcap)
	}
	if o.Best > 0 && o.Each > 0 && o.Window > 0 {
		return shapeErr("attention with window %d to spans that are chosen: they may be outside of it", o.Window)
	}
	if err := o.Heads.fill(&c.heads); err != nil {
		return err
	}
	if err := o.queries(b, &c.q); err != nil {
		return err
	}
	c.window, c.chunked, c.ahead, c.span = C.int32_t(o.Window), flag(o.Chunked), C.int32_t(o.Ahead), C.int32_t(o.Bias.Span)
	c.softcap, c.side, c.sight = C.float(o.Softcap), C.int32_t(o.Side), C.int32_t(o.Sight)
	b.sided = b.sided || o.Side != AnySide
	b.use(groupUse{group: o.Group, bytes: o.reach(), window: o.Window, heads: o.NHeadKV})
	if err := beyond(&c.temp_log, o.Beyond); err != nil {
		return err
	}
	if err := o.tiers(b, c, o.Window); err != nil {
		return err
	}
	if err := o.Entries.fill(b, &c.selection.entries, o.Heads); err != nil {
		return err
	}
	if s := &c.selection; o.Best > 0 {
		s.n, s.each = C.int32_t(o.Best), C.int32_t(o.Each)
		choices := 1
		if o.Each > 0 {
			s.near = C.int32_t(o.Near)
			if o.Apart {
				s.choices, choices = C.int32_t(o.NHeadKV), o.NHeadKV
			}
		}
		if err := b.floats(&c.chosen, o.Chosen, TokRows, choices*o.Best); err != nil {
			return err
		}
	}
	if err := optional(b, &c.bias, o.Bias.By, o.NHead*BiasWidth(o.Bias.Span)); err != nil {
		return err
	}
	if err := o.Relative.fill(b, &c.relative, o.NHead); err != nil {
		return err
	}
	if err := o.Blocks.fill(b, &c.blocks, o.NHead); err != nil {
		return err
	}
	if err := optional(b, &c.sinks, o.Sinks, o.NHead); err != nil {
		return err
	}
	if err := optional(b, &c.mul, o.Mul, o.NHeadKV*o.valueDim()); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.NHead*o.valueDim())
}

// Select chooses the N positions with the best scores for each token (struct qn_select). Src has the queries, as left by
// a StoreKV of the same heads that wrote the keys.
//
// With Each it chooses spans of that many positions instead, other than the last ones: see Attend.Near.
type Select struct {
	Heads
	Dst     Buf  // N columns, for each choice
	Weights Buf  // of each head
	Even    bool // heads weigh 1: there are no Weights
	N       int
	Entries Entries // chosen instead of positions
	Each    int     // positions of a span: a divisor or a multiple of KVBlock; 0: positions are chosen
	Near    int     // with Each: see Attend.Near
	Choices int     // with Each: of as many equal parts of the heads, each for itself; 0: 1
}

func (o Select) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_SELECT
	c := operands[C.struct_qn_select](op)
	if o.N < 1 || o.N > math.MaxInt32 || o.NHeadKV != 1 || !o.InKeys {
		return shapeErr("the best %d positions by %d heads of keys", o.N, o.NHeadKV)
	}
	if o.Each < 0 || o.Each > math.MaxInt32 || o.Near < 0 || o.Near > math.MaxInt32 || o.Choices < 0 || o.Choices > o.NHead {
		return shapeErr("%d choices of spans of %d, the last %d positions seen, by %d heads", o.Choices, o.Each, o.Near, o.NHead)
	}
	if err := o.Heads.fill(&c.heads); err != nil {
		return err
	}
	if err := o.queries(b, &c.q); err != nil {
		return err
	}
	if o.Entries.Every == 0 {
		b.use(groupUse{group: o.Group, bytes: o.reach()})
	}
	s := &c.selection
	if err := o.Entries.fill(b, &s.entries, o.Heads); err != nil {
		return err
	}
	s.n = C.int32_t(o.N)
	choices := 1
	if o.Each > 0 {
		choices = max(o.Choices, 1)
		s.each, s.near, s.choices = C.int32_t(o.Each), C.int32_t(o.Near), C.int32_t(choices)
	}
	if o.Even {
		c.weight = C.int32_t(none)
	} else if err := b.floats(&c.weight, o.Weights, TokRows, o.NHead); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, choices*o.N)
}
