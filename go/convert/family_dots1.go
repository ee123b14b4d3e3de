package convert

var glm4moe = family{
	arch:     "glm4moe",
	names:    "Glm4MoeForCausalLM",
	rules:    rules{{"post_attention_layernorm", "post_attention_norm", nil}}.And(predicting, ends, attention, dense, mixture),
	settings: routedSettings,
	keys: func(k *keys) {
		rotating(k, 0.5)
		k.gating("sigmoid")
		if n := k.countOr("num_nextn_predict_layers", 0); n > 0 {
			k.n("nextn_predict_layers", n)
			k.n("block_count", k.layers()+n)
		}
	},
	vocab: glmVocab,
}

var dots1 = family{
	arch:     "dots1",
	names:    "Dots1ForCausalLM",
	rules:    ends.And(attention, dense, mixture),
	settings: routedSettings,
	keys:     func(k *keys) { k.gating("") },
}

var bailingmoe2 = family{
	arch:  "bailingmoe2",
	names: "BailingMoeV2ForCausalLM",
	rules: rules{
		{"word_embeddings", "token_embd", nil},
		{"attention.query_key_value", "attn_qkv", nil},
		{"attention.dense", "attn_output", nil},
		{"attention.query_layernorm", "attn_q_norm", nil},
		{"attention.key_layernorm", "attn_k_norm", nil},
		{"mlp.gate.expert_bias", "exp_probs_b.bias", nil},
		{"final_layernorm", "layer_output_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	settings: routedSettings,
	keys: func(k *keys) {
		rotating(k, 0.5)
		vocabSize(k)
		k.n("expert_shared_feed_forward_length", k.countOr("moe_shared_expert_intermediate_size", k.count("moe_intermediate_size")*k.countOr("num_shared_experts", 1)))
		k.gating("")
		if n := k.countOr("num_nextn_predict_layers", 0); n > 0 {
			k.n("nextn_predict_layers", n)
			k.n("block_count", k.layers()+n)
		}
	},
}
