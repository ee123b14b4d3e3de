package arch

import "github.com/quern-llm/quern/go/kernel"

// gemmaEmbedding is EmbeddingGemma: Gemma 3 that reads in both directions. Files may have the two
// products that follow the mean of a text.
var gemmaEmbedding = Arch{
	Name: "gemma-embedding",
	config: func(k *keys) {
		gemma3.config(k)
		k.c.BothWays = true
		const wide = "dense_2_feat_out"
		k.c.NDense = k.intOr(wide, 0, 0, maxFF)
	},
	build: func(b *builder) {
		gemma3Layers(b)
		b.vectors("output_norm")
		b.dense()
	},
}

// dense adds the products that make the vector of a text.
func (b *builder) dense() {
	c := b.cfg
	if c.NDense == 0 {
		return
	}
	up, down := b.matrix("dense_2.weight", c.NEmbd, c.NDense), b.matrix("dense_3.weight", c.NDense, c.NEmbd)
	in, mid, out := b.floats("given", kernel.OutRows, c.NEmbd), b.floats("dense", kernel.OutRows, c.NDense), b.floats("out", kernel.OutRows, c.NEmbd)
	for _, p := range []struct {
		src, dst kernel.Buf
		use      string
		m        kernel.Matrix
	}{{in, mid, "given", up}, {mid, out, "dense", down}} {
		act := b.act(p.use, kernel.OutRows, p.m.In, p.m)
		b.add(kernel.ToAct{Act: act, Src: p.src, Rows: kernel.OutRows, Cols: p.m.In})
		b.add(kernel.Matmul{Dst: p.dst, Act: act, Rows: kernel.OutRows, Parts: []kernel.Part{{Matrix: p.m}}})
	}
	b.p.Outputs = append(b.p.Outputs, Output{Name: Pooled, Ops: b.take(), Given: true, In: in, Buf: out, Width: c.NEmbd})
}
