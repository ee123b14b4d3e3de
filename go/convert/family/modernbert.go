package family

import (
	"cmp"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var modernBERT = lang.Family{
	Arch:  "modern-bert",
	Names: "ModernBertModel ModernBertForMaskedLM ModernBertForSequenceClassification ModernBertForTokenClassification",
	Rules: lang.Rules{
		{"embeddings.tok_embeddings", "token_embd", nil},
		{"embeddings.norm", "token_embd_norm", nil},
		{"final_norm", "output_norm", nil},
		{"attn_norm", "attn_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.Wo", "attn_output", nil},
		{"mlp_norm", "ffn_norm", nil},
		{"mlp.Wi", "ffn_up", nil},
		{"mlp.Wo", "ffn_down", nil},
		{"head.dense", "cls", nil},
		{"head.norm", "cls.norm", nil},
		{"classifier", "cls.output", nil},
	},
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "local_attention sliding_window"},
		{"attention.sliding_window_pattern", 'n', "global_attn_every_n_layers"},
	},
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		pooling := k.Text("classifier_pooling")
		classifierKeys(k, cmp.Or(pooling, "cls"), cmp.Or(k.Text("classifier_activation"), "gelu"))
		vocabSize(k)
		k.Set("rope.scaling.type", "none")
		if k.Has("layer_types") {
			k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		}
		k.F("attention.layer_norm_epsilon", k.NumberOr("norm_eps", 1e-5))
		k.Drop("attention.layer_norm_rms_epsilon")
	},
	Skip:       []string{"decoder."},
	Change:     withoutWords,
	Activation: "gelu",
}

// withoutWords leaves out what guesses masked words, which is called as the hidden layer of classifiers is.
func withoutWords(c *hf.Config, f *lang.Family) *lang.Family {
	if heads(c, ofTexts) || heads(c, ofTokens) {
		return f
	}
	kind := *f
	kind.Skip = slices.Concat([]string{"head.", "classifier."}, f.Skip)
	return &kind
}
