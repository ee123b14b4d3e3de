package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var jinaBERTv2 = lang.Family{
	Arch:  "jina-bert-v2",
	Names: "JinaBertModel JinaBertForMaskedLM",
	Rules: lang.Rules{
		{"mlp.gated_layers", "ffn_gate ffn_up", lang.Halves},
		{"mlp.up_gated_layer", "ffn_up ffn_gate", lang.Halves},
		{"mlp.wo", "ffn_down", nil},
		{"mlp.down_layer", "ffn_down", nil},
		{"mlp.layernorm", "layer_output_norm", nil},
		{"layer_norm_1", "attn_norm_2", nil},
		{"layer_norm_2", "layer_output_norm", nil},
		{"attention.self.layer_norm_q", "attn_q_norm", nil},
		{"attention.self.layer_norm_k", "attn_k_norm", nil},
	}.And(bertRules),
	Keys:       encoderKeys,
	Skip:       maskedHeads,
	Vocab:      jinaVocab,
	Activation: "gelu",
}

// jinaVocab adds the tokens at the ends of texts that these models were trained with.
func jinaVocab(c *hf.Config, v *vocab.Vocabulary) {
	typesOfTexts(c, v)
	v.SetAdd("bos", true)
	v.SetAdd("eos", true)
}
