package nn

import "github.com/quern-llm/quern/go/kernel"

// What asks the rows of an encoder: queries that were learned attend to what is made of the patches of a picture, and each
// makes a row (Alayrac et al. 2022, "Flamingo": a resampler).

// Keys is x = what tokens bring, and behind it what is added to it for keys alone: the embeddings of their positions.
func (b *Builder) Keys() {
	b.BroughtAlone()
	n := b.Config.NEmbd
	keys := b.whole("rows of keys", n)
	b.Add(kernel.Input{Dst: keys, Cols: n, Clear: true})
	b.Add(kernel.Input{Dst: keys, From: n, Cols: n, Add: true})
}

// Asking is x = attention of all tokens to those that others see, with keys of Keys. Biases are used if the file has them.
func (l Layer) Asking() {
	n := l.Config.NEmbd
	part := func(name string, col int) kernel.Part {
		return kernel.Part{Matrix: l.Matrix(name+".weight", n, n), Bias: l.optional(name+".bias", n), Col: col}
	}
	wide := kernel.Pad(n)
	q, k, v, out := part("q", 0), part("k", wide), part("v", 2*wide), part("out", 0)
	made := l.Floats("asking", kernel.TokRows, 3*wide)
	product := func(src kernel.Buf, parts ...kernel.Part) {
		act := l.Act("asking", kernel.TokRows, n, parts[0].Matrix, parts[len(parts)-1].Matrix)
		l.Add(kernel.ToAct{Act: act, Src: src, Cols: n})
		l.Add(kernel.Matmul{Dst: made, Act: act, Parts: parts})
	}
	product(l.X(), q, v)
	product(l.whole("rows of keys", n), k)
	heads := kernel.Heads{
		NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: made,
		Col: [3]int{0, wide, 2 * wide},
	}
	heads.Group, heads.KVOffset, _ = l.place()
	l.Add(l.store(Attention{}, heads, balance{}))
	heads.QKV, heads.Col[0] = l.keepQueries(projection{buf: made}), 0
	att := l.Floats("att", kernel.TokRows, n)
	l.Add(kernel.Attend{Heads: heads, Dst: att, Side: kernel.SourceSide})
	act := l.Act("att", kernel.TokRows, n, out.Matrix)
	l.Add(kernel.ToAct{Act: act, Src: att, Cols: n})
	l.Add(kernel.Matmul{Dst: l.X(), Act: act, Parts: []kernel.Part{out}})
}
