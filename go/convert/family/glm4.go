package family

import "github.com/quern-llm/quern/go/convert/lang"

var glm4 = lang.Family{
	Arch:  "glm4",
	Names: "Glm4ForCausalLM",
	Rules: lang.Rules{
		{"post_self_attn_layernorm", "post_attention_norm", nil},
		{"post_mlp_layernorm", "post_ffw_norm", nil},
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	Keys:  func(k *lang.Keys) { rotating(k, 0.5) },
	Vocab: glmVocab,
}
