package convert

import (
	"slices"
	"strings"
)

var bert = family{
	arch:   "bert",
	names:  "BertModel BertForMaskedLM",
	rules:  bertRules,
	keys:   encoderKeys,
	prefix: "bert.",
	skip:   maskedHeads,
	vocab:  typesOfTexts,
}

var xlmRoberta = family{
	arch:  "bert",
	names: "XLMRobertaModel XLMRobertaForSequenceClassification RobertaModel RobertaForSequenceClassification",
	rules: rules{{"embeddings.position_embeddings", "position_embd", fromPad}}.And(bertRules),
	keys: func(k *keys) {
		encoderKeys(k)
		if n := k.countOr("pad_token_id", 0) + 1; k.has("pad_token_id") {
			k.n("context_length", max(k.count("max_position_embeddings")-n, 0))
		}
	},
	change: withTasks,
	rename: func(_ *config, name string) string {
		return strings.TrimSuffix(strings.Replace(name, ".parametrizations.", ".", 1), ".original")
	},
	prefix: "roberta.",
	skip:   slices.Concat(maskedHeads, []string{".lora_A", ".lora_B"}), // which are files of their own
	vocab:  typesOfTexts,
}

// fromPad leaves out the rows of positions that no token has: those up to the number of the token for padding.
var fromPad = one(func(c *config, v view) (view, error) {
	before := uint64(0)
	if c.has("pad_token_id") {
		before = uint64(c.count("pad_token_id")) + 1
	}
	rows, each := v.rows()
	before = min(before, rows)
	return v.strided(before*each, dim{rows - before, each}, dim{each, 1}), nil
})

// withTasks is XLM-R with rotations in place of positions, and adapters for tasks, if the checkpoint has them.
func withTasks(c *config, f *family) *family {
	if !c.has("lora_adaptations") {
		return f
	}
	kind := *f
	kind.arch = "jina-bert-v3"
	kind.rules = rules{
		{"emb_ln", "token_embd_norm", nil},
		{"mixer.Wqkv", "attn_qkv", nil},
		{"mixer.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(f.rules)
	return &kind
}
