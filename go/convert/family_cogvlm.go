package convert

import "slices"

var cogvlm = family{
	arch:  "cogvlm",
	names: "CogVLMForCausalLM",
	rules: with(slices.Concat(ends, attention, dense),
		rule{"self_attn.language_expert_query_key_value", "attn_qkv", nil},
		rule{"self_attn.language_expert_dense", "attn_output", nil},
		rule{"mlp.language_mlp.gate_proj", "ffn_gate", nil},
		rule{"mlp.language_mlp.up_proj", "ffn_up", nil},
		rule{"mlp.language_mlp.down_proj", "ffn_down", nil}),
	keys: func(k *keys) {
		vocabSize(k)
		rotating(k, 1)
	},
	skip: []string{"model.vision."},
}
