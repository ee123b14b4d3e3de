package family

import (
	"math"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var bitnet = lang.Family{
	Arch:  "bitnet",
	Names: "BitnetForCausalLM BitNetForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_proj.weight", "attn_q.weight attn_q.scale", ternary},
		{"self_attn.k_proj.weight", "attn_k.weight attn_k.scale", ternary},
		{"self_attn.v_proj.weight", "attn_v.weight attn_v.scale", ternary},
		{"self_attn.o_proj.weight", "attn_output.weight attn_output.scale", ternary},
		{"mlp.gate_proj.weight", "ffn_gate.weight ffn_gate.scale", ternary},
		{"mlp.up_proj.weight", "ffn_up.weight ffn_up.scale", ternary},
		{"mlp.down_proj.weight", "ffn_down.weight ffn_down.scale", ternary},
	}.And(bitnetNorms, ends, attention, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		if !k.Has("rope_parameters rope_scaling") {
			k.Set("rope.scaling.type", "linear")
			k.F("rope.scaling.factor", 1)
		}
	},
	Activation: "by size",
	Change: func(c *hf.Config, f *lang.Family) *lang.Family {
		q := c.Within("quantization_config")
		is, online := c.Has("quantization_config"), q.Text("quantization_mode") == "online"
		c.Take(q)
		if is && online || !is && !slices.Contains(c.Texts("architectures"), "BitNetForCausalLM") {
			return f
		}
		whole := *f // transformers quantizes only what says so, and elsewhere the checkpoint has -1, 0 and 1 with their scales
		whole.Rules = bitnetNorms.And(ends, attention, dense)
		return &whole
	},
}

// bitnetNorms is the norms before the products that end a sublayer.
var bitnetNorms = lang.Rules{
	{"self_attn.inner_attn_ln", "attn_sub_norm", nil},
	{"self_attn.attn_sub_norm", "attn_sub_norm", nil},
	{"mlp.ffn_layernorm", "ffn_sub_norm", nil},
	{"mlp.ffn_sub_norm", "ffn_sub_norm", nil},
}

// ternary makes a matrix of -1, 0 and 1, and the mean of its absolute values, which multiplies its products. A number
// becomes 0 if it is at most half of that mean.
var ternary lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	mean := sync.OnceValues(func() (float32, error) {
		sum, n := 0.0, v.Elems()
		buf := make([]float32, min(n, uint64(1<<20)))
		for at := uint64(0); at < n; at += uint64(len(buf)) {
			buf = buf[:min(uint64(len(buf)), n-at)]
			if err := v.Read(buf, at); err != nil {
				return 0, err
			}
			for _, x := range buf {
				sum += math.Abs(float64(x))
			}
		}
		return float32(max(sum/float64(max(n, 1)), 1e-5)), nil
	})
	signs := v
	signs.Held = nil
	signs.Read = func(dst []float32, at uint64) error {
		m, err := mean()
		if err == nil {
			err = v.Read(dst, at)
		}
		for i, x := range dst {
			switch r := x / m; { // half of the mean is rounded to even, which is 0
			case r > 0.5:
				dst[i] = 1
			case r < -0.5:
				dst[i] = -1
			default:
				dst[i] = 0
			}
		}
		return err
	}
	scale := lang.View{Shape: []uint64{1}, Read: func(dst []float32, _ uint64) (err error) {
		dst[0], err = mean()
		return err
	}}
	return []lang.View{signs, scale}, nil
}
