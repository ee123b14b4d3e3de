package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var bert = lang.Family{
	Arch:       "bert",
	Names:      "BertModel BertForMaskedLM BertForSequenceClassification BertForTokenClassification",
	Rules:      bertRules,
	Keys:       func(k *lang.Keys) { encoderKeys(k); classifierKeys(k, "cls", "tanh") },
	Change:     pooled,
	Prefix:     "bert.",
	Skip:       maskedHeads,
	Vocab:      typesOfTexts,
	Activation: "gelu",
	Fixed:      causalNot,
}

var xlmRoberta = lang.Family{
	Arch: "bert",
	Names: "XLMRobertaModel XLMRobertaForSequenceClassification XLMRobertaForTokenClassification XLMRobertaForMaskedLM " +
		"RobertaModel RobertaForSequenceClassification RobertaForTokenClassification RobertaForMaskedLM " +
		"CamembertModel CamembertForSequenceClassification CamembertForTokenClassification CamembertForMaskedLM",
	Rules: lang.Rules{{"embeddings.position_embeddings", "position_embd", fromPad}}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "tanh")
		if n := k.CountOr("pad_token_id", 0) + 1; k.Has("pad_token_id") {
			k.N("context_length", max(k.Count("max_position_embeddings")-n, 0))
		}
	},
	Change: withTasks,
	Rename: func(_ *hf.Config, name string) string {
		return strings.TrimSuffix(strings.Replace(name, ".parametrizations.", ".", 1), ".original")
	},
	Prefix:     "roberta.",
	Skip:       slices.Concat(maskedHeads, []string{".lora_A", ".lora_B"}), // adapters for tasks are converted on their own
	Vocab:      typesOfTexts,
	Activation: "gelu",
	Fixed:      causalNot,
}

// fromPad leaves out the first rows of a table of positions: positions are counted from behind the number of the
// padding token.
var fromPad = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	before := uint64(0)
	if c.Has("pad_token_id") {
		before = uint64(c.Count("pad_token_id")) + 1
	}
	rows, each := v.Rows()
	before = min(before, rows)
	return v.Strided(before*each, lang.Dim{rows - before, each}, lang.Dim{each, 1}), nil
})

// withTasks is XLM-R with rotations instead of a table of positions, and with adapters for tasks, if the checkpoint has
// them.
func withTasks(c *hf.Config, f *lang.Family) *lang.Family {
	if !c.Has("lora_adaptations") {
		return f
	}
	kind := *f
	kind.Arch = "jina-bert-v3"
	kind.Rules = lang.Rules{
		{"emb_ln", "token_embd_norm", nil},
		{"mixer.Wqkv", "attn_qkv", nil},
		{"mixer.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(f.Rules)
	return &kind
}
