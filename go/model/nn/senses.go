package nn

import "github.com/quern-llm/quern/go/kernel"

// Experts of senses (Wang et al. 2023, "CogVLM"): attention and feed-forwards have matrices for what is seen beside those for text.
// They are mixtures of two experts, of which a token uses one: that of text, unless the row that it brings says the other.

// senseColumns is how many columns of a row say which expert its token uses, behind those of its embedding.
const senseColumns = kernel.Panel

// Seen and Unseen are these columns: the scores of the expert of text, and of the other.
var (
	Seen   = [senseColumns]float32{-20, 20}
	Unseen = [senseColumns]float32{20, -20}
)

// SenseExperts finds out whether the file has matrices for what is seen. All patches of a picture are then at one place.
func (k *Keys) SenseExperts() {
	if _, ok := k.File.Tensor("blk.0.vis_attn_qkv.weight"); !ok {
		return
	}
	k.Config.SenseExperts = true
	for il := range k.Config.Layers {
		r := &k.Config.Layers[il].Rope
		r.Sections[0] = r.NRot / 2
	}
}

// SenseLayers builds a model whose tokens use experts of senses.
func (b *Builder) SenseLayers() {
	own := *b.Config
	own.NExpert, own.NExpertUsed = 2, 1
	b.Config = &own
	b.Begin(b.routeSenses)
	b.Layers(func(l Layer) {
		l.Residual("attn_norm", l.senseAttention())
		l.Residual("ffn_norm", l.senseFeedForward())
	})
	b.End("output_norm")
}

// routeSenses chooses the expert of each token, for all layers. Without a row both score alike, and the first is preferred.
func (b *Builder) routeSenses() {
	scores := b.Floats("senses", kernel.TokRows, senseColumns)
	b.Add(kernel.Input{Dst: scores, From: b.Config.NEmbd * (1 + len(b.Config.Deepstack)), Cols: senseColumns, Clear: true})
	b.Add(kernel.MoeRoute{
		Dst: b.senses(), Src: scores, Gating: kernel.GateSoftmax, Renorm: true, Scale: 1,
		Bias: b.constants("preference of text", kernel.Panel, func(i int) float64 {
			if i == 0 {
				return 0.25
			}
			return 0
		}),
	})
}

func (b *Builder) senses() kernel.Buf {
	return b.buf("senses", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
}

// ofSenses returns a matrix for text and one for what is seen.
func (l Layer) ofSenses(text, seen string, in, out int) kernel.Part {
	return kernel.Part{Matrix: must(l.weights.Stack([]string{l.prefix + text + ".weight", l.prefix + seen + ".weight"}, in, out))}
}

// sensed is the products of activations with each token's own matrices, or what op makes of them, in rows of pairs.
func (l Layer) sensed(use string, act kernel.Act, in, out int, op kernel.Matmul) kernel.Buf {
	var mats []kernel.Matrix
	for _, p := range op.Parts {
		mats = append(mats, p.Matrix)
	}
	pairs, made := l.Act("pair."+use, kernel.PairRows, in, mats...), l.Floats("pair."+use, kernel.PairRows, out)
	l.Add(kernel.MoeGather{Dst: pairs, Src: l.Only(act, mats...), Cols: in, Route: l.senses()})
	op.Dst, op.Act, op.Rows, op.Route = made, pairs, kernel.PairRows, l.senses()
	l.Add(op)
	return made
}

// senseAttention is attention with projections of senses.
func (l Layer) senseAttention() Sublayer {
	n := l.Config.NEmbd
	nq, nk := l.NHead*l.HeadDim, l.NHeadKV*l.HeadDim
	in, out := l.ofSenses("attn_qkv", "vis_attn_qkv", n, nq+2*nk), l.ofSenses("attn_output", "vis_attn_output", nq, n)
	return Sublayer{In: []kernel.Matrix{in.Matrix}, Run: func(act kernel.Act) {
		qkv := l.Floats("qkv", kernel.TokRows, nq+2*nk)
		made := l.sensed("qkv", act, n, nq+2*nk, kernel.Matmul{Parts: []kernel.Part{in}})
		l.Add(kernel.MoeCombine{Dst: qkv, Src: made, Route: l.senses(), Store: true})
		own := Attention{In: n}
		kv := l.cache(own, projection{})
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: qkv,
			Col: [3]int{0, nq, nq + nk}, Group: kv.group, KVOffset: kv.offset, Tiers: kv.tiers,
		}
		l.Add(l.store(own, heads, balance{}))
		att := l.Floats("att", kernel.TokRows, nq)
		l.Add(kernel.Attend{Heads: heads, Dst: att})
		attAct := l.Act("att", kernel.TokRows, nq, out.Matrix)
		l.Add(kernel.ToAct{Act: attAct, Src: att, Cols: nq})
		made = l.sensed("out", attAct, nq, n, kernel.Matmul{Parts: []kernel.Part{out}})
		l.Add(kernel.MoeCombine{Dst: l.X(), Src: made, Route: l.senses()})
	}}
}

// senseFeedForward is a feed-forward with matrices of senses.
func (l Layer) senseFeedForward() Sublayer {
	n, m := l.Config.NEmbd, l.NFF
	gate, up, down := l.ofSenses("ffn_gate", "vis_gate", n, m), l.ofSenses("ffn_up", "vis_up", n, m), l.ofSenses("ffn_down", "vis_down", m, n)
	return Sublayer{In: []kernel.Matrix{gate.Matrix, up.Matrix}, Run: func(act kernel.Act) {
		made := l.sensed("ffn", act, n, m, kernel.Matmul{Parts: []kernel.Part{gate, up}, Epilogue: kernel.GLU, Fn: kernel.SiLU})
		pairs := l.Act("pair.down", kernel.PairRows, m, down.Matrix)
		out := l.Floats("pair.out", kernel.PairRows, n)
		l.Add(kernel.ToAct{Act: pairs, Src: made, Rows: kernel.PairRows, Cols: m, Route: l.senses()})
		l.Add(kernel.Matmul{Dst: out, Act: pairs, Rows: kernel.PairRows, Route: l.senses(), Parts: []kernel.Part{down}})
		l.Add(kernel.MoeCombine{Dst: l.X(), Src: out, Route: l.senses()})
	}}
}
