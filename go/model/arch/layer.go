package arch

import "github.com/quern-llm/quern/go/kernel"

// A layer builds one transformer block: its sizes, and how its tensors' names
// begin.
type layer struct {
	*builder
	Layer
	il  int
	blk string
}

// layer returns the layer of these sizes, whose tensors are those of layer il.
func (b *builder) layer(il int, sizes Layer) layer {
	return layer{b, sizes, il, b.named(il)}
}

// withTensorsOf returns the layer with the tensors of layer il, for models that run a layer of the file several times.
func (l layer) withTensorsOf(il int) layer {
	l.blk = l.named(il)
	return l
}

// norm is the builder's, with a norm of the layer.
func (l layer) norm(act kernel.Act, src kernel.Buf, rows kernel.RowSet, name string) kernel.Norm {
	return l.builder.norm(act, src, rows, l.blk+name)
}

// normed is the builder's, with a norm of the layer.
func (l layer) normed(dst, src kernel.Buf, rows kernel.RowSet, name string) {
	l.builder.normed(dst, src, rows, l.blk+name)
}

// normalise is the builder's, with a norm of the layer.
func (l layer) normalise(name string) { l.builder.normalise(l.blk + name) }

// input is what sublayers read: the residual, or the result of attention to its blocks.
func (l layer) input() kernel.Buf {
	if l.readsAttnRes {
		return l.floats("attnres", kernel.TokRows, l.cfg.NEmbd)
	}
	return l.x()
}

// normalise replaces the residual by its norm: that of models whose sublayers are followed by one,
// instead of preceded.
func (b *builder) normalise(name string) {
	c := b.cfg
	b.add(kernel.NormRows{
		Dst: b.x(), Src: b.x(), Cols: c.NEmbd, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1,
		Weight: b.vector(name+".weight", c.NEmbd), Bias: b.optional(name+".bias", c.NEmbd),
	})
}

// only keeps of a the kinds that products with these matrices take.
func (b *builder) only(a kernel.Act, mats ...kernel.Matrix) kernel.Act {
	kept := kernel.Act{}
	for _, m := range mats {
		kept[m.Type.Act()] = a[m.Type.Act()]
	}
	return kept
}

// outputScale multiplies the residual, where the file says by what.
func (l layer) outputScale() {
	scale := "layer_output_scale.weight"
	if !l.has(scale) {
		return
	}
	op := kernel.NormRows{Dst: l.x(), Src: l.x(), Cols: l.cfg.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
	if v := l.vector(scale, 1); v != nil { // there is memory
		op.Scale = v[0]
	}
	l.add(op)
}
