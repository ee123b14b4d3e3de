package nn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A Builder builds a Program. It stops at the first error, which Build returns.
type Builder struct {
	Config     *Config
	weights    Weights
	kv         kernel.KVTypes
	tiers      []Tier // of blocks that are older
	Program    *Program
	ops        []kernel.Op // of the current step
	slots      map[slot]kernel.Buf
	ropes      []Rope          // the tables that Begin computes
	caches     map[int]kvCache // by the window of the layers
	byDistance *kernel.Bias    // see Layer.bias
	distances  []int32         // see Layer.relative
	// x is only what the next sublayer reads, which stores its result there: see takeEpilogue
	storeNext bool
	// sublayers read the result of attention to blocks of the residual: see AttnRes
	readsAttnRes bool
	block        func(Layer)               // builds a layer
	residuals    string                    // the use of the buffer x, if not "x": see next
	role         role                      // of the layers that are being built
	crossed      []kvCache                 // by decoder layer: keys and values of the source, and behind them its own
	cuts         []Cut                     // of the layer of an encoder of rows: see Program.Cuts
	TensorPrefix string                    // how the names of all tensors of layers begin, if not with "blk."
	Target       *Config                   // of the model that a head drafts for; nil: this is none
	draft        func(b *Builder, h *Head) // builds the head of another file
}

// Build returns the program that model builds. head adds the head that drafts for the model, if the configuration has
// one and drafts; nil: its architecture is unknown.
func Build(cfg *Config, w Weights, kv kernel.KVTypes, tiers []Tier, model func(b *Builder),
	head func(b *Builder, h *Head)) (p *Program, err error) {
	defer stopped(&err)
	b := &Builder{
		Config: cfg, weights: w, kv: kv, tiers: tiers, draft: head, Program: &Program{}, slots: map[slot]kernel.Buf{},
		caches: map[int]kvCache{},
	}
	model(b)
	return b.Program, nil
}

// A slot identifies a buffer by its use. Layers reuse the same ones.
type slot struct {
	use  string
	kind kernel.BufKind
}

// Add appends an operation to the current step.
func (b *Builder) Add(op kernel.Op) { b.ops = append(b.ops, op) }

// Take returns the operations that were added since the last Take.
func (b *Builder) Take() []kernel.Op {
	ops := b.ops
	b.ops = nil
	return ops
}

// buf returns the buffer of a use, which the first call creates.
func (b *Builder) buf(use string, spec kernel.BufSpec) kernel.Buf {
	if spec.Kind == kernel.Route { // layers may have other numbers of experts
		use = fmt.Sprintf("%s of %d of %d", use, b.Config.NExpertUsed, b.Config.NExpert)
	}
	s := slot{use, spec.Kind}
	if id, ok := b.slots[s]; ok { // as wide as the widest layer needs it
		b.Program.Bufs[id].Width = max(b.Program.Bufs[id].Width, spec.Width)
		return id
	}
	if spec.Rows == kernel.PairRows || spec.Kind == kernel.Route {
		spec.NExpert, spec.NUsed = b.Config.NExpert, b.Config.NExpertUsed
	}
	id := kernel.Buf(len(b.Program.Bufs))
	b.Program.Bufs = append(b.Program.Bufs, spec)
	b.slots[s] = id
	return id
}

// state allocates g.Bytes for the current layer in each unit of the group of that name, which the first call creates.
// It returns the number of the group and the offset in a unit.
func (b *Builder) state(g kernel.Group) (group, offset int) {
	group = slices.IndexFunc(b.Program.Groups, func(o kernel.Group) bool { return o.Name == g.Name })
	if group < 0 {
		group = len(b.Program.Groups)
		b.Program.Groups = append(b.Program.Groups, g)
		return group, 0
	}
	offset = b.Program.Groups[group].Bytes
	b.Program.Groups[group].Bytes += g.Bytes
	return group, offset
}

// pageFloats is 4 KiB of floats. Rows at that distance share a set of the first-level cache: a product that writes one
// column of many rows would evict its own lines.
const pageFloats = 1024

// Floats returns the buffer of a use, of rows of at least width floats.
func (b *Builder) Floats(use string, rows kernel.RowSet, width int) kernel.Buf {
	w := kernel.Pad(width)
	if w%pageFloats == 0 {
		w += kernel.Pad(1)
	}
	return b.buf(use, kernel.BufSpec{Kind: kernel.Floats, Rows: rows, Width: w})
}

// Act returns the activations of a use, in the kinds that products with these matrices take.
func (b *Builder) Act(use string, rows kernel.RowSet, width int, mats ...kernel.Matrix) kernel.Act {
	a := kernel.Act{}
	for _, m := range mats {
		kind := m.Type.Act()
		a[kind] = b.buf(use, kernel.BufSpec{Kind: kind, Rows: rows, Width: kernel.Pad(max(width, m.In))})
	}
	return a
}

// X is the buffer of the residual.
func (b *Builder) X() kernel.Buf { return b.whole(cmp.Or(b.residuals, "x"), b.Config.NEmbd) }

// whole returns the buffer of a use that has rows of all tokens of a batch.
func (b *Builder) whole(use string, width int) kernel.Buf {
	id := b.Floats(use, kernel.TokRows, width)
	b.Program.Bufs[id].Whole = b.role == ofRows
	return id
}

// ropeTable returns the buffer with the rotations r of the tokens of a batch. Begin computes them once for all layers.
func (b *Builder) ropeTable(r Rope) kernel.Buf {
	i := slices.Index(b.ropes, r)
	if i < 0 {
		i = len(b.ropes)
		b.ropes = append(b.ropes, r)
	}
	return b.whole(fmt.Sprintf("rope %d", i), r.NRot)
}

// epsOf returns the epsilon of a norm of the residual of these rows.
func (c *Config) epsOf(rows kernel.RowSet) float32 {
	if rows == kernel.OutRows {
		return cmp.Or(c.OutputEps, c.Eps)
	}
	return c.Eps
}

// Norm returns the norm of src in act, by the kind of the model. A bias is used if the file has it.
func (b *Builder) Norm(act kernel.Act, src kernel.Buf, rows kernel.RowSet, name string) kernel.Norm {
	c := b.Config
	n := kernel.Norm{Act: act, Src: src, Rows: rows, Cols: c.NEmbd, Kind: c.Norm, Eps: c.epsOf(rows)}
	if c.BareNorms {
		return n
	}
	n.Weight, n.Bias = b.NormWeights(name, c.NEmbd), b.optional(name+".bias", c.NEmbd)
	return n
}

// Positions adds the embeddings of the positions of tokens, if the model has them.
func (b *Builder) Positions() {
	c := b.Config
	if !c.Positions {
		return
	}
	table := b.Table("position_embd.weight", c.NEmbd, c.NCtx)
	b.Add(kernel.Embed{Dst: b.X(), Table: table, By: kernel.ByPosition, Add: true, Scale: 1})
}

// Begin embeds the tokens, calls more, and computes the rotations of the layers.
func (b *Builder) Begin(more ...func()) {
	c := b.Config
	b.embedTokens()
	if c.EmbedNorm {
		b.Add(kernel.NormRows{
			Dst: b.X(), Src: b.X(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1,
		})
	}
	for _, add := range more {
		add()
	}
	for _, l := range c.Layers {
		if l.Rope.Style != kernel.RopeNone {
			b.ropeTable(l.Rope)
		}
	}
	for _, r := range b.ropes {
		b.rotations(r)
	}
	b.Program.Begin = b.Take()
}

// rotations computes the rotations r of the tokens of a batch.
func (b *Builder) rotations(r Rope) {
	freqs := must(b.weights.Rope(r))
	axes := r.Plane.axes(r.NRot / 2)
	if b.Config.Media {
		axes = r.sections()
	}
	b.Add(kernel.RopeTable{
		Dst: b.ropeTable(r), NRot: r.NRot, Freqs: freqs, Scale: r.Scale(), Shift: r.Shift, Axes: axes,
	})
}

// Layers calls build for each layer.
func (b *Builder) Layers(build func(l Layer)) {
	b.block = build
	for il, sizes := range b.Config.Layers {
		b.deepstack(il)
		b.taps(il)
		build(b.Layer(il, sizes))
		if il+1 == len(b.Config.Layers) {
			b.deepstack(il + 1)
		}
		b.Program.Layers = append(b.Program.Layers, b.Take())
	}
}

// named returns how the names of the tensors of layer il begin.
func (b *Builder) named(il int) string { return fmt.Sprintf("%sblk.%d.", b.TensorPrefix, il) }

// End adds the outputs: Logits and Vectors, of the residual after a norm; "" is none. If the model drafts, it adds what
// drafts.
func (b *Builder) End(norm string) {
	c := b.Config
	m := b.output()
	out := b.Floats("out", kernel.OutRows, c.NEmbd)
	last := m // what reads the norm
	if c.NNarrow > 0 {
		last = b.Matrix("output_proj.weight", c.NEmbd, c.NNarrow)
	}
	act := b.Act("out", kernel.OutRows, c.NEmbd, last)
	logits := b.Floats("logits", kernel.OutRows, c.NVocab)
	n := kernel.Norm{Act: act, Src: out, Rows: kernel.OutRows, Cols: c.NEmbd, Kind: kernel.NoNorm}
	if norm != "" {
		n = b.Norm(act, out, kernel.OutRows, norm)
	}
	b.Add(kernel.Gather{Dst: out, Src: b.X()})
	b.Add(n)
	if c.NNarrow > 0 {
		act = b.narrowOutput(act, last, m)
	}
	b.Add(kernel.Matmul{
		Dst: logits, Act: act, Rows: kernel.OutRows, Scale: c.LogitScale, Softcap: c.LogitCap,
		Parts: []kernel.Part{{Matrix: m, Bias: b.outputBias()}},
	})
	b.Program.Outputs = append(b.Program.Outputs, Output{Name: Logits, Ops: b.Take(), Buf: logits, Width: c.NVocab})

	b.Vectors(norm)
	switch {
	case c.Drafts && c.Head.Arch != "":
		b.draftHead(norm)
	case c.Drafts:
		b.next(norm)
	}
}

// outputBias returns what is added to logits; nil: nothing.
func (b *Builder) outputBias() []float32 {
	c := b.Config
	if c.Suppressed[1] == 0 {
		return b.optional("output.bias", c.NVocab)
	}
	return b.constants("output.unsaid", c.NVocab, func(id int) float64 {
		if id < c.Suppressed[0] || id >= c.Suppressed[1] {
			return 0
		}
		return -math.MaxFloat32
	})
}

// output returns the output matrix, which is the embedding if the file has none.
func (b *Builder) output() kernel.Matrix {
	name := outputMatrix
	if !b.Has(name) {
		name = b.Config.Embedding
	}
	return b.Matrix(name, cmp.Or(b.Config.NNarrow, b.Config.NEmbd), b.Config.NVocab)
}

// Vectors adds the output Vectors: the residual after a norm; "" is none.
func (b *Builder) Vectors(norm string) {
	c := b.Config
	out := b.Floats("out", kernel.OutRows, c.NEmbd)
	b.Add(kernel.Gather{Dst: out, Src: b.X()})
	b.Normed(out, out, kernel.OutRows, norm)
	b.Program.Outputs = append(b.Program.Outputs, Output{Name: Vectors, Ops: b.Take(), Buf: out, Width: c.NEmbd})
	b.scores(norm)
	b.pooledDense()
}
