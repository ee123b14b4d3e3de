package family

import "github.com/quern-llm/quern/go/convert/lang"

var glm4moe = lang.Family{
	Arch:  "glm4moe",
	Names: "Glm4MoeForCausalLM Glm4vMoeForConditionalGeneration",
	Rules: lang.Rules{{"post_attention_layernorm", "post_attention_norm", nil}}.And(predicting, ends, attention,
		dense, mixture),
	Settings: routedSettings,
	Keys: func(k *lang.Keys) {
		rotating(k, 0.5)
		k.Gating("sigmoid")
		if n := k.CountOr("num_nextn_predict_layers", 0); n > 0 {
			k.N("nextn_predict_layers", n)
			k.N("block_count", k.Layers()+n)
		}
	},
	Vocab: glmVocab,
}

var dots1 = lang.Family{
	Arch:     "dots1",
	Names:    "Dots1ForCausalLM",
	Rules:    ends.And(attention, dense, mixture),
	Settings: routedSettings,
	Keys:     func(k *lang.Keys) { k.Gating("") },
	Fixed:    lang.Fixed{{"layer_types", "full_attention"}},
}

var bailingmoe2 = lang.Family{
	Arch:  "bailingmoe2",
	Names: "BailingMoeV2ForCausalLM",
	Rules: lang.Rules{
		{"word_embeddings", "token_embd", nil},
		{"attention.query_key_value", "attn_qkv", nil},
		{"attention.dense", "attn_output", nil},
		{"attention.query_layernorm", "attn_q_norm", nil},
		{"attention.key_layernorm", "attn_k_norm", nil},
		{"mlp.gate.expert_bias", "exp_probs_b.bias", nil},
		{"final_layernorm", "layer_output_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	Settings: routedSettings,
	Keys: func(k *lang.Keys) {
		rotating(k, 0.5)
		vocabSize(k)
		k.N("expert_shared_feed_forward_length", k.CountOr("moe_shared_expert_intermediate_size",
			k.Count("moe_intermediate_size")*k.CountOr("num_shared_experts", 1)))
		k.Gating("")
		if n := k.CountOr("num_nextn_predict_layers", 0); n > 0 {
			k.N("nextn_predict_layers", n)
			k.N("block_count", k.Layers()+n)
		}
	},
}
