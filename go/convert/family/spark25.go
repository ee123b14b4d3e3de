package family

import "github.com/quern-llm/quern/go/convert/lang"

var spark25 = lang.Family{
	Arch:  "spark2_5",
	Names: "Spark2_5ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_k_v_proj", "attn_qkv", nil},
		{"self_attn.g_proj", "attn_gate", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		k.Want("gate_attn_act_mode", "sigmoid")
		k.Want("headwise_attn_output_gate", "true")
		vocabSize(k)
		windowsApart(k)
	},
	Activation: "gelu",
}
