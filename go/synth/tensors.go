package synth

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A tensor is one entry of the file's directory.
type tensor struct {
	name   string
	typ    gguf.Type
	dims   []uint64
	values []float32 // of a vector with fixed values
	mixed  bool      // the mix gives it another type
}

// A directory lists the tensors of a model.
type directory struct {
	m    Model
	list []tensor
}

// matrix adds a matrix of the type that the mix has for it.
func (d *directory) matrix(name string, dims ...int) {
	d.typed(name, gguf.F16, dims...)
	d.list[len(d.list)-1].mixed = true
}

// typed adds a matrix of a type.
func (d *directory) typed(name string, typ gguf.Type, dims ...int) {
	d.list = append(d.list, tensor{name: name + ".weight", typ: typ, dims: sizes(dims)})
}

// ones adds the weights of a norm.
func (d *directory) ones(name string, n int) {
	d.values(name+".weight", func(int) float32 { return 1 }, n)
}

// values adds a tensor with fixed values.
func (d *directory) values(name string, of func(i int) float32, dims ...int) {
	n := 1
	for _, x := range dims {
		n *= x
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = of(i)
	}
	d.list = append(d.list, tensor{name: name, typ: gguf.F32, dims: sizes(dims), values: v})
}

// bias adds a bias, if the model has some.
func (d *directory) bias(name string, dims ...int) {
	if d.m.Shape.GPTOSS {
		d.values(name+".bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, dims...)
	}
}

// tensors lists the tensors in file order.
func (m Model) tensors() []tensor {
	d := directory{m: m}
	s := m.Shape
	if s.Sight != nil {
		d.sight()
		d.choose()
		return d.list
	}
	d.matrix("token_embd", s.NEmbd, s.NVocab)
	if s.RopeFactor > 0 {
		f := s.ropeFreqs()
		d.values("rope_freqs.weight", func(i int) float32 { return f[i] }, len(f))
	}
	switch {
	case s.Gemma != nil:
		d.gemma()
	case s.RWKV != nil:
		d.rwkv()
	default:
		for i := range s.NLayer {
			d.layer(i)
		}
		if s.MTP {
			d.next()
		}
	}
	last := "output_norm"
	if s.NTap > 0 {
		last = "token_embd_norm"
	}
	d.ones(last, s.NEmbd)
	if !s.Tied {
		d.matrix("output", s.NEmbd, s.NVocab)
	}
	d.choose()
	return d.list
}

// choose gives matrices the types that quantizers give those of their names.
func (d *directory) choose() {
	w := gguf.NewWriter()
	d.m.settings(w.Set)
	for _, t := range d.list {
		w.AddTensor(t.name, t.typ, t.dims, nil)
	}
	f, err := w.Outline()
	if err != nil {
		panic(err) // of a table in this package
	}
	choices, err := quant.Choose(f, d.m.Mix, quant.Options{})
	if err != nil {
		panic(err)
	}
	to := make(map[string]gguf.Type, len(choices))
	for _, c := range choices {
		to[c.Name] = c.To
	}
	for i := range d.list {
		if t := &d.list[i]; t.mixed {
			t.typ = to[t.name]
		}
	}
}

func (d *directory) layer(i int) {
	d.block(fmt.Sprintf("blk.%d.", i), i, d.m.Shape.kind(i))
}

// next adds a layer that predicts a token further on: with attention, of the types of the last of the others.
func (d *directory) next() {
	s := d.m.Shape
	blk, kind := fmt.Sprintf("blk.%d.", s.NLayer), byte(attentionLayer)
	if s.Latent != nil {
		kind = latentLayer
	}
	d.block(blk, s.NLayer-1, kind)
	d.matrix(blk+"nextn.eh_proj", 2*s.NEmbd, s.NEmbd)
	for _, norm := range []string{"enorm", "hnorm", "shared_head_norm"} {
		d.ones(blk+"nextn."+norm, s.NEmbd)
	}
}

// block adds a layer of a kind, with the types of the i-th.
func (d *directory) block(blk string, i int, kind byte) {
	s := d.m.Shape
	d.ones(blk+"attn_norm", s.NEmbd)
	switch kind {
	case deltaLayer:
		d.deltaNet(blk, i, s.Delta)
	case scanLayer:
		d.scan(blk, i, s.Scan)
	case convLayer:
		d.matrix(blk+"shortconv.in_proj", s.NEmbd, 3*s.NEmbd)
		d.values(blk+"shortconv.conv.weight", func(i int) float32 { return float32(1+i%s.NTap) / 10 }, s.NTap, s.NEmbd)
		d.matrix(blk+"shortconv.out_proj", s.NEmbd, s.NEmbd)
	case latentLayer:
		d.latents(blk, i, s.Latent)
	case attentionLayer:
		d.attention(blk, i)
	}
	if s.NFF == 0 {
		return
	}
	if s.separate() {
		if kind == feedForwardLayer {
			d.mixture(blk, i)
		}
		return
	}
	ffnNorm := "ffn_norm"
	if s.GPTOSS || s.Delta != nil {
		ffnNorm = "post_attention_norm"
	}
	d.ones(blk+ffnNorm, s.NEmbd)
	d.mixture(blk, i)
}

// mixture adds experts and the one that all tokens use, or a dense feed-forward.
func (d *directory) mixture(blk string, i int) {
	s := d.m.Shape
	if s.NExpert == 0 || i < s.NDense {
		d.feedForward(blk, "", i, cmp.Or(s.NFFDense, s.NFF))
		return
	}
	d.typed(blk+"ffn_gate_inp", gguf.F32, s.NEmbd, s.NExpert)
	d.bias(blk+"ffn_gate_inp", s.NExpert)
	if s.ReLU2 || s.Latent != nil || s.NTap > 0 {
		d.values(blk+"exp_probs_b.bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, s.NExpert)
	}
	if !s.ReLU2 {
		d.matrix(blk+"ffn_gate_exps", s.NEmbd, s.NFF, s.NExpert)
	}
	d.matrix(blk+"ffn_up_exps", s.NEmbd, s.NFF, s.NExpert)
	d.matrix(blk+"ffn_down_exps", s.NFF, s.NEmbd, s.NExpert)
	d.bias(blk+"ffn_gate_exps", s.NFF, s.NExpert)
	d.bias(blk+"ffn_up_exps", s.NFF, s.NExpert)
	d.bias(blk+"ffn_down_exps", s.NEmbd, s.NExpert)
	if s.NFFShared > 0 {
		if s.Delta != nil {
			d.values(blk+"ffn_gate_inp_shexp.weight", func(i int) float32 { return 0.01 * float32(i%7-3) }, s.NEmbd)
		}
		d.feedForward(blk, "_shexp", i, s.NFFShared)
	}
}

func (d *directory) feedForward(blk, suffix string, i, width int) {
	n := d.m.Shape.NEmbd
	if !d.m.Shape.ReLU2 {
		d.matrix(blk+"ffn_gate"+suffix, n, width)
	}
	d.matrix(blk+"ffn_up"+suffix, n, width)
	d.matrix(blk+"ffn_down"+suffix, width, n)
}

func (d *directory) attention(blk string, i int) {
	s := d.m.Shape
	query := s.NHead * s.HeadDim
	if s.Delta != nil {
		query *= 2 // of each head the query and a gate
	}
	d.matrix(blk+"attn_q", s.NEmbd, query)
	d.matrix(blk+"attn_k", s.NEmbd, s.NHeadKV*s.HeadDim)
	d.matrix(blk+"attn_v", s.NEmbd, s.NHeadKV*s.HeadDim)
	d.bias(blk+"attn_q", s.NHead*s.HeadDim)
	d.bias(blk+"attn_k", s.NHeadKV*s.HeadDim)
	d.bias(blk+"attn_v", s.NHeadKV*s.HeadDim)
	if s.QKNorm {
		d.ones(blk+"attn_q_norm", s.HeadDim)
		d.ones(blk+"attn_k_norm", s.HeadDim)
	}
	d.matrix(blk+"attn_output", s.NHead*s.HeadDim, s.NEmbd)
	d.bias(blk+"attn_output", s.NEmbd)
	if s.GPTOSS {
		d.values(blk+"attn_sinks.weight", func(i int) float32 { return 0.5 * float32(i%5-2) }, s.NHead)
	}
}

func (d *directory) latents(blk string, i int, l *Latent) {
	s := d.m.Shape
	d.matrix(blk+"attn_q_a", s.NEmbd, l.QueryRank)
	d.ones(blk+"attn_q_a_norm", l.QueryRank)
	d.matrix(blk+"attn_q_b", l.QueryRank, s.NHead*(l.Plain+l.Rotated))
	d.matrix(blk+"attn_kv_a_mqa", s.NEmbd, l.Rank+l.Rotated)
	d.ones(blk+"attn_kv_a_norm", l.Rank)
	d.matrix(blk+"attn_k_b", l.Plain, l.Rank, s.NHead)
	d.matrix(blk+"attn_v_b", l.Rank, l.Value, s.NHead)
	d.matrix(blk+"attn_output", s.NHead*l.Value, s.NEmbd)
}

func (d *directory) deltaNet(blk string, i int, n *Delta) {
	embd := d.m.Shape.NEmbd
	inner := n.NHead * n.Dim
	cols := 2*n.NHeadKey*n.Dim + inner
	d.matrix(blk+"attn_qkv", embd, cols)
	d.matrix(blk+"attn_gate", embd, inner)
	d.values(blk+"ssm_conv1d.weight", func(i int) float32 { return float32(1+i%n.NTap) / 10 }, n.NTap, cols)
	d.values(blk+"ssm_dt.bias", func(int) float32 { return -4 }, n.NHead)
	d.values(blk+"ssm_a", func(i int) float32 { return -float32(1 + i%16) }, n.NHead)
	if n.Grouped {
		d.matrix(blk+"ssm_ba", embd, 2*n.NHead)
	} else {
		d.matrix(blk+"ssm_beta", embd, n.NHead)
		d.matrix(blk+"ssm_alpha", embd, n.NHead)
	}
	d.ones(blk+"ssm_norm", n.Dim)
	d.matrix(blk+"ssm_out", inner, embd)
}

func (d *directory) scan(blk string, i int, c *Scan) {
	if c.Rank > 0 {
		d.mamba(blk, i, c)
		return
	}
	embd := d.m.Shape.NEmbd
	d.matrix(blk+"ssm_in", embd, c.inner()+c.conv()+c.NHead)
	d.values(blk+"ssm_conv1d.weight", func(i int) float32 { return float32(1+i%c.NTap) / 10 }, c.NTap, c.conv())
	d.values(blk+"ssm_conv1d.bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, c.conv())
	d.values(blk+"ssm_dt.bias", func(int) float32 { return -4 }, c.NHead)
	d.values(blk+"ssm_a", func(i int) float32 { return -float32(1 + i%16) }, 1, c.NHead)
	d.values(blk+"ssm_d", func(int) float32 { return 1 }, 1, c.NHead)
	d.values(blk+"ssm_norm.weight", func(int) float32 { return 1 }, c.inner()/c.NGroup, c.NGroup)
	d.matrix(blk+"ssm_out", c.inner(), embd)
}

// mamba adds a state space of the first kind.
func (d *directory) mamba(blk string, i int, c *Scan) {
	embd, inner := d.m.Shape.NEmbd, c.inner()
	d.matrix(blk+"ssm_in", embd, 2*inner)
	d.values(blk+"ssm_conv1d.weight", func(i int) float32 { return float32(1+i%c.NTap) / 10 }, c.NTap, inner)
	d.values(blk+"ssm_conv1d.bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, inner)
	d.matrix(blk+"ssm_x", inner, c.Rank+2*c.State)
	d.matrix(blk+"ssm_dt", c.Rank, inner)
	d.values(blk+"ssm_dt.bias", func(int) float32 { return -4 }, inner)
	d.values(blk+"ssm_a", func(i int) float32 { return -float32(1 + i%c.State) }, c.State, inner)
	d.values(blk+"ssm_d", func(int) float32 { return 1 }, inner)
	d.matrix(blk+"ssm_out", inner, embd)
}

// ropeFreqs returns what each rotation's frequency is divided by. Rotations
// that turn at least highTurns times in the positions of the first training
// stay, those that turn at most lowTurns times are slowed by the whole factor,
// and those between by a part of it.
func (s *Shape) ropeFreqs() []float32 {
	const first, lowTurns, highTurns = 8192, 1, 4
	f := make([]float32, s.HeadDim/2)
	for i := range f {
		freq := math.Pow(float64(s.RopeTheta), -2*float64(i)/float64(s.HeadDim))
		turns := first * freq / (2 * math.Pi)
		keep := min(max((turns-lowTurns)/(highTurns-lowTurns), 0), 1)
		f[i] = float32(1 / (keep + (1-keep)/s.RopeFactor))
	}
	return f
}

func sizes(dims []int) []uint64 {
	out := make([]uint64, len(dims))
	for i, d := range dims {
		out[i] = uint64(d)
	}
	return out
}
