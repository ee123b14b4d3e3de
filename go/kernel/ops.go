package kernel

// #include "quern.h"
import "C"

import (
	"cmp"
	"math"
	"unsafe"
)

// An Op is one operation of a plan: one of the structs of this package whose
// comment says what it computes.
type Op interface {
	// fill describes the operation to C, or says why it cannot be.
	fill(b *planBuilder, c *C.struct_qn_op) error
}

// Act names the buffers of activations that an operation writes, or that a
// matmul reads, by their kinds. See Type.Act.
type Act map[BufKind]Buf

// Embed is Dst[t] = Scale * row tok[t] of Table, which is in Rows.
type Embed struct {
	Dst   Buf
	Table Matrix
	By    Index
	Add   bool // Dst += it
	Scale float32
}

// An Index says which row a token looks up.
type Index int32

const (
	ByToken    Index = C.QN_INDEX_TOK
	ByPosition Index = C.QN_INDEX_POS
	First      Index = C.QN_INDEX_FIRST // the same row for all
)

func (o Embed) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_EMBED
	if o.Table.Layout != Rows || o.Table.N != 1 {
		return shapeErr("embedding table of layout %d", o.Table.Layout)
	}
	if err := b.matrix(&c.mat[0], o.Table); err != nil {
		return err
	}
	c.n_mat, c.index = 1, C.int32_t(o.By)
	c.scale = C.float(o.Scale)
	if o.Add {
		c.epilogue = C.QN_EPI_ADD
	}
	if o.By == ByPosition {
		b.positions = min(cmp.Or(b.positions, o.Table.Out), o.Table.Out)
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Table.In)
}

// RopeTable is Dst[t][i] = cos, sin of (pos[t] + Shift) * Freqs[i], times Scale. Freqs
// has one element for each pair of rotated dimensions.
type RopeTable struct {
	Dst   Buf
	NRot  int
	Freqs []float64
	Scale float32
	Shift int
}

func (o RopeTable) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_ROPE_TABLE
	c.n_rot = C.int32_t(o.NRot)
	c.scale, c.shift = C.float(o.Scale), C.int32_t(o.Shift)
	if err := vector(b, &c.freq, o.Freqs, o.NRot/2); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.NRot)
}

// Gather is Dst[i] = Src[out[i]]: the rows whose logits are requested.
type Gather struct{ Dst, Src Buf }

func (o Gather) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_GATHER
	if err := b.floats(&c.src, o.Src, TokRows, 1); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, OutRows, b.specs[o.Src].Width)
}

// NormKind is a way to normalise a row.
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

func (o Norm) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_NORM
	c.rows = C.int32_t(o.Rows)
	c.norm, c.eps = C.int32_t(o.Kind), C.float(o.Eps)
	c.n_col, c.col[0] = C.int32_t(o.Cols), C.int32_t(o.SrcCol)
	if err := b.floats(&c.src, o.Src, o.Rows, o.SrcCol+o.Cols); err != nil {
		return err
	}
	if err := optional(b, &c.vec, o.Weight, o.Cols); err != nil {
		return err
	}
	if err := optional(b, &c.vec2, o.Bias, o.Cols); err != nil {
		return err
	}
	return b.act(&c.act, o.Act, o.Rows)
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
}

func (o NormRows) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_NORM_ROWS
	c.rows = C.int32_t(o.Rows)
	c.norm, c.eps, c.scale = C.int32_t(o.Kind), C.float(o.Eps), C.float(o.Scale)
	c.n_col, c.n_seg = C.int32_t(o.Cols), C.int32_t(o.Segs)
	c.col[0], c.col[1] = C.int32_t(o.SrcCol), C.int32_t(o.DstCol)
	c.epilogue = C.int32_t(o.Epilogue)
	n := o.Cols
	if o.SegWeights {
		c.seg_weights = 1
		n *= o.Segs
	}
	if o.Cols < 1 || o.Segs < 1 || o.SrcCol < 0 || o.DstCol < 0 {
		return shapeErr("norm of %d segments of %d columns", o.Segs, o.Cols)
	}
	if err := b.floats(&c.src, o.Src, o.Rows, o.SrcCol+o.Cols*o.Segs); err != nil {
		return err
	}
	if err := b.floats(&c.dst, o.Dst, o.Rows, o.DstCol+o.Cols*o.Segs); err != nil {
		return err
	}
	if err := optional(b, &c.vec, o.Weight, n); err != nil {
		return err
	}
	return optional(b, &c.vec2, o.Bias, n)
}

// ToAct is Act = Cols columns of Src from SrcCol, or with HeadRows as many of each head.
type ToAct struct {
	Act    Act
	Src    Buf
	SrcCol int // a multiple of Panel
	Rows   RowSet
	Cols   int
	Route  Buf    // with PairRows
	Heads  Spread // with HeadRows
}

// A Spread says where the columns of heads lie in rows of tokens: Step from one to the next, which
// is a multiple of Panel. Of the zero value there are no heads.
type Spread struct{ N, Step int }

// fill sets the heads of an operation, each of which has n columns from col on, and returns
// how many columns that is. The activations of HeadRows are of as many heads.
func (s Spread) fill(c *C.struct_qn_op, col, n int) (int, error) {
	if s.N == 0 {
		return col + n, nil
	}
	if s.N < 0 || s.Step < n || s.Step%Panel != 0 || s.Step > math.MaxInt32/s.N || col < 0 {
		return 0, shapeErr("%d heads of %d columns, %d apart", s.N, n, s.Step)
	}
	c.n_seg, c.step = C.int32_t(s.N), C.int32_t(s.Step)
	return col + (s.N-1)*s.Step + n, nil
}

// of checks that activations are of these heads, where they are of any.
func (s Spread) of(b *planBuilder, a Act, rows RowSet) error {
	for _, buf := range a {
		if rows == HeadRows && b.has(buf) && b.specs[buf].NHead != s.N {
			return shapeErr("activations of %d heads, want %d", b.specs[buf].NHead, s.N)
		}
	}
	return nil
}

func (o ToAct) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_ACT
	c.rows = C.int32_t(o.Rows)
	c.n_col, c.col[0] = C.int32_t(o.Cols), C.int32_t(o.SrcCol)
	n, err := o.Heads.fill(c, o.SrcCol, o.Cols)
	if err != nil {
		return err
	}
	if err := b.floats(&c.src, o.Src, o.Rows.floats(), n); err != nil {
		return err
	}
	if err := o.Heads.of(b, o.Act, o.Rows); err != nil {
		return err
	}
	if o.Rows == PairRows {
		if err := b.route(c, &c.aux, o.Route); err != nil {
			return err
		}
	}
	return b.act(&c.act, o.Act, o.Rows)
}

// A Fn is a function of one number.
type Fn int32

const (
	NoFn    Fn = C.QN_FN_NONE // x itself: for Gate alone
	SiLU    Fn = C.QN_FN_SILU
	Sigmoid Fn = C.QN_FN_SIGMOID
	GELU    Fn = C.QN_FN_GELU     // the form with tanh
	GELUErf Fn = C.QN_FN_GELU_ERF // the form with erf
	ReLU    Fn = C.QN_FN_RELU     // max(x, 0)
	ReLU2   Fn = C.QN_FN_RELU2    // max(x, 0) squared
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
}

func (o Gate) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_GATE
	c.rows, c.fn = C.int32_t(o.Rows), C.int32_t(o.Fn)
	c.n_col = C.int32_t(o.Cols)
	c.col[0], c.col[1] = C.int32_t(o.SrcCol), C.int32_t(o.DstCol)
	if o.Segs < 0 || o.Segs > 0 && (o.Cols < 1 || o.Cols > math.MaxInt32/o.Segs) {
		return shapeErr("gates of %d segments of %d columns", o.Segs, o.Cols)
	}
	src, dst := o.Cols, o.Cols
	if o.ByRow {
		src, c.by_row = 1, 1
	}
	if o.Segs > 0 {
		src, dst, c.by_row, c.n_seg = o.Segs, o.Segs*o.Cols, 1, C.int32_t(o.Segs)
	}
	if err := b.floats(&c.src, o.Src, o.Rows, o.SrcCol+src); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, o.Rows, o.DstCol+dst)
}

// Epilogue says what is done with the products of a Matmul, after adding biases.
type Epilogue int32

const (
	Store Epilogue = C.QN_EPI_STORE // Dst = Scale * product
	Add   Epilogue = C.QN_EPI_ADD   // Dst += Scale * product
	GLU   Epilogue = C.QN_EPI_GLU   // Dst = Fn(first product) * second product
	Apply Epilogue = C.QN_EPI_FN    // Dst = Fn(product)
)

// A Part is one of the matrices of a Matmul.
type Part struct {
	Matrix
	Bias []float32 // of whole panels, for each of N matrices, or nil
	Col  int       // of Dst, where its product begins; a multiple of Panel
}

// MaxParts is how many matrices a Matmul may have.
const MaxParts = 3

// Matmul multiplies up to MaxParts matrices with the same activations. With
// PairRows each matrix is of all experts, or one is of a number of neighbours, and each pair uses its expert's. With
// HeadRows each is of all heads, and the results of a head go to its columns. With
// TokRows and Heads the rows of each matrix are those of one head after the other.
type Matmul struct {
	Dst      Buf
	Act      Act
	Rows     RowSet
	Route    Buf // with PairRows
	Parts    []Part
	Epilogue Epilogue
	Fn       Fn      // of GLU and Apply
	Scale    float32 // of Store and Add; 0: 1
	Softcap  float32 // with Store: Dst = Softcap * tanh(Scale * product / Softcap); 0: it is not
	Limit    float32 // of Store: results are within it on both sides; of GLU: the first product is at most Limit, the second within it; 0: none
	LimitFn  bool    // of GLU: Fn of the first product is at most Limit, not the product
	Heads    Spread
	Delta    Buf   // of Adapts, see Deltas
	Deltas   []int // columns of Delta from which on rows are added to the products of each part, before biases; -1 where none are; nil: of no part
}

func (o Matmul) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MATMUL
	c.rows = C.int32_t(o.Rows)
	c.epilogue, c.fn = C.int32_t(o.Epilogue), C.int32_t(o.Fn)
	c.scale, c.softcap, c.limit = C.float(cmp.Or(o.Scale, 1)), C.float(o.Softcap), C.float(o.Limit)
	if o.LimitFn {
		c.limit_fn = 1
	}
	if n := len(o.Parts); n < 1 || n > len(c.mat) || o.Epilogue == GLU && n != 2 {
		return shapeErr("matmul of %d matrices", n)
	}
	c.n_mat = C.int32_t(len(o.Parts))
	for i, p := range o.Parts {
		if p.Col < 0 || p.Col%Panel != 0 {
			return shapeErr("matmul into column %d", p.Col)
		}
		if err := b.matrix(&c.mat[i], p.Matrix); err != nil {
			return err
		}
		if err := optional(b, &c.bias[i], p.Bias, p.N*Pad(p.Out)); err != nil {
			return err
		}
		c.col[i] = C.int32_t(p.Col)
		each := p.Out
		if o.Heads.N > 0 && o.Rows != HeadRows {
			each /= o.Heads.N
		}
		n, err := o.Heads.fill(c, p.Col, each)
		if err != nil {
			return err
		}
		if err := b.floats(&c.dst, o.Dst, o.Rows.floats(), n); err != nil {
			return err
		}
		if i < len(o.Deltas) && o.Deltas[i] >= 0 {
			if o.Rows == HeadRows {
				return shapeErr("matmul of heads with adapters")
			}
			c.adapted |= 1 << i
			c.delta_col[i] = C.int32_t(o.Deltas[i])
			if err := b.floats(&c.delta, o.Delta, o.Rows, o.Deltas[i]+p.Out); err != nil {
				return err
			}
		}
		used, ok := o.Act[p.Type.Act()]
		if !ok || !b.has(used) || Pad(p.In) > Pad(b.specs[used].Width) {
			return shapeErr("matmul with %d columns of %v from buffers %v", p.In, p.Type, o.Act)
		}
	}
	if o.Rows == PairRows {
		if err := b.route(c, &c.aux, o.Route); err != nil {
			return err
		}
	}
	if err := o.Heads.of(b, o.Act, o.Rows); err != nil {
		return err
	}
	return b.act(&c.act, o.Act, o.Rows)
}

// Rope says which dimensions of a head are rotated together.
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

// Integer reports whether the channels of a head have one scale.
func (t KVType) Integer() bool { return t == KVI16 || t == KVQ8 || t == KVQ4 }

// KVTypes is the types of keys and of values.
type KVTypes struct{ K, V KVType }

// KVBytes returns the bytes of one layer's keys and values in a KV block. valueDim is 0 where
// values are channels of keys.
func KVBytes(t KVTypes, nHeadKV, headDim, valueDim int) int {
	return int(C.qn_kv_bytes(C.int32_t(t.K), C.int32_t(t.V), C.int32_t(nHeadKV), C.int32_t(headDim), C.int32_t(valueDim)))
}

// Heads is the shape of an attention, and where its queries, keys and values lie.
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

// A Tier is where a layer's keys and values are in blocks of another group, and how they are kept there.
type Tier struct {
	KV              KVTypes
	Group, KVOffset int
}

// in is the shape as it is in a tier.
func (h Heads) in(t Tier) Heads {
	h.KV, h.Group, h.KVOffset, h.Tiers = t.KV, t.Group, t.KVOffset, nil
	return h
}

// tiers sets the tiers of an operation that reads blocks.
func (h Heads) tiers(b *planBuilder, c *C.struct_qn_op, window int) error {
	if len(h.Tiers) > len(c.tier) {
		return shapeErr("attention over blocks of %d groups", 1+len(h.Tiers))
	}
	c.n_tier = C.int32_t(len(h.Tiers))
	for i, t := range h.Tiers {
		b.use(groupUse{group: t.Group, bytes: h.in(t).reach(), window: window})
		c.tier[i] = C.struct_qn_tier{kv_offset: C.int64_t(t.KVOffset), group: C.int32_t(t.Group), k_type: C.int32_t(t.KV.K), v_type: C.int32_t(t.KV.V)}
	}
	return nil
}

func (h Heads) valueDim() int { return cmp.Or(h.ValueDim, h.HeadDim) }

func (h Heads) fill(b *planBuilder, c *C.struct_qn_op) error {
	if h.NHead < 1 || h.NHeadKV < 1 || h.HeadDim < 1 || h.ValueDim < 0 || h.NHead%h.NHeadKV != 0 {
		return shapeErr("attention of %d heads of %d over %d", h.NHead, h.HeadDim, h.NHeadKV)
	}
	c.n_head, c.n_head_kv = C.int32_t(h.NHead), C.int32_t(h.NHeadKV)
	c.head_dim, c.v_dim = C.int32_t(h.HeadDim), C.int32_t(h.valueDim())
	c.k_type, c.v_type = C.int32_t(h.KV.K), C.int32_t(h.KV.V)
	if h.InKeys {
		c.v_in_k = 1
	}
	c.group, c.kv_offset = C.int32_t(h.Group), C.int64_t(h.KVOffset)
	for i, n := range [3]int{h.NHead * h.HeadDim, h.NHeadKV * h.HeadDim, h.NHeadKV * h.valueDim()} {
		if i == 2 && h.InKeys {
			break
		}
		c.col[i] = C.int32_t(h.Col[i])
		if err := b.floats(&c.src, h.QKV, TokRows, h.Col[i]+n); err != nil {
			return err
		}
	}
	return nil
}

// reach is how far into a block the layer's keys and values go.
func (h Heads) reach() int {
	kept := h.valueDim()
	if h.InKeys {
		kept = 0
	}
	return h.KVOffset + KVBytes(h.KV, h.NHeadKV, h.HeadDim, kept)
}

// StoreKV normalises each head of the queries and keys where QNorm and KNorm
// are set, rotates NRot of their dimensions from RopeAt on by Table, scales the queries,
// and writes keys and values into the blocks of the group. The channels of all three
// are last multiplied by QMul, KMul and VMul where these are set.
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

// A Temperature scales queries by 1 + Scale * ln(floor((position + Offset) / Span) + 1), where
// Scale is not 0. Where Beyond is not, queries at positions beyond it are scaled by ln(position) / ln(Beyond), and so is
// the soft cap of scores: see Attend.Beyond.
type Temperature struct {
	Scale        float32
	Span, Offset int
	Beyond       int
}

func (o StoreKV) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_QKV
	if o.QueriesOnly {
		c.q_only = 1
	} else {
		b.use(groupUse{group: o.Group, bytes: o.reach(), window: 1})
	}
	c.rope, c.rope_at, c.n_rot = C.int32_t(o.Rope), C.int32_t(o.RopeAt), C.int32_t(o.NRot)
	c.eps, c.scale = C.float(o.Eps), C.float(o.Scale)
	c.aux = C.int32_t(none)
	if o.Rope != RopeNone {
		if err := b.floats(&c.aux, o.Table, TokRows, o.NRot); err != nil {
			return err
		}
	}
	if o.RopeFirst {
		c.rope_first = 1
	}
	if t := o.Temperature; t.Scale != 0 {
		if t.Span < 1 || t.Span > math.MaxInt32 || t.Offset < 0 || t.Offset > math.MaxInt32 {
			return shapeErr("temperature of queries over %d positions from %d", t.Span, t.Offset)
		}
		c.temp, c.temp_span, c.temp_offset = C.float(t.Scale), C.int32_t(t.Span), C.int32_t(t.Offset)
	}
	if err := beyond(c, o.Temperature.Beyond); err != nil {
		return err
	}
	if err := optional(b, &c.vec, o.QNorm, o.HeadDim); err != nil {
		return err
	}
	if err := optional(b, &c.vec2, o.KNorm, o.HeadDim); err != nil {
		return err
	}
	for i, mul := range [][]float32{o.QMul, o.KMul, o.VMul} {
		dim := o.HeadDim
		if i == 2 {
			dim = o.valueDim()
		}
		if err := optional(b, &c.mul[i], mul, o.NHeadKV*dim); err != nil {
			return err
		}
	}
	return o.Heads.fill(b, c)
}

// beyond sets from where on scores grow with the position.
func beyond(c *C.struct_qn_op, n int) error {
	if n < 0 || n == 1 || n > math.MaxInt32 {
		return shapeErr("scores that grow beyond position %d", n)
	}
	c.temp_log = C.int32_t(n)
	return nil
}

// Attend is Dst[t] = the attention of token t's queries over the blocks of
// its sequence, up to its own position.
type Attend struct {
	Heads
	Dst     Buf
	Window  int       // positions that a token sees, with its own; 0: all
	Chunked bool      // of them only those since the last multiple of Window
	Ahead   int       // positions after its own that a token sees, as far as its sequence goes in the batch
	Side    Side      // of a sequence with a source
	Softcap float32   // scores s become Softcap * tanh(s / Softcap); 0: they do not
	Beyond  int       // Softcap grows with positions beyond it as queries do, see Temperature; 0: it does not
	Bias    Bias      // what is added to scores, by distance
	Sinks   []float32 // of each head: a score that takes part in the softmax and has no value
	Mul     []float32 // of each kv head: channels of the result are multiplied by it
	Best    int       // tokens with more positions, or entries, see the best of them that a Select chose; 0: all
	Chosen  Buf       // with Best
	Each    int       // with Best: positions that a number chosen stands for, and those behind the last whole Each are seen; 0: it is a position
	Near    int       // with Each: a multiple of it, the last so many positions that are seen, up to the end of the token's Each; 0: see there
	Apart   bool      // with Each: each kv head sees numbers of its own, Best of them after those of the one before
	Entries Entries   // seen beside the positions in the window
}

// Side is which positions of a sequence with a source a token may see. See Batch.Source.
type Side int

const (
	AnySide    Side = C.QN_SIDE_ANY
	OwnSide    Side = C.QN_SIDE_OWN    // those after the source
	SourceSide Side = C.QN_SIDE_SOURCE // all of the source, and no others
)

// A Bias is what is added to the scores of attention, by the distance of the key. The zero value is none.
type Bias struct {
	Span int       // keys further away count as at this distance
	By   []float32 // [heads][BiasWidth(Span)]
}

// BiasWidth is the numbers that a Bias has for a head: that of a key i positions after the token's own, or before
// it where i is negative, at BiasAt(Span, i).
func BiasWidth(span int) int { return 2 * (span + KVBlock) }

// BiasAt returns where a head has its number for keys i positions after the token's own; the numbers before that of
// -span are the same as it, and those after that of span.
func BiasAt(span, i int) int { return span + KVBlock - 1 + i }

func (o Attend) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_ATTEND
	if o.Ahead < 0 || o.Ahead > math.MaxInt32 || o.Bias.Span < 0 || o.Bias.Span > math.MaxInt32 {
		return shapeErr("attention to %d positions ahead, with biases to a distance of %d", o.Ahead, o.Bias.Span)
	}
	c.ahead, c.span = C.int32_t(o.Ahead), C.int32_t(o.Bias.Span)
	if o.Window < 0 || o.Window > math.MaxInt32 || !(o.Softcap >= 0) {
		return shapeErr("attention with window %d and softcap %v", o.Window, o.Softcap)
	}
	c.window, c.softcap = C.int32_t(o.Window), C.float(o.Softcap)
	if o.Chunked {
		c.chunked = 1
	}
	c.side = C.int32_t(o.Side)
	b.sided = b.sided || o.Side != AnySide
	b.use(groupUse{group: o.Group, bytes: o.reach(), window: o.Window})
	if err := beyond(c, o.Beyond); err != nil {
		return err
	}
	if err := o.tiers(b, c, o.Window); err != nil {
		return err
	}
	if err := o.Entries.fill(b, c, o.Heads); err != nil {
		return err
	}
	if o.Best > 0 {
		c.n_select, c.each = C.int32_t(o.Best), C.int32_t(o.Each)
		choices := 1
		if o.Each > 0 {
			c.window = C.int32_t(o.Near)
			if o.Apart {
				c.n_seg, choices = C.int32_t(o.NHeadKV), o.NHeadKV
			}
		}
		if err := b.floats(&c.aux, o.Chosen, TokRows, choices*o.Best); err != nil {
			return err
		}
	}
	if err := optional(b, &c.vec, o.Bias.By, o.NHead*BiasWidth(o.Bias.Span)); err != nil {
		return err
	}
	if err := optional(b, &c.vec2, o.Sinks, o.NHead); err != nil {
		return err
	}
	if err := optional(b, &c.mul[0], o.Mul, o.NHeadKV*o.valueDim()); err != nil {
		return err
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, o.NHead*o.valueDim()); err != nil {
		return err
	}
	return o.Heads.fill(b, c)
}

// Select chooses the N positions of each token with the best scores, of those up to its own: the
// sum over heads of a weight times max(query . key, 0). Src has the queries, as a StoreKV of
// the same heads left them that wrote their keys. Where there are no more positions than N it writes nothing.
//
// With Each it chooses spans of as many positions in place of positions, other than the last ones: see Attend.Near. A
// span scores as the best of its positions, whose scores may be below zero then.
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

func (o Select) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_SELECT
	if o.N < 1 || o.N > math.MaxInt32 || o.NHeadKV != 1 || !o.InKeys {
		return shapeErr("the best %d positions by %d heads of keys", o.N, o.NHeadKV)
	}
	if o.Entries.Every == 0 {
		b.use(groupUse{group: o.Group, bytes: o.reach()})
	}
	if err := o.Entries.fill(b, c, o.Heads); err != nil {
		return err
	}
	c.n_select = C.int32_t(o.N)
	if o.Each < 0 || o.Each > math.MaxInt32 || o.Near < 0 || o.Near > math.MaxInt32 || o.Choices < 0 || o.Choices > o.NHead {
		return shapeErr("%d choices of spans of %d, the last %d positions seen, by %d heads", o.Choices, o.Each, o.Near, o.NHead)
	}
	choices := 1
	if o.Each > 0 {
		choices = max(o.Choices, 1)
		c.each, c.window, c.n_seg = C.int32_t(o.Each), C.int32_t(o.Near), C.int32_t(choices)
	}
	if o.Even {
		c.aux = C.int32_t(none)
	} else if err := b.floats(&c.aux, o.Weights, TokRows, o.NHead); err != nil {
		return err
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, choices*o.N); err != nil {
		return err
	}
	return o.Heads.fill(b, c)
}

// Conv is a short convolution over the positions of a sequence: y = the sum over i of
// Weight[column][i] * u[t-(Taps-1)+i]. Src has a of each token, Cols wide, at Col, and u
// = a, Dst = y, or Fn(y) with Apply. Gated, Src has b and c as well, and u = a * c, Dst = b * y.
// What lies before the batch is the state of the sequence. There may be several results of the same u, with weights
// and biases of their own, one after the other in Dst.
type Conv struct {
	Dst, Src   Buf
	Col        [3]int // of a, b and c; multiples of Panel
	Gated      bool
	Cols, Taps int
	Results    int       // 0: 1
	Weight     []float32 // [Results][Cols][Taps]
	Bias       []float32 // [Results][Cols], added to y; nil: zeros
	Epilogue   Epilogue  // Store or Apply
	Fn         Fn        // of Apply
	Group      int       // of the batch, where the state is
	Offset     int       // of this layer inside the state, in bytes
}

// ConvBytes returns the bytes of the state of a Conv.
func ConvBytes(cols, taps int) int { return AlignUp((taps - 1) * cols * 4) }

func (o Conv) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_CONV
	results := cmp.Or(o.Results, 1)
	if o.Cols < 1 || o.Taps < 2 || o.Taps > math.MaxInt16 || results < 1 || results > math.MaxInt16 {
		return shapeErr("%d convolutions of %d columns and %d taps", results, o.Cols, o.Taps)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + ConvBytes(o.Cols, o.Taps), perSequence: true})
	c.n_col, c.n_tap, c.n_seg = C.int32_t(o.Cols), C.int32_t(o.Taps), C.int32_t(results)
	c.group, c.kv_offset = C.int32_t(o.Group), C.int64_t(o.Offset)
	c.epilogue, c.fn = C.int32_t(o.Epilogue), C.int32_t(o.Fn)
	for i, col := range o.Col {
		if i > 0 && !o.Gated {
			c.col[i] = -1
			continue
		}
		c.col[i] = C.int32_t(col)
		if err := b.floats(&c.src, o.Src, TokRows, col+o.Cols); err != nil {
			return err
		}
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, results*o.Cols); err != nil {
		return err
	}
	if err := optional(b, &c.vec2, o.Bias, results*o.Cols); err != nil {
		return err
	}
	return vector(b, &c.vec, o.Weight, results*o.Cols*o.Taps)
}

// Delta is the gated delta rule over the positions of a sequence. Each of NHead value
// heads has a state S of KeyDim rows and ValueDim columns, and of each token
//
//	x = b (v - g S'k),  S = g S + k x',  Dst = Scale * S'q
//	g = exp(Rate * softplus(a + Bias)),  b = sigmoid of the other gate
//
// with q and k of the value head's key head. ByChannel, each row of the state has its own g, which may have a bound:
// with Least, g = exp(Least * sigmoid(Rate * (a + Bias))), and no g is below e^Least.
type Delta struct {
	Dst             Buf
	Src             Buf    // queries and keys of the key heads, values
	Col             [3]int // where in Src each of them begins; multiples of Panel
	NHead, NHeadKey int
	KeyDim          int
	ValueDim        int  // a multiple of Panel
	Tiled           bool // value head h has key head h mod NHeadKey; else neighbours share one
	Gates           Buf  // of each GateHeads value heads the gates b, then a
	GateHeads       int
	ByChannel       bool      // Gates: GateHeads gates b, and behind them KeyDim numbers a of each head
	Bias, Rate      []float32 // of each value head; Bias also of each channel, ByChannel
	Least           float32   // below 0; 0: there is none
	Scale           float32
	Group           int // of the batch, where the state is
	Offset          int // of this layer inside the state, in bytes
}

// DeltaBytes returns the bytes of the state of a Delta.
func DeltaBytes(nHead, keyDim, valueDim int) int { return AlignUp(nHead * keyDim * valueDim * 4) }

func (o Delta) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_DELTA
	if o.NHead < 1 || o.NHeadKey < 1 || o.NHead%o.NHeadKey != 0 || o.KeyDim < 1 || o.ValueDim < 1 || o.ValueDim%Panel != 0 || o.GateHeads < 1 {
		return shapeErr("delta rule of %d heads of %d over %d of %d", o.NHead, o.ValueDim, o.NHeadKey, o.KeyDim)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + DeltaBytes(o.NHead, o.KeyDim, o.ValueDim), perSequence: true})
	c.n_head, c.n_head_kv = C.int32_t(o.NHead), C.int32_t(o.NHeadKey)
	c.head_dim, c.v_dim = C.int32_t(o.KeyDim), C.int32_t(o.ValueDim)
	c.n_seg, c.scale, c.limit = C.int32_t(o.GateHeads), C.float(o.Scale), C.float(o.Least)
	if o.Tiled {
		c.k_tiled = 1
	}
	c.group, c.kv_offset = C.int32_t(o.Group), C.int64_t(o.Offset)
	for i, n := range [3]int{o.NHeadKey * o.KeyDim, o.NHeadKey * o.KeyDim, o.NHead * o.ValueDim} {
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.src, o.Src, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	gates := (o.NHead-1)/o.GateHeads*2*o.GateHeads + (o.NHead-1)%o.GateHeads + o.GateHeads + 1
	biases := o.NHead
	if o.ByChannel {
		c.by_channel = 1
		biases = o.NHead * o.KeyDim
		gates = o.GateHeads + biases
	}
	if err := b.floats(&c.aux, o.Gates, TokRows, gates); err != nil {
		return err
	}
	if err := vector(b, &c.vec, o.Bias, biases); err != nil {
		return err
	}
	if err := vector(b, &c.vec2, o.Rate, o.NHead); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.NHead*o.ValueDim)
}

// Gating says what the weights of experts are.
type Gating int32

const (
	GateSoftmax Gating = C.QN_GATE_SOFTMAX // softmax of a router's logits
	GateSigmoid Gating = C.QN_GATE_SIGMOID // their sigmoids
	GateChosen  Gating = C.QN_GATE_CHOSEN  // softmax of the logits of the chosen experts alone
	GateMixer   Gating = C.QN_GATE_MIXER   // each choice: softmax of the logits that are left and nearly as large

	GateSqrtSoftplus Gating = C.QN_GATE_SQRT_SOFTPLUS // the root of their softplus
)

// MoeRoute chooses the experts of each token by its router logits in Src, those of the
// largest weights, and weighs them, times Scale. Of more than one group only the experts
// in the GroupsUsed best are considered; a group counts for its two best, or with BestOfGroup for its best alone.
type MoeRoute struct {
	Dst                Buf // of kind Route
	Src                Buf
	Gating             Gating
	Bias               []float32 // of each expert, added for the choice alone; nil: none
	Groups, GroupsUsed int
	BestOfGroup        bool
	Renorm             bool // the weights of the chosen sum to Scale
	Scale              float32
	Choice             []int32 // as many experts of each token of the vocabulary as it uses; nil: the best
}

func (o MoeRoute) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_ROUTE
	c.scale, c.gating = C.float(o.Scale), C.int32_t(o.Gating)
	c.n_group, c.n_group_used = C.int32_t(o.Groups), C.int32_t(o.GroupsUsed)
	if o.BestOfGroup {
		c.group_best = 1
	}
	if o.Renorm {
		c.norm_weights = 1
	}
	if err := b.route(c, &c.dst, o.Dst); err != nil {
		return err
	}
	if err := optional(b, &c.vec, o.Bias, b.specs[o.Dst].NExpert); err != nil {
		return err
	}
	if o.Choice != nil {
		c.choice = (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(o.Choice)))
	}
	return b.floats(&c.src, o.Src, TokRows, b.specs[o.Dst].NExpert)
}

// MoeGather copies the activations of each token in Src, Cols wide, to its
// pairs in Dst.
type MoeGather struct {
	Dst, Src Act
	Cols     int
	Route    Buf
	Weigh    bool // times the weight of the pair's expert
}

func (o MoeGather) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_GATHER
	c.n_col = C.int32_t(o.Cols)
	if o.Weigh {
		c.weigh_input = 1
	}
	if err := b.act(&c.src_act, o.Src, TokRows); err != nil {
		return err
	}
	if err := b.act(&c.act, o.Dst, PairRows); err != nil {
		return err
	}
	return b.route(c, &c.aux, o.Route)
}

// MoeCombine is Dst[t] += the sum over t's pairs, best expert first, of the
// expert's weight times Src[pair], or of Src[pair] where the input was weighed. With Store
// it is that sum.
type MoeCombine struct {
	Dst, Src, Route Buf
	Weighed, Store  bool
}

func (o MoeCombine) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_COMBINE
	if !o.Store {
		c.epilogue = C.QN_EPI_ADD
	}
	if o.Weighed {
		c.weigh_input = 1
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, 1); err != nil {
		return err
	}
	if err := b.floats(&c.src, o.Src, PairRows, b.specs[o.Dst].Width); err != nil {
		return err
	}
	return b.route(c, &c.aux, o.Route)
}

// XIELU is Dst = xielu(Dst), Cols columns: AlphaP x^2 + Beta x of positive x, else
// (e^min(x, Eps) - 1 - x) AlphaN + Beta x.
type XIELU struct {
	Dst  Buf
	Rows RowSet
	Cols int
	XIELUParams
}

// XIELUParams are the constants of an XIELU. Eps is at most 0.
type XIELUParams struct{ AlphaP, AlphaN, Beta, Eps float32 }

func (o XIELU) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_XIELU
	c.rows, c.n_col = C.int32_t(o.Rows), C.int32_t(o.Cols)
	c.xielu = [4]C.float{C.float(o.AlphaP), C.float(o.AlphaN), C.float(o.Beta), C.float(o.Eps)}
	return b.floats(&c.dst, o.Dst, o.Rows, o.Cols)
}

// planBuilder checks the operands of operations, and records whether all of them are
// allocated.
type planBuilder struct {
	specs []BufSpec
	uses  []groupUse
	// positions is how many the batch may have, where they are looked up; 0: any number.
	positions int
	unbound   bool
	sided     bool             // sequences of the batch have a source
	owned     []unsafe.Pointer // C memory that is the plan's
}

// A groupUse is what an operation requires of a group of the batch.
type groupUse struct {
	group       int
	bytes       int  // of a unit, as far as the operation reaches into it
	window      int  // positions that it looks at; 0: all
	perSequence bool // it replaces the state of the sequence
}

func (b *planBuilder) use(u groupUse) { b.uses = append(b.uses, u) }

func (b *planBuilder) has(buf Buf) bool { return buf >= 0 && int(buf) < len(b.specs) }

func (b *planBuilder) matrix(c *C.struct_qn_mat, m Matrix) error {
	if err := m.check(); err != nil {
		return err
	}
	b.unbound = b.unbound || m.Data == nil
	*c = m.c()
	return nil
}

// vector sets *c to v, which has at least n elements.
func vector[F C.float | C.double, T float32 | float64](b *planBuilder, c **F, v []T, n int) error {
	if v == nil {
		b.unbound = true
		*c = (*F)(unbound())
		return nil
	}
	if len(v) < n || n < 1 {
		return shapeErr("vector of %d, want %d", len(v), n)
	}
	*c = (*F)(unsafe.Pointer(unsafe.SliceData(v)))
	return nil
}

// optional is vector for one that may be absent: nil leaves *c as it is.
func optional(b *planBuilder, c **C.float, v []float32, n int) error {
	if v == nil {
		return nil
	}
	return vector(b, c, v, n)
}

// floats sets *c to buf, which holds floats for these rows in at least n columns.
func (b *planBuilder) floats(c *C.int32_t, buf Buf, rows RowSet, n int) error {
	if !b.has(buf) {
		return shapeErr("buffer %d of %d", buf, len(b.specs))
	}
	if s := b.specs[buf]; s.Kind != Floats || s.Rows != rows || s.Width < n {
		return shapeErr("buffer %d is %+v, want rows %d of at least %d floats", buf, s, rows, n)
	}
	*c = C.int32_t(buf)
	return nil
}

// act sets the activations of an operation over these rows.
func (b *planBuilder) act(c *[C.QN_N_ACT]C.int32_t, a Act, rows RowSet) error {
	if len(a) == 0 {
		return shapeErr("no activations")
	}
	for kind, buf := range a {
		if kind < ActF32 || kind > ActQ8x32Sum16 || !b.has(buf) || b.specs[buf].Kind != kind || b.specs[buf].Rows != rows {
			return shapeErr("buffer %d for activations", buf)
		}
		c[kind.act()] = C.int32_t(buf)
	}
	return nil
}

// route sets the routing of an operation, and its numbers of experts.
func (b *planBuilder) route(c *C.struct_qn_op, field *C.int32_t, buf Buf) error {
	if !b.has(buf) || b.specs[buf].Kind != Route {
		return shapeErr("buffer %d for a routing", buf)
	}
	*field = C.int32_t(buf)
	c.n_expert, c.n_used = C.int32_t(b.specs[buf].NExpert), C.int32_t(b.specs[buf].NUsed)
	return nil
}
