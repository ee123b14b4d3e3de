package synth

import (
	"cmp"
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
		list = append(list, tensor{name: name + ".weight", typ: fitting(m.Mix.typeOf(s, r, layer), dims[0]), dims: sizes(dims)})
	}
	ones := func(name string, n int) {
		v := make([]float32, n)
		for i := range v {
			v[i] = 1
		}
		list = append(list, tensor{name: name + ".weight", typ: gguf.F32, dims: sizes([]int{n}), values: v})
	}
	values := func(name string, of func(i int) float32, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = of(i)
		}
		list = append(list, tensor{name: name, typ: gguf.F32, dims: sizes(dims), values: v})
	}
	bias := func(name string, dims ...int) {
		if s.GPTOSS {
			values(name+".bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, dims...)
		}
	}
	ffnNorm := "ffn_norm"
	if s.GPTOSS || s.Delta != nil {
		ffnNorm = "post_attention_norm"
	}
	attention := func(blk string, i int) {
		query := s.NHead * s.HeadDim
		if s.Delta != nil {
			query *= 2 // of each head the query and a gate
		}
		matrix(blk+"attn_q", attnQ, i, s.NEmbd, query)
		matrix(blk+"attn_k", attnK, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		matrix(blk+"attn_v", attnV, i, s.NEmbd, s.NHeadKV*s.HeadDim)
		bias(blk+"attn_q", s.NHead*s.HeadDim)
		bias(blk+"attn_k", s.NHeadKV*s.HeadDim)
		bias(blk+"attn_v", s.NHeadKV*s.HeadDim)
		if s.QKNorm {
			ones(blk+"attn_q_norm", s.HeadDim)
			ones(blk+"attn_k_norm", s.HeadDim)
		}
		matrix(blk+"attn_output", attnOut, i, s.NHead*s.HeadDim, s.NEmbd)
		bias(blk+"attn_output", s.NEmbd)
		if s.GPTOSS {
			values(blk+"attn_sinks.weight", func(i int) float32 { return 0.5 * float32(i%5-2) }, s.NHead)
		}
	}
	latents := func(blk string, i int, l *Latent) {
		matrix(blk+"attn_q_a", attnQ, i, s.NEmbd, l.QueryRank)
		ones(blk+"attn_q_a_norm", l.QueryRank)
		matrix(blk+"attn_q_b", attnQ, i, l.QueryRank, s.NHead*(l.Plain+l.Rotated))
		matrix(blk+"attn_kv_a_mqa", attnK, i, s.NEmbd, l.Rank+l.Rotated)
		ones(blk+"attn_kv_a_norm", l.Rank)
		matrix(blk+"attn_k_b", attnK, i, l.Plain, l.Rank, s.NHead)
		matrix(blk+"attn_v_b", attnK, i, l.Rank, l.Value, s.NHead)
		matrix(blk+"attn_output", attnOut, i, s.NHead*l.Value, s.NEmbd)
	}
	deltaNet := func(blk string, i int, d *Delta) {
		inner := d.NHead * d.Dim
		cols := 2*d.NHeadKey*d.Dim + inner
		matrix(blk+"attn_qkv", attnQKV, i, s.NEmbd, cols)
		matrix(blk+"attn_gate", attnQ, i, s.NEmbd, inner)
		values(blk+"ssm_conv1d.weight", func(i int) float32 { return float32(1+i%d.NTap) / 10 }, d.NTap, cols)
		values(blk+"ssm_dt.bias", func(int) float32 { return -4 }, d.NHead)
		values(blk+"ssm_a", func(i int) float32 { return -float32(1 + i%16) }, d.NHead)
		if d.Grouped {
			matrix(blk+"ssm_ba", attnK, i, s.NEmbd, 2*d.NHead)
		} else {
			matrix(blk+"ssm_beta", attnK, i, s.NEmbd, d.NHead)
			matrix(blk+"ssm_alpha", attnK, i, s.NEmbd, d.NHead)
		}
		ones(blk+"ssm_norm", d.Dim)
		matrix(blk+"ssm_out", attnOut, i, inner, s.NEmbd)
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
		switch {
		case s.deltaNet(i):
			deltaNet(blk, i, s.Delta)
		case s.Latent != nil:
			latents(blk, i, s.Latent)
		default:
			attention(blk, i)
		}
		ones(blk+ffnNorm, s.NEmbd)
		if s.NExpert == 0 || i < s.NDense {
			width := cmp.Or(s.NFFDense, s.NFF)
			matrix(blk+"ffn_gate", ffnUp, i, s.NEmbd, width)
			matrix(blk+"ffn_up", ffnUp, i, s.NEmbd, width)
			matrix(blk+"ffn_down", ffnDown, i, width, s.NEmbd)
			continue
		}
		list = append(list, tensor{name: blk + "ffn_gate_inp.weight", typ: gguf.F32, dims: sizes([]int{s.NEmbd, s.NExpert})})
		bias(blk+"ffn_gate_inp", s.NExpert)
		if s.Latent != nil {
			values(blk+"exp_probs_b.bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, s.NExpert)
		}
		matrix(blk+"ffn_gate_exps", ffnUp, i, s.NEmbd, s.NFF, s.NExpert)
		matrix(blk+"ffn_up_exps", ffnUp, i, s.NEmbd, s.NFF, s.NExpert)
		matrix(blk+"ffn_down_exps", ffnDown, i, s.NFF, s.NEmbd, s.NExpert)
		bias(blk+"ffn_gate_exps", s.NFF, s.NExpert)
		bias(blk+"ffn_up_exps", s.NFF, s.NExpert)
		bias(blk+"ffn_down_exps", s.NEmbd, s.NExpert)
		if s.NFFShared > 0 {
			if s.Latent == nil {
				values(blk+"ffn_gate_inp_shexp.weight", func(i int) float32 { return 0.01 * float32(i%7-3) }, s.NEmbd)
			}
			matrix(blk+"ffn_gate_shexp", ffnUp, i, s.NEmbd, s.NFFShared)
			matrix(blk+"ffn_up_shexp", ffnUp, i, s.NEmbd, s.NFFShared)
			matrix(blk+"ffn_down_shexp", ffnDown, i, s.NFFShared, s.NEmbd)
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
