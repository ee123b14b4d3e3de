package nn

import "github.com/quern-llm/quern/go/kernel"

// SharedBlocks reads how many blocks layers with attention take turns in (Glorioso et al. 2024, "Zamba2"), and the rank
// of the adapters that each use of a block has of its own.
func (k *Keys) SharedBlocks() {
	c := k.Config
	c.NShared = k.Int("shared_block_count", 1, MaxLayer)
	c.NAdapter = k.Int("adapter_rank", 1, MaxEmbd)
	for _, n := range []struct {
		key string
		n   int
	}{{"embedding_length", c.NEmbd}, {"adapter_rank", c.NAdapter}} {
		if n.n%kernel.Panel != 0 {
			k.Fail(n.key, "%d, want a multiple of %d", n.n, kernel.Panel)
		}
	}
}

// first is the buffer of the embeddings that Begin has made.
func (b *Builder) first() kernel.Buf { return b.Floats("first", kernel.TokRows, b.Config.NEmbd) }

// KeepFirst keeps the embeddings for the shared blocks.
func (b *Builder) KeepFirst() { b.copied(b.first(), 0, b.X(), kernel.Store) }

// copied stores or adds the columns of the residual's width of src in dst from column col on.
func (b *Builder) copied(dst kernel.Buf, col int, src kernel.Buf, to kernel.Epilogue) {
	b.Add(kernel.NormRows{
		Dst: dst, DstCol: col, Src: src, Cols: b.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: to,
	})
}

// SharedBlock is shared_out(ffn(norm(attention(norm([x, first]))))): attention to the residual with the embeddings
// beside it, and a feed-forward, with the weights of the layer that used the block first. What it computes is in the
// buffer that it returns, and not in the residual.
func (l Layer) SharedBlock() kernel.Buf {
	c := l.Config
	shared := l.WithTensorsOf(l.firstUse())
	wide, x := l.Floats("wide", kernel.TokRows, 2*c.NEmbd), l.X()
	l.copied(wide, 0, x, kernel.Store)
	l.copied(wide, c.NEmbd, l.first(), kernel.Store)

	residuals := l.residuals
	l.residuals = "shared"
	result := l.X()
	attention := shared.Attention(Attention{In: 2 * c.NEmbd, Adapters: true})
	act := l.Act("wide", kernel.TokRows, 2*c.NEmbd, attention.In...)
	l.Add(kernel.Norm{
		Act: act, Src: wide, Cols: 2 * c.NEmbd, Kind: c.Norm, Eps: c.Eps,
		Weight: shared.NormWeights("attn_norm_2", 2*c.NEmbd),
	})
	l.storeNext = true
	attention.Run(act)
	l.storeNext = true
	shared.Residual("ffn_norm", shared.FeedForward(FeedForward{Fn: kernel.GELUErf, Adapters: true}))
	l.storeNext = true
	l.Residual("", l.Linear("shared_out"))
	l.residuals = residuals
	return result
}

// firstUse returns the first layer that has the block of this one.
func (l Layer) firstUse() int {
	var uses []int
	for il, sizes := range l.Config.Layers[:l.Index+1] {
		if sizes.NHeadKV > 0 {
			uses = append(uses, il)
		}
	}
	return uses[(len(uses)-1)%l.Config.NShared]
}

// ResidualBeside is Residual whose sublayer reads the norm of the sum of the residual and of what is in beside.
func (l Layer) ResidualBeside(norm string, beside kernel.Buf, h Sublayer) {
	act := l.Act("embd", kernel.TokRows, l.Config.NEmbd, h.In...)
	l.copied(beside, 0, l.X(), kernel.Add)
	l.Add(l.Norm(act, beside, kernel.TokRows, norm))
	h.Run(act)
}

// queryAdapters returns the adapters of queries, keys and values; nil: there are none.
func (l Layer) queryAdapters(a Attention, q projection) (all []adapter) {
	if !a.Adapters || !l.WithTensorsOf(l.Index).Has("attn_q_adapter_a.weight") {
		return nil
	}
	for i, name := range []string{"attn_q_adapter", "attn_k_adapter", "attn_v_adapter"}[:len(q.parts)] {
		all = append(all, l.adapter(name+"_a", name+"_b", a.In, q.parts[i].Matrix.Out))
	}
	return all
}

// An adapter is what a use of shared matrices adds to their products: second(first(input)), of low rank.
type adapter struct{ first, second kernel.Matrix }

// adapter returns the adapter of a matrix, which is of the layer itself, whatever layer's tensors it has.
func (l Layer) adapter(first, second string, in, out int) adapter {
	own, rank := l.WithTensorsOf(l.Index), l.Config.NAdapter
	return adapter{own.Matrix(first+".weight", in, rank), own.Matrix(second+".weight", rank, out)}
}

// adaptedGate is fn(gate(input)) * up(input) with adapters of both.
func (l Layer) adaptedGate(act kernel.Act, dst kernel.Buf, parts []kernel.Part, adapters []adapter, fn kernel.Fn) {
	gate := l.Floats("ffn gate", kernel.TokRows, l.NFF)
	for i, to := range []kernel.Buf{gate, dst} {
		l.Add(kernel.Matmul{Dst: to, Act: l.Only(act, parts[i].Matrix), Parts: parts[i : i+1]})
		l.addAdapter(act, adapters[i], to, 0)
	}
	l.Add(kernel.Gate{Dst: dst, Src: gate, Cols: l.NFF, Fn: fn})
}

// addAdapter adds what an adapter makes of the input to columns of dst.
func (l Layer) addAdapter(act kernel.Act, a adapter, dst kernel.Buf, col int) {
	low := l.Floats("adapter", kernel.TokRows, a.first.Out)
	lowAct := l.Act("adapter", kernel.TokRows, a.first.Out, a.second)
	l.Add(kernel.Matmul{Dst: low, Act: l.Only(act, a.first), Parts: []kernel.Part{{Matrix: a.first}}})
	l.Add(kernel.ToAct{Act: lowAct, Src: low, Cols: a.first.Out})
	l.Add(kernel.Matmul{
		Dst: dst, Act: lowAct, Epilogue: kernel.Add, Parts: []kernel.Part{{Matrix: a.second, Col: col}},
	})
}
