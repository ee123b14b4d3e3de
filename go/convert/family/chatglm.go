package family

import "github.com/quern-llm/quern/go/convert/lang"

var chatglm = lang.Family{
	Arch:  "chatglm",
	Names: "ChatGLMModel ChatGLMForConditionalGeneration",
	Rules: lang.Rules{
		{"embedding.word_embeddings", "token_embd", nil},
		{"encoder.final_layernorm", "output_norm", nil},
		{"output_layer", "output", nil},
		{"self_attention.query_key_value", "attn_qkv", nil},
		{"rotary_pos_emb.inv_freq", "", nil},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		k.N("context_length", k.CountOr("seq_length", k.Count("hidden_size")))
		k.N("feed_forward_length", k.CountOr("ffn_hidden_size", 4*k.Count("hidden_size")))
		k.N("attention.head_count_kv", k.CountOr("multi_query_group_num", k.Heads()))
		k.F("attention.layer_norm_rms_epsilon", k.Number("layernorm_epsilon"))
		k.N("rope.dimension_count", k.CountOr("kv_channels", k.HeadDim())/2)
		k.F("rope.freq_base", 10000*k.NumberOr("rope_ratio", 1))
		k.Drop("attention.layer_norm_epsilon")
	},
	Vocab: glmVocab,
}

// glm is GLM 4 of 9B under transformers' own names.
var glm = lang.Family{
	Arch:  "chatglm",
	Names: "GlmForCausalLM",
	Rules: lang.Rules{{"mlp.gate_up_proj", "ffn_up", nil}}.And(ends, attention, dense),
	Keys:  func(k *lang.Keys) { rotating(k, 0.5) },
	Vocab: glmVocab,
}
