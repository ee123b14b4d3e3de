package nn

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

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
	b.gateSenses(scores)
}

func (b *Builder) senses() kernel.Buf {
	return b.buf("senses", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
}

// A sensed is matrices for text and for what is seen, over one input. Where the file has them in one type they are a mixture of
// experts; else both are computed of each token, and the other's result is nothing.
type sensed struct {
	l       Layer
	use     string
	in, out int
	both    []kernel.Part    // of each
	apart   [2][]kernel.Part // or these
}

// ofSenses returns the matrices of these names.
func (l Layer) ofSenses(use string, in, out int, names ...[2]string) sensed {
	s := sensed{l: l, use: use, in: in, out: out}
	for _, pair := range names {
		m, err := l.weights.Stack([]string{l.prefix + pair[0] + ".weight", l.prefix + pair[1] + ".weight"}, in, out)
		if err != nil {
			return s.split(names)
		}
		s.both = append(s.both, kernel.Part{Matrix: m})
	}
	return s
}

// split is s with matrices that are of several types.
func (s sensed) split(names [][2]string) sensed {
	s.both = nil
	for _, pair := range names {
		for i, name := range pair {
			m := must(s.l.weights.Part(s.l.prefix+name+".weight", s.in, s.out, 0, s.out, 1))
			s.apart[i] = append(s.apart[i], kernel.Part{Matrix: m})
		}
	}
	return s
}

// matrices returns all of them.
func (s sensed) matrices() []kernel.Matrix {
	return matrices(slices.Concat(s.both, s.apart[0], s.apart[1]))
}

// run is dst = the products of activations with each token's own matrices, or what op makes of them, or with add these added.
func (s sensed) run(dst kernel.Buf, act kernel.Act, op kernel.Matmul, add bool) {
	l := s.l
	if s.both != nil {
		pairs, made := l.Act("pair."+s.use, kernel.PairRows, s.in, s.matrices()...), l.Floats("pair."+s.use, kernel.PairRows, s.out)
		l.Add(kernel.MoeGather{Dst: pairs, Src: l.Only(act, s.matrices()...), Cols: s.in, Route: l.senses()})
		op.Dst, op.Act, op.Rows, op.Route, op.Parts = made, pairs, kernel.PairRows, l.senses(), s.both
		l.Add(op)
		l.Add(kernel.MoeCombine{Dst: dst, Src: made, Route: l.senses(), Store: !add})
		return
	}
	made := l.Floats("of a sense", kernel.TokRows, s.out)
	for i, parts := range s.apart {
		op.Dst, op.Act, op.Parts = made, l.Only(act, matrices(parts)...), parts
		l.Add(op)
		l.Add(kernel.Gate{Dst: made, Src: l.senseGates(), SrcCol: i * kernel.Panel, Cols: s.out, Fn: kernel.Sigmoid, ByRow: true})
		sum := kernel.NormRows{Dst: dst, Src: made, Cols: s.out, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
		if add || i > 0 {
			sum.Epilogue = kernel.Add
		}
		l.Add(sum)
	}
}

// senseGates are two panels, whose first numbers open one of two senses.
func (b *Builder) senseGates() kernel.Buf {
	return b.Floats("gates of senses", kernel.TokRows, 2*kernel.Panel)
}

// gateSenses computes them from the score of the expert of text: 0 is text, too.
func (b *Builder) gateSenses(scores kernel.Buf) {
	for i, by := range []float64{10, -10} {
		b.Add(kernel.NormRows{
			Dst: b.senseGates(), DstCol: i * kernel.Panel, Src: scores, Cols: kernel.Panel, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Weight: b.constants(fmt.Sprintf("steepness of sense %d", i), kernel.Panel, func(int) float64 { return by }),
			Bias:   b.constants(fmt.Sprintf("threshold of sense %d", i), kernel.Panel, func(int) float64 { return 10 * by }),
		})
	}
}

// senseAttention is attention with projections of senses.
func (l Layer) senseAttention() Sublayer {
	n := l.Config.NEmbd
	nq, nk := l.NHead*l.HeadDim, l.NHeadKV*l.HeadDim
	in := l.ofSenses("qkv", n, nq+2*nk, [2]string{"attn_qkv", "vis_attn_qkv"})
	out := l.ofSenses("out", nq, n, [2]string{"attn_output", "vis_attn_output"})
	return Sublayer{In: in.matrices(), Run: func(act kernel.Act) {
		qkv := l.Floats("qkv", kernel.TokRows, nq+2*nk)
		in.run(qkv, act, kernel.Matmul{}, false)
		own := Attention{In: n}
		kv := l.cache(own, projection{})
		heads := kernel.Heads{
			NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: qkv,
			Col: [3]int{0, nq, nq + nk}, Group: kv.group, KVOffset: kv.offset, Tiers: kv.tiers,
		}
		l.Add(l.store(own, heads, balance{}))
		att := l.Floats("att", kernel.TokRows, nq)
		l.Add(kernel.Attend{Heads: heads, Dst: att})
		attAct := l.Act("att", kernel.TokRows, nq, out.matrices()...)
		l.Add(kernel.ToAct{Act: attAct, Src: att, Cols: nq})
		out.run(l.X(), attAct, kernel.Matmul{}, true)
	}}
}

// senseFeedForward is a feed-forward with matrices of senses.
func (l Layer) senseFeedForward() Sublayer {
	n, m := l.Config.NEmbd, l.NFF
	up := l.ofSenses("ffn", n, m, [2]string{"ffn_gate", "vis_gate"}, [2]string{"ffn_up", "vis_up"})
	down := l.ofSenses("down", m, n, [2]string{"ffn_down", "vis_down"})
	return Sublayer{In: up.matrices(), Run: func(act kernel.Act) {
		ffn := l.Floats("ffn", kernel.TokRows, m)
		up.run(ffn, act, kernel.Matmul{Epilogue: kernel.GLU, Fn: kernel.SiLU}, false)
		ffnAct := l.Act("ffn", kernel.TokRows, m, down.matrices()...)
		l.Add(kernel.ToAct{Act: ffnAct, Src: ffn, Cols: m})
		down.run(l.X(), ffnAct, kernel.Matmul{}, true)
	}}
}
