package family

import "github.com/quern-llm/quern/go/convert/lang"

var plm = lang.Family{
	Arch:  "plm",
	Names: "PLMForCausalLM",
	Rules: lang.Rules{{"self_attn.kv_b_proj", "attn_kv_b", nil}}.And(latent, ends, attention, dense),
	Settings: lang.Settings{{"attention.kv_lora_rank", 'n', "kv_lora_rank"},
		{"rope.dimension_count", 'n', "qk_rope_head_dim"}},
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		k.N("attention.key_length", k.Count("qk_nope_head_dim")+k.Count("qk_rope_head_dim"))
		k.N("attention.value_length", k.Count("v_head_dim"))
	},
	Activation: "relu2",
}
