package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var eurobert = lang.Family{
	Arch:  "eurobert",
	Names: "EuroBertModel EuroBertForMaskedLM JinaEmbeddingsV5Model",
	Rules: ends.And(attention, dense),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		k.Set("rope.scaling.type", "none")
	},
	Skip:  []string{"lm_head.", "head."},
	Vocab: noBOS,
}

var neoBERT = lang.Family{
	Arch:  "neo-bert",
	Names: "NeoBERT NeoBERTLMHead NeoBERTForSequenceClassification",
	Rules: lang.Rules{
		{"encoder", "token_embd", nil},
		{"layer_norm", "enc.output_norm", nil},
		{"attention_norm", "attn_norm", nil},
		{"qkv", "attn_qkv", threes},
		{"wo", "attn_output", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"ffn.w12", "ffn_up", nil},
		{"ffn.w3", "ffn_down", nil},
	},
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		k.F("attention.layer_norm_rms_epsilon", k.NumberOr("norm_eps", 1e-6))
		k.F("rope.freq_base", 10000)
		k.Set("rope.scaling.type", "none")
		k.N("feed_forward_length", (2*k.Count("intermediate_size")/3+7)/8*8)
		k.N("pooling_type", 2) // the vector of the first token
	},
	Rename: func(_ *hf.Config, name string) string {
		return strings.Replace(strings.TrimPrefix(name, "model."), "transformer_encoder.", "layers.", 1)
	},
	Skip: []string{"decoder.", "dense.", "classifier."},
}
