package family

import "github.com/quern-llm/quern/go/convert/lang"

var refact = lang.Family{
	Arch:  "refact",
	Names: "GPTRefactForCausalLM",
	Rules: lang.Rules{
		{"attn.q", "attn_q", nil},
		{"attn.kv", "attn_k attn_v", lang.Halves},
		{"mlp.gate_up_proj", "ffn_gate ffn_up", lang.Halves},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		k.N("attention.head_count_kv", 1)
		k.F("attention.layer_norm_rms_epsilon", k.Number("layer_norm_epsilon"))
		k.Drop("attention.layer_norm_epsilon")
	},
	Finish: widths,
}
