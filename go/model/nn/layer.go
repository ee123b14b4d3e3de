package nn

import "github.com/quern-llm/quern/go/kernel"

// A Layer builds one transformer block. Its words name tensors without the "blk.N." that their names begin with.
type Layer struct {
	*Builder
	LayerConfig
	Index  int    // from 0 on
	prefix string // of its tensors' names, such as "blk.3."
}

// Layer returns layer il with these sizes.
func (b *Builder) Layer(il int, sizes LayerConfig) Layer {
	return Layer{b, sizes, il, b.named(il)}
}

// WithTensorsOf returns the layer with the tensors of layer il, for models that run a layer of the file several times.
func (l Layer) WithTensorsOf(il int) Layer {
	l.prefix = l.named(il)
	return l
}

// Norm is Builder.Norm with a norm of the layer.
func (l Layer) Norm(act kernel.Act, src kernel.Buf, rows kernel.RowSet, name string) kernel.Norm {
	return l.Builder.Norm(act, src, rows, l.prefix+name)
}

// Normed is Builder.Normed with a norm of the layer.
func (l Layer) Normed(dst, src kernel.Buf, rows kernel.RowSet, name string) {
	l.Builder.Normed(dst, src, rows, l.prefix+name)
}

// Normalise is Builder.Normalise with a norm of the layer.
func (l Layer) Normalise(name string) { l.Builder.Normalise(l.prefix + name) }

// input is the buffer that sublayers read: the residual, or the result of attention to its blocks.
func (l Layer) input() kernel.Buf {
	if l.readsAttnRes {
		return l.Floats("attnres", kernel.TokRows, l.Config.NEmbd)
	}
	return l.X()
}

// Normalise replaces the residual by its norm, in models that have norms after the sublayers (post-norm).
func (b *Builder) Normalise(name string) {
	c := b.Config
	op := kernel.NormRows{Dst: b.X(), Src: b.X(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1}
	if !c.BareNorms {
		op.Weight, op.Bias = b.Vector(name+".weight", c.NEmbd), b.optional(name+".bias", c.NEmbd)
	}
	b.Add(op)
}

// NormaliseOptional is Normalise if the file has the norm.
func (b *Builder) NormaliseOptional(name string) {
	if b.Has(name + ".weight") {
		b.Normalise(name)
	}
}

// Only returns of a the kinds that products with these matrices take.
func (b *Builder) Only(a kernel.Act, mats ...kernel.Matrix) kernel.Act {
	kept := kernel.Act{}
	for _, m := range mats {
		kept[m.Type.Act()] = a[m.Type.Act()]
	}
	return kept
}

// OutputScale multiplies the residual by the one number of a tensor, if the file has it.
func (l Layer) OutputScale(scale string) {
	if !l.Has(scale) {
		return
	}
	op := kernel.NormRows{Dst: l.X(), Src: l.X(), Cols: l.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
	if v := l.Vector(scale, 1); v != nil { // there is memory
		op.Scale = v[0]
	}
	l.Add(op)
}
