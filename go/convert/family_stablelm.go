package convert

import (
	"strings"
)

var stablelm = family{
	arch:  "stablelm",
	names: "StableLmForCausalLM StableLMEpochForCausalLM",
	rules: rules{
		{"self_attn.q_layernorm.norms.*", "attn_q_norm", nil},
		{"self_attn.k_layernorm.norms.*", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		rotating(k, 0.25)
		k.b("use_parallel_residual", !k.has("use_parallel_residual") || k.flag("use_parallel_residual"))
		k.f("attention.layer_norm_epsilon", k.numberOr("layer_norm_eps norm_eps", 1e-5))
		k.drop("attention.layer_norm_rms_epsilon")
	},
	count: func(c *config, name string) int {
		switch {
		case strings.HasPrefix(name, "self_attn.q_layernorm."):
			return c.heads()
		case strings.HasPrefix(name, "self_attn.k_layernorm."):
			return c.headsKV()
		}
		return 0
	},
}
