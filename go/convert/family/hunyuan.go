package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/lang"
)

var hunyuan = lang.Family{
	Arch:  "hunyuan-dense",
	Names: "HunYuanDenseV1ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		stretched(k)
		k.Drop("expert_count", "expert_used_count")
	},
}

var hunyuanVL = lang.Family{
	Arch:  "hunyuan_vl",
	Names: "HunYuanVLForConditionalGeneration",
	Rules: lang.Rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		if r := k.RopeOf("full_attention"); r.Has("mrope_section xdrope_section") {
			if r.Has("alpha") {
				k.F("rope.scaling.alpha", r.Number("alpha"))
			}
			k.Take(r)
		} else {
			stretched(k)
		}
		k.Drop("expert_count", "expert_used_count")
	},
	Skip: []string{"vit."},
}

// stretched sets the base of rotations and the length of contexts as Hunyuan's code computes them for longer contexts.
func stretched(k *lang.Keys) {
	r := k.RopeOf("full_attention")
	defer k.Take(r)
	if r.Text("rope_type type") != "dynamic" {
		return
	}
	base, dim := k.Theta(), float64(k.HeadDim())
	if base == 0 {
		base = 10000
	}
	k.F("rope.freq_base", base*math.Pow(r.NumberOr("alpha", 50), dim/max(dim-2, 1)))
	k.Set("rope.scaling.type", "none")
	k.F("rope.scaling.factor", 1)
	k.N("rope.scaling.original_context_length", 1<<18)
	k.N("context_length", 1<<18)
}
