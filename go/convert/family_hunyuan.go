package convert

import (
	"math"
)

var hunyuan = family{
	arch:  "hunyuan-dense",
	names: "HunYuanDenseV1ForCausalLM",
	rules: rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		stretched(k)
		k.drop("expert_count", "expert_used_count")
	},
}

var hunyuanVL = family{
	arch:  "hunyuan_vl",
	names: "HunYuanVLForConditionalGeneration",
	rules: rules{
		{"self_attn.query_layernorm", "attn_q_norm", nil},
		{"self_attn.key_layernorm", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		if r := k.ropeOf("full_attention"); r.has("mrope_section xdrope_section") {
			k.f("rope.scaling.alpha", r.number("alpha"))
			k.take(r)
		} else {
			stretched(k)
		}
		k.drop("expert_count", "expert_used_count")
	},
	skip: []string{"vit."},
}

// stretched sets the base of rotations over a context that is longer than it was, as Hunyuan computes it.
func stretched(k *keys) {
	r := k.ropeOf("full_attention")
	defer k.take(r)
	if r.text("rope_type type") != "dynamic" {
		return
	}
	base, dim := k.theta(), float64(k.headDim())
	if base == 0 {
		base = 10000
	}
	k.f("rope.freq_base", base*math.Pow(r.numberOr("alpha", 50), dim/max(dim-2, 1)))
	k.set("rope.scaling.type", "none")
	k.f("rope.scaling.factor", 1)
	k.n("rope.scaling.original_context_length", 1<<18)
	k.n("context_length", 1<<18)
}
