package nn

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// Encoders of rows: their tokens are the patches of a picture or the frames of a sound, which bring a row of numbers each
// (kernel.Batch.Bring) in place of a word. Each token sees all of them. They are more than a pass has, so that passes run
// over a part of the tokens at a time: the residual has all of them, and each layer runs first up to what it keeps of a
// token, its keys and values, for all tokens, and then its queries and the rest. What is kept is of one layer.

// ReadRowKeys returns the configuration of an encoder of rows whose keys begin with stem, such as "clip.vision". What read
// asks for comes after the sizes that all have.
func ReadRowKeys(f *gguf.File, stem string, read func(k *Keys)) (c *Config, err error) {
	defer stopped(&err)
	c = &Config{Arch: stem, EmbedScale: 1, ResidualScale: 1, LogitScale: 1, ExpertScale: 1}
	c.Name, _ = f.Str("general.name")
	k := &Keys{File: f, Config: c}
	c.NEmbd = k.Int("embedding_length", 1, MaxEmbd)
	c.Layers = make([]LayerConfig, k.IntOr("block_count", 0, 0, MaxLayer))
	c.Eps = float32(k.FloatOr("attention.layer_norm_epsilon", 1e-6, 0, 1))
	if len(c.Layers) > 0 {
		k.rowLayers()
	}
	read(k)
	return c, nil
}

// rowLayers reads the sizes of layers, which are the same in all.
func (k *Keys) rowLayers() {
	c := k.Config
	heads := k.Int("attention.head_count", 1, MaxHead)
	if c.NEmbd%heads != 0 || c.NEmbd/heads > MaxHeadDim {
		k.Fail("attention.head_count", "%d, want a divisor of the width, %d, with heads of at most %d", heads, c.NEmbd, MaxHeadDim)
	}
	n := c.NEmbd / heads
	for i := range c.Layers {
		c.Layers[i] = LayerConfig{
			NHead: heads, NHeadKV: heads, HeadDim: n, ValueDim: n, AttnScale: float32(1 / math.Sqrt(float64(n))),
			NFF: k.Int("feed_forward_length", 1, MaxFF),
		}
	}
}

// InPlane has all layers rotate queries and keys by the place of a patch.
func (k *Keys) InPlane(style kernel.Rope, base float64, p Plane) {
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		if l.HeadDim%4 != 0 {
			k.Fail("attention.head_count", "heads of %d dimensions, want a multiple of 4 to rotate by two places", l.HeadDim)
		}
		l.Rope = Rope{Style: style, NRot: l.HeadDim, Base: base, Scaling: NoScaling, Plane: p}
	}
}

// InHalves has all layers rotate one half of the dimensions of queries and keys by the column of a patch, and the other by its
// row.
func (k *Keys) InHalves(style kernel.Rope, base float64) {
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		if l.HeadDim%4 != 0 {
			k.Fail("attention.head_count", "heads of %d dimensions, want a multiple of 4 to rotate by two places", l.HeadDim)
		}
		half := Rope{Style: style, NRot: l.HeadDim / 2, Base: base, Scaling: NoScaling}
		l.Turned, l.Rope = half, half
		l.Turned.Plane.Axes, l.Rope.Plane.Axes = [2]int32{Across, Across}, [2]int32{Down, Down}
		l.Rope.At = half.NRot
	}
}

// InThirds has all layers rotate the second third of the dimensions of queries and keys by the row of a patch, and the last by
// its column. The first is for times of films, and what is left over is not rotated.
func (k *Keys) InThirds(style kernel.Rope, base float64) {
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		n := l.HeadDim / 6 * 2
		if n == 0 {
			k.Fail("attention.head_count", "heads of %d dimensions, want at least 6 to rotate by three places", l.HeadDim)
		}
		third := Rope{Style: style, NRot: n, Base: base, Scaling: NoScaling}
		l.Turned, l.Rope = third, third
		l.Turned.At, l.Turned.Plane.Axes = n, [2]int32{Down, Down}
		l.Rope.At, l.Rope.Plane.Axes = 2*n, [2]int32{Across, Across}
	}
}

// BuildRows returns the program of an encoder of rows that encoder builds.
func BuildRows(cfg *Config, w Weights, kv kernel.KVTypes, encoder func(b *Builder)) (p *Program, err error) {
	defer stopped(&err)
	b := &Builder{
		Config: cfg, weights: w, kv: kv, Program: &Program{}, slots: map[slot]kernel.Buf{}, caches: map[int]kvCache{},
		role: ofRows,
	}
	encoder(b)
	return b.Program, nil
}

// Patches is x = the sum of products of what tokens bring, the first `in` columns of it, after a norm with biases, if it is
// not "". The bias is that of the first matrix, if the file has it.
func (b *Builder) Patches(in int, norm string, names ...string) {
	n := b.Config.NEmbd
	rows := b.Floats("brought", kernel.TokRows, in)
	var mats []kernel.Matrix
	for _, name := range names {
		mats = append(mats, must(b.weights.Flat(name, in, n)))
	}
	act := b.Act("brought", kernel.TokRows, in, mats...)
	for i, m := range mats {
		b.Add(kernel.Input{Dst: rows, From: i * in, Cols: in, Clear: true})
		if norm == "" {
			b.Add(kernel.ToAct{Act: act, Src: rows, Cols: in})
		} else {
			b.Add(kernel.Norm{
				Act: act, Src: rows, Cols: in, Kind: b.Config.Norm, Eps: b.Config.Eps,
				Weight: b.NormWeights(norm, in), Bias: b.optional(norm+".bias", in),
			})
		}
		op := kernel.Matmul{Dst: b.X(), Act: b.Only(act, m), Parts: []kernel.Part{{Matrix: m}}}
		if i == 0 {
			op.Parts[0].Bias = b.optional(strings.TrimSuffix(names[0], ".weight")+".bias", n)
		} else {
			op.Epilogue, op.Scale = kernel.Add, 1
		}
		b.Add(op)
	}
}

// Brought adds columns of what tokens bring to x, from number `from` on: the embeddings of their positions.
func (b *Builder) Brought(from int) {
	b.Add(kernel.Input{Dst: b.X(), From: from, Cols: b.Config.NEmbd, Add: true})
}

// BroughtAlone is x = what tokens bring.
func (b *Builder) BroughtAlone() { b.Add(kernel.Input{Dst: b.X(), Cols: b.Config.NEmbd, Clear: true}) }

// BringMask has tokens bring a number for Mask, in that column.
func (b *Builder) BringMask(col int) {
	b.Add(kernel.Input{Dst: b.mask(), From: col, Cols: 1, Clear: true})
}

// Mask multiplies x by the number of each token, such as 0 for padding.
func (b *Builder) Mask() {
	b.Add(kernel.Gate{Dst: b.X(), Src: b.mask(), Cols: b.Config.NEmbd, Fn: kernel.NoFn, ByRow: true})
}

func (b *Builder) mask() kernel.Buf { return b.whole("mask", 1) }

// BegunRows ends what comes before the layers.
func (b *Builder) BegunRows() {
	b.Rotations()
	b.Program.Begin = b.Take()
}

// Rotations computes the rotations of the layers of b.Config by where tokens are.
func (b *Builder) Rotations() {
	for _, l := range b.Config.Layers {
		for _, r := range []Rope{l.Turned, l.Rope} {
			if r.Style != kernel.RopeNone {
				b.ropeTable(r)
			}
		}
	}
	for _, r := range b.ropes {
		b.rotations(r)
	}
}

// RowLayers calls build for each layer, and after for what is made of the results of each; nil: nothing is.
func (b *Builder) RowLayers(build func(l Layer), after func(il int)) {
	for il, sizes := range b.Config.Layers {
		b.rowLayer(b.Layer(il, sizes), build)
		if after != nil {
			after(il)
		}
	}
}

// RowLayer calls build for a layer of these sizes, whose tensors' names begin with prefix.
func (b *Builder) RowLayer(prefix string, sizes LayerConfig, build func(l Layer)) {
	b.rowLayer(Layer{b, sizes, 0, prefix}, build)
}

func (b *Builder) rowLayer(l Layer, build func(l Layer)) {
	b.cuts = nil
	build(l)
	b.Program.Layers = append(b.Program.Layers, b.Take())
	b.Program.Cuts = append(b.Program.Cuts, b.cuts)
}

// queriesApart ends a part of the layer, after keys and values are stored, and computes queries: from the residual again, which
// input normalises. So they are of a slice of the tokens, and those of all are kept nowhere.
func (l Layer) queriesApart(a Attention, q projection, heads kernel.Heads, even balance, input kernel.Op, act kernel.Act) {
	l.cut()
	l.Add(input)
	l.Add(kernel.Matmul{Dst: q.buf, Act: l.Only(act, q.parts[0].Matrix), Parts: q.parts[:1], Limit: l.Config.AttnLimit})
	if a.QKNorm.beforeStore() {
		l.normHeads(a.QKNorm, q, "attn_q_norm", q.col[0], l.NHead)
	}
	l.turn(heads, l.NHead, 0)
	store := l.store(a, heads, even)
	store.QueriesOnly = true
	l.Add(store)
}

// keepQueries ends the half of a layer that runs for all tokens before any attends, and returns the buffer with their
// queries.
func (l Layer) keepQueries(q projection) kernel.Buf {
	n := l.NHead * l.HeadDim
	kept := l.whole("queries", n)
	l.Add(kernel.NormRows{Dst: kept, Src: q.buf, SrcCol: q.col[0], Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
	l.cut()
	return kept
}

// cut ends a part of the layer, which runs for all tokens before what follows.
func (b *Builder) cut() { b.cuts = append(b.cuts, Cut{At: len(b.ops)}) }

// A Strand is rows that are made of those of an encoder's tokens, on their way to an output.
type Strand struct {
	b     *Builder
	buf   kernel.Buf
	of    int // tokens of a row
	Width int
}

// strand returns an empty one in a buffer of its own.
func (s Strand) strand(width int) Strand {
	use := fmt.Sprintf("row %d", len(s.b.Program.Bufs))
	return Strand{s.b, s.b.Floats(use, kernel.OutRows, width), s.of, width}
}

// Beside returns rows of n tokens side by side.
func (b *Builder) Beside(n int) Strand { return b.gathered(n, n*b.Config.NEmbd, false) }

// Mean returns the means of n tokens.
func (b *Builder) Mean(n int) Strand { return b.gathered(n, b.Config.NEmbd, true) }

func (b *Builder) gathered(n, width int, mean bool) Strand {
	if n > 1 && b.Config.NEmbd%kernel.Panel != 0 {
		check(fmt.Errorf("key %q: %d, want a multiple of %d to merge rows", b.Config.Arch+".embedding_length", b.Config.NEmbd,
			kernel.Panel))
	}
	s := Strand{b: b, of: n}.strand(width)
	op := kernel.Gather{Dst: s.buf, Src: b.X()}
	if n > 1 {
		op.N, op.Cols, op.Mean = n, b.Config.NEmbd, mean
	}
	b.Add(op)
	return s
}

// A Keep holds what several layers make of each token, side by side.
type Keep struct {
	b     *Builder
	buf   kernel.Buf
	width int
}

// Keep returns one of n layers. The width is a multiple of a panel.
func (b *Builder) Keep(n int) Keep {
	return Keep{b, b.whole("kept", n*b.Config.NEmbd), n * b.Config.NEmbd}
}

// Put keeps x as number i.
func (k Keep) Put(i int) {
	n := k.b.Config.NEmbd
	k.b.Add(kernel.NormRows{Dst: k.buf, DstCol: i * n, Src: k.b.X(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
}

// PutNormed keeps the norm of x as number i.
func (k Keep) PutNormed(i int, norm string) {
	b, n := k.b, k.b.Config.NEmbd
	b.Add(kernel.NormRows{
		Dst: k.buf, DstCol: i * n, Src: b.X(), Cols: n, Segs: 1, Kind: b.Config.Norm, Eps: b.Config.Eps, Scale: 1,
		Weight: b.NormWeights(norm, n), Bias: b.optional(norm+".bias", n),
	})
}

// bring has tokens bring all of what is kept, from column `from` on.
func (k Keep) bring(from int) {
	k.b.Add(kernel.Input{Dst: k.buf, From: from, Cols: k.width, Clear: true})
}

// Bring has tokens bring number i.
func (k Keep) Bring(i int) {
	n := k.b.Config.NEmbd
	k.b.Add(kernel.Input{Dst: k.buf, DstCol: i * n, Cols: n, Clear: true})
}

// Weigh has tokens bring rows of all that is kept side by side, and keeps their sum, times a weight of each number of each row.
func (k Keep) Weigh(name string, weights [][]float32) {
	b := k.b
	row := b.Floats("kept of a row", kernel.TokRows, k.width)
	n := b.Config.NEmbd
	for i, by := range weights {
		b.Add(kernel.Input{Dst: row, From: i * k.width, Cols: k.width, Clear: true})
		op := kernel.NormRows{
			Dst: k.buf, Src: row, Cols: k.width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Weight: b.constants(fmt.Sprintf("%s %d", name, i), k.width, func(c int) float64 { return float64(by[c/n]) }),
		}
		if i > 0 {
			op.Epilogue = kernel.Add
		}
		b.Add(op)
	}
}

// Strand returns rows of all that is kept of a token.
func (k Keep) Strand() Strand {
	s := Strand{b: k.b, of: 1}.strand(k.width)
	k.b.Add(kernel.Gather{Dst: s.buf, Src: k.buf})
	return s
}

// Norm normalises segments of as many columns as the weights of that name have; there may be biases.
func (s Strand) Norm(kind kernel.NormKind, name string) Strand {
	return s.NormEach(kind, s.Width, name)
}

// NormEach is Norm of segments of n columns each.
func (s Strand) NormEach(kind kernel.NormKind, n int, name string) Strand {
	op := kernel.NormRows{
		Dst: s.buf, Src: s.buf, Rows: kernel.OutRows, Cols: n, Segs: s.Width / n, Kind: kind, Scale: 1,
		Eps: cmp.Or(s.b.Config.PostEps, s.b.Config.Eps),
	}
	if name != "" {
		op.Weight, op.Bias = s.b.NormWeights(name, n), s.b.optional(name+".bias", n)
	}
	s.b.Add(op)
	return s
}

// Times multiplies rows by a number.
func (s Strand) Times(f float32) Strand {
	s.b.Add(kernel.NormRows{
		Dst: s.buf, Src: s.buf, Rows: kernel.OutRows, Cols: s.Width, Segs: 1, Kind: kernel.NoNorm, Scale: f,
	})
	return s
}

// Shifted is (rows - shift) * scale, by columns, by tensors of these names, if the file has them.
func (s Strand) Shifted(shift, scale string) Strand {
	b, n := s.b, s.Width
	if !b.Has(shift) || !b.Has(scale) {
		return s
	}
	by, less := b.Vector(scale, n), b.Vector(shift, n)
	s.b.Add(kernel.NormRows{
		Dst: s.buf, Src: s.buf, Rows: kernel.OutRows, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Weight: by,
		Bias: b.constants(shift+" times "+scale, kernel.Pad(n), func(i int) float64 { return -float64(less[i] * by[i]) }),
	})
	return s
}

// Product is the product with a matrix, plus a bias if the file has one. It has as many rows as the file says.
func (s Strand) Product(name string) Strand { return s.Applied(kernel.NoFn, name) }

// Applied is a function of Product.
func (s Strand) Applied(fn kernel.Fn, name string) Strand {
	m := must(s.b.weights.Flat(name+".weight", s.Width, s.Rows(name)))
	return s.product(m, kernel.Part{Matrix: m, Bias: s.b.optional(name+".bias", m.Out)}, fn)
}

// Function is a function of each number.
func (s Strand) Function(fn kernel.Fn) Strand {
	to, n := s.strand(s.Width), kernel.Pad(s.Width)
	s.b.Add(kernel.NormRows{
		Dst: to.buf, Src: s.buf, Rows: kernel.OutRows, Cols: s.Width, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		Weight: s.b.constants(fmt.Sprintf("%d zeros", n), n, func(int) float64 { return 0 }),
		Bias:   s.b.constants(fmt.Sprintf("%d ones", n), n, func(int) float64 { return 1 }),
	})
	s.b.Add(kernel.Gate{Dst: to.buf, Src: s.buf, Rows: kernel.OutRows, Cols: s.Width, Fn: fn})
	return to
}

// Constant returns rows of these numbers, which are whole panels.
func (s Strand) Constant(name string, numbers []float32) Strand {
	to, n := s.strand(len(numbers)), len(numbers)
	s.b.Add(kernel.NormRows{
		Dst: to.buf, Src: s.buf, Rows: kernel.OutRows, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
		Weight: s.b.constants(fmt.Sprintf("%d zeros", n), n, func(int) float64 { return 0 }),
		Bias:   s.b.constants(name, n, func(i int) float64 { return float64(numbers[i]) }),
	})
	return to
}

// Transposed is Product with a matrix that the file has the other way round.
func (s Strand) Transposed(name string, out int) Strand {
	m := must(s.b.weights.Transposed(name+".weight", out, s.Width, 0, s.Width, 1))
	return s.product(m, kernel.Part{Matrix: m}, kernel.NoFn)
}

// Merged is Product of the rows of n tokens side by side with a matrix that has the columns of a convolution: for each of
// theirs one of each token, in succession.
func (s Strand) Merged(name string, n int) Strand {
	m := must(s.b.weights.Regrouped(name+".weight", s.Width, s.Rows(name), n))
	return s.product(m, kernel.Part{Matrix: m, Bias: s.b.optional(name+".bias", m.Out)}, kernel.NoFn)
}

// Gated is fn(gate(rows)) * up(rows).
func (s Strand) Gated(fn kernel.Fn, gate, up string) Strand {
	n := s.Rows(gate)
	g, u := s.b.Matrix(gate+".weight", s.Width, n), s.b.Matrix(up+".weight", s.Width, n)
	return s.products([]kernel.Part{
		{Matrix: g, Bias: s.b.optional(gate+".bias", n)}, {Matrix: u, Bias: s.b.optional(up+".bias", n)},
	}, kernel.Matmul{Epilogue: kernel.GLU, Fn: fn})
}

// Halves is the first half of the rows of a matrix, times a function of the second: its two halves are those of Gated.
func (s Strand) Halves(fn kernel.Fn, name string) Strand {
	n := s.Rows(name) / 2
	half := func(i int) kernel.Part {
		return kernel.Part{Matrix: must(s.b.weights.Part(name+".weight", s.Width, 2*n, i*n, n, 1))}
	}
	return s.products([]kernel.Part{half(1), half(0)}, kernel.Matmul{Epilogue: kernel.GLU, Fn: fn})
}

// Rows returns how many rows a matrix of the file has.
func (s Strand) Rows(name string) int {
	n := s.b.weights.Rows(name + ".weight")
	if n < 1 || n > MaxFF {
		check(fmt.Errorf("tensor %q: missing, or not of 1 to %d rows", name+".weight", MaxFF))
	}
	return n
}

func (s Strand) product(m kernel.Matrix, part kernel.Part, fn kernel.Fn) Strand {
	op := kernel.Matmul{}
	if fn != kernel.NoFn {
		op.Epilogue, op.Fn = kernel.Apply, fn
	}
	return s.products([]kernel.Part{part}, op)
}

func (s Strand) products(parts []kernel.Part, op kernel.Matmul) Strand {
	var mats []kernel.Matrix
	for _, p := range parts {
		mats = append(mats, p.Matrix)
	}
	act := s.b.Act(fmt.Sprintf("row %d", len(s.b.Program.Bufs)), kernel.OutRows, s.Width, mats...)
	s.b.Add(kernel.ToAct{Act: act, Src: s.buf, Rows: kernel.OutRows, Cols: s.Width})
	to := s.strand(mats[0].Out)
	op.Dst, op.Act, op.Rows, op.Parts = to.buf, act, kernel.OutRows, parts
	s.b.Add(op)
	return to
}

// Plus adds the rows of another strand.
func (s Strand) Plus(other Strand) Strand {
	s.b.Add(kernel.NormRows{
		Dst: s.buf, Src: other.buf, Rows: kernel.OutRows, Cols: s.Width, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
	})
	return s
}

// Again has what follows run over the rows in place of the tokens that they are made of. Each brings its row, and columns
// behind it that the input has. The layers are those of c, or if it is nil of the same. It begins with begin, or if that is nil
// with x = the row.
func (s Strand) Again(c *Config, begin func()) {
	b := s.b
	b.Program.Outputs = append(b.Program.Outputs, Output{
		Name: Between, Ops: b.Take(), Buf: s.buf, Width: s.Width, After: len(b.Program.Layers), Of: cmp.Or(s.of, 1),
	})
	if c != nil {
		b.Config, b.residuals = c, fmt.Sprintf("x behind output %d", len(b.Program.Outputs))
	}
	b.rowLayer(Layer{Builder: b}, func(Layer) {
		if begin == nil {
			begin = b.BroughtAlone
		}
		begin()
		if c == nil { // whose layers turn by the places of these tokens
			for _, r := range b.ropes {
				b.rotations(r)
			}
		}
	})
}

// Out makes the rows columns of the output Embeddings, behind those that earlier calls made: what the layers so far make, or
// with none of them what is before the first.
func (s Strand) Out() {
	s.b.Program.Outputs = append(s.b.Program.Outputs, Output{
		Name: Embeddings, Ops: s.b.Take(), Buf: s.buf, Width: s.Width, After: len(s.b.Program.Layers), Of: cmp.Or(s.of, 1),
	})
}
