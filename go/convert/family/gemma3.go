package family

import "github.com/quern-llm/quern/go/convert/lang"

var gemma3 = lang.Family{
	Arch:  "gemma3",
	Names: "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
	Rules: lang.PlusOne(gemmaRules),
	Settings: lang.Settings{
		{"attn_logit_softcapping", 'f', "attn_logit_softcapping"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"attention.sliding_window", 'n', "sliding_window"},
	},
	Keys:       gemma3Keys,
	Tied:       true,
	Vocab:      noSpace,
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"use_bidirectional_attention", "false"}},
}

// gemma3Keys sets the default values of settings that config.json leaves out.
func gemma3Keys(k *lang.Keys) {
	k.N("context_length", k.CountOr("max_position_embeddings", 131072))
	k.N("attention.head_count", k.CountOr("num_attention_heads", 8))
	k.N("attention.head_count_kv", k.CountOr("num_key_value_heads", 4))
	k.N("attention.key_length", k.CountOr("head_dim", 256))
	k.N("attention.value_length", k.CountOr("head_dim", 256))
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-6))
	if k.Theta() == 0 {
		k.F("rope.freq_base", 1e6)
	}
	windows(k, allBut(6))
	scoreScale(k)
}
