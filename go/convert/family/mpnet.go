package family

import "github.com/quern-llm/quern/go/convert/lang"

var mpnet = lang.Family{
	Arch:  "mpnet",
	Names: "MPNetModel MPNetForMaskedLM MPNetForSequenceClassification MPNetForTokenClassification",
	Rules: lang.Rules{
		{"embeddings.position_embeddings", "position_embd", fromPad},
		{"encoder.relative_attention_bias", "blk.0.attn_rel_b", nil},
		{"attention.attn.q", "attn_q", nil},
		{"attention.attn.k", "attn_k", nil},
		{"attention.attn.v", "attn_v", nil},
		{"attention.attn.o", "attn_output", nil},
		{"attention.LayerNorm", "attn_output_norm", nil},
	}.And(bertRules),
	Settings: lang.Settings{{"attention.relative_buckets_count", 'n', "relative_attention_num_buckets"}},
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "tanh")
		positionsFromPad(k)
	},
	Prefix:     "mpnet.",
	Skip:       append([]string{"mpnet.pooler."}, maskedHeads...),
	Activation: "gelu",
	Fixed:      lang.Fixed{{"relative_attention_num_buckets", "32"}}, // whatever it says, so many are used
}
