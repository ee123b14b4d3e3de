package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var stablelm = lang.Family{
	Arch:  "stablelm",
	Names: "StableLmForCausalLM StableLMEpochForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_layernorm.norms.*", "attn_q_norm", nil},
		{"self_attn.k_layernorm.norms.*", "attn_k_norm", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		rotating(k, 0.25)
		k.B("use_parallel_residual", !k.Has("use_parallel_residual") || k.Flag("use_parallel_residual"))
		k.F("attention.layer_norm_epsilon", k.NumberOr("layer_norm_eps norm_eps", 1e-5))
		k.Drop("attention.layer_norm_rms_epsilon")
	},
	Count: func(c *hf.Config, name string) int {
		switch {
		case strings.HasPrefix(name, "self_attn.q_layernorm."):
			return c.Heads()
		case strings.HasPrefix(name, "self_attn.k_layernorm."):
			return c.HeadsKV()
		}
		return 0
	},
}
