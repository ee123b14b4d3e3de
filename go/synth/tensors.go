package synth

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/gguf"
)

// attentionEvery is the layer that has attention where others have delta nets.
const attentionEvery = 4

// A tensor is one entry of the file's directory.
type tensor struct {
	name   string
	typ    gguf.Type
	dims   []uint64
	values []float32 // of a vector with fixed values
}

// tensors lists the tensors in file order.
func (m Model) tensors() []tensor {
	s := m.Shape
	var list []tensor
	matrix := func(name string, r role, layer int, dims ...int) {
		list = append(list, tensor{name: name + ".weight", typ: m.Mix.typeOf(s, r, layer), dims: sizes(dims)})
	}
	vector := func(name string, value func(i int) float32, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = value(i)
		}
		list = append(list, tensor{name: name, typ: gguf.F32, dims: sizes(dims), values: v})
	}
	ones := func(name string, n int) {
		vector(name+".weight", func(int) float32 { return 1 }, n)
	}
	embedRole := embed
	if s.Tied {
		embedRole = output
	}
	matrix("token_embd", embedRole, 0, s.NEmbd, s.NVocab)
	if s.RopeFactor > 0 {
		f := s.ropeFreqs()
		list = append(list, tensor{name: "rope_freqs.weight", typ: gguf.F32, dims: sizes([]int{len(f)}), values: f})
	}
	attention := func(blk string, i int) {
		width := s.NHead * s.HeadDim
		if s.Delta != nil {
			width *= 2 // of each head the query and the gate
		}
		matrix(blk+"attn_q", attnQ, i, s.NEmbd, width)
		matrix(blk+"attn_k", attnK, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		matrix(blk+"attn_v", attnV, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		if s.QKNorm {
			ones(blk+"attn_q_norm", s.HeadDim)
			ones(blk+"attn_k_norm", s.HeadDim)
		}
		matrix(blk+"attn_output", attnOut, i, s.NHead*s.HeadDim, s.NEmbd)
	}
	deltaNet := func(blk string, i int, d *Delta) {
		values := d.NHead * d.Dim
		cols := 2*d.NHeadKey*d.Dim + values
		matrix(blk+"attn_qkv", attnQKV, i, s.NEmbd, cols)
		matrix(blk+"attn_gate", attnQ, i, s.NEmbd, values)
		vector(blk+"ssm_conv1d.weight", func(i int) float32 { return float32(1+i%d.NTap) / 10 }, d.NTap, cols)
		vector(blk+"ssm_dt.bias", func(int) float32 { return -4 }, d.NHead)
		vector(blk+"ssm_a", func(i int) float32 { return -float32(1 + i%16) }, d.NHead)
		if d.Grouped {
			matrix(blk+"ssm_ba", attnK, i, s.NEmbd, 2*d.NHead)
		} else {
			matrix(blk+"ssm_beta", attnK, i, s.NEmbd, d.NHead)
			matrix(blk+"ssm_alpha", attnK, i, s.NEmbd, d.NHead)
		}
		ones(blk+"ssm_norm", d.Dim)
		matrix(blk+"ssm_out", attnOut, i, values, s.NEmbd)
	}
	feedForward := func(blk, suffix string, i, width int, experts ...int) {
		matrix(blk+"ffn_gate"+suffix, ffnUp, i, append([]int{s.NEmbd, width}, experts...)...)
		matrix(blk+"ffn_up"+suffix, ffnUp, i, append([]int{s.NEmbd, width}, experts...)...)
		matrix(blk+"ffn_down"+suffix, ffnDown, i, append([]int{width, s.NEmbd}, experts...)...)
	}
	for i := range s.NLayer {
		blk := fmt.Sprintf("blk.%d.", i)
		ones(blk+"attn_norm", s.NEmbd)
		if s.Delta != nil && (i+1)%attentionEvery != 0 {
			deltaNet(blk, i, s.Delta)
		} else {
			attention(blk, i)
		}
		if s.Delta != nil {
			ones(blk+"post_attention_norm", s.NEmbd)
		} else {
			ones(blk+"ffn_norm", s.NEmbd)
		}
		if s.NExpert == 0 {
			feedForward(blk, "", i, s.NFF)
			continue
		}
		list = append(list, tensor{name: blk + "ffn_gate_inp.weight", typ: gguf.F32, dims: sizes([]int{s.NEmbd, s.NExpert})})
		feedForward(blk, "_exps", i, s.NFF, s.NExpert)
		if s.NFFShared > 0 {
			list = append(list, tensor{name: blk + "ffn_gate_inp_shexp.weight", typ: gguf.F32, dims: sizes([]int{s.NEmbd})})
			feedForward(blk, "_shexp", i, s.NFFShared)
		}
	}
	ones("output_norm", s.NEmbd)
	if !s.Tied {
		matrix("output", output, 0, s.NEmbd, s.NVocab)
	}
	return list
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
