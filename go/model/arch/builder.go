package arch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A builder builds a Program. The first error is a stop.
type builder struct {
	cfg          *Config
	w            Weights
	kv           kernel.KVTypes
	tiers        []Tier // of blocks that are older
	p            *Program
	ops          []kernel.Op // of the current step
	slots        map[slot]kernel.Buf
	ropes        []Rope                    // the tables that Begin computes
	caches       map[int]kvCache           // by the window of the layers
	byDistance   *kernel.Bias              // see layer.bias
	storeNext    bool                      // x is only what the next sublayer reads, which stores its result there: see takeEpilogue
	readsAttnRes bool                      // sublayers read the result of attention to blocks of the residual: see attnRes
	block        func(layer)               // builds a layer
	residuals    string                    // the use of the buffer x, if not "x": see next
	role         role                      // of the layers that are being built
	crossed      []kvCache                 // by decoder layer: keys and values of the source, and behind them its own
	stem         string                    // how the names of all tensors of layers begin, if not with "blk."
	of           *Config                   // of the model that a head drafts for; nil: this is none
	draft        func(b *builder, h *Head) // builds the head of another file
}

// buildProgram returns the program that model builds, with what head adds if the configuration has a head that is to draft.
func buildProgram(cfg *Config, w Weights, kv kernel.KVTypes, tiers []Tier, model func(b *builder), head func(b *builder, h *Head)) (p *Program, err error) {
	defer stopped(&err)
	b := &builder{
		cfg: cfg, w: w, kv: kv, tiers: tiers, draft: head, p: &Program{}, slots: map[slot]kernel.Buf{}, caches: map[int]kvCache{},
	}
	model(b)
	return b.p, nil
}

// A slot identifies a buffer by its use. Layers reuse the same ones.
type slot struct {
	use  string
	kind kernel.BufKind
}

func (b *builder) add(op kernel.Op) { b.ops = append(b.ops, op) }

// take returns the operations since the last take.
func (b *builder) take() []kernel.Op {
	ops := b.ops
	b.ops = nil
	return ops
}

// buf returns the buffer for a use, created on first use.
func (b *builder) buf(use string, spec kernel.BufSpec) kernel.Buf {
	s := slot{use, spec.Kind}
	if id, ok := b.slots[s]; ok { // as wide as the widest layer needs it
		b.p.Bufs[id].Width = max(b.p.Bufs[id].Width, spec.Width)
		return id
	}
	if spec.Rows == kernel.PairRows || spec.Kind == kernel.Route {
		spec.NExpert, spec.NUsed = b.cfg.NExpert, b.cfg.NExpertUsed
	}
	id := kernel.Buf(len(b.p.Bufs))
	b.p.Bufs = append(b.p.Bufs, spec)
	b.slots[s] = id
	return id
}

// state allocates g.Bytes for the current layer in each unit of the group of that name,
// which is created on first use, and returns the group's number and the offset in a
// unit.
func (b *builder) state(g kernel.Group) (group, offset int) {
	group = slices.IndexFunc(b.p.Groups, func(o kernel.Group) bool { return o.Name == g.Name })
	if group < 0 {
		group = len(b.p.Groups)
		b.p.Groups = append(b.p.Groups, g)
		return group, 0
	}
	offset = b.p.Groups[group].Bytes
	b.p.Groups[group].Bytes += g.Bytes
	return group, offset
}

// pageFloats is 4 KiB of floats. Rows that far apart share a set of the
// first-level cache: a product that writes one column of many would evict its
// own lines.
const pageFloats = 1024

// floats returns rows of at least width floats for a use.
func (b *builder) floats(use string, rows kernel.RowSet, width int) kernel.Buf {
	w := kernel.Pad(width)
	if w%pageFloats == 0 {
		w += kernel.Pad(1)
	}
	return b.buf(use, kernel.BufSpec{Kind: kernel.Floats, Rows: rows, Width: w})
}

// act returns activations for a use: of the kinds that products with these
// matrices take.
func (b *builder) act(use string, rows kernel.RowSet, width int, mats ...kernel.Matrix) kernel.Act {
	a := kernel.Act{}
	for _, m := range mats {
		kind := m.Type.Act()
		a[kind] = b.buf(use, kernel.BufSpec{Kind: kind, Rows: rows, Width: kernel.Pad(width)})
	}
	return a
}

func (b *builder) x() kernel.Buf {
	return b.floats(cmp.Or(b.residuals, "x"), kernel.TokRows, b.cfg.NEmbd)
}

// ropeTable returns the rotations of r for the tokens of a batch. Begin computes
// them once for all layers.
func (b *builder) ropeTable(r Rope) kernel.Buf {
	i := slices.Index(b.ropes, r)
	if i < 0 {
		i = len(b.ropes)
		b.ropes = append(b.ropes, r)
	}
	return b.floats(fmt.Sprintf("rope %d", i), kernel.TokRows, r.NRot)
}

// norm returns the model's norm of src into act. The bias is used where the file
// has it.
func (b *builder) norm(act kernel.Act, src kernel.Buf, rows kernel.RowSet, name string) kernel.Norm {
	c := b.cfg
	n := kernel.Norm{Act: act, Src: src, Rows: rows, Cols: c.NEmbd, Kind: c.Norm, Eps: c.Eps}
	if c.BareNorms {
		return n
	}
	n.Weight, n.Bias = b.normWeights(name, c.NEmbd), b.optional(name+".bias", c.NEmbd)
	return n
}

// positions adds the embeddings of the tokens' positions, where the model has some.
func (b *builder) positions() {
	c := b.cfg
	if !c.Positions {
		return
	}
	table := b.table("position_embd.weight", c.NEmbd, c.NCtx)
	b.add(kernel.Embed{Dst: b.x(), Table: table, By: kernel.ByPosition, Add: true, Scale: 1})
}

// begin embeds the tokens, adds what else an architecture begins with, and computes the
// rotations of their positions.
func (b *builder) begin(more ...func()) {
	c := b.cfg
	table := b.table("token_embd.weight", c.NEmbd, c.NVocab)
	b.add(kernel.Embed{Dst: b.x(), Table: table, Scale: c.EmbedScale})
	if c.EmbedNorm {
		b.add(kernel.NormRows{Dst: b.x(), Src: b.x(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1})
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
	b.p.Begin = b.take()
}

// rotations computes those of r for the tokens of a batch.
func (b *builder) rotations(r Rope) {
	freqs := must(b.w.Rope(r))
	b.add(kernel.RopeTable{Dst: b.ropeTable(r), NRot: r.NRot, Freqs: freqs, Scale: r.Scale(), Shift: r.Shift})
}

// layers builds each layer.
func (b *builder) layers(build func(l layer)) {
	b.block = build
	for il, sizes := range b.cfg.Layers {
		b.taps(il)
		build(b.layer(il, sizes))
		b.p.Layers = append(b.p.Layers, b.take())
	}
}

// named is how the names of a layer's tensors begin.
func (b *builder) named(il int) string { return fmt.Sprintf("%sblk.%d.", b.stem, il) }

// end normalises the residual, where norm names one, which is one output, and turns it into logits,
// the other.
func (b *builder) end(norm string) {
	c := b.cfg
	m := b.output()
	out := b.floats("out", kernel.OutRows, c.NEmbd)
	act := b.act("out", kernel.OutRows, c.NEmbd, m)
	logits := b.floats("logits", kernel.OutRows, c.NVocab)
	n := kernel.Norm{Act: act, Src: out, Rows: kernel.OutRows, Cols: c.NEmbd, Kind: kernel.NoNorm}
	if norm != "" {
		n = b.norm(act, out, kernel.OutRows, norm)
	}
	b.add(kernel.Gather{Dst: out, Src: b.x()})
	b.add(n)
	b.add(kernel.Matmul{
		Dst: logits, Act: act, Rows: kernel.OutRows, Scale: c.LogitScale, Softcap: c.LogitCap,
		Parts: []kernel.Part{{Matrix: m, Bias: b.outputBias()}},
	})
	b.p.Outputs = append(b.p.Outputs, Output{Name: Logits, Ops: b.take(), Buf: logits, Width: c.NVocab})

	b.vectors(norm)
	switch {
	case c.Drafts && c.Head.Arch != "":
		b.draftHead(norm)
	case c.Drafts:
		b.next(norm)
	}
}

// outputBias returns what is added to logits, where something is.
func (b *builder) outputBias() []float32 {
	c := b.cfg
	if c.Unsaid[1] == 0 {
		return b.optional("output.bias", c.NVocab)
	}
	return b.constants("output.unsaid", c.NVocab, func(id int) float64 {
		if id < c.Unsaid[0] || id >= c.Unsaid[1] {
			return 0
		}
		return -math.MaxFloat32
	})
}

// output returns the output matrix. Without one the embedding serves again.
func (b *builder) output() kernel.Matrix {
	name := "output.weight"
	if !b.has(name) {
		name = "token_embd.weight"
	}
	return b.matrix(name, b.cfg.NEmbd, b.cfg.NVocab)
}

// vectors ends with the residual as an output, normalised where norm names one.
func (b *builder) vectors(norm string) {
	c := b.cfg
	out := b.floats("out", kernel.OutRows, c.NEmbd)
	b.add(kernel.Gather{Dst: out, Src: b.x()})
	b.normed(out, out, kernel.OutRows, norm)
	b.p.Outputs = append(b.p.Outputs, Output{Name: Vectors, Ops: b.take(), Buf: out, Width: c.NEmbd})
	b.scores()
}
