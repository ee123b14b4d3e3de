package family

import "github.com/quern-llm/quern/go/convert/lang"

var cogvlm = lang.Family{
	Arch:  "cogvlm",
	Names: "CogVLMForCausalLM",
	Rules: lang.Rules{
		{"self_attn.language_expert_query_key_value", "attn_qkv", nil},
		{"self_attn.language_expert_dense", "attn_output", nil},
		{"mlp.language_mlp.gate_proj", "ffn_gate", nil},
		{"mlp.language_mlp.up_proj", "ffn_up", nil},
		{"mlp.language_mlp.down_proj", "ffn_down", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		rotating(k, 1)
	},
	Skip: []string{"model.vision."},
}
