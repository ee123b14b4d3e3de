package convert

import (
	"strings"
)

var eurobert = family{
	arch:  "eurobert",
	names: "EuroBertModel EuroBertForMaskedLM JinaEmbeddingsV5Model",
	rules: ends.And(attention, dense),
	keys: func(k *keys) {
		encoderKeys(k)
		k.set("rope.scaling.type", "none")
	},
	skip:  []string{"lm_head.", "head."},
	vocab: noBOS,
}

var neoBERT = family{
	arch:  "neo-bert",
	names: "NeoBERT NeoBERTLMHead NeoBERTForSequenceClassification",
	rules: rules{
		{"encoder", "token_embd", nil},
		{"layer_norm", "enc.output_norm", nil},
		{"attention_norm", "attn_norm", nil},
		{"qkv", "attn_qkv", threes},
		{"wo", "attn_output", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"ffn.w12", "ffn_up", nil},
		{"ffn.w3", "ffn_down", nil},
	},
	keys: func(k *keys) {
		encoderKeys(k)
		k.f("attention.layer_norm_rms_epsilon", k.numberOr("norm_eps", 1e-6))
		k.f("rope.freq_base", 10000)
		k.set("rope.scaling.type", "none")
		k.n("feed_forward_length", (2*k.count("intermediate_size")/3+7)/8*8)
		k.n("pooling_type", 2) // the first token's
	},
	rename: func(_ *config, name string) string {
		return strings.Replace(strings.TrimPrefix(name, "model."), "transformer_encoder.", "layers.", 1)
	},
	skip: []string{"decoder.", "dense.", "classifier."},
}
