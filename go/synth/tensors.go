package synth

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/gguf"
)

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
	ones := func(name string, n int) {
		v := make([]float32, n)
		for i := range v {
			v[i] = 1
		}
		list = append(list, tensor{name: name + ".weight", typ: gguf.F32, dims: sizes([]int{n}), values: v})
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
	for i := range s.NLayer {
		blk := fmt.Sprintf("blk.%d.", i)
		ones(blk+"attn_norm", s.NEmbd)
		matrix(blk+"attn_q", attnQ, i, s.NEmbd, s.NHead*s.HeadDim)
		matrix(blk+"attn_k", attnK, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		matrix(blk+"attn_v", attnV, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		if s.QKNorm {
			ones(blk+"attn_q_norm", s.HeadDim)
			ones(blk+"attn_k_norm", s.HeadDim)
		}
		matrix(blk+"attn_output", attnOut, i, s.NHead*s.HeadDim, s.NEmbd)
		ones(blk+"ffn_norm", s.NEmbd)
		if s.NExpert == 0 {
			matrix(blk+"ffn_gate", ffnUp, i, s.NEmbd, s.NFF)
			matrix(blk+"ffn_up", ffnUp, i, s.NEmbd, s.NFF)
			matrix(blk+"ffn_down", ffnDown, i, s.NFF, s.NEmbd)
			continue
		}
		list = append(list, tensor{name: blk + "ffn_gate_inp.weight", typ: gguf.F32, dims: sizes([]int{s.NEmbd, s.NExpert})})
		matrix(blk+"ffn_gate_exps", ffnUp, i, s.NEmbd, s.NFF, s.NExpert)
		matrix(blk+"ffn_up_exps", ffnUp, i, s.NEmbd, s.NFF, s.NExpert)
		matrix(blk+"ffn_down_exps", ffnDown, i, s.NFF, s.NEmbd, s.NExpert)
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
